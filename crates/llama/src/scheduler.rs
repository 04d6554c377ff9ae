//! The batch scheduler: slots that share a context are evaluated in one batch (continuous batching).
//!
//! ```text
//! slot ─ Part ─▶ ┐
//! slot ─ Part ─▶ ├ queue ─ a batch ─▶ thread that evaluates ─ logits of each ─▶ slots
//! slot ─ Part ─▶ ┘
//! ```
//!
//! Each slot waits for its own logits. The parts that came first go first, so no slot starves. Invariant: a slot names its
//! own sequences only. It reads another slot's sequence only to copy the tokens that its prompt begins with.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use toolgate_grammar::TokenId;
use toolgate_infer::{Error, Rows};

use crate::context::{Context, Part, SEQUENCES, failed};
use crate::texts::Texts;

/// The context, and the queue of work for it.
pub(crate) struct Scheduler {
    context: Mutex<Context>,
    texts: Arc<Texts>,
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: Vec<Job>,
    done: BTreeMap<usize, Result<Outcome, Error>>,
    /// Slots in the middle of a turn. A batch waits a moment for what they evaluate next.
    busy: BTreeSet<usize>,
    closed: bool,
}

/// The tokens that a slot wants evaluated.
struct Job {
    slot: usize,
    sequence: usize,
    after: usize,
    tokens: Vec<TokenId>,
    rows: Rows,
    /// Where the logits go.
    logits: Vec<f32>,
}

impl Queue {
    /// Whether no other slot is in the middle of a turn.
    fn is_alone(&self, slot: usize) -> bool {
        self.busy.iter().all(|busy| *busy == slot)
    }
}

impl Job {
    fn part(&self) -> Part<'_> {
        Part { sequence: self.sequence, after: self.after, tokens: &self.tokens, rows: self.rows }
    }
}

/// What a job gave.
pub(crate) struct Outcome {
    /// The rows that the job asked for, one after the other.
    pub(crate) logits: Vec<f32>,
    /// The cost of a further token in this batch; see [`Costs::further`](crate::costs::Costs::further).
    pub(crate) further: f64,
}

/// One slot of the context: the sequences of one turn at a time.
pub(crate) struct Slot {
    scheduler: Arc<Scheduler>,
    number: usize,
    /// Ends the thread once no slot is left.
    _closing: Arc<Closing>,
}

/// Closes the queue when the last slot is gone, and waits for the end of the thread.
struct Closing {
    scheduler: Arc<Scheduler>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Closing {
    fn drop(&mut self) {
        drop(Shut(&self.scheduler));
        // A thread that panicked has said so.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Closes the queue at the end of the thread.
struct Shut<'a>(&'a Scheduler);

impl Drop for Shut<'_> {
    fn drop(&mut self) {
        self.0.queue().closed = true;
        self.0.changed.notify_all();
    }
}

impl Scheduler {
    /// Starts the thread that evaluates, and makes the slots of the context.
    pub(crate) fn start(context: Context, slots: usize) -> std::io::Result<Vec<Slot>> {
        let texts = context.texts.clone();
        let (context, queue, changed) = (Mutex::new(context), Mutex::default(), Condvar::new());
        let scheduler = Arc::new(Self { context, texts, queue, changed });
        let at_work = scheduler.clone();
        let named = std::thread::Builder::new().name("toolgate-eval".to_owned());
        let thread = Some(named.spawn(move || at_work.work())?);
        let closing = Arc::new(Closing { scheduler: scheduler.clone(), thread });
        let slot = |number| Slot { scheduler: scheduler.clone(), number, _closing: closing.clone() };
        Ok((0..slots).map(slot).collect())
    }

    pub(crate) fn context(&self) -> MutexGuard<'_, Context> {
        self.context.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Evaluates until the queue is closed.
    fn work(&self) {
        // Should this thread panic, nobody waits for it any more.
        let _closing = Shut(self);
        while let Some(jobs) = self.next() {
            let done = self.evaluate(jobs);
            let mut queue = self.queue();
            queue.done.extend(done);
            drop(queue);
            self.changed.notify_all();
        }
    }

    /// The jobs of the next batch, those that waited longest first.
    fn next(&self) -> Option<Vec<Job>> {
        let (most, patience) = {
            let context = self.context();
            (
                context.batch_len,
                Duration::from_secs_f64((context.costs.batch() * PATIENCE).clamp(0.002, 0.05)),
            )
        };
        let mut queue = self.queue();
        while queue.waiting.is_empty() {
            if queue.closed {
                return None;
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        let until = Instant::now() + patience;
        while queue.waiting.len() < queue.busy.len() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            queue = self.changed.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        let mut tokens = 0;
        let fit = queue.waiting.iter().take_while(|job| {
            tokens += job.tokens.len();
            tokens <= most
        });
        let fit = fit.count().max(1).min(queue.waiting.len());
        Some(queue.waiting.drain(..fit).collect())
    }

    /// Evaluates jobs together; one by one where that fails, so that none fails for another.
    fn evaluate(&self, mut jobs: Vec<Job>) -> Vec<(usize, Result<Outcome, Error>)> {
        let mut context = self.context();
        if let Ok(outcomes) = together(&mut context, &mut jobs) {
            return jobs.iter().map(|job| job.slot).zip(outcomes.into_iter().map(Ok)).collect();
        }
        let alone = |mut job: Job| {
            let outcomes = together(&mut context, std::slice::from_mut(&mut job));
            let nothing = || failed("nothing came of an evaluation");
            (job.slot, outcomes.and_then(|mut outcomes| outcomes.pop().ok_or_else(nothing)))
        };
        jobs.into_iter().map(alone).collect()
    }
}

/// How long a batch waits for slots in the middle of a turn, as a share of the time of a batch.
const PATIENCE: f64 = 0.2;

/// Evaluates jobs in one batch; the outcomes in the order of the jobs.
fn together(context: &mut Context, jobs: &mut [Job]) -> Result<Vec<Outcome>, Error> {
    let parts: Vec<Part<'_>> = jobs.iter().map(Job::part).collect();
    let rows = context.eval(&parts)?;
    let further = context.costs.further(jobs.len());
    let outcomes = jobs.iter_mut().zip(rows).map(|(job, rows)| {
        let mut logits = std::mem::take(&mut job.logits);
        logits.clear();
        rows.iter().for_each(|&row| logits.extend_from_slice(context.logits(row)));
        Outcome { logits, further }
    });
    Ok(outcomes.collect())
}

impl Slot {
    /// The number of this slot's first sequence.
    pub(crate) fn first(&self) -> usize {
        self.number * SEQUENCES
    }

    /// The context; waits for the end of a batch that is evaluated.
    pub(crate) fn context(&self) -> MutexGuard<'_, Context> {
        self.scheduler.context()
    }

    /// Puts a part into the queue and waits for its outcome.
    pub(crate) fn eval(&self, part: &Part<'_>, logits: Vec<f32>) -> Result<Outcome, Error> {
        let mut queue = self.scheduler.queue();
        queue.busy.insert(self.number);
        queue.waiting.push(Job {
            slot: self.number,
            sequence: part.sequence,
            after: part.after,
            tokens: part.tokens.to_vec(),
            rows: part.rows,
            logits,
        });
        self.scheduler.changed.notify_all();
        loop {
            if let Some(outcome) = queue.done.remove(&self.number) {
                return outcome;
            }
            if queue.closed {
                return Err(failed("the thread that evaluates has ended"));
            }
            queue = self.scheduler.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Whether no other slot of the context is in the middle of a turn.
    pub(crate) fn is_alone(&self) -> bool {
        self.scheduler.queue().is_alone(self.number)
    }

    /// Ends the slot's turn: batches do not wait for it any more.
    pub(crate) fn rest(&self) {
        self.scheduler.queue().busy.remove(&self.number);
        self.scheduler.changed.notify_all();
    }

    /// The tokens of all sequences of the context.
    pub(crate) fn texts(&self) -> &Texts {
        &self.scheduler.texts
    }

    /// The sequence of another slot that shares the longest beginning with `prompt`, and its length in tokens. It holds
    /// until the next batch.
    pub(crate) fn lender(&self, prompt: &[TokenId]) -> Option<(usize, usize)> {
        self.scheduler.texts.lender(&(self.first()..self.first() + SEQUENCES), prompt)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.rest();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_alone_until_another_is_in_the_middle_of_a_turn() {
        let alone = |busy: &[usize]| {
            let busy = busy.iter().copied().collect();
            Queue { busy, ..Queue::default() }.is_alone(1)
        };
        assert!(alone(&[]) && alone(&[1]));
        assert!(!alone(&[0]) && !alone(&[1, 2]));
    }
}
