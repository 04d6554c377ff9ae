//! Runs commands on macOS, under Seatbelt. It is the reduced tier: a policy must ask for it.
//!
//! Invariant: nothing runs before the self-check has seen the profile close what it should, and nothing runs
//! in a directory that is not the workspace any more. Seatbelt knows files by their paths, so that is looked
//! up before each command.
//!
//! Only macOS has the program that puts a profile on. All else here is compiled and tested on Linux, too.

mod confined;

mod follow;

mod check;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use cap_std::ambient_authority;

use confined::{Confined, Task};
use follow::{Bounds, Stopped};

use super::environment::Environment;
use super::rules::{self, Decided};
use super::scratch::Scratch;
use super::unserved::Service;
use super::{End, LAYERS, Layer, LayerState, Limits, Ran, Setup, could_not_start, seatbelt};
use crate::error::{Error, Kind};
use crate::fs::Root;
use crate::grants::Grants;
use crate::policy::{Confinement, Exec, Mode, NetMode, Policy, Tier};
use crate::report::Enforced;

/// The name of the confinement in reports.
const SEATBELT: &str = "seatbelt";

/// What Seatbelt does not hold, for reports.
const HOLES: [&str; 7] = [
    "reduced: no memory, process and disk totals",
    "names, sizes and times of files outside can be seen; their contents cannot be read or written",
    "a process that leaves its group is not ended with the command; it stays confined",
    "letters outside of ASCII are compared as they are written, so another spelling of a protected name can be made",
    "what a protected link leads to, and a repository that is not called .git, can be changed",
    "open files that this program has not marked to be closed may stay open",
    "Seatbelt is called deprecated by its maker",
];

/// The layers of Linux that hold here, too.
const SHARED: [Layer; 2] = [Layer::Environment, Layer::Limits];

/// Bytes of output that are kept beyond the bound, for the line before the command.
const WORD_ROOM: usize = 64;

/// Confined commands in a workspace, under one policy. Cheap to clone. A self-check has shown that Seatbelt
/// works on this machine.
///
/// ```no_run
/// use toolgate_sandbox::command::{Commands, Setup};
/// use toolgate_sandbox::policy::{Mode, Policy};
/// use toolgate_sandbox::{Root, ambient_authority};
///
/// let policy = Policy::parse(
///     "version = 1\ntier = \"exec\"\n[fs]\nread = [\"@workspace\", \"@system\"]\n\
///      [require]\nconfinement = \"reduced\"\n",
/// )?;
/// let root = Root::open(".", ambient_authority())?;
/// let commands = Commands::new(&root, &policy, Mode::Intel, &Setup::default())?;
/// assert_eq!(commands.run("echo hello")?.output, b"hello\n");
/// assert_eq!(commands.enforced()?.fs, "seatbelt:read");
/// # Ok::<(), toolgate_sandbox::Error>(())
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
}

impl Commands {
    /// Commands in the workspace `root`, under the grants of `policy` in `mode`. The self-check and a trial
    /// run come first.
    ///
    /// # Errors
    /// [`Kind::Denied`] if the policy grants no commands. [`Kind::Unavailable`] if the policy asks for more
    /// than Seatbelt holds, or with what failed in the self-check.
    pub fn new(root: &Root, policy: &Policy, mode: Mode, _: &Setup) -> Result<Self, Error> {
        fits(policy)?;
        if rustix::process::geteuid().is_root() {
            return Err(Error::new(
                Kind::Unavailable,
                "commands are refused: Seatbelt is not for root, who owns what it leaves open",
            )
            .hint("run as an ordinary user"));
        }
        check::checked()?;
        let commands = Self(Arc::new(Inner {
            root: root.clone(),
            grants: policy.grants(mode),
            exec: policy.exec.clone(),
            limits: Limits::from(&policy.limits),
            environment: Environment::of(policy, "/", "/"),
        }));
        commands.enforced()?;
        Ok(commands)
    }

    /// The report of commands on this machine. A policy asks for them by `[require] confinement = "reduced"`.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] with what failed in the self-check.
    pub fn reduced(root: &Root, setup: &Setup) -> Result<Enforced, Error> {
        let mut policy = Policy::default_for(Mode::Intel);
        policy.confinement = Some(Confinement::Reduced);
        Self::new(root, &policy, Mode::Intel, setup)?.enforced()
    }

    /// The reason that these commands run in the reduced tier.
    pub fn reduced_since(&self) -> Option<&str> {
        Some(REDUCED_SINCE)
    }

    /// The state of every layer on this machine, after a trial run in the workspace `root`. Seatbelt is none
    /// of them: [`reduced`](Self::reduced) tells of it.
    pub fn layers(root: &Root, setup: &Setup) -> Vec<LayerState> {
        let trial = Self::reduced(root, setup);
        LAYERS.iter().map(|layer| state(*layer, trial.as_ref().err())).collect()
    }

    /// The decision of the policy's rules about a command line. The rules are no isolation.
    pub fn decide(&self, command: &str) -> Decided {
        rules::decide(&self.0.exec.rule, command)
    }

    /// Whether a command may change the workspace.
    pub fn can_write(&self) -> bool {
        self.0.grants.can_write()
    }

    /// The hosts that commands can reach: none.
    pub fn network(&self) -> Option<String> {
        None
    }

    /// The bounds of each command. Those of totals do not hold here.
    pub fn limits(&self) -> &Limits {
        &self.0.limits
    }

    /// Runs `command` in the shell. Waits for its end, and ends its process group.
    ///
    /// The caller handles a rule that asks ([`decide`](Self::decide)). This function obeys a rule that
    /// refuses.
    ///
    /// # Errors
    /// [`Kind::Denied`] by a rule, or for a workspace that is not at its path any more. [`Kind::Unavailable`]
    /// if the profile does not hold. [`Kind::Invalid`] for a command that is no text for a shell.
    pub fn run(&self, command: &str) -> Result<Ran, Error> {
        self.run_until(command, Arc::default())
    }

    /// [`run`](Self::run) with a `stop` flag. Once it is set, the command and its process group are ended:
    /// [`End::Stopped`].
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_until(&self, command: &str, stop: Arc<AtomicBool>) -> Result<Ran, Error> {
        rules::check(&self.0.exec.rule, command)?;
        self.0.carry_out(command, stop)
    }

    /// The layers that confine commands here, found by a trial run.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn enforced(&self) -> Result<Enforced, Error> {
        self.0.carry_out(":", Arc::default()).map(|ran| ran.enforced)
    }

    /// Refuses: a server stays, and here nothing counts what it takes in the end.
    ///
    /// # Errors
    /// [`Kind::Unavailable`], always.
    pub fn serve(&self, _: &[String]) -> Result<Service, Error> {
        Err(Error::new(Kind::Unavailable, "servers of a policy are not started on macOS yet")
            .hint("the file tools and run_command work"))
    }
}

/// The reason that commands have fewer layers here.
const REDUCED_SINCE: &str = "macOS has no namespaces";

/// Whether Seatbelt can hold what a policy asks for.
fn fits(policy: &Policy) -> Result<(), Error> {
    let more = |what: &str| Error::new(Kind::Unavailable, format!("commands are refused: {what}"));
    if policy.tier < Tier::Exec {
        return Err(Error::new(Kind::Denied, "the policy grants no commands")
            .hint("a policy with tier = \"exec\" does"));
    }
    if !policy.system_readable {
        return Err(Error::new(Kind::Denied, "the policy lets commands read no programs")
            .hint("add \"@system\" to [fs] read"));
    }
    if policy.confinement != Some(Confinement::Reduced) {
        return Err(more("macOS has the reduced tier alone, and the policy does not ask for it")
            .hint("[require] confinement = \"reduced\" in a policy does; the file tools work"));
    }
    for name in &policy.require_layers {
        if !SHARED.iter().any(|layer| layer.name() == name) {
            return Err(more("macOS does not have a layer that the policy requires").at(name));
        }
    }
    let net = &policy.net;
    if policy.tier >= Tier::ExecNet && net.mode == NetMode::Proxy && !net.allow.is_empty() {
        return Err(more("the reduced tier has no network namespace for the proxy"));
    }
    match policy.outside.is_empty() {
        true => Ok(()),
        false => Err(more("paths outside of the workspace cannot be granted on macOS yet")),
    }
}

fn state(layer: Layer, failed: Option<&Error>) -> LayerState {
    let (works, found) = match (SHARED.contains(&layer), failed) {
        (false, _) => (false, "not on macos".to_owned()),
        (true, Some(why)) => (false, why.to_string()),
        (true, None) => (true, "seen to hold in a trial run".to_owned()),
    };
    LayerState {
        layer,
        works,
        required: true,
        found,
        remedy: None,
        without: (!works).then(|| {
            "run_command is refused, unless the policy says [require] confinement = \"reduced\"; file tools work"
                .to_owned()
        }),
    }
}

impl Inner {
    /// Runs a command to its end or until `stop` is set.
    fn carry_out(&self, command: &str, stop: Arc<AtomicBool>) -> Result<Ran, Error> {
        self.root.check_open()?;
        let workspace = self.workspace()?;
        let scratch = Scratch::new()?;
        let profile = seatbelt::profile(&self.grants, &workspace, scratch.temporary())?;
        let mut environment = self.environment.clone();
        environment.set("HOME", scratch.home().to_owned());
        environment.set("TMPDIR", scratch.temporary().to_owned());
        let confined = Confined::new(Task {
            profile: Some(&profile),
            shell: self.exec.shell.as_deref(),
            command,
            limits: &self.limits,
            environment,
            directory: workspace.into(),
            number: crate::fs::drawn(),
        });
        let kept = usize::try_from(self.limits.output_kb.saturating_mul(1024)).unwrap_or(usize::MAX);
        let bounds = Bounds {
            wall: Duration::from_millis(self.limits.wall_ms),
            output: kept.saturating_add(WORD_ROOM),
            stop,
        };
        let followed = follow::run(&confined, &bounds).map_err(could_not_start)?;
        let (total, truncated) = (followed.output.total(), followed.output.is_cut());
        let whole = followed.output.into_bytes();
        let end = match followed.stopped {
            Some(Stopped::Wall) => End::TimeLimit,
            Some(Stopped::Asked) => End::Stopped,
            None => End::Exited(followed.code),
        };
        let output = match (confined.output(&whole), end) {
            (Ok(output), _) => output,
            // Ended before it began.
            (Err(_), End::Stopped | End::TimeLimit) => &[],
            (Err(instead), _) => return Err(never_began(instead)),
        };
        let mut ran = Ran::new(end, output.to_vec());
        ran.output_bytes = total.saturating_sub(u64::try_from(confined.word_bytes()).unwrap_or_default());
        ran.truncated = truncated;
        ran.enforced = self.report();
        Ok(ran)
    }

    /// The path of the workspace, if that directory is still there.
    fn workspace(&self) -> Result<String, Error> {
        let shown = self.root.shown();
        let there = Root::open(&shown, ambient_authority())?;
        match there.id()? == self.root.id()? {
            true => Ok(shown),
            false => Err(Error::new(
                Kind::Denied,
                "commands cannot run in this workspace: another directory is at its path",
            )),
        }
    }

    fn report(&self) -> Enforced {
        let access = if self.grants.can_write() { "read+write" } else { "read" };
        Enforced {
            fs: format!("{SEATBELT}:{access}"),
            process: "reduced".into(),
            layers: std::iter::once(SEATBELT).chain(SHARED.map(Layer::name)).map(str::to_owned).collect(),
            weaker: HOLES.map(str::to_owned).to_vec(),
            ..Enforced::nothing()
        }
    }
}

/// The error for a command whose profile or bounds could not be set.
fn never_began(said: &[u8]) -> Error {
    let said = crate::output::name(String::from_utf8_lossy(said).trim());
    let said = if said.is_empty() { "it ended without a word".to_owned() } else { said };
    Error::new(Kind::Unavailable, format!("commands are refused: {SEATBELT} does not work here ({said})"))
        .hint("run \"toolgate doctor\" for more")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn refusal(policy: &str) -> Option<String> {
        let policy = Policy::parse(&format!("version = 1\n{policy}")).unwrap();
        fits(&policy).err().map(|why| why.to_string())
    }

    #[test]
    fn a_policy_that_asks_for_more_than_there_is_gets_no_commands() {
        let exec = "tier = \"exec\"\n[fs]\nread = [\"@workspace\", \"@system\"]\n";
        let reduced = format!("{exec}[require]\nconfinement = \"reduced\"\n");
        assert_eq!(refusal(&reduced), None);
        assert_eq!(refusal(&format!("{reduced}layers = [\"limits\", \"environment\"]\n")), None);
        for (policy, why) in [
            (exec.to_owned(), "does not ask for it"),
            (format!("{reduced}layers = [\"landlock\"]\n"), "landlock"),
            (reduced.replace("exec", "edit"), "grants no commands"),
            (reduced.replace(", \"@system\"", ""), "read no programs"),
            (
                reduced.replace("exec", "exec-net")
                    + "[net]\nmode = \"proxy\"\nallow = [\"a.example:443\"]\n",
                "proxy",
            ),
        ] {
            let said = refusal(&policy).unwrap_or_default();
            assert!(said.contains(why), "{policy}: {said:?}");
        }
    }

    #[test]
    fn a_report_names_seatbelt_and_what_it_leaves_open() {
        let dir = tempfile::tempdir().unwrap();
        let inner = Inner {
            root: Root::open(dir.path(), ambient_authority()).unwrap(),
            grants: Grants::read_write(),
            exec: Exec::default(),
            limits: Limits::default(),
            environment: Environment::of(&Policy::default_for(Mode::Edit), "/", "/"),
        };
        let report = inner.report();
        assert_eq!((report.fs.as_str(), report.process.as_str()), ("seatbelt:read+write", "reduced"));
        assert_eq!(report.layers, ["seatbelt", "environment", "limits"]);
        assert!(report.weaker.iter().any(|hole| hole == "reduced: no memory, process and disk totals"));
        assert_eq!(inner.workspace().unwrap(), inner.root.shown());
        let work = dir.path().join("w");
        let moved = Inner { root: opened(&work), ..inner };
        move_away(&work);
        assert_eq!(moved.workspace().unwrap_err().kind(), Kind::Denied);
    }

    #[expect(clippy::disallowed_methods, reason = "the test's own directory")]
    fn opened(work: &std::path::Path) -> Root {
        std::fs::create_dir(work).unwrap();
        Root::open(work, ambient_authority()).unwrap()
    }

    #[expect(clippy::disallowed_methods, reason = "the test's own directory")]
    fn move_away(work: &std::path::Path) {
        std::fs::rename(work, work.with_extension("old")).unwrap();
        std::fs::create_dir(work).unwrap();
    }

    #[test]
    fn a_command_that_never_began_is_a_refusal_with_its_reason() {
        let error = never_began(b"sandbox-exec: profile:3: unbound variable\n");
        assert_eq!(error.kind(), Kind::Unavailable);
        assert!(error.to_string().contains("profile:3"), "{error}");
        assert!(never_began(b"").to_string().contains("without a word"));
    }
}
