//! What decides between call and answer, measured: requests in ten languages over 22 sets of tools, what a model and the texts tell of
//! each, and how well that parts those that want a call from those that do not.
//!
//! The requests are this project's own (`data/decision`), apart from all task sets. Sets of tools to fit with are apart from those to
//! check with, so that a figure holds for tools that were never seen.

mod fit;
mod measure;
mod overlap;
mod requests;

use toolgate_engine::Signals;

pub(crate) use fit::{Area, Start, Weights, area};
pub(crate) use measure::{measure, signals};
pub(crate) use requests::{Data, Split, State, Wanted};

/// What is known of a request in front of a turn.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Features {
    /// What the model tells of it.
    pub(crate) signals: Signals,
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
    /// That the request needs the user's own things, told behind a list.
    Live,
    /// That some tool is called next, told behind a list.
    Next,
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
                Group::Call => numbers.push(self.signals.call),
                Group::Free => numbers.push(self.signals.free),
                Group::Live => numbers.push(self.signals.live),
                Group::Next => numbers.push(self.signals.next),
                Group::Overlap => numbers.push(self.overlap),
                Group::State => {
                    let others = [State::AfterFailure, State::AfterChange];
                    numbers.extend(others.map(|state| f64::from(u8::from(self.state == state))));
                }
            }
        }
        numbers
    }
}
