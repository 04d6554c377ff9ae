//! Hostile schemas: each compiles, or is refused by a limit, in bounded memory and size. How long each takes is for
//! `benches/compile.rs` to say; what bounds it is counted work, the same on every machine.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, missing_docs, reason = "tests")]

mod cases;

use std::sync::Arc;

use peak_alloc::PeakAlloc;
use toolgate_grammar::conformance::Trial;
use toolgate_grammar::{Kind, Options, SchemaOptions, Vocabulary};

/// Counts what is allocated; one test alone in this binary, so that nothing else counts in.
#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// Bytes that compiling one schema may hold at once, its automaton included.
const BYTES: usize = 64 << 20;
/// Rules that a grammar may come to.
const RULES: usize = 60_000;

#[test]
fn hostile_schemas_stay_inside_the_limits() {
    let vocabulary = Arc::new(Vocabulary::bytes_only());
    let mut faults = Vec::new();
    for (name, schema, must) in cases::cases() {
        let before = MEMORY.current_usage();
        MEMORY.reset_peak_usage();
        let (trial, took) =
            Trial::new(&schema, &SchemaOptions::default(), &Options::default(), Arc::clone(&vocabulary));
        let bytes = MEMORY.peak_usage().saturating_sub(before);
        let rules = trial.as_ref().map_or(0, |trial| trial.compiled().grammar.rules().len());
        let outcome = match &trial {
            Ok(trial) => format!("{rules} rules, {} checked", trial.compiled().contract.checked().count()),
            Err(error) => error.to_string(),
        };
        eprintln!("{:>7.1} MiB {took:>12.3?}  {name}: {outcome}", bytes as f64 / f64::from(1 << 20));
        let refused = trial.err().map(|error| error.kind());
        let fits = match refused {
            None => rules < RULES,
            Some(kind) => !must && matches!(kind, Kind::Limit | Kind::InvalidSchema),
        };
        if bytes > BYTES || !fits {
            faults.push(format!("{name}: {bytes} bytes, {outcome}"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
