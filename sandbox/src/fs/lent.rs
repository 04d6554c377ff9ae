//! Opens directories that this user owns and whose permission bits exclude this user. An owner can change
//! such bits, and so can a command. To see inside, the directory is lent the missing bits.
//!
//! Invariant: dropping the value restores the bits, unless somebody has changed them meanwhile.

use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};

use rustix::fs::{Access, AtFlags, Mode, accessat, chmod, fstat};

/// The bits for listing a directory and reading its entries.
pub(super) const TO_LOOK: u32 = 0o500;
/// The bits for renaming its entries too.
pub(super) const TO_CHANGE: u32 = 0o700;

/// A directory for as long as it has the bits it needs.
#[derive(Debug)]
pub(super) struct Lent {
    /// The directory, its bits before and those it has now.
    back: Option<(OwnedFd, u32, u32)>,
}

impl Lent {
    /// Lends `dir` those of `bits` that are missing, where that is up to this user.
    pub(super) fn to(dir: impl AsFd, bits: u32) -> Self {
        let lend = || {
            let before = missing(&dir, bits)?;
            let kept = dir.as_fd().try_clone_to_owned().ok()?;
            set_mode(&kept, before | bits).ok()?;
            Some((kept, before, before | bits))
        };
        Self { back: lend() }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some((dir, before, lent)) = &self.back
            && mode(dir) == Some(*lent)
        {
            // It was ours to change a moment ago.
            let _ = set_mode(dir, *before);
        }
    }
}

/// The permission bits of a directory that has not all of `bits`, where this user is kept out by that.
pub(super) fn missing(dir: impl AsFd, bits: u32) -> Option<u32> {
    let before = mode(&dir)?;
    if before & bits == bits {
        return None;
    }
    let mut wanted = Access::READ_OK | Access::EXEC_OK;
    wanted.set(Access::WRITE_OK, bits == TO_CHANGE);
    accessat(dir, ".", wanted, AtFlags::EACCESS).is_err().then_some(before)
}

/// The permission bits of a directory.
pub(super) fn mode(dir: impl AsFd) -> Option<u32> {
    fstat(dir).ok().map(|stat| stat.st_mode & 0o7777)
}

/// Sets them by way of the handle, since a directory that may not be entered has no path any more.
pub(super) fn set_mode(dir: impl AsFd, mode: u32) -> rustix::io::Result<()> {
    chmod(format!("/proc/self/fd/{}", dir.as_fd().as_raw_fd()), Mode::from_raw_mode(mode))
}
