//! GBNF: the grammar as a value, and as text. Knows no schema and no model; `matching` alone runs the engine.
//!
//! ```text
//! text ─ parse ─▶ Grammar ─ print ─▶ text
//!                    ├─ check ─▶ warnings     with line and column, if the text is kept: Parsed
//!                    ├─ sample ─▶ random texts
//!                    ├─ matching ─▶ where a text stops, and what could have come there
//!                    ├─ triggers ─▶ free text with parts of other rules in it
//!                    └─ interop ◀─▶ the types of the `gbnf` crate
//! ```

mod ast;
mod lex;
mod names;
mod source;

mod parse;
mod print;

pub(crate) mod analysis;
mod check;
mod sample;

mod find;
mod interop;
mod matching;
mod triggers;

#[cfg(test)]
mod tests;

pub use ast::{CharClass, Expr, Grammar, GrammarBuilder, Rule, RuleId, TokenMatch, TokenName};
pub use check::{Lint, Severity, Warning};
pub use matching::Match;
pub use parse::{ParseOptions, Parsed};
pub use sample::{SampleOptions, Sampler};
pub use triggers::{After, Hidden, Marker, Trigger, Triggers};
