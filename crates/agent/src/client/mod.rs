//! Runs whose loop a client keeps: it sends the conversation and the definitions of its tools, and nothing else. What our own loop knows
//! of a run is read from these.
//!
//! For the packages of this workspace alone: no part of the API.

mod failures;
mod turn;

pub use failures::{with_refusals, without_superseded};
pub use turn::ClientTurn;
