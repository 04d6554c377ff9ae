//! The policy's MCP servers on the command line: what is said of one, or of a tool, that cannot be offered.

use std::sync::Arc;

use toolgate_sandbox::Root;
use toolgate_sandbox::policy::{Mode, Policy};

use super::terminal;
use crate::mcp::{Report, Servers, Unusable};
use crate::tools::Registry;

/// Adds the tools of the policy's servers, and whatever they become.
pub(super) fn add(registry: &mut Registry, root: &Root, policy: &Policy, mode: Mode) {
    let report: Arc<Report> = Arc::new(say);
    let servers = Servers::start(policy, root, mode, &report);
    servers.sources().for_each(|source| registry.follow(source));
}

fn say(unusable: &Unusable) {
    terminal::note(&format!("{} is not offered: {}", unusable.name, unusable.why));
}
