//! The Responses API over the scripted model: what its tests share, and the shape of whole responses.

mod going_on;
mod history;
mod programs;
mod stream;
mod table;

use super::*;

/// The whole conversation is in the prompt of an answer.
fn full_of(model: Scripted) -> Served {
    let full = engine::Options::guided().answer_view(engine::AnswerView::Full);
    start(scripted(model, full), None, serve::Options::default())
}

fn full() -> Served {
    full_of(model())
}

fn flat(name: &str) -> Value {
    json!({"type": "function", "name": name, "description": "d", "parameters": parameters(), "strict": true})
}

fn tools() -> Value {
    json!([flat("get_weather"), flat("book")])
}

fn asked(input: impl Into<Value>, more: Value) -> Value {
    merged(json!({"model": "scripted", "input": input.into()}), more)
}

fn ask(served: &Served, body: &Value) -> Value {
    let (status, response) = post(served, RESPONSES, body);
    assert_eq!(status, 200, "{response}");
    response
}

fn refused(served: &Served, body: &Value, pointer: &str) -> String {
    let (status, answer) = post(served, RESPONSES, body);
    assert_eq!((status, &answer["error"]["param"]), (400, &json!(pointer)), "{answer}");
    answer["error"]["message"].as_str().unwrap().to_owned()
}

/// The text of its messages.
fn text(response: &Value) -> String {
    let items = response["output"].as_array().unwrap().iter().filter(|item| item["type"] == "message");
    items.map(|item| item["content"][0]["text"].as_str().unwrap()).collect()
}

/// Names and arguments of its calls.
fn calls(response: &Value) -> Vec<(String, Value)> {
    let items = response["output"].as_array().unwrap().iter().filter(|item| item["type"] == "function_call");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    items
        .map(|item| (text(&item["name"]), serde_json::from_str(&text(&item["arguments"])).unwrap()))
        .collect()
}

fn pointers(response: &Value) -> Vec<&str> {
    let told = response.get("warnings").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    told.iter().map(|warning| warning["pointer"].as_str().unwrap()).collect()
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn called(id: &str, city: &str) -> Value {
    let arguments = json!({"city": city}).to_string();
    json!({"type": "function_call", "call_id": id, "name": "get_weather", "arguments": arguments})
}

fn result(id: &str, output: impl Into<Value>) -> Value {
    json!({"type": "function_call_output", "call_id": id, "output": output.into()})
}

#[test]
fn an_answer_is_a_whole_response_object() {
    let served = served();
    let response = ask(&served, &asked("Hello", json!({"metadata": {"a": "b"}, "max_output_tokens": 50})));
    assert_eq!(text(&response), "Hello there. How are you?");
    for (key, value) in [
        ("object", json!("response")),
        ("status", json!("completed")),
        ("error", Value::Null),
        ("incomplete_details", Value::Null),
        ("model", json!("scripted")),
        ("metadata", json!({"a": "b"})),
        ("max_output_tokens", json!(50)),
        ("parallel_tool_calls", json!(true)),
        ("tool_choice", json!("auto")),
        ("tools", json!([])),
        ("text", json!({"format": {"type": "text"}})),
        ("previous_response_id", Value::Null),
        ("truncation", json!("disabled")),
        ("store", json!(true)),
    ] {
        assert_eq!(response[key], value, "{key}");
    }
    assert!(response["id"].as_str().unwrap().starts_with("resp_") && response["created_at"].is_u64());
    assert!(response.get("warnings").is_none());
    let message = &response["output"][0];
    assert_eq!(message["role"], "assistant");
    assert_eq!(
        (&message["status"], &message["content"][0]["annotations"]),
        (&json!("completed"), &json!([]))
    );
    let usage = &response["usage"];
    let count = |value: &Value| value.as_u64().unwrap();
    assert_eq!(count(&usage["total_tokens"]), count(&usage["input_tokens"]) + count(&usage["output_tokens"]));
    assert!(count(&usage["input_tokens"]) > 0 && count(&usage["output_tokens"]) > 0);
    assert!(usage["input_tokens_details"]["cached_tokens"].is_u64());
    assert_eq!(usage["output_tokens_details"]["reasoning_tokens"], 0, "it thought nothing");
}

#[test]
fn a_call_is_an_item_with_an_id_of_its_own_and_one_of_the_call() {
    let served = served();
    let response = ask(&served, &asked("Weather", json!({"tools": tools()})));
    assert_eq!(calls(&response), [("get_weather".to_owned(), json!({"city": "Oslo"}))]);
    let item = &response["output"][0];
    assert!(item["id"].as_str().unwrap().starts_with("fc_"));
    assert!(item["call_id"].as_str().unwrap().starts_with("call_"));
    assert_eq!((&item["status"], item.get("namespace")), (&json!("completed"), None));
    assert_eq!(response["tools"], tools());
}

#[test]
fn the_choice_of_tools_is_held() {
    let served = served();
    let names = |choice: Value| {
        let response = ask(&served, &asked("Weather", json!({"tools": tools(), "tool_choice": choice})));
        calls(&response).into_iter().map(|(name, _)| name).collect::<Vec<_>>()
    };
    let function = |name: &str| json!({"type": "function", "name": name});
    assert_eq!(names(json!("auto")), ["get_weather"]);
    assert_eq!(names(json!("none")), [""; 0]);
    assert_eq!(names(function("book")), ["book"]);
    let allowed = |mode: &str| json!({"type": "allowed_tools", "mode": mode, "tools": [function("book")]});
    assert_eq!(names(allowed("required")), ["book"]);
    assert!(!names(allowed("auto")).contains(&"get_weather".to_owned()));
    let body = |choice: Value| asked("Weather", json!({"tools": tools(), "tool_choice": choice}));
    refused(&served, &body(json!("sometimes")), "/tool_choice");
    refused(&served, &body(function("fly")), "/tool_choice/name");
    refused(&served, &body(json!({"type": "web_search"})), "/tool_choice/type");
    refused(&served, &asked("Weather", json!({"tool_choice": "required"})), "/tool_choice");
}

#[test]
fn parallel_calls_are_bounded_by_what_is_asked() {
    let served = served();
    let count = |more: Value| {
        let response = ask(&served, &asked("Both cities", merged(json!({"tools": tools()}), more)));
        calls(&response).len()
    };
    assert_eq!(count(json!({"parallel_tool_calls": true})), 2, "a call is not made twice in a turn");
    assert_eq!(count(json!({"parallel_tool_calls": false})), 1);
}

#[test]
fn an_answer_is_held_to_its_format() {
    let served = served();
    let body = |format: Value| asked("As JSON", json!({"text": {"format": format}}));
    let schema = json!({
        "type": "object", "properties": {"city": {"type": "string"}, "rain": {"type": "boolean"}},
        "required": ["city", "rain"], "additionalProperties": false,
    });
    let held = json!({"type": "json_schema", "name": "weather", "strict": true, "schema": schema});
    let response = ask(&served, &body(held.clone()));
    let value: Value = serde_json::from_str(&text(&response)).unwrap();
    assert_eq!(value, json!({"city": "Oslo", "rain": true}));
    assert_eq!(response["text"]["format"], held, "what the SDKs read the answer by");
    serde_json::from_str::<Value>(&text(&ask(&served, &body(json!({"type": "json_object"}))))).unwrap();
    refused(&served, &body(json!({"type": "xml"})), "/text/format/type");
    refused(&served, &body(json!({"type": "json_schema", "name": "n"})), "/text/format");
    let bad = json!({"type": "json_schema", "name": "n", "schema": {"$ref": "#/nowhere"}});
    refused(&served, &body(bad), "/text/format/schema/$ref");
}

#[test]
fn what_would_change_the_answer_and_is_not_done_is_refused() {
    let served = served();
    for (key, value) in [
        ("background", json!(true)),
        ("conversation", json!("conv_1")),
        ("prompt", json!({"id": "pmpt_1"})),
        ("response_format", json!({"type": "json_object"})),
        ("messages", json!([])),
        ("metadata", json!("a")),
        ("temperature", json!(3)),
    ] {
        refused(&served, &asked("Hello", json!({ key: value })), &format!("/{key}"));
    }
    // And what changes nothing, or asks for what is so anyway, is not.
    let more = json!({
        "background": false, "user": "u", "safety_identifier": "s", "prompt_cache_key": "k", "service_tier": "auto",
        "include": ["reasoning.encrypted_content"], "stream_options": {"include_obfuscation": false},
        "reasoning": {"effort": "low", "summary": "auto"}, "max_tool_calls": 3, "client_metadata": {"a": "b"},
        "text": {"verbosity": "low"}, "top_logprobs": 0, "truncation": "disabled", "conversation": null,
    });
    let response = ask(&served, &asked("Hello", more));
    assert_eq!(pointers(&response), [""; 0]);
    assert_eq!(response["reasoning"]["effort"], "low");
    assert_eq!(response["text"], json!({"verbosity": "low", "format": {"type": "text"}}));
    let less = json!({"truncation": "auto", "moderation": {"model": "m"}, "context_management": [{"type": "compaction"}]});
    let response = ask(&served, &asked("Hello", less));
    assert_eq!(pointers(&response), ["/truncation", "/context_management", "/moderation"]);
    assert_eq!(response["truncation"], "disabled", "what was done, not what was asked");
}

#[test]
fn tools_that_are_not_run_are_left_out_and_named() {
    let served = served();
    let list = json!([
        {"type": "web_search"}, flat("get_weather"), {"type": "custom", "name": "apply_patch"},
        {"type": "mcp", "server_label": "s", "server_url": "https://example.com"},
        {"type": "function", "name": "odd", "parameters": {"type": "object", "properties": {"a": {"$ref": "#/nowhere"}}}},
        {"type": "namespace", "name": "n", "description": "d", "tools": [{"type": "custom", "name": "c"}]},
    ]);
    let response = ask(&served, &asked("Weather", json!({"tools": list})));
    assert_eq!(calls(&response).len(), 1);
    assert_eq!(
        pointers(&response),
        [
            "/tools/0/type",
            "/tools/2/type",
            "/tools/3/type",
            "/tools/5/tools/0/type",
            "/tools/4/parameters/properties/a/$ref"
        ]
    );
    let told = |i: usize| response["warnings"][i]["message"].as_str().unwrap();
    assert!(told(0).contains("\"web_search\"") && told(4).contains("left out"));
    let response = ask(&served, &asked("Hello", json!({"tools": [{"type": "file_search"}]})));
    assert_eq!(
        (text(&response).as_str(), pointers(&response)),
        ("Hello there. How are you?", vec!["/tools/0/type"])
    );
}

#[test]
fn a_tool_of_a_namespace_is_called_by_it() {
    let model = Scripted::new(Arc::new(Vocabulary::bytes_only()))
        .context(16_384)
        .on("rain in Oslo</tool_response>", "It rains in Oslo.")
        .on("Weather", call("sky__get_weather", "{\"city\": \"Oslo\"}"));
    let served = full_of(model);
    let sky = json!({"type": "namespace", "name": "sky", "description": "d", "tools": [flat("get_weather")]});
    let offered = json!({"tools": [flat("book"), sky]});
    let first = ask(&served, &asked("Weather", offered.clone()));
    let item = &first["output"][0];
    assert_eq!((&item["namespace"], &item["name"]), (&json!("sky"), &json!("get_weather")));
    let input = json!([user("Weather"), item, result(item["call_id"].as_str().unwrap(), "rain in Oslo")]);
    assert_eq!(text(&ask(&served, &asked(input, offered.clone()))), "It rains in Oslo.");
    let choice = json!({"type": "function", "namespace": "sky", "name": "get_weather"});
    let forced = ask(&served, &asked("Weather", merged(offered, json!({"tool_choice": choice}))));
    assert_eq!(forced["output"][0]["namespace"], "sky");
}

#[test]
fn a_turn_that_is_cut_off_is_incomplete() {
    let served = served();
    let response = ask(&served, &asked("Long", json!({"max_output_tokens": 20})));
    assert_eq!(response["status"], "incomplete");
    assert_eq!(response["incomplete_details"], json!({"reason": "max_output_tokens"}));
    assert_eq!(response["output"][0]["status"], "incomplete");
    assert!(text(&response).starts_with("word"));
}
