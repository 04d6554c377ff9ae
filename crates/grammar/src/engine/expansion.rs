//! What can follow a configuration: its closure over everything that consumes nothing. Used by `machine`.
//!
//! Invariant: fragments are entered once a position, by rank, so that all callers of one are known when it is entered.

use std::collections::BinaryHeap;
use std::sync::atomic::AtomicU32;

use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use super::lower::State;
use super::machine::{Entry, FAR_BELOW, FAR_OK, FrameId, Item, Machine, Stop};
use super::vocabulary::TokenId;

/// An edge that can be taken from a configuration, over byte classes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaf {
    low: u8,
    high: u8,
    to: Item,
}

/// A token edge that can be taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenLeaf {
    pub(crate) id: TokenId,
    pub(crate) negated: bool,
    pub(crate) to: Item,
}

impl TokenLeaf {
    /// Whether it matches a token; `ordinary` are those a negated terminal ranges over.
    pub(crate) fn matches(&self, token: TokenId, ordinary: bool) -> bool {
        if self.negated { token != self.id && ordinary } else { token == self.id }
    }
}

/// Comparisons of edges before two sets of them count as different.
const COMPARISONS: usize = 1 << 14;

/// What can follow a configuration.
pub(crate) struct Expansion {
    /// Byte classes that can come next, a bit each.
    live: [u64; 4],
    /// Those of them on which more than one edge can be taken.
    several: [u64; 4],
    /// Live classes in the words before each word.
    before: [u16; 4],
    /// For each live class, in order, the configuration it leads to, plus one; 0 is not computed yet.
    next: Box<[AtomicU32]>,
    leaves: Box<[Leaf]>,
    pub(crate) tokens: Box<[TokenLeaf]>,
    /// Whether the text may end here.
    pub(crate) complete: bool,
    /// Whether the unknown frame was left.
    pub(crate) exit: bool,
    /// Steps that it took to find this out.
    pub(crate) cost: usize,
}

impl Expansion {
    /// Whether a byte of this class can come next.
    #[inline]
    pub(crate) fn live(&self, class: u8) -> bool {
        self.live.get(usize::from(class >> 6)).is_some_and(|word| word >> (class & 63) & 1 == 1)
    }

    #[inline]
    pub(crate) fn slot(&self, class: u8) -> Option<&AtomicU32> {
        let (word, bit) = (usize::from(class >> 6), class & 63);
        let live = *self.live.get(word)?;
        if live >> bit & 1 == 0 {
            return None;
        }
        let below = (live & ((1 << bit) - 1)).count_ones() as usize;
        self.next.get(usize::from(*self.before.get(word)?) + below)
    }

    /// Live classes, ascending.
    pub(crate) fn live_classes(&self) -> impl Iterator<Item = u8> + use<> {
        set_bits(self.live)
    }

    /// The classes on which the two may lead to different places; on all others both lead nowhere, or by a single
    /// edge to the same.
    pub(crate) fn differs(&self, other: &Self) -> [u64; 4] {
        if self.leaves.len().saturating_mul(other.leaves.len()) > COMPARISONS {
            return [u64::MAX; 4];
        }
        let mut same = [0; 4];
        for ours in &self.leaves {
            for theirs in other.leaves.iter().filter(|theirs| theirs.to == ours.to) {
                let (low, high) = (ours.low.max(theirs.low), ours.high.min(theirs.high));
                if low <= high {
                    add_range(&mut same, low, high);
                }
            }
        }
        let several = self.several.iter().zip(other.several).map(|(a, b)| a | b);
        let live = self.live.iter().zip(other.live).map(|(a, b)| a | b);
        let mut differs = [0; 4];
        for ((differs, live), (same, several)) in
            differs.iter_mut().zip(live).zip(same.into_iter().zip(several))
        {
            *differs = live & !(same & !several);
        }
        differs
    }

    /// The places that the edges on a class lead to, and all classes on which exactly these edges can be taken.
    pub(crate) fn edges_on(&self, class: u8) -> (SmallVec<[Item; 2]>, [u64; 4]) {
        let covering = |leaf: &&Leaf| leaf.low <= class && class <= leaf.high;
        let to: SmallVec<[Item; 2]> = self.leaves.iter().filter(covering).map(|leaf| leaf.to).collect();
        let mut classes = [0; 4];
        if let &[only] = to.as_slice() {
            for leaf in self.leaves.iter().filter(|leaf| leaf.to == only) {
                add_range(&mut classes, leaf.low, leaf.high);
            }
            for (classes, several) in classes.iter_mut().zip(self.several) {
                *classes &= !several;
            }
        }
        add_range(&mut classes, class, class);
        (to, classes)
    }

    /// Bytes it takes.
    pub(crate) fn size(&self) -> usize {
        size_of_val(&*self.next) + size_of_val(&*self.leaves) + size_of_val(&*self.tokens) + 64
    }

    /// Number of live classes.
    pub(crate) fn n_live(&self) -> usize {
        self.next.len()
    }

    /// Whether nothing at all can follow.
    pub(crate) fn nothing_follows(&self) -> bool {
        self.next.is_empty() && self.tokens.is_empty()
    }
}

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
        };
        let done = run.run();
        self.work.pay(run.steps)?;
        done?;
        let Expander { mut leaves, tokens, complete, exit, steps: cost, .. } = run;
        if leaves.len() > 1 {
            leaves.sort_unstable_by_key(|leaf| (leaf.low, leaf.high, leaf.to));
            leaves.dedup_by_key(|leaf| (leaf.low, leaf.high, leaf.to));
        }
        let (mut live, mut several) = ([0u64; 4], [0u64; 4]);
        for leaf in &leaves {
            let mut covered = [0; 4];
            add_range(&mut covered, leaf.low, leaf.high);
            for ((live, several), covered) in live.iter_mut().zip(&mut several).zip(covered) {
                *several |= *live & covered;
                *live |= covered;
            }
        }
        let mut before = [0u16; 4];
        let mut n = 0;
        for (before, bits) in before.iter_mut().zip(&live) {
            *before = n;
            n += bits.count_ones() as u16;
        }
        let next = (0..n).map(|_| AtomicU32::new(0)).collect();
        let (leaves, tokens) = (leaves.into_boxed_slice(), tokens.into_boxed_slice());
        Ok(Expansion { live, several, before, next, leaves, tokens, complete, exit, cost })
    }
}

/// Adds the classes `low..=high` to a set of them.
fn add_range(classes: &mut [u64; 4], low: u8, high: u8) {
    for (word, bits) in (0u16..).zip(classes) {
        // The part of low..=high that lies in this word.
        let (low, high) = (u16::from(low).max(word * 64), u16::from(high).min(word * 64 + 63));
        if low <= high {
            *bits |= (u64::MAX >> (63 - (high - low))) << (low % 64);
        }
    }
}

/// The members of a set of classes, ascending.
pub(crate) fn set_bits(classes: [u64; 4]) -> impl Iterator<Item = u8> {
    (0u8..4).zip(classes).flat_map(|(word, bits)| {
        let mut rest = bits;
        std::iter::from_fn(move || {
            let bit = (rest != 0).then(|| rest.trailing_zeros())?;
            rest &= rest - 1;
            Some(word * 64 + bit as u8)
        })
    })
}

/// A set that is small most of the time.
#[derive(Default)]
pub(crate) struct Seen {
    few: SmallVec<[u64; 16]>,
    many: FxHashSet<u64>,
}

impl Seen {
    /// Whether the value is new.
    pub(crate) fn insert(&mut self, value: u64) -> bool {
        if !self.many.is_empty() {
            return self.many.insert(value);
        }
        if self.few.contains(&value) {
            return false;
        }
        if self.few.len() == 16 {
            self.many.extend(self.few.drain(..));
            return self.many.insert(value);
        }
        self.few.push(value);
        true
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
