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
use crate::{Error, Kind};
use toolgate_engine::Cancel;

impl Agent {
    /// As [`run`](Self::run), on a thread of its own: for async programs, on any executor.
    ///
    /// # Errors
    /// [`Kind::Engine`] where the system has no thread left.
    ///
    /// # Examples
    /// ```
    /// use toolgate_agent::{Agent, Event};
    /// use toolgate_chat::{Message, Transcript};
    /// # use std::sync::Arc;
    /// # use toolgate_agent::Options;
    /// # use toolgate_engine::{self as engine, LocalEngine};
    /// # use toolgate_tools::{CannedTool, Registry};
    /// # use toolgate_infer::{Vocabulary, scripted::Scripted};
    /// # let call = "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>";
    /// # let model = Scripted::new(Arc::new(Vocabulary::bytes_only()))
    /// #     .on("rain in Oslo", "It rains in Oslo.")
    /// #     .on("weather", call);
    /// # let engine = Arc::new(LocalEngine::scripted(model, engine::Options::default())?);
    /// # let parameters = serde_json::json!({
    /// #     "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]
    /// # });
    /// # let function = serde_json::json!({
    /// #     "name": "get_weather", "description": "The weather in a city.", "parameters": parameters
    /// # });
    /// # let tool = serde_json::json!({"type": "function", "function": function, "result": "rain in Oslo"});
    /// # let mut tools = Registry::new();
    /// # tools.add(CannedTool::from_json(&tool)?)?;
    /// # let agent = Agent::new(engine, tools, Options::default());
    ///
    /// /// The tools that were called, and the answer.
    /// async fn ask(agent: &Agent, question: &str) -> Result<(Vec<String>, String), toolgate_agent::Error> {
    ///     let mut run = agent.start(Transcript::new().with(Message::User(question.into())))?;
    ///     let mut called = Vec::new();
    ///     while let Some(event) = run.next().await {
    ///         if let Event::ToolCall { name, .. } = event {
    ///             called.push(name);
    ///         }
    ///     }
    ///     Ok((called, run.finish().await.outcome?.answer))
    /// }
    ///
    /// let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// let (called, answer) = runtime.block_on(ask(&agent, "How is the weather in Oslo?"))?;
    /// assert_eq!((called, answer.as_str()), (vec!["get_weather".to_owned()], "It rains in Oslo."));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
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
///
/// ```
/// use toolgate_agent::{Event, StopReason};
/// use toolgate_chat::{Message, Transcript};
/// # use std::sync::{Arc, Mutex, mpsc};
/// # use toolgate_agent::{Agent, Options};
/// # use toolgate_engine::{self as engine, LocalEngine};
/// # use toolgate_tools::{Registry, typed};
/// # use toolgate_infer::{Vocabulary, scripted::Scripted};
/// # let call = "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>";
/// # let model = Scripted::new(Arc::new(Vocabulary::bytes_only()))
/// #     .on("rain in Oslo", "It rains in Oslo.")
/// #     .on("weather", call);
/// # let engine = Arc::new(LocalEngine::scripted(model, engine::Options::default())?);
/// # #[derive(serde::Deserialize, schemars::JsonSchema)]
/// # struct Place { city: String }
/// # let (go, wait) = mpsc::channel::<()>();
/// # let wait = Mutex::new(wait);
/// # let mut tools = Registry::new();
/// # tools.add(typed("get_weather", "The weather in a city.", move |place: Place| {
/// #     let _ = wait.lock().map(|wait| wait.recv());
/// #     Ok::<_, String>(format!("rain in {}", place.city))
/// # })?)?;
/// # let agent = Agent::new(engine, tools, Options::default());
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
///
/// let mut run = agent.start(Transcript::new().with(Message::User("How is the weather in Oslo?".into())))?;
/// while !matches!(run.next().await, Some(Event::ToolCall { .. }) | None) {}
/// // The call has begun: it still comes to its end, and no turn follows.
/// run.cancel();
/// # let _ = go.send(());
/// let finished = run.finish().await;
/// assert_eq!(finished.outcome?.stop_reason, StopReason::Cancelled);
/// assert!(matches!(finished.transcript.last(), Some(Message::Tool(_))));
/// # Ok::<(), toolgate_agent::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
#[non_exhaustive]
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
