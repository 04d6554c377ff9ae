//! What stands inside a wrapper: calls in any encoding, one or several, and where the wrapper ends.

use serde_json::{Map, Value};

use super::Pattern;
use super::calls::{self, Known};
use super::json::{Dialect, Reader};
use super::repair::{Repair, RepairKind};
use super::source::Cursor;
use super::tag::{self, Tag};
use super::xml::{self, Values};
use super::{headed, names, pythonic, typing};
use crate::model::ToolCall;
use crate::spec::ToolSpec;

/// Wrappers inside wrappers that are followed.
const DEPTH: usize = 3;

/// Calls read from one place, and how they were written.
#[derive(Debug, Default)]
pub(crate) struct Payload {
    pub(crate) calls: Vec<ToolCall>,
    pub(crate) pattern: Option<Pattern>,
    pub(crate) repairs: Vec<Repair>,
}

/// What is known of the wrapper around a payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Around<'t> {
    pub(crate) tools: &'t [ToolSpec],
    /// Its plain name: `tool_call`, `start_action`, …; empty for a fence.
    pub(crate) name: &'t str,
    pub(crate) values: Values,
    /// Whether a bare name can be a call without arguments.
    pub(crate) takes_names: bool,
    /// Whether Python's calls count.
    pub(crate) takes_python: bool,
    pub(crate) depth: usize,
}

impl<'t> Around<'t> {
    pub(crate) fn tag(tools: &'t [ToolSpec], name: &'t str, tag: &Tag<'_>) -> Self {
        let values = Values { keeps_breaks: tag.name.starts_with("seed") };
        Self { tools, name, values, takes_names: true, takes_python: true, depth: DEPTH }
    }

    pub(crate) fn fence(tools: &'t [ToolSpec], takes_python: bool) -> Self {
        Self { tools, name: "", values: Values::default(), takes_names: false, takes_python, depth: DEPTH }
    }

    fn known(&self) -> Known<'t> {
        Known { tools: self.tools, is_marked: true }
    }
}

/// Reads calls until something else comes.
pub(crate) fn sequence(cursor: &mut Cursor<'_, '_>, around: Around<'_>) -> Option<Payload> {
    let mut payload = Payload::default();
    let mut at = *cursor;
    loop {
        skip(&mut at);
        if !one(&mut at, around, &mut payload) {
            break;
        }
        *cursor = at;
        skip(&mut at);
        let _ = at.eat(",") || at.eat(";");
    }
    (!payload.calls.is_empty()).then_some(payload)
}

pub(crate) fn skip(cursor: &mut Cursor<'_, '_>) {
    loop {
        cursor.skip_blank();
        if !cursor.eat(xml::NOISE) && !cursor.eat("<|plugin|>") {
            return;
        }
    }
}

/// Reads one value, element or wrapper of calls; leaves the cursor where it was if there is none.
fn one(cursor: &mut Cursor<'_, '_>, around: Around<'_>, payload: &mut Payload) -> bool {
    let start = *cursor;
    let noted = payload.repairs.len();
    let read = match cursor.peek() {
        Some('{') => json(cursor, around, payload),
        Some('[') => list(cursor, around, payload),
        Some('<') => tagged(cursor, around, payload),
        Some(_) if tag::follows_noise(cursor) => tagged(cursor, around, payload),
        Some('`') => fenced(cursor, around, payload),
        Some('#') if around.takes_python => headed::call(cursor, around, payload),
        Some(c) if c.is_alphabetic() || matches!(c, '_' | ':') => headed::call(cursor, around, payload),
        _ => None,
    };
    if read.is_none() {
        *cursor = start;
        payload.repairs.truncate(noted);
    }
    read.is_some()
}

pub(crate) fn add(payload: &mut Payload, calls: Vec<ToolCall>, pattern: Pattern) -> Option<()> {
    payload.calls.extend(calls);
    payload.pattern.get_or_insert(pattern);
    Some(())
}

fn json(cursor: &mut Cursor<'_, '_>, around: Around<'_>, payload: &mut Payload) -> Option<()> {
    let mut reader = Reader::new(*cursor, Dialect::Json);
    let value = reader.value()?;
    let keyed = (around.name == "tools_prefix").then(|| calls::keyed_calls(&value)).flatten();
    let calls = match keyed {
        Some(calls) => calls,
        None => calls::calls_of(value, around.known())?,
    };
    *cursor = reader.cursor;
    payload.repairs.append(&mut reader.repairs);
    extra_brackets(cursor, &mut payload.repairs);
    add(payload, calls, Pattern::Tag)
}

fn list(cursor: &mut Cursor<'_, '_>, around: Around<'_>, payload: &mut Payload) -> Option<()> {
    if around.takes_python
        && let Some((mut calls, mut repairs)) = pythonic::list(cursor)
    {
        payload.repairs.append(&mut repairs);
        for call in &mut calls {
            headed::without_call_suffix(call);
        }
        return add(payload, calls, Pattern::Pythonic);
    }
    json(cursor, around, payload)
}

/// Brackets closed once too often, where only a tag or the end can follow.
fn extra_brackets(cursor: &mut Cursor<'_, '_>, repairs: &mut Vec<Repair>) {
    let mut at = *cursor;
    at.skip_blank();
    let place = at.place();
    let extra = at.take_while(|c| matches!(c, '}' | ']') || c.is_whitespace());
    if !extra.trim().is_empty() && (at.is_end() || at.sees("<")) {
        repairs.push(Repair { kind: RepairKind::ExtraBracket, offset: place });
        *cursor = at;
    }
}

/// A fence inside a wrapper.
fn fenced(cursor: &mut Cursor<'_, '_>, around: Around<'_>, payload: &mut Payload) -> Option<()> {
    let depth = around.depth.checked_sub(1)?;
    if !cursor.eat("```") {
        return None;
    }
    cursor.take_while(|c| c != '\n' && c != '{' && c != '[');
    let inner = sequence(cursor, Around { depth, ..around })?;
    cursor.skip_blank();
    if !cursor.eat("```") && !cursor.is_end() {
        return None;
    }
    payload.repairs.extend(inner.repairs);
    add(payload, inner.calls, inner.pattern?)
}

/// An element, or a wrapper inside the wrapper.
fn tagged(cursor: &mut Cursor<'_, '_>, around: Around<'_>, payload: &mut Payload) -> Option<()> {
    let depth = around.depth.checked_sub(1)?;
    let tag = Tag::read(cursor).filter(|tag| !tag.is_closing)?;
    if let Some(call) = function(cursor, &tag, around, &mut payload.repairs) {
        return add(payload, vec![call], Pattern::Elements);
    }
    if tag.name == "tool_call:begin" {
        let call = headed::solar(cursor, &mut payload.repairs)?;
        return add(payload, vec![call], Pattern::NamedJson);
    }
    let call = own_tag(cursor, &tag, around.tools).or_else(|| spelled_out(cursor, &tag, around));
    if let Some(call) = call {
        return add(payload, vec![call], Pattern::Elements);
    }
    let name = tag.plain();
    if !is_wrapper(&name) {
        return None;
    }
    let inner = sequence(cursor, Around { name: &name, depth, ..around })?;
    payload.repairs.extend(inner.repairs);
    closings(cursor, &tag, &mut payload.repairs);
    add(payload, inner.calls, inner.pattern?)
}

/// `<f><key>value</key></f>` of a known tool, from after its opening on.
pub(crate) fn own_tag(cursor: &mut Cursor<'_, '_>, tag: &Tag<'_>, tools: &[ToolSpec]) -> Option<ToolCall> {
    let tool = names::tool(tools, tag.name).filter(|_| tag.attributes.is_empty() && !tag.is_special)?;
    let mut at = *cursor;
    let arguments = members(&mut at, Some(tool))?;
    let are_known = arguments.keys().all(|key| typing::property(Some(tool), key).is_known());
    if !are_known || !at.eat(&format!("</{}>", tag.name)) {
        return None;
    }
    *cursor = at;
    Some(ToolCall::new(tag.name, arguments))
}

/// `<name>f</name><arguments>{…}</arguments>`, or with the object alone, from after the first tag on.
fn spelled_out(cursor: &mut Cursor<'_, '_>, tag: &Tag<'_>, around: Around<'_>) -> Option<ToolCall> {
    if !["name", "tool_name", "function_name", "tool", "function"].contains(&tag.name) {
        return None;
    }
    let mut at = *cursor;
    let name = at.take_while(|c| c != '<' && c != '{' && c != '\n').trim();
    if name.is_empty() || name.len() > 256 || !at.eat(&format!("</{}>", tag.name)) {
        return None;
    }
    skip(&mut at);
    if at.sees("{") {
        let arguments = object(&mut at, &mut Vec::new())?;
        *cursor = at;
        return Some(ToolCall::new(name, arguments));
    }
    let inner = Tag::read(&mut at).filter(|tag| !tag.is_closing)?;
    if !["arguments", "parameters", "params", "args", "input"].contains(&inner.name) {
        return None;
    }
    let arguments = members(&mut at, names::tool(around.tools, name))?;
    if !at.eat(&format!("</{}>", inner.name)) {
        return None;
    }
    *cursor = at;
    Some(ToolCall::new(name, arguments))
}

/// Arguments as an object of JSON, or an element each; blanks after them included.
fn members(cursor: &mut Cursor<'_, '_>, tool: Option<&ToolSpec>) -> Option<Map<String, Value>> {
    skip(cursor);
    let arguments = if cursor.sees("{") {
        object(cursor, &mut Vec::new())?
    } else {
        xml::elements(cursor, typing::parameters(tool))?
    };
    skip(cursor);
    Some(arguments)
}

/// Whether a tag of this plain name opens calls.
pub(crate) fn is_wrapper(name: &str) -> bool {
    match name {
        "tool_call"
        | "tool_calls"
        | "tools"
        | "tool"
        | "functions"
        | "python_tag"
        | "python_start"
        | "tool_code"
        | "tools_prefix"
        | "start_action"
        | "action_start"
        | "content_invoke_tool_json" => {
            return true;
        }
        // The names of most tags: none of the searches below finds anything in them.
        "function" | "parameter" | "invoke" | "arg_key" | "arg_value" => return false,
        _ => {}
    }
    let holds = ["tool_call", "toolcall", "function_call", "functioncall", "tool_use", "tool_request"];
    let inner = ["argument", "_end", "end_", "_sep", "response", "result", "output", "_id"];
    holds.iter().any(|word| name.contains(word)) && !inner.iter().any(|word| name.contains(word))
}

/// The tool that a tag opens a call of.
pub(crate) fn function_name(tag: &Tag<'_>) -> Option<String> {
    let base = tag.plain();
    let is_function = matches!(base.as_ref(), "function" | "invoke" | "tool" | "call")
        || (base.starts_with("function") && base.ends_with("name"))
        || (base == "tool_call" && tag.attribute("name").is_some());
    let is_name = |name: &String| !name.contains(['(', ')', '"']);
    tag.value().filter(|_| is_function).filter(is_name)
}

/// The call of an opened `<function=f>` or `<invoke name="f">`, its closing included.
pub(crate) fn function(
    cursor: &mut Cursor<'_, '_>,
    tag: &Tag<'_>,
    around: Around<'_>,
    repairs: &mut Vec<Repair>,
) -> Option<ToolCall> {
    let base = tag.plain();
    let name = function_name(tag)?;
    let tool = names::tool(around.tools, &name);
    let by_attribute = !tag.attributes.starts_with('=') || base.ends_with("name");
    let values = Values { keeps_breaks: around.values.keeps_breaks || by_attribute };
    let mut at = *cursor;
    let before = at;
    let mut noise = at;
    noise.skip_blank();
    let arguments = if noise.sees(xml::NOISE) && tag.attribute("name").is_some() {
        let schema = typing::parameters(tool);
        xml::elements(&mut at, schema)?
    } else {
        xml::arguments(&mut at, tool, values, repairs)?
    };
    skip(&mut at);
    let mut closing = at;
    match Tag::read(&mut closing) {
        Some(end) if end.is_closing => {
            let own = base.strip_suffix("name").unwrap_or(&base);
            if !own.starts_with(end.plain().as_ref()) {
                // Left for the wrapper around it to close.
                repairs.push(Repair { kind: RepairKind::MissingClosingTag, offset: at.place() });
                *cursor = at;
            } else {
                *cursor = closing;
            }
        }
        _ if arguments.is_empty() && at.place() >= before.place() => return None,
        _ if at.is_end() || at.sees("<") || at.sees("```") => {
            repairs.push(Repair { kind: RepairKind::MissingClosingTag, offset: at.place() });
            *cursor = at;
        }
        _ => return None,
    }
    Some(ToolCall::new(name, arguments))
}

/// The arguments of a call as an object of JSON, in a fence or not; the object may be the text of a JSON string.
pub(crate) fn object(cursor: &mut Cursor<'_, '_>, repairs: &mut Vec<Repair>) -> Option<Map<String, Value>> {
    cursor.skip_blank();
    let is_fenced = cursor.eat("```");
    if is_fenced {
        cursor.take_while(|c| c != '\n' && c != '{');
    }
    let mut reader = Reader::new(*cursor, Dialect::Json);
    let object = match reader.value()? {
        Value::Object(object) => object,
        // The object as the text of a JSON string.
        Value::String(text) if text.trim().is_empty() => Map::new(),
        Value::String(text) => typing::mended(text.trim())?.as_object()?.clone(),
        _ => return None,
    };
    *cursor = reader.cursor;
    repairs.append(&mut reader.repairs);
    if is_fenced {
        let mut end = *cursor;
        end.skip_blank();
        if end.eat("```") {
            *cursor = end;
        }
    }
    Some(object)
}

/// Steps over what closes the wrapper of `opened`, and over closings of wrappers that were never opened.
pub(crate) fn closings(cursor: &mut Cursor<'_, '_>, opened: &Tag<'_>, repairs: &mut Vec<Repair>) {
    let mut closed = false;
    let mut at = *cursor;
    loop {
        skip(&mut at);
        if at.eat("[END_TOOL_REQUEST]") || at.eat("[/TOOL_CALLS]") {
            closed = true;
            *cursor = at;
            continue;
        }
        let place = at.place();
        let Some(tag) = Tag::read(&mut at).filter(is_closing_of_calls) else { break };
        if !closed && !tag.is_special && !opened.is_special && tag.name != opened.name {
            repairs.push(Repair { kind: RepairKind::WrongClosingTag, offset: place });
        }
        closed = true;
        *cursor = at;
    }
    if !closed && !opened.is_special {
        repairs.push(Repair { kind: RepairKind::MissingClosingTag, offset: cursor.place() });
    }
}

/// Whether a tag ends calls, or the model's message with them.
pub(crate) fn is_closing_of_calls(tag: &Tag<'_>) -> bool {
    let name = tag.plain();
    if !tag.is_closing && !tag.is_special && name != "end_function_call" {
        return false;
    }
    let ends = matches!(
        name.as_ref(),
        "tool_call_end"
            | "tool_calls_end"
            | "tool_calls_section_end"
            | "end_function_call"
            | "tools_suffix"
            | "end_action"
            | "action_end"
            | "python_end"
            | "eom_id"
            | "eot_id"
            | "im_end"
            | "end_message"
            | "end_of_turn"
            | "call"
            | "calls"
            | "eom"
            | "eot"
            | "end"
    );
    if ends || !tag.is_closing {
        return ends;
    }
    let begins = ["function", "invoke", "invocation"];
    is_wrapper(&name)
        || matches!(name.as_ref(), "response" | "xml" | "json" | "action")
        || begins.iter().any(|word| name.starts_with(word))
}
