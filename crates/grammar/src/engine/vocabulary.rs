//! The tokens of a model: their bytes, their kinds, and what can be known about them without any grammar.
//!
//! Above `tokens`, `characters` and `trie`. Invariant: immutable once built, so that one vocabulary serves every
//! automaton on every thread. What automata find out about it is kept by `shared`.

use rustc_hash::FxHashMap;

use super::characters::{LONG, Traits};
use super::tokens::{TokenId, TokenKind, TokenSet};
use super::trie::{NO_TOKEN, Trie};
use crate::{Error, Kind};

/// The tokens of a model: their bytes and kinds, and a byte trie over them.
///
/// ```
/// use toolgate_grammar::{TokenKind, Vocabulary};
/// let vocabulary = Vocabulary::new([
///     (b"{".to_vec(), TokenKind::Text),
///     (b"{\"".to_vec(), TokenKind::Text),
///     (b"<eos>".to_vec(), TokenKind::EndOfGeneration),
/// ])?;
/// assert_eq!(vocabulary.beginning(b"{"), [0, 1]);
/// assert_eq!(vocabulary.special("<eos>"), Some(2));
/// # Ok::<(), toolgate_grammar::Error>(())
/// ```
pub struct Vocabulary {
    bytes: Vec<u8>,
    /// Where each token's bytes start in `bytes`; one more entry than tokens.
    starts: Vec<u32>,
    kinds: Vec<TokenKind>,
    end_tokens: Vec<TokenId>,
    specials: FxHashMap<Vec<u8>, TokenId>,
    trie: Trie,
    /// Pairs of text tokens with the same bytes: the one in the trie, and the other.
    twins: Vec<(TokenId, TokenId)>,
    /// Text tokens that are not empty, and special ones: what a negated token terminal ranges over.
    ordinary: TokenSet,
    traits: Vec<Traits>,
    /// Text tokens of more than [`LONG`] bytes, longest first, with their lengths.
    long_tokens: Vec<(u16, TokenId)>,
    longest: usize,
    writes_every_byte: bool,
}

impl Vocabulary {
    /// From each token's bytes (for special tokens: its name) and kind, in the order of their ids.
    ///
    /// # Errors
    /// [`Kind::Vocabulary`] if there is no token, too many of them, or one of more than 65,535 bytes.
    pub fn new(tokens: impl IntoIterator<Item = (Vec<u8>, TokenKind)>) -> Result<Self, Error> {
        let (mut bytes, mut starts, mut kinds) = (Vec::new(), vec![0], Vec::new());
        for (text, kind) in tokens {
            let id = kinds.len();
            if text.len() > usize::from(u16::MAX) {
                return Err(Error::new(Kind::Vocabulary, format!("token {id} is longer than 65535 bytes")));
            }
            bytes.extend_from_slice(&text);
            let (Ok(end), true) = (u32::try_from(bytes.len()), id < 1 << 28) else {
                return Err(Error::new(Kind::Vocabulary, "the vocabulary is too large"));
            };
            starts.push(end);
            kinds.push(kind);
        }
        if kinds.is_empty() {
            return Err(Error::new(Kind::Vocabulary, "the vocabulary has no tokens"));
        }
        Ok(Self::indexed(bytes, starts, kinds))
    }

    /// 256 single-byte tokens and an end token, 256: for examples and tests.
    ///
    /// ```
    /// use toolgate_grammar::Vocabulary;
    /// let vocabulary = Vocabulary::bytes_only();
    /// assert_eq!((vocabulary.end_tokens(), vocabulary.longest()), ([256].as_slice(), 1));
    /// assert!(vocabulary.writes_every_byte(), "any text can be written");
    /// ```
    pub fn bytes_only() -> Self {
        let name = b"<end>";
        let bytes: Vec<u8> = (0..=u8::MAX).chain(*name).collect();
        let starts = (0..=256).chain([bytes.len() as u32]).collect();
        let kinds = std::iter::repeat_n(TokenKind::Text, 256).chain([TokenKind::EndOfGeneration]).collect();
        Self::indexed(bytes, starts, kinds)
    }

    fn indexed(bytes: Vec<u8>, starts: Vec<u32>, kinds: Vec<TokenKind>) -> Self {
        let mut vocabulary = Self {
            ordinary: TokenSet::empty(kinds.len()),
            bytes,
            starts,
            kinds,
            end_tokens: Vec::new(),
            specials: FxHashMap::default(),
            trie: Trie::default(),
            twins: Vec::new(),
            traits: Vec::new(),
            long_tokens: Vec::new(),
            longest: 0,
            writes_every_byte: false,
        };
        vocabulary.index();
        vocabulary
    }

    /// The same tokens, with these text tokens made special: marks of a format, which then stand for nothing in text and are
    /// matched by token terminals alone. Tokens of other kinds stay as they are.
    ///
    /// ```
    /// use toolgate_grammar::{TokenKind, Vocabulary};
    /// let tokens = ["<think>", "a"].map(|text| (text.as_bytes().to_vec(), TokenKind::Text));
    /// let marked = Vocabulary::new(tokens)?.marking([0]);
    /// assert_eq!((marked.special("<think>"), marked.kind(1)), (Some(0), TokenKind::Text));
    /// # Ok::<(), toolgate_grammar::Error>(())
    /// ```
    #[must_use]
    pub fn marking(&self, tokens: impl IntoIterator<Item = TokenId>) -> Self {
        let mut kinds = self.kinds.clone();
        for token in tokens {
            if let Some(kind @ TokenKind::Text) = kinds.get_mut(token as usize) {
                *kind = TokenKind::Special;
            }
        }
        Self::indexed(self.bytes.clone(), self.starts.clone(), kinds)
    }

    /// Number of tokens.
    pub fn len(&self) -> usize {
        self.kinds.len()
    }

    /// Whether there are no tokens; never so for a vocabulary that was built.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// Words of 32 tokens that a mask takes; see [`Matcher::mask_into`](crate::Matcher::mask_into).
    pub fn mask_words(&self) -> usize {
        self.len().div_ceil(32)
    }

    /// Bytes of a token; empty for an unknown id.
    pub fn bytes(&self, token: TokenId) -> &[u8] {
        let index = token as usize;
        match (self.starts.get(index), self.starts.get(index + 1)) {
            (Some(&start), Some(&end)) => self.bytes.get(start as usize..end as usize).unwrap_or_default(),
            _ => &[],
        }
    }

    /// Kind of a token; `Unused` for an unknown id.
    pub fn kind(&self, token: TokenId) -> TokenKind {
        self.kinds.get(token as usize).copied().unwrap_or(TokenKind::Unused)
    }

    /// Tokens that end the generation.
    pub fn end_tokens(&self) -> &[TokenId] {
        &self.end_tokens
    }

    /// The special token of that name; of several the lowest.
    pub fn special(&self, text: &str) -> Option<TokenId> {
        self.specials.get(text.as_bytes()).copied()
    }

    /// Text tokens whose bytes are a prefix of `text`, or which start with `text` (the two ways to begin it),
    /// ascending.
    pub fn beginning(&self, text: &[u8]) -> Vec<TokenId> {
        let mut found = Vec::new();
        let mut add = |token: TokenId| {
            if token != NO_TOKEN {
                found.push(token);
            }
        };
        let mut bytes = text.iter();
        let mut node = bytes.next().and_then(|&first| self.trie.root(first));
        while let Some(index) = node {
            let Some(data) = self.trie.node(index) else { break };
            add(data.token);
            match bytes.next() {
                Some(&byte) => node = self.trie.child(index, byte),
                None => {
                    for below in self.trie.nodes.get(index + 1..data.end as usize).unwrap_or_default() {
                        add(below.token);
                    }
                    node = None;
                }
            }
        }
        for &(first, twin) in &self.twins {
            if found.contains(&first) {
                found.push(twin);
            }
        }
        found.sort_unstable();
        found
    }

    /// Whether a text token of more than `length` bytes agrees with `text` as far as both of them go: whether the first
    /// `length` bytes of `text`, followed by the rest and then by anything, can be inside one token.
    ///
    /// ```
    /// # use toolgate_grammar::{TokenKind, Vocabulary};
    /// # let text = |s: &str| (s.as_bytes().to_vec(), TokenKind::Text);
    /// let vocabulary = Vocabulary::new([text("a"), text("abc")])?;
    /// assert!(vocabulary.reaches_beyond(b"ab", 2) && vocabulary.reaches_beyond(b"abc", 2));
    /// assert!(!vocabulary.reaches_beyond(b"abx", 2) && !vocabulary.reaches_beyond(b"abc", 3));
    /// # Ok::<(), toolgate_grammar::Error>(())
    /// ```
    pub fn reaches_beyond(&self, text: &[u8], length: usize) -> bool {
        let mut bytes = text.iter();
        let mut node = bytes.next().and_then(|&first| self.trie.root(first));
        let mut depth = 1;
        while let Some(data) = node.and_then(|index| self.trie.node(index)) {
            if depth > length && data.token != NO_TOKEN {
                return true;
            }
            let Some(&byte) = bytes.next() else {
                // The tokens below this node are longer than the text.
                return depth >= length && node.is_some_and(|index| data.end as usize > index + 1);
            };
            node = node.and_then(|index| self.trie.child(index, byte));
            depth += 1;
        }
        false
    }

    /// Bytes of the longest text token.
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// Whether there is a text token for each byte that UTF-8 uses, so that any text can be written.
    pub fn writes_every_byte(&self) -> bool {
        self.writes_every_byte
    }

    pub(crate) fn trie(&self) -> &Trie {
        &self.trie
    }

    pub(crate) fn twins(&self) -> &[(TokenId, TokenId)] {
        &self.twins
    }

    pub(crate) fn ordinary(&self) -> &TokenSet {
        &self.ordinary
    }

    pub(crate) fn traits(&self) -> &[Traits] {
        &self.traits
    }

    pub(crate) fn long_tokens(&self) -> &[(u16, TokenId)] {
        &self.long_tokens
    }

    /// Fills everything that follows from `bytes`, `starts` and `kinds`.
    fn index(&mut self) {
        let mut sorted: Vec<TokenId> = Vec::with_capacity(self.kinds.len());
        for token in 0..self.kinds.len() as u32 {
            match self.kind(token) {
                TokenKind::Text if !self.bytes(token).is_empty() => {
                    sorted.push(token);
                    self.ordinary.insert(token);
                    let length = self.bytes(token).len();
                    self.longest = self.longest.max(length);
                    if length > LONG {
                        self.long_tokens.push((length as u16, token));
                    }
                }
                TokenKind::Text | TokenKind::Unused => {}
                kind @ (TokenKind::Special | TokenKind::EndOfGeneration) => {
                    if kind == TokenKind::Special {
                        self.ordinary.insert(token);
                    } else {
                        self.end_tokens.push(token);
                    }
                    let name = self.bytes(token).to_vec();
                    self.specials.entry(name).or_insert(token);
                }
            }
        }
        self.long_tokens.sort_unstable_by(|a, b| b.cmp(a));
        sorted.sort_unstable_by(|&a, &b| self.bytes(a).cmp(self.bytes(b)).then(a.cmp(&b)));
        let mut twins = Vec::new();
        sorted.dedup_by(|later, first| {
            let same = self.bytes(*later) == self.bytes(*first);
            if same {
                twins.push((*first, *later));
            }
            same
        });
        self.trie = Trie::from_sorted(sorted.iter().map(|&token| (self.bytes(token), token)));
        self.twins = twins;
        let written = |byte: u8| {
            let node = self.trie.root(byte).and_then(|root| self.trie.node(root));
            node.is_some_and(|node| node.token != NO_TOKEN)
        };
        self.writes_every_byte = (0..=0xf4).filter(|byte| !matches!(byte, 0xc0 | 0xc1)).all(written);
        self.traits = (0..self.kinds.len() as u32)
            .map(|token| Traits::of(self.kind(token), self.bytes(token)))
            .collect();
    }
}

impl std::fmt::Debug for Vocabulary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Vocabulary").field("tokens", &self.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn beginning_finds_prefixes_extensions_and_twins() {
        let text = |s: &str| (s.as_bytes().to_vec(), TokenKind::Text);
        let vocabulary = Vocabulary::new([
            text("a"),
            text("ab"),
            text("abc"),
            text("b"),
            text(""),
            (b"ab".to_vec(), TokenKind::Special),
            text("abcd"),
            text("ab"),
            text("ax"),
        ])
        .unwrap();
        assert_eq!(vocabulary.beginning(b"abc"), [0, 1, 2, 6, 7]);
        assert_eq!(vocabulary.beginning(b"b"), [3]);
        assert_eq!(vocabulary.beginning(b"c"), [0_u32; 0]);
        assert_eq!(vocabulary.beginning(b""), [0_u32; 0]);
        assert_eq!(vocabulary.special("ab"), Some(5));
        assert_eq!(vocabulary.special("abc"), None);
    }

    #[test]
    fn reaching_beyond_a_length_is_what_a_look_at_every_token_says() {
        let tokens: [&[u8]; 8] = [b"a", b"ab", b"abcd", b"b", b"bx", b"\xc3\xa9", b"cab", b""];
        let vocabulary = Vocabulary::new(tokens.map(|token| (token.to_vec(), TokenKind::Text))).unwrap();
        for text in
            [&b"a"[..], b"ab", b"abc", b"abcd", b"abcde", b"b", b"bc", b"\xc3", b"c", b"ca", b"x", b""]
        {
            for length in 0..=text.len() {
                let agrees = |token: &[u8]| token.iter().zip(text).all(|(a, b)| a == b);
                let expected =
                    !text.is_empty() && tokens.iter().any(|token| token.len() > length && agrees(token));
                assert_eq!(vocabulary.reaches_beyond(text, length), expected, "{text:?} {length}");
            }
        }
    }

    #[test]
    fn unknown_ids_are_unused_and_empty() {
        let vocabulary = Vocabulary::bytes_only();
        assert_eq!(
            (vocabulary.kind(256), vocabulary.kind(257)),
            (TokenKind::EndOfGeneration, TokenKind::Unused)
        );
        assert_eq!((vocabulary.bytes(65), vocabulary.bytes(9999)), (&b"A"[..], &b""[..]));
    }

    #[test]
    fn rejects_an_empty_vocabulary() {
        assert_eq!(Vocabulary::new([]).unwrap_err().kind(), Kind::Vocabulary);
        assert!(Vocabulary::new([(b"x".to_vec(), TokenKind::Text)]).is_ok());
    }

    #[test]
    fn a_token_set_iterates_its_bits_in_order() {
        let mut set = TokenSet::empty(130);
        for token in [0, 63, 64, 129] {
            set.insert(token);
        }
        set.insert(5000);
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 63, 64, 129]);
        assert_eq!(set.count(), 4);
        set.remove(64);
        assert!(!set.contains(64) && set.contains(129) && !set.contains(5000));
    }
}
