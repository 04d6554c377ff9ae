//! Calls as Python writes them: `f(a=1, b='x')`, alone, in a list, or one a line.

use serde_json::{Map, Value};

use super::json::{Dialect, Reader};
use super::repair::Repair;
use super::source::Cursor;
use crate::model::ToolCall;

/// Statements around a call that are followed.
const DEPTH: usize = 4;

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
    while let Some(call) = call(&mut at, &mut repairs, DEPTH) {
        calls.push(call);
        *cursor = at;
        at.skip_blank();
        let _ = at.eat(",") || at.eat(";");
        at.skip_blank();
        if shows(&mut at) {
            *cursor = at;
            at.skip_blank();
        }
    }
    (!calls.is_empty()).then_some((calls, repairs))
}

/// Reads one `f(a=1)`, or `f({"a": 1})`; also where the program prints the result, or keeps it in a variable.
fn call(cursor: &mut Cursor<'_, '_>, repairs: &mut Vec<Repair>, depth: usize) -> Option<ToolCall> {
    let depth = depth.checked_sub(1)?;
    cursor.skip_blank();
    let mut inner = *cursor;
    if let Some(inner_call) = within(&mut inner, repairs, depth) {
        *cursor = inner;
        return Some(inner_call);
    }
    let name = identifier(cursor)?;
    if !cursor.eat("(") {
        return None;
    }
    let arguments = members(cursor, repairs)?;
    cursor.eat(")").then(|| ToolCall::new(name, arguments))
}

/// Steps over `print(x)`, which shows what a variable holds.
fn shows(cursor: &mut Cursor<'_, '_>) -> bool {
    let mut at = *cursor;
    let shows = at.eat("print(") && identifier(&mut at).is_some() && at.eat(")");
    if shows {
        *cursor = at;
    }
    shows
}

/// `print(f(…))`, `x = f(…)`, `await f(…)`: the call in a statement of Python that only shows or keeps what it gives.
fn within(cursor: &mut Cursor<'_, '_>, repairs: &mut Vec<Repair>, depth: usize) -> Option<ToolCall> {
    let first = identifier(cursor)?;
    if first == "print" && cursor.eat("(") {
        let call = call(cursor, repairs, depth)?;
        cursor.skip_blank();
        return cursor.eat(")").then_some(call);
    }
    if first == "await" && cursor.sees(" ") {
        return call(cursor, repairs, depth);
    }
    cursor.take_while(|c| c == ' ');
    if !cursor.eat("=") || cursor.sees("=") {
        return None;
    }
    call(cursor, repairs, depth)
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
