//! Masks as words of 32 tokens say what masks as sets say.

use std::sync::Arc;

use super::super::{Matcher, TokenId};
use super::{automaton, small_vocabulary, wide_vocabulary};
use crate::{Grammar, Kind, Vocabulary};

#[test]
fn words_hold_the_tokens_of_the_mask_and_nothing_behind_the_vocabulary() {
    for vocabulary in [Arc::new(Vocabulary::bytes_only()), small_vocabulary(), wide_vocabulary()] {
        let grammar = Grammar::parse("root ::= [^b]* \"b\"?").unwrap();
        let automaton = automaton(&grammar, vocabulary.clone()).unwrap();
        let mut matcher = automaton.matcher();
        let mut words = vec![u32::MAX; vocabulary.mask_words() + 3];
        for text in [&b""[..], b"a", b"b"] {
            matcher.accept_bytes(text).unwrap();
            matcher.mask_into(&mut words).unwrap();
            let mask = matcher.mask().unwrap();
            let told = |token: TokenId| words[token as usize / 32] >> (token % 32) & 1 == 1;
            for token in 0..words.len() as TokenId * 32 {
                assert_eq!(told(token), mask.contains(token), "token {token} behind {text:?}");
            }
        }
    }
}

#[test]
fn too_few_words_or_rows_are_refused_and_exactly_enough_are_written() {
    let grammar = Grammar::parse("root ::= \"a\"").unwrap();
    let automaton = automaton(&grammar, Arc::new(Vocabulary::bytes_only())).unwrap();
    let row = automaton.vocabulary().mask_words();
    assert_eq!(row, 9);
    let mut runs = vec![automaton.matcher(), automaton.matcher()];
    let mut rows = vec![7; row * 2];
    assert_eq!(runs[0].mask_into(&mut rows[..row - 1]).unwrap_err().kind(), Kind::Vocabulary);
    for (length, row) in [(row * 2 - 1, row), (row * 2, row - 1), (row * 2, 0), (0, row)] {
        let refused = Matcher::masks_into(&mut runs, &mut rows[..length], row).unwrap_err();
        assert_eq!(refused.kind(), Kind::Vocabulary, "{length} words in rows of {row}");
    }
    runs[1].accept_bytes(b"a").unwrap();
    Matcher::masks_into(&mut runs, &mut rows, row).unwrap();
    assert_eq!((rows[3], rows[row + 3], rows[row + 8]), (2, 0, 1), "an a; then the end token, 256");
    Matcher::masks_into(runs.iter_mut().rev(), &mut rows, row).unwrap();
    assert_eq!((rows[3], rows[row + 3]), (0, 2));
}
