//! What small batches cost, as measured so far: how far guessing ahead pays.

/// Times of small batches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Costs {
    /// Seconds of a token by itself; 0 before the first.
    pub(crate) single: f64,
    /// What each further token of a batch costs, as a share of that.
    further: f64,
}

impl Costs {
    /// Before anything was measured: what two cores with AVX2 took for models of 0.1 to 1.5 B weights.
    pub(crate) const UNKNOWN: Self = Self { single: 0.0, further: 0.25 };

    /// Takes note of a batch.
    pub(crate) fn add(&mut self, tokens: usize, seconds: f64) {
        const LATEST: f64 = 0.2;
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

    /// What a further token costs one of `conversations` that are evaluated together, as a share of what one token costs
    /// it then: they share what a batch costs by itself.
    pub(crate) fn further(self, conversations: usize) -> f64 {
        let n = conversations.max(1) as f64;
        n * self.further / (1.0 + (n - 1.0) * self.further)
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
}
