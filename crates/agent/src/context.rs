//! Making a transcript fit: what to give up when the prompt is longer than the model's context.
//!
//! Invariant: the system prompt, the task and the newest turn stay. What is left out stays in the caller's transcript;
//! this works on the copy that the model is shown.

use toolgate_chat::{Message, Transcript};

/// Results shorter than this are not worth cutting.
const SHORTEST_CUT: usize = 400;

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
    let is_call =
        |message: &Message| matches!(message, Message::Assistant { calls, .. } if !calls.is_empty());
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
