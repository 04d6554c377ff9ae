//! Refusals of servers: their words, and the kind of our error.

use serde_json::Value;

use crate::{Error, Kind};

/// The most characters of a server's words in a message.
const SHOWN: usize = 400;

/// The error of an answer whose status is no success.
pub(super) fn refusal(url: &str, status: u16, body: &[u8]) -> Error {
    let told: Value = serde_json::from_slice(body).unwrap_or_default();
    let hint = match status {
        401 | 403 => "; set TOOLGATE_ENGINE_KEY to a key that it takes",
        404 => "; is this the address of an OpenAI-compatible server, and the name of one of its models?",
        429 => "; it has too much to do, ask again later",
        _ => "",
    };
    let words = words(told.get("error").unwrap_or(&told), || String::from_utf8_lossy(body).into_owned());
    Error::new(kind(&told, &words), format!("{url} answers with status {status}: {words}{hint}"))
}

/// The error in an event of a stream.
pub(super) fn failure(url: &str, error: &Value) -> Error {
    let words = words(error, || error.to_string());
    Error::new(kind(error, &words), format!("{url} ended its answer with an error: {words}"))
}

/// The text of an error: the error itself, or its `message`.
pub(super) fn message(error: &Value) -> Option<&str> {
    error.as_str().or_else(|| error.get("message")?.as_str())
}

/// A server's words in one short line.
fn words(error: &Value, otherwise: impl FnOnce() -> String) -> String {
    let text = message(error).map_or_else(otherwise, str::to_owned);
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line,
    }
}

/// The words of llama-server, OpenAI and vLLM for a prompt that is too long. Each server has its own.
fn kind(told: &Value, words: &str) -> Kind {
    let error = told.get("error").unwrap_or(told);
    let named = |field: &str| error.get(field).and_then(Value::as_str).unwrap_or_default();
    let too_long = ["exceed_context_size_error", "context_length_exceeded"];
    let words = words.to_ascii_lowercase();
    let says = ["maximum context length", "exceeds the available context size", "context window"];
    if too_long.contains(&named("type"))
        || too_long.contains(&named("code"))
        || says.iter().any(|said| words.contains(said))
    {
        return Kind::Overflow;
    }
    Kind::Engine
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_that_are_too_long_are_told_from_other_refusals() {
        for (body, kind) in [
            (r#"{"error":{"code":400,"message":"x","type":"exceed_context_size_error"}}"#, Kind::Overflow),
            (r#"{"error":{"message":"x","code":"context_length_exceeded"}}"#, Kind::Overflow),
            (
                r#"{"object":"error","message":"This model's maximum context length is 10 tokens."}"#,
                Kind::Overflow,
            ),
            (r#"{"error":{"message":"failed to parse grammar"}}"#, Kind::Engine),
            ("no JSON", Kind::Engine),
            ("", Kind::Engine),
        ] {
            assert_eq!(refusal("u", 400, body.as_bytes()).kind(), kind, "{body}");
        }
        let long = format!(r#"{{"error":"{}\n"}}"#, "é ".repeat(4_000));
        assert!(refusal("u", 500, long.as_bytes()).to_string().chars().count() < SHOWN + 100);
    }
}
