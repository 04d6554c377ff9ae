//! Tests of GBNF as text: what is read, what is refused and how it says so, and the laws between the stages.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that fails may panic"
)]

mod analysis;
mod arbitrary;
mod check;
mod errors;
#[cfg(feature = "gbnf")]
mod interop;
mod laws;
mod matching;
mod syntax;
mod triggers;
