//! Where a template looks for its tools: most in the variable `tools`, some under another name or in the system message.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::json::{Style, write};

/// The place of the tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Offered {
    /// The variable `tools`, a list of definitions.
    #[default]
    Tools,
    /// The variable `xml_tools`, the same list.
    XmlTools,
    /// The variable `functions`, a text of JSON; the time is in `datetime`.
    Functions,
    /// The field `tools` of the system message, a text of JSON.
    SystemMessage,
}

impl Offered {
    /// Where the template of these variables looks.
    pub(crate) fn of(variables: &HashSet<String>, source: &str) -> Self {
        if variables.contains("tools") {
            Self::Tools
        } else if variables.contains("xml_tools") {
            Self::XmlTools
        } else if variables.contains("functions") {
            Self::Functions
        } else if ["['tools']", "[\"tools\"]", "message.tools"].iter().any(|field| source.contains(field)) {
            Self::SystemMessage
        } else {
            Self::Tools
        }
    }

    /// The messages as the template is to see them.
    pub(crate) fn messages(self, messages: &[Value], tools: &[Value]) -> Vec<Value> {
        let mut messages = messages.to_vec();
        if self != Self::SystemMessage || tools.is_empty() {
            return messages;
        }
        if messages.first().is_none_or(|first| first["role"] != "system") {
            messages.insert(0, json!({"role": "system", "content": ""}));
        }
        if let Some(first) = messages.first_mut().and_then(Value::as_object_mut) {
            first.insert("tools".to_owned(), text(tools, None).into());
        }
        messages
    }
}

/// The functions as a text of JSON, without the object that says that they are functions.
pub(crate) fn text(tools: &[Value], indent: Option<usize>) -> String {
    let functions = tools.iter().map(|tool| tool.get("function").unwrap_or(tool).clone()).collect();
    let item = if indent.is_some() { "," } else { ", " };
    write(&Value::Array(functions), &Style { item, key: ": ", indent })
}
