//! Beneath the escape suite: the tool `wasm`, which runs any WebAssembly program under the sandbox.

use schemars::JsonSchema;
use serde::Deserialize;
use toolgate_chat::ToolSpec;
use toolgate_sandbox::policy::{Mode, Policy};
use toolgate_sandbox::wasm::{
    Components, Directory, End, Limits, MAX_MODULE_BYTES, Reach, Setup, read_module,
};
use toolgate_sandbox::{Grants, Kind, Root, ambient_authority};
use toolgate_tools::{Args, Effect, Error, Registry, Status, Tool, ToolResult};
use toolgate_tools::{ended_badly, not_called, shown};

/// Adds the tool. Nothing is kept on disk: whoever drives this may look at what is left behind.
pub(super) fn add(registry: &mut Registry, root: &Root, policy: &Policy, mode: Mode) -> Result<(), Error> {
    let components = Components::new(&Setup::default(), Some(root))?;
    registry.add(ProgramTool::new(components, root, policy.grants(mode), Limits::from(&policy.limits))?)
}

#[derive(Deserialize, JsonSchema)]
struct Program {
    /// The module's file; `.p2.wasm` or `.p1.wasm` is appended if it has no ending.
    module: String,
    /// Its arguments.
    #[serde(default)]
    args: Vec<String>,
    /// Its standard input.
    #[serde(default)]
    stdin: String,
    /// The directories it sees.
    #[serde(default)]
    dirs: Vec<ProgramDirectory>,
}

#[derive(Deserialize, JsonSchema)]
struct ProgramDirectory {
    /// Its path in the workspace.
    host: String,
    /// Its path for the program.
    guest: String,
    /// Whether it may be written.
    #[serde(default)]
    write: bool,
}

/// Any WebAssembly program, named by the call. A person trusts the test driver to choose the file; no model is ever
/// offered it.
struct ProgramTool {
    spec: ToolSpec,
    components: Components,
    root: Root,
    grants: Grants,
    limits: Limits,
}

impl ProgramTool {
    fn new(components: Components, root: &Root, grants: Grants, limits: Limits) -> Result<Self, Error> {
        let spec = ToolSpec::of::<Program>("wasm", "Run a WebAssembly program.")?;
        Ok(Self { spec, components, root: root.clone(), grants, limits })
    }

    fn run(&self, program: Program) -> Result<ToolResult, toolgate_sandbox::Error> {
        let module = read(&program.module)?;
        // What compiling takes counts like the call itself, so that both together end within twice the bound.
        let component = self.components.load(module, None, Some(self.limits.wall_ms))?;
        let directory =
            |dir: ProgramDirectory| Directory { host: dir.host, guest: dir.guest, write: dir.write };
        let directories: Vec<_> = program.dirs.into_iter().map(directory).collect();
        let reach = Reach { root: &self.root, grants: &self.grants, directories: &directories };
        let args: Vec<String> = std::iter::once("program".to_owned()).chain(program.args).collect();
        let ran = self.components.run(&component, &reach, &self.limits, &args, program.stdin.into_bytes())?;
        let status = match ran.end {
            End::Exited(0) => Status::Ok,
            End::Stopped(_) => Status::Limit,
            _ => ended_badly(ran.refused.as_deref(), &ran.reached),
        };
        let data = serde_json::to_value(&ran).ok();
        let mut result = shown(status, &ran.content(), self.limits.output_kb, ran.enforced);
        result.truncated |= ran.truncated;
        result.data = data;
        Ok(result)
    }
}

/// The module at `path`, with the first ending that leads to a file.
fn read(path: &str) -> Result<Vec<u8>, toolgate_sandbox::Error> {
    let read = |path: &str| read_module(path, MAX_MODULE_BYTES, ambient_authority());
    if path.ends_with(".wasm") {
        return read(path);
    }
    match read(&format!("{path}.p2.wasm")) {
        Err(error) if error.kind() == Kind::NotFound => read(&format!("{path}.p1.wasm")),
        module => module,
    }
}

impl Tool for ProgramTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn defies_undo(&self) -> bool {
        true
    }

    fn effect(&self) -> Effect {
        Effect::Unknown
    }

    fn call(&self, args: &Args) -> ToolResult {
        match args.parse().map(|program| self.run(program)) {
            Ok(Ok(result)) => result,
            Ok(Err(error)) => not_called(&error),
            Err(why) => ToolResult::failed(format!("the arguments do not fit: {why}")),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_program_of_either_form_says_what_it_is_given() {
        let root = Root::open(".", ambient_authority()).unwrap();
        let mut tools = Registry::new();
        add(&mut tools, &root, &Policy::default_for(Mode::Intel), Mode::Intel).unwrap();
        for ending in ["", ".p1.wasm", ".p2.wasm"] {
            let call = format!(
                r#"{{"module": "../../sandbox/tests/guests/probe{ending}", "args": ["say", "hello"]}}"#
            );
            assert_eq!(tools.call_json("wasm", &call).content, "hello\n");
        }
        assert_eq!(tools.call_json("wasm", r#"{"module": "no/such"}"#).status, Status::Failed);
    }
}
