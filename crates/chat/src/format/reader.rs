//! The reader behind the streams of a family: it goes on where it stopped, and tells what the text so far makes certain.

use serde_json::{Map, Value};

use super::follow::Follower;
use super::parts::{Slots, eat};
use super::stream::Start;
use super::syntax::{Arguments, Syntax};
use crate::event::Event;
use crate::fallback::source::{Cursor, Source};
use crate::fallback::{Item, RepairKind, names};
use crate::json;
use crate::model::{Defect, DefectKind, ToolCall};
use crate::spec::ToolSpec;

/// The events that a run emits, and the defects that it found.
#[derive(Debug, Default)]
pub(super) struct Emitted {
    pub(super) events: Vec<Event>,
    pub(super) defects: Vec<Defect>,
}

impl Emitted {
    pub(super) fn defect(&mut self, kind: DefectKind, offset: usize, message: impl Into<String>) {
        self.defects.push(Defect { kind, offset, message: message.into() });
    }
}

/// A reader that goes on where it stopped.
#[derive(Clone, Debug)]
pub(super) struct TurnReader {
    /// Before this everything is decided.
    pub(super) at: usize,
    pub(super) state: State,
    pub(super) calls: usize,
    /// Where the reasoning began.
    pub(super) thought: usize,
    /// Whether there was a thought that is not blank.
    pub(super) has_thought: bool,
    /// Whether the end of reasoning that nothing opened may still come.
    pub(super) may_have_reasoned: bool,
    /// Whether there was text that is not blank.
    pub(super) has_text: bool,
    /// Text after a call that is blank so far, and whether it was followed by other text.
    blank: String,
    is_stray: bool,
    has_told_stray: bool,
}

#[derive(Clone, Debug)]
pub(super) enum State {
    /// Nothing was said yet.
    Start,
    Reasoning,
    /// Before what a turn of calls or an answer begins with.
    Head,
    Text,
    /// After the head of a call.
    Call(Box<Open>),
    /// After a call of a section.
    Between,
    /// In what is written to a tool and is no call.
    Unread,
}

/// A call that was started.
#[derive(Clone, Debug)]
pub(super) struct Open {
    slots: Slots,
    /// Where the section opened, if no call of it was read; where the call before ended.
    mark: usize,
    is_first: bool,
    /// Elements read so far.
    elements: Map<String, Value>,
    follower: Follower,
}

/// How far the arguments of a call were read.
enum Read {
    /// More of the text is needed.
    Wait,
    /// There may be more of them.
    More,
    /// They are over; `None` if they cannot be read.
    Done(Option<Map<String, Value>>),
}

impl TurnReader {
    pub(super) fn new(syntax: &Syntax, start: Start) -> Self {
        let has_reasoning = syntax.reasoning.is_some();
        let state = match start {
            Start::Reasoning if has_reasoning => State::Reasoning,
            _ => State::Start,
        };
        Self {
            at: 0,
            state,
            calls: 0,
            thought: 0,
            has_thought: false,
            may_have_reasoned: has_reasoning && start == Start::Turn,
            has_text: false,
            blank: String::new(),
            is_stray: false,
            has_told_stray: false,
        }
    }

    /// Whether arguments are being told that need no reading again.
    pub(super) fn follows(&self) -> bool {
        matches!(&self.state, State::Call(open) if open.follower.is_inside())
    }

    /// Goes on as far as the text that has arrived decides.
    pub(super) fn run(
        &mut self,
        syntax: &Syntax,
        source: &Source<'_>,
        tools: &[ToolSpec],
        out: &mut Emitted,
    ) {
        while self.at < source.len() || !matches!(self.state, State::Text) {
            source.reset();
            let at = self.at;
            let was_text = matches!(self.state, State::Text);
            let goes_on = match std::mem::replace(&mut self.state, State::Text) {
                State::Call(open) => self.call(syntax, source, tools, open, out),
                state if syntax.messages.is_some() => self.message(state, source, out),
                State::Start => self.start(syntax, source),
                State::Reasoning => self.reasoning(syntax, source, out),
                State::Head => self.head(syntax, source),
                State::Text | State::Unread => self.text(syntax, source, tools, out),
                State::Between => self.between(syntax, source, out),
            };
            if !goes_on || (was_text && self.at == at && matches!(self.state, State::Text)) {
                return;
            }
        }
    }

    /// Whether reasoning opens the turn.
    fn start(&mut self, syntax: &Syntax, source: &Source<'_>) -> bool {
        self.state = State::Head;
        let Some((open, _)) = &syntax.reasoning else { return true };
        let mut at = source.at(self.at);
        at.skip_blank();
        let opens = at.eat(open.trim());
        if source.looked_past() {
            self.state = State::Start;
            return false;
        }
        if opens {
            self.at = at.place();
            self.thought = self.at;
            self.state = State::Reasoning;
            self.may_have_reasoned = false;
        }
        true
    }

    fn reasoning(&mut self, syntax: &Syntax, source: &Source<'_>, out: &mut Emitted) -> bool {
        let close = syntax.reasoning.as_ref().map_or("", |(_, close)| close.trim());
        let cursor = source.at(self.at);
        let found = cursor.find(close);
        let end = found.unwrap_or_else(|| source.before_partial(self.at, close));
        let thought = source.slice(self.at, end);
        if !thought.is_empty() {
            out.events.push(Event::Reasoning(thought.to_owned()));
        }
        match found {
            Some(end) => {
                self.at = end + close.len();
                self.state = State::Head;
            }
            None if source.is_whole() => {
                out.defect(DefectKind::Unclosed, self.thought, "reasoning that never ends");
                self.at = source.len();
            }
            None => {
                self.at = end;
                self.state = State::Reasoning;
                return false;
            }
        }
        true
    }

    /// Steps over the header of an answer.
    fn head(&mut self, syntax: &Syntax, source: &Source<'_>) -> bool {
        let head = syntax.answer.trim();
        if head.is_empty() {
            return true;
        }
        let mut at = source.at(self.at);
        at.skip_blank();
        let answers = at.eat(head);
        if source.looked_past() {
            self.state = State::Head;
            return false;
        }
        if answers {
            self.at = at.place();
            // Where nothing marks a call, an answer holds none.
            self.has_text |= syntax.mark().is_none();
        }
        true
    }

    /// Tells text up to the next call.
    fn text(&mut self, syntax: &Syntax, source: &Source<'_>, tools: &[ToolSpec], out: &mut Emitted) -> bool {
        let cursor = source.at(self.at);
        let mark = syntax.mark();
        let call = match &mark {
            Some(mark) => cursor.find(mark),
            // Without a mark only a turn that begins with a call is one.
            None if self.calls == 0 && !self.has_text => {
                let mut start = cursor;
                start.skip_blank();
                let opens = start.sees(syntax.opening().trim());
                if source.looked_past() {
                    return false;
                }
                opens.then(|| start.place())
            }
            None => None,
        };
        let close =
            syntax.reasoning.as_ref().map(|(_, close)| close.trim()).filter(|_| self.may_have_reasoned);
        if let Some(close) = close
            && let Some(end) = cursor.find(close)
            && call.is_none_or(|call| end < call)
        {
            // A closing mark inside a call closes nothing, one before it ends what the prompt had opened.
            out.events.push(Event::Reasoned(source.slice(0, end).to_owned()));
            self.at = end + close.len();
            self.has_text = false;
            self.may_have_reasoned = false;
            self.state = State::Head;
            return true;
        }
        let Some(call) = call else {
            let ends = [mark.as_deref(), close].into_iter().flatten();
            let end = ends.map(|mark| source.before_partial(self.at, mark)).min().unwrap_or(source.len());
            self.tell(source, end, out);
            return false;
        };
        self.tell(source, call, out);
        self.end_text();
        let mut at = source.at(call);
        source.reset();
        if eat(&mut at, &syntax.begin)
            && let Some(slots) = syntax.head(&mut at)
        {
            if source.looked_past() {
                return false;
            }
            self.open(at, slots, call, true, out);
            return true;
        }
        if source.looked_past() {
            return false;
        }
        self.otherwise(syntax, source, tools, call, out)
    }

    /// Tells text that is part of no call, up to `end`.
    pub(super) fn tell(&mut self, source: &Source<'_>, end: usize, out: &mut Emitted) {
        let text = source.slice(self.at, end);
        let start = self.at;
        self.at = end.max(start);
        if text.is_empty() {
            return;
        }
        let is_blank = text.trim().is_empty();
        self.has_text |= !is_blank;
        if self.calls == 0 || self.is_stray {
            out.events.push(Event::Text(text.to_owned()));
            return;
        }
        // Blanks between calls are no text.
        self.blank.push_str(text);
        if is_blank {
            return;
        }
        self.is_stray = true;
        if !std::mem::replace(&mut self.has_told_stray, true) {
            let offset = start + text.len() - text.trim_start().len();
            out.defect(DefectKind::Stray, offset, "text after a call: a turn is calls or an answer");
        }
        out.events.push(Event::Text(format!("\n{}", std::mem::take(&mut self.blank))));
    }

    pub(super) fn end_text(&mut self) {
        self.blank.clear();
        self.is_stray = false;
    }

    pub(super) fn open(
        &mut self,
        at: Cursor<'_, '_>,
        slots: Slots,
        mark: usize,
        is_first: bool,
        out: &mut Emitted,
    ) {
        out.events.extend(slots.name.clone().map(Event::CallStarted));
        self.at = at.place();
        let follower = Follower::default();
        self.state = State::Call(Box::new(Open { slots, mark, is_first, elements: Map::new(), follower }));
    }

    /// Reads the arguments of a call, and what stands after them.
    fn call(
        &mut self,
        syntax: &Syntax,
        source: &Source<'_>,
        tools: &[ToolSpec],
        mut open: Box<Open>,
        out: &mut Emitted,
    ) -> bool {
        let mut at = source.at(self.at);
        let read = match self.arguments(syntax, &mut at, tools, &mut open, out) {
            Read::More => {
                self.at = at.place();
                self.state = State::Call(open);
                return true;
            }
            Read::Wait => {
                self.state = State::Call(open);
                return false;
            }
            Read::Done(read) => read,
        };
        let mut slots = open.slots.clone();
        let whole = read.and_then(|arguments| {
            syntax.tail(&mut at, &mut slots)?;
            Some(ToolCall::new(slots.name.take()?, arguments))
        });
        if source.looked_past() {
            self.state = State::Call(open);
            return false;
        }
        let Some(call) = whole else { return self.broken(syntax, source, tools, &open, out) };
        let call = match slots.id.take() {
            Some(id) => call.with_id(id),
            None => call,
        };
        self.done(call, &open, out);
        self.at = at.place();
        self.state = State::Between;
        true
    }

    /// Reads arguments, or the next one of them, and tells what is certain.
    fn arguments(
        &self,
        syntax: &Syntax,
        at: &mut Cursor<'_, '_>,
        tools: &[ToolSpec],
        open: &mut Open,
        out: &mut Emitted,
    ) -> Read {
        let source = at.source();
        let mut inside = *at;
        inside.skip_blank();
        let is_json = inside.sees("{") && !matches!(syntax.arguments, Arguments::Gemma(_));
        if source.looked_past() {
            return Read::Wait;
        }
        if is_json && open.elements.is_empty() {
            if open.slots.name.is_some() {
                let more = open.follower.follow(source, inside.place());
                out.events.extend(more.map(|more| Event::Arguments(more.to_owned())));
                if open.follower.is_inside() && !source.is_whole() {
                    return Read::Wait;
                }
            }
            return Read::Done(syntax.arguments(at));
        }
        let Arguments::Elements(elements) = &syntax.arguments else {
            return Read::Done(syntax.arguments(at));
        };
        let tool = open.slots.name.as_deref().and_then(|name| names::tool(tools, name));
        match elements.read(at, tool) {
            Some(None) => Read::Done(Some(open.elements.clone())),
            _ if source.looked_past() => Read::Wait,
            None => Read::Done(None),
            Some(Some((key, value))) => {
                let before = if open.elements.is_empty() { "{" } else { ", " };
                let name = Value::String(key.clone());
                out.events.push(Event::Arguments(format!("{before}{name}: {}", json::spaced(&value))));
                open.elements.insert(key, value);
                Read::More
            }
        }
    }

    /// What was started is no call: it is read in another form, or the section ends before it.
    fn broken(
        &mut self,
        syntax: &Syntax,
        source: &Source<'_>,
        tools: &[ToolSpec],
        open: &Open,
        out: &mut Emitted,
    ) -> bool {
        if open.slots.name.is_some() {
            out.events.push(Event::CallBroken);
        }
        if syntax.messages.is_some() {
            return self.message_is_no_call(source, tools, open.mark, out);
        }
        self.at = open.mark;
        if open.is_first {
            return self.otherwise(syntax, source, tools, open.mark, out);
        }
        let mut at = source.at(open.mark);
        eat(&mut at, &syntax.end);
        self.at = at.place();
        true
    }

    fn done(&mut self, call: ToolCall, open: &Open, out: &mut Emitted) {
        if open.slots.name.is_none() {
            out.events.extend(Event::whole_call(call));
        } else {
            match open.follower.told_any() {
                true => {}
                false if open.elements.is_empty() => {
                    out.events.push(Event::Arguments(json::spaced(&Value::Object(call.arguments.clone()))));
                }
                false => out.events.push(Event::Arguments("}".to_owned())),
            }
            out.events.push(Event::Call(call));
        }
        self.calls += 1;
        self.may_have_reasoned = false;
    }

    /// After a call: another one of the section, or its end.
    fn between(&mut self, syntax: &Syntax, source: &Source<'_>, out: &mut Emitted) -> bool {
        let start = source.at(self.at);
        let mut at = start;
        let next = if eat(&mut at, &syntax.between) { syntax.head(&mut at) } else { None };
        let mut end = start;
        if next.is_none() {
            eat(&mut end, &syntax.end);
        }
        if source.looked_past() {
            self.state = State::Between;
            return false;
        }
        match next {
            Some(slots) => self.open(at, slots, start.place(), false, out),
            None => self.at = end.place(),
        }
        true
    }

    /// A mark without a call as the family writes it: another form of it, or something that is none.
    fn otherwise(
        &mut self,
        syntax: &Syntax,
        source: &Source<'_>,
        tools: &[ToolSpec],
        mark: usize,
        out: &mut Emitted,
    ) -> bool {
        let is_cut = source.reached_end();
        source.reset();
        let found = crate::fallback::item_at(source.at(mark), tools);
        if source.looked_past() {
            self.at = mark;
            return false;
        }
        self.at = mark;
        let opening = syntax.opening();
        let opening = opening.trim();
        match found {
            Some(Item { span, calls, repairs, .. }) => {
                if calls.is_empty() {
                    out.defect(DefectKind::NotACall, mark, format!("what {opening} opens is no call"));
                } else if repairs.iter().any(|repair| repair.kind == RepairKind::MissingClosingTag) {
                    out.defect(DefectKind::Unclosed, mark, "a call that is not closed");
                }
                self.calls += calls.len();
                self.may_have_reasoned &= self.calls == 0;
                out.events.extend(calls.into_iter().flat_map(Event::whole_call));
                self.at = span.end;
            }
            None if is_cut && !opening.is_empty() => {
                out.defect(DefectKind::Unclosed, mark, "a call that never ends");
                self.at = source.len();
            }
            None => {
                if !opening.is_empty() {
                    let message = format!("a call opened with {opening} cannot be read");
                    out.defect(DefectKind::NotACall, mark, message);
                }
                match syntax.mark() {
                    Some(text) => self.at = mark + text.len(),
                    None => self.tell(source, source.len(), out),
                }
            }
        }
        true
    }
}
