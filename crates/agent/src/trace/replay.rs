//! Running a record again: its turns from the file or from a model, its tools from the file or for real.

use std::num::NonZeroUsize;
use std::sync::Arc;

use serde::Serialize;
use toolgate_chat::{ToolCall, ToolSpec, Transcript};
use toolgate_infer::TokenId;

use super::checks::Answering;
use super::record::{asked, noted};
use super::watch::{Difference, Watch};
use super::{Record, Turn, choice_of, effect};
use crate::Error;
use crate::{Agent, Approval, Event, Hints, Options, RunBudget};
use toolgate_engine::{self as engine, CallCheck, Cancel, Engine, Facts, TurnEvent, TurnRequest};
use toolgate_tools::{Args, Effect, Registry, Rewrite, Tool, ToolResult};

/// A replay of a record. Without anything given, turns and tool results are those of the record, so that what is
/// checked is the loop between them.
///
/// ```
/// use toolgate_agent::trace::{Record, Replay};
/// # use std::{fs::File, sync::Arc};
/// # use serde_json::json;
/// # use toolgate_agent::{Agent, Options};
/// # use toolgate_engine::{self as engine, Cancel, Engine, LocalEngine};
/// # use toolgate_agent::trace::{Header, Model, Recorded, Recorder};
/// # use toolgate_tools::{CannedTool, Registry};
/// # use toolgate_chat::{Message, Transcript};
/// # use toolgate_infer::{Vocabulary, scripted::Scripted};
/// # fn tools(weather: &str) -> Result<Registry, toolgate_agent::Error> {
/// #     let parameters = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
/// #     let function = json!({"name": "get_weather", "description": "The weather.", "parameters": parameters});
/// #     let mut tools = Registry::new();
/// #     tools.add(CannedTool::from_json(&json!({"type": "function", "function": function, "result": weather}))?)?;
/// #     Ok(tools)
/// # }
/// # let call = "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>";
/// # let model = Scripted::new(Arc::new(Vocabulary::bytes_only()))
/// #     .on("rain in Oslo", "It rains in Oslo.")
/// #     .on("weather", call);
/// # let engine: Arc<dyn Engine> = Arc::new(LocalEngine::scripted(model, engine::Options::default())?);
/// # let directory = tempfile::tempdir()?;
/// # let (file, tools_then) = (directory.path().join("run.jsonl"), tools("rain in Oslo")?);
/// # let (model, options) = (Model::default(), Options::default());
/// # let mut transcript = Transcript::new().with(Message::User("How is the weather in Oslo?".into()));
/// # let header = Header::new(model, json!(null), engine.as_ref(), &tools_then, &options, &transcript);
/// # let recorder = Arc::new(Recorder::new(File::create(&file)?, header));
/// # let agent = Agent::new(Arc::new(Recorded::new(engine.clone(), recorder.clone())), tools_then, options);
/// # agent.run(&mut transcript, &Cancel::default(), &mut |event| recorder.see(&event))?;
///
/// let record = Record::read(&file)?;
/// assert_eq!(Replay::new(&record).run()?.difference, None);
///
/// // The model says the same, the tools of today answer otherwise.
/// assert_eq!(Replay::new(&record).with_engine(engine).run()?.difference, None);
/// let outcome = Replay::new(&record).with_tools(tools("sun in Oslo")?).run()?;
/// let difference = outcome.difference.ok_or("no difference")?;
/// assert_eq!((difference.turn, difference.what), (1, "tool"));
/// assert!(difference.expected.contains("rain in Oslo") && difference.got.contains("sun in Oslo"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Replay<'a> {
    record: &'a Record,
    engine: Option<Arc<dyn Engine>>,
    registry: Option<Registry>,
}

/// What a replay found.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Outcome {
    /// The first difference; none where the run is the same.
    pub difference: Option<Difference>,
    /// Turns that were compared, the one that differs included.
    pub turns: usize,
    /// Whether the record ends before its run did, so that no more could be compared.
    pub incomplete: bool,
    /// The greatest difference of a call's probability between record and model.
    pub drift: f64,
}

impl<'a> Replay<'a> {
    /// The replay of `record` alone.
    pub fn new(record: &'a Record) -> Self {
        Self { record, engine: None, registry: None }
    }

    /// The same with turns made by `engine`, which are compared token by token.
    #[must_use]
    pub fn with_engine(mut self, engine: Arc<dyn Engine>) -> Self {
        self.engine = Some(engine);
        self
    }

    /// The same with calls answered by `registry`, whose results are compared.
    #[must_use]
    pub fn with_tools(mut self, registry: Registry) -> Self {
        self.registry = Some(registry);
        self
    }

    /// Runs it, up to the first difference.
    ///
    /// # Errors
    /// A record that could not have been made, and an engine that cannot be run.
    pub fn run(self) -> Result<Outcome, Error> {
        let header = &self.record.header;
        let watch = Watch::new(self.record);
        let reruns_tools = self.registry.is_some();
        let registry = match self.registry {
            Some(registry) => registry,
            None => recorded_tools(self.record, &watch)?,
        };
        let refused = watch.clone();
        let options = Options {
            max_iterations: header.max_iterations,
            choice: choice_of(&header.choice)?,
            parallel: header.parallel.and_then(NonZeroUsize::new),
            sampling: header.sampling.clone(),
            // The same answers as then.
            approval: Approval::Ask(Arc::new(move |request| {
                !refused.answer_to(&request.name, &request.arguments).is_some_and(|tool| tool.is_refused())
            })),
            budget: RunBudget { tokens: header.budget_tokens, time: None },
            constrain_arguments: header.constrain_arguments,
            hints: Hints::recorded(&header.hints),
            quotes: true,
            context_policy: header.context_policy,
            tells_steering: false,
        };
        let name = header.model.name.clone();
        let engine: Arc<dyn Engine> = Arc::new(Replayed {
            name,
            facts: header.engine.clone(),
            engine: self.engine,
            reruns_tools,
            watch: watch.clone(),
        });
        let agent = Agent::new(engine, registry, options);
        let mut transcript: Transcript = header.messages.iter().cloned().collect();
        let ended = agent.run(&mut transcript, &watch.cancel, &mut |event: Event| watch.see(&event));
        let (difference, incomplete, drift) = watch.verdict();
        match ended {
            // A run that failed has no end in its record either.
            Err(error) if difference.is_none() && self.record.end.is_some() => return Err(error),
            _ => {}
        }
        let incomplete = incomplete || (difference.is_none() && self.record.end.is_none());
        Ok(Outcome { difference, turns: watch.turns(), incomplete, drift })
    }
}

/// An engine whose turns are held against the record.
struct Replayed {
    name: String,
    /// What the recorded engine was.
    facts: Facts,
    /// Who makes the turns; the record where nobody does.
    engine: Option<Arc<dyn Engine>>,
    /// Whether its tools are real ones, which know themselves what is there.
    reruns_tools: bool,
    watch: Watch,
}

impl Replayed {
    /// The tools of a turn as they were offered then.
    fn offered(&self, expected: &Turn, now: &[ToolSpec]) -> Result<Vec<ToolSpec>, Error> {
        let mut tools = now.to_vec();
        if !self.reruns_tools {
            for definition in &expected.constrained {
                let then = ToolSpec::from_any(definition)?;
                tools.iter_mut().filter(|tool| tool.name == then.name).for_each(|tool| *tool = then.clone());
            }
        }
        Ok(tools)
    }
}

impl Engine for Replayed {
    fn name(&self) -> &str {
        &self.name
    }

    fn facts(&self) -> Facts {
        self.facts.clone()
    }

    fn turn(
        &self,
        request: &TurnRequest<'_>,
        cancel: &Cancel,
        events: &mut dyn FnMut(TurnEvent),
    ) -> Result<engine::Turn, engine::Error> {
        let stopped =
            || engine::Error::new(engine::Kind::Cancelled, "the replay differs, or its record ends here");
        let expected = self.watch.next_turn(&asked(0, request)).ok_or_else(stopped)?;
        if let Some(engine) = &self.engine {
            let tools = self
                .offered(&expected, request.tools)
                .map_err(|error| engine::Error::input(error.to_string()))?;
            let then = Answering(&expected.faults);
            let check = if self.reruns_tools { request.check } else { Some(&then as &dyn CallCheck) };
            // The tools of a record do not tell what the user named.
            let request =
                request.clone().tools(&tools).check(check).prior(&expected.prior).pending(expected.pending);
            let (result, got) = noted(engine.as_ref(), 0, &request, cancel, events);
            if !self.watch.compare(&expected, &got, &|tokens: &[TokenId]| engine.text_of(tokens)) {
                // What the engine says of a failure tells more than that it differs.
                return Err(result.err().unwrap_or_else(stopped));
            }
        }
        said(expected, events)
    }
}

/// A recorded turn as its engine gave it, ids included: results are tied to calls by these.
fn said(turn: Turn, events: &mut dyn FnMut(TurnEvent)) -> Result<engine::Turn, engine::Error> {
    let turn = turn.end.into_turn()?;
    if let Some(content) = &turn.parsed.content {
        events(TurnEvent::Text(content.clone()));
    }
    Ok(turn)
}

/// The tools of a record, which answer as they did.
fn recorded_tools(record: &Record, watch: &Watch) -> Result<Registry, Error> {
    let mut registry = Registry::new();
    for tool in &record.header.tools {
        let spec = ToolSpec::from_any(&tool.definition)?;
        let effect = effect(&spec, tool.writes);
        registry.add(RecordedTool { spec, effect, watch: watch.clone() })?;
    }
    Ok(registry)
}

/// A tool that answers what the record says comes next.
struct RecordedTool {
    spec: ToolSpec,
    effect: Effect,
    watch: Watch,
}

impl Tool for RecordedTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn effect(&self) -> Effect {
        self.effect
    }

    /// Where the record has another call next, that was made first, or this one was written again.
    fn rewrite(&self, args: &Args) -> Option<Rewrite> {
        let made = self.watch.next_call()?;
        if made.name != self.spec.name.as_str() {
            let look = ToolCall::new(made.name, made.arguments);
            return Some(Rewrite::new(Some(look), Vec::new(), "as recorded"));
        }
        (made.arguments != *args.as_map()).then(|| Rewrite::new(None, Vec::new(), "as recorded"))
    }

    fn needs_approval_of(&self, call: &ToolCall) -> bool {
        self.watch.answer_to(&call.name, &call.arguments).is_some_and(|tool| tool.is_refused())
    }

    fn call(&self, args: &Args) -> ToolResult {
        match self.watch.answer_to(self.spec.name.as_str(), args.as_map()) {
            Some(tool) => {
                let mut result = ToolResult::new(tool.status, tool.content);
                (result.data, result.notes) = (tool.found, tool.notes);
                result
            }
            None => ToolResult::failed("the record has no such call"),
        }
    }
}
