//! Where a model is put together before it may stand in the cache: one growing file, hashed as it grows, and a
//! journal that says what of it can be trusted after an interruption.
//!
//! Invariant: the hasher has seen exactly the bytes of the file, in order.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::cache::PART;
use super::digest::Sha256Digest;
use super::error::Error;

const JOURNAL: &str = "journal.json";

/// A model being put together.
pub(crate) struct Staging {
    directory: PathBuf,
    file: File,
    hasher: Sha256,
    written: u64,
    journal: Journal,
}

/// Which bytes are trusted after an interruption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Those up to the last checkpoint: what comes after may be a piece of a piece.
    Checkpoints,
    /// All of them: they come from one stream that can be asked for at any offset.
    Stream,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Journal {
    /// What the bytes are a prefix of; another origin starts again.
    origin: String,
    /// Pieces that are wholly in the file.
    pieces: usize,
    /// Length of the file at the last checkpoint.
    bytes: u64,
}

impl Staging {
    /// Opens the staging directory, keeping what an earlier attempt from the same `origin` left there.
    pub(crate) fn open(directory: &Path, origin: &str, trust: Trust) -> Result<Self, Error> {
        fs::create_dir_all(directory).map_err(|error| Error::disk("create", directory, error))?;
        let path = directory.join(PART);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(|error| Error::disk("write", &path, error))?;
        let length = file.metadata().map_err(|error| Error::disk("read", &path, error))?.len();
        let journal = fs::read(directory.join(JOURNAL))
            .ok()
            .and_then(|text| serde_json::from_slice::<Journal>(&text).ok())
            .filter(|journal| journal.origin == origin && journal.bytes <= length);
        let kept = match (&journal, trust) {
            (None, _) => 0,
            (Some(journal), Trust::Checkpoints) => journal.bytes,
            (Some(_), Trust::Stream) => length,
        };
        let journal = journal.unwrap_or_else(|| Journal { origin: origin.to_owned(), ..Journal::default() });
        let mut staging =
            Self { directory: directory.to_owned(), file, hasher: Sha256::new(), written: 0, journal };
        staging.keep(kept).map_err(|error| Error::disk("read", &path, error))?;
        staging.write_journal()?;
        Ok(staging)
    }

    /// Bytes that are there.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Pieces that are wholly there.
    pub(crate) fn pieces(&self) -> usize {
        self.journal.pieces
    }

    /// Adds `bytes` at the end.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.file.write_all(bytes).map_err(|error| Error::disk("write", &self.part(), error))?;
        self.hasher.update(bytes);
        self.written += bytes.len() as u64;
        Ok(())
    }

    /// Records that one more piece is wholly there, once it is on the disk.
    pub(crate) fn finish_piece(&mut self) -> Result<(), Error> {
        self.file.sync_data().map_err(|error| Error::disk("write", &self.part(), error))?;
        self.journal.pieces += 1;
        self.journal.bytes = self.written;
        self.write_journal()
    }

    /// Goes back to the last checkpoint, dropping a piece that turned out to be faulty.
    pub(crate) fn roll_back(&mut self) -> Result<(), Error> {
        self.keep(self.journal.bytes).map_err(|error| Error::disk("write", &self.part(), error))
    }

    /// Begins again with an empty file.
    pub(crate) fn restart(&mut self) -> Result<(), Error> {
        self.journal = Journal { origin: std::mem::take(&mut self.journal.origin), ..Journal::default() };
        self.keep(0).map_err(|error| Error::disk("write", &self.part(), error))?;
        self.write_journal()
    }

    /// The digest of all that is there.
    pub(crate) fn digest(&self) -> Sha256Digest {
        Sha256Digest::from(self.hasher.clone())
    }

    /// Moves the file to `target` in one step, once it is on the disk, and removes the directory.
    pub(crate) fn publish(self, target: &Path) -> Result<(), Error> {
        let part = self.part();
        self.file.sync_all().map_err(|error| Error::disk("write", &part, error))?;
        fs::rename(&part, target).map_err(|error| Error::disk("write", target, error))?;
        if let Some(parent) = target.parent() {
            // The name itself is data of the directory; where directories cannot be synced, nothing is lost by it.
            let _ = File::open(parent).and_then(|parent| parent.sync_all());
        }
        // The model is in place; an undeletable leftover is no reason to say that it is not.
        let _ = fs::remove_dir_all(&self.directory);
        Ok(())
    }

    /// Path of the growing file.
    pub(crate) fn part(&self) -> PathBuf {
        self.directory.join(PART)
    }

    /// The directory of this attempt, for whatever else it needs on the same disk.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Shortens the file to its first `length` bytes and hashes them.
    fn keep(&mut self, length: u64) -> io::Result<()> {
        if self.file.metadata()?.len() != length {
            self.file.set_len(length)?;
        }
        self.file.seek(SeekFrom::Start(0))?;
        self.hasher = Sha256::new();
        self.written = 0;
        let mut buffer = vec![0; 1 << 18];
        while self.written < length {
            let n = self.file.read(&mut buffer)?;
            if n == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.hasher.update(buffer.get(..n).unwrap_or_default());
            self.written += n as u64;
        }
        Ok(())
    }

    /// Replaces the journal in one step, so that a crash leaves the old one or the new one.
    fn write_journal(&self) -> Result<(), Error> {
        let path = self.directory.join(JOURNAL);
        let next = self.directory.join("journal.next");
        serde_json::to_vec(&self.journal)
            .map_err(io::Error::from)
            .and_then(|text| fs::write(&next, text))
            .and_then(|()| fs::rename(&next, &path))
            .map_err(|error| Error::disk("write", &path, error))
    }
}

/// Removes a staging directory and all that is in it.
pub(crate) fn discard(directory: &Path) {
    // What cannot be removed now is overwritten by the next attempt.
    let _ = fs::remove_dir_all(directory);
}
