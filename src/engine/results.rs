//! What calls gave back: as the answer itself, or behind one that says nothing of it.
//!
//! Why: a model of half a billion parameters often repeats the question in place of what it was given ("The songs are
//! listed in the directory songs."). Whoever asked still gets what was found.

use std::collections::BTreeSet;

use toolgate_chat::{Message, Transcript};

use super::local::AnswerView;
use super::{AnswerForm, TurnRequest};

/// Lines of a result that are quoted at most.
const LINES: usize = 12;
/// Lines of search results up to which an answer is expected to name a file of them.
const FEW: usize = 5;
/// Letters of a word that says something by itself; shorter ones do as names and with digits.
const LONG: usize = 4;

/// The answer of a model that gives the results in place of one; none where it is to write one.
pub(crate) fn instead(view: AnswerView, request: &TurnRequest<'_>) -> Option<String> {
    let is_it = view == AnswerView::Results && takes_results(request);
    is_it.then(|| results(request.transcript)).flatten()
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
    request.answer == AnswerForm::Text && request.sampling.stop.is_empty()
}

/// What the calls since the user last spoke gave back: of those that did not fail, else of the last one. None without any.
fn results(transcript: &Transcript) -> Option<String> {
    let calls = transcript.calls_of_run();
    let replies =
        || calls.iter().filter_map(|(_, reply)| *reply).filter(|reply| !reply.content.trim().is_empty());
    let good: Vec<&str> =
        replies().filter(|reply| !reply.is_error).map(|reply| reply.content.trim()).collect();
    match good.is_empty() {
        true => replies().next_back().map(|reply| reply.content.trim().to_owned()),
        false => Some(good.join("\n\n")),
    }
}

/// What the last calls gave back that an answer says nothing of, and why they failed if it hardly says that; none where
/// it does.
fn left_out(transcript: &Transcript, answer: &str) -> Option<String> {
    let Some(Message::Tool(replies)) = transcript.last() else { return None };
    let question = transcript.question().unwrap_or_default();
    let missed: Vec<String> = replies
        .iter()
        .filter_map(|reply| {
            let result = reply.content.trim();
            if reply.is_error {
                let why = reason(result);
                is_hardly_said(why, question, answer).then(|| shortened(why))
            } else {
                is_left_out(result, question, answer).then(|| shortened(result))
            }
        })
        .collect();
    (!missed.is_empty()).then(|| missed.join("\n\n"))
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

fn is_left_out(result: &str, question: &str, answer: &str) -> bool {
    let (known, said) = (words(question), words(answer));
    // Of what was found in files, the file is looked for by itself.
    let texts =
        result.lines().filter(|line| !is_note(line)).map(|line| hit(line).map_or(line, |(_, text)| text));
    let told: Vec<String> = texts.flat_map(telling).filter(|word| !known.contains(word)).collect();
    let says_nothing = !told.is_empty() && !told.iter().any(|word| said.contains(word));
    says_nothing || names_no_file(result, question, answer)
}

/// Whether a result is a few lines found in files, and the answer names none of these files.
fn names_no_file(result: &str, question: &str, answer: &str) -> bool {
    let found: Option<Vec<&str>> =
        result.lines().filter(|line| !is_note(line)).map(|line| Some(hit(line)?.0)).collect();
    let Some(files) = found.filter(|files| (1..=FEW).contains(&files.len())) else { return false };
    let both = [question.to_lowercase(), answer.to_lowercase()];
    let is_named = |file: &&str| {
        let name = file.rsplit('/').next().unwrap_or(file).to_lowercase();
        let stem = name.rsplit_once('.').map_or(name.as_str(), |(stem, _)| stem);
        both.iter().any(|text| text.contains(stem))
    };
    !files.iter().any(is_named)
}

/// Whether a tool speaks of the result in a line, such as `(no match in 2 files)`.
fn is_note(line: &str) -> bool {
    [('(', ')'), ('[', ']')].iter().any(|&(first, last)| line.starts_with(first) && line.ends_with(last))
}

/// The file and the text of a line such as `a/b.txt:3: text`.
fn hit(line: &str) -> Option<(&str, &str)> {
    let (file, rest) = line.split_once(':')?;
    let (number, text) = rest.split_once(':')?;
    let is_number = !number.is_empty() && number.chars().all(|c| c.is_ascii_digit());
    let is_file = file.contains(['/', '.']) && !file.contains(char::is_whitespace);
    (is_number && is_file).then_some((file, text))
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
    use toolgate_chat::{ToolCall, ToolReply};

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
        assert_eq!(left_out(&transcript, "There is figs.txt."), Some("cider.txt".to_owned()));
        assert_eq!(left_out(&after("List both", &[]), "x"), None);
        assert_eq!(left_out(&Transcript::new(), "x"), None);
    }

    #[test]
    fn failures_that_are_hardly_told_follow_without_their_hints() {
        let told = |question: &str, failure: &str, answer: &str| {
            let failed =
                ToolReply { is_error: true, ..ToolReply::ok(&ToolCall::new("t", Map::new()), failure) };
            let asked = Transcript::new().with(Message::User(question.to_owned()));
            left_out(&asked.with(Message::Tool(vec![failed])), answer)
        };
        let missing = "no such file or directory: \"figs\"; there is \"plums\"";
        let why = "no such file or directory: \"figs\"";
        assert_eq!(told("How many pictures has figs?", missing, "It has no pictures.").as_deref(), Some(why));
        assert_eq!(told("How many pictures has figs?", missing, "There is no directory figs."), None);
        let output = "parse: passed\nrender: FAILED\n[exit code 1]";
        assert_eq!(told("Which check fails?", output, "The check failed.").as_deref(), Some(output));
        assert_eq!(told("Which check fails?", output, "Parse passed and render failed."), None);
    }

    #[test]
    fn long_results_are_not_quoted_whole() {
        let long: String = (0..20).map(|number| format!("line{number}\n")).collect();
        let quoted = left_out(&after("List", &[&long]), "Here.").unwrap_or_default();
        assert!(quoted.ends_with("line11\n… 8 more lines"), "{quoted}");
    }
}
