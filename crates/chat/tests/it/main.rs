//! Tests of the crate through its public interface: templates, dialogues, the system prompt, and the laws of formats.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "tests"
)]

mod corpus;
mod derived;
mod dialogue;
mod fallback;
mod families;
mod laws;
mod leaked;
mod marks;
mod messages;
mod prompt;
mod random;
mod reasoning;
#[path = "../../../../tests/support/skip.rs"]
mod skip;
mod spec;
mod spoken;
mod streams;
mod support;
#[allow(dead_code, reason = "the fuzz target itself is run by its own test")]
#[path = "../fuzz/targets/mod.rs"]
mod targets;
mod thoughts;
mod values;
mod variants;
