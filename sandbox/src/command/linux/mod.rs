//! Runs commands on Linux: puts the mechanisms together. Each mechanism is a file beside this one.
//!
//! Invariant: this file and [`mounts`] make all inputs of a command: its arguments, environment, descriptors
//! and mounts. The command inherits none.

mod sys;

mod host;

mod program;

mod machine;

mod spawn;

mod held;

mod expected;

mod mounts;

mod owner;

mod outside;

mod stage;

mod door;

mod broker;

mod rlimits;

mod landlock;

mod seccomp;

mod cgroup;

mod watch;

mod unlinked;

mod freeze;

mod reduced;

mod reaper;

mod supervise;

mod service;

mod probe;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

pub(crate) use host::path_of;
pub use service::Service;
pub(crate) use sys::receive_descriptor;

use super::could_not_start;
use super::environment::Environment;
use super::layer::{Held, Status, wanted};
use super::rules::Decided;
use super::scratch::Scratch;
use super::{End, Layer, Limits, Ran, Setup, rules};
use crate::error::{Error, Kind};
use crate::fs::Root;
use crate::fs::marks::Marks;
use crate::fs::takeback::Made;
use crate::fs::usage::Usage;
use crate::grants::Grants;
use crate::names::lossy;
use crate::net::{Denials, Hosts, Proxy};
use crate::policy::{Confinement, Exec, Mode, NetMode, Policy, Tier};
use crate::report::Enforced;
use machine::{Machine, Outer};
use outside::Outside;
use service::TalkPipes;
use supervise::{Ended, Stopped, Watch};
use watch::Exceeded;

#[expect(clippy::disallowed_types, reason = "the door: what starts here is the sandbox itself")]
type Process = std::process::Command;
type Child = std::process::Child;

pub(super) fn enter_stage_if_asked() {
    stage::enter(std::env::args_os());
    program::open_own();
}

/// Confined commands in a workspace, under one policy. Cheap to clone. A trial run has shown that the layers
/// work on this machine.
///
/// ```standalone_crate
/// use std::sync::{Arc, atomic::AtomicBool};
/// use toolgate_sandbox::command::{Commands, End, Layer, Setup, enter_stage_if_asked};
/// use toolgate_sandbox::policy::{Decision, Mode, Policy};
/// use toolgate_sandbox::{Kind, Root, ambient_authority};
///
/// enter_stage_if_asked();
/// let dir = tempfile::tempdir()?;
/// let root = Root::open(dir.path(), ambient_authority())?;
/// match Commands::new(&root, &Policy::default_for(Mode::Edit), Mode::Edit, &Setup::default()) {
///     Ok(commands) => {
///         assert_eq!(commands.run("echo hello")?.output, b"hello\n");
///         assert_eq!(commands.reduced_since(), None, "the policy asks for all layers");
///         assert!(commands.can_write() && commands.enforced()?.fs == "mounts:read+write");
///         assert_eq!(commands.limits().wall_ms, 30_000);
///         assert_eq!(commands.decide("echo hello").decision, Decision::Allow);
///         // Set by another thread, it ends a command with all that it started.
///         let stop = Arc::new(AtomicBool::new(true));
///         assert_eq!(commands.run_until("sleep 60", stop)?.end, End::Stopped);
///     }
///     Err(missing) => {
///         assert_eq!(missing.kind(), Kind::Unavailable, "{missing}");
///         eprintln!("no commands without {}", missing.layer().map_or("it", Layer::name));
///     }
/// }
/// // Fewer layers hold where a policy is content with them, as in a container.
/// if let Ok(reduced) = Commands::reduced(&root, &Setup::default()) {
///     assert_eq!(reduced.fs, "landlock:read");
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Commands(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    root: Root,
    grants: Grants,
    exec: Exec,
    limits: Limits,
    environment: Environment,
    /// The hosts that commands can reach, if any.
    network: Option<Hosts>,
    /// The readable paths outside of the workspace.
    outside: Vec<Outside>,
    machine: Machine,
    left_out: Vec<Layer>,
}

impl Commands {
    /// Commands in the workspace `root`, under the grants of `policy` in `mode`. A trial run comes first.
    ///
    /// # Errors
    /// [`Kind::Denied`] if the policy grants no commands. [`Kind::Unavailable`] with the name of a required
    /// layer that is missing on this machine.
    pub fn new(root: &Root, policy: &Policy, mode: Mode, setup: &Setup) -> Result<Self, Error> {
        if policy.tier < Tier::Exec {
            return Err(Error::new(Kind::Denied, "the policy grants no commands")
                .hint("a policy with tier = \"exec\" does"));
        }
        if !policy.system_readable {
            return Err(Error::new(Kind::Denied, "the policy lets commands read no programs")
                .hint("add \"@system\" to [fs] read"));
        }
        let tried = |machine| Self::tried(root, policy, mode, setup, machine);
        match Machine::find(setup).and_then(tried) {
            Err(full)
                if policy.confinement == Some(Confinement::Reduced)
                    && full.layer().is_some_and(Layer::is_outer) =>
            {
                let reduced = Machine::reduced(setup, full.to_string()).and_then(tried);
                reduced.map_err(|reduced| {
                    let both = Error::new(Kind::Unavailable, format!("{full}; reduced: {reduced}"));
                    full.layer().into_iter().fold(both, Error::of_layer)
                })
            }
            tried => tried,
        }
    }

    /// Commands with the mechanisms of `machine`, after a trial run.
    fn tried(
        root: &Root,
        policy: &Policy,
        mode: Mode,
        setup: &Setup,
        machine: Machine,
    ) -> Result<Self, Error> {
        machine.check(policy, root)?;
        let network = network(policy)?;
        if network.is_some() && machine.is_reduced() {
            return Err(missing(Layer::Network, "the reduced tier has no network namespace for the proxy"));
        }
        let grants = policy.grants(mode);
        let outside = outside::open(&policy.outside, root, &grants)?;
        let commands = Self(Arc::new(Inner {
            root: root.clone(),
            grants,
            network,
            outside,
            exec: policy.exec.clone(),
            limits: Limits::from(&policy.limits),
            environment: spawn::environment(policy, setup),
            machine,
            left_out: setup.left_out().to_vec(),
        }));
        let held = commands.enforced()?;
        let broker = policy.require_layers.iter().any(|name| name == Layer::Broker.name());
        if broker && commands.can_write() && !held.layers.iter().any(|layer| layer == Layer::Broker.name()) {
            return Err(missing(Layer::Broker, "no process may look into those that it has started"));
        }
        Ok(commands)
    }

    /// The report of the reduced tier on this machine. A policy asks for that tier by `[require] confinement
    /// = "reduced"`.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] if even the reduced tier does not work.
    pub fn reduced(root: &Root, setup: &Setup) -> Result<Enforced, Error> {
        let mut policy = Policy::default_for(Mode::Intel);
        policy.confinement = Some(Confinement::Reduced);
        let machine = Machine::reduced(setup, "it was asked for alone".to_owned())?;
        Self::tried(root, &policy, Mode::Intel, setup, machine)?.enforced()
    }

    /// The reason that these commands run in the reduced tier; `None` in the full one.
    pub fn reduced_since(&self) -> Option<&str> {
        match &self.0.machine.outer {
            Outer::Nothing { why } => Some(why),
            Outer::Bubblewrap { .. } => None,
        }
    }

    /// The state of every layer on this machine, after a trial run in the workspace `root`.
    pub fn layers(root: &Root, setup: &Setup) -> Vec<super::LayerState> {
        probe::layers(root, setup)
    }

    /// The decision of the policy's rules about a command line. The rules are no isolation.
    pub fn decide(&self, command: &str) -> Decided {
        rules::decide(&self.0.exec.rule, command)
    }

    /// Whether a command may change the workspace.
    pub fn can_write(&self) -> bool {
        self.0.grants.can_write()
    }

    /// The hosts that commands can reach through the proxy, if the policy grants any.
    ///
    /// ```no_run
    /// # fn told(commands: &toolgate_sandbox::command::Commands) {
    /// match commands.network() {
    ///     None => println!("no network"),
    ///     Some(hosts) => println!("nothing but {hosts}"),
    /// }
    /// # }
    /// ```
    pub fn network(&self) -> Option<String> {
        self.0.network.as_ref().map(Hosts::to_string)
    }

    /// The bounds of each command.
    pub fn limits(&self) -> &Limits {
        &self.0.limits
    }

    /// Runs `command` in the shell. Waits for the end of the command and of all its processes.
    ///
    /// The caller handles a rule that asks ([`decide`](Self::decide)). This function obeys a rule that
    /// refuses.
    ///
    /// # Errors
    /// [`Kind::Denied`] by a rule. [`Kind::Unavailable`] if a layer does not hold. [`Kind::Limit`] for a
    /// workspace too large to guard. [`Kind::Invalid`] for a command that is no text for a shell.
    pub fn run(&self, command: &str) -> Result<Ran, Error> {
        self.run_until(command, Arc::default())
    }

    /// [`run`](Self::run) with a `stop` flag. Once it is set, the command and all its processes are ended:
    /// [`End::Stopped`].
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_until(&self, command: &str, stop: Arc<AtomicBool>) -> Result<Ran, Error> {
        rules::check(&self.0.exec.rule, command)?;
        self.carry_out(command, None, stop)
    }

    /// Runs a command to its end or until `stop` is set. Then takes back its changes of protected names.
    fn carry_out(&self, command: &str, talk: Option<TalkPipes>, stop: Arc<AtomicBool>) -> Result<Ran, Error> {
        let denials = talk.as_ref().map(|talk| talk.denials.clone()).unwrap_or_default();
        let inner = &*self.0;
        inner.root.check_open()?;
        let before = inner.root.marks(&inner.grants)?;
        let mode = inner.root.mode();
        let ended = self.start(command, &before, talk, stop, &denials);
        inner.root.restore_mode(mode);
        let ended = ended?;
        let (made, refused) = ended.noted();
        let taken_back = match inner.grants.can_write() {
            true => {
                let protected = inner.grants.protected().with_led_to(&before.led_to);
                inner.root.take_back(&protected, &before, &made)
            }
            false => Default::default(),
        };
        if !taken_back.left.is_empty() {
            inner.root.close(taken_back.left.clone());
        }
        let enforced = inner.held(&ended)?;
        Ok(Ran {
            end: ended.end(),
            output_bytes: ended.ended.output.total(),
            truncated: ended.ended.output.is_cut(),
            output: ended.ended.output.into_bytes(),
            refused: refused.iter().map(|path| lossy(path.as_os_str())).collect(),
            unreached: denials.take(),
            left: taken_back.left.iter().map(|left| lossy(left.path.as_os_str())).collect(),
            taken_back: taken_back.gone,
            enforced,
        })
    }

    /// The layers that confine commands here, found by a trial run.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn enforced(&self) -> Result<Enforced, Error> {
        let marks = match self.0.machine.is_reduced() {
            true => self.0.root.marks(&self.0.grants)?,
            false => Marks::default(),
        };
        let ended = self.start(":", &marks, None, Arc::default(), &Arc::default())?;
        self.0.held(&ended)
    }

    /// Starts a command and follows it to its end.
    fn start(
        &self,
        command: &str,
        marks: &Marks,
        talk: Option<TalkPipes>,
        stop: Arc<AtomicBool>,
        denials: &Arc<Denials>,
    ) -> Result<Followed, Error> {
        let inner = &*self.0;
        let group = match &inner.machine.groups {
            Ok(place) if inner.wants(Layer::Cgroup) => {
                Some(cgroup::Group::new(place, &inner.limits).map_err(could_not_start)?)
            }
            _ => None,
        };
        let scratch = inner.machine.is_reduced().then(Scratch::new).transpose()?;
        let wall = match &talk {
            None => Duration::from_millis(inner.limits.wall_ms),
            Some(_) => service::WALL,
        };
        // Before the command: one that has started is followed to its end, whatever else fails. It ends with the command.
        let (door, _proxy) = match &inner.network {
            None => (None, None),
            Some(hosts) => {
                let (ours, theirs) = sys::line().map_err(could_not_start)?;
                (Some(theirs), Some(Proxy::start(ours, hosts, denials).map_err(could_not_start)?))
            }
        };
        let started = inner.spawn(command, marks, group.as_ref(), scratch.as_ref(), talk, door)?;
        let workspace = inner.grants.can_write().then_some((&inner.root, marks.usage));
        let own = scratch.as_ref().map(|scratch| (&scratch.root, Usage::default()));
        let disks = workspace.into_iter().chain(own);
        let watched = Watch {
            wall,
            stop,
            output: usize::try_from(inner.limits.output_kb.saturating_mul(1024)).unwrap_or(usize::MAX),
            disks: disks.map(|(root, before)| watch::Disk::new(root, before, &inner.limits)).collect(),
            memory: (group.is_none() && inner.wants(Layer::Cgroup)).then_some(&inner.limits),
        };
        let ended = supervise::run(started, watched).map_err(could_not_start)?;
        let starved = group.as_ref().is_some_and(cgroup::Group::ran_out_of_memory);
        Ok(Followed { ended, starved, grouped: group.is_some() })
    }
}

impl Inner {
    fn wants(&self, layer: Layer) -> bool {
        wanted(layer, &self.left_out)
    }
}

/// The hosts that commands can reach under a policy.
fn network(policy: &Policy) -> Result<Option<Hosts>, Error> {
    let net = &policy.net;
    if policy.tier < Tier::ExecNet || net.mode != NetMode::Proxy || net.allow.is_empty() {
        return Ok(None);
    }
    Hosts::parse(&net.allow).map(Some)
}

/// A command that has ended, with the findings of its control group.
struct Followed {
    ended: Ended,
    starved: bool,
    grouped: bool,
}

impl Followed {
    /// The names that the broker made and refused. Without a broker, the command may have made anything. A
    /// command that was not started has made nothing.
    fn noted(&self) -> (Made, Vec<PathBuf>) {
        match (&self.ended.status, &self.ended.record) {
            (Some(Status::Held(Held { broker: true, .. })), Some(record)) => broker::read_record(record),
            (Some(Status::Held(_)), _) => (Made::Anything, Vec::new()),
            _ => (Made::nothing(), Vec::new()),
        }
    }

    fn end(&self) -> End {
        match (self.ended.stopped, self.ended.code) {
            (Some(Stopped::Wall), _) => End::TimeLimit,
            (Some(Stopped::Asked), _) => End::Stopped,
            (Some(Stopped::Exceeded(Exceeded::Memory)), _) => End::MemoryLimit,
            (Some(Stopped::Exceeded(Exceeded::Disk | Exceeded::Files)), _) => End::DiskLimit,
            (None, Some(0)) => End::Exited(0),
            (None, _) if self.starved => End::MemoryLimit,
            // Bubblewrap itself was ended by a signal, which nobody but the kernel sends.
            (None, code) => End::Exited(code.unwrap_or(137)),
        }
    }
}

/// An error that names the layer.
fn missing(layer: Layer, why: &str) -> Error {
    Error::new(
        Kind::Unavailable,
        format!("commands are refused: {} does not work here ({why})", layer.name()),
    )
    .hint(probe::remedy(layer).unwrap_or("run \"toolgate doctor\" for more"))
    .of_layer(layer)
}
