//! The automaton beside the reference: random grammars, random tokens, every token of the vocabulary at every step.

use arbitrary::Unstructured;
use toolgate_grammar::{Automaton, Grammar, Kind, Limits, TokenId};

use super::generate;
use super::reference::{Language, Reference};

/// More stacks than this at once, and the reference, which keeps each of them, is left behind.
const WIDEST: usize = 100;

/// Alternatives of the engine; what is more ambiguous takes either of them too long.
const STACKS: usize = 256;

/// Makes a grammar and a walk of `data`; the number of steps taken.
pub(crate) fn automaton(data: &[u8]) -> u64 {
    let mut u = Unstructured::new(data);
    match generate::grammar(&mut u) {
        Ok(grammar) => walk(&grammar, &mut u),
        Err(_) => 0,
    }
}

/// Walks through a grammar by the choices of `u`, comparing what the engine says about each token.
pub(crate) fn walk(grammar: &Grammar, u: &mut Unstructured<'_>) -> u64 {
    let vocabulary = generate::small_vocabulary();
    let language = Language::new(grammar);
    let automaton = match Automaton::new(grammar, vocabulary.clone(), &Limits::default().stacks(STACKS)) {
        Ok(automaton) => automaton,
        Err(error) => {
            let rightly = match error.kind() {
                Kind::Undefined => !language.is_possible(),
                Kind::Unsupported => language.is_left_recursive(),
                _ => false,
            };
            assert!(rightly, "{error}\n{grammar}");
            return 0;
        }
    };
    assert!(language.is_possible() && !language.is_left_recursive(), "must be refused:\n{grammar}");
    let mut reference = Reference::new(&language);
    let mut matcher = automaton.matcher();
    let mut steps = 0;
    while !u.is_empty() && steps < 64 && reference.width() <= WIDEST {
        steps += 1;
        let taken = matcher.steps();
        let place = || format!("after {taken} steps of\n{grammar}");
        let mut engine = matcher.clone();
        let mask = match engine.mask().cloned() {
            Ok(mask) => mask,
            // The most ambiguous grammars reach a bound, which is an answer too.
            Err(error) => {
                assert_eq!(error.kind(), Kind::Limit, "{error} {}", place());
                break;
            }
        };
        assert_eq!(engine.is_complete(), reference.is_complete(), "complete {}", place());
        let mut allowed = Vec::new();
        for token in 0..vocabulary.len() as TokenId {
            let after = reference.after_token(token, &vocabulary);
            if reference.gave_up() {
                return steps;
            }
            let (checked, masked) = (engine.allows(token).expect("a check"), mask.contains(token));
            assert_eq!((checked, masked), (after.is_some(), after.is_some()), "token {token} {}", place());
            allowed.extend(after.map(|after| (token, after)));
        }
        forced_text_has_no_alternative(&mut engine, &reference, &place);
        completions_complete(&mut engine, &reference, &place);
        if reference.gave_up() {
            return steps;
        }
        if allowed.is_empty() {
            assert!(reference.is_complete(), "a dead end {}", place());
            break;
        }
        let choice = u.int_in_range(0..=allowed.len() - 1).unwrap_or(0);
        let (token, after) = allowed.swap_remove(choice);
        if let Err(error) = matcher.accept(token) {
            assert_eq!(error.kind(), Kind::Limit, "{error}\n{grammar}");
            break;
        }
        let mut back = matcher.clone();
        back.rollback(1).expect("one step was taken");
        assert_eq!(back.mask().expect("a mask"), &mask, "undone");
        reference = after;
    }
    steps
}

fn forced_text_has_no_alternative(
    matcher: &mut toolgate_grammar::Matcher,
    reference: &Reference<'_>,
    place: &dyn Fn() -> String,
) {
    let Ok(forced) = matcher.forced() else { return };
    let Some(&first) = forced.first() else { return };
    assert!(!reference.is_complete(), "forced text at an end {}", place());
    // Text is forced as far as the limit on it; where a count is long that is longer than the reference likes.
    let start = forced.get(..forced.len().min(40)).expect("a prefix");
    let after = reference.after_bytes(start);
    assert!(
        after.is_some() || reference.gave_up(),
        "forced {:?} {}",
        start.escape_ascii().to_string(),
        place()
    );
    for other in (0..=u8::MAX).filter(|byte| *byte != first) {
        let none = reference.after_bytes(&[other]).is_none();
        assert!(none || reference.gave_up(), "not forced but {other:#x} {}", place());
    }
}

fn completions_complete(
    matcher: &mut toolgate_grammar::Matcher,
    reference: &Reference<'_>,
    place: &dyn Fn() -> String,
) {
    match matcher.completion() {
        Ok(bytes) if bytes.is_empty() => assert!(reference.is_complete(), "incomplete {}", place()),
        Ok(bytes) if bytes.len() > 200 => {}
        Ok(bytes) => {
            let shown = bytes.escape_ascii().to_string();
            assert!(!reference.is_complete(), "complete but for {shown:?} {}", place());
            let after = reference.after_bytes(&bytes);
            let completes = after.is_some_and(|after| after.is_complete());
            assert!(completes || reference.gave_up(), "completion {shown:?} {}", place());
        }
        Err(error) => assert!(matches!(error.kind(), Kind::Rejected | Kind::Limit), "{error} {}", place()),
    }
}
