//! llama.cpp with real files: one binary, a module for each part. Tests that need weights look for `<id>.gguf` in the
//! directory `TOOLGATE_MODELS` and say so when they are skipped.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "tests"
)]

mod backend;
mod canonical;
mod differential;
mod files;
mod forcing;
mod grammars;
mod lanes;
mod support;
mod untrained;
mod vocabularies;
