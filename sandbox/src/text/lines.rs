//! Below [`Text`](super::Text): the lines of a file and how each one ends.
//!
//! Invariant: lines and ends joined again are the bytes. A line ends in `\n`, in `\r\n` or in a lone `\r`, in any file.

use super::Encoding;

/// The end of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Not at all: the file, or what is looked at of it, is over.
    None,
    Lf,
    CrLf,
    Cr,
}

impl End {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Lf => "\n",
            Self::CrLf => "\r\n",
            Self::Cr => "\r",
        }
    }

    /// This one, or another where the line has none.
    pub(crate) fn or(self, other: Self) -> Self {
        if self == Self::None { other } else { self }
    }
}

/// A line of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<'b> {
    pub(crate) body: &'b [u8],
    pub(crate) end: End,
}

/// The lines of a file, at least one; the last has no end.
pub(crate) struct Lines<'b> {
    encoding: Encoding,
    rest: Option<&'b [u8]>,
}

/// The lines of `bytes`.
pub(crate) fn lines(encoding: Encoding, bytes: &[u8]) -> Lines<'_> {
    Lines { encoding, rest: Some(bytes) }
}

/// The lines of a text, each with its end; none for an empty text, and none behind the last end.
pub(crate) fn ended(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (at, end) = next_end(rest.as_bytes()).unwrap_or((rest.len(), End::None));
        let (line, after) = rest.split_at_checked(at + end.text().len())?;
        rest = after;
        (!line.is_empty()).then_some(line)
    })
}

/// A text with `\n` for every end of a line.
pub(crate) fn normal(text: &str) -> std::borrow::Cow<'_, str> {
    match text.contains('\r') {
        true => text.replace("\r\n", "\n").replace('\r', "\n").into(),
        false => text.into(),
    }
}

/// The number of line ends of a text.
pub(crate) fn ends(text: &str) -> usize {
    let (mut ends, mut rest) = (0, text.as_bytes());
    while let Some((at, end)) = next_end(rest) {
        ends += 1;
        rest = rest.get(at + end.text().len()..).unwrap_or_default();
    }
    ends
}

/// The place and the kind of the first line end, in bytes of which ASCII is ASCII.
fn next_end(bytes: &[u8]) -> Option<(usize, End)> {
    let at = memchr::memchr2(b'\n', b'\r', bytes)?;
    Some((at, kind(bytes.get(at) == Some(&b'\r'), bytes.get(at + 1) == Some(&b'\n'))))
}

fn kind(is_return: bool, newline_follows: bool) -> End {
    match (is_return, newline_follows) {
        (false, _) => End::Lf,
        (true, true) => End::CrLf,
        (true, false) => End::Cr,
    }
}

impl<'b> Iterator for Lines<'b> {
    type Item = Line<'b>;

    fn next(&mut self) -> Option<Line<'b>> {
        let bytes = self.rest.take()?;
        let (width, found) = match self.encoding {
            Encoding::Utf16Le => (2, next_wide(bytes, |c| [c, 0])),
            Encoding::Utf16Be => (2, next_wide(bytes, |c| [0, c])),
            _ => (1, next_end(bytes)),
        };
        let Some((at, end)) = found else { return Some(Line { body: bytes, end: End::None }) };
        let (body, rest) = bytes.split_at_checked(at)?;
        self.rest = Some(rest.get(end.text().len() * width..)?);
        Some(Line { body, end })
    }
}

/// [`next_end`] in characters of two bytes.
fn next_wide(bytes: &[u8], wide: fn(u8) -> [u8; 2]) -> Option<(usize, End)> {
    let mut units = bytes.chunks_exact(2);
    let unit = units.position(|unit| unit == wide(b'\n') || unit == wide(b'\r'))?;
    let is_return = bytes.get(unit * 2..unit * 2 + 2) == Some(&wide(b'\r'));
    Some((unit * 2, kind(is_return, units.next() == Some(&wide(b'\n')))))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_end_in_three_ways() {
        let text = "a\r\nb\nc\rd\r\r\n";
        assert_eq!(ended(text).collect::<Vec<_>>(), ["a\r\n", "b\n", "c\r", "d\r", "\r\n"]);
        assert_eq!(normal(text), "a\nb\nc\nd\n\n");
        assert_eq!((ended("").count(), ended("a").count()), (0, 1));
    }

    proptest! {
        #[test]
        fn lines_joined_are_the_bytes(
            bytes in prop::collection::vec(prop::sample::select(b"a\0\r\n\xff".to_vec()), 0..40),
            encoding in prop::sample::select(vec![Encoding::Utf8, Encoding::Utf16Le, Encoding::Utf16Be]),
        ) {
            let joined = lines(encoding, &bytes).flat_map(|line| {
                let end = encoding.encode(line.end.text()).unwrap_or_default();
                [line.body.to_vec(), end].concat()
            });
            prop_assert_eq!(joined.collect::<Vec<u8>>(), bytes);
        }
    }
}
