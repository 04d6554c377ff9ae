//! Calls read while they are written: told to whoever passes them on as they come, and the end of a turn that repeats itself.
//!
//! Invariant: what is told adds up to the calls of the finished turn, in order: a call that stands in the turn already is
//! left out there, so every call but the first is told when it is whole.
//!
//! For the packages of this workspace alone: no part of the API.

use toolgate_chat::format::TurnStream;
use toolgate_chat::{Event, ToolCall, fallback};

use crate::TurnEvent;
use crate::turn::invented::Known;
use crate::turn::watch::WatchedAnswer;

/// Calls that came again after which nothing new is waited for.
const REPEATS: usize = 2;

/// What is shown of a text while it is decoded.
pub(crate) enum Shown<'a> {
    /// All of it: it is an answer, whose beginning may have to be known first.
    Answer(WatchedAnswer<'a>),
    /// The calls in it, which are read in any case.
    Calls(Box<ShownCalls>),
    /// Nothing of it, as it may be written again.
    Nothing,
}

/// Shows the text and the thoughts among what a stream made certain. What was shown as text stays shown, also where it turns
/// out to have been thought: the turn itself says so.
pub fn show(found: Vec<fallback::Event>, events: &mut dyn FnMut(TurnEvent)) {
    for event in found {
        match event {
            fallback::Event::Text(text) => events(TurnEvent::Text(text)),
            fallback::Event::Reasoning(text) => events(TurnEvent::Reasoning(text)),
            _ => {}
        }
    }
}

/// A reader of calls.
pub(crate) struct ShownCalls {
    stream: TurnStream,
    told: Told,
    /// Whether anybody is told of them.
    are_told: bool,
    /// Whether they may be given up.
    is_held: bool,
    /// What a further call can know, where there may be one.
    known: Option<Known>,
}

/// What was told so far.
#[derive(Default)]
struct Told {
    calls: Vec<ToolCall>,
    /// How often one of them came again.
    repeats: usize,
    /// What the call being read has to tell once it is whole.
    held: Vec<TurnEvent>,
    /// Whether a call came that is none of the turn.
    is_over: bool,
}

impl ShownCalls {
    pub(crate) fn new(stream: TurnStream, are_told: bool, known: Option<Known>) -> Self {
        Self { stream, told: Told::default(), are_told, is_held: false, known }
    }

    /// The same of calls that may be given up: nobody is told of them.
    pub(crate) fn held(self) -> Self {
        Self { are_told: false, is_held: true, ..self }
    }

    /// Whether they may be given up.
    pub(crate) fn is_held(&self) -> bool {
        self.is_held
    }

    /// Takes the next text; whether the turn is over: a call says what nobody has said, or the model repeats itself, and would go
    /// on until its tokens are used up. One call that came again may yet be followed by another one.
    pub(crate) fn push(&mut self, text: &str, events: &mut dyn FnMut(TurnEvent)) -> bool {
        let found = self.stream.push(text.as_bytes());
        let known = self.known.as_ref();
        match self.are_told {
            true => self.told.add(found, known, events),
            false => self.told.add(found, known, &mut |_| {}),
        }
        self.told.repeats >= REPEATS || self.told.is_over
    }

    /// The text is over.
    pub(crate) fn finish(mut self, events: &mut dyn FnMut(TurnEvent)) {
        if self.are_told {
            self.told.add(self.stream.finish().0, self.known.as_ref(), events);
        }
    }
}

impl Told {
    fn add(&mut self, found: Vec<Event>, known: Option<&Known>, events: &mut dyn FnMut(TurnEvent)) {
        for event in found {
            if self.is_over {
                return;
            }
            let told = match event {
                Event::CallStarted(name) => TurnEvent::CallStarted(name),
                Event::Arguments(text) => TurnEvent::Arguments(text),
                Event::Call(call) => {
                    self.end(call, known, events);
                    continue;
                }
                Event::CallBroken => {
                    self.held.clear();
                    continue;
                }
                _ => continue,
            };
            if self.calls.is_empty() { events(told) } else { self.held.push(told) }
        }
    }

    fn end(&mut self, call: ToolCall, known: Option<&Known>, events: &mut dyn FnMut(TurnEvent)) {
        let held = std::mem::take(&mut self.held);
        if known.is_some_and(|known| !known.admits(&self.calls, &call)) {
            self.is_over = true;
            return;
        }
        if self.calls.iter().any(|earlier| earlier.same_request(&call)) {
            self.repeats += 1;
            return;
        }
        held.into_iter().for_each(&mut *events);
        events(TurnEvent::CallEnded);
        self.calls.push(call);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use toolgate_chat::ToolFormat;
    use toolgate_chat::format::{Family, Start};

    use super::*;

    fn told(text: &str, piece: usize) -> Vec<String> {
        let mut shown = ShownCalls::new(Family::hermes().stream(&[], Start::Turn), true, None);
        let mut told = Vec::new();
        let mut note = |event| {
            told.push(match event {
                TurnEvent::CallStarted(name) => format!("+{name}"),
                TurnEvent::Arguments(text) => text,
                TurnEvent::CallEnded => ";".to_owned(),
                other => panic!("{other:?}"),
            });
        };
        for piece in text.as_bytes().chunks(piece) {
            shown.push(std::str::from_utf8(piece).unwrap(), &mut note);
        }
        shown.finish(&mut note);
        told
    }

    #[test]
    fn calls_are_told_once_however_they_arrive() {
        let call =
            |n: u8| format!("<tool_call>\n{{\"name\": \"f\", \"arguments\": {{\"n\": {n}}}}}\n</tool_call>");
        let text = [call(1), call(1), call(2), call(1)].join("\n");
        for piece in [1, 3, 7, text.len()] {
            assert_eq!(told(&text, piece).concat(), "+f{\"n\": 1};+f{\"n\": 2};", "{piece}");
        }
        assert!(told(&text, 1).len() > 8, "the arguments come in pieces");
    }

    #[test]
    fn a_turn_that_repeats_itself_is_noticed_whether_it_is_told_or_not() {
        for are_told in [true, false] {
            let mut shown = ShownCalls::new(Family::hermes().stream(&[], Start::Turn), are_told, None);
            let mut told = 0;
            let mut push = |text: &str| shown.push(text, &mut |_| told += 1);
            let call = "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>";
            assert!(!push(call) && !push("\n") && !push(call) && !push("\n") && push(call));
            assert_eq!(told > 0, are_told);
        }
    }
}
