//! A server's schemas, made safe to show. Texts for readers are cleaned; names and values are not.
//!
//! Invariant: nothing in a cleaned schema can steer a terminal or hide from a reader.

use serde_json::Value;
use toolgate_sandbox::output;

use crate::Error;

/// Keywords whose texts are for readers only.
const FOR_READERS: [&str; 3] = ["description", "title", "$comment"];
/// The most bytes of one of these texts.
const TEXT_BYTES: usize = 2_000;

/// Cleans the texts for readers in `schema`.
///
/// # Errors
/// Where a name or a value holds characters that cannot be shown. A change of them would change the meaning.
pub(super) fn safe(schema: &mut Value) -> Result<(), Error> {
    match schema {
        Value::String(text) => shown(text),
        Value::Array(parts) => parts.iter_mut().try_for_each(safe),
        Value::Object(members) => members.iter_mut().try_for_each(|(name, member)| {
            shown(name)?;
            match member {
                Value::String(text) if FOR_READERS.contains(&name.as_str()) => {
                    *text = self::text(text);
                    Ok(())
                }
                member => safe(member),
            }
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

/// A text for readers, cleaned and bounded.
pub(super) fn text(text: &str) -> String {
    output::for_model(text.as_bytes(), TEXT_BYTES).text
}

fn shown(text: &str) -> Result<(), Error> {
    match output::for_terminal(text) == text {
        true => Ok(()),
        false => Err(Error::input(format!(
            "its schema has characters that cannot be shown: \"{}\"",
            output::name(text)
        ))),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;

    #[test]
    fn texts_are_cleaned_and_what_has_a_meaning_is_not_changed() {
        let mut schema = json!({"description": "a\u{1b}[2J", "properties": {
            "description": {"type": "string", "title": "b\u{202e}", "enum": ["x\ny"]}}});
        safe(&mut schema).unwrap();
        assert_eq!(
            schema,
            json!({"description": "a\\u{1b}[2J", "properties": {
                "description": {"type": "string", "title": "b\\u{202e}", "enum": ["x\ny"]}}})
        );
        for bad in [json!({"properties": {"a\u{1b}": {}}}), json!({"enum": ["a\u{202e}"]})] {
            let why = safe(&mut bad.clone()).unwrap_err().to_string();
            assert!(why.contains("cannot be shown") && !why.contains(['\u{1b}', '\u{202e}']), "{why}");
        }
    }
}
