//! Whether a call may be one that changes something: only where the model itself, asked and not led, finds that a change is asked for.
//!
//! Why: behind a result a small model calls on whatever it was asked, and what keeps a run going (hints, what is open, a retry)
//! says nothing of what the user wants changed. Shown a list of requests and their kinds, though, it tells well of which kind
//! another one is (`lists`).
//!
//! Invariant: no hint raises that probability, and none lowers its threshold.
//!
//! For the packages of this workspace alone: no part of the API.

use toolgate_chat::names;
use toolgate_chat::{Effect, Message, ToolChoice, ToolName, ToolReply, ToolSpec};

use crate::TurnRequest;
use crate::profile::policy::EVEN;
use crate::profile::policy::Thresholds;

/// Calls of a run that were to change something and failed, after which no other is invited.
const MOST_FAILURES: usize = 3;
/// How likely that very call has to be, where nobody asks for a change, to be made all the same. Of commands that were asked for, the 1.5 B
/// model has 0.78 and more; for "How would I append a row with a shell command?" it has 0.53.
const SURE: f64 = 2.0 / 3.0;

/// What the calls of a turn may do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct May {
    /// They may look.
    pub look: bool,
    /// They may do what nobody knows of.
    pub unknown: bool,
    /// They may change something.
    pub change: bool,
    /// How likely the model is to call, as a share of how likely that very call has to be to change something: 1 is enough.
    pub likely: Option<f64>,
}

impl May {
    /// Whatever there is.
    pub const ALL: Self = Self { look: true, unknown: true, change: true, likely: None };
    /// Nothing at all.
    pub const NOTHING: Self = Self { look: false, unknown: false, change: false, likely: None };

    /// What is left where the model would call, or would not.
    ///
    /// `call` counts whatever led to the call; `own` only what the model does by itself; `wished` whether a change is asked for.
    pub fn of(request: &TurnRequest<'_>, call: bool, own: bool, p_call: f64, wished: bool) -> Self {
        // Behind a result a small model calls whatever it was asked. A client decides itself about what it is handed.
        let counts =
            own && (request.handed_on || !matches!(request.transcript.last(), Some(Message::Tool(_))));
        let change = wished && (own || (p_call >= EVEN && is_invited(request)));
        let least = if request.handed_on { EVEN } else { SURE };
        Self { look: call, unknown: own, change, likely: Some(p_call / least).filter(|_| counts && !change) }
    }

    /// The same where it is known what each tool weighs, as logarithms: a change may be made that is likely enough.
    pub fn weighed(self, tools: &[ToolSpec], weights: &[f64]) -> Self {
        let share = share_of(tools, weights, |tool| tool.effect == Effect::Changes);
        Self {
            change: self.change || self.likely.is_some_and(|likely| likely * share >= 1.0),
            likely: None,
            ..self
        }
    }

    /// The same where what tools weigh is not known. Whether it is that very call that is likely nobody knows then: a client that is
    /// handed what the model chooses may judge itself.
    pub fn unweighed(self, request: &TurnRequest<'_>) -> Self {
        let handed_on = request.handed_on && self.likely.is_some_and(|likely| likely >= 1.0);
        Self { change: self.change || handed_on, likely: None, ..self }
    }

    /// Whether a tool can be called at all, whatever the tools weigh.
    pub fn is_nothing(self) -> bool {
        self == Self { likely: self.likely.filter(|&likely| likely < 1.0), ..Self::NOTHING }
    }

    /// Whether a tool may be called.
    pub fn call(self, tool: &ToolSpec) -> bool {
        match tool.effect {
            Effect::Reads => self.look,
            Effect::Changes => self.change,
            Effect::Unknown => self.unknown,
        }
    }

    /// The choice of a turn among these tools, without those that may not be called; none where none is left.
    pub fn among(self, choice: &ToolChoice, tools: &[ToolSpec]) -> Option<ToolChoice> {
        let offered: Vec<&ToolSpec> = tools.iter().filter(|tool| is_offered(choice, tool)).collect();
        let may: Vec<ToolName> =
            offered.iter().filter(|tool| self.call(tool)).map(|tool| tool.name.clone()).collect();
        match may.len() {
            0 => None,
            all if all == offered.len() => Some(choice.clone()),
            _ => Some(ToolChoice::Only(may)),
        }
    }
}

/// What some of these tools have of the probability that all have together, by weights that are logarithms.
pub fn share_of(tools: &[ToolSpec], weights: &[f64], counts: impl Fn(&ToolSpec) -> bool) -> f64 {
    let most = weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum = |counts: &dyn Fn(&ToolSpec) -> bool| -> f64 {
        let counted = tools.iter().zip(weights).filter(|(tool, _)| counts(tool));
        counted.map(|(_, weight)| (weight - most).exp()).sum()
    };
    sum(&counts) / sum(&|_| true)
}

/// Whether a turn's choice leaves a tool to be called.
pub(crate) fn is_offered(choice: &ToolChoice, tool: &ToolSpec) -> bool {
    match choice {
        ToolChoice::Auto | ToolChoice::Required => true,
        ToolChoice::None => false,
        ToolChoice::Only(names) => names.contains(&tool.name),
    }
}

/// What a call of a tool does: as its definition says or, where the tool is not offered, as far as its name tells.
pub fn effect_of(tools: &[ToolSpec], name: &str) -> Effect {
    let offered = tools.iter().find(|tool| tool.name.as_str() == name);
    offered.map_or_else(|| names::effect(name), |tool| tool.effect)
}

/// Whether it has to be known if the request asks for a change: there is a tool that would make one, and a call is likely or may
/// still be wanted.
pub fn is_to_ask(request: &TurnRequest<'_>, call: bool) -> bool {
    let changes = |tool: &ToolSpec| tool.effect == Effect::Changes && is_offered(&request.choice, tool);
    request.tools.iter().any(changes) && (call || is_invited(request))
}

/// Whether a change may still be wanted after the calls of the run: none was tried, or one failed and something was looked at since, or
/// one was made and something else is open. After a failure alone, which may be a refusal, it is not.
pub(crate) fn is_invited(request: &TurnRequest<'_>) -> bool {
    let calls = request.transcript.calls_of_run();
    let changes = |name: &str| effect_of(request.tools, name) == Effect::Changes;
    let worked = |reply: &Option<&ToolReply>| reply.is_some_and(|reply| !reply.is_error);
    let tried = calls.iter().rposition(|(call, _)| changes(&call.name));
    let Some((before, since)) = tried.and_then(|at| calls.split_at_checked(at + 1)) else {
        return !calls.is_empty();
    };
    if before.last().is_some_and(|(_, reply)| worked(reply)) {
        return request.pending;
    }
    let failed = before.iter().filter(|(call, reply)| changes(&call.name) && !worked(reply)).count();
    failed < MOST_FAILURES && since.iter().any(|(_, reply)| worked(reply))
}

/// The threshold of a turn without what keeps a run going.
pub(crate) fn unled(thresholds: &Thresholds, request: &TurnRequest<'_>) -> f64 {
    thresholds.of(&TurnRequest { pending: false, retry: false, ..request.clone() })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::{Map, json};
    use toolgate_chat::{ToolCall, Transcript};

    use super::*;
    use crate::Sampling;

    fn tools() -> [ToolSpec; 3] {
        let tool = |name: &str, effect| ToolSpec::new(name, "", json!({})).unwrap().with_effect(effect);
        [tool("read", Effect::Reads), tool("run", Effect::Unknown), tool("write", Effect::Changes)]
    }

    fn after(calls: &[(&str, bool)]) -> Transcript {
        let mut transcript = Transcript::new().with(Message::User("Mend a.txt".to_owned()));
        for (name, is_error) in calls {
            let call = ToolCall::new(*name, Map::new());
            let reply = ToolReply { is_error: *is_error, ..ToolReply::ok(&call, "x") };
            transcript = transcript.with(Message::calls([call])).with(Message::Tool(vec![reply]));
        }
        transcript
    }

    #[test]
    fn a_change_is_invited_until_one_was_made_or_failed() {
        let (tools, sampling) = (tools(), Sampling::default());
        let invited = |calls: &[(&str, bool)], pending| {
            let transcript = after(calls);
            is_invited(&TurnRequest { pending, ..TurnRequest::new(&transcript, &tools, &sampling) })
        };
        assert!(invited(&[("read", false)], false) && invited(&[("read", true), ("run", true)], false));
        assert!(!invited(&[("write", true)], false), "it may have been refused");
        assert!(
            invited(&[("write", true), ("read", false)], false),
            "it was read first, as the failure said"
        );
        assert!(!invited(&[("write", true), ("read", true)], false));
        let often = [("write", true), ("write", true), ("write", true), ("read", false)];
        assert!(!invited(&often, false));
        assert!(!invited(&[("write", false)], false) && invited(&[("write", false)], true));
        assert!(!invited(&[], true), "the first call is the model's own");
    }

    #[test]
    fn nothing_but_a_wish_brings_a_change_about() {
        let (tools, sampling, transcript) = (tools(), Sampling::default(), after(&[("read", false)]));
        let request = TurnRequest::new(&transcript, &tools, &sampling);
        let may = |call, own, wished| May::of(&request, call, own, 0.9, wished);
        let named = |may: May| {
            let names = ["read", "run", "write"].into_iter().zip(&tools);
            names.filter(|(_, tool)| may.call(tool)).map(|(name, _)| name).collect::<Vec<_>>()
        };
        assert_eq!(named(may(true, false, false).unweighed(&request)), ["read"], "it was led");
        assert_eq!(
            named(may(true, true, false).unweighed(&request)),
            ["read", "run"],
            "a result stands before it"
        );
        assert_eq!(named(may(false, false, true).unweighed(&request)), ["write"]);
        assert!(!May::of(&request, false, false, 0.4, true).change, "it would rather answer");
        let client = TurnRequest { handed_on: true, ..request.clone() };
        let handed_on = |own, p_call| May::of(&client, true, own, p_call, false);
        assert!(
            handed_on(true, 0.6).unweighed(&client).change && !handed_on(true, 0.4).unweighed(&client).change
        );
        assert!(!handed_on(false, 0.6).unweighed(&client).change, "what was led to counts for nothing");
        let (mostly, seldom) = ([-3.0, -3.0, -0.1], [-0.7, -3.0, -0.7]);
        assert!(handed_on(true, 0.9).weighed(&tools, &mostly).change);
        assert!(!handed_on(true, 0.9).weighed(&tools, &seldom).change, "it would rather look");
        let asked = Transcript::new().with(Message::User("How would I append a row?".to_owned()));
        let own = |p_call| May::of(&TurnRequest::new(&asked, &tools, &sampling), true, true, p_call, false);
        assert!(own(0.8).weighed(&tools, &mostly).change && !own(0.6).weighed(&tools, &mostly).change);
        assert!(handed_on(true, 0.6).weighed(&tools, &mostly).change, "a client decides itself");
        assert!(!handed_on(false, 0.9).is_nothing() && May::NOTHING.is_nothing());
        assert!(is_to_ask(&request, false));
        assert!(
            !is_to_ask(&TurnRequest { tools: &tools[..2], ..request }, true),
            "none would change anything"
        );
    }

    #[test]
    fn a_turn_that_may_only_look_leaves_the_other_tools_out() {
        let tools = tools();
        let look = May { look: true, ..May::NOTHING };
        let named = |names: &[&str]| {
            ToolChoice::Only(names.iter().map(|name| ToolName::new(name).unwrap()).collect())
        };
        assert_eq!(May::ALL.among(&ToolChoice::Auto, &tools), Some(ToolChoice::Auto));
        assert_eq!(look.among(&ToolChoice::Auto, &tools), Some(named(&["read"])));
        assert_eq!(look.among(&named(&["write"]), &tools), None);
        assert_eq!(May::NOTHING.among(&ToolChoice::Required, &tools), None);
    }
}
