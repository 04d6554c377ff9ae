//! The result of a call, for the model and for programs.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolgate_sandbox::Enforced;

use super::Part;

/// The outcome of a call in one word. The model sees everything but `Ok` as an error, with what to do instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// The call did its work.
    Ok,
    /// The call failed: a missing file, arguments that do not fit, an unknown tool.
    Failed,
    /// The sandbox or the user refused the call.
    Denied,
    /// The call ran into a limit.
    Limit,
}

impl Status {
    /// The word used in JSON and on the terminal.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "failed",
            Self::Denied => "denied",
            Self::Limit => "limit",
        }
    }
}

/// The outcome of one call. `content` is exactly what the model sees.
///
/// ```
/// use serde_json::json;
/// use toolgate_tools::{Status, ToolResult};
///
/// let found = ToolResult::ok("a.txt and b.txt").with_data(json!({"files": ["a.txt", "b.txt"]}));
/// assert_eq!((found.status, found.content.as_str()), (Status::Ok, "a.txt and b.txt"));
/// // The model sees a failure, too. It says what to do instead.
/// let failed = ToolResult::failed("no file c.txt; there are: a.txt, b.txt");
/// assert_eq!(serde_json::to_value(&failed)?["status"], "failed");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Serialize)]
pub struct ToolResult {
    /// The outcome.
    pub status: Status,
    /// The text for the model.
    pub content: String,
    /// The same as structured data, if the tool has any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// The whole result in parts, if some are more than text; else empty. They are for clients that show pictures and the like.
    /// JSON and models have `content` alone.
    #[serde(skip)]
    pub parts: Vec<Part>,
    /// Whether `content` was cut. Then it says how to read on.
    pub truncated: bool,
    /// The layers that confined the call.
    pub enforced: Enforced,
    /// The time of the call, in milliseconds.
    pub ms: u64,
}

impl ToolResult {
    /// A result with a status and a text. It is not cut, and only the process itself confined the call.
    pub fn new(status: Status, content: impl Into<String>) -> Self {
        Self {
            status,
            content: content.into(),
            data: None,
            parts: Vec::new(),
            truncated: false,
            enforced: Enforced::nothing(),
            ms: 0,
        }
    }

    /// A result of a call that worked.
    pub fn ok(content: impl Into<String>) -> Self {
        Self::new(Status::Ok, content)
    }

    /// A result of a call that worked, in parts. A model reads the text of them.
    ///
    /// ```
    /// use toolgate_tools::{Part, ToolResult};
    ///
    /// let chart = Part::Image { mime_type: "image/png".into(), bytes: vec![0; 300] };
    /// let result = ToolResult::of(vec![Part::Text("Sales by month:".into()), chart]);
    /// assert_eq!(result.content, "Sales by month:\n[image image/png, 300 bytes, not shown]");
    /// assert_eq!(result.parts.len(), 2);
    /// ```
    pub fn of(parts: Vec<Part>) -> Self {
        let shown: Vec<_> = parts.iter().map(Part::shown).collect();
        let mut result = Self::ok(shown.join("\n"));
        if !parts.iter().all(Part::is_text) {
            result.parts = parts;
        }
        result
    }

    /// A result of a call that failed. The text says what to do instead.
    pub fn failed(content: impl Into<String>) -> Self {
        Self::new(Status::Failed, content)
    }

    /// A result of a call that was refused.
    pub fn denied(content: impl Into<String>) -> Self {
        Self::new(Status::Denied, content)
    }

    /// Adds a line to the text and to the parts.
    pub fn note(&mut self, line: String) {
        self.content.push('\n');
        self.content.push_str(&line);
        if !self.parts.is_empty() {
            self.parts.push(Part::Text(line));
        }
    }

    /// Adds the structured form.
    #[must_use]
    pub fn with_data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }
}
