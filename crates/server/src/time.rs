//! The time limit of a turn. A turn is cancelled when its time is over. It is refused if that is certain before it begins.
//!
//! A stream's client sees that its turn goes on, and can leave. So its time begins anew with each part of its prompt.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::prefill::Prefilling;
use super::refusal::{Refusal, Why};
use toolgate_engine::Cancel;

/// The time of a turn. Clones share it.
#[derive(Clone)]
pub(super) struct Time {
    limit: Duration,
    end: Arc<Mutex<Instant>>,
    late: Arc<AtomicBool>,
    pub(super) cancel: Cancel,
}

impl Time {
    pub(super) fn new(limit: Duration) -> Self {
        let end = Arc::new(Mutex::new(end_of(limit)));
        Self { limit, end, late: Arc::default(), cancel: Cancel::default() }
    }

    /// Whether it is over.
    pub(super) fn is_over(&self) -> bool {
        self.late.load(Ordering::Relaxed)
    }

    /// Cancels the turn when its time is over.
    pub(super) async fn expire(self) {
        loop {
            let left = self.left();
            if left.is_zero() {
                break;
            }
            tokio::time::sleep(left).await;
        }
        self.late.store(true, Ordering::Relaxed);
        self.cancel.cancel();
    }

    /// The message for a turn that took too long.
    pub(super) fn too_late(&self) -> String {
        format!(
            "the turn took longer than {} seconds; what was evaluated of its prompt is kept: ask again, with \"stream\": true, \
             or give the server a longer --timeout",
            self.limit.as_secs()
        )
    }

    fn left(&self) -> Duration {
        self.end().saturating_duration_since(Instant::now())
    }

    fn begin_anew(&self) {
        *self.end() = end_of(self.limit);
    }

    fn end(&self) -> std::sync::MutexGuard<'_, Instant> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn end_of(limit: Duration) -> Instant {
    let now = Instant::now();
    // Nobody waits for a limit that no clock can hold.
    now.checked_add(limit).unwrap_or(now + Duration::from_secs(u64::from(u32::MAX)))
}

/// How a client waits for its answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Waited {
    /// The client hears nothing before the answer is whole.
    Silently,
    /// The client gets the answer as it is made.
    Streamed,
}

/// Watches the prompts of a turn as they are evaluated.
pub(super) struct Watch {
    time: Time,
    waited: Waited,
    prompts: Prefilling,
    refused: Option<Refusal>,
}

impl Watch {
    pub(super) fn new(time: Time, waited: Waited, prompts: Prefilling) -> Self {
        Self { time, waited, prompts, refused: None }
    }

    /// Takes the number of evaluated tokens of a prompt.
    pub(super) fn see(&mut self, done: usize, total: usize) {
        let begins = self.prompts.see(done, total);
        match self.waited {
            Waited::Streamed => self.time.begin_anew(),
            Waited::Silently if begins => self.weigh(total - done.min(total)),
            Waited::Silently => {}
        }
    }

    /// The refusal, if the turn was given up before its work.
    pub(super) fn refused(&mut self) -> Option<Refusal> {
        self.refused.take()
    }

    /// Gives the turn up if its prompt alone takes longer than the turn may.
    fn weigh(&mut self, tokens: usize) {
        let Some(seconds) = self.prompts.seconds_left() else { return };
        if seconds <= self.time.left().as_secs_f64() {
            return;
        }
        let enough = ((seconds * 1.5 / 60.0).ceil() * 60.0) as u64;
        let message = format!(
            "{tokens} tokens of the prompt are not in the cache, and evaluating them takes about {seconds:.0} seconds here; an \
             answer that is not streamed may take {}: send \"stream\": true, or start the server with --timeout {enough}",
            self.time.limit.as_secs()
        );
        self.prompts.doubt();
        self.refused = Some(Refusal::new(Why::Late, message));
        self.time.cancel.cancel();
    }
}
