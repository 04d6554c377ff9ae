//! Beginnings of prompts that conversations evaluate at the moment: one that begins alike waits, and borrows it then.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use toolgate_infer::{TokenId, common_len};

use crate::Cancel;
use crate::model::pool::lock;
use crate::{Error, Kind};

/// Further tokens that are worth waiting for.
const WORTH_WAITING: usize = 32;
/// How often it is looked whether what is waited for is there: about as long as a batch of a prompt takes.
const PAUSE: Duration = Duration::from_millis(100);

/// The beginnings being evaluated.
#[derive(Default)]
pub(crate) struct Underway {
    beginnings: Mutex<Vec<Vec<TokenId>>>,
    changed: Condvar,
}

/// One of them, until it is dropped.
pub(crate) struct Entry<'a> {
    underway: &'a Underway,
    beginning: &'a [TokenId],
}

impl Underway {
    /// Enters a beginning, once no other that is evaluated shares tokens with it that are worth waiting for beyond those
    /// that are `held` by then.
    ///
    /// # Errors
    /// [`Kind::Cancelled`].
    pub(crate) fn enter<'a>(
        &'a self,
        beginning: &'a [TokenId],
        held: impl Fn() -> usize,
        cancel: &Cancel,
    ) -> Result<Entry<'a>, Error> {
        let mut beginnings = lock(&self.beginnings);
        loop {
            let shared = beginnings.iter().map(|other| common_len(other, beginning)).max().unwrap_or(0);
            if shared < WORTH_WAITING || shared < held() + WORTH_WAITING {
                break;
            }
            if cancel.is_cancelled() {
                let message = "cancelled while another conversation evaluated what the prompt begins with";
                return Err(Error::new(Kind::Cancelled, message));
            }
            beginnings =
                self.changed.wait_timeout(beginnings, PAUSE).unwrap_or_else(PoisonError::into_inner).0;
        }
        beginnings.push(beginning.to_vec());
        Ok(Entry { underway: self, beginning })
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        let mut beginnings = lock(&self.underway.beginnings);
        if let Some(at) = beginnings.iter().position(|other| other == self.beginning) {
            beginnings.swap_remove(at);
        }
        self.underway.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const LONG: [TokenId; 100] = [7; 100];

    #[test]
    fn who_begins_alike_waits_until_it_is_there() {
        let (underway, held, looks) = (Underway::default(), AtomicUsize::new(0), AtomicUsize::new(0));
        let enter = |beginning| {
            let held = || {
                looks.fetch_add(1, Ordering::Relaxed);
                held.load(Ordering::Relaxed)
            };
            underway.enter(beginning, held, &Cancel::default()).map(drop)
        };
        let first = underway.enter(&LONG, || 0, &Cancel::default()).unwrap();
        enter(&[8; 100]).unwrap();
        enter(&LONG[..WORTH_WAITING - 1]).unwrap();
        assert_eq!(looks.load(Ordering::Relaxed), 0, "what begins otherwise, or hardly so, does not wait");
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| enter(&LONG));
            while looks.load(Ordering::Relaxed) < 2 {
                std::thread::yield_now();
            }
            assert!(!waiting.is_finished());
            held.store(80, Ordering::Relaxed);
            waiting.join().unwrap().unwrap();
        });
        held.store(0, Ordering::Relaxed);
        drop(first);
        let before = looks.load(Ordering::Relaxed);
        enter(&LONG).unwrap();
        assert_eq!(looks.load(Ordering::Relaxed), before, "one that is through is not waited for");
    }

    #[test]
    fn who_waits_can_be_cancelled_and_one_that_fails_leaves() {
        let (underway, cancel) = (Underway::default(), Cancel::default());
        let first = underway.enter(&LONG, || 0, &cancel).unwrap();
        let looks = || {
            cancel.cancel();
            0
        };
        let cancelled = underway.enter(&LONG, looks, &cancel).map(drop);
        assert_eq!(cancelled.unwrap_err().kind(), Kind::Cancelled);
        drop(first);
        assert!(lock(&underway.beginnings).is_empty());
    }
}
