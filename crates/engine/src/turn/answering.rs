//! An answer in the form that it was asked for: gone on with where it was begun, and written again where what no grammar holds is wrong.
//!
//! Invariant: nothing of an answer that may be written again is shown before it is known to fit.

use std::ops::{ControlFlow, Range};

use toolgate_grammar::Budgeted;
use toolgate_grammar::marks::Mark;
use toolgate_infer::{
    Backend, Constraint as Limit, DecodeOptions, Decoded, Piece, StopReason, Tried, decode_from,
    likeliest_other,
};

use crate::constraint::automata::Side;
use crate::turn::driver::Until;
use crate::turn::local::State;
use crate::turn::making::Making;
use crate::turn::place;
use crate::turn::retry::{failed, is_ended};
use crate::turn::shown::Shown;
use crate::turn::watch::WatchedAnswer;
use crate::{AnswerCheck, AnswerForm, Constraint, TokenLikelihood, TurnEvent};
use crate::{Error, Kind};

impl<B: Backend + Send> Making<'_, B> {
    /// The text of an answer, shown unless it repeats the question; where it was begun, what follows that.
    pub(crate) fn held(
        &mut self,
        state: &mut State<B>,
        side: &Side,
        question: &str,
        until: Until,
    ) -> Result<Decoded, Error> {
        let watch = self.request.repetitions.filter(|_| !question.is_empty());
        let shown = || Shown::Answer(WatchedAnswer::new(watch, question));
        match self.request.answer_check {
            Some(check) => self.checked(state, side, check),
            None => {
                let openings = self.watch(until);
                self.decode(state, Some(side), &mut self.sampler()?, shown(), openings)
            }
        }
    }

    /// An answer that fits a check, which is shown once that is known; one that was cut off is what there is.
    fn checked(
        &mut self,
        state: &mut State<B>,
        side: &Side,
        check: &dyn AnswerCheck,
    ) -> Result<Decoded, Error> {
        let mut sampler = self.sampler()?;
        let mut decoded = self.decode(state, Some(side), &mut sampler, Shown::Nothing, None)?;
        let mut tried = Tried::default();
        for left in (0..=self.engine.options.retries).rev() {
            let wrong = if is_ended(&decoded) { self.fault(check, &decoded.text) } else { None };
            let Some((place, why)) = wrong else {
                (self.events)(TurnEvent::Text(decoded.text.clone()));
                return Ok(decoded);
            };
            let unfit = || {
                let message = format!(
                    "the model found no answer that fits its schema: {why}; ask again, or in other words"
                );
                Error::new(Kind::Engine, message)
            };
            let Some(place) = place.filter(|_| left > 0) else { return Err(unfit()) };
            tried.add(decoded.text.get(..place.end).unwrap_or_default());
            let options = self.answer_options();
            let (this, stats) = (&*self, &mut self.stats.clone());
            let mut make = || this.constraint(Some(side)).map_err(failed);
            let found =
                likeliest_other(&mut state.session, &mut make, &options, &decoded, place, &tried, stats)?;
            self.stats = stats.clone();
            let Some(other) = found else { return Err(unfit()) };
            (self.events)(TurnEvent::Retry(format!("{why}; that value is written again")));
            let mut constraint = self.constraint(Some(side))?;
            let silent = &mut |_: Piece<'_>| ControlFlow::Continue(());
            let again =
                decode_from(&mut state.session, &mut constraint, &mut sampler, &options, &other, silent)?;
            let Some(again) = again else { return Err(unfit()) };
            decoded = self.counted(again, Some(side))?;
            self.tell_likelihoods(&decoded);
            if decoded.stop == StopReason::Cancelled {
                break;
            }
        }
        Ok(decoded)
    }

    /// What is wrong with a whole answer, and which bytes of its text to write again, where that can be told.
    fn fault(&self, check: &dyn AnswerCheck, text: &str) -> Option<(Option<Range<usize>>, String)> {
        let begun = self.begun().unwrap_or_default();
        let whole = format!("{begun}{text}");
        let value = match serde_json::from_str(&whole) {
            Ok(value) => value,
            Err(why) => return Some((None, why.to_string())),
        };
        let fault = check.fault(&value)?;
        let start = whole.len() - whole.trim_start().len();
        let place = place::of_value(&whole, start, &fault.pointer);
        // What was begun stays.
        let place = place.filter(|place| place.end > begun.len());
        let behind = |at: usize| at.saturating_sub(begun.len());
        Some((place.map(|place| behind(place.start)..behind(place.end)), fault.why))
    }

    /// A side's constraint where its text begins: behind what was begun of an answer.
    pub(crate) fn constraint(&self, side: Option<&Side>) -> Result<Box<dyn Limit>, Error> {
        let (Some(begun), Some(side)) = (self.begun(), side) else { return self.engine.constraint(side) };
        if self.engine.options.constraint != Constraint::Grammar {
            return Err(Error::input("an answer is gone on with under toolgate's own grammar alone"));
        }
        let mut run = side.automaton.matcher();
        // The first character of a text tells it from a call, or its header does; of one that was begun as an answer nothing is to be
        // told.
        let format = self.engine.dialogue.format();
        let first = match (self.request.answer, format.answer_head()) {
            (AnswerForm::Text, "") => Mark::of_text("x"),
            (AnswerForm::Text, head) => format.mark(head),
            _ => Mark::default(),
        };
        let taken = run.accept_mark(&first).and_then(|()| run.accept_bytes(begun.as_bytes()));
        taken.map_err(|why| {
            Error::input(format!(
                "no answer of the form that was asked for goes on from the one begun: {why}"
            ))
        })?;
        Ok(Box::new(Budgeted::new(run)))
    }

    /// What was begun of the answer.
    pub(crate) fn begun(&self) -> Option<&str> {
        self.request.goes_on_from()
    }

    /// An answer's text without the blanks around it, but for those that its form or what was begun has a use for.
    pub(crate) fn trimmed<'t>(&self, text: &'t str) -> &'t str {
        match self.request.answer {
            AnswerForm::Grammar(_) => text,
            _ if self.request.trims_front() => text.trim(),
            _ => text.trim_end(),
        }
    }

    /// How answers are decoded.
    pub(crate) fn answer_options(&self) -> DecodeOptions {
        DecodeOptions {
            stop_texts: self.request.sampling.stop.clone(),
            likelihoods: self.request.likelihoods,
            ..self.decode_options()
        }
    }

    /// Tells how likely the tokens of a text were, where that was asked for.
    pub(crate) fn tell_likelihoods(&mut self, decoded: &Decoded) {
        if decoded.likelihoods.is_empty() {
            return;
        }
        let vocabulary = &self.engine.vocabulary;
        let told = decoded.likelihoods.iter().map(|token| TokenLikelihood {
            bytes: vocabulary.bytes(token.token).to_vec(),
            log_probability: token.log_probability,
            top: token
                .top
                .iter()
                .map(|&(token, likely)| (vocabulary.bytes(token).to_vec(), likely))
                .collect(),
        });
        (self.events)(TurnEvent::Likelihoods(told.collect()));
    }
}
