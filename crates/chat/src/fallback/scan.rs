//! Goes through a text once, from mark to mark, and says which parts of it are calls.
//!
//! Invariant: items lie in order and do not overlap; what no item covers is content, byte for byte.

use super::harmony;
use super::payload::{self, Around, Payload};
use super::repair::Repair;
use super::source::{Cursor, Source};
use super::tag::Tag;
use super::{Pattern, Span, bare, mistral};
use crate::model::ToolCall;
use crate::spec::ToolSpec;

/// A part of the text that is no content.
#[derive(Clone, Debug, Default)]
pub(crate) struct Item {
    pub(crate) span: Span,
    /// The calls it is; none for a wrapper that holds nothing usable.
    pub(crate) calls: Vec<ToolCall>,
    pub(crate) pattern: Option<Pattern>,
    pub(crate) repairs: Vec<Repair>,
}

/// What a mark turned out to be.
pub(crate) enum Found {
    /// Nothing: the next character is text.
    Text,
    /// Text up to a place: something that only looks like a call.
    Skip(usize),
    /// Calls, or a wrapper of nothing.
    Item(Item),
    /// The start of a stretch in which calls are not calls.
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
    Reasoning(String),
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
}

impl Scan {
    /// Goes on as far as the text that has arrived decides.
    pub(crate) fn run(&mut self, source: &Source<'_>, tools: &[ToolSpec]) {
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
            cursor.take_while(|c| !is_mark(c) && (tools.is_empty() || c != '\n'));
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
            Found::Text => self.at += cursor.peek().map_or(1, char::len_utf8),
            Found::Skip(end) => self.at = end,
            Found::Item(mut item) => {
                if !item.calls.is_empty() {
                    item.span.end = after_end_of_turn(source.at(item.span.end));
                    if source.looked_past() {
                        return true;
                    }
                }
                self.at = item.span.end;
                self.items.push(item);
            }
            Found::Enter(mode, at) => {
                self.has_reasoned |= matches!(mode, Mode::Reasoning(_));
                self.mode = mode;
                self.at = at;
            }
            Found::Reasoned(end) => {
                self.at = end;
                if !self.has_reasoned {
                    self.has_reasoned = true;
                    self.reasoned = true;
                    self.items.clear();
                }
            }
        }
        false
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

    /// Looks for the end of the reasoning; without one, for calls that end the text.
    fn reasoning(&mut self, source: &Source<'_>, tools: &[ToolSpec], closing: &str) -> bool {
        let mut cursor = source.at(self.at);
        cursor.take_while(|c| c != '<' && c != '[' && !closing.starts_with(c));
        self.at = cursor.place();
        source.reset();
        if self.at >= source.len() {
            return false;
        }
        let mut end = cursor;
        if end.eat(closing) {
            self.at = end.place();
            self.mode = Mode::Text;
            return false;
        }
        let closes = cursor.find(closing).is_some();
        source.reset();
        let items = if closes { None } else { ending_calls(cursor, tools) };
        let sees = cursor.sees(closing);
        // The closing may still come.
        let waits = items.is_some() && !source.is_whole();
        if waits || (source.looked_past() && !sees) {
            return true;
        }
        match items {
            Some(items) => {
                self.at = items.last().map_or(self.at, |item| item.span.end);
                self.mode = Mode::Text;
                self.items.extend(items);
            }
            None => self.at += cursor.peek().map_or(1, char::len_utf8),
        }
        false
    }
}

/// What models end a turn with, written out.
const ENDS: [&str; 14] = [
    "</s>",
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|eot|>",
    "<|eom|>",
    "<eos>",
    "<end_of_turn>",
    "<｜end▁of▁sentence｜>",
];

/// Past the tokens that end a turn after its calls, if there are any.
fn after_end_of_turn(cursor: Cursor<'_, '_>) -> usize {
    let (mut at, mut end) = (cursor, cursor.place());
    loop {
        at.skip_blank();
        if at.eat_any(&ENDS).is_none() {
            return end;
        }
        end = at.place();
    }
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
                item.span.end = after_end_of_turn(at.moved_to(item.span.end));
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
        Found::Item(item) => Some(item),
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
    match mark {
        '<' => tagged(cursor, tools),
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
                other => other,
            }
        }
        '>' => bare::functionary(cursor),
        '\n' => bare::named_on_a_line(cursor, tools),
        'f' => bare::functools(cursor, tools),
        't' => harmony::recipient(cursor, tools),
        _ => Found::Text,
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
    if let Some(found) = reasoning(&tag, &name, at.place()) {
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
        return Found::Item(Item { span, calls: vec![call], pattern: Some(Pattern::NamedJson), repairs });
    }
    let around = Around::tag(tools, &name, &tag);
    let mut repairs = Vec::new();
    let mut end = at;
    if let Some(call) = payload::function(&mut end, &tag, around, &mut repairs) {
        payload::closings(&mut end, &tag, &mut Vec::new());
        let span = Span { start, end: end.place() };
        return Found::Item(Item { span, calls: vec![call], pattern: Some(Pattern::Elements), repairs });
    }
    if let Some(call) = payload::own_tag(&mut end, &tag, tools) {
        let span = Span { start, end: end.place() };
        return Found::Item(Item { span, calls: vec![call], pattern: Some(Pattern::Elements), repairs });
    }
    if payload::is_wrapper(&name)
        || matches!(name.as_str(), "response" | "xml" | "json" | "start_function_call")
    {
        return wrapped(start, at, &tag, &name, tools);
    }
    Found::Text
}

fn reasoning(tag: &Tag<'_>, name: &str, end: usize) -> Option<Found> {
    let closing = match name {
        "think" | "thinking" | "thought" | "reasoning" | "thoughts" => format!("</{}>", tag.full_name()),
        "start_thinking" => "<|END_THINKING|>".to_owned(),
        "end_thinking" => return Some(Found::Reasoned(end)),
        "channel" if tag.is_special && !tag.is_closing => "<channel|>".to_owned(),
        "inner_prefix" => "<|inner_suffix|>".to_owned(),
        _ => return None,
    };
    Some(if tag.is_closing { Found::Reasoned(end) } else { Found::Enter(Mode::Reasoning(closing), end) })
}

/// What a wrapper holds, from after its opening on.
fn wrapped(start: usize, inside: Cursor<'_, '_>, tag: &Tag<'_>, name: &str, tools: &[ToolSpec]) -> Found {
    let mut at = inside;
    if let Some(Payload { calls, pattern, mut repairs }) =
        payload::sequence(&mut at, Around::tag(tools, name, tag))
    {
        payload::closings(&mut at, tag, &mut repairs);
        return Found::Item(Item { span: Span { start, end: at.place() }, calls, pattern, repairs });
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
    Found::Item(Item { span: Span { start, end: end.place() }, ..Item::default() })
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
                return Found::Item(Item { span, calls, pattern: Some(Pattern::Fence), repairs });
            }
        }
        let mut end = inside;
        if for_tools && end.take_until(ticks).is_some() {
            return Found::Item(Item {
                span: Span { start: cursor.place(), end: end.place() },
                ..Item::default()
            });
        }
    }
    Found::Enter(Mode::Fence(ticks.to_owned()), at.place())
}
