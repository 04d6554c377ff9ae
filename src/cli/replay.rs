//! `toolgate replay`: runs a record again and says where it first differs.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, ValueEnum};
use toolgate_sandbox::output;
use toolgate_sandbox::policy::ProcessLimits;

use super::exit::Exit;
use super::model_args::ModelOptions;
use super::tool::{self, Workspace};
use super::{terminal, undo};
use crate::trace::{Header, Outcome, Record, Replay};

const EXAMPLES: &str = "\
Examples:
  toolgate run --record run.jsonl \"Which port does config/server.toml use?\"
  toolgate replay run.jsonl
  toolgate replay run.jsonl --model qwen2.5-coder-0.5b
  toolgate replay run.jsonl --tools run --workspace copy --mode edit

Without --model the turns are those of the record, and what is checked is the loop: the same conversations, calls and
end. With it the model writes them again, token by token. Exit code 0 if the run is the same, 1 if it differs.";

/// Arguments of `toolgate replay`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ReplayArgs {
    /// What `toolgate run --record` wrote.
    file: PathBuf,
    /// Let this model make the turns, loaded as it was then.
    #[arg(long, value_name = "ID|PATH|URL")]
    model: Option<String>,
    /// What answers calls: the record, or the tools of --workspace.
    #[arg(long, value_enum, default_value_t = ToolsArg::Record)]
    tools: ToolsArg,
    #[command(flatten)]
    workspace: Workspace,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ToolsArg {
    Record,
    Run,
}

/// Runs it.
pub(super) fn run(args: &ReplayArgs, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let record = Record::read(&args.file)?;
    let mut replay = Replay::new(&record);
    if args.tools == ToolsArg::Run {
        let journal = undo::journal(&args.workspace)?;
        if let Some(journal) = &journal {
            journal.begin(&format!("replay {}", args.file.display()));
        }
        let limits = ProcessLimits::default();
        let registry =
            tool::registry_with(&args.workspace, &limits, args.workspace.memory()?, journal.as_ref())?;
        let names: Vec<String> = record.header.tools.iter().filter_map(name_of).collect();
        replay = replay.with_tools(registry.select(&names)?);
    }
    if let Some(model) = &args.model {
        replay = replay.with_engine(engine(model, &record.header)?);
    }
    let outcome = replay.run()?;
    if args.json {
        serde_json::to_writer(&mut *out, &outcome)?;
        writeln!(out)?;
    } else {
        tell(&outcome, args.model.is_some(), out)?;
    }
    Ok(if outcome.difference.is_none() { Exit::Done } else { Exit::Failed })
}

fn name_of(tool: &crate::trace::OfferedTool) -> Option<String> {
    tool.definition.pointer("/function/name").and_then(|name| name.as_str()).map(str::to_owned)
}

/// The model, loaded as it was for the record; a word where it is not quite the same.
fn engine(model: &str, header: &Header) -> anyhow::Result<std::sync::Arc<dyn crate::engine::Engine>> {
    let mut load: ModelOptions = serde_json::from_value(header.load.clone())
        .context("the record does not say how the model was loaded")?;
    load.take(Some(model.to_owned()));
    let resolved = load.resolve()?;
    if header.model.sha256 != resolved.digest()? {
        terminal::note(&format!("not the file of the record, which was {}", header.model.name));
    }
    let (engine, _) = load.load(&resolved)?;
    let facts = engine.facts();
    if facts.template != header.engine.template {
        terminal::note("not the chat template of the record");
    }
    if facts.options != header.engine.options {
        terminal::note(&format!(
            "not the options of the record:\n  then: {}\n  now:  {}",
            header.engine.options, facts.options
        ));
    }
    Ok(engine)
}

fn tell(outcome: &Outcome, with_model: bool, out: &mut dyn Write) -> std::io::Result<()> {
    let turns = if outcome.turns == 1 { "1 turn".to_owned() } else { format!("{} turns", outcome.turns) };
    match &outcome.difference {
        Some(difference) => writeln!(out, "{}", output::for_terminal(&difference.to_string())),
        None if outcome.incomplete => writeln!(out, "the same, as far as the record goes: {turns}"),
        None if with_model => {
            writeln!(out, "the same, token by token: {turns}; p(call) within {:.1e}", outcome.drift)
        }
        None => writeln!(out, "the same: {turns}"),
    }
}
