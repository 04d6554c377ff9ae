//! Commands on Linux: puts the mechanisms together, each of which is a file beside this one.
//!
//! Invariant: what reaches the command is decided here and in [`mounts`]: its arguments, environment, descriptors and
//! mounts are all made, none is inherited.

mod sys;

mod host;

mod mounts;

mod owner;

mod stage;

mod rlimits;

mod landlock;

mod seccomp;

mod cgroup;

mod watch;

mod capture;

mod supervise;

mod probe;

use std::ffi::OsString;
use std::os::fd::{AsRawFd as _, RawFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub(crate) use host::path_of;

use super::layer::{Held, Status};
use super::rules::Decided;
use super::{End, Layer, Limits, Ran, Setup, rules};
use crate::error::{Error, Kind};
use crate::fs::Root;
use crate::fs::marks::Marks;
use crate::grants::{Grants, Scope};
use crate::policy::{Exec, Mode, NetMode, Policy, Tier};
use crate::report::Enforced;
use supervise::{Ended, Started, Stopped, Watch};
use watch::Exceeded;

#[expect(clippy::disallowed_types, reason = "the door: what starts here is the sandbox itself")]
type Process = std::process::Command;
type Child = std::process::Child;

/// The user and group a command sees itself as.
const USER: &str = "1000";
/// Layers a policy requires that names none.
const REQUIRED: [(Layer, Option<u32>); 3] =
    [(Layer::Userns, None), (Layer::Landlock, None), (Layer::Seccomp, None)];

/// Whether this program has said that it can be started as a stage.
static CAN_BE_STAGE: AtomicBool = AtomicBool::new(false);

pub(super) fn enter_stage_if_asked() {
    stage::enter(std::env::args_os());
    CAN_BE_STAGE.store(true, Ordering::Relaxed);
}

/// Confined commands in a workspace, under one policy. Cheap to clone; knows that its layers work on this machine.
#[derive(Clone, Debug)]
pub struct Commands(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    root: Root,
    grants: Grants,
    exec: Exec,
    limits: Limits,
    environment: Vec<(String, String)>,
    machine: Machine,
    without: Vec<Layer>,
}

/// What of this machine is used.
#[derive(Debug)]
struct Machine {
    bubblewrap: PathBuf,
    version: String,
    stage: PathBuf,
    landlock: u32,
    groups: Result<cgroup::Place, String>,
    /// Whether commands need a user of their own, since the runtime is root.
    owner: bool,
}

impl Commands {
    /// Commands in the workspace `root` as far as `policy` grants them in `mode`, after one trial run.
    ///
    /// # Errors
    /// [`Kind::Denied`] where the policy grants no commands, [`Kind::Unavailable`] with the layer's name where one that
    /// it requires is missing on this machine.
    pub fn new(root: &Root, policy: &Policy, mode: Mode, setup: &Setup) -> Result<Self, Error> {
        if policy.tier < Tier::Exec {
            return Err(Error::new(Kind::Denied, "the policy grants no commands")
                .hint("a policy with tier = \"exec\" does"));
        }
        if !policy.system_readable {
            return Err(Error::new(Kind::Denied, "the policy lets commands read no programs")
                .hint("add \"@system\" to [fs] read"));
        }
        if policy.tier == Tier::ExecNet && policy.net.mode == NetMode::Proxy {
            return Err(Error::new(Kind::Unavailable, "commands have no network in this version")
                .hint("use tier = \"exec\" and [net] mode = \"none\""));
        }
        let machine = Machine::find(setup)?;
        machine.check(&required(policy)?, setup)?;
        let commands = Self(Arc::new(Inner {
            root: root.clone(),
            grants: policy.grants(mode),
            exec: policy.exec.clone(),
            limits: Limits::from(&policy.limits),
            environment: environment(policy, setup),
            machine,
            without: setup.without.clone(),
        }));
        commands.start(":", &Marks::default()).and_then(|ended| commands.0.held(&ended).map(drop))?;
        Ok(commands)
    }

    /// Every layer on this machine, found by one trial run in the workspace `root`.
    pub fn layers(root: &Root, setup: &Setup) -> Vec<super::LayerState> {
        probe::layers(root, setup)
    }

    /// What the policy's rules say about a command line: nothing of it is isolation.
    pub fn decide(&self, command: &str) -> Decided {
        rules::decide(&self.0.exec.rule, command)
    }

    /// Whether a command may change the workspace.
    pub fn can_write(&self) -> bool {
        self.0.grants.can_write()
    }

    /// The bounds of each command.
    pub fn limits(&self) -> &Limits {
        &self.0.limits
    }

    /// Runs `command` in the shell and waits for its end, and for the end of all it started.
    ///
    /// A rule that asks is the caller's to answer ([`decide`](Self::decide)); one that refuses is obeyed here.
    ///
    /// # Errors
    /// [`Kind::Denied`] by a rule, [`Kind::Unavailable`] where a layer does not hold, [`Kind::Limit`] for a workspace
    /// too large to be guarded, [`Kind::Invalid`] for a command that is no text a shell takes.
    pub fn run(&self, command: &str) -> Result<Ran, Error> {
        let inner = &*self.0;
        if command.trim().is_empty() || command.contains('\0') {
            return Err(Error::new(Kind::Invalid, "the command is empty or holds a NUL"));
        }
        if command.len() > MAX_COMMAND_BYTES {
            return Err(Error::new(Kind::Invalid, "the command is too long")
                .hint("write a script to a file and run that"));
        }
        if let Decided { decision: crate::policy::Decision::Refuse, why } = self.decide(command) {
            return Err(Error::new(Kind::Denied, format!("the policy refuses this command ({why})"))
                .hint("do without it"));
        }
        let before = inner.root.marks(&inner.grants)?;
        let mode = inner.root.mode();
        let ended = self.start(command, &before);
        inner.root.restore_mode(mode);
        let ended = ended?;
        let taken_back = match inner.grants.can_write() {
            true => inner.root.undo_protected(&inner.grants, &before)?,
            false => Vec::new(),
        };
        let enforced = inner.held(&ended)?;
        Ok(Ran {
            end: ended.end(),
            output_bytes: ended.ended.output.total(),
            truncated: ended.ended.output.is_cut(),
            output: ended.ended.output.into_bytes(),
            taken_back,
            enforced,
        })
    }

    /// What confines commands here, as the trial run found it.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn enforced(&self) -> Result<Enforced, Error> {
        let ended = self.start(":", &Marks::default())?;
        self.0.held(&ended)
    }

    /// Starts a command and follows it to its end.
    fn start(&self, command: &str, marks: &Marks) -> Result<Followed, Error> {
        let inner = &*self.0;
        let fail = |why: std::io::Error| {
            Error::new(Kind::Failed, format!("the command could not be started ({why})")).because(why)
        };
        let group = match &inner.machine.groups {
            Ok(place) if inner.wants(Layer::Cgroup) => {
                Some(cgroup::Group::new(place, &inner.limits).map_err(fail)?)
            }
            _ => None,
        };
        let started = inner.spawn(command, marks, group.as_ref())?;
        let disk =
            inner.grants.can_write().then(|| watch::Disk::new(&inner.root, marks.usage, &inner.limits));
        let watched = Watch {
            wall: Duration::from_millis(inner.limits.wall_ms),
            output: usize::try_from(inner.limits.output_kb.saturating_mul(1024)).unwrap_or(usize::MAX),
            disk,
            memory: (group.is_none() && inner.wants(Layer::Limits)).then_some(&inner.limits),
        };
        let ended = supervise::run(started, watched).map_err(fail)?;
        let starved = group.as_ref().is_some_and(cgroup::Group::ran_out_of_memory);
        Ok(Followed { ended, starved, grouped: group.is_some() })
    }
}

/// Longest command line; the kernel takes 128 KiB in one argument.
const MAX_COMMAND_BYTES: usize = 100_000;

/// A command that has ended, and what its control group knows.
struct Followed {
    ended: Ended,
    starved: bool,
    grouped: bool,
}

impl Followed {
    fn end(&self) -> End {
        match (self.ended.stopped, self.ended.code) {
            (Some(Stopped::Wall), _) => End::TimeLimit,
            (Some(Stopped::Exceeded(Exceeded::Memory)), _) => End::MemoryLimit,
            (Some(Stopped::Exceeded(Exceeded::Disk | Exceeded::Files)), _) => End::DiskLimit,
            (None, Some(0)) => End::Exited(0),
            (None, _) if self.starved => End::MemoryLimit,
            // Bubblewrap itself was ended by a signal, which nobody but the kernel sends.
            (None, code) => End::Exited(code.unwrap_or(137)),
        }
    }
}

impl Inner {
    fn wants(&self, layer: Layer) -> bool {
        !self.without.contains(&layer)
    }

    fn spawn(&self, command: &str, marks: &Marks, group: Option<&cgroup::Group>) -> Result<Started, Error> {
        let fail = |why: std::io::Error| {
            Error::new(Kind::Failed, format!("the command could not be started ({why})")).because(why)
        };
        let unfit = || {
            Error::new(
                Kind::Denied,
                "commands cannot run in this workspace: its path is not Unicode, or gone",
            )
        };
        let workspace = self.root.present_path().ok_or_else(unfit)?;
        let shown = workspace.to_str().ok_or_else(unfit)?.to_owned();
        let stage_shown = self.machine.stage.to_str().ok_or_else(unfit)?.to_owned();
        let (source, stage_source) = match self.machine.owner {
            true => (Path::new(owner::WORKSPACE), Path::new(owner::STAGE)),
            false => (workspace.as_path(), self.machine.stage.as_path()),
        };
        let plan = mounts::plan(&workspace, source, &self.root, &self.grants, marks, &self.limits)?;
        let (status, status_writer) = std::io::pipe().map_err(fail)?;
        let (info, info_writer) = std::io::pipe().map_err(fail)?;
        let (output, output_writer) = std::io::pipe().map_err(fail)?;
        let people =
            host::memory_file("passwd", &format!("sandbox:x:{USER}:{USER}::{}:/bin/sh\n", mounts::HOME));
        let groups = host::memory_file("group", &format!("sandbox:x:{USER}:\n"));
        let (people, groups) = (people.map_err(fail)?, groups.map_err(fail)?);
        let whole = self.grants.read == Scope::Everything;
        let task = stage::Task {
            shell: self.exec.shell.clone().unwrap_or_else(|| "/bin/sh".to_owned()),
            command: command.to_owned(),
            directory: shown.clone(),
            identity: if whole { Some(self.root.identity()?) } else { None },
            environment: self.environment.clone(),
            limits: self.limits.clone(),
            rules: plan.rules.clone(),
            landlock: self.machine.landlock,
            without: self.without.clone(),
            status: status_writer.as_raw_fd(),
            owner: self.machine.owner.then_some(owner::Task { workspace: shown, stage: stage_shown }),
        };
        let task = serde_json::to_string(&task).map_err(|why| fail(why.into()))?;
        let task = host::memory_file("task", &task).map_err(fail)?;

        let mut process = self.process();
        let mut arguments: Vec<OsString> = self.namespaces().map(OsString::from).collect();
        arguments.extend(["--info-fd".into(), info_writer.as_raw_fd().to_string().into()]);
        arguments.extend(plan.arguments());
        arguments.extend(["--ro-bind".into(), stage_source.into(), mounts::STAGE.into()]);
        for (file, at) in [(&people, "/etc/passwd"), (&groups, "/etc/group")] {
            let data = ["--perms".into(), "0444".into(), "--ro-bind-data".into()];
            arguments.extend(data);
            arguments.extend([file.as_raw_fd().to_string().into(), at.into()]);
        }
        arguments.extend(["--remount-ro", "/dev", "--remount-ro", "/", "--"].map(OsString::from));
        arguments.extend([mounts::STAGE, stage::ARGUMENT, stage::INNER].map(OsString::from));
        process.args(arguments);

        let kept: Vec<RawFd> = [status_writer.as_raw_fd(), info_writer.as_raw_fd()]
            .into_iter()
            .chain([people.as_raw_fd(), groups.as_raw_fd()])
            .collect();
        let doors = group.map(cgroup::Group::doors).unwrap_or_default();
        process.env_clear().current_dir("/").stdin(task);
        process.stdout(output_writer.try_clone().map_err(fail)?).stderr(output_writer);
        sys::before_exec(&mut process, move || {
            sys::setsid()?;
            for door in &doors {
                sys::write_raw(*door, b"0")?;
            }
            sys::close_on_exec_from(3)?;
            kept.iter().try_for_each(|fd| sys::keep_over_exec(*fd))
        });
        let child = process.spawn().map_err(fail)?;
        // The writing ends that the process holds open too go here, so that the pipes end with their processes.
        drop(process);
        Ok(Started { child, output, status, info })
    }

    /// Bubblewrap, or the stage that becomes it.
    fn process(&self) -> Process {
        if !self.machine.owner {
            return Process::new(&self.machine.bubblewrap);
        }
        let mut process = Process::new(&self.machine.stage);
        process.args([stage::ARGUMENT, stage::OUTER]).arg(&self.machine.bubblewrap);
        process
    }

    fn namespaces(&self) -> impl Iterator<Item = &'static str> {
        let always =
            ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"];
        let settings = ["--uid", USER, "--gid", USER, "--hostname", "sandbox", "--die-with-parent"];
        let less = ["--new-session", "--cap-drop", "ALL", "--clearenv"];
        let network = self.wants(Layer::Network).then_some("--unshare-net");
        always.into_iter().chain(network).chain(settings).chain(less)
    }

    /// The report of a command that has ended, or why it never started.
    fn held(&self, followed: &Followed) -> Result<Enforced, Error> {
        match &followed.ended.status {
            Some(Status::Held(held)) => Ok(self.report(held, followed.grouped)),
            Some(Status::Refused { layer, why }) => Err(missing(*layer, why)),
            None => {
                let said = followed.ended.output.beginning();
                let said = crate::output::name(String::from_utf8_lossy(said).trim());
                Err(missing(
                    Layer::Userns,
                    if said.is_empty() { "bubblewrap ended without a word" } else { &said },
                ))
            }
        }
    }

    fn report(&self, held: &Held, grouped: bool) -> Enforced {
        let mut layers = vec![format!("bubblewrap {}", self.machine.version)];
        layers.extend(["userns", "processes"].map(str::to_owned));
        let mut weaker: Vec<String> =
            self.without.iter().map(|layer| format!("{} is left out for a test", layer.name())).collect();
        for (layer, holds) in [
            (Layer::Owner, self.machine.owner),
            (Layer::Network, self.wants(Layer::Network)),
            (Layer::Environment, self.wants(Layer::Environment)),
            (Layer::Limits, held.limits),
            (Layer::Cgroup, grouped),
        ] {
            if holds {
                layers.push(layer.name().to_owned());
            }
        }
        if held.landlock > 0 {
            layers.push(format!("landlock {}", held.landlock));
        }
        if held.seccomp {
            layers.push(Layer::Seccomp.name().to_owned());
        }
        if !grouped {
            weaker.push("memory in total is watched, not bounded (no control group)".to_owned());
        }
        if self.grants.can_write() {
            weaker.push("disk in total is watched, not bounded".to_owned());
        }
        let fs = if self.grants.can_write() { "mounts:read+write" } else { "mounts:read" };
        let net = if self.wants(Layer::Network) || held.seccomp { "none" } else { "host" };
        Enforced {
            fs: fs.into(),
            net: net.into(),
            process: "confined".into(),
            layers,
            weaker,
            ..Enforced::nothing()
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

/// The layers a policy requires.
fn required(policy: &Policy) -> Result<Vec<(Layer, Option<u32>)>, Error> {
    if policy.require_layers.is_empty() {
        return Ok(REQUIRED.to_vec());
    }
    let parse =
        |name: &String| Layer::parse(name).ok_or_else(|| Error::new(Kind::Policy, "unknown layer").at(name));
    policy.require_layers.iter().map(parse).collect()
}

fn environment(policy: &Policy, setup: &Setup) -> Vec<(String, String)> {
    let own = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    if setup.without.contains(&Layer::Environment) {
        return own.collect();
    }
    let fixed = [
        ("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"),
        ("HOME", mounts::HOME),
        ("TMPDIR", "/tmp"),
        ("USER", "sandbox"),
        ("LOGNAME", "sandbox"),
        ("LANG", "C.UTF-8"),
    ];
    let mut environment: Vec<(String, String)> =
        fixed.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    for (name, value) in own.filter(|(name, _)| policy.env_pass.contains(name)) {
        // Where these lead is the sandbox's to say.
        if !["PATH", "HOME", "TMPDIR"].contains(&name.as_str()) {
            environment.retain(|(other, _)| *other != name);
            environment.push((name, value));
        }
    }
    environment
}

impl Machine {
    fn find(setup: &Setup) -> Result<Self, Error> {
        let bubblewrap = setup.bubblewrap.clone().or_else(|| host::program("bwrap"));
        let bubblewrap = bubblewrap
            .ok_or_else(|| missing(Layer::Bubblewrap, "there is no bwrap in the system's directories"))?;
        let version = host::version_of(&bubblewrap).map_err(|why| missing(Layer::Bubblewrap, &why))?;
        let own = || CAN_BE_STAGE.load(Ordering::Relaxed).then(host::own_program).flatten();
        let Some(stage) = setup.stage.clone().or_else(own) else {
            return Err(Error::new(
                Kind::Unavailable,
                "commands are refused: there is no program for the inner stage",
            )
            .hint("call command::enter_stage_if_asked first in main, or name one in Setup::stage"));
        };
        Ok(Self {
            bubblewrap,
            version,
            stage,
            landlock: sys::landlock_abi().unwrap_or(0),
            groups: cgroup::place(),
            owner: sys::effective_uid() == 0,
        })
    }

    /// Whether what can be told without a trial run is there.
    fn check(&self, required: &[(Layer, Option<u32>)], setup: &Setup) -> Result<(), Error> {
        let mut required = required.to_vec();
        // The stage relies on these whatever a policy leaves out.
        required.extend(REQUIRED);
        for (layer, least) in required {
            if setup.without.contains(&layer) && !REQUIRED.contains(&(layer, None)) {
                return Err(missing(layer, "it is left out for a test"));
            }
            let oldest = least.unwrap_or(landlock::OLDEST).max(landlock::OLDEST);
            match layer {
                Layer::Landlock if self.landlock == 0 => {
                    return Err(missing(layer, "the kernel does not offer it"));
                }
                Layer::Landlock if self.landlock < oldest => {
                    let found = self.landlock;
                    return Err(missing(
                        layer,
                        &format!("the kernel has version {found}, {oldest} is needed"),
                    ));
                }
                Layer::Seccomp if !sys::has_seccomp() => {
                    return Err(missing(layer, "the kernel does not offer filters"));
                }
                Layer::Cgroup => {
                    if let Err(why) = &self.groups {
                        return Err(missing(layer, why));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}
