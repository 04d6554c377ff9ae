//! GBNF: the grammar as a value, and as text. Knows no schema, no tokens' bytes and no model.

mod ast;
mod lex;
mod source;

mod parse;
mod print;

pub(crate) mod analysis;
mod check;
mod sample;

mod interop;
mod matching;

#[cfg(test)]
mod tests;

pub use ast::{CharClass, Expr, Grammar, GrammarBuilder, Rule, RuleId, TokenMatch, TokenName};
pub use check::{Lint, Severity, Warning};
pub use matching::Match;
pub use parse::{ParseOptions, Parsed};
pub use sample::{SampleOptions, Sampler};
