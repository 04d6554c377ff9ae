//! Runs a grammar over a token vocabulary. (Interface stub: the engine replaces the bodies.)
use std::sync::Arc;

use crate::{Error, Grammar, Limits};

/// A token's number in its vocabulary.
pub type TokenId = u32;

/// What a token is for.
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

/// The tokens of a model: their bytes and kinds, and a byte trie over them.
#[derive(Debug)]
pub struct Vocabulary {}

impl Vocabulary {
    /// From each token's bytes (for special tokens: its name) and kind, in the order of their ids.
    pub fn new(_tokens: impl IntoIterator<Item = (Vec<u8>, TokenKind)>) -> Result<Self, Error> { unimplemented!() }
    /// 256 single-byte tokens and an end token, 256: for examples and tests.
    pub fn bytes_only() -> Self { unimplemented!() }
    /// Number of tokens.
    pub fn len(&self) -> usize { unimplemented!() }
    /// Bytes of a token; empty for an unknown id.
    pub fn bytes(&self, _token: TokenId) -> &[u8] { unimplemented!() }
    /// Kind of a token; `Unused` for an unknown id.
    pub fn kind(&self, _token: TokenId) -> TokenKind { unimplemented!() }
    /// Tokens that end the generation.
    pub fn end_tokens(&self) -> &[TokenId] { unimplemented!() }
    /// The special token of that name.
    pub fn special(&self, _text: &str) -> Option<TokenId> { unimplemented!() }
    /// Text tokens whose bytes are a prefix of `text`, or which start with `text` (the two ways to begin it).
    pub fn beginning(&self, _text: &[u8]) -> Vec<TokenId> { unimplemented!() }
}

/// A set of tokens, a bit each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenSet {}
impl TokenSet {
    /// Whether the token is in the set.
    pub fn contains(&self, _token: TokenId) -> bool { unimplemented!() }
    /// Number of tokens in the set.
    pub fn count(&self) -> usize { unimplemented!() }
    /// The tokens, ascending.
    pub fn iter(&self) -> impl Iterator<Item = TokenId> + '_ { std::iter::empty() }
    /// 64 tokens a word, lowest bit first.
    pub fn words(&self) -> &[u64] { unimplemented!() }
}

/// A grammar ready to run over a vocabulary: shared, memoizing, `Send + Sync`.
#[derive(Debug)]
pub struct Automaton {}
impl Automaton {
    /// # Errors
    /// `Kind::Limit`; `Kind::Undefined` for a token terminal the vocabulary lacks.
    pub fn new(_grammar: &Grammar, _vocabulary: Arc<Vocabulary>, _limits: &Limits) -> Result<Arc<Self>, Error> { unimplemented!() }
    /// A run from the start.
    pub fn matcher(self: &Arc<Self>) -> Matcher { unimplemented!() }
    /// The vocabulary it runs over.
    pub fn vocabulary(&self) -> &Arc<Vocabulary> { unimplemented!() }
}

/// One run through an automaton. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Matcher {}
impl Matcher {
    /// The automaton it runs.
    pub fn automaton(&self) -> &Arc<Automaton> { unimplemented!() }
    /// Whether the token may come next. End tokens: whether the text so far is whole.
    pub fn allows(&mut self, _token: TokenId) -> Result<bool, Error> { unimplemented!() }
    /// Takes a token; on `Kind::Rejected` nothing has changed.
    pub fn accept(&mut self, _token: TokenId) -> Result<(), Error> { unimplemented!() }
    /// Takes text, as one step; on `Kind::Rejected` (place: the offset in `bytes` of the first byte refused) nothing has changed.
    pub fn accept_bytes(&mut self, _bytes: &[u8]) -> Result<(), Error> { unimplemented!() }
    /// All tokens that may come next.
    pub fn mask(&mut self) -> Result<Arc<TokenSet>, Error> { unimplemented!() }
    /// The longest bytes that every continuation starts with; empty where there is a choice, or where the text may end here.
    pub fn forced(&mut self) -> Result<Vec<u8>, Error> { unimplemented!() }
    /// Whether the text so far is a whole match.
    pub fn is_complete(&self) -> bool { unimplemented!() }
    /// Whether the text is whole and nothing can follow.
    pub fn is_finished(&mut self) -> Result<bool, Error> { unimplemented!() }
    /// A shortest continuation, in bytes, that makes the text whole.
    pub fn completion(&mut self) -> Result<Vec<u8>, Error> { unimplemented!() }
    /// Undoes the last `steps` accepted steps. Kind::Limit if there were fewer.
    pub fn rollback(&mut self, _steps: usize) -> Result<(), Error> { unimplemented!() }
    /// Steps taken so far.
    pub fn steps(&self) -> usize { unimplemented!() }
}
