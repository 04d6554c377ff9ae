//! Integration tests of the root package: one binary, a module per theme.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "tests"
)]

mod agent;
mod cli;
#[cfg(feature = "wasm")]
mod components;
mod forced;
mod models;
mod narrow;
mod tidy;
mod tools;
mod turns;
#[path = "../../crates/llama/tests/it/vocabularies.rs"]
mod vocabularies;
