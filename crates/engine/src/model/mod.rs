//! The model: how it is loaded, shared between turns, timed on this machine and drawn from.

#[cfg(feature = "llama")]
pub(crate) mod load;
pub(crate) mod pool;
pub(crate) mod recent;
pub(crate) mod sampling;
pub(crate) mod tuning;
