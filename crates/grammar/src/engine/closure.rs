//! The closure of a configuration over everything that consumes nothing. Above `machine`; used by `steps`.
//!
//! Invariant: fragments are entered once a position, by rank, so that all callers of one are known when it is entered.

use std::collections::BinaryHeap;

use smallvec::SmallVec;

use super::expansion::{Expansion, Leaf, TokenLeaf};
use super::frames::{Entry, FAR_BELOW, FAR_OK, FrameId, Item};
use super::machine::Machine;
use super::program::State;
use super::seen::Seen;
use super::stop::Stop;

/// Edges that cost a step: each is noted and sorted.
const EDGES: usize = 8;

impl Machine {
    /// Finds out what can follow.
    pub(crate) fn compute(&self, items: &[Item]) -> Result<Expansion, Stop> {
        let mut run = Expander {
            machine: self,
            work: items.iter().map(|&item| (item, false)).collect(),
            seen: Seen::default(),
            left: Seen::default(),
            calls: BinaryHeap::new(),
            leaves: Vec::new(),
            tokens: Vec::new(),
            complete: items.is_empty(),
            exit: false,
            steps: 0,
            edges: 0,
            widest: 0,
        };
        let done = run.run();
        // A class of many ranges is no ambiguity: the edges of one are free.
        self.work.pay(run.steps + run.edges / EDGES, run.widest / EDGES)?;
        done?;
        let Expander { leaves, tokens, complete, exit, steps: cost, .. } = run;
        Ok(Expansion::new(leaves, tokens, complete, exit, cost))
    }
}

/// A fragment to be entered at this position, with where it was called from; the lowest rank is the greatest.
struct Pending {
    rank: u32,
    fragment: u32,
    caller: Caller,
}

impl PartialEq for Pending {
    fn eq(&self, other: &Self) -> bool {
        self.rank == other.rank
    }
}

impl Eq for Pending {}

impl PartialOrd for Pending {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Pending {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other.rank.cmp(&self.rank)
    }
}

#[derive(Clone, Copy)]
enum Caller {
    /// What to do afterwards.
    Then(Entry),
    /// What this frame says: nothing is left to do in between, so nothing is pushed.
    Tail(FrameId),
}

/// One run of the closure: which edges can be taken without consuming anything first.
struct Expander<'m> {
    machine: &'m Machine,
    /// Items to look at, and whether they belong to a fragment that was entered at this position: those are
    /// not left before they consumed something, since their callers have gone on already.
    work: SmallVec<[(Item, bool); 8]>,
    seen: Seen,
    left: Seen,
    calls: BinaryHeap<Pending>,
    leaves: Vec<Leaf>,
    tokens: Vec<TokenLeaf>,
    complete: bool,
    exit: bool,
    /// Items looked at, and entries of frames: what this costs.
    steps: usize,
    /// Edges beside single ones, of all states, and of the one with the most of them.
    edges: usize,
    widest: usize,
}

impl Expander<'_> {
    fn run(&mut self) -> Result<(), Stop> {
        let limit = self.machine.limits.stacks.saturating_mul(64);
        loop {
            while let Some((item, fresh)) = self.work.pop() {
                self.steps += 1;
                if self.steps > limit {
                    return Err(Stop::Stacks);
                }
                self.visit(item, fresh);
            }
            // Callers come before callees by rank, so all calls of the lowest one are known by now.
            let Some(first) = self.calls.pop() else { return Ok(()) };
            self.enter(first)?;
        }
    }

    fn visit(&mut self, item: Item, fresh: bool) {
        let program = &self.machine.program;
        let Item { state, frame } = item;
        match program.state(state) {
            State::Byte { low, high, target } => {
                self.leaves.push(Leaf { low, high, to: Item { state: target, frame } });
            }
            State::Bytes(from, to) => {
                if !self.mark(item, fresh) {
                    return;
                }
                let edges = (to - from) as usize;
                self.edges += edges;
                self.widest = self.widest.max(edges);
                self.leaves.extend(program.edges(from, to).iter().map(|edge| Leaf {
                    low: edge.low,
                    high: edge.high,
                    to: Item { state: edge.target, frame },
                }));
            }
            State::Token { id, negated, target } => {
                let to = Item { state: target, frame };
                self.tokens.push(TokenLeaf { id, negated, to });
            }
            State::Split(from, to) => {
                if self.mark(item, fresh) {
                    let targets = program.split(from, to).iter();
                    self.work.extend(targets.map(|&state| (Item { state, frame }, fresh)));
                }
            }
            State::Accept => {
                if !fresh {
                    self.leave(frame);
                }
            }
            State::Call { fragment, next } => {
                if !self.mark(item, fresh) {
                    return;
                }
                let Some(callee) = program.fragment(fragment) else { return };
                if callee.nullable() {
                    self.work.push((Item { state: next, frame }, fresh));
                }
                let caller = match program.state(next) {
                    State::Accept => Caller::Tail(frame),
                    _ => Caller::Then(Entry::Return { state: next, parent: frame }),
                };
                self.calls.push(Pending { rank: callee.rank, fragment, caller });
            }
            State::Loop(id) => {
                if !self.mark(item, fresh) {
                    return;
                }
                let Some(repetition) = program.repetition(id) else { return };
                if repetition.min == 0 {
                    self.work.push((Item { state: repetition.after, frame }, fresh));
                }
                self.again(id, frame, 0);
            }
        }
    }

    /// Everything that follows the end of a fragment.
    fn leave(&mut self, frame: FrameId) {
        let machine = self.machine;
        let mut left = std::mem::take(&mut self.left);
        machine.unseen_entries(frame, &mut left, |entries| {
            self.steps += entries.len();
            entries.iter().for_each(|&entry| self.follow(entry));
        });
        self.left = left;
    }

    fn follow(&mut self, entry: Entry) {
        match entry {
            Entry::End => self.complete = true,
            Entry::Exit => self.exit = true,
            Entry::Return { state, parent } => self.work.push((Item { state, frame: parent }, false)),
            Entry::Again { repetition: id, parent, count } => {
                let Some(repetition) = self.machine.program.repetition(id) else { return };
                let (count, may_end, may_go_on) = match count {
                    FAR_BELOW => (count, false, true),
                    FAR_OK => (count, true, true),
                    // What is short of the minimum by one has reached it after this time.
                    short if short > FAR_BELOW => (short + 1, false, true),
                    exact => {
                        let count = exact.saturating_add(1);
                        let counted =
                            if repetition.max.is_none() { count.min(repetition.min) } else { count };
                        (counted, count >= repetition.min, repetition.max.is_none_or(|max| count < max))
                    }
                };
                if may_end {
                    self.work.push((Item { state: repetition.after, frame: parent }, false));
                }
                if may_go_on {
                    self.again(id, parent, count);
                }
            }
        }
    }

    /// Enters the body of a repetition after `count` times.
    fn again(&mut self, repetition: u32, parent: FrameId, count: u64) {
        let body = self.machine.program.repetition(repetition).map(|repetition| repetition.body);
        let Some((body, fragment)) = body.and_then(|body| Some((body, self.machine.program.fragment(body)?)))
        else {
            return;
        };
        let caller = Caller::Then(Entry::Again { repetition, parent, count });
        self.calls.push(Pending { rank: fragment.rank, fragment: body, caller });
    }

    /// Enters a fragment once for all its callers at this position.
    fn enter(&mut self, first: Pending) -> Result<(), Stop> {
        let Pending { fragment, caller, .. } = first;
        let mut callers: SmallVec<[Caller; 4]> = [caller].into_iter().collect();
        while let Some(next) = self.calls.peek()
            && next.fragment == fragment
        {
            callers.push(next.caller);
            self.calls.pop();
        }
        let frame = match callers.as_slice() {
            &[Caller::Tail(frame)] => frame,
            several => {
                let mut entries: SmallVec<[Entry; 1]> = SmallVec::new();
                let mut seen = Seen::default();
                for caller in several {
                    match *caller {
                        Caller::Then(entry) => entries.push(entry),
                        Caller::Tail(frame) => {
                            self.machine.unseen_entries(frame, &mut seen, |more| {
                                entries.extend_from_slice(more);
                            });
                        }
                    }
                }
                self.steps += entries.len();
                self.machine.frame(entries)?
            }
        };
        if let Some(entered) = self.machine.program.fragment(fragment) {
            self.work.push((Item { state: entered.start, frame }, true));
        }
        Ok(())
    }

    /// Whether the item was not looked at yet.
    fn mark(&mut self, item: Item, fresh: bool) -> bool {
        // There are at most 2^26 states, so that the bit for fresh ones has room.
        self.seen.insert(u64::from(item.state) << 33 | u64::from(fresh) << 32 | u64::from(item.frame))
    }
}
