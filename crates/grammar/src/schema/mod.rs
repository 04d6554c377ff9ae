//! First stage: JSON Schema text to a normal form. (Interface stub.)
use crate::Error;

/// A schema in normal form, with the JSON pointer of every part.
#[derive(Clone, Debug)]
pub struct Schema {}
impl Schema {
    /// # Errors
    /// `Kind::InvalidSchema`, `Kind::Unsupported`, each with its JSON pointer.
    pub fn parse(_schema: &serde_json::Value) -> Result<Self, Error> { unimplemented!() }
}
