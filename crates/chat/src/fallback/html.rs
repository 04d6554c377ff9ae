//! Elements of HTML that quote what they hold: comments, preformatted text, cells of a table. A call inside is spoken of.
//!
//! Invariant: an element that is never closed quotes nothing.

use super::quoted;
use super::scan::{Found, Item};
use super::source::{Cursor, Source};
use super::tag::Tag;

/// How such elements open, and what closes each.
const ELEMENTS: [(&str, &str); 7] = [
    ("<!--", "-->"),
    ("<pre", "</pre>"),
    ("<code", "</code>"),
    ("<samp", "</samp>"),
    ("<blockquote", "</blockquote>"),
    ("<td", "</td>"),
    ("<th", "</th>"),
];

/// The element that is open, by its place in the list.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Quote(Option<usize>);

impl Quote {
    /// What is open behind the mark here, which is text.
    pub(super) fn behind(self, cursor: Cursor<'_, '_>) -> Self {
        match (cursor.peek(), self.0) {
            (Some('<'), None) => Self(ELEMENTS.iter().position(|(opening, _)| opens(cursor, opening))),
            (Some('<' | '>'), Some(open)) => {
                let closes = ELEMENTS.get(open).is_some_and(|(_, closing)| closes(cursor, closing));
                Self(self.0.filter(|_| !closes))
            }
            _ => self,
        }
    }

    /// The calls of an item, or text where the element around them is closed behind them.
    pub(super) fn or_call(self, source: &Source<'_>, item: Item) -> Found {
        let Some((opening, closing)) = self.0.and_then(|open| ELEMENTS.get(open)) else {
            return Found::Item(item);
        };
        let after = source.at(item.span.end);
        // Where it opens once more before, the first one was not closed.
        let quotes = after.find(closing).is_some_and(|end| after.find(opening).is_none_or(|next| end < next));
        if quotes { Found::Skip(item.span.end) } else { Found::Item(item) }
    }
}

/// Whether an element's closing begins here, or ends with the angle here: that of a comment begins with no mark.
fn closes(cursor: Cursor<'_, '_>, closing: &str) -> bool {
    let end = cursor.place() + 1;
    cursor.sees(closing) || cursor.source().slice(end.saturating_sub(closing.len()), end) == closing
}

/// Whether an element opens here, rather than being spoken of.
fn opens(cursor: Cursor<'_, '_>, opening: &str) -> bool {
    if !cursor.sees(opening) || opening == "<!--" {
        return cursor.sees(opening);
    }
    let mut after = cursor;
    let is_it = Tag::read(&mut after).is_some_and(|tag| Some(tag.name) == opening.strip_prefix('<'));
    is_it && !quoted::is_spoken_of(cursor, after)
}
