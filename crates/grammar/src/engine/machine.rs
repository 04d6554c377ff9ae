//! The pushdown automaton over byte classes, determinized as it is used: stacks and sets of stacks are
//! hash-consed, and every transition is computed once. Above `lower` and `arena`; below `mask` and `matcher`.
//!
//! A *frame* is what happens when a fragment ends: a set of places to go on, each with the frame below it.
//! Fragments entered at one position share a frame, so ambiguity costs a set and not a stack each. An *item* is
//! a state and its frame; a *configuration* is a set of items, all of them right after something was consumed.
//!
//! Invariant: every item of every configuration can be completed, so a configuration with an edge on a byte
//! allows that byte.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use super::arena::{Full, Interner};
use super::closure::Seen;
use super::expansion::{Expansion, set_bits};
use super::lower::{Program, State, StateId};
use super::mask::Masks;
use super::meter::{Budget, Meter};
use super::uniform::Uniform;
use super::vocabulary::{TokenSet, Vocabulary};
use crate::{Error, Kind, Limits};

/// Why a computation could not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The tables of this machine are full; a fresh one can go on.
    Full,
    /// More alternatives at once than [`Limits::stacks`].
    Stacks,
    /// More work on finding out what can follow than [`Limits::work`].
    Work,
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
            Self::Work => {
                format!("the grammar is so ambiguous that this text takes more than {} steps", limits.work)
            }
        };
        let field = match self {
            Self::Full => "configurations",
            Self::Stacks => "stacks",
            Self::Work => "work",
        };
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

impl Entry {
    /// The frame below it.
    fn parent(self) -> Option<FrameId> {
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
    entries: SmallVec<[Entry; 1]>,
    /// A frame that has the first entries and no others, and how many these are.
    base: Option<(FrameId, usize)>,
    /// What it costs to end the text after this frame, and by which of the entries; found out once for all that stand
    /// above it.
    pub(crate) ending: OnceLock<(u64, u32)>,
}

/// Fewer entries are looked at as soon as skipped.
const FEW_ENTRIES: usize = 4;

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
    /// All tokens that can come next.
    pub(crate) mask: OnceLock<Arc<TokenSet>>,
    pub(crate) uniform: OnceLock<Option<Uniform>>,
    /// The characters of which any text can follow; none if that is not so for all letters of one case.
    pub(crate) stays: OnceLock<u64>,
    /// How many configurations there were when a run last stood here, or a mask was last made from it; 0 is never.
    pub(crate) used: AtomicU32,
}

/// Bytes that a configuration, and a frame, take beside what they list.
const CONFIGURATION: usize = size_of::<Configuration>() + 64;
const FRAME: usize = size_of::<Frame>() + 64;

/// Bytes of memory for each configuration there may be, and at least in all.
const EACH: usize = 1 << 10;
const LEAST: usize = 1 << 20;

/// The tables of an automaton; bounded, and replaced by a fresh machine when they are full.
pub(crate) struct Machine {
    pub(crate) program: Arc<Program>,
    pub(crate) vocabulary: Arc<Vocabulary>,
    pub(crate) limits: Limits,
    frames: Interner<Frame>,
    configurations: Interner<Configuration>,
    /// Bytes of frames and configurations with what was found out about them, masks excepted.
    pub(crate) memory: Meter,
    /// Bytes of the masks that configurations hold.
    pub(crate) held: Meter,
    /// The masks that others are made of.
    pub(crate) masks: Masks,
    /// Steps of the closure.
    pub(crate) work: Budget,
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
            memory: Meter::new(limits.configurations.saturating_mul(EACH).max(LEAST)),
            held: Meter::new(limits.mask_bytes / 2),
            masks: Masks::new(limits.mask_bytes / 2),
            work: Budget::new(limits.work),
            limits,
            start: ENDED,
        };
        machine.frame([Entry::End].into())?;
        machine.frame([Entry::Exit].into())?;
        machine.configuration(SmallVec::new())?;
        let state = machine.program.fragment(machine.program.root).map_or(0, |root| root.start);
        machine.start = machine.configuration([Item { state, frame: BOTTOM }].into_iter().collect())?;
        machine.touch(machine.get(machine.start)?);
        Ok(machine)
    }

    /// The configuration of an id.
    #[inline]
    pub(crate) fn get(&self, id: ConfigId) -> Result<&Configuration, Stop> {
        self.configurations.get(id).ok_or(Stop::Full)
    }

    /// What was found out about the end of the text after a frame.
    pub(crate) fn ending(&self, id: FrameId) -> Option<&OnceLock<(u64, u32)>> {
        self.frames.get(id).map(|frame| &frame.ending)
    }

    /// The entries of a frame.
    pub(crate) fn entries(&self, id: FrameId) -> &[Entry] {
        self.frames.get(id).map_or(&[], |frame| &frame.entries)
    }

    /// The frame with these entries.
    pub(crate) fn frame(&self, mut entries: SmallVec<[Entry; 1]>) -> Result<FrameId, Stop> {
        if entries.len() > 1 {
            entries.sort_unstable_by_key(|entry| (entry.parent(), *entry));
            entries.dedup();
            self.drop_dominated(&mut entries);
            if entries.len() > self.limits.stacks {
                return Err(Stop::Stacks);
            }
        }
        let key = entries.clone();
        let base = self.base(&entries);
        let make = || {
            self.memory.take(FRAME + size_of_val(entries.as_slice()))?;
            Ok(Frame { entries, base, ending: OnceLock::new() })
        };
        Ok(self.frames.intern(key.as_slice(), |known| known.entries == key, make)?)
    }

    /// The frame of all entries but those over the newest frame, with their number. What is ambiguous adds to the
    /// same entries again and again; by this they are looked at once.
    fn base(&self, entries: &[Entry]) -> Option<(FrameId, usize)> {
        if entries.len() <= FEW_ENTRIES {
            return None;
        }
        let newest = entries.last()?.parent();
        let before = entries.partition_point(|entry| entry.parent() < newest);
        if before <= FEW_ENTRIES {
            return None;
        }
        let first = entries.get(..before)?;
        let known = self.frames.find(first, |known: &Frame| known.entries.as_slice() == first)?;
        Some((known, before))
    }

    /// Calls `each` with the entries of a frame, in parts, but for those of frames that are in `seen` already.
    pub(crate) fn unseen_entries(&self, frame: FrameId, seen: &mut Seen, mut each: impl FnMut(&[Entry])) {
        let mut next = Some(frame);
        while let Some(id) = next
            && seen.insert(u64::from(id))
            && let Some(frame) = self.frames.get(id)
        {
            let own = frame.base.map_or(0, |(_, before)| before);
            each(frame.entries.get(own..).unwrap_or_default());
            next = frame.base.map(|(base, _)| base);
        }
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
        let make = || {
            self.memory.take(CONFIGURATION + size_of_val(items.as_slice()))?;
            Ok(Configuration {
                items,
                expansion: OnceLock::new(),
                mask: OnceLock::new(),
                uniform: OnceLock::new(),
                stays: OnceLock::new(),
                used: AtomicU32::new(0),
            })
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
                self.memory.take(expansion.size())?;
                Ok(configuration.expansion.get_or_init(|| expansion))
            }
        }
    }

    /// Notes that a configuration is in use. Writes nothing as long as nothing new is found, so that threads that
    /// share a machine do not wait for each other.
    #[inline]
    pub(crate) fn touch(&self, configuration: &Configuration) {
        let now = self.configurations.len() as u32;
        if configuration.used.load(Ordering::Relaxed) != now {
            configuration.used.store(now, Ordering::Relaxed);
        }
    }

    /// The configurations in use, those used longest ago first.
    pub(crate) fn in_use(&self) -> Vec<ConfigId> {
        let used = |id: ConfigId| Some((self.configurations.get(id)?.used.load(Ordering::Relaxed), id));
        let mut ids: Vec<(u32, ConfigId)> = (0..self.configurations.len() as ConfigId)
            .filter_map(used)
            .filter(|(used, _)| *used > 0)
            .collect();
        ids.sort_unstable();
        ids.into_iter().map(|(_, id)| id).collect()
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
                    // Twice as many as there may be are some of them twice, or too many.
                    if items.len() > self.limits.stacks.saturating_mul(2) {
                        items.sort_unstable();
                        items.dedup();
                        if items.len() > self.limits.stacks {
                            return Err(Stop::Stacks);
                        }
                    }
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
