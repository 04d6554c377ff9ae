//! Totals that no bound of a single process holds: what the workspace grows by, and, without a control group, memory.
//! A watcher sees them a little late; the report calls it one.

#![allow(clippy::disallowed_methods, reason = "the kernel's account of the sandbox's processes")]

use std::time::{Duration, Instant};

use super::{freeze, unlinked};
use crate::command::limits::Limits;
use crate::fs::Root;
use crate::fs::usage::{Counted, Usage};

/// How often the free space is asked for: one system call.
pub(super) const DISK_EVERY: Duration = Duration::from_millis(2);
/// How often from when half of what is allowed is used.
const DISK_OFTEN: Duration = Duration::from_millis(1);
/// How often memory is added up: some reads a process.
pub(super) const MEMORY_EVERY: Duration = Duration::from_millis(20);
/// How often the workspace is counted where free space says nothing.
const COUNT_EVERY: Duration = Duration::from_millis(250);

/// Why a command was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exceeded {
    Disk,
    Files,
    Memory,
}

/// Watches what a directory grows by.
pub(super) struct Disk<'a> {
    root: &'a Root,
    before: Usage,
    most: Usage,
    /// What was left of it when the directory was last counted.
    left: Usage,
    /// Free bytes and free files of the file system at that time.
    free: (u64, u64),
    counted: Instant,
    /// How long the last count took, so that large workspaces are not counted all the time.
    took: Duration,
    /// Whether a directory was met that is only counted while nobody works in it.
    closed: bool,
}

/// What a look at the free space says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// Nothing has happened that matters.
    Calm,
    /// It is time to count.
    Due,
    /// So much was written, by whomever, that the command may have used up what it is allowed.
    Suspicious,
}

impl<'a> Disk<'a> {
    pub(super) fn new(root: &'a Root, before: Usage, limits: &Limits) -> Self {
        let most = Usage { bytes: limits.disk_mb.saturating_mul(1024 * 1024), files: limits.files };
        let (free, counted) = (free(root), Instant::now());
        Self { root, before, most, left: most, free, counted, took: Duration::ZERO, closed: false }
    }

    /// How soon to look again.
    pub(super) fn tick(&self) -> Duration {
        let half = |left: u64, most: u64| left < most / 2;
        match half(self.left.bytes, self.most.bytes) || half(self.left.files, self.most.files) {
            true => DISK_OFTEN,
            false => DISK_EVERY,
        }
    }

    /// Looks at the free space.
    pub(super) fn look(&self) -> Look {
        let (bytes, files) = free(self.root);
        let gone =
            Usage { bytes: self.free.0.saturating_sub(bytes), files: self.free.1.saturating_sub(files) };
        // All that was left is gone from the whole file system: nothing more may be written before it is known by whom.
        let all = gone.bytes > self.left.bytes || gone.files > self.left.files;
        let much = gone.bytes > self.most.bytes / 4 || gone.files > self.most.files / 4;
        match self.counted.elapsed() {
            since if all || much && since > self.took => Look::Suspicious,
            since if since > COUNT_EVERY.max(self.took * 10) => match self.closed {
                true => Look::Suspicious,
                false => Look::Due,
            },
            _ => Look::Calm,
        }
    }

    /// Whether it has grown too much, now that everybody has ended; counted only where more has gone from the file system than
    /// was left.
    pub(super) fn last_count(&mut self) -> Option<Exceeded> {
        let (bytes, files) = free(self.root);
        let gone = (self.free.0.saturating_sub(bytes), self.free.1.saturating_sub(files));
        (gone.0 > self.left.bytes || gone.1 > self.left.files).then(|| self.count(None, true)).flatten()
    }

    /// Counts what the directory holds, and what the process `first` and those below it hold of its file system without a
    /// name; says whether it has grown too much. `still` says that they have been stopped.
    pub(super) fn count(&mut self, first: Option<u32>, still: bool) -> Option<Exceeded> {
        let start = Instant::now();
        let free = free(self.root);
        let usage = match self.root.usage(still) {
            Counted::All(usage) => usage,
            // It stays due, and they are stopped for it.
            Counted::Closed => {
                self.closed = true;
                return None;
            }
            Counted::TooMuch => return Some(Exceeded::Files),
        };
        let nameless = first.map_or(0, |first| unlinked::bytes(first, self.root));
        (self.free, self.counted, self.took) = (free, Instant::now(), start.elapsed());
        let grown = Usage {
            bytes: usage.bytes.saturating_add(nameless).saturating_sub(self.before.bytes),
            files: usage.files.saturating_sub(self.before.files),
        };
        self.left = Usage {
            bytes: self.most.bytes.saturating_sub(grown.bytes),
            files: self.most.files.saturating_sub(grown.files),
        };
        if grown.bytes > self.most.bytes {
            Some(Exceeded::Disk)
        } else if grown.files > self.most.files {
            Some(Exceeded::Files)
        } else {
            None
        }
    }
}

fn free(root: &Root) -> (u64, u64) {
    root.free_space().unwrap_or((0, 0))
}

/// Watches what a process and everything below it holds in memory.
pub(super) struct Memory {
    first: u32,
    most_bytes: u64,
    looked: Instant,
}

impl Memory {
    pub(super) fn new(first: u32, limits: &Limits) -> Self {
        Self { first, most_bytes: limits.memory_mb.saturating_mul(1024 * 1024), looked: Instant::now() }
    }

    /// Whether it is too much.
    pub(super) fn exceeded(&mut self) -> Option<Exceeded> {
        if self.looked.elapsed() < MEMORY_EVERY {
            return None;
        }
        self.looked = Instant::now();
        (resident(self.first) > self.most_bytes).then_some(Exceeded::Memory)
    }
}

/// Bytes in memory of a process and all below it. What they share is counted for each.
fn resident(first: u32) -> u64 {
    let pages = |pid: u32| {
        let statm = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
        statm.split(' ').nth(1).and_then(|n| n.parse::<u64>().ok()).unwrap_or(0)
    };
    freeze::tree(first).into_iter().map(|pid| pages(pid) * 4096).sum()
}
