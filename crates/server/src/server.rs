//! The server itself: its options, a socket, a thread with its runtime, and the end of both.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::sync::watch;

use super::admission::Admission;
use super::engine::Questions;
use super::http;
use super::metrics::Metrics;
use super::prefill::Prefills;
use super::responses::Store;
use crate::{Error, Kind};
use toolgate_agent::keys::{self, Key};
use toolgate_agent::{self as agent, Hints};
use toolgate_engine::Engine;
use toolgate_engine::stages::Pool;
use toolgate_tools::Registry;

/// The address of the server, its key and its bounds.
///
/// ```
/// use std::sync::Arc;
/// use toolgate_agent::Kind;
/// use toolgate_server::{Options, Server};
/// # use toolgate_engine::{self as engine, LocalEngine};
/// # use toolgate_infer::{Vocabulary, scripted::Scripted};
/// # let call = "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>";
/// # let model = Scripted::new(Arc::new(Vocabulary::bytes_only()))
/// #     .on("rain in Oslo", "It rains in Oslo.")
/// #     .on("weather", call);
/// # let engine = LocalEngine::scripted(model, engine::Options::default())?;
///
/// let address = ([127, 0, 0, 1], 0).into();
/// let options = Options::default().address(address).key(Some("secret".into()));
/// let server = Server::start(Arc::new(engine), None, options)?;
/// // A server that other machines reach has a key, or does not listen at all.
/// # let model = Scripted::new(Arc::new(Vocabulary::bytes_only()));
/// # let other = Arc::new(LocalEngine::scripted(model, engine::Options::default())?);
/// let open = Options::default().address(([0, 0, 0, 0], 0).into());
/// assert_eq!(open.check().map_err(|error| error.kind()), Err(Kind::Denied));
/// assert_eq!(Server::start(other, None, open).map(|_| ()).map_err(|error| error.kind()), Err(Kind::Denied));
///
/// let models = format!("http://{}/v1/models", server.address());
/// assert!(matches!(ureq::get(&models).call(), Err(ureq::Error::StatusCode(401))));
/// assert_eq!(ureq::get(&models).header("Authorization", "Bearer secret").call()?.status(), 200);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The address that it listens on. Port 0 takes a free one. Default 127.0.0.1:8080.
    pub address: SocketAddr,
    /// The key that clients have to send, as a bearer token or `x-api-key`. Default none.
    pub key: Option<String>,
    /// Names that the model answers to beside its own. Default none.
    pub aliases: Vec<String>,
    /// Turns made at the same time. Default 1. More wait for each other if the engine makes one at a time
    /// (see [`engine::Options::at_once`](toolgate_engine::Options::at_once)).
    pub at_once: u16,
    /// Requests that may wait beside them. Further ones are refused with 429. Default 32. Each holds its body
    /// in memory.
    pub waiting: u16,
    /// How long a turn may take. Its wait does not count. If its answer is streamed, the evaluation of its
    /// prompt does not count either. Default 10 minutes.
    pub turn_time: Duration,
    /// How long a stream's response may wait for the beginning of its turn. Default 60 seconds. Clients give
    /// up on a server that is silent for some minutes.
    pub quiet_time: Duration,
    /// The time between two notes of how far a long prompt has come, in the log and as a comment in its
    /// stream. Default 5 seconds.
    pub progress_time: Duration,
    /// How long a client may take to send a request's head, and its body. Default 30 seconds each.
    pub read_time: Duration,
    /// The most bytes of a body. Default 8 MiB.
    pub body: usize,
    /// The tokens of a turn whose request names no bound. Default 4,096, in which a file that a call writes
    /// fits.
    pub max_tokens: usize,
    /// The rules that may steer by the words of a request. Default [`Hints::auto`].
    pub hints: Hints,
}

toolgate_chat::setters! { Options  {
    address: SocketAddr,
    key: Option<String>,
    aliases: Vec<String>,
    at_once: u16,
    waiting: u16,
    turn_time: Duration,
    quiet_time: Duration,
    progress_time: Duration,
    read_time: Duration,
    body: usize,
    max_tokens: usize,
    hints: Hints,
} }

impl Options {
    /// Whether the server may listen so. A program can ask before it loads its engine.
    ///
    /// # Errors
    /// [`Kind::Denied`] for an address that other machines reach, without a key; [`Kind::Input`] for an empty key.
    pub fn check(&self) -> Result<(), Error> {
        keys::check(self.address, self.key.as_deref())
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            address: SocketAddr::from(([127, 0, 0, 1], 8080)),
            key: None,
            aliases: Vec::new(),
            at_once: 1,
            waiting: 32,
            turn_time: Duration::from_secs(600),
            quiet_time: Duration::from_secs(60),
            progress_time: Duration::from_secs(5),
            read_time: Duration::from_secs(30),
            body: 8 << 20,
            max_tokens: 4096,
            hints: Hints::auto(),
        }
    }
}

/// Tools of the server's own. It runs them in a loop to the final answer of each request.
///
/// ```
/// use std::sync::Arc;
/// use toolgate_agent as agent;
/// use toolgate_server::{Execute, Options, Server, Workbench};
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
/// # let options = Options::default().address(([127, 0, 0, 1], 0).into());
///
/// let bench = Workbench::new(tools).telling(|task| eprintln!("a run for: {task}"));
/// let execute = Execute::new(vec![bench]).options(agent::Options::default().max_iterations(4));
/// let server = Server::start(engine, Some(execute), options)?;
/// let body = r#"{"model": "scripted", "messages": [{"role": "user", "content": "How is the weather in Oslo?"}]}"#;
/// let mut answer = ureq::post(format!("http://{}/v1/chat/completions", server.address()))
///     .header("Content-Type", "application/json")
///     .send(body)?;
/// let answer: serde_json::Value = serde_json::from_str(&answer.body_mut().read_to_string()?)?;
/// assert_eq!(answer["choices"][0]["message"]["content"], "It rains in Oslo.");
/// assert_eq!(answer["choices"][0]["toolgate"]["calls"][0]["name"], "get_weather");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[non_exhaustive]
pub struct Execute {
    /// The benches of runs. Each has one run at a time. If [`Options::at_once`] is more than their number,
    /// runs wait.
    pub benches: Vec<Workbench>,
    /// The options of a run. The request's own sampling and choice of tools come first.
    pub options: agent::Options,
}

toolgate_chat::setters! { Execute  {
    benches: Vec<Workbench>,
    options: agent::Options,
} }

impl Execute {
    /// Runs at these benches, with an agent's default options.
    pub fn new(benches: Vec<Workbench>) -> Self {
        Self { benches, options: agent::Options::default() }
    }
}

/// The tools of a run. They belong to it alone, and so does their state, such as the journal of its changes.
#[non_exhaustive]
pub struct Workbench {
    /// The tools.
    pub tools: Arc<Registry>,
    /// A function that is told of each run's task before the run begins.
    pub began: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Workbench {
    /// A bench with these tools. Nobody is told of its runs.
    pub fn new(tools: Registry) -> Self {
        Self { tools: Arc::new(tools), began: Arc::new(|_| {}) }
    }

    /// The same. `began` is told of each run's task before the run begins.
    #[must_use]
    pub fn telling(self, began: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { began: Arc::new(began), ..self }
    }
}

/// Runs of the server's own tools.
pub(super) struct Executing {
    pub(super) benches: Pool<Workbench>,
    pub(super) options: agent::Options,
}

impl TryFrom<Execute> for Executing {
    type Error = Error;

    fn try_from(Execute { benches, options }: Execute) -> Result<Self, Error> {
        let mut benches = benches.into_iter();
        let nothing = || Error::input("a server that runs tools of its own needs a workbench to run them at");
        let first = benches.next().ok_or_else(nothing)?;
        Ok(Self { benches: Pool::new(first, benches), options })
    }
}

/// The state that all requests share.
pub(super) struct Shared {
    pub(super) engine: Arc<dyn Engine>,
    pub(super) execute: Option<Executing>,
    pub(super) options: Options,
    /// Whether the model has a profile, which leads it.
    pub(super) is_led: bool,
    pub(super) key: Option<Key>,
    pub(super) gate: Admission,
    pub(super) questions: Questions,
    /// The responses that are kept.
    pub(super) responses: Arc<Store>,
    pub(super) metrics: Arc<Metrics>,
    /// The prompts being evaluated, and their speed.
    pub(super) prefills: Arc<Prefills>,
    /// When the server started, in seconds since 1970.
    pub(super) started: u64,
}

impl Shared {
    fn new(engine: Arc<dyn Engine>, execute: Option<Executing>, mut options: Options) -> Self {
        let metrics = Arc::new(Metrics::default());
        let facts = engine.facts();
        options.hints = options.hints.suited(&facts);
        Self {
            is_led: facts.profile.is_some(),
            engine,
            execute,
            key: options.key.as_deref().map(Key::new),
            questions: Questions::default(),
            responses: Arc::default(),
            gate: Admission::new(options.at_once, options.waiting, metrics.clone()),
            metrics,
            prefills: Arc::default(),
            started: now(),
            options,
        }
    }
}

/// The server's routes, for an [`axum`] program of one's own, inside its tokio runtime.
///
/// A router does not know the address that the program listens on. So it always takes a key, and ignores
/// [`Options::address`]. It sees neither connections nor the program's end. So [`Options::read_time`] bounds
/// bodies alone. The program bounds the time of heads, provides TLS, and waits for turns that are being made.
///
/// # Errors
/// [`Kind::Denied`] without a key. [`Kind::Input`] for an empty key, and for tools without a workbench.
///
/// ```
/// use std::sync::Arc;
/// use toolgate_agent::Kind;
/// use toolgate_server::{self as server, router};
/// # use toolgate_engine::{self as engine, LocalEngine};
/// # use toolgate_infer::{Vocabulary, scripted::Scripted};
/// # let model = Scripted::new(Arc::new(Vocabulary::bytes_only()));
/// # let engine = Arc::new(LocalEngine::scripted(model, engine::Options::default())?);
///
/// let open = router(engine.clone(), None, server::Options::default());
/// assert_eq!(open.map(|_| ()).map_err(|error| error.kind()), Err(Kind::Denied));
/// let models = router(engine, None, server::Options::default().key(Some("secret".into())))?;
/// let app = axum::Router::new().nest("/models", models);
/// # drop(app);
/// # Ok::<(), toolgate_agent::Error>(())
/// ```
pub fn router(engine: Arc<dyn Engine>, execute: Option<Execute>, options: Options) -> Result<Router, Error> {
    let execute = execute.map(Executing::try_from).transpose()?;
    match options.key.as_deref() {
        None => {
            let why = "a router does not see who can reach it, so it takes a key: set the key of its options";
            return Err(Error::new(Kind::Denied, why));
        }
        key => keys::check(options.address, key)?,
    }
    Ok(http::router(Arc::new(Shared::new(engine, execute, options))))
}

/// A server that runs until it is stopped.
pub struct Server {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    thread: JoinHandle<()>,
}

/// Stops a server from anywhere, such as a signal's handler.
#[derive(Clone)]
pub struct Stopper(watch::Sender<bool>);

impl Stopper {
    /// Stops the server. It takes no more requests, refuses those that wait, and finishes the turns being
    /// made.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Server {
    /// Starts to listen.
    ///
    /// # Errors
    /// The errors of [`Options::check`]. [`Kind::Input`] for an address that cannot be listened on, and for
    /// tools without a workbench.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use toolgate_server::{Options, Server};
    /// # use toolgate_engine::{self as engine, LocalEngine};
    /// # use toolgate_infer::{Vocabulary, scripted::Scripted};
    /// # let call = "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>";
    /// # let model = Scripted::new(Arc::new(Vocabulary::bytes_only()))
    /// #     .on("rain in Oslo", "It rains in Oslo.")
    /// #     .on("weather", call);
    /// # let engine = LocalEngine::scripted(model, engine::Options::default())?;
    ///
    /// let options = Options::default().address(([127, 0, 0, 1], 0).into());
    /// let server = Server::start(Arc::new(engine), None, options)?;
    /// let mut health = ureq::get(format!("http://{}/health", server.address())).call()?;
    /// assert!(health.body_mut().read_to_string()?.contains("ok"));
    /// // A stopper may be called from anywhere, such as a signal's handler.
    /// server.stopper().stop();
    /// server.wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn start(engine: Arc<dyn Engine>, execute: Option<Execute>, options: Options) -> Result<Self, Error> {
        let execute = execute.map(Executing::try_from).transpose()?;
        let wanted = options.address;
        options.check()?;
        let cannot = |why: std::io::Error| {
            Error::input(format!("cannot listen on {wanted}: {why}; choose another --host or --port"))
        };
        let listener = TcpListener::bind(wanted).map_err(cannot)?;
        listener.set_nonblocking(true).map_err(cannot)?;
        let address = listener.local_addr().map_err(cannot)?;
        let shared = Arc::new(Shared::new(engine, execute, options));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|why| Error::new(Kind::Engine, format!("cannot start the server's runtime: {why}")))?;
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(listener).map_err(cannot)?
        };
        let (stop, stopped) = watch::channel(false);
        let thread = std::thread::spawn(move || {
            runtime.block_on(serve(listener, shared, stopped));
            // Every turn has ended, or is past its time. Nothing waits for the rest.
            runtime.shutdown_background();
        });
        Ok(Self { address, stop, thread })
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A value that stops it.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.stop.clone())
    }

    /// Waits until somebody has stopped it and its turns are finished.
    ///
    /// # Errors
    /// [`Kind::Engine`] if the server's thread ended in a panic.
    pub fn wait(self) -> Result<(), Error> {
        self.thread.join().map_err(|_| Error::new(Kind::Engine, "the server stopped unexpectedly"))
    }
}

/// Seconds since 1970.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// How long a client may take to read its answer, after everything else has ended.
const LINGER: Duration = Duration::from_secs(5);

/// Takes connections until it is stopped. Then it waits for the turns, and for a while for clients that read
/// their answers.
async fn serve(listener: tokio::net::TcpListener, shared: Arc<Shared>, mut stopped: watch::Receiver<bool>) {
    let router = http::router(shared.clone());
    let connections = GracefulShutdown::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => connect(stream, &router, &shared, &connections),
                Err(why) => {
                    // Most likely there are no file descriptors left. Other connections will close some.
                    tracing::warn!(error.type = "accept", "cannot take a connection: {why}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
            // It ends, too, if nobody is left who could stop it.
            _ = stopped.wait_for(|stopped| *stopped) => break,
        }
    }
    drop(listener);
    shared.gate.close();
    shared.gate.idle().await;
    let _ = tokio::time::timeout(LINGER, connections.shutdown()).await;
}

fn connect(stream: tokio::net::TcpStream, router: &Router, shared: &Shared, connections: &GracefulShutdown) {
    // Pieces of a stream are small, and clients want them at once.
    let _ = stream.set_nodelay(true);
    let service = TowerToHyperService::new(router.clone());
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(shared.options.read_time)
        .serve_connection(TokioIo::new(stream), service);
    let connection = connections.watch(connection);
    tokio::spawn(async move {
        // A client that breaks off is no fault of ours.
        if let Err(why) = connection.await {
            tracing::debug!("a connection ended: {why}");
        }
    });
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use toolgate_engine::{self as engine, LocalEngine};
    use toolgate_infer::{Vocabulary, scripted::Scripted};

    use super::*;

    fn scripted() -> Arc<dyn Engine> {
        let model = Scripted::new(Arc::new(Vocabulary::bytes_only())).on("weather", "It rains.");
        Arc::new(LocalEngine::scripted(model, engine::Options::guided()).unwrap())
    }

    #[test]
    fn a_router_takes_a_key_and_asks_for_it_where_it_is_mounted() {
        for key in [None, Some(String::new())] {
            assert!(router(scripted(), None, Options::default().key(key)).is_err());
        }
        let routes = router(scripted(), None, Options::default().key(Some("secret".into()))).unwrap();
        let app = Router::new().nest("/models", routes);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let url = format!("http://{}/models/v1/chat/completions", listener.local_addr().unwrap());
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let served = std::thread::spawn(move || {
            let until = async { drop(stopped.await) };
            runtime.block_on(axum::serve(listener, app).with_graceful_shutdown(until).into_future()).unwrap();
        });
        let body =
            r#"{"model": "scripted", "messages": [{"role": "user", "content": "How is the weather?"}]}"#;
        let ask =
            || ureq::post(&url).header("Content-Type", "application/json").header("Connection", "close");
        assert!(matches!(ask().send(body), Err(ureq::Error::StatusCode(401))));
        let mut answer = ask().header("Authorization", "Bearer secret").send(body).unwrap();
        assert!(answer.body_mut().read_to_string().unwrap().contains("It rains."));
        drop(stop);
        served.join().unwrap();
    }
}
