//! Distributions of times, and how `peers` writes them.

use std::time::Duration;

use serde_json::{Value, json};

/// Times in nanoseconds.
#[derive(Default)]
pub(crate) struct Times(Vec<u64>);

impl Times {
    pub(crate) fn push(&mut self, time: Duration) {
        self.0.push(time.as_nanos() as u64);
    }

    /// Takes the lesser of each pair of times of the same steps; both lists are of the same run.
    pub(crate) fn keep_least(&mut self, other: &Self) {
        assert_eq!(self.len(), other.len(), "every round takes the same steps");
        for (one, other) in self.0.iter_mut().zip(&other.0) {
            *one = (*one).min(*other);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Microseconds in all.
    pub(crate) fn total(&self) -> f64 {
        self.0.iter().sum::<u64>() as f64 / 1e3
    }

    /// Mean, median, 90th and 99th percentile and maximum in microseconds, and their number.
    pub(crate) fn summary(&mut self) -> Value {
        self.0.sort_unstable();
        let at = |per_mille: usize| {
            let index = self.0.len().saturating_sub(1) * per_mille / 1000;
            self.0.get(index).map_or(0.0, |&time| time as f64 / 1e3)
        };
        let mean = self.total() / self.len().max(1) as f64;
        let round = |value: f64| (value * 1e3).round() / 1e3;
        json!({
            "mean": round(mean), "p50": round(at(500)), "p90": round(at(900)), "p99": round(at(990)),
            "max": round(at(1000)), "n": self.len(),
        })
    }
}
