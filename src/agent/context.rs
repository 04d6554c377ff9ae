//! Making a transcript fit: what to give up when the prompt is longer than the model's context.

use toolgate_chat::{Message, Transcript};

/// Results shorter than this are not worth cutting.
const SHORTEST_CUT: usize = 400;

/// Halves the longest tool result, with a marker that says so; `false` if no result is long enough to cut.
///
/// The system prompt, the task and the calls stay whole: without them the model would answer something else.
pub(super) fn cut_longest_result(transcript: &mut Transcript) -> bool {
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
    use toolgate_chat::ToolReply;

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
}
