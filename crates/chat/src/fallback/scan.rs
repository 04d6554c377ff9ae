//! Goes through a text once, from mark to mark, and says which parts of it are calls.
//!
//! Invariant: items lie in order and do not overlap; what no item covers is content, byte for byte.

use super::payload::{self, Around, Payload};
use super::repair::Repair;
use super::source::{Cursor, Source};
use super::tag::Tag;
use super::{Pattern, Span, bare, harmony, marks, mistral, names, quoted};
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

/// What closes reasoning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Closing {
    Mark(String),
    /// Whatever closes it in any format: its opening was not seen.
    Any,
}

/// What closes reasoning in one format or another.
const CLOSINGS: [&str; 9] = [
    "</think>",
    "</thinking>",
    "</thought>",
    "</reasoning>",
    "</seed:think>",
    "</mm:think>",
    "[/THINK]",
    "<|END_THINKING|>",
    "<channel|>",
];

impl Closing {
    fn marks(&self) -> Vec<&str> {
        match self {
            Self::Mark(mark) => vec![mark],
            Self::Any => CLOSINGS.to_vec(),
        }
    }
}

/// A scan that can be taken up where it stopped.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scan {
    pub(crate) at: usize,
    pub(crate) items: Vec<Item>,
    pub(crate) mode: Mode,
    /// Reasoning was seen to begin or end; a further end of it is text.
    has_reasoned: bool,
    /// Set when everything before `at` turned out to be reasoning.
    pub(crate) reasoned: bool,
    /// Whether anything was said yet.
    has_spoken: bool,
}

impl Scan {
    /// A scan of a text that begins inside reasoning.
    pub(crate) fn inside_reasoning() -> Self {
        Self { mode: Mode::Reasoning(Closing::Any), has_reasoned: true, ..Self::default() }
    }

    /// Goes on as far as the text that has arrived decides.
    pub(crate) fn run(&mut self, source: &Source<'_>, tools: &[ToolSpec]) {
        let edge = self.items.iter().rfind(|item| item.kind != Kind::Thought);
        source.set_edge(edge.map_or(0, |item| item.span.end));
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
        }
        if source.is_exhausted() {
            self.at = source.len();
        }
    }

    /// Reads on to the next mark and past it; whether it must wait for more.
    fn text(&mut self, source: &Source<'_>, tools: &[ToolSpec]) -> bool {
        let mut cursor = source.at(self.at);
        if self.at > 0 || !bare::may_open_text(source) {
            let text = cursor.take_while(|c| !is_mark(c) && (tools.is_empty() || c != '\n'));
            self.has_spoken = self.has_spoken || !text.trim_start().is_empty();
            self.at = cursor.place();
            source.reset();
        }
        if self.at >= source.len() {
            return false;
        }
        let found = found_at(cursor, tools);
        if source.looked_past() {
            return true;
        }
        match found {
            Found::Text => {
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
                    return true;
                }
                self.push(item, source, tools);
            }
            Found::Enter(mode, at) => {
                if matches!(mode, Mode::Reasoning(_)) {
                    self.has_reasoned = true;
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

    /// The end of reasoning whose beginning was not seen: all of it, the first time; a word of the text, after that.
    fn reasoned(&mut self, end: usize, source: &Source<'_>, tools: &[ToolSpec]) -> bool {
        if self.has_reasoned {
            // A token that closes nothing is a mark all the same.
            match marks::after(source.at(self.at)) {
                Some(_) => self.push(Item::mark(self.at, end), source, tools),
                None => (self.at, self.has_spoken) = (end, true),
            }
            return false;
        }
        let after = after_blanks(source.at(end));
        if source.looked_past() {
            return true;
        }
        (self.has_reasoned, self.reasoned, self.has_spoken) = (true, true, false);
        self.items.clear();
        self.thought(0, source, tools);
        self.push(Item::mark(self.at, after), source, tools);
        false
    }

    fn push(&mut self, mut item: Item, source: &Source<'_>, tools: &[ToolSpec]) {
        item.calls = item.calls.into_iter().map(|call| names::settle(call, tools)).collect();
        self.at = item.span.end;
        // Where a thought is told in pieces, a piece of it ends nothing.
        if item.kind != Kind::Thought {
            source.set_edge(self.at);
        }
        self.items.push(item);
    }

    /// What was thought from a place on up to here.
    fn thought(&mut self, start: usize, source: &Source<'_>, tools: &[ToolSpec]) {
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

    /// Reads reasoning on to its end, as far as the text has arrived.
    fn reasoning(&mut self, source: &Source<'_>, tools: &[ToolSpec], closing: &Closing) -> bool {
        let start = self.at;
        let held = loop {
            if self.at >= source.len() || source.is_exhausted() {
                break false;
            }
            source.reset();
            match self.reasoning_step(source, tools, closing) {
                Step::On => {}
                Step::Held => break true,
                Step::Over(items) => {
                    self.thought(start, source, tools);
                    self.mode = Mode::Text;
                    for item in items {
                        self.push(item, source, tools);
                    }
                    return false;
                }
            }
        };
        self.thought(start, source, tools);
        held
    }

    /// One step on: to the end of the reasoning; without one, to calls that end the text.
    fn reasoning_step(&mut self, source: &Source<'_>, tools: &[ToolSpec], closing: &Closing) -> Step {
        let closings = closing.marks();
        let mut cursor = source.at(self.at);
        cursor.take_while(|c| c != '<' && c != '[' && !closings.iter().any(|closing| closing.starts_with(c)));
        self.at = cursor.place();
        source.reset();
        if self.at >= source.len() {
            return Step::On;
        }
        if let Some(end) = harmony::end_of_message(cursor, &closings) {
            return Step::Over(vec![Item::mark(self.at, end)]);
        }
        let mut end = cursor;
        if end.eat_any(&closings).is_some() {
            let end = if self.has_spoken { end.place() } else { after_blanks(end) };
            return if source.looked_past() {
                Step::Held
            } else {
                Step::Over(vec![Item::mark(self.at, end)])
            };
        }
        if source.looked_past() {
            return Step::Held;
        }
        let closes = closings.iter().any(|closing| cursor.find(closing).is_some());
        source.reset();
        let items = if closes { None } else { ending_calls(cursor, tools) };
        // The closing may still come.
        let waits = items.is_some() && !source.is_whole();
        if waits || source.looked_past() {
            return Step::Held;
        }
        match items {
            Some(items) => Step::Over(items),
            None => {
                self.at += cursor.peek().map_or(1, char::len_utf8);
                Step::On
            }
        }
    }
}

/// How far reasoning was read.
enum Step {
    On,
    /// More must arrive first.
    Held,
    /// It is over, with what follows it.
    Over(Vec<Item>),
}

fn after_blanks(cursor: Cursor<'_, '_>) -> usize {
    let mut at = cursor;
    at.skip_blank();
    at.place()
}

fn is_mark(c: char) -> bool {
    matches!(c, '<' | '[' | '{' | '`' | ']' | '>' | 'f' | 't')
}

/// Marked calls from here to the end of the text, with nothing but blanks between and after them. What tokens mark is no
/// thought even where text follows.
fn ending_calls(cursor: Cursor<'_, '_>, tools: &[ToolSpec]) -> Option<Vec<Item>> {
    let is_token = cursor.sees("<|") || cursor.sees("<｜");
    let mut items: Vec<Item> = Vec::new();
    let mut at = cursor;
    loop {
        at.skip_blank();
        if at.is_end() {
            return (!items.is_empty()).then_some(items);
        }
        let found = match at.peek()? {
            '<' => tagged(at, tools),
            '[' => mistral::found(at, tools),
            _ => Found::Text,
        };
        match found {
            Found::Item(mut item) if !item.calls.is_empty() => {
                item.span.end = marks::after_end_of_turn(at.moved_to(item.span.end));
                at = at.moved_to(item.span.end);
                items.push(item);
            }
            _ => return (is_token && !items.is_empty()).then_some(items),
        }
    }
}

/// The calls here, or a wrapper that holds none.
pub(crate) fn item_at(cursor: Cursor<'_, '_>, tools: &[ToolSpec]) -> Option<Item> {
    match found_at(cursor, tools) {
        Found::Item(mut item) if item.kind == Kind::Calls => {
            item.calls = item.calls.into_iter().map(|call| names::settle(call, tools)).collect();
            Some(item)
        }
        _ => None,
    }
}

fn found_at(cursor: Cursor<'_, '_>, tools: &[ToolSpec]) -> Found {
    let Some(mark) = cursor.peek() else { return Found::Text };
    if cursor.place() == 0
        && let Some(item) = bare::named_at_start(cursor, tools)
    {
        return Found::Item(item);
    }
    let found = match mark {
        '<' => angled(cursor, tools),
        '[' => match mistral::found(cursor, tools) {
            Found::Text => bare::list(cursor, tools),
            found => found,
        },
        '{' => bare::object(cursor, tools),
        '`' => backticks(cursor, tools),
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
        'f' => bare::functools(cursor, tools),
        't' => harmony::recipient(cursor, tools),
        _ => Found::Text,
    };
    match found {
        Found::Item(item) if item.kind == Kind::Calls && !item.calls.is_empty() => {
            quoted::or_call(cursor, item)
        }
        found => found,
    }
}

/// Calls in tags; a mark that is no content; or text.
fn angled<'t>(cursor: Cursor<'_, '_>, tools: &'t [ToolSpec]) -> Found {
    match tagged(cursor, tools) {
        Found::Text => match marks::after(cursor) {
            Some(end) => Found::Item(Item::mark(cursor.place(), end)),
            None => Found::Text,
        },
        found => found,
    }
}

/// Anything in angles.
fn tagged(cursor: Cursor<'_, '_>, tools: &[ToolSpec]) -> Found {
    let start = cursor.place();
    if cursor.sees("<|start|>") || cursor.sees("<|channel|>") {
        return harmony::message(cursor, tools);
    }
    if cursor.sees("<|open|>") {
        return super::kimi::tools(cursor);
    }
    let mut at = cursor;
    let Some(tag) = Tag::read(&mut at) else { return Found::Text };
    let name = tag.plain();
    if let Some(found) = reasoning(cursor, &tag, &name, at) {
        return found;
    }
    if tag.is_closing {
        return Found::Text;
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
        let Some(call) = payload::solar(&mut end, &mut repairs) else { return Found::Text };
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
        || matches!(name.as_str(), "response" | "xml" | "json" | "start_function_call")
    {
        return wrapped(start, at, &tag, &name, tools);
    }
    Found::Text
}

/// The beginning or the end of reasoning. Words that a sentence goes on around are spoken of.
fn reasoning(cursor: Cursor<'_, '_>, tag: &Tag<'_>, name: &str, after: Cursor<'_, '_>) -> Option<Found> {
    let closing = match name {
        "think" | "thinking" | "thought" | "reasoning" | "thoughts" => format!("</{}>", tag.full_name()),
        "start_thinking" => "<|END_THINKING|>".to_owned(),
        "end_thinking" => return Some(Found::Reasoned(after.place())),
        "channel" if tag.is_special && !tag.is_closing => "<channel|>".to_owned(),
        "channel" if tag.is_special => return Some(Found::Reasoned(after.place())),
        "inner_prefix" => "<|inner_suffix|>".to_owned(),
        _ => return None,
    };
    let end = after.place();
    if tag.is_closing {
        let is_spoken_of = !tag.is_special && quoted::is_within_sentence(cursor, after);
        return Some(if is_spoken_of { Found::Skip(end) } else { Found::Reasoned(end) });
    }
    if !tag.is_special && !cursor.begins_line() {
        // In the middle of a line it opens something only if that ends on a later one.
        let Some(closed) = after.find(&closing) else { return Some(Found::Skip(end)) };
        if !cursor.source().slice(end, closed).contains('\n') {
            return Some(Found::Skip(closed + closing.len()));
        }
    }
    let end = if name == "channel" { after_channel(after) } else { end };
    Some(Found::Enter(Mode::Reasoning(Closing::Mark(closing)), end))
}

/// Past the name of a channel, which a line of its own holds.
fn after_channel(cursor: Cursor<'_, '_>) -> usize {
    let mut at = cursor;
    let name = at.take_while(|c| c.is_ascii_lowercase());
    let is_name = !name.is_empty() && (at.sees("\n") || at.sees("<channel|>"));
    if is_name { at.place() } else { cursor.place() }
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
    let closing = format!("</{}>", tag.name);
    if end.take_until(&closing).is_none() {
        return Found::Text;
    }
    let source = inside.source();
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
        _ => is_json && !holds_no_text,
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
fn backticks(cursor: Cursor<'_, '_>, tools: &[ToolSpec]) -> Found {
    let mut at = cursor;
    let ticks = at.take_while(|c| c == '`');
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
