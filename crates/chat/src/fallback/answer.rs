//! What a model writes before or around its answer, which is no part of it.

use super::scan::{Found, Item, Scan};
use super::source::Cursor;
use super::{bare, marks, mistral};
use crate::spec::ToolSpec;

impl Scan {
    /// What only begins an answer, where nothing was said yet: a call whose first token was lost, or whom it is for.
    pub(super) fn opening(&self, cursor: Cursor<'_, '_>, tools: &[ToolSpec]) -> Found {
        let mut at = cursor;
        if self.has_spoken {
            return Found::Text;
        }
        at.skip_blank();
        match mistral::unmarked(at, tools) {
            Some(item) => Found::Item(item),
            None => bare::for_all(at),
        }
    }

    /// The tag around an answer that follows reasoning, or its end.
    pub(super) fn answer_tag(&mut self, cursor: Cursor<'_, '_>) -> Option<Found> {
        let mut at = cursor;
        if self.wrapper.is_some_and(|closing| at.eat(closing)) {
            self.wrapper = None;
        } else if self.has_reasoned && !self.has_spoken && at.eat("<response>") {
            self.wrapper = Some("</response>");
        } else {
            return None;
        }
        Some(Found::Item(Item::mark(cursor.place(), at.place())))
    }

    /// The tag that opens an answer and is closed where the text ends: it wraps all of it.
    pub(super) fn whole_answer(&mut self, cursor: Cursor<'_, '_>) -> Option<Found> {
        let tags = [("<answer>", "</answer>"), ("<response>", "</response>")];
        let mut at = cursor;
        let (_, closing) = tags.into_iter().find(|(opening, _)| !self.has_spoken && at.eat(opening))?;
        let mut rest = at;
        rest.take_until(closing)?;
        let mut rest = rest.moved_to(marks::after_end_of_turn(rest));
        rest.skip_blank();
        if !rest.is_end() || rest.source().looked_past() {
            return None;
        }
        self.wrapper = Some(closing);
        Some(Found::Item(Item::mark(cursor.place(), at.place())))
    }
}
