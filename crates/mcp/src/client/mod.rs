//! The servers of a policy as tools. Servers run in the command sandbox, or elsewhere. Their schemas have the contract of all
//! schemas, and their lists of tools are followed when they change.
//!
//! Invariant: a fault of a server costs a run only that server's tools. A server that does not start is left out with the
//! reason. So is a tool whose schema has no grammar.

mod address;
mod connection;
mod execution;
mod fetching;
mod http;
mod key;
mod offer;
mod result;
mod schema;
mod secrets;
mod tool;

pub use fetching::{Fetch, Packages};

use std::sync::Arc;

use toolgate_sandbox::Root;
use toolgate_sandbox::command::{Commands, Setup};
use toolgate_sandbox::policy::{McpServer, Mode, Policy, Tier};

use self::address::Address;
use self::connection::{Connection, Threads};
use self::key::Key;
use self::offer::Offer;
use self::secrets::Secrets;
use self::tool::Bounds;
use crate::{Error, Kind};
use toolgate_tools::Source;

/// Processor seconds of a server's processes by default. A server lives as long as the run.
const CPU_SECONDS: u64 = 3_600;

/// A server or a tool that is not offered.
#[derive(Debug)]
#[non_exhaustive]
pub struct Unusable {
    /// Its name; a tool's after its server's.
    pub name: String,
    /// The reason.
    pub why: Error,
}

/// A function that takes servers and tools that are not offered, at the start and when lists change.
pub type Report = dyn Fn(&Unusable) + Send + Sync;

/// The servers of a policy.
pub struct Servers {
    sources: Vec<Arc<dyn Source>>,
}

impl Servers {
    /// Starts the servers of `policy` in the workspace `root`, with the grants that `mode` leaves. Connects to those that
    /// have an address. Servers and connections end with the last registry that follows them.
    ///
    /// ```
    /// use std::sync::{Arc, mpsc};
    /// use toolgate_mcp::{Report, Servers};
    /// use toolgate_tools::Registry;
    /// use toolgate_sandbox::policy::{Mode, Policy};
    /// use toolgate_sandbox::{Root, ambient_authority};
    ///
    /// let policy = "version = 1\ntier = \"read\"\n[mcp.tickets]\nurl = \"https://tickets.example/mcp\"\n";
    /// let (policy, root) = (Policy::parse(policy)?, Root::open(".", ambient_authority())?);
    /// let (send, told) = mpsc::channel();
    /// let report: Arc<Report> = Arc::new(move |unusable| {
    ///     let _ = send.send(format!("{}: {}", unusable.name, unusable.why));
    /// });
    /// let servers = Servers::start(&policy, &root, Mode::Intel, &report);
    /// let mut tools = Registry::new();
    /// servers.sources().for_each(|source| tools.follow(source));
    /// // A server that the policy does not grant is left out, with the reason.
    /// assert!(told.recv()?.starts_with("tickets: the policy grants no servers"));
    /// assert!(tools.names().is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn start(policy: &Policy, root: &Root, mode: Mode, report: &Arc<Report>) -> Self {
        if policy.mcp.is_empty() {
            return Self { sources: Vec::new() };
        }
        let ground = Ground { policy, root, mode, report };
        let threads = Threads::new();
        // All at the same time: a server that hangs delays no other.
        let started: Vec<_> = std::thread::scope(|scope| {
            let start = |name: &str, server: &McpServer| match &threads {
                Ok(threads) => ground.start(name, server, threads),
                Err(why) => Err(Error::input(why.to_string())),
            };
            let starting = policy.mcp.iter().map(|(name, server)| scope.spawn(move || start(name, server)));
            let starting: Vec<_> = starting.collect();
            starting.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(stopped()))).collect()
        });
        let mut sources: Vec<Arc<dyn Source>> = Vec::new();
        for (name, started) in policy.mcp.keys().zip(started) {
            match started {
                Ok(offer) => sources.push(Arc::new(offer)),
                Err(why) => report(&Unusable { name: name.clone(), why }),
            }
        }
        Self { sources }
    }

    /// The sources of their tools, in the order of their names, for [`Registry::follow`](toolgate_tools::Registry::follow).
    pub fn sources(&self) -> impl Iterator<Item = Arc<dyn Source>> + '_ {
        self.sources.iter().cloned()
    }
}

fn stopped() -> Error {
    Error::input("starting it stopped unexpectedly")
}

/// The common parts of the servers of a run.
struct Ground<'a> {
    policy: &'a Policy,
    root: &'a Root,
    mode: Mode,
    report: &'a Arc<Report>,
}

impl Ground<'_> {
    fn start(&self, name: &str, server: &McpServer, threads: &Arc<Threads>) -> Result<Offer, Error> {
        let connection = match (server.command.as_slice(), &server.url) {
            ([], Some(url)) => self.connect(url, server.key_env.as_deref(), threads)?,
            ([], None) => {
                return Err(Error::input("it has neither a command that starts it nor a url"));
            }
            (_, Some(_)) => {
                return Err(Error::input("it has both a command and a url; leave one of them out"));
            }
            (_, None) if server.key_env.is_some() => {
                let why = "key_env is for servers with a url; pass = [\"VARIABLE\"] lets one that is started here see a variable";
                return Err(Error::input(why));
            }
            (command, None) => {
                if let Some(why) = fetching::refusal(name, command) {
                    return Err(why);
                }
                let secrets = Secrets::of(server)?;
                let mut policy = self.policy.for_server(server);
                policy.limits.cpu_s = policy.limits.cpu_s.or(Some(CPU_SECONDS));
                let commands = Commands::new(self.root, &policy, self.mode, &Setup::default())?;
                Connection::start(&commands, command, secrets, threads)?
            }
        };
        let connection = Arc::new(connection);
        Ok(Offer::new(name, server, self.policy, self.mode, connection, self.report.clone()))
    }

    /// Connects to a server that runs elsewhere. It has what the others have least of, a network, so that it takes no less
    /// of a tier than they do.
    fn connect(&self, url: &str, key_env: Option<&str>, threads: &Arc<Threads>) -> Result<Connection, Error> {
        if self.policy.tier < Tier::Exec {
            let why = "the policy grants no servers; a policy with tier = \"exec\" does";
            return Err(Error::new(Kind::Denied, why));
        }
        let address = Address::new(url)?;
        let key = key_env.map(|variable| Key::of_variable(variable, &address)).transpose()?;
        Connection::connect(address, key, Bounds::of(self.policy).time, threads)
    }
}
