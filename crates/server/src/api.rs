//! The trait of an API: it reads requests and writes answers.

use std::sync::Arc;

use serde_json::Value;

use super::ask::Ask;
use super::refusal::Refusal;
use super::responses::Store;
use super::turn::{Outcome, Step};
use super::warning::Warning;
use toolgate_engine::Sampling;

/// An API. A value of it writes one request's answer.
pub(super) trait Api: Send + Sized + 'static {
    /// The beginning of a call's id.
    const CALL: &'static str;

    /// Reads a request's body.
    ///
    /// # Errors
    /// A refusal that has the JSON pointer of what cannot be used.
    fn read(body: &Value, reply: Reply) -> Result<(Ask, Self), Refusal>;

    /// Adds warnings. The server calls this before it writes anything of the answer.
    fn warn(&mut self, warnings: Vec<Warning>);

    /// The body of a refusal.
    fn refusal(refusal: &Refusal, request: &str) -> Value;

    /// The body of an answer.
    fn whole(&self, outcome: &Outcome) -> Value;

    /// The first events of a stream whose turn has to wait. Default none.
    fn awaited(&mut self) -> Vec<Frame> {
        Vec::new()
    }

    /// The API's event that says that a silent turn goes on, if it has one. Clients do not see comments.
    fn ping() -> Option<Frame>;

    /// The events that a step adds to a stream.
    fn frames(&mut self, step: Step) -> Vec<Frame>;
}

/// The parts of a reply beside its content.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    /// Id of the request.
    pub(super) request: String,
    /// The model that answers.
    pub(super) model: String,
    /// Seconds since 1970.
    pub(super) created: u64,
    /// The responses that a request may go on from.
    pub(super) responses: Arc<Store>,
    /// The sampling of a request that says nothing of it.
    pub(super) usual: Sampling,
}

/// One event of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) event: Option<&'static str>,
    pub(super) data: String,
}
