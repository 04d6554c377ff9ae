//! Closes a workspace that could not be cleaned after a command. It stays closed to every tool until a person
//! removes the remains.
//!
//! Invariant: each check looks for the remains on the disk. Only a person can open the workspace again, by
//! removing them.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use cap_fs_ext::DirExt as _;

use super::Root;
use crate::error::{Error, Kind};
use crate::names::lossy;
use crate::output;

/// Names in a message at most.
const NAMED: usize = 5;

/// The state of a workspace: open, or closed with a reason.
#[derive(Debug, Default)]
pub(super) struct Closing {
    closed: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    left: Vec<Left>,
    /// The file that keeps the state for later runs.
    record: Option<PathBuf>,
}

/// A file that could not be taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Left {
    /// The path below the workspace.
    pub(crate) path: PathBuf,
    pub(crate) why: String,
}

/// The record of a closed workspace.
#[derive(Serialize, Deserialize)]
struct Record {
    workspace: String,
    left: Vec<RecordedLeft>,
}

#[derive(Serialize, Deserialize)]
struct RecordedLeft {
    /// The path for people.
    path: String,
    /// The real path, since a name need not be Unicode.
    bytes: Vec<u8>,
    why: String,
}

impl Root {
    /// The same workspace, which remembers in later runs that it is closed. It closes when a command leaves a
    /// file there that could not be taken back. The record is kept in `directory`. No tool may be able to
    /// write that directory.
    ///
    /// ```
    /// # use toolgate_sandbox::{Root, ambient_authority};
    /// # let (workspace, state) = (tempfile::tempdir()?, tempfile::tempdir()?);
    /// let root = Root::open(workspace.path(), ambient_authority())?.remembering(state.path())?;
    /// assert!(root.check_open().is_ok(), "nothing was left here");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Kind::Failed`] for a record that cannot be read.
    pub fn remembering(self, directory: &Path) -> Result<Self, Error> {
        let file = directory.join(format!("{:016x}.json", digest(&self.shown())));
        let recorded = read(&file).map_err(|why| {
            Error::new(Kind::Failed, format!("the record of closed workspaces cannot be read ({why})"))
                .at(&lossy(file.as_os_str()))
                .hint("look into it, and remove it if the workspace is as it should be")
        })?;
        let mut state = self.closing();
        state.record = Some(file);
        if let Some(record) = recorded.filter(|record| record.workspace == self.shown()) {
            let left = |left: RecordedLeft| Left { path: path_of(left.bytes), why: left.why };
            state.left = record.left.into_iter().map(left).collect();
            self.inner.closing.closed.store(true, Ordering::Relaxed);
        }
        drop(state);
        Ok(self)
    }

    #[cfg(target_os = "linux")]
    /// Closes the workspace, since a command has `left` these files.
    pub(crate) fn close(&self, left: Vec<Left>) {
        let mut state = self.closing();
        state.left.extend(left);
        self.inner.closing.closed.store(true, Ordering::Relaxed);
        if let Some(file) = &state.record {
            let recorded = |left: &Left| RecordedLeft {
                path: lossy(left.path.as_os_str()),
                bytes: bytes_of(&left.path),
                why: left.why.clone(),
            };
            let record = Record { workspace: self.shown(), left: state.left.iter().map(recorded).collect() };
            // This run refuses all the same; a later one would not know.
            let _ = write(file, &record);
        }
    }

    /// Checks that the workspace may be used.
    ///
    /// # Errors
    /// [`Kind::Denied`] while a protected file of a command is still there that could not be taken back. A
    /// person has to remove the file.
    pub fn check_open(&self) -> Result<(), Error> {
        if !self.inner.closing.closed.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut state = self.closing();
        state.left.retain(|left| self.is_there(&left.path));
        if state.left.is_empty() {
            self.inner.closing.closed.store(false, Ordering::Relaxed);
            if let Some(file) = &state.record {
                remove(file);
            }
            return Ok(());
        }
        let named = state.left.iter().take(NAMED).map(|left| {
            format!("\"{}\" ({})", output::name(&lossy(left.path.as_os_str())), output::name(&left.why))
        });
        let more = state.left.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        Err(Error::new(
            Kind::Denied,
            format!(
                "the workspace is closed: a command left what is protected, and it could not be taken back: {}{more}",
                named.collect::<Vec<_>>().join(", ")
            ),
        )
        .hint("a person has to look at it and take it away; until then nothing is done here"))
    }

    /// Whether a file is there, without following a link. An error counts as there.
    fn is_there(&self, path: &Path) -> bool {
        let gone = |why: std::io::Error| {
            !matches!(why.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
        };
        let (Some(above), Some(name)) = (path.parent(), path.file_name()) else { return true };
        let top = self.dir().try_clone();
        let dir = top.and_then(|top| above.iter().try_fold(top, |dir, name| dir.open_dir_nofollow(name)));
        match dir {
            Ok(dir) => dir.symlink_metadata(name).map_or_else(gone, |_| true),
            Err(why) => gone(why),
        }
    }

    fn closing(&self) -> MutexGuard<'_, State> {
        self.inner.closing.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A part of the file name for each workspace. The record itself names the workspace.
fn digest(text: &str) -> u64 {
    // FNV-1a, which stays the same from run to run.
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(target_os = "linux")]
fn bytes_of(path: &Path) -> Vec<u8> {
    std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str()).to_vec()
}

fn path_of(bytes: Vec<u8>) -> PathBuf {
    #[cfg(unix)]
    {
        <std::ffi::OsString as std::os::unix::ffi::OsStringExt>::from_vec(bytes).into()
    }
    #[cfg(not(unix))]
    {
        String::from_utf8_lossy(&bytes).into_owned().into()
    }
}

#[expect(clippy::disallowed_methods, reason = "the runtime's own record, outside of any workspace")]
fn read(file: &Path) -> std::io::Result<Option<Record>> {
    match std::fs::read(file) {
        Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(why) => Err(why),
    }
}

#[cfg(target_os = "linux")]
#[expect(clippy::disallowed_methods, reason = "the runtime's own record, outside of any workspace")]
fn write(file: &Path, record: &Record) -> std::io::Result<()> {
    if let Some(directory) = file.parent() {
        std::fs::create_dir_all(directory)?;
    }
    let new = file.with_extension("new");
    std::fs::write(&new, serde_json::to_vec(record)?)?;
    std::fs::rename(new, file)
}

#[expect(clippy::disallowed_methods, reason = "the runtime's own record, outside of any workspace")]
fn remove(file: &Path) {
    // One that stays is read again, and found to be about nothing.
    let _ = std::fs::remove_file(file);
}
