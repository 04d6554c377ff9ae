//! Calls that begin with their name, whatever their arguments are written as.

use serde_json::{Map, Value};

use super::payload::{Around, Payload, add, function, is_wrapper, object, skip};
use super::repair::{Repair, RepairKind};
use super::source::Cursor;
use super::tag::Tag;
use super::{Pattern, gemma, names, pythonic, typing, xml};
use crate::model::ToolCall;
use crate::spec::ToolSpec;

/// A call that begins with its name.
pub(crate) fn call(cursor: &mut Cursor<'_, '_>, around: Around<'_>, payload: &mut Payload) -> Option<()> {
    if let Some(call) = gemma::call(cursor, around.tools, &mut payload.repairs) {
        return add(payload, vec![call], Pattern::Gemma);
    }
    if cursor.eat("call:") && !around.takes_python {
        return None;
    }
    if around.takes_python {
        let mut python = *cursor;
        let modules = pythonic::preamble(&mut python);
        let found = pythonic::sequence(&mut python);
        if let Some((mut calls, mut repairs)) = found.filter(|(calls, _)| are_tools(calls, &modules, around))
        {
            *cursor = python;
            payload.repairs.append(&mut repairs);
            for call in &mut calls {
                without_call_suffix(call);
            }
            return add(payload, calls, Pattern::Pythonic);
        }
    }
    if !around.takes_names || cursor.sees("#") {
        return None;
    }
    let start = cursor.place();
    let head = cursor.take_while(|c| !matches!(c, '<' | '{' | '[' | '\n' | '(' | '`' | '"'));
    let mut name = head.trim().trim_end_matches(':');
    if name.is_empty() || name.len() > 256 {
        return None;
    }
    // DeepSeek and Step-3: `function<sep>NAME`, or `NAME<sep>{…}`.
    let mut is_separated = eat_separator(cursor);
    if is_separated && name == "function" {
        skip(cursor);
        if cursor.sees("<") {
            let tag = Tag::read(cursor).filter(|tag| !tag.is_closing)?;
            let call = function(cursor, &tag, around, &mut payload.repairs)?;
            return add(payload, vec![call], Pattern::Elements);
        }
        name = cursor.take_while(|c| !matches!(c, '\n' | '`' | '{' | '<' | '"')).trim();
    }
    is_separated |= eat_separator(cursor);
    cursor.skip_blank();
    while let Some(after) = stray_closing(cursor) {
        payload.repairs.push(Repair { kind: RepairKind::WrongClosingTag, offset: cursor.place() });
        *cursor = after;
        cursor.skip_blank();
    }
    if let Some(prefix) = arg_key_prefix(cursor) {
        let tool = names::tool(around.tools, name);
        let arguments = xml::pairs(cursor, tool, prefix, &mut payload.repairs)?;
        return add(payload, vec![ToolCall::new(name, arguments)], Pattern::Pairs);
    }
    if cursor.sees("{") || cursor.sees("```") || is_separated && cursor.sees("\"") || cursor.sees("\"{") {
        let mut at = *cursor;
        let arguments = object(&mut at, &mut payload.repairs).or_else(|| {
            at = *cursor;
            let schema = typing::parameters(names::tool(around.tools, name));
            gemma::typed_arguments(&mut at, schema, &mut payload.repairs)
        })?;
        *cursor = at;
        return add(payload, vec![named_call(name, arguments, around.tools)], Pattern::NamedJson);
    }
    // A name alone.
    let is_known = names::tool(around.tools, name).is_some();
    let looks_like_one =
        name.contains('_') && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'));
    let is_name = is_known || (around.tools.is_empty() && looks_like_one);
    if !is_name {
        return None;
    }
    let mut closing = *cursor;
    // The next call may begin where this one was not closed.
    let ends = Tag::read(&mut closing).is_some_and(|tag| tag.is_closing || is_wrapper(&tag.plain()));
    if !ends || cursor.place() == start {
        return None;
    }
    add(payload, vec![ToolCall::new(name, Map::new())], Pattern::Pairs)
}

/// Whether no call is one of a module that the program imports; an offered tool may be in one.
fn are_tools(calls: &[ToolCall], modules: &[&str], around: Around<'_>) -> bool {
    calls.iter().all(|call| {
        let is_of = |module: &&str| call.name.strip_prefix(*module).is_some_and(|rest| rest.starts_with('.'));
        !modules.iter().any(is_of) || names::tool(around.tools, &call.name).is_some()
    })
}

/// `<|python_tag|>f.call(…)` calls `f`.
pub(crate) fn without_call_suffix(call: &mut ToolCall) {
    if let Some(name) = call.name.strip_suffix(".call") {
        call.name = name.to_owned();
    }
}

/// A call whose name, unless it is offered so, may carry its namespace and its number: `functions.f:0`, whose id that is then.
pub(crate) fn named_call(name: &str, arguments: Map<String, Value>, tools: &[ToolSpec]) -> ToolCall {
    if tools.iter().any(|tool| tool.name.as_str() == name) {
        return ToolCall::new(name, arguments);
    }
    let plain = name.strip_prefix("functions.").unwrap_or(name);
    match plain.rsplit_once(':') {
        Some((short, number)) if !number.is_empty() && number.chars().all(|c| c.is_ascii_digit()) => {
            ToolCall::new(short, arguments).with_id(name)
        }
        _ => ToolCall::new(plain, arguments),
    }
}

fn eat_separator(cursor: &mut Cursor<'_, '_>) -> bool {
    let mut at = *cursor;
    let separates = Tag::read(&mut at).is_some_and(|tag| {
        tag.is_special
            && !tag.is_closing
            && matches!(tag.plain().as_ref(), "tool_sep" | "tool_call_argument_begin")
    });
    if separates {
        *cursor = at;
    }
    separates
}

/// After the closing of a key or a value that was never opened.
fn stray_closing<'s, 'a>(cursor: &Cursor<'s, 'a>) -> Option<Cursor<'s, 'a>> {
    let mut at = *cursor;
    let tag = Tag::read(&mut at).filter(|tag| tag.is_closing)?;
    (tag.name.ends_with("arg_value") || tag.name.ends_with("arg_key")).then_some(at)
}

fn arg_key_prefix<'a>(cursor: &Cursor<'_, 'a>) -> Option<&'a str> {
    let mut at = *cursor;
    Tag::read(&mut at).filter(|tag| !tag.is_closing && !tag.is_special)?.name.strip_suffix("arg_key")
}

/// `id<|tool_call:name|>f<|tool_call:args|>{…}<|tool_call:end|>`, from after its opening on.
pub(crate) fn solar(cursor: &mut Cursor<'_, '_>, repairs: &mut Vec<Repair>) -> Option<ToolCall> {
    let mut at = *cursor;
    let id = at.take_until("<|tool_call:name|>")?.trim();
    let name = at.take_until("<|tool_call:args|>")?.trim();
    if name.is_empty() || name.len() > 256 || id.len() > 256 {
        return None;
    }
    let call = ToolCall::new(name, object(&mut at, repairs)?);
    let mut end = at;
    end.skip_blank();
    *cursor = if end.eat("<|tool_call:end|>") { end } else { at };
    Some(if id.is_empty() { call } else { call.with_id(id) })
}
