//! The ways a mask is put together, and how often each was gone. Low in the engine; counted by `mask`, told by
//! `automaton`.
//!
//! Invariant: the text tokens of a configuration that were not known already count once, by the way that found them.

use std::sync::atomic::{AtomicU64, Ordering};

/// A way to find out which text tokens can follow. `mask` takes the first that applies, from below: a walk is what is
/// left where no other way is.
///
/// ```
/// use std::sync::Arc;
/// use toolgate_grammar::{Automaton, Grammar, Limits, Vocabulary, engine::Way};
/// let grammar = Grammar::parse("root ::= [0-9]+")?;
/// let automaton = Automaton::new(&grammar, Arc::new(Vocabulary::bytes_only()), &Limits::default())?;
/// automaton.matcher().mask()?;
/// assert_eq!(automaton.usage().ways.of(Way::Walk), 1, "ten bytes are few: one short walk");
/// assert_eq!(automaton.usage().ways.of(Way::Slice), 0);
/// assert_eq!(Way::ALL.map(Way::as_str), ["walk", "slice", "shared", "corrected", "difference"]);
/// # Ok::<(), toolgate_grammar::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Way {
    /// One walk over all that is allowed. Applies where few bytes can come next, and where no other way does.
    Walk,
    /// The tokens that stay inside a run of characters come from the vocabulary as a slice; walks find those that leave
    /// it. Applies where any letter can come, and all of them lead to the same place for as long as a token lasts.
    Slice,
    /// What follows the same configuration over an unknown continuation, with the actual continuation put in its place.
    /// Applies where all stacks come together a few frames down; it serves other stacks, and other grammars.
    Shared,
    /// As `Shared`, and then every long token is decided again. Applies where a count is so far from its bounds that it
    /// was left out, but not so far that no token reaches them.
    Corrected,
    /// The mask of the run of characters that letters soon lead to, changed where the two differ. Applies where a text
    /// is not yet apart from names that it must not be.
    Difference,
}

impl Way {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Walk, Self::Slice, Self::Shared, Self::Corrected, Self::Difference];

    /// A word for it, as programs write it: `walk`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Walk => "walk",
            Self::Slice => "slice",
            Self::Shared => "shared",
            Self::Corrected => "corrected",
            Self::Difference => "difference",
        }
    }

    fn index(self) -> usize {
        self as usize
    }
}

/// How often each way was gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ways([u64; Way::ALL.len()]);

impl Ways {
    /// How often one was gone.
    pub fn of(&self, way: Way) -> u64 {
        self.0.get(way.index()).copied().unwrap_or_default()
    }
}

/// Counts them, on many threads.
#[derive(Debug, Default)]
pub(crate) struct Counter([AtomicU64; Way::ALL.len()]);

impl Counter {
    pub(crate) fn count(&self, way: Way) {
        if let Some(times) = self.0.get(way.index()) {
            times.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn counted(&self) -> Ways {
        Ways(std::array::from_fn(|way| self.0.get(way).map_or(0, |times| times.load(Ordering::Relaxed))))
    }

    /// Goes on from what was counted elsewhere.
    pub(crate) fn take_over(&self, other: &Self) {
        for (times, before) in self.0.iter().zip(other.counted().0) {
            times.store(before, Ordering::Relaxed);
        }
    }
}
