//! Runs the workloads of `toolgate bench mask` on an engine and keeps how long each step took.
//!
//! Invariant: a full mask is computed before every token and at the end of every text, as engines are compared.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use toolgate_grammar::{Automaton, Grammar, Limits, Vocabulary};
use toolgate_infer::{Constraint, TokenId};

use super::workload::{Case, Place, Trace};

/// A compiled grammar: gives runs from the start, which share what is known of it.
pub(super) type Start = Box<dyn Fn() -> Box<dyn Constraint>>;

/// Makes a grammar of another engine's from ours.
pub(super) type Peer<'a> = &'a dyn Fn(&Grammar) -> anyhow::Result<Start>;

/// A step that was timed: the case, the text and the token it belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Step {
    case: usize,
    trace: usize,
    token: usize,
}

/// How long a step took, and where in the text it is.
#[derive(Clone, Copy)]
pub(super) struct Sample {
    pub(super) step: Step,
    pub(super) place: Place,
    pub(super) time: Duration,
}

/// What an engine took for a workload.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) compile: Vec<Duration>,
    /// Compilation and the first mask.
    pub(super) ready: Vec<Duration>,
    /// Masks of the first replay of each text, and of the second.
    pub(super) first: Vec<Sample>,
    pub(super) steady: Vec<Sample>,
    /// Checks of single tokens: the next one, and one from elsewhere in the text.
    pub(super) checks: Vec<Sample>,
    /// Grammars that could not be compiled.
    pub(super) refused: usize,
    /// Texts that the engine did not let pass.
    pub(super) rejected: usize,
    /// Bytes that each compiled grammar holds in the end, about.
    pub(super) bytes: Vec<usize>,
}

impl Outcome {
    /// Takes the lesser time of each step: what is left without other programs' share of the machine. Both outcomes
    /// are of the same steps.
    pub(super) fn keep_least(&mut self, again: &Self) {
        let least = |one: &mut Vec<Duration>, other: &[Duration]| {
            one.iter_mut().zip(other).for_each(|(one, other)| *one = (*one).min(*other));
        };
        least(&mut self.compile, &again.compile);
        least(&mut self.ready, &again.ready);
        for (one, other) in [
            (&mut self.first, &again.first),
            (&mut self.steady, &again.steady),
            (&mut self.checks, &again.checks),
        ] {
            one.iter_mut().zip(other).for_each(|(one, other)| one.time = one.time.min(other.time));
        }
    }
}

/// Measures our engine once: each grammar compiled from what defines it, its texts replayed twice, tokens checked.
pub(super) fn ours(cases: &[Case], vocabulary: &Arc<Vocabulary>) -> Outcome {
    let mut outcome = Outcome::default();
    for (number, case) in cases.iter().enumerate() {
        let start = Instant::now();
        let automaton = case
            .grammar()
            .and_then(|grammar| Ok(Automaton::new(&grammar, Arc::clone(vocabulary), &Limits::default())?));
        let compile = start.elapsed();
        let Ok(automaton) = automaton else {
            outcome.refused += 1;
            continue;
        };
        let runs = || -> Box<dyn Constraint> { Box::new(automaton.matcher()) };
        let before = outcome.first.len();
        replay_all(&runs, number, &case.traces, usize::MAX, &mut outcome.first, &mut outcome.rejected);
        let first_mask = outcome.first.get(before).map_or(Duration::ZERO, |sample| sample.time);
        outcome.compile.push(compile);
        outcome.ready.push(compile + first_mask);
        replay_all(&runs, number, &case.traces, usize::MAX, &mut outcome.steady, &mut 0);
        check_all(&runs, number, &case.traces, usize::MAX, &mut outcome.checks);
        let usage = automaton.usage();
        outcome.bytes.push(usage.bytes + usage.mask_bytes + 16 * usage.states);
    }
    outcome
}

/// Measures another engine once, over the first `most` masks and as many checks. It keeps nothing between two visits
/// of a place, so each text is replayed once.
pub(super) fn theirs(cases: &[Case], peer: Peer<'_>, most: usize) -> Outcome {
    let mut outcome = Outcome::default();
    for (number, case) in cases.iter().enumerate() {
        if outcome.first.len() >= most {
            break;
        }
        let Ok(grammar) = case.grammar() else { continue };
        let start = Instant::now();
        let runs = peer(&grammar);
        let compile = start.elapsed();
        let Ok(runs) = runs else {
            outcome.refused += 1;
            continue;
        };
        outcome.compile.push(compile);
        replay_all(&runs, number, &case.traces, most, &mut outcome.first, &mut outcome.rejected);
        check_all(&runs, number, &case.traces, most, &mut outcome.checks);
    }
    outcome
}

fn replay_all(
    runs: &dyn Fn() -> Box<dyn Constraint>,
    case: usize,
    traces: &[Trace],
    most: usize,
    samples: &mut Vec<Sample>,
    rejected: &mut usize,
) {
    each(case, traces, most, samples, |trace, at, samples| {
        *rejected += usize::from(replay(&mut *runs(), trace, at, most, samples).is_none());
    });
}

/// Measures one text after another, until there are `most` samples.
fn each(
    case: usize,
    traces: &[Trace],
    most: usize,
    samples: &mut Vec<Sample>,
    mut measure: impl FnMut(&Trace, Step, &mut Vec<Sample>),
) {
    for (number, trace) in traces.iter().enumerate() {
        if samples.len() >= most {
            return;
        }
        measure(trace, Step { case, trace: number, token: 0 }, samples);
    }
}

/// Replays a text with a mask before every token and at the end; none if a token is refused, or the engine cannot go
/// on. Samples count up to there.
fn replay(
    run: &mut dyn Constraint,
    trace: &Trace,
    at: Step,
    most: usize,
    samples: &mut Vec<Sample>,
) -> Option<()> {
    for (token, &place) in trace.places.iter().enumerate() {
        if samples.len() >= most {
            break;
        }
        let start = Instant::now();
        let mask = run.mask();
        let time = start.elapsed();
        let mask = mask.ok()?;
        samples.push(Sample { step: Step { token, ..at }, place, time });
        if let Some(&next) = trace.tokens.get(token) {
            if !mask.contains(next) {
                return None;
            }
            run.accept(next).ok()?;
        }
    }
    Some(())
}

fn check_all(
    runs: &dyn Fn() -> Box<dyn Constraint>,
    case: usize,
    traces: &[Trace],
    most: usize,
    samples: &mut Vec<Sample>,
) {
    each(case, traces, most, samples, |trace, at, samples| check(&mut *runs(), trace, at, samples));
}

/// Checks the next token, which is allowed, and another one of the text, before each step.
fn check(run: &mut dyn Constraint, trace: &Trace, at: Step, samples: &mut Vec<Sample>) {
    let others = trace.tokens.iter().cycle().skip(7);
    for (token, ((&next, &other), &place)) in trace.tokens.iter().zip(others).zip(&trace.places).enumerate() {
        let mut time = |token_id: TokenId| {
            let start = Instant::now();
            let allowed = black_box(run.allows(token_id));
            samples.push(Sample { step: Step { token, ..at }, place, time: start.elapsed() });
            allowed
        };
        let allowed = time(next);
        let _ = time(other);
        if !matches!(allowed, Ok(true)) || run.accept(next).is_err() {
            return;
        }
    }
}
