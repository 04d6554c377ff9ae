//! Where a turn is: the prompt that was evaluated, what stands behind it by now, and what the model would begin there.
//!
//! Invariant: a turn that looked at another prompt meanwhile goes on from its own tokens.

use toolgate_grammar::TokenId;
use toolgate_infer::{Backend, Decoded, Rows, Watch};

use crate::Error;
use crate::constraint::automata::Side;
use crate::profile::policy::EVEN;
use crate::turn::driver::Until;
use crate::turn::local::State;
use crate::turn::making::Making;
use crate::turn::reasoning_plan::OpenedBy;
use crate::turn::shown::Shown;

impl<B: Backend + Send> Making<'_, B> {
    /// Notes the prompt that was evaluated: nothing of the turn stands behind it yet.
    pub(crate) fn note_prompt(&mut self, tokens: &[TokenId]) {
        self.prompted = tokens.to_vec();
        self.behind.clear();
        (self.thought_here, self.after_thought, self.moved) = (false, false, false);
        self.behind_head = false;
    }

    /// Notes what stands behind the prompt by now, for a return.
    pub(crate) fn note_behind(&mut self, state: &State<B>) {
        let held = state.session.tokens();
        if !self.moved && held.starts_with(&self.prompted) {
            let end = held.len().saturating_sub(self.ahead);
            self.behind = held.get(self.prompted.len()..end).unwrap_or_default().to_vec();
        }
    }

    /// Goes back to where the turn is, where another prompt was looked at meanwhile, or what was written is taken back.
    pub(crate) fn return_to_turn(&mut self, state: &mut State<B>) -> Result<(), Error> {
        if !std::mem::take(&mut self.moved) {
            return Ok(());
        }
        let beginning = self.prompted.get(..self.beginning).unwrap_or_default();
        if state.session.held(beginning) < beginning.len() {
            state.session.set_beginning(beginning, 1, self.cancel, &mut |_| ())?;
        }
        let tokens: Vec<TokenId> = self.prompted.iter().chain(&self.behind).copied().collect();
        let prefill = state.session.set_prompt(&tokens, 1, self.cancel, &mut |_| ())?;
        self.stats.ms.prefill += prefill.ms;
        Ok(())
    }

    /// What may open within a text, where it is to be left for that.
    pub(crate) fn watch(&self, until: Until) -> Option<Watch> {
        let Until::Opening(threshold) = until else { return None };
        let openings = self.engine.openings.in_text(self.may_begin_thought());
        (!openings.is_empty()).then(|| Watch { openings: openings.clone(), threshold })
    }

    /// Thinks where the model begins an answer so.
    pub(crate) fn think_by_itself(&mut self, state: &mut State<B>) -> Result<(), Error> {
        if !self.may_begin_thought() {
            return self.pass_blanks(state);
        }
        let openings = self.engine.openings.at_start(self.request.answer, true);
        let (decision, evaluations) = openings.decide_ahead(&mut state.session, EVEN)?;
        self.stats.decode_calls += evaluations;
        if decision.p_think >= EVEN {
            self.think(state, OpenedBy::Model)?;
        }
        self.pass_blanks(state)
    }

    /// The head of the next text, as the model chooses among those of its family; nothing where that has none.
    pub(crate) fn write_head(&mut self, state: &mut State<B>) -> Result<(), Error> {
        let (engine, format) = (self.engine, self.engine.dialogue.format());
        if std::mem::replace(&mut self.behind_head, true) || format.text_heads().is_empty() {
            return Ok(());
        }
        let heads = engine.learned.automata.heads(format.as_ref(), &engine.vocabulary)?;
        let decoded = self.decode(state, Some(&heads), &mut self.call_sampler()?, Shown::Nothing, None)?;
        self.spent += decoded.tokens.len();
        self.evaluate_rest(state, &decoded)
    }

    /// Evaluates the last tokens of a text, which decoding left for whoever goes on behind it.
    pub(crate) fn evaluate_rest(&mut self, state: &mut State<B>, decoded: &Decoded) -> Result<(), Error> {
        let held = state.session.tokens().len().saturating_sub(decoded.start);
        let rest: Vec<TokenId> = decoded.tokens.iter().skip(held).map(|token| token.token).collect();
        self.stats.decode_calls += state.session.eval(&rest, Rows::Last)?;
        Ok(())
    }

    /// The grammar of text that goes on, without a head.
    pub(crate) fn rest_side(&self) -> Result<Side, Error> {
        let engine = self.engine;
        engine.learned.automata.rest(engine.dialogue.format().as_ref(), &engine.vocabulary)
    }
}
