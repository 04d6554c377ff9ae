//! The measured costs of small batches. They decide how long a draft pays.

/// Times of small batches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Costs {
    /// Seconds of a token by itself; 0 before the first.
    single: f64,
    /// The cost of each further token of a batch, as a share of that.
    further: f64,
    shared: Line,
}

/// The weight of the latest batch.
const LATEST: f64 = 0.2;

/// The cost of each further token of a batch before any measurement, as a share of a single one. Two cores with AVX2 took
/// this for models of 0.1 to 1.5 B weights.
const USUAL: f64 = 0.25;

impl Costs {
    /// The costs before any measurement.
    pub(crate) const UNKNOWN: Self = Self { single: 0.0, further: USUAL, shared: Line::UNKNOWN };

    /// Adds the time of a batch with a part of one slot.
    pub(crate) fn add(&mut self, tokens: usize, seconds: f64) {
        match tokens {
            0 => {}
            1 if self.single == 0.0 => self.single = seconds,
            1 => self.single += LATEST * (seconds - self.single),
            _ if self.single > 0.0 => {
                let share = (seconds / self.single - 1.0) / (tokens - 1) as f64;
                self.further += LATEST * (share.clamp(0.02, 1.0) - self.further);
            }
            _ => {}
        }
    }

    /// Adds the time of a batch with parts of several slots.
    pub(crate) fn add_shared(&mut self, tokens: usize, seconds: f64) {
        self.shared.add(tokens as f64, seconds);
    }

    /// The cost of a further token for one of `slots` slots, as a share of the cost of its first token in the same batch. The
    /// slots share the fixed cost of a batch. Shared batches are wide, and other kernels make a token cheaper there than in
    /// narrow ones. So each kind has its own figures.
    pub(crate) fn further(&self, slots: usize) -> f64 {
        let n = slots.max(1) as f64;
        let further = match self.shared.further() {
            Some(further) if slots > 1 => further,
            _ => self.further,
        };
        n * further / (1.0 + (n - 1.0) * further)
    }

    /// Seconds of a batch that several slots share; of a single token before the first such batch.
    pub(crate) fn batch(&self) -> f64 {
        if self.shared.batches > 0 { self.shared.seconds } else { self.single }
    }
}

/// Seconds of a batch by its tokens: the line through the latest ones.
#[derive(Clone, Copy, Debug)]
struct Line {
    batches: u32,
    /// Means: tokens, seconds, and how far the former scatter, and the two together.
    tokens: f64,
    seconds: f64,
    scatter: f64,
    together: f64,
}

impl Line {
    const UNKNOWN: Self = Self { batches: 0, tokens: 0.0, seconds: 0.0, scatter: 0.0, together: 0.0 };
    /// Batches before the line says anything.
    const FEWEST: u32 = 8;

    fn add(&mut self, tokens: f64, seconds: f64) {
        self.batches = self.batches.saturating_add(1);
        // The first ones count alike, whose mean is all there is.
        let latest = (1.0 / f64::from(self.batches)).max(LATEST / 4.0);
        let off = tokens - self.tokens;
        self.tokens += latest * off;
        self.scatter += latest * (off * (tokens - self.tokens) - self.scatter);
        let late = seconds - self.seconds;
        self.seconds += latest * late;
        self.together += latest * (off * (seconds - self.seconds) - self.together);
    }

    /// What a further token costs, as a share of what a batch of one would; none where nothing tells.
    fn further(&self) -> Option<f64> {
        if self.batches < Self::FEWEST || self.scatter < 1.0 {
            return None;
        }
        let token = self.together / self.scatter;
        let one = self.seconds - (self.tokens - 1.0) * token;
        // A line through scattered points may well say that a token is free, or all there is to pay.
        Some(if one > token { (token / one).max(0.02) } else { 1.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_further_token_costs_more_where_others_share_the_batch() {
        let mut costs = Costs::UNKNOWN;
        costs.add(1, 0.020);
        for _ in 0..50 {
            costs.add(5, 0.040);
        }
        assert!((costs.further(1) - 0.25).abs() < 1e-3);
        // Of four tokens that cost 35 ms together each costs 8.75 ms, and one more 5 ms.
        assert!((costs.further(4) - 5.0 / 8.75).abs() < 1e-2);
    }

    #[test]
    fn what_shared_batches_take_counts_once_there_are_some() {
        let mut costs = Costs::UNKNOWN;
        costs.add(1, 0.080);
        costs.add(4, 0.180);
        let alone = costs.further(1);
        for tokens in (4..=24).cycle().take(200) {
            costs.add_shared(tokens, 0.200 + 0.005 * tokens as f64);
        }
        // Of four tokens that cost 220 ms together each costs 55 ms, and one more 5 ms.
        let further = costs.further(4);
        assert!((further - 5.0 / 55.0).abs() < 1e-2, "{further}");
        assert!((costs.further(1) - alone).abs() < f64::EPSILON, "nothing of one by itself");
        assert!((costs.batch() - 0.270).abs() < 0.03);
    }

    #[test]
    fn batches_of_one_length_say_nothing_of_a_further_token() {
        let mut costs = Costs::UNKNOWN;
        let before = costs.further(4);
        (0..50).for_each(|_| costs.add_shared(16, 0.300));
        assert!((costs.further(4) - before).abs() < f64::EPSILON);
    }
}
