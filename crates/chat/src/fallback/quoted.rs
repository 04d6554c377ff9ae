//! Calls that a text only speaks of: quoted, refused, in a table, as an example within a sentence.
//!
//! A call counts where it is set off from prose: on a line of its own, in a fence, in a tag. JSON without any mark counts on
//! lines of its own alone, or as one of several in a row. A tag counts unless a sentence goes on around it. In a row of a
//! table, behind the mark of a quoted line and in HTML that quotes (`html.rs`) nothing counts. Tokens, which no prose holds,
//! always count elsewhere. Invariant: only signs and line breaks decide, in any language; no word does.

use super::Pattern;
use super::scan::{Found, Item};
use super::source::Cursor;

/// The calls that stand here, unless the text only speaks of them.
pub(crate) fn or_call(cursor: Cursor<'_, '_>, item: Item) -> Found {
    let after = cursor.moved_to(item.span.end);
    let is_token = ["<|", "<｜", "[TOOL", ">>>", "]<]"].iter().any(|mark| cursor.sees(mark));
    let is_spoken_of = match item.pattern {
        _ if is_token => false,
        _ if is_in_table_or_quote(cursor) => true,
        Some(Pattern::Json | Pattern::JsonInText) => !is_set_off(cursor, after),
        _ => (cursor.sees("<") || cursor.sees("functools")) && is_within_sentence(cursor, after),
    };
    if is_spoken_of { Found::Skip(item.span.end) } else { Found::Item(item) }
}

/// Whether JSON stands on lines of its own, or in a row with other calls.
fn is_set_off(cursor: Cursor<'_, '_>, after: Cursor<'_, '_>) -> bool {
    let source = cursor.source();
    let edge = source.edge();
    let follows_another = edge > 0 && source.slice(edge, cursor.place()).trim().is_empty();
    let is_separated = source.slice(cursor.place(), after.place()).trim_end().ends_with([',', ';']);
    let mut next = after;
    next.take_while(|c| c == ' ');
    let precedes_another = next.sees("{");
    follows_another
        || (is_separated && precedes_another)
        || (cursor.begins_line() && (precedes_another || after.ends_line()))
}

fn is_in_table_or_quote(cursor: Cursor<'_, '_>) -> bool {
    let before = cursor.line_begin();
    before.starts_with('|') || (before.starts_with('>') && !before.starts_with(">>>"))
}

/// Whether a sentence goes on around what stands here: it is in quotes or brackets; or a stop follows it that is not its own; or
/// words stand on both sides, and the second ones begin no sentence.
pub(crate) fn is_within_sentence(cursor: Cursor<'_, '_>, after: Cursor<'_, '_>) -> bool {
    let Some(before) = cursor.line_so_far().trim_end().chars().next_back() else { return false };
    if OPENING.contains(before) {
        return true;
    }
    let mut behind = after;
    behind.take_while(|c| c == ' ' || c == '\t');
    let Some(next) = behind.peek().filter(|c| *c != '\n' && *c != '\r') else { return false };
    if CLOSING.contains(next) {
        return true;
    }
    let has_stop = STOPS.contains(before);
    !has_stop && next.is_alphanumeric() && !next.is_uppercase()
}

/// Whether a tag behind a blank is a word of a sentence.
pub(crate) fn is_spoken_of(cursor: Cursor<'_, '_>, after: Cursor<'_, '_>) -> bool {
    cursor.line_so_far().ends_with(char::is_whitespace) && is_within_sentence(cursor, after)
}

/// Whether quotes or brackets stand on both sides at once.
pub(crate) fn is_in_quotes(cursor: Cursor<'_, '_>, after: Cursor<'_, '_>) -> bool {
    let opens = cursor.line_so_far().ends_with(|c| OPENING.contains(c));
    opens && after.peek().is_some_and(|c| CLOSING.contains(c))
}

/// What opens a quotation or a bracket.
const OPENING: &str = "\"'“„”‘‚«»‹›「『（(";
/// What a sentence has behind its words.
const CLOSING: &str = ".,;:!?…)]\"'”“’»«›」』）】。、，；：！？—–-";
/// What ends a sentence, or announces something.
const STOPS: &str = ".:!?…。：！？";
