//! The result of a call, for the model and for programs.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolgate_sandbox::{self as sandbox, Enforced, output};

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
/// // So are a refusal and a limit.
/// assert_eq!(ToolResult::denied("the policy grants no commands").status, Status::Denied);
/// let mut limited = ToolResult::new(Status::Limit, "a.txt");
/// limited.note("[1 of 3 files]".to_owned());
/// assert_eq!((limited.content.as_str(), limited.notes), ("a.txt\n[1 of 3 files]", 1));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ToolResult {
    /// The outcome.
    pub status: Status,
    /// The text for the model.
    pub content: String,
    /// The same as structured data, if the tool has any. [`finding`](Self::finding) knows some of its fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// The whole result in parts, if some are more than text; else empty. They are for clients that show pictures and the like.
    /// JSON and models have `content` alone.
    #[serde(skip)]
    pub parts: Vec<Part>,
    /// Lines at the end of `content` that are remarks of the tool, such as `[3 files]`.
    #[serde(skip)]
    pub notes: usize,
    /// Whether `content` was cut. Then it says how to read on.
    pub truncated: bool,
    /// The layers that confined the call.
    pub enforced: Enforced,
    /// The time of the call, in milliseconds.
    pub ms: u64,
}

toolgate_chat::setters! { ToolResult  {
    data: Option<Value>,
    parts: Vec<Part>,
    notes: usize,
    truncated: bool,
    enforced: Enforced,
    ms: u64,
} }

impl ToolResult {
    /// A result with a status and a text. It is not cut, and only the process itself confined the call.
    pub fn new(status: Status, content: impl Into<String>) -> Self {
        Self {
            status,
            content: content.into(),
            data: None,
            parts: Vec::new(),
            notes: 0,
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

    /// Adds a remark: a line of the text and of the parts.
    pub fn note(&mut self, line: String) {
        self.notes += 1;
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

    /// The fields of `data` that [`finding`](Self::finding) reads.
    #[doc(hidden)]
    pub fn found(&self) -> Option<Value> {
        let data = self.data.as_ref()?.as_object()?;
        let known = data.iter().filter(|(field, _)| ["hits", "read_as", "entries"].contains(&field.as_str()));
        let known: serde_json::Map<_, _> =
            known.map(|(field, value)| (field.clone(), value.clone())).collect();
        (!known.is_empty()).then_some(Value::Object(known))
    }

    /// The finding of the call, from `data`. `hits` are lines of files, each with its `path` and `text`, and
    /// `read_as` tells how they were found. `entries` are the entries of a directory, each with its `path`.
    ///
    /// ```
    /// use serde_json::json;
    /// use toolgate_tools::{Finding, ToolResult};
    ///
    /// let found = ToolResult::ok("a.txt:3: so long").with_data(json!({"hits": [{"path": "a.txt", "text": "so long"}]}));
    /// let hits = vec![("a.txt".to_owned(), "so long".to_owned())];
    /// assert_eq!(found.finding(), Finding::Hits { hits, is_partial: false });
    /// assert_eq!(ToolResult::ok("").with_data(json!({"hits": []})).finding(), Finding::NoMatch);
    /// assert_eq!(ToolResult::ok("so long").finding(), Finding::Text);
    /// ```
    pub fn finding(&self) -> Finding {
        let list = |field: &str| self.data.as_ref()?.get(field)?.as_array();
        let text = |value: &Value, field: &str| Some(value.get(field)?.as_str()?.to_owned());
        if let Some(hits) = list("hits") {
            let hits: Vec<_> =
                hits.iter().filter_map(|hit| Some((text(hit, "path")?, text(hit, "text")?))).collect();
            let read_as = self.data.as_ref().and_then(|data| data.get("read_as")?.as_str());
            let is_partial = matches!(read_as, Some("all_words" | "any_word"));
            return if hits.is_empty() { Finding::NoMatch } else { Finding::Hits { hits, is_partial } };
        }
        match list("entries") {
            Some(entries) => {
                Finding::Listing(entries.iter().filter_map(|entry| text(entry, "path")).collect())
            }
            None => Finding::Text,
        }
    }
}

/// The result of a call that the sandbox refused or could not make.
#[doc(hidden)]
pub fn not_called(error: &sandbox::Error) -> ToolResult {
    let status = match error.kind() {
        sandbox::Kind::Denied | sandbox::Kind::Unavailable => Status::Denied,
        sandbox::Kind::Limit => Status::Limit,
        _ => Status::Failed,
    };
    ToolResult::new(status, error.to_string())
}

/// The result of a call with this output, which is cleaned and cut to so many kilobytes.
#[doc(hidden)]
pub fn shown(status: Status, content: &[u8], output_kb: u64, enforced: Enforced) -> ToolResult {
    let most = usize::try_from(output_kb.saturating_mul(1024)).unwrap_or(usize::MAX);
    let cleaned = output::for_model(content, most);
    ToolResult::new(status, cleaned.text).truncated(cleaned.truncated).enforced(enforced)
}

/// The finding of a call, as data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// A text, of which nothing is known.
    #[default]
    Text,
    /// Lines of files.
    Hits {
        /// The path and the line of each.
        hits: Vec<(String, String)>,
        /// Whether they hold only words of what was looked for.
        is_partial: bool,
    },
    /// No line of any file.
    NoMatch,
    /// The names of what is in a directory.
    Listing(Vec<String>),
}
