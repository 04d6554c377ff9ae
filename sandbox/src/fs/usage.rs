//! Measures the size of a workspace, so the growth of a command can be bounded.
//!
//! Invariant: a file counts once, whatever the number of its names. All its blocks count, also those beyond
//! its size.

use std::collections::HashSet;
use std::ffi::OsStr;

use rustix::fs::Stat;

use super::Root;
use super::descend::{Closed, Entry, Go, Here, Identity, Unseen, Visitor, descend, identity};

/// Entries that are counted at most. About 1 µs each, while the command waits.
const MAX_COUNTED: usize = 800_000;

/// The size of a workspace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) bytes: u64,
    pub(crate) files: u64,
}

/// The result of measuring a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    All(Usage),
    /// There is a directory that could only be counted while nobody works in it.
    Closed,
    /// More than can be counted.
    TooMuch,
}

impl Root {
    /// Measures the workspace. `None` if it is too large to count. Also `None` if a directory is closed and
    /// `still` does not say that nobody works in the workspace: nobody may see the directory open for a
    /// moment.
    pub(crate) fn usage(&self, still: bool) -> Counted {
        let mut count = Count { sum: Sum::default(), left: MAX_COUNTED, closed: false };
        let closed = if still { Closed::Open } else { Closed::Leave };
        match descend(self.dir(), closed, &mut count) {
            _ if count.closed => Counted::Closed,
            whole if whole.is_break() => Counted::TooMuch,
            _ => Counted::All(count.sum.usage),
        }
    }

    /// Free bytes and free files of the file system the workspace is on.
    pub(crate) fn free_space(&self) -> Option<(u64, u64)> {
        let state = rustix::fs::fstatvfs(self.dir()).ok()?;
        Some((state.f_bfree.saturating_mul(state.f_frsize), state.f_ffree))
    }
}

/// The count so far.
#[derive(Debug, Default)]
pub(super) struct Sum {
    pub(super) usage: Usage,
    /// Files of several names.
    seen: HashSet<Identity>,
}

impl Sum {
    /// Adds a name.
    pub(super) fn add(&mut self, stat: &Stat) {
        self.usage.files += 1;
        let is_directory = stat.st_mode & libc::S_IFMT == libc::S_IFDIR;
        if is_directory || stat.st_nlink < 2 || self.seen.insert(identity(stat)) {
            self.usage.bytes += u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512);
        }
    }
}

struct Count {
    sum: Sum,
    left: usize,
    closed: bool,
}

impl Visitor for Count {
    fn entry(&mut self, here: &Here<'_>, entry: &Entry) -> Go {
        let Some(left) = self.left.checked_sub(1) else { return Go::Stop };
        self.left = left;
        if let Some(stat) = here.stat(&entry.name) {
            self.sum.add(&stat);
        }
        Go::In
    }

    fn unseen(&mut self, _: &Here<'_>, _: &OsStr, why: Unseen) {
        self.closed |= matches!(why, Unseen::Closed);
    }
}
