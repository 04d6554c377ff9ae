//! The fallback parser over a text that arrives in pieces.
//!
//! Invariant: the events add up to what [`extract_typed`](super::extract_typed) makes of the whole text, wherever it is cut.

use super::scan::{Item, Scan};
use super::source::Source;
use super::{Extraction, finished};
use crate::model::ToolCall;
use crate::spec::ToolSpec;

/// Bytes that may be looked at again for each byte that arrives, before reading waits for much more to come.
const PATIENCE: u64 = 16;

/// What a piece of text made certain.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// Text that is part of no call.
    Text(String),
    /// A call, whole.
    Call(ToolCall),
    /// Everything so far was reasoning that had begun before the text: what looked like calls was text, and this is
    /// all of it.
    Reasoned(String),
}

/// A reader of pieces.
///
/// ```
/// # use toolgate_chat::fallback::{Event, Stream};
/// let mut stream = Stream::new(&[]);
/// let mut events = Vec::new();
/// for piece in ["Hm. <tool", "_call>{\"name\": \"now\", \"argu", "ments\": {}}</tool_call>"] {
///     events.extend(stream.push(piece.as_bytes()));
/// }
/// events.extend(stream.finish().0);
/// assert!(matches!(&events[..], [Event::Text(text), Event::Call(call)] if text == "Hm. " && call.name == "now"));
/// ```
#[derive(Debug)]
pub struct Stream {
    tools: Vec<ToolSpec>,
    text: String,
    /// Bytes of a character that is not whole yet.
    partial: Vec<u8>,
    scan: Scan,
    /// Up to where the text was told, and how many items.
    told: usize,
    told_items: usize,
    /// Length at which reading is tried again.
    next_try: usize,
    spent: u64,
}

impl Stream {
    /// A stream of calls of `tools`, which tell the types of values written as bare text.
    pub fn new(tools: &[ToolSpec]) -> Self {
        Self {
            tools: tools.to_vec(),
            text: String::new(),
            partial: Vec::new(),
            scan: Scan::default(),
            told: 0,
            told_items: 0,
            next_try: 0,
            spent: 0,
        }
    }

    /// Takes the next bytes and tells what they made certain. Bytes that are no UTF-8 become U+FFFD.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Event> {
        self.partial.extend_from_slice(bytes);
        self.take_characters(false);
        if self.text.len() < self.next_try {
            return Vec::new();
        }
        self.read(false)
    }

    /// The text is over: what is left, and the whole of it as one extraction.
    pub fn finish(mut self) -> (Vec<Event>, Extraction) {
        self.take_characters(true);
        let events = self.read(true);
        (events, finished(&self.text, self.scan))
    }

    fn take_characters(&mut self, is_over: bool) {
        let bytes = std::mem::take(&mut self.partial);
        let mut rest = bytes.as_slice();
        loop {
            match std::str::from_utf8(rest) {
                Ok(text) => return self.text.push_str(text),
                Err(error) => {
                    let (good, bad) = rest.split_at_checked(error.valid_up_to()).unwrap_or((&[], rest));
                    self.text.push_str(std::str::from_utf8(good).unwrap_or_default());
                    match error.error_len() {
                        Some(length) => {
                            self.text.push(char::REPLACEMENT_CHARACTER);
                            rest = bad.get(length..).unwrap_or_default();
                        }
                        None if is_over => return self.text.push(char::REPLACEMENT_CHARACTER),
                        None => return self.partial = bad.to_vec(),
                    }
                }
            }
        }
    }

    fn read(&mut self, is_over: bool) -> Vec<Event> {
        // Reading goes on at the last place that was not decided, so nothing before it is looked at again.
        let source = Source::new(&self.text, is_over);
        self.scan.run(&source, &self.tools);
        self.spent += source.spent();
        // A mark that stays open is read again from its start each time: not too often.
        let allowed = (self.text.len() as u64 + 4096) * PATIENCE;
        self.next_try = if self.spent < allowed { 0 } else { self.text.len() + self.text.len() / 2 };
        self.tell(is_over)
    }

    fn tell(&mut self, is_over: bool) -> Vec<Event> {
        let mut events = Vec::new();
        if std::mem::take(&mut self.scan.reasoned) {
            self.told = self.scan.at.min(self.text.len());
            // Calls after the reasoning, in the same piece, are told below.
            let end = self.scan.items.first().map_or(self.told, |item| item.span.start);
            self.told = end;
            self.told_items = 0;
            events.push(Event::Reasoned(self.text.get(..end).unwrap_or_default().to_owned()));
        }
        let items: Vec<Item> = self.scan.items.get(self.told_items..).unwrap_or_default().to_vec();
        for item in items {
            self.tell_text(item.span.start, &mut events);
            self.told = item.span.end;
            self.told_items += 1;
            events.extend(item.calls.into_iter().map(Event::Call));
        }
        let end = if is_over { self.text.len() } else { self.scan.at };
        self.tell_text(end, &mut events);
        events
    }

    fn tell_text(&mut self, end: usize, events: &mut Vec<Event>) {
        match self.text.get(self.told..end) {
            Some(text) if !text.is_empty() => {
                events.push(Event::Text(text.to_owned()));
                self.told = end;
            }
            _ => {}
        }
    }
}
