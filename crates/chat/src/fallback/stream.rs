//! The fallback parser over a text that arrives in pieces.
//!
//! Invariant: the events add up to what [`extract_typed`](super::extract_typed) makes of the whole text, wherever it is cut.

use super::scan::{Kind, Scan};
use super::{Extraction, finished};
use crate::event::Event;
use crate::pieces::Pieces;
use crate::spec::ToolSpec;

/// A reader of pieces. It tells of a call once all of it is there.
///
/// ```
/// # use toolgate_chat::Event; use toolgate_chat::fallback::Stream;
/// let mut stream = Stream::new(&[]);
/// let mut events = Vec::new();
/// for piece in ["Hm. <tool", "_call>{\"name\": \"now\", \"argu", "ments\": {}}</tool_call>"] {
///     events.extend(stream.push(piece.as_bytes()));
/// }
/// events.extend(stream.finish().0);
/// assert!(matches!(&events[..], [Event::Text(text), Event::CallStarted(name), Event::Arguments(_), Event::Call(_)]
///     if text == "Hm. " && name == "now"));
/// ```
#[derive(Debug)]
pub struct Stream {
    tools: Vec<ToolSpec>,
    pieces: Pieces,
    scan: Scan,
    /// Up to where the text was told, and how many items.
    told: usize,
    told_items: usize,
}

impl Stream {
    /// A stream of calls of `tools`, which tell the types of values written as bare text.
    pub fn new(tools: &[ToolSpec]) -> Self {
        Self {
            tools: tools.to_vec(),
            pieces: Pieces::default(),
            scan: Scan::default(),
            told: 0,
            told_items: 0,
        }
    }

    /// As [`new`](Self::new), for a text that begins inside reasoning, since the prompt had opened it.
    ///
    /// ```
    /// # use toolgate_chat::{Event, fallback::Stream};
    /// let mut stream = Stream::inside_reasoning(&[]);
    /// assert_eq!(stream.push(b"Noon, I think."), [Event::Reasoning("Noon, I think.".to_owned())]);
    /// assert_eq!(stream.finish().1.content, None);
    /// ```
    pub fn inside_reasoning(tools: &[ToolSpec]) -> Self {
        Self { scan: Scan::inside_reasoning(), ..Self::new(tools) }
    }

    /// Takes the next bytes and tells what they made certain. Bytes that are no UTF-8 become U+FFFD.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Event> {
        if self.pieces.push(bytes) { self.read(false) } else { Vec::new() }
    }

    /// The text is over: what is left, and the whole of it as one extraction.
    pub fn finish(mut self) -> (Vec<Event>, Extraction) {
        self.pieces.finish();
        let events = self.read(true);
        (events, finished(self.pieces.text(), self.scan))
    }

    /// The bytes looked at so far. A byte counts each time that it is looked at: what reading cost, on any machine.
    ///
    /// ```
    /// # use toolgate_chat::fallback::Stream;
    /// let mut stream = Stream::new(&[]);
    /// stream.push(b"Noon, I think.\n");
    /// assert!(stream.work() > 0);
    /// ```
    pub fn work(&self) -> u64 {
        self.pieces.spent()
    }

    fn read(&mut self, is_over: bool) -> Vec<Event> {
        // Reading goes on at the last place that was not decided, so nothing before it is looked at again.
        let source = self.pieces.source(is_over);
        self.scan.run(&source, &self.tools);
        let spent = source.spent();
        self.pieces.note(spent);
        self.tell(is_over)
    }

    fn tell(&mut self, is_over: bool) -> Vec<Event> {
        let mut events = Vec::new();
        let text = self.pieces.text();
        if let Some(count) = self.scan.reasoned.take() {
            // What comes after it, in the same piece, is told below.
            let items = self.scan.items.get(..count).unwrap_or_default();
            let thoughts = items.iter().filter(|item| item.kind == Kind::Thought);
            let thought = thoughts.filter_map(|item| text.get(item.span.start..item.span.end)).collect();
            self.told_items = count;
            self.told = items.last().map_or(0, |item| item.span.end);
            events.push(Event::Reasoned(thought));
        }
        for item in self.scan.items.get(self.told_items..).unwrap_or_default() {
            events.extend(text_between(text, self.told, item.span.start));
            self.told = item.span.end;
            if item.kind == Kind::Thought {
                let thought = text.get(item.span.start..item.span.end).unwrap_or_default();
                events.push(Event::Reasoning(thought.to_owned()));
            }
            events.extend(item.calls.iter().cloned().flat_map(Event::whole_call));
        }
        self.told_items = self.scan.items.len();
        let end = if is_over { text.len() } else { self.scan.at };
        let rest = text_between(text, self.told, end);
        if rest.is_some() {
            self.told = end;
        }
        events.extend(rest);
        events
    }
}

/// The text from one place to another, where there is any.
fn text_between(text: &str, start: usize, end: usize) -> Option<Event> {
    text.get(start..end).filter(|text| !text.is_empty()).map(|text| Event::Text(text.to_owned()))
}
