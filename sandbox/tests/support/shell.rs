//! A workspace for commands, confined and plain.

#![allow(clippy::print_stdout, reason = "started tests report to the test that started them")]

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use toolgate_sandbox::command::{Commands, Layer, Ran, Setup};
use toolgate_sandbox::policy::{Mode, Policy, ProcessLimits};
use toolgate_sandbox::{Error, Root, ambient_authority};

use super::{CANARY, skip};

pub(crate) const POLICY: &str =
    "version = 1\ntier = \"exec\"\n[fs]\nread = [\"@workspace\", \"@system\"]\nwrite = [\"@workspace\"]\n";

/// A workspace `ws` with a secret beside it, outside `/tmp`, which commands have one of their own of.
pub(crate) struct Field {
    pub(crate) base: tempfile::TempDir,
    pub(crate) ws: PathBuf,
    pub(crate) out: PathBuf,
}

impl Field {
    pub(crate) fn new() -> Self {
        let base = tempfile::Builder::new().prefix("toolgate-").tempdir_in("/var/tmp").unwrap();
        // So that nothing but the sandbox keeps others from what lies in it.
        fs::set_permissions(base.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let real = fs::canonicalize(base.path()).unwrap();
        let (ws, out) = (real.join("ws"), real.join("out"));
        fs::create_dir(&ws).unwrap();
        fs::create_dir(&out).unwrap();
        fs::write(out.join("secret.txt"), format!("{CANARY}\n")).unwrap();
        fs::write(out.join("target.txt"), "intact\n").unwrap();
        fs::write(ws.join("ok.txt"), "fine\n").unwrap();
        Self { base, ws, out }
    }

    pub(crate) fn commands(
        &self,
        policy: &str,
        mode: Mode,
        limits: &ProcessLimits,
        without: &[Layer],
    ) -> Result<Commands, Error> {
        let root = Root::open(&self.ws, ambient_authority()).unwrap();
        let policy = Policy::parse(policy).unwrap().limited(limits);
        Commands::new(&root, &policy, mode, &setup().without(without.to_vec()))
    }

    pub(crate) fn script(&self, command: &str) -> String {
        command.replace("$OUT", &self.out.to_string_lossy()).replace("$WS", &self.ws.to_string_lossy())
    }

    pub(crate) fn run_without(&self, command: &str, limits: &ProcessLimits, without: &[Layer]) -> Ran {
        let commands = self.commands(POLICY, Mode::Edit, limits, without).unwrap();
        commands.run(&self.script(command)).unwrap()
    }

    pub(crate) fn run(&self, command: &str) -> Ran {
        self.run_without(command, &ProcessLimits::default(), &[])
    }

    /// The control: what an unconfined shell says.
    pub(crate) fn plainly(&self, command: &str) -> String {
        let output =
            Command::new("/bin/bash").arg("-c").arg(self.script(command)).current_dir(&self.ws).output();
        let output = output.unwrap();
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    }
}

pub(crate) fn setup() -> Setup {
    let stage = std::env::var_os(STAGE).unwrap_or_else(|| env!("CARGO_BIN_EXE_toolgate-stage").into());
    Setup::default().stage(Some(stage.into()))
}

/// Where the stage is, for a test that was started as another user.
const STAGE: &str = "TOOLGATE_TEST_STAGE";
/// Set in a test that another one has started.
const STARTED: &str = "TOOLGATE_TEST_STARTED";
/// What a started test says when it is through.
const THROUGH: &str = "STARTED-TEST-THROUGH";

/// Runs the test `name` of this binary in a process of its own, as an ordinary user also where this one is root.
pub(crate) fn start_as_ordinary_user(name: &str) {
    let own = std::env::current_exe().unwrap();
    let place = tempfile::Builder::new().prefix("toolgate-").tempdir_in("/var/tmp").unwrap();
    let mut command = Command::new(&own);
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        // Copies, since where they were built may be closed to others.
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let [test, stage] = ["test", "stage"].map(|name| place.path().join(name));
        fs::copy(&own, &test).unwrap();
        fs::copy(env!("CARGO_BIN_EXE_toolgate-stage"), &stage).unwrap();
        command = Command::new(test);
        command.env(STAGE, stage).uid(65_534).gid(65_534);
    }
    command.args(["--exact", name, "--nocapture"]).env(STARTED, "1").current_dir("/");
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success() && said.contains(THROUGH), "{said}");
}

/// The body of a test that only counts where another one has started it.
pub(crate) fn if_started(body: impl FnOnce()) {
    if std::env::var_os(STARTED).is_some() {
        body();
        println!("{THROUGH}");
    }
}

/// A key of a message queue that no other test uses.
pub(crate) fn unused_key() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    u64::from(std::process::id()) * 64 + NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Has a system call fail with `EPERM` in this thread and all it starts; with `flags`, if its first argument has one.
pub(crate) fn refuse_call(call: i64, flags: Option<u64>) {
    use seccompiler::{
        SeccompAction, SeccompCmpArgLen as Width, SeccompCmpOp as Op, SeccompCondition, SeccompFilter,
        SeccompRule,
    };
    let rules = flags.map(|flags| {
        let condition = SeccompCondition::new(0, Width::Dword, Op::MaskedEq(flags), flags).unwrap();
        SeccompRule::new(vec![condition]).unwrap()
    });
    let rules = [(call, rules.into_iter().collect())].into_iter().collect();
    let arch = seccompiler::TargetArch::try_from(std::env::consts::ARCH).unwrap();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(1), arch).unwrap();
    let program: seccompiler::BpfProgram = filter.try_into().unwrap();
    seccompiler::apply_filter(&program).unwrap();
}

/// User namespaces as on a machine that refuses them.
pub(crate) fn refuse_user_namespaces() {
    const NEW_USER: u64 = 0x1000_0000;
    refuse_call(libc::SYS_clone, Some(NEW_USER));
    refuse_call(libc::SYS_unshare, Some(NEW_USER));
}

pub(crate) fn text(ran: &Ran) -> String {
    String::from_utf8_lossy(&ran.output).into_owned()
}

/// Whether this machine can run commands at all; skips where it cannot.
pub(crate) fn available() -> bool {
    let made = Field::new().commands(POLICY, Mode::Edit, &ProcessLimits::default(), &[]);
    made.map_err(|error| skip::sandbox(&error.to_string())).is_ok()
}
