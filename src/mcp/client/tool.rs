//! A server's tool as one of ours.

use std::sync::Arc;
use std::time::Duration;

use toolgate_chat::ToolSpec;
use toolgate_sandbox::command::Limits;
use toolgate_sandbox::output;
use toolgate_sandbox::policy::Policy;

use super::connection::{Connection, Failure};
use super::result;
use crate::engine::Cancel;
use crate::tools::{Args, Effect, Status, Tool, ToolResult};

/// What a call may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) time: Duration,
    /// Bytes of a result that a model is shown.
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
    spec: ToolSpec,
    /// The server's name in the policy.
    server: String,
    /// What the server calls it.
    own: String,
    effect: Effect,
    asks: bool,
    connection: Arc<Connection>,
    bounds: Bounds,
}

impl ServerTool {
    pub(super) fn new(
        spec: ToolSpec,
        server: &str,
        own: &str,
        effect: Effect,
        asks: bool,
        connection: Arc<Connection>,
        bounds: Bounds,
    ) -> Self {
        Self { spec, server: server.to_owned(), own: own.to_owned(), effect, asks, connection, bounds }
    }
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
        format!("MCP server {}, tool {}", self.server, self.own)
    }

    fn defies_undo(&self) -> bool {
        self.effect != Effect::Reads
    }

    fn call(&self, args: &Args) -> ToolResult {
        self.call_until(args, &Cancel::default())
    }

    fn call_until(&self, args: &Args, cancel: &Cancel) -> ToolResult {
        let called = self.connection.call(&self.own, args.as_map().clone(), self.bounds.time, cancel);
        let mut result = match called {
            Ok(told) => result::of(told, self.bounds.bytes),
            Err(Failure::Refused(why)) => {
                ToolResult::failed(output::for_model(why.as_bytes(), self.bounds.bytes).text)
            }
            Err(Failure::TimeLimit) => {
                let seconds = self.bounds.time.as_secs_f64();
                ToolResult::new(Status::Limit, format!("stopped: it took longer than {seconds} seconds"))
            }
            Err(Failure::Cancelled) => ToolResult::new(Status::Limit, "stopped: the run was cancelled"),
            Err(Failure::Ended(why)) => ToolResult::failed(why),
        };
        result.enforced = self.connection.enforced();
        result
    }
}
