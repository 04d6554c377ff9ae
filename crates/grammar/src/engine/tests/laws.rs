//! Laws about masks that are shared, on grammars made for them; `tests/fuzz` compares any grammar with a reference.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::super::TokenId;
use super::{automaton, wide_vocabulary};
use crate::{Expr, Grammar};

/// The same cases each time; `PROPTEST_CASES` asks for more, which then differ from run to run.
fn config() -> ProptestConfig {
    let fixed =
        ProptestConfig { failure_persistence: None, max_shrink_iters: 4_000, ..ProptestConfig::default() };
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => fixed,
        None => ProptestConfig { cases: 400, rng_seed: RngSeed::Fixed(7), ..fixed },
    }
}

proptest! {
    #![proptest_config(config())]

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
            let mask = matcher.mask().unwrap().clone();
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
