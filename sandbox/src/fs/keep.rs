//! Changes of files that can be taken back: who keeps them is told before they happen, and gives them back here.
//!
//! Invariant: a change that could not be kept does not happen, and a file that is not as the change left it stays.

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
    /// Its permission bits for owner, group and others; elsewhere than on Unix none.
    pub mode: Option<u32>,
}

impl Image {
    /// A file of these bytes and permission bits.
    pub fn new(bytes: impl Into<Vec<u8>>, mode: Option<u32>) -> Self {
        Self { bytes: bytes.into(), mode }
    }
}

/// What was at a path before a change.
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
    /// The file by its real names, relative to the workspace, links resolved.
    pub path: &'a Path,
    /// What is there now.
    pub before: Before,
    /// The bytes it will have.
    pub after: &'a [u8],
    /// How many directories above it are made for it.
    pub directories: usize,
}

/// Keeps what changes replace; given to a workspace by [`Root::keeping`].
///
/// One that has no room left, so that nothing is changed:
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
    /// Keeps `change`, which then happens. The number given back tells it from others.
    ///
    /// # Errors
    /// Whatever keeps it from being kept; then the change does not happen.
    fn keep(&self, change: &Change<'_>) -> Result<i64, Error>;

    /// The change of that number was made. Who took changes back since it was kept may have found that it did not happen,
    /// and forgotten it: then it is kept again.
    fn made(&self, number: i64, change: &Change<'_>) {
        let _ = (number, change);
    }

    /// The change of that number did not happen after all.
    fn drop_kept(&self, number: i64);
}

impl Root {
    /// The same workspace, whose changes are kept by `keeper`.
    #[must_use]
    pub fn keeping(&self, keeper: std::sync::Arc<dyn Keeper>) -> Self {
        Self { keeper: Some(keeper), ..self.clone() }
    }

    /// Makes the file at `path` what it was, if `is_as_left` says that what is there now is what a change left; whether
    /// it did. With nothing before, the file goes, and `directories` above it that are then empty.
    ///
    /// A file that is there keeps the owner and the permissions that it has now: writes did not change them. For a person
    /// who takes changes back: the path is one that a [`Change`] named, and no grants are asked. `is_as_left` is not shown
    /// more than `max_bytes`: a longer file is none that was left.
    ///
    /// # Errors
    /// [`Kind::Failed`] where the path is no plain file any more, or leads elsewhere now; [`Kind::Denied`] where
    /// permissions forbid it, or the file was marked read-only.
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

/// Puts a file of these bytes under a name, in place of the one that was seen; whether that was still there.
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
