//! The tool `ask`: the whole agent behind one call.
//!
//! Invariant: a run never has more than the server's own mode allows, and ends when its caller cancels the call or goes. Over
//! HTTP that is so from protocol 2026-07-28 on: before, a caller who went may come back for the answer, so the run goes on.

use std::sync::Arc;

use rmcp::RoleServer;
use rmcp::model::{CallToolResult, ProgressNotificationParam};
use rmcp::service::RequestContext;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::mpsc;
use toolgate_chat::{ToolCall, ToolSpec};
use toolgate_sandbox::policy::Mode;

use super::given_up::GivenUp;
use super::wire;
use crate::{Error, Kind};
use toolgate_agent::{Event, Final};
use toolgate_engine::{Cancel, Reasoning};
use toolgate_tools::{Check, ToolResult};

/// The name of the tool.
pub(super) const ASK: &str = "ask";

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Asking {
    /// The task, in words.
    pub task: String,
    /// What its tools may do; at most what the server was made for.
    pub mode: Mode,
    /// How much the model thinks, where the call says so.
    pub reasoning: Reasoning,
}

/// Does a task: told the events as they come, cancelled by the flag. The first task loads the model.
pub type Ask = dyn Fn(&Asking, &Cancel, &mut dyn FnMut(Event)) -> Result<Final, Error> + Send + Sync;

#[derive(Deserialize, JsonSchema)]
struct Arguments {
    /// What is to be found out or done, in words.
    task: String,
    /// intel: nothing is written. edit: files may be written, where the server allows it.
    mode: Option<ModeName>,
    /// How much the model thinks before it speaks: auto, off, on, or the most tokens of thought.
    reasoning: Option<String>,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum ModeName {
    Intel,
    Edit,
}

/// The tool.
pub(super) struct AskTool {
    pub(super) spec: ToolSpec,
    check: Check,
    /// The most that a run may have.
    mode: Mode,
    ask: Arc<Ask>,
}

impl AskTool {
    pub(super) fn new(mode: Mode, ask: Arc<Ask>) -> Result<Self, Error> {
        let description =
            "Give a task about the workspace to an agent with its own tools, and get its answer.";
        let spec = ToolSpec::of::<Arguments>(ASK, description)?;
        let check = Check::new(&spec.parameters).map_err(Error::input)?;
        Ok(Self { spec, check, mode, ask })
    }

    /// Whether its runs may change something.
    pub(super) fn writes(&self) -> bool {
        self.mode == Mode::Edit
    }

    /// What a call asks for, or the result that says why it cannot be done.
    fn asking(&self, call: &ToolCall) -> Result<Asking, Box<ToolResult>> {
        let given = Value::Object(call.arguments.clone());
        let violations: Vec<String> = self.check.violations(&given).iter().map(ToString::to_string).collect();
        let misfit = |why: String| {
            Box::new(ToolResult::failed(format!("the arguments of {ASK} do not fit its schema: {why}")))
        };
        if !violations.is_empty() {
            return Err(misfit(violations.join("; ")));
        }
        let Arguments { task, mode, reasoning } =
            serde_json::from_value(given).map_err(|why| misfit(why.to_string()))?;
        let mode = match (mode, self.mode) {
            (Some(ModeName::Edit), Mode::Intel) => {
                let why =
                    "this server is in intel mode, in which nothing is written; start it with --mode edit";
                return Err(Box::new(ToolResult::denied(why)));
            }
            (Some(ModeName::Intel), _) => Mode::Intel,
            (Some(ModeName::Edit) | None, own) => own,
        };
        if task.trim().is_empty() {
            let why = "the task is empty; say what is to be found out or done";
            return Err(Box::new(ToolResult::failed(why)));
        }
        let reasoning = reasoning.as_deref().unwrap_or("auto").parse();
        let reasoning =
            reasoning.map_err(|why: toolgate_engine::Error| Box::new(ToolResult::failed(why.to_string())))?;
        Ok(Asking { task, mode, reasoning })
    }

    /// Runs a call, with a progress notification for each event where the caller wants them.
    pub(super) async fn call(&self, call: &ToolCall, context: RequestContext<RoleServer>) -> CallToolResult {
        let asking = match self.asking(call) {
            Ok(asking) => asking,
            Err(refused) => return wire::result(*refused),
        };
        let given_up = GivenUp::of(context.ct.clone());
        let (send, mut events) = mpsc::unbounded_channel();
        let (ask, cancel) = (self.ask.clone(), given_up.cancel());
        let run = tokio::task::spawn_blocking(move || {
            ask(&asking, &cancel, &mut |event| {
                // The receiver goes with the call.
                let _ = send.send(event);
            })
        });
        let token = context.meta.get_progress_token();
        let mut count = 0_u32;
        while let Some(event) = events.recv().await {
            let (Some(token), Some(line)) = (&token, wire::event(&event)) else { continue };
            count += 1;
            let progress = ProgressNotificationParam::new(token.clone(), f64::from(count)).with_message(line);
            // A caller that has gone is noticed by its token.
            let _ = context.peer.notify_progress(progress).await;
        }
        match run.await {
            Ok(Ok(outcome)) => wire::outcome(&outcome),
            Ok(Err(error)) => wire::result(refusal(&error)),
            Err(_) => wire::result(ToolResult::failed("the run stopped unexpectedly; it may be tried again")),
        }
    }
}

fn refusal(error: &Error) -> ToolResult {
    match error.kind() {
        Kind::Denied => ToolResult::denied(error.to_string()),
        _ => ToolResult::failed(error.to_string()),
    }
}
