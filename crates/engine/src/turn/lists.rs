//! Questions about a request that the model answers itself: lists of other requests, each with its answer, which end where that of the
//! last is to be told.
//!
//! Why: how likely a small model is to open a call says little of what it was asked. Shown a list, it tells well of which kind
//! another request is, in languages that the list does not have, too. A list is plain text, without the form of a conversation:
//! so a model that would think aloud first has no place to.
//!
//! Invariant: what a list begins with is the same for all requests, and so is evaluated once.
//!
//! For the packages of this workspace alone: no part of the API.

use std::fmt::Write as _;

use toolgate_chat::notes::without_notes;
use toolgate_chat::{Effect, ToolCall, ToolReply, ToolSpec, Transcript};

use crate::model::recent::Recent;
use crate::profile::decision::Signal;

/// A list that ends with a request, and the words of which one comes next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List {
    /// What all lists of this question begin with.
    front: String,
    /// The request.
    rest: String,
    /// The words that say yes.
    pub yes: Vec<String>,
    /// The words that say no.
    pub no: Vec<String>,
    /// The names of tools that may not be called. They say no, too, unless a tool that may be called begins with the same token.
    pub barred: Vec<String>,
}

/// How likely a model finds each answer to a list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Told {
    /// The probability of the words that say yes.
    pub yes: f64,
    /// The probability of those that say no.
    pub no: f64,
    /// The probability of each word that says yes, in their order. Words that begin alike may share that of their beginning.
    pub words: Vec<f64>,
}

/// What was told of lists.
pub struct ToldLists(Recent<List, Told>);

/// Lists that are remembered. All turns of a run ask the same of its request.
const KEPT: usize = 64;

impl Default for ToldLists {
    fn default() -> Self {
        Self(Recent::new(KEPT))
    }
}

impl ToldLists {
    /// What was told of a list.
    pub fn get(&mut self, list: &List) -> Option<Told> {
        self.0.find(|known| known == list).cloned()
    }

    /// Notes what was told of it.
    pub fn put(&mut self, list: List, told: Told) {
        self.0.put(list, told);
    }
}

/// What both answers have of the probability at least, where a model goes on with a list: those that were measured give them 0.9.
const LEAST_SAID: f64 = 0.1;
/// What counts as no probability at all.
const NONE: f64 = 1e-6;
/// What a tool has at least that a list does not name: that its word begins like another's may be a chance of the vocabulary.
const LEAST_NAMED: f64 = 1e-3;

impl Told {
    /// Whether the model would say one of them, and so tells something.
    fn tells(&self) -> bool {
        self.yes + self.no >= LEAST_SAID
    }

    /// The probability of yes; 0 where the model tells nothing, and only there.
    pub fn p(&self) -> f64 {
        if self.tells() { (self.yes / (self.yes + self.no)).max(NONE) } else { 0.0 }
    }

    /// The logarithm of the odds of yes; 0 where the model tells nothing.
    pub fn log_odds(&self) -> f64 {
        if self.tells() { ((self.yes + NONE) / (self.no + NONE)).ln() } else { 0.0 }
    }

    /// The logarithm of the probability of each of these tools, told by a list of them. Empty where the model tells nothing.
    pub fn named(&self, list: &List, tools: &[ToolSpec]) -> Vec<f64> {
        if !self.tells() {
            return Vec::new();
        }
        let share = |tool: &ToolSpec| {
            let at = list.yes.iter().position(|word| word.trim_start() == tool.name.as_str());
            at.and_then(|at| self.words.get(at)).copied().unwrap_or_default()
        };
        tools.iter().map(|tool| share(tool).max(LEAST_NAMED).ln()).collect()
    }
}

impl List {
    /// What all lists of its question begin with.
    pub fn front(&self) -> &str {
        &self.front
    }

    /// All of it.
    pub fn text(&self) -> String {
        format!("{}{}", self.front, self.rest)
    }

    /// The list that tells a signal; none for one that no list tells. Where a run may not change anything, a tool that would counts as
    /// none.
    pub fn about(
        signal: Signal,
        transcript: &Transcript,
        tools: &[ToolSpec],
        may_change: bool,
    ) -> Option<Self> {
        let list = match signal {
            Signal::Live => Self::live(transcript),
            Signal::Next => Self::next(transcript, tools),
            Signal::Asked => Self::first(transcript, tools),
            Signal::Change => Self::change(transcript),
            _ => None,
        }?;
        Some(if may_change { list } else { list.without_changes(tools) })
    }

    /// The same list, where no tool that changes something says yes.
    fn without_changes(mut self, tools: &[ToolSpec]) -> Self {
        let changes = |word: &mut String| {
            let tool = tools.iter().find(|tool| tool.name.as_str() == word.trim_start());
            tool.is_some_and(|tool| tool.effect == Effect::Changes)
        };
        self.barred = self.yes.extract_if(.., changes).collect();
        self
    }

    /// Whether the request is to change something, rather than to look. None where nothing was requested.
    pub fn change(transcript: &Transcript) -> Option<Self> {
        const ASKED: &str = "An assistant gets a request. Is it asked to change something (write, add, remove, set, move, send, save), \
            or only to look something up, explain, suggest or answer? Answer with one word: change or look.";
        Self::of_kinds(ASKED, &CHANGES, [" change", " look"], transcript)
    }

    /// Whether the request needs what only the user's files, devices, accounts or live data say or do, rather than talk or what is
    /// known to all. None where nothing was requested.
    pub fn live(transcript: &Transcript) -> Option<Self> {
        const ASKED: &str = "A computer gets a request. Does it need to look into or act on the user's own things (files, mail, devices, \
            accounts, places, live data), or can it be answered by general knowledge, talk or writing alone? Answer with one word: live \
            or general.";
        Self::of_kinds(ASKED, &LIVE, [" live", " general"], transcript)
    }

    /// Which of these tools is called next in the run, or none. The words that say yes are the names. None where nothing was
    /// requested, and for more tools than such a list can hold.
    pub fn next(transcript: &Transcript, tools: &[ToolSpec]) -> Option<Self> {
        Self::behind(transcript, &transcript.calls_of_run(), tools)
    }

    /// Which of them is called first. So it was asked before the run's first call: in a run it is known.
    pub fn first(transcript: &Transcript, tools: &[ToolSpec]) -> Option<Self> {
        Self::behind(transcript, &[], tools)
    }

    /// Which of them is called behind these calls.
    fn behind(
        transcript: &Transcript,
        run: &[(&ToolCall, Option<&ToolReply>)],
        tools: &[ToolSpec],
    ) -> Option<Self> {
        if tools.is_empty() || tools.len() > MOST_TOOLS {
            return None;
        }
        let mut front = "An assistant has functions. For each request: which function does it call next? \"none\" if it answers the user \
            without one.\n\n"
            .to_owned();
        for example in &NEXT {
            let tools = example.tools.iter().copied();
            let steps = example.step.iter().map(|(name, result)| (*name, *result));
            let block = block(tools, example.request, steps);
            let _ = write!(front, "{block} {}\n\n", example.next);
        }
        let described = tools.iter().map(|tool| (tool.name.as_str(), short(&tool.description)));
        let described: Vec<(&str, String)> = described.collect();
        let first = run.len().saturating_sub(MOST_STEPS);
        let steps: Vec<(&str, String)> = run
            .iter()
            .skip(first)
            .map(|(call, reply)| {
                let result = reply.map_or_else(String::new, |reply| {
                    format!("{}{}", if reply.is_error { "error: " } else { "" }, reply.content)
                });
                (call.name.as_str(), short(&result))
            })
            .collect();
        let rest = block(
            described.iter().map(|(name, description)| (*name, description.as_str())),
            &request(transcript)?,
            steps.iter().map(|(name, result)| (*name, result.as_str())),
        );
        let yes = tools.iter().map(|tool| format!(" {}", tool.name)).collect();
        Some(Self { front, rest, yes, no: vec![" none".to_owned()], barred: Vec::new() })
    }

    /// A list of requests of which every second one, the second first, is of the first kind.
    fn of_kinds(asked: &str, examples: &[&str], kinds: [&str; 2], transcript: &Transcript) -> Option<Self> {
        let known = examples.iter().zip(kinds.iter().rev().cycle());
        let known: String =
            known.map(|(request, kind)| format!("Request: {request}\nKind:{kind}\n\n")).collect();
        let [yes, no] = kinds.map(|kind| vec![kind.to_owned()]);
        let rest = format!("Request: {}\nKind:", request(transcript)?);
        Some(Self { front: format!("{asked}\n\n{known}"), rest, yes, no, barred: Vec::new() })
    }
}

/// Characters of a request that tell its kind; of a longer one the beginning and the end are shown.
const SHOWN: usize = 600;
/// Characters of a tool's description or a result that a list shows.
const SHORT: usize = 160;
/// The last calls of a run that a list shows.
const MOST_STEPS: usize = 4;
/// Tools in a list at most.
const MOST_TOOLS: usize = 64;

/// The request in one line; none where there is none.
fn request(transcript: &Transcript) -> Option<String> {
    let request = in_a_line(&without_notes(transcript.question()?));
    if request.is_empty() {
        return None;
    }
    let letters: Vec<(usize, char)> = request.char_indices().collect();
    match (letters.get(SHOWN), letters.get(letters.len().saturating_sub(SHOWN))) {
        (Some(&(first, _)), Some(&(last, _))) if first < last => {
            Some(format!("{} … {}", &request[..first], &request[last..]))
        }
        _ => Some(request),
    }
}

fn in_a_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn short(text: &str) -> String {
    in_a_line(text).chars().take(SHORT).collect()
}

/// Tools, a request and the steps since, up to where the next one is told.
fn block<'t>(
    tools: impl Iterator<Item = (&'t str, &'t str)>,
    request: &str,
    steps: impl Iterator<Item = (&'t str, &'t str)>,
) -> String {
    let mut text = "Functions:\n".to_owned();
    for (name, description) in tools {
        let _ = writeln!(text, "- {name}: {description}");
    }
    let _ = writeln!(text, "Request: {request}");
    for (name, result) in steps {
        let _ = writeln!(text, "Called {name}: {result}");
    }
    text.push_str("Next:");
    text
}

/// Every second one asks for a change. Many are pairs about one thing that share words, so that these do not tell the kind.
const CHANGES: [&str; 18] = [
    "Which bus goes to the lake?",
    "Look up the number of the bus and put it into trip.txt",
    "How do I paint a door?",
    "Paint the door blue.",
    "Explain how the update was installed.",
    "Write a short poem about rain into poem.md",
    "Write me a short verse about tea, only as an answer.",
    "Remember that the contract ends in May.",
    "Show me what was added to the contract.",
    "Add a closing line to the contract",
    "If I moved the meeting to noon, who could come?",
    "Move the meeting to noon",
    "What would you name the boat? Just suggest something.",
    "Stop the music",
    "List the pages of the book and name its author.",
    "The second page has a wrong date, it should be 1990.",
    "Count the letters of the word.",
    "Buy the ticket.",
];

/// Every second one needs the user's own things. Both kinds have questions and orders, in several languages.
const LIVE: [&str; 36] = [
    "Why do clocks turn to the right?",
    "what time is it in Lima",
    "Hallo, wie geht's?",
    "do you have anything by Borges",
    "Explain what a standing order is.",
    "did my landlord's money go out?",
    "25 times 4, minus 10",
    "make a file names.txt with Ana and Tom in it",
    "Write a short poem about an old camera.",
    "three minutes for the eggs, please",
    "Who painted the Mona Lisa?",
    "¿Qué fotos tengo de Cádiz?",
    "我应该怎么学游泳？",
    "put the blue chair into the cellar list",
    "I had a terrible day. Cheer me up.",
    "keep in mind that the gate code is 4711",
    "Tell me a joke about trains.",
    "how many people are on channel 4",
    "how many legs does a spider have?",
    "Отключи будильник",
    "thanks, that's all",
    "rename the second slide to Intro",
    "What does a router do?",
    "what does the letter from the bank say?",
    "Gib mir drei Namen für ein Boot.",
    "明天下午有会议吗？",
    "If a ticket costs 8 euros, what do 3 cost?",
    "where is the timeout set?",
    "Translate 'good night' to French",
    "price of item 4411",
    "should I learn the piano or the guitar?",
    "run the tests",
    "Which is bigger, Peru or Chad?",
    "rain in Oslo and Rome tomorrow?",
    "Rewrite this more politely: send me the keys now",
    "is the back gate shut?",
];

/// A request with the tool that is called next.
struct Example {
    tools: &'static [(&'static str, &'static str)],
    request: &'static str,
    step: &'static [(&'static str, &'static str)],
    next: &'static str,
}

const CLOCK: &[(&str, &str)] = &[
    ("clock_now", "Tell the time in a place."),
    ("timer_start", "Start a timer."),
    ("alarm_list", "List the alarms."),
];
const LIBRARY: &[(&str, &str)] = &[
    ("book_search", "Search the books of the library."),
    ("loan_list", "List what a reader has borrowed."),
    ("loan_extend", "Extend a loan."),
];
const BANK: &[(&str, &str)] = &[
    ("account_balance", "Balance of an account."),
    ("transfer_send", "Send money to someone."),
    ("payments_list", "List the latest payments."),
];
const PHOTOS: &[(&str, &str)] = &[
    ("photo_find", "Find photos by place or date."),
    ("photo_crop", "Crop a photo."),
    ("album_create", "Create an album."),
];

const fn example(
    tools: &'static [(&'static str, &'static str)],
    request: &'static str,
    step: &'static [(&'static str, &'static str)],
    next: &'static str,
) -> Example {
    Example { tools, request, step, next }
}

/// First requests, and what comes after a result: the rest of what was asked for, or nothing.
const NEXT: [Example; 17] = [
    example(CLOCK, "what time is it in Lima", &[], "clock_now"),
    example(CLOCK, "Why do clocks turn to the right?", &[], "none"),
    example(LIBRARY, "Hallo, wie geht's?", &[], "none"),
    example(LIBRARY, "do you have anything by Borges", &[], "book_search"),
    example(BANK, "did my landlord's money go out?", &[], "payments_list"),
    example(BANK, "Explain what a standing order is.", &[], "none"),
    example(CLOCK, "three minutes for the eggs, please", &[], "timer_start"),
    example(PHOTOS, "Write a short poem about an old camera.", &[], "none"),
    example(PHOTOS, "¿Qué fotos tengo de Cádiz?", &[], "photo_find"),
    example(
        LIBRARY,
        "which books are still at my place?",
        &[("loan_list", "2 books: Emma, Ulysses")],
        "none",
    ),
    example(LIBRARY, "Keep Emma for another two weeks", &[("loan_list", "Emma, loan 17")], "loan_extend"),
    example(BANK, "Send Ana 20 euros", &[("transfer_send", "sent")], "none"),
    example(BANK, "Send Ana 20 and Tom 30 euros", &[("transfer_send", "sent to Ana")], "transfer_send"),
    example(PHOTOS, "crop the last photo from Rome", &[("photo_find", "error: no place Rome")], "none"),
    example(CLOCK, "thanks, that's all", &[], "none"),
    example(
        PHOTOS,
        "make an album of the trip to Kyoto",
        &[("photo_find", "p-11, p-12, p-15")],
        "album_create",
    ),
    example(PHOTOS, "order a pizza for me", &[], "none"),
];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::{Map, json};
    use toolgate_chat::Message;

    use super::*;

    fn asked(request: &str) -> Transcript {
        Transcript::new().with(Message::User(request.to_owned()))
    }

    #[test]
    fn a_request_is_listed_behind_examples_of_both_kinds() {
        let listed = |request: &str| List::change(&asked(request)).map(|list| list.text());
        let text = listed("Mend\n\na.txt").unwrap();
        assert!(text.ends_with("Buy the ticket.\nKind: change\n\nRequest: Mend a.txt\nKind:"), "{text}");
        assert!(text.contains("Which bus goes to the lake?\nKind: look\n"));
        assert_eq!(text.matches("Kind: change").count(), text.matches("Kind: look").count());
        assert_eq!(listed("  \n"), None);
        let long = listed(&format!("Öffne {} das Tor", "x".repeat(5_000))).unwrap();
        assert!(
            long.contains("Request: Öffne xxx") && long.ends_with("xxx das Tor\nKind:") && long.len() < 3_000
        );
        let live = List::live(&asked("Is it open?")).unwrap();
        assert!(live.text().contains("is the back gate shut?\nKind: live\n\nRequest: Is it open?\nKind:"));
        assert!(live.text().starts_with(live.front()));
    }

    #[test]
    fn what_comes_next_is_asked_behind_the_steps_of_the_run() {
        let tools = [ToolSpec::new("gate_state", "Tells whether\nthe gate is open.", json!({})).unwrap()];
        let call = ToolCall::new("gate_state", Map::new());
        let reply = ToolReply { is_error: true, ..ToolReply::ok(&call, "no\nanswer") };
        let run = asked("Is the gate open?").with(Message::calls([call])).with(Message::Tool(vec![reply]));
        let list = List::next(&run, &tools).unwrap();
        let end = "Functions:\n- gate_state: Tells whether the gate is open.\nRequest: Is the gate open?\n\
            Called gate_state: error: no answer\nNext:";
        assert!(list.text().ends_with(end), "{}", list.text());
        assert_eq!((list.yes, list.no), (vec![" gate_state".to_owned()], vec![" none".to_owned()]));
        assert_eq!(List::first(&run, &tools), List::next(&asked("Is the gate open?"), &tools));
        let other = List::next(&asked("Thanks"), &tools).unwrap();
        assert!(list.front == other.front && !other.rest.contains("Called"), "what all lists begin with");
        assert_eq!(List::next(&asked("Is the gate open?"), &[]), None);
    }

    #[test]
    fn a_tool_that_may_not_be_called_counts_as_none() {
        let tool = |name: &str, effect| ToolSpec::new(name, "", json!({})).unwrap().with_effect(effect);
        let tools =
            [tool("gate_state", Effect::Reads), tool("open", Effect::Changes), tool("sh", Effect::Unknown)];
        let list =
            |may_change| List::about(Signal::Next, &asked("Is the gate open?"), &tools, may_change).unwrap();
        let (all, held) = (list(true), list(false));
        let words = |list: &List| (list.yes.join(","), list.barred.join(","));
        assert_eq!(words(&all), (" gate_state, open, sh".to_owned(), String::new()));
        assert_eq!(words(&held), (" gate_state, sh".to_owned(), " open".to_owned()));
        let mut told = ToldLists::default();
        told.put(all.clone(), Told { yes: 1.0, ..Told::default() });
        assert!(told.get(&all).is_some() && told.get(&held).is_none(), "they ask the same in another way");
    }

    #[test]
    fn a_list_names_each_tool_and_none_is_ruled_out_by_it() {
        let tool = |name: &str| ToolSpec::new(name, "", json!({})).unwrap();
        let (tools, other) = ([tool("open"), tool("shut")], [tool("shut"), tool("lock")]);
        let list = List::next(&asked("Shut the gate"), &tools).unwrap();
        let told = |words: [f64; 2], no| Told { yes: words.iter().sum(), no, words: words.to_vec() };
        assert_eq!(told([0.2, 0.7], 0.1).named(&list, &tools), [0.2_f64.ln(), 0.7_f64.ln()]);
        let least = LEAST_NAMED.ln();
        assert_eq!(told([0.0, 0.7], 0.1).named(&list, &tools), [least, 0.7_f64.ln()]);
        assert_eq!(told([0.2, 0.7], 0.1).named(&list, &other), [0.7_f64.ln(), least], "by their names");
        assert_eq!(told([0.01, 0.02], 0.01).named(&list, &tools), [0.0; 0], "it would say something else");
    }

    #[test]
    fn a_model_that_says_neither_tells_nothing() {
        let told = |yes, no| Told { yes, no, ..Told::default() };
        assert_eq!((told(0.0, 0.0).p(), told(0.04, 0.01).p()), (0.0, 0.0));
        assert!(
            told(0.0, 0.9).p() > 0.0,
            "a server that does not tell of an answer says that it is unlikely"
        );
        assert!(told(0.8, 0.1).p() > 0.85 && told(0.1, 0.8).p() < 0.15);
        assert_eq!((told(0.0, 0.0).log_odds(), told(0.3, 0.3).log_odds()), (0.0, 0.0));
        assert!(told(0.0, 1.0).log_odds() < -10.0 && told(0.0, 1.0).log_odds().is_finite());
    }
}
