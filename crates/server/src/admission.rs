//! Admission control. It bounds the turns that run and the requests that wait. No request enters once the
//! server is about to end.
//!
//! Invariant: a request has its permit from its arrival to the end of its turn, even if its client goes. So
//! if no permit is out, nothing runs.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::metrics::Metrics;
use super::refusal::{Refusal, Why};

/// The bounded queue in front of the engine.
pub(super) struct Admission {
    places: Arc<Semaphore>,
    turns: Arc<Semaphore>,
    all: u32,
    at_once: u32,
    metrics: Arc<Metrics>,
}

/// A place in the queue, or in front of the engine.
pub(super) struct Permit(#[expect(dead_code, reason = "it is held")] OwnedSemaphorePermit);

/// The right to make a turn.
pub(super) struct Turn(#[expect(dead_code, reason = "it is held")] OwnedSemaphorePermit);

impl Admission {
    /// A gate for `at_once` turns and `waiting` requests beside them.
    pub(super) fn new(at_once: u16, waiting: u16, metrics: Arc<Metrics>) -> Self {
        let at_once = u32::from(at_once.max(1));
        let all = at_once + u32::from(waiting);
        let semaphore = |permits: u32| Arc::new(Semaphore::new(permits as usize));
        Self { places: semaphore(all), turns: semaphore(at_once), all, at_once, metrics }
    }

    /// A place, if there is one.
    pub(super) fn enter(&self) -> Result<Permit, Refusal> {
        if self.turns.is_closed() {
            return Err(stopping());
        }
        Arc::clone(&self.places).try_acquire_owned().map(Permit).map_err(|_| {
            let seconds = self.metrics.mean_turn_seconds() * f64::from(self.all) / f64::from(self.at_once);
            let message =
                format!("{} requests are being answered or wait already: try again later", self.all);
            let retry_after = Some((seconds.ceil() as u64).clamp(1, LONGEST_WAIT));
            Refusal { retry_after, ..Refusal::new(Why::Busy, message) }
        })
    }

    /// Waits until the request with this place may run. Requests run in the order of their arrival.
    pub(super) async fn turn(&self, _: &Permit) -> Result<Turn, Refusal> {
        Arc::clone(&self.turns).acquire_owned().await.map(Turn).map_err(|_| stopping())
    }

    /// Closes the queue. Requests that wait are refused.
    pub(super) fn close(&self) {
        self.turns.close();
    }

    /// Waits until nothing runs or waits.
    pub(super) async fn idle(&self) {
        // An error would mean that the places were closed. Nothing closes them.
        let _ = self.places.acquire_many(self.all).await;
    }

    /// Requests that have a place.
    pub(super) fn busy(&self) -> usize {
        (self.all as usize).saturating_sub(self.places.available_permits())
    }

    /// Turns being made.
    pub(super) fn running(&self) -> usize {
        (self.at_once as usize).saturating_sub(self.turns.available_permits())
    }
}

/// The longest wait that a client is told, in seconds.
const LONGEST_WAIT: u64 = 120;

fn stopping() -> Refusal {
    Refusal { retry_after: Some(5), ..Refusal::new(Why::Stopping, "this server is about to end") }
}
