//! Where the program keeps what belongs to the person and not to a workspace: the chat's history, the undo journal.

use std::io;
use std::path::{Path, PathBuf};

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

/// Makes a directory that only its owner can look into.
pub(super) fn make(directory: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}
