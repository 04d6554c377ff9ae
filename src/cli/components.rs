//! The policy's WebAssembly tools on the command line: where their files lie, where compiled code is kept, and what is
//! said of one that cannot be offered.

use std::path::Path;
use std::sync::Arc;

use toolgate_grammar::{self as grammar, compile};
use toolgate_sandbox::policy::{Mode, Policy, Tier, WasmTool};
use toolgate_sandbox::wasm::{Components, ENGINE, MAX_MODULE_BYTES, Setup, read_module};
use toolgate_sandbox::{Root, ambient_authority};

use super::terminal;
use crate::tools::{ComponentTool, Error, Registry, Tool as _};

/// What a run's components have in common.
struct Ground<'a> {
    components: Arc<Components>,
    root: &'a Root,
    policy: &'a Policy,
    mode: Mode,
    /// The directory of the policy file, which their paths start from.
    beside: &'a Path,
}

/// Adds the policy's components, each under its name there; files are looked for beside the policy. One that cannot be
/// used is left out with the reason, and the others stay.
pub(super) fn add(registry: &mut Registry, root: &Root, policy: &Policy, mode: Mode, beside: &Path) {
    if policy.wasm.is_empty() {
        return;
    }
    let ground = engine(root).map(|components| {
        let components = Arc::new(components);
        Ground { components, root, policy, mode, beside }
    });
    for (name, tool) in &policy.wasm {
        let added = match &ground {
            _ if policy.tier == Tier::Off => Err(Error::input("the policy's tier is off")),
            Ok(ground) => ground.tool(name, tool).and_then(|tool| registry.add(tool)),
            Err(why) => Err(Error::input(why.to_string())),
        };
        if let Err(why) = added {
            terminal::note(&format!("{name} is not offered: {why}"));
        }
    }
}

impl Ground<'_> {
    fn tool(&self, name: &str, tool: &WasmTool) -> Result<ComponentTool, Error> {
        let module = read_module(self.beside.join(&tool.component), MAX_MODULE_BYTES, ambient_authority())?;
        let tool =
            ComponentTool::load(&self.components, name, tool, module, self.root, self.policy, self.mode)?;
        // A schema that has no grammar would end every turn; so it costs this tool only.
        let schema = toolgate_chat::read_schema(&tool.spec().closed_parameters())?;
        compile(&schema, &grammar::Options::default())?;
        Ok(tool)
    }
}

/// The engine, with compiled code kept in the user's cache directory unless that is within reach of the workspace.
fn engine(root: &Root) -> Result<Components, Error> {
    let cache = directories::BaseDirs::new().map(|dirs| dirs.cache_dir().join("toolgate").join("components"));
    Ok(Components::new(&Setup::default().cache(cache), Some(root))?)
}

/// The engine's name if components can be called here, or why they cannot.
pub(super) fn tried(root: &Root) -> Result<String, Error> {
    engine(root)?.check()?;
    Ok(ENGINE.to_owned())
}
