//! The transports of a server: standard input and output, or streamable HTTP.
//!
//! Invariant: a caller on another machine needs a key. A page in a browser reaches the server only if it comes from this
//! machine itself.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use rmcp::ServiceExt as _;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::server::Server;
use super::{failed, runtime};
use crate::Error;
use toolgate_agent::keys::{self, Key, bearer};
use toolgate_engine::Cancel;

/// The life of a silent session. It is longer than a run of `ask` may be silent: the client of such a run looks like one that
/// has gone.
const SESSION: Duration = Duration::from_secs(60 * 60);

/// The origins of pages that this machine itself serves, such as an inspector's. A name that only leads here is none of them.
const HERE: [&str; 3] = ["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"];

/// The address of a server, and its key.
///
/// ```
/// use toolgate_agent::Kind;
/// use toolgate_engine::Cancel;
/// use toolgate_mcp::{HttpOptions, Server, Unasked, serve_http};
/// use toolgate_tools::Registry;
///
/// // Without a key, a server does not listen at an address that other machines reach.
/// let options = HttpOptions::new(([0, 0, 0, 0], 0).into());
/// let server = Server::new(Registry::new(), Unasked::Deny);
/// let served = serve_http(server, &options, &Cancel::default(), |_| {});
/// assert_eq!(served.map_err(|error| error.kind()), Err(Kind::Denied));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HttpOptions {
    /// The address; port 0 takes a free one.
    pub address: SocketAddr,
    /// The bearer token that requests must bring. Required for an address that other machines reach.
    pub key: Option<String>,
}

toolgate_chat::setters! { HttpOptions  {
    address: SocketAddr,
    key: Option<String>,
} }

impl HttpOptions {
    /// At that address, without a key.
    pub fn new(address: SocketAddr) -> Self {
        Self { address, key: None }
    }
}

/// Serves over standard input and output until the input ends.
///
/// # Errors
/// [`Kind::Input`](crate::Kind::Input) where the other side does not speak the protocol.
pub fn serve_stdio(server: Server) -> Result<(), Error> {
    let runtime = runtime()?;
    let served = runtime.block_on(async {
        let pipes = (tokio::io::stdin(), tokio::io::stdout());
        match server.serve(pipes).await {
            Ok(running) => running.waiting().await.map(drop).map_err(|why| Error::input(why.to_string())),
            // Whoever closes the input before a word wants nothing.
            Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => Ok(()),
            Err(why) => Err(Error::input(format!("the client does not speak MCP: {why}"))),
        }
    });
    // The runtime would wait for a thread that waits for input.
    runtime.shutdown_background();
    served
}

/// Serves streamable HTTP at `/mcp` until `cancel` is set. `ready` gets the address.
///
/// # Errors
/// [`Kind::Input`](crate::Kind::Input) for an address that the server cannot listen at, and for an empty key.
/// [`Kind::Denied`](crate::Kind::Denied) for an address that other machines reach, without a key.
///
/// ```
/// use std::sync::mpsc;
/// use toolgate_engine::Cancel;
/// use toolgate_mcp::{HttpOptions, Server, Unasked, serve_http};
/// use toolgate_tools::Registry;
///
/// let options = HttpOptions::new(([127, 0, 0, 1], 0).into()).key(Some("secret".into()));
/// let server = Server::new(Registry::new(), Unasked::Deny);
/// let (cancel, (send, told)) = (Cancel::default(), mpsc::channel());
/// serve_http(server, &options, &cancel, |address| {
///     let cancel = cancel.clone();
///     std::thread::spawn(move || {
///         let answer = ureq::get(format!("http://{address}/mcp")).call();
///         let _ = send.send(matches!(answer, Err(ureq::Error::StatusCode(401))));
///         cancel.cancel();
///     });
/// })?;
/// assert!(told.recv()?, "nobody is answered without the key");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn serve_http(
    server: Server,
    options: &HttpOptions,
    cancel: &Cancel,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), Error> {
    keys::check(options.address, options.key.as_deref())?;
    let runtime = runtime()?;
    let served = runtime.block_on(async {
        let place = |why| failed(&format!("cannot listen at {}", options.address), &why);
        let listener = TcpListener::bind(options.address).await.map_err(place)?;
        let address = listener.local_addr().map_err(place)?;
        let stop = CancellationToken::new();
        let router = router(server, options, &stop);
        ready(address);
        let stops = stop.clone();
        let _wakes = cancel.on_cancel(move || stops.cancel());
        let served = axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned());
        served.await.map_err(|why| failed("the server stopped", &why))
    });
    runtime.shutdown_background();
    served
}

fn router(server: Server, options: &HttpOptions, stop: &CancellationToken) -> Router {
    let config = StreamableHttpServerConfig::default()
        .with_cancellation_token(stop.clone())
        // Programs other than browsers send no origin.
        .enforce_origin_validation();
    let config = match options.address.ip().is_loopback() {
        true => config.with_allowed_origins(HERE),
        // The key decides who may ask. The names of this machine are not known here.
        false => config.disable_allowed_hosts(),
    };
    let mut sessions = LocalSessionManager::default();
    sessions.session_config.keep_alive = Some(SESSION);
    let service = StreamableHttpService::new(move || Ok(server.clone()), Arc::new(sessions), config);
    let key = options.key.as_deref().map(Key::new);
    let guard = move |request: Request, next: Next| {
        let admitted =
            key.is_none_or(|key| authorization(request.headers()).is_some_and(|given| key.is(given)));
        async move { if admitted { next.run(request).await } else { refused() } }
    };
    Router::new().nest_service("/mcp", service).layer(middleware::from_fn(guard))
}

/// The bearer token of a request.
fn authorization(headers: &HeaderMap) -> Option<&str> {
    bearer(headers.get(header::AUTHORIZATION)?.to_str().ok()?)
}

fn refused() -> Response {
    let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
    (StatusCode::UNAUTHORIZED, challenge, "a bearer token is needed\n").into_response()
}
