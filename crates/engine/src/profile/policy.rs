//! Call or answer: what the probability of a call is held against, by what has happened so far.
//!
//! Masking alone does not decide well: a small model that wants to call in a dialect of its own slides into prose
//! when the mask forbids its first token. So the probability of *any* call opening, in the unmasked distribution
//! at the first position of the turn, is held against a threshold, and the turn is then written in canonical form.

use toolgate_chat::{Message, ToolChoice, ToolReply};

use crate::TurnRequest;
use crate::turn::weigh::logistic;

/// Probabilities of a call from which on a turn is a call; 0 always calls, anything over 1 never does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    /// Before any call.
    pub first: f64,
    /// After a call that looked at something.
    pub after_success: f64,
    /// After a call that changed something, as far as the caller tells ([`TurnRequest::changed`]): small
    /// models would rather make the change once more than say that it is made.
    pub after_change: f64,
    /// After a call that failed or was denied.
    pub after_failure: f64,
    /// After a call that did not fail, where the request names what no call has taken up ([`TurnRequest::pending`]), or one that may
    /// be made in another way ([`TurnRequest::retry`]), and this is lower than the threshold above.
    pub while_pending: f64,
    /// Behind a call, in a turn that may hold several: a small model begins a new line there whether it calls on or not.
    pub further: f64,
    /// For calls of tools that [change something](toolgate_chat::Effect::Changes): the probability that the request asks for a
    /// change, as the model itself tells when it is shown a list of requests and their kinds. No hint moves it.
    pub changing: f64,
}

/// What no probability reaches.
pub(crate) const NEVER: f64 = 2.0;
/// The odds from which on something is likelier than not.
pub const EVEN: f64 = 0.5;
/// A probability that a model which has more to do hardly ever stays below.
const AS_GOOD_AS_CERTAIN: f64 = 0.02;

impl Default for Thresholds {
    /// Whatever is likelier than not, in every state.
    fn default() -> Self {
        Self::all(EVEN)
    }
}

impl Thresholds {
    /// What small models are held against before anything was measured of them: they want a call that they open rarely.
    ///
    /// ```
    /// use toolgate_engine::Thresholds;
    /// assert_eq!((Thresholds::guided().first, Thresholds::default().first), (0.2, 0.5));
    /// ```
    pub fn guided() -> Self {
        Self::all(0.2)
    }

    fn all(least: f64) -> Self {
        Self {
            first: least,
            after_success: least,
            after_change: least,
            after_failure: least,
            while_pending: least,
            further: least,
            changing: EVEN,
        }
    }

    /// The same thresholds moved towards calling (above 0) or answering (below 0), by so much of the logarithm of the
    /// odds; 0.7 doubles the odds of a call. What always or never calls stays so.
    ///
    /// ```
    /// use toolgate_engine::Thresholds;
    /// let biased = Thresholds { after_success: 2.0, ..Thresholds::default() }.biased(1.0);
    /// assert!(biased.first < 0.3 && biased.after_success == 2.0);
    /// ```
    #[must_use]
    pub fn biased(self, bias: f64) -> Self {
        let moved = |threshold: f64| match threshold {
            threshold if threshold > 0.0 && threshold < 1.0 => {
                logistic((threshold / (1.0 - threshold)).ln() - bias)
            }
            fixed => fixed,
        };
        Self {
            first: moved(self.first),
            after_success: moved(self.after_success),
            after_change: moved(self.after_change),
            after_failure: moved(self.after_failure),
            while_pending: moved(self.while_pending),
            further: moved(self.further),
            // It is not about call or answer.
            changing: self.changing,
        }
    }

    /// The thresholds of a request: whoever is [handed the calls](TurnRequest::handed_on) gets what the model wants at better
    /// than even.
    #[doc(hidden)]
    pub fn for_request(&self, request: &TurnRequest<'_>) -> Self {
        if !request.handed_on {
            return *self;
        }
        Self {
            first: self.first.min(EVEN),
            after_success: self.after_success.min(EVEN),
            after_change: self.after_change.min(EVEN),
            after_failure: self.after_failure.min(EVEN),
            while_pending: self.while_pending.min(EVEN),
            further: self.further.min(EVEN),
            changing: self.changing,
        }
    }

    /// Whether a turn after results is as good as certain to be a call, whatever the model's own probability: something is open,
    /// and the threshold says that this counts for more. For servers that tell no probabilities.
    #[doc(hidden)]
    pub fn is_sure_of_call(&self, request: &TurnRequest<'_>) -> bool {
        request.choice == ToolChoice::Auto
            && request.pending
            && matches!(request.transcript.last(), Some(Message::Tool(replies)) if !has_failed(replies))
            && self.of(request) <= AS_GOOD_AS_CERTAIN
    }

    /// The threshold of a turn: what matters is what came since the user last spoke.
    ///
    /// ```
    /// use toolgate_engine::{Sampling, Thresholds, TurnRequest};
    /// use toolgate_chat::{Message, ToolCall, ToolReply, Transcript};
    ///
    /// let thresholds = Thresholds { after_success: 2.0, ..Thresholds::default() };
    /// let sampling = Sampling::default();
    /// let asked = Transcript::new().with(Message::User("How is the weather in Oslo?".into()));
    /// assert_eq!(thresholds.of(&TurnRequest::new(&asked, &[], &sampling)), 0.5);
    ///
    /// // Over 1: after a result the turn is an answer, whatever the model would rather do.
    /// let call = ToolCall::new("get_weather", Default::default());
    /// let reply = ToolReply::ok(&call, "rain");
    /// let told = asked.with(Message::calls([call])).with(Message::Tool(vec![reply]));
    /// assert_eq!(thresholds.of(&TurnRequest::new(&told, &[], &sampling)), 2.0);
    /// ```
    pub fn of(&self, request: &TurnRequest<'_>) -> f64 {
        let after = if request.changed { self.after_change } else { self.after_success };
        match Reached::of(request) {
            Reached::Failure if request.retry => self.after_failure.min(self.while_pending),
            Reached::Failure => self.after_failure,
            Reached::Result | Reached::Change if request.pending => after.min(self.while_pending),
            Reached::Result | Reached::Change => after,
            Reached::Request => self.first,
        }
    }
}

/// What a run has come to, as far as a decision asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reached {
    /// Nothing was called that this model may call.
    Request,
    /// A call worked and changed nothing, as far as is known.
    Result,
    /// The last calls failed.
    Failure,
    /// A call changed something.
    Change,
}

impl Reached {
    /// What came since the user last spoke.
    pub(crate) fn of(request: &TurnRequest<'_>) -> Self {
        // What called a tool that is offered no more was another agent: to this one the request is new.
        let tools = request.tools;
        let is_here =
            |reply: &ToolReply| tools.is_empty() || tools.iter().any(|tool| tool.name.as_str() == reply.name);
        match request.transcript.last() {
            Some(Message::Tool(replies)) if replies.iter().any(is_here) => {
                match (has_failed(replies), request.changed) {
                    (true, _) => Self::Failure,
                    (false, true) => Self::Change,
                    (false, false) => Self::Result,
                }
            }
            _ => Self::Request,
        }
    }
}

fn has_failed(replies: &[ToolReply]) -> bool {
    replies.iter().any(|reply| reply.is_error)
}
