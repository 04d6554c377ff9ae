//! `toolgate undo`: takes back what runs wrote to files, newest first; and where the journal of that lies.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use toolgate_chat::ToolCall;
use toolgate_sandbox::policy::ProcessLimits;
use toolgate_sandbox::{Root, ambient_authority, output};

use super::exit::Exit;
use super::state::{self, STATE_VARIABLE};
use super::terminal;
use super::tool::{self, ModeArg, Workspace};
use crate::undo::{Bounds, Journal, Run};

const EXAMPLES: &str = "\
Examples:
  toolgate undo
  toolgate undo --list
  toolgate undo --workspace ~/notes --run 12

What write_file, create_file and edit_file replace is kept outside the workspace, in TOOLGATE_STATE or toolgate in the
user's state directory: 256 MiB at most, the oldest runs are forgotten first. What commands and components change is
not known and not taken back; undo names them. A file that was changed since by something else is left as it is and
named. Exit code 1 if one was.";

/// Arguments of `toolgate undo`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct UndoArgs {
    /// The workspace.
    #[arg(long, value_name = "DIR", default_value = ".")]
    workspace: PathBuf,
    /// List the runs that can be taken back, newest first, and change nothing.
    #[arg(long)]
    list: bool,
    /// Take back this run instead of the newest.
    #[arg(long, value_name = "NUMBER", conflicts_with = "list")]
    run: Option<i64>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub(super) fn run(args: &UndoArgs, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let root = Root::open(&args.workspace, ambient_authority()).map_err(crate::Error::from)?;
    let journal = open(&root)?.context("there is no journal: see `toolgate undo --help`")?;
    if args.list {
        let runs = journal.runs(&root)?;
        if args.json {
            serde_json::to_writer(&mut *out, &runs)?;
            writeln!(out)?;
        } else {
            runs.iter().try_for_each(|run| list(run, out))?;
        }
        return Ok(Exit::Done);
    }
    take_back(&journal, &root, args.run, args.json, out)
}

/// Takes back the newest run in the workspace of these arguments.
pub(super) fn undo(workspace: &Workspace, number: Option<i64>, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let root = tool::ground(workspace, &ProcessLimits::default())?.0;
    let journal = open(&root)?.context("there is no journal: see `toolgate undo --help`")?;
    take_back(&journal, &root, number, false, out)
}

fn take_back(
    journal: &Journal,
    root: &Root,
    number: Option<i64>,
    json: bool,
    out: &mut dyn Write,
) -> anyhow::Result<Exit> {
    let Some(undone) = journal.undo(root, number)? else {
        match number {
            None => terminal::note("nothing to take back here"),
            Some(number) => anyhow::bail!("no run {number} to take back here; see --list"),
        }
        return Ok(Exit::Done);
    };
    if json {
        serde_json::to_writer(&mut *out, &undone)?;
        writeln!(out)?;
    } else {
        writeln!(out, "run {}: {}", undone.run.number, line(&undone.run.task))?;
        write!(out, "{}", output::for_terminal(&undone.to_string()))?;
    }
    Ok(if undone.refused.is_empty() { Exit::Done } else { Exit::Failed })
}

fn list(run: &Run, out: &mut dyn Write) -> std::io::Result<()> {
    writeln!(out, "{}  {}", run.number, line(&run.task))?;
    for path in &run.files {
        writeln!(out, "    {}", line(path))?;
    }
    for command in &run.commands {
        writeln!(out, "    not to be taken back: {}", line(command))?;
    }
    Ok(())
}

fn line(text: &str) -> String {
    output::for_terminal(text).replace('\n', " ")
}

/// The journal for a run in this workspace; none where nothing is written, or where it could not be outside.
pub(super) fn journal(workspace: &Workspace) -> anyhow::Result<Option<Arc<Journal>>> {
    if workspace.mode != Some(ModeArg::Edit) {
        return Ok(None);
    }
    let journal = open(&tool::ground(workspace, &ProcessLimits::default())?.0)?;
    if journal.is_none() {
        terminal::note(&format!(
            "writes of this run cannot be undone: the journal would lie in the workspace, or you have no home; \
             {STATE_VARIABLE} names another directory"
        ));
    }
    Ok(journal.map(Arc::new))
}

/// The journal, unless it would lie in the workspace, where tools could write it.
fn open(root: &Root) -> anyhow::Result<Option<Journal>> {
    let Some(directory) = state::directory() else { return Ok(None) };
    if root.holds(&directory) {
        return Ok(None);
    }
    state::make(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
    let real = directory.canonicalize().with_context(|| format!("cannot find {}", directory.display()))?;
    if root.holds(&real) {
        return Ok(None);
    }
    Ok(Some(Journal::open(&real.join("undo.db"), Bounds::default())?))
}

/// A call as the journal notes it.
pub(super) fn shown(call: &ToolCall) -> String {
    match call.arguments.get("command").and_then(serde_json::Value::as_str) {
        Some(command) => format!("{}: {command}", call.name),
        None => format!("{} {}", call.name, serde_json::Value::Object(call.arguments.clone())),
    }
}
