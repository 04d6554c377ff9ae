//! What decides between call and answer, measured: requests in ten languages over 46 sets of tools, what a model and the texts tell of
//! each, and how well that parts those that want a call from those that do not.
//!
//! The requests are this project's own (`data/decision`), apart from all task sets. Sets of tools to fit with are apart from those to
//! check with, so that a figure holds for tools that were never seen.

mod asking;
mod choose;
mod fit;
mod overlap;
mod requests;

use toolgate_engine::Signals;

pub(crate) use asking::{ask_all, signals};
pub(crate) use choose::{Alternative, Held, fit_choice};
pub(crate) use fit::{Area, Start, Weights, area, right};
pub(crate) use requests::{Data, Split, State, Wanted};

/// A request, and what is known of it in front of a turn.
#[derive(Clone, Debug)]
pub(crate) struct Case<'d> {
    pub(crate) wanted: &'d Wanted,
    /// What the model tells of it.
    pub(crate) signals: Signals,
    /// The share of the request's n-grams of letters that the tools have, in names and descriptions, weighed by rarity.
    pub(crate) overlap: f64,
}

/// A number of a case, which a fit takes or leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Number {
    /// The log-odds of a call.
    Call,
    /// Those where nothing was said.
    Free,
    /// That the request needs the user's own things, told behind a list.
    Live,
    /// That some tool is called next, told behind a list.
    Next,
    /// The same of the request by itself, before its calls.
    Asked,
    /// How many values of its call the model would make up.
    Invented,
    /// The overlap.
    Overlap,
    /// Whether the last calls failed.
    Failed,
    /// Whether something was changed.
    Changed,
}

impl Number {
    /// Of a case.
    pub(crate) fn of(self, case: &Case<'_>) -> f64 {
        let is = |state| f64::from(u8::from(case.wanted.state == state));
        match self {
            Self::Call => case.signals.call,
            Self::Free => case.signals.free,
            Self::Live => case.signals.live,
            Self::Next => case.signals.next,
            Self::Asked => case.signals.asked,
            Self::Invented => case.signals.invented,
            Self::Overlap => case.overlap,
            Self::Failed => is(State::AfterFailure),
            Self::Changed => is(State::AfterChange),
        }
    }
}

/// These numbers of a case, and whether it wants a call.
pub(crate) fn row(case: &Case<'_>, numbers: &[Number]) -> (Vec<f64>, bool) {
    (numbers.iter().map(|number| number.of(case)).collect(), case.wanted.call)
}
