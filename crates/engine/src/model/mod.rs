//! The model: how it is shared between turns, timed on this machine and drawn from.

pub(crate) mod pool;
pub(crate) mod reasoning;
pub(crate) mod recent;
pub(crate) mod sampling;
pub(crate) mod tuning;
