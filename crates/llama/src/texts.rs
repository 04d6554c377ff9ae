//! The tokens of each sequence of a context. Slots read them also while a batch that locks the context is evaluated.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use toolgate_grammar::TokenId;
use toolgate_infer::common_len;

/// The tokens of each sequence.
#[derive(Debug)]
pub(crate) struct Texts(Mutex<Vec<Text>>);

#[derive(Clone, Debug, Default)]
struct Text {
    tokens: Vec<TokenId>,
    /// The fewest tokens that it can be cut to, but for none.
    floor: usize,
}

impl Text {
    /// Tokens that are left of it where it is cut to `len`.
    fn kept(&self, len: usize) -> usize {
        let len = len.min(self.tokens.len());
        if len < self.floor { 0 } else { len }
    }
}

impl Texts {
    /// Empty sequences, `sequences` of them.
    pub(crate) fn new(sequences: usize) -> Self {
        Self(Mutex::new(vec![Text::default(); sequences]))
    }

    /// The number of tokens in a sequence.
    pub(crate) fn held(&self, sequence: usize) -> usize {
        self.lock().get(sequence).map_or(0, |text| text.tokens.len())
    }

    /// The tokens of a sequence.
    pub(crate) fn tokens(&self, sequence: usize) -> Vec<TokenId> {
        self.lock().get(sequence).map(|text| text.tokens.clone()).unwrap_or_default()
    }

    /// The tokens that are left of a sequence where it is cut to `len`: none where it cannot be cut there.
    pub(crate) fn kept(&self, sequence: usize, len: usize) -> usize {
        self.lock().get(sequence).map_or(0, |text| text.kept(len))
    }

    /// The last token of a sequence.
    pub(crate) fn last(&self, sequence: usize) -> Option<TokenId> {
        self.lock().get(sequence)?.tokens.last().copied()
    }

    /// Adds tokens to a sequence.
    pub(crate) fn extend(&self, sequence: usize, tokens: &[TokenId]) {
        if let Some(text) = self.lock().get_mut(sequence) {
            text.tokens.extend_from_slice(tokens);
        }
    }

    /// Cuts a sequence to its first `held` tokens.
    pub(crate) fn truncate(&self, sequence: usize, held: usize) {
        if let Some(text) = self.lock().get_mut(sequence) {
            text.tokens.truncate(held);
            if held == 0 {
                text.floor = 0;
            }
        }
    }

    /// Replaces the tokens of a sequence by some that it can be cut down to `floor` of.
    pub(crate) fn set(&self, sequence: usize, tokens: &[TokenId], floor: usize) {
        if let Some(text) = self.lock().get_mut(sequence) {
            *text = Text { tokens: tokens.to_vec(), floor };
        }
    }

    /// Replaces the tokens of a sequence with those of another.
    pub(crate) fn copy(&self, from: usize, to: usize) {
        let mut texts = self.lock();
        let copied = texts.get(from).cloned().unwrap_or_default();
        if let Some(text) = texts.get_mut(to) {
            *text = copied;
        }
    }

    /// The sequence outside `own` that can be cut to the longest beginning of `prompt`, and its length in tokens.
    pub(crate) fn lender(&self, own: &Range<usize>, prompt: &[TokenId]) -> Option<(usize, usize)> {
        let texts = self.lock();
        let others = texts.iter().enumerate().filter(|(sequence, _)| !own.contains(sequence));
        let held = |text: &Text| text.kept(common_len(&text.tokens, prompt));
        others.map(|(sequence, text)| (sequence, held(text))).max_by_key(|&(_, held)| held)
    }

    /// Locks the list. A panic leaves it whole: each change is one step.
    fn lock(&self) -> MutexGuard<'_, Vec<Text>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_sequence_that_begins_alike_for_longest_lends() {
        let texts = Texts::new(4);
        texts.set(0, &[1, 2, 3, 4], 0);
        texts.set(2, &[1, 2, 9], 0);
        texts.copy(2, 3);
        texts.extend(3, &[5]);
        texts.truncate(2, 1);
        assert_eq!([0, 1, 2, 3].map(|sequence| texts.held(sequence)), [4, 0, 1, 4]);
        assert_eq!(texts.lender(&(0..2), &[1, 2, 3, 4]), Some((3, 2)), "not the own one, which has more");
        assert_eq!(texts.lender(&(2..4), &[1, 2, 3, 4]), Some((0, 4)));
        assert_eq!((texts.last(3), texts.last(1), texts.held(9)), (Some(5), None, 0));
    }

    #[test]
    fn a_sequence_that_cannot_be_cut_there_lends_nothing() {
        let texts = Texts::new(3);
        texts.set(0, &[1, 2, 3, 4], 3);
        texts.copy(0, 1);
        assert_eq!([2, 3, 4, 9].map(|len| texts.kept(1, len)), [0, 3, 4, 4]);
        assert_eq!(texts.lender(&(2..3), &[1, 2, 9]).map(|(_, held)| held), Some(0));
        assert_eq!(texts.lender(&(2..3), &[1, 2, 3, 9]).map(|(_, held)| held), Some(3));
        texts.truncate(0, 0);
        texts.extend(0, &[1, 2, 3]);
        assert_eq!(texts.kept(0, 1), 1, "it was evaluated anew");
    }
}
