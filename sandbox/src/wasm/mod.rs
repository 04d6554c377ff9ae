//! The component tier: runs tools as WebAssembly. A component can only compute and call the functions that it
//! is handed.
//!
//! Each call gets a fresh instance with standard streams in memory, clocks, random numbers, and the granted
//! directories. The file tier and its rules are behind those directories. There is no network and no
//! environment. A preview 1 module becomes a component first.
//!
//! Invariant: a call ends within its bounds, whatever the component does. The component reaches nothing
//! beyond its grants.

mod call;
mod engine;
mod files;
mod host;
mod limits;
mod load;
mod output;
mod pages;
mod tool;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use wasmtime_wasi::p2::bindings::Command;

pub use limits::Limits;
pub use load::{Component, read_module};
pub use tool::{Answer, Description};

use crate::error::{Error, Kind};
use crate::fs::Root;
use crate::grants::Grants;
use crate::policy::{DirMode, WasmTool};
use crate::report::Enforced;
use files::{Budget, Files};
use host::State;
use load::Loader;

/// The name of the engine, for reports.
pub const ENGINE: &str = "wasmtime 48";

/// The compilation of components.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Setup {
    /// The directory for compiled code, outside every workspace; `None` keeps the code in memory. The code
    /// there is run, so only this user may write there.
    pub cache: Option<PathBuf>,
    /// Milliseconds for compiling one component. Default 20,000.
    pub compile_ms: u64,
}

crate::setters::setters! { Setup {
    cache: Option<PathBuf>,
    compile_ms: u64,
} }

impl Default for Setup {
    fn default() -> Self {
        Self { cache: None, compile_ms: 20_000 }
    }
}

/// The size of the largest module: 16 MiB.
pub const MAX_MODULE_BYTES: u64 = 16 * 1024 * 1024;

/// A directory of the workspace that a component sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    /// Its path in the workspace.
    pub host: String,
    /// Its path as the component sees it.
    pub guest: String,
    /// Whether the component may write there. The grants have to allow it too.
    pub write: bool,
}

impl Directory {
    /// The directories that the policy grants `tool`.
    pub fn of(tool: &WasmTool) -> Vec<Self> {
        let directory = |dir: &crate::policy::Dir| Self {
            host: dir.host.clone(),
            guest: dir.guest.clone(),
            write: dir.mode == DirMode::Rw,
        };
        tool.dirs.iter().map(directory).collect()
    }
}

/// The part of a workspace that a call may use.
#[derive(Clone, Copy, Debug)]
pub struct Reach<'a> {
    /// The workspace.
    pub root: &'a Root,
    /// The grants for files of the workspace.
    pub grants: &'a Grants,
    /// The directories that the component sees.
    pub directories: &'a [Directory],
}

/// A bound that a call met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Bound {
    /// Time in milliseconds.
    Time,
    /// Instructions.
    Fuel,
    /// Memories and tables.
    Memory,
    /// The stack.
    Stack,
    /// Bytes written and files made.
    Disk,
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Time => "its time was over",
            Self::Fuel => "it computed more than is allowed",
            Self::Memory => "it asked for more memory than is allowed",
            Self::Stack => "it called itself too deeply",
            Self::Disk => "it wrote more than is allowed",
        })
    }
}

/// The end of a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum End {
    /// It ended by itself: 0 for success, else 1. Other exit codes do not arrive, since `wasi:cli/exit`
    /// carries only success or failure.
    Exited(i32),
    /// It was stopped at a bound.
    Stopped(Bound),
    /// It broke a rule of WebAssembly, such as a read beyond its memory.
    Trapped(String),
}

/// The result of a program.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Ran {
    /// The end of the program.
    pub end: End,
    /// The output: standard output and standard error in order. It is not made safe to show.
    #[serde(skip)]
    pub output: Vec<u8>,
    /// Bytes of output in all.
    pub output_bytes: u64,
    /// Whether a part of the output was dropped.
    pub truncated: bool,
    /// The first refusal, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// Bounds that the program met. It may have continued after that.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reached: Vec<Bound>,
    /// The layers that held during the call.
    #[serde(skip)]
    pub enforced: Enforced,
}

impl Ran {
    /// The text for a model: the output, then a line for each fault.
    pub fn content(&self) -> Vec<u8> {
        let mut out = self.output.clone();
        let mut line = |text: &str| crate::output::push_line(&mut out, text);
        if self.truncated {
            line(&format!("[{} bytes of output in all; the rest is not shown]", self.output_bytes));
        }
        if let Some(refused) = &self.refused {
            line(&format!("[refused: {refused}]"));
        }
        for bound in self.reached.iter().filter(|bound| self.end != End::Stopped(**bound)) {
            line(&format!("[{bound}]"));
        }
        match &self.end {
            End::Exited(0) if self.output.is_empty() => line("[no output]"),
            End::Exited(0) => {}
            End::Exited(code) => line(&format!("[exit code {code}]")),
            End::Stopped(bound) => line(&format!("[stopped: {bound}]")),
            End::Trapped(why) => line(&format!("[stopped: {why}]")),
        }
        out
    }
}

/// Compiles and calls components. One value serves a whole run.
///
/// ```
/// use toolgate_sandbox::wasm::{Components, Limits, MAX_MODULE_BYTES, Reach, Setup, read_module};
/// use toolgate_sandbox::{Grants, Root, ambient_authority};
/// let components = Components::new(&Setup::default(), None)?;
/// components.check()?;
/// let bytes = read_module("components/calculator.wasm", MAX_MODULE_BYTES, ambient_authority())?;
/// let calculator = components.load(bytes, None, None)?;
/// println!("the module's SHA-256 is {}", calculator.sha256());
/// let limits = Limits::default();
/// assert_eq!(components.describe(&calculator, &limits)?.name, "calculator");
/// // It is called with no directory of the workspace.
/// let (root, grants) = (Root::open(".", ambient_authority())?, Grants::read_only());
/// let reach = Reach { root: &root, grants: &grants, directories: &[] };
/// components.check_reach(&reach)?;
/// let answer = components.call(&calculator, &reach, &limits, r#"{"expression": "6 * 7"}"#.to_owned())?;
/// assert_eq!(answer.content(), "42");
/// // A program instead of a tool: this one does nothing.
/// let module = wat::parse_str(r#"(module (memory (export "memory") 1) (func (export "_start")))"#)?;
/// let program = components.load(module, None, None)?;
/// let ran = components.run(&program, &reach, &limits, &["nothing".to_owned()], Vec::new())?;
/// assert_eq!(ran.content(), b"[no output]");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Components {
    loader: Loader,
}

impl fmt::Debug for Components {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Components").finish_non_exhaustive()
    }
}

impl Components {
    /// Makes the engine. `root` is the workspace: a cache within its reach is not used.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] if this machine cannot compile components.
    ///
    /// ```
    /// use toolgate_sandbox::Kind;
    /// use toolgate_sandbox::wasm::{Components, Setup};
    /// let components = Components::new(&Setup::default(), None)?;
    /// let error = components.load(b"no module".to_vec(), None, None).unwrap_err();
    /// assert_eq!(error.kind(), Kind::Invalid);
    /// # Ok::<(), toolgate_sandbox::Error>(())
    /// ```
    pub fn new(setup: &Setup, root: Option<&Root>) -> Result<Self, Error> {
        let cache = setup.cache.as_ref().and_then(|directory| engine::cache(directory, root));
        let engine = engine::engine(cache)?;
        let linker =
            host::linker(&engine).map_err(|why| Error::new(Kind::Unavailable, load::first_line(&why)))?;
        Ok(Self { loader: Loader::new(engine, linker, Duration::from_millis(setup.compile_ms)) })
    }

    /// Checks that components run here: compiles and calls the smallest one.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] with the reason.
    pub fn check(&self) -> Result<(), Error> {
        let empty = b"\0asm\x0d\0\x01\0".to_vec();
        let tried = self.loader.load(empty, None, Duration::MAX).and_then(|component| {
            let state = self.state_of_nothing(&Limits::default());
            call::call(self.loader.engine(), &component, state, &Limits::default(), async |_, _| Ok(()))
        });
        match tried.map(|ended| ended.value) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(end)) => {
                Err(Error::new(Kind::Unavailable, format!("components do not run here ({end:?})")))
            }
            Err(error) => Err(error.into_kind(Kind::Unavailable)),
        }
    }

    /// Compiles the component in `bytes`. If there is a `pin`, the SHA-256 of the bytes must equal it.
    /// Compiling may take the time of the setup, or `wall_ms` if that is less.
    ///
    /// # Errors
    /// [`Kind::Invalid`] for bytes that are no component, and for an import that is not offered.
    /// [`Kind::Denied`] for another digest. [`Kind::Limit`] if compiling takes too long.
    pub fn load(&self, bytes: Vec<u8>, pin: Option<&str>, wall_ms: Option<u64>) -> Result<Component, Error> {
        if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > MAX_MODULE_BYTES {
            return Err(Error::new(
                Kind::Limit,
                format!("the module is larger than {MAX_MODULE_BYTES} bytes"),
            ));
        }
        self.loader.load(bytes, pin, wall_ms.map_or(Duration::MAX, Duration::from_millis))
    }

    /// Runs a component that is a program (`wasi:cli/run`). The first argument is its name.
    ///
    /// # Errors
    /// [`Kind::Denied`] for a directory without a grant. [`Kind::Invalid`] for a component that is no
    /// program.
    pub fn run(
        &self,
        component: &Component,
        reach: &Reach<'_>,
        limits: &Limits,
        args: &[String],
        stdin: Vec<u8>,
    ) -> Result<Ran, Error> {
        let files = self.files(reach, limits)?;
        let enforced = enforced(&files, Some(reach.root));
        let output = output::Capture::new(limits.output_bytes());
        let state = State::new(files, limits, args, stdin, &output);
        let ended = call::call(self.loader.engine(), component, state, limits, async |store, instance| {
            let program = Command::new(&mut *store, &instance)?;
            program.wasi_cli_run().call_run(store).await
        })?;
        let (kept, output_bytes) = output.take();
        let end = match ended.value {
            Ok(Ok(())) => End::Exited(0),
            Ok(Err(())) => End::Exited(1),
            Err(end) => end,
        };
        let truncated = u64::try_from(kept.len()).unwrap_or(u64::MAX) < output_bytes;
        let (refused, reached) = (ended.refused, ended.reached);
        Ok(Ran { end, output: kept, output_bytes, truncated, refused, reached, enforced })
    }

    /// Checks that the directories of `reach` can be granted.
    ///
    /// # Errors
    /// [`Kind::Denied`] for a directory outside the workspace or the grants. Also the errors of opening it.
    pub fn check_reach(&self, reach: &Reach<'_>) -> Result<(), Error> {
        self.files(reach, &Limits::default()).map(drop)
    }

    fn files(&self, reach: &Reach<'_>, limits: &Limits) -> Result<Files, Error> {
        let budget = Budget::new(limits.disk_bytes(), limits.files);
        Files::new(reach.root, reach.grants, reach.directories, budget)
    }

    /// The state of a call that sees nothing of the workspace.
    fn state_of_nothing(&self, limits: &Limits) -> State {
        State::new(Files::none(Budget::new(0, 0)), limits, &[], Vec::new(), &output::Capture::new(0))
    }
}

/// The report of a call of a component with these files.
fn enforced(files: &Files, root: Option<&Root>) -> Enforced {
    let fs = match files.granted() {
        None => "none",
        Some(false) => "capability:read",
        Some(true) => "capability:read+write",
    };
    Enforced {
        fs: fs.into(),
        process: "component".into(),
        resolver: files.granted().and(root).map(Root::resolver),
        layers: vec![ENGINE.to_owned()],
        ..Enforced::nothing()
    }
}
