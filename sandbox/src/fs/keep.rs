//! Keeps the old content of changed files, and puts it back. A keeper hears of each change before it happens.
//!
//! Invariant: a change that cannot be kept does not happen. A file that differs from the result of its change
//! stays as it is.

use std::ffi::OsStr;
use std::fmt;
use std::io::Write as _;
use std::path::Path;

use cap_std::fs::{Dir, Metadata};
use cap_tempfile::TempFile;

use super::commit::{self, Seen};
use super::{Root, change, open, resolve};
use crate::error::{Error, Kind};
use crate::names::lossy;

/// A file as it was: its bytes, and its ordinary permission bits where the system has them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Image {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Its permission bits for owner, group and others; `None` on systems other than Unix.
    pub mode: Option<u32>,
}

impl Image {
    /// A file of these bytes and permission bits.
    pub fn new(bytes: impl Into<Vec<u8>>, mode: Option<u32>) -> Self {
        Self { bytes: bytes.into(), mode }
    }
}

/// The state of a path before a change.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Before {
    /// Nothing.
    Nothing,
    /// This file.
    File(Image),
}

/// A change of a file that is about to happen.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change<'a> {
    /// The path of the file by its real names, relative to the workspace, with links resolved.
    pub path: &'a Path,
    /// The state of the path now.
    pub before: Before,
    /// The bytes of the file after the change.
    pub after: &'a [u8],
    /// Directories above the file that the change creates.
    pub directories: usize,
}

/// Keeps the content that changes replace. [`Root::keeping`] gives a keeper to a workspace.
///
/// A keeper without room, so that nothing changes:
///
/// ```
/// use toolgate_sandbox::{Change, Error, Grants, Keeper, Kind, Root, ambient_authority};
///
/// #[derive(Debug)]
/// struct Full;
///
/// impl Keeper for Full {
///     fn keep(&self, change: &Change<'_>) -> Result<i64, Error> {
///         Err(Error::new(Kind::Failed, "the journal is full").at(&change.path.to_string_lossy()))
///     }
///     fn drop_kept(&self, _: i64) {}
/// }
///
/// let dir = tempfile::tempdir()?;
/// let root = Root::open(dir.path(), ambient_authority())?.keeping(std::sync::Arc::new(Full));
/// let error = root.write_file(&Grants::read_write(), "notes/a.txt", "new").unwrap_err();
/// assert_eq!(error.to_string(), "the journal is full: \"notes/a.txt\"");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Keeper: fmt::Debug + Send + Sync {
    /// Keeps `change`, which happens next. The returned number identifies the change.
    ///
    /// # Errors
    /// Any reason that the change cannot be kept. Then the change does not happen.
    fn keep(&self, change: &Change<'_>) -> Result<i64, Error>;

    /// The change of that number happened. Somebody may have taken changes back in between, found that this
    /// one had not happened, and forgotten it. Then the keeper keeps it again.
    fn made(&self, number: i64, change: &Change<'_>) {
        let _ = (number, change);
    }

    /// The change of that number did not happen.
    fn drop_kept(&self, number: i64);
}

impl Root {
    /// The same workspace with a `keeper` for its changes.
    #[must_use]
    pub fn keeping(&self, keeper: std::sync::Arc<dyn Keeper>) -> Self {
        Self { keeper: Some(keeper), ..self.clone() }
    }

    /// Puts the file at `path` back to the state before a change. `is_as_left` decides whether the file is as
    /// the change left it. Returns whether the file was put back. Without a file before the change, the file
    /// is removed, and so are up to `directories` empty directories above it.
    ///
    /// An existing file keeps its present owner and permissions, since writes did not change them. A
    /// [`Change`] named the path, and no grants are asked: this is for a person who takes changes back.
    /// `is_as_left` never gets more than `max_bytes`; a longer file counts as changed.
    ///
    /// # Errors
    /// [`Kind::Failed`] if the path is no plain file any more, or leads elsewhere now. [`Kind::Denied`] if
    /// permissions forbid the change, or the file is marked read-only.
    ///
    /// ```
    /// # use toolgate_sandbox::{Grants, Image, Root, ambient_authority};
    /// # use std::path::Path;
    /// # let dir = tempfile::tempdir()?;
    /// # let root = Root::open(dir.path(), ambient_authority())?;
    /// root.write_file(&Grants::read_write(), "a/b.txt", "new")?;
    /// let path = Path::new("a/b.txt");
    /// let before = Image::new("old", None);
    /// assert!(!root.put_back(path, Some(&before), 1, 100, &mut |now| now == Some(b"other"))?);
    /// assert!(root.put_back(path, None, 1, 100, &mut |now| now == Some(b"new"))?);
    /// assert_eq!(std::fs::read_dir(dir.path())?.count(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn put_back(
        &self,
        path: &Path,
        before: Option<&Image>,
        directories: usize,
        max_bytes: u64,
        is_as_left: &mut dyn FnMut(Option<&[u8]>) -> bool,
    ) -> Result<bool, Error> {
        self.check_open()?;
        let shown = lossy(path.as_os_str());
        let mut resolved = resolve::lead(self, path)?;
        if resolved.path() != path {
            return Err(Error::new(Kind::Failed, "the path leads somewhere else now").at(&shown));
        }
        let Some(name) = resolved.last.clone() else { return Err(open::is_a_directory(&shown)) };
        if before.is_some() && !resolved.missing.is_empty() {
            return Err(Error::new(Kind::NotFound, "the directory that the file was in is gone").at(&shown));
        }
        let seen = match change::look(&resolved, &shown, max_bytes)? {
            Some(Seen { bytes: Err(why), .. }) if why.kind() == Kind::Limit => return Ok(false),
            Some(Seen { bytes: Err(why), .. }) => return Err(why),
            seen => seen,
        };
        if !is_as_left(seen.as_ref().and_then(|seen| seen.bytes.as_deref().ok())) {
            return Ok(false);
        }
        if seen.as_ref().is_some_and(|seen| seen.metadata.permissions().readonly()) {
            return Err(Error::new(Kind::Denied, "the file is marked read-only now").at(&shown));
        }
        let done = match (before, &seen) {
            (Some(image), seen) => restore(resolved.dir(), &name, image, seen.as_ref()),
            (None, Some(seen)) => commit::remove(resolved.dir(), &name, seen),
            (None, None) => Ok(true),
        };
        let done = done.map_err(|source| Error::io(&shown, "put the file back", source))?;
        if done && before.is_none() && resolved.missing.is_empty() {
            resolved.remove_made(directories);
        }
        Ok(done)
    }
}

/// Puts a file of these bytes under a name, in place of the seen file. Returns whether that file was still
/// there.
fn restore(dir: &Dir, name: &OsStr, image: &Image, seen: Option<&Seen>) -> std::io::Result<bool> {
    let mut new = TempFile::new(dir)?;
    new.write_all(&image.bytes)?;
    if let Some(seen) = seen {
        change::keep_attributes(&new, &seen.metadata)?;
        return commit::replace(dir, name, new, seen);
    }
    #[cfg(unix)]
    if let Some(mode) = image.mode {
        use cap_std::fs::{Permissions, PermissionsExt as _};
        new.as_file().set_permissions(Permissions::from_mode(mode & 0o777))?;
    }
    commit::create(dir, name, new)
}

pub(super) fn mode(metadata: &Metadata) -> Option<u32> {
    #[cfg(unix)]
    {
        use cap_std::fs::MetadataExt as _;
        Some(metadata.mode() & 0o777)
    }
    #[cfg(not(unix))]
    {
        let _ = metadata;
        None
    }
}
