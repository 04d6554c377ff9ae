//! Streams of the Responses API: the order of their events, and that they add up to the response.

use std::io::{BufRead, BufReader};
use std::sync::atomic::Ordering;

use super::*;

/// The events of a stream, once it is sure that they come as the specification has them; the last is the whole response.
pub(super) fn streamed(served: &Served, body: Value) -> Vec<Value> {
    let body = merged(body, json!({"stream": true})).to_string();
    let (status, _, text) = send(served, RESPONSES, &body, &[]);
    assert_eq!(status, 200, "{text}");
    let events: Vec<Value> = events(&text)
        .into_iter()
        .map(|(name, data)| {
            let data: Value = serde_json::from_str(&data).unwrap();
            assert_eq!(data["type"], name.as_str());
            data
        })
        .collect();
    check(&events);
    events
}

fn check(events: &[Value]) {
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], number, "{event}");
    }
    let kind = |event: &Value| event["type"].as_str().unwrap().to_owned();
    let ([created, progress, between @ ..], last) = (&events[..events.len() - 1], events.last().unwrap())
    else {
        panic!("{events:?}")
    };
    assert_eq!([kind(created), kind(progress)], ["response.created", "response.in_progress"]);
    assert_eq!(created["response"]["status"], "in_progress");
    assert_eq!(created["response"]["id"], last["response"]["id"]);
    assert_eq!(kind(last), format!("response.{}", last["response"]["status"].as_str().unwrap()));
    let mut done = Vec::new();
    let mut rest = between.iter().filter(|event| kind(event) != "response.in_progress").peekable();
    while let Some(added) = rest.next() {
        assert_eq!(
            (kind(added).as_str(), &added["output_index"]),
            ("response.output_item.added", &json!(done.len()))
        );
        let (id, of) = (&added["item"]["id"], added["item"]["type"].as_str().unwrap().to_owned());
        let (part, grows, key) = match of.as_str() {
            "message" => (true, "response.output_text", "text"),
            "reasoning" => (true, "response.reasoning_text", "text"),
            "function_call" => (false, "response.function_call_arguments", "arguments"),
            _ => panic!("{added}"),
        };
        if part {
            assert_eq!(kind(rest.next().unwrap()), "response.content_part.added");
        }
        let mut whole = String::new();
        while let Some(delta) = rest.next_if(|event| kind(event) == format!("{grows}.delta")) {
            assert_eq!((&delta["item_id"], &delta["output_index"]), (id, &json!(done.len())));
            whole.push_str(delta["delta"].as_str().unwrap());
        }
        // A call that was cut off has no end.
        let Some(end) = rest.next() else { break };
        assert_eq!((kind(end), end[key].as_str().unwrap()), (format!("{grows}.done"), whole.as_str()));
        if part {
            let ended = rest.next().unwrap();
            assert_eq!(
                (kind(ended).as_str(), &ended["part"]["text"]),
                ("response.content_part.done", &json!(whole))
            );
        }
        let ended = rest.next().unwrap();
        assert_eq!((kind(ended).as_str(), &ended["item"]["id"]), ("response.output_item.done", id));
        done.push(ended["item"].clone());
    }
    assert_eq!(last["response"]["output"], json!(done));
}

fn last(events: &[Value]) -> &Value {
    &events.last().unwrap()["response"]
}

#[test]
fn an_answer_comes_in_pieces() {
    let served = served();
    let events = streamed(&served, asked("Hello", json!({})));
    assert!(events.iter().filter(|event| event["type"] == "response.output_text.delta").count() > 1);
    assert_eq!(text(last(&events)), "Hello there. How are you?");
    assert!(last(&events)["usage"]["output_tokens"].as_u64().unwrap() > 0);
}

#[test]
fn how_likely_tokens_were_is_told_where_it_is_asked() {
    let served = served();
    let plain = ask(&served, &asked("Hello", json!({})));
    assert_eq!(plain["output"][0]["content"][0]["logprobs"], json!([]), "control");
    for more in [json!({"top_logprobs": 2}), json!({"include": ["message.output_text.logprobs"]})] {
        let told = |response: &Value| response["output"][0]["content"][0]["logprobs"].clone();
        let whole = told(&ask(&served, &asked("Hello", more.clone())));
        let tokens = whole.as_array().unwrap();
        let joined: String = tokens.iter().map(|token| token["token"].as_str().unwrap()).collect();
        assert_eq!(joined, "Hello there. How are you?");
        let others = more["top_logprobs"].as_u64().unwrap_or(0);
        assert!(tokens.iter().all(|token| token["top_logprobs"].as_array().unwrap().len() as u64 <= others));
        assert_eq!(told(last(&streamed(&served, asked("Hello", more)))), whole);
    }
}

#[test]
fn the_arguments_of_calls_come_in_pieces() {
    let served = served();
    let events =
        streamed(&served, asked("Both cities", json!({"tools": tools(), "parallel_tool_calls": true})));
    let city = |city: &str| ("get_weather".to_owned(), json!({"city": city}));
    assert_eq!(calls(last(&events)), [city("Oslo"), city("Rome")]);
    let pieces = |event: &&Value| event["type"] == "response.function_call_arguments.delta";
    assert!(events.iter().filter(pieces).count() > 4);
}

#[test]
fn thoughts_are_an_item_in_front_of_the_answer() {
    let template = r"{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<assistant><think>
{% endif %}";
    let model = Scripted::new(Arc::new(Vocabulary::bytes_only()))
        .context(4_096)
        .on("Hello", "They greet me.\n</think>\n\nHello there.");
    let dialogue = Dialogue::derived(Template::new(template, TemplateTokens::default()).unwrap());
    let thinking = engine::Options::guided().reasoning(engine::Reasoning::ON);
    let engine = LocalEngine::new("scripted", model, dialogue, thinking);
    let served = start(engine, None, serve::Options::default());
    let events = streamed(&served, asked("Hello", json!({})));
    let output = &last(&events)["output"];
    assert_eq!(
        (&output[0]["type"], &output[1]["type"]),
        (&json!("reasoning"), &json!("message")),
        "{output}"
    );
    let thought =
        |response: &Value| response["output"][0]["content"][0]["text"].as_str().unwrap().trim().to_owned();
    assert_eq!(thought(last(&events)), "They greet me.");
    assert_eq!(text(last(&events)), "Hello there.");
    let whole = ask(&served, &asked("Hello", json!({})));
    assert_eq!((thought(&whole).as_str(), text(&whole).as_str()), ("They greet me.", "Hello there."));
    // A token a byte: the thought with its closing mark.
    let thought = "They greet me.\n</think>".len();
    for usage in [&whole["usage"], &last(&events)["usage"]] {
        assert_eq!(usage["output_tokens_details"]["reasoning_tokens"], thought, "{usage}");
        assert!(usage["output_tokens"].as_u64().unwrap() as usize >= thought + "Hello there.".len());
    }
    let (_, chat) = post(&served, CHAT, &chat("Hello", json!({})));
    assert_eq!(chat["usage"]["completion_tokens_details"]["reasoning_tokens"], thought, "{chat}");
}

#[test]
fn a_call_that_was_cut_off_has_no_end() {
    let city = "Llanfairpwllgwyngyll ".repeat(8);
    let long = super::super::call("get_weather", &format!("{{\"city\": \"{city}\"}}"));
    let model = Scripted::new(Arc::new(Vocabulary::bytes_only())).context(16_384).on("Weather", long);
    let served = start(scripted(model, engine::Options::guided()), None, serve::Options::default());
    let body = |most: usize| asked("Weather", json!({"tools": tools(), "max_output_tokens": most}));
    let whole = streamed(&served, body(400));
    assert_eq!(calls(last(&whole)).len(), 1, "control");
    let cut = streamed(&served, body(110));
    let of_call = |event: &&Value| event["type"] == "response.function_call_arguments.delta";
    assert!(cut.iter().filter(of_call).count() > 1, "it began");
    assert_eq!((&last(&cut)["status"], &last(&cut)["output"]), (&json!("incomplete"), &json!([])));
    let cut = ask(&served, &body(110));
    assert_eq!((&cut["status"], calls(&cut).len()), (&json!("incomplete"), 0));
}

#[test]
fn what_goes_wrong_in_a_stream_is_its_last_event() {
    let options = serve::Options::default().turn_time(Duration::from_millis(100));
    let (served, _) = faults::endless(usize::MAX, options);
    let events = streamed_to_failure(&served, asked("x", json!({})));
    let response = last(&events);
    assert_eq!((&response["status"], &response["error"]["code"]), (&json!("failed"), &json!("server_error")));
    assert!(response["error"]["message"].as_str().unwrap().contains("longer than"), "{response}");
}

/// Events whose last item has no end.
fn streamed_to_failure(served: &Served, body: Value) -> Vec<Value> {
    let body = merged(body, json!({"stream": true})).to_string();
    let (status, _, text) = send(served, RESPONSES, &body, &[]);
    assert_eq!(status, 200, "{text}");
    events(&text).into_iter().map(|(_, data)| serde_json::from_str(&data).unwrap()).collect()
}

/// Some clients know of nothing before the response is created, and signs of life come while it waits.
#[test]
fn a_stream_that_waits_for_long_begins_with_its_response() {
    let options = serve::Options::default().quiet_time(Duration::from_millis(50)).waiting(1);
    let (served, counts) = faults::endless(usize::MAX, options);
    let first = faults::open(&served, &chat("x", json!({"stream": true})));
    faults::wait_for("the first turn", || counts.began.load(Ordering::SeqCst) == 1);
    let mut second =
        BufReader::new(faults::open_at(&served, RESPONSES, &asked("x", json!({"stream": true}))));
    let mut next = |what: &str| loop {
        let mut line = String::new();
        assert!(second.read_line(&mut line).unwrap() > 0, "it ended");
        if line.starts_with("event:") {
            assert_eq!(line.trim_end(), format!("event: {what}"));
            break;
        }
    };
    next("response.created");
    next("response.in_progress");
    assert_eq!(counts.began.load(Ordering::SeqCst), 1, "the turn has not begun");
    drop(first);
    next("response.output_item.added");
}

#[test]
fn what_cannot_be_done_at_all_has_an_error_s_status() {
    let served = served();
    let body = asked("x".repeat(20_000), json!({"stream": true}));
    let (status, error) = post(&served, RESPONSES, &body);
    assert_eq!((status, &error["error"]["code"]), (400, &json!("context_length_exceeded")));
}
