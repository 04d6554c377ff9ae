//! What the last calls gave back, quoted behind an answer that says nothing of it.
//!
//! Invariant: a reader can tell what was quoted from what the model says, and nothing is quoted where nobody asked for it
//! ([`Options::quotes`](crate::Options)).

use std::collections::BTreeSet;

use toolgate_chat::{Message, ToolCall, ToolReply};
use toolgate_engine::stages::quoted;
use toolgate_tools::Finding;

use super::{Hint, Situation};

pub(super) struct Quotation;

impl Hint for Quotation {
    fn name(&self) -> &'static str {
        "quotation"
    }

    fn reason(&self) -> &'static str {
        "a small model says that the songs are listed in the directory songs; whoever asked still gets what was found"
    }

    fn addition(&self, at: &Situation<'_>, answer: &str) -> Option<String> {
        let missed = left_out(at, answer)?;
        let blank = match answer.trim_start() {
            "" => "",
            _ if answer.ends_with("\n\n") => "",
            _ if answer.ends_with('\n') => "\n",
            _ => "\n\n",
        };
        Some(format!("{blank}{missed}"))
    }
}

/// Lines of a result that are quoted at most.
const LINES: usize = 12;
/// Lines of search results up to which an answer is expected to name a file of them.
const FEW: usize = 5;
/// Letters of a word that says something by itself; shorter ones do as names and with digits.
const LONG: usize = 4;

/// What the last calls gave back that an answer says nothing of, and why they failed if it hardly says that; none where
/// it does.
fn left_out(at: &Situation<'_>, answer: &str) -> Option<String> {
    let transcript = at.transcript;
    let Some(Message::Tool(last)) = transcript.last() else { return None };
    let question = transcript.question().unwrap_or_default();
    let calls = transcript.calls_of_run();
    let replies = || calls.iter().filter_map(|&(call, reply)| Some((call, reply?)));
    let is_last = |reply: &ToolReply| last.iter().any(|other| std::ptr::eq(other, reply));
    // What two results have in common tells nothing of either, unless all of one is in the other.
    let elsewhere = |reply: &ToolReply| {
        let own = told(at, reply, question);
        let others = replies().filter(|(_, other)| !std::ptr::eq(*other, reply) && !other.is_error);
        let others = others.filter(|(_, other)| !told(at, other, question).is_subset(&own));
        others.flat_map(|(_, other)| words(&other.content)).collect::<BTreeSet<String>>()
    };
    let mut missed: Vec<String> = Vec::new();
    for (call, reply) in replies() {
        let result = reply.content.trim();
        let left = match (reply.is_error, is_last(reply)) {
            (true, true) => {
                let why = reason(result);
                is_hardly_said(why, question, answer).then(|| shortened(why))
            }
            (false, is_last) if is_last || is_asked_for(call, question) => {
                is_left_out(at, reply, [question, answer], &elsewhere(reply)).then(|| shortened(result))
            }
            _ => None,
        };
        let left = left.map(|left| quoted(&call.name, &left));
        missed.extend(left.filter(|left| !missed.contains(left)));
    }
    (!missed.is_empty()).then(|| missed.join("\n\n"))
}

/// Whether the request has one of a call's arguments in it.
fn is_asked_for(call: &ToolCall, question: &str) -> bool {
    let question = question.to_lowercase();
    let texts = call.arguments.values().filter_map(serde_json::Value::as_str);
    texts.map(str::to_lowercase).any(|text| text.chars().count() >= LONG && question.contains(&text))
}

/// Why a call failed: a message of one line goes on, behind a semicolon, with what a model may do instead.
fn reason(failure: &str) -> &str {
    match failure.split_once("; ") {
        Some((why, _)) if !failure.contains('\n') => why,
        _ => failure,
    }
}

/// Whether an answer has less than a third of the words by which a failure tells something. "It failed" has one of many.
fn is_hardly_said(why: &str, question: &str, answer: &str) -> bool {
    let (known, said) = (words(question), words(answer));
    let told: BTreeSet<String> = telling(why).filter(|word| !known.contains(word)).collect();
    told.intersection(&said).count() * 3 < told.len()
}

/// Whether an answer has no word of those that tell something of a result, and of it alone.
fn is_left_out(
    at: &Situation<'_>,
    reply: &ToolReply,
    [question, answer]: [&str; 2],
    elsewhere: &BTreeSet<String>,
) -> bool {
    let said = words(answer);
    let told = told(at, reply, question);
    let mut own = told.difference(elsewhere).peekable();
    let says_nothing = own.peek().is_some() && !own.any(|word| said.contains(word));
    says_nothing || names_no_file(at.memory.finding(reply), question, answer)
}

/// The words of a result that tell something that the request does not have. Of what was found in files, the file is looked for by
/// itself.
fn told(at: &Situation<'_>, reply: &ToolReply, question: &str) -> BTreeSet<String> {
    let texts = match at.memory.finding(reply) {
        Finding::Hits { hits, .. } => hits.iter().map(|(_, text)| text.as_str()).collect(),
        _ => at.memory.lines(reply),
    };
    let known = words(question);
    texts.into_iter().flat_map(telling).filter(|word| !known.contains(word)).collect()
}

/// Whether a result is a few lines found in files, and the answer names none of these files.
fn names_no_file(finding: &Finding, question: &str, answer: &str) -> bool {
    let hits = match finding {
        Finding::Hits { hits, .. } if hits.len() <= FEW => hits,
        _ => return false,
    };
    let both = [question.to_lowercase(), answer.to_lowercase()];
    let is_named = |(file, _): &(String, String)| {
        let name = file.rsplit('/').next().unwrap_or(file).to_lowercase();
        let stem = name.rsplit_once('.').map_or(name.as_str(), |(stem, _)| stem);
        both.iter().any(|text| text.contains(stem))
    };
    !hits.iter().any(is_named)
}

/// The words that tell something: long ones, names, and those with digits; in lower case.
fn telling(text: &str) -> impl Iterator<Item = String> + '_ {
    let tells = |word: &&str| {
        word.chars().count() >= LONG
            || word.starts_with(char::is_uppercase)
            || word.contains(|c: char| c.is_ascii_digit())
    };
    split(text).filter(tells).map(str::to_lowercase)
}

fn words(text: &str) -> BTreeSet<String> {
    split(text).map(str::to_lowercase).collect()
}

fn split(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty())
}

fn shortened(result: &str) -> String {
    let more = result.lines().count().saturating_sub(LINES);
    let lines: Vec<&str> = result.lines().take(LINES).collect();
    let lines = lines.join("\n");
    if more == 0 { lines } else { format!("{lines}\n… {more} more lines") }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use toolgate_tools::ToolResult;

    use super::super::scene::{Scene, hits, listing};
    use super::*;

    fn missed(question: &str, found: ToolResult, answer: &str) -> Option<String> {
        left_out(&Scene::asked(question).called("t", &json!({}), found).at(), answer)
    }

    #[test]
    fn an_answer_that_says_nothing_of_a_result_leaves_it_out() {
        let songs = || listing(&["reel.abc", "waltz.abc"], None);
        let counted = || listing(&["reel.abc", "waltz.abc"], Some("[2 files]"));
        let weir = || hits(&[("log/a-17.md", "By the weir.")], false);
        let safe = || hits(&[("safe/blue.txt", "Code: 7719")], false);
        let text = ToolResult::ok;
        for (question, result, answer, is_out) in [
            ("What is in songs?", songs(), "The songs are in \"songs\".", true),
            ("What is in songs?", songs(), "A reel and a waltz.", false),
            (
                "How many black latches are there?",
                text("latch,black,268"),
                "There are 2 black latches.",
                true,
            ),
            ("How many black latches are there?", text("latch,black,268"), "268.", false),
            ("Who has the key?", text("Ana has it"), "Ana does.", false),
            ("Repeat: so long", text("so long"), "Done.", false),
            ("Where is the weir?", weir(), "It is by the weir.", true),
            ("Where is the weir?", weir(), "See a-17.", true),
            ("Where is the weir?", weir(), "By it, as a-17 says.", false),
            ("How many are in songs?", counted(), "There are 2.", true),
            ("Where is the weir?", hits(&[], false), "Nowhere.", false),
            ("What is the code?", safe(), "It is in safe/blue.txt.", true),
            ("What is the code?", safe(), "7719, in blue.txt.", false),
            ("Look in log/a-17.md: where?", weir(), "By the weir.", false),
        ] {
            assert_eq!(missed(question, result, answer).is_some(), is_out, "{question} {answer}");
        }
    }

    #[test]
    fn each_of_the_last_results_is_looked_for_by_itself() {
        let calls = [ToolCall::new("t", serde_json::Map::new()), ToolCall::new("t", serde_json::Map::new())];
        let [one, other] = &calls;
        let mut scene = Scene::asked("List both");
        let replies = vec![ToolReply::ok(one, "figs.txt"), ToolReply::ok(other, "cider.txt")];
        scene.transcript.push(Message::calls(calls.clone()));
        scene.transcript.push(Message::Tool(replies));
        assert_eq!(left_out(&scene.at(), "There is figs.txt."), Some(quoted("t", "cider.txt")));
        assert_eq!(left_out(&Scene::asked("List both").at(), "x"), None);
    }

    #[test]
    fn what_the_request_asked_for_in_an_earlier_turn_follows_as_well() {
        let path = |path: &str| json!({"path": path});
        let scene = Scene::asked("What is planted in beds/north.txt and beds/south.txt?")
            .called("read_file", &path("beds/north.txt"), ToolResult::ok("Planted: leeks\nSown: March"))
            .called("read_file", &path("beds/south.txt"), ToolResult::ok("Planted: chard\nSown: April"));
        let missed = |answer: &str| left_out(&scene.at(), answer);
        assert_eq!(
            missed("Planted: leeks\nSown: March"),
            Some(quoted("read_file", "Planted: chard\nSown: April"))
        );
        assert_eq!(missed("Chard, sown in April."), Some(quoted("read_file", "Planted: leeks\nSown: March")));
        assert_eq!(missed("Leeks in the north, chard in the south."), None);
    }

    #[test]
    fn a_second_look_at_a_part_of_what_was_read_is_no_reason_to_quote_it() {
        let scene = Scene::asked("Read gate.toml: which port?")
            .called("read_file", &json!({"path": "gate.toml"}), ToolResult::ok("port = 8417\nworkers = 3"))
            .called("search", &json!({"query": "port"}), hits(&[("gate.toml", "port = 8417")], false));
        assert_eq!(left_out(&scene.at(), "It is 8417."), None);
        assert!(left_out(&scene.at(), "It is open.").is_some());
    }

    #[test]
    fn failures_that_are_hardly_told_follow_without_their_hints() {
        let told = |question: &str, failure: &str, answer: &str| {
            missed(question, ToolResult::failed(failure), answer)
        };
        let missing = "no such file or directory: \"figs\"; there is \"plums\"";
        let why = "no such file or directory: \"figs\"";
        let figs = "How many pictures has figs?";
        assert_eq!(told(figs, missing, "It has no pictures."), Some(quoted("t", why)));
        assert_eq!(told(figs, missing, "There is no directory figs."), None);
        let output = "parse: passed\nrender: FAILED\n[exit code 1]";
        assert_eq!(told("Which check fails?", output, "The check failed."), Some(quoted("t", output)));
        assert_eq!(told("Which check fails?", output, "Parse passed and render failed."), None);
    }

    #[test]
    fn long_results_are_not_quoted_whole() {
        let long: String = (0..20).map(|number| format!("line{number}\n")).collect();
        let quoted = missed("List", ToolResult::ok(long), "Here.").unwrap_or_default();
        assert!(quoted.ends_with("> line11\n> … 8 more lines"), "{quoted}");
    }

    #[test]
    fn a_quotation_stands_apart_from_the_answer() {
        let scene =
            Scene::asked("What is in songs?").called("list", &Value::Null, listing(&["reel.abc"], None));
        let addition = |answer: &str| Quotation.addition(&scene.at(), answer);
        let quote = "list:\n> reel.abc";
        assert_eq!(addition("You find it above."), Some(format!("\n\n{quote}")));
        assert_eq!(addition("Above:\n"), Some(format!("\n{quote}")));
        assert_eq!(addition(""), Some(quote.to_owned()));
        assert_eq!(addition("The reel."), None);
    }
}
