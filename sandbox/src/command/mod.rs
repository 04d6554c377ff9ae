//! The command tier: runs a shell command under the confinement of the operating system.
//!
//! Two different walls confine a command. The outer wall is bubblewrap. It makes namespaces: mounts of the
//! programs of the system and of the workspace alone, and separate processes and a separate network. The
//! inner wall is a stage, which is this program again. It adds Landlock, a system call filter and bounds. The
//! stage verifies all of it from inside. Only then it becomes the command.
//!
//! That is Linux. On macOS a Seatbelt profile confines a command, and a self-check comes before the first one.
//! Other systems have no commands.
//!
//! Invariant: every layer that the policy requires confines a running command, and the report names the
//! layers. If a layer is missing, nothing runs.
//!
//! A program that uses this tier calls [`enter_stage_if_asked`] first in its `main`.

pub mod rules;
pub mod shell;

mod limits;

mod layer;

#[cfg(any(target_os = "linux", target_os = "macos"))]
mod environment;

#[cfg(any(target_os = "linux", target_os = "macos"))]
mod scratch;

#[cfg(any(target_os = "linux", target_os = "macos"))]
mod capture;

#[cfg(target_os = "linux")]
mod linux;

pub mod seatbelt;

// Linux compiles it for its tests, so that as little as possible of it is tried on a Mac alone.
#[cfg(any(target_os = "macos", all(target_os = "linux", test)))]
#[cfg_attr(
    not(target_os = "macos"),
    allow(dead_code, unreachable_pub, reason = "tests alone use it on this system")
)]
mod macos;

// As above.
#[cfg(any(not(target_os = "linux"), test))]
#[cfg_attr(
    target_os = "linux",
    allow(dead_code, unreachable_pub, reason = "tests alone use it on this system")
)]
mod unserved;

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
mod elsewhere;

use std::path::PathBuf;

use serde::Serialize;

pub use layer::{ALL as LAYERS, Layer};
pub use limits::Limits;

#[cfg(target_os = "linux")]
pub use linux::{Commands, Service};
#[cfg(target_os = "linux")]
pub(crate) use linux::{path_of, receive_descriptor};

#[cfg(target_os = "macos")]
pub use macos::Commands;

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
pub use elsewhere::Commands;

#[cfg(not(target_os = "linux"))]
pub use unserved::Service;

#[cfg(any(target_os = "linux", target_os = "macos"))]
use crate::error::{Error, Kind};
use crate::report::Enforced;

/// The programs of the sandbox.
///
/// ```
/// use toolgate_sandbox::command::{Commands, Setup};
/// use toolgate_sandbox::policy::{Mode, Policy};
/// use toolgate_sandbox::{Kind, Root, ambient_authority};
///
/// let root = Root::open(".", ambient_authority())?;
/// let policy = Policy::default_for(Mode::Intel);
/// let refused = Commands::new(&root, &policy, Mode::Intel, &Setup::default()).unwrap_err();
/// assert_eq!(refused.kind(), Kind::Unavailable, "this program has not called enter_stage_if_asked");
/// # Ok::<(), toolgate_sandbox::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Setup {
    /// The program of the stage. `None` means the running program, which must have called
    /// [`enter_stage_if_asked`].
    pub stage: Option<PathBuf>,
    /// The program bubblewrap. `None` means `bwrap` in the directories of the system.
    pub bubblewrap: Option<PathBuf>,
    /// Layers to leave out, so a test can show the effect of each. The report tells so. This exists only with
    /// the feature `ablation`, which no program turns on.
    #[cfg(feature = "ablation")]
    pub without: Vec<Layer>,
}

crate::setters::setters! { Setup {
    stage: Option<PathBuf>,
    bubblewrap: Option<PathBuf>,
} }

#[cfg(feature = "ablation")]
crate::setters::setters! { Setup { without: Vec<Layer> } }

#[cfg(target_os = "linux")]
impl Setup {
    fn left_out(&self) -> &[Layer] {
        #[cfg(feature = "ablation")]
        let left_out = &self.without;
        #[cfg(not(feature = "ablation"))]
        let left_out = &[];
        left_out
    }
}

/// Runs the stage of a confined command, if this process was started as a stage. Then it never returns.
///
/// Call it first in `main`, before any thread starts and before arguments are parsed. A program that cannot
/// do so names another program in [`Setup::stage`], such as `toolgate-stage` of this package.
///
/// ```standalone_crate
/// use toolgate_sandbox::command::enter_stage_if_asked;
/// enter_stage_if_asked();
/// // What comes here is the program itself, and none of its stages: its arguments are its own.
/// assert_eq!(std::env::args().count(), 1);
/// ```
pub fn enter_stage_if_asked() {
    #[cfg(target_os = "linux")]
    linux::enter_stage_if_asked();
}

/// The end of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum End {
    /// It ended by itself, with this exit code. A signal counts as 128 and its number.
    Exited(i32),
    /// It was ended at its time limit.
    TimeLimit,
    /// It was ended at its memory limit.
    MemoryLimit,
    /// It was ended at its limit of bytes or files on the disk.
    DiskLimit,
    /// It was ended since its caller needs it no more.
    Stopped,
}

/// The result of a command.
///
/// ```
/// use toolgate_sandbox::command::{End, Ran};
///
/// let mut ran = Ran::new(End::Exited(2), b"no such file".to_vec());
/// ran.taken_back = vec![".bashrc".to_owned()];
/// ran.unreached = vec!["example.org:443 is not on the list".to_owned()];
/// let shown = b"no such file\n[.bashrc is protected: what the command did there was taken back]\n\
///     [no connection: example.org:443 is not on the list]\n[exit code 2]";
/// assert_eq!(ran.content(), shown);
/// ```
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Ran {
    /// The end of the command.
    pub end: End,
    /// The output: standard output and standard error in order. It is not made safe to show.
    #[serde(skip)]
    pub output: Vec<u8>,
    /// Bytes of output in all.
    pub output_bytes: u64,
    /// Whether a part of the output was dropped.
    pub truncated: bool,
    /// Protected names that the command tried to make, change or remove, and was refused.
    pub refused: Vec<String>,
    /// Protected names that the command made and that were removed again.
    pub taken_back: Vec<String>,
    /// Refused connections of a command with a network: host, port and reason.
    pub unreached: Vec<String>,
    /// Protected names that the command made and that could not be removed. The workspace is closed until a
    /// person has removed them: [`Root::check_open`](crate::Root::check_open).
    pub left: Vec<String>,
    /// The layers that held during the command.
    #[serde(skip)]
    pub enforced: Enforced,
}

impl Ran {
    /// A command that ended so and wrote `output`. Nothing was refused, and no layer is named.
    pub fn new(end: End, output: Vec<u8>) -> Self {
        Self {
            end,
            output_bytes: u64::try_from(output.len()).unwrap_or(u64::MAX),
            output,
            truncated: false,
            refused: Vec::new(),
            taken_back: Vec::new(),
            unreached: Vec::new(),
            left: Vec::new(),
            enforced: Enforced::nothing(),
        }
    }

    /// The text for a model: the output, then a line for each refusal and for an end other than success.
    pub fn content(&self) -> Vec<u8> {
        let mut out = self.output.clone();
        let mut line = |text: &str| crate::output::push_line(&mut out, text);
        for name in &self.refused {
            line(&format!("[{} is protected: the command was kept from it]", crate::output::name(name)));
        }
        for name in &self.taken_back {
            line(&format!(
                "[{} is protected: what the command did there was taken back]",
                crate::output::name(name)
            ));
        }
        for unreached in &self.unreached {
            line(&format!("[no connection: {}]", crate::output::name(unreached)));
        }
        for name in &self.left {
            line(&format!(
                "[{} is protected and could not be taken back: the workspace is closed until a person has looked at it]",
                crate::output::name(name)
            ));
        }
        match self.end {
            End::Exited(0)
                if self.output.is_empty() && self.taken_back.is_empty() && self.left.is_empty() =>
            {
                line("[no output]")
            }
            End::Exited(0) => {}
            End::Exited(code) => line(&format!("[exit code {code}]")),
            End::TimeLimit => line("[stopped: its time was over]"),
            End::MemoryLimit => line("[stopped: it took more memory than is allowed]"),
            End::DiskLimit => line("[stopped: it wrote more than is allowed]"),
            End::Stopped => line("[stopped: it was not needed any more]"),
        }
        out
    }
}

/// The state of a layer on this machine.
///
/// ```
/// use toolgate_sandbox::command::{Commands, LAYERS, Setup};
/// use toolgate_sandbox::{Root, ambient_authority};
///
/// let layers = Commands::layers(&Root::open(".", ambient_authority())?, &Setup::default());
/// assert_eq!(layers.len(), LAYERS.len());
/// for state in &layers {
///     assert!(state.works || state.without.is_some(), "what is refused without it is told");
/// }
/// # Ok::<(), toolgate_sandbox::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LayerState {
    /// The layer.
    pub layer: Layer,
    /// Whether the layer works here.
    pub works: bool,
    /// Whether commands are refused without the layer.
    pub required: bool,
    /// The finding: a version, or the reason that the layer does not work.
    pub found: String,
    /// The way to get a missing layer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// The effect of a missing layer: a refusal or a weakness.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without: Option<String>,
}

#[cfg(any(target_os = "linux", target_os = "macos"))]
fn could_not_start(why: std::io::Error) -> Error {
    Error::new(Kind::Failed, format!("the command could not be started ({why})")).because(why)
}
