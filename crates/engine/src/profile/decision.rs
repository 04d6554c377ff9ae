//! A decision between call and answer that was fitted: a logistic regression over numbers in which no word of a language has a part.
//!
//! Invariant: what it comes to is a threshold for the probability of a call, so that all that goes by thresholds goes by it.

use serde::{Deserialize, Serialize};
use toolgate_chat::Effect;

use crate::profile::policy::{NEVER, Reached, Thresholds};
use crate::turn::weigh::logistic;
use crate::{Error, TurnRequest};

/// When a turn is a call, by weights that were fitted for a model ([`Signals`] are what they weigh).
///
/// ```
/// use toolgate_engine::{DecisionModel, DecisionWeights};
///
/// // What the model tells of the request itself counts twice as much as whether it opens a call.
/// let first = DecisionWeights { bias: 1.0, call: 0.5, live: 1.0, ..DecisionWeights::default() };
/// let decision = DecisionModel { first: Some(first), after: None };
/// assert!(decision.after.is_none(), "behind results the thresholds of the profile count");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DecisionModel {
    /// Before any call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<DecisionWeights>,
    /// Behind the result of a call that did not fail: whether the run goes on. None: the profile's thresholds count. Behind a failure
    /// they always do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<DecisionWeights>,
}

/// What each number adds to the logarithm of the odds that a call is wanted. A weight of 0 leaves its number out, and what it
/// costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DecisionWeights {
    /// Whatever the numbers are.
    pub bias: f64,
    /// For [`Signals::call`], not below 0.
    #[serde(skip_serializing_if = "is_zero")]
    pub call: f64,
    /// For [`Signals::free`].
    #[serde(skip_serializing_if = "is_zero")]
    pub free: f64,
    /// For [`Signals::live`].
    #[serde(skip_serializing_if = "is_zero")]
    pub live: f64,
    /// For [`Signals::next`].
    #[serde(skip_serializing_if = "is_zero")]
    pub next: f64,
    /// For [`Signals::asked`].
    #[serde(skip_serializing_if = "is_zero")]
    pub asked: f64,
    /// For [`Signals::invented`], not above 0. It counts before any call, where the call weighs something, too.
    #[serde(skip_serializing_if = "is_zero")]
    pub invented: f64,
    /// After a call that changed something.
    #[serde(skip_serializing_if = "is_zero")]
    pub changed: f64,
}

pub(super) fn is_zero(weight: &f64) -> bool {
    *weight == 0.0
}

/// What a model tells in front of a turn: logarithms of odds, if nothing else is said.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Signals {
    /// Of a call, by the model's own probability of opening one.
    pub call: f64,
    /// Of a call in conversations that say nothing, with the same tools (contextual calibration; Zhao et al. 2021, "Calibrate
    /// Before Use").
    pub free: f64,
    /// That the request needs the user's own things, told behind a list of others.
    pub live: f64,
    /// That some tool is called next, rather than none, told behind a list of others.
    pub next: f64,
    /// The same of the request by itself, before its calls: so likely the model goes on with these tools whatever they gave back.
    pub asked: f64,
    /// How many values of the call that it would write are made up, as far as can be expected. Each counts by the share of its words that
    /// nobody has said, times the probability of another value. At most 5 count.
    pub invented: f64,
    /// That the request asks for a change; what [`Thresholds::changing`] is held against, as a probability.
    pub change: f64,
    /// How likely each tool is behind the beginning of a call: logarithms of probability.
    pub tools: Vec<f64>,
    /// How likely the same tools are there where nothing was said.
    pub bias: Vec<f64>,
    /// How likely they are behind the list that tells [`Signals::next`], where that is asked for.
    pub named: Vec<f64>,
}

/// One of [`Signals`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Signal {
    /// [`Signals::call`].
    Call,
    /// [`Signals::free`].
    Free,
    /// [`Signals::live`].
    Live,
    /// [`Signals::next`].
    Next,
    /// [`Signals::asked`].
    Asked,
    /// [`Signals::invented`].
    Invented,
    /// [`Signals::change`].
    Change,
    /// [`Signals::tools`] and [`Signals::bias`].
    Tools,
}

impl Signal {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Call,
        Self::Free,
        Self::Live,
        Self::Next,
        Self::Asked,
        Self::Invented,
        Self::Change,
        Self::Tools,
    ];
}

/// No call counts as more made up: behind a list of values, its length would speak.
const MOST_INVENTED: f64 = 5.0;

/// What is added to the logarithm of the odds of a first call where a caller knows that a tool which looks takes something that the
/// request names, such as a file that is there. So much is bounded: a request for talk stays one.
const NAMED: f64 = 1.0;
/// What is added behind a look where the request names what no call has taken up, such as the second of two files, or where a short
/// result leads to one file. It is bounded, too, and nothing is added behind a change: the file that is left then may be one that the
/// request says to leave alone.
const PENDING: f64 = 2.0;

impl DecisionModel {
    /// The thresholds of a turn: those of the profile, with what was fitted in place of the one that counts. `read` tells a number.
    #[doc(hidden)]
    pub fn thresholds(
        &self,
        usual: Thresholds,
        request: &TurnRequest<'_>,
        read: &mut dyn FnMut(Signal) -> Result<Option<f64>, Error>,
    ) -> Result<Thresholds, Error> {
        let reached = Reached::of(request);
        let weights = match reached {
            Reached::Request => self.first,
            Reached::Result | Reached::Change => self.after,
            Reached::Failure => None,
        };
        let Some(weights) = weights else { return Ok(usual) };
        let Some(told) = weights.told(read)? else { return Ok(usual) };
        let state = match reached {
            Reached::Request if names_what_is_looked_at(request) => NAMED,
            Reached::Result if request.pending => PENDING,
            Reached::Change => weights.changed,
            _ => 0.0,
        };
        let threshold = weights.threshold(told + state);
        Ok(match reached {
            Reached::Request => Thresholds { first: threshold, ..usual },
            Reached::Result => Thresholds { after_success: threshold, ..usual },
            Reached::Change => Thresholds { after_change: threshold, ..usual },
            Reached::Failure => usual,
        })
    }

    /// The threshold behind a first call that is written, in place of this one. The more of it is made up ([`Signals::invented`]), the
    /// higher it is. None where that weighs nothing.
    #[doc(hidden)]
    pub fn behind_call(&self, request: &TurnRequest<'_>, threshold: f64, invented: f64) -> Option<f64> {
        let weights = self.first.filter(|_| Reached::of(request) == Reached::Request)?;
        let weighs = weights.invented < 0.0 && weights.call > 0.0;
        let odds = threshold / (1.0 - threshold).max(f64::MIN_POSITIVE);
        let against = weights.invented / weights.call * bounded(invented);
        weighs.then(|| logistic(odds.ln() - against))
    }

    /// The highest threshold that it can come to behind a call, in place of this one.
    #[doc(hidden)]
    pub fn behind_any_call(&self, request: &TurnRequest<'_>, threshold: f64) -> Option<f64> {
        self.behind_call(request, threshold, MOST_INVENTED)
    }

    /// Whether it tells if more is left to be done: of a run whose last calls did not fail.
    pub(crate) fn tells_of(&self, request: &TurnRequest<'_>) -> bool {
        self.after.is_some() && matches!(Reached::of(request), Reached::Result | Reached::Change)
    }

    /// Whether a change counts as what comes next only where the request asks for one. A client that is handed the calls decides itself.
    #[doc(hidden)]
    pub fn bars_changes(&self, request: &TurnRequest<'_>) -> bool {
        !request.handed_on && self.tells_of(request)
    }

    /// The same decision moved towards calling (above 0) or answering (below 0), as [`Thresholds::biased`] moves those.
    #[must_use]
    pub(crate) fn biased(self, bias: f64) -> Self {
        let moved = |weights: DecisionWeights| DecisionWeights { bias: weights.bias + bias, ..weights };
        Self { first: self.first.map(moved), after: self.after.map(moved) }
    }
}

/// How much of a call is made up, as far as it counts.
pub(crate) fn bounded(invented: f64) -> f64 {
    invented.clamp(0.0, MOST_INVENTED)
}

/// Whether something speaks for a tool that only looks.
fn names_what_is_looked_at(request: &TurnRequest<'_>) -> bool {
    request.tools.iter().zip(request.prior).any(|(tool, prior)| *prior > 0.0 && tool.effect == Effect::Reads)
}

impl DecisionWeights {
    /// The probability that a call is wanted. `changed` says whether the last call changed something.
    ///
    /// ```
    /// use toolgate_engine::{DecisionWeights, Signals};
    /// let weights = DecisionWeights { bias: 1.0, live: 1.0, changed: -1.0, ..DecisionWeights::default() };
    /// let signals = Signals::default();
    /// assert!(weights.probability(&signals, false) > 0.7);
    /// assert_eq!(weights.probability(&signals, true), 0.5);
    /// ```
    pub fn probability(&self, signals: &Signals, changed: bool) -> f64 {
        let state = if changed { self.changed } else { 0.0 };
        let sum = self.bias
            + self.call * signals.call
            + self.free * signals.free
            + self.live * signals.live
            + self.next * signals.next
            + self.asked * signals.asked
            + self.invented * bounded(signals.invented)
            + state;
        logistic(sum)
    }

    /// Whether all are numbers, that of the call is not below 0, and that of what is made up not above it.
    pub(crate) fn is_sound(&self) -> bool {
        let Self { bias, call, free, live, next, asked, invented, changed } = *self;
        let all = [bias, call, free, live, next, asked, invented, changed];
        all.into_iter().all(f64::is_finite) && call >= 0.0 && invented <= 0.0
    }

    /// What all numbers but the call's own come to, for a call of which nothing is made up. None where one cannot be told.
    fn told(&self, read: &mut dyn FnMut(Signal) -> Result<Option<f64>, Error>) -> Result<Option<f64>, Error> {
        let mut told = self.bias;
        for (signal, weight) in [
            (Signal::Free, self.free),
            (Signal::Live, self.live),
            (Signal::Next, self.next),
            (Signal::Asked, self.asked),
        ] {
            if weight != 0.0 {
                let Some(number) = read(signal)? else { return Ok(None) };
                told += weight * number;
            }
        }
        Ok(Some(told))
    }

    /// The probability of a call from which on one is likelier wanted than not.
    fn threshold(&self, rest: f64) -> f64 {
        match self.call > 0.0 {
            true => logistic(-rest / self.call),
            false if rest >= 0.0 => 0.0,
            false => NEVER,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;
    use toolgate_chat::{Message, ToolCall, ToolReply, ToolSpec, Transcript};

    use super::*;
    use crate::Sampling;

    fn logit(p: f64) -> f64 {
        (p / (1.0 - p)).ln()
    }

    #[test]
    fn a_turn_is_a_call_where_one_is_likelier_wanted_than_not() {
        let weights = DecisionWeights { bias: 1.0, call: 0.5, live: 1.0, ..DecisionWeights::default() };
        let decision = DecisionModel { first: Some(weights), after: None };
        let (transcript, sampling) =
            (Transcript::new().with(Message::User("Go on.".to_owned())), Sampling::default());
        let request = TurnRequest::new(&transcript, &[], &sampling);
        for live in [-3.0, 0.0, 3.0] {
            let thresholds = decision
                .thresholds(Thresholds::default(), &request, &mut |signal| {
                    assert_eq!(signal, Signal::Live, "what weighs nothing is not asked for");
                    Ok(Some(live))
                })
                .unwrap();
            let signals = Signals { call: logit(thresholds.first), live, ..Signals::default() };
            assert!((weights.probability(&signals, false) - 0.5).abs() < 1e-9, "{live}");
            assert_eq!(thresholds.after_success, 0.5);
        }
        let untold = decision.thresholds(Thresholds::guided(), &request, &mut |_| Ok(None)).unwrap();
        assert_eq!(untold, Thresholds::guided(), "what cannot be told leaves the thresholds as they are");
    }

    #[test]
    fn the_more_of_a_call_is_made_up_the_likelier_it_has_to_be() {
        let weights = DecisionWeights { bias: 1.0, call: 0.5, invented: -2.0, ..DecisionWeights::default() };
        let decision = DecisionModel { first: Some(weights), after: None };
        let (transcript, sampling) =
            (Transcript::new().with(Message::User("Go on.".to_owned())), Sampling::default());
        let request = TurnRequest::new(&transcript, &[], &sampling);
        let usual = decision.thresholds(Thresholds::default(), &request, &mut |_| Ok(None)).unwrap().first;
        for invented in [0.0, 0.3, 1.0, 2.5] {
            let behind = decision.behind_call(&request, usual, invented).unwrap();
            let signals = Signals { call: logit(behind), invented, ..Signals::default() };
            assert!((weights.probability(&signals, false) - 0.5).abs() < 1e-9, "{invented}");
        }
        let highest = decision.behind_any_call(&request, usual);
        assert_eq!(highest, decision.behind_call(&request, usual, 100.0), "so much is bounded");
        assert_eq!(decision.behind_call(&request, 0.0, 9.0), Some(0.0), "what is certain stays");
        let free = DecisionModel { first: Some(DecisionWeights { invented: 0.0, ..weights }), after: None };
        assert_eq!(free.behind_call(&request, usual, 1.0), None, "it weighs nothing");
        assert!(weights.is_sound() && !DecisionWeights { invented: 0.1, ..weights }.is_sound());
    }

    #[test]
    fn a_name_of_what_is_looked_at_moves_a_first_call_by_a_bounded_share() {
        let weights = DecisionWeights { bias: -1.0, call: 0.5, ..DecisionWeights::default() };
        let decision = DecisionModel { first: Some(weights), after: None };
        let tool = |effect| ToolSpec::new("t", "", json!({})).unwrap().with_effect(effect);
        let (looks, changes) = ([tool(Effect::Reads)], [tool(Effect::Changes)]);
        let (asked, sampling) =
            (Transcript::new().with(Message::User("See a.txt".to_owned())), Sampling::default());
        let odds = |tools: &[ToolSpec], prior: &[f64]| {
            let request = TurnRequest::new(&asked, tools, &sampling).prior(prior);
            logit(decision.thresholds(Thresholds::default(), &request, &mut |_| Ok(None)).unwrap().first)
        };
        let usual = odds(&looks, &[0.0]);
        assert!((usual - odds(&looks, &[1.0]) - NAMED / weights.call).abs() < 1e-9);
        assert_eq!((odds(&looks, &[-1.0]), odds(&changes, &[1.0])), (usual, usual), "no change is invited");
    }

    #[test]
    fn without_a_weight_for_the_call_the_rest_decides() {
        let weights = DecisionWeights { bias: -1.0, live: 1.0, changed: 4.0, ..DecisionWeights::default() };
        assert_eq!((weights.threshold(0.5), weights.threshold(-0.5)), (0.0, NEVER));
        let tools = [ToolSpec::new("look", "", json!({})).unwrap()];
        let call = ToolCall::new("look", serde_json::Map::new());
        let after = |is_error| {
            let reply = ToolReply { is_error, ..ToolReply::ok(&call, "x") };
            let run = Transcript::new().with(Message::User("Look.".to_owned()));
            run.with(Message::calls([call.clone()])).with(Message::Tool(vec![reply]))
        };
        let decision = DecisionModel { first: None, after: Some(weights) };
        let sampling = Sampling::default();
        let of = |transcript: &Transcript, changed: bool| {
            let request = TurnRequest::new(transcript, &tools, &sampling).changed(changed);
            let thresholds = decision.thresholds(Thresholds::default(), &request, &mut |_| Ok(Some(0.0)));
            thresholds.unwrap().of(&request)
        };
        assert_eq!((of(&after(false), false), of(&after(false), true)), (NEVER, 0.0));
        let pending = |told: f64, changed: bool| {
            let run = after(false);
            let request = TurnRequest::new(&run, &tools, &sampling).pending(true).changed(changed);
            let usual = Thresholds { while_pending: NEVER, ..Thresholds::default() };
            let thresholds = decision.thresholds(usual, &request, &mut |_| Ok(Some(told)));
            thresholds.unwrap().of(&request)
        };
        assert_eq!(
            (pending(0.0, false), pending(-3.0, false)),
            (0.0, NEVER),
            "what is pending counts, but is not all"
        );
        assert_eq!(pending(-4.0, true), NEVER, "behind a change it does not count");
        assert_eq!(of(&after(true), false), 0.5, "behind a failure the thresholds count");
        let (done, failed) = (after(false), after(true));
        let tells = |run: &Transcript| decision.tells_of(&TurnRequest::new(run, &tools, &sampling));
        assert!(tells(&done) && !tells(&failed));
        let bars = |handed_on| {
            decision.bars_changes(&TurnRequest::new(&done, &tools, &sampling).handed_on(handed_on))
        };
        assert!(bars(false) && !bars(true), "a client decides itself");
        let asked = Transcript::new().with(Message::User("Look.".to_owned()));
        assert_eq!(of(&asked, false), 0.5, "no weights for first turns");
    }
}
