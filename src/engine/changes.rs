//! Whether a call may be one that changes something: only where the model itself, asked and not led, would make one.
//!
//! Why: behind a result a small model calls on whatever it was asked, and what keeps a run going (hints, what is open, a retry)
//! says nothing of what the user wants changed. How likely the model is to call, and then to call a tool that changes something,
//! tells it where the request is the last thing that the model hears.
//!
//! Invariant: no hint raises that probability, and none lowers its threshold.

use toolgate_chat::{Message, ToolChoice, ToolName, ToolSpec, Transcript};

use super::TurnRequest;
use super::policy::Thresholds;

/// Calls of a run that were to change something and failed, after which no other is invited.
const MOST_FAILURES: usize = 3;

/// What the calls of a turn may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct May {
    /// They may look.
    pub(crate) look: bool,
    /// They may change something.
    pub(crate) change: bool,
}

impl May {
    /// Neither.
    pub(crate) const NOTHING: Self = Self { look: false, change: false };
    /// They may look alone.
    pub(crate) const LOOK: Self = Self { look: true, change: false };

    /// What is left of it where a model that calls with this probability weighs the tools so.
    pub(crate) fn weighed(
        self,
        thresholds: &Thresholds,
        offered: &[ToolSpec],
        weights: &[f64],
        p_call: f64,
    ) -> Self {
        let change = self.change && p_call * share(offered, weights) >= thresholds.changing;
        Self { change, ..self }
    }

    /// Whether a tool may be called.
    pub(crate) fn call(self, tool: &ToolSpec) -> bool {
        if tool.reads { self.look } else { self.change }
    }

    /// The choice of a turn among these tools, without those that may not be called; none where none is left.
    pub(crate) fn among(self, choice: &ToolChoice, tools: &[ToolSpec]) -> Option<ToolChoice> {
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

/// The share of the tools that may change something in what all of them weigh together, as logarithms.
fn share(offered: &[ToolSpec], weights: &[f64]) -> f64 {
    share_of(offered, weights, &|_| true)
}

/// The same among the tools that the run has not called yet, and those that may change something.
pub(crate) fn share_left(transcript: &Transcript, offered: &[ToolSpec], weights: &[f64]) -> f64 {
    let calls = transcript.calls_of_run();
    let called = |tool: &ToolSpec| calls.iter().any(|(call, _)| call.name == tool.name.as_str());
    share_of(offered, weights, &|tool| !tool.reads || !called(tool))
}

fn share_of(offered: &[ToolSpec], weights: &[f64], counts: &dyn Fn(&ToolSpec) -> bool) -> f64 {
    let most = weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum = |counted: &dyn Fn(&ToolSpec) -> bool| -> f64 {
        let counted = offered.iter().zip(weights).filter(|(tool, _)| counted(tool));
        counted.map(|(_, weight)| (weight - most).exp()).sum()
    };
    let all = sum(counts);
    if all > 0.0 { sum(&|tool| !tool.reads) / all } else { 0.0 }
}

/// Whether a turn's choice leaves a tool to be called.
pub(crate) fn is_offered(choice: &ToolChoice, tool: &ToolSpec) -> bool {
    match choice {
        ToolChoice::Auto | ToolChoice::Required => true,
        ToolChoice::None => false,
        ToolChoice::Only(names) => names.contains(&tool.name),
    }
}

/// Whether what keeps a run going makes a call of a turn that the model's own probability would not.
pub(crate) fn is_led(thresholds: &Thresholds, request: &TurnRequest<'_>) -> bool {
    let unled = TurnRequest { open: false, retry: false, ..request.clone() };
    thresholds.of(request) < thresholds.of(&unled)
}

/// Whether a change may still be wanted after the calls of the run: none was made, or something else is open, and it did not fail
/// too often.
pub(crate) fn is_invited(request: &TurnRequest<'_>) -> bool {
    let calls = request.transcript.calls_of_run();
    let reads = |name: &str| request.tools.iter().any(|tool| tool.name.as_str() == name && tool.reads);
    let changing = || calls.iter().filter(|(call, _)| !reads(&call.name));
    let failed = changing().filter(|(_, reply)| reply.is_some_and(|reply| reply.is_error)).count();
    let made = changing().count() - failed;
    request.tools.iter().any(|tool| !tool.reads) && failed < MOST_FAILURES && (made == 0 || request.open)
}

/// The conversation with the request behind what its calls gave: so it is the last thing that the model hears.
pub(crate) fn asked_last(transcript: &Transcript) -> Transcript {
    let messages = transcript.messages();
    let asked = messages.iter().rposition(|message| matches!(message, Message::User(_)));
    let Some((earlier, [request, made @ ..])) = asked.and_then(|at| messages.split_at_checked(at)) else {
        return transcript.clone();
    };
    earlier.iter().chain(made).chain([request]).cloned().collect()
}

/// The conversation up to the request, as it was before any call for it.
pub(crate) fn asked_alone(transcript: &Transcript) -> Transcript {
    let asked = transcript.iter().rposition(|message| matches!(message, Message::User(_)));
    transcript.iter().take(asked.map_or(0, |at| at + 1)).cloned().collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::{Map, json};
    use toolgate_chat::{ToolCall, ToolReply};

    use super::super::Sampling;
    use super::*;

    fn tools() -> [ToolSpec; 3] {
        let tool = |name: &str, reads| ToolSpec::new(name, "", json!({})).unwrap().with_reads(reads);
        [tool("read", true), tool("list", true), tool("write", false)]
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
    fn a_change_is_invited_until_one_was_made_or_failed_often() {
        let (tools, sampling) = (tools(), Sampling::default());
        let invited = |calls: &[(&str, bool)], open| {
            let transcript = after(calls);
            is_invited(&TurnRequest { open, ..TurnRequest::new(&transcript, &tools, &sampling) })
        };
        assert!(invited(&[("read", false)], false) && invited(&[("read", true), ("list", true)], false));
        assert!(invited(&[("write", true); 2], false) && !invited(&[("write", true); 3], false));
        assert!(!invited(&[("write", false)], false) && invited(&[("write", false)], true));
        let transcript = after(&[("read", false)]);
        assert!(!is_invited(&TurnRequest::new(&transcript, tools.get(..2).unwrap(), &sampling)));
    }

    #[test]
    fn a_turn_that_may_only_look_leaves_the_other_tools_out() {
        let tools = tools();
        let all = May { look: true, change: true };
        let named = |names: &[&str]| {
            ToolChoice::Only(names.iter().map(|name| ToolName::new(name).unwrap()).collect())
        };
        assert_eq!(all.among(&ToolChoice::Auto, &tools), Some(ToolChoice::Auto));
        assert_eq!(May::LOOK.among(&ToolChoice::Auto, &tools), Some(named(&["read", "list"])));
        assert_eq!(May::LOOK.among(&named(&["write"]), &tools), None);
        assert_eq!(May::NOTHING.among(&ToolChoice::Required, &tools), None);
    }

    #[test]
    fn what_was_called_already_takes_nothing_from_the_share_of_a_change() {
        let (tools, weights) = (tools(), [0.8_f64, 0.1, 0.1].map(f64::ln));
        assert!((share(&tools, &weights) - 0.1).abs() < 1e-9);
        assert!((share_left(&after(&[("read", false)]), &tools, &weights) - 0.5).abs() < 1e-9);
        assert!((share_left(&after(&[("write", true)]), &tools, &weights) - 0.1).abs() < 1e-9);
    }

    #[test]
    fn the_request_comes_last_behind_what_its_calls_gave() {
        let transcript = after(&[("read", false)]);
        let asked = asked_last(&transcript);
        assert!(matches!(asked.last(), Some(Message::User(text)) if text == "Mend a.txt"));
        assert_eq!((asked.len(), asked_alone(&transcript).len()), (3, 1));
    }
}
