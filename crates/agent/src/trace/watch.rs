//! Comparing a run with its record step by step. The first difference is the one that counts.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde_json::{Map, Value};
use toolgate_chat::ToolCall;
use toolgate_infer::{TokenId, common_len};

use super::{End, Final, Record, Stop, Tool, Turn};
use crate::Event;
use toolgate_engine::Cancel;

/// Tokens shown in front of one that differs.
const FRONT: usize = 16;
/// Characters of a text that are shown.
const SHOWN: usize = 300;

/// Where a replay first differs from its record. [`Replay`](super::Replay) shows one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Difference {
    /// The turn, counted from 1.
    pub turn: usize,
    /// What differs: `conversation`, `choice`, `completed`, `prompt`, `decision`, `grammar`, `token`, `source`, `turn`,
    /// `tool`, `end`.
    pub what: &'static str,
    /// The index of the token in its prompt or text, where tokens differ.
    pub token: Option<usize>,
    /// What the record says.
    pub expected: String,
    /// What there is now.
    pub got: String,
    /// The text in front of the token, as far as it is known.
    pub around: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "turn {}: {} differs", self.turn, self.what)?;
        if let Some(token) = self.token {
            write!(f, " at token {token}")?;
        }
        write!(f, "\n  expected: {}\n  got:      {}", self.expected, self.got)?;
        if !self.around.is_empty() {
            write!(f, "\n  after:    {:?}", self.around)?;
        }
        Ok(())
    }
}

/// The record of a run that is being replayed, and how far it is.
#[derive(Clone)]
pub(super) struct Watch {
    state: Arc<Mutex<State>>,
    /// Set at the first difference, so that the run ends.
    pub(super) cancel: Cancel,
}

struct State {
    turns: VecDeque<Turn>,
    tools: VecDeque<Tool>,
    end: Option<Final>,
    /// Turns compared so far.
    turn: usize,
    calls: Vec<ToolCall>,
    difference: Option<Difference>,
    /// The greatest difference of a decision's probability.
    drift: f64,
    /// Whether the record ended before the run.
    ran_out: bool,
}

impl Watch {
    pub(super) fn new(record: &Record) -> Self {
        let state = State {
            turns: record.turns.clone().into(),
            tools: record.tools.clone().into(),
            end: record.end.clone(),
            turn: 0,
            calls: Vec::new(),
            difference: None,
            drift: 0.0,
            ran_out: false,
        };
        Self { state: Arc::new(Mutex::new(state)), cancel: Cancel::default() }
    }

    /// The recorded turn that comes next; none where the record, or what it has in common with the run, ends.
    pub(super) fn next_turn(&self, asked: &Turn) -> Option<Turn> {
        let mut state = self.locked();
        state.turn += 1;
        let Some(turn) = state.turns.pop_front() else {
            match &state.end {
                None => state.ran_out = true,
                Some(end) => {
                    let expected = format!("the run ends with {}", end.stop_reason);
                    state.differs("end", expected, "another turn".to_owned());
                }
            }
            self.cancel.cancel();
            return None;
        };
        if turn.messages != asked.messages {
            let pairs = turn.messages.iter().zip(&asked.messages);
            let same = pairs.take_while(|(expected, got)| expected == got).count();
            let expected = format!("{} messages", turn.messages.len());
            let got = format!("{} messages, of which the first {same} are the same", asked.messages.len());
            state.differs("conversation", expected, got);
        } else if (&turn.choice, turn.closing) != (&asked.choice, asked.closing) {
            let shown =
                |turn: &Turn| format!("{}{}", turn.choice, if turn.closing { ", the last" } else { "" });
            state.differs("choice", shown(&turn), shown(asked));
        } else if turn.completed != asked.completed {
            state.differs("completed", json(&turn.completed), json(&asked.completed));
        } else {
            return Some(turn);
        }
        self.cancel.cancel();
        None
    }

    /// Compares what the model did in a turn; whether it is the same. `text_of` makes tokens readable.
    pub(super) fn compare(
        &self,
        expected: &Turn,
        got: &Turn,
        text_of: &dyn Fn(&[TokenId]) -> String,
    ) -> bool {
        let mut state = self.locked();
        // A run that was stopped by hand is the same as far as it went.
        let was_stopped = match &expected.end {
            End::Made { stop, .. } => *stop == Stop::Cancelled,
            End::Failed { kind, .. } => kind == "cancelled",
        };
        let tokens = |what, expected: &[TokenId], got: &[TokenId], whole: bool| {
            first_difference(expected, got, whole).map(|at| Difference {
                turn: 0,
                what,
                token: Some(at),
                expected: one(expected, at, text_of),
                got: one(got, at, text_of),
                around: text_of(expected.get(at.saturating_sub(FRONT)..at).unwrap_or_default()),
            })
        };
        let count = |what, expected: usize, got: usize| {
            (expected != got && !was_stopped)
                .then(|| plain(what, format!("{expected} of them"), format!("{got} of them")))
        };
        let decision = || match (&expected.decision, &got.decision) {
            (Some(a), Some(b)) if a.call == b.call && a.threshold == b.threshold => None,
            (None, None) => None,
            (a, b) => Some(plain("decision", json(a), json(b))),
        };
        let first_prompt = |at: usize| {
            let (a, b) = (expected.prompts.get(at)?, got.prompts.get(at)?);
            tokens("prompt", a, b, true)
        };
        let text = |at: usize| {
            let (a, b) = (expected.texts.get(at)?, got.texts.get(at)?);
            let is_last = at + 1 == expected.texts.len();
            if a.grammar != b.grammar {
                return Some(plain("grammar", json(&a.grammar), json(&b.grammar)));
            }
            tokens("token", &a.tokens, &b.tokens, !(was_stopped && is_last)).or_else(|| {
                let pairs = a.sources.chars().zip(b.sources.chars());
                // What is guessed ahead depends on what batches cost; what is drawn does not.
                let drawn = |source: char| if source == 'd' { 's' } else { source };
                let at = pairs.clone().position(|(a, b)| drawn(a) != drawn(b))?;
                let (x, y) = pairs.into_iter().nth(at)?;
                Some(Difference { token: Some(at), ..plain("source", source(x), source(y)) })
            })
        };
        // In the order they come about: what is decided from the first prompt, then further prompts and texts.
        let difference = first_prompt(0)
            .or_else(decision)
            .or_else(|| (1..expected.prompts.len()).find_map(first_prompt))
            .or_else(|| (0..expected.texts.len()).find_map(text))
            .or_else(|| count("prompt", expected.prompts.len(), got.prompts.len()))
            .or_else(|| count("token", expected.texts.len(), got.texts.len()))
            .or_else(|| {
                let (a, b) = (made(&expected.end), made(&got.end));
                (a != b && !was_stopped).then(|| plain("turn", a, b))
            });
        if let (Some(a), Some(b)) = (&expected.decision, &got.decision) {
            state.drift = state.drift.max((a.p_call - b.p_call).abs());
        }
        let turn = state.turn;
        let is_same = difference.is_none();
        if state.difference.is_none() {
            state.difference = difference.map(|difference| Difference { turn, ..difference });
        }
        if !is_same {
            self.cancel.cancel();
        }
        is_same
    }

    /// Compares what an event tells of calls and the end.
    pub(super) fn see(&self, event: &Event) {
        let mut state = self.locked();
        match event {
            Event::ToolCall { id, name, arguments } => {
                let call = ToolCall { id: id.clone(), name: name.clone(), arguments: arguments.clone() };
                state.calls.push(call);
            }
            Event::ToolResult { id, status, content, .. } => {
                let Some(ToolCall { name, arguments, .. }) = super::take(&mut state.calls, id) else {
                    return;
                };
                let Some(tool) = state.tools.pop_front() else {
                    if state.end.is_some() {
                        state.differs("tool", "no further call".to_owned(), name);
                    } else {
                        state.ran_out = true;
                    }
                    self.cancel.cancel();
                    return;
                };
                let shown = |name: &str, arguments, status: &str, content: &str| {
                    format!("{name} {} {status}: {}", json(arguments), cut(content))
                };
                let expected = shown(&tool.name, &tool.arguments, tool.status.as_str(), &tool.content);
                let got = shown(&name, &arguments, status.as_str(), content);
                let is_same = (tool.name, tool.arguments) == (name, arguments)
                    && (tool.status, &tool.content) == (*status, content);
                if !is_same {
                    state.differs("tool", expected, got);
                    self.cancel.cancel();
                }
            }
            Event::Final(outcome) => {
                let Some(end) = state.end.clone() else { return };
                let got = super::record::end_of(outcome);
                let shown = |end: &Final| {
                    format!("{} after {} turns: {}", end.stop_reason, end.iterations, cut(&end.answer))
                };
                let is_same = (&end.stop_reason, end.iterations, &end.answer)
                    == (&got.stop_reason, got.iterations, &got.answer);
                if !is_same {
                    state.differs("end", shown(&end), shown(&got));
                }
            }
            _ => {}
        }
    }

    /// How such a call was answered, of those still to come: calls that only look may be made side by side.
    pub(super) fn answer_to(&self, name: &str, arguments: &Map<String, Value>) -> Option<Tool> {
        let state = self.locked();
        state.tools.iter().find(|tool| tool.name == name && tool.arguments == *arguments).cloned()
    }

    /// The call that comes next.
    pub(super) fn next_call(&self) -> Option<Tool> {
        self.locked().tools.front().cloned()
    }

    /// The first difference, whether the record ended first, and how far decisions drifted.
    pub(super) fn verdict(&self) -> (Option<Difference>, bool, f64) {
        let state = self.locked();
        (state.difference.clone(), state.ran_out, state.drift)
    }

    /// How many turns were compared.
    pub(super) fn turns(&self) -> usize {
        self.locked().turn
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn differs(&mut self, what: &'static str, expected: String, got: String) {
        if self.difference.is_none() && !self.ran_out {
            self.difference = Some(Difference { turn: self.turn, ..plain(what, expected, got) });
        }
    }
}

fn plain(what: &'static str, expected: String, got: String) -> Difference {
    Difference { turn: 0, what, token: None, expected, got, around: String::new() }
}

/// Where two runs of tokens first differ; with `whole` one that only goes on differs at the end of the other.
fn first_difference(expected: &[TokenId], got: &[TokenId], whole: bool) -> Option<usize> {
    let same = common_len(expected, got);
    let ends = if whole { expected.len().max(got.len()) } else { expected.len() };
    (same < ends).then_some(same)
}

fn one(tokens: &[TokenId], at: usize, text_of: &dyn Fn(&[TokenId]) -> String) -> String {
    match tokens.get(at) {
        None => "the end".to_owned(),
        Some(&token) => format!("{token} {:?}", text_of(&[token])),
    }
}

fn source(letter: char) -> String {
    match letter {
        'f' => "forced",
        'd' => "drafted",
        _ => "sampled",
    }
    .to_owned()
}

/// What a turn came to, without ids and costs.
fn made(end: &End) -> String {
    match end {
        End::Made { content, reasoning, calls, stop, .. } => {
            let calls: Vec<_> = calls.iter().map(|call| (&call.name, &call.arguments)).collect();
            json(&(content, reasoning, calls, stop))
        }
        End::Failed { kind, .. } => kind.clone(),
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

fn cut(text: &str) -> String {
    let shown: String = text.chars().take(SHOWN).collect();
    if shown.len() < text.len() { format!("{shown}…") } else { shown }
}
