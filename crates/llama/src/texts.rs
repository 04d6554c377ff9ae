//! The tokens of each sequence of a context. Slots read them also while a batch that locks the context is evaluated.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use toolgate_grammar::TokenId;
use toolgate_infer::common_len;

/// The tokens of each sequence.
#[derive(Debug)]
pub(crate) struct Texts(Mutex<Vec<Vec<TokenId>>>);

impl Texts {
    /// Empty sequences, `sequences` of them.
    pub(crate) fn new(sequences: usize) -> Self {
        Self(Mutex::new(vec![Vec::new(); sequences]))
    }

    /// The number of tokens in a sequence.
    pub(crate) fn held(&self, sequence: usize) -> usize {
        self.lock().get(sequence).map_or(0, Vec::len)
    }

    /// The tokens of a sequence.
    pub(crate) fn tokens(&self, sequence: usize) -> Vec<TokenId> {
        self.lock().get(sequence).cloned().unwrap_or_default()
    }

    /// The last token of a sequence.
    pub(crate) fn last(&self, sequence: usize) -> Option<TokenId> {
        self.lock().get(sequence)?.last().copied()
    }

    /// Adds tokens to a sequence.
    pub(crate) fn extend(&self, sequence: usize, tokens: &[TokenId]) {
        if let Some(text) = self.lock().get_mut(sequence) {
            text.extend_from_slice(tokens);
        }
    }

    /// Cuts a sequence to its first `held` tokens.
    pub(crate) fn truncate(&self, sequence: usize, held: usize) {
        if let Some(text) = self.lock().get_mut(sequence) {
            text.truncate(held);
        }
    }

    /// Replaces the tokens of a sequence.
    pub(crate) fn set(&self, sequence: usize, tokens: &[TokenId]) {
        self.truncate(sequence, 0);
        self.extend(sequence, tokens);
    }

    /// Replaces the tokens of a sequence with those of another.
    pub(crate) fn copy(&self, from: usize, to: usize) {
        let text = self.lock().get(from).cloned().unwrap_or_default();
        self.set(to, &text);
    }

    /// The sequence outside `own` that shares the longest beginning with `prompt`, and its length in tokens.
    pub(crate) fn lender(&self, own: &Range<usize>, prompt: &[TokenId]) -> Option<(usize, usize)> {
        let texts = self.lock();
        let others = texts.iter().enumerate().filter(|(sequence, _)| !own.contains(sequence));
        others.map(|(sequence, text)| (sequence, common_len(text, prompt))).max_by_key(|&(_, held)| held)
    }

    /// Locks the list. A panic leaves it whole: each change is one step.
    fn lock(&self) -> MutexGuard<'_, Vec<Vec<TokenId>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_sequence_that_begins_alike_for_longest_lends() {
        let texts = Texts::new(4);
        texts.set(0, &[1, 2, 3, 4]);
        texts.set(2, &[1, 2, 9]);
        texts.copy(2, 3);
        texts.extend(3, &[5]);
        texts.truncate(2, 1);
        assert_eq!([0, 1, 2, 3].map(|sequence| texts.held(sequence)), [4, 0, 1, 4]);
        assert_eq!(texts.lender(&(0..2), &[1, 2, 3, 4]), Some((3, 2)), "not the own one, which has more");
        assert_eq!(texts.lender(&(2..4), &[1, 2, 3, 4]), Some((0, 4)));
        assert_eq!((texts.last(3), texts.last(1), texts.held(9)), (Some(5), None, 0));
    }
}
