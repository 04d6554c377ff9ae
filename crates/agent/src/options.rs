//! How a run goes: its bounds, who is asked, and what may steer it.

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use toolgate_chat::ToolChoice;
use toolgate_engine::Sampling;
use toolgate_infer::Stats;

use crate::{Approval, ContextPolicy, Hints};

/// How a run goes.
///
/// ```
/// use toolgate_agent::Options;
/// use toolgate_chat::{ToolChoice, ToolName};
///
/// // The first turn calls `search`, whatever is asked; at most three more come to the answer.
/// let choice = ToolChoice::Only(vec![ToolName::new("search")?]);
/// let options = Options::default().choice(choice).max_iterations(4);
/// assert!(options.parallel.is_none(), "that is left to what suits the model");
/// # Ok::<(), toolgate_chat::Error>(())
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// Turns at most; the last one can only be an answer. Default 12.
    pub max_iterations: usize,
    /// Whether the first turn may, must or must not call. Default auto.
    pub choice: ToolChoice,
    /// Calls a turn at most. Default `None`: one for a model with a profile, so that the next call knows what came of the one before;
    /// else as many as the model's format allows.
    pub parallel: Option<NonZeroUsize>,
    /// How tokens are drawn.
    pub sampling: Sampling,
    /// What the run may take before its next turn has to be the answer. Default: nothing bounds it.
    pub budget: RunBudget,
    /// Who is asked before changes. Default [`Approval::Never`]: a call that a policy wants somebody asked about is denied.
    pub approval: Approval,
    /// Whether the grammar of a call holds its arguments to what the state at hand leaves of them
    /// ([`Tool::choices`](toolgate_tools::Tool::choices)): paths to those that are there. Default true.
    pub constrain_arguments: bool,
    /// Which rules may steer by the words of the request. Default [`Hints::auto`].
    pub hints: Hints,
    /// Whether an answer may quote, as such, what calls gave back and it says nothing of. Default true. Programs that take an answer for
    /// the model's own text leave it out.
    pub quotes: bool,
    /// What becomes of a conversation that is longer than the model's context. Default: the model is shown less of it.
    pub context_policy: ContextPolicy,
    /// Whether a run tells which hints steered it ([`Event::Steered`](crate::Event::Steered)). Default false: to know, each is left
    /// out once a turn.
    pub tells_steering: bool,
}

toolgate_chat::setters! { Options  {
    max_iterations: usize,
    choice: ToolChoice,
    parallel: Option<NonZeroUsize>,
    sampling: Sampling,
    budget: RunBudget,
    approval: Approval,
    constrain_arguments: bool,
    hints: Hints,
    quotes: bool,
    context_policy: ContextPolicy,
    tells_steering: bool,
} }

/// What a run may take before it has to come to its answer.
///
/// ```
/// use toolgate_agent::{Agent, Options, RunBudget, StopReason};
/// # use std::sync::Arc;
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
///
/// let budget = RunBudget::default().tokens(Some(1));
/// let agent = Agent::new(engine, tools, Options::default().budget(budget));
/// let outcome = agent.ask("How is the weather in Oslo?")?;
/// // A turn that has begun is finished: the first one was a call, and the next had to be the answer.
/// assert_eq!((outcome.calls.len(), outcome.answer.as_str()), (1, "It rains in Oslo."));
/// assert_eq!(outcome.stop_reason, StopReason::Budget);
/// # Ok::<(), toolgate_agent::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunBudget {
    /// Tokens written in all turns together; a turn alone is bounded by [`Sampling::max_tokens`].
    pub tokens: Option<usize>,
    /// Time, tools included. A turn or a call that has begun is not broken off: calls have limits of their own.
    pub time: Option<Duration>,
}

toolgate_chat::setters! { RunBudget  {
    tokens: Option<usize>,
    time: Option<Duration>,
} }

impl RunBudget {
    pub(crate) fn is_spent(&self, stats: &Stats, start: Instant) -> bool {
        self.tokens.is_some_and(|most| stats.written() >= most)
            || self.time.is_some_and(|most| start.elapsed() >= most)
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_iterations: 12,
            choice: ToolChoice::Auto,
            parallel: None,
            sampling: Sampling::default(),
            budget: RunBudget::default(),
            approval: Approval::default(),
            constrain_arguments: true,
            hints: Hints::auto(),
            quotes: true,
            context_policy: ContextPolicy::default(),
            tells_steering: false,
        }
    }
}
