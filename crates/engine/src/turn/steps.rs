//! The steps of a turn on this machine, as the driver asks for them.
//!
//! `driver` has their order; `making` has what they are made of.

use toolgate_chat::{Demonstrations, ParsedTurn, ToolChoice, ToolName, ToolSpec};
use toolgate_infer::{Backend, Decoded, Rows, TurnDecision};

use crate::constraint::automata::{Side, Sides};
use crate::profile::options::Options;
use crate::profile::policy::Thresholds;
use crate::turn::changes::May;
use crate::turn::choose::opening_of_all;
use crate::turn::driver::{ScoredModel, Thought, Until, View};
use crate::turn::local::State;
use crate::turn::making::Making;
use crate::turn::reasoning_plan::OpenedBy;
use crate::{Error, Turn, TurnEvent};

/// A turn on this machine: what is made of it, and the conversation that it is made in.
pub(crate) struct Local<'m, 'a, B> {
    pub(crate) making: &'m mut Making<'a, B>,
    pub(crate) state: &'m mut State<B>,
}

impl<B: Backend + Send> ScoredModel for Local<'_, '_, B> {
    type Side = Side;
    type Text = Decoded;

    fn options(&self) -> &Options {
        &self.making.engine.options
    }

    fn tell(&mut self, event: TurnEvent) {
        (self.making.events)(event);
    }

    fn sides(
        &mut self,
        offered: &[ToolSpec],
        turn: &toolgate_chat::TurnRequest,
    ) -> Result<Sides<Side>, Error> {
        self.making.automata(offered, turn)
    }

    fn rest_of(&mut self, _begun: &str) -> Result<Side, Error> {
        // What was begun is taken off when its text begins.
        let (choice, parallel) = (ToolChoice::None, None);
        let automata =
            self.making.automata(&[], &toolgate_chat::TurnRequest { choice, parallel, first: None })?;
        automata.answer.ok_or_else(|| Error::input("this model has no answers to go on with"))
    }

    fn thresholds(&mut self, offered: &[ToolSpec]) -> Result<Thresholds, Error> {
        self.making.thresholds(self.state, offered)
    }

    fn wishes(&mut self, call: bool) -> Result<bool, Error> {
        self.making.note_behind(self.state);
        self.making.wishes(self.state, call)
    }

    fn begin(&mut self, offered: &[ToolSpec], decides: bool) -> Result<(), Error> {
        let (making, state) = (&mut *self.making, &mut *self.state);
        making.names = making.names(state, offered)?;
        if making.plan.opening().is_some() {
            // Looked at later, the thought would have to be read again.
            making.wishes(state, true)?;
        }
        making.demonstrations = making.demonstrations_for(decides);
        // What all calls begin with is evaluated with the prompt, where nothing else can take its place.
        let is_sure = !decides && !making.plan.may_think();
        if is_sure {
            // Asked later, what is evaluated with the prompt would be evaluated again.
            making.learn_of_tools(state, offered)?;
        }
        let opening = if is_sure { opening_of_all(&making.names).to_vec() } else { Vec::new() };
        making.prefill_ahead(state, &making.transcript(), offered, &opening)?;
        making.reason(state)
    }

    fn has_thought(&self) -> bool {
        self.making.thought.is_some()
    }

    fn may_think(&self) -> bool {
        self.making.may_begin_thought()
    }

    fn think(&mut self) -> Result<(), Error> {
        self.making.return_to_turn(self.state)?;
        self.making.think(self.state, OpenedBy::Model)
    }

    fn decide(&mut self, _offered: &[ToolSpec], threshold: f64) -> Result<TurnDecision, Error> {
        let (making, state) = (&mut *self.making, &mut *self.state);
        making.pass_blanks(state)?;
        let openings = making.engine.openings.at_start(making.request.answer, making.may_begin_thought());
        let (decision, evaluations) = openings.decide_ahead(&mut state.session, threshold)?;
        making.stats.decode_calls += evaluations;
        Ok(decision)
    }

    fn begin_call(&mut self, offered: &[ToolSpec]) -> Result<(), Error> {
        let (making, state) = (&mut *self.making, &mut *self.state);
        making.note_behind(state);
        // What tells requests from talk does not help to write the call; examples do.
        let written = making.demonstrations_for(false);
        let is_other = std::mem::replace(&mut making.demonstrations, written) != written;
        making.moved |= making.learn_bias(state, offered)?;
        making.learn_of_tools(state, offered)?;
        if is_other {
            let behind = std::mem::take(&mut making.behind);
            let opening = if behind.is_empty() { opening_of_all(&making.names).to_vec() } else { Vec::new() };
            let thought_here = making.thought_here;
            making.prefill_ahead(state, &making.transcript(), offered, &opening)?;
            making.thought_here = thought_here;
            making.stats.decode_calls += state.session.eval(&behind, Rows::Last)?;
            making.behind = behind;
        } else if making.moved {
            making.return_to_turn(state)?;
            making.ahead = 0;
        }
        Ok(())
    }

    fn choose(&mut self, offered: &[ToolSpec], may: May) -> Result<(Option<ToolName>, May), Error> {
        self.making.choose(self.state, offered, may)
    }

    fn call(&mut self, side: &Side, held: bool) -> Result<(Decoded, ParsedTurn), Error> {
        let called = self.making.call(self.state, side, held);
        self.making.moved = true;
        called
    }

    fn invented(&self) -> Option<f64> {
        self.making.invented
    }

    fn leave_call(&mut self, thought: Thought) {
        self.making.ahead = 0;
        if thought == Thought::Goes {
            (self.making.thought, self.making.spent) = (None, 0);
            self.making.thought_here = false;
        }
    }

    fn begin_answer(&mut self, view: View) -> Result<(), Error> {
        let (making, state) = (&mut *self.making, &mut *self.state);
        // An answer that was thought about follows the thought.
        if making.thought_here && (view == View::Whole || !making.plan.silent) {
            return making.return_to_turn(state);
        }
        let engine = making.engine;
        let results = |end| engine.dialogue.answer_view(making.request.transcript, end);
        match view {
            View::Whole => {
                // After a decision this prompt is there already: nothing but a call that was taken back is cut off.
                let (transcript, tools) = (making.told_form(making.transcript()), making.request.tools);
                making.prefill(state, &transcript, tools)?;
            }
            View::Bare => {
                let (given, format) = (making.request.transcript, engine.dialogue.format().as_ref());
                let bare = engine.options.introduced(given, &[], format, Demonstrations::None);
                let transcript = making.told_form(bare);
                making.prefill(state, &transcript, &[])?;
            }
            View::Results(end) => {
                let transcript = making.told_form(results(end));
                making.prefill(state, &transcript, &[])?;
            }
            View::Again(end) => {
                let transcript = making.told_form(results(end));
                return making.prefill_silent(state, &transcript, &[]);
            }
        }
        making.reason(state)?;
        making.think_by_itself(state)
    }

    fn answer(&mut self, side: &Side, question: &str, until: Until) -> Result<Decoded, Error> {
        self.making.return_to_turn(self.state)?;
        let own = self.headed(until)?;
        self.making.held(self.state, own.as_ref().unwrap_or(side), question, until)
    }

    fn rest(&mut self) -> Result<Side, Error> {
        self.making.write_head(self.state)?;
        self.making.rest_side()
    }

    fn leave_text(&mut self, text: Decoded) -> Result<(), Error> {
        let (making, state) = (&mut *self.making, &mut *self.state);
        making.said.push_str(&text.text);
        making.spent += text.tokens.len();
        let format = making.engine.dialogue.format();
        // Whatever follows is a message of its own, where the family's turns are messages.
        if !format.text_end().is_empty() {
            making.write_mark(state, &format.mark(format.text_end()))?;
            making.behind_head = false;
        }
        making.note_behind(state);
        Ok(())
    }

    fn trimmed<'t>(&self, text: &'t str) -> &'t str {
        self.making.trimmed(text)
    }

    fn finish(&mut self, text: Decoded, parsed: ParsedTurn, decision: Option<TurnDecision>) -> Turn {
        self.making.finish(text, parsed, decision)
    }
}

impl<B: Backend + Send> Local<'_, '_, B> {
    /// Writes the head of a text that a call may follow, where the family has one head for answers and one for text before calls.
    /// Returns the grammar of the text behind the head. Without a choice of heads, the grammar of answers has the head in it.
    fn headed(&mut self, until: Until) -> Result<Option<Side>, Error> {
        let making = &mut *self.making;
        let has_choice = making.engine.dialogue.format().text_heads().len() > 1;
        if until == Until::End || !has_choice || making.behind_head {
            making.behind_head = true;
            return Ok(None);
        }
        making.write_head(self.state)?;
        making.rest_side().map(Some)
    }
}
