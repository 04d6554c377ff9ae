//! Lists the names of a workspace, for callers that offer paths before a model writes one.
//!
//! Invariant: it names nothing that the grants would not let the caller read, goes through no link, and ends: entries,
//! bytes, depth and time are bounded. What a bound leaves out is told as a directory that may hold anything.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::path::Path;
use std::time::{Duration, Instant};

use cap_fs_ext::DirExt as _;
use cap_std::fs::Dir;

use super::Root;
use super::walk::{self, ItemKind};
use crate::grants::{Grants, Scope};
use crate::names::Inside;
use crate::spelling;

/// The bounds of an outline.
///
/// ```
/// use toolgate_sandbox::{Grants, OutlineLimits, Root, ambient_authority};
/// let dir = tempfile::tempdir()?;
/// let root = Root::open(dir.path(), ambient_authority())?;
/// let grants = Grants::read_write();
/// for path in ["a.txt", "many/1", "many/2", "many/3"] {
///     root.write_file(&grants, path, "")?;
/// }
/// let limits = OutlineLimits::default().entries(3).time(std::time::Duration::from_secs(60));
/// let outline = root.outline(&grants, false, &limits);
/// assert_eq!(outline.files, ["a.txt"]);
/// assert_eq!(outline.open, ["many"], "there may be more below it");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutlineLimits {
    /// Names in all. Default 2,000; about 5 µs each.
    pub entries: usize,
    /// Bytes of all paths. Default 64 KiB.
    pub bytes: usize,
    /// Levels of directories. Default 12.
    pub depth: usize,
    /// Time until the rest counts as open. Default 50 ms.
    pub time: Duration,
}

crate::setters::setters! { OutlineLimits {
    entries: usize,
    bytes: usize,
    depth: usize,
    time: Duration,
} }

impl Default for OutlineLimits {
    fn default() -> Self {
        Self { entries: 2_000, bytes: 64 * 1024, depth: 12, time: Duration::from_millis(50) }
    }
}

/// Paths of a workspace, relative to it, upper levels first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outline {
    /// Files, and links, which may lead to a file.
    pub files: Vec<String>,
    /// Directories, and links, which may lead to a directory; `.` is the workspace.
    pub directories: Vec<String>,
    /// Directories that may hold more than is listed: too large, too deep, or behind a link.
    pub open: Vec<String>,
}

impl Root {
    /// The files and directories that may be read. With `writable`, those that may be changed.
    ///
    /// A directory beyond the limits stands in [`Outline::open`], and its content is not listed. So a large
    /// directory costs no more than a small one.
    ///
    /// ```
    /// # use toolgate_sandbox::{Grants, OutlineLimits, Root, ambient_authority};
    /// # let dir = tempfile::tempdir()?;
    /// # let root = Root::open(dir.path(), ambient_authority())?;
    /// let grants = Grants::read_write();
    /// for path in ["a.txt", "notes/b.txt", ".env"] {
    ///     let _ = root.write_file(&grants, path, "");
    /// }
    /// let outline = root.outline(&grants, false, &OutlineLimits::default());
    /// assert_eq!(outline.files, ["a.txt", "notes/b.txt"]);
    /// assert_eq!(outline.directories, [".", "notes"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn outline(&self, grants: &Grants, writable: bool, limits: &OutlineLimits) -> Outline {
        let scope = if writable { &grants.write } else { &grants.read };
        let mut walk = Walk {
            grants,
            writable,
            limits,
            entries: limits.entries,
            bytes: limits.bytes,
            until: Instant::now() + limits.time,
            queue: VecDeque::new(),
            outline: Outline::default(),
        };
        match scope {
            Scope::Nothing => {}
            Scope::Everything => walk.enter(Inside::default(), 0),
            Scope::Under(directories) => {
                for path in directories.paths() {
                    let mut inside = Inside::default();
                    path.split('/').for_each(|name| inside.push(name));
                    walk.granted(self, inside);
                }
            }
        }
        while let Some((inside, depth)) = walk.queue.pop_front() {
            walk.directory(self, &inside, depth);
        }
        walk.outline
    }
}

struct Walk<'a> {
    grants: &'a Grants,
    writable: bool,
    limits: &'a OutlineLimits,
    /// Names and bytes there is still room for.
    entries: usize,
    bytes: usize,
    until: Instant,
    /// Directories to look into, with their level.
    queue: VecDeque<(Inside, usize)>,
    outline: Outline,
}

impl Walk<'_> {
    /// The directory or file that a scope names.
    fn granted(&mut self, root: &Root, inside: Inside) {
        if !self.is_granted(&inside) {
            return;
        }
        let (above, name) = inside.as_str().rsplit_once('/').unwrap_or(("", inside.as_str()));
        let mut parent = Inside::default();
        above.split('/').filter(|name| !name.is_empty()).for_each(|name| parent.push(name));
        let found = open(root, &parent).and_then(|dir| dir.symlink_metadata(Path::new(name)).ok());
        match found {
            Some(found) if found.is_dir() => self.enter(inside, 0),
            Some(_) => self.outline.files.push(inside.spelled().to_owned()),
            // A file or a directory may be made there.
            None => {
                self.outline.files.push(inside.spelled().to_owned());
                self.outline.open.push(inside.spelled().to_owned());
            }
        }
    }

    fn enter(&mut self, inside: Inside, depth: usize) {
        self.outline.directories.push(inside.shown().to_owned());
        self.queue.push_back((inside, depth));
    }

    fn directory(&mut self, root: &Root, inside: &Inside, depth: usize) {
        let left_open = |walk: &mut Self| walk.outline.open.push(inside.shown().to_owned());
        if depth >= self.limits.depth || Instant::now() >= self.until {
            return left_open(self);
        }
        let Some(dir) = open(root, inside) else { return left_open(self) };
        let Ok((entries, true)) = walk::entries(&dir, self.entries) else { return left_open(self) };
        let named: Vec<(Inside, ItemKind)> = entries
            .iter()
            .map(|(name, kind)| (inside.join(name), *kind))
            .filter(|(path, kind)| *kind != ItemKind::Special && self.is_granted(path))
            .collect();
        let bytes = named.iter().map(|(path, _)| path.spelled().len()).sum::<usize>();
        let Some(left) = self.bytes.checked_sub(bytes) else { return left_open(self) };
        self.bytes = left;
        self.entries = self.entries.saturating_sub(named.len());
        for (path, kind) in named {
            match kind {
                ItemKind::File => self.outline.files.push(path.spelled().to_owned()),
                ItemKind::Link => {
                    for list in
                        [&mut self.outline.files, &mut self.outline.directories, &mut self.outline.open]
                    {
                        list.push(path.spelled().to_owned());
                    }
                }
                _ => self.enter(path, depth + 1),
            }
        }
    }

    fn is_granted(&self, path: &Inside) -> bool {
        self.grants.check_read(path).is_ok() && !(self.writable && self.grants.check_write(path).is_err())
    }
}

/// A directory, by its real names.
fn open(root: &Root, inside: &Inside) -> Option<Dir> {
    let mut dir = root.dir().try_clone().ok()?;
    for name in inside.spelled().split('/').filter(|name| !name.is_empty()) {
        let name = OsStr::new(name);
        let name = spelling::real(name).unwrap_or_else(|| name.to_owned());
        dir = dir.open_dir_nofollow(&name).ok()?;
    }
    Some(dir)
}
