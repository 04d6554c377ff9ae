//! Calls as Gemma writes them: `call:f{key:<escape>text<escape>,n:1}`, with `<|"|>` for `<escape>` in later models.
//!
//! Invariant: where the schema of the tool is known, it says what a value is; else its spelling does.

use serde_json::{Map, Value};

use super::json::{self, Dialect, Reader};
use super::names;
use super::pythonic::identifier;
use super::repair::{Repair, RepairKind};
use super::source::Cursor;
use super::typing::{self, Schema};
use crate::model::ToolCall;
use crate::spec::ToolSpec;

const QUOTES: [&str; 2] = ["<escape>", "<|\"|>"];
const DEPTH: usize = 128;

/// Reads `{…}`, the arguments of a call.
pub(crate) fn arguments(cursor: &mut Cursor<'_, '_>) -> Option<Map<String, Value>> {
    typed_arguments(cursor, typing::parameters(None), &mut Vec::new())
}

/// Reads `{…}`, the arguments of a call whose parameters have this schema.
pub(crate) fn typed_arguments(
    cursor: &mut Cursor<'_, '_>,
    schema: Schema<'_>,
    repairs: &mut Vec<Repair>,
) -> Option<Map<String, Value>> {
    object(cursor, schema, repairs, DEPTH)
}

/// Reads `call:NAME{…}`.
pub(crate) fn call(
    cursor: &mut Cursor<'_, '_>,
    tools: &[ToolSpec],
    repairs: &mut Vec<Repair>,
) -> Option<ToolCall> {
    let mut at = *cursor;
    if !at.eat("call:") && !at.eat(":") {
        return None;
    }
    let name = identifier(&mut at)?.trim_end_matches(':');
    let schema = typing::parameters(names::tool(tools, name));
    let arguments = object(&mut at, schema, repairs, DEPTH)?;
    *cursor = at;
    Some(ToolCall::new(name, arguments))
}

fn object(
    cursor: &mut Cursor<'_, '_>,
    schema: Schema<'_>,
    repairs: &mut Vec<Repair>,
    depth: usize,
) -> Option<Map<String, Value>> {
    let depth = depth.checked_sub(1)?;
    if !cursor.eat("{") {
        return None;
    }
    let mut object = Map::new();
    loop {
        cursor.skip_blank();
        if cursor.eat("}") {
            return Some(object);
        }
        let key = key(cursor)?;
        cursor.skip_blank();
        if !cursor.eat(":") {
            if !cursor.eat("=") {
                return None;
            }
            repairs.push(Repair { kind: RepairKind::WrongSeparator, offset: cursor.place() });
        }
        let value = value(cursor, schema.member(&key), repairs, depth)?;
        object.insert(key, value);
        cursor.skip_blank();
        if !cursor.eat(",") && !cursor.sees("}") {
            return None;
        }
    }
}

fn list(
    cursor: &mut Cursor<'_, '_>,
    schema: Schema<'_>,
    repairs: &mut Vec<Repair>,
    depth: usize,
) -> Option<Vec<Value>> {
    let depth = depth.checked_sub(1)?;
    cursor.next()?;
    let mut items = Vec::new();
    loop {
        cursor.skip_blank();
        if cursor.eat("]") {
            return Some(items);
        }
        items.push(value(cursor, schema, repairs, depth)?);
        cursor.skip_blank();
        if !cursor.eat(",") && !cursor.sees("]") {
            return None;
        }
    }
}

fn key(cursor: &mut Cursor<'_, '_>) -> Option<String> {
    if let Some(quote) = cursor.eat_any(&QUOTES) {
        return quoted(cursor, quote).map(str::to_owned);
    }
    if cursor.sees("\"") {
        return json_string(cursor, &mut Vec::new());
    }
    let key = cursor.take_while(|c| !matches!(c, ':' | '=' | ',' | '{' | '}' | '[' | ']' | '<' | '\n'));
    (!key.is_empty()).then(|| key.trim().to_owned())
}

fn value(
    cursor: &mut Cursor<'_, '_>,
    schema: Schema<'_>,
    repairs: &mut Vec<Repair>,
    depth: usize,
) -> Option<Value> {
    cursor.skip_blank();
    if let Some(quote) = cursor.eat_any(&QUOTES) {
        return quoted(cursor, quote).map(|text| of_text(text, schema));
    }
    match cursor.peek()? {
        '{' => object(cursor, schema, repairs, depth).map(Value::Object),
        '[' => list(cursor, schema.item(), repairs, depth).map(Value::Array),
        '"' | '\'' => json_string(cursor, repairs).map(|text| of_text(&text, schema)),
        _ => {
            let start = cursor.place();
            let bare = cursor.take_while(|c| !matches!(c, ',' | '}' | ']' | '<'));
            // A bare word that a quote follows is cut off in the middle of something else.
            if cursor.sees("<") || bare.trim().is_empty() {
                return None;
            }
            let value = of_bare(bare.trim(), schema);
            if value.is_string() {
                repairs.push(Repair { kind: RepairKind::UnquotedString, offset: start });
            }
            Some(value)
        }
    }
}

/// What a text in quotes stands for: something else where its parameter takes no text.
fn of_text(text: &str, schema: Schema<'_>) -> Value {
    if schema.kinds().string { Value::from(text) } else { schema.value(text) }
}

/// What a bare word stands for. Null is null wherever it stands: a text of that name would have its quotes.
fn of_bare(word: &str, schema: Schema<'_>) -> Value {
    if word == "null" {
        return Value::Null;
    }
    if schema.is_known() {
        return schema.value(word);
    }
    let value = serde_json::from_str(word).ok().filter(|value| json::is_exact(value, word));
    value.unwrap_or_else(|| Value::from(word))
}

/// The text up to a closing quote: one that what ends a value follows.
fn quoted<'a>(cursor: &mut Cursor<'_, 'a>, quote: &str) -> Option<&'a str> {
    let start = cursor.place();
    loop {
        cursor.take_until(quote)?;
        let mut after = *cursor;
        after.skip_blank();
        if after.peek().is_none_or(|c| matches!(c, ',' | '}' | ']' | ':' | '=')) {
            return Some(cursor.source().slice(start, cursor.place() - quote.len()));
        }
    }
}

fn json_string(cursor: &mut Cursor<'_, '_>, repairs: &mut Vec<Repair>) -> Option<String> {
    let mut reader = Reader::new(*cursor, Dialect::Json);
    let Some(Value::String(text)) = reader.value() else { return None };
    *cursor = reader.cursor;
    repairs.append(&mut reader.repairs);
    Some(text)
}
