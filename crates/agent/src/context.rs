//! Making a transcript fit: what to give up when the prompt is longer than the model's context.
//!
//! Invariant: the system prompt, the task and the newest turn stay. What is left out stays in the caller's transcript: that is done to the
//! copy that the model is shown. A summary takes the place of earlier turns in the transcript itself, so that it is written once.

use std::fmt::Write as _;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use toolgate_chat::notes::with_note;
use toolgate_chat::{Message, ToolChoice, Transcript};
use toolgate_engine::{self as engine, Cancel, TurnRequest};
use toolgate_infer::{Stats, StopReason};

use crate::{Agent, Error, Event};

/// What becomes of a conversation that is longer than the model's context.
///
/// ```
/// use toolgate_agent::{ContextPolicy, Options};
/// let options = Options::default().context_policy(ContextPolicy::Summarize);
/// assert_eq!(Options::default().context_policy, ContextPolicy::Trim);
/// # assert_eq!(options.context_policy, ContextPolicy::Summarize);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ContextPolicy {
    /// The model is shown less of it: long results cut, then without the oldest turns, then without the oldest calls. The transcript stays
    /// as it is.
    #[default]
    Trim,
    /// The model first writes a summary of the turns before the present request; in a long run, of all its calls but the newest. It takes
    /// their place, in the caller's transcript, too. Where that is not enough, the model is shown less, as with `Trim`.
    Summarize,
    /// The run ends with an error that has the numbers.
    Error,
}

/// Tokens of a summary at most.
const SUMMARY_TOKENS: usize = 320;
/// Characters of each message that are summarized, at first. Where that is too long, half as many are, and so on.
const SUMMARIZED: usize = 4_000;
/// Fewer of each tell nothing: then nothing is summarized.
const LEAST_SUMMARIZED: usize = 60;
/// What the model is told to do with the conversation behind it.
const ASKED: &str = "Summarize this conversation for whoever goes on with it: what was asked, what was found, what was changed, and what is \
    open. Keep names, numbers and paths. At most 150 words.";

/// Results shorter than this are not worth cutting.
const SHORTEST_CUT: usize = 400;

/// Has the model summarize what came before, and puts the summary in its place. Returns whether it did.
pub(super) fn summarize(
    agent: &Agent,
    transcript: &mut Transcript,
    cancel: &Cancel,
    stats: &mut Stats,
    events: &mut dyn FnMut(Event),
) -> Result<bool, Error> {
    let Some(earlier) = earlier(transcript) else { return Ok(false) };
    let messages = transcript.messages().get(earlier.clone()).unwrap_or_default();
    let sampling = agent.options.sampling.clone().max_tokens(SUMMARY_TOKENS);
    let mut most = SUMMARIZED;
    while most >= LEAST_SUMMARIZED {
        let asked = Message::User(format!("{ASKED}\n\n{}", told(messages, most)));
        let asked = Transcript::new().with(asked);
        let request = TurnRequest::new(&asked, &[], &sampling).choice(ToolChoice::None);
        let turn = match agent.engine.turn(&request, cancel, &mut |_| ()) {
            Ok(turn) => turn,
            Err(error) if error.kind() == engine::Kind::Overflow => {
                most /= 2;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        *stats += &turn.stats;
        let summary = turn.parsed.content.unwrap_or_default().trim().to_owned();
        if turn.stop == StopReason::Cancelled || summary.is_empty() {
            return Ok(false);
        }
        let messages = earlier.len();
        replace(transcript, earlier, &summary);
        events(Event::Summarized { messages, summary });
        return Ok(true);
    }
    Ok(false)
}

/// What a summary takes the place of: the messages before the present request, but for the system prompt. Where there are none, the calls
/// of this run and what came of them, but for the newest.
fn earlier(transcript: &Transcript) -> Option<Range<usize>> {
    let messages = transcript.messages();
    let task = messages.iter().rposition(|message| matches!(message, Message::User(_)))?;
    let first = messages.iter().position(|message| !matches!(message, Message::System(_)))?;
    if first < task {
        return Some(first..task);
    }
    let newest = messages.iter().rposition(is_call)?;
    (task + 1 < newest).then_some(task + 1..newest)
}

fn is_call(message: &Message) -> bool {
    matches!(message, Message::Assistant { calls, .. } if !calls.is_empty())
}

/// Messages as plain text, at most so many characters of each.
fn told(messages: &[Message], most: usize) -> String {
    let mut text = String::new();
    let mut tell = |who: &str, said: &str| {
        let shown: String = said.chars().take(most).collect();
        let more = if shown.len() < said.len() { " …" } else { "" };
        let _ = writeln!(text, "{who}: {shown}{more}");
    };
    for message in messages {
        match message {
            Message::System(said) => tell("System", said),
            Message::User(said) => tell("User", said),
            Message::Assistant { content, calls, .. } => {
                for call in calls {
                    let arguments = serde_json::to_string(&call.arguments).unwrap_or_default();
                    tell(&format!("Called {}", call.name), &arguments);
                }
                if let Some(content) = content {
                    tell("Assistant", content);
                }
            }
            Message::Tool(replies) => {
                for reply in replies {
                    tell(if reply.is_error { "Error" } else { "Result" }, &reply.content);
                }
            }
        }
    }
    text
}

/// Puts a summary in front of the request, in the place of these messages.
fn replace(transcript: &mut Transcript, earlier: Range<usize>, summary: &str) {
    remove(transcript, earlier.start, earlier.end);
    let mut messages = transcript.messages_mut().iter_mut().rev();
    let task = messages.find_map(|message| match message {
        Message::User(task) => Some(task),
        _ => None,
    });
    if let Some(task) = task {
        *task = with_note(summary, task);
    }
}

/// Makes a transcript shorter by one step and says how; `None` if nothing is left to give up.
///
/// First long results are cut, then earlier questions of a chat go with all that came of them, then the oldest calls
/// of this run with their results.
pub(super) fn shorten(transcript: &mut Transcript) -> Option<&'static str> {
    if cut_longest_result(transcript) {
        return Some("the longest tool result was cut");
    }
    let messages = transcript.messages();
    let is_question = |message: &Message| matches!(message, Message::User(_));
    let task = messages.iter().rposition(is_question)?;
    let first = messages.iter().position(|message| !matches!(message, Message::System(_)))?;
    if first < task {
        let next = messages.iter().skip(first + 1).position(is_question)?;
        remove(transcript, first, first + 1 + next);
        return Some("the oldest turn of the conversation was left out");
    }
    // Calls come with their results; the newest pair is what the model is to go on from.
    let mut calls = messages.iter().enumerate().skip(task + 1).filter(|(_, message)| is_call(message));
    let (oldest, _) = calls.next()?;
    let (second, _) = calls.next()?;
    remove(transcript, oldest, second);
    Some("the oldest calls were left out")
}

/// Removes the messages from one place up to another.
fn remove(transcript: &mut Transcript, from: usize, to: usize) {
    let kept = transcript.iter().enumerate().filter(|(at, _)| !(from..to).contains(at));
    *transcript = kept.map(|(_, message)| message.clone()).collect();
}

/// Halves the longest tool result, with a marker that says so; `false` if no result is long enough to cut.
fn cut_longest_result(transcript: &mut Transcript) -> bool {
    let longest = transcript
        .messages_mut()
        .iter_mut()
        .filter_map(|message| match message {
            Message::Tool(replies) => Some(replies),
            _ => None,
        })
        .flatten()
        .max_by_key(|reply| reply.content.len());
    let Some(reply) = longest.filter(|reply| reply.content.len() >= SHORTEST_CUT) else {
        return false;
    };
    let total = reply.content.len();
    let mut keep = total / 2;
    while !reply.content.is_char_boundary(keep) {
        keep -= 1;
    }
    reply.content.truncate(keep);
    reply.content.push_str(&format!(
        "\n[cut to fit the model's context: {keep} of {total} bytes shown; ask for less, or for the part you need]"
    ));
    true
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic, reason = "tests")]

    use super::*;
    use toolgate_chat::{ToolCall, ToolReply};

    fn transcript(contents: &[&str]) -> Transcript {
        let mut transcript = Transcript::new();
        transcript.push(Message::User("question".repeat(500)));
        transcript.push(Message::Tool(
            contents
                .iter()
                .map(|content| ToolReply {
                    call_id: "1".into(),
                    name: "read_file".into(),
                    content: (*content).into(),
                    is_error: false,
                })
                .collect(),
        ));
        transcript
    }

    #[test]
    fn cuts_only_the_longest_result_and_ends() {
        let mut transcript = transcript(&["short", &"é".repeat(5_000)]);
        let mut cuts = 0;
        while cut_longest_result(&mut transcript) {
            cuts += 1;
            assert!(cuts < 40, "cutting must come to an end");
        }
        assert!(cuts > 2);
        let Some(Message::Tool(replies)) = transcript.last() else { panic!("no results") };
        assert_eq!(replies.first().map(|r| r.content.as_str()), Some("short"));
        assert!(replies.last().is_some_and(|r| r.content.contains("cut to fit")));
    }

    #[test]
    fn a_summary_takes_the_place_of_earlier_turns() {
        let call = ToolCall::new("read_file", serde_json::Map::new());
        let mut transcript = Transcript::from_iter([
            Message::System("be brief".into()),
            Message::User("Read a.txt".into()),
            Message::calls([call.clone()]),
            Message::Tool(vec![ToolReply::ok(&call, "ééé")]),
            Message::answer("It has three letters."),
            Message::User("And now?".into()),
            Message::answer("half an answer"),
        ]);
        assert_eq!(earlier(&transcript), Some(1..5));
        let messages = transcript.messages().get(1..5).unwrap_or_default();
        let whole = "User: Read a.txt\nCalled read_file: {}\nResult: ééé\nAssistant: It has three letters.\n";
        assert_eq!(told(messages, 100), whole);
        assert!(told(messages, 2).contains("Result: éé …\n"), "{}", told(messages, 2));
        replace(&mut transcript, 1..5, "a.txt has three letters");
        assert_eq!(transcript.len(), 3);
        assert!(
            transcript
                .question()
                .is_some_and(|task| task.contains("three letters") && task.ends_with("And now?"))
        );
        assert_eq!(earlier(&transcript), None, "there is nothing more to summarize");
    }

    #[test]
    fn a_summary_takes_the_place_of_the_calls_of_a_long_run_but_for_the_newest() {
        let calls = ["one", "two", "three"].map(|name| ToolCall::new(name, serde_json::Map::new()));
        let mut transcript = Transcript::new().with(Message::User("task".into()));
        for call in &calls {
            transcript.push(Message::calls([call.clone()]));
            transcript.push(Message::Tool(vec![ToolReply::ok(call, "short")]));
        }
        assert_eq!(earlier(&transcript), Some(1..5));
        replace(&mut transcript, 1..5, "one and two were called");
        assert_eq!(transcript.len(), 3);
        assert!(
            transcript.question().is_some_and(|task| task.contains("one and two") && task.ends_with("task"))
        );
        assert_eq!((transcript.calls_of_run().len(), earlier(&transcript)), (1, None));
    }

    #[test]
    fn gives_up_old_turns_before_old_calls_and_never_the_task_or_the_newest_result() {
        let call = |name: &str| ToolCall::new(name, serde_json::Map::new());
        let result = |call: &ToolCall| Message::Tool(vec![ToolReply::ok(call, "short")]);
        let (one, two) = (call("one"), call("two"));
        let mut transcript = Transcript::from_iter([
            Message::System("be brief".into()),
            Message::User("earlier".into()),
            Message::answer("yes"),
            Message::User("task".into()),
            Message::calls([one.clone()]),
            result(&one),
            Message::calls([two.clone()]),
            result(&two),
        ]);
        assert_eq!(shorten(&mut transcript), Some("the oldest turn of the conversation was left out"));
        assert_eq!((transcript.len(), transcript.question()), (6, Some("task")));
        assert_eq!(shorten(&mut transcript), Some("the oldest calls were left out"));
        let left = [
            Message::System("be brief".into()),
            Message::User("task".into()),
            Message::calls([two.clone()]),
            result(&two),
        ];
        assert_eq!(transcript.messages(), left);
        assert_eq!(shorten(&mut transcript), None);
        assert_eq!(transcript.len(), 4);
    }
}
