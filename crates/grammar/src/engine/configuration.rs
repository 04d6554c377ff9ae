//! A set of items that are all right after something was consumed, with what was found out about it. Above `frames` and
//! `expansion`; kept by `machine`.
//!
//! Invariant: what was found out is a function of the items alone, so that it is found out once.

use std::sync::atomic::AtomicU32;
use std::sync::{Arc, OnceLock};

use smallvec::SmallVec;

use super::expansion::Expansion;
use super::frames::{ConfigId, Item};
use super::tokens::TokenSet;

/// A set of items, and all that was found out about it.
pub(crate) struct Configuration {
    /// Ascending, without duplicates.
    pub(crate) items: SmallVec<[Item; 2]>,
    pub(super) expansion: OnceLock<Expansion>,
    /// All tokens that can come next.
    pub(crate) mask: OnceLock<Arc<TokenSet>>,
    pub(crate) uniform: OnceLock<Option<Uniform>>,
    /// The characters of which any text can follow; none if that is not so for all letters of one case.
    pub(crate) stays: OnceLock<u64>,
    /// How many configurations there were when a run last stood here, or a mask was last made from it; 0 is never.
    pub(crate) used: AtomicU32,
}

/// Characters that all lead from a configuration to the same next one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Uniform {
    pub(crate) atoms: u64,
    pub(crate) next: ConfigId,
}
