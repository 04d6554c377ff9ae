//! What a turn's client is told of it: events of the engine become steps, under the names and ids that the client knows.
//!
//! Invariant: the end of a call is told only once it is known that the turn was not cut off in it.

use serde_json::Value;
use tokio::sync::mpsc::UnboundedSender;
use toolgate_chat::ToolCall;

use super::names::Names;
use super::refusal::Refusal;
use super::time::Watch;
use super::turn::{Outcome, Step, Usage};
use toolgate_agent::Event;
use toolgate_engine::{TokenLikelihood, TurnEvent};

/// What was told of a turn so far.
pub(super) struct Told {
    prefix: &'static str,
    steps: UnboundedSender<Step>,
    /// What the client calls its tools.
    names: Names,
    /// The ids of the calls that were told.
    pub(super) ids: Vec<String>,
    begun: bool,
    /// Whether the answer told so far is blank.
    pub(super) is_blank: bool,
    /// Tokens of the prompt evaluated last.
    prompt: usize,
    /// The end of the call told last, kept back until it is known that the turn was not cut off in it.
    end: CallEnd,
    /// How likely the tokens of the text were that was written last.
    pub(super) likelihoods: Vec<TokenLikelihood>,
    /// Looks at its prompts.
    watch: Watch,
}

/// The end of a call.
#[derive(Default)]
struct CallEnd {
    /// The last piece of its arguments.
    arguments: String,
    /// Whether that was all.
    is_whole: bool,
}

impl Told {
    /// Nothing yet; calls get ids that begin with `prefix`.
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
            is_blank: true,
            prompt: 0,
            end: CallEnd::default(),
            likelihoods: Vec::new(),
            watch,
        }
    }

    /// Why the turn was given up before its work, where it was.
    pub(super) fn refused(&mut self) -> Option<Refusal> {
        self.watch.refused()
    }

    /// Tells a step, and first that the turn has begun: an answer that no prompt was evaluated for begins too.
    pub(super) fn tell(&mut self, step: Step) {
        if !self.begun && !matches!(step, Step::Begun(_) | Step::Failed(_)) {
            self.begin(0, 0);
        }
        // Whoever has gone away has cancelled the turn.
        let _ = self.steps.send(step);
    }

    pub(super) fn see(&mut self, event: TurnEvent) {
        match event {
            TurnEvent::Prefill { done, tokens, cached } => self.read(done, tokens, cached),
            TurnEvent::Text(text) => self.text(&text),
            TurnEvent::Reasoning(text) => self.tell(Step::Reasoning(text)),
            TurnEvent::CallStarted(name) => self.start_call(name),
            TurnEvent::Arguments(text) => {
                self.tell_end();
                self.end.arguments = text;
            }
            TurnEvent::CallEnded => self.end.is_whole = true,
            TurnEvent::Likelihoods(told) => self.likelihoods = told,
            _ => {}
        }
    }

    /// Another answer follows to the same request.
    pub(super) fn next(&mut self, outcome: &Outcome) {
        self.tell(Step::Next(Box::new(outcome.clone())));
        self.ids.clear();
        self.end = CallEnd::default();
    }

    /// An event of the server's own loop.
    pub(super) fn follow(&mut self, event: Event) {
        match event {
            Event::PrefillProgress { done, tokens } => self.read(done, tokens, done),
            Event::Prefill { tokens, cached } => self.read(tokens, tokens, cached),
            Event::Text { delta } => self.text(&delta),
            Event::Reasoning { delta } => self.tell(Step::Reasoning(delta)),
            Event::ToolCall { .. }
            | Event::ToolResult { .. }
            | Event::Decision { .. }
            | Event::Retry { .. } => {
                self.tell(Step::Ran(serde_json::to_value(&event).unwrap_or_default()));
            }
            _ => {}
        }
    }

    /// So many tokens of a prompt are there.
    fn read(&mut self, done: usize, tokens: usize, cached: usize) {
        self.watch.see(done, tokens);
        self.begin(tokens, cached);
    }

    fn begin(&mut self, prompt: usize, cached: usize) {
        self.prompt = prompt;
        if !self.begun {
            self.begun = true;
            self.tell(Step::Begun(Usage { prompt, cached, ..Usage::default() }));
        }
    }

    /// A piece of the answer, without the blanks that it begins with.
    fn text(&mut self, text: &str) {
        let text = if self.is_blank { text.trim_start() } else { text };
        if !text.is_empty() {
            self.is_blank = false;
            self.tell(Step::Text(text.to_owned()));
        }
    }

    /// Tells what was kept back.
    fn tell_end(&mut self) {
        let CallEnd { arguments, is_whole } = std::mem::take(&mut self.end);
        if !arguments.is_empty() {
            self.tell(Step::Arguments(arguments));
        }
        if is_whole {
            self.tell(Step::CallEnded);
        }
    }

    fn start_call(&mut self, name: String) {
        self.tell_end();
        let id = format!("{}{}", self.prefix, uuid::Uuid::new_v4().simple());
        self.ids.push(id.clone());
        let name = self.names.for_client(name);
        self.tell(Step::CallStarted { id, name });
    }

    /// Leaves what was told of a call that was cut off, behind so many whole ones, without its end, so that it is no JSON.
    pub(super) fn leave_open(&mut self, whole: usize) {
        if whole < self.ids.len() {
            let arguments = std::mem::take(&mut self.end).arguments;
            self.end.arguments =
                arguments.trim_end_matches(|c: char| c == '}' || c.is_whitespace()).to_owned();
        }
    }

    /// The calls under the ids that were told; those that were not are told now.
    pub(super) fn calls(&mut self, calls: Vec<ToolCall>) -> Vec<ToolCall> {
        self.tell_end();
        let told = self.ids.len();
        let mut named = Vec::with_capacity(calls.len());
        for (i, call) in calls.into_iter().enumerate() {
            if i >= told {
                self.start_call(call.name.clone());
                self.tell(Step::Arguments(Value::Object(call.arguments.clone()).to_string()));
                self.tell(Step::CallEnded);
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
