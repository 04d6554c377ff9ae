//! Lists the files that the stage must find at each mount of the workspace.
//!
//! Bubblewrap gets paths and looks them up itself, more than once. Somebody may exchange a directory for a
//! link meanwhile. Then bubblewrap mounts or covers a place elsewhere. A mount stays what it is, so one check
//! before the command is enough.
//!
//! Invariant: the check compares device and inode with those that the runtime saw by its own handles.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{Mode, OFlags, StatVfsMountFlags, fstat, fstatfs, fstatvfs, major, minor, open, openat};
use serde::{Deserialize, Serialize};

use crate::fs::descend::{Identity, identity};

/// A place inside the sandbox, and what must be there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Expected {
    pub(super) at: OsString,
    pub(super) what: What,
}

/// What must be at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum What {
    /// This file or directory of the workspace.
    Writable(Identity),
    /// This one, and nobody can change it.
    ReadOnly(Identity),
    /// The cover of a file: a device that cannot be opened below a mount.
    ClosedFile,
    /// The cover of a directory: an empty one that cannot be entered.
    ClosedDirectory,
}

/// What a file system in memory is known by.
const MEMORY: u64 = 0x0102_1994;

impl Expected {
    /// Whether it is there.
    ///
    /// # Errors
    /// Where something else is, or it cannot be told.
    pub(super) fn check(&self) -> Result<(), String> {
        let at = Path::new(&self.at).display();
        match self.is_there() {
            Ok(true) => Ok(()),
            Ok(false) => Err(format!(
                "{at} is not what it was when the command was to start: it was exchanged meanwhile"
            )),
            Err(why) => Err(format!("{at} cannot be looked at inside: {why}")),
        }
    }

    fn is_there(&self) -> io::Result<bool> {
        let found = open_plainly(Path::new(&self.at))?;
        let stat = fstat(&found)?;
        let kind = stat.st_mode & libc::S_IFMT;
        let read_only = || Ok::<_, io::Error>(fstatvfs(&found)?.f_flag.contains(StatVfsMountFlags::RDONLY));
        Ok(match self.what {
            What::Writable(expected) => identity(&stat) == expected,
            What::ReadOnly(expected) => identity(&stat) == expected && read_only()?,
            What::ClosedFile => kind == libc::S_IFCHR && (major(stat.st_rdev), minor(stat.st_rdev)) == (1, 3),
            What::ClosedDirectory => {
                let memory = u64::try_from(fstatfs(&found)?.f_type).is_ok_and(|kind| kind == MEMORY);
                kind == libc::S_IFDIR && stat.st_mode & 0o777 == 0 && memory && read_only()?
            }
        })
    }
}

/// What is at an absolute path, reached by single names and never through a link.
fn open_plainly(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut found = open(c"/", flags, Mode::empty())?;
    for component in path.components() {
        if let Component::Normal(name) = component {
            found = openat(found.as_fd(), name, flags, Mode::empty())?;
        }
    }
    Ok(found)
}
