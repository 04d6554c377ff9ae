//! Beneath the parser and the checker: from a byte offset in a GBNF text to a line, a column and an excerpt.
//! Invariant: never fails, whatever the offset, and shows no control character of the text.

use crate::Place;

/// Longest part of a line shown in an excerpt, in code points.
const WINDOW: usize = 90;

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
    let offset = (0..=offset.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let (line, column) = position(text, offset);
    let start = text.get(..offset).and_then(|t| t.rfind(['\n', '\r'])).map_or(0, |at| at + 1);
    let rest = text.get(start..).unwrap_or_default();
    let content = rest.split(['\n', '\r']).next().unwrap_or_default();

    let caret = column - 1;
    let skip = caret.saturating_sub(WINDOW * 2 / 3);
    let mut shown: String = content.chars().skip(skip).take(WINDOW).map(visible).collect();
    let mut indent = caret - skip;
    if skip > 0 {
        shown.insert(0, '…');
        indent += 1;
    }
    if content.chars().nth(skip + WINDOW).is_some() {
        shown.push('…');
    }
    let number = line.to_string();
    let margin = " ".repeat(number.len());
    format!("{margin} |\n{number} | {}\n{margin} | {}^", shown.trim_end(), " ".repeat(indent))
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
    pub(crate) fn place(&mut self, offset: usize) -> Place {
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
        Place::Line { line: self.line, column: self.column }
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
            assert_eq!(Locator::new(text).place(offset), Place::Line { line, column }, "{needle}");
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
        assert!(shown.lines().all(|line| line.chars().count() < 100), "{shown}");
    }

    #[test]
    fn control_characters_are_not_shown() {
        assert!(!excerpt("a \u{1b}[31m b", 0).contains('\u{1b}'));
    }
}
