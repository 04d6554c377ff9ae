//! What the inside of any string of any grammar costs is paid here, once per vocabulary: the tokens made only
//! of certain kinds of characters, and the few that start with such a character and then leave them.
//!
//! Invariant: a slice is a pure function of the vocabulary and of a set of atoms; grammars decide only whether
//! they may use it.

use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use rustc_hash::FxHashMap;

#[cfg(doc)]
use super::characters::LONG;
use super::characters::{begins, has_letters};
use super::tokens::TokenId;
use super::trie::Trie;
use super::vocabulary::Vocabulary;

/// Slices a vocabulary keeps; more kinds of strings than this are walked without one.
const SLICES: usize = 128;

/// Slices of fewer tokens than this are not worth their memory.
const WORTHWHILE: usize = 512;

/// The tokens of a vocabulary that consist of certain characters alone.
#[derive(Debug)]
pub(crate) struct Slice {
    /// Those tokens, a bit each.
    members: Box<[u64]>,
    /// Those tokens by falling number of code points.
    by_points: OnceLock<Vec<(u16, TokenId)>>,
    atoms: u64,
    /// Every other text token of more than [`LONG`] bytes, by falling number of bytes.
    pub(crate) long_others: Vec<(u16, TokenId)>,
    /// The tokens that start with such a character, or a part of one, and are not members.
    pub(crate) residue: Trie,
    /// For each node of `residue` the node of the vocabulary's trie.
    pub(crate) origins: Vec<u32>,
    up_to: [OnceLock<Box<[u64]>>; 32],
}

impl Slice {
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
