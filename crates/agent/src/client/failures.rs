//! The failures of a client's run: which results are some, what they advise, and what is shown of those whose advice was taken.
//!
//! Of a call that failed for want of another one which was made since, the model is shown what it was about, not the texts that it had.
//! Why: a small model copies itself. Told "Read it first", it reads the file, and then writes the edit that it wrote before it had read it,
//! with text that the file does not have. Shown that an edit of the file was tried, and what stands in it, it writes what stands there.
//! Shown the file alone, it goes on reading others.
//!
//! Both calls are about the same thing where they share a text among their arguments, such as a path.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::Value;
use toolgate_chat::names::{holds_word, name_parts};
use toolgate_chat::{Effect, Message, ToolCall, ToolReply, ToolSpec, Transcript};

use toolgate_engine::stages::effect_of;

/// The other tools that a failure of a tool names as what to do first: by a name that is no word of its own, or is written as the name
/// is.
pub(super) fn advised<'a>(
    tool: &'a str,
    told: &'a str,
    tools: &'a [ToolSpec],
) -> impl Iterator<Item = &'a ToolSpec> + use<'a> {
    let is_name = |name: &str| name_parts(name).count() > 1 || name.starts_with(char::is_uppercase);
    tools.iter().filter(move |other| {
        let name = other.name.as_str();
        name != tool && is_name(name) && holds_word(told, name)
    })
}

/// A conversation in which the changes that were refused are failures: not every API has a place for it, so the text has to tell. It
/// names another tool as what to do first, in its first line; behind it may stand what is in a file.
#[doc(hidden)]
pub fn with_refusals(transcript: Transcript, tools: &[ToolSpec]) -> Transcript {
    let changes = |name: &str| effect_of(tools, name) == Effect::Changes;
    let is_refusal = |reply: &ToolReply| {
        let line = reply.content.trim_start().lines().next().unwrap_or_default();
        changes(&reply.name)
            && FIRST.iter().any(|word| holds_word(line, word))
            && advised(&reply.name, line, tools).next().is_some()
    };
    let told = |mut reply: ToolReply| {
        reply.is_error = reply.is_error || is_refusal(&reply);
        reply
    };
    let read = transcript.iter().cloned().map(|message| match message {
        Message::Tool(replies) => Message::Tool(replies.into_iter().map(told).collect()),
        other => other,
    });
    read.collect()
}

/// What a refusal says when to do what it names.
const FIRST: [&str; 2] = ["first", "before"];

/// A conversation in which the failed calls of its run whose advice was taken have no more than what they share with the call that was
/// made instead.
#[doc(hidden)]
pub fn without_superseded<'a>(transcript: &'a Transcript, tools: &[ToolSpec]) -> Cow<'a, Transcript> {
    let calls = transcript.calls_of_run();
    let mut worked: HashSet<(&str, &str)> = HashSet::new();
    let mut superseded: Vec<Option<ToolCall>> = Vec::with_capacity(calls.len());
    for (call, reply) in calls.iter().rev() {
        let failure = reply.filter(|reply| reply.is_error);
        superseded.push(failure.and_then(|failure| {
            let mut advised = advised(&failure.name, &failure.content, tools);
            advised.find_map(|tool| about(call, |text| worked.contains(&(tool.name.as_str(), text))))
        }));
        if reply.is_some_and(|reply| !reply.is_error) {
            worked.extend(texts(call).map(|text| (call.name.as_str(), text)));
        }
    }
    if superseded.iter().all(Option::is_none) {
        return Cow::Borrowed(transcript);
    }
    let mut superseded = superseded.into_iter().rev();
    let start = transcript.iter().rposition(|message| matches!(message, Message::User(_))).unwrap_or(0);
    let shown = transcript.iter().enumerate().map(|(at, message)| match message {
        Message::Assistant { content, reasoning, calls } if at >= start => Message::Assistant {
            content: content.clone(),
            reasoning: reasoning.clone(),
            calls: calls
                .iter()
                .map(|call| superseded.next().flatten().unwrap_or_else(|| call.clone()))
                .collect(),
        },
        other => other.clone(),
    });
    Cow::Owned(shown.collect())
}

/// A call with those of its arguments alone that are shared texts; nothing where none is.
fn about(call: &ToolCall, is_shared: impl Fn(&str) -> bool) -> Option<ToolCall> {
    let mut shared = call.clone();
    shared.arguments.retain(|_, value| value.as_str().is_some_and(&is_shared));
    (!shared.arguments.is_empty()).then_some(shared)
}

/// Whether two calls are about the same thing.
pub(super) fn share_a_text(one: &ToolCall, other: &ToolCall) -> bool {
    texts(one).any(|text| texts(other).any(|other| text == other))
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

    const UNREAD: &str = "File has not been read yet. Read it first before writing to it.";

    /// The calls of a run as they are shown, each of a tool, a path, a text, and what came of it; nothing is a success.
    fn shown(turns: &[&[(&str, &str, &str)]]) -> Vec<String> {
        let tools = ["Read", "Edit"].map(|name| ToolSpec::new(name, "", json!({"type": "object"})).unwrap());
        let mut transcript = Transcript::new().with(Message::User("Put 9 for 8 in a and b".into()));
        for turn in turns {
            let (mut calls, mut replies) = (Vec::new(), Vec::new());
            for (name, path, failure) in *turn {
                let arguments = match *name {
                    "Edit" => json!({"path": path, "old": "8", "all": false}),
                    _ => json!({"path": path, "all": false}),
                };
                // Ids may come again in a later turn.
                let call = ToolCall::new(*name, arguments.as_object().cloned().unwrap());
                let call = call.with_id(calls.len().to_string());
                let told = if failure.is_empty() { "done" } else { failure };
                replies.push(ToolReply { is_error: !failure.is_empty(), ..ToolReply::ok(&call, told) });
                calls.push(call);
            }
            transcript = transcript.with(Message::calls(calls)).with(Message::Tool(replies));
        }
        let shown = without_superseded(&transcript, &tools);
        let calls = shown.calls_of_run();
        assert!(calls.iter().all(|(_, reply)| reply.is_some()), "each has its result: {calls:?}");
        let words = |call: &ToolCall| format!("{} {}", call.name, texts(call).collect::<String>());
        calls.iter().map(|(call, _)| words(call)).collect()
    }

    #[test]
    fn of_a_failed_call_whose_advice_was_taken_what_it_was_about_is_left() {
        let (edit, read) = (("Edit", "a", UNREAD), ("Read", "a", ""));
        assert_eq!(shown(&[&[edit]]), ["Edit a8"], "nothing was done about it");
        assert_eq!(shown(&[&[edit], &[read]]), ["Edit a", "Read a"]);
        assert_eq!(shown(&[&[edit, ("Edit", "b", UNREAD)], &[read]]), ["Edit a", "Edit b8", "Read a"]);
        assert_eq!(shown(&[&[edit], &[read], &[("Edit", "a", "")]]), ["Edit a", "Read a", "Edit a8"]);
        assert_eq!(shown(&[&[edit, read]]), ["Edit a", "Read a"]);
        assert_eq!(shown(&[&[edit], &[("Read", "b", "")]]), ["Edit a8", "Read b"], "another file was read");
        assert_eq!(
            shown(&[&[edit], &[("Read", "a", "no such file")]]),
            ["Edit a8", "Read a"],
            "nor was it read"
        );
        assert_eq!(shown(&[&[read], &[edit]]), ["Read a", "Edit a8"], "it was read before");
    }

    #[test]
    fn other_failures_stay() {
        let not_found = ("Edit", "a", "String to replace not found in file.");
        assert_eq!(shown(&[&[not_found], &[("Read", "a", "")]]), ["Edit a8", "Read a"]);
        assert_eq!(
            shown(&[&[("Edit", "a", "nobody could read it")], &[("Read", "a", "")]]),
            ["Edit a8", "Read a"]
        );
    }

    #[test]
    fn an_earlier_run_stays_as_it_was() {
        let call = ToolCall::new("Edit", serde_json::Map::new());
        let earlier = Transcript::new()
            .with(Message::User("Edit a".into()))
            .with(Message::calls([call.clone()]))
            .with(Message::Tool(vec![ToolReply::error(&call, UNREAD)]))
            .with(Message::answer("It was not read."))
            .with(Message::User("Read it then".into()));
        let tools = [ToolSpec::new("Read", "", json!({"type": "object"})).unwrap()];
        assert!(matches!(without_superseded(&earlier, &tools), Cow::Borrowed(_)));
    }

    #[test]
    fn a_change_that_was_refused_is_a_failure_though_only_its_text_says_so() {
        let tool = |name: &str, effect| ToolSpec::new(name, "", json!({})).unwrap().with_effect(effect);
        let tools = [tool("edit", Effect::Changes), tool("read_file", Effect::Reads)];
        let is_failure = |name: &str, content: &str| {
            let call = ToolCall::new(name, serde_json::Map::new());
            let told = Transcript::new()
                .with(Message::calls([call.clone()]))
                .with(Message::Tool(vec![ToolReply::ok(&call, content)]));
            let read = with_refusals(told, &tools);
            read.calls_of_run().first().and_then(|(_, reply)| *reply).unwrap().is_error
        };
        assert!(is_failure("edit", "a.py has not been read. Use the read_file tool first to load it"));
        assert!(is_failure("edit", "Call read_file before you edit a.py\nNothing was changed."));
        assert!(!is_failure("edit", "a.py was changed; read_file shows it"));
        assert!(!is_failure("edit", "a.py was changed:\n# call read_file first"), "so stands in the file");
        assert!(!is_failure("read_file", "# call edit first, not read_file"));
        // One that is offered no more is told by its name.
        assert!(is_failure("write_file", "a.py has not been read. Use the read_file tool first to load it"));
        assert!(!is_failure("list_files", "# call read_file first"));
    }
}
