//! Before a write: may this resolved path be created or changed?
//!
//! Beside the patterns of the grants, it keeps a directory from *becoming* a repository: git takes any
//! directory with `HEAD`, `objects` and `refs` for one and runs the commands its `config` names.

use std::ffi::OsStr;
use std::path::Path;

use cap_std::fs::Dir;

use super::resolve::Resolved;
use crate::error::{Error, Kind};
use crate::grants::Grants;
use crate::names::{fold, lossy};

const BARE_REPOSITORY: [&str; 3] = ["HEAD", "objects", "refs"];

/// Whether `resolved` may be written under `grants`.
pub(crate) fn check_write(grants: &Grants, resolved: &Resolved<'_>) -> Result<(), Error> {
    let inside = resolved.inside();
    grants.check_write(&inside)?;
    if grants.protect.sources().any(|source| source == "@vcs") {
        for (dir, name) in resolved.levels() {
            if name.is_some_and(|name| makes_repository(dir, name)) {
                return Err(Error::new(
                    Kind::Denied,
                    "this path is protected (it is part of a git repository's own data)",
                )
                .at(inside.shown())
                .hint("choose another name"));
            }
        }
    }
    Ok(())
}

/// Whether `dir` is a bare repository, or would be one with `name` in it.
fn makes_repository(dir: &Dir, name: &OsStr) -> bool {
    let name = fold(&lossy(name));
    BARE_REPOSITORY
        .iter()
        .all(|part| name == part.to_ascii_lowercase() || dir.symlink_metadata(Path::new(part)).is_ok())
}
