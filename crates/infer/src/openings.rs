//! How calls may open, as tokens of a vocabulary, and which beginnings they share with something else. Knows texts and
//! tokens, no formats.
//!
//! Invariant: a token that counts as an opening begins a call and nothing else that was named; one that could be the
//! beginning of either is ambiguous, and [`Openings::after`] tells what to look for behind it.

use toolgate_grammar::marks::{Mark, MarkTokens, Piece};
use toolgate_grammar::{TokenId, TokenKind, Vocabulary};

/// The tokens a call may open with, found once for a vocabulary and a list of openings.
///
/// ```
/// use std::sync::Arc;
/// use toolgate_infer::{Openings, Session, Vocabulary, scripted::Scripted};
///
/// let vocabulary = Arc::new(Vocabulary::bytes_only());
/// let openings = Openings::new(&vocabulary, &["<tool_call>"]);
/// let mut session = Session::new(Scripted::new(vocabulary.clone()).say("<tool_call>").say("Hello."));
/// session.set_prompt_text("Read notes.txt.")?;
/// assert!(openings.decide(session.logits()?, &vocabulary, 0.5).call);
/// session.set_prompt_text("Greet me.")?;
/// assert!(!openings.decide(session.logits()?, &vocabulary, 0.5).call);
/// # Ok::<(), toolgate_infer::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Openings {
    tokens: Vec<TokenId>,
    ambiguous: Vec<TokenId>,
    calls: Vec<Mark>,
    others: Vec<Mark>,
}

impl Openings {
    /// Finds the tokens that begin one of the `openings`. An opening counts as the tokens of its marks, where the vocabulary
    /// has them, and as the text that it is: every text token that is a beginning of it or starts with it. White space in
    /// front of a token is left aside where the opening has none; where it has some, both have to have it.
    ///
    /// ```
    /// use toolgate_infer::{Openings, Vocabulary};
    /// let openings = Openings::new(&Vocabulary::bytes_only(), &["{\"name\"", "<tool_call>"]);
    /// assert_eq!(openings.tokens(), [u32::from(b'<'), u32::from(b'{')]);
    /// ```
    pub fn new(vocabulary: &Vocabulary, openings: &[&str]) -> Self {
        Self::beside(vocabulary, openings, &[])
    }

    /// The same where a turn may begin with `others`, too, such as the mark of thoughts: a token that begins one of them as
    /// well as a call is [ambiguous](Self::ambiguous).
    ///
    /// ```
    /// use toolgate_infer::{Openings, TokenKind, Vocabulary};
    /// let vocabulary = Vocabulary::new(["<", "<to", "t", "h"].map(|text| (text.into(), TokenKind::Text)))?;
    /// let openings = Openings::beside(&vocabulary, &["<tool>"], &["<think>"]);
    /// assert_eq!((openings.tokens(), openings.ambiguous()), (&[1][..], &[0][..]));
    /// let behind = openings.after(&vocabulary, 0);
    /// assert_eq!((behind.tokens(), behind.ambiguous()), (&[][..], &[2][..]), "both go on with a t");
    /// # Ok::<(), toolgate_infer::Error>(())
    /// ```
    pub fn beside(vocabulary: &Vocabulary, openings: &[&str], others: &[&str]) -> Self {
        let tokens = MarkTokens::of(vocabulary);
        Self::of_marks(vocabulary, forms(&tokens, openings), forms(&tokens, others))
    }

    fn of_marks(vocabulary: &Vocabulary, calls: Vec<Mark>, others: Vec<Mark>) -> Self {
        let (mut tokens, mut ambiguous) = (Vec::new(), Vec::new());
        for token in 0..u32::try_from(vocabulary.len()).unwrap_or(u32::MAX) {
            let begins = |marks: &[Mark]| marks.iter().any(|mark| begins(vocabulary, token, mark));
            if !begins(&calls) {
                continue;
            }
            // White space alone says nothing: an answer may begin with it.
            let is_blank = vocabulary.kind(token) == TokenKind::Text && blank(vocabulary.bytes(token));
            if is_blank || begins(&others) { ambiguous.push(token) } else { tokens.push(token) }
        }
        Self { tokens, ambiguous, calls, others }
    }

    /// The tokens that begin calls and nothing else, ascending.
    pub fn tokens(&self) -> &[TokenId] {
        &self.tokens
    }

    /// The tokens with which a call may begin and something else as well, ascending: their probability says nothing before
    /// it is known what follows them.
    pub fn ambiguous(&self) -> &[TokenId] {
        &self.ambiguous
    }

    /// What calls open with behind a token that begins them: to follow what is ambiguous to where it parts.
    pub fn after(&self, vocabulary: &Vocabulary, token: TokenId) -> Self {
        let rest = |marks: &[Mark]| marks.iter().filter_map(|mark| rest(vocabulary, token, mark)).collect();
        Self::of_marks(vocabulary, rest(&self.calls), rest(&self.others))
    }
}

/// The ways in which openings are written: as the tokens of their marks, and as text. The blanks in front of markup may be
/// left out; in front of a word they belong to it.
fn forms(tokens: &MarkTokens, texts: &[&str]) -> Vec<Mark> {
    let mut forms = Vec::new();
    for text in texts.iter().filter(|text| !text.trim().is_empty()) {
        let bare = text.trim_start();
        let is_markup = bare.starts_with(|c: char| !c.is_alphanumeric());
        for text in [Some(*text), Some(bare).filter(|bare| is_markup && bare != text)].into_iter().flatten() {
            forms.push(tokens.resolve(text));
            forms.push(Mark::of_text(text));
        }
    }
    forms.dedup();
    forms
}

/// Whether a token is the first of a mark, or a part of it, or begins with all of it.
fn begins(vocabulary: &Vocabulary, token: TokenId, mark: &Mark) -> bool {
    match (vocabulary.kind(token), mark.pieces().split_first()) {
        (TokenKind::Special, Some((Piece::Token { id, .. }, _))) => *id == token,
        (TokenKind::Text, Some((Piece::Text(text), others))) => {
            let Some(bytes) = beside(vocabulary.bytes(token), text) else { return false };
            text.as_bytes().starts_with(bytes) || others.is_empty() && bytes.starts_with(text.as_bytes())
        }
        _ => false,
    }
}

/// What is left of a mark behind a token that begins it; nothing where it is over, or is another.
fn rest(vocabulary: &Vocabulary, token: TokenId, mark: &Mark) -> Option<Mark> {
    let (first, others) = mark.pieces().split_first()?;
    let bytes = vocabulary.bytes(token);
    let is_text = vocabulary.kind(token) == TokenKind::Text;
    let left = match first {
        Piece::Token { id, .. } if *id == token => String::new(),
        Piece::Text(text) if is_text => {
            let left = text.as_bytes().strip_prefix(beside(bytes, text).unwrap_or_default())?;
            String::from_utf8(left.to_vec()).ok()?
        }
        // Blanks stand in front of a mark that has none.
        Piece::Token { .. } if is_text && blank(bytes) => return Some(mark.clone()),
        _ => return None,
    };
    let mut mark = Mark::of_text(left);
    others.iter().for_each(|piece| mark.push(piece.clone()));
    Some(mark).filter(|mark| !mark.is_empty())
}

/// The bytes of a token that stand beside a text: without the blanks in front where the text has none. None where nothing
/// is left.
fn beside<'t>(bytes: &'t [u8], text: &str) -> Option<&'t [u8]> {
    let has_blank = text.starts_with(|c: char| c.is_ascii_whitespace());
    let bytes = if has_blank { bytes } else { bytes.trim_ascii_start() };
    (!bytes.is_empty()).then_some(bytes)
}

fn blank(bytes: &[u8]) -> bool {
    bytes.iter().all(u8::is_ascii_whitespace)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use TokenKind::{EndOfGeneration, Special, Text, Unused};

    use super::*;

    fn vocabulary(tokens: &[(&str, TokenKind)]) -> Vocabulary {
        Vocabulary::new(tokens.iter().map(|&(text, kind)| (text.as_bytes().to_vec(), kind))).unwrap()
    }

    #[test]
    fn openings_are_found_under_white_space_and_by_name() {
        let vocabulary = vocabulary(&[
            ("<tool", Text),           // 0: begins an opening
            (" \n<tool_call>x", Text), // 1: starts with one, after white space
            ("\n", Text),              // 2: white space alone says nothing
            ("tool", Text),            // 3: inside an opening
            ("<|python_tag|>", Special),
            ("<|other|>", Special),
            ("<", Unused),
            ("<tool_call>", EndOfGeneration),
            ("", Text),
        ]);
        let openings = Openings::new(&vocabulary, &["<tool_call>", "<|python_tag|>", ""]);
        assert_eq!(openings.tokens(), [0, 1, 4]);
    }

    #[test]
    fn a_control_token_that_an_opening_only_begins_with_opens_calls() {
        let vocabulary = vocabulary(&[("[TOOL_CALLS]", Special), ("[TO", Text), ("[", Text), ("]", Text)]);
        for opening in ["[TOOL_CALLS][", "[TOOL_CALLS]", "\n[TOOL_CALLS][{"] {
            let openings = Openings::new(&vocabulary, &[opening]);
            assert_eq!(openings.tokens(), [0, 1, 2], "{opening:?}: as the token, and as text");
        }
        let behind = Openings::new(&vocabulary, &["[TOOL_CALLS]["]).after(&vocabulary, 0);
        assert_eq!(behind.tokens(), [1, 2]);
    }

    #[test]
    fn white_space_of_an_opening_is_looked_for() {
        let vocabulary = vocabulary(&[
            (" to", Text),
            ("to", Text),
            (" ", Text),
            (" tomorrow", Text),
            ("\n\n", Text),
            ("<", Text),
        ]);
        let openings = Openings::new(&vocabulary, &[" to=functions."]);
        assert_eq!((openings.tokens(), openings.ambiguous()), (&[0][..], &[2][..]));
        let behind = openings.after(&vocabulary, 2);
        assert_eq!(behind.tokens(), [0, 1], "the blank is there already");
        let openings = Openings::new(&vocabulary, &["\n\n<call>"]);
        assert_eq!(
            (openings.tokens(), openings.ambiguous()),
            (&[5][..], &[4][..]),
            "or the blanks are left out"
        );
        assert_eq!(openings.after(&vocabulary, 4).tokens(), [5]);
    }

    #[test]
    fn what_also_begins_a_thought_is_ambiguous_and_parts_further_on() {
        let vocabulary = vocabulary(&[
            ("<", Text),
            ("<tool", Text),
            ("<th", Text),
            ("\n<", Text),
            ("t", Text),
            ("to", Text),
            ("h", Text),
            ("o", Text),
        ]);
        let openings = Openings::beside(&vocabulary, &["<tool_call>"], &["<think>"]);
        assert_eq!((openings.tokens(), openings.ambiguous()), (&[1][..], &[0, 3][..]));
        let behind = openings.after(&vocabulary, 3);
        assert_eq!((behind.tokens(), behind.ambiguous()), (&[5][..], &[4][..]));
        let parted = behind.after(&vocabulary, 4);
        assert_eq!((parted.tokens(), parted.ambiguous()), (&[7][..], &[][..]));
        assert_eq!(
            Openings::new(&vocabulary, &["<tool_call>"]).tokens(),
            [0, 1, 3],
            "nothing else begins so"
        );
    }
}
