//! The laws between parser, printer, sampler and engine.

use proptest::prelude::*;
use rand::SeedableRng;

use super::arbitrary::{any_grammar, small_grammar};
use crate::gbnf::{
    Expr, Grammar, Lint, ParseOptions, SampleOptions, Sampler, Severity, TokenMatch, TokenName,
};
use crate::{Kind, Limits};

fn reread(grammar: &Grammar) -> Grammar {
    let text = grammar.to_gbnf();
    let root = grammar.rule(grammar.root()).unwrap().name.clone();
    let options = ParseOptions { root, ..ParseOptions::default() };
    Grammar::parse_with(&text, &options).unwrap_or_else(|error| panic!("{text}\n{}", error.report()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_printed_reads_back_as_the_same_value(grammar in any_grammar()) {
        prop_assert_eq!(reread(&grammar), grammar);
    }

    #[test]
    fn any_text_is_read_or_refused(text in r#"(root ::= )?([ab"\\\[\]^.<>!(){}*+?|0-9,#\n -]|::=|root|\PC)*"#) {
        if let Err(error) = Grammar::parse(&text) {
            prop_assert!(error.place().is_some() || error.kind() == Kind::Undefined, "{}", error.report());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// Where the checker has no objection, the engine takes the grammar and every sample of it; where it has one,
    /// the engine refuses too.
    #[test]
    fn checker_sampler_and_engine_agree(grammar in small_grammar(), seed in any::<u64>(), max_len in 0..40u64) {
        let errors: Vec<Lint> = grammar
            .check()
            .into_iter()
            .filter(|warning| warning.severity == Severity::Error)
            .map(|warning| warning.lint)
            .collect();
        let hopeless = errors.iter().any(|lint| matches!(lint, Lint::MatchesNothing | Lint::NeverEnds));
        let mut rng = rand::rngs::StdRng::seed_from_u64(seed);
        match grammar.sample(&mut rng, &SampleOptions { max_len }) {
            Ok(text) => {
                prop_assert!(!hopeless);
                prop_assert!(text.chars().count() as u64 <= max_len, "{:?} of {}", text, grammar);
                if errors.is_empty() {
                    let outcome = grammar.match_text(&text, &Limits::default());
                    prop_assert!(outcome.as_ref().is_ok_and(|outcome| outcome.matched), "{:?}: {:?}\n{}", text, outcome, grammar);
                }
            }
            Err(error) if error.kind() == Kind::Limit => prop_assert!(!hopeless),
            Err(error) => {
                prop_assert_eq!(error.kind(), Kind::Rejected);
                prop_assert!(hopeless, "{}", grammar);
            }
        }
        let runs = grammar.match_text("", &Limits::default());
        prop_assert_eq!(runs.is_ok(), errors.is_empty(), "{:?} {:?}\n{}", errors, runs, grammar);
    }
}

#[test]
fn names_with_an_underscore_are_printed_as_llama_cpp_takes_them() {
    let grammar = Grammar::parse(
        "root ::= a_b a-b __ a_b-2\na_b ::= \"1\"\na-b ::= \"2\"\n__ ::= \"3\"\na_b-2 ::= \"4\"",
    )
    .unwrap();
    insta::assert_snapshot!(grammar.to_gbnf());
    let again = Grammar::parse(&grammar.to_gbnf()).unwrap();
    let bodies = |grammar: &Grammar| grammar.rules().iter().map(|rule| rule.body.clone()).collect::<Vec<_>>();
    assert_eq!(bodies(&again), bodies(&grammar));
}

#[test]
fn the_printed_form_is_readable() {
    let text = r#"
        root ::= (("a" | "b") ("c" ("d" | "")?)* (("x"+)* | [^^\]\-a-z] | [\x5Ea\\] | . <[7]> !</s> <"[INST]">))
        statement ::= "while" "(" condition ")" block | "if" "(" condition ")" block ("else" block)? | "return" condition ";"
        condition ::= [\n\t\x00 \u2028é] | "tab\tquote\"break\n\U0001F600 \u0301"
        block ::= "{" statement{0,99} "}" | ()* | "a"{3} | "a"{2,} | "a"{0,1}
    "#;
    let grammar = Grammar::parse(text).unwrap();
    insta::assert_snapshot!(grammar.to_gbnf());
    assert_eq!(reread(&grammar), grammar);
}

#[test]
fn samples_reach_every_alternative_and_every_count() {
    let grammar = Grammar::parse("root ::= ([abc] | \"d\" | \"e\"{2,4})").unwrap();
    let sampler = Sampler::new(&grammar, &SampleOptions::default()).unwrap();
    let mut seen: Vec<String> = (0..300).map(|seed| sampler.seeded(seed).unwrap()).collect();
    seen.sort();
    seen.dedup();
    assert_eq!(seen, ["a", "b", "c", "d", "ee", "eee", "eeee"]);
}

#[test]
fn sampling_ends_whatever_the_grammar() {
    for text in [
        "root ::= root root | \"a\"",
        "root ::= \"(\" root \")\" root | \"\"",
        "root ::= ((\"a\"?)*)*",
        "root ::= a{1000000000000}\na ::= b b b | \"x\"?\nb ::= a a | \"\"",
        "root ::= root? root? \"a\"?",
    ] {
        let grammar = Grammar::parse(text).unwrap();
        for seed in 0..20 {
            let text = Sampler::new(&grammar, &SampleOptions { max_len: 50 }).unwrap().seeded(seed).unwrap();
            assert!(text.len() <= 50);
        }
    }
    // Forty doublings of nothing: the shortest derivation of the empty text has 2^40 steps, and needs none of them.
    let doubling: String = (0..40).map(|n| format!("a{n} ::= a{} a{}\n", n + 1, n + 1)).collect();
    let grammar = Grammar::parse(&format!("root ::= a0 \"!\"\n{doubling}a40 ::= \"x\"?\n")).unwrap();
    assert!(
        grammar
            .sample(&mut rand::rngs::StdRng::seed_from_u64(1), &SampleOptions::default())
            .unwrap()
            .ends_with('!')
    );
}

#[test]
fn samples_that_cannot_be_drawn_are_refused() {
    let kind = |text: &str| {
        let mut rng = rand::rngs::StdRng::seed_from_u64(0);
        Grammar::parse(text)
            .unwrap()
            .sample(&mut rng, &SampleOptions { max_len: 10 })
            .map_err(|error| error.kind())
    };
    assert_eq!(kind("root ::= \"a\" root"), Err(Kind::Rejected));
    assert_eq!(kind("root ::= \"a\"{11}"), Err(Kind::Limit));
    assert_eq!(kind("root ::= \"a\"{10}").unwrap(), "aaaaaaaaaa");
    assert_eq!(kind("root ::= <[7]>"), Err(Kind::Unsupported));
    assert_eq!(kind("root ::= <think>").unwrap(), "<think>");
}

#[test]
fn samples_read_as_the_tokens_they_were_drawn_as() {
    // The token is also how a string begins: text matching takes the token there.
    let grammar = Grammar::parse(r#"root ::= <"{"> "true" | "{z}" | [{y]{2}"#).unwrap();
    let sampler = Sampler::new(&grammar, &SampleOptions::default()).unwrap();
    for seed in 0..60 {
        let text = sampler.seeded(seed).unwrap();
        assert!(["{true", "yy"].contains(&text.as_str()), "{text}");
        assert!(grammar.match_text(&text, &Limits::default()).unwrap().matched, "{text}");
    }
    assert!(!grammar.match_text("{z}", &Limits::default()).unwrap().matched);
    let hopeless = Grammar::parse(r#"root ::= "<a>" | "b" <a> "<a>""#).unwrap();
    let drawn = Sampler::new(&hopeless, &SampleOptions::default()).unwrap().seeded(1);
    assert_eq!(drawn.map_err(|error| error.kind()), Err(Kind::Unsupported));
}

#[test]
fn a_token_without_a_name_is_refused() {
    let token = |name: &str| TokenMatch { negated: false, name: TokenName::Text(name.to_owned()) };
    let built = |name: &str| {
        let mut builder = Grammar::builder();
        let root = builder.rule("root", Expr::sequence([Expr::literal("a"), Expr::Token(token(name))]));
        builder.build(root).map(|grammar| grammar.to_gbnf()).map_err(|error| error.kind())
    };
    assert_eq!(built(""), Err(Kind::Syntax));
    assert_eq!(built("x").as_deref(), Ok("root ::= \"a\" <\"x\">\n"));
}
