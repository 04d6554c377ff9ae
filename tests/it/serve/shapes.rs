//! Both APIs: shapes, streams, choices of tools, and errors by their pointers.

use std::sync::Arc;

use serde_json::{Value, json};
use toolgate::engine::{self, Constraint};
use toolgate::serve;
use toolgate_infer::Vocabulary;
use toolgate_infer::scripted::Scripted;

use super::*;

#[test]
fn a_chat_completion_has_the_shape_its_clients_know() {
    let served = served();
    let (status, body) = post(&served, CHAT, &chat("Hello", json!({})));
    assert_eq!(status, 200, "{body}");
    assert_eq!((&body["object"], &body["model"]), (&json!("chat.completion"), &json!("scripted")));
    assert!(body["id"].as_str().unwrap().starts_with("chatcmpl-"));
    let choice = &body["choices"][0];
    assert_eq!(choice["message"]["content"], "Hello there. How are you?");
    assert_eq!((&choice["finish_reason"], &choice["logprobs"]), (&json!("stop"), &Value::Null));
    assert!(choice["message"].get("tool_calls").is_none());
    let usage = &body["usage"];
    // A token a byte, and perhaps the one that ends it.
    let written = usage["completion_tokens"].as_u64().unwrap() as usize;
    assert!(written - "Hello there. How are you?".len() <= 1, "{usage}");
    let sum = usage["prompt_tokens"].as_u64().unwrap() + usage["completion_tokens"].as_u64().unwrap();
    assert_eq!(usage["total_tokens"], sum);

    // The same again needs next to nothing evaluated.
    let (_, again) = post(&served, CHAT, &chat("Hello", json!({})));
    let (prompt, cached) =
        (&again["usage"]["prompt_tokens"], &again["usage"]["prompt_tokens_details"]["cached_tokens"]);
    assert_eq!(prompt, &usage["prompt_tokens"]);
    assert!(cached.as_u64().unwrap() + 1 >= prompt.as_u64().unwrap(), "{again}");
}

#[test]
fn tools_become_calls_and_a_stream_adds_up_to_them() {
    let served = served();
    let body = chat("Weather", json!({"tools": openai_tools(), "logprobs": true}));
    let (status, whole) = post(&served, CHAT, &body);
    assert_eq!(status, 200, "{whole}");
    let choice = &whole["choices"][0];
    assert_eq!(
        (&choice["finish_reason"], &choice["message"]["content"]),
        (&json!("tool_calls"), &Value::Null)
    );
    let made = &choice["message"]["tool_calls"][0];
    assert!(made["id"].as_str().unwrap().starts_with("call_") && made["type"] == "function");
    assert_eq!(made["function"], json!({"name": "get_weather", "arguments": "{\"city\":\"Oslo\"}"}));
    let decision = &choice["logprobs"]["call_decision"];
    assert!(decision["p_call"].as_f64().unwrap() > 0.9 && decision["call"] == true, "{choice}");

    let body = merged(body, json!({"stream_options": {"include_usage": true}}));
    let chunks = chunks(&served, body);
    assert!(
        chunks
            .iter()
            .all(|chunk| chunk["object"] == "chat.completion.chunk" && chunk["id"] == chunks[0]["id"])
    );
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    let pieces: Vec<&Value> = chunks
        .iter()
        .map(|chunk| &chunk["choices"][0]["delta"]["tool_calls"][0])
        .filter(|p| !p.is_null())
        .collect();
    assert_eq!(pieces[0]["function"], json!({"name": "get_weather", "arguments": ""}));
    let joined: String = pieces.iter().filter_map(|piece| piece["function"]["arguments"].as_str()).collect();
    assert_eq!(serde_json::from_str::<Value>(&joined).unwrap(), json!({"city": "Oslo"}));
    assert!(pieces.len() > 4, "arguments come in pieces: {pieces:?}");
    let [.., finish, usage] = chunks.as_slice() else { panic!("{chunks:?}") };
    let choice = &finish["choices"][0];
    assert_eq!((&choice["finish_reason"], &choice["delta"]), (&json!("tool_calls"), &json!({})));
    // Who joins nothing finds the call whole, under the id it was begun with.
    assert_eq!(choice["message"]["tool_calls"][0]["id"], pieces[0]["id"]);
    assert_eq!(choice["message"]["tool_calls"][0]["function"]["arguments"], "{\"city\":\"Oslo\"}");
    assert_eq!(
        (&usage["choices"], usage["usage"]["completion_tokens"].as_u64().unwrap() > 20),
        (&json!([]), true)
    );
}

#[test]
fn who_sends_functions_gets_a_function_call() {
    let served = served();
    let functions: Vec<Value> =
        openai_tools().as_array().unwrap().iter().map(|tool| tool["function"].clone()).collect();
    let body = chat("Both cities", json!({"functions": functions, "parallel_tool_calls": true}));
    let (status, whole) = post(&served, CHAT, &body);
    assert_eq!(status, 200, "{whole}");
    let choice = &whole["choices"][0];
    let call = json!({"name": "get_weather", "arguments": "{\"city\":\"Oslo\"}"});
    assert_eq!(
        (&choice["finish_reason"], &choice["message"]["function_call"]),
        (&json!("function_call"), &call)
    );
    assert!(choice["message"].get("tool_calls").is_none() && choice["message"]["content"].is_null());
    assert!(
        whole["warnings"].to_string().contains("/parallel_tool_calls"),
        "one call is what there is room for"
    );

    let chunks = chunks(&served, body);
    let pieces: Vec<&Value> = chunks
        .iter()
        .map(|chunk| &chunk["choices"][0]["delta"]["function_call"])
        .filter(|piece| !piece.is_null())
        .collect();
    assert_eq!(*pieces[0], json!({"name": "get_weather", "arguments": ""}));
    let joined: String = pieces.iter().filter_map(|piece| piece["arguments"].as_str()).collect();
    assert_eq!(serde_json::from_str::<Value>(&joined).unwrap(), json!({"city": "Oslo"}));
    let last = &chunks.last().unwrap()["choices"][0];
    assert_eq!((&last["finish_reason"], &last["message"]["function_call"]), (&json!("function_call"), &call));
    assert!(!json!(chunks).to_string().contains("\"tool_calls\""));

    // The call and its result go back in the same form.
    let model = Scripted::new(Arc::new(Vocabulary::bytes_only())).context(16_384);
    let telling = model.on("rain in Oslo", "It rains in Oslo.").on("Weather", "I do not know.");
    let telling = start(scripted(telling, engine::Options::guided()), None, serve::Options::default());
    let messages = json!([
        {"role": "user", "content": "Weather"},
        {"role": "assistant", "content": null, "function_call": call},
        {"role": "function", "name": "get_weather", "content": "rain in Oslo"},
    ]);
    let body = json!({"model": "scripted", "messages": messages, "functions": functions});
    let (_, told) = post(&telling, CHAT, &body);
    assert_eq!(told["choices"][0]["message"]["content"], "It rains in Oslo.", "{told}");
    assert!(told.get("warnings").is_none(), "{told}");
    let chosen = chat("Hello", json!({"functions": functions, "function_call": {"name": "book"}}));
    assert_eq!(post(&served, CHAT, &chosen).1["choices"][0]["message"]["function_call"]["name"], "book");
    let none = chat("Weather", json!({"functions": functions, "function_call": "none"}));
    assert_ne!(post(&served, CHAT, &none).1["choices"][0]["finish_reason"], "function_call");
    let answer = chat("Hello", json!({"functions": functions}));
    assert_eq!(post(&served, CHAT, &answer).1["choices"][0]["finish_reason"], "stop");
}

#[test]
fn parallel_calls_are_as_many_as_asked_for_and_none_twice() {
    let served = served();
    let cities = |body: &Value| -> Vec<String> {
        let calls = body["choices"][0]["message"]["tool_calls"].as_array().unwrap();
        calls.iter().map(|call| call["function"]["arguments"].as_str().unwrap().to_owned()).collect()
    };
    let ask =
        |parallel| chat("Both cities", json!({"tools": openai_tools(), "parallel_tool_calls": parallel}));
    let (_, both) = post(&served, CHAT, &ask(true));
    assert_eq!(cities(&both), ["{\"city\":\"Oslo\"}", "{\"city\":\"Rome\"}"]);
    let (_, one) = post(&served, CHAT, &ask(false));
    assert_eq!(cities(&one), ["{\"city\":\"Oslo\"}"]);
    let chunks = chunks(&served, ask(true));
    let begun: Vec<(&Value, &Value)> = chunks
        .iter()
        .map(|chunk| &chunk["choices"][0]["delta"]["tool_calls"][0])
        .filter(|piece| piece["id"].is_string())
        .map(|piece| (&piece["index"], &piece["id"]))
        .collect();
    assert_eq!(begun.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [&json!(0), &json!(1)]);
    assert_ne!(begun[0].1, begun[1].1);
}

#[test]
fn every_choice_of_tools_holds() {
    let served = served();
    // Few values, or a model that does not want to call would not come to the end of one.
    let mut tools = openai_tools();
    for tool in tools.as_array_mut().unwrap() {
        tool["function"]["parameters"]["properties"]["city"] = json!({"enum": ["Oslo", "Rome"]});
    }
    let made = |question: &str, choice: Value| -> Option<String> {
        let body = chat(question, json!({"tools": tools, "tool_choice": choice, "max_tokens": 100}));
        let (status, body) = post(&served, CHAT, &body);
        assert_eq!(status, 200, "{body}");
        let call = &body["choices"][0]["message"]["tool_calls"][0]["function"]["name"];
        call.as_str().map(str::to_owned)
    };
    let function = |name: &str| json!({"type": "function", "function": {"name": name}});
    let allowed = |mode: &str, name: &str| json!({"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": [function(name)]}});
    assert_eq!(made("Weather", json!("auto")).as_deref(), Some("get_weather"));
    assert_eq!(made("Weather", json!("none")), None);
    assert!(made("Hello", json!("required")).is_some());
    assert_eq!(made("Hello", json!("auto")), None);
    assert_eq!(made("Weather", function("book")).as_deref(), Some("book"));
    assert_eq!(made("Hello", allowed("required", "book")).as_deref(), Some("book"));
    assert_eq!(made("Hello", allowed("auto", "book")), None);
    assert_eq!(made("Weather", allowed("auto", "get_weather")).as_deref(), Some("get_weather"));

    let made = |question: &str, choice: Value| -> (String, Option<String>) {
        let body = message(question, json!({"tools": anthropic_tools(), "tool_choice": choice}));
        let (status, body) = post(&served, MESSAGES, &body);
        assert_eq!(status, 200, "{body}");
        let name = body["content"][0]["name"].as_str().map(str::to_owned);
        (body["stop_reason"].as_str().unwrap().to_owned(), name)
    };
    assert_eq!(made("Hello", json!({"type": "auto"})), ("end_turn".into(), None));
    assert_eq!(made("Weather", json!({"type": "any"})).1.as_deref(), Some("get_weather"));
    assert_eq!(made("Weather", json!({"type": "tool", "name": "book"})).1.as_deref(), Some("book"));
    assert_eq!(made("Weather", json!({"type": "none"})).1, None);
}

#[test]
fn answers_are_json_beside_tools_and_without() {
    let served = served();
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}, "rain": {"type": "boolean"}},
        "required": ["city", "rain"], "additionalProperties": false});
    let format =
        json!({"type": "json_schema", "json_schema": {"name": "weather", "schema": schema, "strict": true}});
    let content = |body: Value| {
        let (status, body) = post(&served, CHAT, &body);
        assert_eq!(status, 200, "{body}");
        let text =
            body["choices"][0]["message"]["content"].as_str().unwrap_or_else(|| panic!("{body}")).to_owned();
        serde_json::from_str::<Value>(&text).unwrap_or_else(|_| panic!("{text}"))
    };
    let wanted = json!({"city": "Oslo", "rain": true});
    assert_eq!(content(chat("As JSON", json!({"response_format": format}))), wanted);
    // A brace is the answer here, not a call in some dialect.
    assert_eq!(content(chat("As JSON", json!({"response_format": format, "tools": openai_tools()}))), wanted);
    let any = json!({"response_format": {"type": "json_object"}, "max_tokens": 60});
    assert!(content(chat("Hello", any)).is_object());
    // A model that wants to say something else is held to the schema all the same.
    let held = content(chat("Hello", json!({"response_format": format, "max_tokens": 60})));
    assert!(held["city"].is_string() && held["rain"].is_boolean(), "{held}");
    // And still calls where it wants to.
    let (_, body) =
        post(&served, CHAT, &chat("Weather", json!({"response_format": format, "tools": openai_tools()})));
    assert_eq!(body["choices"][0]["finish_reason"], "tool_calls", "{body}");

    let config = json!({"output_config": {"format": {"type": "json_schema", "schema": schema}}});
    let (_, body) = post(&served, MESSAGES, &message("As JSON", config));
    assert_eq!(serde_json::from_str::<Value>(body["content"][0]["text"].as_str().unwrap()).unwrap(), wanted);
}

#[test]
fn a_value_that_no_grammar_holds_is_checked_and_the_call_comes_whole() {
    let served = served();
    let ids = json!({"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 9}, "uniqueItems": true});
    let schema = json!({"type": "object", "properties": {"ids": ids}, "required": ["ids"]});
    let tools = json!([{"type": "function", "function": {"name": "pick", "parameters": schema}}]);
    let body = chat("Ids", json!({"tools": tools}));
    let fits = |arguments: &str| {
        let value: Value = serde_json::from_str(arguments).unwrap();
        assert!(jsonschema::is_valid(&schema, &value), "{value}");
    };
    let (_, whole) = post(&served, CHAT, &body);
    fits(whole["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"].as_str().unwrap());
    let chunks = chunks(&served, body);
    let joined: String = chunks
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"].as_str())
        .collect();
    fits(&joined);
}

#[test]
fn stop_texts_and_token_limits_end_answers_and_say_so() {
    let served = served();
    let ended = |more: Value| {
        let (_, body) = post(&served, CHAT, &chat("Hello", more));
        let choice = &body["choices"][0];
        (choice["message"]["content"].as_str().unwrap().to_owned(), choice["finish_reason"].clone())
    };
    assert_eq!(ended(json!({"stop": [" How"]})), ("Hello there.".into(), json!("stop")));
    assert_eq!(ended(json!({"stop": "there"})), ("Hello".into(), json!("stop")));
    assert_eq!(ended(json!({"max_tokens": 5})), ("Hello".into(), json!("length")));
    assert_eq!(ended(json!({"max_completion_tokens": 5})), ("Hello".into(), json!("length")));

    let (_, body) = post(&served, MESSAGES, &message("Hello", json!({"stop_sequences": ["x", " How"]})));
    assert_eq!((&body["stop_reason"], &body["stop_sequence"]), (&json!("stop_sequence"), &json!(" How")));
    assert_eq!(body["content"][0]["text"], "Hello there.");
    let (_, body) = post(&served, MESSAGES, &message("Hello", json!({"max_tokens": 5})));
    assert_eq!((&body["stop_reason"], &body["content"][0]["text"]), (&json!("max_tokens"), &json!("Hello")));
}

#[test]
fn results_come_back_in_either_api_s_form() {
    let served = served();
    let assistant = json!({"role": "assistant", "content": null, "tool_calls": [
        {"id": "a", "type": "function", "function": {"name": "get_weather", "arguments": "{\"city\": \"Oslo\"}"}},
        {"id": "b", "type": "function", "function": {"name": "get_weather", "arguments": "{\"city\": \"Rome\"}"}},
    ]});
    let body = json!({"model": "scripted", "tools": openai_tools(), "messages": [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Weather?"}]},
        assistant,
        {"role": "tool", "tool_call_id": "b", "content": [{"type": "text", "text": "sun in Rome"}]},
        {"role": "tool", "tool_call_id": "a", "content": "rain in Oslo"},
    ]});
    // The results stand in the order of the calls, so the last one is Rome's; the script knows Oslo's.
    let engine = engine::Options::guided().answer_view(engine::AnswerView::Full);
    let full = start(scripted(model(), engine), None, serve::Options::default());
    let (status, body) = post(&full, CHAT, &body);
    assert_eq!(
        (status, &body["choices"][0]["message"]["content"]),
        (200, &json!("It rains in Oslo.")),
        "{body}"
    );
    drop(full);

    let use_block =
        json!({"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Atlantis"}});
    let result =
        json!({"type": "tool_result", "tool_use_id": "toolu_1", "is_error": true, "content": "no such city"});
    let history = |last: Value| {
        json!({"model": "scripted", "max_tokens": 100, "system": "Be brief.", "tools": anthropic_tools(), "messages": [
            {"role": "user", "content": "Weather?"},
            {"role": "assistant", "content": [{"type": "text", "text": "I look."}, use_block]},
            {"role": "user", "content": last},
        ]})
    };
    let text = json!({"type": "text", "text": "Weather in Oslo, then?"});
    let (status, body) = post(&served, MESSAGES, &history(json!([result, text])));
    assert_eq!((status, &body["content"][0]["text"]), (200, &json!("There is no such city.")), "{body}");
    // The other way round they are read alike, and it is said.
    let (status, body) = post(&served, MESSAGES, &history(json!([text, result])));
    assert_eq!((status, &body["content"][0]["text"]), (200, &json!("There is no such city.")), "{body}");
    assert_eq!(body["warnings"][0]["pointer"], "/messages/2/content/1", "{body}");
}

#[test]
fn a_message_streams_its_blocks_one_after_the_other() {
    let served = served();
    let body = message(
        "Both cities",
        json!({"tools": anthropic_tools(), "stream": true,
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": false}}),
    );
    let (status, _, text) = send(&served, MESSAGES, &body.to_string(), &[]);
    assert_eq!(status, 200, "{text}");
    let events: Vec<(String, Value)> =
        events(&text).into_iter().map(|(name, data)| (name, serde_json::from_str(&data).unwrap())).collect();
    assert!(events.iter().all(|(name, data)| data["type"] == **name));
    let mut names: Vec<&str> = events.iter().map(|(name, _)| name.as_str()).collect();
    names.dedup();
    let block = ["content_block_start", "content_block_delta", "content_block_stop"];
    let wanted =
        [&["message_start", "ping"], block.as_slice(), &block, &["message_delta", "message_stop"]].concat();
    assert_eq!(names, wanted);
    assert_eq!(events[0].1["message"]["role"], "assistant");
    let mut inputs = [String::new(), String::new()];
    for (_, data) in events.iter().filter(|(name, _)| name == "content_block_delta") {
        let index = data["index"].as_u64().unwrap() as usize;
        inputs[index].push_str(data["delta"]["partial_json"].as_str().unwrap());
    }
    let inputs: Vec<Value> = inputs.iter().map(|text| serde_json::from_str(text).unwrap()).collect();
    assert_eq!(inputs, [json!({"city": "Oslo"}), json!({"city": "Rome"})]);
    let end = &events[events.len() - 2].1;
    assert_eq!(
        (&end["delta"]["stop_reason"], end["usage"]["output_tokens"].as_u64().unwrap() > 40),
        (&json!("tool_use"), true)
    );

    let body = message("Hello", json!({"stream": true}));
    let (_, _, text) = send(&served, MESSAGES, &body.to_string(), &[]);
    let joined: String = self::events(&text)
        .iter()
        .filter_map(|(_, data)| {
            serde_json::from_str::<Value>(data).unwrap()["delta"]["text"].as_str().map(str::to_owned)
        })
        .collect();
    assert_eq!(joined, "Hello there. How are you?");
}

#[test]
fn what_cannot_be_used_is_named_by_its_pointer() {
    let served = served();
    let messages = |messages: Value| json!({"messages": messages});
    let user = json!({"role": "user", "content": "x"});
    let begun = json!({"role": "assistant", "content": "It is"});
    for (more, pointer) in [
        (json!({"tool_choice": "required"}), "/tool_choice"),
        // A call is required, and the only tool cannot be called.
        (json!({"tools": [{"type": "web_search"}], "tool_choice": "required"}), "/tool_choice"),
        (
            json!({"tool_choice": {"type": "function", "function": {"name": "x"}}}),
            "/tool_choice/function/name",
        ),
        (
            json!({"messages": [user, begun], "tools": openai_tools(), "tool_choice": "required"}),
            "/tool_choice",
        ),
        (json!({"temperature": 3}), "/temperature"),
        (json!({"max_tokens": -2}), "/max_tokens"),
        (json!({"n": 0}), "/n"),
        (json!({"n": 129}), "/n"),
        (json!({"logprobs": true, "top_logprobs": 21}), "/top_logprobs"),
        (json!({"logit_bias": {"1": 200}}), "/logit_bias/1"),
        (json!({"functions": [{"name": "f"}], "tools": openai_tools()}), "/functions"),
        (json!({"functions": [{"name": "f"}], "function_call": {"name": "g"}}), "/function_call/name"),
        (json!({"functions": [{"name": "f"}], "function_call": "always"}), "/function_call"),
        (json!({"function_call": "auto", "tool_choice": "auto"}), "/function_call"),
        (json!({"grammar": "root ::= missing"}), "/grammar"),
        (json!({"guided_regex": "a(?!b)"}), "/guided_regex"),
        (
            json!({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": 3}}}}),
            "/response_format/json_schema/schema/type",
        ),
        (messages(json!([])), "/messages"),
        (messages(json!([{"role": "wizard", "content": "x"}])), "/messages/0/role"),
        (messages(json!([{"role": "user", "content": 3}])), "/messages/0/content"),
        (
            messages(json!([user, {"role": "assistant", "tool_calls": [{"id": "a"}]}])),
            "/messages/1/tool_calls/0",
        ),
    ] {
        let (status, body) = post(&served, CHAT, &chat("Hello", more.clone()));
        assert_eq!(status, 400, "{more}: {body}");
        assert_eq!(body["error"]["type"], "invalid_request_error");
        let param = body["error"]["param"].as_str().unwrap_or_default();
        assert!(param.starts_with(pointer), "{more}: {body}");
        assert!(body["error"]["message"].as_str().unwrap().contains(pointer), "{more}: {body}");
    }
    let (status, body) = post(&served, CHAT, &chat(&"x".repeat(20_000), json!({})));
    assert_eq!((status, &body["error"]["code"]), (400, &json!("context_length_exceeded")), "{body}");
    let (status, body) = post(&served, MESSAGES, &message("Hello", json!({"max_tokens": -2})));
    assert!(status == 400 && body["type"] == "error", "{body}");
    assert!(body["error"]["message"].as_str().unwrap().contains("/max_tokens"), "{body}");
}

#[test]
fn an_engine_that_nothing_constrains_still_hands_its_calls_back() {
    let engine = engine::Options::guided().constraint(Constraint::None);
    let served = start(scripted(model(), engine), None, serve::Options::default());
    let chunks = chunks(&served, chat("Weather", json!({"tools": openai_tools()})));
    let finish = &chunks.last().unwrap()["choices"][0];
    assert_eq!(finish["message"]["tool_calls"][0]["function"]["arguments"], "{\"city\":\"Oslo\"}");
    let json = json!({"response_format": {"type": "json_object"}});
    assert_eq!(post(&served, CHAT, &chat("As JSON", json)).0, 400, "it cannot be held to JSON");
}

#[test]
fn only_requests_that_may_ask_are_answered() {
    let options = serve::Options::default().key(Some("secret".into())).body(4096);
    let locked = start(scripted(model(), engine::Options::guided()), None, options);
    let body = chat("Hello", json!({})).to_string();
    let status = |served: &Served, path: &str, body: &str, headers: &[(&str, &str)]| {
        let (status, _, text) = send(served, path, body, headers);
        (status, serde_json::from_str::<Value>(&text).unwrap())
    };
    let (code, error) = status(&locked, CHAT, &body, &[]);
    assert_eq!((code, &error["error"]["code"]), (401, &json!("invalid_api_key")));
    assert_eq!(status(&locked, CHAT, &body, &[("authorization", "Bearer wrong")]).0, 401);
    assert_eq!(status(&locked, CHAT, &body, &[("authorization", "Bearer secret")]).0, 200);
    let (code, error) = status(&locked, MESSAGES, &body, &[("x-api-key", "wrong")]);
    assert_eq!((code, &error["error"]["type"]), (401, &json!("authentication_error")));
    let whole = message("Hello", json!({})).to_string();
    assert_eq!(status(&locked, MESSAGES, &whole, &[("x-api-key", "secret")]).0, 200);
    assert_eq!((fetch(&locked, "/health").0, fetch(&locked, "/metrics").0), (200, 401));
    let long = chat(&"x".repeat(5000), json!({})).to_string();
    let key = ("authorization", "Bearer secret");
    assert_eq!(status(&locked, CHAT, &long, &[key]).0, 413);
    assert_eq!(status(&locked, CHAT, "{", &[key]).0, 400);
    assert_eq!(status(&locked, CHAT, "[]", &[key]).0, 400);
    assert_eq!(status(&locked, CHAT, &body, &[key, ("content-type", "text/plain")]).0, 415);
    let (code, error) = status(&locked, "/v1/nothing", &body, &[key]);
    assert!(code == 404 && error["error"]["message"].as_str().unwrap().contains(CHAT), "{error}");

    let open = served();
    assert_eq!(
        status(&open, CHAT, &body, &[("host", "evil.example:80")]).0,
        403,
        "a name that a page made up"
    );
    assert_eq!(status(&open, CHAT, &body, &[("host", "localhost:80")]).0, 200);
    assert_eq!(fetch(&open, CHAT).0, 405);
    let models: Value = serde_json::from_str(&fetch(&open, "/v1/models").1).unwrap();
    assert_eq!(
        (&models["data"][0]["id"], &models["data"][0]["object"]),
        (&json!("scripted"), &json!("model"))
    );
    assert_eq!((fetch(&open, "/v1/models/scripted").0, fetch(&open, "/v1/models/other").0), (200, 404));
    let metrics = fetch(&open, "/metrics").1;
    assert!(metrics.contains("toolgate_turns_total{finish=\"stop\"} 1\n"), "{metrics}");
    assert!(
        metrics.contains("toolgate_requests_total{route=\"/v1/chat/completions\",status=\"403\"} 1\n"),
        "{metrics}"
    );
}
