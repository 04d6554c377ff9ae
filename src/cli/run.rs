//! `toolgate run`: one task with tools until a final answer, or a chat.

use std::collections::HashSet;
use std::io::{IsTerminal, Read, Write};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueEnum};
use indicatif::ProgressBar;
use toolgate_chat::{Message, ToolChoice, ToolName, Transcript};
use toolgate_sandbox::output;
use toolgate_sandbox::policy::ProcessLimits;

use super::exit::Exit;
use super::model_args::ModelOptions;
use super::terminal::{self, Answer, Unit};
use super::tool::{self, Workspace};
use crate::agent::{Agent, Approval, Event, Final, Options, Request, RunBudget, StopReason};
use crate::engine::{Cancel, Sampling};
use crate::models::ResolvedModel;
use crate::tools::{CannedTool, MEMORY_TOOLS, Registry};

const EXAMPLES: &str = "\
Examples:
  toolgate run \"Which port does config/server.toml use?\"
  toolgate run --mode edit --approve ask \"Add a line to notes.txt that says: call Ada\"
  git diff | toolgate run \"Say in one sentence what this change does\"
  toolgate run --model smollm2-135m --tool-choice required --json \"Read the file README.md\"
  toolgate run --tools-file tools.json --constraint none \"What does order 1042 contain?\"";

/// Arguments of `toolgate run`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct RunArgs {
    /// The task. Without it, and on a terminal, a chat begins. Piped standard input is appended to it.
    prompt: Option<String>,
    #[command(flatten)]
    model: ModelOptions,
    #[command(flatten)]
    workspace: Workspace,
    /// Offer only these tools, in this order.
    #[arg(long, value_delimiter = ',', value_name = "A,B,C")]
    tools: Option<Vec<String>>,
    /// Offer the tools of this JSON file (OpenAI-style definitions, each with an optional canned "result")
    /// instead of the built-in ones.
    #[arg(long, value_name = "FILE")]
    tools_file: Option<PathBuf>,
    /// auto, none, required, or the name of the tool to call first.
    #[arg(long, default_value = "auto", value_name = "auto|none|required|NAME")]
    tool_choice: String,
    /// Calls a turn at most.
    #[arg(long, value_name = "N")]
    parallel: Option<NonZeroUsize>,
    /// Turns at most; the last one is an answer.
    #[arg(long, default_value_t = 12, value_name = "N")]
    max_iterations: usize,
    /// Tokens a turn at most.
    #[arg(long, default_value_t = 1024, value_name = "N")]
    max_tokens: usize,
    /// Tokens all turns may write together before the next one has to be the answer.
    #[arg(long, value_name = "N")]
    budget_tokens: Option<usize>,
    /// Seconds the run may take before its next turn has to be the answer.
    #[arg(long, value_name = "N")]
    budget_seconds: Option<u64>,
    /// 0 takes the likeliest token every time.
    #[arg(long, default_value_t = 0.0, value_name = "T", allow_negative_numbers = true)]
    temperature: f32,
    /// The same seed gives the same run.
    #[arg(long, default_value_t = 0, value_name = "N")]
    seed: u64,
    /// Let calls name what is not there: their grammar then holds arguments to the tools' schemas alone.
    #[arg(long)]
    plain_arguments: bool,
    /// Whether to ask before a tool changes something [default: ask on a terminal, else never].
    #[arg(long, value_enum)]
    approve: Option<Approve>,
    /// Print what happens as one JSON object a line.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Approve {
    /// Ask on the terminal.
    Ask,
    /// Let every call through that the policy lets through.
    Auto,
    /// Deny every call that may change something.
    Never,
}

/// Runs it.
pub(super) fn run(args: RunArgs) -> anyhow::Result<Exit> {
    let prompt = prompt(&args)?;
    let agent_options = agent_options(&args)?;
    let registry = registry(&args)?;
    let model = args.model.resolve()?;
    let registry = suited(registry, &args, &model);
    let cancel = Cancel::default();
    stop_on_interrupt(&cancel)?;
    let mut view = View::new(args.json);
    let (engine, ms) = args.model.load(&model)?;
    view.show(&Event::ModelLoaded { ms });
    let agent = Agent::new(engine, registry, agent_options);
    let mut transcript = Transcript::new();
    match prompt {
        Some(prompt) => {
            transcript.push(Message::User(prompt));
            let outcome = agent.run(&mut transcript, &cancel, &mut |event| view.show(&event))?;
            Ok(exit_of(&outcome))
        }
        None => chat(&agent, &mut transcript, &cancel, &mut view),
    }
}

/// The task: the argument, then what is piped in. `None` asks for a chat.
fn prompt(args: &RunArgs) -> anyhow::Result<Option<String>> {
    let stdin = std::io::stdin();
    let mut piped = String::new();
    if !stdin.is_terminal() {
        stdin.lock().read_to_string(&mut piped).context("standard input is not UTF-8 text")?;
    }
    match (&args.prompt, piped.trim_end()) {
        (Some(prompt), "") => Ok(Some(prompt.clone())),
        (Some(prompt), piped) => Ok(Some(format!("{prompt}\n\n{piped}"))),
        (None, "") if stdin.is_terminal() => Ok(None),
        (None, "") => anyhow::bail!("no task: give one as an argument or on standard input"),
        (None, piped) => Ok(Some(piped.to_owned())),
    }
}

fn agent_options(args: &RunArgs) -> anyhow::Result<Options> {
    if args.max_iterations == 0 {
        anyhow::bail!("--max-iterations must be at least 1");
    }
    if !(args.temperature >= 0.0 && args.temperature.is_finite()) {
        anyhow::bail!("--temperature must be 0 or more");
    }
    let choice = match args.tool_choice.as_str() {
        "auto" => ToolChoice::Auto,
        "none" => ToolChoice::None,
        "required" => ToolChoice::Required,
        name => ToolChoice::Only(vec![ToolName::new(name).map_err(crate::Error::from)?]),
    };
    let terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    let approve = args.approve.unwrap_or(if terminal { Approve::Ask } else { Approve::Never });
    let approval = match approve {
        Approve::Auto => Approval::Auto,
        Approve::Never => Approval::Never,
        Approve::Ask if terminal => Approval::Ask(Arc::new(asker())),
        Approve::Ask => {
            anyhow::bail!("--approve ask needs a terminal; use --approve auto or --approve never")
        }
    };
    let sampling = Sampling {
        temperature: args.temperature,
        seed: args.seed,
        max_tokens: args.max_tokens,
        ..Sampling::default()
    };
    let budget = RunBudget { tokens: args.budget_tokens, time: args.budget_seconds.map(Duration::from_secs) };
    let (max_iterations, parallel, narrow) = (args.max_iterations, args.parallel, !args.plain_arguments);
    Ok(Options { max_iterations, choice, parallel, sampling, budget, approval, narrow })
}

/// Asks on the terminal; an "always" counts for exactly that call, under that policy, for this run.
fn asker() -> impl Fn(&Request) -> bool + Send + Sync {
    let always = Mutex::new(HashSet::new());
    move |request: &Request| {
        // A poisoned lock is one whose holder panicked: then nothing is remembered, and everybody is asked again.
        let remembered = always.lock().is_ok_and(|always| always.contains(&request.fingerprint));
        if remembered {
            return true;
        }
        if let Some(preview) = &request.preview {
            terminal::changes(preview);
        }
        match terminal::confirm(&format!("allow {}?", request.name)) {
            Answer::Yes => true,
            Answer::No => false,
            Answer::Always => {
                if let Ok(mut always) = always.lock() {
                    always.insert(request.fingerprint.clone());
                }
                true
            }
        }
    }
}

fn registry(args: &RunArgs) -> anyhow::Result<Registry> {
    let registry = match &args.tools_file {
        None => tool::registry(&args.workspace, &ProcessLimits::default())?,
        Some(file) => {
            let place = file.display();
            let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {place}"))?;
            let mut registry = Registry::new();
            for tool in CannedTool::all_from_json(&text).map_err(|e| e.context(place))? {
                registry.add(tool)?;
            }
            registry
        }
    };
    Ok(match &args.tools {
        None => registry,
        Some(names) => registry.select(names)?,
    })
}

/// The registry without the memory tools, where they do not suit the model and nothing asks for them.
fn suited(registry: Registry, args: &RunArgs, model: &ResolvedModel) -> Registry {
    let asked = args.tools.is_some() || args.tools_file.is_some() || args.workspace.keeps_memory();
    let unsuited = model.entry.as_ref().and_then(|entry| entry.defaults.memory_tools) == Some(false);
    if unsuited && !asked { registry.without(&MEMORY_TOOLS) } else { registry }
}

/// Ctrl-C asks the run to stop at the next token; a second one ends the program at once.
pub(super) fn stop_on_interrupt(cancel: &Cancel) -> anyhow::Result<()> {
    let cancel = cancel.clone();
    ctrlc::set_handler(move || {
        if cancel.is_cancelled() {
            // The first request was not heard in time. Nothing is half-written: files are replaced by renaming.
            std::process::exit(i32::from(Exit::Failed.code()));
        }
        cancel.cancel();
    })
    .context("cannot listen for Ctrl-C")
}

fn exit_of(outcome: &Final) -> Exit {
    match outcome.stop_reason {
        StopReason::Final | StopReason::MaxIterations | StopReason::Budget if !outcome.answer.is_empty() => {
            Exit::Done
        }
        _ => Exit::Failed,
    }
}

/// A conversation on the terminal: a line is a task, an empty input ends it.
fn chat(
    agent: &Agent,
    transcript: &mut Transcript,
    cancel: &Cancel,
    view: &mut View,
) -> anyhow::Result<Exit> {
    terminal::note("Ask something; Ctrl-D ends the chat, Ctrl-C stops a turn.");
    loop {
        let Some(line) = terminal::read_line("> ")? else { return Ok(Exit::Done) };
        if line.trim().is_empty() {
            continue;
        }
        cancel.reset();
        transcript.push(Message::User(line));
        match agent.run(transcript, cancel, &mut |event| view.show(&event)) {
            Ok(_) => {}
            Err(error) => terminal::report(&error.into()),
        }
    }
}

/// Shows events: as JSON lines, or as streaming text on stdout with panels on stderr.
struct View {
    json: bool,
    prefill: Option<ProgressBar>,
    /// Whether the answer's last line is still open.
    open_line: bool,
}

impl View {
    fn new(json: bool) -> Self {
        Self { json, prefill: None, open_line: false }
    }

    fn show(&mut self, event: &Event) {
        if self.json {
            // A reader that has gone away cannot be told anything; the run still ends in order.
            if let Ok(line) = serde_json::to_string(event) {
                let mut out = std::io::stdout().lock();
                let _ = writeln!(out, "{line}").and_then(|()| out.flush());
            }
            return;
        }
        match event {
            Event::Prefill { .. } => {
                if let Some(bar) = self.prefill.take() {
                    bar.finish_and_clear();
                }
            }
            Event::PrefillProgress { done, tokens } => {
                let bar =
                    self.prefill.get_or_insert_with(|| terminal::bar("reading", *tokens as u64, Unit::Count));
                bar.set_position(*done as u64);
            }
            Event::Text { delta } => {
                let mut out = std::io::stdout().lock();
                let _ = write!(out, "{}", output::for_terminal(delta)).and_then(|()| out.flush());
                self.open_line = !delta.ends_with('\n');
            }
            Event::ToolCall { name, arguments, .. } => {
                self.end_line();
                terminal::call(name, arguments);
            }
            Event::ToolResult { status, content, ms, .. } => terminal::result(*status, content, *ms),
            Event::Recovered { text } => {
                self.end_line();
                terminal::written(text);
            }
            Event::Retry { why } => {
                self.end_line();
                terminal::note(&format!("again: {why}"));
            }
            Event::Final(outcome) => {
                self.end_line();
                terminal::summary(outcome);
            }
            _ => {}
        }
    }

    fn end_line(&mut self) {
        if std::mem::take(&mut self.open_line) {
            let _ = writeln!(std::io::stdout().lock());
        }
    }
}
