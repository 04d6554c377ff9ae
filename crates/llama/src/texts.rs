//! The tokens of each sequence of a context. Slots read them also while a batch that locks the context is evaluated.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use toolgate_grammar::TokenId;
use toolgate_infer::common_len;

/// The tokens of each sequence.
#[derive(Debug)]
pub(crate) struct Texts(Mutex<Vec<Text>>);

#[derive(Clone, Debug, Default)]
struct Text {
    tokens: Vec<TokenId>,
    /// The fewest tokens that it can be cut to, but for none and for checkpoints.
    floor: usize,
    /// Whether only checkpoints are left where it is cut.
    is_rigid: bool,
    /// By their lengths.
    checkpoints: Vec<Checkpoint>,
    /// The most bytes of them, but for the least.
    most_bytes: usize,
}

/// What it takes to go back to the first tokens of a sequence.
#[derive(Clone, Debug)]
struct Checkpoint {
    /// So many.
    len: usize,
    state: Arc<Vec<u8>>,
}

/// The most checkpoints of a sequence.
const MOST_CHECKPOINTS: usize = 16;
/// The most bytes of all checkpoints of a context. Its sequences share them evenly. A summary has between some KiB and 100 MiB.
const MOST_BYTES: usize = 384 << 20;
/// So many stay, however large they are.
const LEAST_CHECKPOINTS: usize = 2;

impl Text {
    /// Tokens that are left of it where it is cut to `len`.
    fn kept(&self, len: usize) -> usize {
        let len = len.min(self.tokens.len());
        let floor = if self.is_rigid { self.tokens.len() } else { self.floor };
        if len >= floor {
            return len;
        }
        let lengths = self.checkpoints.iter().map(|checkpoint| checkpoint.len);
        lengths.filter(|&at| at <= len).max().unwrap_or(0)
    }

    /// Drops checkpoints that are too many: those first that are close behind another one. The last one stays.
    fn thin(&mut self) {
        let bytes = |list: &[Checkpoint]| list.iter().map(|checkpoint| checkpoint.state.len()).sum::<usize>();
        let is_over = |list: &[Checkpoint]| list.len() > MOST_CHECKPOINTS || bytes(list) > self.most_bytes;
        while self.checkpoints.len() > LEAST_CHECKPOINTS && is_over(&self.checkpoints) {
            let before = std::iter::once(0).chain(self.checkpoints.iter().map(|checkpoint| checkpoint.len));
            let gaps =
                self.checkpoints.iter().zip(before).map(|(checkpoint, before)| checkpoint.len - before);
            let closest = gaps.enumerate().take(self.checkpoints.len() - 1).min_by_key(|&(_, gap)| gap);
            let Some((at, _)) = closest else { return };
            self.checkpoints.remove(at);
        }
    }
}

impl Texts {
    /// Empty sequences, `sequences` of them. Of rigid ones only checkpoints are left where they are cut.
    pub(crate) fn new(sequences: usize, is_rigid: bool) -> Self {
        let most_bytes = MOST_BYTES / sequences.max(1);
        Self(Mutex::new(vec![Text { is_rigid, most_bytes, ..Text::default() }; sequences]))
    }

    /// The state of a checkpoint that has so many tokens of a sequence.
    pub(crate) fn checkpoint(&self, sequence: usize, len: usize) -> Option<Arc<Vec<u8>>> {
        let (found, state) = self.last_checkpoint(sequence, len)?;
        (found == len).then_some(state)
    }

    /// The last checkpoint that has at most so many tokens of a sequence, with its length.
    pub(crate) fn last_checkpoint(&self, sequence: usize, most: usize) -> Option<(usize, Arc<Vec<u8>>)> {
        let texts = self.lock();
        let found = texts.get(sequence)?.checkpoints.iter().rfind(|checkpoint| checkpoint.len <= most)?;
        Some((found.len, found.state.clone()))
    }

    /// Adds a checkpoint of so many tokens to a sequence.
    pub(crate) fn add_checkpoint(&self, sequence: usize, len: usize, state: Vec<u8>) {
        if let Some(text) = self.lock().get_mut(sequence) {
            text.checkpoints.retain(|checkpoint| checkpoint.len != len);
            text.checkpoints.push(Checkpoint { len, state: Arc::new(state) });
            text.checkpoints.sort_by_key(|checkpoint| checkpoint.len);
            text.thin();
        }
    }

    /// The number of tokens in a sequence.
    pub(crate) fn held(&self, sequence: usize) -> usize {
        self.lock().get(sequence).map_or(0, |text| text.tokens.len())
    }

    /// The tokens of a sequence.
    pub(crate) fn tokens(&self, sequence: usize) -> Vec<TokenId> {
        self.lock().get(sequence).map(|text| text.tokens.clone()).unwrap_or_default()
    }

    /// The tokens that are left of a sequence where it is cut to `len`: those of the last checkpoint, or none, where it cannot be cut there.
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
            text.checkpoints.retain(|checkpoint| checkpoint.len <= held);
            if held == 0 {
                text.floor = 0;
            }
        }
    }

    /// Replaces the tokens of a sequence by some that it can be cut down to `floor` of.
    pub(crate) fn set(&self, sequence: usize, tokens: &[TokenId], floor: usize) {
        if let Some(text) = self.lock().get_mut(sequence) {
            *text = Text { tokens: tokens.to_vec(), floor, checkpoints: Vec::new(), ..*text };
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
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
    use super::*;

    #[test]
    fn the_other_sequence_that_begins_alike_for_longest_lends() {
        let texts = Texts::new(4, false);
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
        let texts = Texts::new(3, false);
        texts.set(0, &[1, 2, 3, 4], 3);
        texts.copy(0, 1);
        assert_eq!([2, 3, 4, 9].map(|len| texts.kept(1, len)), [0, 3, 4, 4]);
        assert_eq!(texts.lender(&(2..3), &[1, 2, 9]).map(|(_, held)| held), Some(0));
        assert_eq!(texts.lender(&(2..3), &[1, 2, 3, 9]).map(|(_, held)| held), Some(3));
        texts.truncate(0, 0);
        texts.extend(0, &[1, 2, 3]);
        assert_eq!(texts.kept(0, 1), 1, "it was evaluated anew");
    }

    #[test]
    fn a_rigid_sequence_goes_back_to_its_checkpoints() {
        let texts = Texts::new(2, true);
        texts.extend(0, &[1, 2, 3]);
        texts.add_checkpoint(0, 3, vec![3]);
        texts.extend(0, &[4, 5]);
        texts.add_checkpoint(0, 5, vec![5]);
        texts.extend(0, &[6]);
        assert_eq!([2, 3, 4, 5, 6, 9].map(|len| texts.kept(0, len)), [0, 3, 3, 5, 6, 6]);
        assert_eq!((texts.last_checkpoint(0, 4).unwrap().0, texts.checkpoint(0, 4)), (3, None));
        texts.copy(0, 1);
        texts.truncate(0, 3);
        texts.extend(0, &[7, 8, 9]);
        assert_eq!((texts.kept(0, 5), texts.kept(1, 5)), (3, 5), "what was behind the cut is gone");
        assert_eq!(texts.lender(&(0..1), &[1, 2, 3, 4, 9]).map(|(_, held)| held), Some(3));
    }

    #[test]
    fn checkpoints_thin_out_where_they_are_close_together() {
        let texts = Texts::new(2, true);
        texts.extend(0, &[0; 1_000]);
        texts.add_checkpoint(0, 500, Vec::new());
        for len in 501..501 + MOST_CHECKPOINTS {
            texts.add_checkpoint(0, len, Vec::new());
        }
        let lengths =
            || texts.lock()[0].checkpoints.iter().map(|checkpoint| checkpoint.len).collect::<Vec<_>>();
        assert_eq!((lengths().len(), lengths()[0]), (MOST_CHECKPOINTS, 500));
        assert_eq!(lengths().last(), Some(&(500 + MOST_CHECKPOINTS)));
        texts.add_checkpoint(0, 900, vec![0; MOST_BYTES / 2 - 1]);
        assert_eq!(lengths().len(), MOST_CHECKPOINTS, "half is its own");
        texts.add_checkpoint(0, 1_000, vec![0; MOST_BYTES]);
        assert_eq!(lengths(), [500, 1_000], "two stay, however large");
    }
}
