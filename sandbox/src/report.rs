//! The report of the layers that held during a call. Every result carries it, so nobody has to trust the
//! policy.

use serde::{Deserialize, Serialize};

/// The layers that held during a call.
///
/// ```
/// use toolgate_sandbox::{Enforced, Grants, Root, ambient_authority};
/// let root = Root::open(".", ambient_authority())?;
/// let enforced = root.enforced(&Grants::read_only());
/// assert_eq!((enforced.fs.as_str(), enforced.net.as_str()), ("capability:read", "none"));
/// // A call that another machine performs.
/// let elsewhere = Enforced::elsewhere("https://mcp.example.org:443");
/// assert_eq!((elsewhere.process.as_str(), elsewhere.fs), ("none: runs elsewhere", Enforced::nothing().fs));
/// # Ok::<(), toolgate_sandbox::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Enforced {
    /// The access to files. File tools and components: `capability:read`, `capability:read+write` or `none`.
    /// Commands: `mounts:read` or `mounts:read+write`. Commands in the reduced tier: `landlock:read` or
    /// `landlock:read+write`. Commands on macOS: `seatbelt:read` or `seatbelt:read+write`.
    pub fs: String,
    /// The access to a network.
    ///
    /// - `none`: a file operation opens no connection, a command has an empty network namespace, and the
    ///   sockets of a component refuse.
    /// - `proxy: api.example.org:443`: a command reaches the named hosts through a proxy and nothing else.
    /// - An address: a server there did the work, and this process spoke to no other address.
    pub net: String,
    /// The place of the work.
    ///
    /// - `in-process`: in this process, without code of the caller.
    /// - `confined`: under `layers`.
    /// - `reduced`: under fewer layers, without namespaces. Commands on macOS always are.
    /// - `component`: WebAssembly in a fresh instance, with bounds of time, instructions, memory, output and
    ///   disk.
    /// - `none: runs elsewhere`: on a server that nothing here confines.
    pub process: String,
    /// The way that paths were kept inside the workspace, if the call used files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolver: Option<Resolver>,
    /// The layers that confined a command, each verified before the command started: `landlock 6`, `seccomp`,
    /// …. For a component, its engine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<String>,
    /// The weaknesses of the confinement. These are bounds that are only watched, the gaps of the reduced
    /// tier, a server elsewhere, and layers that a test left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub weaker: Vec<String>,
}

impl Enforced {
    /// The report of a call that used no files and no network.
    pub fn nothing() -> Self {
        Self {
            fs: "none".into(),
            net: "none".into(),
            process: "in-process".into(),
            resolver: None,
            layers: Vec::new(),
            weaker: Vec::new(),
        }
    }

    /// The report of a call that a server at `origin` (scheme, host and port) performed. The call used no
    /// file here, and nobody here confines that server.
    pub fn elsewhere(origin: &str) -> Self {
        Self {
            net: origin.to_owned(),
            process: "none: runs elsewhere".into(),
            weaker: vec!["nothing confines what the server does where it runs".into()],
            ..Self::nothing()
        }
    }
}

/// The way that a path is kept beneath the directory handle of the workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Resolver {
    /// The kernel refuses to leave the handle (`openat2` with `RESOLVE_BENEATH`), and the walk of this crate
    /// checks too.
    Openat2,
    /// Only the walk of this crate, one component at a time and never through a link. This serves other
    /// systems, old kernels, and containers that filter `openat2`.
    Manual,
}
