//! The files of a component: `wasi:filesystem` over the file tier. So components and file tools have the same
//! rules and the same resolver.
//!
//! Invariant: a path is resolved from an open directory and checked under its resolved name. Then the call
//! acts on a single name below an open handle, and never through a link.

mod budget;
mod descriptor;
mod stream;

use std::io;
use std::sync::Arc;

use cap_fs_ext::{FollowSymlinks, MetadataExt as _, OpenOptionsFollowExt as _, OpenOptionsSyncExt as _};
use cap_std::fs::{Dir, File, Metadata, OpenOptions};
use wasmtime::component::{HasData, ResourceTable};
use wasmtime_wasi::p2::FsError;
use wasmtime_wasi::p2::bindings::filesystem::types::{DescriptorFlags, ErrorCode, OpenFlags};

pub(super) use budget::Budget;

use super::Directory;
use crate::error::{Error, Kind};
use crate::fs::Root;
use crate::fs::guard;
use crate::fs::open::open_name;
use crate::fs::resolve::{Found, Place, Resolved};
use crate::grants::Grants;
use budget::Held;
use stream::OpenFile;

/// The files that a call may use.
#[derive(Debug)]
pub(super) struct Files {
    grants: Grants,
    budget: Arc<Budget>,
    preopens: Vec<Preopen>,
    /// The first refusal, in words.
    pub(super) refused: Option<String>,
}

#[derive(Debug)]
struct Preopen {
    place: Place,
    guest: String,
    write: bool,
}

/// The file or directory behind a descriptor of a component.
#[derive(Debug)]
enum Node {
    Directory(Opened),
    File(Arc<OpenFile>),
}

/// An open directory of a component.
#[derive(Debug)]
struct Opened {
    place: Place,
    /// Whether the granted directory above it may be written.
    write: bool,
    _held: Held,
}

impl Files {
    /// Opens the granted directories.
    ///
    /// # Errors
    /// [`Kind::Denied`] for a directory outside the workspace or the grants. Also the errors of resolving it.
    pub(super) fn new(
        root: &Root,
        grants: &Grants,
        directories: &[Directory],
        budget: Arc<Budget>,
    ) -> Result<Self, Error> {
        let mut preopens = Vec::new();
        for directory in directories {
            let place = Place::open(root, grants, &directory.host)?;
            preopens.push(Preopen { place, guest: directory.guest.clone(), write: directory.write });
        }
        Ok(Self { grants: grants.clone(), budget, preopens, refused: None })
    }

    /// The files of a component without files.
    pub(super) fn none(budget: Arc<Budget>) -> Self {
        Self { grants: Grants::default(), budget, preopens: Vec::new(), refused: None }
    }

    /// Whether a directory is granted, and whether one is granted for writing.
    pub(super) fn granted(&self) -> Option<bool> {
        let write = self.grants.can_write() && self.preopens.iter().any(|preopen| preopen.write);
        (!self.preopens.is_empty()).then_some(write)
    }

    /// Whether the component wrote or made too much.
    pub(super) fn disk_limit(&self) -> bool {
        self.budget.was_reached()
    }
}

/// The state of a call, as the host functions of `wasi:filesystem` see it.
pub(super) struct View<'a> {
    pub(super) files: &'a mut Files,
    pub(super) table: &'a mut ResourceTable,
}

/// Names [`View`] for the linker.
pub(super) struct HasFiles;

impl HasData for HasFiles {
    type Data<'a> = View<'a>;
}

/// The flags for opening a file.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    open: OpenFlags,
    read: bool,
    write: bool,
    follow: bool,
}

impl Wanted {
    fn new(open: OpenFlags, flags: DescriptorFlags, follow: bool) -> Self {
        Self {
            open,
            read: flags.contains(DescriptorFlags::READ),
            write: flags.contains(DescriptorFlags::WRITE),
            follow,
        }
    }

    /// Whether opening changes the file, or lets the component change it.
    fn changes(self) -> bool {
        self.write || self.open.contains(OpenFlags::TRUNCATE)
    }
}

/// The reason that a request of a component was refused: a reason of ours, or an error code.
enum Refusal {
    Ours(Error),
    Code(ErrorCode),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Ours(error)
    }
}

impl From<ErrorCode> for Refusal {
    fn from(code: ErrorCode) -> Self {
        Self::Code(code)
    }
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::Code(ErrorCode::from(&error))
    }
}

impl Files {
    /// The error code for the component. The report keeps the first reason of ours.
    fn refuse(&mut self, refusal: Refusal) -> FsError {
        let error = match refusal {
            Refusal::Code(code) => return code.into(),
            Refusal::Ours(error) => error,
        };
        if error.kind() == Kind::Denied && self.refused.is_none() {
            self.refused = Some(error.to_string());
        }
        code_of(&error).into()
    }

    /// Opens the file or directory at `path`, below `from`.
    fn open(&self, from: &Opened, path: &str, wanted: Wanted) -> Result<Node, Refusal> {
        let resolved = from.place.resolve(path, wanted.follow)?;
        let only_directory = wanted.open.contains(OpenFlags::DIRECTORY);
        let taken = wanted.open.contains(OpenFlags::CREATE | OpenFlags::EXCLUSIVE);
        match &resolved.found {
            Found::Missing { .. } if wanted.open.contains(OpenFlags::CREATE) => {
                self.create(from, resolved, wanted)
            }
            Found::Missing { .. } => Err(ErrorCode::NoEntry.into()),
            _ if taken => Err(ErrorCode::Exist.into()),
            Found::Directory if wanted.changes() => Err(ErrorCode::IsDirectory.into()),
            Found::Directory => {
                guard::check_read(&self.grants, &resolved)?;
                let place = resolved.into_place(path)?;
                let levels = place.depth().saturating_sub(from.place.depth()).saturating_add(1);
                let _held = self.budget.hold(levels).ok_or(ErrorCode::Quota)?;
                Ok(Node::Directory(Opened { place, write: from.write, _held }))
            }
            Found::File(_) if only_directory => Err(ErrorCode::NotDirectory.into()),
            Found::File(_) if wanted.changes() => self.open_to_write(from, &resolved, wanted),
            Found::File(_) => {
                guard::check_read(&self.grants, &resolved)?;
                let name = resolved.last.as_ref().ok_or(ErrorCode::IsDirectory)?;
                self.opened(open_name(resolved.dir(), name.as_ref())?, wanted)
            }
            Found::Special("a symbolic link") => Err(ErrorCode::Loop.into()),
            Found::Special(_) => Err(ErrorCode::NotPermitted.into()),
        }
    }

    /// Opens a file that is there to be changed in place: nothing but a regular file of one name, without the bits that
    /// let others run it as its owner.
    fn open_to_write(&self, from: &Opened, resolved: &Resolved, wanted: Wanted) -> Result<Node, Refusal> {
        self.check_write(from, resolved)?;
        if wanted.read {
            guard::check_read(&self.grants, resolved)?;
        }
        let name = resolved.last.as_ref().ok_or(ErrorCode::IsDirectory)?;
        let file = open_writable(resolved.dir(), name.as_ref(), wanted.read, false)?;
        let metadata = file.metadata()?;
        let shown = resolved.inside();
        let denied = |why: &str| Error::new(Kind::Denied, why).at(shown.shown()).hint("write another file");
        if metadata.nlink() > 1 {
            return Err(denied("the file has other names, which would change with it").into());
        }
        if metadata.permissions().readonly() {
            return Err(denied("the file is marked read-only").into());
        }
        if runs_as_owner(&metadata) {
            return Err(denied("the file runs as its owner").into());
        }
        let node = self.opened(file, wanted)?;
        if let (Node::File(open), true) = (&node, wanted.open.contains(OpenFlags::TRUNCATE)) {
            open.file.set_len(0)?;
        }
        Ok(node)
    }

    /// Makes a file under a name that is free.
    fn create(&self, from: &Opened, resolved: Resolved, wanted: Wanted) -> Result<Node, Refusal> {
        // First, so that a protected name is refused whether its directory is there or not.
        self.check_write(from, &resolved)?;
        if !resolved.missing.is_empty() {
            return Err(ErrorCode::NoEntry.into());
        }
        if wanted.open.contains(OpenFlags::DIRECTORY)
            || matches!(resolved.found, Found::Missing { wants_directory: true })
        {
            return Err(ErrorCode::IsDirectory.into());
        }
        let name = resolved.last.as_ref().ok_or(ErrorCode::IsDirectory)?;
        self.budget.make()?;
        self.opened(open_writable(resolved.dir(), name.as_ref(), true, true)?, wanted)
    }

    /// Takes the opened file if it is regular. The check uses the handle, so nobody can exchange the file any
    /// more.
    fn opened(&self, file: File, wanted: Wanted) -> Result<Node, Refusal> {
        if !file.metadata()?.is_file() {
            return Err(ErrorCode::NotPermitted.into());
        }
        let held = self.budget.hold(1).ok_or(ErrorCode::Quota)?;
        Ok(Node::File(Arc::new(OpenFile {
            file,
            read: wanted.read,
            write: wanted.write,
            budget: Arc::clone(&self.budget),
            _held: held,
        })))
    }

    /// Checks that the resolved file may be made, changed or removed.
    fn check_write(&self, from: &Opened, resolved: &Resolved) -> Result<(), Refusal> {
        if !from.write {
            return Err(ErrorCode::ReadOnly.into());
        }
        Ok(guard::check_write(&self.grants, resolved)?)
    }
}

/// Opens one name below `dir` for writing. It must not be a link.
fn open_writable(dir: &Dir, name: &std::path::Path, read: bool, new: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).read(read).create_new(new).follow(FollowSymlinks::No).nonblock(true);
    dir.open_with(name, &options)
}

fn runs_as_owner(metadata: &Metadata) -> bool {
    #[cfg(unix)]
    {
        use cap_std::fs::MetadataExt as _;
        metadata.mode() & 0o6000 != 0
    }
    #[cfg(not(unix))]
    {
        let _ = metadata;
        false
    }
}

/// The error code of a component for an error of ours.
fn code_of(error: &Error) -> ErrorCode {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<io::Error>());
    match (error.kind(), source) {
        (Kind::NotFound, _) => ErrorCode::NoEntry,
        (Kind::NotADirectory, _) => ErrorCode::NotDirectory,
        (Kind::Exists, _) => ErrorCode::Exist,
        (Kind::Denied, _) => ErrorCode::NotPermitted,
        (Kind::Limit, _) => ErrorCode::Quota,
        (Kind::Invalid, _) => ErrorCode::Invalid,
        (_, Some(source)) => ErrorCode::from(source),
        (_, None) => ErrorCode::Loop,
    }
}
