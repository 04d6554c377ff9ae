//! The engine: how components are compiled and what every call of one has to live with.

use std::path::Path;

use wasmtime::{Cache, CacheConfig, Config, Engine};

use crate::error::{Error, Kind};
use crate::fs::Root;

/// Bytes of WebAssembly stack: deep recursion ends here.
const STACK: usize = 512 * 1024;
/// Bytes of stack of a call, host functions included.
const FIBER: usize = 2 * 1024 * 1024;
/// Bytes of compiled code that are kept on disk, about.
const CACHE_BYTES: u64 = 256 * 1024 * 1024;

/// An engine that keeps compiled code in `cache`.
///
/// # Errors
/// [`Kind::Unavailable`] where the processor or the system is not one that code can be compiled for.
pub(super) fn engine(cache: Option<Cache>) -> Result<Engine, Error> {
    let mut config = Config::new();
    config
        .consume_fuel(true)
        .epoch_interruption(true)
        .max_wasm_stack(STACK)
        .async_stack_size(FIBER)
        .wasm_memory64(false)
        .wasm_backtrace_max_frames(None)
        .cache(cache);
    Engine::new(&config).map_err(|why| {
        Error::new(
            Kind::Unavailable,
            format!("WebAssembly cannot be run here ({})", super::load::first_line(&why)),
        )
        .hint("components are compiled on x86-64, AArch64, RISC-V and s390x")
    })
}

/// A cache of compiled code in `directory`; nothing where it cannot be had, which only costs time.
///
/// What lies there is run as code, so it must be out of reach of every tool: a directory that is in the workspace, or
/// holds it, is not used, nor is one that others may write to.
pub(super) fn cache(directory: &Path, root: Option<&Root>) -> Option<Cache> {
    let directory = prepared(directory)?;
    if root.is_some_and(|root| root.overlaps(&directory)) {
        return None;
    }
    let mut config = CacheConfig::new();
    config.with_directory(directory).with_files_total_size_soft_limit(CACHE_BYTES);
    Cache::new(config).ok()
}

/// The directory, made for this user alone if it is not there, by its real path.
fn prepared(directory: &Path) -> Option<std::path::PathBuf> {
    #[expect(clippy::disallowed_types, reason = "a door: the program's own cache, named by no model")]
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory).ok()?;
    #[expect(clippy::disallowed_methods, reason = "a door: only compared with the workspace's own path")]
    let real = std::fs::canonicalize(directory).ok()?;
    (!others_write(&real)).then_some(real)
}

/// Whether more than its owner may write to the directory.
fn others_write(directory: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        #[expect(clippy::disallowed_methods, reason = "a door: the program's own cache, named by no model")]
        let metadata = std::fs::metadata(directory);
        metadata.map_or(true, |metadata| metadata.permissions().mode() & 0o022 != 0)
    }
    #[cfg(not(unix))]
    {
        let _ = directory;
        false
    }
}
