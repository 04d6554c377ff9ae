//! What a front end sees of a run while it goes on; `run --json` prints these (SPEC §1).

use serde::Serialize;
use serde_json::{Map, Value};
use toolgate_infer::Stats;
use toolgate_sandbox::Enforced;

use toolgate_tools::Status;

/// One step of a run.
///
/// ```
/// use toolgate_agent::Event;
///
/// let event = Event::Decision { p_call: 0.75, threshold: 0.2, call: true };
/// let line = serde_json::to_string(&event)?;
/// assert_eq!(line, r#"{"event":"decision","p_call":0.75,"threshold":0.2,"call":true}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// The run begins.
    Started {
        /// The model's name.
        model: String,
        /// The tools offered, in order.
        tools: Vec<String>,
    },
    /// The model is ready.
    ModelLoaded {
        /// Milliseconds it took.
        ms: u64,
    },
    /// A prompt has been evaluated.
    Prefill {
        /// Its length in tokens.
        tokens: usize,
        /// How many of them were already evaluated.
        cached: usize,
    },
    /// A prompt is being evaluated; for progress bars, not printed as JSON.
    #[serde(skip)]
    PrefillProgress {
        /// Tokens evaluated so far.
        done: usize,
        /// The prompt's length in tokens.
        tokens: usize,
    },
    /// How a turn was decided.
    Decision {
        /// Probability that the model opens a call.
        p_call: f64,
        /// What it was held against.
        threshold: f64,
        /// Whether the turn is a call.
        call: bool,
    },
    /// A piece of the answer.
    Text {
        /// The new text.
        delta: String,
    },
    /// A piece of the model's reasoning.
    Reasoning {
        /// The new text.
        delta: String,
    },
    /// The model calls a tool.
    ToolCall {
        /// The call's id.
        id: String,
        /// The tool.
        name: String,
        /// Its arguments.
        arguments: Map<String, Value>,
    },
    /// A call has ended.
    ToolResult {
        /// The call's id.
        id: String,
        /// How it ended.
        status: Status,
        /// What the model sees.
        content: String,
        /// What confined it.
        enforced: Enforced,
        /// Milliseconds it took.
        ms: u64,
        /// What it found, as data ([`ToolResult::finding`](toolgate_tools::ToolResult::finding)).
        #[serde(skip)]
        found: Option<Value>,
        /// Lines at the end of the content that are the tool's own remarks.
        #[serde(skip)]
        notes: usize,
    },
    /// Calls were found in a turn that was not written in the form of the model's family.
    Recovered {
        /// The turn as the model wrote it.
        text: String,
    },
    /// A turn, or a value in a call, was taken back and is written again.
    Retry {
        /// Why.
        why: String,
    },
    /// A summary has taken the place of earlier messages ([`ContextPolicy::Summarize`](crate::ContextPolicy::Summarize)).
    Summarized {
        /// How many they were.
        messages: usize,
        /// The summary, as the model wrote it.
        summary: String,
    },
    /// Which hints steered the run: without one of them its advice, an answer or a call would have been another. Only of a run that is
    /// to tell it ([`Options::tells_steering`](crate::Options::tells_steering)), before its end.
    Steered {
        /// Their names.
        hints: Vec<String>,
    },
    /// The run has ended.
    Final(Final),
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StopReason {
    /// The model gave its answer.
    Final,
    /// The last iteration was reached; its turn had to be an answer.
    MaxIterations,
    /// The model kept making the same call.
    Loop,
    /// The token budget was reached.
    Budget,
    /// The caller cancelled.
    Cancelled,
    /// The engine could not go on.
    Error,
}

impl StopReason {
    /// The word used in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Final => "final",
            Self::MaxIterations => "max_iterations",
            Self::Loop => "loop",
            Self::Budget => "budget",
            Self::Cancelled => "cancelled",
            Self::Error => "error",
        }
    }
}

/// A call as the record of a run keeps it.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct CallRecord {
    /// The call's id.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its arguments.
    pub arguments: Map<String, Value>,
    /// How it ended.
    pub status: Status,
}

/// What came of a run.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Final {
    /// The answer; empty if the run ended without one.
    pub answer: String,
    /// Why it ended.
    pub stop_reason: StopReason,
    /// How many turns the model had.
    pub iterations: usize,
    /// Every call, in order.
    pub calls: Vec<CallRecord>,
    /// Counts and times.
    pub stats: Stats,
}
