//! An answer as a stream of events: a turn's steps in the words of an API, as they come.
//!
//! Why a response may begin before its turn does: a client that hears nothing for some minutes gives up and asks again, which makes the
//! queue longer for all.

use std::convert::Infallible;
use std::pin::Pin;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;

use super::api::{Api, Frame};
use super::refusal::Refusal;
use super::turn::{Making, Step};

/// A turn that waits for its first step.
pub(super) type Beginning = Pin<Box<dyn Future<Output = Result<(Making, Step), Refusal>> + Send>>;

/// The answer of a turn whose first step is there.
pub(super) fn begun<A: Api>(api: A, making: Making, first: Step) -> Response {
    streamed(Streaming::new(api, Turn::Made(making), Some(first)))
}

/// The answer of a turn that has not begun: whatever keeps it from that is an event.
pub(super) fn waiting<A: Api>(mut api: A, beginning: Beginning) -> Response {
    let frames = api.awaited().into_iter();
    streamed(Streaming { frames, ..Streaming::new(api, Turn::Awaited(beginning), None) })
}

/// A stream of what is being written.
struct Streaming<A> {
    api: A,
    turn: Turn,
    /// The step to write next, where it is there already.
    next: Option<Step>,
    frames: std::vec::IntoIter<Frame>,
    is_over: bool,
}

enum Turn {
    Awaited(Beginning),
    Made(Making),
}

impl<A: Api> Streaming<A> {
    fn new(api: A, turn: Turn, next: Option<Step>) -> Self {
        Self { api, turn, next, frames: Vec::new().into_iter(), is_over: false }
    }

    async fn step(&mut self) -> Step {
        if let Some(step) = self.next.take() {
            return step;
        }
        let (making, first) = match &mut self.turn {
            Turn::Made(making) => return making.next().await,
            Turn::Awaited(beginning) => match beginning.await {
                Ok(begun) => begun,
                Err(refusal) => return Step::Failed(refusal),
            },
        };
        self.turn = Turn::Made(making);
        first
    }

    /// The next event; none behind the last.
    async fn event(&mut self) -> Option<Event> {
        loop {
            if let Some(frame) = self.frames.next() {
                return Some(event(frame));
            }
            if self.is_over {
                return None;
            }
            let step = self.step().await;
            self.is_over = matches!(step, Step::Done(_) | Step::Failed(_));
            self.frames = self.api.frames(step).into_iter();
        }
    }
}

fn streamed<A: Api>(streaming: Streaming<A>) -> Response {
    let events = stream::unfold(streaming, |mut streaming| async move {
        let event = streaming.event().await?;
        Some((Ok::<_, Infallible>(event), streaming))
    });
    let silent = KeepAlive::new();
    let keep_alive = match A::ping() {
        Some(frame) => silent.event(event(frame)),
        None => silent,
    };
    Sse::new(events).keep_alive(keep_alive).into_response()
}

fn event(frame: Frame) -> Event {
    let event = Event::default().data(frame.data);
    match frame.event {
        Some(name) => event.event(name),
        None => event,
    }
}
