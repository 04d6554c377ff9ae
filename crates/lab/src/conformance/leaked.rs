//! `toolgate conformance leaked`: does the fallback parser find the calls in texts that models wrote, and leave the rest?

use std::collections::BTreeMap;

use clap::Args;
use serde_json::{Map, Value, json};
use toolgate_chat::ToolSpec;
use toolgate_chat::fallback::{Extraction, extract_inside_reasoning, extract_typed};

use super::{CorpusArgs, Outcome};
use crate::host::Bar;
use crate::jsonl::Row;

pub(super) const EXAMPLES: &str = "\
Example:
  toolgate conformance leaked leaked.jsonl --out outcomes.jsonl

A row is {\"id\", \"format\", \"text\", \"tools\", \"expected_calls\", \"arguments_match\", \"expected_content\", \"content_match\",
\"flags\"}. Its tools, where it has any, tell the types of bare text. Calls are exact if name, arguments and order are; numbers
compare by value. Content is the text that remains. Where the flags say that a text starts inside reasoning, the parser is told so.
Verdicts: ok, content (the calls are exact, the content is not), calls.";

/// Arguments of `toolgate conformance leaked`.
#[derive(Args)]
pub(super) struct LeakedArgs {
    #[command(flatten)]
    corpus: CorpusArgs,
}

#[derive(Default)]
struct Counts {
    rows: usize,
    calls_exact: usize,
    content_exact: usize,
    content_rows: usize,
    unflagged: Tally,
    by_format: BTreeMap<String, Tally>,
    by_flag: BTreeMap<String, Tally>,
}

#[derive(Clone, Copy, Default)]
struct Tally {
    rows: usize,
    calls_exact: usize,
}

impl Tally {
    fn add(&mut self, exact: bool) {
        self.rows += 1;
        self.calls_exact += usize::from(exact);
    }

    fn json(self) -> Value {
        json!({"rows": self.rows, "calls_exact": self.calls_exact})
    }
}

/// Runs the corpus; the summary.
pub(super) fn run(args: &LeakedArgs, bar: Bar) -> anyhow::Result<Value> {
    let mut counts = Counts::default();
    args.corpus.each(bar, |row| counts.case(row))?;
    let tallies = |tallies: &BTreeMap<String, Tally>| -> Value {
        tallies.iter().map(|(name, tally)| (name.clone(), tally.json())).collect::<Map<_, _>>().into()
    };
    Ok(json!({
        "rows": counts.rows,
        "calls_exact": counts.calls_exact,
        "content_exact": counts.content_exact,
        "content_rows": counts.content_rows,
        "without_flag": counts.unflagged.json(),
        "by_format": tallies(&counts.by_format),
        "by_flag": tallies(&counts.by_flag),
    }))
}

impl Counts {
    fn case(&mut self, row: &Row) -> anyhow::Result<Outcome> {
        // A definition that is none only costs its types.
        let tools: Vec<ToolSpec> =
            row.list("tools")?.iter().filter_map(|tool| ToolSpec::from_any(tool).ok()).collect();
        let flags = row.texts("flags")?;
        let read = match flags.contains(&"text_starts_inside_reasoning") {
            true => extract_inside_reasoning,
            false => extract_typed,
        };
        let found = read(row.text("text")?, &tools);
        let subset = row.get("arguments_match").is_some_and(|kind| kind == "subset");
        let calls = calls_match(row.list("expected_calls")?, &found, subset);
        let content = content_matches(row, &found);
        self.rows += 1;
        self.calls_exact += usize::from(calls);
        self.content_rows += usize::from(content.is_some());
        self.content_exact += usize::from(content == Some(true));
        if flags.is_empty() {
            self.unflagged.add(calls);
        }
        for flag in flags {
            self.by_flag.entry(flag.to_owned()).or_default().add(calls);
        }
        self.by_format.entry(row.text("format")?.to_owned()).or_default().add(calls);
        let verdict = match (calls, content) {
            (false, _) => "calls",
            (true, Some(false)) => "content",
            (true, _) => "ok",
        };
        let reason = (verdict != "ok").then(|| {
            let made: Vec<Value> =
                found.calls.iter().map(|call| json!([call.name, call.arguments])).collect();
            format!("found {} and {}", Value::from(made), json!(found.content))
        });
        Ok(Outcome { id: row.text("id")?.to_owned(), verdict, reason })
    }
}

fn calls_match(expected: &[Value], found: &Extraction, subset: bool) -> bool {
    let none = Map::new();
    expected.len() == found.calls.len()
        && expected.iter().zip(&found.calls).all(|(expected, call)| {
            let arguments = expected.get("arguments").and_then(Value::as_object).unwrap_or(&none);
            expected.get("name").is_some_and(|name| name == call.name.as_str())
                && (subset || arguments.len() == call.arguments.len())
                && arguments
                    .iter()
                    .all(|(key, value)| call.arguments.get(key).is_some_and(|made| same(value, made)))
        })
}

/// Equal, and numbers by their value: `1` and `1.0` are one number.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => x == y || x.as_f64() == y.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}

/// Whether the content is as expected; `None` where nothing is.
fn content_matches(row: &Row, found: &Extraction) -> Option<bool> {
    let expected = row.get("expected_content").and_then(Value::as_str)?;
    let content = found.content.as_deref().unwrap_or_default();
    match row.get("content_match").and_then(Value::as_str)? {
        "exact" => Some(content == expected),
        "trimmed" => Some(content.trim() == expected.trim()),
        _ => None,
    }
}
