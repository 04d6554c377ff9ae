//! A store of masks within a budget of bytes. Used by `machine` for one grammar, and by `shared` for all of them.
//!
//! Invariant: each shard holds at most its share of the budget, or a single mask; what was used longest ago goes
//! first.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustc_hash::{FxBuildHasher, FxHashMap};

use super::frames::{ConfigId, FrameId};
use super::text::Text;

#[cfg(doc)]
use super::frames::UNKNOWN;

/// What a mask is kept by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    /// The text tokens of a configuration.
    Text(ConfigId),
    /// The text tokens of a configuration over [`UNKNOWN`], put onto a frame.
    Onto(ConfigId, FrameId),
}

/// The masks that others are made of.
pub(crate) type Masks = Kept<Key>;

const SHARDS: usize = 16;

/// Masks by key.
pub(crate) struct Kept<K> {
    shards: [Mutex<Shard<K>>; SHARDS],
    budget: usize,
}

struct Shard<K> {
    masks: FxHashMap<K, (Text, u64)>,
    clock: u64,
    bytes: usize,
}

impl<K: Hash + Eq + Clone> Kept<K> {
    pub(crate) fn new(budget: usize) -> Self {
        let empty = |_| Mutex::new(Shard { masks: FxHashMap::default(), clock: 0, bytes: 0 });
        Self { shards: std::array::from_fn(empty), budget: budget / SHARDS }
    }

    pub(crate) fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<Text>
    where
        K: Borrow<Q>,
    {
        let mut shard = self.shard(key)?;
        shard.clock += 1;
        let now = shard.clock;
        shard.masks.get_mut(key).map(|(text, used)| {
            *used = now;
            text.clone()
        })
    }

    pub(crate) fn put(&self, key: K, text: &Text) {
        let Some(mut shard) = self.shard(&key) else { return };
        let size = text.size();
        if shard.bytes + size > self.budget && !shard.masks.is_empty() {
            // Half of them at once, so that finding the oldest costs little for each.
            let mut ages: Vec<u64> = shard.masks.values().map(|(_, used)| *used).collect();
            let middle = ages.len() / 2;
            let (_, &mut median, _) = ages.select_nth_unstable(middle);
            shard.masks.retain(|_, (_, used)| *used > median);
            shard.bytes = shard.masks.values().map(|(text, _)| text.size()).sum();
        }
        shard.clock += 1;
        let now = shard.clock;
        if shard.masks.insert(key, (text.clone(), now)).is_none() {
            shard.bytes += size;
        }
    }

    /// All of them, in each shard what was used longest ago first.
    pub(crate) fn by_age(&self) -> Vec<(K, Text)> {
        let mut all = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            let mut masks: Vec<_> = shard.masks.iter().collect();
            masks.sort_unstable_by_key(|(_, (_, used))| *used);
            all.extend(masks.into_iter().map(|(key, (text, _))| (key.clone(), text.clone())));
        }
        all
    }

    /// Bytes in use.
    pub(crate) fn bytes(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().unwrap_or_else(PoisonError::into_inner).bytes).sum()
    }

    fn shard<Q: Hash + ?Sized>(&self, key: &Q) -> Option<MutexGuard<'_, Shard<K>>> {
        let hash = FxBuildHasher.hash_one(key);
        let shard = self.shards.get((hash >> 32) as usize % SHARDS)?;
        Some(shard.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<K> std::fmt::Debug for Kept<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Kept({} bytes a shard)", self.budget)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::engine::TokenSet;

    #[test]
    fn what_was_used_longest_ago_goes_first_and_the_budget_holds() {
        let text = Text::new(Arc::new(TokenSet::empty(6_400)));
        let room = 8 * text.size();
        let kept: Kept<u32> = Kept::new(room * SHARDS);
        for key in 0..1_000 {
            kept.put(key, &text);
            assert!(kept.get(&0).is_some(), "asked for after each of {key} others");
        }
        assert!(kept.get(&999).is_some() && kept.get(&1).is_none());
        assert!(kept.bytes() <= room * SHARDS, "{} bytes", kept.bytes());
    }
}
