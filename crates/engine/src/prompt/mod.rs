//! Prompts: how much fits, how one is evaluated, and which beginnings are kept for the next.

pub(crate) mod disk_cache;
pub(crate) mod prefill;
pub(crate) mod room;
pub(crate) mod underway;
