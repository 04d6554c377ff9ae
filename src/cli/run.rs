//! `toolgate run`: one task with tools until a final answer, or a chat.

use std::collections::HashSet;
use std::io::{IsTerminal, Read};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueEnum};
use toolgate_chat::{Message, ToolChoice, ToolName, Transcript};
use toolgate_sandbox::policy::ProcessLimits;

use super::exit::Exit;
use super::model_args::{ModelOptions, Source};
use super::question::{self, Answer};
use super::tool::{self, Workspace};
use super::view::View;
use super::{chat, terminal, undo};
use crate::agent::{
    self, Agent, Approval, ContextPolicy, Event, Final, Hints, Request, RunBudget, StopReason,
};
use crate::engine::{Cancel, Engine, Sampling};
use crate::memory::Memory;
use crate::tools::{CannedTool, Registry};
use crate::trace::{self, Header, Recorded, Recorder};
use crate::undo::Journal;

const EXAMPLES: &str = "\
Examples:
  toolgate run \"Which port does config/server.toml use?\"
  toolgate run --mode edit --approve ask \"Add a line to notes.txt that says: call Ada\"
  git diff | toolgate run \"Say in one sentence what this change does\"
  toolgate run --model smollm2-135m --tool-choice required --json \"Read the file README.md\"
  toolgate run --engine http://127.0.0.1:8080 \"Which port does config/server.toml use?\"
  toolgate run --tools-file tools.json --constraint none \"What does order 1042 contain?\"";

/// Arguments of `toolgate run`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct RunArgs {
    /// The task. Without it, and on a terminal, a chat begins. Piped standard input is appended to it.
    prompt: Option<String>,
    #[command(flatten)]
    pub(super) model: ModelOptions,
    #[command(flatten)]
    pub(super) workspace: Workspace,
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
    /// What becomes of a conversation that is longer than the model's context.
    #[arg(long, value_enum, default_value_t)]
    context_policy: ContextPolicyArg,
    /// Tokens a turn at most [default: the model's own, else 1024].
    #[arg(long, value_name = "N")]
    max_tokens: Option<usize>,
    /// Tokens all turns may write together before the next one has to be the answer.
    #[arg(long, value_name = "N")]
    budget_tokens: Option<usize>,
    /// Seconds the run may take before its next turn has to be the answer.
    #[arg(long, value_name = "N")]
    budget_seconds: Option<u64>,
    /// 0 takes the likeliest token every time [default: what the model's makers advise, else 0].
    #[arg(long, value_name = "T", allow_negative_numbers = true)]
    temperature: Option<f32>,
    /// The same seed gives the same run.
    #[arg(long, default_value_t = 0, value_name = "N")]
    seed: u64,
    /// Which hints are on: rules that steer small models by the words of the request. none, auto, or names with commas between.
    #[arg(long, default_value = "auto", value_name = "none|auto|NAME,…")]
    hints: Hints,
    /// Let calls name what is not there: their grammar then holds arguments to the tools' schemas alone.
    #[arg(long)]
    plain_arguments: bool,
    /// Whether to ask before a tool changes something [default: ask on a terminal, else never].
    #[arg(long, value_enum)]
    approve: Option<Approve>,
    /// Write what happens, token by token, to this new file; `toolgate replay` runs it again.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Print what happens as one JSON object a line.
    #[arg(long)]
    pub(super) json: bool,
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

/// What becomes of a conversation that is longer than the model's context.
#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum ContextPolicyArg {
    /// The model is shown less of it: long results cut, then without the oldest turns.
    #[default]
    Trim,
    /// The model writes a summary of the earlier turns, or calls, which takes their place.
    Summarize,
    /// The run ends with an error.
    Error,
}

impl From<ContextPolicyArg> for ContextPolicy {
    fn from(policy: ContextPolicyArg) -> Self {
        match policy {
            ContextPolicyArg::Trim => Self::Trim,
            ContextPolicyArg::Summarize => Self::Summarize,
            ContextPolicyArg::Error => Self::Error,
        }
    }
}

/// Runs it.
pub(super) fn run(args: RunArgs) -> anyhow::Result<Exit> {
    let Some(prompt) = prompt(&args)? else {
        if args.record.is_some() {
            anyhow::bail!("--record records one task: give it as an argument");
        }
        return chat::run(args);
    };
    let cancel = Cancel::default();
    let options = agent_options(&args, &cancel)?;
    let memory = Arc::new(args.workspace.memory()?);
    let journal = undo::journal(&args.workspace)?;
    if let Some(journal) = &journal {
        journal.begin(&prompt);
    }
    let registry = registry(&args, &memory, journal.as_ref())?;
    let model = args.model.resolve()?;
    let registry = suited(registry, &args, &model);
    stop_on_interrupt(&cancel)?;
    let mut view = View::new(args.json);
    if let Some(advice) = model.unmeasured(&args.model) {
        terminal::note(&advice);
    }
    let (engine, ms) = args.model.load(&model)?;
    view.show(&Event::ModelLoaded { ms });
    let options = options.sampling(sampling(&args, engine.as_ref()));
    let mut transcript = Transcript::new().with(Message::User(prompt));
    let recorder = match &args.record {
        None => None,
        Some(file) => {
            let of = trace::Model::default().name(engine.name().to_owned()).sha256(model.digest()?);
            let load = serde_json::to_value(&args.model)?;
            let header = Header::new(of, load, engine.as_ref(), &registry, &options, &transcript);
            let place = || format!("cannot write the record {}", file.display());
            let out = std::fs::File::create_new(file).with_context(place)?;
            Some(Arc::new(Recorder::new(out, header)))
        }
    };
    let engine: Arc<dyn Engine> = match &recorder {
        None => engine,
        Some(recorder) => Arc::new(Recorded::new(engine, recorder.clone())),
    };
    let agent = Agent::new(engine, registry, options);
    let outcome = agent.run(&mut transcript, &cancel, &mut |event| {
        if let Some(recorder) = &recorder {
            recorder.see(&event);
        }
        view.show(&event);
    });
    if let Some(recorder) = &recorder {
        recorder.finish().context("the record is not whole")?;
    }
    Ok(exit_of(&outcome?))
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

/// How the run goes, by its arguments; who is asked can also ask to stop.
pub(super) fn agent_options(args: &RunArgs, cancel: &Cancel) -> anyhow::Result<agent::Options> {
    if args.max_iterations == 0 {
        anyhow::bail!("--max-iterations must be at least 1");
    }
    checked(args.temperature)?;
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
        Approve::Ask if terminal => Approval::Ask(Arc::new(asker(cancel.clone()))),
        Approve::Ask => {
            anyhow::bail!("--approve ask needs a terminal; use --approve auto or --approve never")
        }
    };
    let budget =
        RunBudget::default().tokens(args.budget_tokens).time(args.budget_seconds.map(Duration::from_secs));
    Ok(agent::Options::default()
        .max_iterations(args.max_iterations)
        .choice(choice)
        .parallel(args.parallel)
        .context_policy(args.context_policy.into())
        .budget(budget)
        .approval(approval)
        .constrain_arguments(!args.plain_arguments)
        .hints(args.hints.clone()))
}

/// A temperature that can be drawn with.
pub(super) fn checked(temperature: Option<f32>) -> anyhow::Result<()> {
    if temperature.is_some_and(|temperature| !(temperature >= 0.0 && temperature.is_finite())) {
        anyhow::bail!("--temperature must be 0 or more");
    }
    Ok(())
}

/// How tokens are drawn: as suits the model, but for what the arguments say.
pub(super) fn sampling(args: &RunArgs, engine: &dyn Engine) -> Sampling {
    let usual = engine.default_sampling();
    let temperature = args.temperature.unwrap_or(usual.temperature);
    let max_tokens = args.max_tokens.unwrap_or(usual.max_tokens);
    usual.temperature(temperature).max_tokens(max_tokens).seed(args.seed)
}

/// Asks on the terminal; an "always" counts for exactly that call, under that policy, for this run.
fn asker(cancel: Cancel) -> impl Fn(&Request) -> bool + Send + Sync {
    let always = Mutex::new(HashSet::new());
    move |request: &Request| {
        // A poisoned lock is one whose holder panicked: then nothing is remembered, and everybody is asked again.
        let remembered = always.lock().is_ok_and(|always| always.contains(&request.fingerprint));
        if remembered {
            return true;
        }
        match question::ask(request) {
            Answer::Yes => true,
            Answer::No => false,
            Answer::Stop => {
                cancel.cancel();
                false
            }
            Answer::Always => {
                if let Ok(mut always) = always.lock() {
                    always.insert(request.fingerprint.clone());
                }
                true
            }
        }
    }
}

/// The tools of a run: those of its file, or of its workspace.
pub(super) fn registry(
    args: &RunArgs,
    memory: &Arc<Memory>,
    journal: Option<&Arc<Journal>>,
) -> anyhow::Result<Registry> {
    let registry = match &args.tools_file {
        None => tool::registry_with(&args.workspace, &ProcessLimits::default(), memory.clone(), journal)?,
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
pub(super) fn suited(registry: Registry, args: &RunArgs, model: &Source) -> Registry {
    let asked = args.tools.is_some() || args.tools_file.is_some() || args.workspace.keeps_memory();
    model.suited(registry, asked)
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
