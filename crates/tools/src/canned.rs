//! Tools from a JSON file, each with a canned result: for tests and demonstrations (`--tools-file`).

use serde_json::Value;
use toolgate_chat::ToolSpec;

use super::{Args, Effect, Tool, ToolResult};
use crate::Error;

/// A tool that answers every fitting call with the same result.
///
/// ```
/// use toolgate_tools::{CannedTool, Registry};
///
/// let file = r#"[{
///     "type": "function",
///     "function": {"name": "now", "description": "The time.", "parameters": {"type": "object", "properties": {}}},
///     "result": "half past twelve"
/// }]"#;
/// let mut tools = Registry::new();
/// for tool in CannedTool::all_from_json(file)? {
///     tools.add(tool)?;
/// }
/// assert_eq!(tools.call_json("now", "{}").content, "half past twelve");
/// # Ok::<(), toolgate_tools::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct CannedTool {
    spec: ToolSpec,
    result: Option<Value>,
}

impl CannedTool {
    /// A tool from an OpenAI-style definition, with an optional `"result"` beside its `"function"`.
    ///
    /// # Errors
    /// A fault of the definition, with its place.
    pub fn from_json(definition: &Value) -> Result<Self, Error> {
        let result = definition.get("result").cloned();
        Ok(Self { spec: ToolSpec::from_any(definition)?, result })
    }

    /// All tools of a JSON array.
    ///
    /// # Errors
    /// Text that is no JSON array, and a faulty definition.
    pub fn all_from_json(text: &str) -> Result<Vec<Self>, Error> {
        let definitions: Vec<Value> = serde_json::from_str(text)
            .map_err(|e| Error::input(format!("not a JSON array of tool definitions: {e}")))?;
        definitions
            .iter()
            .enumerate()
            .map(|(i, definition)| Self::from_json(definition).map_err(|e| e.context(format!("tool {i}"))))
            .collect()
    }
}

impl Tool for CannedTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn effect(&self) -> Effect {
        Effect::Reads
    }

    fn call(&self, _: &Args) -> ToolResult {
        match &self.result {
            Some(Value::String(text)) => ToolResult::ok(text),
            Some(value) => ToolResult::ok(value.to_string()).with_data(value.clone()),
            None => ToolResult::failed(format!("{} has no canned result in its tools file", self.spec.name)),
        }
    }
}
