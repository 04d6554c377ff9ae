//! Tool schemas become grammars, and grammars become token masks.
//!
//! The pipeline of this crate, each arrow a value that can be printed and tested alone:
//!
//! ```text
//! JSON Schema ─ Schema::parse ─▶ Schema ─ compile ─▶ Compiled { grammar, contract }
//! GBNF text ─── Grammar::parse ─▶ Grammar ─ Automaton::new ─▶ Automaton ─ matcher() ─▶ Matcher
//! text ──────── Grammar::match_text ─▶ Match: where a text stops, and what could have come there
//! ```
//!
//! It knows JSON Schema, GBNF, bytes and token vocabularies; no model, no chat, no tool.
//!
//! ```
//! use std::sync::Arc;
//! use serde_json::json;
//! use toolgate_grammar::{Automaton, Limits, Options, Schema, Vocabulary, compile};
//! let schema = Schema::parse(&json!({"enum": ["read", "write"]}))?;
//! let grammar = compile(&schema, &Options::default())?.grammar;
//! let automaton = Automaton::new(&grammar, Arc::new(Vocabulary::bytes_only()), &Limits::default())?;
//! let mut matcher = automaton.matcher();
//! matcher.accept_bytes(b"\"w")?;
//! assert_eq!(matcher.forced()?, b"rite\"");
//! # Ok::<(), toolgate_grammar::Error>(())
//! ```

pub mod compile;
pub mod conformance;
pub mod engine;
mod error;
pub mod gbnf;
mod limits;
pub mod marks;
mod matching;
pub mod schema;
mod setters;
mod work;

pub use compile::{Compiled, Contract, Options, Undeclared, Whitespace, compile, compile_into};
pub use engine::{Automaton, Budgeted, Matcher, TokenId, TokenKind, TokenSet, Vocabulary};
pub use error::{Error, Kind, Place};
pub use gbnf::{Expr, Grammar, GrammarBuilder, RuleId};
pub use limits::Limits;
pub use matching::Match;
pub use schema::{Schema, SchemaOptions};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
