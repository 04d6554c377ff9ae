//! Rows of corpora that lie outside of this repository, and the validator that instances are held to.

use serde_json::Value;
use toolgate_grammar::schema::{Draft, Formats};

/// The rows of the corpus that a variable names, those with a certain id only if `TOOLGATE_ONLY` says so.
pub(crate) fn rows(variable: &str) -> Option<Vec<Value>> {
    let path = crate::skip::corpus(variable, "a corpus as JSON lines")?;
    let only = std::env::var("TOOLGATE_ONLY").ok();
    let rows = std::fs::read_to_string(path).unwrap();
    let rows = rows.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    Some(rows.filter(|row| only.as_ref().is_none_or(|only| id(row).contains(only.as_str()))).collect())
}

pub(crate) fn id(row: &Value) -> &str {
    row["id"].as_str().unwrap()
}

pub(crate) fn list<'r>(row: &'r Value, name: &str) -> &'r [Value] {
    row[name].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// An independent validator, of the given draft where the document names none.
pub(crate) fn validator(document: &Value, draft: Draft, formats: Formats) -> Option<jsonschema::Validator> {
    let draft = match draft {
        Draft::Seven => jsonschema::Draft::Draft7,
        _ => jsonschema::Draft::Draft202012,
    };
    // A draft set here would go before the one that the document names.
    let named = document.get("$schema").is_some();
    let options = jsonschema::options().should_validate_formats(formats == Formats::Asserted);
    let options = if named { options } else { options.with_draft(draft) };
    options.build(document).ok()
}
