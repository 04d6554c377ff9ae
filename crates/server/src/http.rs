//! Requests and responses: the routes, the check of who may ask, the bounds of bodies, and answers, whole or
//! as a stream.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use futures_util::StreamExt;
use serde_json::Value;

use super::admission;
use super::anthropic::{self, Anthropic};
use super::api::{Api, Reply};
use super::ask::Ask;
use super::count;
use super::engine;
use super::openai::OpenAi;
use super::refusal::{Refusal, Why};
use super::responses::{self, Responses};
use super::server::{Shared, now};
use super::stream;
use super::turn::{self, Making, Step};
use super::warning::Warning;
use toolgate_agent::keys::bearer;
use toolgate_engine::protocol::TURN;

const CHAT: &str = "/v1/chat/completions";
const MESSAGES: &str = "/v1/messages";
const COUNT: &str = "/v1/messages/count_tokens";
const RESPONSES: &str = "/v1/responses";
const MODELS: &str = "/v1/models";
const HEALTH: &str = "/health";
const METRICS: &str = "/metrics";

/// The id of a request, in its logs and its answer.
#[derive(Clone)]
pub(super) struct RequestId(pub(super) String);

/// The routes.
pub(super) fn router(shared: Arc<Shared>) -> Router {
    let api = Router::new()
        .route(CHAT, post(answer::<OpenAi>))
        .route(MESSAGES, post(answer::<Anthropic>))
        .route(COUNT, post(count::count))
        .route(RESPONSES, post(answer::<Responses>))
        .route("/v1/responses/{id}", get(responses::read).delete(responses::remove))
        .route(MODELS, get(models))
        .route("/v1/models/{*id}", get(model))
        .route(HEALTH, get(health))
        .route(METRICS, get(metrics));
    // A server with tools of its own makes no turns for the tools of others.
    let whole = if shared.execute.is_none() { engine::routes() } else { Router::new() };
    api.merge(whole)
        .fallback(no_such_address)
        .method_not_allowed_fallback(other_method)
        .layer(from_fn_with_state(shared.clone(), around))
        .with_state(shared)
}

/// Does what every request needs: its id, the check of who may ask, and the log.
async fn around(State(shared): State<Arc<Shared>>, mut request: Request, next: Next) -> Response {
    let began = Instant::now();
    let id = request_id(request.headers());
    request.extensions_mut().insert(RequestId(id.clone()));
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    // A page of any origin may ask, if it has the key. A browser asks first, without the key.
    let is_open = shared.key.is_some();
    let mut response = match admit(&shared, &request) {
        _ if is_open && method == Method::OPTIONS => preflight(),
        Ok(()) => next.run(request).await,
        Err(refusal) => refused(&path, request.headers(), &id, &refusal),
    };
    if is_open {
        let any = HeaderValue::from_static("*");
        response.headers_mut().insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, any.clone());
        response.headers_mut().insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, any);
    }
    if let Ok(value) = HeaderValue::from_str(&id) {
        // Each API has its own name for it.
        response.headers_mut().insert("x-request-id", value.clone());
        response.headers_mut().insert("request-id", value);
    }
    let status = response.status().as_u16();
    shared.metrics.request(route(&path), status);
    tracing::info!(
        request_id = %id,
        http.request.method = %method,
        url.path = %path,
        http.response.status_code = status,
        duration_s = began.elapsed().as_secs_f64(),
        "request"
    );
    response
}

/// The answer to a browser that asks before it lets a page ask.
fn preflight() -> Response {
    let allowed = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, DELETE")),
        // The star does not stand for the header of the key.
        (header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("*, Authorization")),
        (header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600")),
    ];
    (StatusCode::NO_CONTENT, allowed).into_response()
}

/// The client's own id, if it is short and plain. Otherwise a new one.
fn request_id(headers: &HeaderMap) -> String {
    let plain = |id: &&str| {
        (1..=128).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
    };
    let given = headers.get("x-request-id").and_then(|id| id.to_str().ok()).filter(plain);
    given.map_or_else(|| format!("req_{}", uuid::Uuid::new_v4().simple()), str::to_owned)
}

/// The path as metrics name it.
fn route(path: &str) -> &'static str {
    match path {
        CHAT => CHAT,
        MESSAGES => MESSAGES,
        COUNT => COUNT,
        HEALTH => HEALTH,
        METRICS => METRICS,
        TURN => TURN,
        path if path.starts_with(MODELS) => MODELS,
        path if path.starts_with(RESPONSES) => RESPONSES,
        _ => "other",
    }
}

/// Checks who may ask. If there is a key, whoever sends it. Otherwise everybody but a page in a browser that
/// reaches this machine under a name of its own.
fn admit(shared: &Shared, request: &Request) -> Result<(), Refusal> {
    if request.uri().path() == HEALTH {
        return Ok(());
    }
    let headers = request.headers();
    match &shared.key {
        Some(key) => match given_key(headers) {
            Some(given) if key.is(given) => Ok(()),
            Some(_) => Err(Refusal::new(Why::Key, "the API key is wrong")),
            None => Err(Refusal::new(
                Why::Key,
                "an API key is needed: send it as \"Authorization: Bearer …\" or \"x-api-key: …\"",
            )),
        },
        None if shared.options.address.ip().is_loopback() && !names_this_machine(headers) => {
            Err(Refusal::new(
                Why::Forbidden,
                "the Host header does not name this machine: without an API key only localhost is answered",
            ))
        }
        None => Ok(()),
    }
}

fn given_key(headers: &HeaderMap) -> Option<&str> {
    // Anthropic's clients send the second. Some of them send an empty first.
    let authorization = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let bearer = authorization.and_then(bearer).filter(|key| !key.is_empty());
    bearer.or_else(|| headers.get("x-api-key")?.to_str().ok())
}

fn names_this_machine(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(header::HOST) else { return true };
    let Ok(host) = host.to_str() else { return false };
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Answers a request for a turn. A stream's response begins with its turn. So a turn that cannot be made has
/// an error's status, unless the wait for it is long.
async fn answer<A: Api>(
    State(shared): State<Arc<Shared>>,
    Extension(RequestId(id)): Extension<RequestId>,
    request: Request,
) -> Response {
    let refused = |refusal: &Refusal| respond(refusal, A::refusal(refusal, &id));
    let (api, ask, place) = match asked::<A>(&shared, &id, request).await {
        Ok(asked) => asked,
        Err(refusal) => return refused(&refusal),
    };
    let (is_stream, patience, pace) = (ask.stream, shared.options.quiet_time, shared.options.progress_time);
    let mut beginning = begin(shared, place, id.clone(), ask, A::CALL);
    let begun = match is_stream {
        true => match tokio::time::timeout(patience, &mut beginning).await {
            Ok(begun) => begun,
            Err(_) => return stream::waiting(api, beginning, pace),
        },
        false => beginning.await,
    };
    match begun {
        Ok((making, first)) if is_stream => stream::begun(api, making, first, pace),
        Ok((making, first)) => whole(api, making, first, &id).await,
        Err(refusal) => refused(&refusal),
    }
}

/// Reads the request of a turn, and takes a place in the queue for it.
async fn asked<A: Api>(
    shared: &Arc<Shared>,
    id: &str,
    request: Request,
) -> Result<(A, Ask, admission::Permit), Refusal> {
    let reply = Reply {
        request: id.to_owned(),
        model: shared.engine.name().to_owned(),
        created: now(),
        responses: shared.responses.clone(),
        usual: shared.engine.default_sampling(),
    };
    let limit = shared.options.max_tokens;
    let ((mut ask, mut api), place) = taken(shared, request, move |body| A::read(body, reply)).await?;
    if ask.sampling.max_tokens == 0 {
        ask.sampling.max_tokens = limit;
    }
    fits(shared, &mut ask)?;
    api.warn(std::mem::take(&mut ask.warnings));
    Ok((api, ask, place))
}

/// Takes a place in the queue for a request, and gives what `read` makes of its body.
pub(super) async fn taken<T: Send + 'static>(
    shared: &Shared,
    request: Request,
    read: impl FnOnce(&Value) -> Result<T, Refusal> + Send + 'static,
) -> Result<(T, admission::Permit), Refusal> {
    let body = body(shared, request).await?;
    // This comes before any work. A client that gets no place is told so at once.
    let place = shared.gate.enter()?;
    // This compiles schemas and may take a while.
    let read = tokio::task::spawn_blocking(move || read(&parsed(&body)?)).await;
    let lost = |_| Refusal::new(Why::Internal, "the request could not be read");
    Ok((read.map_err(lost)??, place))
}

/// A turn up to its first step.
fn begin(
    shared: Arc<Shared>,
    place: admission::Permit,
    id: String,
    ask: Ask,
    prefix: &'static str,
) -> stream::Beginning {
    Box::pin(async move {
        let mut making = turn::begin(&shared, place, &id, ask, prefix).await?;
        match making.next().await {
            Step::Failed(refusal) => Err(refusal),
            first => Ok((making, first)),
        }
    })
}

/// A body's JSON object.
fn parsed(body: &[u8]) -> Result<Value, Refusal> {
    let value: Value = serde_json::from_slice(body)
        .map_err(|why| Refusal::new(Why::Invalid, format!("the body is not JSON: {why}")))?;
    match value.is_object() {
        true => Ok(value),
        false => Err(Refusal::new(Why::Invalid, "the body is not a JSON object")),
    }
}

/// Refuses what this server does not answer. It has one model, so any name that a client sends means that
/// one.
pub(super) fn fits(shared: &Shared, ask: &mut Ask) -> Result<(), Refusal> {
    if !ask.model.as_deref().is_some_and(|model| is_name(shared, model)) {
        let own = shared.engine.name();
        let message = match &ask.model {
            Some(model) => {
                format!("there is no model {model:?} here: {own:?} answers (--alias takes further names)")
            }
            None => format!("no model is named: {own:?} answers"),
        };
        ask.warnings.push(Warning { pointer: "/model".to_owned(), message });
    }
    if ask.conversation.begun.is_some() && !shared.engine.goes_on() {
        let message = "the model is behind a server that does not say whether it goes on from an answer: it was asked to, and may have \
                       begun anew";
        let pointer = ask.conversation.at.clone();
        ask.warnings.push(Warning { pointer, message: message.to_owned() });
    }
    if shared.execute.is_some() {
        if !ask.tools.specs.is_empty() {
            return Err(Refusal::at("/tools", "this server runs its own tools (--execute): leave these out"));
        }
        let own = |what: &str| {
            Refusal::new(Why::Invalid, format!("a server that runs its own tools (--execute) {what}"))
        };
        if ask.form.is_some() {
            return Err(own("cannot hold answers to a form"));
        }
        if ask.choices.get() > 1 {
            return Err(Refusal::at(
                "/n",
                "this server runs its own tools (--execute), and each run may change something",
            ));
        }
        if ask.conversation.begun.is_some() {
            return Err(own("does not go on from an answer that was begun"));
        }
    }
    Ok(())
}

/// Refuses a name that is neither the model's nor one of its further ones.
pub(super) fn has(shared: &Shared, model: &str) -> Result<(), Refusal> {
    if is_name(shared, model) {
        return Ok(());
    }
    let own = shared.engine.name();
    let message = format!("there is no model {model:?} here; this server runs {own:?}");
    Err(Refusal { pointer: Some("/model".to_owned()), ..Refusal::new(Why::Model, message) })
}

fn is_name(shared: &Shared, model: &str) -> bool {
    model == shared.engine.name() || shared.options.aliases.iter().any(|alias| alias == model)
}

/// The body, within its bounds of size and time.
pub(super) async fn body(shared: &Shared, request: Request) -> Result<Vec<u8>, Refusal> {
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let is_json = kind.is_some_and(|kind| {
        kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
    });
    if !is_json {
        // A page in a browser may send other types to any address without asking first.
        return Err(Refusal::new(Why::Media, "the body has to be sent as Content-Type: application/json"));
    }
    let limit = shared.options.body;
    let reading = tokio::time::timeout(shared.options.read_time, collect(request.into_body(), limit));
    reading.await.unwrap_or_else(|_| Err(Refusal::new(Why::Slow, "the body did not arrive in time")))
}

async fn collect(body: Body, limit: usize) -> Result<Vec<u8>, Refusal> {
    let mut bytes = Vec::new();
    let mut pieces = body.into_data_stream();
    while let Some(piece) = pieces.next().await {
        let broken = |why| Refusal::new(Why::Invalid, format!("the body could not be read: {why}"));
        let piece = piece.map_err(broken)?;
        if bytes.len() + piece.len() > limit {
            return Err(Refusal::new(Why::Large, format!("the body is larger than {limit} bytes")));
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

/// An answer in one piece.
async fn whole<A: Api>(mut api: A, mut making: Making, first: Step, id: &str) -> Response {
    let mut step = first;
    loop {
        match step {
            Step::Done(outcome) => return json(StatusCode::OK, &api.whole(&outcome)),
            Step::Failed(refusal) => return respond(&refusal, A::refusal(&refusal, id)),
            Step::Begun(_, warnings) => api.warn(warnings),
            _ => {}
        }
        step = making.next().await;
    }
}

async fn models(State(shared): State<Arc<Shared>>) -> Response {
    let model = model_body(&shared);
    let id = model.get("id").cloned().unwrap_or_default();
    json(
        StatusCode::OK,
        // These are the fields of both APIs. Clients of one ignore those of the other.
        &serde_json::json!({
            "object": "list", "data": [model], "has_more": false, "first_id": id.clone(), "last_id": id,
        }),
    )
}

async fn model(
    State(shared): State<Arc<Shared>>,
    Path(name): Path<String>,
    Extension(RequestId(id)): Extension<RequestId>,
    headers: HeaderMap,
) -> Response {
    match has(&shared, &name) {
        Ok(()) => json(StatusCode::OK, &model_body(&shared)),
        // The name stands in the address, and not in a body.
        Err(refusal) => refused(MODELS, &headers, &id, &Refusal { pointer: None, ..refusal }),
    }
}

/// The model in the words of both APIs.
fn model_body(shared: &Shared) -> Value {
    let name = shared.engine.name();
    serde_json::json!({
        "id": name,
        "object": "model",
        "created": shared.started,
        "owned_by": "toolgate",
        "type": "model",
        "display_name": name,
        "created_at": anthropic::time(shared.started),
    })
}

async fn health(State(shared): State<Arc<Shared>>) -> Response {
    let model = shared.engine.name();
    json(StatusCode::OK, &serde_json::json!({"status": "ok", "model": model}))
}

async fn metrics(State(shared): State<Arc<Shared>>) -> Response {
    let (running, busy) = (shared.gate.running(), shared.gate.busy());
    let text = shared.metrics.text(running, busy.saturating_sub(running)) + &shared.prefills.text();
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}

async fn no_such_address(
    uri: Uri,
    headers: HeaderMap,
    Extension(RequestId(id)): Extension<RequestId>,
) -> Response {
    let message = format!(
        "no such address; there are {CHAT}, {RESPONSES}, {MESSAGES}, {COUNT}, {MODELS}, {HEALTH} and {METRICS}"
    );
    refused(uri.path(), &headers, &id, &Refusal::new(Why::Address, message))
}

async fn other_method(
    uri: Uri,
    headers: HeaderMap,
    Extension(RequestId(id)): Extension<RequestId>,
) -> Response {
    refused(uri.path(), &headers, &id, &Refusal::new(Why::Method, "this address takes another method"))
}

/// A refusal in the shape of the API that the client speaks.
fn refused(path: &str, headers: &HeaderMap, id: &str, refusal: &Refusal) -> Response {
    let is_anthropic = path.starts_with(MESSAGES) || headers.contains_key("anthropic-version");
    let body = match is_anthropic {
        true => Anthropic::refusal(refusal, id),
        false => OpenAi::refusal(refusal, id),
    };
    respond(refusal, body)
}

pub(super) fn respond(refusal: &Refusal, body: Value) -> Response {
    let mut response = json(refusal.why.status(), &body);
    if matches!(refusal.why, Why::Late | Why::Internal) {
        // Without it, clients of both APIs ask twice more for the same.
        response.headers_mut().insert("x-should-retry", HeaderValue::from_static("false"));
    }
    if let Some(seconds) = refusal.retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

pub(super) fn json(status: StatusCode, body: &Value) -> Response {
    let kind = (header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    (status, [kind], Body::from(body.to_string())).into_response()
}
