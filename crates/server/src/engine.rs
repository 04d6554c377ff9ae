//! The engine for other toolgates. They send whole turn requests, for parts of which the APIs have no words.
//!
//! Their agents know what their workspace holds and what was done in it. With that, a turn made here is the
//! turn that they would have made. Only they can tell whether a finished call is right. So the server asks
//! them in the middle of a turn.
//!
//! Invariant: only a client that knows a question's id answers it. A turn that nobody reads is cancelled. A
//! turn whose client does not answer goes on without the answer. So neither holds up others.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use futures_util::stream;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::sync::mpsc::UnboundedSender;
use toolgate_agent::Hints;
use toolgate_chat::{ToolCall, ToolSpec};

use super::api::Api;
use super::http::{self, RequestId};
use super::metrics::Ended;
use super::openai::OpenAi;
use super::refusal::{Refusal, Why};
use super::server::Shared;
use super::time::Waited;
use super::turn::{self, Finish, Making, Right};
use toolgate_engine::protocol::{
    ANSWER, About, ENGINE, EngineEvent, EngineReply, EngineRequest, TURN, Verdict,
};
use toolgate_engine::stages::lock;
use toolgate_engine::{CallCheck, Cancel, Fault, Turn, TurnEvent};
use toolgate_engine::{Error, Kind};

/// How long a turn waits for an answer. The client runs the calls, and can still refuse them.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) fn routes() -> Router<Arc<Shared>> {
    Router::new().route(ENGINE, get(about)).route(TURN, post(turn)).route(ANSWER, post(answer))
}

async fn about(State(shared): State<Arc<Shared>>) -> Response {
    let about = About {
        model: shared.engine.name().to_owned(),
        facts: shared.engine.facts(),
        sampling: shared.engine.default_sampling(),
    };
    http::json(StatusCode::OK, &json!(about))
}

async fn turn(
    State(shared): State<Arc<Shared>>,
    Extension(RequestId(id)): Extension<RequestId>,
    request: Request,
) -> Response {
    match begin(&shared, &id, request).await {
        Ok(making) => streamed(making),
        Err(refusal) => refused(&refusal, &id),
    }
}

async fn answer(
    State(shared): State<Arc<Shared>>,
    Extension(RequestId(id)): Extension<RequestId>,
    request: Request,
) -> Response {
    let answered = read::<EngineReply>(&shared, request).await.and_then(|answered| {
        match shared.questions.answer(&answered.id, answered.verdict) {
            true => Ok(()),
            false => Err(Refusal::new(Why::Address, "no turn waits for an answer to this question")),
        }
    });
    match answered {
        Ok(()) => http::json(StatusCode::OK, &json!({})),
        Err(refusal) => refused(&refusal, &id),
    }
}

fn refused(refusal: &Refusal, id: &str) -> Response {
    http::respond(refusal, OpenAi::refusal(refusal, id))
}

async fn read<T: DeserializeOwned>(shared: &Shared, request: Request) -> Result<T, Refusal> {
    let body = http::body(shared, request).await?;
    serde_json::from_slice(&body)
        .map_err(|why| Refusal::new(Why::Invalid, format!("the body is not what this address takes: {why}")))
}

async fn begin(shared: &Arc<Shared>, id: &str, request: Request) -> Result<Making<EngineEvent>, Refusal> {
    let asked: EngineRequest = read(shared, request).await?;
    let place = shared.gate.enter()?;
    http::has(shared, &asked.model)?;
    let tools = asked.tools().map_err(|error| Refusal::from(&error.into()))?;
    let (of, id) = (shared.clone(), id.to_owned());
    turn::start(shared, place, move |right, told| make(&of, &id, &asked, &tools, right, &told)).await
}

/// Makes a turn and tells what happens in it.
fn make(
    shared: &Shared,
    id: &str,
    asked: &EngineRequest,
    tools: &[ToolSpec],
    right: Right,
    told: &UnboundedSender<EngineEvent>,
) {
    let began = Instant::now();
    let asking = Asking { shared, told, cancel: &right.cancel, known: Mutex::default() };
    let check = asked.checked.then_some(&asking as &dyn CallCheck);
    let mut watch = right.watch(shared, Waited::Streamed, id);
    let hints = Hints::of_names(&asked.watches);
    let request = asked.request(tools, check).repetitions(hints.repetitions());
    let made = shared.engine.turn(&request, &right.cancel, &mut |event| {
        if let TurnEvent::Prefill { done, tokens, .. } = event {
            watch.see(done, tokens);
        }
        if let Some(event) = EngineEvent::of(event) {
            // A client that has gone has cancelled the turn.
            let _ = told.send(event);
        }
    });
    let made = made.and_then(turn::uncut);
    let seconds = began.elapsed().as_secs_f64();
    match &made {
        Ok(turn) => turn::note(shared, id, &asked.model, &asked.sampling, &ended(turn, asked, seconds)),
        Err(error) => turn::note_failed(shared, id, seconds, error.kind().into(), error),
    }
    let made = match made {
        Err(error) if error.kind() == Kind::Cancelled && right.time.is_over() => {
            Err(Error::new(Kind::Engine, right.time.too_late()))
        }
        made => made,
    };
    // The next turn need not wait until this one's client has read the end.
    drop(right);
    let _ = told.send(EngineEvent::end(&made));
}

fn ended(turn: &Turn, asked: &EngineRequest, seconds: f64) -> Ended {
    let calls = turn.parsed.calls.len();
    Ended {
        how: Finish::of(&turn.stop, &asked.sampling, calls > 0).openai(),
        seconds,
        prompt_tokens: turn.stats.prompt_tokens,
        cached_tokens: turn.stats.cached_tokens,
        completion_tokens: turn.stats.written(),
        calls,
    }
}

/// The stream of a turn, up to its end.
fn streamed(making: Making<EngineEvent>) -> Response {
    let events = stream::unfold(Some(making), |making| async move {
        let mut making = making?;
        let told = making.step().await?;
        let is_last = matches!(told, EngineEvent::End { .. });
        let event = Event::default().data(json!(told).to_string());
        Some((Ok::<_, Infallible>(event), (!is_last).then_some(making)))
    });
    Sse::new(events).keep_alive(KeepAlive::default()).into_response()
}

/// The open questions of turns, by their ids. Nobody can guess an id.
#[derive(Default)]
pub(super) struct Questions(Mutex<HashMap<String, SyncSender<Option<Verdict>>>>);

impl Questions {
    fn put(&self) -> Question<'_> {
        let id = uuid::Uuid::new_v4().simple().to_string();
        let (send, answer) = sync_channel(1);
        lock(&self.0).insert(id.clone(), send.clone());
        Question { id, send, answer, of: self }
    }

    /// Gives a turn its answer. Tells whether a turn waited for it.
    fn answer(&self, id: &str, verdict: Verdict) -> bool {
        lock(&self.0).remove(id).is_some_and(|waiting| waiting.send(Some(verdict)).is_ok())
    }
}

/// A question, until it is dropped.
struct Question<'a> {
    id: String,
    /// Sends the word to stop. That is `None` in place of an answer.
    send: SyncSender<Option<Verdict>>,
    answer: Receiver<Option<Verdict>>,
    of: &'a Questions,
}

impl Question<'_> {
    /// The answer. `None` if the turn is cancelled, or has waited for [`PATIENCE`].
    fn wait(&self, cancel: &Cancel) -> Option<Verdict> {
        let stops = self.send.clone();
        // If there is no room, an answer is there already.
        let _wakes = cancel.on_cancel(move || drop(stops.try_send(None)));
        self.answer.recv_timeout(PATIENCE).ok().flatten()
    }
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        lock(&self.of.0).remove(&self.id);
    }
}

/// The check of the client that asked for the turn. It is asked once about each call.
struct Asking<'a> {
    shared: &'a Shared,
    told: &'a UnboundedSender<EngineEvent>,
    cancel: &'a Cancel,
    known: Mutex<Vec<(ToolCall, Verdict)>>,
}

impl Asking<'_> {
    fn verdict(&self, call: &ToolCall) -> Verdict {
        let known = lock(&self.known).iter().find(|(other, _)| other.same_request(call)).cloned();
        if let Some((_, verdict)) = known {
            return verdict;
        }
        let question = self.shared.questions.put();
        let asked = self.told.send(EngineEvent::Question { id: question.id.clone(), call: call.clone() });
        let answer = asked.ok().and_then(|()| question.wait(self.cancel));
        let verdict = answer.unwrap_or_default();
        lock(&self.known).push((call.clone(), verdict.clone()));
        verdict
    }
}

impl CallCheck for Asking<'_> {
    fn fault(&self, call: &ToolCall) -> Option<Fault> {
        self.verdict(call).fault
    }
}
