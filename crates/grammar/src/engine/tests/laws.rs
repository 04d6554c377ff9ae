//! Laws that hold for every grammar and every walk, checked against the reference matcher.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::super::TokenId;
use super::reference::Reference;
use super::{automaton, small_vocabulary, wide_vocabulary};
use crate::gbnf::TokenName;
use crate::{Expr, Grammar, Kind, RuleId};

/// The same cases each time; `PROPTEST_CASES` asks for more, which then differ from run to run.
fn config() -> ProptestConfig {
    let fixed =
        ProptestConfig { failure_persistence: None, max_shrink_iters: 4_000, ..ProptestConfig::default() };
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => fixed,
        None => ProptestConfig { cases: 400, rng_seed: RngSeed::Fixed(7), ..fixed },
    }
}

const RULES: u32 = 4;

/// A grammar without left recursion: a rule is named after a character, or by a rule before it.
fn grammars() -> impl Strategy<Value = Grammar> {
    (0..RULES).map(expressions).collect::<Vec<_>>().prop_map(|bodies| {
        let mut builder = Grammar::builder();
        let ids: Vec<RuleId> = (0..bodies.len()).map(|n| builder.declare(&format!("r{n}"))).collect();
        for (id, body) in ids.iter().zip(bodies) {
            builder.define(*id, body);
        }
        builder.build(ids[0]).unwrap()
    })
}

fn expressions(rule: u32) -> impl Strategy<Value = Expr> {
    let terminal = prop_oneof![
        4 => prop::sample::select(vec!["a", "b", "ab", "aba", "é", "bé"]).prop_map(Expr::literal),
        2 => prop::sample::select(vec![('a', 'b'), ('b', 'c'), ('a', 'é'), ('é', 'ü')]).prop_map(|r| Expr::class([r])),
        1 => Just(Expr::not_class([('a', 'b')])),
        1 => Just(Expr::Any),
        1 => Just(Expr::empty()),
        1 => Just(Expr::Choice(Vec::new())),
        1 => (prop::sample::select(vec!["<s>", "<eos>", "ab"]), any::<bool>()).prop_map(|(name, negated)| {
            Expr::Token(crate::gbnf::TokenMatch { negated, name: TokenName::Text(name.into()) })
        }),
        3 => (prop::sample::select(vec!["a", "b"]), 0..RULES)
            .prop_map(|(first, rule)| Expr::sequence([Expr::literal(first), Expr::Rule(RuleId(rule))])),
        3 => (rule + 1..=RULES).prop_map(|rule| {
            if rule < RULES { Expr::Rule(RuleId(rule)) } else { Expr::literal("c") }
        }),
    ];
    terminal.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            3 => prop::collection::vec(inner.clone(), 1..4).prop_map(Expr::sequence),
            3 => prop::collection::vec(inner.clone(), 1..4).prop_map(Expr::choice),
            2 => (inner, 0u64..4, prop::option::of(0u64..12)).prop_map(|(item, min, more)| {
                item.repeat(min, more.map(|more| min + more))
            }),
        ]
    })
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn mask_check_and_reference_agree_along_random_walks(
        grammar in grammars(),
        choices in prop::collection::vec(any::<prop::sample::Index>(), 0..10),
    ) {
        let vocabulary = small_vocabulary();
        let mut reference = Reference::new(&grammar);
        let automaton = match automaton(&grammar, vocabulary.clone()) {
            Ok(automaton) => automaton,
            Err(error) => {
                // Only a grammar that matches nothing is refused.
                prop_assert_eq!(error.kind(), Kind::Undefined);
                let alive = (0..vocabulary.len() as TokenId).any(|t| reference.after_token(t, &vocabulary).is_some());
                prop_assert!(!alive && !reference.is_complete());
                return Ok(());
            }
        };
        let mut matcher = automaton.matcher();
        for choice in choices {
            let mask = matcher.mask().unwrap();
            prop_assert_eq!(matcher.is_complete(), reference.is_complete());
            let mut allowed = Vec::new();
            for token in 0..vocabulary.len() as TokenId {
                let after = reference.after_token(token, &vocabulary);
                prop_assert_eq!(matcher.allows(token).unwrap(), after.is_some(), "allows {}", token);
                prop_assert_eq!(mask.contains(token), after.is_some(), "mask of {}", token);
                allowed.extend(after.map(|after| (token, after)));
            }
            let forced = matcher.forced().unwrap();
            prop_assert!(forced.is_empty() || !reference.is_complete());
            prop_assert!(reference.after_bytes(&forced).is_some() || forced.is_empty());
            for other in (0..=u8::MAX).filter(|byte| Some(byte) != forced.first()) {
                prop_assert!(forced.is_empty() || reference.after_bytes(&[other]).is_none());
            }
            match matcher.completion() {
                Ok(bytes) => {
                    let after = if bytes.is_empty() { Some(reference.clone()) } else { reference.after_bytes(&bytes) };
                    prop_assert!(after.is_some_and(|after| after.is_complete()), "completion {:?}", bytes);
                    prop_assert_eq!(bytes.is_empty(), reference.is_complete());
                    let mut clone = matcher.clone();
                    clone.accept_bytes(&bytes).unwrap();
                    prop_assert!(clone.is_complete());
                }
                Err(error) => prop_assert_eq!(error.kind(), Kind::Rejected),
            }
            if allowed.is_empty() {
                prop_assert!(matcher.is_complete() || reference.is_complete());
                break;
            }
            let (token, after) = allowed.swap_remove(choice.index(allowed.len()));
            let before = (matcher.steps(), mask);
            matcher.accept(token).unwrap();
            let mut back = matcher.clone();
            back.rollback(1).unwrap();
            prop_assert_eq!((back.steps(), back.mask().unwrap()), before);
            reference = after;
        }
    }

    #[test]
    fn masks_shared_between_counts_and_stacks_are_exact(
        class in prop::sample::select(vec![("az", false), ("\"\"", true), ("az", true), ("AZ", true)]),
        bounds in prop::sample::select(vec![(0, None), (1, None), (0, Some(60)), (3, Some(30)), (18, Some(25)),
            (25, None), (40, Some(41)), (0, Some(7)), (17, Some(17)), (1, Some(20))]),
        quoted in any::<bool>(),
        tail in prop::sample::select(vec!["", ",", "a", "\"", "aaaaaaaaaaaaaaaaaaaaaaaa"]),
        list in prop::sample::select(vec![None, Some((0u64, 3u64)), Some((2, 40))]),
        choices in prop::collection::vec(any::<prop::sample::Index>(), 1..12),
    ) {
        let (range, negated) = class;
        let range: Vec<char> = range.chars().collect();
        let range = [(range[0], range[1])];
        let character = if negated { Expr::not_class(range) } else { Expr::class(range) };
        let mut builder = Grammar::builder();
        let run = builder.rule("run", character.repeat(bounds.0, bounds.1));
        let text = if quoted {
            Expr::sequence([Expr::literal("\""), Expr::Rule(run), Expr::literal("\"")])
        } else {
            Expr::Rule(run)
        };
        let text = Expr::sequence([text, Expr::literal(tail)]);
        let root = match list {
            None => text,
            Some((min, max)) => Expr::sequence([text, Expr::literal(";")]).repeat(min, Some(max)),
        };
        let root = builder.rule("root", root);
        let grammar = builder.build(root).unwrap();
        let vocabulary = wide_vocabulary();
        let automaton = automaton(&grammar, vocabulary.clone()).unwrap();
        let mut matcher = automaton.matcher();
        for choice in choices {
            let mask = matcher.mask().unwrap();
            for token in 0..vocabulary.len() as TokenId {
                prop_assert_eq!(mask.contains(token), matcher.allows(token).unwrap(),
                    "token {} {:?}", token, String::from_utf8_lossy(vocabulary.bytes(token)));
            }
            let allowed: Vec<TokenId> = mask.iter().collect();
            if allowed.is_empty() {
                break;
            }
            matcher.accept(allowed[choice.index(allowed.len())]).unwrap();
        }
    }
}
