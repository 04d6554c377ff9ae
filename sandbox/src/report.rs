//! What was really enforced for one call. Every result carries it, so that nobody has to believe the policy.

use serde::{Deserialize, Serialize};

/// What held while a call ran.
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
    /// The file system: `capability:read`, `capability:read+write` or `none`; for a command `mounts:read`,
    /// `mounts:read+write`, in the reduced tier `landlock:read`, `landlock:read+write`.
    pub fs: String,
    /// The network: `none`. A file operation opens no connection; a command has a network namespace with nothing in it, or with the
    /// way to a proxy, which then names the hosts that it carries to (`proxy: api.example.org:443`); a
    /// component's sockets all refuse. For work done by a server elsewhere, that server's address, the only one that was
    /// spoken to from here.
    pub net: String,
    /// Where the work ran: `in-process`, without code that the caller brought; `confined`, by `layers`;
    /// `reduced`, by fewer of them, without namespaces; `component`,
    /// WebAssembly in a fresh instance under bounds of time, instructions, memory, output and disk; or
    /// `none: runs elsewhere`, by a server that nothing here confines.
    pub process: String,
    /// How paths were held inside the workspace, where files were touched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolver: Option<Resolver>,
    /// The layers that confined a command, each seen to hold before it started: `landlock 6`, `seccomp`, …; for a
    /// component its engine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<String>,
    /// Bounds that are watched and may be passed for a moment, what the reduced tier leaves open, that a server elsewhere is
    /// not confined, and layers that a test left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub weaker: Vec<String>,
}

impl Enforced {
    /// The report of a call that touched nothing.
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

    /// The report of a call that a server at `origin` (scheme, host and port) did: no file here was touched for it, and
    /// what it does there nobody here can hold.
    pub fn elsewhere(origin: &str) -> Self {
        Self {
            net: origin.to_owned(),
            process: "none: runs elsewhere".into(),
            weaker: vec!["nothing confines what the server does where it runs".into()],
            ..Self::nothing()
        }
    }
}

/// How a path is kept beneath the workspace's directory handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Resolver {
    /// The kernel refuses to leave the handle (`openat2` with `RESOLVE_BENEATH`), on top of our own walk.
    Openat2,
    /// Our own walk alone, one component at a time and never through a link: other systems, old kernels,
    /// containers that filter `openat2`.
    Manual,
}
