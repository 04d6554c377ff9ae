//! Things of which each is used by one at a time, such as the conversations of an engine: each turn takes the one that fits
//! best, and gives it back.
//!
//! For the packages of this workspace alone: no part of the API.

use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Things that are lent to one at a time; whoever finds none waits.
pub struct Pool<T> {
    things: Vec<Mutex<T>>,
    /// Numbers of those at hand, the one given back last at the end.
    idle: Mutex<Vec<usize>>,
    given_back: Condvar,
}

/// One of them, until it is dropped.
pub struct Lent<'a, T> {
    thing: MutexGuard<'a, T>,
    number: usize,
    pool: &'a Pool<T>,
}

impl<T> Pool<T> {
    /// A pool of at least one thing.
    pub fn new(first: T, others: impl IntoIterator<Item = T>) -> Self {
        let things: Vec<Mutex<T>> = [first].into_iter().chain(others).map(Mutex::new).collect();
        let idle = Mutex::new((0..things.len()).collect());
        Self { things, idle, given_back: Condvar::new() }
    }

    /// The one that fits best; of several, the one used longest ago.
    pub fn take(&self, fit: impl Fn(&T) -> usize) -> Lent<'_, T> {
        let mut idle = lock(&self.idle);
        loop {
            let at_hand = idle.iter().enumerate().filter_map(|(at, &number)| {
                let thing = lock(self.things.get(number)?);
                Some((fit(&thing), at, number, thing))
            });
            // Of equals the last is taken, so they are looked at from the end.
            let mut at_hand: Vec<_> = at_hand.collect();
            at_hand.reverse();
            if let Some((_, at, number, thing)) = at_hand.into_iter().max_by_key(|(fit, ..)| *fit) {
                idle.remove(at);
                return Lent { thing, number, pool: self };
            }
            idle = self.given_back.wait(idle).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// What a panic left behind is still true: a session is in step with its backend, and what is learned is whole or not there.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T> Drop for Lent<'_, T> {
    fn drop(&mut self) {
        lock(&self.pool.idle).push(self.number);
        self.pool.given_back.notify_one();
    }
}

impl<T> Deref for Lent<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.thing
    }
}

impl<T> DerefMut for Lent<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.thing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_is_taken_and_of_equals_the_one_used_longest_ago() {
        let pool = Pool::new("a", ["b", "long"]);
        assert_eq!(*pool.take(|thing| thing.len()), "long");
        assert_eq!(*pool.take(|_| 0), "a");
        let (first, second) = (pool.take(|_| 0), pool.take(|_| 0));
        assert_eq!((*first, *second), ("b", "long"));
    }

    #[test]
    fn who_finds_none_waits_for_the_next_and_a_panic_gives_back() {
        let pool = Pool::new(1, []);
        std::thread::scope(|scope| {
            let mut held = pool.take(|_| 0);
            let waiting = scope.spawn(|| *pool.take(|_| 0));
            *held = 2;
            drop(held);
            assert_eq!(waiting.join().ok(), Some(2));
            let failing = scope.spawn(|| {
                let mut held = pool.take(|_| 0);
                *held = 3;
                std::panic::resume_unwind(Box::new("on purpose"));
            });
            assert!(failing.join().is_err());
        });
        assert_eq!(*pool.take(|_| 0), 3);
    }
}
