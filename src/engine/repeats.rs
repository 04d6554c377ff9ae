//! Calls of a turn that were made already, and what becomes of a turn that holds nothing else.

use toolgate_chat::{ToolCall, ToolChoice, ToolName, ToolSpec};

use super::TurnRequest;
use super::changes::is_offered;

/// What is said of a turn that is an answer for this reason.
pub(crate) const REPEATED: &str =
    "the model repeated a call whose result it already has, so this turn is an answer";

/// What is said of a turn whose call is another one for this reason.
pub(crate) const REQUIRED: &str =
    "the model repeated a call whose result it already has, so it is made to call another tool";

/// Where a required turn holds nothing but settled calls, the tools that it can call in their place: such as the one that an answer is
/// given with, where calls are all that a client takes.
pub(crate) fn in_place_of(
    calls: &[ToolCall],
    request: &TurnRequest<'_>,
    offered: &[ToolSpec],
) -> Option<ToolChoice> {
    let is_settled = |call: &ToolCall| request.settled.iter().any(|settled| settled.same_request(call));
    let is_required = matches!(request.choice, ToolChoice::Required | ToolChoice::Only(_));
    if !is_required || calls.is_empty() || !calls.iter().all(is_settled) {
        return None;
    }
    let is_other = |tool: &&ToolSpec| calls.iter().all(|call| call.name != tool.name.as_str());
    let others = offered.iter().filter(|tool| is_offered(&request.choice, tool)).filter(is_other);
    let others: Vec<ToolName> = others.map(|tool| tool.name.clone()).collect();
    (!others.is_empty()).then_some(ToolChoice::Only(others))
}

/// The calls of a turn without those that are settled; none where an answer takes their place. Who requires a call gets one, be it
/// one that was made already.
pub(crate) fn without_repeats(calls: Vec<ToolCall>, request: &TurnRequest<'_>) -> Option<Vec<ToolCall>> {
    let mut kept = calls.clone();
    drop_repeats(&mut kept, request.settled);
    if !kept.is_empty() || calls.is_empty() {
        return Some(kept);
    }
    match request.choice {
        ToolChoice::Auto | ToolChoice::None => None,
        ToolChoice::Required | ToolChoice::Only(_) => {
            kept = calls;
            drop_repeats(&mut kept, &[]);
            Some(kept)
        }
    }
}

/// Leaves out calls that are settled, and those that stand in the turn already.
pub(super) fn drop_repeats(calls: &mut Vec<ToolCall>, settled: &[ToolCall]) {
    let mut kept: Vec<ToolCall> = Vec::with_capacity(calls.len());
    for call in calls.drain(..) {
        if !settled.iter().chain(&kept).any(|earlier| earlier.same_request(&call)) {
            kept.push(call);
        }
    }
    *calls = kept;
}
