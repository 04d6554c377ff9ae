//! Whether a run of a task succeeded. Agrees with the reference checker that comes with the tasks.

use regex::Regex;
use serde::Serialize;
use serde_json::{Map, Value};
use toolgate_sandbox::policy::Mode;

use super::record::{Call, Record};
use super::task::{CallSpec, FileAfter, Task};
use super::{path, text};
use toolgate_agent::Error;

/// Whether a run passed, and if not, why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Whether everything held.
    pub pass: bool,
    /// What did not.
    pub reasons: Vec<String>,
    /// Which parts held.
    pub parts: Parts,
}

/// The parts of a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Parts {
    /// The calls made.
    pub calls: bool,
    /// The final answer.
    #[serde(rename = "final")]
    pub answer: bool,
    /// The workspace after the run.
    pub files: bool,
}

impl Verdict {
    /// The verdict from what is wrong with calls, answer and files.
    pub(super) fn of(calls: Vec<String>, answer: Vec<String>, files: Vec<String>) -> Self {
        let parts = Parts { calls: calls.is_empty(), answer: answer.is_empty(), files: files.is_empty() };
        let reasons: Vec<String> = [calls, answer, files].concat();
        Self { pass: reasons.is_empty(), reasons, parts }
    }
}

/// Decides about one run.
///
/// # Errors
/// A pattern of the task that is no regular expression.
///
/// ```
/// use serde_json::json;
/// use toolgate_lab::{Record, Task, check};
///
/// let task: Task = serde_json::from_value(json!({
///     "id": "port", "category": "edit", "mode": "edit", "files": {"app.toml": "port = 80\n"},
///     "tools": "builtin", "prompt": "Set the port in app.toml to 8080.", "max_iterations": 6,
///     "expect": {
///         "calls_include": [{"name": "edit_file", "args_subset": {"path": "app.toml"}}],
///         "files_after": {"app.toml": {"contains": "port = 8080"}},
///     },
/// }))?;
/// # let record: Record = serde_json::from_value(json!({
/// #     "id": "port", "category": "edit", "final": "Done.", "files_after": {"app.toml": "port = 80\n"},
/// #     "calls": [{"name": "edit_file", "arguments": {"path": "app.toml"}, "ok": true}],
/// #     "stop_reason": "final", "seconds": 1.0, "stats": toolgate_infer::Stats::default(), "leak": false,
/// #     "no_access": false, "pass": false, "reasons": [],
/// # }))?;
/// // The record of a run that called the right tool, and left the port what it was.
/// let verdict = check(&task, &record)?;
/// assert!(verdict.parts.calls && !verdict.parts.files);
/// assert_eq!(verdict.reasons, ["app.toml lacks \"port = 8080\""]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn check(task: &Task, record: &Record) -> Result<Verdict, Error> {
    let mut calls = Vec::new();
    if task.expect.no_calls && !record.calls.is_empty() {
        let names: Vec<_> = record.calls.iter().map(|call| call.name.as_str()).collect();
        calls.push(format!("made a call where none was wanted: {}", names.join(", ")));
    }
    for spec in &task.expect.calls_include {
        let mut found = false;
        for call in &record.calls {
            found = found || matches(spec, call, record.workspace.as_deref())?;
        }
        if !found {
            calls.push(format!("no call matches {}", describe(spec)));
        }
    }
    Ok(Verdict::of(calls, check_answer(task, &record.answer)?, check_files(task, record)))
}

fn check_answer(task: &Task, answer: &str) -> Result<Vec<String>, Error> {
    let mut wrong = Vec::new();
    if answer.trim().is_empty() {
        wrong.push("no final answer".to_owned());
    }
    let any = &task.expect.final_contains_any;
    if !any.is_empty() && !any.iter().any(|needle| text::contains(answer, needle)) {
        wrong.push(format!("final answer has none of {any:?}"));
    }
    for needle in &task.expect.final_contains_all {
        if !text::contains(answer, needle) {
            wrong.push(format!("final answer lacks {needle:?}"));
        }
    }
    let shown = text::plain(answer);
    for pattern in &task.forbid {
        if let Some(found) = regex(pattern)?.find(&shown) {
            wrong.push(format!("final answer has the forbidden {:?}", found.as_str()));
        }
    }
    Ok(wrong)
}

fn check_files(task: &Task, record: &Record) -> Vec<String> {
    let mut wrong = Vec::new();
    if task.mode == Mode::Intel {
        let changed = record.changed.iter();
        wrong.extend(changed.map(|name| format!("{name} changed in a run that may only read")));
    }
    for (name, want) in &task.expect.files_after {
        let FileAfter { contains, equals, absent } = want;
        match record.files_after.get(name) {
            Some(_) if *absent => wrong.push(format!("{name} exists and should not")),
            None if *absent => {}
            None => wrong.push(format!("{name} does not exist")),
            Some(found) => {
                if equals.as_ref().is_some_and(|text| file_text(text) != file_text(found)) {
                    let shown: String = file_text(found).chars().take(120).collect();
                    wrong.push(format!("{name} is not as expected: {shown:?}"));
                }
                for needle in contains.iter().flat_map(|needles| needles.as_slice()) {
                    if !found.contains(needle.as_str()) {
                        wrong.push(format!("{name} lacks {needle:?}"));
                    }
                }
            }
        }
    }
    wrong
}

/// A file's text without what does not count: the form of line ends, blanks before them, newlines at the end.
fn file_text(text: &str) -> String {
    let lines: Vec<_> = text.split('\n').map(|line| line.trim_end()).collect();
    lines.join("\n").trim_end_matches('\n').to_owned()
}

fn matches(spec: &CallSpec, call: &Call, workspace: Option<&str>) -> Result<bool, Error> {
    let (name, args_subset, args_match) = match spec {
        CallSpec::AnyOf { any_of } => {
            for one in any_of {
                if matches(one, call, workspace)? {
                    return Ok(true);
                }
            }
            return Ok(false);
        }
        CallSpec::One { name, args_subset, args_match } => (name, args_subset, args_match),
    };
    if call.name != *name || !object_within(args_subset, &call.arguments, workspace) {
        return Ok(false);
    }
    for (parameter, pattern) in args_match {
        let value = match call.arguments.get(parameter) {
            None => return Ok(false),
            Some(Value::String(text)) if parameter == "path" => path::within(text, workspace),
            Some(Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
        };
        if !regex(pattern)?.is_match(&text::plain(&value)) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn object_within(want: &Map<String, Value>, got: &Map<String, Value>, workspace: Option<&str>) -> bool {
    want.iter().all(|(key, value)| got.get(key).is_some_and(|given| within(value, given, key, workspace)))
}

/// Whether `got` has all of `want`: objects by key, arrays element by element, numbers by value, texts after
/// trimming, and a parameter called `path` as a path.
fn within(want: &Value, got: &Value, key: &str, workspace: Option<&str>) -> bool {
    match (want, got) {
        (Value::Object(want), Value::Object(got)) => object_within(want, got, workspace),
        (Value::Array(want), Value::Array(got)) => {
            want.len() == got.len()
                && want.iter().zip(got).all(|(want, got)| within(want, got, key, workspace))
        }
        (Value::Number(want), Value::Number(got)) => close(want.as_f64(), got.as_f64()),
        (Value::String(want), Value::String(got)) if key == "path" => {
            path::normalized(want) == path::within(got, workspace)
        }
        (Value::String(want), Value::String(got)) => want.trim() == got.trim(),
        (want, got) => want == got,
    }
}

/// Equal but for rounding: 12 is 12.0.
pub(super) fn close(a: Option<f64>, b: Option<f64>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => (a - b).abs() <= (1e-9 * a.abs().max(b.abs())).max(1e-12),
        _ => false,
    }
}

fn describe(spec: &CallSpec) -> String {
    match spec {
        CallSpec::AnyOf { any_of } => any_of.iter().map(describe).collect::<Vec<_>>().join(" or "),
        CallSpec::One { name, args_subset, args_match } => {
            let mut text = name.clone();
            if !args_subset.is_empty() {
                text.push_str(&format!(" with {}", Value::Object(args_subset.clone())));
            }
            if !args_match.is_empty() {
                text.push_str(&format!(" matching {args_match:?}"));
            }
            text
        }
    }
}

fn regex(pattern: &str) -> Result<Regex, Error> {
    Regex::new(pattern).map_err(|why| Error::input(format!("pattern {pattern:?} of a task: {why}")))
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
