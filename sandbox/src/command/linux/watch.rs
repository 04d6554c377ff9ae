//! Totals that no bound of a single process holds: what the workspace grows by, and, without a control group, memory.
//! A watcher sees them a little late; the report calls it one.

#![allow(clippy::disallowed_methods, reason = "the kernel's account of the sandbox's processes")]

use std::time::{Duration, Instant};

use super::freeze;
use crate::command::limits::Limits;
use crate::fs::Root;
use crate::fs::marks::Usage;

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
        Self { root, before, most, left: most, free, counted, took: Duration::ZERO }
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
        // A quarter of what is allowed, or all that was left of it, is gone from the whole file system.
        let much = |gone: u64, most: u64, left: u64| gone > left.min(most / 4);
        let suspicious = much(gone.bytes, self.most.bytes, self.left.bytes)
            || much(gone.files, self.most.files, self.left.files);
        match self.counted.elapsed() {
            since if suspicious && since > self.took => Look::Suspicious,
            since if since > COUNT_EVERY.max(self.took * 10) => Look::Due,
            _ => Look::Calm,
        }
    }

    /// Counts; says whether the directory has grown too much.
    pub(super) fn count(&mut self) -> Option<Exceeded> {
        let start = Instant::now();
        let free = free(self.root);
        let usage = self.root.usage().unwrap_or(Usage { bytes: 0, files: u64::MAX });
        (self.free, self.counted, self.took) = (free, Instant::now(), start.elapsed());
        let grown = Usage {
            bytes: usage.bytes.saturating_sub(self.before.bytes),
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
    let mut bytes = 0;
    let mut todo = vec![first];
    while let Some(pid) = todo.pop() {
        let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
        let pages = read("statm").split(' ').nth(1).and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
        bytes += pages * 4096;
        todo.extend(freeze::children(pid));
    }
    bytes
}
