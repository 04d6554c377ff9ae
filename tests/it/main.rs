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
mod at_once;
#[cfg(unix)]
mod certify;
mod chat;
mod cli;
#[cfg(feature = "serve")]
mod clients;
#[cfg(feature = "wasm")]
mod components;
mod examples;
mod forced;
mod invented;
#[cfg(unix)]
#[path = "../support/lifeline.rs"]
mod lifeline;
mod long;
#[cfg(feature = "mcp")]
mod mcp;
mod model_server;
mod models;
mod narrow;
mod packs;
#[cfg(unix)]
mod question;
mod remote;
#[cfg(target_os = "linux")]
mod replaced;
#[cfg(feature = "serve")]
mod serve;
#[path = "../support/skip.rs"]
mod skip;
mod skipping;
mod think;
mod thinker;
mod thoughts;
mod tidy;
mod tools;
mod trace;
mod turns;
#[cfg(unix)]
mod undo;
#[path = "../../crates/llama/tests/it/vocabularies.rs"]
mod vocabularies;
mod watched;
