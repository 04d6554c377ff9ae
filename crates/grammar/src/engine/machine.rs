//! The tables of a pushdown automaton over byte classes, determinized as it is used: stacks and sets of stacks are
//! hash-consed. Above `program`, `frames` and `arena`; `closure` and `steps` go on from here.
//!
//! Invariant: every item of every configuration can be completed, so a configuration with an edge on a byte
//! allows that byte.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use smallvec::SmallVec;

use super::arena::Interner;
use super::configuration::Configuration;
use super::frames::{BOTTOM, ConfigId, ENDED, Entry, FAR_BELOW, Frame, FrameId, Item};
use super::kept::Masks;
use super::meter::{Budget, Meter};
use super::program::Program;
use super::seen::Seen;
use super::shared::Shared;
use super::stop::Stop;
use super::vocabulary::Vocabulary;
use super::ways::Counter;
use crate::Limits;

/// Fewer entries are looked at as soon as skipped.
const FEW_ENTRIES: usize = 4;

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
    /// What automata over this vocabulary have found out for each other.
    pub(crate) shared: Arc<Shared>,
    pub(crate) limits: Limits,
    frames: Interner<Frame>,
    configurations: Interner<Configuration>,
    /// Bytes of frames and configurations with what was found out about them, masks excepted.
    pub(crate) memory: Meter,
    /// Bytes of the masks that configurations hold.
    pub(crate) held: Meter,
    /// The masks that others are made of.
    pub(crate) masks: Masks,
    /// How masks were put together.
    pub(crate) ways: Counter,
    /// Steps of the closure.
    pub(crate) work: Budget,
    /// Where every run starts.
    pub(crate) start: ConfigId,
}

impl Machine {
    pub(crate) fn new(
        program: Arc<Program>,
        vocabulary: Arc<Vocabulary>,
        shared: Arc<Shared>,
        limits: Limits,
    ) -> Result<Self, Stop> {
        let mut machine = Self {
            program,
            vocabulary,
            shared,
            frames: Interner::new(limits.configurations.saturating_mul(4)),
            configurations: Interner::new(limits.configurations),
            memory: Meter::new(limits.configurations.saturating_mul(EACH).max(LEAST)),
            held: Meter::new(limits.mask_bytes / 2),
            masks: Masks::new(limits.mask_bytes / 2),
            ways: Counter::default(),
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
