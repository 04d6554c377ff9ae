//! The type of a command that is talked to, on systems that refuse to start one.

use super::Ran;
use crate::error::Error;

/// A command that is talked to; on this system there is none.
#[derive(Debug)]
pub struct Service(std::convert::Infallible);

impl Service {
    /// Never called: there is no value of this type.
    pub fn take_pipes(&mut self) -> Option<(std::io::PipeWriter, std::io::PipeReader)> {
        match self.0 {}
    }

    /// Never called: there is no value of this type.
    pub fn unreached(&self) -> Vec<String> {
        match self.0 {}
    }

    /// Never called: there is no value of this type.
    ///
    /// # Errors
    /// None.
    pub fn stop(self) -> Result<Ran, Error> {
        match self.0 {}
    }
}
