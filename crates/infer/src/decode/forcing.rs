//! What a turn writes without asking the model: text and marks that have no alternative.
//!
//! Invariant: text becomes the tokenizer's own tokens, and a mark that is a token becomes that token.

use std::time::Instant;

use toolgate_grammar::{TokenId, TokenKind};

use super::{Forcing, Source, StopReason, Turn};
use crate::constraint::Constraint;
use crate::forced::canonical;
use crate::{Backend, Error};

impl<B: Backend> Turn<'_, B> {
    /// Takes what has no alternative here: text, and marks that are tokens, each with the text behind it.
    pub(super) fn take_forced(&mut self) -> Result<Option<StopReason>, Error> {
        loop {
            for token in self.forced()? {
                // Near the end of a budget the canonical tokens may be too many where fewer and longer ones do.
                if !self.constraint.allows(token)? {
                    return Ok(None);
                }
                if let Some(stop) = self.take(token, Source::Forced)? {
                    return Ok(Some(stop));
                }
            }
            if self.options.forcing == Forcing::Asked {
                return Ok(None);
            }
            let Some(mark) = self.constraint.forced_token()? else { return Ok(None) };
            // One that ends the generation is the model's to write.
            if self.session.vocabulary().kind(mark) != TokenKind::Special || !self.constraint.allows(mark)? {
                return Ok(None);
            }
            if let Some(stop) = self.take(mark, Source::Forced)? {
                return Ok(Some(stop));
            }
        }
    }

    /// The canonical tokens of the text that has no alternative here.
    fn forced(&mut self) -> Result<Vec<TokenId>, Error> {
        if self.options.forcing == Forcing::Asked {
            return Ok(Vec::new());
        }
        let start = Instant::now();
        let forced = self.constraint.forced()?;
        let tokens = match forced.bytes.is_empty() {
            true => Vec::new(),
            false => canonical(self.session.backend(), &self.recent(), &forced)?,
        };
        self.busy += start.elapsed();
        Ok(tokens)
    }
}
