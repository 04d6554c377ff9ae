//! Prompts being evaluated: how far each has come, and how fast this machine is. The log, the metrics and
//! streams tell it.
//!
//! Invariant: what is counted was evaluated, whatever becomes of its turn.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::metrics::Text;

/// What a server knows of its prompts.
#[derive(Default)]
pub(super) struct Prefills(Mutex<Known>);

#[derive(Default)]
struct Known {
    speed: Speed,
    /// Tokens evaluated since the start, and the seconds for them.
    evaluated: u64,
    seconds: f64,
    /// The evaluated tokens and all tokens of the prompts being evaluated.
    done: usize,
    total: usize,
}

/// How far a turn's prompt has come, for whoever writes its stream.
#[derive(Debug, Default)]
pub(super) struct Progress {
    done: AtomicUsize,
    total: AtomicUsize,
}

impl Progress {
    /// The evaluated tokens and all tokens, while a prompt is evaluated.
    pub(super) fn get(&self) -> Option<(usize, usize)> {
        let (done, total) = (self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed));
        (done < total).then_some((done, total))
    }

    fn set(&self, done: usize, total: usize) {
        self.done.store(done, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
    }
}

/// The prompts of one turn, one after the other.
pub(super) struct Prefilling {
    of: Arc<Prefills>,
    progress: Arc<Progress>,
    request: String,
    /// How often it is logged.
    pace: Duration,
    last: Option<Seen>,
    logged: Instant,
}

#[derive(Clone, Copy)]
struct Seen {
    done: usize,
    total: usize,
    at: Instant,
}

impl Prefilling {
    pub(super) fn new(of: Arc<Prefills>, progress: Arc<Progress>, request: String, pace: Duration) -> Self {
        Self { of, progress, request, pace, last: None, logged: Instant::now() }
    }

    /// Notes that so many tokens of a prompt are evaluated. Tells whether the prompt is new.
    pub(super) fn see(&mut self, done: usize, total: usize) -> bool {
        let now = Seen { done: done.min(total), total, at: Instant::now() };
        let last = self.last.filter(|last| last.total == total && last.done < total && last.done <= done);
        let took = last.map(|last| (last, now.at - last.at));
        self.of.note(self.last.take(), took, now);
        self.progress.set(now.done, total);
        self.last = Some(now);
        if last.is_none() {
            self.logged = now.at;
        } else if now.at - self.logged >= self.pace && now.done < total {
            self.logged = now.at;
            self.log(now);
        }
        last.is_none()
    }

    /// Seconds for the rest of the prompt. `None` before they can be estimated.
    pub(super) fn seconds_left(&self) -> Option<f64> {
        let Seen { done, total, .. } = self.last?;
        self.of.known().speed.seconds(done, total)
    }

    /// Makes the next estimates shorter. An estimate may be wrong, and nothing is measured while turns are
    /// refused for it.
    pub(super) fn doubt(&self) {
        self.of.known().speed.doubt();
    }

    fn log(&self, Seen { done, total, .. }: Seen) {
        let left = self.seconds_left().unwrap_or_default();
        tracing::info!(
            request_id = %self.request,
            done_tokens = done,
            prompt_tokens = total,
            tokens_per_second = ((total - done) as f64 / left.max(1e-3)).round(),
            seconds_left = left.round(),
            "prefill"
        );
    }
}

impl Drop for Prefilling {
    fn drop(&mut self) {
        if let Some(last) = self.last {
            self.of.known().leave(last);
        }
        self.progress.set(0, 0);
    }
}

impl Prefills {
    /// Notes the state `now` of a prompt in place of that `before`. `last` is the last state of the same
    /// prompt, and the time since.
    fn note(&self, before: Option<Seen>, last: Option<(Seen, Duration)>, now: Seen) {
        let mut known = self.known();
        if let Some(before) = before {
            known.leave(before);
        }
        if now.done < now.total {
            known.done += now.done;
            known.total += now.total;
        }
        if let Some((last, took)) = last {
            let tokens = now.done.saturating_sub(last.done);
            known.evaluated += tokens as u64;
            known.seconds += if tokens > 0 { took.as_secs_f64() } else { 0.0 };
            known.speed.add(last.done, tokens, took.as_secs_f64());
        }
    }

    /// The metrics of prompts, in the Prometheus form.
    pub(super) fn text(&self) -> String {
        let known = self.known();
        let mut text = Text::default();
        for (name, kind, help, value) in [
            (
                "toolgate_prefill_evaluated_tokens_total",
                "counter",
                "Tokens of prompts evaluated, of turns that were given up, too.",
                known.evaluated as f64,
            ),
            ("toolgate_prefill_seconds_total", "counter", "How long that took.", known.seconds),
            (
                "toolgate_prefill_tokens",
                "gauge",
                "Tokens of the prompts that are being evaluated.",
                known.total as f64,
            ),
            (
                "toolgate_prefill_done_tokens",
                "gauge",
                "Of these, tokens that are there by now.",
                known.done as f64,
            ),
        ] {
            text.family(name, kind, help);
            text.value(name, "", value);
        }
        text.into()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // Each number is true by itself, even if a thread panicked between two of them.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// Takes a prompt's state out of the sums. The prompt is done, or has a new state.
    fn leave(&mut self, Seen { done, total, .. }: Seen) {
        if done < total {
            self.done = self.done.saturating_sub(done);
            self.total = self.total.saturating_sub(total);
        }
    }
}

/// Tokens of a span. A token takes longer the more tokens are in front of it, so each span has a speed of its
/// own.
const SPAN: usize = 2_048;
/// Spans with speeds of their own. What lies behind counts as the last.
const SPANS: usize = 32;
/// The smallest batch that counts. In smaller ones a token takes longer.
const TELLING: usize = 64;
/// Tokens of a span after which older ones count half.
const ENOUGH: f64 = 4_096.0;
/// The factor of an estimate after a refusal.
const DOUBT: f64 = 0.8;

/// The speeds at which prompts were evaluated, by the tokens in front.
#[derive(Default)]
struct Speed([Span; SPANS]);

#[derive(Clone, Copy, Default)]
struct Span {
    tokens: f64,
    seconds: f64,
}

impl Speed {
    /// Notes `tokens` evaluated behind `from` others.
    fn add(&mut self, from: usize, tokens: usize, seconds: f64) {
        if tokens < TELLING {
            return;
        }
        if let Some(span) = self.0.get_mut(place(from)) {
            if span.tokens > ENOUGH {
                (span.tokens, span.seconds) = (span.tokens / 2.0, span.seconds / 2.0);
            }
            span.tokens += tokens as f64;
            span.seconds += seconds;
        }
    }

    /// Makes all speeds faster. They may have been measured while others took the machine.
    fn doubt(&mut self) {
        self.0.iter_mut().for_each(|span| span.seconds *= DOUBT);
    }

    /// Seconds for the tokens from one place to another. `None` before anything was measured. A span that was
    /// not measured counts as fast as the next shallower one, or else the next deeper.
    fn seconds(&self, from: usize, to: usize) -> Option<f64> {
        let (mut at, mut sum) = (from, 0.0);
        while at < to {
            let end = if place(at) + 1 < SPANS { to.min((at / SPAN + 1) * SPAN) } else { to };
            sum += (end - at) as f64 * self.seconds_of_token(place(at))?;
            at = end;
        }
        Some(sum)
    }

    fn seconds_of_token(&self, place: usize) -> Option<f64> {
        let (shallower, deeper) = self.0.split_at(SPANS.min(place + 1));
        let near = shallower.iter().rev().chain(deeper).find(|span| span.tokens > 0.0)?;
        Some(near.seconds / near.tokens)
    }
}

fn place(from: usize) -> usize {
    (from / SPAN).min(SPANS - 1)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
    use super::*;

    fn of(prefills: &Arc<Prefills>) -> (Prefilling, Arc<Progress>) {
        let progress = Arc::<Progress>::default();
        (Prefilling::new(prefills.clone(), progress.clone(), "r".into(), Duration::MAX), progress)
    }

    #[test]
    fn a_depth_takes_as_long_as_it_took_or_as_the_next_one_known() {
        let mut speed = Speed::default();
        assert_eq!(speed.seconds(0, 10), None);
        speed.add(0, TELLING - 1, 900.0);
        assert_eq!(speed.seconds(0, 10), None, "too few to tell");
        speed.add(2_048, 100, 1.0);
        speed.add(6_144, 100, 3.0);
        for (from, to, seconds) in
            [(0, 1_000, 10.0), (2_048, 3_048, 10.0), (5_000, 6_000, 10.0), (6_000, 6_244, 1.44 + 3.0)]
        {
            let told = speed.seconds(from, to).unwrap();
            assert!((told - seconds).abs() < 1e-9, "{from} to {to}: {told}");
        }
        assert!((speed.seconds(200_000, 200_100).unwrap() - 3.0).abs() < 1e-9, "behind the last span");
        speed.doubt();
        assert!(
            (speed.seconds(200_000, 200_100).unwrap() - 2.4).abs() < 1e-9,
            "who is refused is let in some time"
        );
    }

    #[test]
    fn what_is_measured_late_counts_for_more() {
        let mut speed = Speed::default();
        (0..100).for_each(|_| speed.add(0, 1_000, 10.0));
        (0..10).for_each(|_| speed.add(0, 1_000, 40.0));
        let token = speed.seconds(0, 1).unwrap();
        assert!(token > 0.035 && token < 0.04, "{token}");
    }

    #[test]
    fn gauges_hold_the_prompts_under_way_and_counters_all_that_was_evaluated() {
        let prefills = Arc::<Prefills>::default();
        let value = |name: &str| {
            let text = prefills.text();
            text.lines().find_map(|line| line.strip_prefix(&format!("{name} "))?.parse::<f64>().ok()).unwrap()
        };
        let gauges = || (value("toolgate_prefill_done_tokens"), value("toolgate_prefill_tokens"));
        let (mut one, progress) = of(&prefills);
        let (mut other, _) = of(&prefills);
        assert!(one.see(100, 1_000), "a prompt begins");
        assert!(!one.see(400, 1_000));
        assert!(other.see(0, 50));
        assert_eq!((progress.get(), gauges()), (Some((400, 1_000)), (400.0, 1_050.0)));
        assert!(!other.see(50, 50));
        assert_eq!(gauges(), (400.0, 1_000.0), "one that is there is not under way");
        assert!(other.see(50, 50), "the same prompt again is another one");
        assert!(one.see(200, 1_000), "one with less of it is another one");
        assert_eq!(gauges(), (200.0, 1_000.0));
        drop(one);
        assert_eq!((progress.get(), gauges()), (None, (0.0, 0.0)));
        assert!((value("toolgate_prefill_evaluated_tokens_total") - 350.0).abs() < 1e-9);
    }

    /// The lines written to it, as one text.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_log_says_how_far_a_long_prompt_has_come() {
        let log = Log::default();
        let writer = log.clone();
        let subscriber =
            tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
        let logged = |pace: Duration| {
            let mut prompt = Prefilling::new(Arc::default(), Arc::default(), "req_7".to_owned(), pace);
            for done in [0, 300, 600, 1_000] {
                prompt.see(done, 1_000);
            }
        };
        tracing::subscriber::with_default(subscriber, || {
            logged(Duration::MAX);
            assert_eq!(log.0.lock().unwrap().len(), 0, "not more often than every so often");
            logged(Duration::ZERO);
        });
        let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "neither its beginning nor its end: {text}");
        assert!(lines[1].contains("INFO") && lines[1].contains("prefill"), "{text}");
        for part in [
            "request_id=req_7",
            "done_tokens=600",
            "prompt_tokens=1000",
            "tokens_per_second=",
            "seconds_left=",
        ] {
            assert!(lines[1].contains(part), "{part} in {text}");
        }
    }
}
