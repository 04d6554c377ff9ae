//! What decides between call and answer, measured: requests in ten languages over 22 sets of tools, what a model and the texts tell of
//! each, and how well that parts those that want a call from those that do not.
//!
//! The requests are this project's own (`data/decision`), apart from all task sets. Sets of tools to fit with are apart from those to
//! check with, so that a figure holds for tools that were never seen.

mod fit;
mod overlap;
mod requests;

pub(crate) use fit::{Area, Weights, area};
pub(crate) use overlap::Overlap;
pub(crate) use requests::{Data, Split, State, Wanted};

/// What is known of a request in front of a turn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Features {
    /// The log-odds of a call, by the model's own probability.
    pub(crate) call: f64,
    /// The same for requests without content, with the same tools.
    pub(crate) free: f64,
    /// The share of the request's n-grams of letters that the tools have, in names and descriptions, weighed by rarity.
    pub(crate) overlap: f64,
    /// What the run has come to.
    pub(crate) state: State,
}

/// A group of features, which a fit takes or leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    /// The log-odds of a call.
    Call,
    /// Those without content.
    Free,
    /// The overlap.
    Overlap,
    /// The state of the run.
    State,
}

impl Features {
    /// The numbers of these groups.
    pub(crate) fn of(&self, groups: &[Group]) -> Vec<f64> {
        let mut numbers = Vec::new();
        for group in groups {
            match group {
                Group::Call => numbers.push(self.call),
                Group::Free => numbers.push(self.free),
                Group::Overlap => numbers.push(self.overlap),
                Group::State => {
                    let others = [State::AfterSuccess, State::AfterFailure, State::AfterChange];
                    numbers.extend(others.map(|state| f64::from(u8::from(self.state == state))));
                }
            }
        }
        numbers
    }
}

/// The logarithm of the odds of a probability; one of 0 or 1 counts as almost that.
pub(crate) fn log_odds(p: f64) -> f64 {
    let p = p.clamp(1e-9, 1.0 - 1e-9);
    (p / (1.0 - p)).ln()
}
