//! The text tokens of a configuration, as masks are put together from them. Above `slice`; kept by `kept`.
//!
//! Invariant: `exits` are nodes of the trie of the vocabulary that the tokens are from.

use std::sync::Arc;

#[cfg(doc)]
use super::frames::UNKNOWN;
use super::slice::Slice;
use super::tokens::TokenSet;

/// The text tokens that can follow a configuration.
#[derive(Clone)]
pub(crate) struct Text {
    /// Those allowed whatever is below [`UNKNOWN`].
    pub(super) tokens: Arc<TokenSet>,
    /// The nodes of the vocabulary's trie after which [`UNKNOWN`] may have been left, ascending: which tokens
    /// below them are allowed as well depends on what takes its place.
    pub(super) exits: Arc<[u32]>,
    pub(super) sliced: Option<Sliced>,
}

/// The tokens among them that came from the vocabulary as a slice.
#[derive(Clone)]
pub(super) struct Sliced {
    pub(super) slice: Arc<Slice>,
    /// The characters they are made of.
    pub(super) atoms: u64,
    /// How many code points of them are allowed, if there is a bound.
    pub(super) points: Option<usize>,
    /// Whether [`UNKNOWN`] may be left before that bound, so that longer ones may be allowed by what follows it.
    pub(super) leaves: bool,
}

impl Text {
    /// Tokens allowed whatever comes after them.
    #[cfg(test)]
    pub(crate) fn new(tokens: Arc<TokenSet>) -> Self {
        Self { tokens, exits: Arc::default(), sliced: None }
    }

    /// Bytes it holds, those it shares with others included.
    pub(crate) fn size(&self) -> usize {
        mask_bytes(&self.tokens) + size_of_val(&*self.exits)
    }
}

/// Bytes of a mask.
pub(crate) fn mask_bytes(mask: &TokenSet) -> usize {
    size_of_val(mask.words()) + 128
}
