//! The program: arguments in, one subcommand run, an exit code out. A file per subcommand.
//!
//! Results go to stdout and everything else to stderr; colour and progress bars only on a terminal.

mod chat;
#[cfg_attr(not(feature = "wasm"), path = "no_components.rs")]
mod components;
mod device_args;
mod doctor;
#[cfg(feature = "lab")]
mod eval;
mod exit;
mod grammar;
#[cfg(feature = "lab")]
mod lab;
#[cfg(feature = "mcp")]
mod mcp;
#[cfg(feature = "mcp")]
mod mcp_servers;
mod model;
mod model_args;
mod parse;
mod question;
mod replay;
mod run;
mod schema;
#[cfg(feature = "serve")]
mod serve;
#[cfg_attr(not(feature = "mcp"), path = "no_servers.rs")]
mod servers;
mod state;
mod terminal;
mod tool;
mod tool_serve;
mod undo;
mod view;

use std::ffi::OsString;
use std::io::Write;

use clap::{CommandFactory, Parser, Subcommand};

pub use exit::Exit;
pub use toolgate_sandbox::command::enter_stage_if_asked;

/// Local tool calling that is valid by construction and runs under capabilities.
#[derive(Parser)]
#[command(name = "toolgate", version, max_term_width = 100, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  toolgate model pull qwen2.5-coder-1.5b
  toolgate run --workspace examples/workspace \"Which port does config/server.toml use?\"
  toolgate tool call read_file '{\"path\": \"README.md\"}'
  toolgate schema compile parameters.json --report text
  toolgate grammar match grammar.gbnf --text 'some text'

Exit codes: 0 done; 1 the run failed; 2 bad usage or input; 3 refused by the sandbox or policy;
4 model or engine unavailable.";

#[derive(Subcommand)]
enum Command {
    /// Do one task with tools until there is a final answer; without a prompt, chat.
    Run(Box<run::RunArgs>),
    /// Serve a model to clients of the OpenAI and the Anthropic API.
    #[cfg(feature = "serve")]
    Serve(Box<serve::ServeArgs>),
    /// List, fetch and inspect models.
    Model(model::ModelArgs),
    /// List the tools, run one under the policy, or serve them to another program.
    Tool(tool::ToolArgs),
    /// Serve the tools, and the agent as a tool, over the Model Context Protocol; install servers for a policy.
    #[cfg(feature = "mcp")]
    Mcp(Box<mcp::McpArgs>),
    /// Run a record again (`run --record`) and say where it first differs.
    Replay(Box<replay::ReplayArgs>),
    /// Take back what the newest run wrote to the files of a workspace.
    Undo(undo::UndoArgs),
    /// Say what works on this machine: sandbox layers, processor, models, features.
    Doctor(doctor::DoctorArgs),
    /// Compile JSON Schema to GBNF and report its contract.
    Schema(schema::SchemaArgs),
    /// Check, match and sample GBNF grammars.
    Grammar(grammar::GrammarArgs),
    /// Find the tool calls in a text, whatever dialect they are written in.
    Parse(parse::ParseArgs),
    /// Run a file of tasks with a model and tell how many it does right.
    #[cfg(feature = "lab")]
    Eval(Box<eval::EvalArgs>),
    /// Run a corpus of cases through one part of the program and count the outcomes.
    #[cfg(feature = "lab")]
    Conformance(toolgate_lab::conformance::ConformanceArgs),
    /// Measure a model's file, and write the profile that its runs are led by.
    #[cfg(feature = "lab")]
    Certify(toolgate_lab::certify::CertifyArgs<model_args::ModelOptions>),
    /// Measure on this machine what can be repeated on any other.
    #[cfg(feature = "lab")]
    Bench(toolgate_lab::bench::BenchArgs<model_args::ModelOptions>),
    /// Print a completion script for a shell.
    #[command(
        after_help = "Example:\n  toolgate completions bash > ~/.local/share/bash-completion/completions/toolgate"
    )]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

impl Command {
    /// What is logged where `TOOLGATE_LOG` does not say.
    fn logs(&self) -> &'static str {
        match self {
            #[cfg(feature = "serve")]
            Self::Serve(_) => "error,toolgate::serve=info",
            _ => "error",
        }
    }
}

/// Runs the program on `args` (the first is its name) and returns its exit code.
pub fn main(args: impl IntoIterator<Item = OsString>) -> Exit {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            let exit = if error.use_stderr() { Exit::Usage } else { Exit::Done };
            // Nothing is left to do if even the terminal is gone.
            let _ = error.print();
            return exit;
        }
    };
    terminal::start_logging(cli.command.logs());
    let mut out = std::io::stdout().lock();
    let result = match cli.command {
        Command::Run(args) => {
            drop(out);
            return finish(run::run(*args));
        }
        #[cfg(feature = "serve")]
        Command::Serve(args) => {
            drop(out);
            return finish(serve::run(&args));
        }
        #[cfg(feature = "mcp")]
        Command::Mcp(args) => {
            drop(out);
            return finish(mcp::run(*args));
        }
        Command::Model(args) => model::run(args, &mut out),
        Command::Tool(args) => tool::run(args, &mut out),
        Command::Replay(args) => replay::run(&args, &mut out),
        Command::Undo(args) => undo::run(&args, &mut out),
        Command::Doctor(args) => doctor::run(args, &mut out),
        Command::Schema(args) => schema::run(args, &mut out),
        Command::Grammar(args) => grammar::run(args, &mut out),
        Command::Parse(args) => parse::run(&args, &mut out),
        #[cfg(feature = "lab")]
        Command::Eval(args) => eval::run(*args, &mut out),
        #[cfg(feature = "lab")]
        Command::Conformance(args) => lab::conformance(args, &mut out),
        #[cfg(feature = "lab")]
        Command::Bench(args) => lab::bench(args, &mut out),
        #[cfg(feature = "lab")]
        Command::Certify(args) => lab::certify(&args, &mut out),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "toolgate", &mut out);
            Ok(Exit::Done)
        }
    };
    let exit = finish(result);
    let _ = out.flush();
    exit
}

fn finish(result: anyhow::Result<Exit>) -> Exit {
    match result {
        Ok(exit) => exit,
        Err(error) => {
            // A reader that closed the pipe has had enough: not an error of ours.
            if error
                .downcast_ref::<std::io::Error>()
                .is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
            {
                return Exit::Done;
            }
            terminal::report(&error);
            exit::of(&error)
        }
    }
}

/// Parses arguments that a command takes, for tests.
#[cfg(test)]
fn parsed<A: clap::Args>(arguments: &[&str]) -> Result<A, clap::Error> {
    let command = A::augment_args(clap::Command::new("toolgate"));
    A::from_arg_matches(&command.try_get_matches_from(["toolgate"].iter().chain(arguments))?)
}
