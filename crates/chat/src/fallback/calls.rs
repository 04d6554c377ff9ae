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
pub(crate) fn calls_of(value: &Value, known: Known<'_>) -> Option<Vec<ToolCall>> {
    match value {
        Value::Array(items) if !items.is_empty() => {
            let calls: Option<Vec<Vec<ToolCall>>> =
                items.iter().map(|item| of_object(item.as_object()?, known)).collect();
            Some(calls?.into_iter().flatten().collect())
        }
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

fn of_object(object: &Map<String, Value>, known: Known<'_>) -> Option<Vec<ToolCall>> {
    if let Some(call) = call_of(object, known) {
        return Some(batch_in(&call, known).unwrap_or_else(|| vec![call]));
    }
    let envelope = ENVELOPES.iter().find_map(|key| Some((*key, object.get(*key)?.as_object()?)));
    if let Some((_, inner)) = envelope {
        let call = call_of(inner, known)?;
        let call = match id_of(object) {
            Some(id) => call.with_id(id),
            None => call,
        };
        return Some(batch_in(&call, known).unwrap_or_else(|| vec![call]));
    }
    match BATCHES.iter().find_map(|key| object.get(*key)) {
        Some(batch) => calls_of(batch, known),
        None => under_its_name(object, known).map(|call| vec![call]),
    }
}

fn call_of(object: &Map<String, Value>, known: Known<'_>) -> Option<ToolCall> {
    let (action, input) = (object.get(ACTION.0).and_then(Value::as_str), object.get(ACTION.1));
    let named = NAMES.iter().find_map(|key| object.get(*key)?.as_str());
    let name = named.or(action.filter(|_| input.is_some()))?.trim();
    if name.is_empty() || name.len() > 256 {
        return None;
    }
    let given = ARGUMENTS.iter().find_map(|key| Some((*key, object.get(*key)?)));
    let arguments = match given.or(input.map(|input| (ACTION.1, input))) {
        Some((key, Value::Object(arguments))) => {
            if key != "arguments" && is_schema(arguments) {
                return None;
            }
            arguments.clone()
        }
        Some((_, Value::String(text))) if text.trim().is_empty() => Map::new(),
        Some((_, Value::String(text))) => typing::mended(text)?.as_object()?.clone(),
        Some((_, Value::Null)) => Map::new(),
        Some(_) => return None,
        None => beside_the_name(object, names::tool(known.tools, name)?, known)?,
    };
    let call = headed::named_call(name, arguments, known.tools);
    Some(match id_of(object) {
        Some(id) => call.with_id(id),
        None => call,
    })
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
    IDS.iter().find_map(|key| object.get(*key)?.as_str()).filter(|id| !id.is_empty()).map(str::to_owned)
}

/// A definition of a tool says `parameters` as well, and means their schema.
fn is_schema(arguments: &Map<String, Value>) -> bool {
    arguments.get("type").is_some_and(|kind| kind == "object")
        && arguments.get("properties").is_some_and(Value::is_object)
}

/// The calls inside a call of a made-up tool that makes several (`agent__batch`, `multi_tool_use.parallel`).
fn batch_in(call: &ToolCall, known: Known<'_>) -> Option<Vec<ToolCall>> {
    let stands_for_many = ["batch", "parallel", "multi_call"].iter().any(|word| call.name.ends_with(word));
    if !stands_for_many || names::tool(known.tools, &call.name).is_some() {
        return None;
    }
    let (key, inner) = call.arguments.iter().next().filter(|_| call.arguments.len() == 1)?;
    if !BATCHES.contains(&key.as_str()) {
        return None;
    }
    let items = inner.as_array().filter(|items| !items.is_empty())?;
    let calls: Option<Vec<Vec<ToolCall>>> =
        items.iter().map(|item| of_object(item.as_object()?, known)).collect();
    Some(calls?.into_iter().flatten().collect())
}
