//! Makes tools of the WebAssembly components that a policy names.

use std::sync::Arc;

use serde_json::Value;
use toolgate_chat::ToolSpec;
use toolgate_sandbox::policy::{Mode, Policy, WasmTool};
use toolgate_sandbox::wasm::{Bound, Component, Components, Directory, End, Limits, Reach};
use toolgate_sandbox::{Grants, Root, output};

use super::result::{not_called, shown};
use super::{Args, Effect, Status, Tool, ToolResult};
use crate::Error;

/// Milliseconds for a component to describe itself.
const DESCRIBE_MS: u64 = 5_000;

/// A component of `wit/tool.wit` as a tool. The policy gives its name and its grants.
pub struct ComponentTool {
    spec: ToolSpec,
    components: Arc<Components>,
    component: Component,
    root: Root,
    grants: Grants,
    directories: Vec<Directory>,
    limits: Limits,
    asks: bool,
}

impl ComponentTool {
    /// Loads the tool `name` of `policy` from the bytes of its component. The component is compiled and asked
    /// for its description.
    ///
    /// # Errors
    /// A digest other than the pinned one. A module that is no tool, or that describes itself too slowly. A
    /// directory without a grant, a network, and a definition that cannot be used.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use toolgate_tools::{ComponentTool, Registry};
    /// use toolgate_sandbox::policy::{Mode, Policy};
    /// use toolgate_sandbox::wasm::{Components, Setup};
    /// use toolgate_sandbox::{Root, ambient_authority};
    ///
    /// let policy = Policy::parse(r#"
    ///     version = 1
    ///     tier = "read"
    ///     [wasm.calculator]
    ///     component = "../../sandbox/components/calculator.wasm"
    /// "#)?;
    /// let root = Root::open(".", ambient_authority())?;
    /// let components = Arc::new(Components::new(&Setup::default(), Some(&root))?);
    /// let mut tools = Registry::new();
    /// for (name, tool) in &policy.wasm {
    ///     let module = std::fs::read(&tool.component)?;
    ///     tools.add(ComponentTool::load(&components, name, tool, module, &root, &policy, Mode::Intel)?)?;
    /// }
    /// assert_eq!(tools.call_json("calculator", r#"{"expression": "0.1 + 0.2"}"#).content, "0.3");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn load(
        components: &Arc<Components>,
        name: &str,
        tool: &WasmTool,
        module: Vec<u8>,
        root: &Root,
        policy: &Policy,
        mode: Mode,
    ) -> Result<Self, Error> {
        if !tool.net.is_empty() {
            return Err(Error::input(
                "components get no network; write net = [] in its section of the policy",
            ));
        }
        let component = components.load(module, tool.sha256.as_deref(), None)?;
        let limits = Limits::of(tool, &policy.limits);
        let describing = limits.clone().wall_ms(limits.wall_ms.min(DESCRIBE_MS));
        let described = components.describe(&component, &describing)?;
        let parameters: Value = serde_json::from_str(&described.parameters)
            .map_err(|why| Error::input(format!("its schema is not JSON: {why}")))?;
        let description = output::for_model(described.description.as_bytes(), MAX_DESCRIPTION_BYTES).text;
        let spec = ToolSpec::new(name, description, parameters)?;
        let (grants, directories) = (policy.grants(mode), Directory::of(tool));
        components.check_reach(&Reach { root, grants: &grants, directories: &directories })?;
        let (components, root, asks) = (Arc::clone(components), root.clone(), policy.asks(name));
        Ok(Self { spec, components, component, root, grants, directories, limits, asks })
    }
}

/// Bytes of a description at most, since every prompt holds it.
const MAX_DESCRIPTION_BYTES: usize = 2_000;

impl Tool for ComponentTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn origin(&self) -> String {
        "WebAssembly component".to_owned()
    }

    fn defies_undo(&self) -> bool {
        self.effect() != Effect::Reads
    }

    fn effect(&self) -> Effect {
        let writes = self.grants.can_write() && self.directories.iter().any(|directory| directory.write);
        if writes { Effect::Unknown } else { Effect::Reads }
    }

    fn needs_approval(&self) -> bool {
        self.asks
    }

    fn call(&self, args: &Args) -> ToolResult {
        let reach = Reach { root: &self.root, grants: &self.grants, directories: &self.directories };
        let arguments = Value::Object(args.as_map().clone()).to_string();
        let answer = match self.components.call(&self.component, &reach, &self.limits, arguments) {
            Ok(answer) => answer,
            Err(error) => return not_called(&error),
        };
        let status = match (&answer.result, &answer.end) {
            (Ok(_), _) => Status::Ok,
            (Err(_), Some(End::Stopped(_))) => Status::Limit,
            (Err(_), _) => ended_badly(answer.refused.as_deref(), &answer.reached),
        };
        shown(status, answer.content().as_bytes(), self.limits.output_kb, answer.enforced)
    }
}

/// The status of a call that failed by itself. A refusal or a bound may be the cause.
#[doc(hidden)]
pub fn ended_badly(refused: Option<&str>, reached: &[Bound]) -> Status {
    match (refused, reached) {
        (_, [_, ..]) => Status::Limit,
        (Some(_), []) => Status::Denied,
        (None, []) => Status::Failed,
    }
}
