//! How calls, thoughts and texts may open, as tokens of a vocabulary, and which beginnings they share. Knows texts and tokens,
//! no formats.
//!
//! Invariant: a token that counts for one kind begins nothing else that was named; one that could begin two kinds is ambiguous, and
//! [`Openings::after`] tells what to look for behind it.

use toolgate_grammar::marks::{Mark, MarkTokens, Piece};
use toolgate_grammar::{TokenId, TokenKind, Vocabulary};

/// The texts with which the parts of a turn begin.
///
/// ```
/// use toolgate_infer::{Openings, OpeningTexts, TokenKind, Vocabulary};
/// let vocabulary = Vocabulary::new(["<", "<to", "t", "h"].map(|text| (text.into(), TokenKind::Text)))?;
/// let texts = OpeningTexts { calls: &["<tool>"], thoughts: &["<think>"], ..OpeningTexts::default() };
/// let openings = Openings::of(&vocabulary, &texts);
/// assert_eq!((openings.tokens(), openings.ambiguous()), (&[1][..], &[0][..]));
/// let behind = openings.after(&vocabulary, 0);
/// assert_eq!((behind.tokens(), behind.ambiguous()), (&[][..], &[2][..]), "both go on with a t");
/// assert_eq!(behind.after(&vocabulary, 2).thoughts(), [3]);
/// let texts = OpeningTexts { thoughts: &["h"], heads: &["t"], ..OpeningTexts::default() };
/// let openings = Openings::of(&vocabulary, &texts);
/// assert_eq!((openings.thoughts(), openings.heads()), (&[3][..], &[2][..]));
/// # Ok::<(), toolgate_infer::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct OpeningTexts<'a> {
    /// Those of calls, in any dialect.
    pub calls: &'a [&'a str],
    /// Those of thoughts.
    pub thoughts: &'a [&'a str],
    /// Those in front of text that is shown: headers of channels, ….
    pub heads: &'a [&'a str],
    /// How much of one has to be there.
    pub extent: Extent,
}

/// How much of an opening has to be there for it to count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extent {
    /// Its first token: where a turn begins, few other texts begin so.
    #[default]
    Beginning,
    /// All of it, or a token of its own: within text a `<` may be anything.
    Whole,
}

/// The tokens that parts of a turn may open with, found once for a vocabulary and their texts.
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
    calls: Part,
    thoughts: Part,
    heads: Part,
    ambiguous: Vec<TokenId>,
    /// Those of them that are more than white space.
    followed: Vec<TokenId>,
    extent: Extent,
}

/// The openings of one kind, and the tokens that begin these and no others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Part {
    marks: Vec<Mark>,
    tokens: Vec<TokenId>,
}

impl Openings {
    /// Finds the tokens that begin one of the openings of `calls`. An opening counts as the tokens of its marks, where the
    /// vocabulary has them, and as the text that it is: every text token that is a beginning of it or starts with it. White
    /// space in front of a token is left aside where the opening has none; where it has some, both have to have it.
    ///
    /// ```
    /// use toolgate_infer::{Openings, Vocabulary};
    /// let openings = Openings::new(&Vocabulary::bytes_only(), &["{\"name\"", "<tool_call>"]);
    /// assert_eq!(openings.tokens(), [u32::from(b'<'), u32::from(b'{')]);
    /// ```
    pub fn new(vocabulary: &Vocabulary, calls: &[&str]) -> Self {
        Self::of(vocabulary, &OpeningTexts { calls, ..OpeningTexts::default() })
    }

    /// The same for all kinds: a token that begins openings of two kinds is [ambiguous](Self::ambiguous).
    pub fn of(vocabulary: &Vocabulary, texts: &OpeningTexts<'_>) -> Self {
        let tokens = MarkTokens::of(vocabulary);
        let marks = [texts.calls, texts.thoughts, texts.heads].map(|texts| forms(&tokens, texts));
        Self::of_marks(vocabulary, marks, texts.extent, false)
    }

    /// `begun` where a part of the openings is there already: white space that they have belongs to them then.
    fn of_marks(vocabulary: &Vocabulary, marks: [Vec<Mark>; 3], extent: Extent, begun: bool) -> Self {
        let [mut calls, mut thoughts, mut heads] = marks.map(|marks| Part { marks, tokens: Vec::new() });
        let mut ambiguous = Vec::new();
        for token in 0..u32::try_from(vocabulary.len()).unwrap_or(u32::MAX) {
            let mut parts = [&mut calls, &mut thoughts, &mut heads];
            let of_part =
                |part: &&mut Part| part.marks.iter().filter_map(|mark| begins(vocabulary, token, mark)).max();
            let found: Vec<(usize, Begun)> =
                parts.iter().enumerate().filter_map(|(at, part)| Some((at, of_part(part)?))).collect();
            // White space alone says nothing: an answer may begin with it.
            let is_text = vocabulary.kind(token) == TokenKind::Text;
            let is_blank = !begun && is_text && blank(vocabulary.bytes(token));
            match found.as_slice() {
                [] => {}
                [(part, much)] if !is_blank && (extent == Extent::Beginning || *much == Begun::Whole) => {
                    if let Some(part) = parts.get_mut(*part) {
                        part.tokens.push(token);
                    }
                }
                _ => ambiguous.push(token),
            }
        }
        let says = |token: &TokenId| begun || !blank(vocabulary.bytes(*token));
        let followed = ambiguous.iter().copied().filter(says).collect();
        Self { calls, thoughts, heads, ambiguous, followed, extent }
    }

    /// The tokens that begin calls and nothing else, ascending.
    pub fn tokens(&self) -> &[TokenId] {
        &self.calls.tokens
    }

    /// The tokens that begin thoughts and nothing else, ascending.
    pub fn thoughts(&self) -> &[TokenId] {
        &self.thoughts.tokens
    }

    /// The tokens that begin what stands in front of text, and nothing else, ascending.
    pub fn heads(&self) -> &[TokenId] {
        &self.heads.tokens
    }

    /// The tokens that say nothing before it is known what follows them, ascending: more than one kind may begin so, or only
    /// a part of an opening is there that has to be [whole](Extent::Whole).
    pub fn ambiguous(&self) -> &[TokenId] {
        &self.ambiguous
    }

    /// Those of them that are worth to be followed: behind white space alone text may go on, and what opens there is seen there.
    pub(crate) fn worth_following(&self) -> &[TokenId] {
        &self.followed
    }

    /// Whether there is nothing to look for.
    ///
    /// ```
    /// use toolgate_infer::{Openings, Vocabulary};
    /// assert!(Openings::new(&Vocabulary::bytes_only(), &[]).is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        [&self.calls, &self.thoughts, &self.heads].iter().all(|part| part.tokens.is_empty())
            && self.ambiguous.is_empty()
    }

    /// What there is to look for behind a token that is ambiguous.
    pub fn after(&self, vocabulary: &Vocabulary, token: TokenId) -> Self {
        let rest = |part: &Part| part.marks.iter().filter_map(|mark| rest(vocabulary, token, mark)).collect();
        let begun = !blank(vocabulary.bytes(token));
        Self::of_marks(vocabulary, [&self.calls, &self.thoughts, &self.heads].map(rest), self.extent, begun)
    }
}

/// How much of a mark a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Begun {
    /// A beginning of its text.
    Partly,
    /// All of it, or its first token where that is one of its own.
    Whole,
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

/// How much of a mark a token is that begins it.
fn begins(vocabulary: &Vocabulary, token: TokenId, mark: &Mark) -> Option<Begun> {
    match (vocabulary.kind(token), mark.pieces().split_first()?) {
        (TokenKind::Special, (Piece::Token { id, .. }, _)) => (*id == token).then_some(Begun::Whole),
        (TokenKind::Text, (Piece::Text(text), others)) => {
            let bytes = beside(vocabulary.bytes(token), text)?;
            if others.is_empty() && bytes.starts_with(text.as_bytes()) {
                return Some(Begun::Whole);
            }
            text.as_bytes().starts_with(bytes).then_some(Begun::Partly)
        }
        _ => None,
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
        let texts =
            OpeningTexts { calls: &["<tool_call>"], thoughts: &["<think>"], ..OpeningTexts::default() };
        let openings = Openings::of(&vocabulary, &texts);
        assert_eq!((openings.tokens(), openings.ambiguous()), (&[1][..], &[0, 3][..]));
        let behind = openings.after(&vocabulary, 3);
        assert_eq!((behind.tokens(), behind.ambiguous()), (&[5][..], &[4][..]));
        let parted = behind.after(&vocabulary, 4);
        assert_eq!((parted.tokens(), parted.thoughts(), parted.ambiguous()), (&[7][..], &[6][..], &[][..]));
        assert_eq!(
            Openings::new(&vocabulary, &["<tool_call>"]).tokens(),
            [0, 1, 3],
            "nothing else begins so"
        );
    }

    #[test]
    fn within_text_only_a_whole_mark_counts() {
        let vocabulary = vocabulary(&[
            ("<", Text),
            ("<tool_call>", Special),
            (" <call>x", Text),
            ("<call", Text),
            (">", Text),
            ("div", Text),
        ]);
        let texts = OpeningTexts {
            calls: &["<tool_call>", "<call>"],
            extent: Extent::Whole,
            ..OpeningTexts::default()
        };
        let openings = Openings::of(&vocabulary, &texts);
        assert_eq!((openings.tokens(), openings.ambiguous()), (&[1, 2][..], &[0, 3][..]));
        assert_eq!(openings.after(&vocabulary, 3).tokens(), [4], "the rest makes it whole");
        assert!(openings.after(&vocabulary, 5).is_empty());
    }
}
