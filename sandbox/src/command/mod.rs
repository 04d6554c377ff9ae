//! The command tier: a shell command under the operating system's own confinement.
//!
//! A command runs behind two walls of different make. Outside, bubblewrap gives it namespaces: mounts of the system's
//! programs, of the workspace and of nothing else, processes and a network of its own. Inside, a stage (this program
//! again) gives up what is left: Landlock, a system call filter, bounds. The stage looks from inside whether all of it
//! holds, and only then becomes the command.
//!
//! Invariant: a command that runs is confined by every layer the policy requires, and its report says by which; where
//! one is missing nothing runs.
//!
//! A program that uses this tier calls [`enter_stage_if_asked`] first in its `main`.

pub mod rules;
pub mod shell;

mod limits;

mod layer;

#[cfg(target_os = "linux")]
mod linux;

#[cfg(not(target_os = "linux"))]
mod elsewhere;

pub mod seatbelt;

use std::path::PathBuf;

use serde::Serialize;

pub use layer::{ALL as LAYERS, Layer};
pub use limits::Limits;

#[cfg(target_os = "linux")]
pub use linux::{Commands, Service};
#[cfg(target_os = "linux")]
pub(crate) use linux::{path_of, receive_descriptor};

#[cfg(not(target_os = "linux"))]
pub use elsewhere::{Commands, Service};

use crate::report::Enforced;

/// Where the programs of the sandbox are.
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
pub struct Setup {
    /// The program that runs as the stage; `None` is the running program, which must have called
    /// [`enter_stage_if_asked`].
    pub stage: Option<PathBuf>,
    /// Bubblewrap; `None` looks for `bwrap` in the system's own directories.
    pub bubblewrap: Option<PathBuf>,
    /// Layers to leave out, so that a test can show what each of them stops. The report says so. Only with the feature
    /// `ablation`, which no program turns on.
    #[cfg(feature = "ablation")]
    pub without: Vec<Layer>,
}

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

/// Runs the stage of a confined command if this process was started as one, and then does not come back.
///
/// Call it first in `main`, before any thread is started and before arguments are parsed. A program that cannot do that
/// names another one in [`Setup::stage`], such as this package's `toolgate-stage`.
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

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum End {
    /// By itself, with this exit code; 128 and the signal's number if a signal ended it.
    Exited(i32),
    /// It was ended: its time was over.
    TimeLimit,
    /// It was ended: it took too much memory.
    MemoryLimit,
    /// It was ended: it wrote too much, or too many files.
    DiskLimit,
    /// It was ended: whoever started it needs it no more.
    Stopped,
}

/// What a command came to.
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
    /// How it ended.
    pub end: End,
    /// What it wrote, standard output and standard error in order; as it came, not made safe to show.
    #[serde(skip)]
    pub output: Vec<u8>,
    /// How many bytes it wrote in all.
    pub output_bytes: u64,
    /// Whether a part of the output was left out.
    pub truncated: bool,
    /// Protected names that it was kept from making, changing or taking away.
    pub refused: Vec<String>,
    /// Protected names that it made and that were taken away again.
    pub taken_back: Vec<String>,
    /// What it was kept from reaching, where it has a network: host, port and why.
    pub unreached: Vec<String>,
    /// Protected names that it made and that could not be taken away. The workspace is closed until a person has done so:
    /// [`Root::check_open`](crate::Root::check_open).
    pub left: Vec<String>,
    /// What held while it ran.
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

    /// The text for a model: the output, and a line about the end where it was not a plain success.
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

/// One layer on this machine.
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
    /// Which one.
    pub layer: Layer,
    /// Whether it works here.
    pub works: bool,
    /// Whether no command runs without it.
    pub required: bool,
    /// What was found: a version, or why it does not work.
    pub found: String,
    /// How to get it, where it is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// What is refused, or weaker, without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without: Option<String>,
}
