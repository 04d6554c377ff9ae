//! What the checker finds, and the near-twin in which it finds nothing.

use std::fmt::Write;
use std::sync::Arc;

use crate::Place;
use crate::gbnf::check::Checker;
use crate::gbnf::{Lint, ParseOptions, Parsed, Severity};

const CASES: &[(Lint, &str, &str)] = &[
    (Lint::LeftRecursion, "root ::= root \"a\" | \"a\"", "root ::= \"a\" root | \"a\""),
    (
        Lint::LeftRecursion,
        "root ::= sum\nsum ::= term | gap sum \"+\" term\nterm ::= [0-9]\ngap ::= \" \"*",
        "root ::= sum\nsum ::= term | gap term \"+\" sum\nterm ::= [0-9]\ngap ::= \" \"*",
    ),
    (
        Lint::LeftRecursion,
        "root ::= a\na ::= \"x\"{0,3} (b | \"y\")\nb ::= c? a \"z\"\nc ::= \"c\"",
        "root ::= a\na ::= \"x\"{1,3} (b | \"y\")\nb ::= c? a \"z\"\nc ::= \"c\"",
    ),
    (Lint::LeftRecursion, "root ::= (root \"a\")? \"b\"", "root ::= (\"a\" root)? \"b\""),
    (Lint::LeftRecursion, "root ::= root? \"b\"", "root ::= \"b\" root?"),
    (
        Lint::MatchesNothing,
        "root ::= \"a\" | b\nb ::= [^\\x00-\\U0010FFFF] \"b\"",
        "root ::= \"a\" | b\nb ::= [^\\x00-\\U0010FFFE] \"b\"",
    ),
    (Lint::NeverEnds, "root ::= \"a\" root", "root ::= \"a\" root?"),
    (
        Lint::NeverEnds,
        "root ::= \"x\" | a\na ::= \"(\" b\nb ::= a \")\"",
        "root ::= \"x\" | a\na ::= \"(\" b\nb ::= a? \")\"",
    ),
    (
        Lint::Unreachable,
        "root ::= \"a\"\nb ::= c\nc ::= \"c\" b?",
        "root ::= \"a\" b\nb ::= c\nc ::= \"c\" b?",
    ),
    (Lint::MixedRange, "root ::= [A-z]", "root ::= [A-Za-z]"),
    (Lint::MixedRange, "root ::= [0-z]", "root ::= [!-~]"),
    (Lint::EmptyClass, "root ::= \"a\" []", "root ::= \"a\" [\\]]"),
    (Lint::EmptyRepeat, "root ::= (\"a\"*)*", "root ::= (\"a\"+)*"),
    (Lint::EmptyRepeat, "root ::= a{2,3}\na ::= | \"a\"", "root ::= a{0,1}\na ::= | \"a\""),
];

#[test]
fn each_lint_has_a_place_and_a_near_twin_without_it() {
    let find = |text: &str, lint: Lint| {
        let parsed = Parsed::parse(text, &ParseOptions::default()).unwrap();
        parsed.check().into_iter().filter(|warning| warning.lint == lint).collect::<Vec<_>>()
    };
    let mut reports = String::new();
    for (lint, found, clean) in CASES {
        let warnings = find(found, *lint);
        assert!(!warnings.is_empty(), "{found}");
        for warning in &warnings {
            assert!(matches!(warning.place, Some(Place::Line { .. })));
            writeln!(reports, "{}\n", warning.report()).unwrap();
        }
        assert_eq!(find(clean, *lint), [], "{clean}");
    }
    insta::assert_snapshot!(reports);
}

#[test]
fn only_what_the_engine_refuses_is_an_error() {
    let severities = |text: &str| {
        let parsed = Parsed::parse(text, &ParseOptions::default()).unwrap();
        parsed.check().into_iter().map(|warning| (warning.lint, warning.severity)).collect::<Vec<_>>()
    };
    assert_eq!(severities("root ::= root \"a\" | \"b\""), [(Lint::LeftRecursion, Severity::Error)]);
    assert_eq!(severities("root ::= \"a\" root"), [(Lint::NeverEnds, Severity::Error)]);
    let inner = "root ::= \"x\" | a\na ::= \"a\" a";
    assert_eq!(severities(inner), [(Lint::NeverEnds, Severity::Warning)]);
    assert_eq!(severities("root ::= [a-z]+ (\",\" [a-z]+)*"), []);
}

#[test]
fn a_grammar_without_text_is_checked_without_places() {
    let parsed = Parsed::parse("root ::= (\"a\"*)* [A-z]?", &ParseOptions::default()).unwrap();
    let lints = |warnings: Vec<crate::gbnf::Warning>| {
        warnings.into_iter().map(|warning| warning.lint).collect::<Vec<_>>()
    };
    assert_eq!(lints(parsed.grammar.check()), lints(parsed.check()));
    assert!(parsed.grammar.check().iter().all(|warning| warning.place.is_none()));
}

#[test]
fn a_range_that_holds_no_character_can_only_be_built() {
    let lints = |range: (char, char)| {
        let mut builder = crate::Grammar::builder();
        let root = builder.rule("root", crate::Expr::class([('0', '1'), range]));
        let grammar = builder.build(root).unwrap();
        // What it matches can be written all the same.
        let read = crate::Grammar::parse(&grammar.to_gbnf()).unwrap();
        assert!(read.match_text("0", &crate::Limits::default()).unwrap().matched);
        grammar.check().into_iter().map(|warning| warning.lint).collect::<Vec<_>>()
    };
    assert_eq!(lints(('z', 'a')), [Lint::ReversedRange]);
    assert_eq!(lints(('a', 'z')), []);
}

#[test]
fn ten_thousand_knots_are_found_in_linear_time() {
    // A chain of empty rules, each of which could be behind all the others, before the one that recurses.
    let n = 20_000;
    let chain: String = (0..n).map(|i| format!("e{i} ::= e{} | \"\"\n", (i + 1) % n)).collect();
    let all: String = (0..n).map(|i| format!("e{i} ")).collect();
    let text = format!("root ::= {all}\n{chain}");
    let start = std::time::Instant::now();
    let parsed = Parsed::parse(&text, &ParseOptions::default()).unwrap();
    assert_eq!(parsed.check().iter().filter(|warning| warning.lint == Lint::LeftRecursion).count(), 1);
    assert!(start.elapsed().as_secs() < 10);
}

/// What a check costs grows with the grammar and no faster: steps, and the bytes of what it says.
#[test]
fn grammars_twice_as_large_take_twice_the_steps_to_check() {
    let joined = |n: usize, rule: &dyn Fn(usize) -> String| (0..n).map(rule).collect::<String>();
    let kinds: [(&str, &dyn Fn(usize) -> String); 8] = [
        ("a chain of rules", &|n| {
            format!("root ::= r0\n{}r{n} ::= \"b\"\n", joined(n, &|i| format!("r{i} ::= r{}\n", i + 1)))
        }),
        ("a ring of rules", &|n| {
            format!("root ::= r0\n{}", joined(n, &|i| format!("r{i} ::= r{} \"a\" | \"\"\n", (i + 1) % n)))
        }),
        ("rings that meet", &|n| {
            format!(
                "root ::= r0\n{}",
                joined(n, &|i| format!("r{i} ::= r{} | r{} | r0 | \"b\"\n", (i + 1) % n, i / 2))
            )
        }),
        ("rules that never end", &|n| {
            format!("root ::= \"a\"\n{}", joined(n, &|i| format!("r{i} ::= \"a\" r{}\n", (i + 1) % n)))
        }),
        ("rules that nothing leads to", &|n| {
            format!("root ::= \"a\"\n{}", joined(n, &|i| format!("r{i} ::= \"a\"\n")))
        }),
        ("odd classes", &|n| format!("root ::= {}", "[A-z] ".repeat(n))),
        ("odd classes in a rule of a long name", &|n| {
            let name = "r".repeat(20 * n);
            format!("root ::= {name}\n{name} ::= {}", "[A-z] ".repeat(n))
        }),
        ("what may be empty, in a row", &|n| format!("root ::= {} root \"a\"", "(\"a\"*)* ".repeat(n))),
    ];
    for (name, make) in kinds {
        let cost = |n: usize| {
            let parsed = Parsed::parse(&make(n), &ParseOptions::default()).unwrap();
            let checker = Checker::new(&parsed.grammar);
            drop(checker.run());
            let warnings = parsed.check();
            let mut names: Vec<&Arc<str>> = warnings.iter().map(|warning| &warning.rule).collect();
            names.dedup_by(|a, b| Arc::ptr_eq(a, b));
            let said = warnings.iter().map(|warning| warning.message.len()).sum::<usize>();
            checker.work() + said as u64 + names.iter().map(|name| name.len() as u64).sum::<u64>()
        };
        let (once, twice) = (cost(500), cost(1_000));
        assert!(twice as f64 <= 2.2 * once as f64 + 500.0, "{name}: {once}, then {twice}");
    }
}
