//! Files as text, between bytes and tools: makes the shown text of a file, and finds the bytes behind a shown
//! text. Knows no paths and no grants.
//!
//! Invariant: a shown text can be given back. Each piece of the text stands for its own bytes. Bytes outside
//! of a replaced piece stay as they are.

mod encoding;
mod lines;
mod piece;
mod splice;

pub(crate) use encoding::Encoding;
pub(crate) use lines::{ended, normal};
pub(crate) use piece::{Missed, Piece};
pub(crate) use splice::Unwritable;

use std::borrow::Cow;
use std::collections::HashSet;

use crate::output;

/// A file as text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Text<'b> {
    bytes: &'b [u8],
    encoding: Encoding,
    /// Length of the byte order mark, which is no part of the text.
    mark: usize,
}

/// The form of a shown text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The text as it is, with its own line ends.
    Own,
    /// The text with `\n` for every line end.
    Lines,
    /// The same with invisible characters escaped, as models see it.
    Spelled,
}

impl<'b> Text<'b> {
    /// The text of a file of these bytes; nothing for one that is no text.
    pub(crate) fn of(bytes: &'b [u8]) -> Option<Self> {
        let (encoding, mark) = Encoding::of(bytes)?;
        Some(Self { bytes, encoding, mark })
    }

    /// Other bytes of the same file.
    pub(crate) fn other<'o>(&self, bytes: &'o [u8]) -> Text<'o> {
        Text { bytes, encoding: self.encoding, mark: 0 }
    }

    /// A file in place of this one.
    pub(crate) fn instead<'o>(&self, bytes: &'o [u8]) -> Text<'o> {
        Text { bytes, ..*self }
    }

    /// Length of the byte order mark.
    pub(crate) fn mark_len(&self) -> usize {
        self.mark
    }

    /// A text for this file without the byte order mark that the file has already.
    pub(crate) fn unmarked<'t>(&self, text: &'t str) -> &'t str {
        text.strip_prefix('\u{feff}').filter(|_| self.mark > 0).unwrap_or(text)
    }

    /// Whether ASCII takes more than a byte.
    pub(crate) fn is_wide(&self) -> bool {
        matches!(self.encoding, Encoding::Utf16Le | Encoding::Utf16Be)
    }

    /// Its encoding; nothing for UTF-8.
    pub(crate) fn encoding(&self) -> Option<&'static str> {
        (self.encoding != Encoding::Utf8).then(|| self.encoding.name())
    }

    fn body(&self) -> &'b [u8] {
        self.bytes.get(self.mark..).unwrap_or_default()
    }

    fn lines(&self) -> lines::Lines<'b> {
        lines::lines(self.encoding, self.body())
    }

    /// The text, and how many bytes of it are spelled out.
    pub(crate) fn decoded(&self) -> (Cow<'b, str>, usize) {
        if let Some(whole) = self.encoding.whole(self.body()) {
            return (whole, 0);
        }
        let mut text = String::with_capacity(self.bytes.len());
        let mut spelled = 0;
        for line in self.lines() {
            spelled += self.encoding.decode(line.body, &mut text);
            text.push_str(line.end.text());
        }
        (text.into(), spelled)
    }

    /// Whether `content` gives a line back in which something was spelled out.
    pub(crate) fn has_spelled(&self, content: &str) -> bool {
        let shown = self.shown(Form::Lines);
        if !shown.chars().any(output::must_escape) {
            return false;
        }
        let lines = shown.split('\n').filter(|line| line.chars().any(output::must_escape));
        let known: HashSet<_> = lines.map(|line| spelled(line).into_owned()).collect();
        content.split('\n').any(|line| known.contains(line))
    }

    /// The text as it is seen in this form.
    pub(crate) fn shown(&self, form: Form) -> Cow<'b, str> {
        match (form, self.decoded().0) {
            (Form::Own, text) => text,
            (Form::Lines, text) if text.contains('\r') => lines::normal(&text).into_owned().into(),
            (Form::Lines, text) => text,
            (Form::Spelled, text) => match spelled(&lines::normal(&text)) {
                Cow::Borrowed(_) if !text.contains('\r') => text,
                shown => shown.into_owned().into(),
            },
        }
    }
}

/// The text of one line in a form.
fn form_of(form: Form, text: &str) -> Cow<'_, str> {
    if form == Form::Spelled { spelled(text) } else { text.into() }
}

/// A text with what nobody can see spelled out.
pub(crate) fn spelled(text: &str) -> Cow<'_, str> {
    if !text.chars().any(output::must_escape) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len() + 16);
    text.chars().for_each(|c| output::push_escaped(&mut shown, c));
    shown.into()
}

#[cfg(test)]
mod tests;
