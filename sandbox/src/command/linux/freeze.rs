//! Stops all processes of a command for a moment, so their disk use can be counted before they write more.
//!
//! Invariant: no other process is stopped. A process is stopped by a descriptor, after it was seen to be a
//! child of one of the command's. Dropping the value lets all go on.

#![allow(clippy::disallowed_methods, reason = "the kernel's account of the sandbox's processes")]

use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, OwnedFd};

use super::sys;

/// Rounds until no process appears that was not stopped yet. One that forks faster than that is the process limit's.
const ROUNDS: usize = 8;

/// Processes that are stopped.
#[derive(Debug)]
pub(super) struct Frozen(BTreeMap<u32, OwnedFd>);

impl Frozen {
    /// Stops everything below the process `first`, but not that process itself: it only waits.
    pub(super) fn below(first: u32) -> Self {
        let mut frozen = Self(BTreeMap::new());
        for _ in 0..ROUNDS {
            if !frozen.stop_new(first) {
                break;
            }
        }
        frozen
    }

    /// Stops those that run yet; whether there were any.
    fn stop_new(&mut self, first: u32) -> bool {
        let mut new = false;
        let mut todo = vec![first];
        while let Some(parent) = todo.pop() {
            for child in children(parent) {
                if !self.0.contains_key(&child)
                    && let Some(process) = stop(child, parent)
                {
                    new = true;
                    self.0.insert(child, process);
                }
                todo.push(child);
            }
        }
        new
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        for process in self.0.values() {
            // One that has ended meanwhile needs no help.
            let _ = sys::signal(process.as_fd(), libc::SIGCONT);
        }
    }
}

fn stop(pid: u32, parent: u32) -> Option<OwnedFd> {
    let process = sys::pidfd(i32::try_from(pid).ok()?).ok()?;
    // The number may be another process's by now; the descriptor is that of the one whose parent is told here.
    (parent_of(pid) == Some(parent)).then_some(())?;
    sys::signal(process.as_fd(), libc::SIGSTOP).ok()?;
    Some(process)
}

/// The children of all threads of a process.
pub(super) fn children(pid: u32) -> Vec<u32> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// A process and all below it.
pub(super) fn tree(first: u32) -> Vec<u32> {
    let mut found = vec![first];
    let mut next = 0;
    while let Some(pid) = found.get(next).copied() {
        found.extend(children(pid));
        next += 1;
    }
    found
}

fn parent_of(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::disallowed_types, reason = "tests")]
mod tests {
    use std::process::Command;

    use super::*;

    fn state(pid: u32) -> Option<char> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit(')').next()?.trim_start().chars().next()
    }

    #[test]
    fn all_below_stop_and_go_on() {
        // Nothing may be left to do after the sleep that a shell could become it for.
        let script = "(sleep 60 & sleep 60; true) & wait";
        let mut shell = Command::new("sh").args(["-c", script]).spawn().unwrap();
        let below = || {
            let children = children(shell.id());
            let grandchildren: Vec<u32> = children.iter().flat_map(|pid| super::children(*pid)).collect();
            [children, grandchildren].concat()
        };
        // A shell that waits for its child to become the sleep cannot be stopped.
        let sleeps = |pid: &u32| {
            std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "sleep")
        };
        let started = (0..2_000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            below().len() == 3 && below().iter().filter(|pid| sleeps(pid)).count() == 2
        });
        assert!(started, "{:?}", below());
        let frozen = Frozen::below(shell.id());
        assert_eq!(frozen.0.len(), 3);
        let settled = |wanted: fn(char) -> bool| {
            (0..4_000).any(|_| {
                std::thread::sleep(std::time::Duration::from_millis(5));
                below().into_iter().filter_map(state).all(wanted)
            })
        };
        assert!(settled(|state| state == 'T'));
        assert_ne!(state(shell.id()), Some('T'));
        drop(frozen);
        assert!(settled(|state| state != 'T'));
        for pid in below() {
            let _ = sys::pidfd(i32::try_from(pid).unwrap()).and_then(|process| sys::kill(process.as_fd()));
        }
        shell.wait().unwrap();
    }
}
