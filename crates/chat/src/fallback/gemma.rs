//! Calls as Gemma writes them: `call:f{key:<escape>text<escape>,n:1}`, with `<|"|>` for `<escape>` in later models.

use serde_json::{Map, Value};

use super::json::{self, Dialect, Reader};
use super::pythonic::identifier;
use super::repair::{Repair, RepairKind};
use super::source::Cursor;
use crate::model::ToolCall;

const QUOTES: [&str; 2] = ["<escape>", "<|\"|>"];
const DEPTH: usize = 128;

/// Reads `{…}`, the arguments of a call.
pub(crate) fn arguments(cursor: &mut Cursor<'_, '_>) -> Option<Map<String, Value>> {
    object(cursor, &mut Vec::new(), DEPTH)
}

/// Reads `call:NAME{…}`.
pub(crate) fn call(cursor: &mut Cursor<'_, '_>, repairs: &mut Vec<Repair>) -> Option<ToolCall> {
    let mut at = *cursor;
    if !at.eat("call:") && !at.eat(":") {
        return None;
    }
    let name = identifier(&mut at)?.trim_end_matches(':');
    let arguments = object(&mut at, repairs, DEPTH)?;
    *cursor = at;
    Some(ToolCall::new(name, arguments))
}

fn object(
    cursor: &mut Cursor<'_, '_>,
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
        object.insert(key, value(cursor, repairs, depth)?);
        cursor.skip_blank();
        if !cursor.eat(",") && !cursor.sees("}") {
            return None;
        }
    }
}

fn list(cursor: &mut Cursor<'_, '_>, repairs: &mut Vec<Repair>, depth: usize) -> Option<Vec<Value>> {
    let depth = depth.checked_sub(1)?;
    cursor.next()?;
    let mut items = Vec::new();
    loop {
        cursor.skip_blank();
        if cursor.eat("]") {
            return Some(items);
        }
        items.push(value(cursor, repairs, depth)?);
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

fn value(cursor: &mut Cursor<'_, '_>, repairs: &mut Vec<Repair>, depth: usize) -> Option<Value> {
    cursor.skip_blank();
    if let Some(quote) = cursor.eat_any(&QUOTES) {
        return quoted(cursor, quote).map(Value::from);
    }
    match cursor.peek()? {
        '{' => object(cursor, repairs, depth).map(Value::Object),
        '[' => list(cursor, repairs, depth).map(Value::Array),
        '"' | '\'' => json_string(cursor, repairs).map(Value::from),
        _ => {
            let start = cursor.place();
            let bare = cursor.take_while(|c| !matches!(c, ',' | '}' | ']' | '<'));
            // A bare word that a quote follows is cut off in the middle of something else.
            if cursor.sees("<") || bare.trim().is_empty() {
                return None;
            }
            let value =
                serde_json::from_str(bare.trim()).ok().filter(|value| json::is_exact(value, bare.trim()));
            Some(value.unwrap_or_else(|| {
                repairs.push(Repair { kind: RepairKind::UnquotedString, offset: start });
                Value::from(bare.trim())
            }))
        }
    }
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
