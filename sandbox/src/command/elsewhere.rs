//! Refuses every command, on systems without a command sandbox.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::rules::Decided;
use super::{Layer, LayerState, Limits, Ran, Service, Setup};
use crate::error::{Error, Kind};
use crate::fs::Root;
use crate::policy::{Mode, Policy};
use crate::report::Enforced;

/// Confined commands; on this system there are none.
#[derive(Clone, Debug)]
pub struct Commands(std::convert::Infallible);

impl Commands {
    /// Refuses.
    ///
    /// # Errors
    /// [`Kind::Unavailable`], always.
    pub fn new(_: &Root, _: &Policy, _: Mode, _: &Setup) -> Result<Self, Error> {
        Err(Error::new(
            Kind::Unavailable,
            format!("commands are not confined on {} yet", std::env::consts::OS),
        )
        .hint("the file tools work"))
    }

    /// Refuses.
    ///
    /// # Errors
    /// [`Kind::Unavailable`], always.
    pub fn reduced(root: &Root, setup: &Setup) -> Result<Enforced, Error> {
        let policy = Policy::default_for(Mode::Intel);
        Self::new(root, &policy, Mode::Intel, setup).map(|none| match none.0 {})
    }

    /// Never called: there is no value of this type.
    pub fn decide(&self, _: &str) -> Decided {
        match self.0 {}
    }

    /// Never called: there is no value of this type.
    pub fn can_write(&self) -> bool {
        match self.0 {}
    }

    /// Never called: there is no value of this type.
    pub fn limits(&self) -> &Limits {
        match self.0 {}
    }

    /// Never called: there is no value of this type.
    ///
    /// # Errors
    /// None.
    pub fn enforced(&self) -> Result<Enforced, Error> {
        match self.0 {}
    }

    /// Never called: there is no value of this type.
    pub fn network(&self) -> Option<String> {
        match self.0 {}
    }

    /// Never called: there is no value of this type.
    pub fn reduced_since(&self) -> Option<&str> {
        match self.0 {}
    }

    /// Never called: there is no value of this type.
    ///
    /// # Errors
    /// None.
    pub fn run(&self, _: &str) -> Result<Ran, Error> {
        match self.0 {}
    }

    /// Never called: there is no value of this type.
    ///
    /// # Errors
    /// None.
    pub fn run_until(&self, _: &str, _: Arc<AtomicBool>) -> Result<Ran, Error> {
        match self.0 {}
    }

    /// Never called: there is no value of this type.
    ///
    /// # Errors
    /// None.
    pub fn serve(&self, _: &[String]) -> Result<Service, Error> {
        match self.0 {}
    }

    /// The layers of this system: none works.
    pub fn layers(_: &Root, _: &Setup) -> Vec<LayerState> {
        super::LAYERS
            .iter()
            .map(|layer: &Layer| LayerState {
                layer: *layer,
                works: false,
                required: true,
                found: format!("not on {}", std::env::consts::OS),
                remedy: None,
                without: Some("run_command is refused".into()),
            })
            .collect()
    }
}
