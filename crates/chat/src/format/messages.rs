//! Families whose turns are messages, each behind a header: what they write around calls, and how a turn of them is read.
//!
//! Invariant: no mark of a message becomes a part of a text, a thought or an argument.

use super::parts::Slots;
use super::reader::{Emitted, State, TurnReader};
use super::syntax::{Part, Syntax, Text};
use crate::event::Event;
use crate::fallback::Item;
use crate::fallback::harmony::{self, CHANNEL, CHANNELS, CONSTRAIN, CONTENT, ENDS, Header, START};
use crate::fallback::source::Source;
use crate::model::DefectKind;
use crate::spec::ToolSpec;

/// What opens a call in the middle of a text.
const RECIPIENT: &str = "to=functions.";
/// Who a header names as its writer.
const WRITER: &str = "assistant";
/// What interrupts a text or a thought: all marks of messages.
const MARKS: [&str; 7] = [ENDS[0], ENDS[1], ENDS[2], START, CHANNEL, CONTENT, CONSTRAIN];

/// A turn of messages.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Messages {
    /// What may open a call: its recipient stands behind the role, or behind the channel.
    pub(crate) openings: [Text; 2],
    /// The header of text that stands in front of calls.
    pub(crate) preamble: Text,
    /// The end of a message behind which another one follows.
    pub(crate) next: Text,
}

impl Messages {
    /// Those of gpt-oss.
    pub(crate) fn harmony() -> Self {
        Self {
            openings: [" to=functions.".into(), "<|channel|>commentary to=functions.".into()],
            preamble: "<|channel|>commentary<|message|>".into(),
            next: "<|end|><|start|>assistant".into(),
        }
    }

    /// Those that calls are written in which have a header of a channel and a content.
    pub(crate) fn of_calls(call: &[Part]) -> Option<Self> {
        let has =
            |mark: &str| call.iter().any(|part| matches!(part, Part::Text(text) if text.contains(mark)));
        (has(CHANNEL) && has(CONTENT) && has("to=")).then(Self::harmony)
    }

    /// Every text of them.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        let own = self.openings.iter().chain([&self.preamble, &self.next]);
        own.map(|text| text.as_ref()).chain(MARKS)
    }
}

impl Syntax {
    /// The marks of messages that are no tokens: reading would act on them, so no text may spell them.
    pub(crate) fn marks_of_messages<'m>(&self) -> Vec<&'m str> {
        if self.messages.is_none() {
            return Vec::new();
        }
        let is_token = |mark: &str| self.tokens.iter().any(|(name, _)| name == mark);
        MARKS.into_iter().filter(|mark| !is_token(mark)).collect()
    }
}

impl TurnReader {
    /// Goes on in a turn of messages, from a state that is not inside a call.
    pub(super) fn message(&mut self, state: State, source: &Source<'_>, out: &mut Emitted) -> bool {
        match state {
            State::Reasoning => self.message_thought(source, out),
            State::Text => self.message_text(source, out),
            State::Unread => self.message_unread(source),
            State::Start | State::Head | State::Between | State::Call(_) => self.message_header(source, out),
        }
    }

    /// Between two messages: the end of one, the header of the next one, or text without a header.
    fn message_header(&mut self, source: &Source<'_>, out: &mut Emitted) -> bool {
        let mut at = source.at(self.at);
        at.skip_blank();
        let is_end = at.eat_any(&ENDS).is_some();
        let begins = !is_end && [START, CHANNEL, "to="].iter().any(|mark| at.sees(mark));
        if source.looked_past() {
            self.state = State::Head;
            return false;
        }
        if is_end {
            self.at = at.place();
            self.state = State::Head;
        } else if begins {
            return self.message_begins(source, at.place(), out);
        }
        true
    }

    /// Reads the header that begins at a place.
    fn message_begins(&mut self, source: &Source<'_>, start: usize, out: &mut Emitted) -> bool {
        source.reset();
        let mut at = source.at(start);
        let header = Header::read(&mut at);
        if source.looked_past() {
            self.at = start;
            self.state = State::Head;
            return false;
        }
        let Some(header) = header else {
            let is_cut = source.reached_end();
            self.message_without_header(source, start, is_cut, out);
            return true;
        };
        // What was said without a header is known to be no thought.
        self.may_have_reasoned = false;
        self.at = at.place();
        match header {
            Header::Call(name) => {
                self.end_text();
                let slots = Slots { name: Some(name.to_owned()), id: None };
                self.open(at, slots, start, true, out);
            }
            Header::Thought => {
                if self.has_thought {
                    out.events.push(Event::Reasoning("\n\n".to_owned()));
                }
                self.thought = self.at;
                self.state = State::Reasoning;
            }
            Header::Text => {
                if self.has_text && self.calls == 0 {
                    out.events.push(Event::Text("\n\n".to_owned()));
                }
                self.end_text();
            }
        }
        true
    }

    /// Steps over the beginning of a message whose header cannot be read.
    fn message_without_header(&mut self, source: &Source<'_>, start: usize, is_cut: bool, out: &mut Emitted) {
        self.at = start;
        let mut at = source.at(start);
        if is_cut && is_header_so_far(source.slice(start, source.len())) {
            at.eat(START);
            at.eat(WRITER);
            if !at.is_end() {
                out.defect(DefectKind::Unclosed, start, "a message whose header never ends");
            }
            self.at = source.len();
        } else if at.eat(START) {
            at.eat(WRITER);
            self.at = at.place();
            self.state = State::Head;
        } else if at.eat(CHANNEL) {
            if at.eat_any(&CHANNELS) == Some(CHANNELS[0]) {
                self.thought = at.place();
                self.state = State::Reasoning;
            }
            self.at = at.place();
        } else {
            // A recipient that nothing follows is spoken of.
            at.eat("to=");
            self.tell(source, at.place(), out);
        }
        self.may_have_reasoned = false;
    }

    fn message_thought(&mut self, source: &Source<'_>, out: &mut Emitted) -> bool {
        let found = next_mark(source, self.at, &MARKS);
        let end = found.map_or_else(|| before_partial(source, self.at, &MARKS), |(place, _)| place);
        let thought = source.slice(self.at, end);
        if !thought.is_empty() {
            self.has_thought |= !thought.trim().is_empty();
            out.events.push(Event::Reasoning(thought.to_owned()));
        }
        self.at = end;
        let Some((_, mark)) = found else {
            self.state = State::Reasoning;
            if source.is_whole() {
                out.defect(DefectKind::Unclosed, self.thought, "reasoning that never ends");
                self.state = State::Text;
            }
            return source.is_whole();
        };
        self.state = if is_stray(mark) { State::Reasoning } else { State::Head };
        if ![START, CHANNEL].contains(&mark) {
            self.at += mark.len();
        }
        true
    }

    /// Skips what is written to a tool and is no call.
    fn message_unread(&mut self, source: &Source<'_>) -> bool {
        let ends = [ENDS[0], ENDS[1], ENDS[2], START, CHANNEL];
        let found = next_mark(source, self.at, &ends);
        self.state = if found.is_some() { State::Head } else { State::Unread };
        self.at = found.map_or_else(|| before_partial(source, self.at, &ends), |(place, _)| place);
        if found.is_none() && source.is_whole() {
            self.state = State::Text;
        }
        found.is_some() || source.is_whole()
    }

    fn message_text(&mut self, source: &Source<'_>, out: &mut Emitted) -> bool {
        let marks: Vec<&str> = MARKS.into_iter().chain([RECIPIENT]).collect();
        let Some((place, mark)) = next_mark(source, self.at, &marks) else {
            self.tell(source, before_partial(source, self.at, &marks), out);
            return false;
        };
        if mark == RECIPIENT {
            return self.message_names_recipient(source, place, out);
        }
        self.tell(source, place, out);
        if [START, CHANNEL].contains(&mark) {
            self.state = State::Head;
            return true;
        }
        let after = place + mark.len();
        if mark == ENDS[0] && self.may_have_reasoned {
            // What another message follows, and no header stood in front of, was thought: the prompt had opened it.
            source.reset();
            let mut next = source.at(after);
            next.skip_blank();
            let goes_on = next.sees(START) || next.sees(CHANNEL);
            if source.looked_past() {
                return false;
            }
            if goes_on {
                let thought = source.slice(0, place);
                self.has_thought = !thought.trim().is_empty();
                out.events.push(Event::Reasoned(thought.to_owned()));
                self.has_text = false;
            }
        }
        self.may_have_reasoned = false;
        self.at = after;
        if !is_stray(mark) {
            self.state = State::Head;
        }
        true
    }

    /// A recipient in the middle of a text: a call, where the rest of a header follows.
    fn message_names_recipient(&mut self, source: &Source<'_>, place: usize, out: &mut Emitted) -> bool {
        source.reset();
        let mut at = source.at(place);
        let may_be = harmony::may_name_recipient(at);
        let mut behind = at;
        behind.take_while(|c| !c.is_whitespace() && c != '<');
        behind.skip_blank();
        let is_header = may_be && behind.sees("<|") && Header::read(&mut at).is_some();
        if source.looked_past() {
            self.tell(source, place, out);
            return false;
        }
        let is_cut = may_be && source.reached_end();
        if is_header || (is_cut && is_header_so_far(source.slice(place, source.len()))) {
            self.tell(source, place, out);
            self.state = State::Head;
        } else {
            self.tell(source, place + RECIPIENT.len(), out);
        }
        true
    }

    /// A call whose arguments cannot be read: another form of them, or nothing that is one.
    pub(super) fn message_is_no_call(
        &mut self,
        source: &Source<'_>,
        tools: &[ToolSpec],
        start: usize,
        out: &mut Emitted,
    ) -> bool {
        let is_cut = source.reached_end();
        source.reset();
        let found = crate::fallback::item_at(source.at(start), tools);
        if source.looked_past() {
            self.at = start;
            self.state = State::Head;
            return false;
        }
        match found {
            Some(Item { span, calls, .. }) if !calls.is_empty() => {
                self.calls += calls.len();
                out.events.extend(calls.into_iter().flat_map(Event::whole_call));
                self.at = span.end;
                self.state = State::Between;
            }
            _ if is_cut => {
                out.defect(DefectKind::Unclosed, start, "a call that never ends");
                self.at = source.len();
            }
            _ => {
                out.defect(DefectKind::NotACall, start, "a message to a tool is no call that can be read");
                let mut at = source.at(start);
                let _ = Header::read(&mut at);
                self.at = at.place();
                self.state = State::Unread;
            }
        }
        true
    }
}

/// Whether a mark says nothing where it stands.
fn is_stray(mark: &str) -> bool {
    [CONTENT, CONSTRAIN].contains(&mark)
}

/// Whether a text that ends in the middle of a header is one: it has the words of a header alone.
fn is_header_so_far(text: &str) -> bool {
    let is_marked = [START, CHANNEL].iter().any(|mark| text.contains(mark));
    let words =
        [START, CHANNEL, CONSTRAIN].iter().fold(text.to_owned(), |text, mark| text.replace(mark, " "));
    let is_recipient = |word: &str| word.starts_with(if is_marked { "to=" } else { RECIPIENT });
    let known = || CHANNELS.into_iter().chain([WRITER, "json", "code"]);
    // The last word may be cut.
    let (words, last) =
        words.trim_start().rsplit_once(char::is_whitespace).unwrap_or(("", words.trim_start()));
    let is_last = known().any(|word| word.starts_with(last)) || last.starts_with("<|") || is_recipient(last);
    is_last && words.split_whitespace().all(|word| known().any(|known| known == word) || is_recipient(word))
}

/// The next of some marks, and where it stands.
fn next_mark<'m>(source: &Source<'_>, from: usize, marks: &[&'m str]) -> Option<(usize, &'m str)> {
    let cursor = source.at(from);
    marks.iter().filter_map(|mark| Some((cursor.find(mark)?, *mark))).min_by_key(|(place, _)| *place)
}

/// The last place up to which no mark can have begun.
fn before_partial(source: &Source<'_>, from: usize, marks: &[&str]) -> usize {
    marks.iter().map(|mark| source.before_partial(from, mark)).min().unwrap_or(source.len())
}
