//! Calls of a turn that were made already, or would change what the run has just changed, and what becomes of a turn that holds
//! nothing else.
//!
//! Why: behind a change that was made a small model is as sure of a further call as it was of that one. Told to set a version, it sets
//! it, and then the next version.
//!
//! For the packages of this workspace alone: no part of the API.

use serde_json::Value;
use toolgate_chat::names::{is_among, name_parts};
use toolgate_chat::{Effect, ToolCall, ToolChoice, ToolName, ToolSpec};

use crate::TurnRequest;
use crate::profile::options::Options;
use crate::turn::changes::{effect_of, is_offered};

/// What is said of a turn that is an answer for this reason.
pub const REPEATED: &str = "the model repeated a call whose result it already has, or would replace what it put in itself, \
     so this turn is an answer";

/// What is said of a turn whose call is another one for this reason.
pub(crate) const REQUIRED: &str =
    "the model repeated a call whose result it already has, so it is made to call another tool";

/// Where a required turn holds nothing but completed calls, the tools that it can call in their place: such as the one that an answer is
/// given with, where calls are all that a client takes.
pub(crate) fn in_place_of(
    calls: &[ToolCall],
    request: &TurnRequest<'_>,
    offered: &[ToolSpec],
) -> Option<ToolChoice> {
    let is_completed = |call: &ToolCall| is_made(request.completed, call, request.tools);
    let is_required = matches!(request.choice, ToolChoice::Required | ToolChoice::Only(_));
    if !is_required || calls.is_empty() || !calls.iter().all(is_completed) {
        return None;
    }
    let is_other = |tool: &&ToolSpec| calls.iter().all(|call| call.name != tool.name.as_str());
    let others = offered.iter().filter(|tool| is_offered(&request.choice, tool)).filter(is_other);
    let others: Vec<ToolName> = others.map(|tool| tool.name.clone()).collect();
    (!others.is_empty()).then_some(ToolChoice::Only(others))
}

/// The calls of a turn without those that are completed or change a change; none where an answer takes their place. Who
/// requires a call gets one, be it one that was made already. A model without a profile may repeat itself.
pub fn without_repeats(
    calls: Vec<ToolCall>,
    request: &TurnRequest<'_>,
    options: &Options,
) -> Option<Vec<ToolCall>> {
    if options.profile.is_none() {
        return Some(calls);
    }
    let mut kept = calls.clone();
    drop_repeats(&mut kept, request.completed, request.tools);
    kept.retain(|call| !changes_own(call, request));
    if !kept.is_empty() || calls.is_empty() {
        return Some(kept);
    }
    match request.choice {
        ToolChoice::Auto | ToolChoice::None => None,
        ToolChoice::Required | ToolChoice::Only(_) => {
            kept = calls;
            drop_repeats(&mut kept, &[], request.tools);
            Some(kept)
        }
    }
}

/// Whether a call would change what an earlier one of the run has made, and nothing was tried with it since: it replaces the very text
/// that the other one put in, at the same place.
fn changes_own(call: &ToolCall, request: &TurnRequest<'_>) -> bool {
    let effect = |name: &str| effect_of(request.tools, name);
    if effect(&call.name) != Effect::Changes {
        return false;
    }
    let calls = request.transcript.calls_of_run();
    // A command may have failed on it; to read it tells nothing that the change did not.
    let since = calls.iter().rev().take_while(|(made, _)| effect(&made.name) != Effect::Unknown);
    since
        .filter(|(made, reply)| made.name == call.name && reply.is_some_and(|reply| !reply.is_error))
        .any(|(made, _)| is_at_same_place(made, call) && puts_in(made, call))
}

/// Whether two calls share an argument that is a text, such as a path.
fn is_at_same_place(made: &ToolCall, call: &ToolCall) -> bool {
    texts(made).any(|(name, text)| call.arguments.get(name).and_then(Value::as_str) == Some(text))
}

/// Whether a call takes for what is to be replaced the text that an earlier call put in its place.
fn puts_in(made: &ToolCall, call: &ToolCall) -> bool {
    let named = |names: &'static str| {
        move |(name, _): &(&str, &str)| name_parts(name).any(|part| is_among(&part, names))
    };
    let mut replaced = texts(call).filter(named(REPLACED));
    replaced.any(|(_, text)| texts(made).filter(named(REPLACES)).any(|(_, put_in)| put_in == text))
}

/// How tools that replace a text name what they look for.
const REPLACED: &str = "find old original pattern search";
/// And what they put in its place.
const REPLACES: &str = "new replace replacement updated";

/// The arguments of a call that are texts, and say something.
fn texts(call: &ToolCall) -> impl Iterator<Item = (&str, &str)> {
    let texts = call.arguments.iter().filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)));
    texts.filter(|(_, text)| !text.trim().is_empty())
}

/// Leaves out calls that are completed, and those that stand in the turn already.
pub(crate) fn drop_repeats(calls: &mut Vec<ToolCall>, completed: &[ToolCall], tools: &[ToolSpec]) {
    let mut kept: Vec<ToolCall> = Vec::with_capacity(calls.len());
    for call in calls.drain(..) {
        let is_again = kept.iter().any(|earlier| earlier.same_request(&call));
        if !is_again && !is_made(completed, &call, tools) {
            kept.push(call);
        }
    }
    *calls = kept;
}

/// Whether one of the calls that were made asks the same as this one.
pub(crate) fn is_made(made: &[ToolCall], call: &ToolCall, tools: &[ToolSpec]) -> bool {
    let tool = tools.iter().find(|tool| tool.name.as_str() == call.name);
    made.iter().any(|made| match tool {
        Some(tool) => tool.same_request(made, call),
        None => made.same_request(call),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;
    use toolgate_chat::{Message, ToolReply, Transcript};

    use super::*;
    use crate::Sampling;

    /// A call of `edit` (path, old, new), of `move` (path, from, to), of `read` (path) or of `run`.
    fn call(words: &[&str]) -> ToolCall {
        let (name, rest) = words.split_first().unwrap();
        let names = if *name == "move" { ["path", "from", "to"] } else { ["path", "old", "new"] };
        let arguments = names.iter().zip(rest);
        ToolCall::new(*name, arguments.map(|(name, text)| ((*name).to_owned(), json!(text))).collect())
    }

    /// Whether a call is left of a turn behind these, of which those that begin with `!` failed.
    fn is_left(made: &[&[&str]], next: &[&str]) -> bool {
        let mut transcript = Transcript::new().with(Message::User("Set it to 2".to_owned()));
        for words in made {
            let is_error = words.first() == Some(&"!");
            let call = call(if is_error { words.get(1..).unwrap() } else { words });
            let reply = ToolReply { is_error, ..ToolReply::ok(&call, "told") };
            transcript = transcript.with(Message::calls([call])).with(Message::Tool(vec![reply]));
        }
        let tool = |name, effect| ToolSpec::new(name, "", json!({})).unwrap().with_effect(effect);
        let tools = [
            ("edit", Effect::Changes),
            ("move", Effect::Changes),
            ("read", Effect::Reads),
            ("run", Effect::Unknown),
        ];
        let (tools, sampling) = (tools.map(|(name, effect)| tool(name, effect)), Sampling::default());
        let request = TurnRequest::new(&transcript, &tools, &sampling);
        without_repeats(vec![call(next)], &request, &Options::guided()).is_some()
    }

    #[test]
    fn what_a_run_put_in_it_does_not_replace_unless_something_was_tried() {
        let (set, again): (&[&str], &[&str]) = (&["edit", "a", "1", "2"], &["edit", "a", "2", "3"]);
        assert!(is_left(&[], again));
        assert!(!is_left(&[set], again) && !is_left(&[set, &["edit", "b", "1", "2"]], again));
        assert!(!is_left(&[set], &["edit", "a", "2", "1"]), "nor does it take it back");
        assert!(
            is_left(&[&["move", "a", "1", "2"]], &["move", "a", "2", "1"]),
            "there and back is no replacement"
        );
        assert!(is_left(&[set], &["edit", "a", "5", "6"]) && is_left(&[set], &["edit", "b", "2", "3"]));
        assert!(is_left(&[&["!", "edit", "a", "1", "2"]], again), "it was not put in");
        assert!(!is_left(&[set, &["read", "a"]], again), "it reads what was put in");
        assert!(is_left(&[set, &["run"]], again), "a test may have failed");
        // What is offered no more is told by its name.
        assert!(!is_left(&[set, &["read_file", "a"]], again), "it reads what was put in");
        assert!(is_left(&[set, &["bash"]], again), "nobody knows what that does");
    }
}
