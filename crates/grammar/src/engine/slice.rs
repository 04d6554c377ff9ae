//! What the inside of any string of any grammar costs is paid here, once per vocabulary: the tokens made only
//! of certain kinds of characters, and the few that start with such a character and then leave them.
//!
//! Invariant: a slice is a pure function of the vocabulary and of a set of atoms; grammars decide only whether
//! they may use it.

use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use rustc_hash::FxHashMap;

use super::trie::Trie;
use super::vocabulary::{TokenId, TokenKind, Vocabulary};

/// Slices a vocabulary keeps; more kinds of strings than this are walked without one.
const SLICES: usize = 128;

/// Sets of characters without all lower-case or all upper-case letters are too many, and their slices too small.
const LETTERS: [u64; 2] = [0b0011, 0b1100];

/// Slices of fewer tokens than this are not worth their memory.
const WORTHWHILE: usize = 512;

/// Every character from U+0080 on.
pub(crate) const NON_ASCII: u64 = 1 << 44;

/// Not the text of any run of whole characters.
const BROKEN: u64 = 1 << 63;

/// Number of atoms of ASCII characters.
pub(crate) const ASCII_ATOMS: u8 = 44;

/// The atom of an ASCII character: characters that grammars seldom tell apart share one.
pub(crate) const fn atom(byte: u8) -> u8 {
    match byte {
        b'a'..=b'f' => 0,
        b'g'..=b'z' => 1,
        b'A'..=b'F' => 2,
        b'G'..=b'Z' => 3,
        b'0' => 4,
        b'1'..=b'9' => 5,
        b' ' => 6,
        b'\n' => 7,
        b'\t' => 8,
        b'\r' => 9,
        0x7f => 11,
        b'!'..=b'/' => 12 + (byte - b'!'),
        b':'..=b'@' => 27 + (byte - b':'),
        b'['..=b'`' => 34 + (byte - b'['),
        b'{'..=b'~' => 40 + (byte - b'{'),
        _ => 10,
    }
}

/// What a slice needs to know of a token.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Traits {
    /// The atoms of its characters, a bit each.
    pub(crate) atoms: u64,
    /// Its length in code points.
    pub(crate) points: u16,
}

impl Traits {
    pub(crate) fn of(kind: TokenKind, bytes: &[u8]) -> Self {
        let broken = Self { atoms: BROKEN, points: 0 };
        if kind != TokenKind::Text || bytes.is_empty() {
            return broken;
        }
        let Ok(text) = std::str::from_utf8(bytes) else { return broken };
        let mut traits = Self { atoms: 0, points: 0 };
        for char in text.chars() {
            traits.atoms |= u8::try_from(char).ok().filter(u8::is_ascii).map_or(NON_ASCII, |b| 1 << atom(b));
            traits.points += 1;
        }
        traits
    }

    /// Whether it consists of characters of `atoms` alone.
    pub(crate) fn within(self, atoms: u64) -> bool {
        self.atoms & !atoms == 0
    }
}

/// Whether a byte begins a character of `atoms`.
pub(crate) fn begins(atoms: u64, byte: u8) -> bool {
    if byte.is_ascii() { atoms >> atom(byte) & 1 == 1 } else { atoms & NON_ASCII != 0 }
}

/// Whether all lower-case or all upper-case letters are among `atoms`.
pub(crate) fn has_letters(atoms: u64) -> bool {
    LETTERS.iter().any(|letters| atoms & letters == *letters)
}

/// The tokens of a vocabulary that consist of certain characters alone.
#[derive(Debug)]
pub(crate) struct Slice {
    /// Those tokens, a bit each.
    members: Box<[u64]>,
    /// Those tokens by falling number of code points.
    by_points: OnceLock<Vec<(u16, TokenId)>>,
    atoms: u64,
    /// Every other text token of more than [`LONG`](Self::LONG) bytes, by falling number of bytes.
    pub(crate) long_others: Vec<(u16, TokenId)>,
    /// The tokens that start with such a character, or a part of one, and are not members.
    pub(crate) residue: Trie,
    /// For each node of `residue` the node of the vocabulary's trie.
    pub(crate) origins: Vec<u32>,
    up_to: [OnceLock<Box<[u64]>>; 32],
}

impl Slice {
    /// Tokens of more bytes than this are listed apart: they may reach a bound that others cannot.
    pub(crate) const LONG: usize = 16;

    fn new(vocabulary: &Vocabulary, atoms: u64) -> Option<Self> {
        let mut members = vec![0u64; vocabulary.len().div_ceil(64)].into_boxed_slice();
        for (word, traits) in members.iter_mut().zip(vocabulary.traits().chunks(64)) {
            for (bit, traits) in traits.iter().enumerate() {
                *word |= u64::from(traits.within(atoms)) << bit;
            }
        }
        if members.iter().map(|word| word.count_ones() as usize).sum::<usize>() < WORTHWHILE {
            return None;
        }
        let within =
            |token: TokenId| vocabulary.traits().get(token as usize).is_some_and(|t| t.within(atoms));
        let long_others =
            vocabulary.long_tokens().iter().copied().filter(|(_, token)| !within(*token)).collect();
        let (residue, origins) = vocabulary.trie().part(|byte| begins(atoms, byte), |token| !within(token));
        let (by_points, up_to) = (OnceLock::new(), Default::default());
        Some(Self { members, by_points, atoms, long_others, residue, origins, up_to })
    }

    /// Members of more than `points` code points.
    pub(crate) fn longer<'a>(
        &'a self,
        vocabulary: &Vocabulary,
        points: usize,
    ) -> impl Iterator<Item = TokenId> + use<'a> {
        let by_points = self.by_points.get_or_init(|| {
            let tokens =
                vocabulary.traits().iter().enumerate().filter(|(_, traits)| traits.within(self.atoms));
            let mut tokens: Vec<_> =
                tokens.map(|(token, traits)| (traits.points, token as TokenId)).collect();
            tokens.sort_unstable_by(|a, b| b.cmp(a));
            tokens
        });
        by_points.iter().take_while(move |(n, _)| usize::from(*n) > points).map(|(_, token)| *token)
    }

    /// Members of at most `points` code points, a bit each; `None` is without bound.
    pub(crate) fn up_to(&self, vocabulary: &Vocabulary, points: Option<usize>) -> Box<[u64]> {
        let Some(points) = points else { return self.members.clone() };
        let compute = || {
            let mut words = self.members.clone();
            for token in self.longer(vocabulary, points) {
                if let Some(word) = words.get_mut(token as usize / 64) {
                    *word &= !(1 << (token % 64));
                }
            }
            words
        };
        match self.up_to.get(points) {
            Some(cell) => cell.get_or_init(compute).clone(),
            None => compute(),
        }
    }
}

/// The slices made so far, by their atoms.
#[derive(Debug, Default)]
pub(crate) struct Slices(RwLock<FxHashMap<u64, Option<Arc<Slice>>>>);

impl Slices {
    /// The slice of `atoms`, unless it is too small to be of use or there are too many.
    pub(crate) fn get(&self, vocabulary: &Vocabulary, atoms: u64) -> Option<Arc<Slice>> {
        if !has_letters(atoms) {
            return None;
        }
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(slice) = known.get(&atoms) {
            return slice.clone();
        }
        let full = known.len() >= SLICES;
        drop(known);
        if full {
            return None;
        }
        // Two threads may make the same slice; the second is dropped, which is cheaper than a lock held so long.
        let slice = Slice::new(vocabulary, atoms).map(Arc::new);
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        known.entry(atoms).or_insert(slice).clone()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn every_ascii_character_has_an_atom_below_the_bound() {
        for byte in 0..=127u8 {
            assert!(atom(byte) < ASCII_ATOMS, "{byte}");
        }
        let punctuation: std::collections::BTreeSet<u8> =
            (0..=127u8).filter(u8::is_ascii_punctuation).map(atom).collect();
        assert_eq!(punctuation.len(), 32);
        assert!(punctuation.iter().all(|&a| a >= 12));
    }

    #[test]
    fn traits_count_code_points_and_mark_partial_characters() {
        let letters = (1 << atom(b'a')) | (1 << atom(b'z'));
        for (bytes, within, points) in [
            (&b"az"[..], true, 2),
            (b"a1", false, 2),
            ("é".as_bytes(), false, 1),
            (b"\xc3", false, 0),
            (b"", false, 0),
        ] {
            let traits = Traits::of(TokenKind::Text, bytes);
            assert_eq!((traits.within(letters), traits.points), (within, points), "{bytes:?}");
        }
        assert!(!Traits::of(TokenKind::Special, b"az").within(letters));
    }
}
