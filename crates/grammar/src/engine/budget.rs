//! A run with so many tokens left, steered so that its text is whole before they are used up. Above `matcher` and
//! `completion`.
//!
//! Invariant: while it steers, a way to the end of no more tokens than are left is known after every step: either the
//! rest of the way that was planned, or a shorter one from where the run stands now.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::completion::{Costs, WayLength};
use super::cover::cover;
use super::frames::ConfigId;
use super::machine::Machine;
use super::matcher::{Matcher, target};
use super::stop::Stop;
use super::tokens::{TokenId, TokenKind, TokenSet};
use super::vocabulary::Vocabulary;
use crate::{Error, Kind};

/// A [`Matcher`] with a budget of tokens, which allows no token that would leave too few for the rest.
///
/// Until [`limit`](Self::limit) is called, and where even the shortest way to the end takes more than the budget, it
/// allows what the matcher allows.
///
/// ```
/// # use std::sync::Arc;
/// # use toolgate_grammar::{Automaton, Budgeted, Grammar, Limits, Vocabulary};
/// let grammar = Grammar::parse(r#"root ::= "{" [a-z]* "}""#)?;
/// let automaton = Automaton::new(&grammar, Arc::new(Vocabulary::bytes_only()), &Limits::default())?;
/// let mut run = Budgeted::new(automaton.matcher());
/// run.limit(4)?;
/// for byte in *b"{ab" {
///     run.accept(byte.into())?;
/// }
/// assert_eq!(run.mask()?.iter().collect::<Vec<_>>(), [u32::from(b'}')]);
/// assert!(run.grammar_mask()?.contains(b'c'.into()), "the grammar would allow it");
/// assert!(!run.allows(b'c'.into())? && run.is_steered());
/// assert!(run.left() == Some(1) && run.forced()?.is_empty(), "only the budget leaves no choice");
/// run.accept(b'}'.into())?;
/// assert!(run.is_complete() && run.is_finished()?);
/// # Ok::<(), toolgate_grammar::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Budgeted {
    matcher: Matcher,
    /// Tokens that may still come, while it steers.
    left: Option<usize>,
    /// A way to the end from here, its next token last; empty where none was worked out.
    plan: Vec<TokenId>,
    /// Whether a token was refused that the grammar allows.
    steered: bool,
}

impl Budgeted {
    /// The run, without a budget yet.
    pub fn new(matcher: Matcher) -> Self {
        Self { matcher, left: None, plan: Vec::new(), steered: false }
    }

    /// Leaves `tokens` for the rest of the text, an end token not counted, and says whether that is enough for a
    /// whole one. Where it is not, nothing is steered.
    ///
    /// # Errors
    /// [`Kind::Limit`].
    pub fn limit(&mut self, tokens: usize) -> Result<bool, Error> {
        self.plan.clear();
        self.steered = false;
        let enough = self.look(|way| way.fits(way.here, tokens))?;
        self.left = enough.then_some(tokens);
        Ok(enough)
    }

    /// Tokens left, where it steers.
    pub fn left(&self) -> Option<usize> {
        self.left
    }

    /// Whether [`allows`](Self::allows) has refused a token since the budget was set that the grammar allows, or the
    /// budget is used up where the text could go on.
    pub fn is_steered(&self) -> bool {
        self.steered
    }

    /// The run itself.
    pub fn matcher(&self) -> &Matcher {
        &self.matcher
    }

    /// Whether the token may come next, and enough are left after it. End tokens: whether the text so far is whole.
    ///
    /// # Errors
    /// [`Kind::Limit`].
    pub fn allows(&mut self, token: TokenId) -> Result<bool, Error> {
        if !self.matcher.allows(token)? {
            return Ok(false);
        }
        let affords = self.affords(token)?;
        self.steered |= !affords;
        Ok(affords)
    }

    fn affords(&mut self, token: TokenId) -> Result<bool, Error> {
        let Some(left) = self.left else { return Ok(true) };
        if self.matcher.automaton().vocabulary().kind(token) == TokenKind::EndOfGeneration {
            return Ok(true);
        }
        let Some(after) = left.checked_sub(1) else { return Ok(false) };
        if self.plan.last() == Some(&token) {
            return Ok(true);
        }
        self.look(|way| match target(way.machine, way.here, token)? {
            Some(next) => way.fits(next, after),
            None => Ok(false),
        })
    }

    /// Takes a token; on [`Kind::Rejected`] nothing has changed.
    ///
    /// # Errors
    /// [`Kind::Rejected`] if the token may not come next, for the grammar or for the budget;
    /// [`Kind::Limit`].
    pub fn accept(&mut self, token: TokenId) -> Result<(), Error> {
        if !self.affords(token)? && self.matcher.allows(token)? {
            let left = self.left.unwrap_or_default();
            let message = format!("token {token} would leave too few of {left} tokens to end the text");
            return Err(Error::new(Kind::Rejected, message));
        }
        self.matcher.accept(token)?;
        self.left = self.left.map(|left| left.saturating_sub(1));
        if self.plan.last() == Some(&token) {
            self.plan.pop();
        } else {
            self.plan.clear();
        }
        if self.left == Some(0) {
            self.steered |= !self.matcher.is_finished()?;
        }
        Ok(())
    }

    /// All tokens that may come next and leave enough. Costs a look at every token the grammar allows, so it is
    /// meant for after a refusal.
    ///
    /// # Errors
    /// [`Kind::Limit`].
    pub fn mask(&mut self) -> Result<Arc<TokenSet>, Error> {
        let mask = Arc::clone(self.matcher.mask()?);
        let Some(left) = self.left else { return Ok(mask) };
        self.draw_plan(left)?;
        let planned = self.plan.last().copied();
        let after = left.checked_sub(1);
        let affordable = self.look(|way| {
            let mut known: FxHashMap<ConfigId, bool> = FxHashMap::default();
            let mut affordable = TokenSet::empty(way.vocabulary.len());
            for token in mask.iter() {
                let end = way.vocabulary.kind(token) == TokenKind::EndOfGeneration;
                let fits = match after {
                    _ if end || Some(token) == planned => true,
                    None => false,
                    Some(after) => match target(way.machine, way.here, token)? {
                        None => false,
                        Some(next) => match known.get(&next) {
                            Some(&fits) => fits,
                            None => *known.entry(next).or_insert(way.fits(next, after)?),
                        },
                    },
                };
                if fits {
                    affordable.insert(token);
                }
            }
            Ok(affordable)
        })?;
        Ok(Arc::new(affordable))
    }

    /// What the grammar alone allows: [`mask`](Self::mask) without the budget, at its usual price.
    ///
    /// # Errors
    /// [`Kind::Limit`].
    pub fn grammar_mask(&mut self) -> Result<Arc<TokenSet>, Error> {
        self.matcher.mask().cloned()
    }

    /// As [`Matcher::forced`].
    ///
    /// # Errors
    /// [`Kind::Limit`].
    pub fn forced(&mut self) -> Result<Vec<u8>, Error> {
        self.matcher.forced()
    }

    /// As [`Matcher::forced_token`].
    ///
    /// ```
    /// use toolgate_grammar::{Automaton, Budgeted, Grammar, Limits, Vocabulary};
    /// let grammar = Grammar::parse(r#"root ::= <[256]> "b""#)?;
    /// let automaton = Automaton::new(&grammar, Vocabulary::bytes_only().into(), &Limits::default())?;
    /// assert_eq!(Budgeted::new(automaton.matcher()).forced_token()?, Some(256));
    /// # Ok::<(), toolgate_grammar::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Kind::Limit`].
    pub fn forced_token(&mut self) -> Result<Option<TokenId>, Error> {
        self.matcher.forced_token()
    }

    /// Whether the text so far is a whole match.
    pub fn is_complete(&self) -> bool {
        self.matcher.is_complete()
    }

    /// Whether the text is whole and nothing can follow, or no token is left for it.
    ///
    /// # Errors
    /// [`Kind::Limit`].
    pub fn is_finished(&mut self) -> Result<bool, Error> {
        Ok(self.left == Some(0) && self.is_complete() || self.matcher.is_finished()?)
    }

    /// Works out a way to the end, if there is none from here yet.
    fn draw_plan(&mut self, left: usize) -> Result<(), Error> {
        if !self.plan.is_empty() {
            return Ok(());
        }
        let plan = self.look(|way| Ok(way.tokens(way.here, left)))?;
        self.plan = plan.unwrap_or_default();
        self.plan.reverse();
        Ok(())
    }

    fn look<T>(&mut self, compute: impl Fn(&Way<'_>) -> Result<T, Stop>) -> Result<T, Error> {
        let automaton = Arc::clone(self.matcher.automaton());
        self.matcher.run(|machine, here| {
            let (costs, vocabulary) = (automaton.costs(), automaton.vocabulary().as_ref());
            compute(&Way { machine, here, costs, vocabulary })
        })
    }
}

/// What the way to the end depends on.
struct Way<'a> {
    machine: &'a Machine,
    here: ConfigId,
    costs: &'a Costs,
    vocabulary: &'a Vocabulary,
}

impl Way<'_> {
    /// Whether at most `left` tokens lead from `at` to the end.
    fn fits(&self, at: ConfigId, left: usize) -> Result<bool, Stop> {
        let Some(WayLength { tokens, bytes }) = self.machine.way_length(at, self.costs) else {
            return Ok(true);
        };
        let left_for_text = (left as u64).checked_sub(tokens);
        let Some(left_for_text) = left_for_text else { return Ok(false) };
        if bytes <= left_for_text && self.vocabulary.writes_every_byte() {
            return Ok(true);
        }
        if bytes.div_ceil(self.vocabulary.longest().max(1) as u64) > left_for_text {
            return Ok(false);
        }
        Ok(self.tokens(at, left).is_some())
    }

    /// Tokens from `at` to the end, if there are at most `left`.
    fn tokens(&self, at: ConfigId, left: usize) -> Option<Vec<TokenId>> {
        let bytes = left.saturating_mul(self.vocabulary.longest().max(1));
        let way = self.machine.completion(at, self.costs, bytes).ok()?;
        cover(&way, self.vocabulary).filter(|tokens| tokens.len() <= left)
    }
}
