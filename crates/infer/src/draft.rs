//! Guesses at what the model writes next: what follows the same text earlier in the prompt or the turn (names, paths,
//! numbers and sentences are mostly copied). Knows bytes; whether a guess is right is for the model to say.
//!
//! Invariant: a guess depends on nothing but the text so far and on which guesses were right, so that a turn takes the same
//! course each time.

use toolgate_grammar::{TokenId, Vocabulary};

/// Bytes of text that have to be the same for what follows to be a guess.
const SHORTEST: usize = 3;
/// From this many on, what follows goes on beyond the end of a word.
const LONG: usize = 8;
/// More than this does not make a guess better.
const LONGEST: usize = 32;
/// Bytes of a guess: more than the tokens of any batch of a turn.
const AHEAD: usize = 40;
/// Places that are looked at, the latest first.
const PLACES: usize = 64;
/// How much the latest outcome counts.
const LATEST: f64 = 0.15;

/// What may follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Guess {
    /// The text.
    pub(crate) bytes: Vec<u8>,
    reliance: Reliance,
}

/// How much was the same in front of a guess.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reliance {
    Little,
    Much,
}

/// The text so far, and how often its guesses were right.
#[derive(Clone, Debug)]
pub(crate) struct Drafter {
    text: Vec<u8>,
    /// The share of guessed tokens that were right, lately, after little and after much that was the same.
    right: [f64; 2],
}

impl Drafter {
    /// A drafter that has seen the tokens of a prompt.
    pub(crate) fn new(vocabulary: &Vocabulary, prompt: &[TokenId]) -> Self {
        let mut drafter = Self { text: Vec::with_capacity(prompt.len() * 5), right: [0.5, 0.7] };
        prompt.iter().for_each(|&token| drafter.push(vocabulary.bytes(token)));
        drafter
    }

    /// Takes the bytes of a token.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.text.extend_from_slice(bytes);
    }

    /// What follows the latest place that reads for longest like the end of the text.
    pub(crate) fn guess(&self) -> Option<Guess> {
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
            Reliance::Little if self.is_word(end + SHORTEST - same, from - same) => word(follows),
            Reliance::Little => &[],
        };
        (!bytes.is_empty()).then(|| Guess { bytes: bytes.to_vec(), reliance })
    }

    /// How many bytes in front of two places are the same.
    fn same_before(&self, a: usize, b: usize) -> usize {
        let before = |at: usize| self.text.get(..at).unwrap_or_default().iter().rev();
        before(a).zip(before(b)).take(LONGEST).take_while(|(a, b)| a == b).count()
    }

    /// Whether no word is cut in the middle at either of two places.
    fn is_word(&self, a: usize, b: usize) -> bool {
        let inside = |at: usize| {
            let before = at.checked_sub(1).and_then(|at| self.text.get(at));
            before.is_some_and(u8::is_ascii_alphanumeric)
                && self.text.get(at).is_some_and(u8::is_ascii_alphanumeric)
        };
        !inside(a) && !inside(b)
    }

    /// How many tokens of a guess are worth their place in a batch, where each costs this share of an evaluation: those
    /// that save more than that, by how often guesses were right.
    pub(crate) fn worth(&self, guess: &Guess, cost: f64) -> usize {
        let right = self.right(guess.reliance);
        let mut share = right;
        let mut tokens = 0;
        while share > cost && tokens < AHEAD {
            tokens += 1;
            share *= right;
        }
        tokens
    }

    /// Learns whether a token of a guess was right.
    pub(crate) fn learn(&mut self, guess: &Guess, right: bool) {
        let outcome = if right { 1.0 } else { 0.0 };
        if let Some(share) = self.right.get_mut(guess.reliance as usize) {
            *share += LATEST * (outcome - *share);
        }
    }

    fn right(&self, reliance: Reliance) -> f64 {
        self.right.get(reliance as usize).copied().unwrap_or_default()
    }
}

/// The beginning of a text up to where a word, path or number ends.
fn word(text: &[u8]) -> &[u8] {
    let ends = |byte: &u8| byte.is_ascii_whitespace() || b"\"'`,;:()[]{}<>?!".contains(byte);
    let end = text.iter().position(ends).unwrap_or(text.len());
    let word = text.get(..end).unwrap_or_default();
    // The full stop of a sentence is none of its last word.
    word.strip_suffix(b".").unwrap_or(word)
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
        drafter(text).guess().map(|guess| String::from_utf8(guess.bytes).unwrap())
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

    #[test]
    fn guesses_that_are_wrong_become_shorter_and_then_none() {
        let mut drafter = drafter("Read src/main.rs. {\"path\": \"src");
        let guess = drafter.guess().unwrap();
        let mut last = drafter.worth(&guess, 0.25);
        assert!(last > 0);
        for _ in 0..20 {
            drafter.learn(&guess, false);
            let worth = drafter.worth(&guess, 0.25);
            assert!(worth <= last);
            last = worth;
        }
        assert_eq!(last, 0);
        for _ in 0..20 {
            drafter.learn(&guess, true);
        }
        assert!(drafter.worth(&guess, 0.25) > 3, "and longer again");
        assert_eq!(
            drafter.worth(&guess, 1.0),
            0,
            "where a batch costs what its tokens cost, nothing is gained"
        );
    }
}
