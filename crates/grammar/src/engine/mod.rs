//! Runs a grammar over a token vocabulary: the last stage of this crate. Knows bytes and tokens; no JSON, no
//! model.
//!
//! ```text
//! tokens, stop
//!   └ vocabulary (characters, trie, tokenizer_json): what a model can write
//! Grammar ─ flat, lower (order, shorten) ─▶ Program (a network over byte classes)
//!   └ frames, configuration: sets of stacks, and what was found out about them
//!       └ machine: hash-consed; closure, steps: transitions computed once; renew: what a fresh machine takes over
//!           └ mask (relative, signature, uniform, walk): token sets; kept and shared hold them, for one grammar and for all
//!               └ automaton (shared by all runs), matcher (one run), completion, cover, budget
//! ```
//!
//! The modules stand in groups; none imports from a group below its own, and no two import each other by any way.
//!
//! Invariant: [`Matcher::mask`], [`Matcher::allows`] and [`Matcher::accept`] agree on every token, and never
//! allow a token after which the grammar cannot be completed.

mod stop;
mod tokens;
mod ways;

mod arena;
mod meter;
mod seen;

mod characters;
mod trie;
mod vocabulary;

mod tokenizer_json;

mod classes;
mod flat;
mod lower;
mod order;
mod program;
mod shorten;

mod configuration;
mod expansion;
mod frames;

mod kept;
mod shared;
mod slice;
mod text;

mod closure;
mod machine;
mod renew;
mod steps;

mod mask;
mod relative;
mod signature;
mod uniform;
mod walk;

mod automaton;
mod budget;
mod completion;
mod cover;
mod matcher;

#[cfg(test)]
mod tests;

pub use automaton::{Automaton, Usage};
pub use budget::Budgeted;
pub use matcher::Matcher;
pub use tokens::{TokenId, TokenKind, TokenSet};
pub use vocabulary::Vocabulary;
pub use ways::{Way, Ways};
