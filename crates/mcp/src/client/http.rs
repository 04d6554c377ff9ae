//! The HTTP of streamable HTTP, for rmcp's client: a request, a connection, an answer or a stream of events.
//!
//! Invariant: requests go to the policy's address, and to no address that an answer names. Answers are bounded in bytes. They
//! are bounded in time, too, except for the stream of notifications.

use std::borrow::Cow;
use std::collections::HashMap;
use std::error::Error as StdError;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, BodyDataStream, Bytes};
use axum::http::request::Builder;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, header};
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt as _};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::common::http_header::{
    EVENT_STREAM_MIME_TYPE, HEADER_LAST_EVENT_ID, HEADER_SESSION_ID, JSON_MIME_TYPE,
};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
    StreamableHttpPostResponse,
};
use sse_stream::{Sse, SseStream};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::address::Address;
use super::execution;
use super::key::Key;

/// The most bytes of an answer, or of an event.
const MOST: usize = 4 * 1024 * 1024;
/// The most bytes of an answer's head.
const HEAD: usize = 64 * 1024;
/// The most bytes of a server's reason for a refusal.
const REFUSAL: usize = 400;
/// The shortest time between two requests for a stream, and the longest. A server that ends its stream at once does not get
/// requests without pause. A server that is away for a night is found again.
const PACE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// The error of rmcp's transport, with our error inside.
type Failure = StreamableHttpError<io::Error>;
type Headers = HashMap<HeaderName, HeaderValue>;
type Events = BoxStream<'static, Result<Sse, SseError>>;

/// A client of one server.
#[derive(Clone)]
pub(super) struct Http {
    address: Arc<Address>,
    key: Option<Key>,
    /// The longest time for a whole answer.
    patience: Duration,
    /// The time of the last request for a stream.
    asked: Arc<tokio::sync::Mutex<Option<Instant>>>,
}

/// The transport to the server at `address`. Each request has the `key`, and ends after `patience`.
pub(super) fn transport(
    address: Address,
    key: Option<Key>,
    patience: Duration,
) -> StreamableHttpClientTransport<Http> {
    let mut backoff = ExponentialBackoff::default();
    (backoff.base_duration, backoff.max_delay) = (PACE.0, Some(PACE.1));
    let mut config = StreamableHttpClientTransportConfig::with_uri(address.origin());
    config.retry_config = Arc::new(backoff);
    let client = Http { address: Arc::new(address), key, patience, asked: Arc::default() };
    StreamableHttpClientTransport::with_client(client, config)
}

/// The reason of an error, without the words that rmcp and its transports put in front of it.
pub(super) fn reason(error: &(dyn StdError + 'static)) -> String {
    let mut at = Some(error);
    while let Some(error) = at {
        if let Some(StreamableHttpError::Client(ours)) = error.downcast_ref::<Failure>() {
            return ours.to_string();
        }
        at = error.source();
    }
    error.to_string()
}

/// An answer whose head is there. Its connection ends with it.
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: BodyDataStream,
    connection: AbortOnDropHandle<()>,
}

impl Answer {
    fn header(&self, name: impl header::AsHeaderName) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// Whether its content has that type.
    fn is(&self, kind: &str) -> bool {
        let given = self.header(header::CONTENT_TYPE).unwrap_or_default();
        given.split(';').next().is_some_and(|given| given.trim().eq_ignore_ascii_case(kind))
    }

    /// The whole content, or its first bytes; and whether there is more.
    async fn read(mut self, most: usize) -> io::Result<(Vec<u8>, bool)> {
        let mut read = Vec::new();
        while let Some(piece) = self.body.next().await {
            let piece = piece.map_err(io::Error::other)?;
            let room = most.saturating_sub(read.len());
            read.extend_from_slice(piece.get(..room).unwrap_or(&piece));
            if piece.len() > room {
                return Ok((read, true));
            }
        }
        Ok((read, false))
    }

    /// Its events, until `until`.
    fn events(self, until: Option<Instant>) -> Events {
        let Self { body, connection, .. } = self;
        let pieces = futures_util::stream::unfold(
            Some((body, connection, Event::default())),
            move |open| async move {
                let (mut body, connection, mut event) = open?;
                let next = match until {
                    None => body.next().await,
                    Some(until) => match tokio::time::timeout_at(until, body.next()).await {
                        Ok(next) => next,
                        Err(_) => return Some((Err(io::Error::other("it took too long")), None)),
                    },
                };
                let piece = match next? {
                    Ok(piece) => piece,
                    Err(why) => return Some((Err(io::Error::other(why)), None)),
                };
                match event.grow(&piece) {
                    true => Some((Ok(piece), Some((body, connection, event)))),
                    false => Some((Err(too_long()), None)),
                }
            },
        );
        parsed(pieces)
    }
}

fn parsed(pieces: impl Stream<Item = io::Result<Bytes>> + Send + 'static) -> Events {
    let told =
        |event: Result<Sse, SseError>| event.map(|event| Sse { data: event.data.map(kept_of), ..event });
    SseStream::from_bytes_stream(pieces).map(told).boxed()
}

/// The data of an event, with what `rmcp` does not read.
fn kept_of(data: String) -> String {
    match execution::kept(&data) {
        Cow::Borrowed(_) => data,
        Cow::Owned(kept) => kept,
    }
}

/// How much there is of the event that is being read.
#[derive(Default)]
struct Event {
    bytes: usize,
    /// Whether the line that is being read has anything in it.
    begun: bool,
}

impl Event {
    /// Counts `piece`; whether the event is still within bounds. An empty line ends an event. Carriage returns, which may
    /// end lines too, are passed over: so counting begins again too late at times, and never too early.
    fn grow(&mut self, piece: &[u8]) -> bool {
        for byte in piece {
            self.bytes += 1;
            match byte {
                b'\n' if !self.begun => self.bytes = 0,
                b'\n' => self.begun = false,
                b'\r' => {}
                _ => self.begun = true,
            }
            if self.bytes > MOST {
                return false;
            }
        }
        true
    }
}

fn too_long() -> io::Error {
    io::Error::other(format!("it answers with more than {MOST} bytes"))
}

impl Http {
    /// A request to the server, with what every one has.
    fn request(&self, method: Method, session: Option<&str>, headers: Headers) -> Builder {
        let mut request = Request::builder()
            .method(method)
            .uri(self.address.target())
            .header(header::HOST, self.address.authority())
            .header(header::USER_AGENT, concat!("toolgate/", env!("CARGO_PKG_VERSION")));
        if let Some(key) = &self.key {
            request = request.header(header::AUTHORIZATION, key.header());
        }
        if let Some(session) = session {
            request = request.header(HEADER_SESSION_ID, session);
        }
        headers.into_iter().fold(request, |request, (name, value)| request.header(name, value))
    }

    /// Sends a request and waits for the head of its answer.
    async fn ask(&self, request: Builder, body: Body) -> Result<Answer, Failure> {
        let request = request.body(body).map_err(|why| other(why.to_string()))?;
        let unreached = |why: &dyn std::fmt::Display| {
            other(format!("the server at {} cannot be reached: {why}", self.address.origin()))
        };
        let wire = self.address.connect().await.map_err(|why| unreached(&why))?;
        let shaken = http1::Builder::new().max_buf_size(HEAD).handshake(TokioIo::new(wire)).await;
        let (mut sender, connection) = shaken.map_err(|why| unreached(&why))?;
        let connection = AbortOnDropHandle::new(tokio::spawn(async move {
            // What breaks off is told where it is read.
            let _ = connection.await;
        }));
        let answered = tokio::time::timeout(self.patience, sender.send_request(request)).await;
        let answered = answered.map_err(|_| self.late())?;
        let (head, body) = answered.map_err(|why| other(format!("it does not answer: {why}")))?.into_parts();
        let body = Body::new(body).into_data_stream();
        Ok(Answer { status: head.status, headers: head.headers, body, connection })
    }

    fn late(&self) -> Failure {
        other(format!("it does not answer within {} seconds", self.patience.as_secs()))
    }

    /// The whole answer, within the rest of its time.
    async fn read(&self, answer: Answer, most: usize, until: Instant) -> Result<(Vec<u8>, bool), Failure> {
        let read = tokio::time::timeout_at(until, answer.read(most)).await.map_err(|_| self.late())?;
        read.map_err(|why| other(format!("its answer broke off: {why}")))
    }

    /// What became of a message.
    async fn post(
        &self,
        message: ClientJsonRpcMessage,
        session: Option<&str>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let until = Instant::now() + self.patience;
        let body = serde_json::to_vec(&message).map_err(|why| other(why.to_string()))?;
        let request = self
            .request(Method::POST, session, headers)
            .header(header::CONTENT_TYPE, JSON_MIME_TYPE)
            .header(header::ACCEPT, format!("{JSON_MIME_TYPE}, {EVENT_STREAM_MIME_TYPE}"));
        let answer = self.ask(request, Body::from(body)).await?;
        if answer.status == StatusCode::NOT_FOUND && session.is_some() {
            return Err(StreamableHttpError::SessionExpired);
        }
        let given = answer.header(HEADER_SESSION_ID).map(str::to_owned);
        if !answer.status.is_success() {
            return self.refused(answer, given, until).await;
        }
        // A message that asks nothing has been taken, whatever is said about it.
        if !matches!(message, ClientJsonRpcMessage::Request(_)) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if answer.is(EVENT_STREAM_MIME_TYPE) {
            return Ok(StreamableHttpPostResponse::Sse(answer.events(Some(until)), given));
        }
        if !answer.is(JSON_MIME_TYPE) {
            return Err(other("it answers with neither JSON nor events".to_owned()));
        }
        match self.read(answer, MOST, until).await? {
            (_, true) => Err(StreamableHttpError::Client(too_long())),
            (body, false) => match serde_json::from_str(&execution::kept(&String::from_utf8_lossy(&body))) {
                Ok(message) => Ok(StreamableHttpPostResponse::Json(message, given)),
                Err(why) => Err(other(format!("its answer is no message of the protocol: {why}"))),
            },
        }
    }

    /// The reason of a refusal. An error of the protocol stays one.
    async fn refused(
        &self,
        answer: Answer,
        given: Option<String>,
        until: Instant,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let status = answer.status;
        match status {
            StatusCode::UNAUTHORIZED => {
                let why = match self.key {
                    None => {
                        "it wants a key (HTTP 401): key_env = \"VARIABLE\" in the policy says where one is"
                    }
                    Some(_) => "it does not take the key of key_env (HTTP 401)",
                };
                return Err(other(why.to_owned()));
            }
            _ if status.is_redirection() => {
                let to = answer.header(header::LOCATION).unwrap_or("nowhere");
                return Err(other(format!("it leads to {to}, and redirects are not followed")));
            }
            _ => {}
        }
        let told = answer.is(JSON_MIME_TYPE);
        let (body, _) = self.read(answer, if told { MOST } else { REFUSAL }, until).await?;
        if let (true, Ok(message @ ServerJsonRpcMessage::Error(_))) = (told, serde_json::from_slice(&body)) {
            return Ok(StreamableHttpPostResponse::Json(message, given));
        }
        let shown = String::from_utf8_lossy(body.get(..REFUSAL).unwrap_or(&body)).into_owned();
        Err(other(format!("it answers with HTTP {}: {shown}", status.as_u16())))
    }
}

fn other(why: String) -> Failure {
    StreamableHttpError::Client(io::Error::other(why))
}

// The address of a request, and a key, would be what rmcp was configured with: both are known here, where the key is kept
// from whatever is printed.
impl StreamableHttpClient for Http {
    type Error = io::Error;

    async fn post_message(
        &self,
        _: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        self.post(message, session.as_deref(), headers).await
    }

    async fn delete_session(
        &self,
        _: Arc<str>,
        session: Arc<str>,
        _: Option<String>,
        headers: Headers,
    ) -> Result<(), Failure> {
        // Whatever is said to it, there is nobody any more who could mind.
        self.ask(self.request(Method::DELETE, Some(&session), headers), Body::empty()).await.map(drop)
    }

    async fn get_stream(
        &self,
        _: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        _: Option<String>,
        headers: Headers,
    ) -> Result<Events, Failure> {
        let mut asked = self.asked.lock().await;
        if let Some(asked) = *asked {
            tokio::time::sleep_until(asked + PACE.0).await;
        }
        *asked = Some(Instant::now());
        drop(asked);
        let mut request = self.request(Method::GET, session.as_deref(), headers);
        request = request.header(header::ACCEPT, EVENT_STREAM_MIME_TYPE);
        if let Some(id) = last_event {
            request = request.header(HEADER_LAST_EVENT_ID, id);
        }
        let answer = self.ask(request, Body::empty()).await?;
        match answer.status {
            StatusCode::METHOD_NOT_ALLOWED => Err(StreamableHttpError::ServerDoesNotSupportSse),
            status if status.is_success() && answer.is(EVENT_STREAM_MIME_TYPE) => Ok(answer.events(None)),
            status => Err(other(format!("it gives no stream (HTTP {})", status.as_u16()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_bounded_and_a_stream_is_not() {
        let mut event = Event::default();
        let line = [b"data: ".as_slice(), &[b'x'; 1_000], b"\n"].concat();
        let ended = [&line, b"\n".as_slice()].concat();
        assert!((0..2 * MOST / line.len()).all(|_| event.grow(&ended)), "many events are not one");
        let crlf = [line.strip_suffix(b"\n").unwrap_or_default(), b"\r\n\r\n"].concat();
        assert!((0..2 * MOST / line.len()).all(|_| event.grow(&crlf)));
        assert!(!(0..2 * MOST / line.len()).all(|_| event.grow(&line)), "one is bounded");
        let mut event = Event::default();
        assert!(!(0..=MOST).all(|_| event.grow(b"x")), "so is a line without end");
    }
}
