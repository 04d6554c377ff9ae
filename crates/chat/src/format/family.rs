//! A family as a [`ToolFormat`]: its syntax, known by name or learned from a template.

use super::syntax::Syntax;
use super::{ToolFormat, TurnGrammar, TurnRequest, dialects, families};
use crate::error::Error;
use crate::json;
use crate::model::{ParsedTurn, ToolCall};
use crate::prompt::example_calls;
use crate::spec::ToolSpec;

/// A family of models that write calls in one form.
///
/// ```
/// # use toolgate_chat::format::{Family, ToolFormat}; use toolgate_chat::{ToolCall, ToolSpec}; use serde_json::json;
/// let coder = Family::named("qwen3_coder").expect("a known family");
/// let tools = [ToolSpec::new("wait", "", json!({"properties": {"seconds": {"type": "integer"}}}))?];
/// let call = ToolCall::new("wait", json!({"seconds": 3}).as_object().unwrap().clone());
/// let text = coder.render_calls(&[call.clone()], &tools);
/// assert_eq!(text, "<tool_call>\n<function=wait>\n<parameter=seconds>\n3\n</parameter>\n</function>\n</tool_call>");
/// assert!(coder.parse(&text, &tools).calls[0].same_request(&call));
/// # Ok::<(), toolgate_chat::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Family {
    syntax: Syntax,
    openings: Vec<String>,
    markers: Vec<String>,
}

impl Family {
    /// The family of a name: `hermes`, `mistral`, `glm`, ….
    pub fn named(name: &str) -> Option<Self> {
        families::named(name).map(Self::new)
    }

    /// The names of all families that are known beforehand.
    pub fn names() -> Vec<String> {
        families::all().into_iter().map(|syntax| syntax.name.into_owned()).collect()
    }

    pub(crate) fn new(syntax: Syntax) -> Self {
        let mut openings: Vec<String> = dialects::OPENINGS.iter().map(|text| (*text).to_owned()).collect();
        let mut markers: Vec<String> = dialects::TAGS.iter().map(|text| (*text).to_owned()).collect();
        let opening = syntax.opening();
        if !opening.trim().is_empty() && !openings.contains(&opening) {
            openings.insert(0, opening);
        }
        let mut own: Vec<String> = syntax.mark().into_iter().collect();
        if let Some((open, close)) = &syntax.reasoning {
            own.extend([open.trim().to_owned(), close.trim().to_owned()]);
        }
        for marker in own {
            if !marker.is_empty() && !markers.contains(&marker) {
                markers.push(marker);
            }
        }
        Self { syntax, openings, markers }
    }
}

impl ToolFormat for Family {
    fn name(&self) -> &str {
        &self.syntax.name
    }

    fn instructions(&self, tools: &[ToolSpec]) -> String {
        let mut out = "# Tools\n\nYou can call these functions:".to_owned();
        for tool in tools {
            out.push('\n');
            out.push_str(&json::spaced(&tool.shown()));
        }
        let example = example_calls(tools).next();
        let shown = self.syntax.render(example.as_slice(), tools);
        if example.is_some() {
            out.push_str(&format!("\n\nTo call one, write only the call, such as:\n{shown}"));
        }
        out
    }

    fn render_calls(&self, calls: &[ToolCall], tools: &[ToolSpec]) -> String {
        self.syntax.render(calls, tools)
    }

    fn turn(&self, tools: &[ToolSpec], request: &TurnRequest) -> Result<TurnGrammar, Error> {
        self.syntax.turn(tools, request)
    }

    fn parse(&self, text: &str, tools: &[ToolSpec]) -> ParsedTurn {
        self.syntax.read(text, tools)
    }

    fn openings(&self) -> Vec<&str> {
        self.openings.iter().map(String::as_str).collect()
    }

    fn markers(&self) -> Vec<&str> {
        self.markers.iter().map(String::as_str).collect()
    }
}
