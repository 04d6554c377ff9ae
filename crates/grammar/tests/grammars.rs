//! Runs every grammar of the `grammars` folder against the texts that stand beside it.
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

use std::path::{Path, PathBuf};

use toolgate_grammar::gbnf::{ParseOptions, Parsed, SampleOptions, Sampler};
use toolgate_grammar::{Grammar, Limits};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../grammars").join(name)
}

/// The texts of `NAME.accept.jsonl` or `NAME.reject.jsonl`; none at all is a mistake.
fn texts(grammar: &Path, extension: &str) -> Vec<String> {
    let path = grammar.with_extension(extension);
    let lines = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let texts: Vec<String> = lines.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    assert!(!texts.is_empty(), "{} is empty", path.display());
    texts
}

fn check(path: &Path) {
    let name = path.display();
    let text = std::fs::read_to_string(path).unwrap();
    let parsed = Parsed::parse(&text, &ParseOptions::default())
        .unwrap_or_else(|error| panic!("{name}: {}", error.report()));
    let warnings: Vec<String> = parsed.check().iter().map(|warning| warning.report()).collect();
    assert!(warnings.is_empty(), "{name}: {}", warnings.join("\n"));
    let grammar = parsed.grammar;
    assert_eq!(Grammar::parse(&grammar.to_gbnf()).unwrap(), grammar, "{name}");

    let outcome = |text: &str| grammar.match_text(text, &Limits::default()).unwrap();
    for text in texts(path, "accept.jsonl") {
        assert!(outcome(&text).matched, "{name}: {text:?}: {}", outcome(&text).report());
    }
    for text in texts(path, "reject.jsonl") {
        assert!(!outcome(&text).matched, "{name} matches {text:?}");
    }
    // Negated token terminals stand for tokens without a text to draw.
    if !grammar.to_gbnf().contains("!<") {
        let sampler = Sampler::new(&grammar, &SampleOptions::default()).unwrap();
        for seed in 0..50 {
            let text = sampler.seeded(seed).unwrap();
            assert!(outcome(&text).matched, "{name}: {text:?}: {}", outcome(&text).report());
        }
    }
}

fn check_folder(name: &str) {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder(name)).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "gbnf"));
    files.sort();
    assert!(!files.is_empty());
    files.iter().for_each(|path| check(path));
}

#[test]
fn library_grammars_hold_their_accept_and_reject_lists() {
    check_folder("lib");
}

#[test]
fn example_grammars_hold_their_accept_and_reject_lists() {
    check_folder("examples");
}
