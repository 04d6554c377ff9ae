//! The engine behind HTTP, in the words of the OpenAI API (chat completions and responses) and of the Anthropic API. Knows engines and
//! agents; no command line.
//!
//! ```text
//! body ─ Api::read ─▶ Ask ─ Admission ─▶ turn on a thread of its own ─ Step, Step, … ─▶ Api::whole or Api::frames ─▶ body
//! ```
//!
//! The tools of a request are the client's: their schemas become the turn's grammar, and the calls are handed back. With
//! [`Execute`] the server runs tools of its own instead, until there is an answer.
//!
//! Invariants:
//! - An answer's form that cannot be held is refused with a JSON pointer, never answered less strictly. What else of a request is not
//!   done as it was sent is told beside the answer.
//! - Three things are kept of a conversation: what the engine's cache holds of its tokens; its system prompt and tools on disk, where the
//!   engine keeps packs; and, in memory, the responses that a client may go on from (`responses`).
//! - What a client does not read, or leaves, holds up nobody else.

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
