//! Arguments that have been checked against their tool's schema.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// A call's arguments, known to fit the tool's schema.
#[derive(Clone, Debug, PartialEq)]
pub struct Args(Map<String, Value>);

/// A compiled schema, kept beside its tool.
pub(super) struct Check(jsonschema::Validator);

impl Check {
    /// Compiles `schema` for checking; formats count as assertions.
    pub(super) fn new(schema: &Value) -> Result<Self, String> {
        jsonschema::options().should_validate_formats(true).build(schema).map(Self).map_err(|e| e.to_string())
    }

    /// The checked arguments, or one line for each violation: where, and what is wrong.
    pub(super) fn check(&self, arguments: &Map<String, Value>) -> Result<Args, Vec<String>> {
        let value = Value::Object(arguments.clone());
        let mut violations: Vec<String> = self
            .0
            .iter_errors(&value)
            .take(MAX_VIOLATIONS)
            .map(|error| {
                let pointer = error.instance_path().to_string();
                let place = if pointer.is_empty() { "arguments".to_owned() } else { pointer };
                format!("{place}: {error}")
            })
            .collect();
        if violations.is_empty() {
            return Ok(Args(arguments.clone()));
        }
        violations.dedup();
        Err(violations)
    }
}

/// A model cannot use more corrections than this at once.
const MAX_VIOLATIONS: usize = 4;

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

    /// The arguments as the Rust type the schema came from.
    ///
    /// # Errors
    /// The deserializer's message, where the type is narrower than its schema.
    pub fn parse<P: DeserializeOwned>(&self) -> Result<P, String> {
        serde_json::from_value(Value::Object(self.0.clone())).map_err(|e| e.to_string())
    }
}
