//! The policy file: the permissions of a person, read once before anything runs. No tool call can reach it.
//!
//! Invariant: anything that the file does not grant is denied. An unknown key is an error. A file whose own
//! examples fail is not used.

mod server;
mod wire;

use std::collections::BTreeMap;

pub use server::{Hidden, McpServer};
pub use wire::{Decision, Dir, DirMode, Exec, ExecRule, Net, NetMode, ProcessLimits, WasmTool};

use crate::error::{Error, Kind};
use crate::grants::{Grants, Scope};
use crate::names::Inside;

/// The most that a policy allows. Each tier includes the earlier ones.
///
/// ```
/// use toolgate_sandbox::policy::{Mode, Policy, Tier};
/// assert!(Tier::Read < Tier::Edit && Tier::Edit < Tier::Exec);
/// let policy = Policy::parse("version = 1\ntier = \"read\"\n[fs]\nwrite = [\"@workspace\"]\n")?;
/// assert!(!policy.grants(Mode::Edit).can_write(), "whatever else it says");
/// # Ok::<(), toolgate_sandbox::Error>(())
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Deserialize, serde::Serialize,
)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Tier {
    /// No file tool and no command is allowed.
    #[default]
    Off,
    /// Tools read files.
    Read,
    /// Tools write files too.
    Edit,
    /// Commands run too, without a network.
    Exec,
    /// Commands run with the network that `[net]` names.
    ExecNet,
}

/// The least confinement of commands.
///
/// ```
/// use toolgate_sandbox::policy::{Confinement, Policy};
/// let policy = Policy::parse("version = 1\n[require]\nconfinement = \"reduced\"\n")?;
/// assert_eq!(policy.confinement, Some(Confinement::Reduced));
/// let strict = Policy::parse("version = 1\n[require]\nconfinement = \"full\"\n")?;
/// assert_eq!(policy.narrow(&strict).confinement, Some(Confinement::Full));
/// # Ok::<(), toolgate_sandbox::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Confinement {
    /// All required layers. If one is missing, commands are refused.
    Full,
    /// Landlock and the system call filter alone, where bubblewrap or user namespaces are missing. On macOS,
    /// Seatbelt. The report of each call lists the gaps.
    Reduced,
}

/// The purpose of a run. It caps the grants of the policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Finding out: the run writes nothing.
    #[default]
    Intel,
    /// Changing files: the run has all grants of the policy.
    Edit,
}

/// The permissions of a person.
///
/// ```
/// use toolgate_sandbox::policy::{Mode, Policy};
/// let policy = Policy::parse(r#"
///     version = 1
///     tier = "edit"
///     [fs]
///     read = ["@workspace"]
///     write = ["@workspace/notes"]
///     [[expect]]
///     tool = "write_file"
///     path = "notes/../src/main.rs"
///     result = "denied"
/// "#)?;
/// assert!(policy.grants(Mode::Edit).can_write() && !policy.grants(Mode::Intel).can_write());
///
/// let error = Policy::parse("version = 1\n[fs]\nraed = []\n").unwrap_err();
/// assert_eq!(error.to_string(), "unknown key \"raed\" at line 3; did you mean \"read\"?");
/// # Ok::<(), toolgate_sandbox::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Policy {
    /// The most that the policy allows.
    pub tier: Tier,
    /// The directory of the workspace as the file names it, relative to the start of the run.
    pub workspace: Option<String>,
    /// Whether commands may read `@system`.
    pub system_readable: bool,
    /// The network of commands.
    pub net: Net,
    /// The environment variables that commands see.
    pub env_pass: Vec<String>,
    /// Variables with values of the policy, for one server; [`for_server`](Self::for_server) sets them.
    pub env_set: Vec<(String, Hidden)>,
    /// Absolute paths outside of the workspace that one server can read.
    pub outside: Vec<String>,
    /// The shell of commands, and the rules that ask or refuse.
    pub exec: Exec,
    /// Bounds of a command or a component.
    pub limits: ProcessLimits,
    /// The layers without which no command is offered.
    pub require_layers: Vec<String>,
    /// The least confinement that will do; `None` means full confinement.
    pub confinement: Option<Confinement>,
    /// The WebAssembly tools by name. Each has only the grants that it lists.
    pub wasm: BTreeMap<String, WasmTool>,
    /// The MCP servers by name.
    pub mcp: BTreeMap<String, McpServer>,
    /// The tools whose calls a person approves one by one.
    pub ask: Vec<String>,
    files: Grants,
}

impl Policy {
    /// Reads a policy file and verifies the examples in it.
    ///
    /// # Errors
    /// [`Kind::Policy`] with the line: for text that is not TOML, an unknown key, a bad value, and an example
    /// of `[[expect]]` or an exec rule that fails.
    pub fn parse(text: &str) -> Result<Self, Error> {
        wire::parse(text)
    }

    /// The default policy, for a run without one. It grants the workspace and nothing else, and closes
    /// secrets. Commands see the programs of the system and the workspace.
    ///
    /// For [`Mode::Edit`] it grants writing, protected files excepted. A person approves each write and each
    /// command.
    ///
    /// ```
    /// use toolgate_sandbox::policy::{Mode, Policy};
    /// let policy = Policy::default_for(Mode::Edit);
    /// assert!(policy.check("write_file", "src/main.rs", Mode::Edit).is_ok());
    /// assert!(policy.check("write_file", ".git/config", Mode::Edit).is_err());
    /// assert!(policy.asks("write_file") && policy.asks("run_command") && !policy.asks("read_file"));
    /// ```
    pub fn default_for(mode: Mode) -> Self {
        let files = match mode {
            Mode::Intel => Grants::read_only(),
            Mode::Edit => Grants::read_write(),
        };
        Self {
            tier: Tier::Exec,
            workspace: None,
            system_readable: true,
            net: Net::default(),
            env_pass: Vec::new(),
            env_set: Vec::new(),
            outside: Vec::new(),
            exec: Exec::default(),
            limits: ProcessLimits::default(),
            require_layers: Vec::new(),
            confinement: None,
            wasm: BTreeMap::new(),
            mcp: BTreeMap::new(),
            ask: WRITING_TOOLS.iter().chain(&["run_command"]).map(|tool| (*tool).to_owned()).collect(),
            files,
        }
    }

    /// The grants of file tools in a run of that mode.
    pub fn grants(&self, mode: Mode) -> Grants {
        let mut grants = self.files.clone();
        if self.tier < Tier::Edit || mode == Mode::Intel {
            grants.write = Scope::Nothing;
        }
        if self.tier < Tier::Read {
            grants.read = Scope::Nothing;
        }
        grants
    }

    /// Whether a person approves each call of `tool`.
    pub fn asks(&self, tool: &str) -> bool {
        self.ask.iter().any(|asked| asked == tool || asked == "*")
    }

    /// The policy that allows what both policies allow. The file of a workspace counts in this way: it can
    /// only take grants away.
    ///
    /// ```
    /// use toolgate_sandbox::policy::{Policy, Tier};
    /// let mine = Policy::parse("version = 1\ntier = \"exec\"\n[fs]\nread = [\"@workspace\", \"@system\"]\n")?;
    /// let theirs = Policy::parse("version = 1\ntier = \"exec-net\"\n[limits]\nwall_ms = 5000\n")?;
    /// let both = mine.narrow(&theirs);
    /// assert_eq!((both.tier, both.limits.wall_ms), (Tier::Exec, Some(5_000)));
    /// assert!(!both.system_readable, "theirs does not name @system");
    /// # Ok::<(), toolgate_sandbox::Error>(())
    /// ```
    #[must_use]
    pub fn narrow(&self, other: &Self) -> Self {
        let mut narrowed = self.clone();
        narrowed.tier = self.tier.min(other.tier);
        narrowed.files = self.files.narrow(&other.files);
        narrowed.system_readable &= other.system_readable;
        if other.net.mode == NetMode::None {
            narrowed.net = other.net.clone();
        } else {
            narrowed.net.allow.retain(|host| other.net.allow.contains(host));
        }
        narrowed.env_pass.retain(|name| other.env_pass.contains(name));
        narrowed.limits = self.limits.min(&other.limits);
        if other.confinement == Some(Confinement::Full) {
            narrowed.confinement = other.confinement;
        }
        // The strictest rule that fits decides, so that more rules only take away.
        narrowed.exec.rule.extend(other.exec.rule.iter().cloned());
        for (mine, theirs) in
            [(&mut narrowed.ask, &other.ask), (&mut narrowed.require_layers, &other.require_layers)]
        {
            mine.extend(theirs.iter().cloned());
            mine.sort();
            mine.dedup();
        }
        narrowed
    }

    /// The policy of `server`: this policy, with the grants of the server, and without the network of
    /// commands. The network of a server needs no higher tier than a command.
    ///
    /// ```
    /// use toolgate_sandbox::policy::{NetMode, Policy, Tier};
    /// let policy = Policy::parse(r#"
    ///     version = 1
    ///     tier = "exec"
    ///     [mcp.weather]
    ///     command = ["node", "server.js"]
    ///     pass = ["WEATHER_KEY"]
    ///     network = ["api.example.org:443"]
    /// "#)?;
    /// let own = policy.for_server(&policy.mcp["weather"]);
    /// assert_eq!((own.tier, own.net.mode), (Tier::ExecNet, NetMode::Proxy));
    /// assert_eq!(own.env_pass, ["WEATHER_KEY"]);
    /// // What a workspace says of servers grants none of them anything.
    /// let bare = Policy::parse("version = 1\ntier = \"exec\"\n[mcp.weather]\ncommand = [\"node\", \"server.js\"]\n")?;
    /// assert!(bare.narrow(&policy).mcp["weather"].powers().is_empty());
    /// # Ok::<(), toolgate_sandbox::Error>(())
    /// ```
    #[must_use]
    pub fn for_server(&self, server: &McpServer) -> Self {
        let mut own = self.clone();
        own.env_pass.extend(server.pass.iter().cloned());
        own.env_set = server.env.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        own.outside = server.read.clone();
        own.net = match server.network.as_slice() {
            [] => Net::default(),
            hosts => Net { mode: NetMode::Proxy, allow: hosts.to_vec() },
        };
        if self.tier >= Tier::Exec {
            own.tier = if server.network.is_empty() { Tier::Exec } else { Tier::ExecNet };
        }
        own
    }

    /// The same policy with the tighter of its bounds and `limits`.
    ///
    /// ```
    /// use toolgate_sandbox::policy::{Mode, Policy, ProcessLimits};
    /// let limits = ProcessLimits::default().output_kb(Some(2));
    /// let policy = Policy::default_for(Mode::Intel).limited(&limits);
    /// assert_eq!(policy.grants(Mode::Intel).limits.max_output_bytes, 2_048);
    /// ```
    #[must_use]
    pub fn limited(mut self, limits: &ProcessLimits) -> Self {
        self.limits = self.limits.min(limits);
        let output = self.limits.output_kb.unwrap_or(u64::MAX).saturating_mul(1024);
        let files = &mut self.files.limits;
        files.max_output_bytes = files.max_output_bytes.min(usize::try_from(output).unwrap_or(usize::MAX));
        self
    }

    /// Checks whether a file tool may be called on `path`, without a look at the disk. A link may still lead
    /// elsewhere, and then the call is refused.
    ///
    /// # Errors
    /// [`Kind::Denied`] with the reason. [`Kind::Invalid`] for a tool that is no file tool.
    ///
    /// ```
    /// use toolgate_sandbox::policy::{Mode, Policy};
    /// let policy = Policy::parse("version = 1\ntier = \"edit\"\n[fs]\nwrite = [\"@workspace/notes\"]\n")?;
    /// assert!(policy.check("write_file", "notes/today.md", Mode::Edit).is_ok());
    /// assert!(policy.check("write_file", "notes/../src/main.rs", Mode::Edit).is_err());
    /// assert!(policy.check("write_file", "notes/today.md", Mode::Intel).is_err(), "nothing is written there");
    /// # Ok::<(), toolgate_sandbox::Error>(())
    /// ```
    pub fn check(&self, tool: &str, path: &str, mode: Mode) -> Result<(), Error> {
        let mut names: Vec<&str> = Vec::new();
        for name in path.split('/') {
            match name {
                "" | "." => {}
                ".." => {
                    names.pop().ok_or_else(|| Error::outside(path))?;
                }
                name => names.push(name),
            }
        }
        if path.starts_with('/') {
            return Err(Error::outside(path));
        }
        let mut inside = Inside::default();
        names.into_iter().for_each(|name| inside.push(name));
        let grants = self.grants(mode);
        if WRITING_TOOLS.contains(&tool) {
            grants.check_write(&inside)
        } else if READING_TOOLS.contains(&tool) {
            grants.check_read(&inside)
        } else {
            Err(Error::new(Kind::Invalid, "this is no file tool").at(tool).hint(format!(
                "file tools are {}, {}",
                READING_TOOLS.join(", "),
                WRITING_TOOLS.join(", ")
            )))
        }
    }
}

const READING_TOOLS: &[&str] = &["read_file", "list_directory", "search_codebase"];
const WRITING_TOOLS: &[&str] = &["write_file", "create_file", "edit_file"];

#[cfg(test)]
mod tests;
