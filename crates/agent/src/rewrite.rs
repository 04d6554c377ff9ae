//! A call that would fail, or do something else than it says, is written again behind a look at what it is about.
//!
//! Why: asked to change a value, a small model guesses the line of a file that it has not read.
//!
//! Invariant: nothing but the call that the model itself wrote is written again.

use toolgate_chat::{ToolCall, ToolChoice, ToolName, ToolSpec};
use toolgate_engine::Turn;
use toolgate_tools::{Choices, held_to};

use crate::{Event, Run};

/// How often calls are written again until something changes.
const MOST_TIMES: usize = 2;

/// A call that the next turn is to write again.
pub(super) struct Wanted {
    tool: ToolName,
    /// What is left of its arguments.
    choices: Vec<(&'static str, Choices)>,
}

impl Wanted {
    /// All that the turn may call.
    pub(super) fn choice(&self) -> ToolChoice {
        ToolChoice::Only(vec![self.tool.clone()])
    }

    /// Holds the arguments of its tool to what is left of them.
    pub(super) fn hold(self, specs: &mut [ToolSpec]) {
        if let Some(spec) = specs.iter_mut().find(|spec| spec.name == self.tool) {
            *spec = held_to(spec.clone(), &self.choices);
        }
    }
}

/// What is done in the place of a call.
pub(super) enum Instead {
    /// This look, before the call is written again.
    Look(ToolCall),
    /// Nothing: what it is about stands in the conversation.
    Nothing,
}

impl Run<'_> {
    /// What is done in the place of the call of a turn, where it is to be written again. The call is wanted then.
    pub(super) fn instead(&mut self, turn: &Turn) -> Option<Instead> {
        let hint = self.agent.options.hints.rewrites()?;
        let [call] = turn.parsed.calls.as_slice() else { return None };
        if !turn.stop.is_whole() {
            return None;
        }
        let rewrite = self.agent.registry.rewrite(call)?;
        let is_again = self.rewritten.iter().any(|written| written.same_request(call));
        if is_again || self.rewritten.len() >= MOST_TIMES {
            return None;
        }
        let tool = ToolName::new(&call.name).ok()?;
        self.steered.note([hint]);
        (self.events)(Event::Retry { why: format!("{}: {}; it is written again", call.name, rewrite.why) });
        self.wanted = Some(Wanted { tool, choices: rewrite.choices });
        self.rewritten.push(call.clone());
        Some(match rewrite.look.filter(|look| self.completed.times(look) == 0) {
            // Results are tied to calls by their ids, and a replay has those of the record.
            Some(look) => Instead::Look(look.with_id(call.id.clone())),
            None => Instead::Nothing,
        })
    }
}
