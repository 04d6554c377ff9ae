//! The per-run half of the engine: where one text stands, and how it came there.
//!
//! Invariant: a refused step changes nothing, and undoing steps leads to the very configurations they came from.

use std::sync::Arc;

use smallvec::SmallVec;

use super::automaton::Automaton;
use super::completion::Piece;
use super::cover::cover;
use super::frames::{ConfigId, ENDED, Item};
use super::machine::Machine;
use super::renew::transplant;
use super::stop::Stop;
use super::tokens::{TokenId, TokenKind, TokenSet};
use crate::{Error, Kind, Place};

/// Steps a run has room for from the start. Growing step by step, runs on several threads would meet in the allocator:
/// measured, two threads were slower together than one alone.
const HISTORY: usize = 256;

/// One run through an automaton. Cheap to clone.
///
/// ```
/// use toolgate_grammar::{Automaton, Grammar, Limits, Vocabulary};
/// let grammar = Grammar::parse(r#"root ::= "[" [0-9]+ "]""#)?;
/// let automaton = Automaton::new(&grammar, Vocabulary::bytes_only().into(), &Limits::default())?;
/// let mut matcher = automaton.matcher();
/// matcher.accept_bytes(b"[1")?;
/// assert!(matcher.allows(b']'.into())? && !matcher.allows(b','.into())?);
/// matcher.accept(b']'.into())?;
/// assert!(matcher.is_finished()?);
/// let steps = matcher.steps();
/// matcher.rollback(1)?;
/// assert_eq!(matcher.steps(), steps - 1);
/// assert_eq!(matcher.completion()?, b"]");
/// // Another run through the same automaton.
/// assert_eq!(matcher.automaton().matcher().forced()?, b"[");
/// # Ok::<(), toolgate_grammar::Error>(())
/// ```
#[derive(Clone)]
pub struct Matcher {
    /// Before the automaton, which clears away what it shares when nobody holds the vocabulary any more.
    machine: Arc<Machine>,
    automaton: Arc<Automaton>,
    current: ConfigId,
    /// The configurations before the last steps, oldest first.
    history: Vec<ConfigId>,
    /// Steps taken that `history` no longer holds.
    forgotten: usize,
}

impl Automaton {
    /// A run from the start.
    pub fn matcher(self: &Arc<Self>) -> Matcher {
        Matcher::new(Arc::clone(self), self.machine())
    }
}

impl Matcher {
    pub(crate) fn new(automaton: Arc<Automaton>, machine: Arc<Machine>) -> Self {
        let current = machine.start;
        let history = Vec::with_capacity(HISTORY);
        let run = Self { automaton, machine, current, history, forgotten: 0 };
        run.touch();
        run
    }

    /// The automaton it runs.
    pub fn automaton(&self) -> &Arc<Automaton> {
        &self.automaton
    }

    /// Whether the token may come next. End tokens: whether the text so far is whole.
    ///
    /// # Errors
    /// [`Kind::Limit`].
    pub fn allows(&mut self, token: TokenId) -> Result<bool, Error> {
        self.run(|machine, at| {
            let (kind, bytes) = (machine.vocabulary.kind(token), machine.vocabulary.bytes(token));
            let by_itself = match kind {
                TokenKind::Unused => return Ok(false),
                TokenKind::Text if bytes.is_empty() => false,
                TokenKind::Text => machine.allows(at, bytes)?,
                TokenKind::Special => false,
                TokenKind::EndOfGeneration => at != ENDED && machine.complete(at),
            };
            Ok(by_itself || !token_targets(machine, at, token)?.is_empty())
        })
    }

    /// Takes a token; on [`Kind::Rejected`] nothing has changed.
    ///
    /// # Errors
    /// [`Kind::Rejected`] if the token may not come next; [`Kind::Limit`].
    pub fn accept(&mut self, token: TokenId) -> Result<(), Error> {
        let next = self.run(|machine, at| target(machine, at, token))?;
        match next {
            Some(next) => {
                self.step_to(next);
                Ok(())
            }
            None => {
                let bytes = self.automaton.vocabulary.bytes(token);
                let text = String::from_utf8_lossy(bytes);
                Err(Error::new(Kind::Rejected, format!("token {token} {text:?} may not come next")))
            }
        }
    }

    /// Takes text, as one step.
    ///
    /// # Errors
    /// [`Kind::Rejected`], with the offset of the first byte refused, in which case nothing has changed;
    /// [`Kind::Limit`].
    pub fn accept_bytes(&mut self, bytes: &[u8]) -> Result<(), Error> {
        match self.run(|machine, at| machine.bytes(at, bytes))? {
            Ok(next) => {
                self.step_to(next);
                Ok(())
            }
            Err(offset) => {
                let byte = bytes.get(offset).copied().unwrap_or_default();
                let shown = byte.escape_ascii();
                Err(Error::new(Kind::Rejected, format!("'{shown}' may not come next"))
                    .at(Place::Offset(offset)))
            }
        }
    }

    /// All tokens that may come next. Lent, since a count of owners is where threads that share an automaton would
    /// wait for each other; clone it to keep it.
    ///
    /// # Errors
    /// [`Kind::Limit`].
    pub fn mask(&mut self) -> Result<&Arc<TokenSet>, Error> {
        self.run(|machine, at| machine.mask(at).map(drop))?;
        self.machine.mask(self.current).map_err(|stop| stop.error(&self.automaton.limits))
    }

    /// Writes the mask of all tokens that may come next into `words`: 32 tokens a word, lowest bit first, as llguidance and
    /// XGrammar have it. Of more words than [`Vocabulary::mask_words`](crate::Vocabulary::mask_words) the rest become
    /// zero, for logits that no token has.
    ///
    /// ```
    /// use toolgate_grammar::{Automaton, Grammar, Limits, Vocabulary};
    /// let grammar = Grammar::parse(r#"root ::= "@" | "a""#)?;
    /// let automaton = Automaton::new(&grammar, Vocabulary::bytes_only().into(), &Limits::default())?;
    /// let mut words = vec![u32::MAX; 10];
    /// automaton.matcher().mask_into(&mut words)?;
    /// assert_eq!(words, [0, 0, 1 << (b'@' - 64), 1 << (b'a' - 96), 0, 0, 0, 0, 0, 0]);
    /// # Ok::<(), toolgate_grammar::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Kind::Vocabulary`] if there are fewer words than the vocabulary needs; [`Kind::Limit`].
    pub fn mask_into(&mut self, words: &mut [u32]) -> Result<(), Error> {
        let needed = self.automaton.vocabulary.mask_words();
        if words.len() < needed {
            let message = format!("a mask of {} words, and the vocabulary needs {needed}", words.len());
            return Err(Error::new(Kind::Vocabulary, message).hint("ask Vocabulary::mask_words"));
        }
        self.mask()?.write(words);
        Ok(())
    }

    /// The masks of a batch of runs, one row of `row` words after the other, each as [`mask_into`](Self::mask_into)
    /// writes it. The runs may be of different automata. On an error the rows before it are written.
    ///
    /// ```
    /// use toolgate_grammar::{Automaton, Grammar, Limits, Matcher, Vocabulary};
    /// let grammar = Grammar::parse(r#"root ::= "ab""#)?;
    /// let automaton = Automaton::new(&grammar, Vocabulary::bytes_only().into(), &Limits::default())?;
    /// let mut runs = [automaton.matcher(), automaton.matcher()];
    /// runs[1].accept_bytes(b"a")?;
    /// let row = automaton.vocabulary().mask_words();
    /// let mut rows = vec![0; row * runs.len()];
    /// Matcher::masks_into(&mut runs, &mut rows, row)?;
    /// assert_eq!([rows[3], rows[row + 3]], [1 << 1, 1 << 2], "an a, and a b");
    /// # Ok::<(), toolgate_grammar::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`mask_into`](Self::mask_into); [`Kind::Vocabulary`] if there are more runs than rows.
    pub fn masks_into<'m>(
        runs: impl IntoIterator<Item = &'m mut Self>,
        rows: &mut [u32],
        row: usize,
    ) -> Result<(), Error> {
        let mut rows = rows.chunks_exact_mut(row.max(1));
        for (at, run) in runs.into_iter().enumerate() {
            let Some(words) = rows.next() else {
                let message = format!("there are {at} rows of {row} words, and more runs");
                return Err(Error::new(Kind::Vocabulary, message).hint("give a row for each run"));
            };
            run.mask_into(words)?;
        }
        Ok(())
    }

    /// The longest bytes that every continuation starts with; empty where there is a choice, or where the text
    /// may end here. At most [`Limits::forced_bytes`](crate::Limits::forced_bytes) of them.
    ///
    /// No model need be asked for them. Which tokens write them is for the model's tokenizer to say, not for a grammar: a
    /// model knows its texts as its tokenizer cuts them. Tokenize the bytes behind the text so far, and hold back the
    /// last tokens where [`Vocabulary::reaches_beyond`](crate::Vocabulary::reaches_beyond) says that what follows may
    /// change them. Where one token is forced that no text stands for, [`mask`](Self::mask) holds nothing else.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use toolgate_grammar::{Automaton, Expr, Grammar, Limits, Vocabulary};
    /// let mut grammar = Grammar::builder();
    /// let root = grammar.rule("root", Expr::choice([Expr::literal("read_file"), Expr::literal("read_dir")]));
    /// let automaton =
    ///     Automaton::new(&grammar.build(root)?, Arc::new(Vocabulary::bytes_only()), &Limits::default())?;
    /// let mut matcher = automaton.matcher();
    /// assert_eq!(matcher.forced()?, b"read_");
    /// matcher.accept_bytes(b"read_f")?;
    /// assert_eq!(matcher.forced()?, b"ile");
    /// # Ok::<(), toolgate_grammar::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Kind::Limit`].
    pub fn forced(&mut self) -> Result<Vec<u8>, Error> {
        let limit = self.automaton.limits.forced_bytes;
        self.run(|machine, at| {
            let mut at = at;
            let mut forced = Vec::new();
            while forced.len() < limit {
                let expansion = machine.expand(at)?;
                if expansion.complete || !expansion.tokens.is_empty() || expansion.n_live() != 1 {
                    break;
                }
                let Some(class) = expansion.live_classes().next() else { break };
                let (low, high) = machine.program.classes.bytes(class);
                if low != high {
                    break;
                }
                let Some(next) = machine.step(expansion, class)? else { break };
                forced.push(low);
                at = next;
            }
            Ok(forced)
        })
    }

    /// The token that comes next in any case, where no text does: a mark of a format, say. See [`forced`](Self::forced).
    ///
    /// ```
    /// use toolgate_grammar::{Automaton, Grammar, Limits, Vocabulary};
    /// let grammar = Grammar::parse(r#"root ::= "a" <[256]> "b""#)?;
    /// let automaton = Automaton::new(&grammar, Vocabulary::bytes_only().into(), &Limits::default())?;
    /// let mut matcher = automaton.matcher();
    /// assert_eq!((matcher.forced()?, matcher.forced_token()?), (b"a".to_vec(), None));
    /// matcher.accept_bytes(b"a")?;
    /// assert_eq!((matcher.forced()?, matcher.forced_token()?), (Vec::new(), Some(256)));
    /// # Ok::<(), toolgate_grammar::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Kind::Limit`].
    pub fn forced_token(&mut self) -> Result<Option<TokenId>, Error> {
        self.run(|machine, at| {
            let expansion = machine.expand(at)?;
            let mut named = expansion.tokens.iter();
            let first = named.next().filter(|leaf| !leaf.negated).map(|leaf| leaf.id);
            let is_only = !expansion.complete && expansion.n_live() == 0;
            Ok(first.filter(|id| is_only && named.all(|leaf| !leaf.negated && leaf.id == *id)))
        })
    }

    /// Whether the text so far is a whole match.
    pub fn is_complete(&self) -> bool {
        self.machine.complete(self.current)
    }

    /// Whether the text is whole and nothing can follow.
    ///
    /// # Errors
    /// [`Kind::Limit`].
    pub fn is_finished(&mut self) -> Result<bool, Error> {
        self.run(|machine, at| {
            let expansion = machine.expand(at)?;
            Ok(expansion.complete && expansion.nothing_follows())
        })
    }

    /// A shortest continuation, in bytes, that makes the text whole; empty if it is.
    ///
    /// # Errors
    /// [`Kind::Rejected`] if only a token terminal leads to the end; [`Kind::Limit`] if the shortest one is longer
    /// than [`Limits::source_bytes`](crate::Limits::source_bytes).
    pub fn completion(&mut self) -> Result<Vec<u8>, Error> {
        let byte = |piece| match piece {
            Piece::Byte(byte) => Ok(byte),
            Piece::Token { .. } => {
                let message = "only a token that is not text leads to the end from here";
                Err(Error::new(Kind::Rejected, message))
            }
        };
        self.shortest_way()?.into_iter().map(byte).collect()
    }

    /// Tokens that make the text whole: a shortest continuation (of the fewest token terminals, then of the fewest
    /// bytes) written in as few tokens as it can be. Their number bounds from above how many tokens are needed.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use toolgate_grammar::{Automaton, Grammar, Limits, TokenKind, Vocabulary};
    /// let tokens = ["[", "]", "]]", "1", ","].map(|text| (text.as_bytes().to_vec(), TokenKind::Text));
    /// let grammar = Grammar::parse(r#"root ::= "[" (item ("," item)*)? "]"
    /// item ::= [0-9] | root"#)?;
    /// let automaton = Automaton::new(&grammar, Arc::new(Vocabulary::new(tokens)?), &Limits::default())?;
    /// let mut matcher = automaton.matcher();
    /// matcher.accept_bytes(b"[[1,[1,[")?;
    /// assert_eq!(matcher.completion_tokens()?, [2, 2]);
    /// # Ok::<(), toolgate_grammar::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Kind::Rejected`] if the vocabulary cannot write it; [`Kind::Limit`] as [`completion`](Self::completion).
    pub fn completion_tokens(&mut self) -> Result<Vec<TokenId>, Error> {
        cover(&self.shortest_way()?, &self.automaton.vocabulary).ok_or_else(|| {
            Error::new(Kind::Rejected, "the vocabulary has no tokens for the shortest continuation")
        })
    }

    /// A shortest continuation that makes the text whole.
    fn shortest_way(&self) -> Result<Vec<Piece>, Error> {
        let automaton = &self.automaton;
        self.machine.completion(self.current, automaton.costs(), automaton.limits.source_bytes)
    }

    /// Undoes the last `steps` accepted steps.
    ///
    /// # Errors
    /// [`Kind::Limit`], changing nothing, if fewer were taken, or if it is so long ago that it was forgotten: of
    /// a run that visits more than [`Limits::configurations`](crate::Limits::configurations), a quarter as many
    /// last steps are kept at least.
    pub fn rollback(&mut self, steps: usize) -> Result<(), Error> {
        let Some(keep) = self.history.len().checked_sub(steps) else {
            let held = self.history.len();
            return Err(Error::new(Kind::Limit, format!("{steps} steps to undo, and {held} are held")));
        };
        if let Some(&at) = self.history.get(keep) {
            self.current = at;
        }
        self.history.truncate(keep);
        Ok(())
    }

    /// Steps taken so far.
    pub fn steps(&self) -> usize {
        self.forgotten + self.history.len()
    }

    fn touch(&self) {
        if let Ok(configuration) = self.machine.get(self.current) {
            self.machine.touch(configuration);
        }
    }

    fn step_to(&mut self, next: ConfigId) {
        self.history.push(self.current);
        self.current = next;
        self.touch();
    }

    /// Computes something at the current configuration, in a fresh machine if the tables are full.
    pub(super) fn run<T>(
        &mut self,
        compute: impl Fn(&Machine, ConfigId) -> Result<T, Stop>,
    ) -> Result<T, Error> {
        // What was kept of a full machine, by others perhaps, may leave too little room; an empty one has it all.
        for empty in [false, true, true] {
            match compute(&self.machine, self.current) {
                Ok(value) => return Ok(value),
                Err(Stop::Full) => self.move_on(empty).map_err(|stop| stop.error(&self.automaton.limits))?,
                Err(stop) => return Err(stop.error(&self.automaton.limits)),
            }
        }
        Err(Stop::Full.error(&self.automaton.limits))
    }

    /// Goes on in a fresh machine, with the last steps of the history.
    fn move_on(&mut self, empty: bool) -> Result<(), Stop> {
        let keep = self.history.len().min(self.automaton.limits.configurations / 4);
        let from = self.history.len() - keep;
        let ids: Vec<ConfigId> =
            self.history.get(from..).unwrap_or_default().iter().copied().chain([self.current]).collect();
        let mut fresh = self.automaton.renewed(&self.machine, empty)?;
        let moved = match transplant(&self.machine, &fresh, &ids) {
            Err(Stop::Full) => {
                fresh = self.automaton.renewed(&fresh, true)?;
                transplant(&self.machine, &fresh, &ids)?
            }
            moved => moved?,
        };
        self.forgotten += from;
        self.machine = fresh;
        self.history = moved;
        if let Some(current) = self.history.pop() {
            self.current = current;
        }
        Ok(())
    }
}

/// The configuration after a token; none if it may not come next.
pub(super) fn target(machine: &Machine, at: ConfigId, token: TokenId) -> Result<Option<ConfigId>, Stop> {
    let bytes = machine.vocabulary.bytes(token);
    let by_itself = match machine.vocabulary.kind(token) {
        TokenKind::Unused => return Ok(None),
        TokenKind::Text if bytes.is_empty() => None,
        TokenKind::Text => machine.bytes(at, bytes)?.ok(),
        TokenKind::Special => None,
        TokenKind::EndOfGeneration => (at != ENDED && machine.complete(at)).then_some(ENDED),
    };
    let mut items = token_targets(machine, at, token)?;
    match by_itself {
        next if items.is_empty() => Ok(next),
        next => {
            // An end token that the grammar names is part of the text: `ENDED` adds no item.
            if let Some(next) = next {
                items.extend_from_slice(&machine.get(next)?.items);
            }
            machine.configuration(items).map(Some)
        }
    }
}

/// Where the token terminals that match `token` lead.
fn token_targets(machine: &Machine, at: ConfigId, token: TokenId) -> Result<SmallVec<[Item; 2]>, Stop> {
    let expansion = machine.expand(at)?;
    if expansion.tokens.is_empty() {
        return Ok(SmallVec::new());
    }
    let ordinary = machine.vocabulary.ordinary().contains(token);
    Ok(expansion.tokens_on(token, ordinary).collect())
}

impl std::fmt::Debug for Matcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Matcher")
            .field("steps", &self.steps())
            .field("complete", &self.is_complete())
            .finish()
    }
}
