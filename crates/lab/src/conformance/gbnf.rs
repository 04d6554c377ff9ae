//! `toolgate conformance gbnf`: are the grammars built that must be, the others refused, and do the texts match
//! that must.

use clap::Args;
use serde_json::{Value, json};
use toolgate_grammar::gbnf::{ParseOptions, Parsed};
use toolgate_grammar::{Error, Grammar, Limits};

use super::{CorpusArgs, Outcome};
use crate::host::Bar;
use crate::jsonl::Row;

pub(super) const EXAMPLES: &str = "\
Example:
  toolgate conformance gbnf grammars.jsonl --out outcomes.jsonl

A row is {\"id\", \"kind\", \"dialect\", \"root\", \"grammar\", \"pass\", \"fail\"}. A grammar of kind must_not_build must be
refused; one of another dialect than gbnf may be, and is then counted as other_dialect_refused.
Verdicts: ok, refused, other_dialect, wrongly_refused, wrongly_built, wrong (a text).";

#[derive(Args)]
pub(super) struct GbnfArgs {
    #[command(flatten)]
    corpus: CorpusArgs,
}

#[derive(Default)]
struct Counts {
    grammars: usize,
    wrongly_refused: usize,
    wrongly_built: usize,
    other_dialect_refused: usize,
    pass_ok: usize,
    pass_bad: usize,
    fail_ok: usize,
    fail_bad: usize,
}

/// Runs the corpus; the summary.
pub(super) fn run(args: &GbnfArgs, bar: Bar) -> anyhow::Result<Value> {
    let mut counts = Counts::default();
    args.corpus.each(bar, |row| counts.case(row))?;
    Ok(json!({
        "grammars": counts.grammars,
        "wrongly_refused": counts.wrongly_refused,
        "wrongly_built": counts.wrongly_built,
        "other_dialect_refused": counts.other_dialect_refused,
        "pass_ok": counts.pass_ok,
        "pass_bad": counts.pass_bad,
        "fail_ok": counts.fail_ok,
        "fail_bad": counts.fail_bad,
    }))
}

impl Counts {
    fn case(&mut self, row: &Row) -> anyhow::Result<Outcome> {
        self.grammars += 1;
        let must_build = row.get("kind").and_then(Value::as_str) != Some("must_not_build");
        let foreign = row.get("dialect").and_then(Value::as_str).is_some_and(|dialect| dialect != "gbnf");
        let root = row.get("root").and_then(Value::as_str);
        let (verdict, reason) = match build(row.text("grammar")?, root) {
            Err(_) if !must_build => ("refused", None),
            Err(error) if foreign => {
                self.other_dialect_refused += 1;
                ("other_dialect", Some(error.report()))
            }
            Err(error) => {
                self.wrongly_refused += 1;
                ("wrongly_refused", Some(error.report()))
            }
            Ok(_) if !must_build => {
                self.wrongly_built += 1;
                ("wrongly_built", None)
            }
            Ok(grammar) => {
                let wrong = self.texts(&grammar, &row.texts("pass")?, &row.texts("fail")?);
                if wrong.is_empty() { ("ok", None) } else { ("wrong", Some(wrong.join("\n"))) }
            }
        };
        Ok(Outcome { id: row.text("id")?.to_owned(), verdict, reason })
    }

    /// Counts the texts of one grammar; what is wrong about them.
    fn texts(&mut self, grammar: &Grammar, pass: &[&str], fail: &[&str]) -> Vec<String> {
        let mut wrong = Vec::new();
        for (texts, must_match) in [(pass, true), (fail, false)] {
            for text in texts {
                let problem = match grammar.match_text(text, &Limits::default()) {
                    Ok(outcome) if outcome.matched == must_match => None,
                    Ok(outcome) if must_match => Some(outcome.report()),
                    Ok(_) => Some("matches".to_owned()),
                    Err(error) => Some(error.report()),
                };
                let count = match (must_match, &problem) {
                    (true, None) => &mut self.pass_ok,
                    (true, Some(_)) => &mut self.pass_bad,
                    (false, None) => &mut self.fail_ok,
                    (false, Some(_)) => &mut self.fail_bad,
                };
                *count += 1;
                wrong.extend(problem.map(|problem| format!("{text:?}: {problem}")));
            }
        }
        wrong
    }
}

/// The grammar, if the parser, the checker and the engine all take it.
fn build(text: &str, root: Option<&str>) -> Result<Grammar, Error> {
    let mut options = ParseOptions::default();
    options.root = root.map_or(options.root, str::to_owned);
    let parsed = Parsed::parse(text, &options)?;
    parsed.usable()?;
    parsed.grammar.match_text("", &options.limits)?;
    Ok(parsed.grammar)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::jsonl::Jsonl;

    #[test]
    fn each_kind_of_outcome_is_counted_as_itself() {
        let rows = [
            json!({"id": "a", "grammar": "root ::= [0-9]+", "pass": ["1", "x"], "fail": ["", "12"]}),
            json!({"id": "b", "kind": "must_not_build", "grammar": "root ::= \"a\" | root \"a\""}),
            json!({"id": "c", "kind": "must_not_build", "grammar": "root ::= \"a\""}),
            json!({"id": "d", "grammar": "root ::= other"}),
            json!({"id": "e", "dialect": "other", "grammar": "root ::= f(x)"}),
            json!({"id": "f", "root": "start", "grammar": "start ::= \"a\"", "pass": ["a"], "fail": ["b"]}),
        ];
        let mut counts = Counts::default();
        let corpus = Jsonl::of(&rows);
        let verdicts: Vec<&str> =
            corpus.rows().map(|row| counts.case(&row.unwrap()).unwrap().verdict).collect();
        assert_eq!(verdicts, ["wrong", "refused", "wrongly_built", "wrongly_refused", "other_dialect", "ok"]);
        assert_eq!((counts.wrongly_built, counts.wrongly_refused, counts.other_dialect_refused), (1, 1, 1));
        assert_eq!((counts.pass_ok, counts.pass_bad, counts.fail_ok, counts.fail_bad), (2, 1, 2, 1));
    }
}
