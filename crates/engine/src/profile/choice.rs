//! The choice between tools, as it was fitted for a model: what counts beside the model's own probability of each, in which no word of a
//! language has a part.
//!
//! Invariant: a weight of 0 leaves its number out, and what it costs. The weights order tools that may be called, and let none be called
//! that may not.

use serde::{Deserialize, Serialize};
use toolgate_chat::{Effect, ToolSpec, Transcript};

use crate::TurnRequest;
use crate::profile::decision::is_zero;
use crate::profile::policy::Reached;
use crate::turn::lists::{List, Told};
use crate::turn::weigh::log_odds;

/// What is added to the logarithm of a tool's probability in the choice of the tool that a call is of. It counts where the choice is
/// weighed at all ([`Options::tool_bias`](crate::Options::tool_bias), [`Options::prior_weight`](crate::Options::prior_weight)).
///
/// ```
/// use toolgate_engine::ChoiceWeights;
///
/// // What the model names behind a list is likelier. What was called already is less likely.
/// let choice = ChoiceWeights { next: 0.5, called: -1.0, ..ChoiceWeights::default() };
/// assert_eq!(choice.change, 0.0, "whether a change is asked for has no part in it");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ChoiceWeights {
    /// For the logarithm of the tool's probability behind the list "which function is next" ([`Signals::named`](crate::Signals::named)).
    #[serde(skip_serializing_if = "is_zero")]
    pub next: f64,
    /// For the logarithm of the odds that a change is asked for ([`Signals::change`](crate::Signals::change)): a half for a tool that
    /// changes something, and a half against one that looks.
    #[serde(skip_serializing_if = "is_zero")]
    pub change: f64,
    /// For a tool that the run called already, where none of its last calls failed.
    #[serde(skip_serializing_if = "is_zero")]
    pub called: f64,
}

/// The odds that a change is asked for count up to this, as a logarithm: they are no surer than that.
const MOST_CHANGE: f64 = 2.0;

/// What is known of tools in front of a call, each in their order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolSignals {
    /// The logarithm of each tool's probability behind the beginning of a call.
    pub own: Vec<f64>,
    /// The same where nothing was said.
    pub bias: Vec<f64>,
    /// The same behind the list of requests and the functions that come next. Empty where it was not asked.
    pub named: Vec<f64>,
    /// How likely a change is asked for. 0 where it was not asked, or where the model tells nothing.
    pub change: f64,
}

impl ChoiceWeights {
    /// Whether all are numbers, and none speaks for the contrary of what is told.
    pub(crate) fn is_sound(self) -> bool {
        let Self { next, change, called } = self;
        [next, change, called].into_iter().all(f64::is_finite) && next >= 0.0 && change >= 0.0
    }

    /// What a model tells of tools beside how likely it begins their calls, as far as it counts. `told` asks it a list. Tools that may not
    /// be called are in the list of the next ones, too, as in the fit. That a change is asked for tells nothing where all tools are of one
    /// kind.
    #[doc(hidden)]
    pub fn ask<E>(
        self,
        transcript: &Transcript,
        offered: &[ToolSpec],
        mut told: impl FnMut(&List) -> Result<Told, E>,
    ) -> Result<ToolSignals, E> {
        let mut signals = ToolSignals::default();
        if let Some(list) = List::next(transcript, offered).filter(|_| self.next != 0.0) {
            signals.named = told(&list)?.named(&list, offered);
        }
        let differ = offered.windows(2).any(|pair| matches!(pair, [a, b] if a.effect != b.effect));
        if let Some(list) = List::change(transcript).filter(|_| self.change != 0.0 && differ) {
            signals.change = told(&list)?.p();
        }
        Ok(signals)
    }

    /// What each tool weighs, where this share of the bias is taken off.
    #[doc(hidden)]
    pub fn weigh(
        self,
        told: &ToolSignals,
        tool_bias: f64,
        request: &TurnRequest<'_>,
        offered: &[ToolSpec],
    ) -> Vec<f64> {
        let zeros = || std::iter::repeat(&0.0);
        let calls = request.transcript.calls_of_run();
        let failed = Reached::of(request) == Reached::Failure;
        let was_called = |tool: &ToolSpec| calls.iter().any(|(call, _)| call.name == tool.name.as_str());
        let change = if told.change > 0.0 { log_odds(told.change) } else { 0.0 };
        let change = change.clamp(-MOST_CHANGE, MOST_CHANGE);
        let numbers =
            told.own.iter().zip(told.bias.iter().chain(zeros())).zip(told.named.iter().chain(zeros()));
        let weight = |(tool, ((own, bias), named)): (&ToolSpec, ((&f64, &f64), &f64))| {
            let side = match tool.effect {
                Effect::Changes => 0.5,
                Effect::Reads => -0.5,
                Effect::Unknown => 0.0,
            };
            let called = if !failed && was_called(tool) { self.called } else { 0.0 };
            own - tool_bias * bias + self.next * named + self.change * side * change + called
        };
        offered.iter().zip(numbers).map(weight).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;
    use toolgate_chat::{Message, ToolCall, ToolReply};

    use super::*;
    use crate::Sampling;

    #[test]
    fn what_is_told_speaks_for_tools_and_a_call_that_was_made_against_its_own() {
        let tool = |name: &str, effect| ToolSpec::new(name, "", json!({})).unwrap().with_effect(effect);
        let tools = [tool("see", Effect::Reads), tool("set", Effect::Changes), tool("run", Effect::Unknown)];
        let sampling = Sampling::default();
        let call = ToolCall::new("see", serde_json::Map::new());
        let run = |is_error| {
            let reply = ToolReply { is_error, ..ToolReply::ok(&call, "x") };
            let asked = Transcript::new().with(Message::User("Set it".to_owned()));
            asked.with(Message::calls([call.clone()])).with(Message::Tool(vec![reply]))
        };
        let told = ToolSignals {
            own: vec![-1.0, -2.0, -3.0],
            bias: vec![-1.0, -4.0, -3.0],
            named: vec![-2.0, -0.5, -4.0],
            change: 0.9,
        };
        let weigh = |choice: ChoiceWeights, share, is_error| {
            let run = run(is_error);
            choice.weigh(&told, share, &TurnRequest::new(&run, &tools, &sampling), &tools)
        };
        let none = ChoiceWeights::default();
        assert_eq!(weigh(none, 0.0, false), told.own);
        assert_eq!(
            weigh(none, 1.0, false),
            [0.0, 2.0, 0.0],
            "what it prefers whatever is asked is taken off"
        );
        assert_eq!(weigh(ChoiceWeights { next: 1.0, ..none }, 0.0, false), [-3.0, -2.5, -7.0]);
        let change = weigh(ChoiceWeights { change: 1.0, ..none }, 0.0, false);
        let half = (0.9_f64 / 0.1).ln().min(MOST_CHANGE) / 2.0;
        assert_eq!(change, [-1.0 - half, -2.0 + half, -3.0], "of a command nobody knows");
        let called = ChoiceWeights { called: -5.0, ..none };
        assert_eq!(weigh(called, 0.0, false), [-6.0, -2.0, -3.0]);
        assert_eq!(weigh(called, 0.0, true), told.own, "a call that failed may be made in another way");
        let untold = ToolSignals { own: told.own.clone(), ..ToolSignals::default() };
        let run = run(false);
        let request = TurnRequest::new(&run, &tools, &sampling);
        let all = ChoiceWeights { next: 1.0, change: 1.0, called: 0.0 };
        assert_eq!(
            all.weigh(&untold, 1.0, &request, &tools),
            told.own,
            "what was not asked counts for nothing"
        );
        assert!(all.is_sound() && !ChoiceWeights { next: -1.0, ..none }.is_sound());
    }
}
