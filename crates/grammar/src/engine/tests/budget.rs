//! Budgets of tokens: whatever is drawn, the text is whole when they are used up.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::super::{Budgeted, TokenId, TokenKind, Vocabulary};
use super::{automaton, wide_vocabulary};
use crate::{Grammar, Kind};

const OBJECT: &str = r#"root ::= "{\"items\": [" item (", " item)* "], \"note\": " text "}"
item ::= "{\"id\": " [0-9]{1,9} ", \"tags\": [" (text (", " text){0,5})? "]}" | "null"
text ::= "\"" [a-z ]{2,40} "\"""#;

const CALLS: &str = r#"root ::= "a" (<s> "b" root <eos> | "c"{3,9})"#;

/// Single characters, a few longer tokens, and control tokens.
fn vocabulary() -> Arc<Vocabulary> {
    let bytes = (b' '..=b'~').map(|byte| vec![byte]);
    let longer = ["{\"", "\": ", "\"}", "]}", "null", "\"]}", "items", "000", ", ", "\"tags\": [", "ccc"];
    let longer = longer.map(|text| text.as_bytes().to_vec());
    let text = bytes.chain(longer).map(|text| (text, TokenKind::Text));
    let control = [("<s>", TokenKind::Special), ("<eos>", TokenKind::EndOfGeneration)];
    let control = control.map(|(name, kind)| (name.as_bytes().to_vec(), kind));
    Arc::new(Vocabulary::new(text.chain(control)).unwrap())
}

fn run(grammar: &str, vocabulary: Arc<Vocabulary>) -> Budgeted {
    Budgeted::new(automaton(&Grammar::parse(grammar).unwrap(), vocabulary).unwrap().matcher())
}

/// The shortest text, in tokens.
fn least(grammar: &str) -> usize {
    run(grammar, vocabulary()).matcher().clone().completion_tokens().unwrap().len()
}

#[test]
fn the_shortest_completion_is_written_in_the_fewest_tokens() {
    let text = |grammar: &str| {
        let tokens = run(grammar, vocabulary()).matcher().clone().completion_tokens().unwrap();
        tokens
            .iter()
            .map(|&token| String::from_utf8_lossy(vocabulary().bytes(token)).into_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(text("root ::= \"nullnull\" [0-9]{4}"), ["null", "null", "0", "000"]);
    assert_eq!(text(CALLS), ["a", "ccc"]);
    // Only a token leads on: it is part of the way.
    assert_eq!(text("root ::= \"a\" <s> \"cccc\""), ["a", "<s>", "c", "ccc"]);
    let nothing = Vocabulary::new([(b"a".to_vec(), TokenKind::Text)]).unwrap();
    let run = run("root ::= \"ab\"", Arc::new(nothing));
    assert_eq!(run.matcher().clone().completion_tokens().unwrap_err().kind(), Kind::Rejected);
}

#[test]
fn a_budget_below_the_shortest_text_steers_nothing() {
    let least = least(OBJECT);
    let mut run = run(OBJECT, vocabulary());
    assert!(!run.limit(least - 1).unwrap());
    assert_eq!(run.left(), None);
    assert_eq!(run.mask().unwrap(), run.grammar_mask().unwrap());
    assert!(run.limit(least).unwrap());
    assert_eq!(run.left(), Some(least));
    assert_ne!(run.mask().unwrap(), run.grammar_mask().unwrap());
}

#[test]
fn a_token_too_many_is_refused_and_changes_nothing() {
    let mut run = run("root ::= [a-c]+ \"!\"", vocabulary());
    assert!(run.limit(2).unwrap());
    let token = |c: char| u32::from(c) - u32::from(' ');
    run.accept(token('a')).unwrap();
    assert!(!run.allows(token('b')).unwrap());
    assert_eq!(run.accept(token('b')).unwrap_err().kind(), Kind::Rejected);
    assert_eq!((run.left(), run.matcher().steps()), (Some(1), 1));
    run.accept(token('!')).unwrap();
    assert!(run.is_complete() && run.is_finished().unwrap());
}

#[test]
fn a_text_that_could_go_on_is_finished_with_its_budget() {
    let mut run = run("root ::= [a-c]+", vocabulary());
    assert!(run.limit(1).unwrap());
    assert!(!run.is_finished().unwrap());
    run.accept(u32::from('a') - u32::from(' ')).unwrap();
    assert!(run.is_finished().unwrap());
    let end = run.mask().unwrap().iter().collect::<Vec<_>>();
    assert_eq!(end, vocabulary().end_tokens());
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 150,
        rng_seed: RngSeed::Fixed(3),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_walk_within_a_budget_ends_whole(
        grammar in prop::sample::select(vec![OBJECT, CALLS, "root ::= (\"a\" root \"b\")? \"null\"{0,3} [0-9]{1,30}"]),
        more in 0_usize..40,
        choices in prop::collection::vec(any::<prop::sample::Index>(), 120),
    ) {
        let budget = least(grammar) + more;
        let mut run = run(grammar, vocabulary());
        prop_assert!(run.limit(budget).unwrap());
        let mut taken = 0;
        for choice in choices {
            if run.is_finished().unwrap() {
                break;
            }
            let mask = run.mask().unwrap();
            let inner = run.grammar_mask().unwrap();
            for token in inner.iter() {
                prop_assert_eq!(mask.contains(token), run.allows(token).unwrap(), "token {} with {:?}", token, run.left());
            }
            let allowed: Vec<TokenId> = mask.iter().collect();
            prop_assert!(!allowed.is_empty(), "steered into a dead end");
            let token = allowed[choice.index(allowed.len())];
            let ends = run.matcher().automaton().vocabulary().kind(token) == TokenKind::EndOfGeneration;
            let whole = run.is_complete();
            run.accept(token).unwrap();
            if ends && whole && run.matcher().clone().mask().unwrap().is_empty() {
                break;
            }
            taken += 1;
        }
        prop_assert!(taken <= budget, "{} tokens of {}", taken, budget);
        prop_assert!(run.is_complete());
    }

    #[test]
    fn far_from_its_end_a_budget_changes_nothing(choices in prop::collection::vec(any::<prop::sample::Index>(), 1..12)) {
        let mut run = run("root ::= \"\\\"\" [a-z]{1,50} \"\\\"\"", wide_vocabulary());
        prop_assert!(run.limit(1_000).unwrap());
        for choice in choices {
            let mask = run.mask().unwrap();
            prop_assert_eq!(&mask, &run.grammar_mask().unwrap());
            let allowed: Vec<TokenId> = mask.iter().collect();
            if allowed.is_empty() {
                break;
            }
            run.accept(allowed[choice.index(allowed.len())]).unwrap();
        }
    }
}
