//! Opens a program of the sandbox once, and starts it from that descriptor.
//!
//! Invariant: the path of the program is looked up once. So a command that replaces the file there replaces
//! no program outside of the sandbox.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a door: programs that a person or the system names"
)]

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, fstat, open, statat};

use super::{Process, sys};
use crate::fs::Root;

/// A program, as a descriptor.
#[derive(Clone, Debug)]
pub(super) struct Program {
    file: Arc<OwnedFd>,
    shown: PathBuf,
}

impl Program {
    /// Opens the program at `path`; a link is followed now and never again.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        if fstat(&file)?.st_mode & libc::S_IFMT != libc::S_IFREG {
            return Err(io::Error::other("it is no file"));
        }
        let shown = super::path_of(file.as_fd()).unwrap_or_else(|| path.to_owned());
        Ok(Self { file: Arc::new(file), shown })
    }

    /// Where it was found, for people.
    pub(super) fn shown(&self) -> &Path {
        &self.shown
    }

    /// A process of it that is to be started. Its path leads to the descriptor, which needs not live on for that.
    pub(super) fn process(&self) -> Process {
        Process::new(by_number(self.file.as_raw_fd()))
    }

    /// Whether it lies in the workspace, where commands could write to it.
    pub(super) fn lies_in(&self, workspace: &Root) -> bool {
        workspace.holds(&self.shown)
    }

    /// Whether this user, as whom commands run, could change it; where that is root, whether others could.
    pub(super) fn is_changeable(&self) -> bool {
        let Ok(stat) = fstat(&*self.file) else { return true };
        if sys::effective_uid() == 0 {
            return stat.st_mode & 0o002 != 0;
        }
        let writable = rustix::fs::accessat(
            CWD,
            by_number(self.file.as_raw_fd()),
            rustix::fs::Access::WRITE_OK,
            AtFlags::EACCESS,
        );
        stat.st_uid == sys::effective_uid() || writable.is_ok()
    }
}

impl AsFd for Program {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// The path by which a process finds its descriptor of that number.
pub(super) fn by_number(fd: std::os::fd::RawFd) -> PathBuf {
    format!("/proc/self/fd/{fd}").into()
}

/// The running program, opened when it said that it can be a stage.
static OWN: OnceLock<Option<Program>> = OnceLock::new();

/// Opens the running program, before anything else could have replaced it.
pub(super) fn open_own() {
    // The link leads to what runs, whatever lies at its path by now.
    OWN.get_or_init(|| Program::open(Path::new("/proc/self/exe")).ok());
}

/// The running program, if it has said that it can be a stage.
pub(super) fn own() -> Option<Program> {
    OWN.get().cloned().flatten()
}

/// The first of the usual places of system programs that has `name`. `PATH` is not asked: it may lead into a workspace.
pub(super) fn find(name: &str) -> Option<PathBuf> {
    ["/usr/bin", "/bin", "/usr/local/bin", "/usr/sbin", "/run/current-system/sw/bin"]
        .iter()
        .map(|directory| Path::new(directory).join(name))
        .find(|path| {
            statat(CWD, path, AtFlags::empty()).is_ok_and(|stat| stat.st_mode & libc::S_IFMT == libc::S_IFREG)
        })
}
