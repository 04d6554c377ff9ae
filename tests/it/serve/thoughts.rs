//! Turns that think, say a sentence and call: what clients ask of them, what they get of them, and what they send back.

use toolgate::engine::{Effort, Reasoning, Sampling};
use toolgate::serve::{Execute, Workbench};
use toolgate::tools::{CannedTool, Registry};

use super::*;
use crate::thinker::{Thinker, turns};

fn served(thinker: &Thinker) -> Served {
    start(thinker.clone(), None, serve::Options::default())
}

fn plain() -> Thinker {
    Thinker { is_plain: true, ..Thinker::default() }
}

fn streamed(served: &Served, path: &str, body: Value) -> Vec<(String, Value)> {
    let (status, _, text) = send(served, path, &merged(body, json!({"stream": true})).to_string(), &[]);
    assert_eq!(status, 200, "{text}");
    let read = |(name, data): (String, String)| (name, serde_json::from_str(&data).unwrap_or_default());
    super::events(&text).into_iter().map(read).collect()
}

fn response(input: Value, more: Value) -> Value {
    merged(json!({"model": "scripted", "input": input}), more)
}

fn response_tools() -> Value {
    json!([{"type": "function", "name": "get_weather", "parameters": parameters()}])
}

#[test]
fn a_chat_completion_has_the_thought_the_sentence_and_the_call_in_this_order() {
    let served = served(&Thinker::default());
    let asked = chat("Weather", json!({"tools": openai_tools()}));
    let (_, whole) = post(&served, CHAT, &asked);
    let message = &whole["choices"][0]["message"];
    assert_eq!(message["reasoning_content"], "I look it up.");
    assert_eq!(message["content"], "Let me see.");
    assert_eq!(message["tool_calls"][0]["function"]["arguments"], "{\"city\":\"Oslo\"}");
    assert_eq!(whole["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!(whole["usage"]["completion_tokens_details"]["reasoning_tokens"], 4);

    let told: Vec<String> = chunks(&served, asked)
        .iter()
        .filter_map(|chunk| {
            let delta = &chunk["choices"][0]["delta"];
            let call = &delta["tool_calls"][0]["function"];
            let named = call["name"].as_str().filter(|name| !name.is_empty()).map(|name| format!("+{name}"));
            let piece = |at: &Value, sign: &str| {
                at.as_str().filter(|text| !text.is_empty()).map(|text| format!("{sign}{text}"))
            };
            piece(&delta["reasoning_content"], "?")
                .or_else(|| piece(&delta["content"], "!"))
                .or(named)
                .or_else(|| piece(&call["arguments"], ""))
        })
        .collect();
    assert_eq!(told, ["?I look ", "?it up.", "!Let me see.", "+get_weather", "{\"city\": ", "\"Oslo\"}"]);
}

#[test]
fn a_message_has_a_thinking_block_a_text_block_and_the_call() {
    let served = served(&Thinker::default());
    let asked = message("Weather", json!({"tools": anthropic_tools()}));
    let (_, whole) = post(&served, MESSAGES, &asked);
    let kinds: Vec<&str> =
        whole["content"].as_array().unwrap().iter().map(|block| block["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["thinking", "text", "tool_use"]);
    assert_eq!(whole["content"][0]["thinking"], "I look it up.");
    assert!(!whole["content"][0]["signature"].as_str().unwrap().is_empty(), "clients send it back only so");

    let told: Vec<String> = streamed(&served, MESSAGES, asked)
        .into_iter()
        .filter_map(|(name, data)| match name.as_str() {
            "content_block_start" => Some(format!("+{}{}", data["index"], data["content_block"]["type"])),
            "content_block_delta" => Some(data["delta"]["type"].to_string()),
            "content_block_stop" => Some(format!("-{}", data["index"])),
            _ => None,
        })
        .collect();
    let plain: Vec<String> = told.iter().map(|event| event.replace('"', "")).collect();
    assert_eq!(
        plain,
        [
            "+0thinking",
            "thinking_delta",
            "thinking_delta",
            "signature_delta",
            "-0",
            "+1text",
            "text_delta",
            "-1",
            "+2tool_use",
            "input_json_delta",
            "input_json_delta",
            "-2",
        ]
    );
}

#[test]
fn a_response_has_a_reasoning_item_a_message_and_the_call() {
    let served = served(&Thinker::default());
    let asked =
        response(json!("Weather"), json!({"tools": response_tools(), "reasoning": {"effort": "low"}}));
    let (_, whole) = post(&served, RESPONSES, &asked);
    let kinds = |response: &Value| -> Vec<String> {
        let items = response["output"].as_array().unwrap();
        items.iter().map(|item| item["type"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(kinds(&whole), ["reasoning", "message", "function_call"]);
    assert_eq!(whole["reasoning"], json!({"effort": "low", "summary": null}));
    assert_eq!(whole["usage"]["output_tokens_details"]["reasoning_tokens"], 4);
    let events = streamed(&served, RESPONSES, asked);
    let begun: Vec<&str> = events
        .iter()
        .filter(|(name, _)| name == "response.output_item.added")
        .map(|(_, data)| data["item"]["type"].as_str().unwrap())
        .collect();
    assert_eq!(begun, ["reasoning", "message", "function_call"]);
    assert_eq!(kinds(&events.last().unwrap().1["response"]), begun);
}

#[test]
fn what_a_client_asks_of_thoughts_reaches_the_turn() {
    let thinker = Thinker::default();
    let served = served(&thinker);
    let low = Reasoning::ON.effort(Some(Effort::Low));
    let check = |path: &str, body: Value, wanted: Reasoning| {
        let (status, answer) = post(&served, path, &body);
        assert_eq!(status, 200, "{answer}");
        assert_eq!(thinker.last().1.reasoning, wanted, "{body}");
    };
    check(CHAT, chat("Hi", json!({})), Reasoning::default());
    check(CHAT, chat("Hi", json!({"reasoning_effort": "none"})), Reasoning::OFF);
    check(CHAT, chat("Hi", json!({"reasoning_effort": "low"})), low);
    check(CHAT, chat("Hi", json!({"reasoning": {"max_tokens": 50}})), Reasoning::within(50));
    check(CHAT, chat("Hi", json!({"thinking_budget_tokens": 50})), Reasoning::within(50));
    check(RESPONSES, response(json!("Hi"), json!({"reasoning": {"effort": "low"}})), low);
    let enabled = json!({"thinking": {"type": "enabled", "budget_tokens": 50}});
    check(MESSAGES, message("Hi", enabled), Reasoning::within(50));
    check(MESSAGES, message("Hi", json!({"thinking": {"type": "disabled"}})), Reasoning::OFF);
    check(MESSAGES, message("Hi", json!({"thinking": {"type": "adaptive"}})), Reasoning::default());

    let values = json!({"enable_thinking": false});
    for (path, body) in [
        (CHAT, chat("Hi", json!({"chat_template_kwargs": values}))),
        (MESSAGES, message("Hi", json!({"chat_template_kwargs": values}))),
        (RESPONSES, response(json!("Hi"), json!({"chat_template_kwargs": values}))),
    ] {
        assert_eq!(post(&served, path, &body).0, 200);
        assert_eq!(Value::Object(thinker.last().1.template_values), values);
    }
    let (status, refused) = post(&served, CHAT, &chat("Hi", json!({"chat_template_kwargs": "off"})));
    assert_eq!((status, &refused["error"]["param"]), (400, &json!("/chat_template_kwargs")));
    let (status, refused) = post(&served, CHAT, &chat("Hi", json!({"reasoning_effort": "most"})));
    assert!(
        status == 400 && refused["error"]["message"].as_str().unwrap().contains("\"minimal\""),
        "{refused}"
    );
}

#[test]
fn a_request_that_says_nothing_is_drawn_as_the_model_s_makers_advise() {
    let usual = Sampling::default().temperature(0.6).top_p(0.95).reasoning(Reasoning::within(9));
    let thinker = Thinker { usual, ..Thinker::default() };
    let served = served(&thinker);
    post(&served, CHAT, &chat("Hi", json!({})));
    let silent = thinker.last().1;
    assert_eq!((silent.temperature, silent.top_p, silent.reasoning), (0.6, 0.95, Reasoning::within(9)));
    post(&served, CHAT, &chat("Hi", json!({"temperature": 0, "reasoning_effort": "none"})));
    let said = thinker.last().1;
    post(&served, CHAT, &chat("Hi", json!({"reasoning_effort": "low"})));
    let bounded = Reasoning::within(9).effort(Some(Effort::Low));
    assert_eq!(thinker.last().1.reasoning, bounded, "the usual bound holds where the request has none");
    assert_eq!((said.temperature, said.top_p, said.reasoning), (0.0, 0.95, Reasoning::OFF));
}

#[test]
fn thoughts_of_the_history_come_to_the_turn_that_they_were_thought_in() {
    let thinker = Thinker::default();
    let served = served(&thinker);
    let function = json!({"name": "get_weather", "arguments": "{}"});
    let call = json!([{"id": "a", "type": "function", "function": function}]);
    let result = json!({"role": "tool", "tool_call_id": "a", "content": "rain"});
    let user = json!({"role": "user", "content": "Weather"});
    let turn = |key: &str, content: Value| json!({"role": "assistant", "content": content, key: "Hm.", "tool_calls": call});
    let tool_use = json!({"type": "tool_use", "id": "a", "name": "get_weather", "input": {}});
    let thinking = json!({"type": "thinking", "thinking": "Hm.", "signature": "toolgate"});
    let redacted = json!({"type": "redacted_thinking", "data": "x"});
    let back =
        json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "rain"}]});
    let blocks = |blocks: Value| json!({"role": "assistant", "content": blocks});
    let say = json!({"type": "text", "text": "So."});
    let item = json!({"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]});
    let called = json!({"type": "function_call", "call_id": "a", "name": "get_weather", "arguments": "{}"});
    let output = json!({"type": "function_call_output", "call_id": "a", "output": "rain"});
    let said =
        json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "So."}]});
    let chat = |messages: Value| (CHAT, json!({"model": "scripted", "messages": messages}));
    let message =
        |messages: Value| (MESSAGES, json!({"model": "scripted", "max_tokens": 99, "messages": messages}));
    for ((path, body), content) in [
        (chat(json!([user, turn("reasoning_content", Value::Null), result])), None),
        (chat(json!([user, turn("reasoning", json!("So.")), result])), Some("So.")),
        (
            chat(json!([user, {"role": "assistant", "reasoning_content": "Hm."},
                {"role": "assistant", "content": "So.", "tool_calls": call}, result])),
            Some("So."),
        ),
        (message(json!([user, blocks(json!([thinking, tool_use])), back])), None),
        (message(json!([user, blocks(json!([redacted, thinking, say, tool_use])), back])), Some("So.")),
        (
            message(json!([user, blocks(json!([thinking])), blocks(json!([say, tool_use])), back])),
            Some("So."),
        ),
        ((RESPONSES, response(json!([user, item, called, output]), json!({}))), None),
        ((RESPONSES, response(json!([user, item, said, called, output]), json!({}))), Some("So.")),
    ] {
        let (status, answer) = post(&served, path, &body);
        assert_eq!(status, 200, "{answer}");
        assert!(answer["warnings"].is_null(), "{answer}");
        assert_eq!(turns(&thinker.last().0), [(Some("Hm."), content, 1)], "{body}");
    }
    // A thought that nothing was made of goes.
    let body = json!([user, {"role": "assistant", "reasoning_content": "Hm."}, user,
        {"role": "assistant", "content": "So."}, user]);
    let (path, body) = chat(body);
    assert_eq!(post(&served, path, &body).0, 200);
    assert_eq!(turns(&thinker.last().0), [(None, Some("So."), 0)]);
}

#[test]
fn a_model_without_thoughts_answers_whoever_asks_for_some_and_says_so() {
    let served = served(&plain());
    for (path, body, pointer) in [
        (CHAT, chat("Hi", json!({"reasoning_effort": "high"})), "/reasoning_effort"),
        (RESPONSES, response(json!("Hi"), json!({"reasoning": {"effort": "high"}})), "/reasoning/effort"),
        (MESSAGES, message("Hi", json!({"thinking": {"type": "enabled", "budget_tokens": 50}})), "/thinking"),
    ] {
        let (status, whole) = post(&served, path, &body);
        assert_eq!((status, &whole["warnings"][0]["pointer"]), (200, &json!(pointer)), "{whole}");
        let told: Vec<Value> = streamed(&served, path, body)
            .into_iter()
            .filter_map(|(_, data)| {
                let held = [&data, &data["message"], &data["response"]];
                held.into_iter().find(|at| at["warnings"].is_array()).cloned()
            })
            .collect();
        assert!(told.iter().all(|at| at["warnings"][0]["pointer"] == pointer) && !told.is_empty(), "{path}");
    }
    let thinking = json!({"thinking": {"type": "enabled", "budget_tokens": 50}});
    let (status, counted) = post(&served, COUNT, &message("Hi", thinking));
    assert_eq!((status, &counted["input_tokens"]), (200, &json!(7)), "{counted}");
    // What a turn cannot be made with for another reason stays an error.
    let values = json!({"chat_template_kwargs": {"colour": 1}, "reasoning_effort": "high"});
    let (status, refused) = post(&served, CHAT, &chat("Hi", values));
    assert!(status == 400 && refused.to_string().contains("does not read this variable"), "{refused}");
    let (status, answer) = post(&served, CHAT, &chat("Hi", json!({"reasoning_effort": "none"})));
    assert!(
        status == 200 && answer["warnings"].is_null(),
        "a model without thoughts does not think: {answer}"
    );
}

#[test]
fn a_server_s_own_loop_tells_the_thoughts_and_texts_of_all_its_turns() {
    let tool = json!({"type": "function", "function": {"name": "get_weather", "description": "d",
        "parameters": parameters()}, "result": "rain"});
    let mut registry = Registry::new();
    registry.add(CannedTool::from_json(&tool).unwrap()).unwrap();
    let thinker = Thinker::default();
    let execute = Execute::new(vec![Workbench::new(registry)]);
    let served = start(thinker.clone(), Some(execute), serve::Options::default());
    let asked = chat("Weather", json!({"reasoning_effort": "low"}));
    let (status, whole) = post(&served, CHAT, &asked);
    assert_eq!(status, 200, "{whole}");
    let message = &whole["choices"][0]["message"];
    assert_eq!(message["content"], "Let me see.\n\nRain.");
    assert_eq!(message["reasoning_content"], "I look it up.\n\nSo it rains.");
    let chunks = chunks(&served, asked);
    for key in ["content", "reasoning_content"] {
        let joined: String =
            chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"][key].as_str()).collect();
        assert_eq!(joined, message[key].as_str().unwrap(), "{key}");
    }
    let (transcript, sampling) = thinker.last();
    assert_eq!(turns(&transcript), [(Some("I look it up."), Some("Let me see."), 1)]);
    assert_eq!(sampling.reasoning.effort, Some(Effort::Low));
}
