//! Arguments that have been checked against their tool's schema.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{Check, Violation};

/// A call's arguments, which fit the tool's schema.
///
/// ```
/// use toolgate_tools::{Args, Registry, ToolResult};
/// # use toolgate_tools::{Effect, Tool};
/// # use toolgate_chat::ToolSpec;
/// # struct Repeat(ToolSpec);
/// # impl Tool for Repeat {
/// #     fn spec(&self) -> &ToolSpec { &self.0 }
/// #     fn effect(&self) -> Effect { Effect::Reads }
///
/// // Of a tool with a text `text` and an optional integer `times`.
/// fn call(&self, args: &Args) -> ToolResult {
///     let text = args.str("text").unwrap_or_default();
///     eprintln!("called with {} arguments", args.as_map().len());
///     ToolResult::ok(text.repeat(args.count("times").unwrap_or(1)))
/// }
/// # }
/// # let parameters = serde_json::json!({
/// #     "type": "object", "required": ["text"],
/// #     "properties": {"text": {"type": "string"}, "times": {"type": "integer", "minimum": 0}}
/// # });
/// # let mut tools = Registry::new();
/// # tools.add(Repeat(ToolSpec::new("repeat", "Repeat a text.", parameters)?))?;
///
/// assert_eq!(tools.call_json("repeat", r#"{"text": "ho", "times": 3}"#).content, "hohoho");
/// assert_eq!(tools.call_json("repeat", r#"{"text": "ho"}"#).content, "ho");
/// # Ok::<(), toolgate_tools::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Args(Map<String, Value>);

impl Check {
    /// The checked arguments, or their faults.
    pub(super) fn check(&self, arguments: &Map<String, Value>) -> Result<Args, Vec<Violation>> {
        let violations = self.violations(&Value::Object(arguments.clone()));
        if violations.is_empty() { Ok(Args(arguments.clone())) } else { Err(violations) }
    }
}

impl Args {
    /// The arguments as a map, in the order given.
    pub fn as_map(&self) -> &Map<String, Value> {
        &self.0
    }

    /// A string argument.
    pub fn str(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Value::as_str)
    }

    /// A count or index argument.
    pub fn count(&self, name: &str) -> Option<usize> {
        self.0.get(name).and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok())
    }

    /// The arguments as the Rust type that the schema came from.
    ///
    /// # Errors
    /// The deserializer's message, if the type is narrower than its schema.
    ///
    /// ```
    /// use toolgate_tools::{Args, ToolResult};
    ///
    /// #[derive(serde::Deserialize)]
    /// struct Roll {
    ///     sides: u32,
    /// }
    ///
    /// // The call of a tool.
    /// fn call(args: &Args) -> ToolResult {
    ///     match args.parse::<Roll>() {
    ///         Ok(roll) => ToolResult::ok((roll.sides / 2).to_string()),
    ///         Err(why) => ToolResult::failed(why),
    ///     }
    /// }
    /// ```
    pub fn parse<P: DeserializeOwned>(&self) -> Result<P, String> {
        serde_json::from_value(Value::Object(self.0.clone())).map_err(|e| e.to_string())
    }
}
