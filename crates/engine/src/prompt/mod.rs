//! Prompts: how much fits, and which beginnings are kept for the next.

pub(crate) mod disk_cache;
pub(crate) mod room;
pub(crate) mod underway;
