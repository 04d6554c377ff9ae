//! Answers that say it cannot be known, where a tool could look: such a turn becomes a call.
//!
//! Why: a small model opens a call for "What's the wifi password?" no likelier than for "Sing me a song", and no threshold
//! parts them. How it would answer does: to the first it says that it has no access, to the second it does not. What an
//! answer begins with costs nothing where it stays the answer.
//!
//! Invariant: nothing of an answer that is taken back was shown.
//!
//! For the packages of this workspace alone: no part of the API.

use toolgate_chat::{Message, ToolChoice};
use toolgate_infer::TurnDecision;

use crate::profile::policy::Thresholds;
use crate::{AnswerForm, TurnEvent, TurnRequest};
use toolgate_words::refusal::{Beginning, beginning};

/// Why an answer was taken back, for people.
pub const EXCUSED: &str =
    "the model began to say that it cannot know, and a tool could look, so this turn is a call";

/// Whether an answer is looked at before it is shown: [`could_look`], and the probability of a call is in the range where related
/// requests do call.
pub(crate) fn is_doubted(
    request: &TurnRequest<'_>,
    thresholds: &Thresholds,
    decision: &TurnDecision,
) -> bool {
    could_look(request) && !decision.call && decision.p_call >= thresholds.first
}

/// Whether a turn is the first after the user spoke, and may call a tool that looks things up.
pub fn could_look(request: &TurnRequest<'_>) -> bool {
    request.choice == ToolChoice::Auto
        && !matches!(request.transcript.last(), Some(Message::Tool(_)))
        && request.answer == AnswerForm::Text
        && request.looks_up()
}

/// Why an answer that repeats the request is written again, for people.
pub(crate) const ECHOED: &str =
    "the model repeated the request in place of an answer, so it is written again";

/// Whether an answer does nothing but repeat what was asked.
pub(crate) fn is_echo(question: &str, answer: &str) -> bool {
    let (asked, said) = (words(question), words(answer));
    said.len() >= FEWEST && said.len() * 2 >= asked.len() && asked.starts_with(&said)
}

/// Words of a text that repeats another one; fewer may be its answer as well.
const FEWEST: usize = 4;

fn words(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

/// An answer whose beginning is held back until it is known not to be an excuse, or what was asked once more.
pub struct RefusalWatch {
    text: String,
    found: Beginning,
    /// What was asked, in words, where it is held against that.
    asked: Option<Vec<String>>,
}

impl Default for RefusalWatch {
    fn default() -> Self {
        Self { text: String::new(), found: Beginning::Open, asked: None }
    }
}

impl RefusalWatch {
    /// An answer that is shown as it comes.
    pub fn never() -> Self {
        Self { found: Beginning::Other, ..Self::default() }
    }

    /// An answer that is shown unless it repeats what was asked.
    pub fn echo_of(question: &str) -> Self {
        Self { asked: Some(words(question)), ..Self::default() }
    }

    /// Takes the next event of a turn: [`push`](Self::push) for its text, and all else goes on.
    pub fn take(&mut self, event: TurnEvent, events: &mut dyn FnMut(TurnEvent)) {
        match event {
            TurnEvent::Text(text) => {
                self.push(&text, events);
            }
            event => events(event),
        }
    }

    /// Takes the next text, and shows what may be shown; whether the answer is an excuse, of which nothing is.
    pub fn push(&mut self, text: &str, events: &mut dyn FnMut(TurnEvent)) -> bool {
        match self.found {
            Beginning::Other => events(TurnEvent::Text(text.to_owned())),
            Beginning::Excuse => self.text.push_str(text),
            Beginning::Open => {
                self.text.push_str(text);
                self.settle(false, events);
            }
        }
        self.is_refusal()
    }

    /// The text is over: what was still held back is shown.
    pub fn finish(&mut self, events: &mut dyn FnMut(TurnEvent)) {
        if self.found == Beginning::Open {
            self.settle(true, events);
        }
    }

    /// Whether the answer begins with a refusal.
    pub fn is_refusal(&self) -> bool {
        self.found == Beginning::Excuse
    }

    /// Shows an excuse after all.
    pub fn excuse(self, events: &mut dyn FnMut(TurnEvent)) {
        if self.is_refusal() {
            events(TurnEvent::Text(self.text));
        }
    }

    fn settle(&mut self, whole: bool, events: &mut dyn FnMut(TurnEvent)) {
        self.found = match &self.asked {
            None => beginning(&self.text, whole),
            Some(asked) => repetition(asked, &self.text, whole),
        };
        if self.found == Beginning::Other && !self.text.is_empty() {
            events(TurnEvent::Text(std::mem::take(&mut self.text)));
        }
    }
}

/// What a text is that may repeat what was asked. That shows only when it is whole.
fn repetition(asked: &[String], text: &str, whole: bool) -> Beginning {
    let said = words(text);
    let inner = |word: &String| said.last().is_some_and(|last| word.starts_with(last.as_str()));
    let (before, goes_on) = match said.len().checked_sub(1) {
        None => (&[][..], true),
        Some(last) => (said.get(..last).unwrap_or_default(), asked.get(last).is_some_and(inner)),
    };
    match asked.starts_with(before) && goes_on {
        false => Beginning::Other,
        true if !whole => Beginning::Open,
        true if is_echo(&asked.join(" "), text) => Beginning::Excuse,
        true => Beginning::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_repeats_the_request_is_not_shown() {
        let question = "Read a.txt and write the first name into b.txt.";
        let shown = |answer: &str| {
            let (mut doubted, mut shown) = (RefusalWatch::echo_of(question), String::new());
            let mut events = |event| {
                if let TurnEvent::Text(text) = event {
                    shown.push_str(&text);
                }
            };
            for piece in answer.split_inclusive(' ') {
                doubted.push(piece, &mut events);
            }
            doubted.finish(&mut events);
            shown
        };
        assert_eq!(shown(question), "");
        assert_eq!(shown("Read a.txt and write the first name"), "");
        for answer in ["Read a.txt and write the first name, Ana, into b.txt.", "Read a.txt", "Done.", ""] {
            assert_eq!(shown(answer), answer);
        }
        assert!(
            is_echo(question, "read a.txt and write the first name into b.txt") && !is_echo("Who?", "Who?")
        );
    }

    fn shown(pieces: &[&str]) -> (String, bool) {
        let (mut doubted, mut shown) = (RefusalWatch::default(), String::new());
        let mut events = |event| {
            if let TurnEvent::Text(text) = event {
                shown.push_str(&text);
            }
        };
        let excused = pieces.iter().any(|piece| doubted.push(piece, &mut events));
        doubted.finish(&mut events);
        (shown, excused)
    }

    #[test]
    fn an_answer_is_shown_whole_and_an_excuse_not_at_all() {
        assert_eq!(shown(&["Ro", "me", ". I don't have more."]), ("Rome. I don't have more.".into(), false));
        assert_eq!(
            shown(&["I'm", " sorry", " to hear that", "!"]),
            ("I'm sorry to hear that!".into(), false)
        );
        assert_eq!(shown(&["I'm", " sorry"]), ("I'm sorry".into(), false), "over before that could be told");
        assert_eq!(shown(&["I", "'m sorry, I don't", " have access"]), (String::new(), true));
        assert_eq!(shown(&[]), (String::new(), false));
    }
}
