//! Whether a request has to do with the tools at hand, as far as its words tell.
//!
//! Why: small models open a call for "How do you say good night in French?" as readily as for "Who owns quandle 512?". The
//! second has a word of a tool that is offered, the first has none and names nothing that is there.

use std::collections::BTreeSet;

use toolgate_chat::{Message, ToolSpec};

use super::TurnRequest;
use crate::words::{is_identifier, is_pathlike, stem};

/// Whether a request has a word of the tools' names and descriptions, names what one of them takes, or goes on from calls. A
/// request whose words are of another script than theirs counts, too: nothing can be told of it.
pub(crate) fn is_related(request: &TurnRequest<'_>) -> bool {
    if request.transcript.iter().any(has_calls) || request.fits.iter().any(|&fit| fit != 0.0) {
        return true;
    }
    let asked: Vec<&str> = request.transcript.iter().filter_map(user_text).collect();
    let mut spaced = asked.iter().copied().flat_map(str::split_whitespace);
    let is_mark = |c: char| !(c.is_alphanumeric() || c == '_');
    let names = |word: &str| is_identifier(word) || is_record(word);
    if spaced.any(|word| is_pathlike(word) || names(word.trim_matches(is_mark))) {
        return true;
    }
    let said: BTreeSet<String> = asked.iter().copied().flat_map(telling).collect();
    let of_tools = || request.tools.iter().flat_map(of_tool);
    let is_told = of_tools().any(|word| word.is_ascii()) && said.iter().any(|word| word.is_ascii());
    !is_told || of_tools().any(|word| said.contains(&word))
}

/// Whether a word is the number of a thing rather than how many they are: 70418.
fn is_record(word: &str) -> bool {
    word.len() >= 5 && word.chars().all(|c| c.is_ascii_digit())
}

fn has_calls(message: &Message) -> bool {
    matches!(message, Message::Assistant { calls, .. } if !calls.is_empty())
}

fn user_text(message: &Message) -> Option<&str> {
    match message {
        Message::User(text) => Some(text),
        _ => None,
    }
}

fn of_tool(tool: &ToolSpec) -> impl Iterator<Item = String> + '_ {
    telling(tool.name.as_str()).chain(telling(&tool.description))
}

/// The words of a text that could tell what it is about, without their endings.
fn telling(text: &str) -> impl Iterator<Item = String> + '_ {
    let words = text.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase);
    words
        .filter(|word| word.chars().count() >= SHORTEST && !COMMON.contains(&word.as_str()))
        .map(|word| stem(&word).to_owned())
}

/// Letters of a word that tells something.
const SHORTEST: usize = 3;

/// Words of descriptions and requests that are about nothing.
const COMMON: [&str; 84] = [
    "about",
    "all",
    "also",
    "and",
    "another",
    "any",
    "are",
    "based",
    "been",
    "before",
    "both",
    "but",
    "can",
    "could",
    "did",
    "does",
    "each",
    "else",
    "every",
    "fails",
    "for",
    "from",
    "get",
    "gets",
    "give",
    "given",
    "gives",
    "going",
    "happens",
    "has",
    "have",
    "her",
    "here",
    "his",
    "how",
    "into",
    "its",
    "just",
    "like",
    "many",
    "may",
    "more",
    "most",
    "much",
    "new",
    "not",
    "nothing",
    "number",
    "one",
    "only",
    "other",
    "our",
    "out",
    "please",
    "return",
    "returns",
    "say",
    "set",
    "some",
    "something",
    "such",
    "tell",
    "than",
    "that",
    "the",
    "their",
    "them",
    "then",
    "there",
    "these",
    "they",
    "this",
    "those",
    "two",
    "use",
    "used",
    "user",
    "value",
    "was",
    "what",
    "when",
    "where",
    "which",
    "with",
];

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolgate_chat::{ToolCall, Transcript};

    use super::super::Sampling;
    use super::*;

    fn related(messages: &[Message], fits: &[f64]) -> bool {
        let spec =
            |name: &str, description: &str| ToolSpec::new(name, description, json!({"type": "object"}));
        let tools: Vec<ToolSpec> = [
            spec("find_quandle", "Look up who owns a thing."),
            spec("get_driver", "The person at the wheel on some day."),
            spec("list_directory", "List the files and folders in a directory."),
        ]
        .into_iter()
        .filter_map(Result::ok)
        .collect();
        let transcript: Transcript = messages.iter().cloned().collect();
        let sampling = Sampling::default();
        is_related(&TurnRequest { fits, ..TurnRequest::new(&transcript, &tools, &sampling) })
    }

    #[test]
    fn a_word_of_a_tool_or_a_name_of_something_relates_a_request() {
        for (request, is_it) in [
            ("Who owns quandle 512?", true),
            ("who is driving on Sunday", true),
            ("Which folders are here?", true),
            ("What does notes/a.txt say?", true),
            ("Where is RetryBudget?", true),
            ("who bought 70418?", true),
            ("目录里有什么文件?", true),
            ("How do you say \"good night\" in French?", false),
            ("Thanks, that was all for now!", false),
            ("How many minutes are there in two hours?", false),
            ("What is the capital of Japan?", false),
            ("15 plus 28?", false),
        ] {
            assert_eq!(related(&[Message::User(request.to_owned())], &[]), is_it, "{request}");
        }
    }

    #[test]
    fn what_was_called_or_is_taken_by_a_tool_relates_what_follows() {
        let asked = Message::User("And in French?".to_owned());
        assert!(!related(std::slice::from_ref(&asked), &[0.0, 0.0]), "control");
        assert!(related(std::slice::from_ref(&asked), &[0.0, -1.0]));
        let called = Message::calls([ToolCall::new("find_quandle", serde_json::Map::new())]);
        assert!(related(&[called, asked], &[]));
    }
}
