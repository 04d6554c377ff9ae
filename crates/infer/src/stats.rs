//! The costs of a run: counts of tokens and evaluations, and time by stage. Plain numbers that add up.

use std::ops::AddAssign;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Prefill;

/// Counts and times of one turn, or summed over a run. Its JSON form is the `stats` object of `run --json`.
///
/// ```
/// use toolgate_infer::{Prefill, Stats};
/// let mut run = Stats::default();
/// run += &Prefill { prompt_tokens: 100, cached_tokens: 90, evaluated_tokens: 10, ms: 12.0 };
/// run += &Stats { sampled_tokens: 5, forced_tokens: 20, ..Stats::default() };
/// assert_eq!((run.prompt_tokens, run.cached_tokens, run.written()), (100, 90, 25));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    /// Tokens of the prompts.
    pub prompt_tokens: usize,
    /// Of these, tokens found in the cache.
    pub cached_tokens: usize,
    /// Tokens drawn from the model's distribution, but for the accepted ones.
    pub sampled_tokens: usize,
    /// Forced tokens: the grammar left no choice.
    pub forced_tokens: usize,
    /// Tokens evaluated before they were taken: guesses, and those that were looked past.
    pub drafted_tokens: usize,
    /// Of these, tokens the model confirmed.
    pub accepted_tokens: usize,
    /// Evaluations of the model after the prompts.
    pub decode_calls: usize,
    /// Of the written tokens, those of reasoning.
    #[serde(default)]
    pub reasoning_tokens: usize,
    /// Constrained retries: values written again, since they failed the check of a whole value.
    #[serde(default)]
    pub retries: usize,
    /// Time by stage.
    pub ms: Milliseconds,
    /// The probability that the constraint removed.
    pub constraint_pressure: Pressure,
}

impl Stats {
    /// Written tokens: drawn, drafted and confirmed, or forced.
    pub fn written(&self) -> usize {
        self.sampled_tokens + self.accepted_tokens + self.forced_tokens
    }
}

/// Time by stage, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Milliseconds {
    /// Loading the model.
    pub load: f64,
    /// Evaluating prompts.
    pub prefill: f64,
    /// Evaluating and drawing tokens, masks not counted.
    pub decode: f64,
    /// Asking the constraint.
    pub mask: f64,
    /// Running tools.
    pub tools: f64,
    /// The wall time of all of it.
    pub total: f64,
}

/// Shares of probability removed by masks, over the positions where a mask was applied.
///
/// ```
/// use toolgate_infer::Pressure;
/// let mut pressure = Pressure::default();
/// pressure.record(0.25);
/// pressure.record(0.75);
/// assert_eq!((pressure.mean, pressure.max, pressure.refusals), (0.5, 0.75, 2));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pressure {
    /// Mean share; 0 where no mask was applied.
    pub mean: f64,
    /// Largest share.
    pub max: f64,
    /// Positions where the first draw was refused and a mask applied.
    pub refusals: usize,
}

impl Pressure {
    /// Counts one refusal, which removed `share` of the probability.
    pub fn record(&mut self, share: f64) {
        *self += Self { mean: share, max: share, refusals: 1 };
    }
}

impl AddAssign for Pressure {
    fn add_assign(&mut self, other: Self) {
        let refusals = self.refusals + other.refusals;
        if refusals > 0 {
            let sum = self.mean * self.refusals as f64 + other.mean * other.refusals as f64;
            self.mean = sum / refusals as f64;
        }
        self.max = self.max.max(other.max);
        self.refusals = refusals;
    }
}

impl AddAssign for Milliseconds {
    fn add_assign(&mut self, other: Self) {
        self.load += other.load;
        self.prefill += other.prefill;
        self.decode += other.decode;
        self.mask += other.mask;
        self.tools += other.tools;
        self.total += other.total;
    }
}

impl AddAssign<&Self> for Stats {
    fn add_assign(&mut self, other: &Self) {
        self.prompt_tokens += other.prompt_tokens;
        self.cached_tokens += other.cached_tokens;
        self.sampled_tokens += other.sampled_tokens;
        self.forced_tokens += other.forced_tokens;
        self.drafted_tokens += other.drafted_tokens;
        self.accepted_tokens += other.accepted_tokens;
        self.decode_calls += other.decode_calls;
        self.reasoning_tokens += other.reasoning_tokens;
        self.retries += other.retries;
        self.ms += other.ms;
        self.constraint_pressure += other.constraint_pressure;
    }
}

impl AddAssign<&Prefill> for Stats {
    fn add_assign(&mut self, prefill: &Prefill) {
        self.prompt_tokens += prefill.prompt_tokens;
        self.cached_tokens += prefill.cached_tokens;
        self.ms.prefill += prefill.ms;
        self.ms.total += prefill.ms;
    }
}

/// A duration as fractional milliseconds.
pub(crate) fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pressure_sums_to_the_mean_of_all_refusals() {
        let mut left = Pressure::default();
        left.record(0.2);
        left.record(0.4);
        let mut right = Pressure::default();
        right.record(0.9);
        left += right;
        assert!((left.mean - 0.5).abs() < 1e-12 && (left.max - 0.9).abs() < 1e-12, "{left:?}");
        assert_eq!(left.refusals, 3);
        let before = left;
        left += Pressure::default();
        assert_eq!(left, before, "adding nothing changes nothing");
    }
}
