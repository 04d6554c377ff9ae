//! The fuzz targets in a box of time, from a fixed seed, and every input that once broke one of them.
//!
//! `TOOLGATE_FUZZ_SECONDS` (default 2 for each target) makes the box larger, `TOOLGATE_FUZZ_SEED` moves it.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::unwrap_used,
    missing_docs,
    reason = "tests"
)]

mod targets;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use arbitrary::Unstructured;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use toolgate_grammar::Grammar;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().expect(name))
}

/// Feeds inputs of `make` to a target until the time is over.
fn run(name: &str, target: fn(&[u8]) -> u64, mut make: impl FnMut(&mut Xoshiro256PlusPlus) -> Vec<u8>) {
    let first = setting("TOOLGATE_FUZZ_SEED", 1);
    let time = Duration::from_secs(setting("TOOLGATE_FUZZ_SECONDS", 2));
    let start = Instant::now();
    let (mut inputs, mut steps) = (0_u64, 0);
    // At least some, however slow the machine is.
    while inputs < 50 || start.elapsed() < time {
        let seed = first.wrapping_mul(1 << 32).wrapping_add(inputs);
        let data = make(&mut Xoshiro256PlusPlus::seed_from_u64(seed));
        steps += match std::panic::catch_unwind(|| target(&data)) {
            Ok(steps) => steps,
            Err(panic) => {
                eprintln!("{name} broke on input {inputs} of TOOLGATE_FUZZ_SEED={first}");
                std::panic::resume_unwind(panic)
            }
        };
        inputs += 1;
    }
    eprintln!("{name}: {inputs} inputs, {steps} steps in {:.1} s", start.elapsed().as_secs_f64());
    assert!(steps > 0, "{name} did nothing");
}

fn bytes(rng: &mut Xoshiro256PlusPlus) -> Vec<u8> {
    (0..rng.random_range(1..400)).map(|_| rng.random()).collect()
}

#[test]
fn engine_and_reference_agree() {
    run("automaton", targets::automaton, bytes);
}

#[test]
fn mask_check_and_step_agree() {
    run("agreement", targets::agreement, bytes);
}

#[test]
fn any_text_is_read_or_refused() {
    let seeds: Vec<String> = files(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../grammars")))
        .map(|(_, text)| text)
        .collect();
    assert!(seeds.len() > 5, "the grammars of this repository are where mutation starts");
    run("gbnf", targets::gbnf, |rng| mutated(&seeds, rng));
}

/// Pieces of the notation, whole and broken.
const PIECES: [&str; 40] = [
    "::=",
    "root",
    "root ::= ",
    "|",
    "(",
    ")",
    "*",
    "+",
    "?",
    "{",
    "}",
    "{2}",
    "{1,}",
    "{0,3}",
    "{3,2}",
    "{4294967296}",
    "\"",
    "\"a\"",
    "[",
    "]",
    "[^",
    "[a-z]",
    "[z-a]",
    "[]",
    "-",
    "\\",
    "\\x41",
    "\\u00e9",
    "\\d",
    ".",
    "<",
    ">",
    "!<a>",
    "<[7]>",
    "<\"[x]\">",
    "\n",
    "\r\n",
    "#",
    "é",
    "\u{0}",
];

/// A grammar of the repository, or part of one, with pieces put in, taken out and moved.
fn mutated(seeds: &[String], rng: &mut Xoshiro256PlusPlus) -> Vec<u8> {
    let seed = seeds[rng.random_range(0..seeds.len())].as_bytes();
    let start = rng.random_range(0..seed.len());
    let mut text = match rng.random_range(0..3) {
        0 => b"root ::= ".to_vec(),
        1 => seed[..seed.len().min(600)].to_vec(),
        _ => [b"root ::= ", &seed[start..seed.len().min(start + 60)]].concat(),
    };
    for _ in 0..rng.random_range(0..8) {
        let at = rng.random_range(0..=text.len());
        let end = (at + rng.random_range(0..6)).min(text.len());
        let piece = PIECES[rng.random_range(0..PIECES.len())].as_bytes().to_vec();
        match rng.random_range(0..4) {
            0 => drop(text.splice(at..at, piece)),
            1 => drop(text.splice(at..end, piece)),
            2 => drop(text.drain(at..end)),
            _ => text.extend_from_within(at..end),
        }
    }
    text
}

/// The GBNF files below a directory, with their texts.
fn files(directory: &Path) -> impl Iterator<Item = (PathBuf, String)> {
    let mut found = Vec::new();
    let mut work = vec![directory.to_owned()];
    while let Some(directory) = work.pop() {
        for entry in std::fs::read_dir(&directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                work.push(path);
            } else if path.extension().is_some_and(|extension| extension == "gbnf") {
                found.push(path);
            }
        }
    }
    found.sort();
    found.into_iter().map(|path| {
        let text = std::fs::read_to_string(&path).expect("a text");
        (path, text)
    })
}

/// Grammars that once broke a law, each under the name of what was wrong.
#[test]
fn what_broke_once_holds_now() {
    let mut seen = 0;
    for (path, text) in files(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fuzz/fixtures"))) {
        targets::gbnf(text.as_bytes());
        if let Ok(grammar) = Grammar::parse(&text) {
            for seed in 0..40 {
                let choices = bytes(&mut Xoshiro256PlusPlus::seed_from_u64(seed));
                targets::walk_beside_reference(&grammar, &mut Unstructured::new(&choices));
                targets::walk_masks(&grammar, &mut Unstructured::new(&choices));
            }
        }
        eprintln!("{}", path.display());
        seen += 1;
    }
    assert!(seen > 0, "there are fixtures");
}
