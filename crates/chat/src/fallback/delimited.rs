//! Where a value ends that stands as bare text between tags, and may hold such tags itself.
//!
//! A closing tag ends the value where what follows it goes on as a call does: with the next parameter, the end of the call
//! and of what wraps it, or the end of the text. One that text follows belongs to the value, as does one that closes what the
//! value itself has opened. Invariant: a value is never cut at a tag behind which its own text goes on.

use std::borrow::Cow;

use super::payload;
use super::source::Cursor;
use super::tag::Tag;
use super::xml::{NOISE, skip};

/// Openings inside a value that are followed; behind more of them nobody looks for its end.
const DEPTH: usize = 4;

/// The tags of one way to write parameters.
#[derive(Clone, Copy)]
pub(crate) struct Tags<'m> {
    /// The name of the tag around a value: `parameter`, `arg_value`.
    pub(crate) value: &'m str,
    /// The name of the tag that the next parameter begins with: `parameter`, `arg_key`.
    pub(crate) next: &'m str,
    /// Whether the tool is known, and has a parameter of this name.
    pub(crate) is_parameter: &'m dyn Fn(&Tag<'_>) -> bool,
}

/// Where a value ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    /// After its last byte.
    pub(crate) value: usize,
    /// Where reading goes on.
    pub(crate) next: usize,
    /// Whether its own closing tag is there.
    pub(crate) is_closed: bool,
}

/// Tags of calls, whose closings models slip into the end of a value.
const FOREIGN: [&str; 8] =
    ["arg_key", "arg_value", "parameter", "param", "argument", "invoke", "function", "tool_call"];
/// Tags at the end of a value that are taken off.
const STRAYS: usize = 4;

/// A value without closing tags of other parts of a call at its very end: those that follow its text without a blank, and that
/// it has not opened itself. `own` is its own closing tag.
pub(crate) fn without_stray<'a>(value: &'a str, own: &str) -> &'a str {
    let mut value = value;
    for taken in 0..STRAYS {
        // Behind its own closing another one stands: neither is a part of the text.
        match stray(value, if taken == 0 { own } else { "" }) {
            Some(before) => value = before,
            None => break,
        }
    }
    value
}

/// What stands before a stray closing tag at the end of a value.
fn stray<'a>(value: &'a str, own: &str) -> Option<&'a str> {
    let written = value.trim_end();
    let (before, tag) = written.split_at_checked(written.rfind("</").filter(|_| written.ends_with('>'))?)?;
    let name = tag.get(2..tag.len() - 1).filter(|name| FOREIGN.contains(name) && tag != own)?;
    let is_glued = before.ends_with(|c: char| !c.is_whitespace() && !"`\"'([{<".contains(c));
    let is_opened = before.split('<').skip(1).any(|rest| rest.starts_with(name));
    (is_glued && !is_opened).then_some(before)
}

/// What a tag is to a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Value,
    Next,
    /// A call, or what wraps calls.
    Call,
}

/// What follows a closing tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    /// The value's own text: the tag is a part of it.
    Text,
    /// The rest of the call, from a place on.
    Call(usize),
    /// What can be read in two ways.
    Unclear,
}

/// The end of the value that begins here.
pub(crate) fn end(cursor: Cursor<'_, '_>, tags: &Tags<'_>) -> Option<End> {
    // Who sets the value off from its tags by line breaks does so at its end as well.
    let mut first = cursor;
    first.take_while(|c| c == ' ' || c == '\r');
    let is_ever_closed = cursor.find(&format!("</{}>", tags.value)).is_some();
    let by_line = is_ever_closed && first.sees("\n");
    let look = |by_line, nests| search(cursor, tags, is_ever_closed, by_line, nests);
    let lines = by_line.then(|| look(true, true)).flatten().filter(|end| end.is_closed);
    let all = || look(false, true).filter(|end| end.is_closed);
    lines.or_else(|| is_ever_closed.then(all).flatten()).or_else(|| look(false, false))
}

/// Looks for the end: by tags on lines of their own, or by all; with `nests`, any tag of a value opens something, else only
/// that of a parameter the tool has.
fn search(
    cursor: Cursor<'_, '_>,
    tags: &Tags<'_>,
    is_ever_closed: bool,
    by_line: bool,
    nests: bool,
) -> Option<End> {
    let mut open: Vec<Cow<'_, str>> = Vec::new();
    let mut unclosed = None;
    let mut at = cursor;
    while is_ever_closed || unclosed.is_none() {
        at.take_while(|c| c != '<');
        let start = at;
        if at.is_end() {
            return unclosed;
        }
        let Some(tag) = Tag::read(&mut at) else {
            at.next();
            continue;
        };
        let Some(part) = tags.part(&tag) else { continue };
        if tag.is_closing {
            if let Some(depth) = open.iter().rposition(|name| *name == tag.plain()) {
                open.truncate(depth);
                continue;
            }
            if by_line && !(start.begins_line() && at.ends_line()) {
                continue;
            }
            if part == Part::Value {
                match tags.after_value(at) {
                    After::Call(next) => return Some(End { value: value_end(start), next, is_closed: true }),
                    After::Unclear => return None,
                    After::Text => {}
                }
            }
            if part == Part::Call && open.is_empty() && unclosed.is_none() && tags.may_end(start) {
                unclosed = Some(End { value: start.place(), next: start.place(), is_closed: false });
            }
        } else if opens(start, at, by_line) {
            let is_parameter = part != Part::Call && (tags.is_parameter)(&tag);
            if is_parameter && tag.full_name() == tags.next && open.is_empty() && unclosed.is_none() {
                unclosed = Some(End { value: start.place(), next: start.place(), is_closed: false });
            }
            let is_call = part == Part::Call && !tag.is_special;
            if is_call || part == Part::Value && (nests || is_parameter || !open.is_empty()) {
                if open.len() == DEPTH {
                    return unclosed;
                }
                open.push(tag.plain());
            }
        }
    }
    unclosed
}

/// Whether an opening tag opens something, rather than being spoken of: it begins a line, or follows without a blank.
fn opens(start: Cursor<'_, '_>, after: Cursor<'_, '_>, by_line: bool) -> bool {
    if by_line {
        return start.begins_line() && after.ends_line();
    }
    let before = start.line_so_far();
    before.trim().is_empty() || !before.ends_with(char::is_whitespace)
}

/// The end of the value before a closing tag: what marks the tag is no part of it.
fn value_end(closing: Cursor<'_, '_>) -> usize {
    let before = closing.source().slice(closing.place().saturating_sub(NOISE.len()), closing.place());
    if before == NOISE { closing.place() - NOISE.len() } else { closing.place() }
}

impl Tags<'_> {
    fn part(&self, tag: &Tag<'_>) -> Option<Part> {
        let name = tag.full_name();
        if name == self.value {
            return Some(Part::Value);
        }
        if name == self.next {
            return Some(Part::Next);
        }
        is_of_call(tag).then_some(Part::Call)
    }

    /// What follows the closing tag of a value.
    fn after_value(&self, cursor: Cursor<'_, '_>) -> After {
        let mut at = cursor;
        loop {
            let before = at.place();
            skip(&mut at);
            if is_over(at) {
                return After::Call(before);
            }
            let mut after = at;
            let Some(tag) = Tag::read(&mut after) else { return After::Text };
            let goes_on = match self.part(&tag) {
                Some(Part::Value | Part::Next) if tag.is_closing => {
                    // Written twice in one line, it is a slip; on two lines, the first may be the value's own.
                    if at.source().slice(before, at.place()).contains('\n') {
                        return After::Unclear;
                    }
                    at = after;
                    continue;
                }
                Some(Part::Value | Part::Next) => true,
                Some(Part::Call) if tag.is_closing => self.may_end(at),
                Some(Part::Call) => true,
                None => tag.is_special && self.may_end(at),
            };
            return if goes_on { After::Call(before) } else { After::Text };
        }
    }

    /// Whether the call ends here, with the closing tags that follow: not where another closing tag of a value comes, behind
    /// text, that would close this one.
    fn may_end(&self, cursor: Cursor<'_, '_>) -> bool {
        let mut at = cursor;
        loop {
            skip(&mut at);
            let mut after = at;
            match Tag::read(&mut after) {
                Some(tag) if is_of_call(&tag) && tag.is_closing => at = after,
                Some(tag) if is_of_call(&tag) => return true,
                _ => break,
            }
        }
        if is_over(at) {
            return true;
        }
        let closing = format!("</{}>", self.value);
        let Some(stray) = at.find(&closing) else { return true };
        let opens_before = |name| at.find(&format!("<{name}")).is_some_and(|opened| opened < stray);
        if opens_before(self.value) || (self.next != self.value && opens_before(self.next)) {
            return true;
        }
        let mut after = at.moved_to(stray + closing.len());
        skip(&mut after);
        !(after.is_end() || Tag::read(&mut after).is_some_and(|tag| self.part(&tag).is_some()))
    }
}

/// Whether a tag opens or closes a call, or what wraps calls.
fn is_of_call(tag: &Tag<'_>) -> bool {
    let name = tag.plain();
    ["function", "invoke", "invocation"].iter().any(|word| name.starts_with(word))
        || payload::is_wrapper(&name)
}

/// Whether nothing follows but the end of the fence that may be around it all.
fn is_over(cursor: Cursor<'_, '_>) -> bool {
    let mut at = cursor;
    at.eat("```");
    at.skip_blank();
    at.is_end()
}
