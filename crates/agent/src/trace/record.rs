//! Writing a record while a run goes on: an engine that notes its turns, and the events that tell of calls.

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use toolgate_chat::{Message, ToolCall, ToolSpec, Transcript};
use toolgate_infer::TokenId;

use super::checks::Noting;
use super::{End, Final, Header, Line, Model, OfferedTool, Text, Tool, Turn, VERSION, choice_text};
use crate::{Event, Options};
use toolgate_engine::models::Sha256Digest;
use toolgate_engine::{self as engine, CallCheck, Cancel, Engine, Facts, TurnEvent, TurnRequest};
use toolgate_tools::{CHOICES, Effect, Registry};

/// Writes a record.
///
/// ```
/// use std::fs::File;
/// use std::sync::Arc;
/// use toolgate_agent::{Agent, Options};
/// use toolgate_engine::Cancel;
/// use toolgate_agent::trace::{Header, Model, Record, Recorded, Recorder};
/// use toolgate_chat::{Message, Transcript};
/// # use toolgate_engine::{self as engine, Engine, LocalEngine};
/// # use toolgate_tools::{CannedTool, Registry};
/// # use toolgate_infer::{Vocabulary, scripted::Scripted};
/// # let call = "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>";
/// # let model = Scripted::new(Arc::new(Vocabulary::bytes_only()))
/// #     .on("rain in Oslo", "It rains in Oslo.")
/// #     .on("weather", call);
/// # let engine: Arc<dyn Engine> = Arc::new(LocalEngine::scripted(model, engine::Options::default())?);
/// # let parameters = serde_json::json!({
/// #     "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]
/// # });
/// # let function = serde_json::json!({
/// #     "name": "get_weather", "description": "The weather in a city.", "parameters": parameters
/// # });
/// # let tool = serde_json::json!({"type": "function", "function": function, "result": "rain in Oslo"});
/// # let mut tools = Registry::new();
/// # tools.add(CannedTool::from_json(&tool)?)?;
/// # let directory = tempfile::tempdir()?;
/// # let file = directory.path().join("run.jsonl");
///
/// let (model, options) = (Model::default().name(engine.name().to_owned()), Options::default());
/// let mut transcript = Transcript::new().with(Message::User("How is the weather in Oslo?".into()));
/// let load = serde_json::Value::Null;
/// let header = Header::new(model, load, engine.as_ref(), &tools, &options, &transcript);
/// let recorder = Arc::new(Recorder::new(File::create(&file)?, header));
/// let agent = Agent::new(Arc::new(Recorded::new(engine, recorder.clone())), tools, options);
/// agent.run(&mut transcript, &Cancel::default(), &mut |event| recorder.see(&event))?;
/// recorder.finish()?;
///
/// let record = Record::read(&file)?;
/// assert_eq!((record.turns.len(), record.tools.len()), (2, 1));
/// assert_eq!(record.end.map(|end| end.answer).as_deref(), Some("It rains in Oslo."));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Recorder {
    state: Mutex<State>,
}

struct State {
    out: Box<dyn Write + Send>,
    /// What went wrong; then nothing more is written.
    failed: Option<std::io::Error>,
    /// The calls that run now.
    calls: Vec<ToolCall>,
}

impl Recorder {
    /// A recorder that writes to `out`, beginning with the header of a run.
    pub fn new(out: impl Write + Send + 'static, header: Header) -> Self {
        let recorder =
            Self { state: Mutex::new(State { out: Box::new(out), failed: None, calls: Vec::new() }) };
        recorder.write(&Line::Header(Box::new(header)));
        recorder
    }

    /// Notes what an event tells of calls and the end.
    pub fn see(&self, event: &Event) {
        match event {
            Event::ToolCall { id, name, arguments } => {
                let call = ToolCall { id: id.clone(), name: name.clone(), arguments: arguments.clone() };
                self.locked().calls.push(call);
            }
            Event::ToolResult { id, status, content, enforced, ms, found, notes } => {
                let Some(ToolCall { name, arguments, .. }) = super::take(&mut self.locked().calls, id) else {
                    return;
                };
                self.write(&Line::Tool(Tool {
                    id: id.clone(),
                    name,
                    arguments,
                    status: *status,
                    content: content.clone(),
                    enforced: serde_json::to_value(enforced).unwrap_or_default(),
                    ms: *ms,
                    found: found.clone(),
                    notes: *notes,
                }));
            }
            Event::Final(outcome) => self.write(&Line::Final(end_of(outcome))),
            _ => {}
        }
    }

    /// Whether all of it was written.
    ///
    /// # Errors
    /// What went wrong first; nothing was written after that.
    pub fn finish(&self) -> std::io::Result<()> {
        match self.locked().failed.take() {
            None => Ok(()),
            Some(error) => Err(error),
        }
    }

    fn write(&self, line: &Line) {
        let mut state = self.locked();
        if state.failed.is_some() {
            return;
        }
        let written = serde_json::to_vec(line).map_err(std::io::Error::from).and_then(|mut line| {
            line.push(b'\n');
            state.out.write_all(&line)?;
            state.out.flush()
        });
        state.failed = written.err();
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a run comes to, as the record writes it.
pub(super) fn end_of(outcome: &crate::Final) -> Final {
    Final {
        answer: outcome.answer.clone(),
        stop_reason: outcome.stop_reason.as_str().to_owned(),
        iterations: outcome.iterations,
        stats: outcome.stats.clone(),
    }
}

impl Header {
    /// The header of a run that goes on from `transcript`; `load` is what the engine was loaded with.
    pub fn new(
        model: Model,
        load: serde_json::Value,
        engine: &dyn Engine,
        registry: &Registry,
        options: &Options,
        transcript: &Transcript,
    ) -> Self {
        let tools = registry
            .specs()
            .into_iter()
            .map(|spec| OfferedTool { definition: spec.to_record(), writes: spec.effect != Effect::Reads });
        let facts = engine.facts();
        Self {
            version: VERSION,
            program: env!("CARGO_PKG_VERSION").to_owned(),
            model,
            load,
            sampling: options.sampling.clone(),
            choice: choice_text(&options.choice),
            parallel: options.parallel.map(std::num::NonZeroUsize::get),
            max_iterations: options.max_iterations,
            budget_tokens: options.budget.tokens,
            constrain_arguments: options.constrain_arguments,
            hints: options.hints.suited(&facts).to_string(),
            engine: facts,
            budget_seconds: options.budget.time.map(|time| time.as_secs_f64()),
            context_policy: options.context_policy,
            tools: tools.collect(),
            messages: transcript.messages().to_vec(),
        }
    }
}

/// An engine whose turns are recorded.
pub struct Recorded {
    engine: Arc<dyn Engine>,
    recorder: Arc<Recorder>,
    turns: AtomicUsize,
}

impl Recorded {
    /// `engine`, with its turns recorded by `recorder`.
    pub fn new(engine: Arc<dyn Engine>, recorder: Arc<Recorder>) -> Self {
        Self { engine, recorder, turns: AtomicUsize::new(0) }
    }
}

impl Engine for Recorded {
    fn name(&self) -> &str {
        self.engine.name()
    }

    fn facts(&self) -> Facts {
        self.engine.facts()
    }

    fn room(&self) -> Option<engine::Room> {
        self.engine.room()
    }

    fn goes_on(&self) -> bool {
        self.engine.goes_on()
    }

    fn text_of(&self, tokens: &[TokenId]) -> String {
        self.engine.text_of(tokens)
    }

    fn turn(
        &self,
        request: &TurnRequest<'_>,
        cancel: &Cancel,
        events: &mut dyn FnMut(TurnEvent),
    ) -> Result<engine::Turn, engine::Error> {
        let turn = self.turns.fetch_add(1, Ordering::Relaxed) + 1;
        let (result, noted) = noted(self.engine.as_ref(), turn, request, cancel, events);
        self.recorder.write(&Line::Turn(Box::new(noted)));
        result
    }
}

/// Makes a turn, with all a record says of it.
pub(super) fn noted(
    engine: &dyn Engine,
    turn: usize,
    request: &TurnRequest<'_>,
    cancel: &Cancel,
    events: &mut dyn FnMut(TurnEvent),
) -> (Result<engine::Turn, engine::Error>, Turn) {
    let mut noted = asked(turn, request);
    let checking = request.check.map(Noting::new);
    let check = checking.as_ref().map(|checking| checking as &dyn CallCheck);
    let result = engine.turn(&request.clone().check(check), cancel, &mut |event| {
        match &event {
            TurnEvent::Prompted(tokens) => noted.prompts.push(tokens.clone()),
            TurnEvent::Decoded { grammar, tokens } => noted.texts.push(Text {
                grammar: grammar
                    .as_ref()
                    .map(|grammar| Sha256Digest::of(grammar.to_gbnf().as_bytes()).to_string()),
                tokens: tokens.iter().map(|token| token.token).collect(),
                sources: tokens.iter().map(|token| super::letter(token.source)).collect(),
            }),
            TurnEvent::Decided(decision) => noted.decision = Some(decision.clone()),
            _ => {}
        }
        events(event);
    });
    noted.faults = checking.map(Noting::into_found).unwrap_or_default();
    noted.end = End::of(&result);
    (result, noted)
}

/// What a turn was asked for, as the record writes it.
pub(super) fn asked(turn: usize, request: &TurnRequest<'_>) -> Turn {
    let completed = request.completed.iter().map(|call| (call.name.clone(), call.arguments.clone()));
    Turn {
        turn,
        messages: request.transcript.iter().map(digest).collect(),
        choice: choice_text(&request.choice),
        closing: request.closing,
        completed: completed.collect(),
        prior: request.prior.to_vec(),
        pending: request.pending,
        constrained: constrained(request.tools),
        faults: Vec::new(),
        prompts: Vec::new(),
        decision: None,
        texts: Vec::new(),
        end: End::Failed { kind: "engine".to_owned(), message: String::new() },
    }
}

/// The definitions whose arguments are held to what is there.
fn constrained(tools: &[ToolSpec]) -> Vec<serde_json::Value> {
    let definitions = tools.iter().map(ToolSpec::to_record);
    definitions.filter(|definition| definition.to_string().contains(CHOICES)).collect()
}

/// The first half of a message's SHA-256: enough to tell messages of one run apart.
fn digest(message: &Message) -> String {
    // Messages are maps with texts for keys, which JSON can always write.
    let json = serde_json::to_vec(message).unwrap_or_default();
    Sha256Digest::of(&json).to_string().chars().take(32).collect()
}
