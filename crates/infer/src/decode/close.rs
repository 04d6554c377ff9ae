//! Repeats choices that wide batches leave open, from narrow ones.
//!
//! Wide batches are cheaper for each token. They change low bits of the logits behind them, by less than
//! [`Backend::noise`]. A greedy turn takes them all the same. If the chosen token is further than that from every other
//! allowed one, the plain loop would choose it too. If it is not, the turn is evaluated again from its first wide batch on,
//! in exact batches, and the choice is made from those logits. The rest of the turn uses exact batches, too: close choices
//! come together, and each would cost all tokens since the first once more.
//!
//! The first wide batch is one that forced text fills. Turns without forced text, such as answers, take none: they have many
//! choices, and too many of those are close.

use super::{Forcing, Turn};
use crate::likelihood::Likelihood;
use crate::sampler::{Draw, has_rival};
use crate::{Backend, Error, Rows, Sampler};

impl<B: Backend> Turn<'_, B> {
    /// The most tokens of a batch.
    pub(super) fn at_once(&self) -> usize {
        if self.options.forcing != Forcing::On {
            return 1;
        }
        let backend = self.session.backend();
        let exact = backend.exact_batch_len().max(1);
        let is_wide = self.noise.is_some() && self.pending.len() > exact || self.in_doubt().is_some();
        if is_wide { backend.batch_len().max(1) } else { exact }
    }

    /// Draws the next token from logits that decide it clearly.
    pub(super) fn draw(&mut self, sampler: &mut Sampler) -> Result<Draw, Error> {
        let doubt = self.in_doubt();
        let logits = match self.row {
            Some(row) => self.session.row(row)?,
            None => self.session.logits()?,
        };
        let weighed = sampler.weighed(logits, &self.tokens);
        let draw = sampler.draw(&weighed, &mut self.constraint)?;
        let is_sure = match doubt {
            None => true,
            Some(noise) => !has_rival(&weighed, draw.token, noise, &mut self.constraint)?,
        };
        if is_sure {
            self.drawn = self.options.likelihoods.map(|top| Likelihood::of(logits, draw.token, top));
            return Ok(draw);
        }
        self.settle()?;
        let logits = self.session.logits()?;
        let weighed = sampler.weighed(logits, &self.tokens);
        let draw = sampler.draw(&weighed, &mut self.constraint)?;
        self.drawn = self.options.likelihoods.map(|top| Likelihood::of(logits, draw.token, top));
        Ok(draw)
    }

    /// Whether a probability is so near to a threshold that the noise of wide batches may decide.
    pub(super) fn is_near(&self, probability: f64, threshold: f64) -> bool {
        let odds = |p: f64| (p / (1.0 - p)).ln();
        self.in_doubt().is_some_and(|noise| (odds(probability) - odds(threshold)).abs() < f64::from(noise))
    }

    /// The noise in the logits behind the session's last token; none where they are those of the plain loop.
    fn in_doubt(&self) -> Option<f32> {
        self.noise.filter(|_| self.session.sure() < self.session.tokens().len())
    }

    /// Evaluates again, in exact batches, the tokens from the first wide batch up to the turn's last token.
    pub(super) fn settle(&mut self) -> Result<(), Error> {
        self.cut()?;
        let rest = self.rewind(self.session.sure())?;
        self.stats.decode_calls += self.session.eval_exact(&rest, Rows::Last)?;
        self.noise = None;
        Ok(())
    }
}
