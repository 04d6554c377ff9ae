//! A server that was started: its process in the sandbox, and requests to it from threads that may wait.
//!
//! Invariant: every request ends, by an answer, by its time limit or with the server.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig, ClientRequest,
    Implementation, JsonObject, PaginatedRequestParams, ServerResult, Tool,
};
use rmcp::service::{NotificationContext, PeerRequestOptions, RunningService, ServiceError};
use rmcp::{ClientHandler, RoleClient, ServiceExt as _};
use tokio::runtime::{Handle, Runtime};
use toolgate_sandbox::command::{Commands, Service};
use toolgate_sandbox::{Enforced, output};

use super::super::runtime;
use crate::Error;

/// How long a server may take to start, and to list its tools.
const START: Duration = Duration::from_secs(20);
/// Tools of a server at most.
pub(super) const MOST_TOOLS: usize = 256;
/// Pages of a list at most, so that a list without end is none.
const MOST_PAGES: usize = 64;
/// Bytes of what a server wrote to its standard error, in a message.
const SHOWN: usize = 400;

/// The threads that carry messages. They go at once, wherever the last of their connections is dropped.
pub(super) struct Threads(Option<Runtime>);

impl Threads {
    pub(super) fn new() -> Result<Arc<Self>, Error> {
        Ok(Arc::new(Self(Some(runtime()?))))
    }

    fn handle(&self) -> Result<&Handle, Error> {
        self.0.as_ref().map(Runtime::handle).ok_or_else(|| Error::input("the runtime has ended"))
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// A server that runs.
pub(super) struct Connection {
    session: Option<RunningService<RoleClient, Hears>>,
    process: Mutex<Option<Service>>,
    changed: Arc<AtomicBool>,
    enforced: Enforced,
    // After the session, whose messages it carries.
    threads: Arc<Threads>,
}

/// Hears what a server says of itself.
struct Hears {
    changed: Arc<AtomicBool>,
}

impl ClientHandler for Hears {
    fn get_info(&self) -> ClientConfig {
        let own = Implementation::new("toolgate", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), own)
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.store(true, Ordering::Relaxed);
    }
}

impl Connection {
    /// Starts a server by its command and greets it.
    ///
    /// # Errors
    /// Where the sandbox does not hold here, and what a server that does not answer wrote to its standard error.
    pub(super) fn start(
        commands: &Commands,
        command: &[String],
        threads: &Arc<Threads>,
    ) -> Result<Self, Error> {
        let enforced = commands.enforced()?;
        let mut service = commands.serve(command)?;
        // Its tools are listed once without being told to.
        let changed = Arc::new(AtomicBool::new(true));
        let hears = Hears { changed: changed.clone() };
        let handle = threads.handle()?;
        let greeted = match channel(&mut service, handle) {
            Ok(pipes) => handle.block_on(async {
                let greeting = tokio::time::timeout(START, hears.serve(pipes)).await;
                match greeting {
                    Ok(greeted) => greeted.map_err(|why| why.to_string()),
                    Err(_) => Err(format!("it does not answer within {} seconds", START.as_secs())),
                }
            }),
            Err(why) => Err(why.to_string()),
        };
        match greeted {
            Ok(session) => Ok(Self {
                session: Some(session),
                process: Mutex::new(Some(service)),
                changed,
                enforced,
                threads: threads.clone(),
            }),
            Err(why) => Err(match service.stop() {
                Err(refused) => refused.into(),
                Ok(ran) => Error::input(format!("{why}; {}", ending(&ran.content()))),
            }),
        }
    }

    /// What confines it.
    pub(super) fn enforced(&self) -> Enforced {
        self.enforced.clone()
    }

    /// Whether its list of tools may be another than when this was asked last.
    pub(super) fn take_changed(&self) -> bool {
        self.changed.swap(false, Ordering::Relaxed)
    }

    /// Its tools, as it tells them.
    pub(super) fn list(&self) -> Result<Vec<Tool>, Error> {
        let session = self.session()?;
        let pages = async {
            let mut tools = Vec::new();
            let mut cursor = None;
            for _ in 0..MOST_PAGES {
                let page = PaginatedRequestParams::default().with_cursor(cursor);
                let page = session.list_tools(Some(page)).await.map_err(|why| self.told(why))?;
                tools.extend(page.tools);
                cursor = page.next_cursor;
                if cursor.is_none() || tools.len() > MOST_TOOLS {
                    break;
                }
            }
            Ok(tools)
        };
        let listed = self.threads.handle()?.block_on(async { tokio::time::timeout(START, pages).await });
        listed.unwrap_or_else(|_| {
            Err(Error::input(format!("its tools were not listed within {} seconds", START.as_secs())))
        })
    }

    /// Calls a tool; the server is told when its time is over.
    pub(super) fn call(
        &self,
        name: &str,
        arguments: JsonObject,
        limit: Duration,
    ) -> Result<CallToolResult, Failure> {
        let failed = |error: Error| Failure::Ended(error.to_string());
        let session = self.session().map_err(failed)?;
        let params = CallToolRequestParams::new(name.to_owned()).with_arguments(arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let answered = self.threads.handle().map_err(failed)?.block_on(async {
            let asked = async {
                let options = PeerRequestOptions::with_timeout(limit);
                session.send_cancellable_request(request, options).await?.await_response().await
            };
            // A server that reads nothing does not even take the request.
            let patience = limit.saturating_add(Duration::from_secs(1));
            tokio::time::timeout(patience, asked)
                .await
                .unwrap_or(Err(ServiceError::Timeout { timeout: limit }))
        });
        match answered {
            Ok(ServerResult::CallToolResult(result)) => Ok(result),
            Ok(_) => Err(Failure::Refused("its answer is no result of a call".to_owned())),
            Err(ServiceError::McpError(error)) => Err(Failure::Refused(error.message.into_owned())),
            Err(ServiceError::Timeout { .. }) => Err(Failure::TimeLimit),
            Err(why) => Err(Failure::Ended(self.told(why).to_string())),
        }
    }

    fn session(&self) -> Result<&RunningService<RoleClient, Hears>, Error> {
        self.session.as_ref().ok_or_else(|| Error::input("the server has ended"))
    }

    /// Why a request failed; of a server that has ended, how.
    fn told(&self, why: ServiceError) -> Error {
        match why {
            ServiceError::TransportClosed | ServiceError::TransportSend(_) => {
                let process = self.process.lock().unwrap_or_else(PoisonError::into_inner).take();
                match process.map(Service::stop) {
                    Some(Ok(ran)) => {
                        Error::input(format!("the server has ended; {}", ending(&ran.content())))
                    }
                    Some(Err(why)) => why.into(),
                    None => Error::input("the server has ended"),
                }
            }
            why => Error::input(why.to_string()),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // The session goes first, and with it the pipes: a server whose input ends can end by itself.
        if let Some(session) = self.session.take() {
            session.cancellation_token().cancel();
        }
    }
}

/// Why a call has no result.
pub(super) enum Failure {
    /// The server said so.
    Refused(String),
    /// It took too long.
    TimeLimit,
    /// The server is not there any more.
    Ended(String),
}

/// The end of what a server wrote to its standard error, which tells why it ended.
fn ending(said: &[u8]) -> String {
    let from = said.len().saturating_sub(SHOWN);
    let shown = output::for_model(said.get(from..).unwrap_or_default(), 2 * SHOWN).text;
    format!("it last said: {}", shown.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[cfg(unix)]
type Channel = (tokio::net::unix::pipe::Receiver, tokio::net::unix::pipe::Sender);

/// A service's pipes, for messages.
#[cfg(unix)]
fn channel(service: &mut Service, handle: &Handle) -> Result<Channel, Error> {
    use tokio::net::unix::pipe::{Receiver, Sender};
    let (input, output) = service.take_pipes().ok_or_else(|| Error::input("the server has no pipes"))?;
    let _inside = handle.enter();
    // They stop to block here: the server's ends are its own.
    let receiver = Receiver::from_owned_fd(output.into());
    let made = receiver.and_then(|receiver| Ok((receiver, Sender::from_owned_fd(input.into())?)));
    made.map_err(|why| super::super::failed("cannot talk to the server", &why))
}

#[cfg(not(unix))]
fn channel(_: &mut Service, _: &Handle) -> Result<(tokio::io::Empty, tokio::io::Sink), Error> {
    Err(Error::input("servers cannot be started on this system"))
}
