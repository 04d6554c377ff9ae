//! Append-only, hash-consing storage that many threads read without a lock; below `machine`.
//!
//! Invariant: an id, once handed out, names the same value for as long as the arena lives, and equal values
//! have equal ids. Ids grow: what a value refers to by id has a smaller id than the value.

use std::hash::{BuildHasher, Hash};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use rustc_hash::{FxBuildHasher, FxHashMap};
use smallvec::SmallVec;

use super::stop::Full;

/// Slots in the first chunk; each further one has twice as many.
const FIRST: u32 = 64;
const SHARDS: usize = 16;

type Chunk<T> = OnceLock<Box<[OnceLock<T>]>>;

/// Values by id, equal ones once.
pub(crate) struct Interner<T> {
    chunks: [Chunk<T>; 26],
    len: AtomicU32,
    capacity: u32,
    shards: [Mutex<FxHashMap<u64, SmallVec<[u32; 2]>>>; SHARDS],
}

impl<T> Interner<T> {
    /// Room for at least one and at most `capacity` values.
    pub(crate) fn new(capacity: usize) -> Self {
        let capacity = u32::try_from(capacity).unwrap_or(u32::MAX).clamp(8, 1 << 31);
        Self {
            chunks: [const { OnceLock::new() }; 26],
            len: AtomicU32::new(0),
            capacity,
            shards: std::array::from_fn(|_| Mutex::default()),
        }
    }

    /// The value of an id.
    #[inline]
    pub(crate) fn get(&self, id: u32) -> Option<&T> {
        let (chunk, slot) = locate(id);
        self.chunks.get(chunk)?.get()?.get(slot)?.get()
    }

    /// Values stored so far.
    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed) as usize
    }

    /// The id of the value of which `key` is the part that tells values apart; `make` makes it if it is new, and if
    /// there is room for it.
    pub(crate) fn intern<K: Hash + ?Sized>(
        &self,
        key: &K,
        same: impl Fn(&T) -> bool,
        make: impl FnOnce() -> Result<T, Full>,
    ) -> Result<u32, Full> {
        let hash = FxBuildHasher.hash_one(key);
        let Some(shard) = self.shards.get((hash >> 32) as usize % SHARDS) else { return Err(Full) };
        let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
        let ids = shard.entry(hash).or_default();
        if let Some(&known) = ids.iter().find(|&&id| self.get(id).is_some_and(&same)) {
            return Ok(known);
        }
        let id = self.push(make()?)?;
        ids.push(id);
        Ok(id)
    }

    /// The id of a value that is there already.
    pub(crate) fn find<K: Hash + ?Sized>(&self, key: &K, same: impl Fn(&T) -> bool) -> Option<u32> {
        let hash = FxBuildHasher.hash_one(key);
        let shard = self.shards.get((hash >> 32) as usize % SHARDS)?;
        let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
        shard.get(&hash)?.iter().copied().find(|&id| self.get(id).is_some_and(&same))
    }

    fn push(&self, value: T) -> Result<u32, Full> {
        let reserve = |len: u32| (len < self.capacity).then_some(len + 1);
        let id = self.len.fetch_update(Ordering::Relaxed, Ordering::Relaxed, reserve).map_err(|_| Full)?;
        let (chunk, slot) = locate(id);
        let size = (FIRST as usize) << chunk;
        let slots = self.chunks.get(chunk).ok_or(Full)?;
        let slots = slots.get_or_init(|| std::iter::repeat_with(OnceLock::new).take(size).collect());
        slots.get(slot).and_then(|slot| slot.set(value).ok()).map(|()| id).ok_or(Full)
    }
}

impl<T> std::fmt::Debug for Interner<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Interner({} of {})", self.len(), self.capacity)
    }
}

/// Chunk and slot of an id.
#[inline]
fn locate(id: u32) -> (usize, usize) {
    let shifted = id.saturating_add(FIRST);
    let power = shifted.ilog2();
    ((power - FIRST.ilog2()) as usize, (shifted - (1 << power)) as usize)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn equal_values_share_an_id_and_the_capacity_holds() {
        let interner: Interner<u64> = Interner::new(300);
        let intern = |value: u64| interner.intern(&value, |&known| known == value, || Ok(value));
        let ids: Vec<u32> = (0..300).map(|value| intern(value).unwrap()).collect();
        assert_eq!(ids, (0..300).collect::<Vec<u32>>());
        assert_eq!(intern(300), Err(Full));
        assert_eq!(intern(299), Ok(299));
        assert_eq!(interner.get(128), Some(&128));
        assert_eq!(interner.get(300), None);
    }

    #[test]
    fn threads_agree_on_ids() {
        let interner: Interner<u64> = Interner::new(10_000);
        let run = || -> Vec<u32> {
            (0..2_000).map(|v: u64| interner.intern(&v, |&known| known == v, || Ok(v)).unwrap()).collect()
        };
        let (a, b) = std::thread::scope(|scope| {
            let (a, b) = (scope.spawn(run), scope.spawn(run));
            (a.join().unwrap(), b.join().unwrap())
        });
        assert_eq!(a, b);
        assert_eq!(interner.len(), 2_000);
    }
}
