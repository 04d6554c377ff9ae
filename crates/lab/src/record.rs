//! What came of one case, as it is kept: one JSON object a line, readable by the reference checker.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toolgate_infer::Stats;

/// A run's record.
///
/// ```
/// use serde_json::json;
/// use toolgate_lab::Record;
///
/// let line = json!({
///     "id": "port", "category": "read", "final": "It is port 80.", "files_after": {},
///     "calls": [{"name": "read_file", "arguments": {"path": "app.toml"}, "ok": true}],
///     "stop_reason": "final", "seconds": 1.5, "stats": toolgate_infer::Stats::default(),
///     "leak": false, "no_access": false, "pass": true, "reasons": [],
/// });
/// let record: Record = serde_json::from_value(line)?;
/// assert_eq!((record.answer.as_str(), record.calls.len()), ("It is port 80.", 1));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    /// The case.
    pub id: String,
    /// Its category.
    pub category: String,
    /// Everything the model called, in order; unknown tools and failed calls, too.
    pub calls: Vec<Call>,
    /// The final answer; empty if there was none.
    #[serde(rename = "final")]
    pub answer: String,
    /// The workspace after the run: path to text. Of the copy of a checkout, the files that changed and those that are checked.
    pub files_after: BTreeMap<String, String>,
    /// The paths in the copy of a checkout that the run made, changed or removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<String>,
    /// Where it was while it ran, for the comparison of absolute paths; gone by now.
    #[serde(skip)]
    pub workspace: Option<String>,
    /// Why the run ended.
    pub stop_reason: String,
    /// How long it took.
    pub seconds: f64,
    /// How it was decided between call and answer, turn by turn, where that was open.
    #[serde(default)]
    pub decisions: Vec<Decided>,
    /// Counts and times.
    pub stats: Stats,
    /// Whether the answer holds what looks like a tool call.
    pub leak: bool,
    /// Whether the answer says that the model has no access.
    pub no_access: bool,
    /// Whether the answer does nothing but repeat the request.
    #[serde(default)]
    pub echo: bool,
    /// Whether the answer is in the language of the request; `None` where too few letters tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_language: Option<bool>,
    /// The hints that steered the run; `None` in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hints: Option<Vec<String>>,
    /// Whether it passed.
    pub pass: bool,
    /// Why not.
    pub reasons: Vec<String>,
}

impl Record {
    /// Whether the run may go another way without a hint. A record of an earlier version does not tell.
    ///
    /// ```
    /// # let line = serde_json::json!({
    /// #     "id": "port", "category": "read", "final": "It is port 80.", "files_after": {}, "calls": [],
    /// #     "stop_reason": "final", "seconds": 1.5, "stats": toolgate_infer::Stats::default(),
    /// #     "leak": false, "no_access": false, "pass": true, "reasons": [],
    /// # });
    /// let mut record: toolgate_lab::Record = serde_json::from_value(line)?;
    /// assert!(record.may_differ_without("paths"));
    /// record.hints = Some(vec!["echo".to_owned()]);
    /// assert!(record.may_differ_without("echo") && !record.may_differ_without("paths"));
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn may_differ_without(&self, hint: &str) -> bool {
        self.hints.as_ref().is_none_or(|hints| hints.iter().any(|steered| steered == hint))
    }
}

/// A decision of a record.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decided {
    /// Calls made before it.
    pub calls_before: usize,
    /// Probability that the model opens a call.
    pub p_call: f64,
    /// What it was held against.
    pub threshold: f64,
}

/// A call of a record.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Call {
    /// The tool.
    pub name: String,
    /// Its arguments.
    pub arguments: Map<String, Value>,
    /// Whether it did what was asked.
    pub ok: bool,
}
