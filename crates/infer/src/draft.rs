//! Guesses the next text of the model, from three sources. A text without an alternative can still have
//! several tokenizations. A text that occurred earlier in the prompt or the turn often continues in the same
//! way, since names, paths, numbers and sentences are mostly copied. Names in the last message may begin like
//! the word at hand.
//!
//! Knows bytes. The model decides whether a guess is right.
//!
//! No guess is made for a value that has not begun yet. The next name of the message was right one time in
//! four.
//!
//! Invariant: a guess depends only on the text so far and on which guesses were right. So a turn takes the
//! same course each time.

use toolgate_grammar::{TokenId, TokenKind, Vocabulary};

/// Equal bytes of text that are needed for a guess.
const SHORTEST: usize = 3;
/// Equal bytes from which on a guess goes beyond the end of a word.
const LONG: usize = 8;
/// Equal bytes beyond which a guess gets no better.
const LONGEST: usize = 32;
/// Bytes of a guess at most: more than the tokens of any batch of a turn.
const AHEAD: usize = 40;
/// Places that are compared, the latest first.
const PLACES: usize = 64;
/// The weight of the latest outcome.
const LATEST: f64 = 0.15;
/// The share of right guesses before the first one, by source. Rounded from 20 calls and 40 tasks with models
/// of 0.5 and 1.5 B.
const USUAL: [f64; 4] = [0.95, 0.7, 0.8, 0.9];
/// Bytes between control tokens from which on they are a message. Fewer bytes belong to the template.
const MESSAGE: usize = 16;
/// Bytes of the last message that are searched, from its end.
const RECENT: usize = 2_048;
/// Guesses at one place. The constraint may refuse one and allow another.
const FEW: usize = 4;

/// A guess.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Guess {
    /// The text.
    pub(crate) bytes: Vec<u8>,
    /// Bytes of the guess without an alternative.
    certain: usize,
    /// The source of the other bytes.
    reliance: Reliance,
}

/// The source of a guess.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reliance {
    /// The text is certain. Only its tokens may differ.
    Certain,
    /// A long text in front of it occurred before.
    Much,
    /// A short text in front of it occurred before.
    Little,
    /// A word of the last message begins like the word at hand.
    Begun,
}

/// The text so far, and the share of right guesses.
#[derive(Clone, Debug)]
pub(crate) struct Drafter {
    text: Vec<u8>,
    /// The start of the turn in the text.
    turn: usize,
    /// The start and the end of the last message in the text.
    message: (usize, usize),
    /// The share of right tokens among the latest guesses, by source.
    right: [f64; 4],
}

impl Guess {
    /// The source of the token that begins with this byte.
    pub(crate) fn reliance(&self, at: usize) -> Reliance {
        if at < self.certain { Reliance::Certain } else { self.reliance }
    }

    /// Whether the guess may end within a token.
    pub(crate) fn is_cut(&self) -> bool {
        self.bytes.len() >= self.certain + AHEAD
    }
}

impl Drafter {
    /// A drafter that knows the tokens of a prompt.
    pub(crate) fn new(vocabulary: &Vocabulary, prompt: &[TokenId]) -> Self {
        let mut text = Vec::with_capacity(prompt.len() * 5);
        let (mut message, mut from) = ((0, 0), 0);
        for &token in prompt {
            if vocabulary.kind(token) == TokenKind::Text {
                text.extend_from_slice(vocabulary.bytes(token));
                continue;
            }
            if text.len() - from >= MESSAGE {
                message = (from, text.len());
            }
            text.push(b'\n');
            from = text.len();
        }
        if text.len() - from >= MESSAGE {
            message = (from, text.len());
        }
        let turn = text.len();
        Self { text, turn, message, right: USUAL }
    }

    /// Adds the bytes of a token.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.text.extend_from_slice(bytes);
    }

    /// The guesses that begin with the text `certain`, which has no alternative. The likeliest comes first.
    pub(crate) fn guesses(&mut self, certain: &[u8]) -> Vec<Guess> {
        let len = self.text.len();
        self.text.extend_from_slice(certain);
        let mut guesses: Vec<(Vec<u8>, Reliance)> = self.repeated().into_iter().chain(self.begun()).collect();
        self.text.truncate(len);
        if guesses.is_empty() && !certain.is_empty() {
            guesses.push((Vec::new(), Reliance::Certain));
        }
        let whole = |(bytes, reliance): (Vec<u8>, _)| Guess {
            bytes: [certain, &bytes].concat(),
            certain: certain.len(),
            reliance,
        };
        guesses.into_iter().map(whole).collect()
    }

    /// The text after the latest place that shares the longest text with the end.
    fn repeated(&self) -> Option<(Vec<u8>, Reliance)> {
        let text = self.text.as_slice();
        let end = text.len().checked_sub(SHORTEST)?;
        let needle = text.get(end..)?;
        let first = *needle.first()?;
        let mut best: Option<(usize, usize)> = None;
        let mut places = 0;
        // From behind; a place at the very end is the text itself.
        for (at, &byte) in text.get(..end)?.iter().enumerate().rev() {
            if byte != first || !text.get(at..)?.starts_with(needle) {
                continue;
            }
            let same = SHORTEST + self.same_before(at, end);
            if best.is_none_or(|(longest, _)| same > longest) {
                best = Some((same, at + SHORTEST));
            }
            places += 1;
            if places == PLACES || same >= LONGEST {
                break;
            }
        }
        let (same, from) = best?;
        let reliance = if same >= LONG { Reliance::Much } else { Reliance::Little };
        let follows = text.get(from..text.len().min(from + AHEAD))?;
        let bytes = match reliance {
            Reliance::Much => follows,
            // What stands behind a quote or a blank alone says little of what it opens.
            _ if opens_word(needle) => &[],
            _ if self.is_word(end + SHORTEST - same, from - same) => word(follows),
            _ => &[],
        };
        (!bytes.is_empty()).then(|| (bytes.to_vec(), reliance))
    }

    /// The number of equal bytes in front of two places.
    fn same_before(&self, a: usize, b: usize) -> usize {
        let before = |at: usize| self.text.get(..at).unwrap_or_default().iter().rev();
        before(a).zip(before(b)).take(LONGEST).take_while(|(a, b)| a == b).count()
    }

    /// Whether neither of two places cuts a word.
    fn is_word(&self, a: usize, b: usize) -> bool {
        let inside = |at: usize| {
            let before = at.checked_sub(1).and_then(|at| self.text.get(at));
            before.is_some_and(u8::is_ascii_alphanumeric)
                && self.text.get(at).is_some_and(u8::is_ascii_alphanumeric)
        };
        !inside(a) && !inside(b)
    }

    /// The rests of the words of the last message that begin like the word at hand.
    fn begun(&self) -> Vec<(Vec<u8>, Reliance)> {
        let written = self.text.get(self.turn..).unwrap_or_default();
        let begun = written.rsplit(ends_word).next().unwrap_or_default();
        if begun.is_empty() {
            return Vec::new();
        }
        let rests =
            self.message_words().filter(|word| names(word)).filter_map(|word| word.strip_prefix(begun));
        rests.filter(|rest| !rest.is_empty()).take(FEW).map(|rest| (rest.to_vec(), Reliance::Begun)).collect()
    }

    /// The words of the last message in order.
    fn message_words(&self) -> impl Iterator<Item = &[u8]> {
        let (from, to) = self.message;
        let message = self.text.get(from.max(to.saturating_sub(RECENT))..to).unwrap_or_default();
        message.split(ends_word).map(|word| word.strip_suffix(b".").unwrap_or(word))
    }

    /// The number of guessed tokens that are worth their place in a batch, by source. Each token costs this
    /// share of an evaluation. A token is worth it if it saves more, by the share of right guesses.
    pub(crate) fn worth(&self, tokens: impl IntoIterator<Item = Reliance>, cost: f64) -> usize {
        let mut share = 1.0;
        let saves = |reliance| {
            share *= self.right(reliance);
            share > cost
        };
        tokens.into_iter().map(saves).take_while(|saves| *saves).count()
    }

    /// Learns whether a guessed token was right.
    pub(crate) fn learn(&mut self, reliance: Reliance, right: bool) {
        let outcome = if right { 1.0 } else { 0.0 };
        if let Some(share) = self.right.get_mut(reliance as usize) {
            *share += LATEST * (outcome - *share);
        }
    }

    fn right(&self, reliance: Reliance) -> f64 {
        self.right.get(reliance as usize).copied().unwrap_or_default()
    }
}

/// The beginning of a text, up to the end of a word, path or number.
fn word(text: &[u8]) -> &[u8] {
    let word = text.split(ends_word).next().unwrap_or_default();
    // The full stop of a sentence is none of its last word.
    word.strip_suffix(b".").unwrap_or(word)
}

/// Whether a text ends in front of a word.
fn opens_word(text: &[u8]) -> bool {
    text.last().is_some_and(|last| last.is_ascii_whitespace() || *last == b'"')
}

fn ends_word(byte: &u8) -> bool {
    byte.is_ascii_whitespace() || b"\"'`,;:()[]{}<>?!|=".contains(byte)
}

/// Whether a word looks like a copied value: a path, number, address or name. Words of a sentence do not.
fn names(word: &[u8]) -> bool {
    let marked = |byte: &u8| byte.is_ascii_digit() || b"/._@\\".contains(byte);
    word.iter().any(marked)
        || word.first().is_some_and(|first| first.is_ascii_uppercase() || !first.is_ascii())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn drafter(text: &str) -> Drafter {
        let mut drafter = Drafter::new(&Vocabulary::bytes_only(), &[]);
        drafter.push(text.as_bytes());
        drafter
    }

    fn guess(text: &str) -> Option<String> {
        let guess = drafter(text).guesses(b"").into_iter().next();
        guess.map(|guess| String::from_utf8(guess.bytes).unwrap())
    }

    #[test]
    fn a_word_that_was_begun_is_guessed_to_its_end() {
        assert_eq!(guess("Read src/main.rs, please. {\"path\": \"src").as_deref(), Some("/main.rs"));
        assert_eq!(guess("Read notes.txt. {\"path\": \"not").as_deref(), Some("es.txt"));
        assert_eq!(guess("a resource, {\"path\": \"sou"), None, "within a word");
        assert_eq!(guess("Read notes.txt. {\"path\": \"no"), None, "too little is the same");
        assert_eq!(guess("abc"), None);
        assert_eq!(guess(""), None);
    }

    #[test]
    fn what_is_the_same_for_longer_is_the_better_guess_and_goes_on() {
        let text = "The release is planned for Thursday. The release party. So the release is planned for";
        assert_eq!(guess(text).as_deref(), Some(" Thursday. The release party. So the rel"));
        assert_eq!(guess("one bird, two cats, one bird").as_deref(), Some(", two cats, one bird"));
        assert_eq!(guess("one cat, two cats, one cat"), None, "too little is the same to go beyond a word");
    }

    /// A drafter behind a prompt whose messages are what stands between control tokens, in a turn that says this.
    fn behind(messages: &[&str], turn: &str) -> Drafter {
        let bytes = (0..=u8::MAX).map(|byte| (vec![byte], TokenKind::Text));
        let vocabulary = Vocabulary::new(bytes.chain([(b"<|end|>".to_vec(), TokenKind::Special)])).unwrap();
        let prompt: Vec<TokenId> =
            messages.iter().flat_map(|message| message.bytes().map(u32::from).chain([256])).collect();
        let mut drafter = Drafter::new(&vocabulary, &prompt);
        drafter.push(turn.as_bytes());
        drafter
    }

    #[test]
    fn a_name_of_the_last_message_is_guessed_from_its_first_byte() {
        let messages =
            ["Tools for the calendar: 2020-01-01", "On 2026-12-03, in Zürich, 24 guests.", "model"];
        let guesses = |turn: &str| -> Vec<String> {
            let guesses = behind(&messages, turn).guesses(b"");
            guesses.into_iter().map(|guess| String::from_utf8(guess.bytes).unwrap()).collect()
        };
        assert_eq!(guesses("{\"date\": \"2"), ["026-12-03", "4"], "in their order, none of earlier messages");
        assert_eq!(guesses("{\"city\": \"Z"), ["ürich"]);
        assert!(guesses("{\"what\": \"g").is_empty(), "words that name nothing are left to the model");
        assert!(guesses("{\"date\": \"").is_empty(), "nothing is begun");
    }

    #[test]
    fn text_without_an_alternative_stands_in_front_of_a_guess() {
        let mut drafter = behind(&["Read src/main.rs and notes"], "{\"path\"");
        let guess = drafter.guesses(b": \"").remove(0);
        assert_eq!((guess.bytes.as_slice(), guess.reliance(2)), (b": \"".as_slice(), Reliance::Certain));
        drafter.push(b": \"s");
        let guess = drafter.guesses(b"rc").remove(0);
        assert_eq!(guess.bytes, b"rc/main.rs", "and counts for it");
        assert_eq!((guess.reliance(1), guess.reliance(2)), (Reliance::Certain, Reliance::Little));
    }

    #[test]
    fn guesses_that_are_wrong_become_shorter_and_then_none() {
        let mut drafter = drafter("Read src/main.rs. {\"path\": \"src");
        let guess = drafter.guesses(b"").remove(0);
        let tokens = || std::iter::repeat_n(guess.reliance(0), 40);
        let mut last = drafter.worth(tokens(), 0.25);
        assert!(last > 0);
        for _ in 0..20 {
            drafter.learn(guess.reliance(0), false);
            let worth = drafter.worth(tokens(), 0.25);
            assert!(worth <= last);
            last = worth;
        }
        assert_eq!(last, 0);
        for _ in 0..20 {
            drafter.learn(guess.reliance(0), true);
        }
        assert!(drafter.worth(tokens(), 0.25) > 3, "and longer again");
        assert_eq!(
            drafter.worth(tokens(), 1.0),
            0,
            "where a batch costs what its tokens cost, nothing is gained"
        );
    }
}
