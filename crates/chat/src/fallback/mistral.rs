//! Marks in square brackets: `[TOOL_CALLS]` with what may follow it, `[TOOL_REQUEST]`, `[THINK]`.

use serde_json::Map;

use super::calls::{self, Known};
use super::json::{Dialect, Reader};
use super::payload::{self, Around};
use super::pythonic::identifier;
use super::reasoning::Closing;
use super::repair::Repair;
use super::scan::{Found, Item, Mode};
use super::source::Cursor;
use super::{Pattern, Span, names};
use crate::model::ToolCall;
use crate::spec::ToolSpec;

/// What stands at a square bracket; [`Found::Text`] if it is none of these marks.
pub(crate) fn found(cursor: Cursor<'_, '_>, tools: &[ToolSpec]) -> Found {
    let mut at = cursor;
    if at.eat("[THINK]") {
        return Found::Enter(Mode::Reasoning(Closing::Mark("[/THINK]".to_owned())), at.place());
    }
    if at.eat("[/THINK]") {
        return Found::Reasoned(at.place());
    }
    if at.eat("[TOOL_REQUEST]") {
        let Some(payload) = payload::sequence(&mut at, Around::fence(tools, false)) else {
            return Found::Text;
        };
        at.skip_blank();
        at.eat("[END_TOOL_REQUEST]");
        let span = Span { start: cursor.place(), end: at.place() };
        return Found::Item(Item::calls(span, payload.calls, Some(Pattern::Tag), payload.repairs));
    }
    if !at.eat("[TOOL_CALLS]") {
        return Found::Text;
    }
    let mut repairs = Vec::new();
    let calls = listed(&mut at, tools, &mut repairs).or_else(|| named(&mut at, tools, &mut repairs));
    let Some(calls) = calls else { return Found::Text };
    at.eat("[/TOOL_CALLS]");
    let span = Span { start: cursor.place(), end: at.place() };
    Found::Item(Item::calls(span, calls, Some(Pattern::Mistral), repairs))
}

/// `f[ARGS]{…}` at the start of an answer, whose first token was lost.
pub(crate) fn unmarked(cursor: Cursor<'_, '_>, tools: &[ToolSpec]) -> Option<Item> {
    let mut at = cursor;
    identifier(&mut at)?;
    if at.eat("[CALL_ID]") {
        id(&mut at);
    }
    if !at.eat("[ARGS]") {
        return None;
    }
    at.skip_blank();
    if !at.sees("{") && !at.sees("\"{") {
        return None;
    }
    let (mut end, mut repairs) = (cursor, Vec::new());
    let calls = named(&mut end, tools, &mut repairs)?;
    let span = Span { start: cursor.place(), end: end.place() };
    Some(Item::calls(span, calls, Some(Pattern::Mistral), repairs))
}

/// `[{…}, {…}]`, or the objects without their brackets.
fn listed(
    cursor: &mut Cursor<'_, '_>,
    tools: &[ToolSpec],
    repairs: &mut Vec<Repair>,
) -> Option<Vec<ToolCall>> {
    let mut at = *cursor;
    let mut calls = Vec::new();
    loop {
        at.skip_blank();
        if !at.sees("[{") && !at.sees("{") && !at.sees("[") {
            break;
        }
        let mut reader = Reader::new(at, Dialect::Json);
        let Some(value) = reader.value() else { break };
        let Some(read) = calls::calls_of(value, Known { tools, is_marked: true }) else { break };
        calls.extend(read);
        repairs.append(&mut reader.repairs);
        at = reader.cursor;
        *cursor = at;
        at.skip_blank();
        if !at.eat(",") && !at.eat(";") {
            break;
        }
    }
    (!calls.is_empty()).then_some(calls)
}

/// `f[ARGS]{…}`, `f[CALL_ID]id[ARGS]{…}`, `f{…}`, or `f` alone at the end; further ones where they have their mark.
fn named(
    cursor: &mut Cursor<'_, '_>,
    tools: &[ToolSpec],
    repairs: &mut Vec<Repair>,
) -> Option<Vec<ToolCall>> {
    let mut calls = vec![one(cursor, tools, repairs)?];
    loop {
        let mut at = *cursor;
        at.skip_blank();
        if identifier(&mut at).is_none() || !(at.sees("[ARGS]") || at.sees("[CALL_ID]")) {
            return Some(calls);
        }
        let Some(call) = one(cursor, tools, repairs) else { return Some(calls) };
        calls.push(call);
    }
}

fn one(cursor: &mut Cursor<'_, '_>, tools: &[ToolSpec], repairs: &mut Vec<Repair>) -> Option<ToolCall> {
    let mut at = *cursor;
    at.skip_blank();
    let name = identifier(&mut at)?;
    at.skip_blank();
    let id = if at.eat("[CALL_ID]") { Some(id(&mut at)) } else { None };
    at.skip_blank();
    at.eat("[ARGS]");
    at.skip_blank();
    let arguments = if at.sees("{") || at.sees("\"{") {
        payload::object(&mut at, repairs)?
    } else if names::tool(tools, name).is_some() || (tools.is_empty() && at.is_end()) {
        Map::new()
    } else {
        return None;
    };
    *cursor = at;
    let call = ToolCall::new(name, arguments);
    Some(match id.filter(|id| !id.is_empty()) {
        Some(id) => call.with_id(id),
        None => call,
    })
}

fn id<'a>(cursor: &mut Cursor<'_, 'a>) -> &'a str {
    cursor.take_while(|c| c.is_alphanumeric() || matches!(c, '_' | '-'))
}
