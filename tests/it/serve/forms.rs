//! What an answer is held to: each spelling holds, what no grammar holds is checked and written again, and nothing leaks.

use serde_json::{Value, json};
use toolgate::engine;
use toolgate::serve;

use super::*;

fn served_by(model: Scripted) -> Served {
    start(scripted(model.context(16_384), engine::Options::guided()), None, serve::Options::default())
}

fn says(text: &str) -> Scripted {
    Scripted::new(Arc::new(Vocabulary::bytes_only())).on("Say it", text)
}

/// A model that says the second in one turn where it may not say the first.
fn says_or(first: &str, second: &str) -> Served {
    served_by(Scripted::new(Arc::new(Vocabulary::bytes_only())).say(first).or_say(second))
}

fn content(served: &Served, more: Value) -> String {
    let (status, body) = post(served, CHAT, &chat("Say it", merged(json!({"max_tokens": 80}), more)));
    assert_eq!(status, 200, "{body}");
    body["choices"][0]["message"]["content"].as_str().unwrap_or_else(|| panic!("{body}")).to_owned()
}

#[test]
fn an_answer_is_held_to_whatever_form_is_asked_for() {
    let served = served_by(says("I would say: Oslo"));
    let schema = json!({"type": "object", "properties": {"zq": {"type": "boolean"}}, "required": ["zq"], "additionalProperties": false});
    for more in [
        json!({"response_format": {"type": "json_object", "schema": schema}}),
        json!({"json_schema": schema}),
        json!({"guided_json": schema}),
        json!({"structured_outputs": {"json": schema}}),
    ] {
        let text = content(&served, more.clone());
        assert!(text == "{\"zq\": true}" || text == "{\"zq\": false}", "{more}: {text}");
    }
    assert_eq!(
        content(&served, json!({"guided_choice": ["Rome", "Oslo"]})),
        "Oslo",
        "what the model says of them"
    );
    assert_eq!(content(&served, json!({"structured_outputs": {"regex": "I [a-z]{5} say"}})), "I would say");
    // Blanks that a form asks for stay.
    assert_eq!(content(&served, json!({"grammar": "root ::= \"  \" [a-zA-Z]{3} \" \""})).len(), 6);
    let streamed: String = chunks(&served, chat("Say it", json!({"guided_choice": [" Rome ", " Oslo "]})))
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str().map(str::to_owned))
        .collect();
    assert!([" Rome ", " Oslo "].contains(&streamed.as_str()), "{streamed:?}");
    let (_, body) = post(&served, MESSAGES, &message("Say it", json!({"guided_choice": ["Rome", "Oslo"]})));
    assert_eq!(body["content"][0]["text"], "Oslo");
}

#[test]
fn an_answer_that_no_grammar_holds_is_checked_and_written_again() {
    let colours = json!({"type": "object", "properties": {"colours": {"type": "array", "items": {"type": "string"}, "uniqueItems": true}},
        "required": ["colours"], "additionalProperties": false});
    let twice =
        || says_or("{\"colours\": [\"red\", \"red\", \"blue\"]}", "{\"colours\": [\"red\", \"green\"]}");
    let ask = json!({"json_schema": colours});
    let text = content(&twice(), ask.clone());
    let value: Value = serde_json::from_str(&text).unwrap();
    assert!(jsonschema::is_valid(&colours, &value), "{text}");
    // What is shown of it is what it became.
    let streamed: String = chunks(&twice(), chat("Say it", merged(ask, json!({"max_tokens": 80}))))
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(streamed, text);

    let price = json!({"type": "object", "properties": {"price": {"type": "number", "multipleOf": 0.01}}, "required": ["price"], "additionalProperties": false});
    let served = says_or("{\"price\": 1.125}", "{\"price\": 1.12}");
    assert_eq!(content(&served, json!({"json_schema": price})), "{\"price\": 1.12}");

    let look = json!({"type": "object", "properties": {"word": {"type": "string", "pattern": "^(?!no)[a-z]+$"}}, "required": ["word"], "additionalProperties": false});
    let served = says_or("{\"word\": \"none\"}", "{\"word\": \"some\"}");
    assert_eq!(content(&served, json!({"json_schema": look})), "{\"word\": \"some\"}");
}

#[test]
fn an_answer_that_fits_in_no_way_is_an_error_and_no_answer() {
    let twice = |unique: bool| json!({"json_schema": {"type": "array", "items": {"enum": [1]}, "minItems": 2, "maxItems": 2, "uniqueItems": unique}});
    let served = served_by(says("[1, 1]"));
    assert_eq!(content(&served, twice(false)), "[1, 1]", "control");
    let (status, body) = post(&served, CHAT, &chat("Say it", twice(true)));
    assert_eq!(status, 500, "{body}");
    assert!(body["error"]["message"].as_str().unwrap().contains("no answer that fits its schema"), "{body}");
    let (_, _, text) =
        send(&served, CHAT, &chat("Say it", merged(twice(true), json!({"stream": true}))).to_string(), &[]);
    assert!(
        text.contains("no answer that fits") && !text.contains("\"content\":\"["),
        "nothing of it is shown: {text}"
    );
}

#[test]
fn a_turn_that_may_not_call_shows_no_call() {
    let tools = json!({"tools": openai_tools(), "tool_choice": "none", "max_tokens": 60});
    for leak in [
        "<tool_call name=\"get_weather\"/>",
        "<tool_call name='get_weather'>{\"city\": \"Oslo\"}</tool_call>",
        "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>",
        "Sure. <function_call name=\"get_weather\">",
    ] {
        let served = served_by(says(leak));
        let (status, body) = post(&served, CHAT, &chat("Say it", tools.clone()));
        assert_eq!(status, 200, "{body}");
        let choice = &body["choices"][0];
        let text = choice["message"]["content"].as_str().unwrap_or_default();
        assert!(choice["message"]["tool_calls"].is_null(), "{body}");
        assert!(
            !["<tool_call", "<function_call", "<tools"].iter().any(|mark| text.contains(mark)),
            "{leak}: {text}"
        );
    }
    let served = served_by(says("The tool_call tag is <b>bold</b>."));
    assert_eq!(content(&served, tools), "The tool_call tag is <b>bold</b>.", "control: other markup is text");
}

/// A thousand values are held at what their grammar costs; the prompt has the first of them, whatever their number.
#[test]
fn a_long_list_of_values_does_not_make_a_long_prompt() {
    let served = served_by(says("{\"city\": \"city 700\"}"));
    let schema = |values: usize| {
        let values: Vec<String> = (0..values).map(|n| format!("city {n}")).collect();
        json!({"type": "object", "properties": {"city": {"enum": values}}, "required": ["city"], "additionalProperties": false})
    };
    let tokens = |values: usize| {
        let asked = chat("Say it", json!({"json_schema": schema(values), "max_tokens": 80}));
        let (status, body) = post(&served, CHAT, &asked);
        assert_eq!(status, 200, "{body}");
        let content = body["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
        (body["usage"]["prompt_tokens"].as_u64().unwrap(), content)
    };
    let ((some, _), (many, said)) = (tokens(100), tokens(1_000));
    assert!(many <= some + 2, "{some} {many}");
    assert_eq!(said, "{\"city\": \"city 700\"}", "one that the prompt does not show");
    let counted = |values: usize| {
        let tools = json!([{"name": "travel", "description": "d", "input_schema": schema(values)}]);
        let (_, body) = post(&served, COUNT, &chat("Say it", json!({ "tools": tools })));
        body["input_tokens"].as_u64().unwrap()
    };
    assert!(counted(1_000) <= counted(100) + 2);
}
