//! Below [`Text`]: finds a shown text in its file again.
//!
//! Invariant: a found piece begins and ends between two pieces of the file. So no byte is torn.

use std::ops::Range;

use super::{Form, Text, form_of, normal, spelled};

/// A part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// The form in which it was found.
    pub(crate) form: Form,
    /// Whether the ends of lines in a text for its place mean more than that a line ends.
    pub(crate) keeps_ends: bool,
    /// Its place in the text of that form.
    pub(crate) shown: Range<usize>,
    /// Its place in the file.
    pub(crate) bytes: Range<usize>,
    /// Its first line, counted from one.
    pub(crate) line: usize,
}

/// The reason that a text is no piece of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Missed {
    /// It does not occur.
    Nowhere,
    /// It occurs on these lines first, and so many times in all.
    Several { lines: Vec<usize>, times: usize },
    /// It begins or ends within this, which stands for one thing in the file.
    Within(String),
}

/// Places that are counted at most.
const COUNTED: usize = 10_000;

impl Text<'_> {
    /// The one piece of the file that is shown as `text`; of several, the lines of the first `named`.
    pub(crate) fn find(&self, text: &str, named: usize) -> Result<Piece, Missed> {
        // Who writes `\r` means it; where that is not there, it stood for the end of a line.
        let own = text.contains('\r').then_some(Form::Own);
        for form in own.into_iter().chain([Form::Lines, Form::Spelled]) {
            let wanted = match form {
                Form::Own => text.into(),
                Form::Lines => normal(text),
                Form::Spelled => spelled(&normal(text)).into_owned().into(),
            };
            let shown = self.shown(form);
            let (places, times) = occurrences(&shown, &wanted, named);
            match places.as_slice() {
                [] => {}
                [at] if times == 1 => {
                    let piece = self.piece(form, *at..*at + wanted.len())?;
                    return Ok(Piece { keeps_ends: own.is_none() || form == Form::Own, ..piece });
                }
                places => return Err(Missed::Several { lines: lines_of(&shown, places), times }),
            }
        }
        Err(Missed::Nowhere)
    }

    /// The whole of the file.
    pub(crate) fn all(&self, form: Form) -> Piece {
        let shown = 0..self.shown(form).len();
        Piece { form, keeps_ends: true, shown, bytes: self.mark..self.bytes.len(), line: 1 }
    }

    fn piece(&self, form: Form, shown: Range<usize>) -> Result<Piece, Missed> {
        let (begin, line) = self.byte_at(form, shown.start)?;
        let (end, _) = self.byte_at(form, shown.end)?;
        Ok(Piece { form, keeps_ends: true, shown, bytes: begin..end, line })
    }

    /// The byte at which the text from `place` on begins, and its line.
    fn byte_at(&self, form: Form, place: usize) -> Result<(usize, usize), Missed> {
        let (mut shown, mut byte) = (0, self.mark);
        let width = self.encoding.encode("\n").map_or(1, |end| end.len());
        for (number, line) in (1..).zip(self.lines()) {
            let mut text = String::new();
            self.encoding.decode(line.body, &mut text);
            let len = form_of(form, &text).len();
            if place <= shown + len {
                return Ok((byte + self.within(form, line.body, place - shown)?, number));
            }
            shown += len;
            byte += line.body.len();
            let end = line.end.text().len();
            // Between `\r` and `\n`, where they count as two.
            if form == Form::Own && place < shown + end {
                return Ok((byte + width * (place - shown), number));
            }
            shown += if form == Form::Own { end } else { end.min(1) };
            byte += end * width;
        }
        Err(Missed::Nowhere)
    }

    /// The byte of a line at which its text from `place` on begins.
    fn within(&self, form: Form, body: &[u8], place: usize) -> Result<usize, Missed> {
        let (mut shown, mut byte, mut torn) = (0, 0, None);
        self.encoding.pieces(body, &mut |piece, text, _| {
            let text = form_of(form, text);
            if shown < place {
                (shown, byte) = (shown + text.len(), byte + piece.len());
                if shown > place {
                    torn.get_or_insert_with(|| text.into_owned());
                }
            }
        });
        torn.map_or(Ok(byte), |piece| Err(Missed::Within(piece)))
    }
}

/// The first `most` places of `piece` and how many there are; overlapping ones too, as far as they are among the first: two
/// that overlap are no less ambiguous.
fn occurrences(text: &str, piece: &str, most: usize) -> (Vec<usize>, usize) {
    let finder = memchr::memmem::Finder::new(piece);
    let (mut places, mut times, mut from) = (Vec::new(), 0, 0);
    while let Some(at) = text.as_bytes().get(from..).and_then(|rest| finder.find(rest)) {
        if places.len() < most.max(2) {
            places.push(from + at);
            from += at + 1;
        } else {
            // Linear in the file, whatever the piece is.
            from += at + piece.len().max(1);
        }
        times += 1;
        if times >= COUNTED {
            break;
        }
    }
    (places, times)
}

/// The lines of these places, counted from one.
fn lines_of(text: &str, places: &[usize]) -> Vec<usize> {
    let (mut from, mut line) = (0, 1);
    let count = |at: &usize| {
        let between = text.get(from..*at).unwrap_or_default();
        line += super::lines::ends(between);
        from = *at;
        line
    };
    places.iter().map(count).collect()
}
