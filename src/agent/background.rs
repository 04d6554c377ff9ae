//! A run beside its caller: a thread that makes it, and a stream of its events for async programs, whatever runs them.
//!
//! Invariant: a run that nobody waits for ends: what is dropped before its end is cancelled.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread::JoinHandle;

use futures_channel::mpsc::{UnboundedReceiver, unbounded};
use futures_core::Stream;
use toolgate_chat::Transcript;

use super::{Agent, Event, Final};
use crate::engine::Cancel;
use crate::{Error, Kind};

impl Agent {
    /// As [`run`](Self::run), on a thread of its own: for async programs, on any executor.
    ///
    /// # Errors
    /// [`Kind::Engine`] where the system has no thread left.
    ///
    /// # Examples
    /// ```no_run
    /// use toolgate::agent::{Agent, Event};
    /// use toolgate_chat::{Message, Transcript};
    ///
    /// async fn show(agent: &Agent, question: &str) -> Result<String, toolgate::Error> {
    ///     let mut run = agent.start(Transcript::new().with(Message::User(question.into())))?;
    ///     while let Some(event) = run.next().await {
    ///         if let Event::ToolCall { name, .. } = event {
    ///             eprintln!("calls {name}");
    ///         }
    ///     }
    ///     Ok(run.finish().await.outcome?.answer)
    /// }
    /// ```
    pub fn start(&self, mut transcript: Transcript) -> Result<Running, Error> {
        let (sender, events) = unbounded();
        let cancel = Cancel::default();
        let (agent, stop) = (self.clone(), cancel.clone());
        let thread = std::thread::Builder::new().name("toolgate-run".into()).spawn(move || {
            // Who dropped the receiver has cancelled the run, too.
            let outcome = agent.run(&mut transcript, &stop, &mut |event| drop(sender.unbounded_send(event)));
            Finished { transcript, outcome }
        });
        let thread = thread.map_err(|error| {
            Error::new(Kind::Engine, format!("no thread for a run can be started: {error}"))
        })?;
        Ok(Running { events, stop: StopOnDrop(cancel), thread })
    }
}

/// A run that goes on: a [`Stream`] of its events, which ends with it. Dropping it cancels the run.
#[must_use = "a run that is dropped is cancelled"]
pub struct Running {
    events: UnboundedReceiver<Event>,
    stop: StopOnDrop,
    thread: JoinHandle<Finished>,
}

struct StopOnDrop(Cancel);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// What a run left.
pub struct Finished {
    /// The conversation with all that was done, also where it could not go on.
    pub transcript: Transcript,
    /// Its outcome, as [`Agent::run`] tells it.
    pub outcome: Result<Final, Error>,
}

impl Running {
    /// The next event; none when the run is over. An event that was waited for in vain is not lost.
    pub async fn next(&mut self) -> Option<Event> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    /// Asks the run to stop; its outcome says that it was.
    pub fn cancel(&self) {
        self.stop.0.cancel();
    }

    /// Waits for the end of the run.
    ///
    /// # Panics
    /// As the run did, if a tool or an engine panicked.
    pub async fn finish(mut self) -> Finished {
        while self.next().await.is_some() {}
        // The events have ended, so the thread has nothing left to do but to hand this over.
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Stream for Running {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Event>> {
        Pin::new(&mut self.events).poll_next(context)
    }
}
