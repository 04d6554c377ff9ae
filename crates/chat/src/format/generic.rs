//! For models whose template knows no tools: definitions and instructions are ours, and short, for such models are small.

use serde_json::Value;

use super::{ToolFormat, TurnGrammar, TurnRequest, dialects, tagged};
use crate::error::Error;
use crate::model::{ParsedTurn, ToolCall};
use crate::spec::ToolSpec;

/// Calls in the tags of [`Hermes`](super::Hermes), tools as one-line signatures.
///
/// ```
/// # use toolgate_chat::format::{Generic, ToolFormat}; use toolgate_chat::ToolSpec; use serde_json::json;
/// let schema = json!({"properties": {"path": {"type": "string"}, "depth": {"type": "integer"}}, "required": ["path"]});
/// let tools = [ToolSpec::new("list_directory", "List a directory", schema)?];
/// assert!(Generic.instructions(&tools).contains("- list_directory(path: string, depth?: integer): List a directory"));
/// # Ok::<(), toolgate_chat::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Generic;

impl ToolFormat for Generic {
    fn name(&self) -> &str {
        "generic"
    }

    fn instructions(&self, tools: &[ToolSpec]) -> String {
        let mut out = "Tools you can call:".to_owned();
        for tool in tools {
            out.push_str("\n- ");
            out.push_str(&signature(tool));
        }
        out.push_str(
            "\n\nTo call a tool, write only:\n<tool_call>\n{\"name\": the tool, \"arguments\": {…}}\n</tool_call>",
        );
        out
    }

    fn render_calls(&self, calls: &[ToolCall], _: &[ToolSpec]) -> String {
        tagged::render(calls)
    }

    fn turn(&self, tools: &[ToolSpec], request: &TurnRequest) -> Result<TurnGrammar, Error> {
        tagged::turn(tools, request, dialects::MARKERS)
    }

    fn parse(&self, text: &str, _: &[ToolSpec]) -> ParsedTurn {
        tagged::parse(text)
    }

    fn openings(&self) -> Vec<&str> {
        dialects::OPENINGS.to_vec()
    }

    fn markers(&self) -> Vec<&str> {
        dialects::TAGS.to_vec()
    }
}

/// `name(a: string, b?: integer): description`.
fn signature(tool: &ToolSpec) -> String {
    let schema = &tool.parameters;
    let required = schema.get("required").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let properties = schema.get("properties").and_then(Value::as_object);
    let parameters: Vec<String> = properties
        .into_iter()
        .flatten()
        .map(|(name, property)| {
            let mark = if required.iter().any(|r| r == name) { "" } else { "?" };
            format!("{name}{mark}: {}", kind(property))
        })
        .collect();
    let first_line = tool.description.lines().next().unwrap_or_default();
    let separator = if first_line.is_empty() { "" } else { ": " };
    format!("{}({}){separator}{first_line}", tool.name, parameters.join(", "))
}

/// A type in a word, or the values themselves where they are few.
fn kind(schema: &Value) -> String {
    if let Some(values) = schema.get("enum").and_then(Value::as_array).filter(|values| values.len() <= 8) {
        return values.iter().map(Value::to_string).collect::<Vec<_>>().join("|");
    }
    match schema.get("type") {
        Some(Value::String(kind)) if kind == "array" => {
            format!("{}[]", schema.get("items").map_or_else(|| "any".to_owned(), kind_of_item))
        }
        Some(Value::String(kind)) => kind.clone(),
        Some(Value::Array(kinds)) => {
            let kinds: Vec<&str> =
                kinds.iter().filter_map(Value::as_str).filter(|kind| *kind != "null").collect();
            kinds.join("|")
        }
        _ => "any".to_owned(),
    }
}

/// One level is enough to tell a list of texts from a list of objects.
fn kind_of_item(items: &Value) -> String {
    items.get("type").and_then(Value::as_str).unwrap_or("any").to_owned()
}
