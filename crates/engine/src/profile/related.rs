//! Whether a request has to do with the tools at hand, as far as its words tell.
//!
//! Why: small models open a call for "How do you say good night in French?" as readily as for "Who owns quandle 512?". The
//! second has a word of a tool that is offered, the first has none and names nothing that is there.

use std::collections::BTreeSet;

use toolgate_chat::Message;

use crate::TurnRequest;
use toolgate_words::particular::is_particular;
use toolgate_words::{is_identifier, is_pathlike, stem};

/// How a request goes with the tools at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    /// It has a word of a tool's name, names what one of them takes, or goes on from calls; or nothing can be told of it, since its
    /// words are of another script than theirs.
    Named,
    /// It has a word of what a tool does, and none of its name. With a tool that looks things up that is as good as a name.
    Described,
    /// Nothing of it is theirs, but it speaks of something in particular, and a tool looks things up.
    Particular,
    /// Nothing of it is theirs.
    None,
}

pub(crate) fn relation(request: &TurnRequest<'_>) -> Relation {
    if request.transcript.iter().any(has_calls) || request.fits.iter().any(|&fit| fit != 0.0) {
        return Relation::Named;
    }
    let asked: Vec<&str> = request.transcript.iter().filter_map(user_text).collect();
    let mut spaced = asked.iter().copied().flat_map(str::split_whitespace);
    let is_mark = |c: char| !(c.is_alphanumeric() || c == '_');
    let names = |word: &str| is_identifier(word) || is_record(word);
    if spaced.any(|word| is_pathlike(word) || names(word.trim_matches(is_mark))) {
        return Relation::Named;
    }
    let said: BTreeSet<String> = asked.iter().copied().flat_map(telling).collect();
    let of_names = || request.tools.iter().flat_map(|tool| telling(tool.name.as_str()));
    let of_descriptions = || request.tools.iter().flat_map(|tool| telling(&tool.description));
    let is_told = of_names().chain(of_descriptions()).any(|word| word.is_ascii())
        && said.iter().any(|word| word.is_ascii());
    let looks = request.looks_up();
    if !is_told || of_names().any(|word| said.contains(&word)) {
        return Relation::Named;
    }
    match of_descriptions().any(|word| said.contains(&word)) {
        true if looks => Relation::Named,
        true => Relation::Described,
        false if looks && asked.iter().any(|text| is_particular(text)) => Relation::Particular,
        false => Relation::None,
    }
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
    use toolgate_chat::{ToolCall, ToolSpec, Transcript};

    use super::*;
    use crate::Sampling;

    fn of(messages: &[Message], fits: &[f64], looks: bool) -> Relation {
        let spec =
            |name: &str, description: &str| ToolSpec::new(name, description, json!({"type": "object"}));
        let tools: Vec<ToolSpec> = [
            spec("find_quandle", "Look up who owns a thing."),
            spec("get_driver", "The person at the wheel on some day."),
            spec("list_directory", "List the files and folders in a directory."),
        ]
        .into_iter()
        .filter_map(Result::ok)
        .map(|tool| if looks { tool.with_lookup() } else { tool })
        .collect();
        let transcript: Transcript = messages.iter().cloned().collect();
        let sampling = Sampling::default();
        relation(&TurnRequest { fits, ..TurnRequest::new(&transcript, &tools, &sampling) })
    }

    #[test]
    fn a_word_of_a_tool_or_a_name_of_something_relates_a_request() {
        use Relation::{Described, Named, None};
        for (request, is_it) in [
            ("Who bought a quandle?", Named),
            ("who is driving on Sunday", Named),
            ("What does notes/a.txt say?", Named),
            ("Where is RetryBudget?", Named),
            ("who bought 70418?", Named),
            ("目录里有什么文件?", Named),
            ("Which folders are here?", Described),
            ("Who owns it?", Described),
            ("How do you say \"good night\" in French?", None),
            ("Thanks, that was all for now!", None),
            ("How many minutes are there in two hours?", None),
            ("What is the capital of Japan?", None),
            ("15 plus 28?", None),
        ] {
            let asked = [Message::User(request.to_owned())];
            assert_eq!(of(&asked, &[], false), is_it, "{request}");
            let looking = if is_it == Described { Named } else { is_it };
            assert_eq!(of(&asked, &[], true), looking, "{request}, and a tool looks things up");
        }
        let particular = [Message::User("When does the ticket expire?".to_owned())];
        assert_eq!(of(&particular, &[], true), Relation::Particular);
        assert_eq!(of(&particular, &[], false), Relation::None, "no tool could know");
    }

    #[test]
    fn what_was_called_or_is_taken_by_a_tool_relates_what_follows() {
        let asked = Message::User("And in French?".to_owned());
        assert_eq!(of(std::slice::from_ref(&asked), &[0.0, 0.0], true), Relation::None, "control");
        assert_eq!(of(std::slice::from_ref(&asked), &[0.0, -1.0], false), Relation::Named);
        let called = Message::calls([ToolCall::new("find_quandle", serde_json::Map::new())]);
        assert_eq!(of(&[called, asked], &[], false), Relation::Named);
    }
}
