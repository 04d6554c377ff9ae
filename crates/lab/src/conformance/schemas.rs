//! `toolgate conformance schemas`: do schemas compile, does the grammar take the valid instances and no others, and
//! what do masks cost on the way.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use serde_json::{Value, json};
use toolgate_grammar::conformance::{Trial, Verdict, shares};
use toolgate_grammar::{self as grammar, SchemaOptions, Vocabulary};
use toolgate_infer::Specials;
use toolgate_llama::{Load, Model, ModelOptions};

use super::{CorpusArgs, Outcome};
use crate::host::Bar;
use crate::jsonl::Row;
use toolgate_engine::models;
use toolgate_tools::Check;

pub(super) const EXAMPLES: &str = "\
Examples:
  toolgate conformance schemas schemas.jsonl --out outcomes.jsonl
  toolgate conformance schemas schemas.jsonl --vocab qwen2.5-coder-0.5b --limit 200

A row is {\"id\", \"schema\", \"valid_instances\", \"invalid_instances\"}. Instances are written in the contract's key order
and white space first. invalid_rejected_by_contract counts what the grammar or a checked keyword refuses;
compile_ms is from the parsed JSON to an automaton that is ready to run.
With --vocab each instance is replayed as tokens too, a whole mask computed before each and at the end.
Verdicts: ok, refused (the schema), wrong (an instance).";

#[derive(Args)]
pub(super) struct SchemasArgs {
    #[command(flatten)]
    corpus: CorpusArgs,
    /// Time masks over the vocabulary of this model (an id or a path); its weights are not loaded.
    #[arg(long, value_name = "MODEL")]
    vocab: Option<String>,
}

/// What was counted, and where the time went.
#[derive(Default)]
struct Counts {
    cases: usize,
    compiled: usize,
    refused: BTreeMap<&'static str, usize>,
    valid_accepted: usize,
    valid_rejected: usize,
    rejected_by_grammar: usize,
    rejected_by_check: usize,
    invalid_accepted: usize,
    compile: Vec<Duration>,
    masks: Vec<Duration>,
    tokens: usize,
}

/// Runs the corpus; the summary.
pub(super) fn run(args: &SchemasArgs, bar: Bar) -> anyhow::Result<Value> {
    let model = args.vocab.as_deref().map(vocabulary_of).transpose()?;
    let vocabulary = model
        .as_ref()
        .map_or_else(|| Arc::new(Vocabulary::bytes_only()), |model| Arc::clone(model.vocabulary()));
    let mut counts = Counts::default();
    args.corpus.each(bar, |row| counts.case(row, &vocabulary, model.as_ref()))?;
    Ok(counts.summary(model.is_some()))
}

fn vocabulary_of(model: &str) -> anyhow::Result<Model> {
    let found = models::resolve(model)?;
    let options = ModelOptions { load: Load::Vocabulary, ..ModelOptions::default() };
    Model::load(&found.path, options).with_context(|| format!("cannot load the vocabulary of {model}"))
}

impl Counts {
    fn case(
        &mut self,
        row: &Row,
        vocabulary: &Arc<Vocabulary>,
        model: Option<&Model>,
    ) -> anyhow::Result<Outcome> {
        let id = row.text("id")?.to_owned();
        let document = row.get("schema").ok_or_else(|| row.is_not("schema", "there"))?;
        self.cases += 1;
        let (trial, took) = Trial::new(
            document,
            &SchemaOptions::default(),
            &grammar::Options::default(),
            Arc::clone(vocabulary),
        );
        self.compile.push(took);
        let trial = match trial {
            Ok(trial) => trial,
            Err(error) => {
                *self.refused.entry(error.kind().as_str()).or_default() += 1;
                return Ok(Outcome { id, verdict: "refused", reason: Some(error.to_string()) });
            }
        };
        self.compiled += 1;
        let mut wrong = Vec::new();
        // A schema that the validator does not take leaves nothing but the grammar to hold.
        let check = Check::new(document).ok();
        let valid = |instance: &Value| check.as_ref().is_none_or(|check| check.is_valid(instance));
        for (field, holds) in [("valid_instances", true), ("invalid_instances", false)] {
            for instance in row.list(field)? {
                // Masks come first, before the bytes of the instance have taught the automaton its way.
                if let Some(model) = model {
                    self.replay(&trial, instance, model)?;
                }
                let (verdict, why) = trial.judge(instance, valid);
                if !self.judged(holds, verdict) {
                    let why = why.unwrap_or_else(|| trial.text(instance).chars().take(300).collect());
                    let kind = if holds { "valid" } else { "invalid" };
                    wrong.push(format!("{kind} instance {}: {why}", verdict.as_str()));
                }
            }
        }
        let reason = (!wrong.is_empty()).then(|| wrong.join("\n"));
        Ok(Outcome { id, verdict: if reason.is_none() { "ok" } else { "wrong" }, reason })
    }

    /// Counts a verdict; whether it is as it must be.
    fn judged(&mut self, valid: bool, verdict: Verdict) -> bool {
        let count = match (valid, verdict) {
            (true, Verdict::Accepted) => &mut self.valid_accepted,
            (true, _) => &mut self.valid_rejected,
            (false, Verdict::ByGrammar) => &mut self.rejected_by_grammar,
            (false, Verdict::ByCheck) => &mut self.rejected_by_check,
            (false, Verdict::Accepted) => &mut self.invalid_accepted,
        };
        *count += 1;
        valid == (verdict == Verdict::Accepted)
    }

    fn replay(&mut self, trial: &Trial, instance: &Value, model: &Model) -> anyhow::Result<()> {
        let tokens = model.tokenize(&trial.text(instance), Specials::Plain)?;
        self.tokens += tokens.len();
        // An automaton at its limits has no further masks to time; the instance is judged all the same.
        trial.masks(&tokens, &mut self.masks).ok();
        Ok(())
    }

    fn summary(mut self, with_masks: bool) -> Value {
        let total: Duration = self.compile.iter().chain(&self.masks).sum();
        let [mean, p50, _, p99, max] =
            shares(&mut self.compile).map(|time| rounded(time.as_secs_f64() * 1e3));
        let mut summary = json!({
            "cases": self.cases,
            "compiled": self.compiled,
            "refused": self.refused,
            "valid_accepted": self.valid_accepted,
            "valid_rejected": self.valid_rejected,
            "invalid_rejected_by_grammar": self.rejected_by_grammar,
            "invalid_rejected_by_contract": self.rejected_by_grammar + self.rejected_by_check,
            "invalid_accepted": self.invalid_accepted,
            "compile_ms": {"mean": mean, "p50": p50, "p99": p99, "max": max},
        });
        if let (true, Some(map)) = (with_masks, summary.as_object_mut()) {
            let n = self.masks.len();
            let [mean, p50, p90, p99, max] =
                shares(&mut self.masks).map(|time| rounded(time.as_secs_f64() * 1e6));
            map.insert(
                "mask_us".to_owned(),
                json!({"mean": mean, "p50": p50, "p90": p90, "p99": p99, "max": max, "n": n}),
            );
            let per_token = total.as_secs_f64() * 1e6 / self.tokens.max(1) as f64;
            map.insert("us_per_token_with_compile".to_owned(), rounded(per_token).into());
        }
        summary
    }
}

/// Three places are more than a clock can mean.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::jsonl::Jsonl;

    #[test]
    fn each_kind_of_outcome_is_counted_as_itself() {
        let unique = json!({"type": "array", "items": {"type": "integer"}, "uniqueItems": true});
        let rows = [
            json!({"id": "a", "schema": unique, "valid_instances": [[1, 2]], "invalid_instances": [["x"], [1, 1]]}),
            json!({"id": "b", "schema": {"type": "text"}, "valid_instances": [1]}),
            json!({"id": "c", "schema": {"type": "null"}, "valid_instances": [1], "invalid_instances": [null]}),
        ];
        let mut counts = Counts::default();
        let vocabulary = Arc::new(Vocabulary::bytes_only());
        let corpus = Jsonl::of(&rows);
        let verdicts: Vec<&str> =
            corpus.rows().map(|row| counts.case(&row.unwrap(), &vocabulary, None).unwrap().verdict).collect();
        assert_eq!(verdicts, ["ok", "refused", "wrong"]);
        let summary = counts.summary(false);
        for (name, expected) in [
            ("cases", json!(3)),
            ("compiled", json!(2)),
            ("refused", json!({"invalid_schema": 1})),
            ("valid_accepted", json!(1)),
            ("valid_rejected", json!(1)),
            ("invalid_rejected_by_grammar", json!(1)),
            ("invalid_rejected_by_contract", json!(2)),
            ("invalid_accepted", json!(1)),
        ] {
            assert_eq!(summary.get(name), Some(&expected), "{name}");
        }
        assert!(summary.get("mask_us").is_none());
    }
}
