//! What a model thinks before it speaks: where it begins, what ends it, and the calls that it may run into.
//!
//! Invariant: a thought is told as it arrives; only what may be its end, or a call that ends the text, is waited for.

use super::html::Quote;
use super::scan::{Found, Item, Kind, Mode, Scan, after_blanks, tagged};
use super::source::{Cursor, Source};
use super::tag::Tag;
use super::{code, harmony, marks, mistral, quoted};
use crate::spec::ToolSpec;

/// What closes reasoning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Closing {
    Mark(String),
    /// Whatever closes it in any format: its opening was not seen.
    Any,
    /// The header of the next message, its tokens left out.
    Stripped,
}

/// What closes reasoning in one format or another.
const CLOSINGS: [&str; 14] = [
    "</think>",
    "</thinking>",
    "</thought>",
    "</reasoning>",
    "</seed:think>",
    "</mm:think>",
    "[/THINK]",
    "<|END_THINKING|>",
    "<channel|>",
    "<|end|>",
    "<|inner_suffix|>",
    "<|end_of_thought|>",
    "</thoughts>",
    TRIANGLES[1],
];
/// Tags of words, whose closings models mix up.
const WORDS: [&str; 5] = ["think", "thinking", "thought", "thoughts", "reasoning"];
/// What Kimi-VL writes around its thoughts.
const TRIANGLES: [&str; 2] = ["◁think▷", "◁/think▷"];

impl Closing {
    fn marks(&self) -> Vec<&str> {
        match self {
            Self::Mark(mark) => vec![mark],
            Self::Any => CLOSINGS.to_vec(),
            Self::Stripped => harmony::STRIPPED.to_vec(),
        }
    }
}

impl Scan {
    /// The end of reasoning whose beginning was not seen: all of it, the first time; a mark that closes nothing, after that.
    pub(super) fn reasoned(&mut self, end: usize, source: &Source<'_>, tools: &[ToolSpec]) -> bool {
        if self.has_reasoned {
            self.push(Item::mark(self.at, end), source, tools);
            return false;
        }
        let after = after_blanks(source.at(end));
        if source.looked_past() {
            return true;
        }
        (self.has_reasoned, self.has_spoken) = (true, false);
        self.quote = Quote::default();
        source.set_reasoned(true);
        let closing = self.at;
        // What looked like calls was thought; marks are no more a part of it than of anything else.
        let marks = std::mem::take(&mut self.items).into_iter().filter(|item| item.kind == Kind::Mark);
        let mut start = 0;
        for mark in marks {
            self.at = mark.span.start;
            self.thought(start, source, tools);
            start = mark.span.end;
            self.push(mark, source, tools);
        }
        self.at = closing;
        self.thought(start, source, tools);
        self.push(Item::mark(closing, after), source, tools);
        self.reasoned = Some(self.items.len());
        false
    }

    /// Reads reasoning on to its end, as far as the text has arrived.
    pub(super) fn reasoning(&mut self, source: &Source<'_>, tools: &[ToolSpec], closing: &Closing) -> bool {
        let mut start = self.at;
        let closings = closing.marks();
        let held = loop {
            if self.at >= source.len() || source.is_exhausted() {
                break false;
            }
            source.reset();
            let inner_thoughts = self.inner_thoughts;
            match self.reasoning_step(source, tools, closing, &closings) {
                Step::On => {}
                Step::Held => {
                    // What is held is read again.
                    self.inner_thoughts = inner_thoughts;
                    break true;
                }
                Step::Mark(end) => {
                    self.thought(start, source, tools);
                    self.push(Item::mark(self.at, end), source, tools);
                    start = end;
                }
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
    fn reasoning_step(
        &mut self,
        source: &Source<'_>,
        tools: &[ToolSpec],
        closing: &Closing,
        closings: &[&str],
    ) -> Step {
        let mut cursor = source.at(self.at);
        cursor.take_while(|c| c != '<' && c != '[' && !closings.iter().any(|closing| closing.starts_with(c)));
        self.at = cursor.place();
        source.reset();
        if self.at >= source.len() {
            return Step::On;
        }
        if let Some(end) = harmony::end_of_message(cursor, closings) {
            return Step::Over(vec![Item::mark(self.at, end)]);
        }
        let mut end = cursor;
        let mut closed = end.eat_any(closings);
        if closed.is_some() && code::holds(cursor, end, closings) {
            (closed, end) = (None, cursor);
        }
        if let Some(header) = closed.filter(|_| *closing == Closing::Stripped) {
            let found = harmony::stripped(self.at, end, header, tools);
            return match found {
                _ if source.looked_past() => Step::Held,
                Found::Item(item) => Step::Over(vec![item]),
                Found::Enter(_, end) => Step::Mark(end),
                Found::Text | Found::Skip(_) | Found::Reasoned(_) => {
                    self.at = end.place();
                    Step::On
                }
            };
        }
        if closed.is_some() || self.closes_by_another_word(&mut end, closing) {
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
        if let Some(items) = items {
            return Step::Over(items);
        }
        let mark = marks::after(cursor).filter(|end| !code::holds(cursor, cursor.moved_to(*end), &[]));
        if source.looked_past() {
            return Step::Held;
        }
        if let Some(end) = mark {
            return Step::Mark(end);
        }
        self.at += cursor.peek().map_or(1, char::len_utf8);
        Step::On
    }

    /// Whether a tag ends reasoning by another word than it was opened with (`<think>…</thinking>`), or with a blank in it. One
    /// that a sentence goes on around is spoken of, and one that the reasoning itself has opened closes that.
    fn closes_by_another_word(&mut self, cursor: &mut Cursor<'_, '_>, closing: &Closing) -> bool {
        let mark = match closing {
            Closing::Mark(mark) if mark.starts_with("</") => Some(mark.as_str()),
            Closing::Any => None,
            Closing::Mark(_) | Closing::Stripped => return false,
        };
        let mut after = *cursor;
        let Some(tag) = Tag::read(&mut after).filter(|tag| tag.attributes.is_empty() && !tag.is_special)
        else {
            return false;
        };
        if code::holds(*cursor, after, &[]) {
            return false;
        }
        let is_own = mark.and_then(|mark| mark.strip_prefix("</")?.strip_suffix('>')) == Some(tag.name);
        let word = WORDS.iter().position(|word| *word == tag.name);
        let inner = word.and_then(|word| self.inner_thoughts.get_mut(word));
        match inner {
            Some(opened) if !is_own && !tag.is_closing => *opened += 1,
            Some(opened) if !is_own && *opened > 0 => *opened -= 1,
            _ if tag.is_closing && (is_own || word.is_some()) && !quoted::is_spoken_of(*cursor, after) => {
                *cursor = after;
                return true;
            }
            _ => {}
        }
        false
    }
}

/// The marks of one family, which no prose holds.
pub(crate) fn triangles(cursor: Cursor<'_, '_>) -> Found {
    let mut at = cursor;
    if at.eat(TRIANGLES[0]) {
        return Found::Enter(Mode::Reasoning(Closing::Mark(TRIANGLES[1].to_owned())), at.place());
    }
    if at.eat(TRIANGLES[1]) { Found::Reasoned(at.place()) } else { Found::Text }
}

/// How far reasoning was read.
enum Step {
    On,
    /// More must arrive first.
    Held,
    /// A mark up to a place, which is no thought.
    Mark(usize),
    /// It is over, with what follows it.
    Over(Vec<Item>),
}

/// The beginning or the end of reasoning. Words that a sentence goes on around are spoken of.
pub(crate) fn found(
    cursor: Cursor<'_, '_>,
    tag: &Tag<'_>,
    name: &str,
    after: Cursor<'_, '_>,
) -> Option<Found> {
    let closing = match name {
        "think" | "thinking" | "thought" | "reasoning" | "thoughts" => format!("</{}>", tag.full_name()),
        "start_thinking" => "<|END_THINKING|>".to_owned(),
        "end_thinking" => return Some(Found::Reasoned(after.place())),
        "channel" if tag.is_special && !tag.is_closing => "<channel|>".to_owned(),
        "channel" if tag.is_special => return Some(Found::Reasoned(after.place())),
        "begin_of_thought" => "<|end_of_thought|>".to_owned(),
        "inner_prefix" => "<|inner_suffix|>".to_owned(),
        _ => return None,
    };
    let end = after.place();
    if tag.is_closing {
        let is_quoted = || cursor.source().has_reasoned() && quoted::is_in_quotes(cursor, after);
        let is_spoken_of = !tag.is_special && (quoted::is_spoken_of(cursor, after) || is_quoted());
        return Some(if is_spoken_of { Found::Skip(end) } else { Found::Reasoned(end) });
    }
    if !tag.is_special && !cursor.begins_line() {
        let source = cursor.source();
        // In the middle of a line it opens something only if that ends on a later one, or behind other thoughts.
        let Some(closed) = after.find(&closing) else { return Some(Found::Skip(end)) };
        let behind = cursor.moved_to(closed + closing.len());
        let is_again = source.has_reasoned()
            && !quoted::is_spoken_of(cursor, behind)
            && !quoted::is_in_quotes(cursor, behind);
        if !is_again && !source.slice(end, closed).contains('\n') {
            return Some(Found::Skip(behind.place()));
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
