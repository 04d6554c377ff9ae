//! The management of a request's context, between its messages and the turn. Thoughts are cleared as the
//! request says. The server warns of any other edit, if it would have changed something.
//!
//! Claude Code sends `clear_thinking_20251015` with every request, and keeps all thoughts with it. The other
//! edits begin at a size that few requests have.

use serde_json::{Value, json};
use toolgate_chat::{Message, Transcript};

use crate::field::Field;
use crate::refusal::Refusal;

/// Tokens of a prompt from which on results of tools are cleared, if the request names no number.
const CLEARS_FROM: usize = 100_000;
/// The same for a conversation that is summed up.
const COMPACTS_FROM: usize = 150_000;
/// The latest uses of tools that are left, if the request names no number.
const USES_KEPT: usize = 3;

/// Edits a conversation as the request in `body` says.
pub(super) fn apply(root: &Field<'_>, body: &Value, transcript: &mut Transcript) -> Result<(), Refusal> {
    for edit in root.at("context_management").at("edits").list()? {
        match edit.kind()? {
            "clear_thinking_20251015" => clear_thoughts(&edit.at("keep"), transcript)?,
            "clear_tool_uses_20250919" => {
                let uses = uses(transcript);
                let kept = edit.at("keep").at("value").integer()?.map_or(USES_KEPT, bound);
                if uses > kept && is_reached(&edit.at("trigger"), CLEARS_FROM, body, uses)? {
                    edit.warn(
                        "results of tools are not cleared here: the conversation is used as it is sent",
                    );
                }
            }
            "compact_20260112" => {
                if is_reached(&edit.at("trigger"), COMPACTS_FROM, body, uses(transcript))? {
                    edit.warn("conversations are not summed up here: this one is used as it is sent");
                }
            }
            kind => {
                let kind: String = kind.chars().take(40).collect();
                edit.at("type").warn(format!("edits of the type {kind:?} are not made here"));
            }
        }
    }
    Ok(())
}

/// Clears all thoughts but those of the latest turns that have some. It keeps one turn's, if the request
/// names no number.
fn clear_thoughts(keep: &Field<'_>, transcript: &mut Transcript) -> Result<(), Refusal> {
    let is_all =
        |value: &Value| *value == json!("all") || value.get("type").is_some_and(|kind| kind == "all");
    if keep.value().is_some_and(is_all) {
        return Ok(());
    }
    let most = keep.at("value").integer()?.map_or(1, bound);
    let (mut turns, mut has_thought) = (0, false);
    for message in transcript.messages_mut().iter_mut().rev() {
        match message {
            Message::Assistant { reasoning, .. } if reasoning.is_some() => {
                has_thought = true;
                if turns >= most {
                    *reasoning = None;
                }
            }
            // What the person says stands in front of a turn. The turn may have calls.
            Message::User(_) => turns += usize::from(std::mem::take(&mut has_thought)),
            _ => {}
        }
    }
    Ok(())
}

fn uses(transcript: &Transcript) -> usize {
    let calls = transcript.iter().map(|message| match message {
        Message::Assistant { calls, .. } => calls.len(),
        _ => 0,
    });
    calls.sum()
}

/// Whether an edit may begin. No prompt has more tokens than its request has bytes.
fn is_reached(trigger: &Field<'_>, usual: usize, body: &Value, uses: usize) -> Result<bool, Refusal> {
    let value = trigger.at("value").integer()?.map(bound);
    Ok(match trigger.at("type").text()? {
        Some("tool_uses") => value.is_none_or(|least| uses >= least),
        _ => body.to_string().len() >= value.unwrap_or(usual),
    })
}

fn bound(number: i64) -> usize {
    usize::try_from(number).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use toolgate_chat::{ToolCall, ToolReply};

    use super::*;

    /// Two turns with thoughts. The first has two thoughts, and calls between them.
    fn conversation() -> Transcript {
        let thinks = |thought: &str, calls: Vec<ToolCall>| Message::Assistant {
            content: Some("So.".to_owned()),
            reasoning: Some(thought.to_owned()),
            calls,
        };
        let call = ToolCall::new("f", serde_json::Map::new());
        let reply = ToolReply::ok(&call, "x");
        Transcript::new()
            .with(Message::User("One".to_owned()))
            .with(thinks("a", vec![call]))
            .with(Message::Tool(vec![reply]))
            .with(thinks("b", Vec::new()))
            .with(Message::User("Two".to_owned()))
            .with(thinks("c", Vec::new()))
            .with(Message::User("Three".to_owned()))
    }

    /// The thoughts that are left, and the pointers of the warnings.
    fn edited(edit: Value) -> (String, Vec<String>) {
        let body = json!({"context_management": {"edits": [edit]}});
        let (root, mut transcript) = (Field::root(&body), conversation());
        apply(&root, &body, &mut transcript).unwrap();
        let thoughts = transcript.iter().filter_map(|message| match message {
            Message::Assistant { reasoning, .. } => reasoning.clone(),
            _ => None,
        });
        (thoughts.collect(), root.warnings().into_iter().map(|warning| warning.pointer).collect())
    }

    #[test]
    fn thoughts_are_left_of_as_many_turns_as_the_request_keeps() {
        for (keep, left) in [
            (json!("all"), "abc"),
            (json!({"type": "all"}), "abc"),
            (json!({"type": "thinking_turns", "value": 2}), "abc"),
            (json!({"type": "thinking_turns", "value": 1}), "c"),
            (Value::Null, "c"),
            (json!({"type": "thinking_turns", "value": 0}), ""),
        ] {
            let edit = json!({"type": "clear_thinking_20251015", "keep": keep});
            assert_eq!(edited(edit), (left.to_owned(), Vec::new()), "{keep}");
        }
    }

    #[test]
    fn what_is_not_done_is_told_where_it_would_have_changed_something() {
        let uses = |value| json!({"type": "tool_uses", "value": value});
        let tokens = |value| json!({"type": "input_tokens", "value": value});
        for (edit, is_told) in [
            (json!({"type": "clear_tool_uses_20250919"}), false),
            (json!({"type": "clear_tool_uses_20250919", "keep": uses(0), "trigger": uses(1)}), true),
            (json!({"type": "clear_tool_uses_20250919", "keep": uses(0), "trigger": uses(2)}), false),
            (json!({"type": "clear_tool_uses_20250919", "keep": uses(1), "trigger": uses(1)}), false),
            (json!({"type": "clear_tool_uses_20250919", "keep": uses(0), "trigger": tokens(20)}), true),
            (json!({"type": "compact_20260112"}), false),
            (json!({"type": "compact_20260112", "trigger": tokens(20)}), true),
            (json!({"type": "clear_all_20300101"}), true),
        ] {
            let (thoughts, warned) = edited(edit.clone());
            assert_eq!((thoughts.as_str(), !warned.is_empty()), ("abc", is_told), "{edit}");
            assert!(warned.iter().all(|place| place.starts_with("/context_management/edits/0")));
        }
    }
}
