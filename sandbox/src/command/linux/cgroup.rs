//! Makes a control group for one command, which bounds memory and processes in total. It lies below the group
//! of this process, if that is writable (root, or a delegated subtree).
//!
//! Invariant: a group is removed when its command has ended. The next command removes the groups of a killed
//! runtime.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the kernel's own control files")]

use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::command::limits::Limits;

const MOUNT: &str = "/sys/fs/cgroup";
const PREFIX: &str = "toolgate-";

/// Where groups can be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The unified hierarchy: one directory for both.
    Unified(PathBuf),
    /// Version 1: a directory for memory and one for processes.
    Separate { memory: PathBuf, pids: PathBuf },
}

/// The groups of one command.
#[derive(Debug)]
pub(super) struct Group {
    place: Place,
    /// The group's own directories, the one that counts memory first.
    directories: Vec<PathBuf>,
    /// Where a process writes itself into them.
    doors: Vec<OwnedFd>,
}

/// Where groups can be made on this machine, or why not.
pub(super) fn place() -> Result<Place, String> {
    let membership = fs::read_to_string("/proc/self/cgroup").map_err(|why| why.to_string())?;
    let own = parse(&membership);
    if let (Some(memory), Some(pids)) = (own.memory, own.pids) {
        let [memory, pids] = [("memory", memory), ("pids", pids)]
            .map(|(controller, path)| Path::new(MOUNT).join(controller).join(path.trim_start_matches('/')));
        for directory in [&memory, &pids] {
            remove_leftovers(directory);
            try_making_a_group(directory)?;
        }
        return Ok(Place::Separate { memory, pids });
    }
    let Some(unified) = own.unified else { return Err("no control groups are mounted".into()) };
    let own = Path::new(MOUNT).join(unified.trim_start_matches('/'));
    // A group with processes in it passes no controllers on; then the one above it may.
    let above = own.parent().filter(|above| above.starts_with(MOUNT)).map(Path::to_owned);
    let passes_on = |directory: &PathBuf| {
        let given = fs::read_to_string(directory.join("cgroup.subtree_control")).unwrap_or_default();
        ["memory", "pids"].iter().all(|wanted| given.split_whitespace().any(|has| has == *wanted))
    };
    let Some(directory) = [Some(own), above].into_iter().flatten().find(passes_on) else {
        return Err("the control group of this process is given no memory and pids controllers".into());
    };
    remove_leftovers(&directory);
    try_making_a_group(&directory)?;
    Ok(Place::Unified(directory))
}

/// The groups of a process, by controller.
#[derive(Debug, Default, PartialEq, Eq)]
struct Membership {
    memory: Option<String>,
    pids: Option<String>,
    unified: Option<String>,
}

/// Reads `/proc/self/cgroup`: lines of `number:controllers:path`.
fn parse(text: &str) -> Membership {
    let mut found = Membership::default();
    for line in text.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let has = |name: &str| controllers.split(',').any(|controller| controller == name);
        let path = Some(path.to_owned());
        if controllers.is_empty() {
            found.unified = path;
        } else if has("memory") {
            found.memory = path;
        } else if has("pids") {
            found.pids = path;
        }
    }
    found
}

fn try_making_a_group(below: &Path) -> Result<(), String> {
    let probe = below.join(name());
    let made = fs::create_dir(&probe).and_then(|()| {
        // Its controllers must be there, and this user must be let in.
        fs::OpenOptions::new().write(true).open(probe.join("cgroup.procs")).map(drop)
    });
    let _ = fs::remove_dir(&probe);
    made.map_err(|why| format!("{}: {why}", below.display()))
}

/// Removes groups of runtimes that are gone. One with processes in it cannot be removed, which is right.
fn remove_leftovers(below: &Path) {
    let Ok(entries) = fs::read_dir(below) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let owner = name
            .to_str()
            .and_then(|name| name.strip_prefix(PREFIX))
            .and_then(|rest| rest.split('-').next())
            .and_then(|pid| pid.parse::<u32>().ok());
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

fn name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{PREFIX}{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

impl Group {
    /// A group with these bounds.
    pub(super) fn new(place: &Place, limits: &Limits) -> io::Result<Self> {
        let name = name();
        let memory = limits.memory_mb.saturating_mul(1024 * 1024).to_string();
        let pids = limits.pids.to_string();
        let mut group = Self { place: place.clone(), directories: Vec::new(), doors: Vec::new() };
        match place {
            Place::Unified(below) => {
                let directory = group.make(below.join(name))?;
                fs::write(directory.join("memory.max"), memory)?;
                fs::write(directory.join("pids.max"), pids)?;
                // Not every kernel counts swap.
                let _ = fs::write(directory.join("memory.swap.max"), "0");
            }
            Place::Separate { memory: below_memory, pids: below_pids } => {
                let directory = group.make(below_memory.join(&name))?;
                fs::write(directory.join("memory.limit_in_bytes"), &memory)?;
                let _ = fs::write(directory.join("memory.memsw.limit_in_bytes"), &memory);
                let directory = group.make(below_pids.join(&name))?;
                fs::write(directory.join("pids.max"), pids)?;
            }
        }
        Ok(group)
    }

    fn make(&mut self, directory: PathBuf) -> io::Result<PathBuf> {
        fs::create_dir(&directory)?;
        self.directories.push(directory.clone());
        let door = fs::OpenOptions::new().write(true).open(directory.join("cgroup.procs"))?;
        self.doors.push(door.into());
        Ok(directory)
    }

    /// Descriptors to which a process writes `0` to be in the group.
    pub(super) fn doors(&self) -> Vec<RawFd> {
        self.doors.iter().map(|door| door.as_raw_fd()).collect()
    }

    /// Whether a process was ended for want of memory.
    pub(super) fn ran_out_of_memory(&self) -> bool {
        let file = match self.place {
            Place::Unified(_) => "memory.events",
            Place::Separate { .. } => "memory.oom_control",
        };
        let text = self.directories.first().and_then(|memory| fs::read_to_string(memory.join(file)).ok());
        text.unwrap_or_default()
            .lines()
            .filter_map(|line| line.strip_prefix("oom_kill "))
            .any(|count| count.trim() != "0")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for directory in self.directories.drain(..) {
            // The last process may still be on its way out, though its end was waited for.
            for _ in 0..50 {
                if fs::remove_dir(&directory).is_ok() || !directory.exists() {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memberships_of_both_versions_are_read() {
        let old = parse("8:pids:/a\n4:cpu,memory:/b:c\n0::/\n");
        assert_eq!((old.memory.as_deref(), old.pids.as_deref()), (Some("/b:c"), Some("/a")));
        let new = parse("0::/user.slice/x.scope\n");
        assert_eq!(new, Membership { unified: Some("/user.slice/x.scope".into()), ..Membership::default() });
    }
}
