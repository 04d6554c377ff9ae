//! The schema compiler from outside, a module a theme: one binary, so that the validator is compiled once.
#![allow(
    dead_code,
    clippy::box_collection,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::print_stdout,
    missing_docs,
    reason = "tests"
)]

mod cases;
mod choices;
#[path = "../common/choices.rs"]
mod choices_keyword;
mod corpus;
mod corpus_laws;
mod corpus_schema;
mod differential;
mod drawn;
mod keywords;
mod laws;
mod schemars_types;
#[path = "../../../../tests/support/skip.rs"]
mod skip;
mod ways;
