//! Calls as Kimi K3 writes them: `<|open|>call tool="f"<|sep|><|open|>argument key="k" type="number"<|sep|>1<|close|>…`; and
//! those of K2 without the tokens that open them: `functions.f:0<|tool_call_argument_begin|>{…}<|tool_call_end|>`.

use serde_json::{Map, Value};

use super::pythonic::identifier;
use super::reasoning::Closing;
use super::scan::{Found, Item, Mode};
use super::source::Cursor;
use super::tag::Tag;
use super::{Pattern, Span, headed, payload};
use crate::model::ToolCall;

const OPEN: &str = "<|open|>";
const CLOSE: &str = "<|close|>";
const SEPARATOR: &str = "<|sep|>";

/// A section of calls, or of anything else.
pub(crate) fn tools(cursor: Cursor<'_, '_>) -> Found {
    let mut at = cursor;
    let Some(header) = header(&mut at) else { return Found::Text };
    if header.starts_with("think") {
        return Found::Enter(Mode::Reasoning(Closing::Mark(format!("{CLOSE}think{SEPARATOR}"))), at.place());
    }
    let mut calls = Vec::new();
    if header == "tools" {
        loop {
            at.skip_blank();
            let mut next = at;
            let Some(call) = call(&mut next) else { break };
            calls.push(call);
            at = next;
        }
        at.skip_blank();
        at.eat("<|close|>tools<|sep|>");
    } else if header.starts_with("call ") {
        let mut whole = cursor;
        calls.extend(call(&mut whole));
        at = whole;
    }
    if calls.is_empty() {
        return Found::Text;
    }
    at.skip_blank();
    at.eat("<|close|>message<|sep|>");
    let span = Span { start: cursor.place(), end: at.place() };
    Found::Item(Item::calls(span, calls, Some(Pattern::Elements), Vec::new()))
}

/// A call of K2 without its first token: its other tokens mark it, or a number in its name and a line of its own.
pub(crate) fn unmarked(cursor: Cursor<'_, '_>) -> Found {
    let before = cursor.source().slice(0, cursor.place());
    if before.ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '/')) {
        return Found::Text;
    }
    headed_by_name(cursor).map_or(Found::Text, Found::Item)
}

/// `f<|tool_call_argument_begin|>{…}`, or `functions.f:0{…}`.
pub(crate) fn headed_by_name(cursor: Cursor<'_, '_>) -> Option<Item> {
    let mut at = cursor;
    let name = identifier(&mut at)?;
    let ends_in_number = name.ends_with(|c: char| c.is_ascii_digit());
    let is_numbered = name.starts_with("functions.") && name.contains(':') && ends_in_number;
    at.skip_blank();
    let mut is_marked = at.eat("<|tool_call_argument_begin|>");
    if !is_marked && !is_numbered {
        return None;
    }
    let mut repairs = Vec::new();
    let arguments = payload::object(&mut at, &mut repairs)?;
    let mut end = at;
    end.skip_blank();
    if end.eat("<|tool_call_end|>") {
        (is_marked, at) = (true, end);
    }
    let is_set_off = || cursor.begins_line() && at.ends_line();
    if !is_marked && !is_set_off() {
        return None;
    }
    let span = Span { start: cursor.place(), end: at.place() };
    let call = headed::named_call(name, arguments, &[]);
    Some(Item::calls(span, vec![call], Some(Pattern::NamedJson), repairs))
}

/// What stands between `<|open|>` and its `<|sep|>`.
fn header<'a>(cursor: &mut Cursor<'_, 'a>) -> Option<&'a str> {
    if !cursor.eat(OPEN) {
        return None;
    }
    let mut left = 256;
    let header = cursor.take_while(|c| {
        left -= 1;
        left > 0 && c != '<' && c != '\n'
    });
    cursor.eat(SEPARATOR).then_some(header)
}

fn call(cursor: &mut Cursor<'_, '_>) -> Option<ToolCall> {
    let header = header(cursor)?;
    let name = attribute(header.strip_prefix("call ")?, "tool")?;
    let mut arguments = Map::new();
    loop {
        cursor.skip_blank();
        if cursor.eat("<|close|>call<|sep|>") {
            return Some(ToolCall::new(name, arguments));
        }
        let header = self::header(cursor)?.strip_prefix("argument ")?;
        let key = attribute(header, "key")?;
        let kind = attribute(header, "type");
        let raw = cursor.take_until("<|close|>argument<|sep|>")?;
        let text = || Value::String(super::typing::text(raw));
        let value = match kind.as_deref() {
            None | Some("string") => text(),
            Some(_) => serde_json::from_str(raw.trim()).unwrap_or_else(|_| text()),
        };
        arguments.insert(key, value);
    }
}

fn attribute(header: &str, key: &str) -> Option<String> {
    Tag::attribute_of(header, key)
}
