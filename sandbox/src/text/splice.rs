//! Below [`Text`]: replaces a piece of a file by a text, in the encoding and with the line ends of the file.
//!
//! Invariant: bytes outside of the piece stay as they are, and so do the kept lines inside. The new file
//! reads as intended, or there is none.

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::{Duration, Instant};

use similar::{Algorithm, DiffOp, capture_diff_slices_deadline};

use super::lines::{End, Line, ended, lines};
use super::{Encoding, Form, Piece, Text, form_of, normal, spelled};

/// Time to search the kept lines. Lines that are not found by then count as new.
const COMPARED: Duration = Duration::from_millis(300);

/// The reason that a text cannot stand in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unwritable {
    /// The encoding does not have this character.
    Lacks(char, Encoding),
    /// This stands for different bytes in the piece.
    Ambiguous(String),
    /// The file would read otherwise.
    Otherwise,
}

impl Text<'_> {
    /// The whole file with `new` in place of the piece.
    pub(crate) fn replaced(&self, piece: &Piece, new: &str) -> Result<Vec<u8>, Unwritable> {
        let part = |from: usize, to: usize| self.bytes.get(from..to).unwrap_or_default();
        let (begin, end) = (piece.bytes.start, piece.bytes.end);
        let middle = Splice::of(self, piece).write(new)?;
        let file = [part(0, begin), &middle, part(end, self.bytes.len())].concat();
        match self.reads(piece, new, &file) {
            true => Ok(file),
            false => Err(Unwritable::Otherwise),
        }
    }

    /// Whether `file` reads as this one with `new` in place of the piece.
    fn reads(&self, piece: &Piece, new: &str, file: &[u8]) -> bool {
        let old = self.shown(piece.form);
        let around = (old.get(..piece.shown.start), old.get(piece.shown.end..));
        let (Some(before), Some(after)) = around else { return false };
        let now = self.instead(file);
        let meant = match piece.form {
            Form::Spelled => [before, &spelled(new), after].concat(),
            _ => [before, new, after].concat(),
        };
        let meant = if piece.form == Form::Own { meant.as_str().into() } else { normal(&meant) };
        now.shown(piece.form) == meant
    }
}

/// The piece, taken apart.
struct Splice<'b> {
    encoding: Encoding,
    form: Form,
    keeps_ends: bool,
    old: Vec<Line<'b>>,
    texts: Vec<String>,
    /// The end of the line before the piece, and of the line in which the piece ends.
    before: End,
    after: End,
    /// Texts that are written otherwise than they are read, with their bytes; nothing where these differ.
    special: HashMap<String, Option<Vec<u8>>>,
}

impl<'b> Splice<'b> {
    fn of(text: &Text<'b>, piece: &Piece) -> Self {
        let encoding = text.encoding;
        let bytes = |from: usize, to: usize| text.bytes.get(from..to).unwrap_or_default();
        let old: Vec<Line<'b>> = lines(encoding, bytes(piece.bytes.start, piece.bytes.end)).collect();
        let texts: Vec<String> = old.iter().map(|line| decoded(encoding, piece.form, line.body)).collect();
        let before = lines(encoding, bytes(text.mark, piece.bytes.start));
        let before = before.map(|line| line.end).filter(|end| *end != End::None).last();
        let after = lines(encoding, bytes(piece.bytes.end, text.bytes.len())).next();
        let after = after.map_or(End::None, |line| line.end);
        let before = before.unwrap_or(End::None);
        let special = special(encoding, piece.form, &old, &texts);
        Self { encoding, form: piece.form, keeps_ends: piece.keeps_ends, old, texts, before, after, special }
    }

    /// The bytes of `new` in place of the piece.
    fn write(&self, new: &str) -> Result<Vec<u8>, Unwritable> {
        let new: Vec<(&str, End)> = self.split(new);
        let last = new.len().saturating_sub(1);
        let mut written = Vec::new();
        let mut previous = End::None;
        for (at, old) in self.pairs(&new).into_iter().enumerate() {
            let Some((text, said)) = new.get(at) else { continue };
            written.extend(self.line(old.kept(), text)?);
            if at < last {
                previous = said.or(self.end_of(old, previous));
                written.extend(self.encode(previous.text())?);
            }
        }
        Ok(written)
    }

    /// The lines of a new text, each with the end that it was given for sure.
    fn split<'t>(&self, new: &'t str) -> Vec<(&'t str, End)> {
        let mut split: Vec<(&str, End)> = ended(new)
            .map(|line| {
                let body = line.trim_end_matches(['\r', '\n']);
                let end = [End::CrLf, End::Lf, End::Cr].into_iter().find(|end| line.ends_with(end.text()));
                let end = end.unwrap_or(End::None);
                let is_said = self.form == Form::Own || self.keeps_ends && end != End::Lf;
                (body, if is_said { end } else { End::None })
            })
            .collect();
        if new.is_empty() || new.ends_with(['\n', '\r']) {
            split.push(("", End::None));
        }
        split
    }

    /// The source of each new line.
    fn pairs(&self, new: &[(&str, End)]) -> Vec<Source> {
        let ops = match self.is_alike() {
            true => Vec::new(),
            false => {
                let old: Vec<&str> = self.texts.iter().map(String::as_str).collect();
                let new: Vec<&str> = new.iter().map(|(text, _)| *text).collect();
                let until = Some(Instant::now() + COMPARED);
                capture_diff_slices_deadline(Algorithm::Myers, &old, &new, until)
            }
        };
        let mut pairs = vec![Source::Changed(0)];
        pairs.resize(new.len().max(1), Source::New(0));
        for op in ops {
            let (old, new) = (op.old_range(), op.new_range());
            for (i, at) in new.enumerate() {
                let from = old.start + i;
                let pair = match op {
                    DiffOp::Equal { .. } => Source::Kept(from),
                    _ if from < old.end => Source::Changed(from),
                    _ => Source::New(old.start),
                };
                if let Some(slot) = pairs.get_mut(at) {
                    *slot = pair;
                }
            }
        }
        pairs
    }

    /// Whether it makes no difference which new line comes from which old one.
    fn is_alike(&self) -> bool {
        let mut ends = self.old.iter().map(|line| line.end.or(self.after)).filter(|end| *end != End::None);
        let first = ends.next();
        self.special.is_empty() && ends.all(|end| Some(end) == first)
    }

    /// The end of a new line that has none of its own: the end of its source, or else of its neighbours.
    fn end_of(&self, from: Source, previous: End) -> End {
        let own = |at: usize| self.old.get(at).map_or(End::None, |line| line.end).or(self.after);
        let end = match from {
            Source::Kept(at) | Source::Changed(at) => own(at).or(previous),
            Source::New(at) => previous.or(own(at)),
        };
        end.or(self.before).or(End::Lf)
    }

    /// The bytes of a new line; those of an old one where that has the same pieces.
    fn line(&self, old: Option<usize>, new: &str) -> Result<Vec<u8>, Unwritable> {
        let from = old.and_then(|at| self.old.get(at).zip(self.texts.get(at)));
        if let Some((line, _)) = from.filter(|(_, text)| *text == new) {
            return Ok(line.body.to_vec());
        }
        if self.special.is_empty() {
            return self.encode(new);
        }
        let mut pieces: Vec<(String, &[u8])> = Vec::new();
        if let Some((line, _)) = from {
            self.encoding.pieces(line.body, &mut |piece, text, _| {
                pieces.push((form_of(self.form, text).into_owned(), piece));
            });
        }
        let old: Vec<&str> = pieces.iter().map(|(text, _)| text.as_str()).collect();
        let new = self.tokens(new);
        let until = Some(Instant::now() + COMPARED);
        let mut written = Vec::new();
        for op in capture_diff_slices_deadline(Algorithm::Myers, &old, &new, until) {
            if let DiffOp::Equal { old_index, len, .. } = op {
                let kept = pieces.iter().skip(old_index).take(len);
                kept.for_each(|(_, bytes)| written.extend_from_slice(bytes));
                continue;
            }
            for token in new.get(op.new_range()).unwrap_or_default() {
                match self.special.get(*token) {
                    Some(Some(bytes)) => written.extend_from_slice(bytes),
                    Some(None) => return Err(Unwritable::Ambiguous((*token).to_owned())),
                    None => written.extend(self.encode(token)?),
                }
            }
        }
        Ok(written)
    }

    /// A new line in what stands for one thing each.
    fn tokens<'t>(&self, line: &'t str) -> Vec<&'t str> {
        let longest = self.special.keys().map(String::len).max().unwrap_or(0);
        let mut tokens = Vec::new();
        let mut rest = line;
        while let Some(c) = rest.chars().next() {
            let known = (c.len_utf8()..=longest.min(rest.len())).rev();
            let known =
                known.filter(|len| rest.get(..*len).is_some_and(|text| self.special.contains_key(text)));
            let len = known.into_iter().next().unwrap_or(c.len_utf8());
            let Some((token, after)) = rest.split_at_checked(len) else { break };
            tokens.push(token);
            rest = after;
        }
        tokens
    }

    fn encode(&self, text: &str) -> Result<Vec<u8>, Unwritable> {
        self.encoding.encode(text).map_err(|c| Unwritable::Lacks(c, self.encoding))
    }
}

/// The old line that a new one comes from.
#[derive(Clone, Copy, Debug)]
enum Source {
    Kept(usize),
    Changed(usize),
    /// None; the one before which it stands.
    New(usize),
}

impl Source {
    fn kept(self) -> Option<usize> {
        match self {
            Self::Kept(at) | Self::Changed(at) => Some(at),
            Self::New(_) => None,
        }
    }
}

fn decoded(encoding: Encoding, form: Form, bytes: &[u8]) -> String {
    let mut text = String::new();
    encoding.decode(bytes, &mut text);
    match form_of(form, &text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(shown) => shown,
    }
}

/// The texts of pieces that would be written otherwise: bytes without a character, characters with two codes, and what is
/// spelled out.
fn special(
    encoding: Encoding,
    form: Form,
    old: &[Line<'_>],
    texts: &[String],
) -> HashMap<String, Option<Vec<u8>>> {
    let mut special: HashMap<String, Option<Vec<u8>>> = HashMap::new();
    let mut times: HashMap<String, usize> = HashMap::new();
    for (line, text) in old.iter().zip(texts) {
        if encoding.encode(text).is_ok_and(|written| written == line.body) {
            continue;
        }
        encoding.pieces(line.body, &mut |piece, text, _| {
            let text = form_of(form, text);
            if encoding.encode(&text).is_ok_and(|written| written == piece) {
                return;
            }
            *times.entry(text.as_ref().to_owned()).or_default() += 1;
            let known = special.entry(text.into_owned()).or_insert_with(|| Some(piece.to_vec()));
            if known.as_deref() != Some(piece) {
                *known = None;
            }
        });
    }
    // Where the same stands in the file as plain text, it could mean that.
    for (text, bytes) in &mut special {
        let all: usize = texts.iter().map(|line| line.matches(text.as_str()).count()).sum();
        if times.get(text) != Some(&all) {
            *bytes = None;
        }
    }
    special
}
