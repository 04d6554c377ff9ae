//! Asks the rules about a path, before its file is opened or changed.
//!
//! Invariant: the question covers every name on the way: the resolved name, and the name of each link. A link
//! named `.env` is as closed as a file of that name, wherever the link leads.

use std::io;
use std::path::Path;

use super::resolve::Resolved;
use crate::error::{Error, Kind};
use crate::grants::Grants;

/// Whether `resolved` may be read under `grants`.
pub(crate) fn check_read(grants: &Grants, resolved: &Resolved) -> Result<(), Error> {
    grants.check_read(&resolved.inside())?;
    resolved.links().iter().try_for_each(|link| grants.check_secret(link))
}

/// Whether `resolved` may be created or changed under `grants`.
pub(crate) fn check_write(grants: &Grants, resolved: &Resolved) -> Result<(), Error> {
    let inside = resolved.inside();
    grants.check_write(&inside)?;
    for link in resolved.links() {
        grants.check_secret(link)?;
        grants.check_protected(link)?;
    }
    let protected = grants.protected();
    for (dir, name) in resolved.levels() {
        let has = |part: &str| match dir.symlink_metadata(Path::new(part)) {
            Err(why) => why.kind() != io::ErrorKind::NotFound,
            Ok(_) => true,
        };
        if protected.is_repository(name, has) {
            return Err(Error::new(
                Kind::Denied,
                "this path is protected (it is part of a git repository's own data)",
            )
            .at(inside.shown())
            .hint("choose another name"));
        }
    }
    Ok(())
}
