//! `write_file` and `create_file`: a whole file at once.
//!
//! Invariant: a file is replaced by a new one under its name, never written through. So another hard link to
//! it keeps its content, no reader sees half of it, and a failure leaves what was there.

use std::ffi::OsStr;
use std::io::Write as _;

use cap_std::fs::{Dir, Metadata, OpenOptions};
use cap_tempfile::TempFile;
use serde::Serialize;

use super::resolve::{self, Found, Resolved};
use super::{Root, guard, keep, open};
use crate::error::{Error, Kind};
use crate::grants::Grants;
use crate::output;

/// What a write did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Written {
    /// The file, relative to the workspace, links resolved.
    pub path: String,
    /// Whether there was no such file before.
    pub created: bool,
    /// Its size now, in bytes.
    pub bytes: u64,
    /// Its number of lines now.
    pub lines: usize,
}

impl Written {
    /// One sentence for the model.
    pub fn content(&self) -> String {
        let verb = if self.created { "created" } else { "replaced" };
        let (path, lines) = (output::name(&self.path), self.lines);
        format!(
            "{verb} \"{path}\" ({lines} {}, {} bytes)",
            if lines == 1 { "line" } else { "lines" },
            self.bytes
        )
    }
}

impl Root {
    /// Makes `content` the content of the file at `path`; missing directories are made.
    ///
    /// An existing file keeps its ordinary permission bits, and its owner where this user may give it away;
    /// set-user-id bits are dropped.
    ///
    /// # Errors
    /// [`Kind::Denied`] outside the workspace or the grants, for protected paths, and for a file marked
    /// read-only; [`Kind::Limit`] for content that is too long; [`Kind::Failed`] for a directory or a device.
    ///
    /// ```
    /// # use toolgate_sandbox::{Grants, Kind, Root, ambient_authority};
    /// # let dir = tempfile::tempdir()?;
    /// # let root = Root::open(dir.path(), ambient_authority())?;
    /// let written = root.write_file(&Grants::read_write(), "a/b.txt", "one\n")?;
    /// assert_eq!(written.content(), "created \"a/b.txt\" (1 line, 4 bytes)");
    /// let hook = root.write_file(&Grants::read_write(), "a/../.GIT/hooks/pre-commit", "id");
    /// assert_eq!(hook.unwrap_err().kind(), Kind::Denied);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn write_file(&self, grants: &Grants, path: &str, content: &str) -> Result<Written, Error> {
        let mut resolved = resolve::resolve(self, path)?;
        guard::check_write(grants, &resolved)?;
        check_length(grants, path, content.len())?;
        let old = match &resolved.found {
            Found::Missing { wants_directory: false } => None,
            Found::File(metadata) => Some(metadata.clone()),
            Found::Missing { .. } => return Err(names_a_directory(path)),
            Found::Directory => return Err(open::is_a_directory(path)),
            Found::Special(what) => return Err(open::not_a_file(path, what)),
        };
        let (bytes, max) = (content.as_bytes(), grants.limits.max_file_bytes);
        keep::kept(&mut resolved, path, max, bytes, |resolved| {
            write(resolved, path, |dir, name| match &old {
                Some(old) => replace(dir, name, bytes, old, path),
                None => place(dir, name, bytes).map_err(|e| Error::io(path, "write the file", e)),
            })
        })?;
        Ok(written(&resolved, old.is_none(), content))
    }

    /// Makes a new file with `content` at `path`; missing directories are made.
    ///
    /// # Errors
    /// As [`write_file`](Self::write_file), and [`Kind::Exists`] if anything is there, be it a dangling link.
    ///
    /// ```
    /// use toolgate_sandbox::{Grants, Kind, Root, ambient_authority};
    /// let dir = tempfile::tempdir()?;
    /// let root = Root::open(dir.path(), ambient_authority())?;
    /// assert!(root.create_file(&Grants::read_write(), "a.txt", "one\n")?.created);
    /// let error = root.create_file(&Grants::read_write(), "a.txt", "two\n").unwrap_err();
    /// assert_eq!(error.kind(), Kind::Exists);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn create_file(&self, grants: &Grants, path: &str, content: &str) -> Result<Written, Error> {
        let mut resolved = resolve::resolve(self, path)?;
        guard::check_write(grants, &resolved)?;
        check_length(grants, path, content.len())?;
        match &resolved.found {
            Found::Missing { wants_directory: false } => {}
            Found::Missing { .. } => return Err(names_a_directory(path)),
            Found::Directory => {
                return Err(Error::new(Kind::Exists, "there is a directory of that name").at(path));
            }
            Found::File(_) | Found::Special(_) => return Err(exists(path)),
        }
        let (bytes, max) = (content.as_bytes(), grants.limits.max_file_bytes);
        keep::kept(&mut resolved, path, max, bytes, |resolved| {
            write(resolved, path, |dir, name| {
                create(dir, name, bytes).map_err(|source| match source.kind() {
                    std::io::ErrorKind::AlreadyExists => exists(path),
                    _ => Error::io(path, "write the file", source),
                })
            })
        })?;
        Ok(written(&resolved, true, content))
    }
}

/// Refuses content longer than a file may be.
pub(super) fn check_length(grants: &Grants, path: &str, bytes: usize) -> Result<(), Error> {
    let max = grants.limits.max_file_bytes;
    if u64::try_from(bytes).unwrap_or(u64::MAX) <= max {
        return Ok(());
    }
    Err(Error::new(Kind::Limit, format!("the content is {bytes} bytes, a file may have {max}"))
        .at(path)
        .hint("write less"))
}

/// Puts a new file with the permissions of `old` in its place.
pub(super) fn replace(
    dir: &Dir,
    name: &OsStr,
    bytes: &[u8],
    old: &Metadata,
    path: &str,
) -> Result<(), Error> {
    let fail = |source| Error::io(path, "write the file", source);
    if old.permissions().readonly() {
        return Err(Error::new(Kind::Denied, "the file is marked read-only")
            .at(path)
            .hint("leave it as it is"));
    }
    let mut new = TempFile::new(dir).map_err(fail)?;
    new.write_all(bytes).map_err(fail)?;
    keep_attributes(&new, old).map_err(fail)?;
    new.replace(name).map_err(fail)
}

/// Gives the new file the owner and the ordinary permission bits of the old one.
fn keep_attributes(new: &TempFile<'_>, old: &Metadata) -> std::io::Result<()> {
    #[cfg(unix)]
    {
        use cap_std::fs::{MetadataExt as _, Permissions, PermissionsExt as _};
        use rustix::fs::{Gid, Uid, fchown};
        let ours = new.as_file().metadata()?;
        if (ours.uid(), ours.gid()) != (old.uid(), old.gid()) {
            // Only root may give a file away; for anyone else the new file is simply theirs.
            let _ = fchown(new.as_file(), Some(Uid::from_raw(old.uid())), Some(Gid::from_raw(old.gid())));
        }
        // After the owner, so that no bit is granted to somebody it was not meant for. Set-user-id,
        // set-group-id and sticky bits are left off: new content has not earned them.
        new.as_file().set_permissions(Permissions::from_mode(old.mode() & 0o777))
    }
    #[cfg(not(unix))]
    new.as_file().set_permissions(old.permissions())
}

/// Puts a file where there was none. Should something be there by now it is replaced, never followed.
fn place(dir: &Dir, name: &OsStr, bytes: &[u8]) -> std::io::Result<()> {
    let mut new = TempFile::new(dir)?;
    new.write_all(bytes)?;
    new.replace(name)
}

/// Makes a file under a name that must be free; a link there counts as taken.
fn create(dir: &Dir, name: &OsStr, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = dir.open_with(name, OpenOptions::new().write(true).create_new(true))?;
    file.write_all(bytes).inspect_err(|_| {
        // Half a file is worse than none.
        let _ = dir.remove_file(name);
    })
}

/// Makes the missing directories, then calls `put`; if that fails the directories go again.
fn write(
    resolved: &mut Resolved<'_>,
    path: &str,
    put: impl FnOnce(&Dir, &OsStr) -> Result<(), Error>,
) -> Result<(), Error> {
    let made = resolved.make_missing(path)?;
    let done = match &resolved.last {
        Some(name) => put(resolved.dir(), name),
        None => Err(open::is_a_directory(path)),
    };
    done.inspect_err(|_| resolved.remove_made(made))
}

fn written(resolved: &Resolved<'_>, created: bool, content: &str) -> Written {
    Written {
        path: resolved.inside().as_str().to_owned(),
        created,
        bytes: u64::try_from(content.len()).unwrap_or(u64::MAX),
        lines: content.lines().count(),
    }
}

fn exists(path: &str) -> Error {
    Error::new(Kind::Exists, "there is something of that name already")
        .at(path)
        .hint("use write_file to replace it, or edit_file to change a part")
}

fn names_a_directory(path: &str) -> Error {
    Error::new(Kind::Invalid, "a path that ends in a slash names a directory, not a file").at(path)
}
