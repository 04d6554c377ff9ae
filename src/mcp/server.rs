//! The tools of a registry, and `ask`, as an MCP server. What carries the messages is [`serve`](super::serve)'s business.

use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ErrorData, Implementation, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use toolgate_chat::ToolCall;
use toolgate_sandbox::policy::Mode;

use super::ask::{ASK, Ask, AskTool};
use super::told;
use crate::Error;
use crate::tools::{Effect, Registry, ToolResult};

/// What becomes of calls that somebody would have to be asked about: over the protocol nobody can be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unasked {
    /// They are denied, with the reason.
    #[default]
    Deny,
    /// They are let through.
    Allow,
}

/// An MCP server. Cheap to clone: each session of streamable HTTP has its own.
#[derive(Clone)]
pub struct Server(Arc<Inner>);

struct Inner {
    registry: Registry,
    unasked: Unasked,
    ask: Option<AskTool>,
}

impl Server {
    /// The tools of `registry`.
    pub fn new(registry: Registry, unasked: Unasked) -> Self {
        Self(Arc::new(Inner { registry, unasked, ask: None }))
    }

    /// Adds the tool `ask`, whose runs have at most `mode`. A tool of the registry that has its name is not offered.
    ///
    /// # Errors
    /// None that input could cause; the definition is checked like any other.
    pub fn with_ask(self, mode: Mode, ask: Arc<Ask>) -> Result<Self, Error> {
        let ask = Some(AskTool::new(mode, ask)?);
        let inner = Arc::try_unwrap(self.0).map_err(|_| Error::input("the server is in use already"))?;
        Ok(Self(Arc::new(Inner { ask, ..inner })))
    }
}

impl Inner {
    fn tools(&self) -> Vec<Tool> {
        let ask = self.ask.iter().map(|ask| {
            let effect = if ask.writes() { Effect::Writes } else { Effect::Reads };
            told::tool(&ask.spec, effect)
        });
        let own = self.registry.specs().into_iter().filter(|spec| !self.is_ask(spec.name.as_str()));
        let own = own.map(|spec| {
            let effect = self.registry.effect(spec.name.as_str()).unwrap_or(Effect::Writes);
            told::tool(&spec, effect)
        });
        own.chain(ask).collect()
    }

    fn is_ask(&self, name: &str) -> bool {
        name == ASK && self.ask.is_some()
    }

    /// Runs a call of the registry.
    fn call(&self, call: &ToolCall) -> Result<ToolResult, ErrorData> {
        if self.registry.effect(&call.name).is_none() {
            let known = self.registry.names().join(", ");
            let message = format!("there is no tool \"{}\"; the tools are: {known}", call.name);
            return Err(ErrorData::invalid_params(message, None));
        }
        if self.unasked == Unasked::Deny && self.registry.needs_approval(call) {
            return Ok(ToolResult::denied(format!(
                "the policy has a person asked before this {} call, and nobody can be asked over MCP; \
                 start the server with --approve auto to let such calls through",
                call.name
            )));
        }
        Ok(self.registry.call(call))
    }
}

/// Does what may wait, for a file or for the server that a tool belongs to, beside the threads that carry messages.
async fn beside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ErrorData> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| ErrorData::internal_error("a tool stopped unexpectedly", None))
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let mut info = ServerConfig::new(ServerCapabilities::builder().enable_tools().build());
        info.server_info = Implementation::new("toolgate", env!("CARGO_PKG_VERSION"));
        info.instructions = Some(
            "Tools over one workspace, under a policy: what it does not grant is denied with a reason. \
             Paths are relative to the workspace."
                .to_owned(),
        );
        info
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let inner = self.0.clone();
        // Tools of servers may be listed anew.
        let tools = beside(move || inner.tools()).await?;
        Ok(ListToolsResult { tools, ..ListToolsResult::default() })
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let call = ToolCall::new(request.name.into_owned(), request.arguments.unwrap_or_default());
        if let Some(ask) = self.0.ask.as_ref().filter(|_| self.0.is_ask(&call.name)) {
            return Ok(ask.call(&call, context).await.into());
        }
        let inner = self.0.clone();
        let result = beside(move || inner.call(&call)).await??;
        Ok(told::result(result).into())
    }
}
