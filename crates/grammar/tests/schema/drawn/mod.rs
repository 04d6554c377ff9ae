//! Schemas and instances drawn at random, from keywords that get in each other's way, in every draft.

mod instances;
mod random;
mod schemas;

pub(crate) use instances::instance;
pub(crate) use random::{Random, any_value};
pub(crate) use schemas::{changed, document, is_circular};
