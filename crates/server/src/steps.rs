//! The steps of a turn for its client. They are the engine's events, with the names and ids that the client
//! knows.
//!
//! Invariant: a client gets the end of a call only when it is known that the turn was not cut off in it.

use serde_json::Value;
use tokio::sync::mpsc::UnboundedSender;
use toolgate_chat::ToolCall;

use super::names::Names;
use super::refusal::Refusal;
use super::time::Watch;
use super::turn::{Outcome, Step, Usage};
use super::warning::Warning;
use toolgate_agent::Event;
use toolgate_engine::{TokenLikelihood, TurnEvent};

/// Sends the steps of one turn.
pub(super) struct StepSender {
    prefix: &'static str,
    steps: UnboundedSender<Step>,
    /// The client's names of its tools.
    names: Names,
    /// The ids of the calls that were sent.
    pub(super) ids: Vec<String>,
    begun: bool,
    /// The warnings that go with the begin of the turn.
    pub(super) warnings: Vec<Warning>,
    /// The places between the texts of a run's turns, and between their thoughts.
    seams: [Seam; 2],
    /// Whether the answer sent so far is blank.
    pub(super) is_blank: bool,
    /// Tokens of the prompt evaluated last.
    prompt: usize,
    /// The end of the last call. It is kept back until it is known that the turn was not cut off in it.
    end: CallEnd,
    /// The likelihoods of the tokens of the last text.
    pub(super) likelihoods: Vec<TokenLikelihood>,
    /// Watches the evaluation of prompts.
    watch: Watch,
}

/// The end of a call.
#[derive(Default)]
struct CallEnd {
    /// The last piece of its arguments.
    arguments: String,
    /// Whether the call is whole.
    is_whole: bool,
}

/// The text between the texts of a run's turns.
pub(super) const GAP: &str = "\n\n";

/// The place between the texts of two turns. Neither text shows it.
#[derive(Default)]
struct Seam {
    /// Whether there was a text.
    is_begun: bool,
    /// Whether the turn of the last one is over.
    is_due: bool,
}

impl Seam {
    /// A piece of text, with the gap to the turn before.
    fn join(&mut self, piece: String) -> String {
        self.is_begun = true;
        match std::mem::take(&mut self.is_due) {
            true => format!("{GAP}{}", piece.trim_start()),
            false => piece,
        }
    }

    fn end(&mut self) {
        self.is_due = self.is_begun;
    }
}

impl StepSender {
    /// A turn that has not begun. Calls get ids that begin with `prefix`.
    pub(super) fn new(
        prefix: &'static str,
        steps: UnboundedSender<Step>,
        names: Names,
        watch: Watch,
    ) -> Self {
        Self {
            prefix,
            steps,
            names,
            ids: Vec::new(),
            begun: false,
            warnings: Vec::new(),
            seams: Default::default(),
            is_blank: true,
            prompt: 0,
            end: CallEnd::default(),
            likelihoods: Vec::new(),
            watch,
        }
    }

    /// The refusal, if the turn was given up before its work.
    pub(super) fn refused(&mut self) -> Option<Refusal> {
        self.watch.refused()
    }

    /// Whether something of the turn was sent.
    pub(super) fn has_begun(&self) -> bool {
        self.begun
    }

    /// Sends a step. The begin of the turn comes first, even if no prompt was evaluated.
    pub(super) fn send(&mut self, step: Step) {
        if !self.begun && !matches!(step, Step::Begun(..) | Step::Failed(_)) {
            self.begin(0, 0);
        }
        // A client that has gone has cancelled the turn.
        let _ = self.steps.send(step);
    }

    /// Takes an event of the engine.
    pub(super) fn see(&mut self, event: TurnEvent) {
        match event {
            TurnEvent::Prefill { done, tokens, cached } => self.read(done, tokens, cached),
            TurnEvent::Text(text) => self.text(&text),
            TurnEvent::Reasoning(text) => self.send(Step::Reasoning(text)),
            TurnEvent::CallStarted(name) => self.start_call(name),
            TurnEvent::Arguments(text) => {
                self.send_end();
                self.end.arguments = text;
            }
            TurnEvent::CallEnded => self.end.is_whole = true,
            TurnEvent::Likelihoods(likelihoods) => self.likelihoods = likelihoods,
            _ => {}
        }
    }

    /// Ends an answer. Another one to the same request follows.
    pub(super) fn next(&mut self, outcome: &Outcome) {
        self.send(Step::Next(Box::new(outcome.clone())));
        self.ids.clear();
        self.end = CallEnd::default();
    }

    /// Takes an event of the server's own loop.
    pub(super) fn follow(&mut self, event: Event) {
        match event {
            Event::PrefillProgress { done, tokens } => self.read(done, tokens, done),
            Event::Prefill { tokens, cached } => self.read(tokens, tokens, cached),
            Event::Text { delta } => {
                let [texts, _] = &mut self.seams;
                let delta = texts.join(delta);
                self.text(&delta);
            }
            Event::Reasoning { delta } => {
                let [_, thoughts] = &mut self.seams;
                let delta = thoughts.join(delta);
                self.send(Step::Reasoning(delta));
            }
            Event::ToolCall { .. } => {
                self.seams.iter_mut().for_each(Seam::end);
                self.send(Step::Ran(serde_json::to_value(&event).unwrap_or_default()));
            }
            Event::ToolResult { .. }
            | Event::Decision { .. }
            | Event::Retry { .. }
            | Event::Summarized { .. } => {
                self.send(Step::Ran(serde_json::to_value(&event).unwrap_or_default()));
            }
            _ => {}
        }
    }

    /// Takes the number of evaluated tokens of a prompt.
    fn read(&mut self, done: usize, tokens: usize, cached: usize) {
        self.watch.see(done, tokens);
        self.begin(tokens, cached);
    }

    fn begin(&mut self, prompt: usize, cached: usize) {
        self.prompt = prompt;
        if !self.begun {
            self.begun = true;
            let warnings = std::mem::take(&mut self.warnings);
            self.send(Step::Begun(Usage { prompt, cached, ..Usage::default() }, warnings));
        }
    }

    /// Sends a piece of the answer. Blanks at the answer's begin are left out.
    fn text(&mut self, text: &str) {
        let text = if self.is_blank { text.trim_start() } else { text };
        if !text.is_empty() {
            self.is_blank = false;
            self.send(Step::Text(text.to_owned()));
        }
    }

    /// Sends the end that was kept back.
    fn send_end(&mut self) {
        let CallEnd { arguments, is_whole } = std::mem::take(&mut self.end);
        if !arguments.is_empty() {
            self.send(Step::Arguments(arguments));
        }
        if is_whole {
            self.send(Step::CallEnded);
        }
    }

    fn start_call(&mut self, name: String) {
        self.send_end();
        let id = format!("{}{}", self.prefix, uuid::Uuid::new_v4().simple());
        self.ids.push(id.clone());
        let name = self.names.for_client(name);
        self.send(Step::CallStarted { id, name });
    }

    /// Leaves the call behind `whole` whole ones without its end, since it was cut off. So its arguments are
    /// no JSON.
    pub(super) fn leave_open(&mut self, whole: usize) {
        if whole < self.ids.len() {
            let arguments = std::mem::take(&mut self.end).arguments;
            self.end.arguments =
                arguments.trim_end_matches(|c: char| c == '}' || c.is_whitespace()).to_owned();
        }
    }

    /// The calls with the ids that were sent. Calls that were not sent are sent now.
    pub(super) fn calls(&mut self, calls: Vec<ToolCall>) -> Vec<ToolCall> {
        self.send_end();
        let sent = self.ids.len();
        let mut named = Vec::with_capacity(calls.len());
        for (i, call) in calls.into_iter().enumerate() {
            if i >= sent {
                self.start_call(call.name.clone());
                self.send(Step::Arguments(Value::Object(call.arguments.clone()).to_string()));
                self.send(Step::CallEnded);
            }
            let id = self.ids.get(i).cloned().unwrap_or_default();
            let name = self.names.for_client(call.name);
            named.push(ToolCall { id, name, ..call });
        }
        named
    }

    pub(super) fn usage(&self, stats: &toolgate_infer::Stats) -> Usage {
        let evaluated = stats.prompt_tokens.saturating_sub(stats.cached_tokens);
        Usage {
            prompt: self.prompt,
            cached: self.prompt.saturating_sub(evaluated),
            completion: stats.written(),
            reasoning: stats.reasoning_tokens.min(stats.written()),
        }
    }
}
