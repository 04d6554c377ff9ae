//! What configurations have in common: a configuration over an unknown frame, with the counts that are far from
//! their bounds left out. Used by `mask`.
//!
//! Invariant: for tokens of at most [`Relative::sight`] bytes, a configuration allows what its relative one
//! allows over the base frame.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::characters::LONG;
use super::frames::{BOTTOM, ConfigId, Entry, FAR_BELOW, FAR_OK, FrameId, Item, UNKNOWN};
use super::machine::Machine;
use super::stop::Stop;

/// Frames looked at in search of a common one.
const FRAMES: usize = 64;

/// How often the base moves down when the configuration may leave it at once.
const DESCENTS: usize = 4;

/// A configuration as it looks from above a frame that all its stacks share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Relative {
    /// The configuration over [`UNKNOWN`].
    pub(crate) id: ConfigId,
    /// The frame in place of [`UNKNOWN`].
    pub(crate) base: FrameId,
    /// Bytes that can follow before a count that was left out matters.
    pub(crate) sight: u64,
    /// Whether a count that was left out is below its minimum, so that there may be tokens to add.
    pub(crate) below: bool,
}

impl Machine {
    /// The relative configuration of `id`, if its stacks come together soon.
    pub(crate) fn relative(&self, id: ConfigId) -> Result<Option<Relative>, Stop> {
        let items = self.get(id)?.items.clone();
        let mut tops: BTreeSet<FrameId> = items.iter().map(|item| item.frame).collect();
        for _ in 0..DESCENTS {
            let Some((base, above)) = self.common(tops) else { return Ok(None) };
            if base == UNKNOWN {
                return Ok(None);
            }
            // Where the base is a repetition's count, what is shared is what is below it.
            let counted = self.entries(base).iter().any(|entry| matches!(entry, Entry::Again { .. }));
            if !counted {
                let relative = self.rebuild(&items, base, &above)?;
                if base == BOTTOM || !self.expand(relative.id)?.exit {
                    return Ok(Some(relative));
                }
            }
            if base == BOTTOM {
                return Ok(None);
            }
            tops = items.iter().map(|item| item.frame).chain([base]).chain(self.parents(base)).collect();
        }
        Ok(None)
    }

    /// The highest frame below all `tops` (itself one of them, perhaps), and the frames above it, ascending.
    fn common(&self, mut tops: BTreeSet<FrameId>) -> Option<(FrameId, BTreeSet<FrameId>)> {
        let mut above = BTreeSet::new();
        while tops.len() > 1 {
            // Frames refer to older ones only, so nothing that is still to come refers to the newest.
            let newest = tops.pop_last()?;
            above.insert(newest);
            tops.extend(self.parents(newest));
            if above.len() + tops.len() > FRAMES || newest == BOTTOM || newest == UNKNOWN {
                return None;
            }
        }
        Some((tops.pop_last()?, above))
    }

    fn parents(&self, frame: FrameId) -> impl Iterator<Item = FrameId> + '_ {
        self.entries(frame).iter().filter_map(|entry| match *entry {
            Entry::Return { parent, .. } | Entry::Again { parent, .. } => Some(parent),
            Entry::End | Entry::Exit => None,
        })
    }

    fn rebuild(&self, items: &[Item], base: FrameId, above: &BTreeSet<FrameId>) -> Result<Relative, Stop> {
        let (mut sight, mut below) = (u64::MAX, false);
        let mut new: FxHashMap<FrameId, FrameId> = FxHashMap::default();
        new.insert(base, UNKNOWN);
        for &frame in above {
            let mut entries: SmallVec<[Entry; 1]> = SmallVec::new();
            for &entry in self.entries(frame) {
                entries.push(match entry {
                    Entry::Return { state, parent } => {
                        Entry::Return { state, parent: new.get(&parent).copied().unwrap_or(parent) }
                    }
                    Entry::Again { repetition, parent, count } => {
                        let (count, left) = self.distance(repetition, count);
                        sight = sight.min(left);
                        below |= count == FAR_BELOW;
                        Entry::Again {
                            repetition,
                            parent: new.get(&parent).copied().unwrap_or(parent),
                            count,
                        }
                    }
                    end => end,
                });
            }
            new.insert(frame, self.frame(entries)?);
        }
        let items = items.iter().map(|item| Item {
            state: item.state,
            frame: new.get(&item.frame).copied().unwrap_or(item.frame),
        });
        Ok(Relative { id: self.configuration(items.collect())?, base, sight, below })
    }

    /// The count to use in place of `count`, and how many bytes cannot tell the difference.
    fn distance(&self, repetition: u32, count: u64) -> (u64, u64) {
        let Some(repetition) = self.program.repetition(repetition) else { return (count, u64::MAX) };
        if count >= FAR_BELOW {
            return (count, u64::MAX);
        }
        // The body may end before the first byte, and then once with each byte.
        let next = count.saturating_add(1);
        let far = LONG as u64;
        let above = repetition.max.map_or(u64::MAX, |max| max.saturating_sub(next));
        // Corrections look only at tokens that are longer than this.
        match repetition.min.saturating_sub(next) {
            short if short >= far => (FAR_BELOW, short.min(above)),
            short if above >= far => (FAR_OK - short, above),
            _ => (count, u64::MAX),
        }
    }
}
