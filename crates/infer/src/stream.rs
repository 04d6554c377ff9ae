//! Makes text that can be shown at once of the bytes of tokens: whole code points, and no part of a possible stop text.
//!
//! Invariant: the deltas in order are the final text.

/// Text under construction.
#[derive(Debug, Default)]
pub(crate) struct TextStream<'a> {
    stops: &'a [String],
    text: String,
    /// Bytes of a code point that is not whole yet.
    partial: Vec<u8>,
    /// How much of `text` was given out.
    shown: usize,
}

impl<'a> TextStream<'a> {
    pub(crate) fn new(stops: &'a [String]) -> Self {
        Self { stops, ..Self::default() }
    }

    /// Takes the bytes of one token. `Some(i)` once stop text `i` appeared. Then the text ends in front of it.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Option<usize> {
        let before = self.text.len();
        self.partial.extend_from_slice(bytes);
        while !self.partial.is_empty() {
            match std::str::from_utf8(&self.partial) {
                Ok(text) => {
                    self.text.push_str(text);
                    self.partial.clear();
                }
                Err(error) => {
                    let (valid, rest) = self.partial.split_at(error.valid_up_to());
                    self.text.push_str(&String::from_utf8_lossy(valid));
                    match error.error_len() {
                        None => {
                            self.partial = rest.to_vec();
                            break;
                        }
                        Some(len) => {
                            self.text.push(char::REPLACEMENT_CHARACTER);
                            self.partial = rest.get(len..).unwrap_or_default().to_vec();
                        }
                    }
                }
            }
        }
        self.stop_after(before)
    }

    /// The text that can be shown and was not shown yet. It counts as shown from here on.
    pub(crate) fn delta(&mut self) -> &str {
        let end = (self.shown.max(self.text.len() - self.held())..=self.text.len())
            .find(|&end| self.text.is_char_boundary(end))
            .unwrap_or(self.text.len());
        let start = std::mem::replace(&mut self.shown, end);
        self.text.get(start..end).unwrap_or_default()
    }

    /// Ends the text: no more tokens come, so the rest is text.
    pub(crate) fn finish(&mut self) -> &str {
        if !std::mem::take(&mut self.partial).is_empty() {
            self.text.push(char::REPLACEMENT_CHARACTER);
        }
        let start = std::mem::replace(&mut self.shown, self.text.len());
        self.text.get(start..).unwrap_or_default()
    }

    pub(crate) fn into_text(self) -> String {
        self.text
    }

    /// The first stop text that ends after byte `before`. The text is cut in front of it.
    fn stop_after(&mut self, before: usize) -> Option<usize> {
        let found = self
            .stops
            .iter()
            .enumerate()
            .filter(|(_, stop)| !stop.is_empty())
            .filter_map(|(index, stop)| {
                let from =
                    (before.saturating_sub(stop.len())..=before).find(|&i| self.text.is_char_boundary(i))?;
                Some((from + self.text.get(from..)?.find(stop.as_str())?, index))
            })
            .min();
        let (at, index) = found?;
        self.text.truncate(at);
        self.partial.clear();
        Some(index)
    }

    /// Bytes at the end that may begin a stop text.
    fn held(&self) -> usize {
        let begins = |stop: &String| {
            (1..stop.len()).rev().find(|&n| stop.get(..n).is_some_and(|start| self.text.ends_with(start)))
        };
        self.stops.iter().filter_map(begins).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds the pieces; returns each delta, the final text and the stop.
    fn check(stops: &[&str], pieces: &[&[u8]], deltas: &[&str], text: &str, stop: Option<usize>) {
        let stops: Vec<String> = stops.iter().map(|&stop| stop.to_owned()).collect();
        let mut stream = TextStream::new(&stops);
        let (mut got, mut stopped) = (Vec::new(), None);
        for piece in pieces {
            stopped = stream.push(piece);
            got.push(stream.delta().to_owned());
            if stopped.is_some() {
                break;
            }
        }
        got.push(stream.finish().to_owned());
        assert_eq!(got, deltas);
        assert_eq!(stopped, stop);
        assert_eq!(got.concat(), text);
        assert_eq!(stream.into_text(), text);
    }

    #[test]
    fn partial_code_point_is_held_until_whole() {
        check(&[], &[b"a\xe2", b"\x82", b"\xacb"], &["a", "", "€b", ""], "a€b", None);
        check(&[], &[b"a\xe2", b"\x82"], &["a", "", "\u{fffd}"], "a\u{fffd}", None);
    }

    #[test]
    fn invalid_bytes_become_replacement_characters() {
        check(&[], &[b"a\xffb", b"\xc3("], &["a\u{fffd}b", "\u{fffd}(", ""], "a\u{fffd}b\u{fffd}(", None);
    }

    #[test]
    fn stop_text_across_tokens_is_never_shown() {
        check(&["</end>"], &[b"hi <", b"/en", b"d> more"], &["hi ", "", "", ""], "hi ", Some(0));
        check(&["</end>"], &[b"hi <", b"/ex", b">"], &["hi ", "</ex", ">", ""], "hi </ex>", None);
    }

    #[test]
    fn earliest_stop_text_wins() {
        check(&["bc", "b"], &[b"ab", b"c"], &["a", ""], "a", Some(1));
        check(&["xyz", "é!"], &["aé".as_bytes(), b"!xyz"], &["a", "", ""], "a", Some(1));
    }
}
