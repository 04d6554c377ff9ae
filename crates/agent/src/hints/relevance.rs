//! Whether a request has to do with the tools at hand, as far as its words tell.
//!
//! Why: small models open a call for "How do you say good night in French?" as readily as for "Who owns quandle 512?". The
//! second has a word of a tool that is offered, the first has none and names nothing that is there.

use std::collections::BTreeSet;

use toolgate_chat::{Message, ToolSpec, Transcript};
use toolgate_engine::Relevance;

use super::particular::is_particular;
use super::words::{is_identifier, is_pathlike, stem};
use super::{Advice, Hint, Situation};

pub(super) struct RelevanceWords;

impl Hint for RelevanceWords {
    fn name(&self) -> &'static str {
        "relevance"
    }

    fn reason(&self) -> &'static str {
        "a small model opens a call for small talk as readily as for a question that a tool could answer"
    }

    fn advise(&self, at: &Situation<'_>, advice: &mut Advice) {
        let is_named = advice.prior().iter().any(|&prior| prior != 0.0);
        advice.relevance = of(at.transcript, &advice.specs, is_named);
    }
}

/// How a request goes with these tools; `is_named` if it names what one of them takes or does not.
pub(super) fn of(transcript: &Transcript, tools: &[ToolSpec], is_named: bool) -> Relevance {
    if is_named || transcript.iter().any(has_calls) {
        return Relevance::Named;
    }
    let asked: Vec<&str> = transcript.iter().filter_map(user_text).collect();
    let mut spaced = asked.iter().copied().flat_map(str::split_whitespace);
    let is_mark = |c: char| !(c.is_alphanumeric() || c == '_');
    let names = |word: &str| is_identifier(word) || is_record(word);
    if spaced.any(|word| is_pathlike(word) || names(word.trim_matches(is_mark))) {
        return Relevance::Named;
    }
    let said: BTreeSet<String> = asked.iter().copied().flat_map(telling).collect();
    let of_names = || tools.iter().flat_map(|tool| telling(tool.name.as_str()));
    let of_descriptions = || tools.iter().flat_map(|tool| telling(&tool.description));
    // Of words in another script than theirs nothing can be told.
    let is_told = of_names().chain(of_descriptions()).any(|word| word.is_ascii())
        && said.iter().any(|word| word.is_ascii());
    let looks = tools.iter().any(|tool| tool.lookup);
    if !is_told || of_names().any(|word| said.contains(&word)) {
        return Relevance::Named;
    }
    match of_descriptions().any(|word| said.contains(&word)) {
        // With a tool that looks things up that is as good as a name.
        true if looks => Relevance::Named,
        true => Relevance::Described,
        false if looks && asked.iter().any(|text| is_particular(text)) => Relevance::Particular,
        false => Relevance::None,
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

    fn of(messages: &[Message], is_named: bool, looks: bool) -> Relevance {
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
        super::of(&transcript, &tools, is_named)
    }

    #[test]
    fn a_word_of_a_tool_or_a_name_of_something_relates_a_request() {
        use Relevance::{Described, Named, None};
        for (request, is_it) in [
            ("Has the quandle a new owner?", Named),
            ("did the drivers swap on Friday", Named),
            ("Sum up logs/pump.txt", Named),
            ("What sets HeatPump?", Named),
            ("is 660812 sold?", Named),
            ("谁拥有这个?", Named),
            ("List what there is, folder by folder", Named),
            ("Are there folders for May?", Described),
            ("Who owned the mill?", Described),
            ("Is \"sleep well\" rude in Dutch?", None),
            ("Bye, see you tomorrow!", None),
            ("Why do cats purr?", None),
            ("60 minus 14?", None),
        ] {
            let asked = [Message::User(request.to_owned())];
            assert_eq!(of(&asked, false, false), is_it, "{request}");
            let looking = if is_it == Described { Named } else { is_it };
            assert_eq!(of(&asked, false, true), looking, "{request}, and a tool looks things up");
        }
        let particular = [Message::User("Is the barn roof mended?".to_owned())];
        assert_eq!(of(&particular, false, true), Relevance::Particular);
        assert_eq!(of(&particular, false, false), Relevance::None, "no tool could know");
    }

    #[test]
    fn what_was_called_or_is_taken_by_a_tool_relates_what_follows() {
        let asked = Message::User("And in Dutch?".to_owned());
        assert_eq!(of(std::slice::from_ref(&asked), false, true), Relevance::None, "control");
        assert_eq!(of(std::slice::from_ref(&asked), true, false), Relevance::Named);
        let called = Message::calls([ToolCall::new("find_quandle", serde_json::Map::new())]);
        assert_eq!(of(&[called, asked], false, false), Relevance::Named);
    }
}
