//! Changes of files that can be taken back: who keeps them is told before they happen, and gives them back here.
//!
//! Invariant: a change that could not be kept does not happen, and a file that is not as the change left it stays.

use std::ffi::OsStr;
use std::fmt;
use std::io::Write as _;

use cap_std::fs::{Dir, Metadata};
use cap_tempfile::TempFile;

use super::resolve::{self, Found, Resolved};
use super::{Root, edit, open};
use crate::error::{Error, Kind};

/// A file as it was: its bytes, and its ordinary permission bits where the system has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Its permission bits for owner, group and others; elsewhere than on Unix none.
    pub mode: Option<u32>,
}

/// What was at a path before a change.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Before {
    /// Nothing.
    Nothing,
    /// This file.
    File(Image),
    /// A file that is too large to keep, or may be replaced but not read; the text says which.
    Unknown(String),
}

/// A change of a file that is about to happen.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change<'a> {
    /// The file, relative to the workspace, links resolved.
    pub path: &'a str,
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
///         Err(Error::new(Kind::Failed, "the journal is full").at(change.path))
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
    /// For a person who takes changes back: the path is one that a [`Change`] named, and no grants are asked.
    /// `is_as_left` is not shown more than `max_bytes`: a longer file is none that was left.
    ///
    /// # Errors
    /// [`Kind::Failed`] where the path is no plain file any more, or leads elsewhere now; [`Kind::Denied`] where
    /// permissions forbid it.
    ///
    /// ```
    /// # use toolgate_sandbox::{Grants, Root, ambient_authority};
    /// # let dir = tempfile::tempdir()?;
    /// # let root = Root::open(dir.path(), ambient_authority())?;
    /// root.write_file(&Grants::read_write(), "a/b.txt", "new")?;
    /// assert!(!root.put_back("a/b.txt", None, 1, 100, &mut |now| now == Some(b"other"))?);
    /// assert!(root.put_back("a/b.txt", None, 1, 100, &mut |now| now == Some(b"new"))?);
    /// assert_eq!(std::fs::read_dir(dir.path())?.count(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn put_back(
        &self,
        path: &str,
        before: Option<&Image>,
        directories: usize,
        max_bytes: u64,
        is_as_left: &mut dyn FnMut(Option<&[u8]>) -> bool,
    ) -> Result<bool, Error> {
        let mut resolved = resolve::resolve(self, path)?;
        if resolved.inside().as_str() != path {
            return Err(Error::new(Kind::Failed, "the path leads somewhere else now").at(path));
        }
        let Some(name) = resolved.last.clone() else { return Err(open::is_a_directory(path)) };
        if before.is_some() && !resolved.missing.is_empty() {
            return Err(Error::new(Kind::NotFound, "the directory that the file was in is gone").at(path));
        }
        match &resolved.found {
            Found::Missing { .. } if !is_as_left(None) => return Ok(false),
            Found::Missing { .. } => {}
            Found::Directory => return Err(open::is_a_directory(path)),
            Found::Special(what) => return Err(open::not_a_file(path, what)),
            Found::File(metadata) if metadata.len() > max_bytes => return Ok(false),
            Found::File(_) => {
                let (bytes, metadata) = read(&resolved, path, max_bytes)?;
                if !is_as_left(Some(&bytes)) {
                    return Ok(false);
                }
                let now = resolved.dir().symlink_metadata(&name);
                if !now.is_ok_and(|now| edit::same(&now, &metadata)) {
                    return Ok(false);
                }
            }
        }
        let exists = matches!(resolved.found, Found::File(_));
        let fail = |source| Error::io(path, "put the file back", source);
        match before {
            Some(image) => restore(resolved.dir(), &name, image).map_err(fail)?,
            None => {
                if exists {
                    resolved.dir().remove_file(&name).map_err(fail)?;
                }
                if resolved.missing.is_empty() {
                    resolved.remove_made(directories);
                }
            }
        }
        Ok(true)
    }
}

/// Makes a change with `put` after the workspace's keeper has kept it.
pub(super) fn kept<'r, T>(
    resolved: &mut Resolved<'r>,
    path: &str,
    max_bytes: u64,
    after: &[u8],
    put: impl FnOnce(&mut Resolved<'r>) -> Result<T, Error>,
) -> Result<T, Error> {
    let Some(keeper) = resolved.root().keeper.clone() else { return put(resolved) };
    let before = match &resolved.found {
        Found::File(_) => match read(resolved, path, max_bytes) {
            Ok((bytes, metadata)) => Before::File(Image { bytes, mode: mode(&metadata) }),
            Err(error) => Before::Unknown(error.to_string()),
        },
        _ => Before::Nothing,
    };
    let inside = resolved.inside();
    let change = Change { path: inside.as_str(), before, after, directories: resolved.missing.len() };
    let number = keeper.keep(&change)?;
    put(resolved).inspect_err(|_| keeper.drop_kept(number))
}

/// The bytes of a resolved file.
fn read(resolved: &Resolved<'_>, path: &str, max_bytes: u64) -> Result<(Vec<u8>, Metadata), Error> {
    let name = resolved.last.as_deref().unwrap_or_default();
    let file =
        open::open_name(resolved.dir(), name.as_ref()).map_err(|e| Error::io(path, "open the file", e))?;
    let opened = open::regular(file, path)?;
    let bytes = open::read_all(&opened, path, max_bytes)?;
    Ok((bytes, opened.metadata))
}

/// Puts a file of these bytes and permissions under a name.
fn restore(dir: &Dir, name: &OsStr, image: &Image) -> std::io::Result<()> {
    let mut new = TempFile::new(dir)?;
    new.write_all(&image.bytes)?;
    #[cfg(unix)]
    if let Some(mode) = image.mode {
        use cap_std::fs::{Permissions, PermissionsExt as _};
        new.as_file().set_permissions(Permissions::from_mode(mode & 0o777))?;
    }
    new.replace(name)
}

fn mode(metadata: &Metadata) -> Option<u32> {
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
