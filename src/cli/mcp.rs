//! `toolgate mcp`: the tools of a workspace, and the whole agent as one of them, for clients of the Model Context Protocol.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use clap::Args;
use toolgate_chat::{Message, Transcript};
use toolgate_sandbox::policy::{Mode, ProcessLimits};

use super::exit::Exit;
use super::model_args::ModelOptions;
use super::run::stop_on_interrupt;
use super::tool::{self, UnaskedArg, Workspace};
use super::undo;
use super::{mcp_servers, terminal};
use crate::Error;
use crate::agent::{self, Agent, Approval, Event, Final};
use crate::engine::{Cancel, Engine};
use crate::mcp::{Asking, HttpOptions, Server, Unasked, serve_http, serve_stdio};
use crate::memory::Memory;

const EXAMPLES: &str = "\
Examples:
  toolgate mcp --workspace ~/notes
  toolgate mcp --mode edit --policy policy.toml --approve auto --model qwen2.5-coder-1.5b
  toolgate mcp --http 127.0.0.1:8765
  toolgate mcp add everything --policy policy.toml -- npx -y @modelcontextprotocol/server-everything
  toolgate mcp list --policy policy.toml

A client's configuration:
  {\"mcpServers\": {\"notes\": {\"command\": \"toolgate\", \"args\": [\"mcp\", \"--workspace\", \"/home/ada/notes\"]}}}

With --http the address is /mcp. The tool ask takes {\"task\", \"mode\", \"reasoning\"}, runs the agent and answers with its
answer; its model is loaded with the first call. Calls that the policy has a person asked about are denied, since nobody
can be asked, unless --approve auto is given.";

/// Arguments of `toolgate mcp`.
#[derive(Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(super) struct McpArgs {
    #[command(subcommand)]
    servers: Option<mcp_servers::Command>,
    #[command(flatten)]
    workspace: Workspace,
    #[command(flatten)]
    model: ModelOptions,
    /// Serve streamable HTTP at this address instead of standard input and output.
    #[arg(long, value_name = "ADDRESS:PORT")]
    http: Option<SocketAddr>,
    /// The bearer token that HTTP requests must bring; needed where other machines reach the address.
    #[arg(long, env = "TOOLGATE_API_KEY", hide_env_values = true, value_name = "KEY")]
    api_key: Option<String>,
    /// What becomes of calls that the policy has a person asked about.
    #[arg(long, value_enum, default_value_t = UnaskedArg::Never)]
    approve: UnaskedArg,
    /// Turns of an ask at most; the last one is an answer.
    #[arg(long, default_value_t = 12, value_name = "N")]
    max_iterations: usize,
    /// Do not offer the tool ask, which needs a model.
    #[arg(long)]
    no_ask: bool,
}

/// Runs it.
pub(super) fn run(args: McpArgs) -> anyhow::Result<Exit> {
    if let Some(command) = args.servers {
        return mcp_servers::run(command, &mut std::io::stdout().lock());
    }
    anyhow::ensure!(args.max_iterations > 0, "--max-iterations must be at least 1");
    let McpArgs { workspace, model, http, api_key, approve, max_iterations, no_ask, .. } = args;
    let memory = Arc::new(workspace.memory()?);
    let journal = undo::journal(&workspace)?;
    if let Some(journal) = &journal {
        journal.begin_session("mcp");
    }
    let limits = ProcessLimits::default();
    let registry = tool::registry_with(&workspace, &limits, memory.clone(), journal.as_ref())?;
    let unasked = approve.into();
    let mut server = Server::new(registry, unasked);
    if !no_ask {
        // Said now, not with the first call: what is not there can be fetched before.
        if let Err(why) = model.resolve() {
            terminal::note(&format!("ask will not work yet: {why}"));
        }
        let mode = tool::mode(&workspace);
        let runs = Runs { workspace, model, memory, unasked, max_iterations, engine: Mutex::new(None) };
        server = server.with_ask(
            mode,
            Arc::new(move |asking: &Asking, cancel: &Cancel, events: &mut dyn FnMut(Event)| {
                runs.ask(asking, cancel, events).map_err(|error| match error.downcast::<Error>() {
                    Ok(own) => own,
                    Err(other) => Error::input(format!("{other:#}")),
                })
            }),
        )?;
    }
    match http {
        None => serve_stdio(server)?,
        Some(address) => {
            let cancel = Cancel::default();
            stop_on_interrupt(&cancel)?;
            let options = HttpOptions::new(address).key(api_key);
            serve_http(server, &options, &cancel, |address| {
                terminal::note(&format!("listening at http://{address}/mcp"));
            })?;
        }
    }
    Ok(Exit::Done)
}

/// What the runs behind `ask` have in common.
struct Runs {
    workspace: Workspace,
    model: ModelOptions,
    memory: Arc<Memory>,
    unasked: Unasked,
    max_iterations: usize,
    /// Loaded with the first run.
    engine: Mutex<Option<Arc<dyn Engine>>>,
}

impl Runs {
    /// Does one task, with tools of its own: a run has the mode it asks for, not the server's.
    fn ask(&self, asking: &Asking, cancel: &Cancel, events: &mut dyn FnMut(Event)) -> anyhow::Result<Final> {
        let engine = self.engine(events)?;
        let workspace = self.workspace.in_mode(asking.mode);
        let journal = match asking.mode {
            Mode::Edit => undo::journal(&workspace)?,
            Mode::Intel => None,
        };
        if let Some(journal) = &journal {
            journal.begin(&asking.task);
        }
        let limits = ProcessLimits::default();
        let registry = tool::registry_with(&workspace, &limits, self.memory.clone(), journal.as_ref())?;
        let registry = self.model.resolve()?.suited(registry, workspace.keeps_memory());
        let approval = match self.unasked {
            Unasked::Allow => Approval::Auto,
            Unasked::Deny => Approval::Never,
        };
        let usual = engine.default_sampling();
        let reasoning = asking.reasoning.or(usual.reasoning);
        let options = agent::Options::default()
            .max_iterations(self.max_iterations)
            .approval(approval)
            .sampling(usual.reasoning(reasoning))
            .quotes(false);
        let mut transcript = Transcript::new().with(Message::User(asking.task.clone()));
        Ok(Agent::new(engine, registry, options).run(&mut transcript, cancel, events)?)
    }

    /// The engine; whoever comes while it is loaded waits.
    fn engine(&self, events: &mut dyn FnMut(Event)) -> anyhow::Result<Arc<dyn Engine>> {
        let mut loaded = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(engine) = &*loaded {
            return Ok(engine.clone());
        }
        let (engine, ms) = self.model.load(&self.model.resolve()?)?;
        events(Event::ModelLoaded { ms });
        *loaded = Some(engine.clone());
        Ok(engine)
    }
}
