//! `toolgate tool`: list the tools with their schemas, run one under the policy, or serve them.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use clap::{Args, Subcommand, ValueEnum};
use toolgate_sandbox::command::{Commands, Setup};
use toolgate_sandbox::policy::{Mode, Policy, ProcessLimits, Tier};
use toolgate_sandbox::{Root, ambient_authority};

use super::exit::Exit;
use super::{components, servers, state, terminal, tool_serve, undo};
use crate::memory::Memory;
use crate::tools::{CommandTool, Effect, Registry, Status, Tool as _, Unasked, file_tools, memory_tools};
use crate::undo::Journal;

const EXAMPLES: &str = "\
Examples:
  toolgate tool list
  toolgate tool list --mode edit --json
  toolgate tool call read_file '{\"path\": \"README.md\", \"max_lines\": 5}'
  toolgate tool call write_file '{\"path\": \"a.txt\", \"content\": \"hello\"}' --mode edit
  echo '{\"id\": 1, \"tool\": \"read_file\", \"params\": {\"path\": \"README.md\"}}' | toolgate tool serve";

/// Arguments of `toolgate tool`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ToolArgs {
    #[command(subcommand)]
    command: ToolCommand,
}

#[derive(Subcommand)]
enum ToolCommand {
    /// List the tools the policy grants, with their parameters.
    List {
        #[command(flatten)]
        workspace: Workspace,
        /// Print the definitions in OpenAI form.
        #[arg(long)]
        json: bool,
    },
    /// Run one tool and print its result as JSON; exit code 0 ok, 1 failed or limit, 3 denied.
    Call {
        /// The tool.
        name: String,
        /// Its arguments: a JSON object, or `-` to read one from standard input.
        arguments: String,
        #[command(flatten)]
        workspace: Workspace,
    },
    /// Answer requests on standard input, a JSON object a line, until it ends.
    Serve(tool_serve::ServeArgs),
}

/// Where tools work and what they may do there.
#[derive(Args, Clone)]
pub(super) struct Workspace {
    /// The directory the tools see; nothing outside it [default: the policy's, or the current directory].
    #[arg(long, value_name = "DIR")]
    pub(super) workspace: Option<PathBuf>,
    /// intel: nothing is written. edit: files may be written [default: intel].
    #[arg(long, value_enum)]
    pub(super) mode: Option<ModeArg>,
    /// A policy file that says what is granted.
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Keep what is remembered in this file [default: forgotten when the program ends].
    #[arg(long, value_name = "FILE")]
    db: Option<PathBuf>,
}

impl Workspace {
    /// That directory, under the mode's default policy, with a memory that is forgotten.
    #[cfg(any(feature = "lab", feature = "mcp"))]
    pub(super) fn of(directory: &Path, mode: Mode) -> Self {
        let mode = match mode {
            Mode::Intel => ModeArg::Intel,
            Mode::Edit => ModeArg::Edit,
        };
        Self { workspace: Some(directory.to_owned()), mode: Some(mode), policy: None, db: None }
    }

    /// The same with that directory and that mode, each where it is given.
    #[cfg(feature = "lab")]
    pub(super) fn at(&self, directory: Option<PathBuf>, mode: Option<Mode>) -> Self {
        let mode = mode.and_then(|mode| Self::of(Path::new(""), mode).mode).or(self.mode);
        Self { workspace: directory.or_else(|| self.workspace.clone()), mode, ..self.clone() }
    }

    /// The same place in another mode.
    #[cfg(feature = "mcp")]
    pub(super) fn in_mode(&self, mode: Mode) -> Self {
        Self { mode: Self::of(Path::new(""), mode).mode, ..self.clone() }
    }

    /// Whether what is remembered is kept in a file.
    pub(super) fn keeps_memory(&self) -> bool {
        self.db.is_some()
    }

    /// What is remembered: in its file, or until the program ends.
    pub(super) fn memory(&self) -> Result<Memory, crate::tools::Error> {
        match &self.db {
            None => Memory::in_process(),
            Some(file) => {
                state::keep_private(file)
                    .map_err(|why| crate::tools::Error::input(why.to_string()).context(file.display()))?;
                Memory::open(file)
            }
        }
    }
}

/// The modes, as a person names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ModeArg {
    Intel,
    Edit,
}

impl From<ModeArg> for Mode {
    fn from(argument: ModeArg) -> Self {
        match argument {
            ModeArg::Intel => Self::Intel,
            ModeArg::Edit => Self::Edit,
        }
    }
}

/// What becomes of calls that the policy has a person asked about, where nobody can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum UnaskedArg {
    /// Let every call through that the policy lets through.
    Auto,
    /// Deny them.
    Never,
}

impl From<UnaskedArg> for Unasked {
    fn from(argument: UnaskedArg) -> Self {
        match argument {
            UnaskedArg::Auto => Self::Allow,
            UnaskedArg::Never => Self::Deny,
        }
    }
}

/// The name of a workspace's own policy file, which may only narrow what is granted.
const WORKSPACE_POLICY: &str = ".toolgate.toml";

/// The built-in tools over a workspace with its memory, under the tighter of the policy's bounds and `limits`.
pub(super) fn registry(args: &Workspace, limits: &ProcessLimits) -> anyhow::Result<Registry> {
    registry_with(args, limits, args.memory()?, None)
}

/// [`registry`] with the memory given, and a journal that keeps what the tools replace.
pub(super) fn registry_with(
    args: &Workspace,
    limits: &ProcessLimits,
    memory: impl Into<Arc<Memory>>,
    journal: Option<&Arc<Journal>>,
) -> anyhow::Result<Registry> {
    let (bare, policy, mode) = ground(args, limits)?;
    let journal = journal.filter(|_| mode == Mode::Edit);
    let root = journal.map_or(bare.clone(), |journal| journal.keep(&bare));
    let mut command = command_tool(&root, &policy, mode)?;
    let mut registry = Registry::new();
    for tool in file_tools(&root, &policy, mode)? {
        // What looks comes first, then commands, then what writes.
        if tool.effect() != Effect::Reads
            && let Some(command) = command.take()
        {
            registry.add(command)?;
        }
        registry.add(tool)?;
    }
    if let Some(command) = command {
        registry.add(command)?;
    }
    for tool in memory_tools(&memory.into())? {
        registry.add_boxed(tool)?;
    }
    let beside = args.policy.as_deref().and_then(Path::parent).unwrap_or(Path::new("."));
    components::add(&mut registry, &root, &policy, mode, beside);
    servers::add(&mut registry, &root, &policy, mode);
    let registry = registry.under(format!("{mode:?} {policy:?}"));
    Ok(match journal.cloned() {
        None => registry,
        Some(journal) => registry.telling(Arc::new(move |call| journal.note(&bare, &undo::shown(call)))),
    })
}

/// What a run of these arguments is for.
pub(super) fn mode(args: &Workspace) -> Mode {
    args.mode.unwrap_or(ModeArg::Intel).into()
}

/// The workspace, what is allowed there under the tighter of the policy's bounds and `limits`, and what for.
pub(super) fn ground(args: &Workspace, limits: &ProcessLimits) -> anyhow::Result<(Root, Policy, Mode)> {
    let mode = mode(args);
    let given = match &args.policy {
        None => Policy::default_for(mode),
        Some(file) => policy(file)?,
    };
    let directory = match (&args.workspace, &given.workspace) {
        (Some(directory), _) => directory.clone(),
        (None, Some(directory)) => PathBuf::from(directory),
        (None, None) => PathBuf::from("."),
    };
    let root = open(&directory)?;
    root.check_open().map_err(crate::Error::from)?;
    let own = directory.join(WORKSPACE_POLICY);
    let policy = if own.exists() { given.narrow(&policy(&own)?) } else { given };
    let policy = policy.limited(limits);
    if policy.grants(mode).can_write() {
        root.check_writable().map_err(crate::Error::from)?;
    }
    Ok((root, policy, mode))
}

/// Opens a workspace, which stays closed where an earlier run had to close it.
pub(super) fn open(directory: &Path) -> anyhow::Result<Root> {
    let root = Root::open(directory, ambient_authority()).map_err(crate::Error::from)?;
    Ok(match state::directory() {
        Some(state) => root.remembering(&state.join("closed")).map_err(crate::Error::from)?,
        None => root,
    })
}

/// `run_command`, if the policy grants it and this machine can confine it.
fn command_tool(root: &Root, policy: &Policy, mode: Mode) -> anyhow::Result<Option<CommandTool>> {
    if policy.tier < Tier::Exec {
        return Ok(None);
    }
    match Commands::new(root, policy, mode, &Setup::default()) {
        Ok(commands) => {
            if let Some(why) = commands.reduced_since() {
                terminal::note(&format!("run_command is confined by the reduced tier only: {why}"));
            }
            Ok(Some(CommandTool::new(commands, policy)?))
        }
        Err(why) => {
            // The other tools work without it; whoever misses it learns why it is not there.
            terminal::note(&format!("run_command is not offered: {why}"));
            Ok(None)
        }
    }
}

fn policy(file: &Path) -> anyhow::Result<Policy> {
    let place = file.display();
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {place}"))?;
    Ok(Policy::parse(&text).map_err(|error| crate::Error::from(error).context(place))?)
}

/// Runs it.
pub(super) fn run(args: ToolArgs, out: &mut dyn Write) -> anyhow::Result<Exit> {
    match args.command {
        ToolCommand::List { workspace, json } => {
            list(&registry(&workspace, &ProcessLimits::default())?, json, out)
        }
        ToolCommand::Call { name, arguments, workspace } => {
            let arguments = if arguments == "-" {
                std::io::read_to_string(std::io::stdin()).context("standard input is not UTF-8 text")?
            } else {
                arguments
            };
            let journal = undo::journal(&workspace)?;
            if let Some(journal) = &journal {
                journal.begin(&format!("tool call {name}"));
            }
            let memory = workspace.memory()?;
            let registry = registry_with(&workspace, &ProcessLimits::default(), memory, journal.as_ref())?;
            // Nobody is asked: whoever types a call has said what they want. What the policy forbids stays forbidden.
            let result = registry.call_json(&name, &arguments);
            serde_json::to_writer(&mut *out, &result)?;
            writeln!(out)?;
            Ok(match result.status {
                Status::Ok => Exit::Done,
                Status::Failed | Status::Limit => Exit::Failed,
                Status::Denied => Exit::Refused,
            })
        }
        ToolCommand::Serve(args) => tool_serve::run(args, out),
    }
}

fn list(registry: &Registry, json: bool, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let specs = registry.specs();
    if json {
        let definitions: Vec<_> = specs.iter().map(|spec| spec.to_openai()).collect();
        serde_json::to_writer_pretty(&mut *out, &definitions)?;
        writeln!(out)?;
        return Ok(Exit::Done);
    }
    for spec in &specs {
        writeln!(out, "{}  {}", spec.name, spec.description)?;
        let required: Vec<_> = spec
            .parameters
            .get("required")
            .and_then(|r| r.as_array())
            .map(|names| names.iter().filter_map(|name| name.as_str()).collect())
            .unwrap_or_default();
        let properties = spec.parameters.get("properties").and_then(|p| p.as_object());
        for (name, schema) in properties.into_iter().flatten() {
            let optional = if required.contains(&name.as_str()) { "" } else { "?" };
            let description = schema.get("description").and_then(|d| d.as_str()).unwrap_or_default();
            writeln!(out, "    {:<16} {description}", format!("{name}{optional}"))?;
        }
    }
    Ok(Exit::Done)
}
