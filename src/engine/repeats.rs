//! Calls of a turn that were made already, and what becomes of a turn that holds nothing else.

use toolgate_chat::{ToolCall, ToolChoice};

use super::TurnRequest;

/// What is said of a turn that is an answer for this reason.
pub(crate) const REPEATED: &str =
    "the model repeated a call whose result it already has, so this turn is an answer";

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
