//! What is fuzzed: each target takes bytes, does something with them and panics if a law is broken. Called by
//! `cargo fuzz` (the wrappers in `fuzz/`) and by the time-boxed test beside this folder.

mod agreement;
mod automaton;
mod gbnf;
pub(crate) mod generate;
mod reference;

pub(crate) use agreement::{agreement, walk as walk_masks};
pub(crate) use automaton::{automaton, walk as walk_beside_reference};
pub(crate) use gbnf::gbnf;
