//! What a token is, and sets of tokens. The lowest file of the engine, with `stop`: knows no vocabulary and no grammar.
//!
//! Invariant: a set made for a number of tokens has room for all of them, and no bit beyond its words.

/// A token's number in its vocabulary.
pub type TokenId = u32;

/// What a token is for.
///
/// ```
/// use toolgate_grammar::{TokenKind, Vocabulary};
/// let vocabulary = Vocabulary::bytes_only();
/// assert_eq!(vocabulary.kind(b'a'.into()), TokenKind::Text);
/// assert_eq!(vocabulary.kind(256), TokenKind::EndOfGeneration);
/// assert_eq!(vocabulary.kind(257), TokenKind::Unused); // there is no such token
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TokenKind {
    /// Stands for its bytes.
    Text,
    /// A control token; its text is a name, matched by token terminals only.
    Special,
    /// A control token that ends the generation.
    EndOfGeneration,
    /// Never to be produced.
    Unused,
}

/// A set of tokens, a bit each.
///
/// ```
/// use std::sync::Arc;
/// use toolgate_grammar::{Automaton, Grammar, Limits, Vocabulary};
/// let grammar = Grammar::parse("root ::= [a-c]")?;
/// let automaton = Automaton::new(&grammar, Arc::new(Vocabulary::bytes_only()), &Limits::default())?;
/// let mut matcher = automaton.matcher();
/// let mask = matcher.mask()?;
/// assert!(mask.contains(b'b'.into()));
/// assert_eq!(mask.iter().collect::<Vec<_>>(), [97, 98, 99]);
/// assert_eq!(mask.words()[1], 0b111 << (97 - 64));
/// # Ok::<(), toolgate_grammar::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenSet {
    words: Box<[u64]>,
}

impl TokenSet {
    pub(crate) fn empty(tokens: usize) -> Self {
        Self { words: vec![0; tokens.div_ceil(64)].into_boxed_slice() }
    }

    pub(crate) fn from_words(words: Box<[u64]>) -> Self {
        Self { words }
    }

    pub(crate) fn insert(&mut self, token: TokenId) {
        if let Some(word) = self.words.get_mut(token as usize / 64) {
            *word |= 1 << (token % 64);
        }
    }

    pub(crate) fn remove(&mut self, token: TokenId) {
        if let Some(word) = self.words.get_mut(token as usize / 64) {
            *word &= !(1 << (token % 64));
        }
    }

    pub(crate) fn words_mut(&mut self) -> &mut [u64] {
        &mut self.words
    }

    /// Whether the token is in the set.
    pub fn contains(&self, token: TokenId) -> bool {
        self.words.get(token as usize / 64).is_some_and(|word| word >> (token % 64) & 1 == 1)
    }

    /// Number of tokens in the set.
    pub fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether no token is in the set.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }

    /// The tokens, ascending.
    pub fn iter(&self) -> impl Iterator<Item = TokenId> + '_ {
        self.words.iter().enumerate().flat_map(|(index, &word)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                if rest == 0 {
                    return None;
                }
                let bit = rest.trailing_zeros();
                rest &= rest - 1;
                Some(index as u32 * 64 + bit)
            })
        })
    }

    /// Writes the set as words of 32 tokens, lowest bit first, and zeros to the end of `words`; what does not fit is left
    /// out.
    pub(crate) fn write(&self, words: &mut [u32]) {
        let halves = self.words.iter().flat_map(|&word| [word as u32, (word >> 32) as u32]);
        for (word, half) in words.iter_mut().zip(halves.chain(std::iter::repeat(0))) {
            *word = half;
        }
    }

    /// 64 tokens a word, lowest bit first.
    pub fn words(&self) -> &[u64] {
        &self.words
    }
}
