//! Runs the schema compiler over corpora that lie outside of this repository, and holds it to `tests/ratchet/`.
//!
//! A ratchet file records what a corpus showed: numbers, and the ids of the cases that are not as they should be. A
//! run has to show exactly that: worse is a regression, better is to be recorded with `UPDATE_RATCHET=1`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::corpus::{id, list, rows, validator};
use serde_json::{Value, json};
use toolgate_grammar::conformance::{Trial, Verdict, shares};
use toolgate_grammar::schema::{Draft, Formats};
use toolgate_grammar::{Kind, Options, SchemaOptions, Vocabulary, Whitespace};

/// Counts by name, and the ids of the cases counted under the names that should not be.
#[derive(Default)]
struct Tally {
    counts: BTreeMap<&'static str, u64>,
    ids: BTreeMap<&'static str, BTreeMap<String, u64>>,
}

impl Tally {
    fn count(&mut self, name: &'static str) {
        *self.counts.entry(name).or_default() += 1;
    }

    /// Counts something that should not be, with its id; `why` is shown to who asks with `TOOLGATE_VERBOSE`.
    fn fault(&mut self, name: &'static str, id: &str, why: &str) {
        self.count(name);
        *self.ids.entry(name).or_default().entry(id.to_owned()).or_default() += 1;
        if std::env::var_os("TOOLGATE_VERBOSE").is_some() {
            eprintln!("{name}: {id}: {why}");
        }
    }

    /// Holds the tally to the ratchet file of that name.
    fn hold(&self, name: &str) {
        let ids: BTreeMap<&str, Vec<String>> = self
            .ids
            .iter()
            .map(|(name, ids)| {
                (
                    *name,
                    ids.iter()
                        .map(|(id, n)| if *n > 1 { format!("{id} ×{n}") } else { id.clone() })
                        .collect(),
                )
            })
            .collect();
        let shown = format!("{:#}\n", json!({"counts": self.counts, "cases": ids}));
        eprintln!("{name}: {}", json!(self.counts));
        if std::env::var_os("TOOLGATE_ONLY").is_some() {
            return;
        }
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/ratchet/{name}.json"));
        if std::env::var_os("UPDATE_RATCHET").is_some() {
            std::fs::write(&path, &shown).unwrap();
        }
        let recorded = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(shown == recorded, "{} says otherwise; UPDATE_RATCHET=1 records:\n{shown}", path.display());
    }
}

/// Rows `{id, schema, valid_instances, invalid_instances}`.
#[test]
fn schemas_with_instances_fare_as_recorded() {
    let Some(rows) = rows("TOOLGATE_SCHEMA_CORPUS") else { return };
    let vocabulary = Arc::new(Vocabulary::bytes_only());
    let mut tally = Tally::default();
    let mut times: Vec<Duration> = Vec::new();
    let mut slowest: Vec<(Duration, String)> = Vec::new();
    for row in &rows {
        let id = id(row);
        tally.count("cases");
        let reading = SchemaOptions::default();
        let (trial, took) =
            Trial::new(&row["schema"], &reading, &Options::default(), Arc::clone(&vocabulary));
        times.push(took);
        slowest.push((took, id.to_owned()));
        let trial = match trial {
            Ok(trial) => trial,
            Err(error) => {
                tally.fault("refused", id, &error.to_string());
                continue;
            }
        };
        tally.count("compiled");
        let validator = validator(&row["schema"], Draft::default(), Formats::Asserted);
        let check =
            |instance: &Value| validator.as_ref().is_none_or(|validator| validator.is_valid(instance));
        for instance in list(row, "valid_instances") {
            match trial.judge(instance, check) {
                (Verdict::Accepted, _) => tally.count("valid_accepted"),
                (Verdict::ByGrammar, why) => {
                    tally.fault("valid_rejected", id, &why.unwrap_or_default());
                }
                (Verdict::ByCheck, _) => tally.fault("valid_rejected_by_check", id, ""),
            }
        }
        for instance in list(row, "invalid_instances") {
            match trial.judge(instance, check).0 {
                Verdict::ByGrammar => tally.count("invalid_rejected_by_grammar"),
                Verdict::ByCheck => {
                    let contract = &trial.compiled().contract;
                    let checked: Vec<String> = contract
                        .checked()
                        .take(3)
                        .map(|e| format!("{} ({})", e.pointer(), e.reason().unwrap_or_default()))
                        .collect();
                    tally.fault("invalid_rejected_by_check", id, &checked.join(", "));
                }
                Verdict::Accepted => tally.fault("invalid_accepted", id, &trial.text(instance)),
            }
        }
    }
    slowest.sort();
    eprintln!("slowest: {:?}", slowest.iter().rev().take(12).collect::<Vec<_>>());
    let [mean, p50, p90, p99, max] = shares(&mut times);
    eprintln!("compile mean {mean:?} p50 {p50:?} p90 {p90:?} p99 {p99:?} max {max:?}");
    tally.hold("schemas");
}

/// The official suite: `{id, draft, file, kind, needs_remote, schema, tests: [{data, valid}]}`.
#[test]
fn the_official_suite_fares_as_recorded() {
    let Some(rows) = rows("TOOLGATE_SCHEMA_SUITE") else { return };
    let vocabulary = Arc::new(Vocabulary::bytes_only());
    let mut tally = Tally::default();
    for row in &rows {
        let required = row["kind"] == "required";
        if row["needs_remote"] == true {
            tally.count("skipped");
            continue;
        }
        let draft = if row["draft"] == "draft7" { Draft::Seven } else { Draft::Y2020 };
        let formats = if row["kind"] == "optional/format" { Formats::Asserted } else { Formats::Annotations };
        let reading = SchemaOptions::default().draft(draft).formats(formats);
        let schema = &row["schema"];
        let trial = Trial::new(schema, &reading, &Options::default(), Arc::clone(&vocabulary)).0;
        let (passed, failed) = if required {
            ("required_passed", "required_failed")
        } else {
            ("optional_passed", "optional_failed")
        };
        let validator = validator(schema, draft, formats);
        let check =
            |instance: &Value| validator.as_ref().is_none_or(|validator| validator.is_valid(instance));
        for test in list(row, "tests") {
            let valid = test["valid"] == true;
            let (accepted, why) = match &trial {
                // A schema that nothing matches is refused, and with it every instance.
                Err(error) => (error.kind() != Kind::InvalidSchema, error.to_string()),
                Ok(trial) => {
                    let (verdict, why) = trial.judge(&test["data"], check);
                    (verdict == Verdict::Accepted, why.unwrap_or_else(|| verdict.as_str().to_owned()))
                }
            };
            if accepted == valid && (trial.is_ok() || !valid) {
                tally.count(passed);
            } else {
                tally.fault(
                    failed,
                    id(row),
                    &format!("valid: {valid}, {why}: {} for {schema}", test["data"]),
                );
            }
        }
    }
    tally.hold("schema-suite");
}

/// Texts for schemas: `{id, kind, schema | pattern, options: {any_whitespace}, pass, fail}`.
#[test]
fn texts_for_schemas_fare_as_recorded() {
    let Some(rows) = rows("TOOLGATE_SCHEMA_STRINGS") else { return };
    let vocabulary = Arc::new(Vocabulary::bytes_only());
    let mut tally = Tally::default();
    for row in &rows {
        let id = id(row);
        // A regular expression stands for the strings it matches as a whole, written as JSON.
        let regex = row["kind"] == "regex";
        let schema = if regex {
            json!({"type": "string", "pattern": format!("^(?:{})$", row["pattern"].as_str().unwrap())})
        } else {
            row["schema"].clone()
        };
        // White space is not what this is about, so it is as free as the grammar can make it.
        let options = Options::default().whitespace(Whitespace::Flexible { max: 40 });
        let trial = match Trial::new(&schema, &SchemaOptions::default(), &options, Arc::clone(&vocabulary)).0
        {
            Ok(trial) => trial,
            Err(error) => {
                if list(row, "pass").is_empty() {
                    tally.count("refused_with_nothing_to_pass");
                } else {
                    tally.fault("refused", id, &error.to_string());
                }
                continue;
            }
        };
        let validator = validator(&schema, Draft::default(), Formats::Asserted);
        for (name, holds) in [("pass", true), ("fail", false)] {
            for text in list(row, name).iter().filter_map(Value::as_str) {
                let text = if regex { Value::from(text).to_string() } else { text.to_owned() };
                // Keys in any order are not what these grammars write, so such a text is put in their order first.
                let any_order = holds && row["options"]["any_order"] == true;
                let text = if any_order { trial.text(&serde_json::from_str(&text).unwrap()) } else { text };
                let refusal = trial.refusal(&text);
                let checked = || {
                    let value: Option<Value> = serde_json::from_str(&text).ok();
                    value
                        .zip(validator.as_ref())
                        .is_some_and(|(value, validator)| !validator.is_valid(&value))
                };
                match (holds, refusal) {
                    (true, None) => tally.count("pass_accepted"),
                    (true, Some(why)) => tally.fault("pass_refused", id, &format!("{why}, for {schema}")),
                    (false, Some(_)) => tally.count("fail_refused_by_grammar"),
                    (false, None) if !trial.compiled().contract.is_complete() && checked() => {
                        tally.count("fail_refused_by_check");
                    }
                    (false, None) => tally.fault("fail_accepted", id, &format!("{text}, for {schema}")),
                }
            }
        }
    }
    tally.hold("schema-strings");
}

/// Schemas another converter is tested with: `{id, schema_text, schema, conversion_must}`.
#[test]
fn schemas_that_must_convert_do() {
    let Some(rows) = rows("TOOLGATE_SCHEMA_TO_GRAMMAR") else { return };
    let vocabulary = Arc::new(Vocabulary::bytes_only());
    let mut tally = Tally::default();
    for row in &rows {
        let trial = Trial::new(
            &row["schema"],
            &SchemaOptions::default(),
            &Options::default(),
            Arc::clone(&vocabulary),
        );
        match (row["conversion_must"] == "succeed", trial.0) {
            (true, Ok(_)) => tally.count("converted"),
            (false, Err(_)) => tally.count("refused"),
            (true, Err(error)) => tally.fault("wrongly_refused", id(row), &error.to_string()),
            (false, Ok(_)) => tally.fault("wrongly_converted", id(row), &row["schema_text"].to_string()),
        }
    }
    tally.hold("schema-to-grammar");
}
