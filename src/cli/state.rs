//! Where the program keeps what belongs to the person and not to a workspace: the chat's history, the undo journal.
//!
//! Invariant: nothing is kept where another user could put something else in its place, nor in a file that others can read.

use std::io;
use std::path::{Path, PathBuf};

use toolgate_tools::database;

/// The environment variable that names the directory.
pub(super) const STATE_VARIABLE: &str = "TOOLGATE_STATE";

/// The directory: `TOOLGATE_STATE`, else `toolgate` in the user's state directory; none for a user without a home.
pub(super) fn directory() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(STATE_VARIABLE).filter(|named| !named.is_empty()) {
        return std::path::absolute(named).ok();
    }
    let base = directories::BaseDirs::new()?;
    Some(base.state_dir().unwrap_or(base.data_local_dir()).join("toolgate"))
}

/// The environment variable that names the directory of what was installed.
#[cfg(feature = "mcp")]
const DATA_VARIABLE: &str = "TOOLGATE_DATA";

/// Where servers are installed: `TOOLGATE_DATA`, else `toolgate` in the user's data directory; none for a user without a home.
#[cfg(feature = "mcp")]
pub(super) fn data() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(DATA_VARIABLE).filter(|named| !named.is_empty()) {
        return std::path::absolute(named).ok();
    }
    Some(directories::BaseDirs::new()?.data_local_dir().join("toolgate"))
}

/// Makes a directory that only its owner can look into. One that is there already is refused where others could write in it.
pub(super) fn make(directory: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)?;
    check(directory)
}

/// Takes from others the right to read a file that lies in the directory, if it is there.
pub(super) fn keep_private(file: &Path) -> io::Result<()> {
    let (Some(directory), Some(above)) = (directory(), file.parent()) else { return Ok(()) };
    // The directory may be reached by several paths, and either may be missing yet.
    let is_there = match (above.canonicalize(), directory.canonicalize()) {
        (Ok(above), Ok(directory)) => above == directory,
        _ => false,
    };
    if is_there { database::tighten(file) } else { Ok(()) }
}

#[cfg(unix)]
fn check(directory: &Path) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = std::fs::metadata(directory)?;
    let ours = rustix::process::geteuid().as_raw();
    let refuse = |why: &str| Err(io::Error::new(io::ErrorKind::PermissionDenied, why.to_owned()));
    if metadata.uid() != ours && metadata.uid() != 0 {
        return refuse(&format!("it belongs to another user; {STATE_VARIABLE} names another directory"));
    }
    if metadata.mode() & 0o022 != 0 {
        return refuse(&format!(
            "other users can write in it; take that from them (chmod go-w), or name another directory in {STATE_VARIABLE}"
        ));
    }
    Ok(())
}

#[cfg(not(unix))]
fn check(_: &Path) -> io::Result<()> {
    Ok(())
}
