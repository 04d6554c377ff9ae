//! Makes a component from a file: checks size and digest, then compiles for a limited time.
//!
//! The bounds of a call do not hold for compiling, which runs in a thread that cannot be stopped. So a module
//! that takes too long is given up. Nothing else is compiled until that thread has ended.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::Read as _;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError, mpsc};
use std::time::Duration;

use cap_std::AmbientAuthority;
use sha2::{Digest as _, Sha256};
use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_COMMAND_ADAPTER,
};
use wasmtime::Engine;
use wasmtime::component::{self, InstancePre, Linker};
use wit_component::ComponentEncoder;

use super::host::State;
use super::pages::own_pages;
use crate::error::{Error, Kind};
use crate::output;

/// Compiled components that are kept in memory.
const KEPT: usize = 32;
/// Bytes of stack for compiling, so a deeply nested module does not end this process.
const COMPILER_STACK: usize = 64 * 1024 * 1024;

/// A compiled component. Cheap to clone.
#[derive(Clone)]
pub struct Component(Arc<Loaded>);

struct Loaded {
    pre: InstancePre<State>,
    sha256: String,
}

impl Component {
    /// The SHA-256 of its file, in hexadecimal.
    pub fn sha256(&self) -> &str {
        &self.0.sha256
    }

    pub(super) fn pre(&self) -> &InstancePre<State> {
        &self.0.pre
    }
}

impl std::fmt::Debug for Component {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Component").field(&self.sha256()).finish()
    }
}

/// Reads the file of a module that a person named. A link is followed. Anything but a regular file is
/// refused.
///
/// # Errors
/// [`Kind::NotFound`]. [`Kind::Limit`] for more than `most` bytes. [`Kind::Failed`] otherwise.
pub fn read_module(path: impl AsRef<Path>, most: u64, _: AmbientAuthority) -> Result<Vec<u8>, Error> {
    let path = path.as_ref();
    let shown = path.to_string_lossy();
    let fail = |source: std::io::Error| match source.kind() {
        std::io::ErrorKind::NotFound => Error::new(Kind::NotFound, "no such module").at(&shown),
        _ => Error::io(&shown, "read the module", source),
    };
    #[expect(clippy::disallowed_types, reason = "a door: a person names the module")]
    let mut options = std::fs::OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        // A named pipe must not keep us waiting.
        options
            .custom_flags((rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY).bits().cast_signed());
    }
    let file = options.open(path).map_err(fail)?;
    let metadata = file.metadata().map_err(fail)?;
    if !metadata.is_file() {
        return Err(Error::new(Kind::Failed, "the module is not a regular file").at(&shown));
    }
    let mut bytes = Vec::new();
    if metadata.len() <= most {
        file.take(most.saturating_add(1)).read_to_end(&mut bytes).map_err(fail)?;
    }
    if metadata.len() > most || u64::try_from(bytes.len()).unwrap_or(u64::MAX) > most {
        return Err(Error::new(Kind::Limit, format!("the module is larger than {most} bytes"))
            .at(&shown)
            .hint("build it without debug information"));
    }
    Ok(bytes)
}

/// Compiles components and keeps the compiled ones.
pub(super) struct Loader {
    engine: Engine,
    linker: Linker<State>,
    compile: Duration,
    compiler: Arc<Compiler>,
    known: Mutex<HashMap<String, Component>>,
}

impl Loader {
    pub(super) fn new(engine: Engine, linker: Linker<State>, compile: Duration) -> Self {
        Self { engine, linker, compile, compiler: Arc::default(), known: Mutex::default() }
    }

    pub(super) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Compiles the component in `bytes` in the time `within` or less. If there is a `pin`, the digest must
    /// equal it.
    pub(super) fn load(
        &self,
        bytes: Vec<u8>,
        pin: Option<&str>,
        within: Duration,
    ) -> Result<Component, Error> {
        let sha256 = hex(&Sha256::digest(&bytes));
        if let Some(pin) = pin
            && !pin.trim().eq_ignore_ascii_case(&sha256)
        {
            return Err(Error::new(
                Kind::Denied,
                format!("the module's SHA-256 is {sha256}, not the one it is pinned to"),
            )
            .hint("see why it changed, then change the pin"));
        }
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(component) = known().get(&sha256) {
            return Ok(component.clone());
        }
        let compiled = self.compile(bytes, within.min(self.compile))?;
        let pre = self.linker.instantiate_pre(&compiled).map_err(|why| {
            Error::new(
                Kind::Invalid,
                format!("the module asks for what is not offered ({})", first_line(&why)),
            )
            .hint("components get standard streams, clocks, random numbers and granted files")
        })?;
        let component = Component(Arc::new(Loaded { pre, sha256: sha256.clone() }));
        let mut known = known();
        if known.len() >= KEPT {
            known.clear();
        }
        known.insert(sha256, component.clone());
        Ok(component)
    }

    /// Compiles in a separate thread. Waiting for the turn may take `within`, and so may compiling.
    fn compile(&self, bytes: Vec<u8>, within: Duration) -> Result<component::Component, Error> {
        let busy = self.compiler.take(within).ok_or_else(|| {
            Error::new(Kind::Limit, "another module is still being compiled").hint("try again later")
        })?;
        let (done, result) = mpsc::channel();
        let engine = self.engine.clone();
        std::thread::Builder::new()
            .name("compile".into())
            .stack_size(COMPILER_STACK)
            .spawn(move || {
                let compiled = compiled(&engine, &bytes);
                drop(busy);
                // Nobody listens any more if it took too long.
                let _ = done.send(compiled);
            })
            .map_err(|source| {
                Error::new(Kind::Failed, "cannot start a thread to compile in").because(source)
            })?;
        match result.recv_timeout(within) {
            Ok(compiled) => compiled,
            Err(mpsc::RecvTimeoutError::Timeout) => Err(Error::new(
                Kind::Limit,
                format!("the module takes longer than {} ms to compile", within.as_millis()),
            )
            .hint("use a smaller one")),
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                Err(Error::new(Kind::Invalid, "the module cannot be compiled: it breaks the compiler"))
            }
        }
    }
}

/// The right to compile. One module has it at a time.
#[derive(Default)]
struct Compiler {
    busy: Mutex<bool>,
    free: Condvar,
}

impl Compiler {
    /// `None` if the right is not free in that time.
    fn take(self: &Arc<Self>, within: Duration) -> Option<Busy> {
        let busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.free.wait_timeout_while(busy, within, |busy| *busy);
        let (mut busy, _) = waited.unwrap_or_else(PoisonError::into_inner);
        (!std::mem::replace(&mut *busy, true)).then(|| Busy(Arc::clone(self)))
    }
}

/// Gives the compiler back when the thread ends, however it ends.
struct Busy(Arc<Compiler>);

impl Drop for Busy {
    fn drop(&mut self) {
        *self.0.busy.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.0.free.notify_one();
    }
}

/// Compiles a component. A preview 1 module becomes a component first, so one host confines both.
fn compiled(engine: &Engine, bytes: &[u8]) -> Result<component::Component, Error> {
    let component = match bytes.get(..8) {
        Some(b"\0asm\x01\0\0\0") => Cow::Owned(componentized(bytes)?),
        Some([b'\0', b'a', b's', b'm', ..]) => Cow::Borrowed(bytes),
        _ => {
            return Err(Error::new(Kind::Invalid, "this is no WebAssembly module")
                .hint("build it as a WASI component"));
        }
    };
    component::Component::from_binary(engine, &own_pages(&component))
        .map_err(|why| Error::new(Kind::Invalid, format!("the module is not valid ({})", first_line(&why))))
}

fn componentized(module: &[u8]) -> Result<Vec<u8>, Error> {
    let adapter = (WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_COMMAND_ADAPTER);
    ComponentEncoder::default()
        .module(module)
        .and_then(|encoder| encoder.adapter(adapter.0, adapter.1))
        .and_then(|mut encoder| encoder.encode())
        .map_err(|why| {
            let why = output::name(&why.root_cause().to_string());
            Error::new(Kind::Invalid, format!("the module cannot be made a component ({why})"))
                .hint("build it as a WASI component, or as a WASI preview 1 command")
        })
}

/// The innermost reason, as a part of a line. It may hold names of the module.
pub(super) fn first_line(why: &wasmtime::Error) -> String {
    output::name(&why.root_cause().to_string())
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(64), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
