//! GBNF: the grammar as a value, and as text. Knows no schema, no engine and no model.
//!
//! ```text
//! text ─ parse ─▶ Grammar ─ print ─▶ text
//!                    ├─ check ─▶ warnings     with line and column, if the text is kept: Parsed
//!                    ├─ sample ─▶ random texts
//!                    ├─ triggers ─▶ free text with parts of other rules in it
//!                    └─ interop ◀─▶ the types of the `gbnf` crate
//! ```

mod ast;
pub(crate) mod lex;
mod names;
pub(crate) mod source;

mod groups;
mod parse;
mod print;
mod refusals;

pub(crate) mod analysis;
mod check;
mod sample;

pub(crate) mod find;
#[cfg(feature = "gbnf")]
mod interop;
mod triggers;

#[cfg(test)]
mod tests;

pub use ast::{CharClass, Expr, Grammar, GrammarBuilder, Rule, RuleId, TokenMatch, TokenName};
pub use check::{Lint, Severity, Warning};
pub use parse::{ParseOptions, Parsed};
pub use sample::{SampleOptions, Sampler};
pub use triggers::{After, Hidden, Marker, Trigger, Triggers};
