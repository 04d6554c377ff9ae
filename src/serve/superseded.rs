//! Calls of a client's run that failed for want of another one which was made since: the model is not shown them again.
//!
//! Why: a small model copies itself. Told "Read it first", it reads the file, and then writes the edit that it wrote before it had read it,
//! with text that the file does not have. Shown the file alone, it writes what stands there.
//!
//! Both calls are about the same thing where they share a text among their arguments, such as a path.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::Value;
use toolgate_chat::{Message, ToolCall, ToolReply, ToolSpec, Transcript};

use crate::words::{holds_word, name_parts};

/// The other tools that a failure names as what to do first: by a name that is no word of its own, or is written as the name is.
pub(super) fn advised<'a>(
    failure: &'a ToolReply,
    tools: &'a [ToolSpec],
) -> impl Iterator<Item = &'a ToolSpec> + use<'a> {
    let is_name = |name: &str| name_parts(name).count() > 1 || name.starts_with(char::is_uppercase);
    tools.iter().filter(move |tool| {
        let name = tool.name.as_str();
        name != failure.name && is_name(name) && holds_word(&failure.content, name)
    })
}

/// A conversation without the failed calls of its run whose advice was taken.
pub(super) fn without_superseded<'a>(transcript: &'a Transcript, tools: &[ToolSpec]) -> Cow<'a, Transcript> {
    let calls = transcript.calls_of_run();
    let mut worked: HashSet<(&str, &str)> = HashSet::new();
    let mut are_superseded: Vec<bool> = Vec::with_capacity(calls.len());
    for (call, reply) in calls.iter().rev() {
        let failure = reply.filter(|reply| reply.is_error);
        are_superseded.push(failure.is_some_and(|failure| {
            advised(failure, tools)
                .any(|tool| texts(call).any(|text| worked.contains(&(tool.name.as_str(), text))))
        }));
        if reply.is_some_and(|reply| !reply.is_error) {
            worked.extend(texts(call).map(|text| (call.name.as_str(), text)));
        }
    }
    if !are_superseded.contains(&true) {
        return Cow::Borrowed(transcript);
    }
    let mut are_superseded = are_superseded.into_iter().rev();
    let start = transcript.iter().rposition(|message| matches!(message, Message::User(_))).unwrap_or(0);
    let mut left_out: HashSet<&str> = HashSet::new();
    let mut shown = Transcript::new();
    for (at, message) in transcript.iter().enumerate() {
        match message {
            Message::Assistant { content, reasoning, calls } if at >= start => {
                left_out.clear();
                let mut kept = Vec::new();
                for call in calls {
                    match are_superseded.next() {
                        Some(true) => _ = left_out.insert(call.id.as_str()),
                        _ => kept.push(call.clone()),
                    }
                }
                if !kept.is_empty() || content.is_some() {
                    let (content, reasoning) = (content.clone(), reasoning.clone());
                    shown.push(Message::Assistant { content, reasoning, calls: kept });
                }
            }
            Message::Tool(replies) if !left_out.is_empty() => {
                let kept = replies.iter().filter(|reply| !left_out.contains(reply.call_id.as_str()));
                let kept: Vec<ToolReply> = kept.cloned().collect();
                if !kept.is_empty() {
                    shown.push(Message::Tool(kept));
                }
            }
            other => shown.push(other.clone()),
        }
    }
    Cow::Owned(shown)
}

/// The texts among a call's arguments.
fn texts(call: &ToolCall) -> impl Iterator<Item = &str> {
    call.arguments.values().filter_map(Value::as_str)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use serde_json::json;

    use super::*;

    const FIRST: &str = "File has not been read yet. Read it first before writing to it.";

    /// The calls that are left of turns of calls, each a tool, a path, and what came of it; nothing is a success.
    fn left(turns: &[&[(&str, &str, &str)]]) -> Vec<String> {
        let tools = ["Read", "Edit"].map(|name| ToolSpec::new(name, "", json!({"type": "object"})).unwrap());
        let mut transcript = Transcript::new().with(Message::User("Put 9 for 8 in a and b".into()));
        for turn in turns {
            let (mut calls, mut replies) = (Vec::new(), Vec::new());
            for (name, path, failure) in *turn {
                let arguments = json!({"path": path}).as_object().cloned().unwrap();
                // Ids may come again in a later turn.
                let call = ToolCall::new(*name, arguments).with_id(calls.len().to_string());
                let told = if failure.is_empty() { "done" } else { failure };
                replies.push(ToolReply { is_error: !failure.is_empty(), ..ToolReply::ok(&call, told) });
                calls.push(call);
            }
            transcript = transcript.with(Message::calls(calls)).with(Message::Tool(replies));
        }
        let shown = without_superseded(&transcript, &tools);
        let calls = shown.calls_of_run();
        assert!(calls.iter().all(|(_, reply)| reply.is_some()), "each has its result: {calls:?}");
        calls.iter().map(|(call, _)| format!("{} {}", call.name, call.arguments["path"])).collect()
    }

    #[test]
    fn a_failed_call_whose_advice_was_taken_is_left_out() {
        let (edit, read) = (("Edit", "a", FIRST), ("Read", "a", ""));
        assert_eq!(left(&[&[edit]]), ["Edit \"a\""], "nothing was done about it");
        assert_eq!(left(&[&[edit], &[read]]), ["Read \"a\""]);
        assert_eq!(
            left(&[&[edit, ("Edit", "b", FIRST)], &[read], &[("Edit", "a", "")]]),
            ["Read \"a\"", "Edit \"a\""]
        );
        assert_eq!(left(&[&[edit, read]]), ["Read \"a\""], "of one turn the failed call alone goes");
        assert_eq!(left(&[&[edit], &[("Read", "b", "")]]).len(), 2, "another file was read");
        assert_eq!(left(&[&[edit], &[("Read", "a", "no such file")]]).len(), 2, "the look failed, too");
        assert_eq!(left(&[&[read], &[edit]]).len(), 2, "it was read before");
    }

    #[test]
    fn other_failures_stay() {
        let not_found = ("Edit", "a", "String to replace not found in file.");
        assert_eq!(left(&[&[not_found], &[("Read", "a", "")]]).len(), 2);
        assert_eq!(left(&[&[("Edit", "a", "nobody could read it")], &[("Read", "a", "")]]).len(), 2);
    }

    #[test]
    fn an_earlier_run_stays_as_it_was() {
        let call = ToolCall::new("Edit", serde_json::Map::new());
        let earlier = Transcript::new()
            .with(Message::User("Edit a".into()))
            .with(Message::calls([call.clone()]))
            .with(Message::Tool(vec![ToolReply::error(&call, FIRST)]))
            .with(Message::answer("It was not read."))
            .with(Message::User("Read it then".into()));
        let tools = [ToolSpec::new("Read", "", json!({"type": "object"})).unwrap()];
        assert!(matches!(without_superseded(&earlier, &tools), Cow::Borrowed(_)));
    }
}
