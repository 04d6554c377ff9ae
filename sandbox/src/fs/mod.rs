//! The file tier. A workspace is a directory handle, and every operation starts from it.
//!
//! Invariant: after [`Root::open`] the operating system gets single names below an open handle and no paths.
//! It never follows a link there.

pub(crate) mod resolve;

pub(crate) mod open;

#[cfg(target_os = "linux")]
mod direct;

mod read;

mod part;

mod list;

mod walk;

mod search;

mod write;

mod edit;

mod change;

mod commit;

mod keep;

pub(crate) mod guard;

mod closing;

mod nearest;

mod outline;

#[cfg(target_os = "linux")]
mod lent;

#[cfg(target_os = "linux")]
pub(crate) mod descend;

#[cfg(target_os = "linux")]
pub(crate) mod usage;

#[cfg(target_os = "linux")]
pub(crate) mod marks;

#[cfg(target_os = "linux")]
pub(crate) mod takeback;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::AmbientAuthority;
use cap_std::fs::Dir;

pub use change::PreparedChange;
pub use edit::Edited;
pub use keep::{Before, Change, Image, Keeper};
pub use list::{Entry, EntryKind, Listing};
pub use outline::{Outline, OutlineLimits};
pub use read::{FileText, ReadOptions};
pub use search::{CaseOf, Hit, Ignored, Query, SearchOptions, SearchResult};
pub use write::Written;

use crate::error::{Error, Kind};
use crate::grants::Grants;
use crate::report::{Enforced, Resolver};

/// A workspace: a directory that was opened once, cheap to clone.
///
/// Its path is never resolved again. If somebody renames or replaces the directory, this stays the directory
/// that was opened.
///
/// ```
/// use toolgate_sandbox::{Kind, Root, ambient_authority};
/// let error = Root::open("no/such/directory", ambient_authority()).unwrap_err();
/// assert_eq!(error.kind(), Kind::NotFound);
///
/// let root = Root::open(".", ambient_authority())?;
/// let real = std::fs::canonicalize(".")?;
/// assert_eq!(root.shown(), real.to_string_lossy());
/// assert!(root.holds(&real.join("src")) && !root.holds("/".as_ref()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Root {
    inner: Arc<Inner>,
    /// The keeper of the content that changes replace.
    keeper: Option<Arc<dyn Keeper>>,
}

/// The identity of a directory on one machine, until the machine restarts: device and inode number, and the
/// time of creation since 1970 UTC. Systems and file systems that do not know a part leave that part out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct WorkspaceId {
    /// The device number of its file system; 0 where the system has none.
    pub device: u64,
    /// The inode number; 0 where the system has none.
    pub inode: u64,
    /// The time of its creation.
    pub born: Option<std::time::Duration>,
}

impl WorkspaceId {
    /// The directory of that number in that file system, made at that time.
    pub fn new(device: u64, inode: u64, born: Option<std::time::Duration>) -> Self {
        Self { device, inode, born }
    }
}

#[derive(Debug)]
struct Inner {
    dir: Dir,
    /// The absolute paths of the workspace: the path as given, and the real path. They are only compared.
    own_paths: Vec<PathBuf>,
    resolver: Resolver,
    closing: closing::Closing,
}

impl Root {
    /// Opens the workspace at `path`.
    ///
    /// This is the door for ambient authority. The process resolves `path` like any other path, links
    /// included. No text of a model may reach it.
    ///
    /// # Errors
    /// [`Kind::NotFound`], [`Kind::NotADirectory`], or [`Kind::Denied`] for a directory that cannot be
    /// listed.
    pub fn open(path: impl AsRef<Path>, ambient: AmbientAuthority) -> Result<Self, Error> {
        let path = path.as_ref();
        let shown = path.to_string_lossy();
        let fail = |source: std::io::Error| {
            let error = match source.kind() {
                std::io::ErrorKind::NotFound => Error::new(Kind::NotFound, "no such workspace directory")
                    .hint("create it, or name another"),
                std::io::ErrorKind::NotADirectory => {
                    Error::new(Kind::NotADirectory, "the workspace is not a directory")
                }
                std::io::ErrorKind::PermissionDenied => {
                    Error::new(Kind::Denied, "the workspace cannot be read")
                        .hint("its permissions do not allow this user to list it")
                }
                _ => Error::new(Kind::Failed, format!("cannot open the workspace ({source})")),
            };
            error.at(&shown).because(source)
        };
        #[expect(clippy::disallowed_methods, reason = "the door: a person names the workspace")]
        let dir = Dir::open_ambient_dir(path, ambient).map_err(fail)?;
        // A handle can be had for a directory that may not be listed; listing shows it now, not in a run.
        dir.entries().map_err(fail)?;
        #[expect(clippy::disallowed_methods, reason = "the door: only compared with what models say")]
        let real = std::fs::canonicalize(path).ok();
        let own_paths = [std::path::absolute(path).ok(), real].into_iter().flatten().collect();
        let resolver = resolve::available(&dir);
        let inner = Inner { dir, own_paths, resolver, closing: closing::Closing::default() };
        Ok(Self { inner: Arc::new(inner), keeper: None })
    }

    /// Checks whether files can be created in the top directory of the workspace, as far as permissions tell.
    ///
    /// ```
    /// # use toolgate_sandbox::{Root, ambient_authority};
    /// let dir = tempfile::tempdir()?;
    /// let root = Root::open(dir.path(), ambient_authority())?;
    /// root.check_writable()?;
    /// println!("paths are kept inside by {:?}", root.resolver());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Kind::Denied`] if not. So a run that must write can refuse to start.
    pub fn check_writable(&self) -> Result<(), Error> {
        #[cfg(unix)]
        let writable = {
            use rustix::fs::{Access, AtFlags, accessat};
            let create = Access::WRITE_OK | Access::EXEC_OK;
            accessat(self.dir(), ".", create, AtFlags::EACCESS).map_err(std::io::Error::from)
        };
        #[cfg(not(unix))]
        let writable =
            self.dir().dir_metadata().and_then(|metadata| match metadata.permissions().readonly() {
                true => Err(std::io::ErrorKind::PermissionDenied.into()),
                false => Ok(()),
            });
        writable.map_err(|source| {
            Error::new(Kind::Denied, "the workspace cannot be written")
                .at(&self.shown())
                .hint("choose another workspace, or run without writing tools")
                .because(source)
        })
    }

    /// The report of a file operation under `grants`.
    pub fn enforced(&self, grants: &Grants) -> Enforced {
        let fs = match (grants.can_read(), grants.can_write()) {
            (false, false) => "none",
            (true, false) => "capability:read",
            (false, true) => "capability:write",
            (true, true) => "capability:read+write",
        };
        Enforced { fs: fs.into(), resolver: Some(self.inner.resolver), ..Enforced::nothing() }
    }

    /// The way that paths are kept inside the workspace on this machine.
    pub fn resolver(&self) -> Resolver {
        self.inner.resolver
    }

    /// The absolute path that the workspace had when it was opened. It is for people: nothing is opened by
    /// it.
    pub fn shown(&self) -> String {
        self.inner.own_paths.last().map(|path| path.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// The identity of the directory. Another directory in its place has another identity.
    ///
    /// ```
    /// # use toolgate_sandbox::{Root, WorkspaceId, ambient_authority};
    /// let dir = tempfile::tempdir()?;
    /// let root = Root::open(dir.path(), ambient_authority())?;
    /// let id = root.id()?;
    /// assert_eq!(id, Root::open(dir.path(), ambient_authority())?.id()?);
    /// // As a database has it.
    /// assert_eq!(id, WorkspaceId::new(id.device, id.inode, id.born));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Kind::Failed`] if the system does not tell.
    pub fn id(&self) -> Result<WorkspaceId, Error> {
        let fail = |source| Error::io(&self.shown(), "look at the workspace", source);
        let metadata = self.dir().dir_metadata().map_err(fail)?;
        // Some file systems do not know when a directory was made.
        let born = metadata.created().ok().map(|time| time.into_std());
        let born = born.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
        #[cfg(unix)]
        let (device, inode) = {
            use cap_std::fs::MetadataExt as _;
            (metadata.dev(), metadata.ino())
        };
        #[cfg(not(unix))]
        let (device, inode) = (0, 0);
        Ok(WorkspaceId { device, inode, born })
    }

    /// Whether `path` is in the workspace or above it. The path must be absolute and real.
    #[cfg(feature = "wasm")]
    pub(crate) fn overlaps(&self, path: &Path) -> bool {
        self.inner.own_paths.iter().any(|own| path.starts_with(own) || own.starts_with(path))
    }

    /// Whether `path` is the workspace or in it. The path must be absolute and real.
    pub fn holds(&self, path: &Path) -> bool {
        self.inner.own_paths.iter().any(|own| path.starts_with(own))
    }

    fn dir(&self) -> &Dir {
        &self.inner.dir
    }

    /// The rest of an absolute path below the path of the workspace; `None` for a path elsewhere.
    fn strip_own_path<'a>(&self, path: &'a Path) -> Option<&'a Path> {
        self.inner.own_paths.iter().find_map(|own| path.strip_prefix(own).ok())
    }
}

/// A random number, for names that nobody can guess.
pub(crate) fn drawn() -> u64 {
    use std::hash::{BuildHasher as _, Hasher as _};
    // Each state is made from keys that the system drew.
    std::hash::RandomState::new().build_hasher().finish()
}
