//! A bounded walk over a directory tree, in name order.
//!
//! Invariant: the walk goes down by handles and never through a link. It shows no path that the grants close,
//! and enters no version-control directory. Depth, entries and open handles are bounded.

use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::path::Path;

use cap_fs_ext::DirExt as _;
use cap_std::fs::Dir;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::open;
use super::search::Ignored;
use crate::grants::Grants;
use crate::limits::FileLimits;
use crate::names::{Inside, fold, lossy};

/// A longer `.gitignore` is not read: nobody writes one, and each pattern costs every entry.
const MAX_IGNORE_BYTES: u64 = 64 * 1024;

/// Bytes of `.gitignore` files that one walk reads. Each file costs some microseconds to compile.
const MAX_RULES_BYTES: u64 = 256 * 1024;

/// The start of a walk.
pub(super) struct Start<'d> {
    pub(super) dir: &'d Dir,
    pub(super) inside: Inside,
    /// The directories above, outermost first, whose `.gitignore` also counts.
    pub(super) above: Vec<(&'d Dir, Inside)>,
}

/// One entry of a walk.
pub(super) struct Item<'a> {
    /// The directory that holds it.
    pub(super) dir: &'a Dir,
    pub(super) name: &'a OsStr,
    pub(super) inside: &'a Inside,
    pub(super) kind: ItemKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ItemKind {
    Directory,
    File,
    Link,
    Special,
}

/// Whether to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Go {
    On,
    Stop,
}

/// The end of a walk.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Walked {
    /// Entries left out because a `.gitignore` names them; what is below them is not counted.
    pub(super) ignored: usize,
    /// Whether a limit cut the walk.
    pub(super) incomplete: bool,
}

/// Shows every entry below `start` to `visit`, a directory before its entries.
pub(super) fn walk(
    start: Start<'_>,
    grants: &Grants,
    limits: &FileLimits,
    ignored: Ignored,
    visit: &mut dyn FnMut(Item<'_>) -> Go,
) -> Walked {
    let mut walk = Walk {
        grants,
        limits,
        ignored,
        left: limits.max_walk_entries,
        rules_left: MAX_RULES_BYTES,
        rules: Vec::new(),
        walked: Walked::default(),
    };
    for (dir, inside) in &start.above {
        walk.push_rules(dir, inside);
    }
    walk.directory(start.dir, &start.inside, 1, visit);
    walk.walked
}

/// The entries of one directory by name, with what they are; at most `max`, and whether that was all.
pub(super) fn entries(dir: &Dir, max: usize) -> std::io::Result<(Vec<(OsString, ItemKind)>, bool)> {
    let mut found = Vec::new();
    let mut complete = true;
    for entry in dir.entries()? {
        if found.len() >= max {
            complete = false;
            break;
        }
        // An entry that vanished while we looked is not there.
        let Ok(entry) = entry else { continue };
        let Ok(kind) = entry.file_type() else { continue };
        let kind = if kind.is_dir() {
            ItemKind::Directory
        } else if kind.is_file() {
            ItemKind::File
        } else if kind.is_symlink() {
            ItemKind::Link
        } else {
            ItemKind::Special
        };
        found.push((entry.file_name(), kind));
    }
    found.sort();
    Ok((found, complete))
}

/// Whether the name is a version-control program's own directory, which no walk enters.
pub(super) fn is_vcs(name: &OsStr) -> bool {
    matches!(fold(&lossy(name)).as_str(), ".git" | ".hg" | ".svn" | ".jj" | ".bzr")
}

struct Walk<'a> {
    grants: &'a Grants,
    limits: &'a FileLimits,
    ignored: Ignored,
    left: usize,
    /// Bytes of rules that may be read yet; those of directories beyond that do not count.
    rules_left: u64,
    /// The rules of the directories on the way, outermost first; nothing for one without.
    rules: Vec<Gitignore>,
    walked: Walked,
}

impl Walk<'_> {
    fn directory(
        &mut self,
        dir: &Dir,
        inside: &Inside,
        depth: usize,
        visit: &mut dyn FnMut(Item<'_>) -> Go,
    ) -> Go {
        let Ok((entries, complete)) = entries(dir, self.left) else {
            return Go::On;
        };
        self.left = self.left.saturating_sub(entries.len());
        self.walked.incomplete |= !complete;
        let n_rules = self.rules.len();
        if entries.iter().any(|(name, _)| name == ".gitignore") {
            self.push_rules(dir, inside);
        }
        let mut go = Go::On;
        for (name, kind) in &entries {
            let inside = inside.join(name);
            let is_dir = *kind == ItemKind::Directory;
            if is_dir && is_vcs(name) || self.grants.check_read(&inside).is_err() {
                continue;
            }
            if self.is_ignored(&inside, is_dir) {
                self.walked.ignored += 1;
                continue;
            }
            go = visit(Item { dir, name, inside: &inside, kind: *kind });
            if go == Go::On && is_dir {
                if depth >= self.limits.max_depth || self.left == 0 {
                    self.walked.incomplete = true;
                } else if let Ok(below) = dir.open_dir_nofollow(name) {
                    go = self.directory(&below, &inside, depth + 1, visit);
                }
            }
            if go == Go::Stop {
                break;
            }
        }
        self.rules.truncate(n_rules);
        go
    }

    fn push_rules(&mut self, dir: &Dir, inside: &Inside) {
        if self.ignored == Ignored::Search {
            return;
        }
        let Ok(opened) = open::open_name(dir, Path::new(".gitignore")) else { return };
        let Ok(metadata) = opened.metadata() else { return };
        let mut text = String::new();
        let most = MAX_IGNORE_BYTES.min(self.rules_left);
        if !metadata.is_file() || most == 0 || opened.take(most).read_to_string(&mut text).is_err() {
            return;
        }
        self.rules_left = self.rules_left.saturating_sub(u64::try_from(text.len()).unwrap_or(u64::MAX));
        let mut builder = GitignoreBuilder::new(inside.as_str());
        for line in text.lines() {
            // A line that is no pattern ignores nothing, as in git.
            let _ = builder.add_line(None, line);
        }
        if let Ok(rules) = builder.build() {
            self.rules.push(rules);
        }
    }

    /// The innermost rule that says anything about the path decides.
    fn is_ignored(&self, inside: &Inside, is_dir: bool) -> bool {
        self.rules
            .iter()
            .rev()
            .map(|rules| rules.matched(inside.as_str(), is_dir))
            .find(|matched| !matched.is_none())
            .is_some_and(|matched| matched.is_ignore())
    }
}
