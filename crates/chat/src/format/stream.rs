//! Reads a turn in a family from pieces of text: what each piece makes certain is told at once.
//!
//! Invariant: reading a whole text is the same reader given one piece, so the events of any split add up to the same turn.

use std::sync::Arc;

use super::reader::{Emitted, TurnReader};
use super::syntax::Syntax;
use crate::event::Event;
use crate::fallback::source::Source;
use crate::model::ParsedTurn;
use crate::pieces::Pieces;
use crate::spec::ToolSpec;

/// Where in its turn a text begins.
///
/// ```
/// use toolgate_chat::{Event, ToolFormat, format::{Family, Start}};
/// let first = |start| Family::hermes().stream(&[], start).push(b"It is noon, I think.").into_iter().next();
/// assert_eq!(first(Start::Turn), Some(Event::Text("It is noon, I think.".to_owned())));
/// assert_eq!(first(Start::Reasoning), Some(Event::Reasoning("It is noon, I think.".to_owned())));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Start {
    /// At the start: reasoning, if there is any, opens with its mark.
    #[default]
    Turn,
    /// In the reasoning that the prompt opened.
    Reasoning,
}

/// A reader of one turn in pieces.
///
/// ```
/// # use toolgate_chat::Event; use toolgate_chat::format::{Family, Start, ToolFormat};
/// let mut stream = Family::hermes().stream(&[], Start::Reasoning);
/// let mut events = Vec::new();
/// for piece in ["Hm.</th", "ink>\n\n<tool_call>\n{\"name\": \"now\", \"arguments\": {\"zo", "ne\": 1}}\n</tool_call>"] {
///     events.extend(stream.push(piece.as_bytes()));
/// }
/// let (last, turn) = stream.finish();
/// events.extend(last);
/// assert_eq!(events[0], Event::Reasoning("Hm.".to_owned()));
/// assert!(events.contains(&Event::CallStarted("now".to_owned())));
/// assert!(events.contains(&Event::Arguments("{\"zo".to_owned())));
/// assert_eq!((turn.reasoning.as_deref(), turn.calls.len()), (Some("Hm."), 1));
/// ```
#[derive(Clone, Debug)]
pub struct TurnStream {
    syntax: Arc<Syntax>,
    tools: Vec<ToolSpec>,
    pieces: Pieces,
    reader: TurnReader,
    turn: ParsedTurn,
}

impl TurnStream {
    pub(crate) fn new(syntax: Arc<Syntax>, tools: &[ToolSpec], start: Start) -> Self {
        let reader = TurnReader::new(&syntax, start);
        Self { syntax, tools: tools.to_vec(), pieces: Pieces::default(), reader, turn: ParsedTurn::default() }
    }

    /// Takes the next bytes and tells what they made certain. Bytes that are no UTF-8 become U+FFFD.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Event> {
        // Arguments of JSON are followed without being read again, so they never have to wait.
        if self.pieces.push(bytes) || self.reader.follows() { self.read(false) } else { Vec::new() }
    }

    /// The text is over: what is left, and the whole turn.
    pub fn finish(mut self) -> (Vec<Event>, ParsedTurn) {
        self.pieces.finish();
        let events = self.read(true);
        (events, finished(self.turn))
    }

    /// The bytes looked at so far. A byte counts each time that it is looked at: what reading cost, on any machine.
    ///
    /// ```
    /// # use toolgate_chat::{ToolFormat, format::{Family, Start}};
    /// let mut stream = Family::hermes().stream(&[], Start::Turn);
    /// stream.push(b"Noon, I think.\n");
    /// assert!(stream.work() > 0);
    /// ```
    pub fn work(&self) -> u64 {
        self.pieces.spent()
    }

    fn read(&mut self, is_over: bool) -> Vec<Event> {
        let source = self.pieces.source(is_over);
        let mut emitted = Emitted::default();
        self.reader.run(&self.syntax, &source, &self.tools, &mut emitted);
        let spent = source.spent();
        self.pieces.note(spent);
        self.turn.defects.append(&mut emitted.defects);
        for event in &emitted.events {
            add(&mut self.turn, event);
        }
        emitted.events
    }
}

impl Syntax {
    /// Reads a turn; `tools` tell the types of bare texts.
    pub(crate) fn read(&self, text: &str, tools: &[ToolSpec]) -> ParsedTurn {
        let mut emitted = Emitted::default();
        TurnReader::new(self, Start::Turn).run(self, &Source::new(text, true), tools, &mut emitted);
        let mut turn = ParsedTurn { defects: emitted.defects, ..ParsedTurn::default() };
        for event in &emitted.events {
            add(&mut turn, event);
        }
        finished(turn)
    }
}

fn add(turn: &mut ParsedTurn, event: &Event) {
    match event {
        Event::Text(text) => turn.content.get_or_insert_default().push_str(text),
        Event::Reasoning(text) => turn.reasoning.get_or_insert_default().push_str(text),
        Event::Reasoned(text) => {
            turn.content = None;
            turn.reasoning = Some(text.clone());
        }
        Event::Call(call) => turn.calls.push(call.clone()),
        Event::CallStarted(_) | Event::Arguments(_) | Event::CallBroken => {}
    }
}

fn finished(mut turn: ParsedTurn) -> ParsedTurn {
    let trimmed =
        |text: Option<String>| text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
    turn.content = trimmed(turn.content);
    turn.reasoning = trimmed(turn.reasoning);
    turn
}
