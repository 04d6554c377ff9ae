//! Calls as Python writes them: `f(a=1, b='x')`, alone, in a list, or one a line.

use serde_json::{Map, Value};

use super::json::{Dialect, Reader};
use super::repair::Repair;
use super::source::Cursor;
use crate::model::ToolCall;

/// Calls and what was mended in them.
pub(crate) type Calls = (Vec<ToolCall>, Vec<Repair>);

/// Reads `[f(…), g(…)]`.
pub(crate) fn list(cursor: &mut Cursor<'_, '_>) -> Option<Calls> {
    let mut at = *cursor;
    if !at.eat("[") {
        return None;
    }
    let (calls, repairs) = sequence(&mut at)?;
    at.skip_blank();
    at.eat(",");
    at.skip_blank();
    // A list that the text breaks off after a whole call is taken as it stands.
    if !at.eat("]") && !at.is_end() {
        return None;
    }
    *cursor = at;
    Some((calls, repairs))
}

/// Reads `f(…)`, and further ones after commas, semicolons or line breaks.
pub(crate) fn sequence(cursor: &mut Cursor<'_, '_>) -> Option<Calls> {
    let mut calls = Vec::new();
    let mut repairs = Vec::new();
    let mut at = *cursor;
    while let Some(call) = call(&mut at, &mut repairs) {
        calls.push(call);
        *cursor = at;
        at.skip_blank();
        let _ = at.eat(",") || at.eat(";");
        at.skip_blank();
    }
    (!calls.is_empty()).then_some((calls, repairs))
}

/// Reads one `f(a=1)`, or `f({"a": 1})`.
fn call(cursor: &mut Cursor<'_, '_>, repairs: &mut Vec<Repair>) -> Option<ToolCall> {
    cursor.skip_blank();
    let name = identifier(cursor)?;
    if !cursor.eat("(") {
        return None;
    }
    let arguments = members(cursor, repairs)?;
    cursor.eat(")").then(|| ToolCall::new(name, arguments))
}

/// Reads `a=1, b='x'` up to the closing parenthesis.
pub(crate) fn arguments(cursor: &mut Cursor<'_, '_>) -> Option<Map<String, Value>> {
    members(cursor, &mut Vec::new())
}

fn members(cursor: &mut Cursor<'_, '_>, repairs: &mut Vec<Repair>) -> Option<Map<String, Value>> {
    let mut arguments = Map::new();
    loop {
        cursor.skip_blank();
        if cursor.sees(")") {
            return Some(arguments);
        }
        let mut reader = Reader::new(*cursor, Dialect::Python);
        if arguments.is_empty() && cursor.sees("{") {
            let Some(Value::Object(all)) = reader.value() else { return None };
            arguments = all;
        } else {
            let key = identifier(&mut reader.cursor)?;
            reader.cursor.skip_blank();
            if !reader.cursor.eat("=") {
                return None;
            }
            arguments.insert(key.to_owned(), reader.value()?);
        }
        if reader.was_cut() {
            return None;
        }
        repairs.append(&mut reader.repairs);
        *cursor = reader.cursor;
        cursor.skip_blank();
        if !cursor.eat(",") && !cursor.sees(")") {
            return None;
        }
    }
}

/// A name with dots and dashes, as tools have them.
pub(crate) fn identifier<'a>(cursor: &mut Cursor<'_, 'a>) -> Option<&'a str> {
    let start = cursor.peek()?;
    if !(start.is_alphabetic() || start == '_') {
        return None;
    }
    Some(cursor.take_while(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | '-' | ':' | '/')))
}
