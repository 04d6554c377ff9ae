//! Patterns as non-deterministic automata over code points: matched here, determinized by the compiler.
//!
//! Invariant: states number at most the limit given; conditions on positions stay edges, resolved when the
//! neighbours are known.

use super::node::{ANY, Look, Node, Ranges, WORD};

/// States looked at in one step.
const STATES: usize = 8;
/// What reading a character takes beside them, in steps.
const CHARACTER: usize = 2;

/// Index of a state.
pub(crate) type StateId = u32;

/// One state: what leads on from it.
#[derive(Clone, Debug)]
pub(crate) enum State {
    /// One code point of the ranges, then the next state.
    Class(Ranges, StateId),
    /// Any of these, without reading.
    Split(Vec<StateId>),
    /// The next state if the condition holds.
    Look(Look, StateId),
    /// The text matches.
    Match,
}

/// An automaton for whole texts.
#[derive(Clone, Debug)]
pub(crate) struct Nfa {
    pub(crate) states: Vec<State>,
    pub(crate) start: StateId,
    /// The state that accepts whatever follows, if there is one.
    pub(crate) universal: Option<StateId>,
}

/// What stands before or after a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Side {
    /// The edge of the text.
    Edge,
    /// A code point of `\w`.
    Word,
    /// Another code point.
    Other,
}

impl Side {
    pub(crate) fn of(code: u32) -> Self {
        if WORD.iter().any(|(low, high)| (*low..=*high).contains(&code)) { Self::Word } else { Self::Other }
    }
}

impl Look {
    fn holds(self, before: Side, after: Side) -> bool {
        match self {
            Self::Start => before == Side::Edge,
            Self::End => after == Side::Edge,
            Self::WordEdge => (before == Side::Word) != (after == Side::Word),
            Self::NotWordEdge => (before == Side::Word) == (after == Side::Word),
        }
    }
}

impl Nfa {
    /// The texts in which an expression is found anywhere; none if that takes more than `limit` states.
    pub(crate) fn search(expression: &Node, limit: usize) -> Option<Self> {
        let mut builder = Builder { states: Vec::new(), limit };
        let end = builder.push(State::Match)?;
        let after = builder.push(State::Split(Vec::new()))?;
        let any_after = builder.push(State::Class(ANY.into(), after))?;
        builder.set(after, State::Split(vec![end, any_after]));
        let found = builder.node(expression, after)?;
        let start = builder.push(State::Split(Vec::new()))?;
        let any_before = builder.push(State::Class(ANY.into(), start))?;
        builder.set(start, State::Split(vec![found, any_before]));
        Some(Self { states: builder.states, start, universal: Some(after) })
    }

    /// Whether conditions look at word edges, so that neighbours have to be told apart.
    pub(crate) fn looks_at_words(&self) -> bool {
        self.states.iter().any(|state| matches!(state, State::Look(Look::WordEdge | Look::NotWordEdge, _)))
    }

    /// The reading and matching states reachable without reading, sorted; the states looked at are added to `steps`.
    pub(crate) fn closure(
        &self,
        from: &[StateId],
        (before, after): (Side, Side),
        marks: &mut Marks,
        steps: &mut usize,
    ) -> Vec<StateId> {
        marks.clear(self.states.len());
        let mut stack: Vec<StateId> = from.to_vec();
        let mut out = Vec::new();
        while let Some(id) = stack.pop() {
            *steps += 1;
            if !marks.insert(id) {
                continue;
            }
            match self.states.get(id as usize) {
                Some(State::Split(next)) => stack.extend(next),
                Some(State::Look(look, next)) if look.holds(before, after) => stack.push(*next),
                Some(State::Class(..) | State::Match) => out.push(id),
                _ => {}
            }
        }
        out.sort_unstable();
        out
    }

    /// Whether the whole text is in the language, and the steps it took to find that out; none if that takes more than
    /// `most`.
    pub(crate) fn is_match(&self, text: &str, most: u64) -> (Option<bool>, u64) {
        let mut marks = Marks::default();
        let mut kernel = vec![self.start];
        let mut before = Side::Edge;
        let (mut looked, mut read) = (0, 1 + self.states.len() / STATES);
        for c in text.chars() {
            read += CHARACTER;
            let steps = (read + looked / STATES) as u64;
            if steps > most {
                return (None, steps);
            }
            let code = c as u32;
            let mut next: Vec<StateId> = self
                .closure(&kernel, (before, Side::of(code)), &mut marks, &mut looked)
                .into_iter()
                .filter_map(|id| match self.states.get(id as usize) {
                    Some(State::Class(ranges, to)) if contains(ranges, code) => Some(*to),
                    _ => None,
                })
                .collect();
            next.sort_unstable();
            next.dedup();
            if next.is_empty() {
                return (Some(false), steps);
            }
            kernel = next;
            before = Side::of(code);
        }
        let accepts = self.accepts(&kernel, before, &mut marks, &mut looked);
        (Some(accepts), (read + looked / STATES) as u64)
    }

    /// Whether a text that has led to `kernel` may end.
    pub(crate) fn accepts(
        &self,
        kernel: &[StateId],
        before: Side,
        marks: &mut Marks,
        steps: &mut usize,
    ) -> bool {
        let closure = self.closure(kernel, (before, Side::Edge), marks, steps);
        closure.iter().any(|id| matches!(self.states.get(*id as usize), Some(State::Match)))
    }
}

/// Which states were met, cleared without going through them all.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    /// For each state in which round it was last met.
    rounds: Vec<u32>,
    round: u32,
}

impl Marks {
    fn clear(&mut self, states: usize) {
        self.rounds.resize(states, 0);
        self.round = self.round.wrapping_add(1);
        if self.round == 0 {
            self.rounds.fill(0);
            self.round = 1;
        }
    }

    /// Whether a state is new in this round.
    fn insert(&mut self, state: StateId) -> bool {
        match self.rounds.get_mut(state as usize) {
            Some(round) if *round != self.round => {
                *round = self.round;
                true
            }
            _ => false,
        }
    }
}

fn contains(ranges: &[(u32, u32)], code: u32) -> bool {
    let after = ranges.partition_point(|(low, _)| *low <= code);
    after.checked_sub(1).and_then(|i| ranges.get(i)).is_some_and(|(_, high)| code <= *high)
}

struct Builder {
    states: Vec<State>,
    limit: usize,
}

impl Builder {
    fn push(&mut self, state: State) -> Option<StateId> {
        if self.states.len() >= self.limit {
            return None;
        }
        let id = StateId::try_from(self.states.len()).ok()?;
        self.states.push(state);
        Some(id)
    }

    fn set(&mut self, id: StateId, state: State) {
        if let Some(slot) = self.states.get_mut(id as usize) {
            *slot = state;
        }
    }

    /// The entry of a fragment for `node` that leads on to `next`.
    fn node(&mut self, node: &Node, next: StateId) -> Option<StateId> {
        match node {
            Node::Class(ranges) => self.push(State::Class(Ranges::clone(ranges), next)),
            Node::Look(look) => self.push(State::Look(*look, next)),
            Node::Sequence(items) => items.iter().rev().try_fold(next, |next, item| self.node(item, next)),
            Node::Choice(branches) => {
                let mut entries = Vec::with_capacity(branches.len());
                for branch in branches {
                    entries.push(self.node(branch, next)?);
                }
                self.push(State::Split(entries))
            }
            Node::Repeat { item, min, max } => {
                let mut entry = match max {
                    None => {
                        let again = self.push(State::Split(Vec::new()))?;
                        let body = self.node(item, again)?;
                        self.set(again, State::Split(vec![body, next]));
                        again
                    }
                    Some(max) => {
                        let mut entry = next;
                        for _ in *min..*max {
                            let body = self.node(item, entry)?;
                            entry = self.push(State::Split(vec![body, next]))?;
                        }
                        entry
                    }
                };
                for _ in 0..*min {
                    entry = self.node(item, entry)?;
                }
                Some(entry)
            }
        }
    }
}
