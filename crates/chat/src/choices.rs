//! The keyword `x-toolgate-choices`: which texts a parameter may be, as the state at hand leaves them. Registered with the
//! schema compiler here; families of bare text ask for it by themselves.
//!
//! Invariant: a value that is none of the keyword's is an error at its place, never passed over.

use serde_json::{Map, Value};
use toolgate_grammar::schema::{Extension, SchemaOptions, Texts};
use toolgate_grammar::{Error, Schema};

/// The keyword.
pub(crate) const CHOICES: &str = "x-toolgate-choices";

/// Reads a schema as tools mean it: JSON Schema, and the keyword `x-toolgate-choices`, which says what texts a string may
/// be: `{"texts": […], "beginnings": […]}` or the pieces that occur once in a text, `{"once_in": "…"}`.
///
/// ```
/// use serde_json::json;
/// use toolgate_grammar::{self as grammar, compile};
/// let path = json!({"type": "string", "x-toolgate-choices": {"texts": ["a.txt"], "beginnings": ["new/"]}});
/// let compiled = compile(&toolgate_chat::read_schema(&path)?, &grammar::Options::default())?;
/// assert!(compiled.accepts("\"a.txt\"")? && compiled.accepts("\"new/b\"")? && !compiled.accepts("\"b\"")?);
/// # Ok::<(), toolgate_grammar::Error>(())
/// ```
///
/// # Errors
/// As [`Schema::parse`].
pub fn read_schema(schema: &Value) -> Result<Schema, Error> {
    let extensions = vec![Extension { keyword: CHOICES, read }];
    Schema::parse_with(schema, &SchemaOptions::default().extensions(extensions))
}

/// Reads the keyword's value.
pub(crate) fn read(value: &Value) -> Result<Texts<'_>, &'static str> {
    let map = value.as_object().ok_or("choices are an object")?;
    if map.keys().any(|key| !matches!(key.as_str(), "texts" | "beginnings" | "once_in")) {
        return Err("choices are given by texts, beginnings or once_in");
    }
    match map.get("once_in") {
        None => Ok(Texts::Among { texts: list(map, "texts")?, beginnings: list(map, "beginnings")? }),
        Some(Value::String(text)) if map.len() == 1 => Ok(Texts::OnceIn(text)),
        Some(_) => Err("once_in is a text, and stands alone"),
    }
}

fn list<'v>(map: &'v Map<String, Value>, key: &str) -> Result<Vec<&'v str>, &'static str> {
    let texts = match map.get(key) {
        None => Some(Vec::new()),
        Some(list) => list.as_array().and_then(|list| list.iter().map(Value::as_str).collect()),
    };
    texts.ok_or("texts and beginnings are lists of texts")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;
    use toolgate_grammar::Kind;

    use super::*;

    #[test]
    fn lists_and_pieces_are_read_and_anything_else_is_an_error_at_its_place() {
        for value in [json!({"texts": ["a"]}), json!({"beginnings": []}), json!({}), json!({"once_in": "a"})]
        {
            assert!(read(&value).is_ok(), "{value}");
        }
        for value in [
            json!([]),
            json!({"text": []}),
            json!({"texts": [1]}),
            json!({"texts": "a"}),
            json!({"once_in": "a", "texts": []}),
            json!({"once_in": 1}),
        ] {
            let error = read_schema(&json!({"properties": {"p": {CHOICES: value}}})).unwrap_err();
            assert_eq!(error.kind(), Kind::InvalidSchema, "{error}");
            assert!(error.to_string().ends_with(" at /properties/p/x-toolgate-choices"), "{error}");
        }
    }
}
