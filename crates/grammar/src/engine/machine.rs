//! The pushdown automaton over byte classes, determinized as it is used: stacks and sets of stacks are
//! hash-consed, and every transition is computed once. Above `lower` and `arena`; below `mask` and `matcher`.
//!
//! A *frame* is what happens when a fragment ends: a set of places to go on, each with the frame below it.
//! Fragments entered at one position share a frame, so ambiguity costs a set and not a stack each. An *item* is
//! a state and its frame; a *configuration* is a set of items, all of them right after something was consumed.
//!
//! Invariant: every item of every configuration can be completed, so a configuration with an edge on a byte
//! allows that byte.

use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use super::arena::{Full, Interner};
use super::lower::{Program, State, StateId};
use super::mask::Masks;
use super::uniform::Uniform;
use super::vocabulary::{TokenId, Vocabulary};
use crate::{Error, Kind, Limits};

/// Why a computation could not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The tables of this machine are full; a fresh one can go on.
    Full,
    /// More alternatives at once than [`Limits::stacks`].
    Stacks,
}

impl From<Full> for Stop {
    fn from(_: Full) -> Self {
        Self::Full
    }
}

impl Stop {
    pub(crate) fn error(self, limits: &Limits) -> Error {
        let message = match self {
            Self::Full => format!("one step needs more than {} configurations", limits.configurations),
            Self::Stacks => format!("the grammar is ambiguous here in more than {} ways", limits.stacks),
        };
        let field = if self == Self::Full { "configurations" } else { "stacks" };
        Error::new(Kind::Limit, message).hint(format!("simplify the grammar or raise Limits::{field}"))
    }
}

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

/// What happens when a fragment ends.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) entries: SmallVec<[Entry; 1]>,
}

/// A state and what is below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Item {
    pub(crate) state: StateId,
    pub(crate) frame: FrameId,
}

/// A set of items, and all that was found out about it.
pub(crate) struct Configuration {
    /// Ascending, without duplicates.
    pub(crate) items: SmallVec<[Item; 2]>,
    expansion: OnceLock<Expansion>,
    pub(crate) uniform: OnceLock<Option<Uniform>>,
    /// The characters of which any text can follow; none if that is not so for all letters of one case.
    pub(crate) stays: OnceLock<u64>,
}

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
    /// Whether the frame [`UNKNOWN`] was left.
    pub(crate) exit: bool,
}

impl Expansion {
    /// Whether a byte of this class can come next.
    #[inline]
    pub(crate) fn live(&self, class: u8) -> bool {
        self.live.get(usize::from(class >> 6)).is_some_and(|word| word >> (class & 63) & 1 == 1)
    }

    #[inline]
    fn slot(&self, class: u8) -> Option<&AtomicU32> {
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
    fn edges_on(&self, class: u8) -> (SmallVec<[Item; 2]>, [u64; 4]) {
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

    /// Number of live classes.
    pub(crate) fn n_live(&self) -> usize {
        self.next.len()
    }

    /// Whether nothing at all can follow.
    pub(crate) fn nothing_follows(&self) -> bool {
        self.next.is_empty() && self.tokens.is_empty()
    }
}

/// The tables of an automaton; bounded, and replaced by a fresh machine when they are full.
pub(crate) struct Machine {
    pub(crate) program: Arc<Program>,
    pub(crate) vocabulary: Arc<Vocabulary>,
    pub(crate) limits: Limits,
    frames: Interner<Frame>,
    configurations: Interner<Configuration>,
    pub(crate) masks: Masks,
    /// Where every run starts.
    pub(crate) start: ConfigId,
}

impl Machine {
    pub(crate) fn new(
        program: Arc<Program>,
        vocabulary: Arc<Vocabulary>,
        limits: Limits,
    ) -> Result<Self, Stop> {
        let mut machine = Self {
            program,
            vocabulary,
            frames: Interner::new(limits.configurations.saturating_mul(4)),
            configurations: Interner::new(limits.configurations),
            masks: Masks::new(limits.mask_bytes),
            limits,
            start: ENDED,
        };
        machine.frame([Entry::End].into())?;
        machine.frame([Entry::Exit].into())?;
        machine.configuration(SmallVec::new())?;
        let state = machine.program.fragment(machine.program.root).map_or(0, |root| root.start);
        machine.start = machine.configuration([Item { state, frame: BOTTOM }].into_iter().collect())?;
        Ok(machine)
    }

    /// The configuration of an id.
    #[inline]
    pub(crate) fn get(&self, id: ConfigId) -> Result<&Configuration, Stop> {
        self.configurations.get(id).ok_or(Stop::Full)
    }

    /// The entries of a frame.
    pub(crate) fn entries(&self, id: FrameId) -> &[Entry] {
        self.frames.get(id).map_or(&[], |frame| &frame.entries)
    }

    /// The frame with these entries.
    pub(crate) fn frame(&self, mut entries: SmallVec<[Entry; 1]>) -> Result<FrameId, Stop> {
        entries.sort_unstable();
        entries.dedup();
        self.drop_dominated(&mut entries);
        if entries.len() > self.limits.stacks {
            return Err(Stop::Stacks);
        }
        let key = entries.clone();
        Ok(self.frames.intern(key.as_slice(), |known| known.entries == key, || Frame { entries })?)
    }

    /// Of the counts of one repetition that have reached the minimum, the lowest allows all that the others do.
    fn drop_dominated(&self, entries: &mut SmallVec<[Entry; 1]>) {
        if entries.len() < 2 {
            return;
        }
        let mut kept = None;
        entries.retain(|entry| match *entry {
            Entry::Again { repetition, parent, count } => {
                let min = self.program.repetition(repetition).map_or(0, |r| r.min);
                if count >= FAR_BELOW || count.saturating_add(1) < min {
                    return true;
                }
                let first = kept != Some((repetition, parent));
                kept = Some((repetition, parent));
                first
            }
            _ => true,
        });
    }

    /// The configuration with these items.
    pub(crate) fn configuration(&self, mut items: SmallVec<[Item; 2]>) -> Result<ConfigId, Stop> {
        if items.len() > 1 {
            items.sort_unstable();
            items.dedup();
            if items.len() > self.limits.stacks {
                return Err(Stop::Stacks);
            }
        }
        let key = items.clone();
        let make = || Configuration {
            items,
            expansion: OnceLock::new(),
            uniform: OnceLock::new(),
            stays: OnceLock::new(),
        };
        Ok(self.configurations.intern(key.as_slice(), |known| known.items == key, make)?)
    }

    /// What can follow a configuration.
    #[inline]
    pub(crate) fn expand(&self, id: ConfigId) -> Result<&Expansion, Stop> {
        let configuration = self.get(id)?;
        match configuration.expansion.get() {
            Some(known) => Ok(known),
            None => {
                let expansion = self.compute(&configuration.items)?;
                Ok(configuration.expansion.get_or_init(|| expansion))
            }
        }
    }

    /// The configuration after a byte of `class`; `None` if it cannot come next.
    #[inline]
    pub(crate) fn step(&self, expansion: &Expansion, class: u8) -> Result<Option<ConfigId>, Stop> {
        let Some(slot) = expansion.slot(class) else { return Ok(None) };
        match slot.load(Ordering::Acquire) {
            0 => {
                let (to, classes) = expansion.edges_on(class);
                let mut items = SmallVec::new();
                for item in to {
                    self.push_item(item, &mut items)?;
                }
                let next = self.configuration(items)?;
                for class in set_bits(classes) {
                    if let Some(slot) = expansion.slot(class) {
                        slot.store(next + 1, Ordering::Release);
                    }
                }
                Ok(Some(next))
            }
            known => Ok(Some(known - 1)),
        }
    }

    /// Adds an item, or what it comes to without anything being consumed, so that configurations are equal however
    /// they were reached: where a fragment ends that only returns, the items it returns to; where a counted
    /// repetition begins, its body, so that the count can be seen on the stack.
    fn push_item(&self, item: Item, items: &mut SmallVec<[Item; 2]>) -> Result<(), Stop> {
        let Item { state, frame } = item;
        match self.program.state(state) {
            State::Accept => {
                let entries = self.entries(frame);
                if !entries.iter().all(|entry| matches!(entry, Entry::Return { .. })) {
                    items.push(item);
                    return Ok(());
                }
                for entry in entries {
                    if let Entry::Return { state, parent } = *entry {
                        // No fragment returns to an end: its last call is replaced by the fragment called.
                        self.push_begun(Item { state, frame: parent }, items)?;
                    }
                }
                Ok(())
            }
            _ => self.push_begun(item, items),
        }
    }

    fn push_begun(&self, item: Item, items: &mut SmallVec<[Item; 2]>) -> Result<(), Stop> {
        let Item { state, frame } = item;
        if let State::Loop(id) = self.program.state(state)
            && let Some(repetition) = self.program.repetition(id)
            && let Some(body) = self.program.fragment(repetition.body)
            && !body.nullable()
        {
            let entry = Entry::Again { repetition: id, parent: frame, count: 0 };
            items.push(Item { state: body.start, frame: self.frame([entry].into_iter().collect())? });
            if repetition.min > 0 {
                return Ok(());
            }
            items.push(Item { state: repetition.after, frame });
            return Ok(());
        }
        items.push(item);
        Ok(())
    }

    /// The configuration after a byte; `None` if it cannot come next.
    pub(crate) fn byte(&self, id: ConfigId, byte: u8) -> Result<Option<ConfigId>, Stop> {
        self.step(self.expand(id)?, self.program.classes.of(byte))
    }

    /// The configuration after all these bytes, or how many of them could come.
    pub(crate) fn bytes(&self, mut id: ConfigId, bytes: &[u8]) -> Result<Result<ConfigId, usize>, Stop> {
        for (offset, &byte) in bytes.iter().enumerate() {
            match self.byte(id, byte)? {
                Some(next) => id = next,
                None => return Ok(Err(offset)),
            }
        }
        Ok(Ok(id))
    }

    /// Whether all these bytes can come, without a configuration for the last.
    pub(crate) fn allows(&self, id: ConfigId, bytes: &[u8]) -> Result<bool, Stop> {
        let Some((&last, before)) = bytes.split_last() else { return Ok(false) };
        match self.bytes(id, before)? {
            Ok(id) => Ok(self.expand(id)?.live(self.program.classes.of(last))),
            Err(_) => Ok(false),
        }
    }

    fn compute(&self, items: &[Item]) -> Result<Expansion, Stop> {
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
        };
        run.run()?;
        let Expander { mut leaves, tokens, complete, exit, .. } = run;
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
        Ok(Expansion { live, several, before, next, leaves, tokens, complete, exit })
    }

    /// Whether the text may end at this configuration; needs no room in the tables.
    pub(crate) fn complete(&self, id: ConfigId) -> bool {
        let Some(configuration) = self.configurations.get(id) else { return false };
        if let Some(expansion) = configuration.expansion.get() {
            return expansion.complete;
        }
        if configuration.items.is_empty() {
            return true;
        }
        let mut work: Vec<Item> = configuration.items.to_vec();
        let mut seen: FxHashSet<Item> = FxHashSet::default();
        while let Some(item) = work.pop() {
            if !seen.insert(item) {
                continue;
            }
            let frame = item.frame;
            match self.program.state(item.state) {
                State::Accept => {
                    for entry in self.entries(frame) {
                        match *entry {
                            Entry::End => return true,
                            Entry::Exit => {}
                            Entry::Return { state, parent } => work.push(Item { state, frame: parent }),
                            Entry::Again { repetition, parent, count } => {
                                if let Some(repetition) = self.program.repetition(repetition)
                                    && count.saturating_add(1) >= repetition.min
                                {
                                    work.push(Item { state: repetition.after, frame: parent });
                                }
                            }
                        }
                    }
                }
                State::Split(from, to) => {
                    work.extend(self.program.split(from, to).iter().map(|&state| Item { state, frame }));
                }
                State::Call { fragment, next } => {
                    if self.program.fragment(fragment).is_some_and(|f| f.nullable()) {
                        work.push(Item { state: next, frame });
                    }
                }
                State::Loop(id) => {
                    if let Some(repetition) = self.program.repetition(id)
                        && repetition.min == 0
                    {
                        work.push(Item { state: repetition.after, frame });
                    }
                }
                State::Byte { .. } | State::Bytes(..) | State::Token { .. } => {}
            }
        }
        false
    }

    /// Configurations and frames in use.
    pub(crate) fn used(&self) -> (usize, usize) {
        (self.configurations.len(), self.frames.len())
    }
}

impl std::fmt::Debug for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (configurations, frames) = self.used();
        write!(f, "Machine({configurations} configurations, {frames} frames)")
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
fn set_bits(classes: [u64; 4]) -> impl Iterator<Item = u8> {
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
struct Seen {
    few: SmallVec<[u64; 16]>,
    many: FxHashSet<u64>,
}

impl Seen {
    /// Whether the value is new.
    fn insert(&mut self, value: u64) -> bool {
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
}

impl Expander<'_> {
    fn run(&mut self) -> Result<(), Stop> {
        let limit = self.machine.limits.stacks.saturating_mul(64);
        let mut steps = 0usize;
        loop {
            while let Some((item, fresh)) = self.work.pop() {
                steps += 1;
                if steps > limit {
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
        if !self.left.insert(u64::from(frame)) {
            return;
        }
        let machine = self.machine;
        for &entry in machine.entries(frame) {
            match entry {
                Entry::End => self.complete = true,
                Entry::Exit => self.exit = true,
                Entry::Return { state, parent } => self.work.push((Item { state, frame: parent }, false)),
                Entry::Again { repetition: id, parent, count } => {
                    let Some(repetition) = machine.program.repetition(id) else { continue };
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
                for caller in several {
                    match *caller {
                        Caller::Then(entry) => entries.push(entry),
                        Caller::Tail(frame) => entries.extend_from_slice(self.machine.entries(frame)),
                    }
                }
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
