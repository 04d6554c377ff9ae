//! Stacks as frames, and the items that stand on them: what a configuration is made of. Above `program`.
//!
//! A *frame* is what happens when a fragment ends: a set of places to go on, each with the frame below it.
//! Fragments entered at one position share a frame, so ambiguity costs a set and not a stack each. An *item* is
//! a state and its frame.
//!
//! Invariant: a frame refers to older frames only.

use std::sync::OnceLock;

use smallvec::SmallVec;

use super::program::StateId;

/// Id of a frame.
pub(crate) type FrameId = u32;

/// Id of a configuration.
pub(crate) type ConfigId = u32;

/// The frame of the root rule: when it ends, the text is whole.
pub(crate) const BOTTOM: FrameId = 0;

/// The frame below which nothing is known; masks are shared by computing them over it.
pub(crate) const UNKNOWN: FrameId = 1;

/// The configuration after an end token: nothing follows.
pub(crate) const ENDED: ConfigId = 0;

/// A count that has reached its minimum and is so far below its maximum that no token reaches that. Counts just
/// below it are that many times short of the minimum, and as far from the maximum.
pub(crate) const FAR_OK: u64 = u64::MAX;

/// A count so far below its minimum that no token reaches it.
pub(crate) const FAR_BELOW: u64 = u64::MAX - 1_000;

/// Where to go on after a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Entry {
    /// The text is whole.
    End,
    /// It is not known how to go on.
    Exit,
    /// On at a state.
    Return { state: StateId, parent: FrameId },
    /// The body of a repetition has been matched `count` times before this time.
    Again { repetition: u32, parent: FrameId, count: u64 },
}

impl Entry {
    /// The frame below it.
    pub(super) fn parent(self) -> Option<FrameId> {
        match self {
            Self::Return { parent, .. } | Self::Again { parent, .. } => Some(parent),
            Self::End | Self::Exit => None,
        }
    }
}

/// What happens when a fragment ends.
#[derive(Debug)]
pub(crate) struct Frame {
    /// Ascending by the frame below, without duplicates.
    pub(super) entries: SmallVec<[Entry; 1]>,
    /// A frame that has the first entries and no others, and how many these are.
    pub(super) base: Option<(FrameId, usize)>,
    /// What it costs to end the text after this frame, and by which of the entries; found out once for all that stand
    /// above it.
    pub(crate) ending: OnceLock<(u64, u32)>,
}

/// A state and what is below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Item {
    pub(crate) state: StateId,
    pub(crate) frame: FrameId,
}
