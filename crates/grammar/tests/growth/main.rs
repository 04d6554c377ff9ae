//! Twice the input takes about twice the work, whatever it is made of, or ends in a limit that names the place.
//!
//! What is compared is counted, the same on every machine: steps, and for schemas the bytes held at once. That a step
//! stands for a bounded piece of work is measured by hand; [`Limits::work`](toolgate_grammar::Limits::work) has the
//! figures.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, missing_docs, reason = "tests")]

#[path = "../common/choices.rs"]
mod choices;
mod grammars;
mod schemas;
#[path = "../../../../tests/support/skip.rs"]
mod skip;

use std::sync::Arc;

use peak_alloc::PeakAlloc;
use serde_json::{Value, json};
use toolgate_grammar::gbnf::{ParseOptions, Parsed};
use toolgate_grammar::{
    Automaton, Error, Grammar, Kind, Limits, Options, Place, Schema, SchemaOptions, Vocabulary, compile,
    compile_into,
};

/// Counts what is allocated, by one test alone where each has a process of its own; else the others count in, and
/// nothing is said of memory.
#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// How much more twice the input may take: a little more than twice, for what is sorted or grows by doubling.
const TWICE: f64 = 2.2;
/// Steps and bytes that are there whatever the input.
const STEPS: f64 = 2_000.0;
const BYTES: f64 = 4_000_000.0;

/// Reads and compiles a schema and lowers its grammar; all steps.
fn steps(document: &Value, limits: &Limits) -> Result<u64, Error> {
    let schema = choices::schema(document)?;
    let compiled = compile(&schema, &Options::default().limits(limits.clone()))?;
    let vocabulary = Arc::new(Vocabulary::bytes_only());
    let automaton = Automaton::new(&compiled.grammar, vocabulary, limits)?;
    Ok(schema.work() + compiled.work + automaton.usage().work)
}

fn doubles(once: u64, twice: u64) -> bool {
    twice as f64 <= TWICE * once as f64 + STEPS
}

#[test]
fn schemas_twice_as_large_take_twice_the_steps() {
    let mut faults = Vec::new();
    for (name, size, make) in schemas::linear() {
        let (once, twice) = (make(size), make(2 * size));
        match (steps(&once, &Limits::default()), steps(&twice, &Limits::default())) {
            (Ok(once), Ok(twice)) if doubles(once, twice) => eprintln!("{once:>9} {twice:>9}  {name}"),
            (once, twice) => faults.push(format!("{name}: {once:?}, then {twice:?}")),
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// What a schema multiplies out to is counted, so that it compiles while it is small, and is refused with its place
/// where it is not.
#[test]
fn schemas_that_multiply_out_end_in_a_limit_that_names_the_place() {
    let limits = Limits::default().work(200_000);
    let mut faults = Vec::new();
    for (name, small, large, make) in schemas::metered() {
        let refused = |error: &Error| {
            let place = matches!(error.place(), Some(Place::Pointer(_)));
            place && error.kind() == Kind::Limit && error.report().contains("Limits::work")
        };
        match (steps(&make(small), &limits), read_and_compiled(&make(large), &limits)) {
            (Ok(_), Err(error)) if refused(&error) => eprintln!("{error}  {name}"),
            (small, large) => faults.push(format!("{name}: {:?}, then {large:?}", small.err())),
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

fn read_and_compiled(document: &Value, limits: &Limits) -> Result<u64, Error> {
    let reading = SchemaOptions::default().limits(limits.clone());
    let schema = Schema::parse_with(document, &reading)?;
    Ok(compile(&schema, &Options::default().limits(limits.clone()))?.work)
}

/// Proofs and automata have bounds of their own: what is left open by then is checked, and the rest still compiles.
#[test]
fn what_takes_too_long_to_prove_or_determinize_is_checked() {
    let limits = Limits::default().work(200_000);
    let mut faults = Vec::new();
    for (name, size, make) in schemas::proven() {
        let schema = Schema::parse(&make(size)).unwrap();
        let compiled = compile(&schema, &Options::default().limits(limits.clone()));
        let most = 8 * limits.work as u64 + 64 * 40 * size as u64;
        match &compiled {
            Ok(compiled) if compiled.work <= most && !compiled.contract.is_complete() => {}
            other => faults.push(format!("{name}: {:?}", other.as_ref().map(|compiled| compiled.work))),
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn schemas_twice_as_large_hold_twice_the_memory() {
    // Memory is counted a process: this test must be alone in its own.
    if std::env::var_os("NEXTEST").is_none() {
        return skip::required("install cargo-nextest and run the tests by cargo nextest run");
    }
    let held = |document: &Value| {
        let before = MEMORY.current_usage();
        MEMORY.reset_peak_usage();
        let outcome = steps(document, &Limits::default());
        (outcome.is_ok(), MEMORY.peak_usage().saturating_sub(before) as f64)
    };
    let mut faults = Vec::new();
    for (name, size, make) in schemas::linear() {
        let (once, twice) = (make(size), make(2 * size));
        let ((_, once), (fits, twice)) = (held(&once), held(&twice));
        if !fits || twice > TWICE * once + BYTES {
            faults.push(format!("{name}: {once} bytes, then {twice}"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn twice_as_many_tools_take_twice_the_steps() {
    let tool = |i: usize| {
        json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "pattern": format!("^dir{i}/[a-z]+$")},
                "depth": {"type": ["integer", "null"], "minimum": 0, "maximum": 10 + i},
                "mode": {"enum": ["read", "write", format!("mode {i}")]},
                "when": {"type": "string", "format": "date-time"},
                "options": {"oneOf": [{"type": "object", "additionalProperties": {"type": "string"}}, {"const": i}]}
            },
            "required": ["path"],
            "not": {"required": ["depth", "mode"]}
        })
    };
    let all = |n: usize| {
        let mut builder = Grammar::builder();
        for i in 0..n {
            let schema = Schema::parse(&tool(i)).unwrap();
            // Half of them have one name: each rule of theirs is tried against those of all others.
            let name = if i % 2 == 0 { "tool".to_owned() } else { format!("tool-{i}") };
            compile_into(&schema, &Options::default(), &mut builder, &name).unwrap();
        }
        builder.work()
    };
    let (once, twice) = (all(100), all(200));
    assert!(doubles(once, twice), "{once}, then {twice}");
}

#[test]
fn grammars_twice_as_large_take_twice_the_steps() {
    let mut faults = Vec::new();
    for (name, size, make) in grammars::kinds() {
        let steps = |n: usize| -> Result<u64, Error> {
            let (text, input) = make(n);
            let parsed = Parsed::parse(&text, &ParseOptions::default())?;
            let vocabulary = Arc::new(Vocabulary::bytes_only());
            let automaton = Automaton::new(&parsed.grammar, vocabulary, &Limits::default())?;
            let mut matcher = automaton.matcher();
            let run = matcher.accept_bytes(input.as_bytes()).and_then(|()| matcher.mask().map(drop));
            match run {
                Err(error) if error.kind() == Kind::Limit => return Err(error),
                _ => {}
            }
            Ok(parsed.work() + automaton.usage().work)
        };
        let (once, twice) = (steps(size), steps(2 * size));
        match (&once, &twice) {
            (Ok(once), Ok(twice)) if doubles(*once, *twice) => eprintln!("{once:>9} {twice:>9}  {name}"),
            (Ok(once), Err(error)) if error.kind() == Kind::Limit => eprintln!("{once:>9} {error}  {name}"),
            _ => faults.push(format!("{name}: {once:?}, then {twice:?}")),
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
