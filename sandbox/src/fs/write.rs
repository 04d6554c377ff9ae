//! `write_file` and `create_file`: a whole file at once.
//!
//! Invariant: a file is replaced by a new one under its name, never written through. So another hard link to
//! it keeps its content, no reader sees half of it, and a failure leaves what was there.

use serde::Serialize;

use super::change::{self, PreparedChange};
use super::resolve::{self, Found, Resolved};
use super::{Root, guard};
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
        self.prepare_write(grants, path, content)?.make()
    }

    /// [`write_file`](Self::write_file) made ready, and not made.
    ///
    /// # Errors
    /// As [`write_file`](Self::write_file), as far as can be known before.
    pub fn prepare_write(
        &self,
        grants: &Grants,
        path: &str,
        content: &str,
    ) -> Result<PreparedChange<Written>, Error> {
        let resolved = self.place_to_write(grants, path, content)?;
        let seen = change::look(&resolved, path, grants.limits.max_file_bytes)?;
        let report = written(&resolved, seen.is_none(), content);
        PreparedChange::new(resolved, path, grants, seen, content.as_bytes().to_vec(), report)
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
        self.prepare_create(grants, path, content)?.make()
    }

    /// [`create_file`](Self::create_file) made ready, and not made.
    ///
    /// # Errors
    /// As [`create_file`](Self::create_file), as far as can be known before.
    pub fn prepare_create(
        &self,
        grants: &Grants,
        path: &str,
        content: &str,
    ) -> Result<PreparedChange<Written>, Error> {
        let resolved = self.place_to_write(grants, path, content)?;
        match &resolved.found {
            Found::Missing { .. } => {}
            Found::Directory => {
                return Err(Error::new(Kind::Exists, "there is a directory of that name").at(path));
            }
            Found::File(_) | Found::Special(_) => return Err(exists(path)),
        }
        let seen = change::look(&resolved, path, grants.limits.max_file_bytes)?;
        let report = written(&resolved, true, content);
        PreparedChange::new(resolved, path, grants, seen, content.as_bytes().to_vec(), report)
    }

    /// Where a whole file may be written, of this content.
    fn place_to_write(&self, grants: &Grants, path: &str, content: &str) -> Result<Resolved, Error> {
        let resolved = resolve::resolve(self, path)?;
        guard::check_write(grants, &resolved)?;
        check_length(grants, path, content.len())?;
        Ok(resolved)
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

fn written(resolved: &Resolved, created: bool, content: &str) -> Written {
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
