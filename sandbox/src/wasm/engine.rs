//! Makes the engine: the compilation of components, and the rules for every call.

use std::path::Path;

use wasmtime::{Cache, CacheConfig, Config, Engine};

use crate::error::{Error, Kind};
use crate::fs::Root;

/// Bytes of WebAssembly stack. Deep recursion ends here.
const STACK: usize = 512 * 1024;
/// Bytes of stack of a call, host functions included.
const FIBER: usize = 2 * 1024 * 1024;
/// Bytes of compiled code that are kept on disk, about.
const CACHE_BYTES: u64 = 256 * 1024 * 1024;

/// An engine that keeps compiled code in `cache`.
///
/// # Errors
/// [`Kind::Unavailable`] if the engine cannot compile for this processor or system.
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

/// A cache of compiled code in `directory`; `None` if there can be none, which only costs time.
///
/// Code from the cache is run, so no tool may reach it. A directory in the workspace or above it is not used.
/// Neither is a directory that others may write to.
pub(super) fn cache(directory: &Path, root: Option<&Root>) -> Option<Cache> {
    let directory = prepared(directory)?;
    if root.is_some_and(|root| root.overlaps(&directory)) {
        return None;
    }
    let mut config = CacheConfig::new();
    config.with_directory(directory).with_files_total_size_soft_limit(CACHE_BYTES);
    Cache::new(config).ok()
}

/// The real path of the directory. A missing directory is created for this user alone.
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

/// Whether others than its owner may write to the directory.
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
