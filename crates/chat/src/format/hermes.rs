//! Hermes 2/3, Qwen2.5 and Qwen3: JSON between `<tool_call>` tags, which the model's template teaches.

use super::{ToolFormat, TurnGrammar, TurnRequest, dialects, tagged};
use crate::error::Error;
use crate::json;
use crate::model::{ParsedTurn, ToolCall};
use crate::spec::ToolSpec;

/// `<tool_call>\n{"name": "f", "arguments": {…}}\n</tool_call>`; several calls are separated by a line break.
///
/// ```
/// # use toolgate_chat::format::{Hermes, ToolFormat}; use toolgate_chat::ToolCall; use serde_json::json;
/// let call = ToolCall::new("add", json!({"a": 1, "b": [2, 3]}).as_object().unwrap().clone());
/// let text = Hermes.render_calls(&[call.clone()], &[]);
/// assert_eq!(text, "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1, \"b\": [2, 3]}}\n</tool_call>");
/// assert!(Hermes.parse(&text, &[]).calls[0].same_request(&call));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Hermes;

impl ToolFormat for Hermes {
    fn name(&self) -> &str {
        "hermes"
    }

    fn instructions(&self, tools: &[ToolSpec]) -> String {
        let mut out =
            "# Tools\n\nYou are provided with function signatures within <tools></tools> XML tags:\n<tools>"
                .to_owned();
        for tool in tools {
            out.push('\n');
            out.push_str(&json::spaced(&tool.shown()));
        }
        out.push_str("\n</tools>\n\nFor each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call>");
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
