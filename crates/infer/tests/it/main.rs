//! The crate from outside, on the scripted backend: one binary, a module for each part.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod close;
mod decode;
mod drafting;
mod forcing;
mod further;
mod language;
mod retry;
mod rigid;
mod sampler;
mod session;
mod weighed;
