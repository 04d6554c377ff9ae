//! Runs the schema compiler over a corpus of schemas with instances that lies outside of this repository.
//!
//! The corpus is a file of JSON lines, each `{id, schema, valid_instances, invalid_instances}`. What is held to
//! is the contract: an invalid instance may pass only where the contract lists a checked keyword.
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

use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;
use toolgate_grammar::compile::render;
use toolgate_grammar::{Automaton, Kind, Limits, Options, Schema, Vocabulary, Whitespace, compile};

#[derive(Default, Debug)]
struct Counts {
    cases: usize,
    compiled: usize,
    refused: usize,
    valid_accepted: usize,
    valid_rejected: usize,
    invalid_rejected: usize,
    invalid_left_to_checks: usize,
    invalid_accepted: usize,
    over_limits: usize,
}

#[test]
fn no_invalid_instance_of_a_corpus_passes_a_complete_contract() {
    let Ok(path) = std::env::var("TOOLGATE_SCHEMA_CORPUS") else {
        eprintln!("skipped: set TOOLGATE_SCHEMA_CORPUS to a file of schemas with instances");
        return;
    };
    let verbose = std::env::var("TOOLGATE_VERBOSE").is_ok();
    let only = std::env::var("TOOLGATE_ONLY").ok();
    let vocabulary = Arc::new(Vocabulary::bytes_only());
    let options = Options { whitespace: Whitespace::Compact, ..Options::default() };
    let mut counts = Counts::default();
    let mut times = Vec::new();
    let mut faults = Vec::new();
    for line in std::fs::read_to_string(path).unwrap().lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        let id = row["id"].as_str().unwrap();
        if only.as_ref().is_some_and(|only| !id.contains(only.as_str())) {
            continue;
        }
        counts.cases += 1;
        let start = Instant::now();
        let result =
            Schema::parse(&row["schema"]).and_then(|schema| Ok((compile(&schema, &options)?, schema)));
        let took = start.elapsed();
        times.push((took, id.to_owned()));
        let (compiled, schema) = match result {
            Ok(pair) => pair,
            Err(error) => {
                counts.refused += 1;
                if verbose {
                    eprintln!("refused {id}: {error}");
                }
                continue;
            }
        };
        counts.compiled += 1;
        if verbose {
            eprintln!("{id}: {} rules, {took:?}", compiled.grammar.rules().len());
        }
        let automaton = match Automaton::new(&compiled.grammar, Arc::clone(&vocabulary), &Limits::default()) {
            Ok(automaton) => automaton,
            Err(error) => {
                counts.over_limits += 1;
                eprintln!("{id}: automaton: {error}");
                continue;
            }
        };
        let accepts = |text: &str| {
            let mut matcher = automaton.matcher();
            match matcher.accept_bytes(text.as_bytes()) {
                Ok(()) => Some((matcher.is_complete(), text.len())),
                Err(error) if error.kind() == Kind::Rejected => Some((false, matcher_offset(&error))),
                Err(error) => {
                    eprintln!("{id}: {error}");
                    None
                }
            }
        };
        for valid in row["valid_instances"].as_array().unwrap() {
            let text = render(valid, Some(&schema), Whitespace::Compact);
            match accepts(&text) {
                Some((true, _)) => counts.valid_accepted += 1,
                Some((false, at)) => {
                    counts.valid_rejected += 1;
                    if verbose {
                        let from = at.saturating_sub(60);
                        eprintln!(
                            "valid rejected {id} at {at}: …{}",
                            String::from_utf8_lossy(&text.as_bytes()[from..(at + 30).min(text.len())])
                        );
                    }
                }
                None => counts.over_limits += 1,
            }
        }
        for invalid in row["invalid_instances"].as_array().unwrap() {
            let text = render(invalid, Some(&schema), Whitespace::Compact);
            match accepts(&text) {
                Some((false, _)) => counts.invalid_rejected += 1,
                Some((true, _)) if !compiled.contract.is_complete() => {
                    counts.invalid_left_to_checks += 1;
                    if verbose {
                        let checked: Vec<_> = compiled
                            .contract
                            .checked()
                            .map(|e| (e.pointer().to_owned(), e.reason().unwrap_or_default().to_owned()))
                            .collect();
                        eprintln!("left to checks {id}: {:?}", &checked[..checked.len().min(4)]);
                    }
                }
                Some((true, _)) => {
                    counts.invalid_accepted += 1;
                    faults.push(format!("{id}: {}", text.chars().take(300).collect::<String>()));
                }
                None => counts.over_limits += 1,
            }
        }
    }
    times.sort();
    let at = |share: usize| times.get(times.len().saturating_sub(1) * share / 100).cloned();
    eprintln!("{counts:?}\ncompile p50 {:?} p99 {:?} max {:?}", at(50), at(99), times.last());
    assert!(faults.is_empty(), "invalid instances passed:\n{}", faults.join("\n"));
}

fn matcher_offset(error: &toolgate_grammar::Error) -> usize {
    match error.place() {
        Some(toolgate_grammar::Place::Offset(offset)) => *offset,
        _ => 0,
    }
}
