//! Marks: texts of a format of which parts may be tokens of a vocabulary. Above `gbnf` and `engine`; knows no format.
//!
//! Invariant: the pieces of a mark are its text, and each name in it that the vocabulary has a token for is that token, as
//! llama.cpp's tokenizer finds them: the longest names first, wherever they stand.

use std::sync::Arc;

use crate::engine::{Matcher, TokenId, TokenKind, Vocabulary};
use crate::gbnf::{Expr, TokenMatch, TokenName};
use crate::{Error, Kind};

/// A piece of a mark.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Piece {
    /// Text, to be written in ordinary tokens.
    Text(String),
    /// One token, and its name.
    Token {
        /// Which.
        id: TokenId,
        /// What it is called; texts show it so.
        name: String,
    },
}

impl Piece {
    /// Its text: of a token, the name.
    pub fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::Token { name, .. } => name,
        }
    }
}

/// A text of a format, such as `<tool_call>\n`, in pieces that each are a token or text.
///
/// ```
/// use toolgate_grammar::marks::{Mark, MarkTokens, Piece};
/// let tokens = MarkTokens::new([("<call>".to_owned(), 7)]);
/// let mark = tokens.resolve("<call>\n");
/// assert_eq!(mark.pieces(), [Piece::Token { id: 7, name: "<call>".into() }, Piece::Text("\n".into())]);
/// assert_eq!((mark.text().as_str(), mark.has_tokens()), ("<call>\n", true));
/// assert!(!Mark::of_text("<call>\n").has_tokens(), "without a vocabulary it is text");
/// let mut made = Mark::default();
/// assert!(made.is_empty());
/// made.push(Piece::Token { id: 7, name: "<call>".into() });
/// made.push(Piece::Text("\n".into()));
/// assert_eq!(made, mark);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Mark {
    pieces: Vec<Piece>,
}

impl Mark {
    /// One that is text alone.
    pub fn of_text(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { pieces: if text.is_empty() { Vec::new() } else { vec![Piece::Text(text)] } }
    }

    /// Adds a piece. Texts side by side become one, empty ones are left out.
    pub fn push(&mut self, piece: Piece) {
        match (self.pieces.last_mut(), piece) {
            (_, Piece::Text(text)) if text.is_empty() => {}
            (Some(Piece::Text(before)), Piece::Text(text)) => before.push_str(&text),
            (_, piece) => self.pieces.push(piece),
        }
    }

    /// Its pieces, of which none is empty and no two texts stand side by side.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// The whole text.
    pub fn text(&self) -> String {
        self.pieces.iter().map(Piece::text).collect()
    }

    /// Whether nothing is written for it.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Whether a piece of it is a token.
    pub fn has_tokens(&self) -> bool {
        self.tokens().next().is_some()
    }

    /// The tokens in it.
    pub fn tokens(&self) -> impl Iterator<Item = TokenId> + '_ {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Token { id, .. } => Some(*id),
            Piece::Text(_) => None,
        })
    }

    /// What a grammar has for it: token terminals and literals.
    pub fn expr(&self) -> Expr {
        let expr = |piece: &Piece| match piece {
            Piece::Text(text) => Expr::literal(text.as_str()),
            Piece::Token { id, .. } => Expr::Token(TokenMatch { negated: false, name: TokenName::Id(*id) }),
        };
        match self.pieces.as_slice() {
            [only] => expr(only),
            pieces => Expr::sequence(pieces.iter().map(expr)),
        }
    }
}

/// What is known of a mark better than from the types of a model's tokens.
///
/// ```
/// use toolgate_grammar::marks::KnownMark;
/// let typed_as_text = KnownMark { text: "[TOOL_CALLS]".to_owned(), token: Some(9) };
/// let untrained = KnownMark { text: "<tool_call>".to_owned(), token: None };
/// assert_ne!(typed_as_text, untrained);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KnownMark {
    /// Its text.
    pub text: String,
    /// The token that it is; none where it is written as text.
    pub token: Option<TokenId>,
}

/// The tokens that marks may hold, by name. A clone is the same list.
///
/// ```
/// use toolgate_grammar::marks::MarkTokens;
/// use toolgate_grammar::{TokenKind, Vocabulary};
/// let tokens = [("<think>", TokenKind::Special), ("<t", TokenKind::Text)];
/// let vocabulary = Vocabulary::new(tokens.map(|(text, kind)| (text.into(), kind)))?;
/// let known = MarkTokens::of(&vocabulary);
/// assert!(known.resolve("<think>\n").tokens().eq([0]));
/// assert!(!known.resolve("<t").has_tokens(), "a text token is no mark");
/// # Ok::<(), toolgate_grammar::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MarkTokens(Arc<[(String, TokenId)]>);

impl MarkTokens {
    /// From names and tokens; of several with one name the first counts, an empty name never does.
    pub fn new(tokens: impl IntoIterator<Item = (String, TokenId)>) -> Self {
        let mut tokens: Vec<_> = tokens.into_iter().filter(|(name, _)| !name.is_empty()).collect();
        tokens.sort_by(|(a, _), (b, _)| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        tokens.dedup_by(|(later, _), (first, _)| later == first);
        Self(tokens.into())
    }

    /// The special tokens of a vocabulary, those that end the generation included. A format's own marks are special only
    /// where [`Vocabulary::marking`] made them so.
    pub fn of(vocabulary: &Vocabulary) -> Self {
        let is_special = |token: &TokenId| {
            matches!(vocabulary.kind(*token), TokenKind::Special | TokenKind::EndOfGeneration)
        };
        let named =
            |token| String::from_utf8(vocabulary.bytes(token).to_vec()).ok().map(|name| (name, token));
        let ids = (0..u32::try_from(vocabulary.len()).unwrap_or(u32::MAX)).filter(is_special);
        Self::new(ids.filter_map(named))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The names, longest first, each with its token.
    pub fn iter(&self) -> impl Iterator<Item = (&str, TokenId)> {
        self.0.iter().map(|(name, token)| (name.as_str(), *token))
    }

    /// A text of a format as tokens and text.
    pub fn resolve(&self, text: &str) -> Mark {
        let mut pieces = Mark::of_text(text).pieces;
        for (name, token) in self.0.iter().filter(|(name, _)| text.contains(name.as_str())) {
            let parted = pieces.into_iter().flat_map(|piece| match piece {
                Piece::Text(text) => part(&text, name, *token),
                token => vec![token],
            });
            pieces = parted.collect();
        }
        Mark { pieces }
    }
}

/// A text cut at each place of a name.
fn part(text: &str, name: &str, token: TokenId) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (i, between) in text.split(name).enumerate() {
        if i > 0 {
            pieces.push(Piece::Token { id: token, name: name.to_owned() });
        }
        if !between.is_empty() {
            pieces.push(Piece::Text(between.to_owned()));
        }
    }
    pieces
}

impl Matcher {
    /// Takes a mark, a step for each of its pieces; on an error those before it stay taken.
    ///
    /// # Errors
    /// As [`accept`](Self::accept) and [`accept_bytes`](Self::accept_bytes).
    ///
    /// ```
    /// use toolgate_grammar::marks::MarkTokens;
    /// use toolgate_grammar::{Automaton, Grammar, Limits, Vocabulary};
    /// let mark = MarkTokens::new([("<end>".to_owned(), 256)]).resolve("a<end>b");
    /// let mut grammar = Grammar::builder();
    /// let root = grammar.rule("root", mark.expr());
    /// let automaton =
    ///     Automaton::new(&grammar.build(root)?, Vocabulary::bytes_only().into(), &Limits::default())?;
    /// let mut matcher = automaton.matcher();
    /// assert!(matcher.clone().accept_bytes(b"a<end>b").is_err(), "a token is not its letters");
    /// assert!(matcher.takes(&mark)?);
    /// matcher.accept_mark(&mark)?;
    /// assert!(matcher.is_finished()? && !matcher.takes(&mark)?);
    /// # Ok::<(), toolgate_grammar::Error>(())
    /// ```
    pub fn accept_mark(&mut self, mark: &Mark) -> Result<(), Error> {
        mark.pieces.iter().try_for_each(|piece| match piece {
            Piece::Text(text) => self.accept_bytes(text.as_bytes()),
            Piece::Token { id, .. } => self.accept(*id),
        })
    }

    /// Whether it takes a mark, which it does not.
    ///
    /// # Errors
    /// As [`accept_mark`](Self::accept_mark), but for a refusal.
    pub fn takes(&self, mark: &Mark) -> Result<bool, Error> {
        match self.clone().accept_mark(mark) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == Kind::Rejected => Ok(false),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn shown(tokens: &[&str], text: &str) -> Vec<String> {
        let tokens = MarkTokens::new(tokens.iter().map(|name| (*name).to_owned()).zip(1..));
        let mark = tokens.resolve(text);
        assert_eq!(mark.text(), text);
        let shown = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Token { id, .. } => format!("#{id}"),
        };
        mark.pieces().iter().map(shown).collect()
    }

    #[test]
    fn the_longest_names_are_found_first_wherever_they_stand() {
        let names = ["<a>", "<a><b>", "b", ""];
        for (text, pieces) in [
            ("", vec![]),
            ("x", vec!["x"]),
            ("<a>", vec!["#1"]),
            ("\n<a><b> <a>", vec!["\n", "#2", " ", "#1"]),
            // Not the leftmost one: the longest in the whole text.
            ("<a><a><b>b", vec!["#1", "#2", "#3"]),
            ("<a", vec!["<a"]),
        ] {
            assert_eq!(shown(&names, text), pieces, "{text:?}");
        }
    }

    #[test]
    fn of_two_tokens_with_one_name_the_first_counts() {
        let tokens = MarkTokens::new([("<a>".to_owned(), 9), ("<a>".to_owned(), 3)]);
        assert!(tokens.resolve("<a>").tokens().eq([9]));
    }

    #[test]
    fn a_mark_is_taken_as_its_tokens_and_not_as_its_letters() {
        let text = |text: &str, kind| (text.as_bytes().to_vec(), kind);
        let bytes = (0..=u8::MAX).map(|byte| (vec![byte], TokenKind::Text));
        let vocabulary =
            Vocabulary::new(bytes.chain([text("<x>", TokenKind::Special), text("<y>", TokenKind::Text)]))
                .unwrap();
        let tokens = MarkTokens::of(&vocabulary.marking([257]));
        let mark = tokens.resolve("<x>-<y>");
        assert!(mark.tokens().eq([256, 257]));
        let mut builder = crate::Grammar::builder();
        let root = builder.rule("root", mark.expr());
        let grammar = builder.build(root).unwrap();
        let vocabulary = Arc::new(vocabulary.marking([257]));
        let automaton = crate::Automaton::new(&grammar, vocabulary, &crate::Limits::default()).unwrap();
        assert!(automaton.matcher().takes(&mark).unwrap());
        assert!(!automaton.matcher().takes(&Mark::of_text("<x>-<y>")).unwrap());
        let mut run = automaton.matcher();
        assert_eq!((run.forced().unwrap(), run.forced_token().unwrap()), (vec![], Some(256)));
        run.accept(256).unwrap();
        assert_eq!((run.forced().unwrap(), run.forced_token().unwrap()), (b"-".to_vec(), None));
        run.accept_bytes(b"-").unwrap();
        assert_eq!(run.forced_token().unwrap(), Some(257));
        assert!(!run.allows('<'.into()).unwrap());
    }
}
