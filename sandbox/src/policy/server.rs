//! The MCP servers of a policy: their commands or addresses, and their grants beyond those of commands.
//!
//! Invariant: the value of a variable is never printed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Kind};

/// An MCP server that the runtime starts or connects to.
///
/// ```
/// use toolgate_sandbox::policy::Policy;
/// let policy = Policy::parse(r#"
///     version = 1
///     [mcp.tickets]
///     command = ["tickets", "--stdio"]
///     tools = ["list", "show"]
/// "#)?;
/// assert_eq!(policy.mcp["tickets"].command, ["tickets", "--stdio"]);
/// assert_eq!(policy.mcp["tickets"].url, None);
/// # Ok::<(), toolgate_sandbox::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct McpServer {
    /// The command that starts the server in the sandbox.
    #[serde(default)]
    pub command: Vec<String>,
    /// The address of a server that runs already.
    pub url: Option<String>,
    /// The environment variable that holds the key for the server at `url`.
    pub key_env: Option<String>,
    /// The tools of the server that are offered; `*` stands for all.
    #[serde(default)]
    pub tools: Vec<String>,
    /// Variables of its environment, with their values.
    #[serde(default)]
    pub env: BTreeMap<String, Hidden>,
    /// Variables of the user's environment that the server sees.
    #[serde(default)]
    pub pass: Vec<String>,
    /// Absolute paths outside of the workspace that the server can read, such as an interpreter.
    #[serde(default)]
    pub read: Vec<String>,
    /// `host:port` pairs that the server can reach through a proxy.
    #[serde(default)]
    pub network: Vec<String>,
}

impl McpServer {
    /// The grants of the server beyond those of commands, a phrase each. No phrase holds the value of a
    /// variable.
    ///
    /// ```
    /// use toolgate_sandbox::policy::Policy;
    /// let policy = Policy::parse(r#"
    ///     version = 1
    ///     [mcp.weather]
    ///     command = ["node", "server.js"]
    ///     env = { UNITS = "metric" }
    ///     pass = ["WEATHER_KEY"]
    ///     network = ["api.example.org:443"]
    /// "#)?;
    /// let powers = ["sees UNITS, WEATHER_KEY", "reaches api.example.org:443"];
    /// assert_eq!(policy.mcp["weather"].powers(), powers);
    /// # Ok::<(), toolgate_sandbox::Error>(())
    /// ```
    pub fn powers(&self) -> Vec<String> {
        let variables: Vec<&str> = self.env.keys().chain(&self.pass).map(String::as_str).collect();
        let reads: Vec<&str> = self.read.iter().map(String::as_str).collect();
        let hosts: Vec<&str> = self.network.iter().map(String::as_str).collect();
        [("sees", variables), ("reads", reads), ("reaches", hosts)]
            .into_iter()
            .filter(|(_, what)| !what.is_empty())
            .map(|(does, what)| format!("{does} {}", what.join(", ")))
            .collect()
    }

    /// Checks the grants; the hosts are checked elsewhere.
    pub(super) fn check(&self, name: &str) -> Result<(), Error> {
        let wrong = |why: &str, at: &str, hint: &str| {
            Err(Error::new(Kind::Policy, format!("[mcp.{name}] {why}")).at(at).hint(hint))
        };
        if let Some(url) = self.url.as_deref().filter(|_| !self.powers().is_empty()) {
            let hint = "env, pass, read and network are for servers that are started here, by a command";
            return wrong("grants a server elsewhere what it cannot be given", url, hint);
        }
        let is_name = |name: &str| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
            name.bytes().all(plain) && name.bytes().next().is_some_and(|byte| !byte.is_ascii_digit())
        };
        let names = self.env.keys().chain(&self.pass);
        if let Some(variable) = names.into_iter().find(|variable| !is_name(variable)) {
            return wrong("names a variable that is none", variable, "names have letters, digits and _");
        }
        if let Some((variable, _)) = self.env.iter().find(|(_, value)| value.reveal().contains('\0')) {
            return wrong("has a variable whose value holds a NUL", variable, "no program can be given one");
        }
        if let Some(variable) = self.pass.iter().find(|name| self.env.contains_key(*name)) {
            return wrong("has a variable both in env and in pass", variable, "leave one of them out");
        }
        if let Some(path) = self.read.iter().find(|path| !is_plain(path)) {
            let hint = "write an absolute path, without .. and without control characters";
            return wrong("grants a path that is none", path, hint);
        }
        Ok(())
    }
}

/// A text that is never printed, since it may be a secret.
///
/// ```
/// use toolgate_sandbox::policy::Policy;
/// let policy = Policy::parse("version = 1\n[mcp.a]\ncommand = [\"a\"]\nenv = { KEY = \"s3cret\" }\n")?;
/// assert_eq!(policy.mcp["a"].env["KEY"].reveal(), "s3cret");
/// assert!(!format!("{policy:?}").contains("s3cret"));
/// # Ok::<(), toolgate_sandbox::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Hidden(String);

impl Hidden {
    /// The text itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Hidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(hidden)")
    }
}

impl Serialize for Hidden {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("(hidden)")
    }
}

/// Whether a path is absolute and has no `.` and no `..`.
fn is_plain(path: &str) -> bool {
    path.starts_with('/') && !path.chars().any(char::is_control) && path.split('/').all(|name| name != "..")
}
