//! The private directory for the temporary files of one command, where the sandbox does not mount one.
//!
//! Invariant: nobody but this user can open it, and it is removed with the command.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the private directory of one command"
)]

use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(target_os = "linux")]
use cap_std::ambient_authority;

use super::could_not_start;
use crate::error::{Error, Kind};
#[cfg(target_os = "linux")]
use crate::fs::Root;

/// A private directory for the temporary files of one command, removed with it.
#[derive(Debug)]
pub(super) struct Scratch {
    base: PathBuf,
    shown: [String; 3],
    /// It as a workspace, for its size to be watched.
    #[cfg(target_os = "linux")]
    pub(super) root: Root,
}

impl Scratch {
    /// Makes one.
    pub(super) fn new() -> Result<Self, Error> {
        // The real path, since rules go by it, and the directory of some systems is a link.
        let base = private_directory().and_then(|base| base.canonicalize()).map_err(could_not_start)?;
        let below = ["tmp", "probe", "tmp/home"].map(|name| base.join(name));
        for directory in &below {
            std::fs::create_dir(directory).map_err(could_not_start)?;
        }
        let shown = below.map(|path| path.to_str().map(str::to_owned));
        let [Some(temporary), Some(probe), Some(home)] = shown else {
            return Err(Error::new(Kind::Failed, "the path of temporary files is not Unicode"));
        };
        Ok(Self {
            #[cfg(target_os = "linux")]
            root: Root::open(&base, ambient_authority())?,
            base,
            shown: [temporary, probe, home],
        })
    }

    pub(super) fn temporary(&self) -> &str {
        &self.shown[0]
    }

    /// Where nothing can be made by Landlock's rules, though this user might: the self-check tries.
    #[cfg(target_os = "linux")]
    pub(super) fn probe(&self) -> &str {
        &self.shown[1]
    }

    pub(super) fn home(&self) -> &str {
        &self.shown[2]
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if std::fs::remove_dir_all(&self.base).is_err() {
            // Directories that the command has closed to its own user.
            open_up(&self.base);
            let _ = std::fs::remove_dir_all(&self.base);
        }
    }
}

fn private_directory() -> std::io::Result<PathBuf> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let mut tries = 0;
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("toolgate-{}-{number}", std::process::id()));
        match std::fs::DirBuilder::new().mode(0o700).create(&path) {
            // Left by a process of the same number that was killed, or somebody's guess.
            Err(why) if why.kind() == std::io::ErrorKind::AlreadyExists && tries < 1_000 => tries += 1,
            made => return made.map(|()| path),
        }
    }
}

fn open_up(directory: &Path) {
    let _ = std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o700));
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}
