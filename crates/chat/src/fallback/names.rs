//! Which offered tool a written name means: models put namespaces before it, numbers behind it, or write it twice.
//!
//! Invariant: a name that is offered means itself; any other means an offered tool only by leaving parts out.

use serde_json::{Map, Value};

use super::typing;
use crate::model::ToolCall;
use crate::spec::ToolSpec;

/// What stands between a namespace and a name.
const SEPARATORS: [&str; 4] = [".", ":", "/", "__"];
/// The namespace that templates put before every tool.
const NAMESPACE: &str = "functions";

/// The offered tool that a written name means.
pub(crate) fn tool<'t>(tools: &'t [ToolSpec], written: &str) -> Option<&'t ToolSpec> {
    let exactly = |name: &str| tools.iter().find(|tool| tool.name.as_str() == name);
    if tools.is_empty() {
        return None;
    }
    if let Some(tool) = exactly(written) {
        return Some(tool);
    }
    let unnumbered = without_number(written);
    [Some(written), unnumbered].into_iter().flatten().find_map(|name| {
        exactly(name)
            .or_else(|| exactly(without_namespace(name)?))
            .or_else(|| SEPARATORS.iter().find_map(|separator| exactly(name.rsplit_once(separator)?.1)))
            .or_else(|| exactly(half(name)?))
    })
}

/// The call under the name of the tool it means, lists and objects that were written as texts of JSON read.
pub(crate) fn settle(mut call: ToolCall, tools: &[ToolSpec]) -> ToolCall {
    call.arguments = without_itself(call.arguments, &call.name);
    let Some(tool) = tool(tools, &call.name) else { return call };
    if tool.name.as_str() != call.name {
        call.name = tool.name.as_str().to_owned();
    }
    call.arguments.retain(|name, value| {
        let Value::String(text) = value else { return true };
        let schema = typing::property(Some(tool), name);
        if schema.kinds().string {
            return true;
        }
        if text.trim_start().starts_with(['[', '{']) {
            *value = schema.value(text);
        } else if text.is_empty() {
            match schema.value_between(text) {
                Some(nothing) => *value = nothing,
                None => return false,
            }
        }
        true
    });
    call
}

/// The arguments of a call that was written once more where they belong: `{"name": "f", "arguments": {…}}` within a call of `f`.
fn without_itself(mut arguments: Map<String, Value>, name: &str) -> Map<String, Value> {
    let is_itself = arguments.len() == 2 && arguments.get("name").is_some_and(|own| own == name);
    let key =
        ["arguments", "parameters"].into_iter().find(|key| arguments.get(*key).is_some_and(Value::is_object));
    match key.filter(|_| is_itself).and_then(|key| arguments.remove(key)) {
        Some(Value::Object(inner)) => inner,
        _ => arguments,
    }
}

/// `f` of `functions_f`, which other separators make as well.
fn without_namespace(name: &str) -> Option<&str> {
    name.strip_prefix(NAMESPACE)?.strip_prefix('_')
}

/// `f` of `f:1` and `f_1`.
fn without_number(name: &str) -> Option<&str> {
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let plain =
        if plain.len() < name.len() { plain.strip_suffix([':', '_', '-', '.'])? } else { return None };
    (!plain.is_empty()).then_some(plain)
}

/// `f` of `f_f` and `f:f`.
fn half(name: &str) -> Option<&str> {
    let middle = name.len().checked_sub(1)? / 2;
    let (left, right) = (name.get(..middle)?, name.get(middle + 1..)?);
    let between = name.get(middle..=middle)?;
    (left == right && matches!(between, "_" | ":" | "." | "-" | "/")).then_some(left)
}
