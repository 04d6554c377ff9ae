//! Beneath the parser and the checker: from a byte offset in a GBNF text to a line, a column and an excerpt.
//! Invariant: never fails, whatever the offset, and shows no control character of the text.

use crate::Place;

/// What an excerpt shows of a line before and after the caret, in code points.
const BEFORE: usize = 60;
const AFTER: usize = 40;

/// Where the byte at `offset` is: one-based line, one-based column in code points.
pub(crate) fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let mut line = 1;
    let mut start = 0;
    let mut previous = 0u8;
    for (at, byte) in before.bytes().enumerate() {
        // "\r\n" is one line break: its second half moves the start of the line without counting again.
        if byte == b'\n' || byte == b'\r' {
            line += usize::from(!(byte == b'\n' && previous == b'\r'));
            start = at + 1;
        }
        previous = byte;
    }
    (line, before.get(start..).unwrap_or_default().chars().count() + 1)
}

/// The same as a [`Place`].
pub(crate) fn place(text: &str, offset: usize) -> Place {
    let (line, column) = position(text, offset);
    Place::Line { line, column }
}

/// The line around `offset` with a caret under it, as compilers show it; long lines are cut around the caret.
pub(crate) fn excerpt(text: &str, offset: usize) -> String {
    let offset = boundary(text, offset);
    let (line, column) = position(text, offset);
    excerpt_at(text, offset, line, column)
}

/// The same where line and column are known. Looks at the neighbourhood of `offset` alone, however long the line.
fn excerpt_at(text: &str, offset: usize, line: usize, column: usize) -> String {
    let near =
        |from: usize, to: usize| text.get(boundary(text, from)..boundary(text, to)).unwrap_or_default();
    let before = near(offset.saturating_sub(BEFORE * char::MAX.len_utf8()), offset);
    let before: Vec<char> = before.rsplit(['\n', '\r']).next().unwrap_or_default().chars().collect();
    let before = before.get(before.len().saturating_sub(BEFORE)..).unwrap_or_default();
    let after = near(offset, offset.saturating_add((AFTER + 1) * char::MAX.len_utf8()));
    let mut after = after.split(['\n', '\r']).next().unwrap_or_default().chars();

    let mut shown = String::new();
    let mut indent = before.len();
    if column > before.len() + 1 {
        shown.push('…');
        indent += 1;
    }
    shown.extend(before.iter().copied().map(visible));
    shown.extend(after.by_ref().take(AFTER).map(visible));
    if after.next().is_some() {
        shown.push('…');
    }
    let number = line.to_string();
    let margin = " ".repeat(number.len());
    format!("{margin} |\n{number} | {}\n{margin} | {}^", shown.trim_end(), " ".repeat(indent))
}

/// The last character boundary up to `offset`.
fn boundary(text: &str, offset: usize) -> usize {
    (0..=offset.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// A tab takes one column here, and a terminal never sees an escape sequence of the text.
fn visible(c: char) -> char {
    match c {
        '\t' => ' ',
        c if c.is_control() => '\u{FFFD}',
        c => c,
    }
}

/// Many places of one text, asked for in roughly ascending order: each look-up goes on from the last one, so that
/// a thousand warnings about one long line do not count its characters a thousand times.
pub(crate) struct Locator<'t> {
    text: &'t str,
    offset: usize,
    line: usize,
    column: usize,
}

impl<'t> Locator<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        Self { text, offset: 0, line: 1, column: 1 }
    }

    /// Where `offset` is, and the excerpt around it.
    pub(crate) fn locate(&mut self, offset: usize) -> (Place, String) {
        if offset < self.offset {
            (self.offset, self.line, self.column) = (0, 1, 1);
        }
        let between = self.text.get(self.offset..offset).unwrap_or_default();
        let mut chars = between.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '\r' if chars.peek() == Some(&'\n') => {}
                '\n' | '\r' => (self.line, self.column) = (self.line + 1, 1),
                _ => self.column += 1,
            }
        }
        self.offset = offset;
        let place = Place::Line { line: self.line, column: self.column };
        (place, excerpt_at(self.text, offset, self.line, self.column))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_lines_by_any_line_break_and_columns_by_code_point() {
        let text = "a\r\nbé→c\rd\n\ne";
        for (needle, line, column) in [('a', 1, 1), ('b', 2, 1), ('c', 2, 4), ('d', 3, 1), ('e', 5, 1)] {
            let offset = text.find(needle).unwrap_or_default();
            assert_eq!(position(text, offset), (line, column), "{needle}");
            let (place, shown) = Locator::new(text).locate(offset);
            assert_eq!((place, shown), (Place::Line { line, column }, excerpt(text, offset)), "{needle}");
        }
    }

    #[test]
    fn an_offset_beyond_the_end_is_the_end() {
        assert_eq!(position("ab", 9), (1, 3));
        assert_eq!(excerpt("ab", 9), "  |\n1 | ab\n  |   ^");
    }

    #[test]
    fn a_long_line_is_cut_around_the_caret() {
        let text = "x".repeat(500);
        let shown = excerpt(&text, 250);
        let caret = shown.lines().nth(2).map(|line| line.chars().count());
        assert_eq!(caret, Some(4 + 1 + 60 + 1));
        assert!(shown.lines().all(|line| line.chars().count() < 110), "{shown}");
    }

    #[test]
    fn control_characters_are_not_shown() {
        assert!(!excerpt("a \u{1b}[31m b", 0).contains('\u{1b}'));
    }
}
