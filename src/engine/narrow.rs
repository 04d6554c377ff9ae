//! A value whose choices are known only when what stands in front of it is written: the text to replace in a file
//! depends on the path in the same call. The call is written freely first; where that value is none of its choices,
//! it is written again under a grammar that holds it to them.
//!
//! Invariant: what is in front of the value stays, and so the likeliest text is the one that a grammar which had known
//! the choices from the start would have led to.

use serde_json::Value;
use toolgate_chat::{ToolCall, ToolSpec};
use toolgate_infer::{Backend, Decoded, Other, Sampler};

use super::local::{Making, State};
use super::{CallCheck, TurnEvent};
use crate::Error;

/// What the value of a parameter may be.
pub(super) struct Narrower {
    tool: String,
    parameter: String,
    keywords: Value,
}

impl Narrower {
    /// What the wrong value of `call`, one of `calls`, may be. A grammar holds all calls of a tool to the same, so it
    /// has to be the only one.
    pub(super) fn of(check: &dyn CallCheck, call: &ToolCall, calls: &[ToolCall]) -> Option<Self> {
        if calls.iter().filter(|other| other.name == call.name).count() != 1 {
            return None;
        }
        let (parameter, keywords) = check.narrower(call)?;
        Some(Self { tool: call.name.clone(), parameter, keywords })
    }

    fn apply(&self, tools: &[ToolSpec]) -> Vec<ToolSpec> {
        let narrowed = |tool: &ToolSpec| match tool.name.as_str() == self.tool {
            true => tool.with_grammar(&self.parameter, self.keywords.clone()),
            false => tool.clone(),
        };
        tools.iter().map(narrowed).collect()
    }
}

impl<B: Backend + Send> Making<'_, B> {
    /// The text written again from byte `at` on, where the value stands; none where it cannot be.
    pub(super) fn narrowed(
        &mut self,
        state: &mut State<B>,
        sampler: &mut Sampler,
        before: &Decoded,
        at: usize,
        narrower: &Narrower,
        why: &str,
    ) -> Result<Option<Decoded>, Error> {
        let vocabulary = &self.engine.vocabulary;
        let Some(other) = Other::up_to(vocabulary, before, at) else { return Ok(None) };
        let tools = narrower.apply(self.request.tools);
        // Where no grammar comes of the choices, the call stays as it was written.
        let Ok(automata) = self.automata(&tools, &self.request.choice, None) else { return Ok(None) };
        let Some(side) = &automata.call else { return Ok(None) };
        (self.events)(TurnEvent::Retry(format!("{why}; that value is written again as one that is")));
        let decoded = self.go_on(state, side, sampler, &other)?;
        // Written like this before, it would be written like this each time.
        Ok(decoded.filter(|decoded| decoded.text != before.text))
    }
}
