//! `toolgate tool serve --protocol escapes`: the tools for a suite of attacks, as its driver asks for them. Beneath it
//! stand the tool that runs any WebAssembly program and the count of special tokens; nothing else of toolgate has them.
//!
//! Invariant: what an attack reaches is the sandbox itself. No approval and no journal stands in front of it.
//!
//! For the packages of this workspace alone: the program mounts it.

#[cfg(feature = "wasm")]
mod program;
mod specials;

use std::io::{BufRead, Write};
use std::path::PathBuf;

use serde_json::{Map, Value};
use toolgate_sandbox::Root;
use toolgate_sandbox::policy::{Mode, Policy};
use toolgate_tools::{LineServer, Registry, ToolResult, Unasked};

use specials::Specials;

/// The variable of the driver that names the workspace.
const WORKSPACE_VARIABLE: &str = "ESC_WS";
/// The variable of the driver that has the bounds, as `--limits` takes them.
const LIMITS_VARIABLE: &str = "ESC_LIMITS";

/// What the command line says.
#[derive(Clone, Debug, Default)]
pub struct Setting {
    /// The workspace; else the driver's variable names it.
    pub workspace: Option<PathBuf>,
    /// The bounds, as JSON; else the driver's variable has them.
    pub limits: Option<String>,
    /// What the tools are for; else edits.
    pub mode: Option<Mode>,
    /// What becomes of calls that a person would be asked about; else they are let through, so that the sandbox is what
    /// refuses them.
    pub unasked: Option<Unasked>,
}

impl Setting {
    /// What is not said comes from the driver's variables, or is as the suite has it.
    fn or_driver(self, variable: impl Fn(&str) -> Option<std::ffi::OsString>) -> Self {
        let limits = || variable(LIMITS_VARIABLE).and_then(|text| text.into_string().ok());
        Self {
            workspace: self.workspace.or_else(|| variable(WORKSPACE_VARIABLE).map(PathBuf::from)),
            limits: self.limits.or_else(limits),
            mode: self.mode.or(Some(Mode::Edit)),
            unasked: self.unasked.or(Some(Unasked::Allow)),
        }
    }
}

/// What the program makes of a setting.
pub struct Attacked {
    /// Its tools, without an undo journal: an attack got out if anything outside the workspace is another afterwards.
    pub registry: Registry,
    /// The workspace.
    pub root: Root,
    /// What is allowed there.
    pub policy: Policy,
    /// What for.
    pub mode: Mode,
}

/// Answers the driver's requests until the input ends.
///
/// # Errors
/// Those of `open`; or where the input cannot be read or a reply cannot be written.
pub fn serve(
    given: Setting,
    open: impl FnOnce(&Setting) -> anyhow::Result<Attacked>,
    input: impl BufRead,
    out: impl Write,
) -> anyhow::Result<()> {
    let setting = given.or_driver(|name| std::env::var_os(name));
    let attacked = with_program(open(&setting)?)?;
    let specials = Specials::new()?;
    let remark = |tool: &str, result: &ToolResult| -> Map<String, Value> {
        let count = specials.count(tool, result).map(|count| ("special_tokens".to_owned(), count.into()));
        count.into_iter().collect()
    };
    let server = LineServer::new(&attacked.registry, setting.unasked.unwrap_or_default());
    Ok(server.remarking(&remark).run(input, out)?)
}

/// Adds the tool that runs any program, where components can be run.
#[cfg(feature = "wasm")]
fn with_program(mut attacked: Attacked) -> Result<Attacked, toolgate_tools::Error> {
    program::add(&mut attacked.registry, &attacked.root, &attacked.policy, attacked.mode)?;
    Ok(attacked)
}

#[cfg(not(feature = "wasm"))]
fn with_program(attacked: Attacked) -> Result<Attacked, toolgate_tools::Error> {
    Ok(attacked)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn the_command_line_counts_before_the_driver_s_variables() {
        let driver = |name: &str| Some(format!("of {name}").into());
        let setting = Setting::default().or_driver(driver);
        assert_eq!(setting.workspace, Some(PathBuf::from("of ESC_WS")));
        assert_eq!(setting.limits.as_deref(), Some("of ESC_LIMITS"));
        assert_eq!((setting.mode, setting.unasked), (Some(Mode::Edit), Some(Unasked::Allow)));
        let given = Setting {
            workspace: Some("here".into()),
            limits: Some("{}".to_owned()),
            mode: Some(Mode::Intel),
            unasked: Some(Unasked::Deny),
        };
        let setting = given.or_driver(driver);
        assert_eq!((setting.workspace.unwrap(), setting.limits.unwrap()), ("here".into(), "{}".to_owned()));
        assert_eq!((setting.mode, setting.unasked), (Some(Mode::Intel), Some(Unasked::Deny)));
    }
}
