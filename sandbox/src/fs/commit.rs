//! The last step of every change: puts a new file in the place of exactly the file that was seen.
//!
//! Invariant: a save of another program under the name survives, and then the change did not happen. Where
//! the file system can exchange two names at once (`RENAME_EXCHANGE`, `RENAME_SWAP` of macOS), the old file
//! is compared after the exchange. So no save can be lost at any moment. On other file systems the name is
//! checked right before the rename.

use std::ffi::{OsStr, OsString};
use std::io;

use cap_std::fs::{Dir, Metadata};
use cap_tempfile::TempFile;

use super::{drawn, open};
use crate::error::Error;

/// Exchanges in a row at most, while another program keeps saving the file.
const EXCHANGES: usize = 64;

/// A file that was seen.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) metadata: Metadata,
    /// Its bytes, or the reason that they are not known.
    pub(super) bytes: Result<Vec<u8>, Error>,
}

impl Seen {
    /// Whether the name still has this file, with these bytes.
    fn is(&self, dir: &Dir, name: &OsStr) -> bool {
        let is_it = |now: &Metadata| now.is_file() && now.len() == self.metadata.len() && self.is_same(now);
        let Ok(bytes) = &self.bytes else {
            return dir
                .symlink_metadata(name)
                .is_ok_and(|now| is_it(&now) && now.modified().ok() == self.metadata.modified().ok());
        };
        let Ok(opened) = open::open_name(dir, name.as_ref()).and_then(|file| Ok((file.metadata()?, file)))
        else {
            return false;
        };
        is_it(&opened.0) && open::holds(&opened.1, bytes)
    }

    /// Whether it is the same file, as far as the system tells files apart.
    fn is_same(&self, now: &Metadata) -> bool {
        #[cfg(unix)]
        return identity(now) == identity(&self.metadata);
        #[cfg(not(unix))]
        {
            let _ = now;
            true
        }
    }
}

/// Puts `new` under `name` in place of the `seen` file. Returns whether that file was still there. If not,
/// nothing changes.
pub(super) fn replace(dir: &Dir, name: &OsStr, new: TempFile<'_>, seen: &Seen) -> io::Result<bool> {
    let aside = aside();
    new.replace(&aside)?;
    let placed = Held::of(dir, &aside)?;
    match exchange(dir, &aside, name) {
        Some(Ok(())) if seen.is(dir, &aside) => {
            // Should the old file stay under that name, the change was made all the same.
            let _ = dir.remove_file(&aside);
            Ok(true)
        }
        Some(Ok(())) => give_back(dir, &aside, name, placed),
        // The file is gone.
        Some(Err(error)) if error.kind() == io::ErrorKind::NotFound => {
            dir.remove_file(&aside).map(|()| false)
        }
        None if seen.is(dir, name) => dir.rename(&aside, dir, name).map(|()| true),
        None => dir.remove_file(&aside).map(|()| false),
        Some(Err(error)) => {
            let _ = dir.remove_file(&aside);
            Err(error)
        }
    }
}

/// Puts `new` under the free name `name`. Returns whether the name was still free. If not, nothing changes.
pub(super) fn create(dir: &Dir, name: &OsStr, new: TempFile<'_>) -> io::Result<bool> {
    let aside = aside();
    new.replace(&aside)?;
    let made = rename_new(dir, &aside, name);
    if !matches!(made, Ok(true)) {
        let _ = dir.remove_file(&aside);
    }
    made
}

/// Removes the file of that name, if it is the `seen` one. Returns whether it was. If not, the file stays.
pub(super) fn remove(dir: &Dir, name: &OsStr, seen: &Seen) -> io::Result<bool> {
    let aside = aside();
    match rename_new(dir, name, &aside) {
        Ok(true) => {}
        Ok(false) => return Err(io::ErrorKind::AlreadyExists.into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    }
    if seen.is(dir, &aside) {
        return dir.remove_file(&aside).map(|()| true);
    }
    match rename_new(dir, &aside, name) {
        Ok(true) => Ok(false),
        _ => Err(left(&aside)),
    }
}

/// Puts the file `aside` back under `name`, where `placed` is now. A newer save under `name` stays.
fn give_back(dir: &Dir, aside: &OsStr, name: &OsStr, mut placed: Held) -> io::Result<bool> {
    for _ in 0..EXCHANGES {
        match Held::of(dir, name) {
            Ok(now) if now.identity == placed.identity => {}
            // Somebody has saved over what was placed, as they would have over what came out.
            Ok(_) => return dir.remove_file(aside).map(|()| false),
            Err(_) => break,
        }
        let coming = Held::of(dir, aside)?;
        if !matches!(exchange(dir, aside, name), Some(Ok(()))) {
            break;
        }
        if Held::of(dir, aside)?.identity == placed.identity {
            return dir.remove_file(aside).map(|()| false);
        }
        // Something was saved right before the exchange: now that is aside, and the newer one.
        placed = coming;
    }
    // Nothing is under the name any more; what came out is not lost for that.
    match rename_new(dir, aside, name) {
        Ok(true) => Ok(false),
        _ => Err(left(aside)),
    }
}

/// A file that is held open. So no other file gets its number while that number identifies it.
#[derive(Debug)]
struct Held {
    identity: Identity,
    #[cfg(unix)]
    _open: Option<std::os::fd::OwnedFd>,
}

impl Held {
    fn of(dir: &Dir, name: &OsStr) -> io::Result<Self> {
        #[cfg(unix)]
        {
            use rustix::fs::{Mode, OFlags, fstat, openat};
            // On Linux whatever it is can be held without a right to it.
            #[cfg(target_os = "linux")]
            let how = OFlags::PATH;
            #[cfg(not(target_os = "linux"))]
            let how = OFlags::RDONLY | OFlags::NONBLOCK;
            if let Ok(open) = openat(dir, name, how | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()) {
                let stat = fstat(&open)?;
                #[allow(clippy::unnecessary_cast, reason = "the types are others on other systems")]
                let identity = (stat.st_dev as u64, stat.st_ino as u64);
                return Ok(Self { identity, _open: Some(open) });
            }
        }
        let identity = identity(&dir.symlink_metadata(name)?);
        #[cfg(unix)]
        return Ok(Self { identity, _open: None });
        #[cfg(not(unix))]
        Ok(Self { identity })
    }
}

/// Exchanges two names; `None` where the system or the file system cannot.
fn exchange(dir: &Dir, one: &OsStr, other: &OsStr) -> Option<io::Result<()>> {
    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
    {
        use rustix::fs::{RenameFlags, renameat_with};
        use rustix::io::Errno;
        match renameat_with(dir, one, dir, other, RenameFlags::EXCHANGE) {
            Err(Errno::NOSYS | Errno::INVAL | Errno::NOTSUP) => None,
            done => Some(done.map_err(io::Error::from)),
        }
    }
    #[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
    {
        let _ = (dir, one, other);
        None
    }
}

/// Renames to a free name. Returns whether the name was free.
fn rename_new(dir: &Dir, from: &OsStr, to: &OsStr) -> io::Result<bool> {
    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
    {
        use rustix::fs::{RenameFlags, renameat_with};
        use rustix::io::Errno;
        match renameat_with(dir, from, dir, to, RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(true),
            Err(Errno::EXIST) => return Ok(false),
            Err(Errno::NOSYS | Errno::INVAL | Errno::NOTSUP) => {}
            Err(error) => return Err(error.into()),
        }
    }
    // A second name is refused where there is one already.
    match dir.hard_link(from, dir, to) {
        Ok(()) => dir.remove_file(from).map(|()| true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(error),
        Err(_) if dir.symlink_metadata(to).is_ok() => Ok(false),
        Err(_) => dir.rename(from, dir, to).map(|()| true),
    }
}

/// The identity of a file: device and inode number, on systems other than Unix size and time.
#[cfg(unix)]
type Identity = (u64, u64);
#[cfg(not(unix))]
type Identity = (u64, Option<cap_std::time::SystemTime>);

#[cfg(unix)]
fn identity(metadata: &Metadata) -> Identity {
    use cap_std::fs::MetadataExt as _;
    (metadata.dev(), metadata.ino())
}

#[cfg(not(unix))]
fn identity(metadata: &Metadata) -> Identity {
    (metadata.len(), metadata.modified().ok())
}

/// A random name in the same directory.
fn aside() -> OsString {
    format!(".toolgate-{:016x}", drawn()).into()
}

/// The error for a file that could not be put back under its name.
fn left(aside: &OsStr) -> io::Error {
    io::Error::other(format!(
        "something else keeps changing the file; what it had is under the name {}",
        aside.to_string_lossy()
    ))
}
