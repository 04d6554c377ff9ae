//! What the state at hand leaves of a tool's parameters, so that a model cannot write what the tool would refuse.
//!
//! Invariant: what the user wrote can be said. A path or a text that is not there then reaches the tool, which says so
//! and names what is.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use toolgate_chat::{Message, ToolSpec, Transcript};

/// The keyword of a grammar's schema that says which texts a string may be.
pub const CHOICES: &str = "x-toolgate-choices";

/// Words kept of what users wrote.
const WORDS: usize = 1_000;
/// Words kept of what tools gave back, newest first.
const RESULT_WORDS: usize = 200;
/// Bytes of a word; a longer one is no name.
const WORD_BYTES: usize = 255;

/// The texts that a parameter may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choices {
    /// These, and whatever goes on from one of these beginnings.
    Among {
        /// Whole texts.
        texts: Vec<String>,
        /// What others begin with; an empty one admits everything.
        beginnings: Vec<String>,
    },
    /// The pieces that occur exactly once in this text.
    OnceIn(String),
}

impl Choices {
    /// The keywords that hold a grammar to them ([`ToolSpec::with_grammar`]); none where nothing or everything is left.
    pub fn keywords(&self) -> Option<Value> {
        let choices = match self {
            Self::Among { texts, beginnings } if texts.is_empty() && beginnings.is_empty() => return None,
            Self::Among { beginnings, .. } if beginnings.iter().any(String::is_empty) => return None,
            Self::Among { texts, beginnings } => json!({"texts": texts, "beginnings": beginnings}),
            Self::OnceIn(text) if text.is_empty() => return None,
            Self::OnceIn(text) => json!({"once_in": text}),
        };
        Some(json!({CHOICES: choices}))
    }
}

/// A value that the state at hand does not admit, and what it leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misplaced {
    /// The parameter.
    pub parameter: &'static str,
    /// What is wrong with it, for a person.
    pub why: String,
    /// What it may be.
    pub choices: Choices,
}

/// What was said so far: the words that could be names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    words: BTreeSet<String>,
    /// What users wrote, newest first.
    texts: Vec<String>,
}

impl Said {
    /// What a transcript holds: all words that users wrote, and of tool results those that look like paths.
    pub fn of(transcript: &Transcript) -> Self {
        let mut said = Self::default();
        let mut found = 0;
        for message in transcript.iter().rev() {
            match message {
                Message::User(text) => {
                    let room = WORDS.saturating_sub(said.words.len());
                    said.words.extend(words(text).take(room));
                    said.texts.push(text.clone());
                }
                Message::Tool(replies) => {
                    for word in replies.iter().flat_map(|reply| words(&reply.content)) {
                        if found < RESULT_WORDS && is_pathlike(&word) && said.words.insert(word) {
                            found += 1;
                        }
                    }
                }
                _ => {}
            }
        }
        said
    }

    /// Whether a user wrote this text, not as a part of a word.
    pub fn holds(&self, text: &str) -> bool {
        let inner = |c: Option<char>, edge: Option<char>| {
            c.is_some_and(char::is_alphanumeric) && edge.is_some_and(char::is_alphanumeric)
        };
        !text.is_empty()
            && self.texts.iter().any(|said| {
                said.match_indices(text).any(|(at, _)| {
                    let before = said.get(..at).and_then(|before| before.chars().next_back());
                    let after = said.get(at + text.len()..).and_then(|after| after.chars().next());
                    !inner(before, text.chars().next()) && !inner(after, text.chars().next_back())
                })
            })
    }

    /// Paths that are there and, of what was said, those that are not: a word for one that is there in other words
    /// (`readme` for the only `docs/README.md`) is left out, so that the path itself is written.
    pub fn with_paths(&self, paths: Vec<String>, open: &[String]) -> Choices {
        let mut names: BTreeMap<String, usize> = BTreeMap::new();
        for path in &paths {
            let last = path.rsplit('/').next().unwrap_or(path).to_lowercase();
            let stem = last.rsplit_once('.').map(|(stem, _)| stem.to_owned());
            for name in stem.filter(|stem| !stem.is_empty()).into_iter().chain([last]) {
                *names.entry(name).or_default() += 1;
            }
        }
        let missing = self.words.iter().filter(|word| names.get(&word.to_lowercase()) != Some(&1));
        let missing: Vec<String> = missing.cloned().collect();
        // Some models begin every path so.
        let dotted = paths.iter().filter(|path| *path != ".").map(|path| format!("./{path}"));
        let texts: BTreeSet<String> = dotted.chain(missing).chain(paths.iter().cloned()).collect();
        let open = open.iter().flat_map(|path| match path.as_str() {
            "." => vec![String::new()],
            path => vec![format!("{path}/"), format!("./{path}/")],
        });
        Choices::Among { texts: texts.into_iter().collect(), beginnings: open.collect() }
    }
}

fn is_pathlike(word: &str) -> bool {
    word.contains('/') || word.trim_matches('.').contains('.')
}

/// What could be a name in a text: words without the punctuation around them, what is quoted, and runs of the
/// characters of names within scripts that write no blanks.
fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    let separates = |c: char| c.is_whitespace() || "\"'`“”‘’«»„()[]{}<>,;|*".contains(c);
    let spaced = text.split(separates).map(|word| word.trim_end_matches(['.', ':', '!', '?', '。', '，']));
    let in_name = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    let runs = text.split(move |c| !in_name(c)).map(|run| run.trim_end_matches('.'));
    let quoted = ['"', '`'].into_iter().flat_map(|quote| text.split(quote).skip(1).step_by(2));
    let is_name = |word: &&str| {
        !word.is_empty() && word.len() <= WORD_BYTES && !word.contains(|c: char| c.is_control())
    };
    spaced.chain(runs).chain(quoted).filter(is_name).map(str::to_owned)
}

/// How often a piece occurs in a text, overlapping occurrences counted, up to two.
pub(super) fn occurrences(text: &str, piece: &str) -> usize {
    let mut from = 0;
    let mut count = 0;
    while count < 2
        && let Some(at) = text.get(from..).and_then(|rest| rest.find(piece))
    {
        count += 1;
        let step = text.get(from + at..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8);
        from += at + step;
    }
    count
}

/// The definition with these parameters held to these choices.
pub(super) fn narrowed(spec: &ToolSpec, parameters: &[(&'static str, Choices)]) -> ToolSpec {
    let mut spec = spec.clone();
    for (parameter, choices) in parameters {
        if let Some(keywords) = choices.keywords() {
            spec = spec.with_grammar(parameter, keywords);
        }
    }
    spec
}

/// A text argument.
pub(super) fn text<'a>(arguments: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    arguments.get(name).and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic, reason = "tests")]
    use toolgate_chat::ToolReply;

    use super::*;

    fn said(text: &str) -> Said {
        Said::of(&Transcript::new().with(Message::User(text.to_owned())))
    }

    fn texts(choices: Choices) -> Vec<String> {
        match choices {
            Choices::Among { texts, .. } => texts,
            Choices::OnceIn(text) => panic!("{text}"),
        }
    }

    #[test]
    fn what_users_write_can_be_said() {
        for (message, word) in [
            ("Read missing.txt", "missing.txt"),
            ("Is there a file `my notes.txt`?", "my notes.txt"),
            ("What is in \"a b/c\"?", "a b/c"),
            ("Show me docs/old.md.", "docs/old.md"),
            ("List ./reports/, please", "./reports/"),
            ("读取missing.txt文件", "missing.txt"),
            ("Open the file todo", "todo"),
            ("cat /etc/passwd", "/etc/passwd"),
            ("see .gitignore", ".gitignore"),
        ] {
            let choices = texts(said(message).with_paths(vec!["a.txt".into()], &[]));
            assert!(choices.iter().any(|text| text == word), "{message}: {choices:?}");
            assert!(choices.iter().any(|text| text == "a.txt"), "{message}");
        }
    }

    #[test]
    fn a_word_for_what_is_there_gives_way_to_its_path() {
        let there = || vec!["docs/README.md".to_owned(), "a/log.txt".to_owned(), "b/log.txt".to_owned()];
        let choices = |message: &str| texts(said(message).with_paths(there(), &[]));
        assert!(!choices("What does the readme say?").contains(&"readme".to_owned()));
        assert!(!choices("Read README.md").contains(&"README.md".to_owned()));
        assert!(
            choices("Read log.txt").contains(&"log.txt".to_owned()),
            "two are called so: the user is told"
        );
        assert!(choices("Read old/README.md").contains(&"old/README.md".to_owned()));
    }

    #[test]
    fn of_results_only_paths_are_words() {
        let reply = ToolReply {
            call_id: "1".into(),
            name: "t".into(),
            content: "see old/plan.txt and the others".into(),
            is_error: false,
        };
        let transcript = Transcript::new().with(Message::User("go".into())).with(Message::Tool(vec![reply]));
        assert_eq!(texts(Said::of(&transcript).with_paths(Vec::new(), &[])), ["go", "old/plan.txt"]);
        let there = Said::default().with_paths(vec![".".into(), "a".into()], &["b".into()]);
        let beginnings = vec!["b/".to_owned(), "./b/".to_owned()];
        let both = [".", "./a", "a"].map(str::to_owned).into();
        assert_eq!(there, Choices::Among { texts: both, beginnings });
    }

    #[test]
    fn a_text_is_said_only_in_whole_words() {
        let said = said("Replace \"port = 80\" by 8080.");
        assert!(said.holds("port = 80") && said.holds("by 8080") && said.holds("80"));
        assert!(!said.holds("port = 8") && !said.holds("ort = 80") && !said.holds("") && !said.holds("x"));
    }

    #[test]
    fn nothing_and_everything_are_no_choices() {
        let among = |texts: &[&str], beginnings: &[&str]| Choices::Among {
            texts: texts.iter().map(|text| (*text).to_owned()).collect(),
            beginnings: beginnings.iter().map(|text| (*text).to_owned()).collect(),
        };
        assert_eq!(among(&[], &[]).keywords(), None);
        assert_eq!(among(&["a"], &[""]).keywords(), None);
        assert_eq!(Choices::OnceIn(String::new()).keywords(), None);
        assert!(among(&["a"], &[]).keywords().is_some());
        assert_eq!(
            said("").with_paths(vec!["a".into()], &[".".into()]).keywords(),
            None,
            "a workspace too large to be named"
        );
    }

    #[test]
    fn occurrences_overlap_and_are_counted_to_two() {
        for (text, piece, count) in [
            ("aaa", "aa", 2),
            ("aé", "é", 1),
            ("ééé", "éé", 2),
            ("abab", "ab", 2),
            ("ab", "c", 0),
            ("", "a", 0),
        ] {
            assert_eq!(occurrences(text, piece), count, "{piece} in {text}");
        }
    }
}
