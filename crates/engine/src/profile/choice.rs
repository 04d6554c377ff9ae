//! The choice between tools, as it was fitted for a model: what counts beside the model's own probability of each, in which no word of a
//! language has a part.
//!
//! Invariant: a weight of 0 leaves its number out, and what it costs. The weights order tools that may be called, and let none be called
//! that may not.

use serde::{Deserialize, Serialize};
use toolgate_chat::{Effect, ToolSpec};

use crate::TurnRequest;
use crate::profile::decision::is_zero;
use crate::profile::policy::Reached;
use crate::turn::lists::{List, Told};
use crate::turn::weigh::log_odds;

/// What is added to the logarithm of a tool's probability in the choice of the tool that a call is of.
///
/// It counts where tools are weighed at all ([`Options::tool_bias`](crate::Options::tool_bias),
/// [`Options::prior_weight`](crate::Options::prior_weight)). Where the caller tells what speaks for tools ([`TurnRequest::prior`]), it
/// counts for nothing.
///
/// ```
/// use toolgate_engine::{ChoiceModel, ChoiceWeights};
///
/// // Behind a result the model's own choice counts less, and what was called already is less likely.
/// let after = ChoiceWeights { own: 0.2, next: 0.5, called: -1.0, ..ChoiceWeights::default() };
/// let choice = ChoiceModel { first: None, after: Some(after) };
/// assert!(choice.first.is_none(), "before a first call the model's own choice counts alone");
/// assert_eq!(ChoiceWeights::default().own, 1.0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ChoiceModel {
    /// Before a first call, and behind one that failed: what was tried may be tried in another way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<ChoiceWeights>,
    /// Behind calls that did not fail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<ChoiceWeights>,
}

/// What each number weighs in the choice.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ChoiceWeights {
    /// For the logarithm of the tool's probability behind the beginning of a call ([`Signals::tools`](crate::Signals::tools)), less the
    /// share of the bias that is taken off. Behind a result a small model is almost sure of the tool that it called last.
    pub own: f64,
    /// For the logarithm of the tool's probability behind the list "which function is next" ([`Signals::named`](crate::Signals::named)).
    #[serde(skip_serializing_if = "is_zero")]
    pub next: f64,
    /// For the logarithm of the odds that a change is asked for ([`Signals::change`](crate::Signals::change)): a half for a tool that
    /// changes something, and a half against one that looks.
    #[serde(skip_serializing_if = "is_zero")]
    pub change: f64,
    /// What is added to that, whatever the odds are: changes may be likelier or rarer than the model tells.
    #[serde(skip_serializing_if = "is_zero")]
    pub change_bias: f64,
    /// For a tool that the run called already. It counts for nothing while the request names what no call has taken up
    /// ([`TurnRequest::pending`]): the tool may take that, too, as the second of two files. Behind a failure the one of `first` counts,
    /// which `certify` leaves at 0.
    #[serde(skip_serializing_if = "is_zero")]
    pub called: f64,
}

impl Default for ChoiceWeights {
    /// The model's own choice alone.
    fn default() -> Self {
        Self { own: 1.0, next: 0.0, change: 0.0, change_bias: 0.0, called: 0.0 }
    }
}

/// The odds that a change is asked for count up to this, as a logarithm: they are no surer than that.
const MOST_CHANGE: f64 = 4.0;

/// The logarithm of the odds that a change is asked for, as far as it counts; none where a probability of 0 says that nothing is told.
fn change_odds(p: f64) -> Option<f64> {
    (p > 0.0).then(|| log_odds(p).clamp(-MOST_CHANGE, MOST_CHANGE))
}

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

/// The numbers of a tool, in the order of the weights.
#[doc(hidden)]
pub const CHOICE_NUMBERS: usize = 5;

impl ChoiceModel {
    /// Whether all are numbers, and none speaks for the contrary of what is told.
    pub(crate) fn is_sound(self) -> bool {
        self.first.into_iter().chain(self.after).all(|weights| {
            let told = [weights.own, weights.next, weights.change];
            weights.plain().into_iter().all(f64::is_finite) && told.into_iter().all(|weight| weight >= 0.0)
        })
    }

    /// The weights that count in a turn. They were fitted where nothing else speaks for tools: beside a caller's prior the model's own
    /// choice counts.
    fn of(self, request: &TurnRequest<'_>) -> ChoiceWeights {
        if request.prior.iter().any(|prior| *prior != 0.0) {
            return ChoiceWeights::default();
        }
        let weights = match Reached::of(request) {
            Reached::Request | Reached::Failure => self.first,
            Reached::Result | Reached::Change => self.after,
        };
        weights.unwrap_or_default()
    }

    /// What a model tells of tools beside how likely it begins their calls, as far as it counts. `told` asks it a list. Tools that may not
    /// be called are in the list of the next ones, too, as in the fit. That a change is asked for tells nothing where all tools are of one
    /// kind.
    #[doc(hidden)]
    pub fn ask<E>(
        self,
        request: &TurnRequest<'_>,
        offered: &[ToolSpec],
        mut told: impl FnMut(&List) -> Result<Told, E>,
    ) -> Result<ToolSignals, E> {
        let (weights, transcript) = (self.of(request), request.transcript);
        let mut signals = ToolSignals::default();
        if let Some(list) = List::next(transcript, offered).filter(|_| weights.next != 0.0) {
            signals.named = told(&list)?.named(&list, offered);
        }
        let weighs_change = weights.change != 0.0 || weights.change_bias != 0.0;
        let differ = offered.windows(2).any(|pair| matches!(pair, [a, b] if a.effect != b.effect));
        if let Some(list) = List::change(transcript).filter(|_| weighs_change && differ) {
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
        let weights = self.of(request);
        told.numbers(tool_bias, request, offered).iter().map(|numbers| weights.sum(numbers)).collect()
    }
}

impl ChoiceWeights {
    /// The weights, in the order of the numbers.
    #[doc(hidden)]
    pub fn plain(self) -> [f64; CHOICE_NUMBERS] {
        [self.own, self.next, self.change, self.change_bias, self.called]
    }

    /// Those of these weights.
    #[doc(hidden)]
    pub fn from_plain([own, next, change, change_bias, called]: [f64; CHOICE_NUMBERS]) -> Self {
        Self { own, next, change, change_bias, called }
    }

    /// What a tool weighs that has these numbers.
    fn sum(self, numbers: &[f64; CHOICE_NUMBERS]) -> f64 {
        self.plain().iter().zip(numbers).map(|(weight, number)| weight * number).sum()
    }
}

impl ToolSignals {
    /// The numbers of each tool, in the order of the weights, where this share of the bias is taken off.
    #[doc(hidden)]
    pub fn numbers(
        &self,
        tool_bias: f64,
        request: &TurnRequest<'_>,
        offered: &[ToolSpec],
    ) -> Vec<[f64; CHOICE_NUMBERS]> {
        let zeros = || std::iter::repeat(&0.0);
        let calls = request.transcript.calls_of_run();
        let was_called = |tool: &ToolSpec| calls.iter().any(|(call, _)| call.name == tool.name.as_str());
        let (change, is_told) = change_odds(self.change).map_or((0.0, 0.0), |odds| (odds, 1.0));
        let told = self.own.iter().zip(self.bias.iter().chain(zeros())).zip(self.named.iter().chain(zeros()));
        let of = |(tool, ((own, bias), named)): (&ToolSpec, ((&f64, &f64), &f64))| {
            let side = match tool.effect {
                Effect::Changes => 0.5,
                Effect::Reads => -0.5,
                Effect::Unknown => 0.0,
            };
            let called = f64::from(u8::from(!request.pending && was_called(tool)));
            [own - tool_bias * bias, *named, side * change, side * is_told, called]
        };
        offered.iter().zip(told).map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;
    use toolgate_chat::{Message, ToolCall, ToolReply, Transcript};

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
        let none = ChoiceWeights::default();
        let weigh_told = |told: &ToolSignals, choice: ChoiceModel, share, is_error| {
            let run = run(is_error);
            choice.weigh(told, share, &TurnRequest::new(&run, &tools, &sampling), &tools)
        };
        let after = |weights| ChoiceModel { first: None, after: Some(weights) };
        let weigh = |weights, share| weigh_told(&told, after(weights), share, false);
        assert_eq!(weigh(none, 0.0), told.own);
        assert_eq!(weigh(none, 1.0), [0.0, 2.0, 0.0], "what it prefers whatever is asked is taken off");
        assert_eq!(weigh(ChoiceWeights { own: 0.5, ..none }, 0.0), [-0.5, -1.0, -1.5]);
        assert_eq!(weigh(ChoiceWeights { next: 1.0, ..none }, 0.0), [-3.0, -2.5, -7.0]);
        let half = (0.9_f64 / 0.1).ln() / 2.0;
        let change = weigh(ChoiceWeights { change: 1.0, ..none }, 0.0);
        assert_eq!(change, [-1.0 - half, -2.0 + half, -3.0], "of a command nobody knows");
        let biased = weigh(ChoiceWeights { change_bias: 3.0, ..none }, 0.0);
        assert_eq!(biased, [-2.5, -0.5, -3.0]);
        let called = after(ChoiceWeights { called: -5.0, ..none });
        assert_eq!(weigh_told(&told, called, 0.0, false), [-6.0, -2.0, -3.0]);
        assert_eq!(weigh_told(&told, called, 0.0, true), told.own, "what failed may be tried in another way");
        let another = run(false);
        let another = TurnRequest::new(&another, &tools, &sampling).pending(true);
        assert_eq!(called.weigh(&told, 0.0, &another, &tools), told.own, "what is named may be of its kind");
        let led = run(false);
        let led = TurnRequest::new(&led, &tools, &sampling).prior(&[0.0, 1.0, 0.0]);
        assert_eq!(called.weigh(&told, 0.0, &led, &tools), told.own, "something else speaks for a tool");
        let asked = |request: &TurnRequest<'_>| {
            let told = |_: &List| Err("a list is asked");
            after(ChoiceWeights { next: 1.0, ..none }).ask(request, &tools, told)
        };
        assert_eq!((asked(&led), asked(&another)), (Ok(ToolSignals::default()), Err("a list is asked")));
        let untold = ToolSignals { own: told.own.clone(), ..ToolSignals::default() };
        let all = after(ChoiceWeights { next: 1.0, change: 1.0, change_bias: 1.0, ..none });
        assert_eq!(weigh_told(&untold, all, 1.0, false), told.own, "what was not asked counts for nothing");
        assert!(all.is_sound() && !after(ChoiceWeights { next: -1.0, ..none }).is_sound());
        let first = ChoiceModel { first: Some(ChoiceWeights { own: f64::NAN, ..none }), after: None };
        assert!(!first.is_sound());
    }
}
