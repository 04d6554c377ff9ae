//! What a fresh machine takes over from one that is full: what was used last. Used by `automaton` and `matcher`.
//!
//! Invariant: a configuration that is moved allows in the new machine what it allows in the old one.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::frames::{ConfigId, Entry, FrameId, Item};
use super::kept::Key;
use super::machine::Machine;
use super::stop::Stop;
use super::text::mask_bytes;

/// The part of each table that is filled with what was used last; the rest is for what is new.
const KEPT: usize = 4;

/// Moves what was used last, with its masks, until a part of the tables is filled.
pub(crate) fn take_over(old: &Machine, new: &Machine) {
    let recent = old.in_use();
    let room = old.limits.configurations / KEPT;
    let mut moving = Move::new(old, new);
    let mut moved = Vec::new();
    // The latest first, while there is room.
    for &id in recent.iter().rev().take(room) {
        let Ok(to) = moving.configuration(id) else { break };
        moved.push((id, to));
        if new.used().0 > room || new.memory.used() > new.memory.limit() / KEPT {
            break;
        }
    }
    // The latest last, so that their order is kept.
    for &(id, to) in moved.iter().rev() {
        if let Ok(to) = new.get(to) {
            new.touch(to);
        }
        moving.mask(id, to);
    }
    for (key, text) in old.masks.by_age() {
        let configuration = |id: ConfigId| moving.configurations.get(&id).copied();
        let key = match key {
            Key::Text(id) => configuration(id).map(Key::Text),
            Key::Onto(id, base) => {
                configuration(id).zip(moving.frames.get(&base).copied()).map(|(id, base)| Key::Onto(id, base))
            }
        };
        if let Some(key) = key {
            new.masks.put(key, &text);
        }
    }
}

/// The configurations of `old`, in `new`.
pub(crate) fn transplant(old: &Machine, new: &Machine, ids: &[ConfigId]) -> Result<Vec<ConfigId>, Stop> {
    let mut moving = Move::new(old, new);
    ids.iter().map(|&id| moving.configuration(id)).collect()
}

/// From one machine to another of the same program.
struct Move<'m> {
    old: &'m Machine,
    new: &'m Machine,
    frames: FxHashMap<FrameId, FrameId>,
    configurations: FxHashMap<ConfigId, ConfigId>,
}

impl<'m> Move<'m> {
    fn new(old: &'m Machine, new: &'m Machine) -> Self {
        Self { old, new, frames: FxHashMap::default(), configurations: FxHashMap::default() }
    }

    fn configuration(&mut self, id: ConfigId) -> Result<ConfigId, Stop> {
        if let Some(&known) = self.configurations.get(&id) {
            return Ok(known);
        }
        let items = &self.old.get(id)?.items;
        self.frames_of(items)?;
        let items = items.iter().map(|item| Item {
            state: item.state,
            frame: self.frames.get(&item.frame).copied().unwrap_or(0),
        });
        let moved = self.new.configuration(items.collect())?;
        self.configurations.insert(id, moved);
        Ok(moved)
    }

    /// Moves the frames of `items` with all below them.
    fn frames_of(&mut self, items: &[Item]) -> Result<(), Stop> {
        let mut needed: FxHashSet<FrameId> = FxHashSet::default();
        let mut work: Vec<FrameId> = items.iter().map(|item| item.frame).collect();
        while let Some(frame) = work.pop() {
            if self.frames.contains_key(&frame) || !needed.insert(frame) {
                continue;
            }
            work.extend(self.old.entries(frame).iter().filter_map(|entry| match *entry {
                Entry::Return { parent, .. } | Entry::Again { parent, .. } => Some(parent),
                Entry::End | Entry::Exit => None,
            }));
        }
        // Frames refer to older ones only.
        let mut needed: Vec<FrameId> = needed.into_iter().collect();
        needed.sort_unstable();
        for frame in needed {
            let moved = |parent| self.frames.get(&parent).copied().unwrap_or(parent);
            let entries = self.old.entries(frame).iter().map(|&entry| match entry {
                Entry::Return { state, parent } => Entry::Return { state, parent: moved(parent) },
                Entry::Again { repetition, parent, count } => {
                    Entry::Again { repetition, parent: moved(parent), count }
                }
                end => end,
            });
            let entries = entries.collect();
            let moved = self.new.frame(entries)?;
            self.frames.insert(frame, moved);
        }
        Ok(())
    }

    fn mask(&self, id: ConfigId, to: ConfigId) {
        let (Ok(from), Ok(to)) = (self.old.get(id), self.new.get(to)) else { return };
        let Some(mask) = from.mask.get() else { return };
        let held = &self.new.held;
        if held.used() + mask_bytes(mask) <= held.limit() / 2 && to.mask.set(Arc::clone(mask)).is_ok() {
            held.overdraw(mask_bytes(mask));
        }
    }
}
