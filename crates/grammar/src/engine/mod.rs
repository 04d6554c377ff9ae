//! Runs a grammar over a token vocabulary: the last stage of this crate. Knows bytes and tokens; no JSON, no
//! model.
//!
//! ```text
//! Grammar ─ flat, lower, shorten ─▶ Program (a network over byte classes)
//!                            └ machine, closure, expansion: sets of stacks, hash-consed; transitions computed once; renew: what
//!                                a fresh machine takes over from a full one
//!                                └ mask, relative, signature: token sets, shared between configurations and grammars
//!                                    └ automaton (shared), matcher (one run), completion, budget
//! ```
//!
//! Invariant: [`Matcher::mask`], [`Matcher::allows`] and [`Matcher::accept`] agree on every token, and never
//! allow a token after which the grammar cannot be completed.

mod arena;
mod automaton;
mod budget;
mod classes;
mod closure;
mod completion;
mod expansion;
mod flat;
mod kept;
mod lower;
mod machine;
mod mask;
mod matcher;
mod meter;
mod relative;
mod renew;
mod shorten;
mod signature;
mod slice;
mod trie;
mod uniform;
mod vocabulary;
mod walk;

#[cfg(test)]
mod tests;

pub use automaton::{Automaton, Usage};
pub use budget::Budgeted;
pub use matcher::Matcher;
pub use vocabulary::{TokenId, TokenKind, TokenSet, Vocabulary};
