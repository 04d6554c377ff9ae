//! The layers of the command sandbox by name, and what the stage found of them.

use serde::{Deserialize, Serialize};

/// One mechanism that confines commands.
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
    /// A view of files made for the command: what is not granted is not there, and what is kept closed or protected is
    /// at any depth.
    Mounts,
    /// A process namespace: nobody else can be seen or signalled, and everything ends with its first process.
    Processes,
    /// Shared memory, semaphores and message queues of its own.
    Ipc,
    /// A host name of its own, and control groups that look like the first ones.
    Names,
    /// A network namespace with nothing in it but a loopback of its own.
    Network,
    /// Landlock: files by path, TCP, signals and abstract sockets across the boundary.
    Landlock,
    /// The system call filter.
    Seccomp,
    /// Where a command can write to the workspace: a process of ours that makes every name in its place, and refuses those
    /// that are protected.
    Broker,
    /// Bounds of each process.
    Limits,
    /// Memory and processes in total.
    Cgroup,
    /// A clean environment.
    Environment,
    /// No open file but the output.
    Descriptors,
    /// Where the runtime is root: a user of its own for commands, by mapping the workspace's owners.
    Owner,
}

impl Layer {
    /// The name used in policies and reports.
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

    /// Whether it is made around the stage, by bubblewrap; without it there is no more than the reduced tier.
    #[cfg(target_os = "linux")]
    pub(super) fn is_outer(self) -> bool {
        use Layer::{Bubblewrap, Ipc, Mounts, Names, Network, Owner, Processes, Userns};
        matches!(self, Bubblewrap | Userns | Owner | Mounts | Processes | Ipc | Names | Network)
    }

    /// The layer of that name, as `[require] layers` may give it: a number after `>=` is the Landlock interface.
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

/// Whether a layer is to be there: always, but in a test that leaves it out.
#[cfg(target_os = "linux")]
pub(super) fn wanted(layer: Layer, left_out: &[Layer]) -> bool {
    !(cfg!(feature = "ablation") && left_out.contains(&layer))
}

/// What the inner stage found to hold just before it started the command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Held {
    /// The Landlock interface in force; 0 without.
    pub(super) landlock: u32,
    pub(super) seccomp: bool,
    pub(super) limits: bool,
    pub(super) broker: bool,
}

/// The inner stage's one line to the runtime.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Status {
    /// All that was asked for holds; the command starts now.
    Held(Held),
    /// A layer does not hold: nothing was started.
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
