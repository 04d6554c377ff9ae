//! The GBNF parser, the printer, the checker, the sampler and the text matcher on any text.

use toolgate_grammar::gbnf::{ParseOptions, Parsed, SampleOptions, Sampler, Severity};
use toolgate_grammar::{Grammar, Kind, Limits, Place};

/// Small bounds, so that reaching them is part of what is tried.
fn limits() -> Limits {
    Limits::default().depth(40).rules(200).stacks(256).configurations(512)
}

/// Reads `data` as a grammar; 1 if it is one.
pub(crate) fn gbnf(data: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(data);
    let options = ParseOptions::default().limits(limits());
    let parsed = match Parsed::parse(&text, &options) {
        Ok(parsed) => parsed,
        Err(error) => {
            assert!(matches!(error.kind(), Kind::Syntax | Kind::Undefined | Kind::Limit), "{error}");
            if let Some(Place::Line { line, column }) = error.place() {
                assert!(*line >= 1 && *column >= 1, "{error}");
            }
            assert!(error.report().starts_with(&error.to_string()));
            return 0;
        }
    };
    round_trip(&parsed.grammar, &options);
    let refused = parsed.check().iter().any(|finding| finding.severity == Severity::Error);
    assert_eq!(parsed.usable().is_err(), refused);
    match parsed.grammar.match_text("", &limits()) {
        Ok(outcome) => {
            assert!(!refused, "the engine takes what the checker refuses: {}\n{text}", outcome.report())
        }
        Err(error) => assert!(
            refused || matches!(error.kind(), Kind::Limit | Kind::Unsupported | Kind::Vocabulary),
            "the engine refuses what the checker takes: {error}\n{text}"
        ),
    }
    sample(&parsed.grammar, refused);
    1
}

fn round_trip(grammar: &Grammar, options: &ParseOptions) {
    let root = grammar.rule(grammar.root()).expect("the root is a rule");
    let printed = grammar.to_gbnf();
    // Names with an underscore are printed as llama.cpp takes them.
    if grammar.rules().iter().all(|rule| !rule.name.contains('_')) {
        let again = options.clone().root(root.name.clone());
        match Grammar::parse_with(&printed, &again) {
            Ok(again) => assert_eq!(&again, grammar, "{printed}"),
            Err(error) => panic!("what is printed is not read: {}\n{printed}", error.report()),
        }
    }
}

/// What is drawn matches.
fn sample(grammar: &Grammar, refused: bool) {
    let Ok(sampler) = Sampler::new(grammar, &SampleOptions::default().max_len(60)) else { return };
    // A token counts as one character, however long its text.
    let tokens = grammar.to_gbnf().contains('<');
    for seed in 0..3 {
        let Ok(drawn) = sampler.seeded(seed) else { return };
        assert!(tokens || drawn.chars().count() <= 60, "{drawn:?}\n{grammar}");
        if refused {
            continue;
        }
        match grammar.match_text(&drawn, &limits()) {
            Ok(outcome) => assert!(outcome.matched, "{drawn:?} was drawn\n{grammar}\n{}", outcome.report()),
            Err(error) => {
                assert!(matches!(error.kind(), Kind::Limit | Kind::Unsupported), "{error}\n{grammar}")
            }
        }
    }
}
