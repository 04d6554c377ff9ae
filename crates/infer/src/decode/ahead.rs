//! The batches of a turn: the pending tokens, with a draft of the tokens behind them.
//!
//! Invariant: the session holds the tokens in front of the turn, then the turn's tokens that are not pending, then the
//! tokens ahead.

use std::collections::VecDeque;

use toolgate_grammar::TokenId;

use super::{Drafting, Forcing, Source, Turn};
use crate::constraint::Constraint;
use crate::draft::{Drafter, Reliance};
use crate::forced::whole;
use crate::{Backend, Error, Rows};

impl<B: Backend> Turn<'_, B> {
    /// Evaluates the pending tokens, with a draft behind them.
    pub(super) fn evaluate(&mut self) -> Result<(), Error> {
        if self.pending.is_empty() {
            return self.refresh();
        }
        let at_once = self.at_once();
        // The draft goes with the last tokens that are pending, in the same batch.
        let last = (self.pending.len() - 1) % at_once + 1;
        let draft = self.draft(at_once - last)?;
        let pending = std::mem::take(&mut self.pending);
        let (front, last) = pending.split_at(pending.len() - last);
        self.stats.decode_calls += self.session.eval_in_batches(front, at_once, Rows::None)?;
        if !draft.is_empty() {
            // A wrong draft is cut off. Where memory cannot be cut, the tokens in front of it go with the next batch again.
            self.checkpoint()?;
        }
        let batch: Vec<TokenId> = last.iter().chain(&draft).copied().collect();
        let first = last.len().saturating_sub(1);
        self.stats.decode_calls += self.session.eval(&batch, Rows::From(first))?;
        self.stats.drafted_tokens += draft.len();
        self.row = Some(0);
        self.ahead = draft.into();
        Ok(())
    }

    /// Ensures that there are logits behind the turn's last token, which is evaluated. It evaluates the token again if the
    /// earlier evaluation computed none for it.
    pub(super) fn refresh(&mut self) -> Result<(), Error> {
        if self.row.is_some() {
            return Ok(());
        }
        self.cut()?;
        if self.session.has_logits() && self.pending.is_empty() {
            return Ok(());
        }
        let rest = match self.pending.is_empty() {
            true => self.rewind(self.session.tokens().len().saturating_sub(1))?,
            false => std::mem::take(&mut self.pending),
        };
        self.stats.decode_calls += self.session.eval_exact(&rest, Rows::Last)?;
        Ok(())
    }

    /// Keeps what it takes to go back to the tokens held now.
    pub(super) fn checkpoint(&mut self) -> Result<(), Error> {
        self.session.checkpoint()?;
        self.checkpoint = self.session.tokens().len();
        Ok(())
    }

    /// Evaluates what a cut took of the tokens in front of the turn, where memory cannot be cut anywhere: whoever goes on behind the turn
    /// relies on them.
    pub(super) fn hold_prompt(&mut self) -> Result<(), Error> {
        let lost = self.start.saturating_sub(self.session.tokens().len()).min(self.pending.len());
        let rest = self.pending.split_off(lost);
        let lost = std::mem::replace(&mut self.pending, rest);
        self.stats.decode_calls += self.session.eval_exact(&lost, Rows::Last)?;
        Ok(())
    }

    /// Cuts the session to its first `len` tokens, or to fewer where it cannot be cut there. Returns the tokens to evaluate
    /// again, with the pending ones.
    pub(super) fn rewind(&mut self, len: usize) -> Result<Vec<TokenId>, Error> {
        let mut held = self.session.tokens().to_vec();
        self.session.truncate(len)?;
        let mut rest = held.split_off(self.session.tokens().len().min(held.len()));
        rest.append(&mut self.pending);
        Ok(rest)
    }

    /// The draft: tokens that probably follow, as many as are worth it, and at most so many.
    fn draft(&mut self, room: usize) -> Result<Vec<TokenId>, Error> {
        self.guess.clear();
        if self.lossy || self.options.drafting == Drafting::Off || self.options.forcing != Forcing::On {
            return Ok(Vec::new());
        }
        let left = self.options.max_tokens.saturating_sub(self.tokens.len() + 1);
        let fits = self.session.room().saturating_sub(self.pending.len());
        let most = room.min(left).min(fits);
        let guessed = self.guessed()?;
        let cost = self.session.backend().token_cost();
        let worth = self.drafter.as_ref().map_or(0, |drafter| {
            drafter.worth(guessed.iter().map(|&(_, reliance)| reliance), cost).min(most)
        });
        let draft = guessed.iter().take(worth).map(|&(token, _)| token).collect();
        self.guess = guessed;
        Ok(draft)
    }

    /// The tokens of the likeliest draft of which the constraint admits more than the certain text.
    fn guessed(&mut self) -> Result<VecDeque<(TokenId, Reliance)>, Error> {
        let vocabulary = self.session.vocabulary().clone();
        let (session, start, turn, pending) = (&*self.session, self.start, &self.tokens, &self.pending);
        let drafter = self.drafter.get_or_insert_with(|| {
            // Behind a cut of a memory that cannot be cut anywhere, the end of the prompt is pending.
            let prompt: Vec<TokenId> = session.tokens().iter().chain(pending).copied().take(start).collect();
            let mut drafter = Drafter::new(&vocabulary, &prompt);
            turn.iter().for_each(|token| drafter.push(vocabulary.bytes(token.token)));
            drafter
        });
        let guesses = drafter.guesses(&self.constraint.forced()?.bytes);
        let recent = self.recent();
        let mut first = VecDeque::new();
        for guess in guesses {
            let mut tokens = whole(self.session.backend(), &recent, &guess.bytes)?;
            if guess.is_cut() {
                tokens.pop();
            }
            tokens.truncate(self.constraint.admits(&tokens)?);
            let mut at = 0;
            let known = tokens.into_iter().map(|token| {
                let reliance = guess.reliance(at);
                at += vocabulary.bytes(token).len();
                (token, reliance)
            });
            let known: VecDeque<_> = known.collect();
            if known.back().is_some_and(|&(_, reliance)| reliance != Reliance::Certain) {
                return Ok(known);
            }
            if first.is_empty() {
                first = known;
            }
        }
        Ok(first)
    }

    /// Takes the next token. If the draft had another one, the tokens ahead are cut off.
    pub(super) fn follow(&mut self, token: TokenId, source: Source) -> Result<(), Error> {
        if let Some(drafter) = &mut self.drafter {
            drafter.push(self.session.vocabulary().bytes(token));
            if let Some((guessed, reliance)) = self.guess.pop_front() {
                // Forced text does not count for the share of right drafts.
                if source != Source::Forced {
                    drafter.learn(reliance, guessed == token);
                }
                if guessed != token {
                    self.guess.clear();
                }
            }
        }
        if self.ahead.front() == Some(&token) {
            self.ahead.pop_front();
            self.row = self.row.map(|row| row + 1);
            return Ok(());
        }
        self.cut()?;
        self.pending.push(token);
        Ok(())
    }

    /// Cuts off the tokens ahead. If the model's memory cannot be cut there, the lost tokens are pending again. If more is lost than the
    /// last batch, the turn drafts no more.
    pub(super) fn cut(&mut self) -> Result<(), Error> {
        self.row = None;
        let ahead = std::mem::take(&mut self.ahead).len();
        if ahead == 0 {
            return Ok(());
        }
        let held = self.session.tokens();
        let mut kept = held.get(..held.len().saturating_sub(ahead)).unwrap_or_default().to_vec();
        self.session.truncate(kept.len())?;
        let lost = kept.split_off(self.session.tokens().len().min(kept.len()));
        if lost.is_empty() {
            return Ok(());
        }
        self.pending = lost;
        if self.session.tokens().len() < self.checkpoint {
            self.drafter = None;
            self.guess.clear();
            self.lossy = true;
        }
        Ok(())
    }
}
