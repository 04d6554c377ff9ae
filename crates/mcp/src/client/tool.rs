//! A server's tool as one of ours.

use std::sync::Arc;
use std::time::Duration;

use toolgate_chat::ToolSpec;
use toolgate_sandbox::command::Limits;
use toolgate_sandbox::output;
use toolgate_sandbox::policy::Policy;

use super::connection::{Connection, Failure};
use super::result;
use toolgate_engine::Cancel;
use toolgate_tools::{Args, Effect, Status, Tool, ToolResult};

/// Bounds of a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) time: Duration,
    /// The most bytes of a result that a model sees.
    pub(super) bytes: usize,
}

impl Bounds {
    pub(super) fn of(policy: &Policy) -> Self {
        let limits = Limits::from(&policy.limits);
        Self {
            time: Duration::from_millis(limits.wall_ms),
            bytes: usize::try_from(limits.output_kb.saturating_mul(1024)).unwrap_or(usize::MAX),
        }
    }
}

/// A tool of a server.
pub(super) struct ServerTool {
    pub(super) spec: ToolSpec,
    /// The server's name in the policy.
    pub(super) server: String,
    /// The server's own name for the tool.
    pub(super) own: String,
    /// The server's grants beyond those of commands.
    pub(super) powers: Vec<String>,
    pub(super) effect: Effect,
    pub(super) asks: bool,
    pub(super) connection: Arc<Connection>,
    pub(super) bounds: Bounds,
}

impl Tool for ServerTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn effect(&self) -> Effect {
        self.effect
    }

    fn needs_approval(&self) -> bool {
        self.asks
    }

    fn origin(&self) -> String {
        let tool = format!("MCP server {}, tool {}", self.server, self.own);
        match self.powers.as_slice() {
            [] => tool,
            powers => format!("{tool} (the server {})", powers.join("; ")),
        }
    }

    fn defies_undo(&self) -> bool {
        self.effect != Effect::Reads
    }

    fn call(&self, args: &Args) -> ToolResult {
        self.call_until(args, &Cancel::default())
    }

    fn call_until(&self, args: &Args, cancel: &Cancel) -> ToolResult {
        let called = self.connection.call(&self.own, args.as_map().clone(), self.bounds.time, cancel);
        let secrets = self.connection.secrets();
        let mut result = match called {
            Ok(told) => result::of(told, secrets, self.bounds.bytes),
            Err(Failure::Refused(why)) => {
                ToolResult::failed(output::for_model(secrets.hide(why).as_bytes(), self.bounds.bytes).text)
            }
            Err(Failure::TimeLimit) => {
                let seconds = self.bounds.time.as_secs_f64();
                ToolResult::new(Status::Limit, format!("stopped: it took longer than {seconds} seconds"))
            }
            Err(Failure::Cancelled) => ToolResult::new(Status::Limit, "stopped: the run was cancelled"),
            Err(Failure::Ended(why)) => ToolResult::failed(why),
        };
        // What it says of its own may be anything: that it was kept from a host explains it.
        for unreached in self.connection.unreached() {
            result.note(format!("[no connection: {}]", output::name(&unreached)));
        }
        result.enforced = self.connection.enforced();
        result
    }
}
