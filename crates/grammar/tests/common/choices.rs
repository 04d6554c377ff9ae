//! A keyword as a host registers one: lists of texts and beginnings, or the pieces of a text.

use serde_json::Value;
use toolgate_grammar::schema::{Extension, SchemaOptions, Texts};
use toolgate_grammar::{Error, Schema};

/// Reads a schema that may say `x-choices`.
pub(crate) fn schema(document: &Value) -> Result<Schema, Error> {
    let extensions = vec![Extension { keyword: "x-choices", read }];
    Schema::parse_with(document, &SchemaOptions::default().extensions(extensions))
}

/// Reads `{"texts": […], "beginnings": […]}` or `{"once_in": "…"}`.
pub(crate) fn read(value: &Value) -> Result<Texts<'_>, &'static str> {
    if let Some(text) = value.get("once_in").and_then(Value::as_str) {
        return Ok(Texts::OnceIn(text));
    }
    let list = |name: &str| match value.get(name) {
        None => Some(Vec::new()),
        Some(list) => list.as_array()?.iter().map(Value::as_str).collect(),
    };
    let lists = value.is_object().then(|| Some((list("texts")?, list("beginnings")?))).flatten();
    lists.map(|(texts, beginnings)| Texts::Among { texts, beginnings }).ok_or("choices are lists of texts")
}
