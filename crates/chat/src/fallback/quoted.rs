//! Calls that a text only speaks of: quoted, refused, in a table, as an example within a sentence.
//!
//! A call counts where it is set off from prose: on a line of its own, in a fence, in a tag. JSON without any mark counts on
//! lines of its own alone, or as one of several in a row. A tag counts unless a sentence goes on around it. In a row of a
//! table and behind the mark of a quoted line nothing counts. Tokens, which no prose holds, always count. Invariant: only
//! signs and line breaks decide, in any language; no word does.

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
        _ => cursor.sees("<") && is_within_sentence(cursor, after),
    };
    if is_spoken_of { Found::Skip(item.span.end) } else { Found::Item(item) }
}

/// Whether JSON stands on lines of its own, or in a row with other calls.
fn is_set_off(cursor: Cursor<'_, '_>, after: Cursor<'_, '_>) -> bool {
    let source = cursor.source();
    let follows_another = source.edge() > 0 && source.edge() == cursor.place();
    let precedes_another = after.sees("{");
    follows_another || precedes_another || (cursor.begins_line() && after.ends_line())
}

fn is_in_table_or_quote(cursor: Cursor<'_, '_>) -> bool {
    let before = cursor.line_begin();
    before.starts_with('|') || (before.starts_with('>') && !before.starts_with(">>>"))
}

/// Whether a sentence goes on around what stands here: a word or a quote before it on its line, and behind it a small letter,
/// the quote, or what ends a sentence or a part of it.
pub(crate) fn is_within_sentence(cursor: Cursor<'_, '_>, after: Cursor<'_, '_>) -> bool {
    let Some(before) = cursor.line_so_far().trim_end().chars().next_back() else { return false };
    let mut behind = after;
    behind.take_while(|c| c == ' ' || c == '\t');
    let Some(next) = behind.peek() else { return false };
    let is_quote = |c: char| matches!(c, '"' | '\'' | '“' | '”' | '«' | '»' | '(' | ')');
    if is_quote(before) {
        return is_quote(next);
    }
    let goes_on = next.is_lowercase() || matches!(next, '.' | ',' | ';' | ':' | '?' | '!' | ')');
    (before.is_alphanumeric() || before == ',') && goes_on
}
