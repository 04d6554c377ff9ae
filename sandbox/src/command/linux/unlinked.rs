//! Files without a name: they take room for as long as a process has them open or mapped, and no walk over directories sees
//! them.
//!
//! Nowhere else can one be held: the filter lets no descriptor be sent through a socket, to wait there.

#![allow(clippy::disallowed_methods, reason = "the kernel's account of the sandbox's processes")]

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;

use super::freeze;
use crate::fs::Root;

/// Bytes of such files on the workspace's file system that the process `first` and those below it hold. Of a file that is
/// only mapped, as much as is mapped counts.
pub(super) fn bytes(first: u32, root: &Root) -> u64 {
    let (Ok((device, _)), Some(path)) = (root.identity(), root.present_path()) else { return 0 };
    let below = format!("{}/", path.display());
    let mut held = BTreeMap::new();
    for pid in freeze::tree(first) {
        opened(pid, device, &mut held);
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        for (inode, end) in maps.lines().filter_map(|line| mapped(line, &below)) {
            let known = held.entry(inode).or_insert(Held::Mapped(0));
            if let Held::Mapped(most) = known {
                *most = end.max(*most);
            }
        }
    }
    held.values().map(|(Held::Open(bytes) | Held::Mapped(bytes))| bytes).sum()
}

/// How a file is held, and the bytes it takes.
enum Held {
    Open(u64),
    Mapped(u64),
}

/// The files without a name that the threads of a process have open.
fn opened(pid: u32, device: u64, held: &mut BTreeMap<u64, Held>) {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    for thread in threads {
        let files = std::fs::read_dir(thread.path().join("fd")).into_iter().flatten().flatten();
        // The path is the kernel's: it leads to the open file itself.
        for file in files.filter_map(|fd| std::fs::metadata(fd.path()).ok()) {
            if file.is_file() && file.nlink() == 0 && file.dev() == device {
                held.insert(file.ino(), Held::Open(file.blocks().saturating_mul(512)));
            }
        }
    }
}

/// The inode and the end in the file of a mapping whose file, below the path `below`, has lost its name.
fn mapped(line: &str, below: &str) -> Option<(u64, u64)> {
    let at = line.find('/')?;
    let (fields, path) = line.split_at_checked(at)?;
    if !path.starts_with(below) || !path.ends_with(" (deleted)") {
        return None;
    }
    let mut fields = fields.split_whitespace();
    let (from, to) = fields.next()?.split_once('-')?;
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let offset = number(fields.nth(1)?)?;
    let inode = fields.nth(1)?.parse().ok()?;
    Some((inode, offset.saturating_add(number(to)?.saturating_sub(number(from)?))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_of_files_without_a_name_are_told_from_others() {
        let line = |path: &str| format!("7f0000001000-7f0000003000 rw-s 00001000 08:01 4711    {path}");
        assert_eq!(mapped(&line("/ws/a b (deleted)"), "/ws/"), Some((4711, 0x3000)));
        for other in ["/ws/a", "/usr/lib/x (deleted)", "/ws2/a (deleted)", "[heap]", ""] {
            assert_eq!(mapped(&line(other), "/ws/"), None, "{other}");
        }
    }
}
