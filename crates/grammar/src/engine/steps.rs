//! Transitions, each computed once: from a configuration over a byte to the next. Above `machine` and `closure`; below
//! `uniform`, `walk` and `mask`.
//!
//! Invariant: configurations are equal however they were reached.

use std::sync::atomic::Ordering;

use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use super::expansion::{Expansion, set_bits};
use super::frames::{ConfigId, Entry, Item};
use super::machine::Machine;
use super::program::State;
use super::stop::Stop;

impl Machine {
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
        let Ok(configuration) = self.get(id) else { return false };
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
}
