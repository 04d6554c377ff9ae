//! Text to be read, with the one fact a stream needs: whether a decision looked past what has arrived.
//!
//! Invariant: a reader that leaves [`Source::looked_past`] unset decides the same whatever follows. Every look at the text
//! goes through a [`Cursor`], and every byte looked at costs fuel, so that reading is linear whatever the text.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

/// Looks that are paid for each byte of text: ordinary texts take two or three, floods of marks some twenty.
const FUEL_PER_BYTE: u64 = 64;
/// Needles whose next place is remembered.
const REMEMBERED: usize = 48;
/// Bytes of a line that are looked back at.
const LINE: usize = 1024;

/// A text, or the part of it that has arrived.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    text: &'a str,
    /// Whether nothing more will come.
    whole: bool,
    looked_past: Cell<bool>,
    fuel: Cell<u64>,
    places: RefCell<Vec<Place>>,
    /// Where the last part ended that is no content; a line begins there as well.
    edge: Cell<usize>,
    /// Whether reasoning was seen to begin or end.
    has_reasoned: Cell<bool>,
    /// Whether headers of messages were seen whose tokens are gone.
    is_stripped: Cell<bool>,
    /// Brackets that are known to open nothing that can be read.
    /// With each, whether more text could change that.
    hopeless: RefCell<HashMap<usize, bool>>,
    /// The first place from which on no string closes, for either quote.
    unclosed: [Cell<usize>; 2],
    /// Up to where line breaks were looked for, and where the line of that place begins.
    line: Cell<(usize, usize)>,
}

/// Where a needle was found when looked for from `from` on.
#[derive(Debug)]
struct Place {
    needle: String,
    from: usize,
    found: Option<usize>,
}

impl<'a> Source<'a> {
    pub(crate) fn new(text: &'a str, whole: bool) -> Self {
        let fuel = (text.len() as u64 + 1024).saturating_mul(FUEL_PER_BYTE);
        Self {
            text,
            whole,
            looked_past: Cell::new(false),
            fuel: Cell::new(fuel),
            places: RefCell::default(),
            edge: Cell::new(0),
            has_reasoned: Cell::new(false),
            is_stripped: Cell::new(false),
            hopeless: RefCell::default(),
            unclosed: [Cell::new(usize::MAX), Cell::new(usize::MAX)],
            line: Cell::default(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.text.len()
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.whole
    }

    /// Whether a decision since the last [`reset`](Self::reset) would look at bytes that have not arrived.
    pub(crate) fn looked_past(&self) -> bool {
        self.looked_past.get() && !self.whole
    }

    /// Whether a decision since the last [`reset`](Self::reset) reached the end of the text, be it the whole text or not.
    pub(crate) fn reached_end(&self) -> bool {
        self.looked_past.get()
    }

    pub(crate) fn reset(&self) {
        self.looked_past.set(false);
    }

    /// The bytes looked at so far.
    pub(crate) fn spent(&self) -> u64 {
        (self.text.len() as u64 + 1024).saturating_mul(FUEL_PER_BYTE).saturating_sub(self.fuel.get())
    }

    /// Whether so much was read over and over that reading must end.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.fuel.get() == 0
    }

    pub(crate) fn at(&self, at: usize) -> Cursor<'_, 'a> {
        Cursor { source: self, at }
    }

    /// `text[start..end]`, empty for places that are none.
    pub(crate) fn slice(&self, start: usize, end: usize) -> &'a str {
        self.text.get(start..end).unwrap_or_default()
    }

    /// The last place up to which the text from `from` on cannot hold the beginning of `mark`.
    pub(crate) fn before_partial(&self, from: usize, mark: &str) -> usize {
        if self.whole {
            return self.text.len();
        }
        let rest = self.slice(from, self.text.len());
        let partial = (1..mark.len()).rev().find(|&n| mark.get(..n).is_some_and(|head| rest.ends_with(head)));
        self.text.len() - partial.unwrap_or(0)
    }

    /// Where the last part ended that is no content.
    pub(crate) fn edge(&self) -> usize {
        self.edge.get()
    }

    /// Notes that a part that is no content ends here.
    pub(crate) fn set_edge(&self, at: usize) {
        self.edge.set(at);
    }

    /// Whether reasoning was seen to begin or end.
    pub(crate) fn has_reasoned(&self) -> bool {
        self.has_reasoned.get()
    }

    /// Notes whether reasoning was seen to begin or end.
    pub(crate) fn set_reasoned(&self, has_reasoned: bool) {
        self.has_reasoned.set(has_reasoned);
    }

    /// Whether headers of messages were seen whose tokens are gone.
    pub(crate) fn is_stripped(&self) -> bool {
        self.is_stripped.get()
    }

    /// Notes that a header was seen whose tokens are gone.
    pub(crate) fn note_stripped(&self) {
        self.is_stripped.set(true);
    }

    /// Whether the bracket here was read before, in vain.
    pub(crate) fn is_hopeless(&self, at: usize) -> bool {
        let Some(looked_past) = self.hopeless.borrow().get(&at).copied() else { return false };
        if looked_past {
            self.looked_past.set(true);
        }
        true
    }

    /// Notes that nothing can be read from the bracket here, whatever stands around it.
    pub(crate) fn note_hopeless(&self, at: usize) {
        self.hopeless.borrow_mut().insert(at, self.looked_past.get());
    }

    /// Whether a string that begins here is known to have no end.
    pub(crate) fn never_closes(&self, quote: char, at: usize) -> bool {
        let never = self.unclosed.get(usize::from(quote == '"')).is_some_and(|from| from.get() <= at);
        // What may still come could close it.
        if never {
            self.looked_past.set(true);
        }
        never
    }

    /// Notes that a string that begins here has no end.
    pub(crate) fn note_unclosed(&self, quote: char, at: usize) {
        if let Some(from) = self.unclosed.get(usize::from(quote == '"')) {
            from.set(from.get().min(at));
        }
    }

    #[inline]
    fn spend(&self, bytes: usize) {
        self.fuel.set(self.fuel.get().saturating_sub(bytes as u64));
    }
}

/// A place in a [`Source`], to read on from; cheap to copy, so going back is keeping a copy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'s, 'a> {
    source: &'s Source<'a>,
    at: usize,
}

impl<'s, 'a> Cursor<'s, 'a> {
    pub(crate) fn place(&self) -> usize {
        self.at
    }

    pub(crate) fn source(&self) -> &'s Source<'a> {
        self.source
    }

    pub(crate) fn moved_to(&self, at: usize) -> Self {
        Self { source: self.source, at }
    }

    /// What is left; reading from it directly is not noticed.
    fn rest(&self) -> &'a str {
        self.source.text.get(self.at..).unwrap_or_default()
    }

    #[inline]
    pub(crate) fn peek(&self) -> Option<char> {
        let next = self.rest().chars().next();
        if next.is_none() {
            self.source.looked_past.set(true);
        }
        self.source.spend(1);
        next.filter(|_| !self.source.is_exhausted())
    }

    pub(crate) fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        Some(next)
    }

    pub(crate) fn is_end(&self) -> bool {
        self.peek().is_none()
    }

    /// The next `bytes` of the text, or as many as there are up to a character's end; asking for more is left to
    /// [`needs`](Self::needs).
    pub(crate) fn window(&self, bytes: usize) -> &'a str {
        let rest = self.rest();
        let end = rest.floor_char_boundary(bytes);
        self.source.spend(end / 8 + 1);
        rest.get(..end).unwrap_or_default()
    }

    /// Notes that a decision here takes the next `bytes`.
    pub(crate) fn needs(&self, bytes: usize) {
        if self.rest().len() < bytes {
            self.source.looked_past.set(true);
        }
    }

    /// Whether nothing but blanks stands before this place on its line, or since the last part that is no content.
    pub(crate) fn begins_line(&self) -> bool {
        let edge = self.source.edge().min(self.at);
        let before = self.source.slice(edge, self.at);
        let blanks = before.len() - before.trim_end_matches(|c: char| c != '\n' && c.is_whitespace()).len();
        self.source.spend(blanks + 1);
        before.get(..before.len() - blanks).is_some_and(|before| before.is_empty() || before.ends_with('\n'))
    }

    /// Whether nothing but blanks follows on this line, or a tag does.
    pub(crate) fn ends_line(&self) -> bool {
        let mut after = *self;
        after.take_while(|c| c != '\n' && c.is_whitespace());
        after.is_end() || after.sees("\n") || after.sees("<")
    }

    /// What stands on this line before this place, since the last part that is no content; the end of it, where it is long.
    pub(crate) fn line_so_far(&self) -> &'a str {
        let edge = self.source.edge().min(self.at);
        let from = self.source.text.floor_char_boundary(edge.max(self.at.saturating_sub(LINE)));
        let before = self.source.slice(from, self.at);
        self.source.spend(before.len() / 8 + 1);
        before.rfind('\n').and_then(|at| before.get(at + 1..)).unwrap_or(before)
    }

    /// The first characters of the line that this place is on, blanks left out.
    pub(crate) fn line_begin(&self) -> &'a str {
        let (seen, start) = self.source.line.get();
        let (seen, start) = if seen <= self.at { (seen, start) } else { (0, 0) };
        let new = self.source.slice(seen, self.at);
        self.source.spend(new.len() / 8 + 1);
        let start = new.rfind('\n').map_or(start, |at| seen + at + 1);
        self.source.line.set((self.at, start));
        let line = self.source.slice(start, self.at);
        line.get(..line.floor_char_boundary(LINE)).unwrap_or_default().trim_start()
    }

    /// Whether `literal` stands here.
    #[inline]
    pub(crate) fn sees(&self, literal: &str) -> bool {
        let rest = self.rest();
        self.source.spend(1);
        if rest.starts_with(literal) {
            return true;
        }
        if rest.len() < literal.len() && literal.starts_with(rest) {
            self.source.looked_past.set(true);
        }
        false
    }

    /// Steps over `literal` if it stands here.
    #[inline]
    pub(crate) fn eat(&mut self, literal: &str) -> bool {
        let sees = self.sees(literal);
        if sees {
            self.at += literal.len();
        }
        sees
    }

    /// Steps over the first of `literals` that stands here.
    pub(crate) fn eat_any<'l>(&mut self, literals: &[&'l str]) -> Option<&'l str> {
        literals.iter().copied().find(|literal| self.eat(literal))
    }

    pub(crate) fn take_while(&mut self, mut wanted: impl FnMut(char) -> bool) -> &'a str {
        let rest = self.rest();
        let length = rest.find(|c| !wanted(c)).unwrap_or_else(|| {
            self.source.looked_past.set(true);
            rest.len()
        });
        self.source.spend(length + 1);
        self.at += length;
        rest.get(..length).unwrap_or_default()
    }

    #[inline]
    pub(crate) fn skip_blank(&mut self) {
        // Most places hold no blank.
        if self.rest().as_bytes().first().is_some_and(u8::is_ascii_graphic) {
            return self.source.spend(1);
        }
        self.take_while(char::is_whitespace);
    }

    /// The next place of `needle` from here on.
    pub(crate) fn find(&self, needle: &str) -> Option<usize> {
        let mut places = self.source.places.borrow_mut();
        let known = places.iter().position(|place| place.needle == needle);
        if let Some(place) = known.and_then(|i| places.get_mut(i)) {
            let still = place.from <= self.at && place.found.is_none_or(|found| found >= self.at);
            if !still {
                place.from = self.at;
                place.found = self.search(needle);
            }
            let found = place.found;
            self.note(found);
            return found;
        }
        let found = self.search(needle);
        if places.len() < REMEMBERED {
            places.push(Place { needle: needle.to_owned(), from: self.at, found });
        }
        self.note(found);
        found
    }

    /// What stands between here and the next `needle`, stepping past it.
    pub(crate) fn take_until(&mut self, needle: &str) -> Option<&'a str> {
        let found = self.find(needle)?;
        let taken = self.source.slice(self.at, found);
        self.at = found + needle.len();
        Some(taken)
    }

    fn search(&self, needle: &str) -> Option<usize> {
        if self.source.is_exhausted() {
            return None;
        }
        let rest = self.rest();
        let found = rest.find(needle);
        // A search is many times faster than reading character by character.
        self.source.spend(found.unwrap_or(rest.len()) / 8 + 1);
        found.map(|found| self.at + found)
    }

    fn note(&self, found: Option<usize>) {
        if found.is_none() {
            self.source.looked_past.set(true);
        }
    }
}
