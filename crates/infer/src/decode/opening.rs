//! Ends a text where the model would rather begin something else: a call, a thought, or another text with a head of its own.
//!
//! Under a grammar of answers the model cannot begin a call in the midst of a text, whatever it wants: the mask would take the
//! opening from it, and the text would go on. So its own probabilities, without the grammar, are asked before each token.
//!
//! Invariant: nothing of the opening is in the text, and the session ends where the text does.

use super::Turn;
use crate::decision::OpeningMass;
use crate::openings::Openings;
use crate::{Backend, Error};

/// The openings that end a text, and the least probability of them.
///
/// ```
/// use std::{ops::ControlFlow, sync::Arc};
/// use toolgate_infer::{
///     DecodeOptions, Extent, Free, Opening, OpeningTexts, Openings, Sampler, Session, StopReason, Vocabulary, Watch, decode,
///     scripted::Scripted,
/// };
///
/// let vocabulary = Arc::new(Vocabulary::bytes_only());
/// let texts = OpeningTexts { calls: &["<call>"], extent: Extent::Whole, ..OpeningTexts::default() };
/// let watch = Some(Watch { openings: Openings::of(&vocabulary, &texts), threshold: 0.5 });
/// let options = DecodeOptions { watch, ..DecodeOptions::default() };
/// let mut session = Session::new(Scripted::new(vocabulary.clone()).say("x < y, I see. <call>f()"));
/// session.set_prompt_text("Compare: ")?;
/// let mut free = Free::new(vocabulary);
/// let text = decode(&mut session, &mut free, &mut Sampler::greedy(), &options, &mut |_| ControlFlow::Continue(()))?;
/// assert_eq!((text.text.as_str(), text.stop), ("x < y, I see. ", StopReason::Opened(Opening::Call)));
/// # Ok::<(), toolgate_infer::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Watch {
    /// The openings. Within text [whole](crate::Extent::Whole) ones tell more than their beginnings.
    pub openings: Openings,
    /// The least probability of one kind of them with which the text ends.
    pub threshold: f64,
}

/// What a text was left for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// A call.
    Call,
    /// A thought.
    Thought,
    /// A text with a head.
    Text,
}

impl OpeningMass {
    /// The kind that has at least this probability; of several the likeliest.
    ///
    /// ```
    /// use toolgate_infer::{Opening, OpeningMass};
    /// let mass = OpeningMass { calls: 0.2, thoughts: 0.7, ..OpeningMass::default() };
    /// assert_eq!(mass.opening(0.5), Some(Opening::Thought));
    /// assert_eq!(mass.opening(0.8), None);
    /// ```
    pub fn opening(&self, threshold: f64) -> Option<Opening> {
        let kinds =
            [(self.calls, Opening::Call), (self.thoughts, Opening::Thought), (self.heads, Opening::Text)];
        let likeliest = kinds.into_iter().filter(|(p, _)| *p >= threshold && *p > 0.0);
        likeliest.max_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, opening)| opening)
    }
}

impl<B: Backend> Turn<'_, B> {
    /// What the model would begin in place of the next token, where that ends the text.
    pub(super) fn opened(&mut self) -> Result<Option<Opening>, Error> {
        let options = self.options;
        let Some(Watch { openings, threshold }) = &options.watch else { return Ok(None) };
        let logits = match self.row {
            Some(row) => self.session.row(row)?,
            None => self.session.logits()?,
        };
        let Some(mass) = openings.mass_from(logits, *threshold) else { return Ok(None) };
        if let Some(opening) = mass.opening(*threshold) {
            return Ok(Some(opening));
        }
        // Only what follows tells what was begun. It is looked at, and the text goes on where it was.
        self.cut()?;
        if !self.pending.is_empty() {
            self.evaluate()?;
            self.cut()?;
        }
        self.refresh()?;
        let (mass, evaluations) = openings.follow(self.session)?;
        self.stats.decode_calls += evaluations;
        let opening = mass.opening(*threshold);
        if opening.is_none() {
            self.refresh()?;
        }
        Ok(opening)
    }
}
