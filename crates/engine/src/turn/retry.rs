//! A turn of calls, and its values that do not fit what is checked when they are whole: those are written again.
//!
//! Invariant: what is in front of such a value stays as it was; the calls are the model's first ones or fit the check.

use std::ops::{ControlFlow, Range};

use toolgate_chat::{Effect, ParsedTurn, ToolCall, ToolChoice};
use toolgate_infer::{
    Backend, Decoded, Other, Piece, Sampler, StopReason, Tried, decode_from, likeliest_other,
};

use crate::Error;
use crate::constraint::automata::Side;
use crate::turn::changes::effect_of;
use crate::turn::local::State;
use crate::turn::making::Making;
use crate::turn::place;
use crate::turn::repeats::is_made;
use crate::{CallCheck, Fault, TurnEvent};

/// What is wrong with the calls of a text, and which of its bytes to write again.
struct Wrong {
    why: String,
    place: Option<Range<usize>>,
}

/// What is carried from one try to the next.
struct Writer {
    sampler: Sampler,
    tried: Tried,
}

impl<B: Backend + Send> Making<'_, B> {
    /// Writes the calls of a turn, again from a value on that does not fit, at most
    /// [`Options::retries`](crate::Options::retries) times.
    pub(crate) fn call(
        &mut self,
        state: &mut State<B>,
        side: &Side,
        held: bool,
    ) -> Result<(Decoded, ParsedTurn), Error> {
        let mut writer = Writer { sampler: self.call_sampler()?, tried: Tried::default() };
        let first = self.decode(state, Some(side), &mut writer.sampler, self.shown_calls(held), None)?;
        let parsed = self.read(&first);
        // What is written again is no longer what the model was sure or unsure of.
        self.invented = self.invented_in(&first, &parsed.calls);
        let Some(check) = self.request.check else { return Ok((first, parsed)) };
        let mut again: Option<(Decoded, ParsedTurn)> = None;
        for _ in 0..self.engine.options.retries {
            let (decoded, turn) = again.as_ref().map_or((&first, &parsed), |(decoded, turn)| (decoded, turn));
            if !is_ended(decoded) {
                break;
            }
            let Some(wrong) = self.wrong(check, &decoded.text, &turn.calls) else { break };
            let Some(next) = self.again(state, side, &mut writer, decoded, wrong)? else { break };
            let turn = self.read(&next);
            again = Some((next, turn));
        }
        // What fits no better than the first text is not what the model wanted to write either.
        Ok(match again {
            Some((decoded, turn)) if decoded.stop == StopReason::Cancelled => (decoded, turn),
            Some((decoded, turn))
                if is_ended(&decoded) && self.wrong(check, &decoded.text, &turn.calls).is_none() =>
            {
                (decoded, turn)
            }
            _ => (first, parsed),
        })
    }

    /// The text written again from a wrong value on; none where there is no other way to write it.
    fn again(
        &mut self,
        state: &mut State<B>,
        side: &Side,
        writer: &mut Writer,
        before: &Decoded,
        wrong: Wrong,
    ) -> Result<Option<Decoded>, Error> {
        let Some(place) = wrong.place else { return Ok(None) };
        writer.tried.add(before.text.get(..place.end).unwrap_or_default());
        let options = self.call_options();
        let (tried, stats) = (&writer.tried, &mut self.stats);
        let mut make = || self.engine.constraint(Some(side)).map_err(failed);
        let other = likeliest_other(&mut state.session, &mut make, &options, before, place, tried, stats)?;
        let Some(other) = other else { return Ok(None) };
        (self.events)(TurnEvent::Retry(format!("{}; that value is written again", wrong.why)));
        self.go_on(state, side, &mut writer.sampler, &other)
    }

    /// The text from where another way begins, under a side's constraint; none where the tokens left do not suffice.
    pub(crate) fn go_on(
        &mut self,
        state: &mut State<B>,
        side: &Side,
        sampler: &mut Sampler,
        other: &Other,
    ) -> Result<Option<Decoded>, Error> {
        let mut constraint = self.engine.constraint(Some(side))?;
        let options = self.call_options();
        let silent = &mut |_: Piece<'_>| ControlFlow::Continue(());
        let decoded = decode_from(&mut state.session, &mut constraint, sampler, &options, other, silent)?;
        decoded.map(|decoded| self.counted(decoded, Some(side))).transpose()
    }

    /// The first thing wrong with calls, which stand in `text` in this order.
    fn wrong(&self, check: &dyn CallCheck, text: &str, calls: &[ToolCall]) -> Option<Wrong> {
        let mut from = 0;
        for call in calls {
            let arguments = place::of_arguments(text, from, &call.arguments);
            if let Some(fault) = check.fault(call).or_else(|| self.repeated(call)) {
                let place = match &arguments {
                    Some(at) => place::of_value(text, at.start, &fault.pointer),
                    None => place::of_spelled(text, from, &call.arguments, &fault.pointer),
                };
                return Some(Wrong { why: format!("{}: {}", call.name, fault.why), place });
            }
            // The next call stands behind this one: behind its arguments, or where its last value is.
            let last = || place::of_spelled(text, from, &call.arguments, "");
            from = arguments.or_else(last).map_or(from, |place| place.end);
        }
        None
    }

    /// A call that was made already is wrong where something else is still to be done: it is written in another way, if it only
    /// looks.
    fn repeated(&self, call: &ToolCall) -> Option<Fault> {
        let is_free = matches!(self.request.choice, ToolChoice::Auto | ToolChoice::Required);
        let is_completed = || is_made(self.request.completed, call, self.request.tools);
        let reads = || effect_of(self.request.tools, &call.name) == Effect::Reads;
        let repeats = is_free && (self.request.pending || self.request.retry) && reads() && is_completed();
        let (first, _) = call.arguments.iter().find(|_| repeats)?;
        let pointer = format!("/{}", place::step(first));
        Some(Fault {
            pointer,
            why: "this call was made already, and something else was asked for".to_owned(),
        })
    }

    fn read(&self, decoded: &Decoded) -> ParsedTurn {
        let mut parsed = self.engine.dialogue.format().parse(&decoded.text, self.request.tools);
        // Nothing but calls is written here; what is left of one that was cut off is no answer.
        parsed.content = None;
        parsed
    }
}

pub(crate) fn failed(error: Error) -> toolgate_infer::Error {
    let message = error.to_string();
    toolgate_infer::Error::new(toolgate_infer::Kind::Constraint, message).because(error)
}

/// Whether the model ended a text itself.
pub(crate) fn is_ended(decoded: &Decoded) -> bool {
    matches!(decoded.stop, StopReason::End | StopReason::Finished)
}
