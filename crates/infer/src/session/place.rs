//! Where a prompt goes: to the sequence of the backend that keeps most of it, or to what the cache kept of another conversation.

use toolgate_grammar::TokenId;

use super::Session;
use crate::sequences::common_len;
use crate::{Backend, Error};

/// The number of tokens that are worth a sequence of their own. Their evaluation takes a fraction of a second
/// on two cores.
const WORTH_KEEPING: usize = 32;

impl<B: Backend> Session<B> {
    /// The most tokens of `prompt` that need no evaluation. A sequence of this or another conversation may
    /// have them, or the cache.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use toolgate_infer::{Session, Vocabulary, scripted::Scripted};
    ///
    /// let mut session = Session::new(Scripted::new(Arc::new(Vocabulary::bytes_only())));
    /// session.set_prompt_text("one two")?;
    /// assert_eq!(session.held(&b"one ten".map(u32::from)), 5);
    /// # Ok::<(), toolgate_infer::Error>(())
    /// ```
    pub fn held(&self, prompt: &[TokenId]) -> usize {
        self.evaluated(prompt).max(self.cache.as_ref().map_or(0, |cache| cache.held(prompt)))
    }

    /// The most tokens of `prompt` that a sequence holds.
    fn evaluated(&self, prompt: &[TokenId]) -> usize {
        let beside = self.beside(prompt).map_or(0, |(_, held)| held);
        self.here(prompt).max(beside).max(self.backend.lent(prompt))
    }

    /// The tokens of `prompt` that the current sequence can be cut to.
    fn here(&self, prompt: &[TokenId]) -> usize {
        self.backend.kept(self.current, common_len(&self.tokens, prompt))
    }

    /// The other sequence that can be cut to most tokens of `prompt`, and their number.
    fn beside(&self, prompt: &[TokenId]) -> Option<(usize, usize)> {
        self.others.best(prompt, |sequence, common| self.backend.kept(sequence, common))
    }

    /// The state of the tokens held, as bytes for [`restore`](Self::restore). `None` if the backend cannot
    /// tell it.
    ///
    /// # Errors
    /// [`Kind::Backend`](crate::Kind::Backend).
    pub fn save(&mut self) -> Result<Option<Vec<u8>>, Error> {
        self.backend.save()
    }

    /// Holds `tokens` from their saved `state`, without an evaluation. Tells whether that went well. Tokens
    /// held before stay in another sequence, if they are worth keeping.
    ///
    /// # Errors
    /// [`Kind::Backend`](crate::Kind::Backend).
    ///
    /// ```
    /// use std::sync::Arc;
    /// use toolgate_infer::{Session, Vocabulary, scripted::Scripted};
    ///
    /// let new = || Session::new(Scripted::new(Arc::new(Vocabulary::bytes_only())));
    /// let (mut session, mut later) = (new(), new());
    /// session.set_prompt_text("a long prompt")?;
    /// let state = session.save()?.unwrap_or_default();
    /// assert!(later.restore(session.tokens(), &state)?);
    /// assert_eq!(later.set_prompt_text("a long prompt, and more")?.evaluated_tokens, 10);
    /// # Ok::<(), toolgate_infer::Error>(())
    /// ```
    pub fn restore(&mut self, tokens: &[TokenId], state: &[u8]) -> Result<bool, Error> {
        if tokens.is_empty() || tokens.len() > self.backend.context_len() {
            return Ok(false);
        }
        self.set_aside()?;
        self.row = None;
        let restored = self.backend.restore(state, tokens)?;
        if restored && self.backend.evaluated() == tokens.len() {
            self.tokens = tokens.to_vec();
            self.sure = tokens.len();
            return Ok(true);
        }
        self.truncate(0)?;
        Ok(false)
    }

    /// Goes to the sequence that can be cut to most of `prompt`. If too much would be lost there, it goes to a new one
    /// with that much.
    pub(super) fn choose(&mut self, prompt: &[TokenId]) -> Result<(), Error> {
        let mut held = self.here(prompt);
        if let Some((sequence, more)) = self.beside(prompt).filter(|&(_, more)| more > held) {
            self.go_to(sequence)?;
            held = more;
        }
        let sequences = self.backend.sequences();
        let lost = self.tokens.len() - held;
        if lost < WORTH_KEEPING {
            return Ok(());
        }
        let free = (0..sequences).find(|&sequence| sequence != self.current && !self.others.has(sequence));
        // What is given up for it must not be worth more. So a long prompt stays where short ones come and
        // go.
        let given_up =
            || self.others.cheapest().filter(|&(_, tokens)| tokens <= lost).map(|(other, _)| other);
        let Some(target) = free.or_else(given_up) else { return self.keep() };
        self.row = None;
        self.keep_other(target)?;
        let _ = self.others.take(target);
        let kept = match self.backend.fork(target, held) {
            Ok(kept) => kept,
            Err(error) => {
                self.backend.switch(self.current)?;
                return Err(error);
            }
        };
        let mut tokens = self.tokens.clone();
        tokens.truncate(kept);
        self.others
            .put(std::mem::replace(&mut self.current, target), std::mem::replace(&mut self.tokens, tokens));
        Ok(())
    }

    /// Puts back what is kept of `prompt`, if that is more than any sequence holds.
    pub(super) fn recall(&mut self, prompt: &[TokenId]) -> Result<(), Error> {
        let Some(cache) = self.cache.clone() else { return Ok(()) };
        let kept = cache.held(prompt);
        if kept < WORTH_KEEPING || kept < self.evaluated(prompt) + WORTH_KEEPING {
            return Ok(());
        }
        let Some((tokens, state)) = cache.find(prompt) else { return Ok(()) };
        if !self.restore(&tokens, &state)? {
            cache.forget(&tokens);
            return Ok(());
        }
        // The cache still keeps what follows. It needs no sequence.
        self.truncate(common_len(&self.tokens, prompt))
    }

    /// Keeps the state of the current sequence, which is about to be lost.
    fn keep(&mut self) -> Result<(), Error> {
        let Some(cache) = &self.cache else { return Ok(()) };
        if cache.held(&self.tokens) + WORTH_KEEPING > self.tokens.len() {
            return Ok(());
        }
        if let Some(state) = self.backend.save()? {
            let cuts = self.backend.cuts_saved();
            cache.put(self.tokens.clone(), state, cuts);
        }
        Ok(())
    }

    /// Keeps the state of another sequence, if it holds something.
    fn keep_other(&mut self, sequence: usize) -> Result<(), Error> {
        if self.cache.is_none() || !self.others.has(sequence) {
            return Ok(());
        }
        let current = self.current;
        self.go_to(sequence)?;
        let kept = self.keep();
        self.go_to(current)?;
        kept
    }

    /// Makes another sequence the current one.
    fn go_to(&mut self, sequence: usize) -> Result<(), Error> {
        self.row = None;
        self.backend.switch(sequence)?;
        let tokens = self.others.take(sequence);
        let before = std::mem::replace(&mut self.current, sequence);
        self.others.put(before, std::mem::replace(&mut self.tokens, tokens));
        Ok(())
    }

    /// Takes over what another conversation holds of `prompt`. The prompt begins with all that is held here.
    pub(super) fn borrow(&mut self, prompt: &[TokenId]) -> Result<(), Error> {
        let result = self.backend.borrow(prompt);
        let held = self.backend.evaluated();
        if held != self.tokens.len() {
            self.row = None;
            self.tokens = prompt.get(..held).unwrap_or_default().to_vec();
        }
        result.map(drop)
    }

    /// Goes to an empty sequence. What is worth keeping stays where it is. Nothing is copied: a backend may
    /// put a copy off until it evaluates, and would overwrite what is put there in between.
    fn set_aside(&mut self) -> Result<(), Error> {
        let sequences = self.backend.sequences();
        let free = (0..sequences).find(|&sequence| sequence != self.current && !self.others.has(sequence));
        let other = free.or_else(|| self.others.oldest()).filter(|_| self.tokens.len() >= WORTH_KEEPING);
        match other {
            Some(target) => {
                self.keep_other(target)?;
                self.go_to(target)?;
            }
            None => self.keep()?,
        }
        self.truncate(0)
    }
}
