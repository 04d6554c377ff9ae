//! A turn on a thread of its own. Its events come as steps, and a slow reader does not delay the model.
//!
//! Invariant: the steps add up to the outcome, which comes last, unless the turn fails. A turn that nobody reads is cancelled.

use std::borrow::Cow;
use std::fmt::Display;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use toolgate_chat::{Message, ToolCall, ToolChoice, ToolSpec, Transcript};
use toolgate_infer::{StopReason, TurnDecision};

use super::admission;
use super::ask::{Ask, Tools};
use super::form::Form;
use super::metrics::Ended;
use super::prefill::{Prefilling, Progress};
use super::refusal::{Refusal, Why};
use super::server::Shared;
use super::steps::{GAP, StepSender};
use super::time::{Time, Waited, Watch};
use super::warning::Warning;
use crate::{Error, Kind};
use toolgate_agent::client::{ClientTurn, without_superseded};
use toolgate_agent::{self as agent, Agent};
use toolgate_engine::stages::stands_whole;
use toolgate_engine::{CallCheck, Cancel, Sampling, TokenLikelihood, Turn, TurnRequest};

/// What happens in a turn.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// The turn has begun. It has the length of its prompt, the tokens evaluated before, and the warnings
    /// that were found with the turn.
    Begun(Usage, Vec<Warning>),
    /// A piece of what the model thinks.
    Reasoning(String),
    /// A piece of the answer.
    Text(String),
    /// A call begins.
    CallStarted { id: String, name: String },
    /// More of its arguments, as JSON.
    Arguments(String),
    /// The call is whole.
    CallEnded,
    /// The server's own loop has gone on.
    Ran(Value),
    /// This answer to the request has ended, and the next one begins.
    Next(Box<Outcome>),
    /// The turn has ended.
    Done(Box<Outcome>),
    /// The turn could not be made.
    Failed(Refusal),
}

/// A turn that has ended.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) content: Option<String>,
    pub(super) reasoning: Option<String>,
    /// The calls, under the ids of the steps.
    pub(super) calls: Vec<ToolCall>,
    pub(super) finish: Finish,
    pub(super) usage: Usage,
    pub(super) decision: Option<TurnDecision>,
    /// How likely the tokens of the answer were, if the request asks for it.
    pub(super) likelihoods: Vec<TokenLikelihood>,
    /// What the server's own loop did.
    pub(super) run: Option<Value>,
    /// The answers to the same request before this one.
    pub(super) earlier: Vec<Self>,
}

/// Why a turn ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Finish {
    /// The model ended it.
    End,
    /// This stop text of the request appeared.
    Stop(String),
    /// It makes calls.
    Calls,
    /// Its tokens are used up. The last call may have been steered to its end. Then it is not what the model
    /// wanted.
    Length,
}

impl Finish {
    /// The end of a turn that stopped so. `calls` says whether it makes calls.
    pub(super) fn of(stop: &StopReason, sampling: &Sampling, calls: bool) -> Self {
        let text = match stop {
            StopReason::StopText(which) => sampling.stop.get(*which),
            _ => None,
        };
        match (stop, text) {
            (StopReason::Budget | StopReason::MaxTokens | StopReason::ContextFull, _) => Self::Length,
            (_, Some(text)) => Self::Stop(text.clone()),
            _ if calls => Self::Calls,
            _ => Self::End,
        }
    }

    pub(super) fn openai(&self) -> &'static str {
        match self {
            Self::End | Self::Stop(_) => "stop",
            Self::Calls => "tool_calls",
            Self::Length => "length",
        }
    }
}

/// Tokens of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    /// Tokens of the prompt that the turn was written from.
    pub(super) prompt: usize,
    /// Of these, tokens that needed no evaluation. A turn may evaluate other views of the conversation, too.
    /// Their tokens are subtracted here. So the rest is what was evaluated.
    pub(super) cached: usize,
    /// Tokens that were written.
    pub(super) completion: usize,
    /// Of these, tokens of what the model thought.
    pub(super) reasoning: usize,
}

/// A turn being made. Dropping it cancels the turn.
pub(super) struct Making<S = Step> {
    steps: UnboundedReceiver<S>,
    cancel: Cancel,
    /// How far its prompt has come.
    pub(super) progress: Arc<Progress>,
    timer: tokio::task::AbortHandle,
}

impl<S> Making<S> {
    /// The next step. `None` if the thread is gone.
    pub(super) async fn step(&mut self) -> Option<S> {
        self.steps.recv().await
    }
}

impl Making {
    /// The next step. A failure if the thread is gone without a last one.
    pub(super) async fn next(&mut self) -> Step {
        let lost = || Step::Failed(Refusal::new(Why::Internal, "the turn stopped unexpectedly"));
        self.step().await.unwrap_or_else(lost)
    }
}

impl<S> Drop for Making<S> {
    fn drop(&mut self) {
        self.cancel.cancel();
        self.timer.abort();
    }
}

/// Waits for a turn and begins it. Ids of calls begin with `prefix`.
pub(super) async fn begin(
    shared: &Arc<Shared>,
    place: admission::Permit,
    request: &str,
    ask: Ask,
    prefix: &'static str,
) -> Result<Making, Refusal> {
    let (of, request) = (shared.clone(), request.to_owned());
    start(shared, place, move |right, steps| {
        let waited = if ask.stream { Waited::Streamed } else { Waited::Silently };
        let watch = right.watch(&of, waited, &request);
        let sender = StepSender::new(prefix, steps, ask.tools.names.clone(), watch);
        Worker { shared: of, request, ask, right, sender }.run();
    })
    .await
}

/// Waits until the request with this place may run, and begins its turn on a thread of its own. `make` sends
/// the steps.
pub(super) async fn start<S: Send + 'static>(
    shared: &Arc<Shared>,
    place: admission::Permit,
    make: impl FnOnce(Right, UnboundedSender<S>) + Send + 'static,
) -> Result<Making<S>, Refusal> {
    let turn = shared.gate.turn(&place).await?;
    let (sender, steps) = unbounded_channel();
    let time = Time::new(shared.options.turn_time);
    let timer = tokio::spawn(time.clone().expire()).abort_handle();
    let (cancel, progress) = (time.cancel.clone(), Arc::<Progress>::default());
    let right = Right { cancel: cancel.clone(), time, progress: progress.clone(), _held: (place, turn) };
    tokio::task::spawn_blocking(move || make(right, sender));
    Ok(Making { steps, cancel, progress, timer })
}

/// The right to make a turn, until it is dropped.
pub(super) struct Right {
    pub(super) cancel: Cancel,
    pub(super) time: Time,
    progress: Arc<Progress>,
    _held: (admission::Permit, admission::Turn),
}

impl Right {
    /// The watch of the turn's prompts.
    pub(super) fn watch(&self, shared: &Shared, waited: Waited, request: &str) -> Watch {
        let pace = shared.options.progress_time;
        let (of, progress) = (shared.prefills.clone(), self.progress.clone());
        Watch::new(self.time.clone(), waited, Prefilling::new(of, progress, request.to_owned(), pace))
    }
}

/// A turn. An error if it was cancelled on its way.
pub(super) fn uncut(turn: Turn) -> Result<Turn, toolgate_engine::Error> {
    match turn.stop {
        StopReason::Cancelled => {
            Err(toolgate_engine::Error::new(toolgate_engine::Kind::Cancelled, "cancelled"))
        }
        _ => Ok(turn),
    }
}

/// What the model is shown of a conversation: a small one is led, and not shown failures that were made good since.
pub(super) fn shown<'t>(
    shared: &Shared,
    transcript: &'t Transcript,
    tools: &[ToolSpec],
) -> Cow<'t, Transcript> {
    match shared.is_led {
        true => without_superseded(transcript, tools),
        false => Cow::Borrowed(transcript),
    }
}

/// Whether a turn ended within its last call. Such a call is not what the model wanted, and clients run every
/// whole call. A call may have begun in the stream although nothing of it could be read.
fn is_cut(stop: &StopReason, text: &str, last: Option<&ToolCall>, is_unread: bool) -> bool {
    match stop {
        // The call was steered to its end. The model did not want that.
        StopReason::Budget => true,
        StopReason::MaxTokens | StopReason::ContextFull | StopReason::StopText(_) => {
            is_unread || !last.is_some_and(|call| stands_whole(text, call))
        }
        _ => false,
    }
}

/// Refuses finished calls that do not fit the checks beyond their grammars. Such a call is left where no
/// other way to write it was found. Then the client gets none.
fn fits(tools: &Tools, calls: &[ToolCall]) -> Result<(), Error> {
    let fault = calls.iter().find_map(|call| Some((call, tools.fault(call)?)));
    let Some((call, fault)) = fault else { return Ok(()) };
    let message = format!(
        "the model found no arguments for {} that fit its schema: {}; ask again, or in other words",
        tools.names.for_client(call.name.clone()),
        fault.why
    );
    Err(Error::new(Kind::Engine, message))
}

/// The state of a turn's thread.
struct Worker {
    shared: Arc<Shared>,
    request: String,
    ask: Ask,
    right: Right,
    sender: StepSender,
}

impl Worker {
    fn run(mut self) {
        let began = Instant::now();
        let made = match self.made() {
            Err(error) if self.goes_without(&error) => self.made(),
            made => made,
        };
        let seconds = began.elapsed().as_secs_f64();
        let last = match made {
            Ok(outcome) => {
                self.note(outcome.finish.openai(), seconds, &outcome);
                Step::Done(Box::new(outcome))
            }
            Err(error) => {
                let refusal = self.refusal(&error);
                note_failed(&self.shared, &self.request, seconds, error.kind(), &error);
                Step::Failed(refusal)
            }
        };
        // The next turn need not wait until this client has read the end.
        let Self { right, mut sender, .. } = self;
        drop(right);
        sender.send(last);
    }

    fn made(&mut self) -> Result<Outcome, Error> {
        if self.shared.execute.is_some() { self.loop_of_turns() } else { self.turns() }
    }

    /// Whether a turn that failed before it began is made once more, without thoughts. The request asks for
    /// thoughts, and the model may have none.
    fn goes_without(&mut self, error: &Error) -> bool {
        if error.kind() != Kind::Input || self.sender.has_begun() {
            return false;
        }
        let warning = self.ask.leave_thoughts(error);
        let is_else = warning.is_some();
        self.sender.warnings.extend(warning);
        is_else
    }

    /// Makes the answers that the request asks for. Each has a seed of its own.
    fn turns(&mut self) -> Result<Outcome, Error> {
        let mut earlier: Vec<Outcome> = Vec::new();
        loop {
            let outcome = self.turn()?;
            if earlier.len() + 1 >= self.ask.choices.get() {
                return Ok(Outcome { earlier, ..outcome });
            }
            self.sender.next(&outcome);
            earlier.push(outcome);
            self.ask.sampling.seed = self.ask.sampling.seed.wrapping_add(1);
        }
    }

    fn turn(&mut self) -> Result<Outcome, Error> {
        let Self { shared, ask, right, sender, .. } = self;
        let transcript = &ask.conversation.transcript;
        let hints = &shared.options.hints;
        let stands = match ask.choice {
            ToolChoice::Auto | ToolChoice::Required => {
                ClientTurn::of(transcript, &ask.tools.specs, ask.choice == ToolChoice::Required, hints)
            }
            // The client has said which tool is called, or that none is.
            ToolChoice::None | ToolChoice::Only(_) => ClientTurn::default(),
        };
        let shown = shown(shared, transcript, &ask.tools.specs);
        let usual = shared.is_led.then_some(NonZeroUsize::MIN);
        let request = TurnRequest::new(&shown, &ask.tools.specs, &ask.sampling)
            .choice(ask.choice.clone())
            .parallel(ask.parallel.or(usual))
            .check(ask.tools.check(&stands.completed))
            .changed(stands.changed)
            .pending(stands.pending)
            .retry(stands.retry)
            .completed(&stands.completed)
            .prior(&stands.prior)
            .repetitions(hints.repetitions())
            .handed_on(true)
            .answer(ask.form())
            .answer_check(ask.form.as_ref().and_then(Form::check))
            .begun(ask.conversation.begun.as_deref())
            .likelihoods(ask.likelihoods);
        sender.is_blank = request.trims_front();
        let turn = shared.engine.turn(&request, &right.cancel, &mut |event| sender.see(event))?;
        let turn = uncut(turn)?;
        let finish = Finish::of(&turn.stop, &ask.sampling, !turn.parsed.calls.is_empty());
        let mut calls = turn.parsed.calls;
        let is_cut = is_cut(&turn.stop, &turn.text, calls.last(), sender.ids.len() > calls.len());
        if is_cut && calls.len() >= sender.ids.len() {
            calls.pop();
        }
        fits(&ask.tools, &calls)?;
        if is_cut {
            sender.leave_open(calls.len());
        }
        let calls = sender.calls(calls);
        Ok(Outcome {
            content: turn.parsed.content,
            reasoning: turn.parsed.reasoning,
            calls,
            finish,
            usage: sender.usage(&turn.stats),
            decision: turn.decision,
            likelihoods: std::mem::take(&mut sender.likelihoods),
            run: None,
            earlier: Vec::new(),
        })
    }

    /// Runs the server's own tools in a loop to the final answer.
    fn loop_of_turns(&mut self) -> Result<Outcome, Error> {
        let Self { shared, ask, right, sender, .. } = self;
        let Some(execute) = &shared.execute else {
            return Err(Error::new(Kind::Engine, "this server has no tools of its own"));
        };
        let bench = execute.benches.take(|_| 0);
        (bench.began)(ask.conversation.transcript.question().unwrap_or_default());
        let options = execute
            .options
            .clone()
            .choice(ask.choice.clone())
            .parallel(ask.parallel.or(execute.options.parallel))
            .sampling(ask.sampling.clone())
            // A client takes an answer for the model's own text.
            .quotes(false);
        let agent = Agent::new(shared.engine.clone(), bench.tools.clone(), options);
        let mut transcript = ask.conversation.transcript.clone();
        let before = transcript.len();
        let run = agent.run(&mut transcript, &right.cancel, &mut |event| sender.follow(event))?;
        let finish = match run.stop_reason {
            agent::StopReason::Cancelled => return Err(Error::new(Kind::Cancelled, "cancelled")),
            agent::StopReason::Budget | agent::StopReason::MaxIterations => Finish::Length,
            _ => Finish::End,
        };
        let summary = json!({
            "stop_reason": run.stop_reason, "iterations": run.iterations, "calls": run.calls,
        });
        let (content, reasoning) = said(transcript.messages().get(before..).unwrap_or_default(), run.answer);
        Ok(Outcome {
            content,
            reasoning,
            calls: Vec::new(),
            finish,
            usage: Usage {
                prompt: run.stats.prompt_tokens,
                cached: run.stats.cached_tokens,
                completion: run.stats.written(),
                reasoning: run.stats.reasoning_tokens.min(run.stats.written()),
            },
            decision: None,
            likelihoods: Vec::new(),
            run: Some(summary),
            earlier: Vec::new(),
        })
    }

    fn refusal(&mut self, error: &Error) -> Refusal {
        if error.kind() == Kind::Cancelled {
            if let Some(refusal) = self.sender.refused() {
                return refusal;
            }
            if self.right.time.is_over() {
                return Refusal::new(Why::Late, self.right.time.too_late());
            }
        }
        Refusal::from(error)
    }

    fn note(&self, how: &'static str, seconds: f64, outcome: &Outcome) {
        let all = || outcome.earlier.iter().chain([outcome]);
        let ended = Ended {
            how,
            seconds,
            prompt_tokens: outcome.usage.prompt,
            cached_tokens: outcome.usage.cached,
            completion_tokens: all().map(|outcome| outcome.usage.completion).sum(),
            calls: all().map(|outcome| outcome.calls.len()).sum(),
        };
        let model = self.ask.model.as_deref().unwrap_or_default();
        note(&self.shared, &self.request, model, &self.ask.sampling, &ended);
    }
}

/// The texts and thoughts of a run. The texts in front of its calls belong to it, as in its stream.
fn said(messages: &[Message], answer: String) -> (Option<String>, Option<String>) {
    let (mut texts, mut thoughts) = (Vec::new(), Vec::new());
    for message in messages {
        let Message::Assistant { content, reasoning, calls } = message else { continue };
        thoughts.extend(reasoning.clone());
        texts.extend(content.clone().filter(|_| !calls.is_empty()));
    }
    texts.push(answer);
    let joined = |texts: Vec<String>| {
        let texts: Vec<String> = texts.into_iter().filter(|text| !text.is_empty()).collect();
        (!texts.is_empty()).then(|| texts.join(GAP))
    };
    (joined(texts), joined(thoughts))
}

/// Counts a turn and logs it, by the names that OpenTelemetry gives to generative models. No content is logged.
pub(super) fn note(shared: &Shared, request: &str, model: &str, sampling: &Sampling, ended: &Ended) {
    shared.metrics.turn(ended);
    tracing::info!(
        request_id = %request,
        gen_ai.operation.name = "chat",
        gen_ai.provider.name = "toolgate",
        gen_ai.request.model = %model,
        gen_ai.response.model = %shared.engine.name(),
        gen_ai.request.max_tokens = sampling.max_tokens,
        gen_ai.request.temperature = sampling.temperature,
        gen_ai.request.seed = sampling.seed,
        gen_ai.response.finish_reasons = ended.how,
        gen_ai.usage.input_tokens = ended.prompt_tokens,
        gen_ai.usage.cache_read.input_tokens = ended.cached_tokens,
        gen_ai.usage.output_tokens = ended.completion_tokens,
        calls = ended.calls,
        duration_s = ended.seconds,
        "turn"
    );
}

/// Counts a turn that failed, and logs why.
pub(super) fn note_failed(shared: &Shared, request: &str, seconds: f64, kind: Kind, error: &dyn Display) {
    let how = if kind == Kind::Cancelled { "cancelled" } else { "error" };
    shared.metrics.turn(&Ended { how, seconds, ..Ended::default() });
    tracing::warn!(request_id = %request, error.type = how, duration_s = seconds, "{error}");
}
