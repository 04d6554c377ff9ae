//! The loop: ask the engine for a turn, run its calls, put the results back, until there is an answer.
//!
//! Invariant: a run ends. It has at most [`Options::max_iterations`] turns, the last of which can only be an
//! answer, as is the first after its [`RunBudget`] is spent, and no call is made whose result is already there and
//! would be the same again. A call that was cut short at the token budget is never run: it is not what the model
//! wanted to do.

mod approval;
mod background;
#[doc(hidden)]
pub mod client;
mod completed;
mod context;
mod error;
mod event;
mod execute;
#[doc(hidden)]
pub mod hints;
#[doc(hidden)]
pub mod input;
#[doc(hidden)]
pub mod keys;
mod options;
mod rewrite;
pub mod trace;

pub use approval::{Approval, Asked, Request};
pub use background::{Finished, Running};
pub use context::ContextPolicy;
pub use error::{Error, Kind};
pub use event::{CallRecord, Event, Final, StopReason};
pub use hints::Hints;
pub use options::{Options, RunBudget};

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Instant;

use toolgate_chat::{Message, ToolCall, ToolChoice, ToolReply, Transcript};
use toolgate_infer::Stats;

use completed::Completed;
use hints::{Memory, Situation, Steered, Watches};
use rewrite::{Instead, Wanted};
use toolgate_engine::{self as engine, CallCheck, Cancel, Engine, Fault, Turn, TurnEvent, TurnRequest};
use toolgate_tools::{Effect, Offer, Registry, Status, ToolResult};

/// How often the same call is made while nothing changes, where no profile says less.
const MOST_TIMES: usize = 3;
/// Turns in a row that hold only calls which are not made any more, after which the next turn is the answer.
const MOST_STUCK: usize = 2;

/// A model, its tools and how they are run together.
///
/// [`ask`](Self::ask) and [`run`](Self::run) block; [`start`](Self::start) is for async programs. Clones share model and tools.
///
/// ```
/// use std::sync::Arc;
/// use toolgate_agent::{Agent, Options};
/// use toolgate_tools::{Registry, typed};
/// # use toolgate_engine::{self as engine, LocalEngine};
/// # use toolgate_infer::{Vocabulary, scripted::Scripted};
/// # let call = "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>";
/// # let model = Scripted::new(Arc::new(Vocabulary::bytes_only()))
/// #     .on("rain in Oslo", "It rains in Oslo.")
/// #     .on("weather", call);
/// # let engine = Arc::new(LocalEngine::scripted(model, engine::Options::default())?);
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Place {
///     city: String,
/// }
///
/// let weather = typed("get_weather", "The weather in a city.", |place: Place| {
///     Ok::<_, String>(format!("rain in {}", place.city))
/// })?;
/// let mut tools = Registry::new();
/// tools.add(weather.read_only())?;
/// let agent = Agent::new(engine, tools, Options::default());
/// assert_eq!(agent.registry().names(), ["get_weather"]);
/// let outcome = agent.ask("How is the weather in Oslo?")?;
/// assert_eq!(outcome.calls[0].arguments["city"], "Oslo");
/// assert_eq!((outcome.iterations, outcome.answer.as_str()), (2, "It rains in Oslo."));
/// # Ok::<(), toolgate_agent::Error>(())
/// ```
#[derive(Clone)]
pub struct Agent {
    engine: Arc<dyn Engine>,
    registry: Arc<Registry>,
    options: Options,
    /// Whether the model has a profile, which leads it.
    is_led: bool,
}

impl Agent {
    /// An agent that asks `engine` and calls the tools of `registry`.
    pub fn new(engine: Arc<dyn Engine>, registry: impl Into<Arc<Registry>>, mut options: Options) -> Self {
        let facts = engine.facts();
        options.hints = options.hints.suited(&facts);
        Self { engine, registry: registry.into(), options, is_led: facts.profile.is_some() }
    }

    /// The tools.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Does one task and gives back its outcome.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn ask(&self, prompt: &str) -> Result<Final, Error> {
        let mut transcript = Transcript::new();
        transcript.push(Message::User(prompt.to_owned()));
        self.run(&mut transcript, &Cancel::default(), &mut |_| {})
    }

    /// Goes on from `transcript`, whose last message is the user's, to an answer; what happens is appended to it.
    ///
    /// A cancelled run is no error: its outcome says so, and the transcript holds all that was done.
    ///
    /// # Errors
    /// [`Kind::Engine`] if the model cannot be run, [`Kind::Overflow`] if the task itself does not fit its context,
    /// [`Kind::Input`] for options that contradict each other.
    ///
    /// ```
    /// use toolgate_agent::{Agent, Event, StopReason};
    /// use toolgate_engine::Cancel;
    /// use toolgate_chat::{Message, Transcript};
    /// # use std::sync::Arc;
    /// # use toolgate_agent::Options;
    /// # use toolgate_engine::{self as engine, LocalEngine};
    /// # use toolgate_tools::{CannedTool, Registry};
    /// # use toolgate_infer::{Vocabulary, scripted::Scripted};
    /// # let call = "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>";
    /// # let model = Scripted::new(Arc::new(Vocabulary::bytes_only()))
    /// #     .on("rain in Oslo", "It rains in Oslo.")
    /// #     .on("weather", call);
    /// # let engine = Arc::new(LocalEngine::scripted(model, engine::Options::default())?);
    /// # let parameters = serde_json::json!({
    /// #     "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]
    /// # });
    /// # let function = serde_json::json!({
    /// #     "name": "get_weather", "description": "The weather in a city.", "parameters": parameters
    /// # });
    /// # let tool = serde_json::json!({"type": "function", "function": function, "result": "rain in Oslo"});
    /// # let mut tools = Registry::new();
    /// # tools.add(CannedTool::from_json(&tool)?)?;
    /// # let agent = Agent::new(engine, tools, Options::default());
    ///
    /// let mut transcript = Transcript::new().with(Message::User("How is the weather in Oslo?".into()));
    /// let (cancel, mut shown) = (Cancel::default(), String::new());
    /// agent.run(&mut transcript, &cancel, &mut |event| {
    ///     if let Event::Text { delta } = event {
    ///         shown.push_str(&delta);
    ///     }
    /// })?;
    /// assert_eq!(shown, "It rains in Oslo.");
    /// // The question, the call, its result and the answer: the next question goes on from there.
    /// assert_eq!(transcript.len(), 4);
    /// transcript.push(Message::User("And tomorrow?".into()));
    /// cancel.cancel();
    /// assert_eq!(agent.run(&mut transcript, &cancel, &mut |_| {})?.stop_reason, StopReason::Cancelled);
    /// # Ok::<(), toolgate_agent::Error>(())
    /// ```
    pub fn run(
        &self,
        transcript: &mut Transcript,
        cancel: &Cancel,
        events: &mut dyn FnMut(Event),
    ) -> Result<Final, Error> {
        let mut run = Run {
            agent: self,
            transcript,
            cancel,
            events,
            calls: Vec::new(),
            completed: Completed::default(),
            stats: Stats::default(),
            began: Instant::now(),
            memory: Memory::default(),
            steered: Steered::new(self.options.tells_steering),
            wanted: None,
            rewritten: Vec::new(),
        };
        run.start()?;
        let start = run.began;
        let (answer, stop_reason, iterations) = run.turns()?;
        run.stats.ms.total = start.elapsed().as_secs_f64() * 1e3;
        if let Some(hints) = run.steered.into_names() {
            (run.events)(Event::Steered { hints });
        }
        let outcome = Final { answer, stop_reason, iterations, calls: run.calls, stats: run.stats };
        events(Event::Final(outcome.clone()));
        Ok(outcome)
    }
}

/// One run: the agent's shared parts and what it has done so far.
struct Run<'a> {
    agent: &'a Agent,
    transcript: &'a mut Transcript,
    cancel: &'a Cancel,
    events: &'a mut dyn FnMut(Event),
    calls: Vec<CallRecord>,
    completed: Completed,
    stats: Stats,
    began: Instant,
    /// What hints remember of it.
    memory: Memory,
    /// Which hints steered it.
    steered: Steered,
    /// What the next turn is held to.
    wanted: Option<Wanted>,
    /// The calls in whose place others were written since something last changed.
    rewritten: Vec<ToolCall>,
}

impl Run<'_> {
    fn start(&mut self) -> Result<(), Error> {
        let options = &self.agent.options;
        let must_call = matches!(options.choice, ToolChoice::Required | ToolChoice::Only(_));
        if must_call && options.max_iterations < 2 {
            return Err(Error::input(
                "a required call needs at least 2 iterations: one to call, one to answer",
            ));
        }
        if must_call && self.agent.registry.is_empty() {
            return Err(Error::input("a call is required, but no tool is offered"));
        }
        (self.events)(Event::Started {
            model: self.agent.engine.name().to_owned(),
            tools: self.agent.registry.names(),
        });
        Ok(())
    }

    /// Turn after turn; the answer, why it ended, and how many turns there were.
    fn turns(&mut self) -> Result<(String, StopReason, usize), Error> {
        let options = &self.agent.options;
        let mut choice = options.choice.clone();
        let mut was_cut = false;
        // Turns of nothing but calls that are not made any more.
        let mut stuck = 0;
        for iteration in 1..=options.max_iterations {
            let last = iteration == options.max_iterations;
            let spent = options.budget.is_spent(&self.stats, self.began);
            let is_stuck = stuck >= MOST_STUCK;
            let closing = last || spent || is_stuck;
            if closing {
                choice = ToolChoice::None;
            } else if let Some(wanted) = &self.wanted {
                choice = wanted.choice();
            }
            let guess = self.wanted.as_ref().and_then(Wanted::guess);
            let mut turn = match self.turn(&choice, closing, if is_stuck { stuck } else { 0 }) {
                Ok(turn) => turn,
                Err(error) if error.kind() == Kind::Cancelled => {
                    return Ok((String::new(), StopReason::Cancelled, iteration));
                }
                // The call that was cut, and what was said about it, fill the context.
                Err(error) if error.kind() == Kind::Overflow && was_cut => {
                    return Ok((String::new(), StopReason::Budget, iteration));
                }
                Err(error) => return Err(error),
            };
            if let Some(guess) = guess {
                self.put_back(guess, &mut turn);
            }
            // A call that is written again needs a turn, and so does the answer.
            if iteration + 2 <= options.max_iterations
                && let Some(instead) = self.instead(&turn)
            {
                match instead {
                    Instead::Look(look) => turn.parsed.calls = vec![look],
                    Instead::Nothing => continue,
                }
            }
            let stopped = turn.stop.clone();
            let budget = turn.budget;
            let calls = turn.parsed.calls.clone();
            self.transcript.push(Message::Assistant {
                content: turn.parsed.content.clone(),
                reasoning: turn.parsed.reasoning,
                calls: turn.parsed.calls,
            });
            if stopped == toolgate_infer::StopReason::Cancelled {
                return Ok((turn.parsed.content.unwrap_or_default(), StopReason::Cancelled, iteration));
            }
            if calls.is_empty() {
                let reason = match stopped {
                    toolgate_infer::StopReason::MaxTokens
                    | toolgate_infer::StopReason::ContextFull
                    | toolgate_infer::StopReason::Budget => StopReason::Budget,
                    _ if turn.looped || is_stuck => StopReason::Loop,
                    _ if spent => StopReason::Budget,
                    _ if last && options.max_iterations > 1 => StopReason::MaxIterations,
                    _ => StopReason::Final,
                };
                return Ok((turn.parsed.content.unwrap_or_default(), reason, iteration));
            }
            // Calls of a text that breaks off may have been read with what they lack filled in.
            let is_cut = stopped == toolgate_infer::StopReason::Budget || !stopped.is_whole();
            stuck = if calls.iter().all(|call| self.is_worn_out(call)) { stuck + 1 } else { 0 };
            self.execute(&calls, is_cut.then_some(budget));
            if self.cancel.is_cancelled() {
                return Ok((String::new(), StopReason::Cancelled, iteration));
            }
            if is_cut && was_cut {
                // Told once, the model still wants to write more than it can.
                return Ok((String::new(), StopReason::Budget, iteration));
            }
            was_cut = is_cut;
            if !is_cut {
                // A call was required of the first turn; from here on the model decides.
                choice = ToolChoice::Auto;
            }
        }
        Ok((String::new(), StopReason::MaxIterations, options.max_iterations))
    }

    /// One turn of the engine; a prompt too long for the context is tried again with less of what came before. So many turns at the end
    /// of the conversation, whose calls were not made, are left out of what the model is shown.
    fn turn(&mut self, choice: &ToolChoice, closing: bool, left_out: usize) -> Result<Turn, Error> {
        let agent = self.agent;
        let options = &agent.options;
        let offers = agent.registry.offers();
        // Looking at what is there would be for nothing where no call can be made.
        let may_call = *choice != ToolChoice::None;
        let constrains = options.constrain_arguments && may_call;
        let at = Situation::new(self.transcript, &offers, &self.memory, (may_call, constrains));
        let mut advice = options.hints.advice(&at);
        self.steered.advised(&options.hints, &at, &advice);
        if let Some(wanted) = self.wanted.take().filter(|_| constrains) {
            wanted.hold(&mut advice.specs);
        }
        let watches = Watches::of(&options.hints);
        let prior = advice.prior();
        self.memory.keep(&advice);
        // A model that nobody leads may repeat itself, and makes as many calls as it likes.
        let completed = if agent.is_led { self.completed.calls() } else { &[] };
        let parallel = options.parallel.or(agent.is_led.then_some(NonZeroUsize::MIN));
        let without_last = |transcript: &Transcript| -> Option<Transcript> {
            // A turn is two messages: the calls, and what came of them.
            let kept = transcript.len().saturating_sub(2 * left_out);
            (left_out > 0).then(|| transcript.iter().take(kept).cloned().collect())
        };
        let mut shorter = without_last(self.transcript);
        let mut may_summarize = options.context_policy == ContextPolicy::Summarize;
        loop {
            let transcript = shorter.as_ref().unwrap_or(self.transcript);
            let checked = Checked(&agent.registry);
            let request = TurnRequest::new(transcript, &advice.specs, &options.sampling)
                .choice(choice.clone())
                .parallel(parallel)
                .completed(completed)
                .check(Some(&checked))
                .changed(self.memory.changed)
                .pending(advice.is_pending)
                .prior(&prior)
                .repetitions(watches.repetitions())
                .closing(closing)
                .quotes(options.quotes);
            let events = &mut *self.events;
            let result = self.agent.engine.turn(&request, self.cancel, &mut |event| forward(event, events));
            match result {
                Ok(mut turn) => {
                    self.stats += &turn.stats;
                    self.steered.note(watches.steered());
                    self.quote(&mut turn, &offers);
                    return Ok(turn);
                }
                Err(error)
                    if error.kind() == engine::Kind::Overflow
                        && options.context_policy != ContextPolicy::Error =>
                {
                    if std::mem::take(&mut may_summarize)
                        && context::summarize(agent, self.transcript, self.cancel, &mut self.stats, events)?
                    {
                        shorter = without_last(self.transcript);
                        continue;
                    }
                    let shown = shorter.get_or_insert_with(|| self.transcript.clone());
                    let Some(how) = context::shorten(shown) else { return Err(error.into()) };
                    (self.events)(Event::Retry { why: format!("{error}; {how}") });
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Puts what the last calls gave back behind an answer of a model that often says nothing of it.
    fn quote(&mut self, turn: &mut Turn, offers: &[Offer]) {
        let options = &self.agent.options;
        let is_whole_answer = turn.parsed.calls.is_empty() && turn.stop == toolgate_infer::StopReason::End;
        let takes_quotes = options.quotes && options.sampling.stop.is_empty();
        if !(is_whole_answer && takes_quotes && self.agent.engine.facts().quoted) {
            return;
        }
        let at = Situation::new(self.transcript, offers, &self.memory, (false, false));
        let answer = turn.parsed.content.clone().unwrap_or_default();
        if let Some((hint, addition)) = options.hints.addition(&at, &answer) {
            self.steered.note([hint]);
            turn.parsed.content = Some(answer + &addition);
            (self.events)(Event::Text { delta: addition });
        }
    }

    /// Runs the calls of a turn in order, those that only look beside each other, and puts all results into one
    /// message. With a budget they were cut short at so many tokens, and none is run.
    fn execute(&mut self, calls: &[ToolCall], budget: Option<usize>) {
        let mut replies = Vec::with_capacity(calls.len());
        let mut rest = calls;
        self.memory.changed = false;
        while !rest.is_empty() {
            // One that is not run for its own sake stands alone.
            let worn_out = rest.iter().position(|call| self.is_worn_out(call));
            let (others, _) = rest.split_at(worn_out.map_or(rest.len(), |at| at.max(1)));
            let (next, after) = rest.split_at(execute::together(&self.agent.registry, others));
            rest = after;
            for call in next {
                (self.events)(Event::ToolCall {
                    id: call.id.clone(),
                    name: call.name.clone(),
                    arguments: call.arguments.clone(),
                });
            }
            let results = match (budget, next) {
                _ if self.cancel.is_cancelled() => next
                    .iter()
                    .map(|_| ToolResult::denied("the run was cancelled before this call"))
                    .collect(),
                (Some(budget), _) => next.iter().map(|_| self.cut(budget)).collect(),
                (None, [call]) => vec![self.call(call)],
                (None, _) => {
                    let results = execute::call_all(&self.agent.registry, next, self.cancel);
                    next.iter().for_each(|call| self.completed.record(call, false));
                    results
                }
            };
            replies.extend(next.iter().zip(results).map(|(call, result)| self.note(call, result)));
        }
        self.transcript.push(Message::Tool(replies));
    }

    /// Takes a call and its result into the record; what the model is told of it.
    fn note(&mut self, call: &ToolCall, result: ToolResult) -> ToolReply {
        (self.events)(Event::ToolResult {
            id: call.id.clone(),
            status: result.status,
            content: result.content.clone(),
            enforced: result.enforced.clone(),
            ms: result.ms,
            found: result.found(),
            notes: result.notes,
        });
        self.stats.ms.tools += result.ms as f64;
        self.memory.note(call, &result);
        self.calls.push(CallRecord {
            id: call.id.clone(),
            name: call.name.clone(),
            arguments: call.arguments.clone(),
            status: result.status,
        });
        ToolReply {
            call_id: call.id.clone(),
            name: call.name.clone(),
            is_error: result.status != Status::Ok,
            content: result.content,
        }
    }

    /// The result of a call that was cut short at a budget of tokens.
    fn cut(&self, budget: usize) -> ToolResult {
        let reason = if budget < self.agent.options.sampling.max_tokens {
            "the model's context has room for no more"
        } else {
            "the user can raise it with --max-tokens"
        };
        ToolResult::new(
            Status::Limit,
            format!(
                "not run: the call was cut short at the budget of {budget} tokens a turn ({reason}); \
                 write less in one call, and the rest in further calls"
            ),
        )
    }

    /// Whether a model that nobody leads made a call so often that it would go on for ever.
    fn is_worn_out(&self, call: &ToolCall) -> bool {
        !self.agent.is_led && self.completed.times(call) >= MOST_TIMES
    }

    fn call(&mut self, call: &ToolCall) -> ToolResult {
        if self.is_worn_out(call) {
            return ToolResult::failed(format!(
                "not run: this very call was made {MOST_TIMES} times and nothing has changed since; its result stands above. \
                 Call something else, or answer."
            ));
        }
        let registry = &self.agent.registry;
        let pending = match registry.prepare(call) {
            Ok(pending) => pending,
            Err(result) => {
                self.completed.record(call, false);
                return *result;
            }
        };
        let request = self.transcript.question().unwrap_or_default();
        if let Some(objection) = registry.objection(call)
            && let Some(hint) = self.agent.options.hints.refuse(&objection, request)
        {
            self.steered.note([hint]);
            // Made again, it would be refused again.
            self.completed.record(call, false);
            return ToolResult::failed(objection.why());
        }
        let approved = match &self.agent.options.approval {
            _ if !pending.needs_approval() => true,
            Approval::Auto => true,
            Approval::Never => false,
            Approval::Ask(ask) => ask(&Request::new(&pending)),
        };
        if !approved {
            // Asked again, the answer would be the same.
            self.completed.record(call, false);
            return ToolResult::denied(format!(
                "the user did not allow this {} call; do not repeat it, and say what you would have done",
                call.name
            ));
        }
        let result = pending.run(self.cancel);
        let changed = result.status == Status::Ok && registry.effect(&call.name) != Some(Effect::Reads);
        self.completed.record(call, changed);
        self.memory.changed |= changed;
        if changed {
            self.rewritten.clear();
        }
        result
    }
}

/// The check of the tools' schemas, as an engine asks for it.
struct Checked<'a>(&'a Registry);

impl CallCheck for Checked<'_> {
    fn fault(&self, call: &ToolCall) -> Option<Fault> {
        let violation = self.0.violations(call).into_iter().next()?;
        Some(Fault { pointer: violation.place(), why: violation.to_string() })
    }
}

fn forward(event: TurnEvent, events: &mut dyn FnMut(Event)) {
    match event {
        TurnEvent::Prefill { done, tokens, cached } if done == tokens => {
            events(Event::Prefill { tokens, cached });
        }
        TurnEvent::Prefill { done, tokens, .. } => events(Event::PrefillProgress { done, tokens }),
        TurnEvent::Decided(decision) => events(Event::Decision {
            p_call: decision.p_call,
            threshold: decision.threshold,
            call: decision.call,
        }),
        TurnEvent::Text(delta) => events(Event::Text { delta }),
        TurnEvent::Reasoning(delta) => events(Event::Reasoning { delta }),
        TurnEvent::Recovered(text) => events(Event::Recovered { text }),
        TurnEvent::Retry(why) => events(Event::Retry { why }),
        // Prompts, tokens and probabilities are for the record of a run, which sees the engine's own events. A run shows its
        // calls when they are whole and checked.
        _ => {}
    }
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
