//! A backend and the tokens it holds: prompts are evaluated after the longest prefix already there.
//!
//! Where the backend has several sequences, a prompt that would replace much of the current one goes into another. So two
//! views of a conversation, or two conversations, are each evaluated once. A [`KvCache`] may keep in memory what has no
//! sequence any more ([`Session::keeping`]). The session puts it back when it comes again.
//!
//! Invariant: [`Session::tokens`] are exactly the tokens that the backend has evaluated in its current sequence.
//! `others` has those of its other sequences. This holds whatever failed or was cancelled.

mod place;

use std::sync::Arc;
use std::time::Instant;

use toolgate_grammar::{TokenId, Vocabulary};

use crate::sequences::{Sequences, common_len};
use crate::stats::ms;
use crate::{Backend, Cancel, Error, Kind, KvCache, Overflow, Rows, Specials};

/// How far the evaluation of a prompt has come, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Tokens of the prompt that the session held before.
    pub cached: usize,
    /// Tokens of the prompt that the session holds by now, with the cached ones.
    pub done: usize,
    /// Tokens of the prompt.
    pub total: usize,
}

/// The cost of setting a prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Prefill {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Of these, tokens found in the cache.
    pub cached_tokens: usize,
    /// Of these, tokens evaluated now. At least one, if logits are wanted and nothing is ahead.
    pub evaluated_tokens: usize,
    /// Time taken, in milliseconds.
    pub ms: f64,
}

/// One conversation with a model.
///
/// ```
/// use std::sync::Arc;
/// use toolgate_infer::{Backend, Session, Vocabulary, scripted::Scripted};
///
/// let mut session = Session::new(Scripted::new(Arc::new(Vocabulary::bytes_only())));
/// let first = session.set_prompt_text("one two")?;
/// assert_eq!((first.cached_tokens, first.evaluated_tokens), (0, 7));
/// let longer = session.set_prompt_text("one two three")?;
/// assert_eq!((longer.cached_tokens, longer.evaluated_tokens), (7, 6), "only what was added is evaluated");
/// assert_eq!(session.room() + session.tokens().len(), session.backend().context_len());
/// // Nothing more comes for a while. A shared backend need not wait for this conversation.
/// session.end_turn();
/// assert_eq!(session.into_backend().batches(), [7, 6]);
/// # Ok::<(), toolgate_infer::Error>(())
/// ```
#[derive(Debug)]
pub struct Session<B> {
    backend: B,
    tokens: Vec<TokenId>,
    /// The backend's current sequence.
    current: usize,
    /// Its other sequences.
    others: Sequences,
    /// The cache of what its sequences gave up.
    cache: Option<KvCache>,
    /// Tokens in front of the first batch of the turn that may have changed the low bits of logits.
    sure: usize,
    /// The row of the last token in the last evaluation. `None` if its logits were not asked for.
    row: Option<usize>,
}

impl<B: Backend> Session<B> {
    /// A session that starts empty. The first prompt makes it forget what `backend` holds.
    pub fn new(backend: B) -> Self {
        Self {
            backend,
            tokens: Vec::new(),
            current: 0,
            others: Sequences::default(),
            cache: None,
            sure: 0,
            row: None,
        }
    }

    /// The same session with a cache. It keeps in `cache` what its sequences give up, and takes from there
    /// what comes again.
    #[must_use]
    pub fn keeping(mut self, cache: KvCache) -> Self {
        self.cache = Some(cache).filter(KvCache::keeps);
        self
    }

    /// The backend.
    pub fn backend(&self) -> &B {
        &self.backend
    }

    /// Gives the backend back.
    pub fn into_backend(self) -> B {
        self.backend
    }

    /// The tokens of the model.
    pub fn vocabulary(&self) -> &Arc<Vocabulary> {
        self.backend.vocabulary()
    }

    /// The tokens evaluated so far.
    pub fn tokens(&self) -> &[TokenId] {
        &self.tokens
    }

    /// Tokens that still fit.
    pub fn room(&self) -> usize {
        self.backend.context_len().saturating_sub(self.tokens.len())
    }

    /// Makes `prompt` what the backend holds. It evaluates only what follows the longest prefix that is
    /// there, in batches. It calls `progress` before the first batch and after each. At least `reserve`
    /// tokens stay free behind the prompt.
    ///
    /// # Errors
    /// [`Kind::Overflow`] with its numbers, before anything is evaluated. [`Kind::Cancelled`] between two
    /// batches. [`Kind::Options`] for an empty prompt. [`Kind::Backend`].
    ///
    /// ```
    /// use std::sync::Arc;
    /// use toolgate_infer::{Cancel, Session, Vocabulary, scripted::Scripted};
    ///
    /// let mut session = Session::new(Scripted::new(Arc::new(Vocabulary::bytes_only())).batch(4));
    /// let (prompt, mut done) = (b"ten tokens".map(u32::from), Vec::new());
    /// session.set_prompt(&prompt, 100, &Cancel::default(), &mut |progress| done.push(progress.done))?;
    /// assert_eq!(done, [0, 4, 8, 10], "in batches of four");
    /// # Ok::<(), toolgate_infer::Error>(())
    /// ```
    pub fn set_prompt(
        &mut self,
        prompt: &[TokenId],
        reserve: usize,
        cancel: &Cancel,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Prefill, Error> {
        self.set_prompt_ahead(prompt, &[], reserve, cancel, progress)
    }

    /// [`set_prompt`](Self::set_prompt) with `ahead` behind the prompt, in the same batch. `ahead` is the
    /// expected beginning of the turn, and the logits are those behind it. It counts as part of `reserve`,
    /// and not as prompt.
    ///
    /// # Errors
    /// The errors of [`set_prompt`](Self::set_prompt).
    ///
    /// ```
    /// use std::sync::Arc;
    /// use toolgate_infer::{Cancel, Session, Vocabulary, scripted::Scripted};
    ///
    /// let mut session = Session::new(Scripted::new(Arc::new(Vocabulary::bytes_only())));
    /// let (prompt, ahead) = (b"ask".map(u32::from), b"<call>".map(u32::from));
    /// let prefill = session.set_prompt_ahead(&prompt, &ahead, 64, &Cancel::default(), &mut |_| ())?;
    /// assert_eq!((prefill.prompt_tokens, session.tokens().len()), (3, 9));
    /// assert_eq!(session.backend().batches(), [9], "one evaluation of both");
    /// # Ok::<(), toolgate_infer::Error>(())
    /// ```
    pub fn set_prompt_ahead(
        &mut self,
        prompt: &[TokenId],
        ahead: &[TokenId],
        reserve: usize,
        cancel: &Cancel,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Prefill, Error> {
        let prefill = self.hold(prompt, ahead, reserve, Rows::Last, cancel, progress)?;
        self.backend.begin_turn(prompt.len());
        Ok(prefill)
    }

    /// Holds the beginning of prompts, as [`set_prompt`](Self::set_prompt) would. No turn begins there, and
    /// there are no logits.
    ///
    /// # Errors
    /// The errors of [`set_prompt`](Self::set_prompt).
    ///
    /// ```
    /// use std::sync::Arc;
    /// use toolgate_infer::{Cancel, Session, Vocabulary, scripted::Scripted};
    ///
    /// let mut session = Session::new(Scripted::new(Arc::new(Vocabulary::bytes_only())));
    /// session.set_beginning(&b"Be brief. ".map(u32::from), 0, &Cancel::default(), &mut |_| ())?;
    /// assert!(session.logits().is_err());
    /// assert_eq!(session.set_prompt_text("Be brief. Hello!")?.cached_tokens, 10);
    /// # Ok::<(), toolgate_infer::Error>(())
    /// ```
    pub fn set_beginning(
        &mut self,
        beginning: &[TokenId],
        reserve: usize,
        cancel: &Cancel,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Prefill, Error> {
        self.hold(beginning, &[], reserve, Rows::None, cancel, progress)
    }

    fn hold(
        &mut self,
        prompt: &[TokenId],
        ahead: &[TokenId],
        reserve: usize,
        rows: Rows,
        cancel: &Cancel,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Prefill, Error> {
        let start = Instant::now();
        let (total, context) = (prompt.len(), self.backend.context_len());
        if total == 0 {
            return Err(Error::new(Kind::Options, "the prompt is empty: it needs at least one token"));
        }
        let reserve = reserve.max(ahead.len());
        if total.saturating_add(reserve) > context {
            return Err(Error::overflow_of(Overflow { prompt: total, reserve, context }));
        }
        let wanted = [prompt, ahead].concat();
        // The last token may have to be evaluated again. The turn starts from its logits.
        let most = if rows == Rows::None { wanted.len() } else { wanted.len() - 1 };
        let sought = prompt.get(..most.min(total)).unwrap_or_default();
        let known = self.held(sought);
        progress(Progress { cached: known, done: known, total });
        // A caller that finds now that it takes too long has given nothing up for it.
        if cancel.is_cancelled() {
            return Err(cancelled());
        }
        self.recall(sought)?;
        self.choose(sought)?;
        self.truncate(common_len(&self.tokens, &wanted).min(most))?;
        if self.tokens.len() < most {
            self.borrow(wanted.get(..most).unwrap_or_default())?;
        }
        let cached = self.tokens.len().min(total);
        // A turn goes back to the last token of its prompt, for its logits.
        let end = if rows == Rows::None { total } else { total - 1 };
        let checkpoint = Some(end).filter(|_| !self.backend.cuts_anywhere());
        let mut rest = wanted.get(self.tokens.len()..).unwrap_or_default();
        while !rest.is_empty() {
            if cancel.is_cancelled() {
                return Err(cancelled());
            }
            if checkpoint == Some(self.tokens.len()) {
                self.backend.checkpoint()?;
            }
            let until = checkpoint.and_then(|end| end.checked_sub(self.tokens.len())).filter(|&end| end > 0);
            let len = rest.len().min(self.backend.batch_len().max(1)).min(until.unwrap_or(usize::MAX));
            let (batch, after) = rest.split_at(len);
            self.eval_batch(batch, if after.is_empty() { rows } else { Rows::None })?;
            rest = after;
            progress(Progress { cached, done: self.tokens.len().min(total), total });
        }
        if checkpoint == Some(self.tokens.len()) {
            self.backend.checkpoint()?;
        }
        // A turn rests on the batches of its prompt, however it is decoded.
        self.sure = self.tokens.len();
        let evaluated_tokens = total - cached;
        Ok(Prefill { prompt_tokens: total, cached_tokens: cached, evaluated_tokens, ms: ms(start.elapsed()) })
    }

    /// Tells the backend that a turn has ended. Nothing is evaluated for a while.
    pub fn end_turn(&mut self) {
        self.backend.end_turn();
    }

    /// [`set_prompt`](Self::set_prompt) for a text, for examples and tests. It parses control tokens and
    /// reserves nothing.
    ///
    /// # Errors
    /// The errors of [`set_prompt`](Self::set_prompt).
    pub fn set_prompt_text(&mut self, prompt: &str) -> Result<Prefill, Error> {
        let tokens = self.backend.tokenize(prompt, Specials::Parse)?;
        self.set_prompt(&tokens, 0, &Cancel::default(), &mut |_| ())
    }

    /// Keeps what it takes to go back to the tokens held now, where the model's memory cannot be cut anywhere.
    /// [`rewind`](Self::rewind) then costs no evaluation.
    ///
    /// # Errors
    /// [`Kind::Backend`].
    pub fn checkpoint(&mut self) -> Result<(), Error> {
        self.backend.checkpoint()
    }

    /// Goes back to `tokens`, with which the tokens held begin. Gives the number of evaluations. There are some
    /// where the model's memory cannot be cut there: the tokens behind the last
    /// [`checkpoint`](Self::checkpoint) are evaluated again, in exact batches.
    ///
    /// # Errors
    /// The errors of [`eval`](Self::eval).
    ///
    /// ```
    /// use std::sync::Arc;
    /// use toolgate_infer::{Rows, Session, Vocabulary, scripted::Scripted};
    ///
    /// let mut session = Session::new(Scripted::new(Arc::new(Vocabulary::bytes_only())));
    /// session.set_prompt_text("Say: ")?;
    /// session.checkpoint()?;
    /// let here = session.tokens().to_vec();
    /// session.eval(&b"ab".map(u32::from), Rows::Last)?;
    /// assert_eq!((session.rewind(&here, Rows::None)?, session.tokens()), (0, &here[..]));
    /// # Ok::<(), toolgate_infer::Error>(())
    /// ```
    pub fn rewind(&mut self, tokens: &[TokenId], rows: Rows) -> Result<usize, Error> {
        self.truncate(common_len(&self.tokens, tokens))?;
        self.eval_exact(tokens.get(self.tokens.len()..).unwrap_or_default(), rows)
    }

    /// Evaluates `tokens` behind those it holds. Gives the number of evaluations. Afterwards the logits of
    /// `rows` can be read. If the tokens need several batches, only those of the last batch can.
    ///
    /// # Errors
    /// [`Kind::Overflow`], [`Kind::Backend`].
    ///
    /// ```
    /// use std::sync::Arc;
    /// use toolgate_infer::{Rows, Session, Vocabulary, scripted::Scripted};
    ///
    /// let mut session = Session::new(Scripted::new(Arc::new(Vocabulary::bytes_only())).say("abc"));
    /// session.set_prompt_text("Say: ")?;
    /// assert_eq!(session.eval(&b"ab".map(u32::from), Rows::All)?, 1, "one evaluation");
    /// let likeliest = |logits: &[f32]| (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b]));
    /// assert_eq!(likeliest(session.row(0)?), Some(usize::from(b'b')), "behind \"a\"");
    /// assert_eq!(likeliest(session.logits()?), Some(usize::from(b'c')), "behind \"ab\"");
    /// # Ok::<(), toolgate_infer::Error>(())
    /// ```
    pub fn eval(&mut self, tokens: &[TokenId], rows: Rows) -> Result<usize, Error> {
        self.eval_in_batches(tokens, self.backend.batch_len(), rows)
    }

    /// [`eval`](Self::eval) in batches of at most [`Backend::exact_batch_len`] tokens. So the logits are
    /// those of single tokens.
    ///
    /// # Errors
    /// The errors of [`eval`](Self::eval).
    ///
    /// ```
    /// use std::sync::Arc;
    /// use toolgate_infer::{Rows, Session, Vocabulary, scripted::Scripted};
    ///
    /// let mut session = Session::new(Scripted::new(Arc::new(Vocabulary::bytes_only())).batch(4));
    /// session.set_prompt_text("Say: ")?;
    /// assert_eq!(session.eval_exact(&b"abcdef".map(u32::from), Rows::Last)?, 2, "batches of four and two");
    /// # Ok::<(), toolgate_infer::Error>(())
    /// ```
    pub fn eval_exact(&mut self, tokens: &[TokenId], rows: Rows) -> Result<usize, Error> {
        self.eval_in_batches(tokens, self.backend.exact_batch_len(), rows)
    }

    /// [`eval`](Self::eval) in batches of at most `at_once` tokens.
    pub(crate) fn eval_in_batches(
        &mut self,
        tokens: &[TokenId],
        at_once: usize,
        rows: Rows,
    ) -> Result<usize, Error> {
        let (prompt, context) = (self.tokens.len() + tokens.len(), self.backend.context_len());
        if prompt > context {
            return Err(Error::overflow_of(Overflow { prompt, reserve: 0, context }));
        }
        let mut calls = 0;
        for batch in tokens.chunks(at_once.min(self.backend.batch_len()).max(1)) {
            let is_sure = self.sure == self.tokens.len() && batch.len() <= self.backend.exact_batch_len();
            self.eval_batch(batch, rows)?;
            calls += 1;
            if is_sure {
                self.sure = self.tokens.len();
            }
        }
        Ok(calls)
    }

    /// The number of sure tokens. Their logits are, bit for bit, those of a turn that is evaluated token by
    /// token. A batch of the turn wider than [`Backend::exact_batch_len`] ends them.
    pub(crate) fn sure(&self) -> usize {
        self.sure
    }

    /// Logits after the last token.
    ///
    /// # Errors
    /// [`Kind::Backend`] if they were not asked for, such as after [`truncate`](Self::truncate).
    pub fn logits(&self) -> Result<&[f32], Error> {
        let missing = || Error::new(Kind::Backend, "no logits: the last token was not evaluated for them");
        self.row(self.row.ok_or_else(missing)?)
    }

    /// Whether there are [`logits`](Self::logits) after the last token.
    pub(crate) fn has_logits(&self) -> bool {
        self.row.is_some()
    }

    /// Logits of a row of the last evaluation. See [`Rows`].
    ///
    /// # Errors
    /// [`Kind::Backend`].
    pub fn row(&self, row: usize) -> Result<&[f32], Error> {
        let logits = self.backend.logits(row)?;
        if logits.len() != self.backend.vocabulary().len() {
            let (got, want) = (logits.len(), self.backend.vocabulary().len());
            return Err(Error::new(Kind::Backend, format!("backend gave {got} logits for {want} tokens")));
        }
        Ok(logits)
    }

    /// Forgets all but the first `len` tokens. It forgets more if the backend cannot cut there.
    ///
    /// # Errors
    /// [`Kind::Backend`].
    ///
    /// ```
    /// use std::sync::Arc;
    /// use toolgate_infer::{Session, Vocabulary, scripted::Scripted};
    ///
    /// let mut session = Session::new(Scripted::new(Arc::new(Vocabulary::bytes_only())));
    /// session.set_prompt_text("one two")?;
    /// session.truncate(3)?;
    /// assert_eq!(session.tokens(), b"one".map(u32::from));
    /// assert!(session.logits().is_err(), "those behind \"one\" were not asked for");
    /// # Ok::<(), toolgate_infer::Error>(())
    /// ```
    pub fn truncate(&mut self, len: usize) -> Result<(), Error> {
        if len < self.tokens.len() || self.backend.evaluated() != self.tokens.len() {
            self.row = None;
            let kept = self.backend.truncate(len.min(self.tokens.len()));
            self.tokens.truncate(self.backend.evaluated());
            let cut = kept.map(|kept| self.tokens.truncate(kept));
            self.sure = self.sure.min(self.tokens.len());
            cut?;
        }
        Ok(())
    }

    fn eval_batch(&mut self, batch: &[TokenId], rows: Rows) -> Result<(), Error> {
        self.row = None;
        let held = self.tokens.len();
        let result = self.backend.eval(batch, rows);
        let gained = self.backend.evaluated().saturating_sub(held).min(batch.len());
        self.tokens.extend(batch.iter().take(gained));
        result?;
        if gained < batch.len() {
            return Err(Error::new(Kind::Backend, "backend evaluated fewer tokens than it was given"));
        }
        self.row = match rows {
            Rows::None => None,
            Rows::Last => Some(0),
            Rows::All => batch.len().checked_sub(1),
            Rows::From(first) => batch.len().checked_sub(first + 1),
        };
        Ok(())
    }
}

fn cancelled() -> Error {
    Error::new(Kind::Cancelled, "cancelled while the prompt was evaluated")
}
