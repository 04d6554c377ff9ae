//! A lowered grammar: a recursive transition network over byte classes. Above `classes` and `tokens`; made by `lower`.
//!
//! Invariant: every state can reach the end of its fragment, so an edge that can be taken never leads into a dead end.

use super::classes::ByteClasses;
use super::tokens::TokenId;

/// Index of a state.
pub(crate) type StateId = u32;

/// One state of the network.
#[derive(Clone, Copy, Debug)]
pub(crate) enum State {
    /// The end of its fragment.
    Accept,
    /// Goes on at any of `Program::targets[.0 .. .1]`, consuming nothing.
    Split(u32, u32),
    /// Consumes a byte of the classes `low..=high`.
    Byte { low: u8, high: u8, target: StateId },
    /// Consumes a byte by one of `Program::edges[.0 .. .1]`.
    Bytes(u32, u32),
    /// Matches a fragment, then goes on at `next`.
    Call { fragment: u32, next: StateId },
    /// Matches a counted repetition.
    Loop(u32),
    /// Consumes one token: this one, or any but this.
    Token { id: TokenId, negated: bool, target: StateId },
}

/// An edge over byte classes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge {
    pub(crate) low: u8,
    pub(crate) high: u8,
    pub(crate) target: StateId,
}

/// The network of one rule, or of the body of one counted repetition.
#[derive(Clone, Debug)]
pub(crate) struct Fragment {
    pub(crate) start: StateId,
    pub(crate) accept: StateId,
    /// The cost of its shortest text.
    pub(crate) cost: u64,
    /// Position in an order in which every fragment comes before those it may call first.
    pub(crate) rank: u32,
    /// Rule it was written in.
    pub(super) rule: u32,
}

impl Fragment {
    /// Whether it matches the empty text. Callers then also go on at once, and the fragment itself is only
    /// left after it has consumed something.
    pub(crate) fn nullable(&self) -> bool {
        self.cost == 0
    }
}

/// A repetition whose count is kept on the stack.
#[derive(Clone, Debug)]
pub(crate) struct Repetition {
    pub(crate) body: u32,
    /// Least number of times the body must consume something.
    pub(crate) min: u64,
    /// Greatest number of times, if there is one; at least 1.
    pub(crate) max: Option<u64>,
    pub(crate) after: StateId,
}

/// A lowered grammar.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) states: Vec<State>,
    pub(crate) targets: Vec<StateId>,
    pub(crate) edges: Vec<Edge>,
    pub(crate) fragments: Vec<Fragment>,
    pub(crate) repetitions: Vec<Repetition>,
    pub(crate) classes: ByteClasses,
    /// Fragment of the root rule.
    pub(crate) root: u32,
    /// Steps that lowering took.
    pub(crate) work: u64,
}

impl Program {
    pub(crate) fn state(&self, id: StateId) -> State {
        self.states.get(id as usize).copied().unwrap_or(State::Accept)
    }

    pub(crate) fn split(&self, from: u32, to: u32) -> &[StateId] {
        self.targets.get(from as usize..to as usize).unwrap_or_default()
    }

    pub(crate) fn edges(&self, from: u32, to: u32) -> &[Edge] {
        self.edges.get(from as usize..to as usize).unwrap_or_default()
    }

    pub(crate) fn fragment(&self, id: u32) -> Option<&Fragment> {
        self.fragments.get(id as usize)
    }

    pub(crate) fn repetition(&self, id: u32) -> Option<&Repetition> {
        self.repetitions.get(id as usize)
    }

    pub(super) fn nullable(&self, fragment: u32) -> bool {
        self.fragment(fragment).is_some_and(Fragment::nullable)
    }
}
