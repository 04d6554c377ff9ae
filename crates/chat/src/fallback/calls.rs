//! Which JSON is a call: the field names models use, the shapes they nest them in, and batches of calls in one.
//!
//! Invariant: a call has a name and arguments, both written; a name alone is none, unless it is a known tool's.

use serde_json::{Map, Value};

use super::{headed, names, typing};
use crate::model::ToolCall;
use crate::spec::ToolSpec;

const NAMES: [&str; 11] = [
    "name",
    "tool",
    "function",
    "tool_name",
    "function_name",
    "recipient_name",
    "toolName",
    "functionName",
    "call",
    "tool_call",
    "function_call",
];
const ARGUMENTS: [&str; 13] = [
    "arguments",
    "parameters",
    "params",
    "args",
    "input",
    "kwargs",
    "tool_input",
    "tool_args",
    "tool_arguments",
    "tool_parameters",
    "function_args",
    "function_arguments",
    "function_parameters",
];
/// What agents of another school write: plain words, and a call only where both stand.
const ACTION: (&str, &str) = ("action", "action_input");
const BATCHES: [&str; 5] = ["tool_calls", "calls", "function_calls", "tool_uses", "invocations"];
const IDS: [&str; 3] = ["id", "tool_call_id", "call_id"];
/// Objects that hold one call and nothing else of meaning.
const ENVELOPES: [&str; 4] = ["function", "tool_call", "function_call", "call"];

/// What is known where a call is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known<'t> {
    /// The tools offered, where the caller told them.
    pub(crate) tools: &'t [ToolSpec],
    /// Whether the text is marked as a call, so that a known tool's name alone is one.
    pub(crate) is_marked: bool,
}

/// The calls that a value is; `None` if it, or any part of it, is something else.
pub(crate) fn calls_of(value: Value, known: Known<'_>) -> Option<Vec<ToolCall>> {
    match value {
        Value::Array(items) if !items.is_empty() => of_items(items, known),
        Value::Object(object) => of_object(object, known),
        _ => None,
    }
}

/// `[{"name": {…arguments…}}]`: the tool's name is the only key.
pub(crate) fn keyed_calls(value: &Value) -> Option<Vec<ToolCall>> {
    let items = match value {
        Value::Array(items) if !items.is_empty() => items.as_slice(),
        Value::Object(_) => std::slice::from_ref(value),
        _ => return None,
    };
    items
        .iter()
        .map(|item| {
            let object = item.as_object().filter(|object| object.len() == 1)?;
            let (name, arguments) = object.iter().next()?;
            Some(ToolCall::new(name, arguments.as_object()?.clone()))
        })
        .collect()
}

/// The calls of a list, if each of its items is one.
fn of_items(items: Vec<Value>, known: Known<'_>) -> Option<Vec<ToolCall>> {
    let mut calls = Vec::with_capacity(items.len());
    for item in items {
        let Value::Object(object) = item else { return None };
        calls.extend(of_object(object, known)?);
    }
    Some(calls)
}

fn of_object(mut object: Map<String, Value>, known: Known<'_>) -> Option<Vec<ToolCall>> {
    if let Some(call) = call_of(&mut object, known) {
        return Some(batch_or(call, known));
    }
    let envelope = ENVELOPES.iter().find(|key| object.get(**key).is_some_and(Value::is_object));
    if let Some(key) = envelope {
        let call = call_of(object.get_mut(*key)?.as_object_mut()?, known)?;
        return Some(batch_or(numbered(call, &object), known));
    }
    match BATCHES.iter().find_map(|key| object.swap_remove(*key)) {
        Some(batch) => calls_of(batch, known),
        None => under_its_name(&object, known).map(|call| vec![call]),
    }
}

/// The call that an object is. Its arguments are taken out of it where it is one.
fn call_of(object: &mut Map<String, Value>, known: Known<'_>) -> Option<ToolCall> {
    let name = name_in(object)?.trim();
    if name.is_empty() || name.len() > 256 {
        return None;
    }
    let given = ARGUMENTS.iter().chain([&ACTION.1]).find(|key| object.contains_key(**key));
    let Some(key) = given else {
        let arguments = beside_the_name(object, names::tool(known.tools, name)?, known)?;
        return Some(numbered(headed::named_call(name, arguments, known.tools), object));
    };
    let name = name.to_owned();
    let arguments = match object.get_mut(*key)? {
        Value::Object(arguments) if *key != "arguments" && is_schema(arguments) => return None,
        Value::Object(arguments) => std::mem::take(arguments),
        Value::String(text) if text.trim().is_empty() => Map::new(),
        Value::String(text) => match typing::mended(text)? {
            Value::Object(arguments) => arguments,
            _ => return None,
        },
        Value::Null => Map::new(),
        _ => return None,
    };
    Some(numbered(headed::named_call(&name, arguments, known.tools), object))
}

/// The name that an object of a call says.
fn name_in(object: &Map<String, Value>) -> Option<&str> {
    let named = NAMES.iter().find_map(|key| object.get(*key)?.as_str());
    let action = || object.get(ACTION.0)?.as_str().filter(|_| object.contains_key(ACTION.1));
    named.or_else(action)
}

/// The call under the id that its object says.
fn numbered(call: ToolCall, object: &Map<String, Value>) -> ToolCall {
    match id_of(object) {
        Some(id) => call.with_id(id),
        None => call,
    }
}

/// The arguments of a call of an offered tool that stand beside its name, or none at all where the text is marked as a call.
fn beside_the_name(
    object: &Map<String, Value>,
    tool: &ToolSpec,
    known: Known<'_>,
) -> Option<Map<String, Value>> {
    let is_own = |key: &str| NAMES.contains(&key) || IDS.contains(&key) || key == "type";
    let arguments: Map<String, Value> = object
        .iter()
        .filter(|(key, _)| !is_own(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    if arguments.is_empty() {
        return known.is_marked.then_some(arguments);
    }
    has_only_parameters(&arguments, tool).then_some(arguments)
}

fn has_only_parameters(arguments: &Map<String, Value>, tool: &ToolSpec) -> bool {
    arguments.keys().all(|key| typing::property(Some(tool), key).is_known())
}

/// `{"f": {…}}`, where `f` is an offered tool and all else are parameters of it.
fn under_its_name(object: &Map<String, Value>, known: Known<'_>) -> Option<ToolCall> {
    let (name, arguments) = object.iter().next().filter(|_| object.len() == 1)?;
    let tool = known.tools.iter().find(|tool| tool.name.as_str() == name)?;
    let arguments = arguments.as_object()?;
    has_only_parameters(arguments, tool).then(|| ToolCall::new(name, arguments.clone()))
}

fn id_of(object: &Map<String, Value>) -> Option<String> {
    if !object.keys().any(|key| key.ends_with("id")) {
        return None;
    }
    IDS.iter().find_map(|key| object.get(*key)?.as_str()).filter(|id| !id.is_empty()).map(str::to_owned)
}

/// A definition of a tool says `parameters` as well, and means their schema.
fn is_schema(arguments: &Map<String, Value>) -> bool {
    arguments.get("type").is_some_and(|kind| kind == "object")
        && arguments.get("properties").is_some_and(Value::is_object)
}

/// The call, or the calls inside one of a made-up tool that makes several (`agent__batch`, `multi_tool_use.parallel`).
fn batch_or(call: ToolCall, known: Known<'_>) -> Vec<ToolCall> {
    let stands_for_many = ["batch", "parallel", "multi_call"].iter().any(|word| call.name.ends_with(word));
    let is_offered = || names::tool(known.tools, &call.name).is_some();
    let inner = || {
        let (key, inner) = call.arguments.iter().next().filter(|_| call.arguments.len() == 1)?;
        inner.as_array().filter(|items| !items.is_empty() && BATCHES.contains(&key.as_str())).cloned()
    };
    let calls =
        (stands_for_many && !is_offered()).then(inner).flatten().and_then(|items| of_items(items, known));
    calls.unwrap_or_else(|| vec![call])
}
