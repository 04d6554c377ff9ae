//! An answer as a stream of events. They are the steps of a turn, in the words of an API.
//!
//! A response may begin before its turn. A client that gets nothing for some minutes gives up and asks again,
//! and the queue grows for all. So each stream shows at times that it goes on. It tells the progress of the
//! prompt, with the API's own event for that, if there is one.

use std::convert::Infallible;
use std::pin::Pin;
use std::time::Duration;

use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;

use super::api::{Api, Frame};
use super::refusal::Refusal;
use super::turn::{Making, Step};

/// A turn that waits for its first step.
pub(super) type Beginning = Pin<Box<dyn Future<Output = Result<(Making, Step), Refusal>> + Send>>;

/// How long a stream may be silent while no prompt is evaluated.
const SILENCE: Duration = Duration::from_secs(15);

/// The answer of a turn whose first step is there. The stream tells every `pace` how far the prompt has come.
pub(super) fn begun<A: Api>(api: A, making: Making, first: Step, pace: Duration) -> Response {
    streamed(Streaming::new(api, Turn::Made(making), Some(first), pace))
}

/// The answer of a turn that has not begun. A failure to begin is an event.
pub(super) fn waiting<A: Api>(mut api: A, beginning: Beginning, pace: Duration) -> Response {
    let frames = api.awaited().into_iter();
    streamed(Streaming { frames, ..Streaming::new(api, Turn::Awaited(beginning), None, pace) })
}

/// A stream of what is being written.
struct Streaming<A> {
    api: A,
    turn: Turn,
    /// The step to write next, if it is there already.
    next: Option<Step>,
    frames: std::vec::IntoIter<Frame>,
    is_over: bool,
    pace: Duration,
}

enum Turn {
    Awaited(Beginning),
    Made(Making),
}

impl<A: Api> Streaming<A> {
    fn new(api: A, turn: Turn, next: Option<Step>, pace: Duration) -> Self {
        Self { api, turn, next, frames: Vec::new().into_iter(), is_over: false, pace }
    }

    /// How far the prompt has come, while one is evaluated.
    fn progress(&self) -> Option<(usize, usize)> {
        match &self.turn {
            Turn::Made(making) => making.progress.get(),
            Turn::Awaited(_) => None,
        }
    }

    /// A sign that the stream goes on. The comment keeps the connection open, and clients ignore it. The
    /// API's own event is for clients that count events.
    fn sign_of_life(&self) -> Event {
        let comment = match self.progress() {
            Some((done, total)) => format!("prefill {done}/{total}"),
            None => String::new(),
        };
        A::ping().map_or_else(Event::default, event).comment(comment)
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

    /// The next event. `None` behind the last.
    async fn event(&mut self) -> Option<Event> {
        loop {
            if let Some(frame) = self.frames.next() {
                return Some(event(frame));
            }
            if self.is_over {
                return None;
            }
            let patience = if self.progress().is_some() { self.pace } else { SILENCE };
            // The wait can be resumed after that: it is for a channel, or for a turn that begins.
            let Ok(step) = tokio::time::timeout(patience, self.step()).await else {
                return Some(self.sign_of_life());
            };
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
    Sse::new(events).into_response()
}

fn event(frame: Frame) -> Event {
    let event = Event::default().data(frame.data);
    match frame.event {
        Some(name) => event.event(name),
        None => event,
    }
}
