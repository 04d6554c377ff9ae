//! The tools of a registry, and `ask`, as an MCP server. What carries the messages is [`serve`](super::serve)'s business.
//!
//! Invariant: whoever is told that the list of tools has changed finds what it has become in the next list.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ErrorData, Implementation, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, SubscriptionFilter, Tool,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{RoleServer, ServerHandler};
use tokio::sync::watch;
use toolgate_chat::ToolCall;
use toolgate_sandbox::policy::Mode;

use super::ask::{ASK, Ask, AskTool};
use super::given_up::GivenUp;
use super::told;
use crate::Error;
use crate::engine::Cancel;
use crate::tools::{Effect, Registry, Told, ToolResult, Unasked};

/// The shortest time between two words to a client about the list of tools: a server of ours that changes its list without
/// end costs our clients no more than this.
const PAUSE: Duration = Duration::from_millis(200);
/// How often a session of which nothing is heard is looked at, and how long a client may take to hear a word.
const LOOK: Duration = Duration::from_secs(10);

/// An MCP server. Cheap to clone: each session of streamable HTTP has its own.
#[derive(Clone)]
pub struct Server(Arc<Inner>);

struct Inner {
    registry: Registry,
    unasked: Unasked,
    ask: Option<AskTool>,
    /// Changes once the tools may have become others. What is seen of it, each session keeps in a receiver of its own.
    news: watch::Receiver<()>,
}

impl Server {
    /// The tools of `registry`; clients are told when those of its sources become others.
    pub fn new(registry: Registry, unasked: Unasked) -> Self {
        let (tell, news) = watch::channel(());
        let told: Arc<Told> = Arc::new(move || {
            tell.send_replace(());
        });
        registry.watch(&told);
        Self(Arc::new(Inner { registry, unasked, ask: None, news }))
    }

    /// Adds the tool `ask`, whose runs have at most `mode`. A tool of the registry that has its name is not offered.
    ///
    /// # Errors
    /// None that input could cause; the definition is checked like any other.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use toolgate::mcp::{Ask, Server, Unasked};
    /// use toolgate::tools::Registry;
    /// use toolgate_chat::{Message, Transcript};
    /// use toolgate_sandbox::policy::Mode;
    /// # use toolgate::agent::{Agent, Options};
    /// # use toolgate::engine::{self, LocalEngine};
    /// # use toolgate_infer::{Vocabulary, scripted::Scripted};
    /// # let call = "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>";
    /// # let model = Scripted::new(Arc::new(Vocabulary::bytes_only()))
    /// #     .on("rain in Oslo", "It rains in Oslo.")
    /// #     .on("weather", call);
    /// # let engine = Arc::new(LocalEngine::scripted(model, engine::Options::default())?);
    /// # let agent = Agent::new(engine, Registry::new(), Options::default());
    ///
    /// let ask: Arc<Ask> = Arc::new(move |asking, cancel, events| {
    ///     let mut transcript = Transcript::new().with(Message::User(asking.task.clone()));
    ///     agent.run(&mut transcript, cancel, events)
    /// });
    /// let server = Server::new(Registry::new(), Unasked::Deny).with_ask(Mode::Intel, ask.clone())?;
    /// // It is added before sessions share the server.
    /// let session = server.clone();
    /// assert!(server.with_ask(Mode::Intel, ask).is_err());
    /// # drop(session);
    /// # Ok::<(), toolgate::Error>(())
    /// ```
    pub fn with_ask(self, mode: Mode, ask: Arc<Ask>) -> Result<Self, Error> {
        let ask = Some(AskTool::new(mode, ask)?);
        let inner = Arc::try_unwrap(self.0).map_err(|_| Error::input("the server is in use already"))?;
        Ok(Self(Arc::new(Inner { ask, ..inner })))
    }
}

impl Inner {
    /// What is new from here on.
    fn news(&self) -> watch::Receiver<()> {
        let mut news = self.news.clone();
        news.mark_unchanged();
        news
    }

    fn tools(&self) -> Vec<Tool> {
        let ask = self.ask.iter().map(|ask| {
            let effect = if ask.writes() { Effect::Changes } else { Effect::Reads };
            told::tool(&ask.spec, effect)
        });
        let own = self.registry.specs().into_iter().filter(|spec| !self.is_ask(spec.name.as_str()));
        let own = own.map(|spec| {
            let effect = self.registry.effect(spec.name.as_str()).unwrap_or_default();
            told::tool(&spec, effect)
        });
        own.chain(ask).collect()
    }

    fn is_ask(&self, name: &str) -> bool {
        name == ASK && self.ask.is_some()
    }

    /// Runs a call of the registry, until it is cancelled where it can be.
    fn call(&self, call: &ToolCall, cancel: &Cancel) -> Result<ToolResult, ErrorData> {
        if self.registry.effect(&call.name).is_none() {
            let known = self.registry.names().join(", ");
            let message = format!("there is no tool \"{}\"; the tools are: {known}", call.name);
            return Err(ErrorData::invalid_params(message, None));
        }
        Ok(self.registry.call_unasked(call, self.unasked, cancel))
    }
}

/// Does what may wait, for a file or for the server that a tool belongs to, beside the threads that carry messages.
async fn beside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ErrorData> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| ErrorData::internal_error("a tool stopped unexpectedly", None))
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let tools = ServerCapabilities::builder().enable_tools();
        let capabilities = match self.0.registry.may_change() {
            true => tools.enable_tool_list_changed().build(),
            false => tools.build(),
        };
        let mut info = ServerConfig::new(capabilities);
        info.server_info = Implementation::new("toolgate", env!("CARGO_PKG_VERSION"));
        info.instructions = Some(
            "Tools over one workspace, under a policy: what it does not grant is denied with a reason. \
             Paths are relative to the workspace."
                .to_owned(),
        );
        info
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        if !self.0.registry.may_change() {
            return;
        }
        let (peer, mut news) = (context.peer, self.0.news());
        tokio::spawn(async move {
            while !peer.is_transport_closed() {
                match tokio::time::timeout(LOOK, news.changed()).await {
                    // A client that does not hear this word lists its tools when it likes to.
                    Ok(Ok(())) => drop(tokio::time::timeout(LOOK, peer.notify_tool_list_changed()).await),
                    Ok(Err(_)) => break,
                    Err(_) => continue,
                }
                tokio::time::sleep(PAUSE).await;
            }
        });
    }

    // From protocol 2026-07-28 on clients ask to be told, and are told in the answer to that.
    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut news = self.0.news();
        let telling = async {
            while news.changed().await.is_ok() && context.sink().notify_tool_list_changed().await.is_ok() {
                tokio::time::sleep(PAUSE).await;
            }
            // Whoever wants no word about tools, or cannot be told, waits for nothing.
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = telling => {}
            () = context.cancelled() => {}
        }
        Ok(())
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
        let given_up = GivenUp::of(context.ct);
        let cancel = given_up.cancel();
        let result = beside(move || inner.call(&call, &cancel)).await??;
        Ok(told::result(result).into())
    }
}
