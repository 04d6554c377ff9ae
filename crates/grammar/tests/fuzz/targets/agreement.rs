//! Mask, check and step of the automaton against each other, over a vocabulary in which masks are shared and cut into
//! slices, under limits so tight that tables are renewed on the way.

use arbitrary::Unstructured;
use toolgate_grammar::{Automaton, Grammar, Kind, Limits, TokenId};

use super::generate;

/// Makes a grammar and a walk of `data`; the number of steps taken.
pub(crate) fn agreement(data: &[u8]) -> u64 {
    let mut u = Unstructured::new(data);
    match generate::grammar(&mut u) {
        Ok(grammar) => walk(&grammar, &mut u),
        Err(_) => 0,
    }
}

/// Walks through a grammar by the choices of `u`.
pub(crate) fn walk(grammar: &Grammar, u: &mut Unstructured<'_>) -> u64 {
    let vocabulary = generate::wide_vocabulary();
    let tight = u.arbitrary().unwrap_or(false);
    let limits = match tight {
        true => Limits::default().configurations(64).stacks(64).mask_bytes(4_096),
        false => Limits::default(),
    };
    let refused = |error: &toolgate_grammar::Error| {
        let kind = error.kind();
        assert!(matches!(kind, Kind::Undefined | Kind::Unsupported | Kind::Limit), "{error}\n{grammar}");
    };
    let automaton = match Automaton::new(grammar, vocabulary.clone(), &limits) {
        Ok(automaton) => automaton,
        Err(error) => {
            refused(&error);
            return 0;
        }
    };
    let mut matcher = automaton.matcher();
    let mut steps = 0;
    while !u.is_empty() && steps < 64 {
        steps += 1;
        let mask = match matcher.mask().cloned() {
            Ok(mask) => mask,
            Err(error) => {
                assert_eq!(error.kind(), Kind::Limit, "{error}\n{grammar}");
                return steps;
            }
        };
        for token in 0..vocabulary.len() as TokenId {
            match matcher.allows(token) {
                Ok(allowed) => assert_eq!(
                    mask.contains(token),
                    allowed,
                    "token {token} {:?} after {} steps, tight limits: {tight}\n{grammar}",
                    vocabulary.bytes(token).escape_ascii().to_string(),
                    matcher.steps(),
                ),
                Err(error) => assert_eq!(error.kind(), Kind::Limit, "{error}\n{grammar}"),
            }
        }
        let allowed: Vec<TokenId> = mask.iter().collect();
        if allowed.is_empty() {
            assert!(matcher.is_complete(), "a dead end after {} steps of\n{grammar}", matcher.steps());
            return steps;
        }
        let token = allowed[u.int_in_range(0..=allowed.len() - 1).unwrap_or(0)];
        let taken = matcher.steps();
        match matcher.accept(token) {
            Ok(()) => assert_eq!(matcher.steps(), taken + 1),
            Err(error) => {
                assert_eq!(error.kind(), Kind::Limit, "{error}\n{grammar}");
                return steps;
            }
        }
        let mut back = matcher.clone();
        if back.rollback(1).is_ok()
            && let Ok(again) = back.mask()
        {
            assert_eq!(again, &mask, "undone after {taken} steps of\n{grammar}");
        }
    }
    steps
}
