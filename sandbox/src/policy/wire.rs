//! The shape of the policy file, and the step from it to a [`Policy`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::server::McpServer;
use super::{Confinement, Mode, Policy, Tier};
use crate::command::{LAYERS, Layer};
use crate::error::{Error, Kind};
use crate::grants::{Grants, Scope};
use crate::limits::FileLimits;
use crate::net::Hosts;
use crate::patterns::Patterns;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: toml::Spanned<u32>,
    #[serde(default)]
    tier: Tier,
    #[serde(default)]
    workspace: Workspace,
    #[serde(default)]
    fs: Fs,
    #[serde(default)]
    net: Net,
    #[serde(default)]
    env: Env,
    #[serde(default)]
    exec: Exec,
    #[serde(default)]
    limits: ProcessLimits,
    #[serde(default)]
    require: Require,
    #[serde(default)]
    wasm: BTreeMap<String, WasmTool>,
    #[serde(default)]
    mcp: BTreeMap<String, McpServer>,
    #[serde(default)]
    approve: Approve,
    #[serde(default)]
    expect: Vec<toml::Spanned<Expect>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Workspace {
    root: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fs {
    #[serde(default)]
    read: Vec<toml::Spanned<String>>,
    #[serde(default)]
    write: Vec<toml::Spanned<String>>,
    deny_read: Option<Vec<toml::Spanned<String>>>,
    protect: Option<Vec<toml::Spanned<String>>>,
    max_file_bytes: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Env {
    #[serde(default)]
    pass: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Require {
    #[serde(default)]
    layers: Vec<toml::Spanned<String>>,
    confinement: Option<Confinement>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Approve {
    #[serde(default)]
    ask: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    tool: String,
    path: String,
    result: Outcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Allowed,
    Denied,
}

/// The network of commands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Net {
    /// Whether commands have a network.
    pub mode: NetMode,
    /// The `host:port` pairs that can be reached, with [`NetMode::Proxy`].
    pub allow: Vec<String>,
}

/// Whether commands have a network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NetMode {
    /// No network.
    #[default]
    None,
    /// The listed hosts, through a proxy.
    Proxy,
}

/// The execution of commands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Exec {
    /// The shell; `None` means `/bin/sh`.
    pub shell: Option<String>,
    /// The rules that ask or refuse. The isolation never depends on them.
    pub rule: Vec<ExecRule>,
}

/// A rule about commands that begin with certain words.
///
/// ```
/// use toolgate_sandbox::policy::{Decision, Policy};
/// let file = |example: &str| format!(r#"
///     version = 1
///     [[exec.rule]]
///     prefix = ["git", "push"]
///     decision = "ask"
///     match = ["{example}"]
/// "#);
/// assert_eq!(Policy::parse(&file("make && git push"))?.exec.rule[0].decision, Decision::Ask);
/// assert!(Policy::parse(&file("git pull")).is_err(), "its own example does not fit");
/// # Ok::<(), toolgate_sandbox::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ExecRule {
    /// The first words of a command.
    pub prefix: Vec<String>,
    /// The decision about such a command.
    pub decision: Decision,
    /// Commands that the rule must match. The reader of the policy checks them.
    #[serde(default, rename = "match")]
    pub matches: Vec<String>,
    /// Commands that the rule must not match. The reader of the policy checks them.
    #[serde(default)]
    pub not_match: Vec<String>,
}

impl ExecRule {
    /// A rule about commands that begin with these words, without examples.
    pub fn new(prefix: impl IntoIterator<Item = impl Into<String>>, decision: Decision) -> Self {
        let prefix = prefix.into_iter().map(Into::into).collect();
        Self { prefix, decision, matches: Vec::new(), not_match: Vec::new() }
    }
}

/// The decision about a command, the strictest last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// The command runs.
    Allow,
    /// A person is asked first.
    Ask,
    /// The command does not run.
    Refuse,
}

/// The bounds of a command or a component. `None` means the default of the runtime.
///
/// ```
/// use toolgate_sandbox::policy::ProcessLimits;
/// let mine = ProcessLimits::default().wall_ms(Some(5_000)).pids(Some(16));
/// let theirs = ProcessLimits::default().wall_ms(Some(9_000)).memory_mb(Some(64));
/// let both = mine.min(&theirs);
/// assert_eq!((both.wall_ms, both.pids, both.memory_mb), (Some(5_000), Some(16), Some(64)));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct ProcessLimits {
    /// Milliseconds until the command and all its processes are ended.
    pub wall_ms: Option<u64>,
    /// Seconds of processor time.
    pub cpu_s: Option<u64>,
    /// Megabytes of memory for all processes together.
    pub memory_mb: Option<u64>,
    /// Processes and threads.
    pub pids: Option<u64>,
    /// Megabytes written.
    pub disk_mb: Option<u64>,
    /// Files made.
    pub files: Option<u64>,
    /// Kilobytes of a result. This bound counts for file tools too.
    pub output_kb: Option<u64>,
}

crate::setters::setters! { ProcessLimits {
    wall_ms: Option<u64>,
    cpu_s: Option<u64>,
    memory_mb: Option<u64>,
    pids: Option<u64>,
    disk_mb: Option<u64>,
    files: Option<u64>,
    output_kb: Option<u64>,
} }

impl ProcessLimits {
    /// The tighter of the two bounds in each field.
    #[must_use]
    pub fn min(&self, other: &Self) -> Self {
        let tighter = |a: Option<u64>, b: Option<u64>| a.into_iter().chain(b).min();
        Self {
            wall_ms: tighter(self.wall_ms, other.wall_ms),
            cpu_s: tighter(self.cpu_s, other.cpu_s),
            memory_mb: tighter(self.memory_mb, other.memory_mb),
            pids: tighter(self.pids, other.pids),
            disk_mb: tighter(self.disk_mb, other.disk_mb),
            files: tighter(self.files, other.files),
            output_kb: tighter(self.output_kb, other.output_kb),
        }
    }
}

/// A tool that is a WebAssembly component, with all its grants.
///
/// ```
/// use toolgate_sandbox::policy::{DirMode, Policy};
/// let policy = Policy::parse(r#"
///     version = 1
///     [wasm.word_count]
///     component = "word_count.wasm"
///     dirs = [{ host = "docs", guest = "/" }]
/// "#)?;
/// assert_eq!(policy.wasm["word_count"].dirs[0].mode, DirMode::Ro);
/// assert!(policy.wasm["word_count"].net.is_empty());
/// # Ok::<(), toolgate_sandbox::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct WasmTool {
    /// The file of the component.
    pub component: String,
    /// The SHA-256 that the file must have, in hexadecimal.
    pub sha256: Option<String>,
    /// Directories that the component sees.
    #[serde(default)]
    pub dirs: Vec<Dir>,
    /// Hosts that the component can reach.
    #[serde(default)]
    pub net: Vec<String>,
    /// Milliseconds for one call.
    pub wall_ms: Option<u64>,
    /// Megabytes of memory.
    pub memory_mb: Option<u64>,
    /// Instructions for one call.
    pub fuel: Option<u64>,
}

/// A directory of the workspace that a component sees.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Dir {
    /// Its path in the workspace.
    pub host: String,
    /// Its path as the component sees it.
    pub guest: String,
    /// Whether it can be written.
    #[serde(default)]
    pub mode: DirMode,
}

/// Whether a directory can be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DirMode {
    /// It can be read.
    #[default]
    Ro,
    /// It can be written too.
    Rw,
}

/// Reads and verifies a policy file.
pub(super) fn parse(text: &str) -> Result<Policy, Error> {
    let file: File = toml::from_str(text).map_err(|error| syntax(text, &error))?;
    if *file.version.get_ref() != 1 {
        return Err(Error::new(Kind::Policy, "unknown version of the policy file")
            .at_line(line_of(text, file.version.span().start))
            .hint("this program reads version = 1"));
    }
    let (read, system_readable) = scope(text, &file.fs.read)?;
    let (write, system_writable) = scope(text, &file.fs.write)?;
    if system_writable {
        return Err(Error::new(Kind::Policy, "@system cannot be written").hint("leave it out of [fs] write"));
    }
    let mut limits = FileLimits::default();
    if let Some(bytes) = file.fs.max_file_bytes {
        limits.max_file_bytes = bytes;
    }
    if let Some(kilobytes) = file.limits.output_kb {
        limits.max_output_bytes = usize::try_from(kilobytes.saturating_mul(1024)).unwrap_or(usize::MAX);
    }
    let files = Grants {
        read,
        write,
        deny_read: file.fs.deny_read.map_or(Ok(Patterns::secrets()), |p| patterns(text, &p))?,
        protect: file.fs.protect.map_or(Ok(Patterns::protected()), |p| patterns(text, &p))?,
        limits,
    };
    check_rules(&file.exec.rule)?;
    let require_layers = layers(text, file.require.layers)?;
    check_net(text, &file.net)?;
    for (name, server) in &file.mcp {
        server.check(name).map_err(|error| error.at_line(line_of(text, table(text, name))))?;
        hosts(text, &server.network)?;
    }
    let policy = Policy {
        tier: file.tier,
        workspace: file.workspace.root,
        system_readable,
        net: file.net,
        env_pass: file.env.pass,
        env_set: Vec::new(),
        outside: Vec::new(),
        exec: file.exec,
        limits: file.limits,
        require_layers,
        confinement: file.require.confinement,
        wasm: file.wasm,
        mcp: file.mcp,
        ask: file.approve.ask,
        files,
    };
    for expect in &file.expect {
        verify(&policy, expect.get_ref())
            .map_err(|error| error.at_line(line_of(text, expect.span().start)))?;
    }
    Ok(policy)
}

/// The named part of the workspace, and whether `@system` is named too.
fn scope(text: &str, names: &[toml::Spanned<String>]) -> Result<(Scope, bool), Error> {
    let mut system = false;
    let mut directories = Vec::new();
    for name in names {
        let at = |error: Error| error.at_line(line_of(text, name.span().start));
        let directory = match name.get_ref().as_str() {
            "@system" => {
                system = true;
                continue;
            }
            "@workspace" => ".",
            other => match (other.strip_prefix("@workspace/"), other.starts_with('@')) {
                (Some(below), _) => below,
                (None, false) => other,
                (None, true) => {
                    return Err(at(Error::new(Kind::Policy, "unknown place")
                        .at(other)
                        .hint("places are @workspace, @workspace/DIRECTORY and @system")));
                }
            },
        };
        Scope::under([directory]).map_err(|error| at(error.into_kind(Kind::Policy)))?;
        directories.push(directory);
    }
    Ok((Scope::under(directories).map_err(|error| error.into_kind(Kind::Policy))?, system))
}

fn patterns(text: &str, sources: &[toml::Spanned<String>]) -> Result<Patterns, Error> {
    for source in sources {
        Patterns::new([source.get_ref()])
            .map_err(|error| error.into_kind(Kind::Policy).at_line(line_of(text, source.span().start)))?;
    }
    Patterns::new(sources.iter().map(toml::Spanned::get_ref)).map_err(|error| error.into_kind(Kind::Policy))
}

/// The line at which the table of a server begins, in its usual spelling.
fn table(text: &str, server: &str) -> usize {
    text.find(&format!("[mcp.{server}")).unwrap_or_default()
}

/// Checks that the mode and the list of a network fit each other.
fn check_net(text: &str, net: &Net) -> Result<(), Error> {
    hosts(text, &net.allow)?;
    match (net.mode, net.allow.is_empty()) {
        (NetMode::None, false) => {
            Err(Error::new(Kind::Policy, "[net] allow counts only with mode = \"proxy\"")
                .hint("add mode = \"proxy\" to [net], or take allow away"))
        }
        (NetMode::Proxy, true) => Err(Error::new(Kind::Policy, "[net] mode = \"proxy\" allows no host")
            .hint("add allow = [\"host:443\"] to [net], or use mode = \"none\"")),
        _ => Ok(()),
    }
}

fn hosts(text: &str, list: &[String]) -> Result<(), Error> {
    let at_line = |error: Error| {
        let line = error.place().and_then(|place| text.find(place)).map(|at| line_of(text, at));
        match line {
            Some(line) => error.at_line(line),
            None => error,
        }
    };
    Hosts::parse(list).map(drop).map_err(at_line)
}

/// The required layers, each with a known name.
fn layers(text: &str, names: Vec<toml::Spanned<String>>) -> Result<Vec<String>, Error> {
    let known = || LAYERS.map(Layer::name).join(", ");
    let check = |name: toml::Spanned<String>| match Layer::parse(name.get_ref()) {
        Some(_) => Ok(name.into_inner()),
        None => Err(Error::new(Kind::Policy, "unknown layer")
            .at(name.get_ref())
            .at_line(line_of(text, name.span().start))
            .hint(format!("layers are {}; \"landlock>=6\" asks for a version", known()))),
    };
    names.into_iter().map(check).collect()
}

/// Checks the examples of each rule.
fn check_rules(rules: &[ExecRule]) -> Result<(), Error> {
    for rule in rules {
        if rule.prefix.is_empty() {
            return Err(Error::new(Kind::Policy, "an exec rule needs a prefix")
                .hint("write it like [\"git\", \"push\"]"));
        }
        let fits = |command: &str| crate::command::rules::fits(rule, command);
        let wrong = rule.matches.iter().find(|command| !fits(command));
        let wrong = wrong.or_else(|| rule.not_match.iter().find(|command| fits(command)));
        if let Some(command) = wrong {
            let prefix = rule.prefix.join(" ");
            return Err(Error::new(
                Kind::Policy,
                format!("an example of the exec rule \"{prefix}\" does not hold"),
            )
            .at(command)
            .hint("correct the rule or its match and not_match"));
        }
    }
    Ok(())
}

/// Checks an `[[expect]]` in the widest mode.
fn verify(policy: &Policy, expect: &Expect) -> Result<(), Error> {
    let Expect { tool, path, result } = expect;
    let decided = policy.check(tool, path, Mode::Edit);
    if decided.as_ref().is_err_and(|error| error.kind() == Kind::Invalid) {
        return decided.map_err(|error| error.into_kind(Kind::Policy));
    }
    let why = match &decided {
        Err(error) => error.to_string(),
        Ok(()) => "it is granted".to_owned(),
    };
    if decided.is_ok() == (*result == Outcome::Allowed) {
        return Ok(());
    }
    let expected = if *result == Outcome::Allowed { "allowed" } else { "denied" };
    Err(Error::new(
        Kind::Policy,
        format!("this policy does not do what it expects of itself: {tool} {expected} ({why})"),
    )
    .at(path)
    .hint("correct the grants or the [[expect]]"))
}

/// The error for an error of the parser: the key, the line, and a similar known key.
fn syntax(text: &str, error: &toml::de::Error) -> Error {
    let message = error.message();
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let ours = match quoted.split_first() {
        Some((key, known)) if message.starts_with("unknown field") => {
            let unknown = Error::new(Kind::Policy, format!("unknown key \"{key}\""));
            match crate::names::nearest(key, known) {
                Some(near) => unknown.hint(format!("did you mean \"{near}\"?")),
                None if known.is_empty() => unknown,
                None => unknown.hint(format!("known here: {}", known.join(", "))),
            }
        }
        Some((value, known)) if message.starts_with("unknown variant") => {
            Error::new(Kind::Policy, format!("unknown value \"{value}\""))
                .hint(format!("it is one of {}", known.join(", ")))
        }
        _ => Error::new(Kind::Policy, message.lines().next().unwrap_or("not TOML").replace('`', "\"")),
    };
    match error.span() {
        Some(span) => ours.at_line(line_of(text, span.start)),
        None => ours,
    }
}

fn line_of(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count()
}
