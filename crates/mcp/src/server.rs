//! An MCP server: the tools of a registry, `ask`, and the embedder's additions. [`serve`](super::serve) has the transports.
//!
//! Invariant: after a notification that the list of tools has changed, the next list is the new one. The server declares only
//! what it has.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CompleteRequestMethod, CompleteRequestParams, CompleteResult,
    ConstString, ErrorData, GetPromptRequestMethod, GetPromptRequestParams, GetPromptResponse,
    Implementation, JsonObject, ListPromptsRequestMethod, ListPromptsResult,
    ListResourceTemplatesRequestMethod, ListResourceTemplatesResult, ListResourcesRequestMethod,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, PromptsCapability,
    ReadResourceRequestMethod, ReadResourceRequestParams, ReadResourceResponse, ResourcesCapability,
    ServerCapabilities, ServerConfig, SubscribeRequestMethod, SubscribeRequestParams, SubscriptionFilter,
    Tool, UnsubscribeRequestMethod, UnsubscribeRequestParams,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{RoleServer, ServerHandler};
use tokio::sync::watch;
use toolgate_chat::ToolCall;
use toolgate_sandbox::policy::Mode;

use super::ask::{ASK, Ask, AskTool};
use super::given_up::GivenUp;
use super::prompts::{self, Completions, Prompts};
use super::resources::{self, Resources};
use super::subscriptions::{self, Changes, Subscriptions};
use super::wire;
use crate::Error;
use toolgate_engine::Cancel;
use toolgate_tools::{Effect, Registry, Told, ToolResult, Unasked};

/// The shortest time between two notifications about the list of tools. A server of ours that changes its list without end
/// costs our clients no more than this.
const PAUSE: Duration = Duration::from_millis(200);
/// The time between two looks at a silent session, and the longest time for a client to take a notification.
pub(super) const LOOK: Duration = Duration::from_secs(10);

/// An MCP server. A clone is cheap: each session of streamable HTTP has its own.
#[derive(Clone)]
pub struct Server {
    inner: Arc<Inner>,
    /// The resources that this session watches.
    subscriptions: Subscriptions,
}

struct Inner {
    registry: Registry,
    unasked: Unasked,
    ask: Option<AskTool>,
    resources: Option<Arc<dyn Resources>>,
    /// Their changes, where they report them.
    changes: Option<Changes>,
    prompts: Option<Arc<dyn Prompts>>,
    completions: Option<Arc<dyn Completions>>,
    /// Changes when the list of tools may have changed. Each session has its own receiver.
    news: watch::Receiver<()>,
}

impl Server {
    /// A server with the tools of `registry`. Clients get a notification when the tools of its sources change.
    pub fn new(registry: Registry, unasked: Unasked) -> Self {
        let (tell, news) = watch::channel(());
        let told: Arc<Told> = Arc::new(move || {
            tell.send_replace(());
        });
        registry.watch(&told);
        let inner = Inner {
            registry,
            unasked,
            ask: None,
            resources: None,
            changes: None,
            prompts: None,
            completions: None,
            news,
        };
        Self { inner: Arc::new(inner), subscriptions: Subscriptions::default() }
    }

    /// Adds the tool `ask`. Its runs have at most `mode`. A tool of the registry with that name is not offered.
    ///
    /// # Errors
    /// For a server that sessions share already.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use toolgate_mcp::{Ask, Server, Unasked};
    /// use toolgate_tools::Registry;
    /// use toolgate_chat::{Message, Transcript};
    /// use toolgate_sandbox::policy::Mode;
    /// # use toolgate_agent::{self as agent, Agent};
    /// # use toolgate_engine::{self as engine, LocalEngine};
    /// # use toolgate_infer::{Vocabulary, scripted::Scripted};
    /// # let call = "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>";
    /// # let model = Scripted::new(Arc::new(Vocabulary::bytes_only()))
    /// #     .on("rain in Oslo", "It rains in Oslo.")
    /// #     .on("weather", call);
    /// # let engine = Arc::new(LocalEngine::scripted(model, engine::Options::default())?);
    /// # let agent = Agent::new(engine, Registry::new(), agent::Options::default());
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
    /// # Ok::<(), toolgate_agent::Error>(())
    /// ```
    pub fn with_ask(self, mode: Mode, ask: Arc<Ask>) -> Result<Self, Error> {
        let ask = Some(AskTool::new(mode, ask)?);
        self.with(|inner| inner.ask = ask)
    }

    /// Adds resources that clients may read. [`Resources`] has an example.
    ///
    /// # Errors
    /// For a server that sessions share already.
    pub fn with_resources(self, resources: Arc<dyn Resources>) -> Result<Self, Error> {
        let changes = subscriptions::changes(resources.as_ref());
        self.with(|inner| (inner.resources, inner.changes) = (Some(resources), changes))
    }

    /// Adds prompts. [`Prompts`] has an example.
    ///
    /// # Errors
    /// For a server that sessions share already.
    pub fn with_prompts(self, prompts: Arc<dyn Prompts>) -> Result<Self, Error> {
        self.with(|inner| inner.prompts = Some(prompts))
    }

    /// Adds completions for arguments of prompts and URIs of resources. [`Completions`] has an example.
    ///
    /// # Errors
    /// For a server that sessions share already.
    pub fn with_completions(self, completions: Arc<dyn Completions>) -> Result<Self, Error> {
        self.with(|inner| inner.completions = Some(completions))
    }

    /// The same server, changed before sessions share it.
    fn with(mut self, change: impl FnOnce(&mut Inner)) -> Result<Self, Error> {
        let inner = Arc::get_mut(&mut self.inner);
        change(inner.ok_or_else(|| Error::input("the server is in use already"))?);
        Ok(self)
    }
}

impl Inner {
    /// What is new from here on.
    fn news(&self) -> watch::Receiver<()> {
        let mut news = self.news.clone();
        news.mark_unchanged();
        news
    }

    /// What there is.
    fn capabilities(&self) -> ServerCapabilities {
        let mut declared = ServerCapabilities::builder().enable_tools().build();
        if let (Some(tools), true) = (&mut declared.tools, self.registry.may_change()) {
            tools.list_changed = Some(true);
        }
        declared.resources = self.resources.as_ref().map(|_| {
            let mut resources = ResourcesCapability::default();
            resources.subscribe = self.changes.as_ref().map(|_| true);
            resources
        });
        declared.prompts = self.prompts.as_ref().map(|_| PromptsCapability::default());
        declared.completions = self.completions.as_ref().map(|_| JsonObject::new());
        declared
    }

    fn tools(&self) -> Vec<Tool> {
        let ask = self.ask.iter().map(|ask| {
            let effect = if ask.writes() { Effect::Changes } else { Effect::Reads };
            wire::tool(&ask.spec, effect)
        });
        let own = self.registry.specs().into_iter().filter(|spec| !self.is_ask(spec.name.as_str()));
        let own = own.map(|spec| {
            let effect = self.registry.effect(spec.name.as_str()).unwrap_or_default();
            wire::tool(&spec, effect)
        });
        own.chain(ask).collect()
    }

    fn is_ask(&self, name: &str) -> bool {
        name == ASK && self.ask.is_some()
    }

    /// Runs a call of the registry. A call that can be cancelled ends when the caller gives it up.
    async fn call(&self, call: &ToolCall, cancel: &Cancel) -> Result<ToolResult, ErrorData> {
        if self.registry.effect(&call.name).is_none() {
            let known = self.registry.names().join(", ");
            let message = format!("there is no tool \"{}\"; the tools are: {known}", call.name);
            return Err(ErrorData::invalid_params(message, None));
        }
        Ok(self.registry.call_async(call, self.unasked, cancel).await)
    }
}

/// Runs work that may wait for a file or for a tool's server, beside the threads that carry messages.
async fn beside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ErrorData> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| ErrorData::internal_error("what was asked for stopped unexpectedly", None))
}

/// Asks `of` beside the threads that carry messages. Without `of` the method `M` is unknown.
async fn asked<M: ConstString, P, T, A>(
    of: Option<&Arc<P>>,
    params: A,
    ask: impl FnOnce(&P, A) -> Result<T, ErrorData> + Send + 'static,
) -> Result<T, ErrorData>
where
    P: ?Sized + Send + Sync + 'static,
    T: Send + 'static,
    A: Send + 'static,
{
    let of = of.cloned().ok_or_else(ErrorData::method_not_found::<M>)?;
    beside(move || ask(&of, params)).await?
}

fn cursor(page: Option<PaginatedRequestParams>) -> Option<String> {
    page.and_then(|page| page.cursor)
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let mut info = ServerConfig::new(self.inner.capabilities());
        info.server_info = Implementation::new("toolgate", env!("CARGO_PKG_VERSION"));
        info.instructions = Some(
            "Tools over one workspace, under a policy: what it does not grant is denied with a reason. \
             Paths are relative to the workspace."
                .to_owned(),
        );
        info
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        if !self.inner.registry.may_change() {
            return;
        }
        let (peer, mut news) = (context.peer, self.inner.news());
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

    // From protocol 2026-07-28 on, clients subscribe, and get notifications in the answer to that request.
    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut news = self.inner.news();
        let telling = async {
            while news.changed().await.is_ok() && context.sink().notify_tool_list_changed().await.is_ok() {
                tokio::time::sleep(PAUSE).await;
            }
            // Whoever wants no word about tools, or cannot be told, waits for nothing.
            std::future::pending::<()>().await;
        };
        let wanted = context.accepted().resource_subscriptions.clone().unwrap_or_default();
        let changes = self.inner.changes.as_ref().map(Changes::subscribe);
        tokio::select! {
            () = telling => {}
            () = subscriptions::listen(&wanted, changes, context.sink()) => {}
            () = context.cancelled() => {}
        }
        Ok(())
    }

    // Until protocol 2026-07-28.
    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let changes = self.inner.changes.as_ref();
        let changes = changes.ok_or_else(ErrorData::method_not_found::<SubscribeRequestMethod>)?;
        self.subscriptions.add(request.uri, changes, context.peer)
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if self.inner.changes.is_none() {
            return Err(ErrorData::method_not_found::<UnsubscribeRequestMethod>());
        }
        self.subscriptions.remove(&request.uri);
        Ok(())
    }

    async fn list_resources(
        &self,
        page: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let resources = self.inner.resources.as_ref();
        asked::<ListResourcesRequestMethod, _, _, _>(resources, cursor(page), |of, cursor| {
            resources::list(of, cursor.as_deref())
        })
        .await
    }

    async fn list_resource_templates(
        &self,
        page: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let resources = self.inner.resources.as_ref();
        asked::<ListResourceTemplatesRequestMethod, _, _, _>(resources, cursor(page), |of, cursor| {
            resources::templates(of, cursor.as_deref())
        })
        .await
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let resources = self.inner.resources.as_ref();
        let read = asked::<ReadResourceRequestMethod, _, _, _>(resources, request.uri, |of, uri| {
            resources::read(of, &uri)
        });
        read.await.map(Into::into)
    }

    async fn list_prompts(
        &self,
        page: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let prompts = self.inner.prompts.as_ref();
        asked::<ListPromptsRequestMethod, _, _, _>(prompts, cursor(page), |of, cursor| {
            prompts::list(of, cursor.as_deref())
        })
        .await
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let prompts = self.inner.prompts.as_ref();
        asked::<GetPromptRequestMethod, _, _, _>(prompts, request, prompts::get).await.map(Into::into)
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let completions = self.inner.completions.as_ref();
        asked::<CompleteRequestMethod, _, _, _>(completions, request, prompts::complete).await
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let inner = self.inner.clone();
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
        if let Some(ask) = self.inner.ask.as_ref().filter(|_| self.inner.is_ask(&call.name)) {
            return Ok(ask.call(&call, context).await.into());
        }
        let inner = self.inner.clone();
        let given_up = GivenUp::of(context.ct);
        let cancel = given_up.cancel();
        // A tool that awaits finds this runtime in its thread. One that does not holds nothing but that thread.
        let result = beside(move || pollster::block_on(inner.call(&call, &cancel))).await??;
        Ok(wire::result(result).into())
    }
}
