//! What automata over one vocabulary find out for each other: slices, and the masks of parts that grammars have in
//! common. Above `kept` and `slice`; used by `machine`.
//!
//! Invariant: everything here is a pure function of the vocabulary and of its key, so that it does not matter which
//! automaton found it out.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::kept::Kept;
use super::slice::{Slice, Slices};
use super::vocabulary::Vocabulary;

/// Bytes of masks that grammars share.
const SHARED: usize = 32 << 20;

/// The network and the frames that a configuration leads to, numbered in the order they are met; made by `signature`.
pub(crate) type Signature = Box<[u32]>;

/// What is kept for one vocabulary.
#[derive(Debug)]
pub(crate) struct Shared {
    /// What can follow the parts that grammars have in common: the insides of strings.
    pub(crate) texts: Kept<Signature>,
    slices: Slices,
}

impl Shared {
    fn new() -> Self {
        Self { texts: Kept::new(SHARED), slices: Slices::default() }
    }

    /// The slice of `atoms`, unless it is too small to be of use or there are too many.
    pub(crate) fn slice(&self, vocabulary: &Vocabulary, atoms: u64) -> Option<Arc<Slice>> {
        self.slices.get(vocabulary, atoms)
    }
}

/// The vocabularies that automata were made for, each with what is kept for it. An entry lasts as long as its
/// vocabulary; it goes when the next automaton is made or dropped after that.
static BY_VOCABULARY: Mutex<Vec<(Weak<Vocabulary>, Arc<Shared>)>> = Mutex::new(Vec::new());

/// A hold on what is kept for a vocabulary. Dropped last, it clears away what vocabularies that are gone have left.
#[derive(Debug)]
pub(crate) struct Lease(Arc<Shared>);

impl Lease {
    /// What is kept for this vocabulary, the same for all automata over it.
    pub(crate) fn of(vocabulary: &Arc<Vocabulary>) -> Self {
        let mut known = BY_VOCABULARY.lock().unwrap_or_else(PoisonError::into_inner);
        clear(&mut known);
        // The address is the vocabulary's own for as long as somebody holds it weakly.
        let same = |weak: &Weak<Vocabulary>| std::ptr::eq(weak.as_ptr(), Arc::as_ptr(vocabulary));
        if let Some((_, shared)) = known.iter().find(|(weak, _)| same(weak)) {
            return Self(Arc::clone(shared));
        }
        let shared = Arc::new(Shared::new());
        known.push((Arc::downgrade(vocabulary), Arc::clone(&shared)));
        Self(shared)
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        clear(&mut BY_VOCABULARY.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

fn clear(known: &mut Vec<(Weak<Vocabulary>, Arc<Shared>)>) {
    known.retain(|(vocabulary, _)| vocabulary.strong_count() > 0);
}
