//! Fields of requests that a server refuses. After the first refusal, requests leave them out or use the name that the server
//! wants.
//!
//! Why: OpenAI's reasoning models refuse `max_tokens` and a caller's temperature. Other servers refuse fields that OpenAI does
//! not have. No server reports that before.
//!
//! Invariant: requests leave out only fields that a turn can do without. A request refused for another reason is not changed.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Mutex;

use serde_json::Value;

use super::answers;
use toolgate_chat::names::holds_word;
use toolgate_engine::stages::lock;

/// What turns can do without: how tokens are drawn, how much the model thinks, what is asked of the answer's form, and that an answer
/// goes on: of a server which does not say that it takes those, its callers are told that it may not.
const SPARE: [&str; 16] = [
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "seed",
    "frequency_penalty",
    "presence_penalty",
    "repeat_penalty",
    "logit_bias",
    "parallel_tool_calls",
    "stream_options",
    "continue_final_message",
    "add_generation_prompt",
    "reasoning_effort",
    "chat_template_kwargs",
    "thinking_budget_tokens",
];
/// The same of messages: what the model thought in turns before.
const SPARE_OF_MESSAGES: [&str; 2] = ["reasoning_content", "reasoning"];
/// The field that bounds a turn, and its later name.
const BOUND: [&str; 2] = ["max_tokens", "max_completion_tokens"];
/// Words of servers that do not take a field.
const SAYS_SO: [&str; 8] = [
    "unsupported",
    "not supported",
    "does not support",
    "not permitted",
    "unknown",
    "unrecognized",
    "extra_forbidden",
    "please remove",
];

/// The fields that a server has refused.
#[derive(Debug, Default)]
pub(super) struct Fields(Mutex<BTreeSet<&'static str>>);

impl Fields {
    /// A request's body in the form that the server takes.
    pub(super) fn suited<'a>(&self, body: &'a Value) -> Cow<'a, Value> {
        let refused = lock(&self.0);
        if refused.is_empty() {
            return Cow::Borrowed(body);
        }
        let mut body = body.clone();
        if let Some(fields) = body.as_object_mut() {
            for &field in refused.iter() {
                if SPARE_OF_MESSAGES.contains(&field) {
                    let messages = fields.get_mut("messages").and_then(Value::as_array_mut);
                    let messages = messages.into_iter().flatten().filter_map(Value::as_object_mut);
                    messages.for_each(|message| drop(message.shift_remove(field)));
                    continue;
                }
                let value = fields.shift_remove(field);
                if let (true, Some(most)) = (field == BOUND[0], value) {
                    fields.insert(BOUND[1].to_owned(), most);
                }
            }
        }
        Cow::Owned(body)
    }

    /// Finds the refused field of a body in the server's words. Returns whether there is another body to try.
    pub(super) fn learn(&self, body: &Value, status: u16, answer: &[u8]) -> bool {
        if !matches!(status, 400 | 422) {
            return false;
        }
        let told: Value = serde_json::from_slice(answer).unwrap_or_default();
        let sentences: Vec<String> = sentences(&told)
            .into_iter()
            .filter(|sentence| SAYS_SO.iter().any(|said| sentence.contains(said)))
            .collect();
        let is_named = |field: &str| match told.pointer("/error/param").and_then(Value::as_str) {
            Some(named) => names(named, field) && !sentences.is_empty(),
            None => sentences.iter().any(|sentence| holds_word(sentence, field)),
        };
        let known = SPARE.into_iter().chain([BOUND[0]]).filter(|field| body.get(field).is_some());
        let messages = body.get("messages").and_then(Value::as_array);
        let is_told =
            |field: &&str| messages.into_iter().flatten().any(|message| message.get(field).is_some());
        let known = known.chain(SPARE_OF_MESSAGES.into_iter().filter(is_told));
        match known.into_iter().find(|field| is_named(field)) {
            // Another turn may have learned it meanwhile; the sent body had the field all the same.
            Some(field) => {
                lock(&self.0).insert(field);
                true
            }
            None => false,
        }
    }
}

/// Whether a place that a server names is this field, or a message's field of this name.
fn names(place: &str, field: &str) -> bool {
    place == field || (SPARE_OF_MESSAGES.contains(&field) && place.ends_with(&format!(".{field}")))
}

/// The sentences of a server's refusal, in lower case, without its copy of the request.
fn sentences(told: &Value) -> Vec<String> {
    let error = told.get("error").unwrap_or(told);
    let message = answers::message(error).unwrap_or_default();
    let mut sentences: Vec<String> = message.split(['.', '\n']).map(str::to_lowercase).collect();
    // FastAPI reports the faults of a body so: a place and a message each.
    for fault in told.get("detail").and_then(Value::as_array).into_iter().flatten() {
        let part = |name: &str| fault.get(name).map(Value::to_string).unwrap_or_default();
        sentences.push([part("type"), part("loc"), part("msg")].join(" ").to_lowercase());
    }
    sentences
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_that_is_refused_is_left_out_or_renamed() {
        let body =
            json!({"model": "o4-mini", "messages": [], "max_tokens": 9, "temperature": 0.0, "seed": 7});
        for (answer, left) in [
            (
                json!({"error": {
                    "message": "Unsupported parameter: 'max_tokens' is not supported with this model. \
                                Use 'max_completion_tokens' instead.",
                    "type": "invalid_request_error", "param": "max_tokens", "code": "unsupported_parameter"}}),
                json!({"model": "o4-mini", "messages": [], "max_completion_tokens": 9, "temperature": 0.0, "seed": 7}),
            ),
            (
                json!({"error": {"message": "Unsupported value: 'temperature' does not support 0 with this model.",
                    "param": "temperature", "code": "unsupported_value"}}),
                json!({"model": "o4-mini", "messages": [], "max_tokens": 9, "seed": 7}),
            ),
            (
                json!({"detail": [{"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}]}),
                json!({"model": "o4-mini", "messages": [], "max_tokens": 9, "temperature": 0.0}),
            ),
        ] {
            let fields = Fields::default();
            let answer = answer.to_string();
            assert!(fields.learn(&body, 400, answer.as_bytes()), "{answer}");
            assert_eq!(*fields.suited(&body), left);
            assert!(!fields.learn(&fields.suited(&body), 400, answer.as_bytes()), "it is told once");
            assert!(
                fields.learn(&body, 400, answer.as_bytes()),
                "another turn sent it before that was known"
            );
        }
    }

    #[test]
    fn thoughts_are_left_out_of_the_messages_where_they_are_refused() {
        let thought = |field: &str| json!({"role": "assistant", "content": "So.", field: "Hm."});
        let plain = json!({"role": "assistant", "content": "So."});
        for (field, answer) in [
            (
                "reasoning_content",
                json!({"error": {"message": "The reasoning_content is an intermediate result for display purposes only. \
                    Please remove the reasoning_content from your message to reduce network traffic"}}),
            ),
            (
                "reasoning_content",
                json!({"detail": [{"type": "extra_forbidden", "loc": ["body", "messages", 1, "assistant", "reasoning_content"],
                    "msg": "Extra inputs are not permitted"}]}),
            ),
            (
                "reasoning",
                json!({"error": {"message": "Unknown parameter: 'messages[1].reasoning'", "param": "messages[1].reasoning"}}),
            ),
        ] {
            let body = json!({"messages": [{"role": "user", "content": "reasoning"}, thought(field)]});
            let fields = Fields::default();
            assert!(fields.learn(&body, 400, answer.to_string().as_bytes()), "{answer}");
            let suited = fields.suited(&body).into_owned();
            assert_eq!(suited, json!({"messages": [{"role": "user", "content": "reasoning"}, plain]}));
            assert!(
                !fields.learn(&suited, 400, answer.to_string().as_bytes()),
                "there is nothing more to leave out"
            );
        }
        let body = json!({"messages": [], "reasoning_effort": "none", "chat_template_kwargs": {}});
        let fields = Fields::default();
        for (answer, left) in [
            (
                json!({"error": {"message": "Unrecognized request argument supplied: chat_template_kwargs"}}),
                json!({"messages": [], "reasoning_effort": "none"}),
            ),
            (
                json!({"error": {"message": "Unsupported value: 'reasoning_effort' does not support 'none' with this model.",
                    "param": "reasoning_effort"}}),
                json!({"messages": []}),
            ),
        ] {
            assert!(fields.learn(&fields.suited(&body), 400, answer.to_string().as_bytes()), "{answer}");
            assert_eq!(*fields.suited(&body), left);
        }
    }

    #[test]
    fn other_refusals_change_nothing() {
        let body = json!({"messages": [], "max_tokens": 9_000_000, "tools": []});
        let fields = Fields::default();
        for (status, answer) in [
            (
                400,
                r#"{"error": {"message": "max_tokens is too large", "param": "max_tokens", "code": "invalid_value"}}"#,
            ),
            (400, r#"{"error": {"message": "Unsupported value: 'tools'", "param": "tools"}}"#),
            (400, r#"{"error": {"message": "unknown model", "param": "model"}}"#),
            (500, r#"{"error": {"message": "max_tokens is not supported"}}"#),
            (
                400,
                r#"{"error": {"message": "unknown tool. Do not set max_tokens above 9"}, "body": "unsupported max_tokens"}"#,
            ),
            (400, "not JSON"),
        ] {
            assert!(!fields.learn(&body, status, answer.as_bytes()), "{answer}");
        }
        assert_eq!(*fields.suited(&body), body);
    }
}
