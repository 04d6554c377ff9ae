//! Stands where `components.rs` would, in a build without the feature `wasm`: the policy's components are named and not
//! offered.

use std::path::Path;

use toolgate_sandbox::Root;
use toolgate_sandbox::policy::{Mode, Policy};

use super::terminal;
use crate::Error;
use crate::tools::Registry;

const WHY: &str = "this program was built without the feature \"wasm\"";

pub(super) fn add(_: &mut Registry, _: &Root, policy: &Policy, _: Mode, _: &Path) {
    for name in policy.wasm.keys() {
        terminal::note(&format!("{name} is not offered: {WHY}"));
    }
}

pub(super) fn tried(_: &Root) -> Result<String, Error> {
    Err(Error::input(WHY))
}
