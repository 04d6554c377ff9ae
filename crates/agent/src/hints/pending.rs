//! What a request names and no call has taken up yet: the sign that more is to be done than small models notice.
//!
//! A small model that has one result answers, be it one of two files it was asked for. Its own probability of a further
//! call tells nothing then, while the request itself does: a path, a number, a name, or a tool's own word in it that
//! stands neither in a call nor in a result.

use std::collections::BTreeSet;

use toolgate_chat::names::{holds_word, name_parts};
use toolgate_chat::notes::without_notes;
use toolgate_chat::{ToolCall, ToolReply, Transcript};
use toolgate_tools::{Finding, Offer, Role};

use super::said::is_no_name;
use super::situation::Memory;
use super::words::{plain, specific, stem};
use super::{Advice, Fit, Hint, Situation};

pub(crate) struct PendingMentions;

impl Hint for PendingMentions {
    fn name(&self) -> &'static str {
        "pending"
    }

    fn reason(&self) -> &'static str {
        "asked about two files, a small model answers after the first"
    }

    fn advise(&self, at: &Situation<'_>, advice: &mut Advice) {
        let memory = at.memory;
        let pending = of(at.transcript, &offered(at.offers), memory);
        let mut pending = if memory.changed { pending.after_change() } else { pending };
        pending.named.extend(advice.lead.clone());
        // What stays pending whatever is called is no reason for a further call.
        advice.is_pending = !pending.is_empty() && pending != memory.pending;
        advice.pending = pending;
    }
}

/// What of the last request is pending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pending {
    /// Paths, identifiers, numbers and names that neither a call nor a result holds.
    pub(super) named: BTreeSet<String>,
    /// Words of it, without their endings, that are part of the name of a tool not called yet, and of none that was.
    pub(super) of_tools: BTreeSet<String>,
    /// Words of it that are part of the name of any tool.
    asked: BTreeSet<String>,
    /// Whether the last call is the first search that found nothing.
    unfound: bool,
}

impl Pending {
    pub(crate) fn is_empty(&self) -> bool {
        self.named.is_empty() && self.of_tools.is_empty() && !self.unfound
    }

    /// What is left of it after a change: no result of one says what was changed, so only paths count.
    pub(crate) fn after_change(self) -> Self {
        let is_path = |word: &String| word.contains(char::is_alphabetic) && word.contains(['/', '.']);
        let named = self.named.into_iter().filter(is_path).collect();
        Self { named, of_tools: BTreeSet::new(), unfound: false, ..self }
    }

    /// Whether the request asks for the tool of that name by a word that is open; where none is, by any of its words.
    pub(super) fn asks_for(&self, tool: &str) -> bool {
        let words = if self.of_tools.is_empty() { &self.asked } else { &self.of_tools };
        parts(tool).any(|part| words.contains(&part))
    }

    /// How a tool of which nothing else is known goes with it; once calls were `made`, one that it does not ask for steps back
    /// where it asks for others.
    pub(crate) fn fit(&self, tool: &str, made: bool) -> Fit {
        if self.asks_for(tool) {
            Fit::Suits
        } else if made && !self.of_tools.is_empty() {
            Fit::Clashes
        } else {
            Fit::Unknown
        }
    }
}

/// The names of tools, each with what it is for.
fn offered(offers: &[Offer]) -> Vec<(&str, Option<&Role>)> {
    offers.iter().map(|offer| (offer.spec.name.as_str(), Some(&offer.role))).collect()
}

/// What is pending of the last request of a transcript, where tools of these names are offered, each with what it is for if that is
/// known.
pub(crate) fn of(transcript: &Transcript, tools: &[(&str, Option<&Role>)], memory: &Memory) -> Pending {
    let Some(request) = transcript.question().map(without_notes) else { return Pending::default() };
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
    let role =
        |call: &ToolCall| tools.iter().find(|(name, _)| *name == call.name).and_then(|(_, role)| *role);
    let is_thought = calls.iter().any(|(call, _)| matches!(role(call), Some(Role::Thinks)));
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
                let is_command = matches!(role(call), Some(Role::Commands(command)) if command == name);
                plain(&text) == directory || (is_command && holds_word(&text, &directory))
            };
            texts.into_iter().any(is_it)
        };
        calls.iter().any(|(call, _)| is_given(call)) || found.match_indices(&*directory).any(below)
    };
    let unseen = memory.directories.iter().map(String::as_str).filter(|directory| !is_seen(directory));
    let specific = specific(&request).take(MOST).filter(|item| !is_taken(item)).chain(unseen);
    let done: BTreeSet<String> = calls.iter().flat_map(|(call, _)| parts(&call.name)).collect();
    let asked = words_of_tools(&request, tools.iter().map(|(name, _)| *name));
    let of_tools = asked.difference(&done).cloned().collect();
    let named = specific.map(str::to_owned).collect();
    Pending { named, of_tools, asked, unfound: unfound(&calls, memory) }
}

/// Whether the last call is the first search that found nothing: what was looked for may be there in other words. After a
/// second one it more likely is not.
fn unfound(calls: &[(&ToolCall, Option<&ToolReply>)], memory: &Memory) -> bool {
    let is_empty = |reply: &ToolReply| !reply.is_error && *memory.finding(reply) == Finding::NoMatch;
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

/// Words of a request that are looked for, the first ones: a request may come with a long text behind it.
const MOST: usize = 200;

/// Letters that a part of a tool's name has at least, to say what the tool is about.
const LONG_ENOUGH: usize = 3;
/// Short parts of names that are about nothing.
const COMMON: [&str; 12] =
    ["add", "all", "and", "any", "for", "get", "new", "put", "run", "set", "the", "use"];

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use toolgate_tools::ToolResult;

    use super::super::scene::{Scene, hits};
    use super::*;

    const TOOLS: [&str; 4] = ["read_file", "write_file", "get_weather", "get_time"];

    /// What is pending behind these calls.
    fn pending(request: &str, calls: &[(&str, Value, ToolResult)]) -> Pending {
        let scene = Scene::asked(request)
            .offering(&TOOLS)
            .with_role("run_command", Role::Commands("command"))
            .with_role("think", Role::Thinks);
        let scene = calls
            .iter()
            .fold(scene, |scene, (name, arguments, result)| scene.called(name, arguments, result.clone()));
        of(&scene.transcript, &offered(&scene.offers), &scene.memory)
    }

    fn after(request: &str, calls: &[(&str, Value, &str)]) -> Vec<String> {
        let calls: Vec<_> = calls
            .iter()
            .map(|(name, arguments, text)| (*name, arguments.clone(), ToolResult::ok(*text)))
            .collect();
        let pending = pending(request, &calls);
        pending.named.into_iter().chain(pending.of_tools).collect()
    }

    #[test]
    fn the_tool_that_the_request_names_takes_what_is_pending() {
        let pending = pending("The weather in Oslo and Rome", &[]);
        assert!(pending.asks_for("get_weather") && !pending.asks_for("get_time"));
        let called = Pending { of_tools: BTreeSet::new(), ..pending };
        assert!(called.asks_for("get_weather") && !called.asks_for("get_time"), "also once it was called");
    }

    #[test]
    fn the_words_of_a_name_are_found_however_it_is_written() {
        for name in ["get_weather", "getWeather", "GetWeather", "weather.get", "api__get-weather"] {
            let scene = Scene::asked("The weather in Oslo").offering(&[name]);
            assert!(of(&scene.transcript, &offered(&scene.offers), &scene.memory).asks_for(name), "{name}");
        }
    }

    #[test]
    fn a_search_that_found_nothing_leaves_its_request_pending() {
        let search =
            |query: &str, found: &[(&str, &str)]| ("search", json!({"query": query}), hits(found, false));
        let unfound = |calls: &[(&str, Value, ToolResult)]| pending("What does it say?", calls).unfound;
        let there = [("a.txt", "y")];
        assert!(unfound(&[search("x", &[])]));
        assert!(unfound(&[search("x", &there), search("y", &[])]));
        assert!(!unfound(&[search("x", &[]), search("y", &[])]), "it is not there");
        assert!(!unfound(&[search("x", &[]), search("y", &there)]) && !unfound(&[]));
    }

    #[test]
    fn a_word_akin_to_a_tool_s_name_asks_for_it() {
        let scene = Scene::asked("Which van is it, and who is driving?")
            .offering(&["get_van", "get_driver"])
            .called("get_van", &json!({"day": "today"}), ToolResult::ok("Bluebell"));
        let pending = of(&scene.transcript, &offered(&scene.offers), &scene.memory);
        assert!(pending.asks_for("get_driver") && !pending.asks_for("get_van"), "{pending:?}");
    }

    #[test]
    fn a_directory_is_pending_until_something_in_it_was_seen() {
        let list = |path: &str, text: &str| ("list", json!({"path": path}), ToolResult::ok(text));
        let run =
            |command: &str, text: &str| ("run_command", json!({"command": command}), ToolResult::ok(text));
        let search = |query: &str, text: &str| ("search", json!({"query": query}), ToolResult::ok(text));
        for (calls, left) in [
            (vec![list(".", "figs/\nlogs/")], vec!["figs", "logs/old"]),
            (vec![list("figs", "a.txt")], vec!["logs/old"]),
            (vec![search("in figs", "(no match)")], vec!["figs", "logs/old"]),
            (vec![run("ls figs logs/old/", "a.txt")], vec![]),
            (vec![list("figs", "a.txt"), list("./logs/old", "b.txt")], vec![]),
            (vec![search("x", "figs/a.txt:1: x\nlogs/old/b:2: x")], vec![]),
        ] {
            let mut scene = Scene::asked("List both figs and logs/old")
                .with_role("run_command", Role::Commands("command"));
            scene.memory.directories = ["figs".to_owned(), "logs/old".to_owned()].into();
            for (name, arguments, result) in &calls {
                scene = scene.called(name, arguments, result.clone());
            }
            let pending = of(&scene.transcript, &offered(&scene.offers), &scene.memory);
            assert_eq!(pending.named.into_iter().collect::<Vec<_>>(), left, "{calls:?}");
        }
    }

    #[test]
    fn what_no_call_and_no_result_holds_is_pending() {
        let read = |path: &str, text: &'static str| ("read_file", json!({"path": path}), text);
        for (request, calls, left) in [
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
            assert_eq!(after(request, &calls), left, "{request}");
        }
    }
}
