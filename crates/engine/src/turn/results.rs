//! What calls gave back, quoted: as the answer itself, or behind one that says nothing of it.
//!
//! Why: a model of half a billion parameters often repeats the question in place of what it was given ("The songs are
//! listed in the directory songs."). Whoever asked still gets what was found.
//!
//! Invariant: a reader can tell what was quoted from what the model says, and nothing is quoted where nobody asked for it
//! ([`TurnRequest::quotes`]).

use std::collections::BTreeSet;

use toolgate_chat::{Message, ToolCall, ToolReply, Transcript};

use crate::profile::options::AnswerView;
use crate::{AnswerForm, TurnRequest};
use toolgate_words::results::{hit, hits, is_note};
use toolgate_words::{asks_how_many, stem};

/// Lines of a result that are quoted at most.
const LINES: usize = 12;
/// Lines of search results up to which an answer is expected to name a file of them.
const FEW: usize = 5;
/// Lines about what was asked that follow an answer at most.
const FEW_LINES: usize = 2;
/// The tool whose results are lists of names, and the words that ask for them all.
const LISTS: &str = "list_directory";
const LISTED: [&str; 8] =
    ["all", "contents", "directories", "entries", "everything", "files", "folders", "subfolders"];
/// Letters of a word that says something by itself; shorter ones do as names and with digits.
const LONG: usize = 4;

/// The answer of a model that gives the results in place of one; none where it is to write one.
pub(crate) fn instead(view: AnswerView, request: &TurnRequest<'_>) -> Option<String> {
    let is_it = view == AnswerView::Results && takes_results(request);
    is_it.then(|| results(request.transcript)).flatten()
}

/// A text as a quotation of what a tool gave back.
fn quoted(tool: &str, text: &str) -> String {
    let lines: Vec<String> = text.lines().map(|line| format!("> {line}").trim_end().to_owned()).collect();
    format!("Quoted from {tool}:\n{}", lines.join("\n"))
}

/// What is put behind a whole answer of a model that often says nothing of the results.
pub(crate) fn addition(view: AnswerView, request: &TurnRequest<'_>, answer: &str) -> Option<String> {
    let is_it = view == AnswerView::Quoted && takes_results(request);
    let missed = is_it.then(|| left_out(request.transcript, answer)).flatten()?;
    let blank = match answer.trim_start() {
        "" => "",
        _ if answer.ends_with("\n\n") => "",
        _ if answer.ends_with('\n') => "\n",
        _ => "\n\n",
    };
    Some(format!("{blank}{missed}"))
}

/// Results are no JSON, and end where they end.
fn takes_results(request: &TurnRequest<'_>) -> bool {
    request.quotes && request.answer == AnswerForm::Text && request.sampling.stop.is_empty()
}

/// What the calls since the user last spoke gave back: of those that did not fail, else of the last one. None without any.
fn results(transcript: &Transcript) -> Option<String> {
    let calls = transcript.calls_of_run();
    let replies =
        || calls.iter().filter_map(|(_, reply)| *reply).filter(|reply| !reply.content.trim().is_empty());
    let told = |reply: &ToolReply| quoted(&reply.name, reply.content.trim());
    let good: Vec<String> = replies().filter(|reply| !reply.is_error).map(told).collect();
    match good.is_empty() {
        true => replies().next_back().map(told),
        false => Some(good.join("\n\n")),
    }
}

/// What the last calls gave back that an answer says nothing of, and why they failed if it hardly says that; none where
/// it does.
fn left_out(transcript: &Transcript, answer: &str) -> Option<String> {
    let Some(Message::Tool(last)) = transcript.last() else { return None };
    let question = transcript.question().unwrap_or_default();
    let calls = transcript.calls_of_run();
    let replies = || calls.iter().filter_map(|&(call, reply)| Some((call, reply?)));
    let is_last = |reply: &ToolReply| last.iter().any(|other| std::ptr::eq(other, reply));
    // What two results have in common tells nothing of either.
    let elsewhere = |reply: &ToolReply| {
        let others = replies().filter(|(_, other)| !std::ptr::eq(*other, reply) && !other.is_error);
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
            (false, true) => {
                let known = [question, answer];
                let is_out =
                    is_left_out(result, known, &elsewhere(reply)) || is_listed_in_part(call, result, known);
                match is_out {
                    true => Some(shortened(result)),
                    false => lines_left_out(result, question, answer),
                }
            }
            (false, false) if is_asked_for(call, question) => {
                is_left_out(result, [question, answer], &elsewhere(reply)).then(|| shortened(result))
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

/// Whether an answer leaves names of a short listing out that the request asks for.
fn is_listed_in_part(call: &ToolCall, result: &str, [question, answer]: [&str; 2]) -> bool {
    let asks = split(question).any(|word| LISTED.contains(&word.to_lowercase().as_str()));
    let answer = answer.to_lowercase();
    let names: Vec<String> = result
        .lines()
        .filter(|line| !is_note(line))
        .map(|line| line.trim_end_matches('/').to_lowercase())
        .collect();
    asks && call.name == LISTS && names.len() <= LINES && names.iter().any(|name| !answer.contains(name))
}

/// The lines of a result that are about what was asked, where the answer has none of the numbers of any of them.
fn lines_left_out(result: &str, question: &str, answer: &str) -> Option<String> {
    let stems =
        |text: &str| -> BTreeSet<String> { telling(text).map(|word| stem(&word).to_owned()).collect() };
    let (asked, known, said) = (stems(question), words(question), words(answer));
    let lines: Vec<&str> = result.lines().filter(|line| !is_note(line)).map(str::trim).collect();
    if lines.len() < 2 {
        return None;
    }
    let numbers = |line: &str| -> Vec<String> {
        words(line).into_iter().filter(|word| is_number(word) && !known.contains(word)).collect()
    };
    let about = lines.into_iter().filter(|line| stems(line).intersection(&asked).next().is_some());
    let about: Vec<&str> = about.filter(|line| !numbers(line).is_empty()).collect();
    let is_said = |line: &&str| numbers(line).iter().any(|number| said.contains(number));
    let missed: Vec<&str> = about.iter().copied().filter(|line| !is_said(line)).collect();
    // A few lines are what was meant; many are a text about it.
    ((1..=FEW_LINES).contains(&missed.len()) && about.len() <= FEW).then(|| missed.join("\n"))
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
fn is_left_out(result: &str, [question, answer]: [&str; 2], elsewhere: &BTreeSet<String>) -> bool {
    let (known, said) = (words(question), words(answer));
    let counts = result.lines().filter(|line| is_note(line)).flat_map(words);
    if asks_how_many(question) && counts.filter(|word| is_number(word)).any(|count| said.contains(&count)) {
        return false;
    }
    // Of what was found in files, the file is looked for by itself.
    let texts =
        result.lines().filter(|line| !is_note(line)).map(|line| hit(line).map_or(line, |(_, text)| text));
    let is_new = |word: &String| !known.contains(word) && !elsewhere.contains(word);
    let told: Vec<String> = texts.flat_map(telling).filter(is_new).collect();
    let says_nothing = !told.is_empty() && !told.iter().any(|word| said.contains(word));
    says_nothing || names_no_file(result, question, answer)
}

/// Whether a result is a few lines found in files, and the answer names none of these files.
fn names_no_file(result: &str, question: &str, answer: &str) -> bool {
    let Some(hits) = hits(result).filter(|hits| hits.len() <= FEW) else { return false };
    let both = [question.to_lowercase(), answer.to_lowercase()];
    let is_named = |(file, _): &(&str, &str)| {
        let name = file.rsplit('/').next().unwrap_or(file).to_lowercase();
        let stem = name.rsplit_once('.').map_or(name.as_str(), |(stem, _)| stem);
        both.iter().any(|text| text.contains(stem))
    };
    !hits.iter().any(is_named)
}

fn is_number(word: &str) -> bool {
    word.chars().all(|c| c.is_ascii_digit())
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
    use serde_json::Map;

    use super::*;

    fn after(question: &str, results: &[&str]) -> Transcript {
        let calls: Vec<ToolCall> = results.iter().map(|_| ToolCall::new("t", Map::new())).collect();
        let replies = calls.iter().zip(results).map(|(call, result)| ToolReply::ok(call, *result)).collect();
        Transcript::new()
            .with(Message::User(question.to_owned()))
            .with(Message::calls(calls))
            .with(Message::Tool(replies))
    }

    #[test]
    fn an_answer_that_says_nothing_of_a_result_leaves_it_out() {
        for (question, result, answer, is_out) in [
            ("What is in songs?", "reel.abc\nwaltz.abc", "The songs are in \"songs\".", true),
            ("What is in songs?", "reel.abc\nwaltz.abc", "A reel and a waltz.", false),
            ("How many black latches are there?", "latch,black,268", "There are 2 black latches.", true),
            ("How many black latches are there?", "latch,black,268", "268.", false),
            ("Who has the key?", "Ana has it", "Ana does.", false),
            ("Repeat: so long", "so long", "Done.", false),
            ("Where is the weir?", "log/a-17.md:1: By the weir.", "It is by the weir.", true),
            ("Where is the weir?", "log/a-17.md:1: By the weir.", "See a-17.", true),
            ("Where is the weir?", "log/a-17.md:1: By the weir.", "By it, as a-17 says.", false),
            ("How many are in songs?", "reel.abc\nwaltz.abc\n[2 files]", "There are 2.", false),
            ("How many are in songs?", "reel.abc\nwaltz.abc\n[2 files]", "There are 3.", true),
            ("Where is the weir?", "(no match in 3 files)", "Nowhere.", false),
            ("What is the code?", "safe/blue.txt:1: Code: 7719", "It is in safe/blue.txt.", true),
            ("What is the code?", "safe/blue.txt:1: Code: 7719", "7719, in blue.txt.", false),
            ("Look in log/a-17.md: where?", "log/a-17.md:1: By the weir.", "By the weir.", false),
        ] {
            assert_eq!(
                left_out(&after(question, &[result]), answer).is_some(),
                is_out,
                "{question} {answer}"
            );
        }
    }

    #[test]
    fn each_of_the_last_results_is_looked_for_by_itself() {
        let transcript = after("List both", &["figs.txt", "cider.txt"]);
        assert_eq!(left_out(&transcript, "There is figs.txt."), Some(quoted("t", "cider.txt")));
        assert_eq!(left_out(&after("List both", &[]), "x"), None);
        assert_eq!(left_out(&Transcript::new(), "x"), None);
    }

    #[test]
    fn what_the_request_asked_for_in_an_earlier_turn_follows_as_well() {
        let read = |path: &str| ToolCall::new("read_file", Map::from_iter([("path".into(), path.into())]));
        let (north, south) = (read("beds/north.txt").with_id("1"), read("beds/south.txt").with_id("2"));
        let transcript = Transcript::new()
            .with(Message::User("What is planted in beds/north.txt and beds/south.txt?".to_owned()))
            .with(Message::calls([north.clone()]))
            .with(Message::Tool(vec![ToolReply::ok(&north, "Planted: leeks\nSown: March")]))
            .with(Message::calls([south.clone()]))
            .with(Message::Tool(vec![ToolReply::ok(&south, "Planted: chard\nSown: April")]));
        let missed = |answer: &str| left_out(&transcript, answer);
        assert_eq!(
            missed("Planted: leeks\nSown: March"),
            Some(quoted("read_file", "Planted: chard\nSown: April"))
        );
        assert_eq!(missed("Chard, sown in April."), Some(quoted("read_file", "Planted: leeks\nSown: March")));
        assert_eq!(missed("Leeks in the north, chard in the south."), None);
    }

    #[test]
    fn a_list_that_was_asked_for_is_given_whole() {
        let listed = |question: &str, answer: &str| {
            let call = ToolCall::new(LISTS, Map::new());
            let reply = ToolReply::ok(&call, "bills/\nleases/\nscans/\n[3 directories]");
            let asked = Transcript::new().with(Message::User(question.to_owned()));
            left_out(&asked.with(Message::calls([call])).with(Message::Tool(vec![reply])), answer).is_some()
        };
        assert!(listed("Which folders are here?", "There are bills and leases."));
        assert!(!listed("Which folders are here?", "Bills, leases and scans."));
        assert!(!listed("Is there one for bills?", "Yes, beside leases."));
    }

    #[test]
    fn the_line_that_has_what_was_asked_for_follows_an_answer_without_its_number() {
        let file = "- water, 24 bottles\n- clean towels: 18\n- meals: 5";
        let missed = |question: &str, answer: &str| left_out(&after(question, &[file]), answer);
        let towels = "How many towels do we ask for?";
        assert_eq!(
            missed(towels, "We ask for 24 bottles of towels."),
            Some(quoted("t", "- clean towels: 18"))
        );
        assert_eq!(missed(towels, "18 towels, 24 bottles."), None);
        assert_eq!(missed("What is in it?", "24 bottles of water."), None, "nothing is asked for by name");
        let leaving =
            left_out(&after("When does the bus leave?", &["Bus, route 6\nLeaves: 16:25"]), "Bus 6 leaves.");
        assert_eq!(leaving, Some(quoted("t", "Leaves: 16:25")));
    }

    #[test]
    fn failures_that_are_hardly_told_follow_without_their_hints() {
        let told = |question: &str, failure: &str, answer: &str| {
            let call = ToolCall::new("t", Map::new());
            let failed = ToolReply { is_error: true, ..ToolReply::ok(&call, failure) };
            let asked = Transcript::new().with(Message::User(question.to_owned()));
            left_out(&asked.with(Message::calls([call])).with(Message::Tool(vec![failed])), answer)
        };
        let missing = "no such file or directory: \"figs\"; there is \"plums\"";
        let why = "no such file or directory: \"figs\"";
        assert_eq!(
            told("How many pictures has figs?", missing, "It has no pictures."),
            Some(quoted("t", why))
        );
        assert_eq!(told("How many pictures has figs?", missing, "There is no directory figs."), None);
        let output = "parse: passed\nrender: FAILED\n[exit code 1]";
        assert_eq!(told("Which check fails?", output, "The check failed."), Some(quoted("t", output)));
        assert_eq!(told("Which check fails?", output, "Parse passed and render failed."), None);
    }

    #[test]
    fn long_results_are_not_quoted_whole() {
        let long: String = (0..20).map(|number| format!("line{number}\n")).collect();
        let quoted = left_out(&after("List", &[&long]), "Here.").unwrap_or_default();
        assert!(quoted.ends_with("> line11\n> … 8 more lines"), "{quoted}");
    }
}
