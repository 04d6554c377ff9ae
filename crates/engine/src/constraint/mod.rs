//! What a turn is held to: the automata of its grammars while it is written, and checks once it is whole.

pub(crate) mod automata;
pub(crate) mod check;
