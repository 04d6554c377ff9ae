//! The inner stage: this program again, inside the namespaces of bubblewrap. It adds the last layers,
//! verifies them, and becomes the command.
//!
//! Invariant: the command starts only after the stage has verified every requested layer from inside.
//! Otherwise the stage names the layer that does not hold, and ends.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "it acts within the sandbox it completes"
)]

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, RawFd};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::expected::Expected;
use super::seccomp::Around;
use super::{broker, door, landlock, owner, reaper, rlimits, seccomp, sys};
use crate::command::layer::{Held, Layer, Status, wanted};
use crate::command::limits::Limits;

/// The first argument of a stage.
pub(super) const ARGUMENT: &str = "__toolgate-stage";
/// The second one, of the stage outside bubblewrap.
pub(super) const OUTER: &str = "outer";
/// The second one, of the stage inside.
pub(super) const INNER: &str = "inner";
/// The second one, of the only stage of the reduced tier.
pub(super) const REDUCED: &str = "reduced";

/// What a stage is to do. It comes on standard input, as JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Task {
    pub(super) shell: String,
    pub(super) command: String,
    /// The workspace, inside the sandbox.
    pub(super) directory: String,
    /// What the workspace must be; without, the workspace is made up of parts.
    pub(super) identity: Option<(u64, u64)>,
    pub(super) environment: Vec<(String, String)>,
    pub(super) limits: Limits,
    pub(super) rules: landlock::Rules,
    /// What was to be mounted of the workspace.
    pub(super) expected: Vec<Expected>,
    /// The kernel's Landlock interface.
    pub(super) landlock: u32,
    /// The machine's own namespaces, by the layers that keep the command out of them.
    pub(super) outside: Vec<(Layer, String)>,
    /// Where this user may make a file and Landlock's rules do not let it.
    pub(super) probe: String,
    /// Layers to leave out, for tests that prove them live.
    pub(super) left_out: Vec<Layer>,
    /// Where the status goes.
    pub(super) status: RawFd,
    /// What becomes the command's standard input; without, it is empty.
    pub(super) input: Option<RawFd>,
    /// The broker beside the command, where it can write to the workspace.
    pub(super) broker: Option<broker::Task>,
    /// Where the listener of the proxy goes, if there is one.
    pub(super) door: Option<RawFd>,
    /// Whether a control group counts memory.
    pub(super) group: bool,
    /// What the outer stage does first, where there is one.
    pub(super) owner: Option<owner::Task>,
    /// What the reduced tier does itself, in place of bubblewrap.
    pub(super) reduced: Option<Reduced>,
}

/// What the reduced tier's process above the command needs to know.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Reduced {
    /// Where it tells its number.
    pub(super) info: RawFd,
    /// A pipe at whose end everything is to be ended.
    pub(super) life: RawFd,
    /// How many processes this user has beside the command's.
    pub(super) others: u64,
}

/// Runs the stage that the program's arguments ask for, and does not come back; does nothing if they ask for none.
pub(super) fn enter(mut arguments: impl Iterator<Item = OsString>) {
    if arguments.nth(1).is_none_or(|argument| argument != ARGUMENT) {
        return;
    }
    let stage = arguments.next().unwrap_or_default();
    let Ok(task) = read_task() else {
        // Nobody to tell: whoever started this sees that no status came.
        sys::exit_now(125);
    };
    let failed = if stage == OUTER {
        owner::run(&task, arguments)
    } else if stage == INNER {
        run(&task)
    } else if stage == REDUCED
        && let Some(own) = &task.reduced
    {
        reaper::run(&task, own)
    } else {
        sys::exit_now(125);
    };
    tell(task.status, &failed);
    sys::exit_now(125);
}

fn read_task() -> io::Result<Task> {
    let mut text = Vec::new();
    let mut stdin = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    // The outer stage has read it before.
    io::Seek::rewind(&mut stdin)?;
    stdin.read_to_end(&mut text)?;
    Ok(serde_json::from_slice(&text)?)
}

fn tell(status: RawFd, what: &Status) {
    let line = serde_json::to_string(what).unwrap_or_default() + "\n";
    // If nobody listens any more, nobody needs to know.
    let _ = sys::own(status).map(File::from).and_then(|mut pipe| pipe.write_all(line.as_bytes()));
}

/// Confines this process and becomes the command; what comes back is why not.
pub(super) fn run(task: &Task) -> Status {
    let held = match confine(task) {
        Ok(held) => held,
        Err(refused) => return refused,
    };
    tell(task.status, &Status::Held(held));
    let error = std::process::Command::new(&task.shell)
        .arg("-c")
        .arg(&task.command)
        .env_clear()
        .envs(task.environment.iter().map(|(name, value)| (name, value)))
        .exec();
    // The status is told already; this goes where the command's output would.
    let _ = writeln!(io::stderr(), "cannot start {}: {error}", task.shell);
    sys::exit_now(127)
}

fn confine(task: &Task) -> Result<Held, Status> {
    let refuse = |layer: Layer| move |why: io::Error| refused(layer, &why.to_string());
    let wanted = |layer: Layer| wanted(layer, &task.left_out);
    let input = match task.input {
        Some(input) => sys::own(input),
        None => File::open("/dev/null").map(Into::into),
    };
    let input = input.map_err(refuse(Layer::Userns))?;
    sys::replace_stdin(input.as_fd()).map_err(refuse(Layer::Userns))?;
    drop(input);
    enter_workspace(task)?;
    for expected in &task.expected {
        expected.check().map_err(|why| refused(Layer::Mounts, &why))?;
    }
    if let Some(door) = task.door {
        door::open(door, &task.outside)?;
    }
    sys::no_new_privs().map_err(refuse(Layer::Seccomp))?;
    let line = part(task)?;
    let mut held = Held { broker: line.is_some(), ..Held::default() };
    if wanted(Layer::Limits) {
        let others = task.reduced.as_ref().map_or(0, |reduced| reduced.others);
        rlimits::set(&task.limits, others + u64::from(held.broker)).map_err(refuse(Layer::Limits))?;
        held.limits = true;
    }
    let around = Around { reduced: task.reduced.is_some(), group: task.group, network: task.door.is_some() };
    let filters = seccomp::compile(around).map_err(|why| refused(Layer::Seccomp, &why.to_string()))?;
    if wanted(Layer::Landlock) {
        held.landlock = landlock::confine(&task.rules, task.landlock)
            .map_err(|why| refused(Layer::Landlock, &why.to_string()))?;
        // While this process makes its files itself: what says no is Landlock.
        let probe = Path::new(&task.probe).join("file");
        if held.landlock == 0 || File::create(&probe).is_ok() {
            return Err(refused(Layer::Landlock, "a file can be made where no rule allows it"));
        }
    }
    if let Some(line) = line {
        let links = task.broker.as_ref().is_some_and(|broker| broker.links);
        line.hand_over(links).map_err(refuse(Layer::Broker))?;
        check_broker(&task.probe)?;
    }
    if wanted(Layer::Seccomp) {
        filters.install().map_err(refuse(Layer::Seccomp))?;
        held.seccomp = true;
    }
    if wanted(Layer::Descriptors) {
        sys::close_on_exec_from(3).map_err(refuse(Layer::Descriptors))?;
    }
    check(task, &held)?;
    Ok(held)
}

/// Parts from the broker, where there is to be one; this process comes back as the command's, the other one never. With a
/// line to it, if the machine lets it look into this one.
fn part(task: &Task) -> Result<Option<broker::Line>, Status> {
    let Some(asked) = &task.broker else { return Ok(None) };
    let confine = || match wanted(Layer::Landlock, &task.left_out) {
        // It looks at the command in /proc, which the command itself may not everywhere.
        true => landlock::confine(&task.rules.with_proc(), task.landlock).map(drop).map_err(io::Error::other),
        false => Ok(()),
    };
    let places = broker::Places { workspace: &task.directory, probe: &task.probe };
    match broker::part(asked, places, confine) {
        Ok(broker::Side::Command(line)) => Ok(line),
        Ok(broker::Side::Ended(code)) => sys::exit_now(code),
        Err(why) => Err(refused(Layer::Broker, &why.to_string())),
    }
}

/// Whether the broker answers: a name that stands for all that are protected is refused by it, as by nobody else.
fn check_broker(probe: &str) -> Result<(), Status> {
    match std::fs::create_dir(Path::new(probe).join(broker::PROBE)) {
        Err(why) if why.raw_os_error() == Some(libc::EPERM) => Ok(()),
        Err(why) => Err(refused(Layer::Broker, &format!("it does not answer ({why})"))),
        Ok(()) => Err(refused(Layer::Broker, "a protected name can be made")),
    }
}

pub(super) fn refused(layer: Layer, why: &str) -> Status {
    Status::Refused { layer, why: why.to_owned() }
}

/// Goes to the workspace, which must be the directory that the runtime holds open.
fn enter_workspace(task: &Task) -> Result<(), Status> {
    let fail = |why: &str| refused(Layer::Userns, why);
    std::env::set_current_dir(&task.directory)
        .map_err(|why| fail(&format!("the workspace cannot be entered: {why}")))?;
    let Some(identity) = task.identity else { return Ok(()) };
    match std::fs::metadata(".") {
        Ok(here) if (here.dev(), here.ino()) == identity => Ok(()),
        _ => Err(fail("the workspace's path leads somewhere else by now")),
    }
}

/// Looks from inside whether everything holds.
fn check(task: &Task, held: &Held) -> Result<(), Status> {
    let wanted = |layer: Layer| wanted(layer, &task.left_out);
    let own = std::fs::read_to_string("/proc/self/status")
        .map_err(|why| refused(Layer::Processes, &format!("/proc cannot be read: {why}")))?;
    let field = |name: &str| {
        own.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .map(str::trim)
            .unwrap_or_default()
    };
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        if !field(set).trim_matches('0').is_empty() {
            return Err(refused(Layer::Userns, &format!("capabilities are left ({set} {})", field(set))));
        }
    }
    if field("NoNewPrivs") != "1" {
        return Err(refused(Layer::Seccomp, "no_new_privs does not hold"));
    }
    if held.seccomp && field("Seccomp") != "2" {
        return Err(refused(Layer::Seccomp, "no filter is in force"));
    }
    door::check(task.door.is_some(), held)?;
    if File::create("/toolgate-probe").is_ok() {
        return Err(refused(Layer::Mounts, "the root directory can be written"));
    }
    check_namespaces(&task.outside)?;
    if wanted(Layer::Descriptors) {
        check_descriptors()?;
    }
    Ok(())
}

/// None of the machine's own namespaces is this process's.
pub(super) fn check_namespaces(outside: &[(Layer, String)]) -> Result<(), Status> {
    for (layer, theirs) in outside {
        let kind = theirs.split(':').next().unwrap_or_default();
        match Path::new("/proc/self/ns").join(kind).read_link() {
            Ok(own) if own != Path::new(theirs) => {}
            Ok(_) => return Err(refused(*layer, &format!("the {kind} namespace is the machine's own"))),
            Err(why) => return Err(refused(*layer, &format!("its namespace cannot be told: {why}"))),
        }
        if *layer == Layer::Network {
            check_network()?;
        }
    }
    Ok(())
}

/// There is no interface but the loopback.
fn check_network() -> Result<(), Status> {
    let table = std::fs::read_to_string("/proc/self/net/dev").unwrap_or_default();
    let outside = table.lines().filter_map(|line| line.split_once(':')).find(|(name, _)| name.trim() != "lo");
    match outside {
        None => Ok(()),
        Some((name, _)) => {
            Err(refused(Layer::Network, &format!("the network interface {} is there", name.trim())))
        }
    }
}

/// Nothing that was open is open in the command, but its input and output.
fn check_descriptors() -> Result<(), Status> {
    let fail = |why: io::Error| refused(Layer::Descriptors, &format!("open files cannot be listed: {why}"));
    for entry in std::fs::read_dir("/proc/self/fd").map_err(fail)? {
        let name = entry.map_err(fail)?.file_name();
        let number = name.to_str().and_then(|name| name.parse::<RawFd>().ok()).unwrap_or(0);
        if number > 2 && sys::lives_on(number) {
            return Err(refused(Layer::Descriptors, &format!("the open file {number} would be passed on")));
        }
    }
    Ok(())
}
