//! A connection to a server: the server's process in the sandbox, if it runs here, and requests from threads that may wait.
//!
//! Invariant: every request ends: by an answer, by its time limit, or with the server.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, CancelledNotificationParam, ClientCapabilities,
    ClientConfig, ClientRequest, Implementation, JsonObject, PaginatedRequestParams, ServerResult, Tool,
};
use rmcp::service::{
    ClientInitializeError, NotificationContext, PeerRequestOptions, RunningService, ServiceError,
};
use rmcp::transport::IntoTransport;
use rmcp::{ClientHandler, RoleClient, ServiceExt as _};
use tokio::runtime::{Handle, Runtime};
use toolgate_sandbox::command::{Commands, Service};
use toolgate_sandbox::{Enforced, output};

use super::super::runtime;
use super::address::Address;
#[cfg(unix)]
use super::execution::Lines;
use super::http;
use super::key::Key;
use super::secrets::Secrets;
use crate::Error;
use toolgate_engine::Cancel;
use toolgate_tools::Told;

/// The longest time for a server to start, and to list its tools.
const START: Duration = Duration::from_secs(20);
/// The time before a list that failed is asked for again.
const AGAIN: Duration = Duration::from_secs(30);
/// The most tools of a server.
pub(super) const MOST_TOOLS: usize = 256;
/// The most pages of a list. It ends a list without end.
const MOST_PAGES: usize = 64;
/// The longest time for the goodbye to a server that runs elsewhere.
const GOODBYE: Duration = Duration::from_secs(1);
/// The most bytes of a server's words or its standard error in a message.
const SHOWN: usize = 400;

/// The threads that carry messages. They end at once when the last of their connections is dropped, in any thread.
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

/// A running server.
pub(super) struct Connection {
    session: Option<RunningService<RoleClient, Hears>>,
    place: Place,
    list: Arc<List>,
    enforced: Enforced,
    secrets: Secrets,
    // Declared after the session, whose messages it carries.
    threads: Arc<Threads>,
}

/// The place of a server.
enum Place {
    /// In the sandbox, until it has ended.
    Here(Mutex<Option<Service>>),
    /// Wherever its address leads.
    Elsewhere,
}

/// The state of a server's list of tools.
struct List {
    /// From when on it is to be asked for; none where it is known.
    due: Mutex<Option<Instant>>,
    /// Who is told when it becomes another.
    told: Mutex<Vec<Arc<Told>>>,
}

impl List {
    /// One that nobody has asked for.
    fn new() -> Arc<Self> {
        Arc::new(Self { due: Mutex::new(Some(Instant::now())), told: Mutex::default() })
    }

    fn due(&self) -> MutexGuard<'_, Option<Instant>> {
        self.due.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self) {
        *self.due() = Some(Instant::now());
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner).clone();
        told.iter().for_each(|told| told());
    }
}

/// Receives a server's notifications.
struct Hears {
    list: Arc<List>,
}

impl ClientHandler for Hears {
    fn get_info(&self) -> ClientConfig {
        let own = Implementation::new("toolgate", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), own)
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.list.change();
    }
}

impl Connection {
    /// Starts a server by its command and greets it.
    ///
    /// # Errors
    /// Where the sandbox does not hold here, and where the server does not answer. Then the error has the server's standard
    /// error.
    pub(super) fn start(
        commands: &Commands,
        command: &[String],
        secrets: Secrets,
        threads: &Arc<Threads>,
    ) -> Result<Self, Error> {
        let enforced = commands.enforced()?;
        let mut service = commands.serve(command)?;
        let list = List::new();
        let greeted = channel(&mut service, threads.handle()?)
            .map_err(|why| why.to_string())
            .and_then(|pipes| greet(pipes, &list, &secrets, threads));
        match greeted {
            Ok(session) => {
                let place = Place::Here(Mutex::new(Some(service)));
                Ok(Self { session: Some(session), place, list, enforced, secrets, threads: threads.clone() })
            }
            Err(why) => Err(match service.stop() {
                Err(refused) => refused.into(),
                Ok(ran) => Error::input(format!("{why}; {}", ending(&ran.content(), &secrets))),
            }),
        }
    }

    /// Connects to a server that runs elsewhere and greets it. Its answers to calls take at most `limit`.
    ///
    /// # Errors
    /// Where the server cannot be reached, or does not speak the protocol.
    pub(super) fn connect(
        address: Address,
        key: Option<Key>,
        limit: Duration,
        threads: &Arc<Threads>,
    ) -> Result<Self, Error> {
        let enforced = Enforced::elsewhere(address.origin());
        let list = List::new();
        // The time limit of a call is watched here too, and there the server is told of it.
        let patience = limit.max(START).saturating_add(Duration::from_secs(2));
        let transport = {
            let _inside = threads.handle()?.enter();
            http::transport(address, key, patience)
        };
        let secrets = Secrets::default();
        let session = greet(transport, &list, &secrets, threads).map_err(Error::input)?;
        let (session, place) = (Some(session), Place::Elsewhere);
        Ok(Self { session, place, list, enforced, secrets, threads: threads.clone() })
    }

    /// Whether nothing here confines it.
    pub(super) fn is_elsewhere(&self) -> bool {
        matches!(self.place, Place::Elsewhere)
    }

    /// What confines it.
    pub(super) fn enforced(&self) -> Enforced {
        self.enforced.clone()
    }

    /// What it was given that nobody else is to see.
    pub(super) fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// What it was kept from reaching since this was asked last: host, port and why.
    pub(super) fn unreached(&self) -> Vec<String> {
        let Place::Here(process) = &self.place else { return Vec::new() };
        let process = process.lock().unwrap_or_else(PoisonError::into_inner);
        process.as_ref().map(Service::unreached).unwrap_or_default()
    }

    /// Whether its list of tools may be another than when this was asked last.
    pub(super) fn take_changed(&self) -> bool {
        self.list.due().take_if(|due| *due <= Instant::now()).is_some()
    }

    /// Has its list of tools asked for again after a while: it could not be had.
    pub(super) fn ask_again(&self) {
        self.list.due().get_or_insert_with(|| Instant::now() + AGAIN);
    }

    /// Whether there is nobody to ask any more.
    pub(super) fn has_ended(&self) -> bool {
        self.session.as_ref().is_none_or(|session| session.is_transport_closed())
    }

    /// Has `told` told when its list of tools becomes another.
    pub(super) fn watch(&self, told: Arc<Told>) {
        self.list.told.lock().unwrap_or_else(PoisonError::into_inner).push(told);
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

    /// Calls a tool. When its time is over or it is cancelled, the server gets a notification.
    pub(super) fn call(
        &self,
        name: &str,
        arguments: JsonObject,
        limit: Duration,
        cancel: &Cancel,
    ) -> Result<CallToolResult, Failure> {
        let failed = |error: Error| Failure::Ended(error.to_string());
        let session = self.session().map_err(failed)?;
        let params = CallToolRequestParams::new(name.to_owned()).with_arguments(arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let answered = self.threads.handle().map_err(failed)?.block_on(async {
            let asked = async {
                let options = PeerRequestOptions::with_timeout(limit);
                let asked = session.send_cancellable_request(request, options).await?;
                let (peer, request) = (asked.peer.clone(), asked.id.clone());
                tokio::select! {
                    answered = asked.await_response() => answered,
                    () = cancel.cancelled() => {
                        let reason = Some("the run was cancelled".to_owned());
                        let params = CancelledNotificationParam::new(Some(request), reason.clone());
                        // A server that cannot be told goes on, and nobody waits for it.
                        let _ = peer.notify_cancelled(params).await;
                        Err(ServiceError::Cancelled { reason })
                    }
                }
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
            Err(ServiceError::Cancelled { .. }) => Err(Failure::Cancelled),
            Err(why) => Err(Failure::Ended(self.told(why).to_string())),
        }
    }

    fn session(&self) -> Result<&RunningService<RoleClient, Hears>, Error> {
        self.session.as_ref().ok_or_else(|| Error::input("the server has ended"))
    }

    /// The reason of a failed request. If the server has ended, how it ended.
    fn told(&self, why: ServiceError) -> Error {
        match (why, &self.place) {
            (ServiceError::TransportSend(why), Place::Elsewhere) => {
                Error::input(shown(http::reason(&why), &self.secrets))
            }
            (ServiceError::TransportClosed, Place::Elsewhere) => {
                Error::input("the server broke off before it answered")
            }
            (ServiceError::TransportClosed | ServiceError::TransportSend(_), Place::Here(process)) => {
                let process = process.lock().unwrap_or_else(PoisonError::into_inner).take();
                match process.map(Service::stop) {
                    Some(Ok(ran)) => {
                        let how = ending(&ran.content(), &self.secrets);
                        Error::input(format!("the server has ended; {how}"))
                    }
                    Some(Err(why)) => why.into(),
                    None => Error::input("the server has ended"),
                }
            }
            (why, _) => Error::input(shown(why.to_string(), &self.secrets)),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let Some(mut session) = self.session.take() else { return };
        // The session goes first, and with it the pipes: a server whose input ends can end by itself.
        session.cancellation_token().cancel();
        if let (Place::Elsewhere, Ok(handle)) = (&self.place, self.threads.handle()) {
            // One that runs elsewhere keeps a session until it is told; whoever drops this may be a thread of a runtime,
            // which must not wait for one.
            let handle = handle.clone();
            let goodbye = move || handle.block_on(session.close_with_timeout(GOODBYE)).is_ok();
            if let Ok(thread) = std::thread::Builder::new().name("toolgate-mcp".to_owned()).spawn(goodbye) {
                let _ = thread.join();
            }
        }
    }
}

/// Greets a server. The error says why there is no session.
fn greet<T, E, A>(
    carrier: T,
    list: &Arc<List>,
    secrets: &Secrets,
    threads: &Threads,
) -> Result<RunningService<RoleClient, Hears>, String>
where
    T: IntoTransport<RoleClient, E, A>,
    E: std::error::Error + Send + Sync + 'static,
{
    let handle = threads.handle().map_err(|why| why.to_string())?;
    let hears = Hears { list: list.clone() };
    let greeting = async { tokio::time::timeout(START, hears.serve(carrier)).await };
    match handle.block_on(greeting) {
        Ok(Ok(session)) => Ok(session),
        Ok(Err(ClientInitializeError::TransportError { error, .. })) => {
            Err(shown(http::reason(&error), secrets))
        }
        Ok(Err(why)) => Err(shown(why.to_string(), secrets)),
        Err(_) => Err(format!("it does not answer within {} seconds", START.as_secs())),
    }
}

/// The reason that a call has no result.
pub(super) enum Failure {
    /// The server reported an error.
    Refused(String),
    /// The time limit was over.
    TimeLimit,
    /// The caller cancelled it.
    Cancelled,
    /// The server has ended.
    Ended(String),
}

/// The end of what a server wrote to its standard error, which tells why it ended. What is secret is hidden before anything is
/// cut: of a value that the cut goes through a part would be left.
fn ending(said: &[u8], secrets: &Secrets) -> String {
    let said = secrets.hide(String::from_utf8_lossy(said).into_owned()).into_bytes();
    let from = said.len().saturating_sub(SHOWN);
    format!("it last said: {}", safe(said.get(from..).unwrap_or_default()))
}

/// The beginning of a message that may hold what a server said.
fn shown(message: String, secrets: &Secrets) -> String {
    let message = secrets.hide(message).into_bytes();
    safe(message.get(..SHOWN).unwrap_or(&message))
}

/// A server's words, on one line.
fn safe(said: &[u8]) -> String {
    let shown = output::for_model(said, 2 * SHOWN).text;
    shown.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(unix)]
type Channel = (Lines<tokio::net::unix::pipe::Receiver>, tokio::net::unix::pipe::Sender);

/// A service's pipes, for messages.
#[cfg(unix)]
fn channel(service: &mut Service, handle: &Handle) -> Result<Channel, Error> {
    use tokio::net::unix::pipe::{Receiver, Sender};
    let (input, output) = service.take_pipes().ok_or_else(|| Error::input("the server has no pipes"))?;
    let _inside = handle.enter();
    // Non-blocking on this side only: the server has its own ends.
    let receiver = Receiver::from_owned_fd(output.into());
    let made = receiver.and_then(|receiver| Ok((Lines::new(receiver), Sender::from_owned_fd(input.into())?)));
    made.map_err(|why| super::super::failed("cannot talk to the server", &why))
}

#[cfg(not(unix))]
fn channel(_: &mut Service, _: &Handle) -> Result<(tokio::io::Empty, tokio::io::Sink), Error> {
    Err(Error::input("servers cannot be started on this system"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_hidden_before_what_is_said_is_cut_and_put_on_one_line() {
        let secrets = Secrets::for_tests(&[("KEY", "sk-1234567890"), ("LINES", "first line\nsecond line")]);
        for place in (SHOWN - 12)..=SHOWN {
            let said = format!("{}sk-1234567890", "x".repeat(place));
            assert!(!shown(said, &secrets).contains("sk"), "{place}");
            let said = format!("sk-1234567890{}", "x".repeat(place));
            let told = ending(said.as_bytes(), &secrets);
            assert!(!told.contains('0') && !told.contains('8'), "{told}");
        }
        let lines = "bad: first line\nsecond line";
        assert_eq!(shown(lines.to_owned(), &secrets), "bad: [LINES]");
        assert_eq!(ending(lines.as_bytes(), &secrets), "it last said: bad: [LINES]");
    }
}
