//! Servers that hold a text to a grammar, with models that think, say a sentence and call: each by its own first token.

use toolgate::engine::{Reasoning, Sampling};

use super::constrained::{CALL, contents, prompt};
use super::*;

/// A template that tells of thoughts.
fn template() -> String {
    format!("{{# <think></think> #}}{TEMPLATE}")
}

/// llama-server with a model that wants to write this behind a conversation, or behind what it has written of it; a token a byte. It
/// obeys stop texts, limits and grammars as llama-server does.
fn wanting(template: String, wants: impl Fn(&str) -> String + Send + Sync + 'static) -> ModelServer {
    ModelServer::start(move |asked| match asked.path.as_str() {
        "/v1/models" => models(),
        "/props" => Reply::Json(json!({"chat_template": template, "bos_token": "", "eos_token": "<|end|>"})),
        "/tokenize" => {
            let bytes: Vec<u64> = contents(asked).concat().bytes().map(u64::from).collect();
            Reply::Json(json!({"tokens": bytes}))
        }
        "/completion" => {
            let prompt = prompt(asked);
            let (conversation, written) = prompt.rsplit_once("<assistant>").unwrap_or((&prompt, ""));
            let wanted = wants(conversation);
            // Made to write something else, it goes on as it would have behind that.
            let rest = wanted.strip_prefix(written).map(str::to_owned).unwrap_or_else(|| {
                let (_, behind) = wanted.split_once("</think>").unwrap_or(("", "Nothing."));
                behind.trim_start().to_owned()
            });
            if asked.body["n_predict"] == 1 && asked.body.get("n_probs").is_some() {
                return next(&rest);
            }
            Reply::Events(completion(asked, &rest).to_vec())
        }
        _ => Reply::Refusal(404, Value::Null),
    })
}

/// The likeliest tokens in front of a text.
fn next(rest: &str) -> Reply {
    let told = |c: char, p: f64| json!({"id": c as u32, "token": c, "logprob": p.ln()});
    match rest.chars().next() {
        None => Reply::Json(json!({"content": "", "stop": true})),
        Some(first) => Reply::Json(json!({"content": "x", "stop": true, "completion_probabilities":
            [{"id": 60, "token": "<", "logprob": 0.0, "top_logprobs": [told(first, 0.96), told('~', 0.03)]}]})),
    }
}

/// The events of a text, up to a stop, the limit, or what its grammar takes.
fn completion(asked: &Asked, rest: &str) -> [Value; 2] {
    let stops = asked.body["stop"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let stop = stops.filter_map(|stop| Some((rest.find(stop)?, stop))).min();
    let limit = asked.body["n_predict"].as_u64().unwrap() as usize;
    let end = stop.map_or(rest.len(), |(at, _)| at);
    let (text, kind) = match (end > limit, stop) {
        (true, _) => (&rest[..limit], "limit"),
        (false, Some(_)) => (&rest[..end], "word"),
        (false, None) => (rest, "eos"),
    };
    if let Some(grammar) = asked.body["grammar"].as_str().filter(|_| kind != "limit") {
        let grammar = toolgate_grammar::Grammar::parse(grammar).unwrap();
        let whole = format!("{text}{}", stop.map_or("", |(_, stop)| stop));
        let matched = grammar.match_text(&whole, &Default::default()).unwrap().matched;
        assert!(matched, "the grammar does not take {whole:?}");
    }
    let last = json!({"content": "", "stop": true, "stop_type": kind, "stopping_word": stop.map_or("", |(_, stop)| stop),
        "timings": {"prompt_n": 1, "cache_n": 0, "prompt_ms": 1.0, "predicted_n": text.len(), "predicted_ms": 1.0}});
    [json!({"content": text, "stop": false}), last]
}

fn asked_of(server: &ModelServer, reasoning: Reasoning) -> Ran {
    let engine = RemoteEngine::connect(remote::Options::new(&server.url)).unwrap();
    let sampling = Sampling::default().reasoning(reasoning).max_tokens(400);
    run_with(engine, agent::Options::default().sampling(sampling), &Cancel::default())
}

/// What was thought, said and called, in this order.
fn told(events: &[Event]) -> Vec<String> {
    let mut told: Vec<String> = Vec::new();
    for event in events {
        let (kind, text) = match event {
            Event::Reasoning { delta } => ('?', delta.as_str()),
            Event::Text { delta } => ('!', delta.as_str()),
            Event::ToolCall { name, .. } => ('+', name.as_str()),
            _ => continue,
        };
        match told.last_mut() {
            Some(last) if last.starts_with(kind) => last.push_str(text),
            _ => told.push(format!("{kind}{text}")),
        }
    }
    told.iter()
        .map(|told| told.trim().replace("? ", "?").replace("?\n", "?"))
        .filter(|told| told.len() > 1)
        .collect()
}

#[test]
fn a_turn_at_a_server_is_what_its_model_begins_by_itself() {
    let rains = "It rains.";
    for (wants, expected) in [
        (format!("<think>\nI look.\n</think>\n\n{CALL}"), vec!["?I look.", "+get_weather", "!It rains."]),
        (format!("Let me see.\n{CALL}"), vec!["!Let me see.", "+get_weather", "!It rains."]),
        (
            format!("<think>Hm.</think>I look it up: {CALL}"),
            vec!["?Hm.", "!I look it up:", "+get_weather", "!It rains."],
        ),
        (CALL.to_owned(), vec!["+get_weather", "!It rains."]),
        ("<think>No.</think>I cannot know.".to_owned(), vec!["?No.", "!I cannot know."]),
        ("a < b, and <thing> is none.".to_owned(), vec!["!a < b, and <thing> is none."]),
    ] {
        let behind = wants.clone();
        let server = wanting(template(), move |conversation| match conversation.contains("rain in Oslo") {
            true => rains.to_owned(),
            false => behind.clone(),
        });
        let ran = asked_of(&server, Reasoning::default());
        let outcome = ran.outcome.unwrap();
        assert_eq!(told(&ran.events), expected, "{wants}");
        let thought = wants.contains("<think>");
        assert_eq!(outcome.stats.reasoning_tokens > 0, thought, "{wants}");
        assert!(!outcome.answer.contains("think>"), "{outcome:?}");
    }
}

#[test]
fn a_thought_at_a_server_is_asked_for_bounded_or_left_out() {
    let wants = |conversation: &str| match conversation.contains("rain in Oslo") {
        true => "It rains.".to_owned(),
        false => format!("<think>{}</think>{CALL}", "I look it up. ".repeat(9)),
    };
    let server = wanting(template(), wants);
    let bounded = asked_of(&server, Reasoning::within(20));
    assert_eq!(bounded.outcome.unwrap().calls.len(), 1);
    assert_eq!(told(&bounded.events)[0], "?I look it up. I look\nI have thought enough, and go on.");
    let silent = asked_of(&server, Reasoning::OFF);
    let outcome = silent.outcome.unwrap();
    assert_eq!((outcome.calls.len(), outcome.stats.reasoning_tokens), (1, 0));
    assert!(told(&silent.events).iter().all(|told| !told.starts_with('?')));
    // One that would not think is made to begin.
    let calls = |conversation: &str| match conversation.contains("rain in Oslo") {
        true => "<think>\nWell.</think>It rains.".to_owned(),
        false => format!("<think>\nI do.</think>{CALL}"),
    };
    let forced = asked_of(&wanting(TEMPLATE.to_owned(), calls), Reasoning::ON);
    assert_eq!(told(&forced.events), ["?I do.", "+get_weather", "?Well.", "!It rains."]);
}

#[test]
fn a_call_that_may_not_be_made_behind_text_at_a_server_is_left_out() {
    let server = wanting(template(), |_| format!("Let me see. {CALL}"));
    let engine = RemoteEngine::connect(remote::Options::new(&server.url)).unwrap();
    let options = agent::Options::default().choice(ToolChoice::None);
    let outcome = run_with(engine, options, &Cancel::default()).outcome;
    // The grammar of an answer alone does not admit the call, which this server cannot leave out: it says so.
    assert!(outcome.is_err(), "{outcome:?}");
}

/// vLLM, with or without a parser of thoughts. Its model thinks, says a sentence and calls.
fn vllm(parses: bool) -> ModelServer {
    ModelServer::start(move |asked| {
        let body = &asked.body;
        let messages = body["messages"].to_string();
        let begun = body["messages"].as_array().and_then(|messages| messages.last());
        let begun = begun.filter(|last| last["role"] == "assistant").map(|last| last["content"].to_string());
        let has_thought = begun.as_ref().is_some_and(|begun| begun.contains("</think>"));
        assert_eq!(begun.is_some(), body["continue_final_message"] == true, "{body}");
        let is_answer = messages.contains("rain in Oslo");
        match asked.path.as_str() {
            "/v1/models" => Reply::Json(json!({"data": [{"id": "m", "owned_by": "vllm"}]})),
            "/v1/chat/completions" if body["max_tokens"] == 1 => {
                let first = match (has_thought, is_answer) {
                    (false, _) => "<think>",
                    (true, true) => "It",
                    (true, false) => "{\"",
                };
                let top = json!([{"token": first, "logprob": -0.01}]);
                Reply::Json(json!({"choices": [{"logprobs": {"content": [{"top_logprobs": top}]}}]}))
            }
            "/v1/chat/completions" => match body["structured_outputs"]["grammar"].as_str() {
                None if parses => Reply::Events(vec![
                    delta(json!({"reasoning": "I look."})),
                    delta(json!({"content": "It is not needed."})),
                ]),
                None => {
                    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "stop_reason": "</think>"}]});
                    Reply::Events(vec![delta(json!({"content": "<think>\nI look.\n"})), end])
                }
                Some(grammar) if grammar.contains("get_weather") => {
                    says(&super::constrained::sample(grammar))
                }
                Some(_) => says("It rains."),
            },
            _ => Reply::Refusal(404, Value::Null),
        }
    })
}

#[test]
fn a_model_behind_vllm_thinks_whoever_tells_its_thought_apart() {
    for parses in [true, false] {
        let server = vllm(parses);
        let ran = asked_of(&server, Reasoning::ON);
        let outcome = ran.outcome.unwrap();
        assert_eq!(told(&ran.events), ["?I look.", "+get_weather", "?I look.", "!It rains."], "{parses}");
        assert_eq!(called(&outcome), [("get_weather", Status::Ok)]);
        let bodies: Vec<Value> =
            server.asked("/v1/chat/completions").into_iter().map(|asked| asked.body).collect();
        assert!(bodies.iter().all(|body| body["chat_template_kwargs"]["enable_thinking"] == true));
    }
    let server = vllm(true);
    asked_of(&server, Reasoning::OFF).outcome.unwrap();
    let asked = server.asked("/v1/chat/completions");
    assert!(asked.iter().all(|asked| asked.body["chat_template_kwargs"]["enable_thinking"] == false));
    assert!(
        asked
            .iter()
            .all(|asked| asked.body["max_tokens"] == 1 || asked.body.get("structured_outputs").is_some()),
        "no thought is asked for"
    );
}
