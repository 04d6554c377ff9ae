//! `toolgate mcp add`, `remove` and `list`: servers of a policy. One that its instructions have fetched at each start is installed
//! once, into a folder of its own, and that folder is granted for reading.
//!
//! Invariant: nothing is fetched before a person has said yes, and no code of a package runs outside of the sandbox.

mod file;
mod interpreter;
mod node;
mod python;

use std::io::{IsTerminal as _, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use clap::Subcommand;
use toolgate_sandbox::policy::{McpServer, Policy, Tier};

use super::chat::editor::ask_once;
use super::exit::Exit;
use super::{state, terminal};
use crate::mcp::{Fetch, Packages};

const ADD_EXAMPLES: &str = "\
Examples:
  toolgate mcp add everything --policy policy.toml -- npx -y @modelcontextprotocol/server-everything
  toolgate mcp add weather --policy policy.toml --env WEATHER_KEY --network api.weather.example:443 -- uvx weather-server
  toolgate mcp add notes -- node tools/notes.js

npx, uvx and their like are not run: the package is installed once, in the version that is there now, and its scripts are
not run. It lies below mcp in TOOLGATE_DATA, or in toolgate/mcp of the user's data directory. Without --policy the table for a policy file
is printed.";

/// What is done about a policy's servers.
#[derive(Subcommand)]
pub(super) enum Command {
    /// Add a server to a policy; what its command would fetch is installed once.
    #[command(after_help = ADD_EXAMPLES)]
    Add(AddArgs),
    /// Take a server out of a policy, and what was installed for it off the disk.
    #[command(after_help = "Example:\n  toolgate mcp remove everything --policy policy.toml")]
    Remove {
        /// The server's name.
        name: String,
        /// The policy file that it is taken out of.
        #[arg(long, value_name = "FILE")]
        policy: Option<PathBuf>,
    },
    /// List a policy's servers with what each is granted, and what is installed.
    #[command(after_help = "Example:\n  toolgate mcp list --policy policy.toml")]
    List {
        /// The policy file.
        #[arg(long, value_name = "FILE")]
        policy: Option<PathBuf>,
    },
}

/// Arguments of `toolgate mcp add`.
#[derive(clap::Args)]
pub(super) struct AddArgs {
    /// The server's name in the policy.
    name: String,
    /// The policy file that it is added to; made where there is none [default: the table is printed].
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// A variable of its environment: KEY=VALUE is written to the policy, KEY is passed on from yours.
    #[arg(long, value_name = "KEY[=VALUE]")]
    env: Vec<String>,
    /// A host that it can reach, through a proxy.
    #[arg(long, value_name = "HOST:PORT")]
    network: Vec<String>,
    /// A directory or file outside of the workspace that it can read.
    #[arg(long, value_name = "PATH")]
    read: Vec<PathBuf>,
    /// Fetch without asking.
    #[arg(long)]
    yes: bool,
    /// Take packages that are built here, or that no registry has (git, URLs): their code then may run outside of the sandbox.
    #[arg(long)]
    allow_build: bool,
    /// The command that starts it, as its instructions have it.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// A server that can be started, and what it needs to read.
struct Startable {
    command: Vec<String>,
    read: Vec<PathBuf>,
    /// What was installed: name and version.
    installed: Option<String>,
}

/// Runs it.
pub(super) fn run(command: Command, out: &mut dyn Write) -> anyhow::Result<Exit> {
    match command {
        Command::Add(args) => add(&args, out),
        Command::Remove { name, policy } => remove(&name, policy.as_deref()),
        Command::List { policy } => list(policy.as_deref(), out),
    }
}

fn add(args: &AddArgs, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let folder = installed(&args.name)?;
    // Made before anything is fetched, so that what is wrong with it costs nothing.
    with_server(args, &Startable::plain(args.command.clone()))?;
    let startable = match Fetch::of(&args.command)? {
        None => interpreter::located(&args.command)?,
        Some(fetch) => install(args, &fetch)?,
    };
    // Read anew: asking and fetching take minutes, and somebody may have saved the policy meanwhile.
    let written = with_server(args, &startable).and_then(|policy| {
        policy.write(&args.name, out)?;
        Ok(policy)
    });
    let policy = match written {
        Ok(policy) => policy,
        Err(why) => {
            if startable.installed.is_some() {
                std::fs::remove_dir_all(&folder)
                    .with_context(|| format!("{} stays, take it away", folder.display()))?;
            }
            return Err(why);
        }
    };
    if let Some(what) = &startable.installed {
        terminal::note(&format!("{what} is installed in {}", folder.display()));
    }
    if args.policy.is_some() && args.env.iter().any(|variable| variable.contains('=')) {
        terminal::note(
            "the policy holds the value of a variable now: keep the file to yourself; --env KEY passes one on",
        );
    }
    if policy.tier().is_some_and(|tier| tier < Tier::Exec) {
        terminal::note("the policy starts no servers yet: a policy with tier = \"exec\" does");
    }
    Ok(Exit::Done)
}

impl Startable {
    fn plain(command: Vec<String>) -> Self {
        Self { command, read: Vec::new(), installed: None }
    }
}

/// The policy as it is now, with the server in it.
fn with_server(args: &AddArgs, startable: &Startable) -> anyhow::Result<file::PolicyFile> {
    let mut policy = file::PolicyFile::open(args.policy.as_deref())?;
    ensure!(
        !policy.has(&args.name),
        "the policy has a server {0} already: toolgate mcp remove {0}",
        args.name
    );
    policy.add(&args.name, &table(args, startable)?)?;
    Ok(policy)
}

/// The server's table.
fn table(args: &AddArgs, startable: &Startable) -> anyhow::Result<file::Server> {
    let text = |path: &Path| {
        let shown = path.to_str().map(str::to_owned);
        shown.with_context(|| format!("the path {} is not Unicode", path.display()))
    };
    let mut server = file::Server { command: startable.command.clone(), ..file::Server::default() };
    for variable in &args.env {
        match variable.split_once('=') {
            Some((name, value)) => server.env.push((name.to_owned(), value.to_owned())),
            None => server.pass.push(variable.clone()),
        }
    }
    for path in &args.read {
        server.read.push(text(&std::path::absolute(path)?)?);
    }
    for path in &startable.read {
        let path = text(path)?;
        if !server.read.contains(&path) {
            server.read.push(path);
        }
    }
    server.network.clone_from(&args.network);
    Ok(server)
}

/// Where a server is installed.
///
/// # Errors
/// Where the name could lead to another place.
fn installed(name: &str) -> anyhow::Result<PathBuf> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    ensure!(!name.is_empty() && name.bytes().all(fits), "a server's name has letters, digits, - and _");
    let data = state::data().context("there is no home directory to install in: set TOOLGATE_DATA")?;
    Ok(data.join("mcp").join(name))
}

/// Installs what a command would fetch, after asking.
fn install(args: &AddArgs, fetch: &Fetch) -> anyhow::Result<Startable> {
    let folder = installed(&args.name)?;
    ensure!(
        !folder.exists(),
        "{} is there already, of a server {1}: toolgate mcp remove {1}",
        folder.display(),
        args.name
    );
    let of = match fetch.packages {
        Packages::Node => "npm",
        Packages::Python => "pip",
    };
    if !args.allow_build {
        match fetch.packages {
            Packages::Node => node::check(&fetch.package)?,
            Packages::Python => python::check(&fetch.package)?,
        }
    }
    terminal::note(&format!("{of} fetches {} into {}", fetch.package, folder.display()));
    if !args.yes {
        ensure!(std::io::stdin().is_terminal(), "nobody can be asked whether to fetch it: --yes says so");
        let answer = ask_once("? fetch and install it [y/N] ").unwrap_or_default();
        if !matches!(answer.trim(), "y" | "Y" | "yes") {
            return Err(crate::Error::new(crate::Kind::Cancelled, "nothing was fetched").into());
        }
    }
    state::make(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let folder = folder.canonicalize()?;
    let done = match fetch.packages {
        Packages::Node => node::install(fetch, &folder, args.allow_build),
        Packages::Python => python::install(fetch, &folder, args.allow_build),
    };
    if done.is_err() {
        // What is half there helps nobody; that it could not be taken away is told with the next try.
        let _ = std::fs::remove_dir_all(&folder);
    }
    done
}

/// Runs an installer; what it says goes to standard error.
fn run_installer(mut command: std::process::Command, missing: &str) -> anyhow::Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = match command.stdin(std::process::Stdio::null()).output() {
        Ok(output) => output,
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => bail!("{program} is not there: {missing}"),
        Err(why) => return Err(why).context(format!("cannot start {program}")),
    };
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    let said = toolgate_sandbox::output::for_terminal(&String::from_utf8_lossy(&said)).into_owned();
    let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = lines.get(lines.len().saturating_sub(12)..).unwrap_or_default();
    bail!("{program} could not install it: {}", last.join("\n  "))
}

fn remove(name: &str, policy: Option<&Path>) -> anyhow::Result<Exit> {
    let folder = installed(name)?;
    let mut done = false;
    // A server of a policy may share its name with one that is installed for another policy.
    let mut is_its_own = policy.is_none();
    if let Some(path) = policy {
        let mut file = file::PolicyFile::open(Some(path))?;
        let real = folder.canonicalize().ok();
        let reads = |read: &Path| read == folder || real.as_deref() == Some(read);
        is_its_own = file.reads(name).iter().any(|read| reads(Path::new(read)));
        if file.remove(name) {
            file.write(name, &mut std::io::sink())?;
            terminal::note(&format!("{name} is taken out of {}", path.display()));
            done = true;
        }
    }
    // What a link leads to was not installed here.
    let is_there = std::fs::symlink_metadata(&folder).is_ok_and(|found| found.is_dir());
    if is_its_own && is_there {
        std::fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
        terminal::note(&format!("{} is removed", folder.display()));
        done = true;
    } else if is_there {
        terminal::note(&format!(
            "{} stays: the policy has no server that reads it. Without --policy it is removed",
            folder.display()
        ));
    }
    ensure!(done, "there is no server {name}: toolgate mcp list says which there are");
    Ok(Exit::Done)
}

/// What leads from an empty list to one with a server.
const HOW_TO_ADD: &str = "add one: toolgate mcp add NAME --policy policy.toml -- npx -y PACKAGE";

fn list(policy: Option<&Path>, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let mut named = Vec::new();
    if let Some(path) = policy {
        let place = path.display();
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {place}"))?;
        let policy = Policy::parse(&text).map_err(|error| crate::Error::from(error).context(place))?;
        for (name, server) in &policy.mcp {
            show(name, server, out)?;
            named.push(name.clone());
        }
    }
    let folders = state::data().and_then(|data| std::fs::read_dir(data.join("mcp")).ok());
    let mut folders: Vec<_> =
        folders.into_iter().flatten().flatten().map(|entry| entry.file_name()).collect();
    folders.sort();
    folders.retain(|name| !named.iter().any(|named| *named == name.to_string_lossy()));
    for name in folders.iter().map(|name| name.to_string_lossy()) {
        writeln!(out, "{name}  installed, in no policy that was named (--policy)")?;
    }
    if named.is_empty() && folders.is_empty() {
        let place = policy.map_or_else(String::new, |path| format!(" in {}", path.display()));
        terminal::note(&format!("no server{place}, and none is installed; {HOW_TO_ADD}"));
    }
    Ok(Exit::Done)
}

fn show(name: &str, server: &McpServer, out: &mut dyn Write) -> std::io::Result<()> {
    let how = server.url.clone().unwrap_or_else(|| server.command.join(" "));
    writeln!(out, "{name}  {}", toolgate_sandbox::output::for_terminal(&how))?;
    for power in server.powers() {
        writeln!(out, "    {}", toolgate_sandbox::output::for_terminal(&power))?;
    }
    if server.url.is_none() && server.network.is_empty() {
        writeln!(out, "    reaches nothing")?;
    }
    Ok(())
}
