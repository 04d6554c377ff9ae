//! The sequences of a backend beside its current one, with the tokens that each holds. Knows token numbers and nothing else.

use toolgate_grammar::TokenId;

/// The other sequences, the one used last at the end.
#[derive(Debug, Default)]
pub(crate) struct Sequences(Vec<(usize, Vec<TokenId>)>);

impl Sequences {
    /// Adds a sequence.
    pub(crate) fn put(&mut self, sequence: usize, tokens: Vec<TokenId>) {
        self.0.retain(|(other, _)| *other != sequence);
        self.0.push((sequence, tokens));
    }

    /// Removes a sequence; its tokens, none if it is not there.
    pub(crate) fn take(&mut self, sequence: usize) -> Vec<TokenId> {
        let at = self.0.iter().position(|(other, _)| *other == sequence);
        at.map(|at| self.0.remove(at).1).unwrap_or_default()
    }

    /// The sequence that keeps the longest beginning of `prompt`, and its length in tokens. `kept` tells how many of the tokens that a
    /// sequence shares with the prompt are left where it is cut to them.
    pub(crate) fn best(
        &self,
        prompt: &[TokenId],
        kept: impl Fn(usize, usize) -> usize,
    ) -> Option<(usize, usize)> {
        let length = |(sequence, tokens): &(usize, Vec<TokenId>)| {
            (*sequence, kept(*sequence, common_len(tokens, prompt)))
        };
        self.0.iter().map(length).max_by_key(|&(_, length)| length)
    }

    /// Whether a sequence is among them.
    pub(crate) fn has(&self, sequence: usize) -> bool {
        self.0.iter().any(|(other, _)| *other == sequence)
    }

    /// The sequence added first.
    pub(crate) fn oldest(&self) -> Option<usize> {
        self.0.first().map(|(sequence, _)| *sequence)
    }

    /// The shortest sequence, which costs least to evaluate again, and its length in tokens; the one added first of several.
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
