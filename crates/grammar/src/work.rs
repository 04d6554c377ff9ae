//! Counted work: what reading or compiling a schema takes, in steps that are the same on every machine. Beside `limits`.
//!
//! Invariant: a step stands for a bounded piece of work, such as a part looked at or a few bytes copied, so that what
//! is bounded in steps is bounded in time and memory.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::hash::RandomState;

use crate::{Error, Kind, Limits, Place};

/// Steps that every value of a document is worth, beyond [`Limits::work`], so that none is refused for its length.
pub(crate) const EACH: u64 = 64;

/// Bytes that are copied, compared or hashed in one step.
const BYTES: usize = 32;

/// A map by what someone else wrote. Its hashes are keyed anew for each, so that nobody can write what all meets in one
/// place.
pub(crate) type ForeignMap<K, V> = HashMap<K, V, RandomState>;

/// A set of what someone else wrote.
pub(crate) type ForeignSet<K> = HashSet<K, RandomState>;

/// Steps taken and the bound on them. Counting never fails: who goes on for long asks whether it is over, and what
/// was left undone by then is thrown away.
#[derive(Debug)]
pub(crate) struct Work {
    taken: Cell<u64>,
    most: u64,
}

impl Work {
    /// Nothing done yet of what a document of this size may take.
    pub(crate) fn new(limits: &Limits, size: u64) -> Self {
        let most = (limits.work as u64).saturating_add(size.saturating_mul(EACH));
        Self { taken: Cell::new(0), most }
    }

    /// For what bounds itself.
    pub(crate) fn unbounded() -> Self {
        Self { taken: Cell::new(0), most: u64::MAX }
    }

    /// Counts steps; false once they are more than there may be.
    pub(crate) fn spend(&self, steps: u64) -> bool {
        let taken = self.taken.get().saturating_add(steps);
        self.taken.set(taken);
        taken <= self.most
    }

    /// Whether there were more steps than there may be.
    pub(crate) fn is_over(&self) -> bool {
        self.taken.get() > self.most
    }

    /// Steps that may still be taken.
    pub(crate) fn left(&self) -> u64 {
        self.most.saturating_sub(self.taken.get())
    }

    pub(crate) fn taken(&self) -> u64 {
        self.taken.get()
    }

    /// An error at `pointer` if it is over.
    pub(crate) fn check(&self, pointer: &str) -> Result<(), Error> {
        if !self.is_over() {
            return Ok(());
        }
        let message = format!("the schema takes more than {} steps", self.most);
        Err(Error::new(Kind::Limit, message)
            .at(Place::Pointer(pointer.to_owned()))
            .hint("simplify or split the schema, or raise Limits::work"))
    }
}

/// The steps it takes to copy, compare or hash so many bytes.
pub(crate) fn bytes(length: usize) -> u64 {
    (length / BYTES) as u64 + 1
}

/// The steps it takes to look at so many items that each cost little more than a comparison.
pub(crate) fn items(count: usize) -> u64 {
    (count / 4) as u64 + 1
}
