//! Marks that a model writes around what it says: tokens that end turns, open roles and wrap answers. They are no content.
//!
//! Invariant: what stands between bars, as tokens do, is a mark wherever it stands; any other only where no prose has it.

use super::source::Cursor;
use super::tag::Tag;

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
/// Marks with a bar on one side alone; other such words may be code.
const ONE_BAR: [&str; 10] = [
    "channel",
    "tool",
    "tool_call",
    "tool_response",
    "turn",
    "think",
    "image",
    "audio",
    "start_of_turn",
    "end_of_turn",
];
/// Marks without bars that no prose holds.
const PLAIN: [&str; 10] = [
    "start_of_turn",
    "end_of_turn",
    "start_function_response",
    "eos",
    "bos",
    "eot",
    "pad",
    "sop",
    "seed:eos",
    "seed:bos",
];
/// Marks in brackets that no prose holds.
const BRACKETS: [&str; 4] = ["[gMASK]", "[e~[", "]~b]ai", "]~!b["];
/// Marks that a role follows.
const ROLES: [&str; 5] = ["im_start", "start", "turn", "start_of_turn", "from"];
/// Longest name of a mark, in bytes.
const NAME: usize = 64;

/// Past the tokens that end a turn after its calls, if there are any.
pub(crate) fn after_end_of_turn(cursor: Cursor<'_, '_>) -> usize {
    let (mut at, mut end) = (cursor, cursor.place());
    loop {
        at.skip_blank();
        if !at.sees("<") || at.eat_any(&ENDS).is_none() {
            return end;
        }
        end = at.place();
    }
}

/// The place after the mark that stands here, and after the role that belongs to it.
pub(crate) fn after(cursor: Cursor<'_, '_>) -> Option<usize> {
    if cursor.sees("</s>") || cursor.sees("<s>") {
        return edge_of_text(cursor);
    }
    let mut at = cursor;
    if at.eat_any(&BRACKETS).is_some() {
        return Some(at.place());
    }
    let tag = Tag::read(&mut at)?;
    let body = cursor.source().slice(cursor.place() + 1, at.place().saturating_sub(1));
    if !is_mark(&tag, body) {
        return None;
    }
    match tag.name {
        "start_header_id" => after_role(at, "<|end_header_id|>"),
        "header_start" => after_role(at, "<|header_end|>"),
        "start_of_role" => after_role(at, "<|end_of_role|>"),
        "open" | "close" => after_role(at, "<|sep|>"),
        name if ROLES.contains(&name) && !tag.is_closing => after_role(at, "\n"),
        _ => None,
    }
    .or(Some(at.place()))
}

fn is_mark(tag: &Tag<'_>, body: &str) -> bool {
    let is_name =
        |c: char| c.is_alphanumeric() || matches!(c, '_' | '▁' | '-' | '.' | ':' | '/' | '"' | '|' | '｜');
    if body.len() > NAME || !body.chars().all(is_name) {
        return false;
    }
    match (body.starts_with(['|', '｜']), body.ends_with(['|', '｜'])) {
        (true, true) => body.len() > 2,
        (false, false) => PLAIN.contains(&tag.name),
        _ => ONE_BAR.contains(&tag.name),
    }
}

/// Past a word and what closes it.
fn after_role(cursor: Cursor<'_, '_>, closing: &str) -> Option<usize> {
    let mut at = cursor;
    let mut left = 32_usize;
    at.take_while(|c| {
        left = left.saturating_sub(1);
        left > 0 && (c.is_alphanumeric() || matches!(c, '_' | '-' | ' ' | '=' | '"'))
    });
    (at.place() > cursor.place() && at.eat(closing)).then(|| at.place())
}

/// Past a mark that opens or closes the whole text: in the middle of it, it is a tag of HTML.
fn edge_of_text(cursor: Cursor<'_, '_>) -> Option<usize> {
    let mut at = cursor;
    if at.eat("<s>") {
        return cursor.source().slice(0, cursor.place()).trim().is_empty().then(|| at.place());
    }
    let end = after_end_of_turn(cursor);
    let mut rest = cursor.moved_to(end);
    rest.skip_blank();
    rest.is_end().then_some(end)
}
