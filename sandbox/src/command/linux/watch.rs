//! Totals that no bound of a single process holds: what the workspace grows by, and, without a control group, memory.
//! A watcher sees them a little late; the report calls it one.

#![allow(clippy::disallowed_methods, reason = "the kernel's account of the sandbox's processes")]

use std::time::{Duration, Instant};

use crate::command::limits::Limits;
use crate::fs::Root;
use crate::fs::marks::Usage;

/// How often the free space is asked for: one system call.
pub(super) const DISK_EVERY: Duration = Duration::from_millis(2);
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

/// Watches what the workspace grows by.
pub(super) struct Disk<'a> {
    root: &'a Root,
    before: Usage,
    most_bytes: u64,
    most_files: u64,
    /// Free bytes and free files of the file system when the workspace was last counted.
    free: (u64, u64),
    counted: Instant,
    /// How long the last count took, so that large workspaces are not counted all the time.
    took: Duration,
}

impl<'a> Disk<'a> {
    pub(super) fn new(root: &'a Root, before: Usage, limits: &Limits) -> Self {
        Self {
            root,
            before,
            most_bytes: limits.disk_mb.saturating_mul(1024 * 1024),
            most_files: limits.files,
            free: free(root),
            counted: Instant::now(),
            took: Duration::ZERO,
        }
    }

    /// Whether the workspace has grown too much.
    pub(super) fn exceeded(&mut self) -> Option<Exceeded> {
        let (bytes, files) = free(self.root);
        // A quarter of what is allowed gone from the whole file system: then it is worth counting.
        let suspicious = self.free.0.saturating_sub(bytes) > self.most_bytes / 4
            || self.free.1.saturating_sub(files) > self.most_files / 4;
        let due = self.counted.elapsed() > COUNT_EVERY.max(self.took * 10);
        if !suspicious && !due {
            return None;
        }
        let start = Instant::now();
        let usage = self.root.usage();
        self.free = (bytes, files);
        self.counted = Instant::now();
        self.took = start.elapsed();
        let usage = usage.unwrap_or(Usage { bytes: 0, files: u64::MAX });
        if usage.bytes.saturating_sub(self.before.bytes) > self.most_bytes {
            Some(Exceeded::Disk)
        } else if usage.files.saturating_sub(self.before.files) > self.most_files {
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
        let children = read(&format!("task/{pid}/children"));
        todo.extend(children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
    }
    bytes
}
