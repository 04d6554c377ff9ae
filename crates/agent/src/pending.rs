//! What a request names and no call has taken up yet: the sign that more is to be done than small models notice.
//!
//! A small model that has one result answers, be it one of two files it was asked for. Its own probability of a further
//! call tells nothing then, while the request itself does: a path, a number, a name, or a tool's own word in it that
//! stands neither in a call nor in a result.
//!
//! For the packages of this workspace alone: no part of the API.

use std::collections::BTreeSet;

use toolgate_chat::{ToolCall, ToolReply, Transcript};

use toolgate_tools::{Fit, is_no_name};
use toolgate_words::results::is_no_match;
use toolgate_words::{holds_word, name_parts, plain, specific, stem};

/// What of the last request is open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// Paths, identifiers, numbers and names that neither a call nor a result holds.
    pub named: BTreeSet<String>,
    /// Words of it, without their endings, that are part of the name of a tool not called yet, and of none that was.
    pub of_tools: BTreeSet<String>,
    /// Words of it that are part of the name of any tool.
    asked: BTreeSet<String>,
    /// Whether the last call is the first search that found nothing.
    pub unfound: bool,
}

impl Pending {
    pub fn is_empty(&self) -> bool {
        self.named.is_empty() && self.of_tools.is_empty() && !self.unfound
    }

    /// What is left of it after a change: no result of one says what was changed, so only paths count.
    pub fn after_change(self) -> Self {
        let is_path = |word: &String| word.contains(char::is_alphabetic) && word.contains(['/', '.']);
        let named = self.named.into_iter().filter(is_path).collect();
        Self { named, of_tools: BTreeSet::new(), unfound: false, ..self }
    }

    /// Whether the request asks for the tool of that name by a word that is open; where none is, by any of its words.
    pub fn asks_for(&self, tool: &str) -> bool {
        let words = if self.of_tools.is_empty() { &self.asked } else { &self.of_tools };
        parts(tool).any(|part| words.contains(&part))
    }

    /// How a tool of which nothing else is known goes with it; once calls were `made`, one that it does not ask for steps back
    /// where it asks for others.
    pub fn fit(&self, tool: &str, made: bool) -> Fit {
        if self.asks_for(tool) {
            Fit::Suits
        } else if made && !self.of_tools.is_empty() {
            Fit::Clashes
        } else {
            Fit::Unknown
        }
    }
}

/// What is open of the last request of a transcript, where the tools of these names are offered and the request names
/// these directories.
pub fn of<'a>(
    transcript: &Transcript,
    tools: impl Iterator<Item = &'a str>,
    directories: &BTreeSet<String>,
) -> Pending {
    let Some(request) = transcript.question() else { return Pending::default() };
    let calls = transcript.calls_of_run();
    let mut said = String::new();
    let mut found = String::new();
    for (call, reply) in &calls {
        // Numbers as JSON writes them, texts as they are: in JSON some of their characters are escaped.
        let arguments = serde_json::Value::Object(call.arguments.clone()).to_string();
        let texts = call.arguments.values().filter_map(serde_json::Value::as_str);
        for text in std::iter::once(arguments.as_str()).chain(texts) {
            said.push_str(&text.to_lowercase());
            said.push('\n');
        }
        if let Some(reply) = reply {
            found.push_str(&reply.content.to_lowercase());
            found.push('\n');
        }
    }
    // Who thinks about a sum has its numbers in mind, written down or not.
    let is_thought = calls.iter().any(|(call, _)| call.name == THINKS);
    let is_number = |item: &str| item.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | ','));
    let is_taken = |item: &str| {
        let is_held = [&said, &found].iter().any(|text| holds_word(text, &item.to_lowercase()));
        is_held || (is_thought && is_number(item))
    };
    // That a directory is there says nothing of what is in it, and neither does a text to look for that holds its name.
    let is_seen = |directory: &str| {
        let directory = directory.to_lowercase();
        let below = |(at, name): (usize, &str)| {
            let rest = found.get(at + name.len()..).unwrap_or_default();
            rest.strip_prefix('/').is_some_and(|rest| rest.starts_with(char::is_alphanumeric))
        };
        let is_given = |call: &ToolCall| {
            let texts = call
                .arguments
                .iter()
                .filter_map(|(name, value)| Some((name, value.as_str()?.to_lowercase())));
            let is_it = |(name, text): (&String, String)| {
                plain(&text) == directory || (name == COMMAND && holds_word(&text, &directory))
            };
            texts.into_iter().any(is_it)
        };
        calls.iter().any(|(call, _)| is_given(call)) || found.match_indices(&*directory).any(below)
    };
    let unseen = directories.iter().map(String::as_str).filter(|directory| !is_seen(directory));
    let specific = specific(request).take(MOST).filter(|item| !is_taken(item)).chain(unseen);
    let done: BTreeSet<String> = calls.iter().flat_map(|(call, _)| parts(&call.name)).collect();
    let asked = words_of_tools(request, tools);
    let of_tools = asked.difference(&done).cloned().collect();
    let named = specific.map(str::to_owned).collect();
    Pending { named, of_tools, asked, unfound: unfound(&calls) }
}

/// Whether the last call is the first search that found nothing: what was looked for may be there in other words. After a
/// second one it more likely is not.
fn unfound(calls: &[(&ToolCall, Option<&ToolReply>)]) -> bool {
    let is_empty = |reply: &ToolReply| !reply.is_error && is_no_match(&reply.content);
    let mut replies = calls.iter().rev().map(|(_, reply)| reply.is_some_and(is_empty));
    replies.next() == Some(true) && !replies.any(|found_nothing| found_nothing)
}

/// The words of the request that are part of the name of a tool.
fn words_of_tools<'a>(request: &str, tools: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    let tells =
        |part: &String| part.len() >= LONG_ENOUGH && !COMMON.contains(&part.as_str()) && !is_no_name(part);
    let stems: BTreeSet<String> =
        tools.flat_map(name_parts).filter(tells).map(|part| stem(&part).to_owned()).collect();
    let words = request.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase);
    words.map(|word| stem(&word).to_owned()).filter(|stem| stems.contains(stem)).collect()
}

/// The words of a tool's name, without their endings.
fn parts(name: &str) -> impl Iterator<Item = String> + '_ {
    name_parts(name).map(|part| stem(&part).to_owned())
}

/// The tool that does nothing but let the model think.
const THINKS: &str = "think";

/// The argument that holds paths among other words.
const COMMAND: &str = "command";

/// Words of a request that are looked for, the first ones: a request may come with a long text behind it.
const MOST: usize = 200;

/// Letters that a part of a tool's name has at least, to say what the tool is about.
const LONG_ENOUGH: usize = 3;
/// Short parts of names that are about nothing.
const COMMON: [&str; 12] =
    ["add", "all", "and", "any", "for", "get", "new", "put", "run", "set", "the", "use"];

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolgate_chat::Message;

    use super::*;

    const TOOLS: [&str; 4] = ["read_file", "write_file", "get_weather", "get_time"];

    fn transcript(request: &str, calls: &[(&str, serde_json::Value, &str)]) -> Transcript {
        let mut transcript = Transcript::new().with(Message::User(request.to_owned()));
        for (id, (name, arguments, content)) in calls.iter().enumerate() {
            let arguments = arguments.as_object().cloned().unwrap_or_default();
            let call = ToolCall::new(*name, arguments).with_id(id.to_string());
            let reply = ToolReply::ok(&call, *content);
            transcript.push(Message::calls([call]));
            transcript.push(Message::Tool(vec![reply]));
        }
        transcript
    }

    fn after(request: &str, calls: &[(&str, serde_json::Value, &str)]) -> Vec<String> {
        let open = of(&transcript(request, calls), TOOLS.into_iter(), &BTreeSet::new());
        open.named.into_iter().chain(open.of_tools).collect()
    }

    #[test]
    fn the_tool_that_the_request_names_takes_what_is_open() {
        let transcript = Transcript::new().with(Message::User("The weather in Oslo and Rome".into()));
        let open = of(&transcript, TOOLS.into_iter(), &BTreeSet::new());
        assert!(open.asks_for("get_weather") && !open.asks_for("get_time"));
        let called = Pending { of_tools: BTreeSet::new(), ..open };
        assert!(called.asks_for("get_weather") && !called.asks_for("get_time"), "also once it was called");
    }

    #[test]
    fn the_words_of_a_name_are_found_however_it_is_written() {
        let transcript = Transcript::new().with(Message::User("The weather in Oslo".into()));
        for name in ["get_weather", "getWeather", "GetWeather", "weather.get", "api__get-weather"] {
            assert!(of(&transcript, [name].into_iter(), &BTreeSet::new()).asks_for(name), "{name}");
        }
    }

    #[test]
    fn a_search_that_found_nothing_leaves_its_request_open() {
        let search =
            |query: &str, content: &'static str| ("search_codebase", json!({"query": query}), content);
        let nothing = "(no match in 3 files)";
        let unfound = |calls: &[(&str, serde_json::Value, &str)]| {
            of(&transcript("What does it say?", calls), TOOLS.into_iter(), &BTreeSet::new()).unfound
        };
        assert!(unfound(&[search("x", nothing)]));
        assert!(unfound(&[search("x", "a.txt:1: y"), search("y", nothing)]));
        assert!(!unfound(&[search("x", nothing), search("y", nothing)]), "it is not there");
        assert!(!unfound(&[search("x", nothing), search("y", "a.txt:1: y")]) && !unfound(&[]));
    }

    #[test]
    fn a_word_akin_to_a_tool_s_name_asks_for_it() {
        let request = "Which van is it, and who is driving?";
        let transcript = transcript(request, &[("get_van", json!({"day": "today"}), "Bluebell")]);
        let open = of(&transcript, ["get_van", "get_driver"].into_iter(), &BTreeSet::new());
        assert!(open.asks_for("get_driver") && !open.asks_for("get_van"), "{open:?}");
    }

    #[test]
    fn a_directory_is_open_until_something_in_it_was_seen() {
        let list = |path: &str, content: &'static str| ("list_directory", json!({"path": path}), content);
        let directories: BTreeSet<String> = ["figs".to_owned(), "logs/old".to_owned()].into();
        let request = "List both figs and logs/old";
        for (calls, open) in [
            (vec![list(".", "figs/\nlogs/")], vec!["figs", "logs/old"]),
            (vec![list("figs", "a.txt")], vec!["logs/old"]),
            (vec![("search_codebase", json!({"query": "in figs"}), "(no match)")], vec!["figs", "logs/old"]),
            (vec![("run_command", json!({"command": "ls figs logs/old/"}), "a.txt")], vec![]),
            (vec![list("figs", "a.txt"), list("./logs/old", "b.txt")], vec![]),
            (vec![("search_codebase", json!({"query": "x"}), "figs/a.txt:1: x\nlogs/old/b:2: x")], vec![]),
        ] {
            let transcript = transcript(request, &calls);
            let left = of(&transcript, TOOLS.into_iter(), &directories).named;
            assert_eq!(left.into_iter().collect::<Vec<_>>(), open, "{calls:?}");
        }
    }

    #[test]
    fn what_no_call_and_no_result_holds_is_open() {
        let read = |path: &str, content: &'static str| ("read_file", json!({"path": path}), content);
        for (request, calls, open) in [
            ("Compare a.txt and b/c.txt.", vec![read("a.txt", "x")], vec!["b/c.txt"]),
            ("Compare a.txt and b/c.txt.", vec![read("a.txt", "x"), read("./b/c.txt", "y")], vec![]),
            ("Set LIMIT to 250 in it", vec![read("conf", "LIMIT = 25")], vec!["250"]),
            ("When does Ana arrive? See trip.md", vec![read("trip.md", "ana: noon")], vec![]),
            ("How is the weather in Oslo and in Rome?", vec![], vec!["Oslo", "Rome", "weath"]),
            (
                "What time is it in Oslo, and how is the weather?",
                vec![("get_time", json!({"city": "Oslo"}), "12:00")],
                vec!["weath"],
            ),
            (
                "Think: 3 boxes of 4 pens, less those in b.txt",
                vec![("think", json!({"content": "the pens first"}), "")],
                vec!["b.txt"],
            ),
            (
                "Say \"so long\" in bye.txt",
                vec![("write_file", json!({"path": "bye.txt"}), "")],
                vec!["so long"],
            ),
            ("Please read it again", vec![], vec!["read"]),
        ] {
            assert_eq!(after(request, &calls), open, "{request}");
        }
    }
}
