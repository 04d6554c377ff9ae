//! The record of the broker for the runtime. It lists the made names, so only those are ever taken back, and
//! the refused names.
//!
//! The record is a file in memory that both have open. The broker may be ended at any time, and the record
//! keeps its notes.

use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use crate::fs::descend::Identity;
use crate::fs::takeback::Made;

/// Files and directories that are noted: 40 bytes each. With more of them anything may have been made by the command.
const MAX_MADE: usize = 1_000_000;
/// Names that are noted as refused.
const MAX_REFUSED: usize = 100;
/// What the record can hold at most.
const MAX_BYTES: u64 = 128 * 1024 * 1024;

/// The broker's side.
pub(super) struct Record {
    file: OwnedFd,
    made: HashSet<Identity>,
    moved: HashSet<Identity>,
    refused: HashSet<PathBuf>,
}

impl Record {
    pub(super) fn new(file: OwnedFd) -> Self {
        Self { file, made: HashSet::new(), moved: HashSet::new(), refused: HashSet::new() }
    }

    pub(super) fn made(&mut self, identity: Identity) {
        if self.made.len() < MAX_MADE && self.made.insert(identity) {
            self.note(b"made ", &numbers(identity));
        }
    }

    pub(super) fn moved(&mut self, identity: Identity) {
        if self.moved.len() < MAX_MADE && self.moved.insert(identity) {
            self.note(b"moved ", &numbers(identity));
        }
    }

    pub(super) fn refused(&mut self, path: &Path) {
        if self.refused.len() < MAX_REFUSED && self.refused.insert(path.to_owned()) {
            self.note(b"refused ", path.as_os_str().as_bytes());
        }
    }

    /// A line, which ends in a character that no path holds.
    fn note(&mut self, what: &[u8], of: &[u8]) {
        // Without memory for it the sandbox is about to end.
        let _ = rustix::io::write(&self.file, &[what, of, &[0]].concat());
    }
}

fn numbers((device, inode): Identity) -> Vec<u8> {
    format!("{device} {inode}").into_bytes()
}

/// The runtime's side: what was made, and what was refused.
pub(in super::super) fn read(file: &OwnedFd) -> (Made, Vec<PathBuf>) {
    let (mut made, mut moved, mut refused) = (HashSet::new(), HashSet::new(), Vec::new());
    let Ok(text) = whole(file) else { return (Made::Anything, refused) };
    for line in text.split(|byte| *byte == 0).filter(|line| !line.is_empty()) {
        let (what, of) =
            line.split_at(line.iter().position(|byte| *byte == b' ').map_or(line.len(), |at| at + 1));
        match (what, parse(of)) {
            (b"made ", Some(identity)) => drop(made.insert(identity)),
            (b"moved ", Some(identity)) => drop(moved.insert(identity)),
            (b"refused ", _) => refused.push(std::ffi::OsString::from_vec(of.to_vec()).into()),
            _ => return (Made::Anything, refused),
        }
    }
    match made.len() >= MAX_MADE || moved.len() >= MAX_MADE {
        true => (Made::Anything, refused),
        false => (Made::These { made, moved }, refused),
    }
}

/// All that was written to it.
fn whole(file: &OwnedFd) -> rustix::io::Result<Vec<u8>> {
    let length = u64::try_from(rustix::fs::fstat(file)?.st_size).unwrap_or(0);
    let mut text = vec![0; usize::try_from(length.min(MAX_BYTES)).unwrap_or(0)];
    let mut read = 0;
    while let Some(rest) = text.get_mut(read..).filter(|rest| !rest.is_empty()) {
        let offset = u64::try_from(read).unwrap_or(u64::MAX);
        match rustix::io::pread(file, rest, offset)? {
            0 => return Err(rustix::io::Errno::IO),
            n => read += n,
        }
    }
    Ok(text)
}

fn parse(text: &[u8]) -> Option<Identity> {
    let (device, inode) = std::str::from_utf8(text).ok()?.split_once(' ')?;
    Some((device.parse().ok()?, inode.parse().ok()?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::super::host::memory_file;
    use super::*;

    #[test]
    fn what_was_noted_is_read_and_what_cannot_be_read_may_be_anything() {
        let file = memory_file("record", "").unwrap();
        assert!(
            matches!(read(&file), (Made::These { made, moved }, refused) if made.is_empty() && moved.is_empty() && refused.is_empty())
        );
        let file: OwnedFd = rustix::fs::memfd_create("record", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let mut record = Record::new(file.try_clone().unwrap());
        record.made((1, 2));
        record.made((1, 2));
        record.moved((3, 4));
        record.refused(Path::new("a b/.git"));
        let (Made::These { made, moved }, refused) = read(&file) else { unreachable!("it is whole") };
        assert_eq!((made, moved), (HashSet::from([(1, 2)]), HashSet::from([(3, 4)])));
        assert_eq!(refused, [PathBuf::from("a b/.git")]);
        let broken = memory_file("record", "made 1 2\0mad").unwrap();
        assert!(matches!(read(&broken).0, Made::Anything));
    }
}
