//! Requests to the server: JSON out, JSON or a stream of events back. Each has a thread of its own, so a silent server never
//! delays a cancelled turn.
//!
//! Invariants: a request is sent again only while no byte of an answer has come. The connection of a request that is given up
//! closes at once, so the server knows that nobody waits.

use std::io::{BufRead, BufReader, Read};
use std::ops::ControlFlow;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::answers;
use super::fields::Fields;
use crate::{Error, Kind};
use toolgate_engine::stages::lock;
use toolgate_engine::{Cancel, OnCancel};

/// The longest time to connect.
const CONNECT: Duration = Duration::from_secs(10);
/// The longest time to the begin of an answer. A small machine takes long for a prompt.
const ANSWER: Duration = Duration::from_secs(600);
/// The longest silence within an answer.
const STALL: Duration = Duration::from_secs(120);
/// The waits before a request that did not reach the server is sent again.
const BACKOFF: [Duration; 3] =
    [Duration::from_millis(200), Duration::from_millis(800), Duration::from_millis(2_400)];
/// The most connections that are kept for later requests.
const MOST_IDLE: usize = 16;
/// The most bytes of an event, or of a whole answer. A model's turn is far shorter.
const MOST: u64 = 16 * 1024 * 1024;

/// What takes the events of a stream.
pub(super) type Each<'a> = dyn FnMut(&Value) -> Result<ControlFlow<()>, Error> + 'a;

/// A server.
pub(super) struct Client {
    idle: Arc<Idle>,
    /// The server's address, without the version of its interface.
    root: String,
    /// The address of the OpenAI interface.
    api: String,
    key: Option<String>,
    fields: Fields,
}

/// Who makes requests, each by itself: ureq closes all connections of one together. They keep theirs from one request to the
/// next.
#[derive(Default)]
struct Idle(Mutex<Vec<ureq::Agent>>);

impl Idle {
    /// One that is idle, or a new one.
    fn take(&self) -> ureq::Agent {
        let idle = lock(&self.0).pop();
        idle.unwrap_or_else(|| {
            ureq::Agent::config_builder()
                .timeout_resolve(Some(CONNECT))
                .timeout_connect(Some(CONNECT))
                .timeout_recv_response(Some(ANSWER))
                .timeout_per_read(Some(STALL))
                .http_status_as_error(false)
                // A body that went elsewhere could hold what the user trusts this server with alone.
                .max_redirects(0)
                .user_agent(concat!("toolgate/", env!("CARGO_PKG_VERSION")))
                .build()
                .into()
        })
    }

    fn put(&self, agent: ureq::Agent) {
        let mut idle = lock(&self.0);
        if idle.len() < MOST_IDLE {
            idle.push(agent);
        }
    }
}

#[derive(Clone)]
struct Job {
    url: String,
    key: Option<String>,
    body: Option<String>,
}

/// A message of a request's thread.
enum Message {
    /// A whole answer with its status.
    Answer(u16, Vec<u8>),
    /// A line of a stream.
    Line(Vec<u8>),
    /// The stream has ended.
    End,
    /// The request failed, for this reason.
    Failed(String, Reached),
}

/// Whether a request that failed got further than its connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reached {
    Yes,
    No,
}

impl Client {
    /// The server at `url`. The address may name its version (`/v1`).
    ///
    /// # Errors
    /// [`Kind::Input`] for a text that is no `http` or `https` address.
    pub(super) fn new(url: &str, key: Option<String>) -> Result<Self, Error> {
        let url = url.trim().trim_end_matches('/');
        if !(url.starts_with("http://") || url.starts_with("https://")) {
            return Err(Error::input(format!(
                "{url:?} is no address of a server; it begins with http:// or https://"
            )));
        }
        let (root, api) = match url.rsplit_once('/') {
            Some((root, version)) if is_version(version) => (root.to_owned(), url.to_owned()),
            _ => (url.to_owned(), format!("{url}/v1")),
        };
        Ok(Self { idle: Arc::default(), root, api, key, fields: Fields::default() })
    }

    /// The server's address.
    pub(super) fn root(&self) -> &str {
        &self.root
    }

    /// The list of models.
    pub(super) fn models(&self, cancel: &Cancel) -> Result<Value, Error> {
        self.whole(format!("{}/models", self.api), None, cancel)
    }

    /// The list of models; none where the server has none.
    ///
    /// # Errors
    /// As [`find`](Self::find).
    pub(super) fn listed(&self, cancel: &Cancel) -> Result<Option<Value>, Error> {
        self.found(format!("{}/models", self.api), cancel)
    }

    /// The JSON at a path below the server's root. None if the server has no such path, or answers with something else than JSON.
    ///
    /// # Errors
    /// A server that cannot be reached, refuses the key, or fails. Its kind is not known then.
    pub(super) fn find(&self, path: &str, cancel: &Cancel) -> Result<Option<Value>, Error> {
        self.found(format!("{}{path}", self.root), cancel)
    }

    /// A path below the server's root.
    pub(super) fn get(&self, path: &str, cancel: &Cancel) -> Result<Value, Error> {
        self.whole(format!("{}{path}", self.root), None, cancel)
    }

    /// Posts JSON to a path below the server's root.
    pub(super) fn post(&self, path: &str, body: &Value, cancel: &Cancel) -> Result<Value, Error> {
        self.whole(format!("{}{path}", self.root), Some(body), cancel)
    }

    /// A chat completion as a whole.
    pub(super) fn chat(&self, body: &Value, cancel: &Cancel) -> Result<Value, Error> {
        self.whole(format!("{}/chat/completions", self.api), Some(body), cancel)
    }

    /// A completion of a text that is no conversation.
    pub(super) fn completion(&self, body: &Value, cancel: &Cancel) -> Result<Value, Error> {
        self.whole(format!("{}/completions", self.api), Some(body), cancel)
    }

    /// A chat completion, event by event, until `each` breaks it off or fails.
    pub(super) fn chat_stream(
        &self,
        body: &Value,
        cancel: &Cancel,
        each: &mut Each<'_>,
    ) -> Result<(), Error> {
        self.stream(format!("{}/chat/completions", self.api), body, cancel, each)
    }

    /// Posts JSON to a path below the root, and reads events until the stream ends.
    pub(super) fn post_stream(
        &self,
        path: &str,
        body: &Value,
        cancel: &Cancel,
        each: &mut Each<'_>,
    ) -> Result<(), Error> {
        self.stream(format!("{}{path}", self.root), body, cancel, each)
    }

    fn whole(&self, url: String, body: Option<&Value>, cancel: &Cancel) -> Result<Value, Error> {
        match self.first(&url, body, Want::Whole, cancel)? {
            (Message::Answer(200..=299, bytes), _) => serde_json::from_slice(&bytes)
                .map_err(|why| Error::new(Kind::Engine, format!("{url} does not answer with JSON: {why}"))),
            (Message::Answer(status, bytes), _) => Err(answers::refusal(&url, status, &bytes)),
            _ => Err(Error::new(Kind::Engine, format!("{url} answers with a stream of events, unasked"))),
        }
    }

    fn found(&self, url: String, cancel: &Cancel) -> Result<Option<Value>, Error> {
        match self.first(&url, None, Want::Whole, cancel)? {
            (Message::Answer(status @ (401 | 403 | 429 | 500..), bytes), _) => {
                Err(answers::refusal(&url, status, &bytes))
            }
            (Message::Answer(200..=299, bytes), _) => Ok(serde_json::from_slice(&bytes).ok()),
            _ => Ok(None),
        }
    }

    fn stream(&self, url: String, body: &Value, cancel: &Cancel, each: &mut Each<'_>) -> Result<(), Error> {
        let (first, mut answering) = self.first(&url, Some(body), Want::Stream, cancel)?;
        let mut next = Some(first);
        let mut event = Vec::new();
        loop {
            let message = match next.take() {
                Some(message) => message,
                None => answering.next(cancel)?,
            };
            match message {
                Message::Answer(200..=299, bytes) => return Err(unstreamed(&url, &bytes)),
                Message::Answer(status, bytes) => return Err(answers::refusal(&url, status, &bytes)),
                Message::Failed(why, _) => return Err(broken(&url, &why)),
                Message::Line(line) => match line.strip_prefix(b"data:") {
                    Some(data) => event.extend_from_slice(data.trim_ascii()),
                    None if line.is_empty() => match deliver(&url, &std::mem::take(&mut event), each)? {
                        Stream::GoesOn => {}
                        Stream::Left => return Ok(()),
                        Stream::Ended => {
                            answering.is_over = true;
                            return Ok(());
                        }
                    },
                    // Comments, and names of events, which say nothing that their data does not.
                    None => {}
                },
                Message::End => {
                    deliver(&url, &event, each)?;
                    return Ok(());
                }
            }
        }
    }

    /// The beginning of an answer. If the server is not reached, this tries again a few times. If the server refuses a field,
    /// this asks without it.
    fn first(
        &self,
        url: &str,
        body: Option<&Value>,
        want: Want,
        cancel: &Cancel,
    ) -> Result<(Message, Answering), Error> {
        loop {
            let body = body.map(|body| self.fields.suited(body));
            let text = body.as_deref().map(Value::to_string);
            let first =
                self.reach(Job { url: url.to_owned(), key: self.key.clone(), body: text }, want, cancel)?;
            match (&first, &body) {
                ((Message::Answer(status, bytes), _), Some(body))
                    if self.fields.learn(body, *status, bytes) =>
                {
                    tracing::info!(url, "the server refuses a field of the request; asking without it");
                }
                _ => return Ok(first),
            }
        }
    }

    /// The beginning of an answer. If the server is not reached, this tries again a few times.
    fn reach(&self, job: Job, want: Want, cancel: &Cancel) -> Result<(Message, Answering), Error> {
        let mut waits = BACKOFF.iter();
        loop {
            let mut answering = Answering::start(job.clone(), want, &self.idle, cancel)?;
            match answering.next(cancel)? {
                Message::Failed(why, Reached::No) => match waits.next() {
                    Some(wait) => {
                        tracing::warn!(url = job.url, why, "the server is not reached; trying again");
                        pause(*wait, cancel)?;
                    }
                    None => {
                        let message = format!("{} cannot be reached: {why}; is the server running?", job.url);
                        return Err(Error::new(Kind::Engine, message));
                    }
                },
                Message::Failed(why, Reached::Yes) => return Err(broken(&job.url, &why)),
                message => return Ok((message, answering)),
            }
        }
    }
}

/// Whether the last part of an address is the version of an interface: `v1`.
fn is_version(part: &str) -> bool {
    part.strip_prefix('v').is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Want {
    Whole,
    Stream,
}

/// Whether more events of a stream follow.
enum Stream {
    GoesOn,
    Ended,
    /// Nobody wants more of it.
    Left,
}

/// Hands an event to `each`. An empty event is passed over, and `[DONE]` ends the stream.
fn deliver(url: &str, event: &[u8], each: &mut Each<'_>) -> Result<Stream, Error> {
    match event {
        b"" => Ok(Stream::GoesOn),
        b"[DONE]" => Ok(Stream::Ended),
        data => {
            let value: Value = serde_json::from_slice(data)
                .map_err(|why| broken(url, &format!("an event that is no JSON: {why}")))?;
            if let Some(error) = value.get("error").filter(|error| !error.is_null()) {
                return Err(answers::failure(url, error));
            }
            Ok(match each(&value)? {
                ControlFlow::Continue(()) => Stream::GoesOn,
                ControlFlow::Break(()) => Stream::Left,
            })
        }
    }
}

/// The error of a JSON answer to a request for a stream. If the server failed, it has the server's own words.
fn unstreamed(url: &str, body: &[u8]) -> Error {
    let answer: Value = serde_json::from_slice(body).unwrap_or_default();
    match answer.get("error").filter(|error| !error.is_null()) {
        Some(error) => answers::failure(url, error),
        None => {
            let message = format!("{url} does not stream its answers, which are asked for as events");
            Error::new(Kind::Engine, message)
        }
    }
}

fn is_json(kind: &ureq::http::HeaderValue) -> bool {
    let kind = kind.to_str().ok().and_then(|kind| kind.split(';').next());
    kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

fn broken(url: &str, why: &str) -> Error {
    let message = format!("the answer of {url} broke off: {why}; nothing of this turn was taken, ask again");
    Error::new(Kind::Engine, message)
}

/// A request under way, until its answer ends or it is given up.
struct Answering {
    /// What its thread tells; nothing once somebody has asked to stop.
    messages: Receiver<Option<Message>>,
    _wakes: OnCancel,
    agent: ureq::Agent,
    idle: Arc<Idle>,
    /// Whether nothing more is to come that matters.
    is_over: bool,
}

impl Answering {
    fn start(job: Job, want: Want, idle: &Arc<Idle>, cancel: &Cancel) -> Result<Self, Error> {
        let (send, messages) = mpsc::sync_channel(64);
        let send = Arc::new(send);
        // The thread alone holds the channel open. Where there is no room, the turn is awake.
        let stops = Arc::downgrade(&send);
        let wakes = cancel.on_cancel(move || drop(stops.upgrade().map(|send| send.try_send(None))));
        let agent = idle.take();
        let asks = agent.clone();
        thread::Builder::new()
            .name("toolgate-remote".to_owned())
            .spawn(move || {
                let outcome = request(&asks, &job, want, &send);
                // Nobody listens any more once a turn was cancelled.
                let _ = send.send(Some(outcome));
            })
            .map_err(|why| Error::new(Kind::Engine, format!("cannot start a thread: {why}")))?;
        Ok(Self { messages, _wakes: wakes, agent, idle: idle.clone(), is_over: false })
    }

    /// The next message, or an error once the turn is cancelled.
    fn next(&mut self, cancel: &Cancel) -> Result<Message, Error> {
        if cancel.is_cancelled() {
            return Err(cancelled());
        }
        match self.messages.recv() {
            Ok(Some(message)) => {
                self.is_over |= !matches!(message, Message::Line(_));
                Ok(message)
            }
            Ok(None) => Err(cancelled()),
            Err(_) => Ok(Message::Failed("the request stopped without a word".to_owned(), Reached::Yes)),
        }
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        match self.is_over {
            true => self.idle.put(self.agent.clone()),
            false => self.agent.clone().shutdown(),
        }
    }
}

fn pause(wait: Duration, cancel: &Cancel) -> Result<(), Error> {
    if cancel.wait_for(wait) { Err(cancelled()) } else { Ok(()) }
}

fn cancelled() -> Error {
    Error::new(Kind::Cancelled, "cancelled while the server was asked")
}

/// The work of a request's thread, up to its last message. It ends with the connection when nobody listens any more.
fn request(agent: &ureq::Agent, job: &Job, want: Want, send: &SyncSender<Option<Message>>) -> Message {
    let bearer = job.key.as_ref().map(|key| format!("Bearer {key}"));
    let result = match &job.body {
        None => {
            let get = agent.get(&job.url);
            bearer.into_iter().fold(get, |get, key| get.header("Authorization", key)).call()
        }
        Some(body) => {
            let post = agent.post(&job.url).content_type("application/json");
            bearer.into_iter().fold(post, |post, key| post.header("Authorization", key)).send(body.as_str())
        }
    };
    let response = match result {
        Ok(response) => response,
        Err(error) => return Message::Failed(error.to_string(), reached(&error)),
    };
    let status = response.status().as_u16();
    let is_json = response.headers().get("content-type").is_some_and(is_json);
    let mut body = BufReader::new(response.into_body().into_reader());
    if want == Want::Whole || is_json || !(200..300).contains(&status) {
        let mut bytes = Vec::new();
        return match body.take(MOST).read_to_end(&mut bytes) {
            Ok(_) => Message::Answer(status, bytes),
            Err(why) => Message::Failed(why.to_string(), Reached::Yes),
        };
    }
    loop {
        let mut line = Vec::new();
        match (&mut body).take(MOST).read_until(b'\n', &mut line) {
            Ok(0) => return Message::End,
            Ok(n) if n as u64 == MOST => {
                return Message::Failed(format!("an event of more than {MOST} bytes"), Reached::Yes);
            }
            Ok(_) => {
                let end = line.trim_ascii_end().len();
                line.truncate(end);
                if send.send(Some(Message::Line(line))).is_err() {
                    return Message::End;
                }
            }
            Err(why) => return Message::Failed(why.to_string(), Reached::Yes),
        }
    }
}

/// Whether more than the connection failed. Requests to a model have no effects, so a request may be sent again if the
/// connection was lost before the answer.
fn reached(error: &ureq::Error) -> Reached {
    use std::io::ErrorKind;
    use ureq::Timeout::{Connect, Resolve};
    match error {
        ureq::Error::ConnectionFailed
        | ureq::Error::HostNotFound
        | ureq::Error::Timeout(Connect | Resolve) => Reached::No,
        ureq::Error::Io(why) => match why.kind() {
            ErrorKind::AddrNotAvailable
            | ErrorKind::BrokenPipe
            | ErrorKind::ConnectionAborted
            | ErrorKind::ConnectionRefused
            | ErrorKind::ConnectionReset
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
            // A connection kept from earlier that the server has closed meanwhile: llama-server does so after a hundred
            // requests, or five seconds.
            | ErrorKind::UnexpectedEof => Reached::No,
            _ => Reached::Yes,
        },
        _ => Reached::Yes,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::io::Write;
    use std::net::TcpListener;

    use super::*;

    /// Reads a request without a body.
    fn head(stream: &mut impl BufRead) {
        let mut line = String::new();
        while stream.read_line(&mut line).unwrap() > 2 {
            line.clear();
        }
    }

    #[test]
    fn a_kept_connection_that_the_server_has_closed_is_made_anew() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = thread::spawn(move || {
            for number in 1..=2 {
                let mut stream = BufReader::new(listener.accept().unwrap().0);
                head(&mut stream);
                write!(stream.get_mut(), "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{number}").unwrap();
                if number == 1 {
                    // The next request is taken and never answered.
                    head(&mut stream);
                }
            }
        });
        let client = Client::new(&url, None).unwrap();
        let answers: Vec<Value> = (0..2).map(|_| client.get("/props", &Cancel::default()).unwrap()).collect();
        assert_eq!(answers, [1, 2]);
        server.join().unwrap();
    }
}
