//! The engine behind HTTP. It speaks the OpenAI API (chat completions and responses) and the Anthropic API.
//! It knows engines and agents, and no command line.
//!
//! ```text
//! body ─ Api::read ─▶ Ask ─ Admission ─▶ turn on a thread of its own ─ Step, Step, … ─▶ Api::whole or Api::frames ─▶ body
//! ```
//!
//! The tools of a request are the client's. Their schemas become the turn's grammar, and the client gets the
//! calls. With [`Execute`] the server runs tools of its own instead, until there is an answer.
//!
//! Invariants:
//! - The server holds the form of an answer, or refuses it with a JSON pointer. It never holds a weaker form. It
//!   warns beside the answer of all else that is not done as it was sent.
//! - Three things are kept of a conversation. The engine's cache holds tokens of it. The disk holds its system
//!   prompt and tools, if the engine keeps packs. The memory holds the responses that a client may go on from
//!   (`responses`).
//! - A client that does not read, or leaves, holds up nobody else.

mod admission;
mod api;
mod ask;
mod count;
mod engine;
mod field;
mod form;
mod history;
mod http;
mod metrics;
mod names;
mod parts;
mod prefill;
mod reasoning;
mod refusal;
mod sampling;
mod server;
mod steps;
mod stream;
mod time;
mod turn;
mod warning;

mod anthropic;
mod openai;
mod responses;

use toolgate_agent::{Error, Kind};

pub use server::{Execute, Options, Server, Stopper, Workbench, router};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
