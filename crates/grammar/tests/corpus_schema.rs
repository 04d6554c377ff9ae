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

/// The official suite as JSON lines: `{id, draft, file, kind, needs_remote, schema, tests: [{data, valid}]}`.
#[test]
fn the_official_suite_is_told_apart_by_complete_contracts() {
    let Ok(path) = std::env::var("TOOLGATE_SCHEMA_SUITE") else {
        eprintln!("skipped: set TOOLGATE_SCHEMA_SUITE to the official test suite as JSON lines");
        return;
    };
    let options = Options { whitespace: Whitespace::Compact, ..Options::default() };
    let (mut right, mut left_to_checks, mut refused) = (0, 0, 0);
    let mut faults = Vec::new();
    for line in std::fs::read_to_string(path).unwrap().lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        // Formats are enforced here, where the suite's required part holds them to be annotations.
        let format = row["file"].as_str().unwrap().contains("format");
        if row["needs_remote"] == true || row["kind"] != "required" || format {
            continue;
        }
        let (id, mut document) = (row["id"].as_str().unwrap(), row["schema"].clone());
        if let (Some(map), "draft7") = (document.as_object_mut(), row["draft"].as_str().unwrap()) {
            map.entry("$schema").or_insert_with(|| "http://json-schema.org/draft-07/schema#".into());
        }
        let result = Schema::parse(&document).and_then(|schema| Ok((compile(&schema, &options)?, schema)));
        let (compiled, schema) = match result {
            Ok(pair) => pair,
            Err(error) => {
                let possible = row["tests"].as_array().unwrap().iter().any(|test| test["valid"] == true);
                if possible || error.kind() != Kind::InvalidSchema {
                    refused += 1;
                    eprintln!("refused {id}: {error}");
                }
                continue;
            }
        };
        for test in row["tests"].as_array().unwrap() {
            let text = render(&test["data"], Some(&schema), Whitespace::Compact);
            match (test["valid"] == true, compiled.accepts(&text).unwrap()) {
                (true, true) | (false, false) => right += 1,
                (false, true) if !compiled.contract.is_complete() => left_to_checks += 1,
                (valid, _) => faults.push(format!("{id}: {text} is valid: {valid}, for {document}")),
            }
        }
    }
    eprintln!(
        "right {right}, left to checks {left_to_checks}, wrong {}, schemas refused {refused}",
        faults.len()
    );
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Texts for schemas, as JSON lines: `{id, kind, schema, options: {any_whitespace}, pass, fail}`.
#[test]
fn texts_of_a_corpus_match_or_fail_as_they_must() {
    let Ok(path) = std::env::var("TOOLGATE_SCHEMA_STRINGS") else {
        eprintln!("skipped: set TOOLGATE_SCHEMA_STRINGS to a file of schemas with texts");
        return;
    };
    let (mut right, mut left_to_checks) = (0, 0);
    let mut faults = Vec::new();
    for line in std::fs::read_to_string(path).unwrap().lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        // Texts with keys in any order are not what these grammars write.
        if row["kind"] != "json_schema" || row["options"]["any_order"] == true {
            continue;
        }
        let id = row["id"].as_str().unwrap();
        // White space is not what this test is about, so it is as free as the grammar can make it.
        let whitespace = Whitespace::Flexible { max: 40 };
        let options = Options { whitespace, ..Options::default() };
        let compiled = match Schema::parse(&row["schema"]).and_then(|schema| compile(&schema, &options)) {
            Ok(compiled) => compiled,
            Err(error) => {
                faults.push(format!("{id}: {error}"));
                continue;
            }
        };
        let automaton =
            Automaton::new(&compiled.grammar, Arc::new(Vocabulary::bytes_only()), &Limits::default())
                .unwrap();
        for (list, holds) in [("pass", true), ("fail", false)] {
            for text in row[list].as_array().unwrap().iter().filter_map(Value::as_str) {
                let mut matcher = automaton.matcher();
                let accepts = matcher.accept_bytes(text.as_bytes()).is_ok() && matcher.is_complete();
                match (holds, accepts) {
                    (true, true) | (false, false) => right += 1,
                    (false, true) if !compiled.contract.is_complete() => left_to_checks += 1,
                    _ => faults.push(format!("{id}: {list}: {}", text.chars().take(200).collect::<String>())),
                }
            }
        }
    }
    eprintln!("right {right}, left to checks {left_to_checks}, wrong {}", faults.len());
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
