//! What suits a model: the options of its turns, and the thresholds that its decisions are held against.

pub(crate) mod choice;
pub(crate) mod decision;
#[cfg(feature = "llama")]
pub(crate) mod entry;
pub(crate) mod options;
pub(crate) mod policy;
