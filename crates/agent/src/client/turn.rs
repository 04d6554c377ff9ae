//! Where a client's run stands in front of a turn: what is pending, what was done already, and whether a failure may be mended.
//!
//! Why: a small model that has one result answers, even if it was asked for two things. Our own loop gives its engine the pending
//! mentions. Without them no client's run would come to its second step.
//!
//! For the packages of this workspace alone: no part of the API.

use std::collections::VecDeque;

use toolgate_chat::{Effect, Message, ToolCall, ToolReply, ToolSpec, Transcript, names};
use toolgate_engine::stages::effect_of;

use super::failures::{advised, share_a_text};
use crate::hints::pending::{self, Pending};
use crate::hints::{Hint as _, Hints, Memory};

/// Where a client's conversation stands.
#[derive(Debug, Default, PartialEq)]
pub struct ClientTurn {
    /// Whether the calls whose results come last changed something, as far as their names tell.
    pub changed: bool,
    /// Whether the request names what no call has taken up, and the last calls took up another.
    pub pending: bool,
    /// Whether a call failed, for the first time in this run, and the failure tells what to do instead.
    pub retry: bool,
    /// The calls that would say the same again.
    pub completed: Vec<ToolCall>,
    /// While something is pending, what speaks for each tool ([`TurnRequest::prior`](toolgate_engine::TurnRequest::prior)).
    pub prior: Vec<f64>,
}

/// Calls of a run behind which nothing counts as pending: a client may not bound its runs.
const MOST_CALLS: usize = 12;

/// Completed calls that are kept, the latest.
const MOST_COMPLETED: usize = 256;

/// Times in a row that a call of which nobody knows what it does may have the same result: it may wait for something.
const MOST_SAME: usize = 5;

impl ClientTurn {
    /// Where the conversation stands, whose client offers these tools and, if a call is `required`, takes nothing else.
    pub fn of(transcript: &Transcript, tools: &[ToolSpec], required: bool, hints: &Hints) -> Self {
        let replies = match transcript.messages() {
            [.., Message::Tool(replies)] => replies,
            // Who says something before there was an answer goes on with the same run.
            [run @ .., Message::User(_)] if matches!(run.last(), Some(Message::Tool(_))) => {
                let run: Transcript = run.iter().cloned().collect();
                return Self { completed: completed(tools, &run.calls_of_run()), ..Self::default() };
            }
            _ => return Self::default(),
        };
        let changed = replies.iter().any(|reply| !reply.is_error && changes(tools, &reply.name));
        let calls = transcript.calls_of_run();
        let mut done = completed(tools, &calls);
        if required {
            done.extend(answered(tools, &calls));
        }
        let nothing = Self { changed, completed: done, ..Self::default() };
        if tools.is_empty() || calls.len() > MOST_CALLS {
            return nothing;
        }
        let mut failures = calls.iter().filter(|(_, reply)| reply.is_some_and(|reply| reply.is_error));
        if let Some(failure) = replies.iter().find(|reply| reply.is_error) {
            // Of what follows a change that failed nothing but a look is led to.
            return match failures.nth(1).is_none() && tells_how(failure, tools) {
                true => Self { retry: true, ..nothing },
                false => nothing,
            };
        }
        if !hints.has(pending::PendingMentions.name()) {
            return nothing;
        }
        let has_changed = calls
            .iter()
            .any(|(call, reply)| reply.is_some_and(|reply| !reply.is_error) && changes(tools, &call.name));
        let pending = pending_of(transcript, tools, has_changed);
        // What stays pending whatever is called is no reason for a further call.
        if pending.is_empty() || pending == pending_of(&before_last_calls(transcript), tools, has_changed) {
            return nothing;
        }
        let prior = tools.iter().map(|tool| pending.fit(tool.name.as_str(), true).sign()).collect();
        Self { pending: true, prior, ..nothing }
    }
}

/// Whether a call of a tool changes something.
fn changes(tools: &[ToolSpec], name: &str) -> bool {
    effect_of(tools, name) == Effect::Changes
}

/// Whether a failure tells what to do instead: another tool ("Read it first"), or another value.
fn tells_how(failure: &ToolReply, tools: &[ToolSpec]) -> bool {
    failure.content.to_lowercase().contains("did you mean")
        || advised(&failure.name, &failure.content, tools).next().is_some()
}

/// The calls of the run that have a result and would give no other one: where nothing but calls are taken, a model makes them again.
fn answered(tools: &[ToolSpec], calls: &[(&ToolCall, Option<&ToolReply>)]) -> Vec<ToolCall> {
    let is_done = |call: &ToolCall| names::looks(&call.name) || changes(tools, &call.name);
    let done =
        calls.iter().filter(|(call, reply)| is_done(call) && reply.is_some_and(|reply| !reply.is_error));
    done.map(|(call, _)| (*call).clone()).collect()
}

/// The conversation before the calls whose results come last.
fn before_last_calls(transcript: &Transcript) -> Transcript {
    let is_reply = |message: &&Message| matches!(message, Message::Tool(_));
    let results = transcript.iter().rev().take_while(is_reply).count();
    let kept = transcript.len().saturating_sub(results + 1);
    transcript.iter().take(kept).cloned().collect()
}

/// What is pending of the request; of one that has changed something, paths alone.
fn pending_of(transcript: &Transcript, tools: &[ToolSpec], has_changed: bool) -> Pending {
    let tools: Vec<_> = tools.iter().map(|tool| (tool.name.as_str(), None)).collect();
    let pending = pending::of(transcript, &tools, &Memory::default());
    if has_changed { pending.after_change() } else { pending }
}

/// The calls that would say the same again:
///
/// - looks, until something may be another;
/// - changes, since the same once more changes nothing, until another one was made at the same place; but for those that do more each
///   time;
/// - changes that failed, until a look or another change was made, which may have been what they failed for want of.
fn completed(tools: &[ToolSpec], calls: &[(&ToolCall, Option<&ToolReply>)]) -> Vec<ToolCall> {
    let mut completed: VecDeque<(&ToolCall, Completed)> = VecDeque::new();
    for (at, (call, reply)) in calls.iter().enumerate() {
        let Some(reply) = reply else { continue };
        let effect = effect_of(tools, &call.name);
        match effect {
            Effect::Unknown => completed.clear(),
            Effect::Changes if !reply.is_error => {
                completed.retain(|(made, kind)| *kind == Completed::Made && !share_a_text(made, call));
            }
            Effect::Reads if !reply.is_error => completed.retain(|(_, kind)| *kind != Completed::Failed),
            Effect::Changes | Effect::Reads => {}
        }
        let kind = match effect {
            Effect::Changes if reply.is_error => Some(Completed::Failed),
            Effect::Changes if !names::steps(&call.name) => Some(Completed::Made),
            Effect::Reads => names::looks(&call.name).then_some(Completed::Seen),
            Effect::Changes | Effect::Unknown => {
                is_stuck(calls.get(..=at).unwrap_or_default()).then_some(Completed::Seen)
            }
        };
        completed.extend(kind.map(|kind| (*call, kind)));
        if completed.len() > MOST_COMPLETED {
            completed.pop_front();
        }
    }
    completed.into_iter().map(|(call, _)| call.clone()).collect()
}

/// Why a call need not come again.
#[derive(Clone, Copy, PartialEq)]
enum Completed {
    /// It said what there is.
    Seen,
    /// It changed something.
    Made,
    /// It was to change something, and failed.
    Failed,
}

/// Whether the last call came as often in a row as is enough, with the same result each time: it would come for ever.
fn is_stuck(calls: &[(&ToolCall, Option<&ToolReply>)]) -> bool {
    let Some((last, Some(told))) = calls.last() else { return false };
    let is_same = |(call, reply): &&(&ToolCall, Option<&ToolReply>)| {
        call.same_request(last) && reply.is_some_and(|reply| reply.content == told.content)
    };
    calls.iter().rev().take(MOST_SAME).take_while(is_same).count() == MOST_SAME
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use serde_json::{Map, Value, json};

    use super::*;

    fn after(request: &str, calls: &[(&str, Value, &str)]) -> ClientTurn {
        let names = ["read_file", "write_file", "get_weather", "send_message"];
        let tool = |name| ToolSpec::new(name, "", json!({"type": "object"})).unwrap();
        let tools = names.map(|name| tool(name).with_effect(names::effect(name)));
        let mut transcript = Transcript::new().with(Message::User(request.to_owned()));
        for (id, (name, arguments, content)) in calls.iter().enumerate() {
            let call = ToolCall::new(*name, arguments.as_object().cloned().unwrap()).with_id(id.to_string());
            let reply = ToolReply::ok(&call, *content);
            transcript = transcript.with(Message::calls([call])).with(Message::Tool(vec![reply]));
        }
        ClientTurn::of(&transcript, &tools, false, &Hints::auto())
    }

    #[test]
    fn a_run_goes_on_while_its_calls_take_up_what_was_named() {
        let weather = |city: &str| ("get_weather", json!({"city": city}), "rain");
        let both = "What's the weather in Oslo and in Rome?";
        assert_eq!(after(both, &[]), ClientTurn::default(), "nothing was called");
        let one = after(both, &[weather("Oslo")]);
        assert!(one.pending && !one.changed);
        assert_eq!(one.completed.len(), 1, "Oslo is not asked again");
        assert_eq!(one.prior, [0.0, 0.0, 1.0, 0.0], "of the tools the one that the request has a word of");
        assert!(!after(both, &[weather("Oslo"), weather("Rome")]).pending);
        assert!(
            !after(both, &[weather("Oslo"), weather("Bergen")]).pending,
            "the last took up nothing of it"
        );
    }

    #[test]
    fn what_was_sent_in_other_words_is_not_sent_again() {
        let sent = ("send_message", json!({"to": "Ana", "text": "I come late"}), "sent");
        let told = after("Tell Ana that I won't be in Oslo before 9.", &[sent]);
        assert!(told.changed && !told.pending);
    }

    #[test]
    fn a_call_that_would_say_the_same_is_not_to_be_made_again() {
        let call = |name: &'static str, city: &str| (name, json!({"city": city}), "done");
        let request = "Weather in Oslo, then in Rome and Bergen?";
        let weather = call("get_weather", "Oslo");
        let completed = |calls: &[(&str, Value, &str)]| after(request, calls).completed.len();
        assert_eq!(completed(&[weather.clone(), call("get_weather", "Rome")]), 2);
        // Nobody knows what it does; the weather may be another now.
        assert_eq!(completed(&[weather.clone(), call("bash", "Rome")]), 0);
        assert_eq!(completed(&[weather.clone(), call("bash", "x"), call("get_weather", "Rome")]), 1);
        // What it waits for may come, but not for ever.
        let waits = call("bash", "x");
        let often = |times: usize| vec![waits.clone(); times];
        assert_eq!(completed(&often(MOST_SAME - 1)), 0);
        assert_eq!(completed(&often(MOST_SAME)), 1);
        let last = ("bash", json!({"city": "x"}), "other");
        assert_eq!(completed(&[often(MOST_SAME - 1), vec![last]].concat()), 0);
        // It does more each time, and one that only passes on what time brings may be asked for long.
        assert_eq!(completed(&[call("skip_song", "x")]), 0);
        assert_eq!(completed(&vec![call("get_job_status", "x"); MOST_SAME]), 0);
        // A change was made, and may have made another of the weather.
        assert_eq!(completed(&[weather, call("write_file", "x")]), 1);
    }

    #[test]
    fn a_change_is_made_once_and_one_that_failed_until_something_else_went_well() {
        let tools = ["Read", "Edit"].map(|name| {
            let tool = ToolSpec::new(name, "", json!({"type": "object"})).unwrap();
            tool.with_effect(names::effect(name))
        });
        let completed = |calls: &[(&str, &str, bool)]| {
            let mut transcript = Transcript::new().with(Message::User("Put 9 for 8 in a.txt, b.txt".into()));
            for (name, path, is_error) in calls {
                let arguments = json!({"path": path}).as_object().cloned().unwrap();
                let call = ToolCall::new(*name, arguments);
                let reply = ToolReply { is_error: *is_error, ..ToolReply::ok(&call, "told") };
                transcript = transcript.with(Message::calls([call])).with(Message::Tool(vec![reply]));
            }
            let completed = ClientTurn::of(&transcript, &tools, false, &Hints::auto()).completed;
            completed
                .iter()
                .map(|call| format!("{} {}", call.name, call.arguments["path"]))
                .collect::<Vec<_>>()
        };
        let (edited, failed) = (("Edit", "a.txt", false), ("Edit", "b.txt", true));
        assert_eq!(completed(&[edited]), ["Edit \"a.txt\""]);
        assert_eq!(completed(&[edited, failed]), ["Edit \"a.txt\"", "Edit \"b.txt\""]);
        assert_eq!(completed(&[failed, ("Read", "b.txt", false)]), ["Read \"b.txt\""], "it was read first");
        assert_eq!(completed(&[failed, ("Read", "b.txt", true)]).len(), 2, "a look that failed gave nothing");
        assert_eq!(completed(&[failed, edited]), ["Edit \"a.txt\""], "it may have been in the way");
        let other = ("Edit", "c.txt", false);
        assert_eq!(
            completed(&[edited, other]),
            ["Edit \"a.txt\"", "Edit \"c.txt\""],
            "they do not alternate"
        );
    }

    #[test]
    fn a_run_that_has_gone_on_for_long_is_left_to_the_model() {
        let cities: Vec<String> = (0..20).map(|n| format!("City{n}")).collect();
        let request = format!("Weather in {}?", cities.join(", "));
        let calls: Vec<_> =
            cities.iter().map(|city| ("get_weather", json!({"city": city}), "rain")).collect();
        assert!(after(&request, &calls[..MOST_CALLS]).pending);
        assert!(!after(&request, &calls[..=MOST_CALLS]).pending);
    }

    #[test]
    fn what_a_change_leaves_open_does_not_keep_a_run_going() {
        let add = ("add_item", json!({"name": "milk"}), "added");
        let list = ("list_items", json!({}), "milk");
        let request = "Put milk on the list for shop.example and tell Bob";
        let one = after(request, std::slice::from_ref(&add));
        let two = after(request, &[add, list]);
        assert!(!one.pending && !two.pending, "{one:?} {two:?}");
    }

    #[test]
    fn a_failure_that_tells_what_to_do_instead_is_mended_once() {
        let called = |called: &str, failures: &[&str]| {
            let tools = ["read_file", "list_directory"];
            let tools = tools.map(|name| ToolSpec::new(name, "", json!({"type": "object"})).unwrap());
            let mut transcript = Transcript::new().with(Message::User("What's in inbox?".into()));
            for failure in failures {
                let call = ToolCall::new(called, Map::new());
                let reply = ToolReply::error(&call, *failure);
                transcript = transcript.with(Message::calls([call])).with(Message::Tool(vec![reply]));
            }
            ClientTurn::of(&transcript, &tools, false, &Hints::auto())
        };
        let run = |failures: &[&str]| called("read_file", failures);
        let told = "this is a directory; use list_directory";
        assert!(run(&[told]).retry && run(&["no such file; did you mean \"Inbox\"?"]).retry);
        let own = "Error executing tool read_file: no such file";
        assert!(
            !run(&["no such file"]).retry && !run(&[own]).retry,
            "there is nothing else to do than to say so"
        );
        assert!(!run(&[told, told]).retry, "once");
        assert!(called("write_file", &[told]).retry, "of a change, too: it is a look that is led to");
        assert!(called("Edit", &["use read_file first"]).retry && !called("Edit", &["read it first"]).retry);
    }
}
