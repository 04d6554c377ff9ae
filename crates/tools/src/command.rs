//! `run_command` as a tool: a shell command in the sandbox's command tier.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use toolgate_chat::{ToolCall, ToolSpec};
use toolgate_infer::Cancel;
use toolgate_sandbox::command::{Commands, End};
use toolgate_sandbox::policy::{Decision, Policy};

use super::result::{not_called, shown};
use super::{Args, Effect, Role, Status, Tool, ToolResult};
use crate::Error;

#[derive(Deserialize, JsonSchema)]
struct RunCommand {
    /// The command line, for the shell. It runs in the workspace, without a network and without a terminal.
    command: String,
}

/// The same where commands have a network.
#[derive(Deserialize, JsonSchema)]
struct RunCommandOnline {
    /// The command line, for the shell. It runs in the workspace, without a terminal.
    #[expect(dead_code, reason = "its schema is what counts")]
    command: String,
}

/// The name of the tool.
pub const RUN_COMMAND: &str = "run_command";

/// A shell command as a tool.
///
/// ```no_run
/// use toolgate_tools::{CommandTool, Registry};
/// use toolgate_sandbox::command::{Commands, Setup, enter_stage_if_asked};
/// use toolgate_sandbox::policy::{Mode, Policy};
/// use toolgate_sandbox::{Root, ambient_authority};
///
/// // First in `main`: confined commands begin as this program again.
/// enter_stage_if_asked();
/// let (policy, root) = (Policy::default_for(Mode::Intel), Root::open(".", ambient_authority())?);
/// let commands = Commands::new(&root, &policy, Mode::Intel, &Setup::default())?;
/// let mut tools = Registry::new();
/// tools.add(CommandTool::new(commands, &policy)?)?;
/// assert_eq!(tools.call_json("run_command", r#"{"command": "echo hello"}"#).content, "hello\n");
/// # Ok::<(), toolgate_tools::Error>(())
/// ```
pub struct CommandTool {
    spec: ToolSpec,
    commands: Commands,
    asks: bool,
}

impl CommandTool {
    /// The tool over `commands`, asking as `policy` says.
    ///
    /// # Errors
    /// None that input could cause; the definition is checked like any other.
    pub fn new(commands: Commands, policy: &Policy) -> Result<Self, Error> {
        let description = if commands.can_write() {
            "Run a shell command in the workspace and return its output."
        } else {
            "Run a shell command in the workspace, which it can read but not change, and return its output."
        };
        let spec = match commands.network() {
            None => ToolSpec::of::<RunCommand>(RUN_COMMAND, description)?,
            Some(hosts) => {
                let description = format!("{description} It can reach {hosts} over https, and nothing else.");
                ToolSpec::of::<RunCommandOnline>(RUN_COMMAND, &description)?
            }
        };
        let spec = spec.with_example("Run the command delta", json!({"command": "delta"}));
        Ok(Self { spec, commands, asks: policy.asks(RUN_COMMAND) })
    }
}

impl Tool for CommandTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn effect(&self) -> Effect {
        if self.commands.can_write() { Effect::Changes } else { Effect::Reads }
    }

    fn defies_undo(&self) -> bool {
        self.commands.can_write()
    }

    fn origin(&self) -> String {
        self.commands.network().map(|hosts| format!("commands that can reach {hosts}")).unwrap_or_default()
    }

    fn needs_approval(&self) -> bool {
        self.asks
    }

    fn needs_approval_of(&self, call: &ToolCall) -> bool {
        let command = call.arguments.get("command").and_then(serde_json::Value::as_str).unwrap_or_default();
        self.asks || self.commands.decide(command).decision == Decision::Ask
    }

    fn role(&self) -> Role {
        Role::Commands("command")
    }

    fn call(&self, args: &Args) -> ToolResult {
        self.call_until(args, &Cancel::default())
    }

    fn call_until(&self, args: &Args, cancel: &Cancel) -> ToolResult {
        let RunCommand { command } = match args.parse() {
            Ok(arguments) => arguments,
            Err(why) => return ToolResult::failed(format!("the arguments do not fit: {why}")),
        };
        let ran = match self.commands.run_until(&command, cancel.flag()) {
            Ok(ran) => ran,
            Err(error) => return not_called(&error),
        };
        let status = match ran.end {
            End::Exited(0) => Status::Ok,
            End::Exited(_) => Status::Failed,
            _ => Status::Limit,
        };
        let (data, output_kb) = (serde_json::to_value(&ran).ok(), self.commands.limits().output_kb);
        let content = ran.content();
        let result = shown(status, &content, output_kb, ran.enforced);
        let lines = |bytes: &[u8]| bytes.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).count();
        let truncated = result.truncated || ran.truncated;
        result.notes(lines(&content).saturating_sub(lines(&ran.output))).truncated(truncated).data(data)
    }
}
