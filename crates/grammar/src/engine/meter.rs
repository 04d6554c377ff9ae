//! What is used up: memory, which does not come back, and work, which does in time. Used by `machine`.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::stop::{Full, Stop};

/// Memory within a limit.
#[derive(Debug)]
pub(crate) struct Meter {
    used: AtomicUsize,
    limit: usize,
}

impl Meter {
    pub(crate) fn new(limit: usize) -> Self {
        Self { used: AtomicUsize::new(0), limit }
    }

    /// Takes `amount`, or leaves things as they are where less is left.
    pub(crate) fn take(&self, amount: usize) -> Result<(), Full> {
        let more = |used: usize| used.checked_add(amount).filter(|sum| *sum <= self.limit);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).map(drop).map_err(|_| Full)
    }

    /// Takes `amount` even if that is more than the limit.
    pub(crate) fn overdraw(&self, amount: usize) {
        self.used.fetch_add(amount, Ordering::Relaxed);
    }

    /// Whether nothing is taken yet, or `amount` is left.
    pub(crate) fn has_room(&self, amount: usize) -> bool {
        let used = self.used();
        used == 0 || used.saturating_add(amount) <= self.limit
    }

    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit
    }
}

/// Steps that come back with every configuration expanded: those of a grammar that is hardly ambiguous come to
/// nothing.
const EARNED: usize = 64;

/// Work within a limit.
#[derive(Debug)]
pub(crate) struct Budget {
    owed: AtomicUsize,
    /// All steps ever taken.
    taken: AtomicU64,
    limit: usize,
}

impl Budget {
    pub(crate) fn new(limit: usize) -> Self {
        Self { owed: AtomicUsize::new(0), taken: AtomicU64::new(0), limit }
    }

    /// Pays for the expansion of one configuration, of which some steps are free. After an error there is half of the
    /// limit again, so that a run that went too far does not end all others.
    pub(crate) fn pay(&self, steps: usize, free: usize) -> Result<(), Stop> {
        self.taken.fetch_add(steps as u64, Ordering::Relaxed);
        let steps = steps.saturating_sub(free);
        let owed = |owed: usize| owed.saturating_add(steps).saturating_sub(EARNED);
        if steps <= EARNED && self.owed.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        let before = self.owed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |sum| {
            let sum = owed(sum);
            Some(if sum > self.limit { self.limit / 2 } else { sum })
        });
        if before.is_ok_and(|before| owed(before) > self.limit) { Err(Stop::Work) } else { Ok(()) }
    }

    /// All steps ever taken.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Goes on with what is owed elsewhere.
    pub(crate) fn take_over(&self, other: &Self) {
        self.taken.store(other.taken(), Ordering::Relaxed);
        self.owed.store(other.owed.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_taken_up_to_the_limit_and_not_beyond() {
        let meter = Meter::new(100);
        assert_eq!((meter.take(60), meter.take(41), meter.take(40)), (Ok(()), Err(Full), Ok(())));
        assert_eq!((meter.used(), meter.take(usize::MAX)), (100, Err(Full)));
        assert!(!meter.has_room(1) && Meter::new(1).has_room(2));
    }

    #[test]
    fn work_comes_back_and_too_much_of_it_is_refused_once() {
        let budget = Budget::new(1_000);
        for _ in 0..100 {
            assert_eq!(budget.pay(EARNED, 0), Ok(()));
        }
        assert_eq!(budget.pay(1_000 + EARNED, 0), Ok(()));
        assert_eq!(budget.pay(EARNED + 1, 0), Err(Stop::Work));
        // Half of the limit is left, no more; and what is owed is paid back in time.
        assert_eq!((budget.pay(EARNED + 500, 0), budget.pay(EARNED + 1, 0)), (Ok(()), Err(Stop::Work)));
        for _ in 0..500_usize.div_ceil(EARNED) {
            assert_eq!(budget.pay(0, 0), Ok(()));
        }
        assert_eq!(budget.pay(EARNED + 1_000, 0), Ok(()));
        // What is free is counted, and owed by nobody.
        let (taken, other) = (budget.taken(), Budget::new(10));
        assert_eq!((other.pay(5_000, 5_000), other.taken()), (Ok(()), 5_000));
        other.take_over(&budget);
        assert_eq!(other.taken(), taken);
    }
}
