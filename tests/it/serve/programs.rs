//! What programs that speak the APIs send and expect beyond their reference: each was seen in one of them.

use std::sync::Arc;

use serde_json::{Value, json};
use toolgate::engine;
use toolgate::serve;
use toolgate_infer::scripted::Scripted;
use toolgate_infer::{Footprint, Vocabulary};

use super::*;

/// Programs run whatever is whole, be it said to be cut off or not.
#[test]
fn a_call_that_was_cut_off_is_not_given_out_whole() {
    let city = "Llanfairpwllgwyngyll ".repeat(8);
    let long = call("get_weather", &format!("{{\"city\": \"{city}\"}}"));
    let model = Scripted::new(Arc::new(Vocabulary::bytes_only())).context(16_384).on("Weather", long);
    let served = start(scripted(model, engine::Options::guided()), None, serve::Options::default());
    let body = |most: usize| chat("Weather", json!({"tools": openai_tools(), "max_tokens": most}));

    let (_, whole) = post(&served, CHAT, &body(400));
    assert_eq!(whole["choices"][0]["message"]["tool_calls"].as_array().unwrap().len(), 1, "control: {whole}");
    let (_, cut) = post(&served, CHAT, &body(110));
    let choice = &cut["choices"][0];
    assert_eq!(choice["finish_reason"], "length");
    assert!(choice["message"].get("tool_calls").is_none(), "{cut}");

    let pieces = |most: usize| {
        let chunks = chunks(&served, body(most));
        let calls = chunks.iter().map(|chunk| &chunk["choices"][0]["delta"]["tool_calls"][0]["function"]);
        let told: String = calls.filter_map(|function| function["arguments"].as_str()).collect();
        (told, chunks.last().unwrap()["choices"][0].clone())
    };
    let (told, last) = pieces(400);
    assert_eq!(serde_json::from_str::<Value>(&told).unwrap(), json!({"city": city}), "control");
    assert_eq!(last["message"]["tool_calls"].as_array().unwrap().len(), 1);
    let (told, last) = pieces(110);
    assert!(
        told.starts_with("{\"city\": \"Llanfair") && serde_json::from_str::<Value>(&told).is_err(),
        "{told}"
    );
    assert!(last["finish_reason"] == "length" && last["message"].get("tool_calls").is_none(), "{last}");

    let (_, _, text) = send(
        &served,
        MESSAGES,
        &message("Weather", json!({"tools": anthropic_tools(), "max_tokens": 110, "stream": true}))
            .to_string(),
        &[],
    );
    let events: Vec<String> = events(&text).into_iter().map(|(name, _)| name).collect();
    let [.., stop, delta, end] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!([stop, delta, end], ["content_block_stop", "message_delta", "message_stop"]);
}

/// A screenshot that a tool took would have the whole conversation refused from then on.
#[test]
fn a_part_that_is_no_text_is_noted_whoever_sent_it() {
    let full = engine::Options::guided().answer_view(engine::AnswerView::Full);
    let served = start(scripted(model(), full), None, serve::Options::default());
    let image = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}});
    let body = |content: Value, result: Value| {
        message(
            "",
            json!({"messages": [
            {"role": "user", "content": content},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "get_weather", "input": {"city": "Oslo"}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": result}]},
        ], "tools": anthropic_tools()}),
        )
    };
    let result = json!([image, {"type": "text", "text": "rain in Oslo"}]);
    let (status, answered) = post(&served, MESSAGES, &body(json!("Weather"), result));
    assert_eq!(status, 200, "{answered}");
    assert_eq!(answered["content"][0]["text"], "It rains in Oslo.");
    let (status, answered) = post(&served, MESSAGES, &body(json!([image]), json!("rain in Oslo")));
    assert_eq!((status, &answered["warnings"][0]["pointer"]), (200, &json!("/messages/0/content/0")));

    let image = json!({"type": "image_url", "image_url": {"url": "data:"}});
    let made = json!({"id": "a", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}});
    let (status, answered) = post(
        &served,
        CHAT,
        &chat(
            "",
            json!({"messages": [
        {"role": "user", "content": "Weather"},
        {"role": "assistant", "tool_calls": [made]},
        {"role": "tool", "tool_call_id": "a", "content": [image, {"type": "text", "text": "rain in Oslo"}]},
    ], "tools": openai_tools()}),
        ),
    );
    assert_eq!((status, &answered["choices"][0]["message"]["content"]), (200, &json!("It rains in Oslo.")));
}

/// Claude Code puts a text in front that is another with each request.
#[test]
fn what_is_there_for_accounts_is_not_in_the_prompt() {
    let served = served();
    let tokens = |system: Value| {
        post(&served, COUNT, &chat("Hello", json!({"system": system}))).1["input_tokens"].as_u64().unwrap()
    };
    let text = |text: &str| json!({"type": "text", "text": text});
    let header = text("x-anthropic-billing-header: cc_version=2.1; cch=fa690;");
    assert_eq!(tokens(json!([header, text("Be brief.")])), tokens(json!("Be brief.")));
    assert_eq!(tokens(json!([header])), tokens(json!([])));
}

/// Claude Code, Zed and goose shorten a conversation when they read these words.
#[test]
fn a_prompt_that_is_too_long_is_said_to_be_so_in_the_words_that_programs_know() {
    let served = served();
    let (status, error) = post(&served, MESSAGES, &message(&"x".repeat(20_000), json!({})));
    assert_eq!((status, &error["error"]["type"]), (400, &json!("invalid_request_error")));
    let words = error["error"]["message"].as_str().unwrap();
    let (front, rest) = words.split_once(" tokens > ").unwrap();
    assert!(
        front.strip_prefix("prompt is too long: ").unwrap().parse::<usize>().unwrap() > 20_000,
        "{words}"
    );
    assert_eq!(rest.split_once(" maximum").unwrap().0, "16128", "{words}");
}

/// An agent's prompt against a context that is too short: each API says which one would do, and what it takes.
#[test]
fn a_prompt_that_is_too_long_names_the_context_that_takes_it() {
    let footprint = |trained| Footprint { token_bytes: Some(24 << 10), trained: Some(trained) };
    let serving = |trained| {
        let model = model().context(4_096).taking(footprint(trained));
        start(scripted(model, engine::Options::guided()), None, serve::Options::default())
    };
    let words = |served: &Served, path: &str| {
        let body = match path {
            RESPONSES => json!({"model": "scripted", "input": "x".repeat(18_000)}),
            _ => message(&"x".repeat(18_000), json!({})),
        };
        let (status, error) = post(served, path, &body);
        assert_eq!(status, 400, "{error}");
        error["error"].clone()
    };
    let served = serving(32_768);
    for path in [CHAT, MESSAGES, RESPONSES] {
        let error = words(&served, path);
        let told = error["message"].as_str().unwrap();
        assert!(told.starts_with("prompt is too long: 18"), "{told}");
        assert!(told.contains(" tokens > 3840 maximum (a context of 4096 tokens"), "{told}");
        let (_, option) = told.split_once("--context ").unwrap();
        let (tokens, rest) = option.split_once(' ').unwrap();
        let tokens: usize = tokens.parse().unwrap();
        assert!((18_256..20_480).contains(&tokens) && tokens.is_multiple_of(1_024), "{told}");
        let mib = tokens * 24 / 1_024;
        assert!(rest.starts_with(&format!("(keys and values then take {mib} MiB)")), "{told}");
        assert_eq!(error["type"], "invalid_request_error", "{path}");
        if path != MESSAGES {
            assert_eq!(error["code"], "context_length_exceeded", "{path}");
        }
    }
    let error = words(&serving(8_192), CHAT);
    let told = error["message"].as_str().unwrap();
    assert!(told.contains("the model was trained for 8192 tokens") && !told.contains("--context"), "{told}");
}

/// Claude Code names the tools of plug-ins so.
#[test]
fn names_of_tools_may_be_as_long_as_the_anthropic_api_takes_them() {
    let served = served();
    let body = |length: usize| {
        let tool = json!({"name": "m".repeat(length), "input_schema": {"type": "object"}});
        message("Hello", json!({"tools": [tool]}))
    };
    for length in [128, 129, 1_000] {
        let (status, answered) = post(&served, MESSAGES, &body(length));
        assert_eq!(
            (status, &answered["warnings"]),
            (200, &Value::Null),
            "longer ones have another name for the model"
        );
    }
}

/// Open WebUI asks from the page itself.
#[test]
fn a_page_may_ask_with_the_key_and_not_without_one() {
    let options = serve::Options::default().key(Some("secret".into()));
    let locked = start(scripted(model(), engine::Options::guided()), None, options);
    let open = served();
    let ask = |served: &Served, method: &str, key: &str| {
        let request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("{}{CHAT}", served.base))
            .header("origin", "https://chat.example")
            .header("content-type", "application/json")
            .header("authorization", key)
            .body(chat("Hello", json!({})).to_string())
            .unwrap();
        let response = agent_for(Duration::from_secs(60)).run(request).unwrap();
        let header =
            |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        let headers = ["access-control-allow-origin", "access-control-allow-headers"].map(header);
        (response.status().as_u16(), headers)
    };
    let (status, [origin, headers]) = ask(&locked, "OPTIONS", "");
    assert_eq!((status, origin.as_deref()), (204, Some("*")));
    assert!(headers.unwrap().contains("Authorization"));
    let (status, [origin, _]) = ask(&locked, "POST", "Bearer secret");
    assert_eq!((status, origin.as_deref()), (200, Some("*")));
    assert_eq!(ask(&locked, "POST", "Bearer guess").0, 401);
    let (status, [origin, _]) = ask(&open, "OPTIONS", "");
    assert!(status == 405 && origin.is_none(), "without a key no page is let in");
}
