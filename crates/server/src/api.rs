//! The trait of an API: it reads requests and writes answers.

use std::sync::Arc;

use serde_json::Value;

use super::ask::Ask;
use super::refusal::Refusal;
use super::responses::Store;
use super::turn::{Outcome, Step};
use super::warning::Warning;
use toolgate_engine::Sampling;

/// An API, as the writer of one request's answer.
pub(super) trait Api: Send + Sized + 'static {
    /// What ids of calls begin with.
    const CALL: &'static str;

    /// Reads a request's body.
    ///
    /// # Errors
    /// What cannot be used in it, with its JSON pointer.
    fn read(body: &Value, reply: Reply) -> Result<(Ask, Self), Refusal>;

    /// Adds to what is told beside the answer, before any of that is written.
    fn warn(&mut self, warnings: Vec<Warning>);

    /// The body of a refusal.
    fn refusal(refusal: &Refusal, request: &str) -> Value;

    /// The body of an answer.
    fn whole(&self, outcome: &Outcome) -> Value;

    /// What a stream begins with whose turn has to wait, where the API has something to say before it.
    fn awaited(&mut self) -> Vec<Frame> {
        Vec::new()
    }

    /// What says in a stream that a silent turn goes on, where the API has a word for it: clients do not see comments.
    fn ping() -> Option<Frame>;

    /// What a step adds to a stream.
    fn frames(&mut self, step: Step) -> Vec<Frame>;
}

/// What a reply says beside its content.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    /// Id of the request.
    pub(super) request: String,
    /// The model that answers.
    pub(super) model: String,
    /// Seconds since 1970.
    pub(super) created: u64,
    /// What earlier requests may be gone on from.
    pub(super) responses: Arc<Store>,
    /// How tokens are drawn where the request does not say.
    pub(super) usual: Sampling,
}

/// One event of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) event: Option<&'static str>,
    pub(super) data: String,
}
