//! Runs a corpus of GBNF grammars and texts, one JSON object a line, if `TOOLGATE_GBNF_CORPUS` names its file:
//! `{id, kind, dialect, root, grammar, pass, fail}`. The corpus itself is not part of this repository.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::print_stdout,
    missing_docs,
    reason = "tests"
)]

#[path = "../../../tests/support/skip.rs"]
mod skip;

use serde_json::Value;
use toolgate_grammar::gbnf::{ParseOptions, Parsed};
use toolgate_grammar::{Grammar, Limits};

/// A grammar the engine runs, or why not.
fn build(row: &Value) -> Result<Grammar, String> {
    let options = ParseOptions::default().root(field(row, "root").to_owned());
    let parsed = Parsed::parse(field(row, "grammar"), &options).map_err(|error| error.report())?;
    parsed.usable().map_err(|error| error.report())?;
    // The checker and the engine must agree about what can be run.
    parsed.grammar.match_text("", &Limits::default()).map_err(|error| error.report())?;
    Ok(parsed.grammar)
}

fn field<'v>(row: &'v Value, name: &str) -> &'v str {
    row[name].as_str().unwrap_or_default()
}

fn texts<'v>(row: &'v Value, name: &str) -> impl Iterator<Item = &'v str> {
    row[name].as_array().into_iter().flatten().filter_map(Value::as_str)
}

#[test]
fn every_grammar_of_the_corpus_matches_what_it_must_and_nothing_else() {
    let Some(path) = skip::corpus("TOOLGATE_GBNF_CORPUS", "a corpus of grammars as JSON lines") else {
        return;
    };
    let lines = std::fs::read_to_string(&path).expect("TOOLGATE_GBNF_CORPUS names a readable file");
    let mut wrong = Vec::new();
    let (mut built, mut refused, mut foreign, mut matched, mut unmatched) = (0, 0, 0, 0, 0);
    for line in lines.lines() {
        let row: Value = serde_json::from_str(line).expect("a JSON object a line");
        let id = field(&row, "id");
        let must_build = field(&row, "kind") != "must_not_build";
        let grammar = match build(&row) {
            // Other dialects may use notations that GBNF does not have.
            Err(_) if field(&row, "dialect") != "gbnf" => {
                foreign += 1;
                continue;
            }
            Err(report) if must_build => {
                wrong.push(format!("{id} is refused: {report}"));
                continue;
            }
            Err(_) => {
                refused += 1;
                continue;
            }
            Ok(_) if !must_build => {
                wrong.push(format!("{id} is accepted"));
                continue;
            }
            Ok(grammar) => grammar,
        };
        built += 1;
        let printed =
            ParseOptions::default().root(grammar.rule(grammar.root()).unwrap().name.replace('_', "-"));
        let printed = Grammar::parse_with(&grammar.to_gbnf(), &printed).expect("what is printed is read");
        for (grammar, form) in [(&grammar, "as read"), (&printed, "as printed")] {
            let matches =
                |text: &str| grammar.match_text(text, &Limits::default()).map(|outcome| outcome.matched);
            for text in texts(&row, "pass") {
                matched += 1;
                if !matches(text).unwrap_or(false) {
                    wrong.push(format!("{id} {form} refuses {text:?}: {:?}", matches(text)));
                }
            }
            for text in texts(&row, "fail") {
                unmatched += 1;
                if matches(text).unwrap_or(true) {
                    wrong.push(format!("{id} {form} matches {text:?}: {:?}", matches(text)));
                }
            }
        }
    }
    eprintln!(
        "{built} built, {refused} rightly refused, {foreign} in other dialects; {matched} texts to match, {unmatched} not to"
    );
    assert!(built > 0 && wrong.is_empty(), "{}", wrong.join("\n"));
}
