//! Goes through a text once, from mark to mark, and says which parts of it are calls.
//!
//! Invariant: items lie in order and do not overlap; what no item covers is content, byte for byte.

use super::payload::{self, Around, Payload};
use super::reasoning::{self, Closing};
use super::repair::Repair;
use super::source::{Cursor, Source};
use super::tag::Tag;
use super::{Pattern, Span, bare, harmony, headed, html, kimi, marks, mistral, names, quoted};
use crate::model::ToolCall;
use crate::spec::ToolSpec;

/// A part of the text that is no content.
#[derive(Clone, Debug, Default)]
pub(crate) struct Item {
    pub(crate) span: Span,
    pub(crate) kind: Kind,
    /// The calls it is; none for a wrapper that holds nothing usable.
    pub(crate) calls: Vec<ToolCall>,
    pub(crate) pattern: Option<Pattern>,
    pub(crate) repairs: Vec<Repair>,
}

/// What an item is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Calls, or a wrapper of none.
    #[default]
    Calls,
    /// What the model thinks.
    Thought,
    /// A mark that says nothing itself.
    Mark,
}

impl Item {
    pub(crate) fn calls(
        span: Span,
        calls: Vec<ToolCall>,
        pattern: Option<Pattern>,
        repairs: Vec<Repair>,
    ) -> Self {
        Self { span, kind: Kind::Calls, calls, pattern, repairs }
    }

    /// The same, its calls under the names of the tools they mean.
    fn settled(mut self, tools: &[ToolSpec]) -> Self {
        self.calls = self.calls.into_iter().map(|call| names::settle(call, tools)).collect();
        self
    }

    pub(crate) fn mark(start: usize, end: usize) -> Self {
        Self { span: Span { start, end }, kind: Kind::Mark, ..Self::default() }
    }
}

/// What a mark turned out to be.
pub(crate) enum Found {
    /// Nothing: the next character is text.
    Text,
    /// Text up to a place: something that only looks like a call.
    Skip(usize),
    /// Calls, a wrapper of nothing, or a mark.
    Item(Item),
    /// The start of a stretch in which calls are not calls: its mark ends here.
    Enter(Mode, usize),
    /// The end of reasoning that began before the text.
    Reasoned(usize),
}

/// What the text is being read as.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    #[default]
    Text,
    /// A code sample, up to its closing fence.
    Fence(String),
    /// Reasoning, up to its closing mark.
    Reasoning(Closing),
}

/// A scan that can be taken up where it stopped.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scan {
    pub(crate) at: usize,
    pub(crate) items: Vec<Item>,
    pub(crate) mode: Mode,
    /// Reasoning was seen to begin or end; a further end of it is text.
    pub(super) has_reasoned: bool,
    /// Set when everything so far turned out to be reasoning: how many items tell it, its closing mark included.
    pub(crate) reasoned: Option<usize>,
    /// How many tags of each word for reasoning are open within the reasoning that is read.
    pub(super) inner_thoughts: [usize; 5],
    /// Whether anything was said yet.
    pub(super) has_spoken: bool,
    /// Whether the tokens of its messages were left out of the text.
    is_stripped: bool,
    /// Where the last part ended that is no content.
    edge: usize,
    /// What closes the tag that the answer was opened by.
    pub(super) wrapper: Option<&'static str>,
    /// The element of HTML that is open around what is read, if it quotes what it holds.
    pub(super) quote: html::Quote,
}

impl Scan {
    /// A scan of a text that begins inside reasoning.
    pub(crate) fn inside_reasoning() -> Self {
        Self { mode: Mode::Reasoning(Closing::Any), has_reasoned: true, ..Self::default() }
    }

    /// Goes on as far as the text that has arrived decides.
    pub(crate) fn run(&mut self, source: &Source<'_>, tools: &[ToolSpec]) {
        source.set_edge(self.edge);
        source.set_reasoned(self.has_reasoned);
        if self.is_stripped {
            source.note_stripped();
        }
        while self.at < source.len() && !source.is_exhausted() {
            source.reset();
            let held = match self.mode.clone() {
                Mode::Text => self.text(source, tools),
                Mode::Fence(closing) => self.fence(source, &closing),
                Mode::Reasoning(closing) => self.reasoning(source, tools, &closing),
            };
            if held {
                return;
            }
            self.is_stripped = source.is_stripped();
        }
        if source.is_exhausted() {
            self.at = source.len();
        }
    }

    /// Reads on to the next mark and past it; whether it must wait for more.
    fn text(&mut self, source: &Source<'_>, tools: &[ToolSpec]) -> bool {
        let mut cursor = source.at(self.at);
        let wrapper = self.wrapper;
        let found = match self.opening(cursor, tools) {
            _ if source.looked_past() => return true,
            Found::Text => {
                if self.at > 0 || !bare::may_open_text(source) {
                    let is_plain = |c| !is_mark(c) && (tools.is_empty() || c != '\n');
                    let text = cursor.take_while(|c| is_plain(c) && (c != 'a' || !source.is_stripped()));
                    self.has_spoken = self.has_spoken || !text.trim_start().is_empty();
                    self.at = cursor.place();
                    source.reset();
                }
                if self.at >= source.len() {
                    return false;
                }
                self.answer_tag(cursor).unwrap_or_else(|| match found_at(cursor, tools) {
                    Found::Text => self.whole_answer(cursor).unwrap_or(Found::Text),
                    found => found,
                })
            }
            found => found,
        };
        let found = match found {
            Found::Item(item) if item.kind == Kind::Calls => self.quote.or_call(source, item),
            found => found,
        };
        if source.looked_past() {
            self.wrapper = wrapper;
            return true;
        }
        match found {
            Found::Text => {
                let quote = self.quote.behind(cursor);
                if source.looked_past() {
                    return true;
                }
                self.quote = quote;
                let next = cursor.peek();
                self.has_spoken |= next.is_some_and(|c| !c.is_whitespace());
                self.at += next.map_or(1, char::len_utf8);
            }
            Found::Skip(end) => {
                self.has_spoken = true;
                self.at = end;
            }
            Found::Item(mut item) => {
                if !item.calls.is_empty() {
                    item.span.end = marks::after_end_of_turn(source.at(item.span.end));
                }
                if !self.has_spoken && item.kind == Kind::Mark {
                    item.span.end = after_blanks(source.at(item.span.end));
                }
                if source.looked_past() {
                    self.wrapper = wrapper;
                    return true;
                }
                self.push(item, source, tools);
            }
            Found::Enter(mode, at) => {
                if matches!(mode, Mode::Reasoning(_)) {
                    (self.has_reasoned, self.inner_thoughts) = (true, [0; 5]);
                    source.set_reasoned(true);
                    self.push(Item::mark(self.at, at), source, tools);
                } else {
                    self.has_spoken = true;
                }
                self.mode = mode;
                self.at = at;
            }
            Found::Reasoned(end) => return self.reasoned(end, source, tools),
        }
        false
    }

    pub(super) fn push(&mut self, item: Item, source: &Source<'_>, tools: &[ToolSpec]) {
        let item = item.settled(tools);
        self.at = item.span.end;
        // Where a thought is told in pieces, a piece of it ends nothing.
        if item.kind != Kind::Thought {
            self.edge = self.at;
            source.set_edge(self.edge);
        }
        self.items.push(item);
    }

    /// What was thought from a place on up to here.
    pub(super) fn thought(&mut self, start: usize, source: &Source<'_>, tools: &[ToolSpec]) {
        if start < self.at {
            let span = Span { start, end: self.at };
            self.push(Item { span, kind: Kind::Thought, ..Item::default() }, source, tools);
        }
    }

    fn fence(&mut self, source: &Source<'_>, closing: &str) -> bool {
        let cursor = source.at(self.at);
        match cursor.find(closing) {
            Some(found) => {
                self.at = found + closing.len();
                self.mode = Mode::Text;
                false
            }
            None => {
                self.at = source.before_partial(self.at, closing);
                true
            }
        }
    }
}

pub(super) fn after_blanks(cursor: Cursor<'_, '_>) -> usize {
    let mut at = cursor;
    at.skip_blank();
    at.place()
}

fn is_mark(c: char) -> bool {
    matches!(c, '<' | '[' | '{' | '`' | '~' | ']' | '>' | 'f' | 't' | '◁')
}

/// The calls here, or a wrapper that holds none.
pub(crate) fn item_at(cursor: Cursor<'_, '_>, tools: &[ToolSpec]) -> Option<Item> {
    match found_at(cursor, tools) {
        Found::Item(item) if item.kind == Kind::Calls => Some(item.settled(tools)),
        _ => None,
    }
}

fn found_at(cursor: Cursor<'_, '_>, tools: &[ToolSpec]) -> Found {
    let Some(mark) = cursor.peek() else { return Found::Text };
    if cursor.place() == 0 {
        if let Some(item) = bare::named_at_start(cursor, tools) {
            return Found::Item(item);
        }
        match harmony::opened(cursor, tools) {
            Found::Text => {}
            found => return found,
        }
    }
    let found = match mark {
        '<' => tagged(cursor, tools),
        '[' => match mistral::found(cursor, tools) {
            Found::Text => bare::list(cursor, tools),
            found => found,
        },
        '{' => bare::object(cursor, tools),
        '`' => ticks(cursor, '`', tools),
        '~' if cursor.sees("~~~") => ticks(cursor, '~', tools),
        ']' if cursor.sees(super::xml::NOISE) => {
            let mut inner = cursor;
            inner.eat(super::xml::NOISE);
            match tagged(inner, tools) {
                Found::Item(mut item) => {
                    item.span.start = cursor.place();
                    Found::Item(item)
                }
                Found::Text => Found::Item(Item::mark(cursor.place(), inner.place())),
                other => other,
            }
        }
        '>' => bare::functionary(cursor),
        '\n' => bare::named_on_a_line(cursor, tools),
        'f' if cursor.sees("functions.") => kimi::unmarked(cursor),
        'f' => bare::functools(cursor, tools),
        't' => harmony::recipient(cursor, tools),
        'a' => harmony::next_stripped(cursor, tools),
        '◁' => reasoning::triangles(cursor),
        _ => Found::Text,
    };
    match found {
        Found::Item(item) if item.kind == Kind::Calls && !item.calls.is_empty() => {
            quoted::or_call(cursor, item)
        }
        Found::Text if matches!(mark, '<' | '[' | ']') => match marks::after(cursor) {
            Some(end) => Found::Item(Item::mark(cursor.place(), end)),
            None => Found::Text,
        },
        found => found,
    }
}

/// Anything in angles.
pub(super) fn tagged(cursor: Cursor<'_, '_>, tools: &[ToolSpec]) -> Found {
    let start = cursor.place();
    if cursor.sees("<|start|>") || cursor.sees("<|channel|>") {
        return harmony::message(cursor, tools);
    }
    if cursor.sees("<|open|>") {
        return kimi::tools(cursor);
    }
    let mut at = cursor;
    let Some(tag) = Tag::read(&mut at) else { return Found::Text };
    let name = tag.plain();
    if let Some(found) = reasoning::found(cursor, &tag, &name, at) {
        return found;
    }
    if tag.is_closing {
        return Found::Text;
    }
    if name == "recipient" && tag.is_special {
        return bare::recipient(start, at, tools);
    }
    if name == "message_sep" || name == "function_call" && tag.is_special {
        let mut header = at;
        header.skip_blank();
        if name == "function_call" || header.eat("function call<|role_sep|>") {
            return wrapped(start, header, &tag, "function_call", tools);
        }
    }
    if name == "tool_response" || name == "tool_result" {
        // What a tool said, or is made to have said, is not what the model calls.
        let closing = format!("</{}>", tag.name);
        return at.find(&closing).map_or(Found::Text, |end| Found::Skip(end + closing.len()));
    }
    if tag.name == "tool_call:begin" {
        let mut end = at;
        let mut repairs = Vec::new();
        let Some(call) = headed::solar(&mut end, &mut repairs) else { return Found::Text };
        let span = Span { start, end: end.place() };
        return Found::Item(Item::calls(span, vec![call], Some(Pattern::NamedJson), repairs));
    }
    let around = Around::tag(tools, &name, &tag);
    let mut repairs = Vec::new();
    let mut end = at;
    if let Some(call) = payload::function(&mut end, &tag, around, &mut repairs) {
        payload::closings(&mut end, &tag, &mut Vec::new());
        let span = Span { start, end: end.place() };
        return Found::Item(Item::calls(span, vec![call], Some(Pattern::Elements), repairs));
    }
    if let Some(call) = payload::own_tag(&mut end, &tag, tools) {
        let span = Span { start, end: end.place() };
        return Found::Item(Item::calls(span, vec![call], Some(Pattern::Elements), repairs));
    }
    if payload::is_wrapper(&name)
        || matches!(name.as_ref(), "response" | "xml" | "json" | "start_function_call")
    {
        return wrapped(start, at, &tag, &name, tools);
    }
    if payload::function_name(&tag).is_some() {
        return unusable(start, at, &tag);
    }
    Found::Text
}

/// What a wrapper holds, from after its opening on.
fn wrapped(start: usize, inside: Cursor<'_, '_>, tag: &Tag<'_>, name: &str, tools: &[ToolSpec]) -> Found {
    let mut at = inside;
    if let Some(Payload { calls, pattern, mut repairs }) =
        payload::sequence(&mut at, Around::tag(tools, name, tag))
    {
        payload::closings(&mut at, tag, &mut repairs);
        return Found::Item(Item::calls(Span { start, end: at.place() }, calls, pattern, repairs));
    }
    if matches!(name, "response" | "xml" | "json") {
        return Found::Text;
    }
    if name == "python_tag" {
        let source = inside.source();
        let end = inside.find("<|e").unwrap_or(source.len());
        let program = source.slice(inside.place(), end).trim();
        // In the middle of a line the token is spoken of.
        let is_code =
            !program.is_empty() && !program.starts_with(['{', '[']) && source.at(start).begins_line();
        let span = Span { start, end };
        return if is_code { Found::Item(bare::python_call(program, span)) } else { Found::Text };
    }
    unusable(start, inside, tag)
}

/// A wrapper without a call in it: dropped where it was meant as one, text where prose speaks of the tag.
fn unusable(start: usize, inside: Cursor<'_, '_>, tag: &Tag<'_>) -> Found {
    let mut content = inside;
    content.skip_blank();
    let is_json = content.sees("{") || content.sees("[");
    let mut end = inside;
    // `<|name>` is closed by `<name|>`.
    let source = inside.source();
    let is_half = tag.is_special && !source.slice(start, inside.place()).ends_with("|>");
    let closing = if is_half { format!("<{}|>", tag.name) } else { format!("</{}>", tag.name) };
    if end.take_until(&closing).is_none() {
        return Found::Text;
    }
    // Another one that opens before it is closed is read by itself.
    if let Some(next) = inside.find(&format!("<{}>", tag.name)).filter(|next| *next < end.place()) {
        let is_meant = is_json && source.at(start).begins_line();
        return if is_meant { Found::Item(dropped(start, next)) } else { Found::Text };
    }
    let begins_line = source.at(start).begins_line();
    let mut after = end;
    after.take_while(|c| c != '\n' && c.is_whitespace());
    let ends_line = after.is_end() || after.sees("\n") || after.sees("<");
    let holds_no_text = source.slice(inside.place(), end.place() - closing.len()).trim().is_empty();
    let is_meant = match (begins_line, ends_line) {
        (true, true) => true,
        (false, false) => false,
        _ => (is_json && !holds_no_text) || is_half,
    };
    if !is_meant {
        return Found::Text;
    }
    Found::Item(dropped(start, end.place()))
}

fn dropped(start: usize, end: usize) -> Item {
    Item { span: Span { start, end }, ..Item::default() }
}

/// A fence or inline code.
fn ticks(cursor: Cursor<'_, '_>, tick: char, tools: &[ToolSpec]) -> Found {
    let mut at = cursor;
    let ticks = at.take_while(|c| c == tick);
    if ticks.len() < 3 {
        // Code within a line: what it mentions is not said.
        let mut inner = at;
        let line = inner.take_while(|c| c != '`' && c != '\n');
        return if inner.sees(ticks) && !line.is_empty() {
            Found::Skip(inner.place() + ticks.len())
        } else {
            Found::Skip(at.place())
        };
    }
    let mut inside = at;
    let language =
        inside.take_while(|c| c != '\n' && c != '`' && c != '{' && c != '[').trim().to_ascii_lowercase();
    let for_tools = matches!(
        language.as_str(),
        "tool"
            | "tools"
            | "tool_call"
            | "tool_calls"
            | "tool_code"
            | "tool_use"
            | "function"
            | "function_call"
            | "function_calls"
    );
    let may_hold = for_tools || matches!(language.as_str(), "" | "json" | "jsonc" | "json5" | "xml" | "call");
    if may_hold {
        let mut end = inside;
        if let Some(Payload { calls, repairs, .. }) =
            payload::sequence(&mut end, Around::fence(tools, for_tools))
        {
            end.skip_blank();
            if end.eat(ticks) || end.is_end() {
                let span = Span { start: cursor.place(), end: end.place() };
                return Found::Item(Item::calls(span, calls, Some(Pattern::Fence), repairs));
            }
        }
        let mut end = inside;
        if for_tools && end.take_until(ticks).is_some() {
            return Found::Item(dropped(cursor.place(), end.place()));
        }
    }
    Found::Enter(Mode::Fence(ticks.to_owned()), at.place())
}
