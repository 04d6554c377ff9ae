//! Calls without a wrapper: JSON as the whole text or within it, lists, and names before their arguments.

use serde_json::Map;

use super::calls::{self, Known};
use super::json::{Dialect, Reader};
use super::names;
use super::payload;
use super::scan::{Found, Item};
use super::source::{Cursor, Source};
use super::{Pattern, Span};
use super::{gemma, kimi, pythonic, xml};
use crate::model::ToolCall;
use crate::spec::ToolSpec;

/// An object of JSON that is a call; one that is not is passed over whole.
pub(crate) fn object(cursor: Cursor<'_, '_>, tools: &[ToolSpec]) -> Found {
    let mut inside = cursor;
    inside.next();
    inside.skip_blank();
    // Two braces are one that a template doubled; more of them are no object.
    let opens = |c| matches!(c, '"' | '\'' | '/' | '{') || c.is_alphabetic();
    if !inside.peek().is_some_and(opens) || inside.sees("{{") {
        return Found::Text;
    }
    json(cursor, tools)
}

/// A list of calls in JSON or Python.
pub(crate) fn list(cursor: Cursor<'_, '_>, tools: &[ToolSpec]) -> Found {
    let mut inside = cursor;
    inside.next();
    inside.skip_blank();
    match inside.peek() {
        // What a list of other things holds is no call either.
        Some('{' | '"' | '-' | '0'..='9') => json(cursor, tools),
        Some(c) if c.is_alphabetic() || c == '_' => python(cursor),
        _ => Found::Text,
    }
}

fn json(cursor: Cursor<'_, '_>, tools: &[ToolSpec]) -> Found {
    let mut reader = Reader::new(cursor, Dialect::Json);
    let Some(value) = reader.value() else { return Found::Text };
    let end = reader.cursor;
    if reader.was_cut() && !end.is_end() {
        return Found::Text;
    }
    let Some(calls) = calls::calls_of(value, Known { tools, is_marked: false }) else {
        return if reader.repairs.is_empty() { Found::Skip(end.place()) } else { Found::Text };
    };
    let mut after = end;
    after.skip_blank();
    let stands_alone = cursor.source().slice(0, cursor.place()).trim_end().is_empty() && after.is_end();
    // A separator between two calls belongs to them.
    let mut next = after;
    if next.eat(";") || next.eat(",") {
        next.skip_blank();
    }
    let end = if next.place() > after.place() && next.sees("{") { next } else { end };
    let pattern = if stands_alone { Pattern::Json } else { Pattern::JsonInText };
    let span = Span { start: cursor.place(), end: end.place() };
    Found::Item(Item::calls(span, calls, Some(pattern), reader.repairs))
}

/// `[f(a=1)]` on a line of its own: in prose such brackets are links and notes.
fn python(cursor: Cursor<'_, '_>) -> Found {
    let before = cursor.source().slice(0, cursor.place());
    if !cursor.begins_line() && !before.ends_with('>') {
        return Found::Text;
    }
    let mut at = cursor;
    let Some((calls, repairs)) = pythonic::list(&mut at) else { return Found::Text };
    let mut after = at;
    after.skip_blank();
    let is_all = before.trim_end().is_empty() && after.is_end();
    let has_arguments = calls.iter().any(|call| !call.arguments.is_empty());
    if !at.ends_line() || !(has_arguments || is_all) {
        return Found::Text;
    }
    let span = Span { start: cursor.place(), end: at.place() };
    Found::Item(Item::calls(span, calls, Some(Pattern::Pythonic), repairs))
}

/// `functools[{…}]`.
pub(crate) fn functools(cursor: Cursor<'_, '_>, tools: &[ToolSpec]) -> Found {
    let mut at = cursor;
    if !at.eat("functools[") {
        return Found::Text;
    }
    let list = at.moved_to(at.place() - 1);
    match json(list, tools) {
        Found::Item(mut item) => {
            item.span.start = cursor.place();
            item.pattern = Some(Pattern::Tag);
            Found::Item(item)
        }
        other => other,
    }
}

/// What Functionary writes before what is meant for everyone, and not for a tool.
const ALL: &str = "all\n";

/// `all` on the first line of an answer, with more behind it.
pub(crate) fn for_all(cursor: Cursor<'_, '_>) -> Found {
    let mut at = cursor;
    if !at.eat(ALL) {
        return Found::Text;
    }
    let mut rest = at;
    rest.skip_blank();
    if rest.is_end() { Found::Text } else { Found::Item(Item::mark(cursor.place(), at.place())) }
}

/// `<|recipient|>f\n<|content|>{…}`, and `<|recipient|>all\n`.
pub(crate) fn recipient(start: usize, cursor: Cursor<'_, '_>, tools: &[ToolSpec]) -> Found {
    let mut at = cursor;
    if at.eat(ALL) {
        return Found::Item(Item::mark(start, at.place()));
    }
    named(start, at, tools).map_or(Found::Text, Found::Item)
}

/// `>>>f\n{…}`.
pub(crate) fn functionary(cursor: Cursor<'_, '_>) -> Found {
    let mut at = cursor;
    if !at.eat(">>>") {
        return Found::Text;
    }
    if at.eat(ALL) {
        return Found::Item(Item::mark(cursor.place(), at.place()));
    }
    named(cursor.place(), at, &[]).or_else(|| code(cursor.place(), at)).map_or(Found::Text, Found::Item)
}

/// `>>>python\n` and a program: the one tool whose argument is written raw.
fn code(start: usize, cursor: Cursor<'_, '_>) -> Option<Item> {
    let mut at = cursor;
    if !at.eat("python\n") {
        return None;
    }
    let end = at.find(">>>").unwrap_or(at.source().len());
    let program = at.source().slice(at.place(), end);
    Some(python_call(program, Span { start, end }))
}

/// A call of Python itself.
pub(crate) fn python_call(program: &str, span: Span) -> Item {
    let arguments = Map::from_iter([("code".to_owned(), program.trim().into())]);
    Item::calls(span, vec![ToolCall::new("python", arguments)], Some(Pattern::Code), Vec::new())
}

/// Whether a text may begin with the bare name of a tool.
pub(crate) fn may_open_text(source: &Source<'_>) -> bool {
    source.at(0).peek().is_some_and(|c| c.is_alphabetic() || c == '_')
}

/// A text that is a tool's name, a line break and an object, and nothing else, or several of them with `>>>` between.
pub(crate) fn named_at_start(cursor: Cursor<'_, '_>, tools: &[ToolSpec]) -> Option<Item> {
    if let Some(item) = kimi::headed_by_name(cursor) {
        return Some(item);
    }
    let Some(mut item) = named(cursor.place(), cursor, tools) else { return python_alone(cursor, tools) };
    let mut after = cursor.moved_to(item.span.end);
    after.skip_blank();
    while after.eat(">>>") {
        let next = named(item.span.start, after, tools)?;
        after = after.moved_to(next.span.end);
        after.skip_blank();
        item.span = next.span;
        item.calls.extend(next.calls);
        item.repairs.extend(next.repairs);
    }
    let is_known = item.calls.iter().all(|call| names::tool(tools, &call.name).is_some());
    // A tool that nobody knows is one only if nothing else is said.
    let is_all = tools.is_empty() && after.is_end() && item.calls.iter().all(|call| call.name.contains('_'));
    (is_known || is_all).then_some(item)
}

/// A text that is calls of offered tools in Python, and nothing else.
fn python_alone(cursor: Cursor<'_, '_>, tools: &[ToolSpec]) -> Option<Item> {
    let mut at = cursor;
    let first = pythonic::identifier(&mut at)?;
    if !at.sees("(") || names::tool(tools, first).is_none() {
        return None;
    }
    at = cursor;
    let (calls, repairs) = pythonic::sequence(&mut at)?;
    let span = Span { start: cursor.place(), end: at.place() };
    at.skip_blank();
    let is_all = at.is_end() && calls.iter().all(|call| names::tool(tools, &call.name).is_some());
    is_all.then(|| Item::calls(span, calls, Some(Pattern::Pythonic), repairs))
}

/// The name of a known tool on a line, and an object on the next ones.
pub(crate) fn named_on_a_line(cursor: Cursor<'_, '_>, tools: &[ToolSpec]) -> Found {
    let mut at = cursor;
    at.next();
    at.take_while(|c| c == ' ' || c == '\t');
    match kimi::headed_by_name(at).or_else(|| named(at.place(), at, tools)) {
        Some(item) if item.calls.iter().all(|call| names::tool(tools, &call.name).is_some()) => {
            Found::Item(item)
        }
        _ => Found::Text,
    }
}

fn named(start: usize, cursor: Cursor<'_, '_>, tools: &[ToolSpec]) -> Option<Item> {
    let mut at = cursor;
    let mut repairs = Vec::new();
    if at.sees("call:") {
        let call = gemma::call(&mut at, tools, &mut repairs).filter(|_| at.ends_line())?;
        let span = Span { start, end: at.place() };
        return Some(Item::calls(span, vec![call], Some(Pattern::Gemma), repairs));
    }
    // Agents of another school: `Action: f\nAction Input: {…}`.
    let is_action = at.eat("Action:");
    at.take_while(|c| is_action && c == ' ');
    let name = pythonic::identifier(&mut at)?;
    if at.sees("<arg_key>") {
        let arguments = xml::pairs(&mut at, names::tool(tools, name), "", &mut repairs)?;
        at.eat("</tool_call>");
        let span = Span { start, end: at.place() };
        let calls = vec![ToolCall::new(name, arguments)];
        return Some(Item::calls(span, calls, Some(Pattern::Pairs), repairs));
    }
    at.take_while(|c| c == ' ' || c == '\r');
    if !at.eat("\n") || (is_action && !at.eat("Action Input:")) {
        return None;
    }
    at.eat("<|content|>");
    let arguments = payload::object(&mut at, &mut repairs)?;
    let call = ToolCall::new(name, arguments);
    let span = Span { start, end: at.place() };
    Some(Item::calls(span, vec![call], Some(Pattern::NamedJson), repairs))
}
