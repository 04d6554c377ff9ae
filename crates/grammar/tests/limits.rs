//! Whatever the text, there is an answer or an error of the right kind: no overflow, no panic, no end of memory.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "tests")]

use std::sync::Arc;

use toolgate_grammar::gbnf::{ParseOptions, Parsed};
use toolgate_grammar::{Automaton, Kind, Limits, Vocabulary};

/// What becomes of a grammar: nothing is wrong with it, or it is refused. It is run over a text as far as that goes.
fn outcome(grammar: &str) -> Result<(), Kind> {
    let parsed = Parsed::parse(grammar, &ParseOptions::default()).map_err(|error| error.kind())?;
    parsed.usable().map_err(|error| error.kind())?;
    let vocabulary = Arc::new(Vocabulary::bytes_only());
    let automaton =
        Automaton::new(&parsed.grammar, vocabulary, &Limits::default()).map_err(|error| error.kind())?;
    let mut matcher = automaton.matcher();
    for _ in 0..40 {
        match matcher.accept(u32::from(b'a')) {
            Ok(()) => {}
            Err(error) if error.kind() == Kind::Rejected => break,
            Err(error) => return Err(error.kind()),
        }
    }
    matcher.mask().map(drop).map_err(|error| error.kind())
}

fn nested(depth: usize, inner: &str, quantifier: &str) -> String {
    format!("root ::= {}{inner}{}", "(".repeat(depth), format!("){quantifier}").repeat(depth))
}

#[test]
fn nesting_is_read_up_to_its_limit_and_refused_beyond() {
    assert_eq!(outcome(&nested(100_000, "\"a\"", "")), Err(Kind::Limit));
    assert_eq!(outcome(&nested(100_000, "\"a\"", "?")), Err(Kind::Limit));
    assert_eq!(outcome(&format!("root ::= {}", "(".repeat(100_000))), Err(Kind::Limit));
    assert_eq!(outcome(&nested(200, "\"a\"", "")), Ok(()));
    // Groups may be refused, but rules may be as deep as they like.
    let rules: String = (0..100_000).map(|n| format!("r{n} ::= \"a\" r{}\n", n + 1)).collect();
    assert_eq!(outcome(&format!("root ::= r0\n{rules}r100000 ::= \"b\"\n")), Ok(()));
    let silent: String = (0..100_000).map(|n| format!("r{n} ::= r{}\n", n + 1)).collect();
    assert_eq!(outcome(&format!("root ::= r0\n{silent}r100000 ::= \"b\"\n")), Ok(()));
}

#[test]
fn ten_megabytes_are_read_or_refused() {
    let literal = format!("root ::= \"{}\"", "a".repeat(10_000_000));
    assert_eq!(outcome(&literal), Ok(()));
    assert_eq!(outcome(&format!("root ::= {}", "|".repeat(10_000_000))), Err(Kind::Limit));
    assert_eq!(outcome(&format!("root ::= {}", "[a-z] ".repeat(1_700_000))), Err(Kind::Limit));
    assert_eq!(outcome(&format!("root ::= \"a\"\n{}", "#".repeat(10_000_000))), Ok(()));
    assert_eq!(outcome(&format!("{}root ::= \"a\"", "\n".repeat(10_000_000))), Ok(()));
    assert_eq!(outcome(&format!("root ::= [{}]", "a-z".repeat(3_000_000))), Ok(()));
    assert_eq!(outcome(&format!("root ::= {}", "a".repeat(10_000_000))), Err(Kind::Undefined));
    assert_eq!(outcome(&"a".repeat(17 << 20)), Err(Kind::Limit));
    assert_eq!(outcome(&"root ::= \"a\"\n".repeat(800_000)), Err(Kind::Undefined));
}

#[test]
fn counts_cost_nothing_however_large_and_deep() {
    for inner in ["\"a\"", "\"a\"?", "[ab]"] {
        for counts in ["{0,4294967295}", "{2,4294967295}", "{4294967295}", "{18446744073709551615}"] {
            assert_eq!(outcome(&nested(60, inner, counts)), Ok(()), "{inner}{counts}");
        }
    }
    assert_eq!(outcome("root ::= \"a\"{18446744073709551616}"), Err(Kind::Limit));
    assert_eq!(outcome("root ::= \"a\"{4294967296,4294967295}"), Err(Kind::Syntax));
}

#[test]
fn cycles_of_empty_rules_are_refused_and_their_near_twins_run() {
    assert_eq!(outcome("root ::= a \"a\"\na ::= b | \"\"\nb ::= a | \"\""), Err(Kind::Unsupported));
    assert_eq!(outcome("root ::= a \"a\"\na ::= b | \"\"\nb ::= \"x\" a | \"\""), Ok(()));
    assert_eq!(outcome("root ::= root"), Err(Kind::Undefined));
    assert_eq!(outcome("root ::= \"a\" root"), Err(Kind::Undefined));
    let ring: String = (0..20_000).map(|n| format!("e{n} ::= e{} | \"\"\n", (n + 1) % 20_000)).collect();
    assert_eq!(outcome(&format!("root ::= e0\n{ring}")), Err(Kind::Unsupported));
    // Sixty doublings of what can be empty.
    let doubling: String = (0..60).map(|n| format!("a{n} ::= a{} a{}\n", n + 1, n + 1)).collect();
    assert_eq!(outcome(&format!("root ::= a0\n{doubling}a60 ::= \"a\"?\n")), Ok(()));
}

#[test]
fn ambiguity_is_a_set_or_a_limit() {
    assert_eq!(outcome("root ::= s\ns ::= \"a\" s? s? s? s? | \"a\""), Ok(()));
    assert_eq!(outcome("root ::= (\"a\"* \"a\"* \"a\"* \"a\"* \"a\"*)*"), Ok(()));
    assert_eq!(outcome("root ::= ((\"a\"{0,100}){0,100}){0,100} \"b\""), Ok(()));
    assert_eq!(outcome(&format!("root ::= {} \"b\"", "\"a\"? ".repeat(20_000))), Err(Kind::Limit));
}
