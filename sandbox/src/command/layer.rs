//! Names the layers of the command sandbox, and the findings of the stage about them.

use serde::{Deserialize, Serialize};

/// A mechanism that confines commands.
///
/// ```
/// use toolgate_sandbox::command::Layer;
/// assert_eq!(Layer::parse("landlock>=6"), Some((Layer::Landlock, Some(6))));
/// assert_eq!(Layer::parse("seccomp").map(|(layer, _)| layer.name()), Some("seccomp"));
/// assert_eq!(Layer::parse("firewall"), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Layer {
    /// The program that sets up namespaces and mounts.
    Bubblewrap,
    /// User namespaces, which bubblewrap needs for all the others.
    Userns,
    /// A file system made for the command. Paths without a grant do not exist there. Closed and protected
    /// paths are so at any depth.
    Mounts,
    /// A process namespace. The command sees and signals no other process, and all its processes end with the
    /// first one.
    Processes,
    /// An IPC namespace: its own shared memory, semaphores and message queues.
    Ipc,
    /// Its own host name, and control groups that look like the topmost ones.
    Names,
    /// A network namespace with only its own loopback.
    Network,
    /// Landlock: limits files by path, TCP, and signals and abstract sockets across the boundary.
    Landlock,
    /// The system call filter.
    Seccomp,
    /// The broker, for commands that can write to the workspace: a process that creates each name for the
    /// command, and refuses protected names.
    Broker,
    /// The bounds of each process.
    Limits,
    /// The bounds of memory and processes in total.
    Cgroup,
    /// A clean environment.
    Environment,
    /// No open file but the output.
    Descriptors,
    /// A separate user for commands, where the runtime is root. It maps the owners of the workspace.
    Owner,
}

impl Layer {
    /// The name of the layer in policies and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bubblewrap => "bubblewrap",
            Self::Userns => "userns",
            Self::Mounts => "mounts",
            Self::Processes => "processes",
            Self::Ipc => "ipc",
            Self::Names => "names",
            Self::Network => "network",
            Self::Landlock => "landlock",
            Self::Seccomp => "seccomp",
            Self::Broker => "broker",
            Self::Limits => "limits",
            Self::Cgroup => "cgroup",
            Self::Environment => "environment",
            Self::Descriptors => "descriptors",
            Self::Owner => "owner",
        }
    }

    /// Whether bubblewrap makes the layer around the stage. Without such layers only the reduced tier is
    /// left.
    #[cfg(target_os = "linux")]
    pub(super) fn is_outer(self) -> bool {
        use Layer::{Bubblewrap, Ipc, Mounts, Names, Network, Owner, Processes, Userns};
        matches!(self, Bubblewrap | Userns | Owner | Mounts | Processes | Ipc | Names | Network)
    }

    /// The layer of that name in `[require] layers`. A number behind `>=` is the Landlock interface.
    pub fn parse(text: &str) -> Option<(Self, Option<u32>)> {
        let (name, least) = match text.split_once(">=") {
            Some((name, least)) => (name.trim(), Some(least.trim().parse().ok()?)),
            None => (text, None),
        };
        let layer = ALL.iter().copied().find(|layer| layer.name() == name)?;
        (least.is_none() || layer == Self::Landlock).then_some((layer, least))
    }
}

/// Every layer, outermost first.
pub const ALL: [Layer; 15] = [
    Layer::Bubblewrap,
    Layer::Userns,
    Layer::Owner,
    Layer::Mounts,
    Layer::Processes,
    Layer::Ipc,
    Layer::Names,
    Layer::Network,
    Layer::Environment,
    Layer::Descriptors,
    Layer::Cgroup,
    Layer::Limits,
    Layer::Landlock,
    Layer::Seccomp,
    Layer::Broker,
];

/// Whether a layer must be there. Only a test leaves one out.
#[cfg(target_os = "linux")]
pub(super) fn wanted(layer: Layer, left_out: &[Layer]) -> bool {
    !(cfg!(feature = "ablation") && left_out.contains(&layer))
}

/// The findings of the inner stage, right before it starts the command.
#[cfg(target_os = "linux")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Held {
    /// The Landlock interface in force; 0 means none.
    pub(super) landlock: u32,
    pub(super) seccomp: bool,
    pub(super) limits: bool,
    pub(super) broker: bool,
}

/// The one line of the inner stage to the runtime.
#[cfg(target_os = "linux")]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Status {
    /// All required layers hold, and the command starts now.
    Held(Held),
    /// A layer does not hold, and nothing was started.
    Refused { layer: Layer, why: String },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_known_by_name_and_landlock_by_its_interface() {
        for layer in ALL {
            assert_eq!(Layer::parse(layer.name()), Some((layer, None)));
        }
        assert_eq!(Layer::parse("landlock>=6"), Some((Layer::Landlock, Some(6))));
        assert_eq!(Layer::parse("landlock >= 4"), Some((Layer::Landlock, Some(4))));
        for wrong in ["landlok", "seccomp>=2", "landlock>=x", ""] {
            assert_eq!(Layer::parse(wrong), None, "{wrong}");
        }
    }
}
