//! GBNF: the grammar as a value, and as text. Knows no schema, no tokens' bytes and no model.

mod ast;
mod lex;
mod parse;
mod print;
mod source;

pub use ast::{CharClass, Expr, Grammar, GrammarBuilder, Rule, RuleId, TokenMatch, TokenName};
pub use parse::{ParseOptions, Parsed};
