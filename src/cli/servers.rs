//! The policy's MCP servers on the command line: what is said of one, or of a tool, that cannot be offered.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use toolgate_sandbox::Root;
use toolgate_sandbox::policy::{Mode, Policy};

use super::terminal;
use crate::mcp::{Report, Servers, Unusable};
use crate::tools::Registry;

/// Adds the tools of the policy's servers, and whatever they become.
pub(super) fn add(registry: &mut Registry, root: &Root, policy: &Policy, mode: Mode) {
    // A list that is asked for again has the same to say again.
    let said = Mutex::new(HashSet::new());
    let report: Arc<Report> = Arc::new(move |unusable: &Unusable| {
        let text = format!("{} is not offered: {}", unusable.name, unusable.why);
        if said.lock().is_ok_and(|mut said| said.insert(text.clone())) {
            terminal::note(&text);
        }
    });
    let servers = Servers::start(policy, root, mode, &report);
    servers.sources().for_each(|source| registry.follow(source));
}
