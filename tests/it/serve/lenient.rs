//! Requests with one thing in them that is not done here: they are answered all the same, and the answer says so.

use serde_json::{Value, json};
use toolgate::engine::{self, AnswerView};
use toolgate::serve;

use super::*;

/// Where an answer says that something was not done as it was sent.
fn warned(body: &Value) -> Vec<String> {
    let told = body["warnings"].as_array().into_iter().flatten();
    told.map(|warning| warning["pointer"].as_str().unwrap().to_owned()).collect()
}

fn answered(served: &Served, path: &str, body: &Value) -> Value {
    let (status, answer) = post(served, path, body);
    assert_eq!(status, 200, "{body}: {answer}");
    answer
}

fn call_of(id: &str, arguments: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": "get_weather", "arguments": arguments}})
}

#[test]
fn a_conversation_that_is_broken_in_one_place_goes_on() {
    let served = served();
    let user = json!({"role": "user", "content": "Hello"});
    let said = |call: Value| json!({"role": "assistant", "content": null, "tool_calls": [call]});
    let result = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": "error: no"});
    let picture = json!({"role": "user", "content": [
        {"type": "text", "text": "Hello"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}]});
    for (messages, places) in [
        (
            json!([user, said(call_of("a", "{\"city\": \"Os")), result("a"), user]),
            vec!["/messages/1/tool_calls/0/function/arguments"],
        ),
        (
            json!([user, said(call_of("a", "Oslo, please")), result("a"), user]),
            vec!["/messages/1/tool_calls/0/function/arguments"],
        ),
        (json!([user, said(call_of("a", "{}")), user]), vec!["/messages/1/tool_calls/0"]),
        (json!([user, said(call_of("a", "{}"))]), vec!["/messages/1/tool_calls/0"]),
        (json!([user, result("x"), user]), vec!["/messages/1/tool_call_id"]),
        (json!([picture, {"role": "assistant", "content": "No."}, user]), vec!["/messages/0/content/1"]),
        (json!([{"role": "system", "content": null}, user]), vec!["/messages/0/content"]),
    ] {
        let answer =
            answered(&served, CHAT, &json!({"model": "scripted", "messages": messages, "max_tokens": 40}));
        assert_eq!(warned(&answer), places, "{messages}");
    }
    assert!(
        answered(&served, CHAT, &chat("Hello", json!({})))["warnings"].is_null(),
        "control: nothing is wrong"
    );
}

#[test]
fn tools_that_cannot_be_called_do_not_cost_those_that_can() {
    let served = served();
    let mut tools = openai_tools().as_array().unwrap().clone();
    tools.push(json!({"type": "custom", "custom": {"name": "apply_patch"}}));
    tools.push(json!({"type": "function", "function": {"name": "mail", "parameters": {"type": "object", "required": 3}}}));
    let answer = answered(&served, CHAT, &chat("Weather", json!({"tools": tools})));
    assert_eq!(answer["choices"][0]["message"]["tool_calls"][0]["function"]["name"], "get_weather");
    let places = warned(&answer);
    assert!(
        places[0] == "/tools/2/type" && places[1].starts_with("/tools/3/function/parameters"),
        "{places:?}"
    );

    let mut tools = anthropic_tools().as_array().unwrap().clone();
    tools.push(json!({"type": "web_search_20250305", "name": "web_search"}));
    let answer = answered(&served, MESSAGES, &message("Weather", json!({"tools": tools})));
    assert_eq!(answer["content"][0]["name"], "get_weather");
    assert_eq!(warned(&answer), ["/tools/2/type"]);
}

#[test]
fn a_tool_is_called_by_the_name_that_its_client_gave_it() {
    let model = Scripted::new(Arc::new(Vocabulary::bytes_only()))
        .context(16_384)
        .on("It rained", "Noted.")
        .on("Weather", call("weather_get_now", "{\"city\": \"Oslo\"}"));
    let served = start(
        scripted(model, engine::Options::guided().answer_view(AnswerView::Full)),
        None,
        serve::Options::default(),
    );
    // Another tool has the plain name already.
    let names = ["weather/get now", "weather:get", "天気"];
    let tools: Vec<Value> = names
        .iter()
        .map(|name| json!({"type": "function", "function": {"name": name, "parameters": parameters()}}))
        .collect();
    let body = chat("Weather", json!({"tools": tools}));
    let answer = answered(&served, CHAT, &body);
    let made = answer["choices"][0]["message"]["tool_calls"][0].clone();
    assert_eq!(made["function"]["name"], "weather/get now", "{answer}");
    let begun: Vec<String> = chunks(&served, body.clone())
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["delta"]["tool_calls"][0]["function"]["name"].as_str())
        .map(str::to_owned)
        .collect();
    assert_eq!(begun, ["weather/get now"]);
    // It comes back under the client's name, too.
    let history = json!([{"role": "user", "content": "Weather"}, {"role": "assistant", "tool_calls": [made]},
        {"role": "tool", "tool_call_id": made["id"], "content": "It rained"}]);
    let answer = answered(&served, CHAT, &json!({"model": "scripted", "messages": history, "tools": tools}));
    assert_eq!(answer["choices"][0]["message"]["content"], "Noted.");
    let only = json!({"tools": tools, "tool_choice": {"type": "function", "function": {"name": "天気"}}, "max_tokens": 200});
    let answer = answered(&served, CHAT, &merged(body, only));
    assert_eq!(answer["choices"][0]["message"]["tool_calls"][0]["function"]["name"], "天気", "{answer}");
}

#[test]
fn whatever_the_model_is_called_the_one_there_is_answers_and_says_so() {
    let options = serve::Options::default().aliases(vec!["gpt-9".into()]);
    let served = start(scripted(model(), engine::Options::guided()), None, options);
    for (name, places) in [
        (json!("scripted"), vec![]),
        (json!("gpt-9"), vec![]),
        (json!("claude-7"), vec!["/model"]),
        (json!(null), vec!["/model"]),
    ] {
        for (path, body) in [
            (CHAT, chat("Hello", json!({"model": name}))),
            (MESSAGES, message("Hello", json!({"model": name}))),
        ] {
            let answer = answered(&served, path, &body);
            assert_eq!(
                (&answer["model"], warned(&answer)),
                (&json!("scripted"), places.iter().map(ToString::to_string).collect())
            );
        }
    }
}

#[test]
fn a_stream_says_at_its_beginning_what_is_not_done() {
    let served = served();
    let more = json!({"model": "other", "stream": true});
    let chunks = chunks(&served, chat("Hello", more.clone()));
    assert_eq!(warned(&chunks[0]), ["/model"]);
    assert!(chunks[1..].iter().all(|chunk| chunk["warnings"].is_null()));
    let (_, _, text) = send(&served, MESSAGES, &message("Hello", more).to_string(), &[]);
    let (name, data) = events(&text).remove(0);
    let start: Value = serde_json::from_str(&data).unwrap();
    assert_eq!((name.as_str(), warned(&start["message"])), ("message_start", vec!["/model".to_owned()]));
}

#[test]
fn what_clients_send_for_off_is_off() {
    let served = served();
    for more in [
        json!({"max_tokens": -1}),
        json!({"max_tokens": 0, "top_k": -1}),
        json!({"top_k": 0, "n": 1, "frequency_penalty": 0, "presence_penalty": 0.0, "logit_bias": {}, "seed": -1}),
    ] {
        let answer = answered(&served, CHAT, &chat("Hello", more.clone()));
        assert_eq!(answer["choices"][0]["message"]["content"], "Hello there. How are you?", "{more}");
        assert!(answer["warnings"].is_null(), "{answer}");
    }
    let answer = answered(&served, MESSAGES, &message("Hello", json!({"top_k": 0})));
    assert_eq!(answer["content"][0]["text"], "Hello there. How are you?");
}

#[test]
fn biases_weigh_an_answer_and_penalties_no_call() {
    let served = served();
    let content = |more: Value| {
        let answer = answered(&served, CHAT, &chat("Long", merged(json!({"max_tokens": 12}), more)));
        answer["choices"][0]["message"]["content"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(content(json!({})), "word word wo", "control");
    // The token of "o" is its byte.
    let told = content(json!({"logit_bias": {"111": -100}}));
    assert!(told.starts_with('w') && !told.contains('o'), "{told}");
    let tools = json!({"tools": openai_tools(), "repetition_penalty": 10});
    let answer = answered(&served, CHAT, &chat("Weather", tools));
    assert_eq!(
        answer["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"],
        "{\"city\":\"Oslo\"}"
    );
}

#[test]
fn several_answers_to_a_request_are_as_many_choices() {
    let served = served();
    let body = chat("Hello", json!({"n": 3, "stream_options": {"include_usage": true}}));
    let answer = answered(&served, CHAT, &body);
    let choices = answer["choices"].as_array().unwrap();
    assert_eq!(choices.iter().map(|choice| choice["index"].as_u64().unwrap()).collect::<Vec<_>>(), [0, 1, 2]);
    assert!(
        choices.iter().all(|choice| choice["message"]["content"] == "Hello there. How are you?"),
        "{answer}"
    );
    let one = answered(&served, CHAT, &chat("Hello", json!({})));
    assert_eq!(answer["usage"]["prompt_tokens"], one["usage"]["prompt_tokens"]);
    assert_eq!(answer["usage"]["completion_tokens"], 3 * one["usage"]["completion_tokens"].as_u64().unwrap());

    let calls = chat("Weather", json!({"n": 2, "tools": openai_tools()}));
    for (body, each) in [(body, "Hello there. How are you?"), (calls, "{\"city\": \"Oslo\"}")] {
        let chunks = chunks(&served, body);
        let n = chunks.iter().filter_map(|chunk| chunk["choices"][0]["index"].as_u64()).max().unwrap();
        for index in 0..=n {
            let own =
                chunks.iter().map(|chunk| &chunk["choices"][0]).filter(|choice| choice["index"] == index);
            let own: Vec<&Value> = own.collect();
            assert_eq!(own[0]["delta"]["role"], "assistant");
            assert!(own.last().unwrap()["finish_reason"].is_string());
            let said: String = own
                .iter()
                .filter_map(|choice| {
                    let delta = &choice["delta"];
                    delta["content"]
                        .as_str()
                        .filter(|text| !text.is_empty())
                        .or(delta["tool_calls"][0]["function"]["arguments"].as_str())
                })
                .collect();
            assert_eq!(said, each);
            assert!(
                own.iter().all(|choice| choice["delta"]["tool_calls"][0]["index"].as_u64().unwrap_or(0) == 0)
            );
        }
    }
}

#[test]
fn it_is_told_how_likely_the_tokens_of_an_answer_were() {
    let served = served();
    let body = chat("Hello", json!({"logprobs": true, "top_logprobs": 2}));
    let logprobs = answered(&served, CHAT, &body)["choices"][0]["logprobs"].clone();
    let tokens = logprobs["content"].as_array().unwrap();
    let text: String = tokens.iter().map(|token| token["token"].as_str().unwrap()).collect();
    assert_eq!(text, "Hello there. How are you?");
    for token in tokens {
        assert!(
            token["logprob"].as_f64().unwrap() <= 0.0 && token["top_logprobs"].as_array().unwrap().len() == 2
        );
        assert_eq!(token["top_logprobs"][0]["token"], token["token"], "greedily the likeliest is taken");
        assert_eq!(token["bytes"], json!(token["token"].as_str().unwrap().as_bytes()));
    }
    let streamed = chunks(&served, body);
    assert_eq!(streamed.last().unwrap()["choices"][0]["logprobs"]["content"], logprobs["content"]);
    let plain = answered(&served, CHAT, &chat("Hello", json!({"logprobs": true})));
    assert_eq!(plain["choices"][0]["logprobs"]["content"][0]["top_logprobs"], json!([]));
    assert!(answered(&served, CHAT, &chat("Hello", json!({})))["choices"][0]["logprobs"].is_null());
}

#[test]
fn an_answer_goes_on_from_where_it_was_begun() {
    let model = Scripted::new(Arc::new(Vocabulary::bytes_only()))
        .context(16_384)
        .on("The capital is", " Oslo, of course.")
        .on("It is called", " Rome.")
        .on("{\"city\":", " \"Oslo\", \"rain\": true}")
        .on("Capital", "I do not know.");
    let served = start(scripted(model, engine::Options::guided()), None, serve::Options::default());
    let begun = |text: &str, more: Value| {
        let messages =
            json!([{"role": "user", "content": "Capital?"}, {"role": "assistant", "content": text}]);
        merged(json!({"model": "scripted", "max_tokens": 60, "messages": messages}), more)
    };
    let content = |text: &str, more: Value| {
        let body = begun(text, more);
        let whole = answered(&served, CHAT, &body)["choices"][0]["message"]["content"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let streamed: String = chunks(&served, body.clone())
            .iter()
            .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str().map(str::to_owned))
            .collect();
        let other =
            answered(&served, MESSAGES, &body)["content"][0]["text"].as_str().unwrap_or_default().to_owned();
        assert!(whole == streamed && whole == other, "{whole:?} {streamed:?} {other:?}");
        whole
    };
    assert_eq!(content("The capital is", json!({})), " Oslo, of course.", "what follows, with its blank");
    assert_eq!(content("The capital is ", json!({})), "Oslo, of course.", "the blank is there already");
    // Tools that may be called do not keep an answer from being one.
    assert_eq!(
        content("It is called", json!({"stop": ".", "stop_sequences": ["."]})),
        " Rome",
        "and it ends where answers end"
    );
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}, "rain": {"type": "boolean"}},
        "required": ["city", "rain"], "additionalProperties": false});
    assert_eq!(content("{\"city\":", json!({"json_schema": schema})), " \"Oslo\", \"rain\": true}");
    let (status, body) = post(&served, CHAT, &begun("[1", json!({"json_schema": schema})));
    assert_eq!(status, 400, "no such answer begins so: {body}");
    let (status, body) = post(&served, CHAT, &begun("<tool_call>", json!({})));
    assert_eq!(status, 400, "nor is a call an answer: {body}");
    let asked = begun("The capital is", json!({"tools": openai_tools()}));
    assert_eq!(answered(&served, CHAT, &asked)["choices"][0]["message"]["content"], " Oslo, of course.");
}

#[test]
fn a_thread_is_refused_as_its_sdk_expects() {
    let (status, body) = post(&served(), MESSAGES, &message("Hello", json!({"thread": {"type": "create"}})));
    assert_eq!(status, 400);
    assert_eq!(body["error"]["details"]["error_code"], "thread_unsupported_request", "{body}");
}
