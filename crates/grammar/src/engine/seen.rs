//! Sets that are small most of the time. Used by `machine` and `closure`.

use rustc_hash::FxHashSet;
use smallvec::SmallVec;

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
