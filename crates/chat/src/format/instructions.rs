//! Tells a model which tools there are and how to call them, where its template does not.

use serde_json::Value;

use super::syntax::Syntax;
use crate::json;
use crate::prompt::example_calls;
use crate::spec::ToolSpec;

/// Whole definitions and an example, for models whose family is known.
pub(crate) fn definitions(tools: &[ToolSpec], syntax: &Syntax) -> String {
    let mut out = "# Tools\n\nYou can call these functions:".to_owned();
    for tool in tools {
        out.push('\n');
        out.push_str(&json::spaced(&tool.shown()));
    }
    let example = example_calls(tools).next();
    let shown = syntax.render(example.as_slice(), tools).text();
    if example.is_some() {
        out.push_str(&format!("\n\nTo call one, write only the call, such as:\n{shown}"));
    }
    out
}

/// A line for each tool: short, for models whose template knows no tools are small.
pub(crate) fn signatures(tools: &[ToolSpec]) -> String {
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
