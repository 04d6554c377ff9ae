//! `toolgate undo`: takes back what runs wrote to files, newest first; and where the journal of that lies.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use serde::Serialize;
use toolgate_chat::ToolCall;
use toolgate_sandbox::policy::ProcessLimits;
use toolgate_sandbox::{Root, ambient_authority, output};

use super::exit::Exit;
use super::state::{self, STATE_VARIABLE};
use super::terminal;
use super::tool::{self, ModeArg, Workspace};
use crate::undo::{Bounds, Journal, Run};

/// Runs of another directory that a message names.
const NAMED: usize = 10;

const EXAMPLES: &str = "\
Examples:
  toolgate undo
  toolgate undo --list
  toolgate undo --workspace ~/notes --run 12
  toolgate undo --run 12 --save-to before
  toolgate undo --forget

What write_file, create_file and edit_file replace is kept outside the workspace, in TOOLGATE_STATE or toolgate in the
user's state directory, for its owner alone. A run may have 64 MiB of it and 10,000 changes and commands: what is more
is not changed. A server of tools begins a run each hour. A workspace may have 256 MiB and 1,000 runs: its oldest are
forgotten first. All may have 2 GiB: runs older than 7 days are forgotten first, and where there are none nothing more
is changed until --forget makes room.

A workspace is known by its directory, not by its path: it can be moved, and another directory in its place has none of
its runs. What commands and components change is not known and not taken back; undo names them. A file that was changed
since by something else is left as it is and named; --save-to writes what it was. Exit code 1 if one was left.";

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
    /// Take nothing back, but write the files as they were before the run into a new directory.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["list", "forget"])]
    save_to: Option<PathBuf>,
    /// Take nothing back, but forget for good what is kept of this workspace, or of the run named.
    #[arg(long, conflicts_with = "list")]
    forget: bool,
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
            json(&runs, out)?;
        } else {
            runs.iter().try_for_each(|run| list(run, out))?;
        }
        tell_of_others(&journal, &root)?;
        return Ok(Exit::Done);
    }
    if args.forget {
        return forget(&journal, &root, args, out);
    }
    if let Some(directory) = &args.save_to {
        return save(&journal, &root, directory, args, out);
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
    as_json: bool,
    out: &mut dyn Write,
) -> anyhow::Result<Exit> {
    let Some(undone) = journal.undo(root, number)? else { return nothing(journal, root, number) };
    if as_json {
        json(&undone, out)?;
    } else {
        writeln!(out, "run {}: {}", undone.run.number, line(&undone.run.task))?;
        write!(out, "{}", output::for_terminal(&undone.to_string()))?;
    }
    Ok(if undone.refused.is_empty() { Exit::Done } else { Exit::Failed })
}

fn save(
    journal: &Journal,
    root: &Root,
    directory: &Path,
    args: &UndoArgs,
    out: &mut dyn Write,
) -> anyhow::Result<Exit> {
    let Some(saved) = journal.save(root, args.run, directory)? else {
        return nothing(journal, root, args.run);
    };
    if args.json {
        json(&saved, out)?;
    } else {
        writeln!(out, "run {}: {}", saved.run.number, line(&saved.run.task))?;
        write!(out, "{}", output::for_terminal(&saved.to_string()))?;
    }
    Ok(if saved.refused.is_empty() { Exit::Done } else { Exit::Failed })
}

fn forget(journal: &Journal, root: &Root, args: &UndoArgs, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let forgotten = journal.forget(root, args.run)?;
    if forgotten.runs.is_empty() && args.run.is_some() {
        return nothing(journal, root, args.run);
    }
    if args.json {
        json(&forgotten, out)?;
    } else {
        let runs = forgotten.runs.len();
        let runs = if runs == 1 { "1 run".to_owned() } else { format!("{runs} runs") };
        writeln!(out, "{runs} forgotten, {} bytes", forgotten.bytes)?;
    }
    Ok(Exit::Done)
}

/// Says that there is no such run.
fn nothing(journal: &Journal, root: &Root, number: Option<i64>) -> anyhow::Result<Exit> {
    match number {
        None => terminal::note("nothing to take back here"),
        Some(number) => anyhow::bail!("there is no run {number} here; see --list"),
    }
    tell_of_others(journal, root)?;
    Ok(Exit::Done)
}

/// Says which runs one might miss.
fn tell_of_others(journal: &Journal, root: &Root) -> anyhow::Result<()> {
    let forgotten = journal.forgotten(root)?;
    if forgotten > 0 {
        terminal::note(&format!("older runs were forgotten to make room: {forgotten}"));
    }
    let elsewhere = journal.runs_elsewhere(root)?;
    if !elsewhere.is_empty() {
        let mut numbers: Vec<String> = elsewhere.iter().take(NAMED).map(i64::to_string).collect();
        if elsewhere.len() > NAMED {
            numbers.push("…".to_owned());
        }
        terminal::note(&format!(
            "another directory was at this path before: its runs are not taken back in this one ({}); `--save-to DIR` and \
             `--forget` take their numbers with `--run`",
            numbers.join(", ")
        ));
    }
    Ok(())
}

fn json(value: &impl Serialize, out: &mut dyn Write) -> anyhow::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    Ok(writeln!(out)?)
}

fn list(run: &Run, out: &mut dyn Write) -> std::io::Result<()> {
    writeln!(out, "{}  {}", run.number, line(&run.task))?;
    for path in &run.files {
        writeln!(out, "    {}", name(path))?;
    }
    for command in &run.commands {
        writeln!(out, "    not to be taken back: {}", line(command))?;
    }
    Ok(())
}

/// Text on one line.
fn line(text: &str) -> String {
    output::for_terminal(text).replace('\n', " ")
}

/// A name on one line, whole: line ends are spelled out as all else that a terminal obeys.
fn name(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut buffer = [0; 4];
    for c in text.chars() {
        match c {
            '\n' => shown.push_str("\\u{a}"),
            '\t' => shown.push_str("\\u{9}"),
            // By itself: with a line end after it, a carriage return would be left out.
            c => shown.push_str(&output::for_terminal(c.encode_utf8(&mut buffer))),
        }
    }
    shown
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
    state::make(&directory)
        .with_context(|| format!("cannot keep an undo journal in {}", directory.display()))?;
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
