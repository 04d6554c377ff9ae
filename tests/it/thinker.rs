//! A model that thinks, says a sentence and calls, as an engine of its own: what passes its turns on is tested with it.

use std::sync::{Arc, Mutex};

use serde_json::json;
use toolgate::engine::{Cancel, Engine, Error, ReasoningMode, Sampling, Turn, TurnEvent, TurnRequest};
use toolgate_chat::{Message, ParsedTurn, ToolCall, Transcript};
use toolgate_infer::{Stats, StopReason};

/// Thinks, says a sentence and calls; behind the result it thinks and answers. It notes what it was asked.
#[derive(Clone, Default)]
pub(crate) struct Thinker {
    pub(crate) asked: Arc<Mutex<Vec<(Transcript, Sampling)>>>,
    /// Whether it is a model without thoughts.
    pub(crate) is_plain: bool,
    pub(crate) usual: Sampling,
}

impl Engine for Thinker {
    fn name(&self) -> &str {
        "scripted"
    }

    fn default_sampling(&self) -> Sampling {
        self.usual.clone()
    }

    fn prompt_tokens(&self, request: &TurnRequest<'_>) -> Result<Option<usize>, Error> {
        self.refuse(request)?;
        Ok(Some(7))
    }

    fn turn(
        &self,
        request: &TurnRequest<'_>,
        _: &Cancel,
        events: &mut dyn FnMut(TurnEvent),
    ) -> Result<Turn, Error> {
        self.asked.lock().unwrap().push((request.transcript.clone(), request.sampling.clone()));
        self.refuse(request)?;
        events(TurnEvent::Prefill { done: 20, tokens: 20, cached: 0 });
        let is_done = matches!(request.transcript.last(), Some(Message::Tool(_)));
        let (thought, text) =
            if is_done { (["So it ", "rains."], "Rain.") } else { (["I look ", "it up."], "Let me see.") };
        if !self.is_plain {
            thought.into_iter().for_each(|piece| events(TurnEvent::Reasoning(piece.to_owned())));
        }
        events(TurnEvent::Text(text.to_owned()));
        let mut calls = Vec::new();
        if !(is_done || self.is_plain) {
            events(TurnEvent::CallStarted("get_weather".to_owned()));
            ["{\"city\": ", "\"Oslo\"}"]
                .into_iter()
                .for_each(|piece| events(TurnEvent::Arguments(piece.to_owned())));
            events(TurnEvent::CallEnded);
            calls.push(ToolCall::new("get_weather", json!({"city": "Oslo"}).as_object().unwrap().clone()));
        }
        let reasoning = (!self.is_plain).then(|| thought.concat());
        let parsed = ParsedTurn { content: Some(text.to_owned()), reasoning, calls, ..ParsedTurn::default() };
        let stats = Stats { prompt_tokens: 20, sampled_tokens: 9, reasoning_tokens: 4, ..Stats::default() };
        Ok(Turn::new(parsed, text, StopReason::End).stats(stats))
    }
}

impl Thinker {
    fn refuse(&self, request: &TurnRequest<'_>) -> Result<(), Error> {
        let sampling = request.sampling;
        match self.is_plain && sampling.reasoning.mode == ReasoningMode::On {
            true => Err(Error::input("this model has no place for thoughts")),
            false if self.is_plain && !sampling.template_values.is_empty() => {
                Err(Error::input("the template does not read this variable"))
            }
            false => Ok(()),
        }
    }

    /// What it was asked last.
    pub(crate) fn last(&self) -> (Transcript, Sampling) {
        self.asked.lock().unwrap().last().unwrap().clone()
    }
}

/// A turn: its thought, what is said and how much is called behind it.
type Said<'a> = (Option<&'a str>, Option<&'a str>, usize);

/// The turns of a transcript.
pub(crate) fn turns(transcript: &Transcript) -> Vec<Said<'_>> {
    fn turn(message: &Message) -> Option<Said<'_>> {
        match message {
            Message::Assistant { content, reasoning, calls } => {
                Some((reasoning.as_deref(), content.as_deref(), calls.len()))
            }
            _ => None,
        }
    }
    transcript.iter().filter_map(turn).collect()
}
