//! Stands where `servers.rs` would, in a build without the feature `mcp`: the policy's servers are named and not offered.

use toolgate_sandbox::Root;
use toolgate_sandbox::policy::{Mode, Policy};

use super::terminal;
use crate::tools::Registry;

pub(super) fn add(_: &mut Registry, _: &Root, policy: &Policy, _: Mode) {
    for name in policy.mcp.keys() {
        terminal::note(&format!("{name} is not offered: this program was built without the feature \"mcp\""));
    }
}
