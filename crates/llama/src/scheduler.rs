//! Several conversations in one context: what they have to evaluate at the same time is evaluated in one batch
//! (continuous batching).
//!
//! ```text
//! conversation ─ Part ─▶ ┐
//! conversation ─ Part ─▶ ├ desk ─ a batch ─▶ thread that evaluates ─ logits of each ─▶ conversations
//! conversation ─ Part ─▶ ┘
//! ```
//!
//! Each conversation waits for its own logits; the parts that came first go first, so none starves. Invariant: a
//! conversation only ever names its own sequences, but to copy the tokens of another where its prompt begins with them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use toolgate_grammar::TokenId;
use toolgate_infer::{Error, Rows};

use crate::context::{Context, Part, SEQUENCES, failed};
use crate::texts::Texts;

/// The context, and the desk where work is handed in and fetched.
pub(crate) struct Lanes {
    context: Mutex<Context>,
    texts: Arc<Texts>,
    desk: Mutex<Desk>,
    bell: Condvar,
}

#[derive(Default)]
struct Desk {
    waiting: Vec<Job>,
    done: BTreeMap<usize, Result<Outcome, Error>>,
    /// Conversations in the middle of a turn: what they evaluate next is worth waiting for a moment.
    busy: BTreeSet<usize>,
    closed: bool,
}

/// What a conversation wants evaluated.
struct Job {
    lane: usize,
    sequence: usize,
    after: usize,
    tokens: Vec<TokenId>,
    rows: Rows,
    /// Where the logits go.
    logits: Vec<f32>,
}

impl Desk {
    /// Whether no other conversation is in the middle of a turn.
    fn is_alone(&self, lane: usize) -> bool {
        self.busy.iter().all(|busy| *busy == lane)
    }
}

impl Job {
    fn part(&self) -> Part<'_> {
        Part { sequence: self.sequence, after: self.after, tokens: &self.tokens, rows: self.rows }
    }
}

/// What came of it.
pub(crate) struct Outcome {
    /// The rows that were wanted, one after the other.
    pub(crate) logits: Vec<f32>,
    /// What a further token would have cost; see [`Costs::further`](crate::costs::Costs::further).
    pub(crate) further: f64,
}

/// One conversation's place.
pub(crate) struct Lane {
    lanes: Arc<Lanes>,
    number: usize,
    /// Ends the thread once no conversation is left.
    _closing: Arc<Closing>,
}

/// Closes the desk when the last conversation is gone, and sees the thread end.
struct Closing {
    lanes: Arc<Lanes>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Closing {
    fn drop(&mut self) {
        drop(Shut(&self.lanes));
        // A thread that panicked has said so.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Closes the desk at the end of the thread.
struct Shut<'a>(&'a Lanes);

impl Drop for Shut<'_> {
    fn drop(&mut self) {
        self.0.desk().closed = true;
        self.0.bell.notify_all();
    }
}

impl Lanes {
    /// Starts the thread that evaluates; one place for each of the context's conversations.
    pub(crate) fn start(context: Context, conversations: usize) -> std::io::Result<Vec<Lane>> {
        let texts = context.texts.clone();
        let (context, desk, bell) = (Mutex::new(context), Mutex::default(), Condvar::new());
        let lanes = Arc::new(Self { context, texts, desk, bell });
        let at_work = lanes.clone();
        let named = std::thread::Builder::new().name("toolgate-eval".to_owned());
        let thread = Some(named.spawn(move || at_work.work())?);
        let closing = Arc::new(Closing { lanes: lanes.clone(), thread });
        let lane = |number| Lane { lanes: lanes.clone(), number, _closing: closing.clone() };
        Ok((0..conversations).map(lane).collect())
    }

    pub(crate) fn context(&self) -> MutexGuard<'_, Context> {
        self.context.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Evaluates until the desk is closed.
    fn work(&self) {
        // Should this thread panic, nobody waits for it any more.
        let _closing = Shut(self);
        while let Some(jobs) = self.next() {
            let done = self.evaluate(jobs);
            let mut desk = self.desk();
            desk.done.extend(done);
            drop(desk);
            self.bell.notify_all();
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
        let mut desk = self.desk();
        while desk.waiting.is_empty() {
            if desk.closed {
                return None;
            }
            desk = self.bell.wait(desk).unwrap_or_else(PoisonError::into_inner);
        }
        let until = Instant::now() + patience;
        while desk.waiting.len() < desk.busy.len() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            desk = self.bell.wait_timeout(desk, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        let mut tokens = 0;
        let fit = desk.waiting.iter().take_while(|job| {
            tokens += job.tokens.len();
            tokens <= most
        });
        let fit = fit.count().max(1).min(desk.waiting.len());
        Some(desk.waiting.drain(..fit).collect())
    }

    /// Evaluates jobs together; one by one where that fails, so that none fails for another.
    fn evaluate(&self, mut jobs: Vec<Job>) -> Vec<(usize, Result<Outcome, Error>)> {
        let mut context = self.context();
        if let Ok(outcomes) = together(&mut context, &mut jobs) {
            return jobs.iter().map(|job| job.lane).zip(outcomes.into_iter().map(Ok)).collect();
        }
        let alone = |mut job: Job| {
            let outcomes = together(&mut context, std::slice::from_mut(&mut job));
            let nothing = || failed("nothing came of an evaluation");
            (job.lane, outcomes.and_then(|mut outcomes| outcomes.pop().ok_or_else(nothing)))
        };
        jobs.into_iter().map(alone).collect()
    }
}

/// How long a batch waits for conversations in the middle of a turn, as a share of what a batch takes, which may not be known
/// yet.
const PATIENCE: f64 = 0.2;

/// What comes of each job, in their order.
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

impl Lane {
    /// The number of this conversation's first sequence.
    pub(crate) fn first(&self) -> usize {
        self.number * SEQUENCES
    }

    /// The context, as soon as no batch is evaluated.
    pub(crate) fn context(&self) -> MutexGuard<'_, Context> {
        self.lanes.context()
    }

    /// Hands a part in and waits for what comes of it.
    pub(crate) fn eval(&self, part: &Part<'_>, logits: Vec<f32>) -> Result<Outcome, Error> {
        let mut desk = self.lanes.desk();
        desk.busy.insert(self.number);
        desk.waiting.push(Job {
            lane: self.number,
            sequence: part.sequence,
            after: part.after,
            tokens: part.tokens.to_vec(),
            rows: part.rows,
            logits,
        });
        self.lanes.bell.notify_all();
        loop {
            if let Some(outcome) = desk.done.remove(&self.number) {
                return outcome;
            }
            if desk.closed {
                return Err(failed("the thread that evaluates has ended"));
            }
            desk = self.lanes.bell.wait(desk).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Whether nobody else evaluates in the context: no other conversation is in the middle of a turn.
    pub(crate) fn is_alone(&self) -> bool {
        self.lanes.desk().is_alone(self.number)
    }

    /// Takes back that something is to be waited for.
    pub(crate) fn rest(&self) {
        self.lanes.desk().busy.remove(&self.number);
        self.lanes.bell.notify_all();
    }

    /// The sequence of another conversation that begins like `prompt` for longest, and for how many tokens; for as long as
    /// nothing is evaluated.
    pub(crate) fn lender(&self, prompt: &[TokenId]) -> Option<(usize, usize)> {
        self.lanes.texts.lender(&(self.first()..self.first() + SEQUENCES), prompt)
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.rest();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_is_alone_until_another_is_in_the_middle_of_a_turn() {
        let alone = |busy: &[usize]| {
            let busy = busy.iter().copied().collect();
            Desk { busy, ..Desk::default() }.is_alone(1)
        };
        assert!(alone(&[]) && alone(&[1]));
        assert!(!alone(&[0]) && !alone(&[1, 2]));
    }
}
