//! A text that arrives in pieces of bytes, and how often what stays undecided in it may be read again.

use crate::fallback::source::Source;

/// Bytes that may be looked at again for each byte that arrives, before reading waits for much more to come.
const PATIENCE: u64 = 16;

/// The text so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pieces {
    text: String,
    /// Bytes of a character that is not whole yet.
    partial: Vec<u8>,
    /// Length at which reading is tried again.
    next_try: usize,
    spent: u64,
}

impl Pieces {
    /// Takes the next bytes; those that are no UTF-8 become U+FFFD. Says whether it is time to read.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> bool {
        self.partial.extend_from_slice(bytes);
        self.take_characters(false);
        self.text.len() >= self.next_try
    }

    /// Nothing more comes.
    pub(crate) fn finish(&mut self) {
        self.take_characters(true);
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Notes what reading cost. A mark that stays open is read again from its start each time: not too often.
    pub(crate) fn note(&mut self, spent: u64) {
        self.spent += spent;
        let allowed = (self.text.len() as u64 + 4096) * PATIENCE;
        self.next_try = if self.spent < allowed { 0 } else { self.text.len() + self.text.len() / 2 };
    }

    /// The bytes looked at so far.
    pub(crate) fn spent(&self) -> u64 {
        self.spent
    }

    pub(crate) fn source(&self, is_over: bool) -> Source<'_> {
        Source::new(&self.text, is_over)
    }

    fn take_characters(&mut self, is_over: bool) {
        let bytes = std::mem::take(&mut self.partial);
        let mut rest = bytes.as_slice();
        loop {
            match std::str::from_utf8(rest) {
                Ok(text) => return self.text.push_str(text),
                Err(error) => {
                    let (good, bad) = rest.split_at_checked(error.valid_up_to()).unwrap_or((&[], rest));
                    self.text.push_str(std::str::from_utf8(good).unwrap_or_default());
                    match error.error_len() {
                        Some(length) => {
                            self.text.push(char::REPLACEMENT_CHARACTER);
                            rest = bad.get(length..).unwrap_or_default();
                        }
                        None if is_over => return self.text.push(char::REPLACEMENT_CHARACTER),
                        None => return self.partial = bad.to_vec(),
                    }
                }
            }
        }
    }
}
