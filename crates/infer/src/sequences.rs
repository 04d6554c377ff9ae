//! What the sequences of a backend hold beside its current one. Knows token numbers and nothing else.

use toolgate_grammar::TokenId;

/// Sequences put aside, the one used last at the end.
#[derive(Debug, Default)]
pub(crate) struct Shelf(Vec<(usize, Vec<TokenId>)>);

impl Shelf {
    /// Puts a sequence aside.
    pub(crate) fn put(&mut self, sequence: usize, tokens: Vec<TokenId>) {
        self.0.retain(|(other, _)| *other != sequence);
        self.0.push((sequence, tokens));
    }

    /// Takes a sequence from the shelf; nothing if it is not there.
    pub(crate) fn take(&mut self, sequence: usize) -> Vec<TokenId> {
        let at = self.0.iter().position(|(other, _)| *other == sequence);
        at.map(|at| self.0.remove(at).1).unwrap_or_default()
    }

    /// The sequence that begins like `prompt` for longest, and for how many tokens.
    pub(crate) fn best(&self, prompt: &[TokenId]) -> Option<(usize, usize)> {
        let lengths = self.0.iter().map(|(sequence, tokens)| (*sequence, common_len(tokens, prompt)));
        lengths.max_by_key(|&(_, common)| common)
    }

    /// Whether a sequence is on the shelf.
    pub(crate) fn has(&self, sequence: usize) -> bool {
        self.0.iter().any(|(other, _)| *other == sequence)
    }

    /// The sequence put aside first.
    pub(crate) fn oldest(&self) -> Option<usize> {
        self.0.first().map(|(sequence, _)| *sequence)
    }

    /// The sequence that would cost least to evaluate again, the one put aside first of several, and its tokens.
    pub(crate) fn cheapest(&self) -> Option<(usize, usize)> {
        self.0.iter().map(|(sequence, tokens)| (*sequence, tokens.len())).min_by_key(|&(_, tokens)| tokens)
    }
}

/// How many items two sequences begin with alike.
///
/// ```
/// use toolgate_infer::common_len;
/// assert_eq!(common_len(b"one two", b"one ten"), 5);
/// assert_eq!(common_len(b"one", b"one ten"), 3);
/// ```
pub fn common_len<T: PartialEq>(a: &[T], b: &[T]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}
