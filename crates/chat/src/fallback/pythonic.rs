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
        if comments(&mut at) | shows(&mut at) | comments(&mut at) {
            *cursor = at;
            at.skip_blank();
        }
    }
    (!calls.is_empty()).then_some((calls, repairs))
}

/// Steps over the lines that a program begins with before it calls anything: comments and imports. What is imported as a module
/// is returned.
pub(crate) fn preamble<'a>(cursor: &mut Cursor<'_, 'a>) -> Vec<&'a str> {
    let mut modules = Vec::new();
    loop {
        comments(cursor);
        cursor.skip_blank();
        let mut at = *cursor;
        let is_import = at.eat("import ");
        if !is_import && !at.eat("from ") {
            return modules;
        }
        let named =
            at.take_while(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | ',' | ' ' | '*' | '(' | ')'));
        at.take_while(|c| c == '\r');
        if !at.eat("\n") || !(is_import || named.contains(" import ")) {
            return modules;
        }
        if is_import {
            modules.extend(named.split(',').filter_map(|module| module.split_whitespace().next_back()));
        }
        *cursor = at;
    }
}

/// Steps over comments, each to the end of its line.
fn comments(cursor: &mut Cursor<'_, '_>) -> bool {
    let start = cursor.place();
    loop {
        let mut at = *cursor;
        at.skip_blank();
        if !at.eat("#") {
            return cursor.place() > start;
        }
        // A tag or a fence that closes the program may stand on the same line.
        at.take_while(|c| !matches!(c, '\n' | '<' | '`'));
        if !at.is_end() && !at.sees("\n") {
            return cursor.place() > start;
        }
        *cursor = at;
    }
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
