//! llama.cpp with real files: one binary, a module for each part. Tests that need weights look for `<id>.gguf` in the
//! directory `TOOLGATE_MODELS`, and skip where it is not there.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "tests"
)]

mod adapters;
mod backend;
mod canonical;
mod differential;
mod files;
mod forcing;
mod gguf;
mod grammars;
#[path = "../../../../tests/support/skip.rs"]
mod skip;
mod slots;
mod summaries;
mod support;
mod untrained;
mod vocabularies;
