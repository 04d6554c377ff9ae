//! The server's metrics, and their text in the Prometheus form.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};

/// Counters since the start.
#[derive(Default)]
pub(super) struct Metrics(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    /// Answered requests, by route and status.
    requests: BTreeMap<(&'static str, u16), u64>,
    /// Ended turns, by the kind of their end.
    turns: BTreeMap<&'static str, u64>,
    prompt_tokens: u64,
    cached_tokens: u64,
    completion_tokens: u64,
    calls: u64,
    seconds: f64,
    buckets: [u64; BOUNDS.len()],
}

/// Upper bounds of the histogram of turns, in seconds.
const BOUNDS: [f64; 8] = [0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0];

/// A turn that has ended.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ended {
    /// `stop`, `tool_calls`, `length`, `cancelled` or `error`.
    pub(super) how: &'static str,
    pub(super) seconds: f64,
    pub(super) prompt_tokens: usize,
    pub(super) cached_tokens: usize,
    pub(super) completion_tokens: usize,
    pub(super) calls: usize,
}

impl Metrics {
    pub(super) fn request(&self, route: &'static str, status: u16) {
        *self.counts().requests.entry((route, status)).or_default() += 1;
    }

    pub(super) fn turn(&self, ended: &Ended) {
        let mut counts = self.counts();
        *counts.turns.entry(ended.how).or_default() += 1;
        counts.prompt_tokens += ended.prompt_tokens as u64;
        counts.cached_tokens += ended.cached_tokens as u64;
        counts.completion_tokens += ended.completion_tokens as u64;
        counts.calls += ended.calls as u64;
        counts.seconds += ended.seconds;
        let inside = BOUNDS.iter().zip(&mut counts.buckets).filter(|(bound, _)| ended.seconds <= **bound);
        inside.for_each(|(_, bucket)| *bucket += 1);
    }

    /// The mean of a turn's seconds. 1 before the first.
    pub(super) fn mean_turn_seconds(&self) -> f64 {
        let counts = self.counts();
        let turns: u64 = counts.turns.values().sum();
        if turns == 0 { 1.0 } else { counts.seconds / turns as f64 }
    }

    /// The text of all metrics. `running` are the turns being made, `waiting` the requests that wait.
    pub(super) fn text(&self, running: usize, waiting: usize) -> String {
        let counts = self.counts();
        let mut text = Text::default();
        text.family("toolgate_requests_total", "counter", "Answered requests.");
        for ((route, status), count) in &counts.requests {
            text.value(
                "toolgate_requests_total",
                &format!("{{route=\"{route}\",status=\"{status}\"}}"),
                count,
            );
        }
        text.family("toolgate_turns_total", "counter", "Turns of the model, by how they ended.");
        for (how, count) in &counts.turns {
            text.value("toolgate_turns_total", &format!("{{finish=\"{how}\"}}"), count);
        }
        for (name, help, value) in [
            ("toolgate_prompt_tokens_total", "Tokens of prompts.", counts.prompt_tokens),
            ("toolgate_cached_tokens_total", "Of these, tokens found in the cache.", counts.cached_tokens),
            ("toolgate_completion_tokens_total", "Tokens written.", counts.completion_tokens),
            ("toolgate_calls_total", "Tool calls written.", counts.calls),
        ] {
            text.family(name, "counter", help);
            text.value(name, "", value);
        }
        for (name, help, value) in [
            ("toolgate_turns_running", "Turns being made.", running),
            ("toolgate_requests_waiting", "Requests that wait for their turn.", waiting),
        ] {
            text.family(name, "gauge", help);
            text.value(name, "", value);
        }
        text.family("toolgate_turn_seconds", "histogram", "How long turns took.");
        let turns: u64 = counts.turns.values().sum();
        for (bound, count) in BOUNDS.iter().zip(&counts.buckets) {
            text.value("toolgate_turn_seconds_bucket", &format!("{{le=\"{bound}\"}}"), count);
        }
        text.value("toolgate_turn_seconds_bucket", "{le=\"+Inf\"}", turns);
        text.value("toolgate_turn_seconds_sum", "", counts.seconds);
        text.value("toolgate_turn_seconds_count", "", turns);
        text.0
    }

    fn counts(&self) -> std::sync::MutexGuard<'_, Counts> {
        // Each counter is true by itself, even if a thread panicked between two of them.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A text in the Prometheus form.
#[derive(Default)]
pub(super) struct Text(String);

impl From<Text> for String {
    fn from(text: Text) -> Self {
        text.0
    }
}

impl Text {
    pub(super) fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    pub(super) fn value(&mut self, name: &str, labels: &str, value: impl std::fmt::Display) {
        let _ = writeln!(self.0, "{name}{labels} {value}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_written_as_prometheus_reads_them() {
        let metrics = Metrics::default();
        metrics.request("/v1/messages", 200);
        metrics.turn(&Ended { how: "stop", seconds: 0.7, prompt_tokens: 9, ..Ended::default() });
        metrics.turn(&Ended { how: "stop", seconds: 1.3, prompt_tokens: 1, ..Ended::default() });
        let text = metrics.text(1, 2);
        for line in [
            "toolgate_requests_total{route=\"/v1/messages\",status=\"200\"} 1",
            "toolgate_turns_total{finish=\"stop\"} 2",
            "toolgate_prompt_tokens_total 10",
            "toolgate_turn_seconds_bucket{le=\"0.5\"} 0",
            "toolgate_turn_seconds_bucket{le=\"1\"} 1",
            "toolgate_turn_seconds_bucket{le=\"+Inf\"} 2",
            "toolgate_turn_seconds_sum 2",
            "toolgate_turns_running 1",
            "toolgate_requests_waiting 2",
        ] {
            assert!(text.lines().any(|other| other == line), "{line} in\n{text}");
        }
        assert!((metrics.mean_turn_seconds() - 1.0).abs() < 1e-9);
    }
}
