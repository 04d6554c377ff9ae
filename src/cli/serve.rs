//! `toolgate serve`: the model behind the OpenAI and the Anthropic API, and with `--execute` the tools of a workspace too.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use toolgate_sandbox::policy::ProcessLimits;

use super::exit::Exit;
use super::model_args::{Load, ModelOptions, PROMPT_MEMORY};
use super::run::ContextPolicyArg;
use super::tool::{self, Workspace};
use super::{terminal, undo};
use crate::agent::{self, Approval, Hints};
use crate::engine::Room;
use crate::memory::Memory;
use crate::serve::{self, Execute, Server, Workbench};
use crate::tools::MEMORY_TOOLS;

const EXAMPLES: &str = "\
Examples:
  toolgate serve --model qwen2.5-coder-0.5b
  toolgate serve --port 9000 --alias gpt-4o-mini --api-key \"$(openssl rand -hex 16)\"
  toolgate serve --execute --workspace ~/notes
  curl http://127.0.0.1:8080/v1/chat/completions -H 'Content-Type: application/json' \\
    -d '{\"model\": \"qwen2.5-coder-0.5b\", \"messages\": [{\"role\": \"user\", \"content\": \"Hello!\"}]}'

POST /v1/chat/completions and /v1/responses (OpenAI), /v1/messages (Anthropic), GET /v1/models, /health and /metrics.
The tools of a request are the client's: their schemas become the turn's grammar, and the calls are handed back. What an
answer is to be held to is held or refused with its JSON pointer; what else is not done here is told in `warnings`. Runs
of other toolgates (`toolgate run --engine`) go on here as they would with the model in their own process. TOOLGATE_LOG
says what is logged on stderr; contents never are. SIGTERM and Ctrl-C let the turns being made finish; a second one ends
the program at once.";

/// Arguments of `toolgate serve`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ServeArgs {
    #[command(flatten)]
    model: ModelOptions,
    /// The address to listen on.
    #[arg(long, default_value = "127.0.0.1", value_name = "ADDRESS")]
    host: IpAddr,
    /// The port to listen on; 0 takes a free one.
    #[arg(long, default_value_t = 8080, value_name = "N")]
    port: u16,
    /// Answer only clients that send this key, as a bearer token or x-api-key.
    #[arg(long, env = "TOOLGATE_API_KEY", hide_env_values = true, value_name = "KEY")]
    api_key: Option<String>,
    /// A further name that requests may give the model; may be repeated. Others are answered, too, with a warning.
    #[arg(long, value_name = "NAME")]
    alias: Vec<String>,
    /// Turns made at the same time, in one context of as many times the memory: what they have to evaluate goes into
    /// common batches. With --engine, requests sent there at the same time.
    #[arg(long, default_value = "1", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    at_once: u16,
    /// MiB of memory for the prompts of conversations that gave way to others: they are not evaluated again when theirs
    /// goes on. 0 keeps none.
    #[arg(long, default_value_t = PROMPT_MEMORY, value_name = "N")]
    prompt_memory: u16,
    /// Requests that may wait for their turn; further ones are told to come later (429).
    #[arg(long, default_value_t = 32, value_name = "N")]
    queue: u16,
    /// Seconds a turn may take, its wait not counted; those of a streamed answer count once its prompt is evaluated.
    #[arg(long, default_value_t = 600, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    timeout: u64,
    /// MiB the body of a request may have.
    #[arg(long, default_value_t = 8, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    max_body: u16,
    /// Tokens of a turn where a request does not say.
    #[arg(long, default_value = "4096", value_name = "N")]
    max_tokens: NonZeroUsize,
    /// Which hints are on: rules that steer small models by the words of a request. none, auto, or names with commas between.
    #[arg(long, default_value = "auto", value_name = "none|auto|NAME,…")]
    hints: Hints,
    /// Run the workspace's own sandboxed tools in a loop until the final answer, instead of handing calls back. Its memory
    /// tools are offered only with --db, since all clients share it.
    #[arg(long)]
    execute: bool,
    #[command(flatten)]
    workspace: Workspace,
    /// With --execute: turns of a run at most; the last one is an answer.
    #[arg(long, default_value = "12", value_name = "N", requires = "execute")]
    max_iterations: NonZeroUsize,
    /// With --execute: what becomes of a conversation that is longer than the model's context.
    #[arg(long, value_enum, default_value_t, requires = "execute")]
    context_policy: ContextPolicyArg,
    /// With --execute: let calls that change something run; nobody is there to be asked.
    #[arg(long, requires = "execute")]
    approve_all: bool,
}

/// Serves until it is told to end.
pub(super) fn run(args: &ServeArgs) -> anyhow::Result<Exit> {
    let options = serve::Options::default()
        .address(SocketAddr::new(args.host, args.port))
        .key(args.api_key.clone())
        .aliases(args.alias.clone())
        .at_once(args.at_once)
        .waiting(args.queue)
        .turn_time(Duration::from_secs(args.timeout))
        .body(usize::from(args.max_body) << 20)
        .max_tokens(args.max_tokens.get())
        .hints(args.hints.clone());
    options.check()?;
    let execute = args.execute.then(|| execute(args)).transpose()?;
    let model = args.model.resolve()?;
    let at_once = NonZeroUsize::new(usize::from(args.at_once)).unwrap_or(NonZeroUsize::MIN);
    let (engine, _) = args.model.load_for(&model, Load::for_clients(at_once, args.prompt_memory))?;
    let (name, room) = (engine.name().to_owned(), engine.room());
    let server = Server::start(engine, execute, options)?;
    stop_on_signal(&server)?;
    terminal::note(&format!("{name} at http://{}/v1; Ctrl-C ends it", server.address()));
    if let Some(room) = &room {
        terminal::note(&told(room));
    }
    server.wait()?;
    Ok(Exit::Done)
}

/// Tokens that an agent's prompt has before anything is asked: Claude Code's, Codex' and qwen-code's have 10,000 to 20,000.
const AGENT: usize = 18_000;
/// The context that is proposed for agents: room for such a prompt, and for files and results behind it.
const FOR_AGENTS: usize = 32_768;

/// What the conversations have room for, in a line; and where an agent's prompt does not fit, what would take it.
fn told(room: &Room) -> String {
    let slots = if room.slots.get() == 1 { "1 slot".to_owned() } else { format!("{} slots", room.slots) };
    let memory =
        room.memory(room.tokens).map(|bytes| format!(", {} of keys and values", Room::in_words(bytes)));
    let has = format!("context: {} tokens a slot, {slots}{}", room.tokens, memory.unwrap_or_default());
    let more = match (room.that_holds(AGENT), room.trained) {
        _ if room.tokens > AGENT => return has,
        (None, Some(trained)) => {
            format!("agents' prompts of {AGENT} tokens do not fit: the model was trained for {trained}")
        }
        (_, trained) => {
            let tokens = trained.map_or(FOR_AGENTS, |trained| trained.min(FOR_AGENTS));
            format!("agents' prompts of {AGENT} tokens need {}", room.option(tokens))
        }
    };
    format!("{has}; {more}")
}

/// The tools of the workspace, for as many runs as are made at once, and how these go.
fn execute(args: &ServeArgs) -> anyhow::Result<Execute> {
    let memory = Arc::new(args.workspace.memory()?);
    let benches =
        (0..args.at_once).map(|_| workbench(args, memory.clone())).collect::<anyhow::Result<_>>()?;
    let approval = if args.approve_all { Approval::Auto } else { Approval::Never };
    let options = agent::Options::default()
        .max_iterations(args.max_iterations.get())
        .approval(approval)
        .context_policy(args.context_policy.into())
        .hints(args.hints.clone())
        .quotes(false);
    Ok(Execute::new(benches).options(options))
}

/// The tools of one run at a time, with a journal of their own: its changes are not taken for another's.
fn workbench(args: &ServeArgs, memory: Arc<Memory>) -> anyhow::Result<Workbench> {
    let journal = undo::journal(&args.workspace)?;
    let registry = tool::registry_with(&args.workspace, &ProcessLimits::default(), memory, journal.as_ref())?;
    let registry = if args.workspace.keeps_memory() { registry } else { registry.without(&MEMORY_TOOLS) };
    let began = move |task: &str| {
        if let Some(journal) = &journal {
            journal.begin(task);
        }
    };
    Ok(Workbench::new(registry).telling(began))
}

/// The first signal lets the server finish what it does; the second ends the program.
fn stop_on_signal(server: &Server) -> anyhow::Result<()> {
    let stopper = server.stopper();
    let told = AtomicBool::new(false);
    ctrlc::set_handler(move || {
        if told.swap(true, Ordering::SeqCst) {
            // Nothing is half-written: files are replaced by renaming.
            std::process::exit(i32::from(Exit::Failed.code()));
        }
        stopper.stop();
    })
    .context("cannot listen for Ctrl-C")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(tokens: usize, slots: usize, trained: usize) -> Room {
        let slots = NonZeroUsize::new(slots).unwrap_or(NonZeroUsize::MIN);
        Room::default().tokens(tokens).slots(slots).token_bytes(Some(24 << 10)).trained(Some(trained))
    }

    #[test]
    fn the_start_tells_what_a_slot_holds_and_what_agents_need() {
        assert_eq!(
            told(&room(8_192, 1, 32_768)),
            "context: 8192 tokens a slot, 1 slot, 192 MiB of keys and values; agents' prompts of 18000 tokens need \
             --context 32768 (keys and values then take 768 MiB)"
        );
        assert_eq!(
            told(&room(32_768, 4, 32_768)),
            "context: 32768 tokens a slot, 4 slots, 3.0 GiB of keys and values"
        );
        assert_eq!(
            told(&room(8_192, 1, 8_192)),
            "context: 8192 tokens a slot, 1 slot, 192 MiB of keys and values; agents' prompts of 18000 tokens do not \
             fit: the model was trained for 8192"
        );
    }
}
