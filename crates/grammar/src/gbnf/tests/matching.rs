//! Whether a text matches, where it stops and what could have come there.

use std::fmt::Write;

use crate::gbnf::Grammar;
use crate::{Kind, Limits};

/// A grammar, texts it matches, and texts it stops in, with the byte offset.
type Case = (&'static str, &'static [&'static str], &'static [(&'static str, usize)]);

const CASES: &[Case] = &[
    (
        "root ::= \"{\" [a-z]+ (\",\" [a-z]+)* \"}\"",
        &["{a}", "{ab,c}"],
        &[("{a,}", 3), ("{a", 2), ("{a}x", 3), ("", 0)],
    ),
    (
        "root ::= \"true\" | \"tree\" | \"null\"",
        &["true", "null"],
        &[("trie", 2), ("nil", 1), ("x", 0), ("nul", 3)],
    ),
    ("root ::= \"\\\"\" [^\"\\\\\\x00-\\x1F]* \"\\\"\"", &["\"é日😀\""], &[("\"a\nb\"", 2), ("\"日\\\"", 4)]),
    ("root ::= [а-я]+ \"!\"", &["привет!"], &[("приvет!", 6), ("при日", 6), ("при", 6)]),
    (
        "root ::= line+\nline ::= [0-9]{4} \"\\n\"",
        &["2026\n2027\n"],
        &[("2026\n202\n", 8), ("2026\n20277\n", 9)],
    ),
    (
        "root ::= <a> !<b>{1,3} <b>",
        &["<a>xyz<b>", "<a><a><b>"],
        &[("<a><b>", 3), ("<a>wxyz<b>", 6), ("a", 0)],
    ),
    (
        "root ::= \"<\" <think> [a-z ]* </think> \"ok\"",
        &["<<think>so so</think>ok"],
        &[("<<think></think>", 16), ("<think>", 0), ("<x", 1), ("<<think>a<think>", 9)],
    ),
    ("root ::= \"\"", &[""], &[("a", 0)]),
];

#[test]
fn texts_match_or_stop_at_a_character() {
    let mut reports = String::new();
    for (text, matching, stopping) in CASES {
        let grammar = Grammar::parse(text).unwrap();
        for text in *matching {
            let outcome = grammar.match_text(text, &Limits::default()).unwrap();
            assert!(outcome.matched, "{text}: {}", outcome.report());
        }
        for (text, offset) in *stopping {
            let outcome = grammar.match_text(text, &Limits::default()).unwrap();
            assert!(!outcome.matched, "{text} matches {grammar}");
            assert_eq!(outcome.offset, *offset, "{text}: {}", outcome.report());
            writeln!(reports, "{}\n", outcome.report()).unwrap();
        }
    }
    insta::assert_snapshot!(reports);
}

#[test]
fn grammars_the_engine_cannot_run_are_errors_not_mismatches() {
    let kind = |text: &str| {
        let outcome = Grammar::parse(text).unwrap().match_text("a", &Limits::default());
        outcome.map(|outcome| outcome.matched).map_err(|error| error.kind())
    };
    assert!(kind("root ::= root \"a\" | \"a\"").is_err());
    assert!(kind("root ::= \"a\" root").is_err());
    assert_eq!(kind("root ::= <[300]> | \"a\""), Err(Kind::Unsupported));
    assert_eq!(kind("root ::= \"a\" root | \"a\""), Ok(true));
}
