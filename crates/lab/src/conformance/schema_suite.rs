//! `toolgate conformance schema-suite`: the official JSON Schema test suite, told by the contract as a whole.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use jsonschema::{Retrieve, Uri};
use serde_json::{Map, Value, json};
use toolgate_grammar::conformance::{Trial, Verdict};
use toolgate_grammar::schema::{Draft, Formats};
use toolgate_grammar::{self as grammar, Kind, SchemaOptions, Vocabulary};

use super::{CorpusArgs, Outcome};
use crate::host::Bar;
use crate::jsonl::{Jsonl, Row};

pub(super) const EXAMPLES: &str = "\
Example:
  toolgate conformance schema-suite suite.jsonl --remotes remotes.jsonl --out outcomes.jsonl

A row is {\"id\", \"draft\", \"kind\", \"needs_remote\", \"schema\", \"tests\": [{\"data\", \"valid\"}]}. Each draft counts its required
tests, and apart from them the optional ones; groups of kind optional/format assert formats, others do not.
A schema that nothing can match is refused, and with it every instance. Groups that need remote documents are
skipped without --remotes, a file of rows {\"uri\", \"schema\"}; with it they are bundled into the schema.
Verdicts: ok, skipped, wrong (a test).";

#[derive(Args)]
pub(super) struct SuiteArgs {
    #[command(flatten)]
    corpus: CorpusArgs,
    /// Documents that schemas refer to.
    #[arg(long, value_name = "FILE")]
    remotes: Option<PathBuf>,
}

/// Tests of one draft and kind.
#[derive(Clone, Copy, Default)]
struct Counts {
    passed: usize,
    failed: usize,
    skipped: usize,
}

impl Counts {
    fn to_json(self) -> Value {
        json!({"passed": self.passed, "failed": self.failed, "skipped": self.skipped})
    }
}

/// Documents by their address.
#[derive(Clone, Default)]
struct Remotes(Arc<HashMap<String, Value>>);

/// Runs the suite; the summary.
pub(super) fn run(args: &SuiteArgs, bar: Bar) -> anyhow::Result<Value> {
    let mut remotes = HashMap::new();
    if let Some(path) = &args.remotes {
        for row in Jsonl::read(path)?.rows() {
            let row = row?;
            let schema = row.get("schema").ok_or_else(|| row.is_not("schema", "there"))?;
            remotes.insert(row.text("uri")?.to_owned(), schema.clone());
        }
    }
    let remotes = args.remotes.is_some().then(|| Remotes(Arc::new(remotes)));
    let mut counts: BTreeMap<(String, bool), Counts> = BTreeMap::new();
    args.corpus.each(bar, |row| {
        let required = row.get("kind").and_then(Value::as_str).is_none_or(|kind| kind == "required");
        let key = (row.text("draft")?.to_owned(), required);
        group(row, remotes.as_ref(), counts.entry(key).or_default())
    })?;
    let mut summary = Map::new();
    for ((draft, required), counts) in counts {
        // Required tests come last and take the optional ones in.
        let optional = summary.remove(&draft);
        let own = counts.to_json();
        let entry = match (required, own, optional) {
            (true, Value::Object(mut own), Some(optional)) => {
                own.extend(optional.get("optional").map(|value| ("optional".to_owned(), value.clone())));
                Value::Object(own)
            }
            (true, own, _) => own,
            (false, own, _) => json!({"passed": 0, "failed": 0, "skipped": 0, "optional": own}),
        };
        summary.insert(draft, entry);
    }
    Ok(Value::Object(summary))
}

/// Counts the tests of one row.
fn group(row: &Row, remotes: Option<&Remotes>, counts: &mut Counts) -> anyhow::Result<Outcome> {
    let id = row.text("id")?.to_owned();
    let tests = row.list("tests")?;
    let needs_remote = row.get("needs_remote") == Some(&Value::Bool(true));
    let remotes = remotes.filter(|_| needs_remote);
    if needs_remote && remotes.is_none() {
        counts.skipped += tests.len();
        return Ok(Outcome { id, verdict: "skipped", reason: None });
    }
    let schema = row.get("schema").ok_or_else(|| row.is_not("schema", "there"))?;
    let draft = if row.text("draft")? == "draft7" { Draft::Seven } else { Draft::default() };
    let asserted = row.get("kind").and_then(Value::as_str) == Some("optional/format");
    let formats = if asserted { Formats::Asserted } else { Formats::Annotations };
    let reading = SchemaOptions::default().draft(draft).formats(formats);
    let bundled = remotes.map(|remotes| remotes.bundled(schema));
    let vocabulary = Arc::new(Vocabulary::bytes_only());
    let trial =
        Trial::new(bundled.as_ref().unwrap_or(schema), &reading, &grammar::Options::default(), vocabulary).0;
    let validator = validator(schema, draft, formats, remotes.cloned().unwrap_or_default());
    let valid = |instance: &Value| validator.as_ref().is_none_or(|validator| validator.is_valid(instance));
    let mut wrong = Vec::new();
    for test in tests {
        let must = test.get("valid") == Some(&Value::Bool(true));
        let data = test.get("data").ok_or_else(|| row.is_not("tests", "a list of {data, valid}"))?;
        let (passed, why) = match &trial {
            // A schema that nothing matches is refused, and with it every instance.
            Err(error) => (!must && error.kind() == Kind::InvalidSchema, error.to_string()),
            Ok(trial) => {
                let (verdict, why) = trial.judge(data, valid);
                (must == (verdict == Verdict::Accepted), why.unwrap_or_else(|| verdict.as_str().to_owned()))
            }
        };
        if passed {
            counts.passed += 1;
        } else {
            counts.failed += 1;
            wrong.push(format!("{data}, valid: {must}: {why}"));
        }
    }
    let reason = (!wrong.is_empty()).then(|| wrong.join("\n"));
    Ok(Outcome { id, verdict: if reason.is_none() { "ok" } else { "wrong" }, reason })
}

/// The validator of checked keywords, under the draft of the suite where the schema names none.
fn validator(
    schema: &Value,
    draft: Draft,
    formats: Formats,
    remotes: Remotes,
) -> Option<jsonschema::Validator> {
    let options =
        jsonschema::options().should_validate_formats(formats == Formats::Asserted).with_retriever(remotes);
    let options = match (schema.get("$schema").is_some(), draft) {
        (true, _) => options,
        (false, Draft::Seven) => options.with_draft(jsonschema::Draft::Draft7),
        (false, _) => options.with_draft(jsonschema::Draft::Draft202012),
    };
    options.build(schema).ok()
}

impl Retrieve for Remotes {
    fn retrieve(&self, uri: &Uri<String>) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        self.0.get(uri.as_str()).cloned().ok_or_else(|| format!("{uri} is not among the remotes").into())
    }
}

impl Remotes {
    /// The schema with the documents in its definitions, each under its address.
    fn bundled(&self, schema: &Value) -> Value {
        let Value::Object(schema) = schema else { return schema.clone() };
        let mut documents = Map::new();
        for (uri, document) in self.0.iter() {
            let Value::Object(document) = document else { continue };
            let mut document = document.clone();
            document.entry("$id").or_insert_with(|| uri.as_str().into());
            documents.insert(uri.clone(), Value::Object(document));
        }
        let mut bundled = schema.clone();
        bundled.insert("x-remotes".to_owned(), Value::Object(documents));
        Value::Object(bundled)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn summary(rows: &[Value], remotes: Option<&[Value]>) -> Value {
        let write = |rows: &[Value]| {
            let file = tempfile::NamedTempFile::new().unwrap();
            let text: String = rows.iter().map(|row| format!("{row}\n")).collect();
            std::fs::write(file.path(), text).unwrap();
            file
        };
        let (file, remotes) = (write(rows), remotes.map(write));
        let corpus = CorpusArgs { file: file.path().to_owned(), out: None, limit: None };
        run(&SuiteArgs { corpus, remotes: remotes.as_ref().map(|file| file.path().to_owned()) }, |_, _| {
            indicatif::ProgressBar::hidden()
        })
        .unwrap()
    }

    #[test]
    fn tests_are_counted_by_draft_and_kind() {
        let test = |data: Value, valid: bool| json!({"data": data, "valid": valid});
        let format = json!({"format": "ipv4"});
        let rows = [
            json!({"id": "a", "draft": "draft7", "kind": "required", "schema": format, "tests": [test(json!("x"), true)]}),
            json!({"id": "b", "draft": "draft7", "kind": "optional/format", "schema": format, "tests": [test(json!("x"), true), test(json!("1.2.3.4"), true)]}),
            json!({"id": "c", "draft": "draft2020-12", "kind": "required", "schema": false, "tests": [test(json!(1), false)]}),
        ];
        let expected = json!({
            "draft2020-12": {"passed": 1, "failed": 0, "skipped": 0},
            "draft7": {"passed": 1, "failed": 0, "skipped": 0, "optional": {"passed": 1, "failed": 1, "skipped": 0}},
        });
        assert_eq!(summary(&rows, None), expected);
    }

    #[test]
    fn remote_documents_are_skipped_or_bundled() {
        let rows = [json!({
            "id": "a", "draft": "draft7", "kind": "required", "needs_remote": true,
            "schema": {"$ref": "http://localhost:1234/integer.json"},
            "tests": [{"data": 1, "valid": true}, {"data": "a", "valid": false}]
        })];
        let remotes = [json!({"uri": "http://localhost:1234/integer.json", "schema": {"type": "integer"}})];
        assert_eq!(summary(&rows, None), json!({"draft7": {"passed": 0, "failed": 0, "skipped": 2}}));
        let with = summary(&rows, Some(&remotes));
        assert_eq!(with, json!({"draft7": {"passed": 2, "failed": 0, "skipped": 0}}));
    }
}
