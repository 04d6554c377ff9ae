//! The interface between the decode loop and a limit on its text, such as a grammar.
//!
//! Invariant: a constraint moves by [`Constraint::accept`] alone, and accepts a token that it has just allowed.

use std::sync::Arc;

use toolgate_grammar::{Budgeted, Matcher, TokenId, TokenKind, TokenSet, Vocabulary};

use crate::{Error, Kind};

/// The most tokens that may follow forced text and are listed. With more, any text counts as possible.
const FEW: usize = 64;

/// A limit on the tokens of one turn.
///
/// A run of a grammar is one:
///
/// ```
/// use std::sync::Arc;
/// use toolgate_grammar::{Automaton, Grammar, Limits};
/// use toolgate_infer::{Constraint, Vocabulary};
///
/// let grammar = Grammar::parse(r#"root ::= "yes" | "no""#)?;
/// let automaton = Automaton::new(&grammar, Arc::new(Vocabulary::bytes_only()), &Limits::default())?;
/// let mut run: Box<dyn Constraint> = Box::new(automaton.matcher());
/// assert!(run.mask()?.iter().eq(b"ny".map(u32::from)), "two letters may begin it");
/// run.accept(u32::from(b'n'))?;
/// assert_eq!(run.forced()?.bytes, b"o", "the rest has no alternative");
/// # Ok::<(), toolgate_infer::Error>(())
/// ```
pub trait Constraint {
    /// Whether `token` may come next. For an end token: whether the text so far may end.
    ///
    /// # Errors
    /// [`Kind::Constraint`] where the constraint itself cannot go on.
    fn allows(&mut self, token: TokenId) -> Result<bool, Error>;

    /// All tokens that may come next, and perhaps a few that [`allows`](Self::allows) refuses. The loop checks the token that it
    /// draws.
    ///
    /// # Errors
    /// As [`allows`](Self::allows).
    fn mask(&mut self) -> Result<Mask, Error>;

    /// Exactly the tokens that may come next, at any cost. The loop asks for it when too much of [`mask`](Self::mask) is refused.
    ///
    /// # Errors
    /// As [`allows`](Self::allows).
    fn exact_mask(&mut self) -> Result<Mask, Error> {
        self.mask()
    }

    /// Sets how many more tokens there can be. A constraint that can look ahead steers its text to a whole one by then. Others
    /// have no use for it.
    ///
    /// # Errors
    /// As [`allows`](Self::allows).
    fn limit(&mut self, _tokens: usize) -> Result<(), Error> {
        Ok(())
    }

    /// Whether a token was refused because of [`limit`](Self::limit).
    fn is_steered(&self) -> bool {
        false
    }

    /// Takes a token that is not an end token.
    ///
    /// # Errors
    /// [`Kind::Constraint`] for a token that is not allowed.
    fn accept(&mut self, token: TokenId) -> Result<(), Error>;

    /// The forced text, and the tokens that may follow it.
    ///
    /// # Errors
    /// As [`allows`](Self::allows).
    fn forced(&mut self) -> Result<Forced, Error>;

    /// The token without an alternative, where no text is: a mark that is one token. Its successor may be forced in turn.
    ///
    /// # Errors
    /// As [`allows`](Self::allows).
    fn forced_token(&mut self) -> Result<Option<TokenId>, Error> {
        Ok(None)
    }

    /// How many of these tokens may come next, one behind the other, as far as that is known without accepting them. A draft is
    /// checked so before the model evaluates it.
    ///
    /// # Errors
    /// As [`allows`](Self::allows).
    fn admits(&mut self, tokens: &[TokenId]) -> Result<usize, Error> {
        Ok(tokens.len())
    }

    /// Whether the text so far is whole.
    fn is_complete(&self) -> bool;

    /// Whether the text would be whole with these bytes behind it, as far as that is known without accepting them.
    ///
    /// # Errors
    /// As [`allows`](Self::allows).
    fn is_complete_after(&mut self, bytes: &[u8]) -> Result<bool, Error> {
        Ok(bytes.is_empty() && self.is_complete())
    }

    /// Whether the text is whole and nothing can follow.
    ///
    /// # Errors
    /// As [`allows`](Self::allows).
    fn is_finished(&mut self) -> Result<bool, Error>;
}

/// Forced text: the beginning of every continuation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forced {
    /// The text; empty where there is a choice.
    pub bytes: Vec<u8>,
    /// The tokens that may follow it. They decide how it is tokenized.
    pub follow: Follow,
}

/// The tokens that may follow a forced text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Follow {
    /// Nothing: the turn is over.
    End,
    /// One of these tokens.
    Tokens(Vec<TokenId>),
    /// Any text.
    #[default]
    Any,
}

/// A set of tokens that may come next.
///
/// ```
/// use toolgate_infer::Mask;
/// let digits = Mask::of(256, (b'0'..=b'9').map(u32::from));
/// assert!(digits.contains(u32::from(b'7')) && !digits.contains(u32::from(b'x')));
/// assert_eq!(digits.iter().next(), Some(u32::from(b'0')));
/// assert_eq!(digits.words(), [0b11_1111_1111 << b'0', 0, 0, 0]);
/// ```
#[derive(Clone, Debug)]
pub enum Mask {
    /// The form that an automaton memoizes.
    Set(Arc<TokenSet>),
    /// 64 tokens a word, lowest bit first.
    Words(Arc<[u64]>),
}

impl Mask {
    /// The tokens of `allowed`, out of a vocabulary of `len`.
    pub fn of(len: usize, allowed: impl IntoIterator<Item = TokenId>) -> Self {
        let mut words = vec![0_u64; len.div_ceil(64)];
        for token in allowed {
            if let Some(word) = words.get_mut(token as usize / 64) {
                *word |= 1 << (token % 64);
            }
        }
        Self::Words(words.into())
    }

    /// Whether the token is in the set.
    pub fn contains(&self, token: TokenId) -> bool {
        self.words().get(token as usize / 64).is_some_and(|word| word >> (token % 64) & 1 == 1)
    }

    /// The set without a token.
    pub(crate) fn without(&self, token: TokenId) -> Self {
        let mut words = self.words().to_vec();
        if let Some(word) = words.get_mut(token as usize / 64) {
            *word &= !(1 << (token % 64));
        }
        Self::Words(words.into())
    }

    /// The tokens, ascending.
    pub fn iter(&self) -> impl Iterator<Item = TokenId> + '_ {
        self.words().iter().zip(0_u32..).flat_map(|(&word, i)| Bits(word).map(move |bit| i * 64 + bit))
    }

    /// 64 tokens a word, lowest bit first.
    pub fn words(&self) -> &[u64] {
        match self {
            Self::Set(set) => set.words(),
            Self::Words(words) => words,
        }
    }
}

/// The set bits of a word, lowest first.
struct Bits(u64);

impl Iterator for Bits {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let bit = self.0.trailing_zeros();
        self.0 &= self.0.checked_sub(1)?;
        Some(bit)
    }
}

/// No constraint: every token but those that are never produced, until the model ends.
///
/// ```
/// use std::sync::Arc;
/// use toolgate_infer::{Constraint, Free, TokenKind, Vocabulary};
///
/// let kinds = [("a", TokenKind::Text), ("<eos>", TokenKind::EndOfGeneration), ("<pad>", TokenKind::Unused)];
/// let vocabulary = Vocabulary::new(kinds.map(|(text, kind)| (text.into(), kind)))?;
/// let mut free = Free::new(Arc::new(vocabulary));
/// assert!(free.mask()?.iter().eq([0, 1]), "all but what is never to be produced");
/// assert!(free.is_complete(), "the model may end at any time");
/// # Ok::<(), toolgate_infer::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Free {
    vocabulary: Arc<Vocabulary>,
}

impl Free {
    /// No constraint over `vocabulary`.
    pub fn new(vocabulary: Arc<Vocabulary>) -> Self {
        Self { vocabulary }
    }
}

impl Constraint for Free {
    fn allows(&mut self, token: TokenId) -> Result<bool, Error> {
        Ok(self.vocabulary.kind(token) != TokenKind::Unused)
    }

    fn mask(&mut self) -> Result<Mask, Error> {
        let len = self.vocabulary.len();
        let tokens = 0..u32::try_from(len).unwrap_or(u32::MAX);
        Ok(Mask::of(len, tokens.filter(|&token| self.vocabulary.kind(token) != TokenKind::Unused)))
    }

    fn accept(&mut self, _token: TokenId) -> Result<(), Error> {
        Ok(())
    }

    fn forced(&mut self) -> Result<Forced, Error> {
        Ok(Forced::default())
    }

    fn is_complete(&self) -> bool {
        true
    }

    fn is_finished(&mut self) -> Result<bool, Error> {
        Ok(false)
    }
}

impl Constraint for Matcher {
    fn allows(&mut self, token: TokenId) -> Result<bool, Error> {
        Ok(Self::allows(self, token)?)
    }

    fn mask(&mut self) -> Result<Mask, Error> {
        Ok(Mask::Set(Self::mask(self)?.clone()))
    }

    fn accept(&mut self, token: TokenId) -> Result<(), Error> {
        Self::accept(self, token).map_err(|error| refused(token, self.steps(), error))
    }

    fn forced(&mut self) -> Result<Forced, Error> {
        let bytes = Self::forced(self)?;
        forced(self, bytes)
    }

    fn forced_token(&mut self) -> Result<Option<TokenId>, Error> {
        Ok(Self::forced_token(self)?)
    }

    fn admits(&mut self, tokens: &[TokenId]) -> Result<usize, Error> {
        admits(self, tokens)
    }

    fn is_complete(&self) -> bool {
        Self::is_complete(self)
    }

    fn is_complete_after(&mut self, bytes: &[u8]) -> Result<bool, Error> {
        Ok(is_complete_after(self, bytes))
    }

    fn is_finished(&mut self) -> Result<bool, Error> {
        Ok(Self::is_finished(self)?)
    }
}

/// The same under a budget of tokens, which [`limit`](Constraint::limit) sets.
impl Constraint for Budgeted {
    fn allows(&mut self, token: TokenId) -> Result<bool, Error> {
        Ok(Self::allows(self, token)?)
    }

    fn mask(&mut self) -> Result<Mask, Error> {
        Ok(Mask::Set(Self::grammar_mask(self)?))
    }

    fn exact_mask(&mut self) -> Result<Mask, Error> {
        Ok(Mask::Set(Self::mask(self)?))
    }

    fn limit(&mut self, tokens: usize) -> Result<(), Error> {
        Self::limit(self, tokens)?;
        Ok(())
    }

    fn is_steered(&self) -> bool {
        Self::is_steered(self)
    }

    fn accept(&mut self, token: TokenId) -> Result<(), Error> {
        Self::accept(self, token).map_err(|error| refused(token, self.matcher().steps(), error))
    }

    fn forced(&mut self) -> Result<Forced, Error> {
        let bytes = Self::forced(self)?;
        forced(self.matcher(), bytes)
    }

    fn forced_token(&mut self) -> Result<Option<TokenId>, Error> {
        Ok(Self::forced_token(self)?)
    }

    /// This leaves the budget out. The loop checks it when it draws a token.
    fn admits(&mut self, tokens: &[TokenId]) -> Result<usize, Error> {
        admits(self.matcher(), tokens)
    }

    fn is_complete(&self) -> bool {
        Self::is_complete(self)
    }

    fn is_complete_after(&mut self, bytes: &[u8]) -> Result<bool, Error> {
        Ok(is_complete_after(self.matcher(), bytes))
    }

    fn is_finished(&mut self) -> Result<bool, Error> {
        Ok(Self::is_finished(self)?)
    }
}

fn refused(token: TokenId, steps: usize, error: toolgate_grammar::Error) -> Error {
    let message = format!("grammar refused token {token} after {steps} steps: {error}");
    Error::new(Kind::Constraint, message).because(error)
}

/// How many tokens a run could take.
fn admits(run: &Matcher, tokens: &[TokenId]) -> Result<usize, Error> {
    let mut ahead = run.clone();
    for (index, &token) in tokens.iter().enumerate() {
        if !ahead.allows(token)? {
            return Ok(index);
        }
        ahead.accept(token)?;
    }
    Ok(tokens.len())
}

/// Whether a run would be complete with these bytes behind it.
fn is_complete_after(run: &Matcher, bytes: &[u8]) -> bool {
    let mut ahead = run.clone();
    // What it does not take is no way to an end.
    ahead.accept_bytes(bytes).is_ok() && ahead.is_complete()
}

/// Forced text of a run, and what may follow it.
fn forced(run: &Matcher, bytes: Vec<u8>) -> Result<Forced, Error> {
    if bytes.is_empty() {
        return Ok(Forced::default());
    }
    let mut after = run.clone();
    after.accept_bytes(&bytes)?;
    let follow = if after.is_finished()? {
        Follow::End
    } else {
        let mask = after.mask()?;
        if mask.count() <= FEW { Follow::Tokens(mask.iter().collect()) } else { Follow::Any }
    };
    Ok(Forced { bytes, follow })
}

impl<C: Constraint + ?Sized> Constraint for Box<C> {
    fn allows(&mut self, token: TokenId) -> Result<bool, Error> {
        (**self).allows(token)
    }

    fn mask(&mut self) -> Result<Mask, Error> {
        (**self).mask()
    }

    fn exact_mask(&mut self) -> Result<Mask, Error> {
        (**self).exact_mask()
    }

    fn limit(&mut self, tokens: usize) -> Result<(), Error> {
        (**self).limit(tokens)
    }

    fn is_steered(&self) -> bool {
        (**self).is_steered()
    }

    fn accept(&mut self, token: TokenId) -> Result<(), Error> {
        (**self).accept(token)
    }

    fn forced(&mut self) -> Result<Forced, Error> {
        (**self).forced()
    }

    fn forced_token(&mut self) -> Result<Option<TokenId>, Error> {
        (**self).forced_token()
    }

    fn admits(&mut self, tokens: &[TokenId]) -> Result<usize, Error> {
        (**self).admits(tokens)
    }

    fn is_complete(&self) -> bool {
        (**self).is_complete()
    }

    fn is_complete_after(&mut self, bytes: &[u8]) -> Result<bool, Error> {
        (**self).is_complete_after(bytes)
    }

    fn is_finished(&mut self) -> Result<bool, Error> {
        (**self).is_finished()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mask_holds_exactly_the_tokens_it_was_given() {
        let tokens = [0, 63, 64, 127, 128, 255];
        let mask = Mask::of(256, tokens);
        assert_eq!(mask.iter().collect::<Vec<_>>(), tokens);
        for token in 0..400 {
            assert_eq!(mask.contains(token), tokens.contains(&token), "{token}");
        }
    }

    #[test]
    fn token_beyond_the_vocabulary_is_left_out_of_a_mask() {
        assert_eq!(Mask::of(10, [3, 9_000]).iter().collect::<Vec<_>>(), [3]);
    }
}
