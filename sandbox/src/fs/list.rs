//! `list_directory`: lists a directory by name.

use std::collections::BTreeMap;

use serde::Serialize;

use super::resolve::{self, Found, Resolved};
use super::walk::{self, ItemKind};
use super::{Root, guard, nearest, open};
use crate::error::{Error, Kind};
use crate::grants::Grants;
use crate::names::Inside;
use crate::output;
use crate::spelling::spelled;
use cap_fs_ext::DirExt as _;
use cap_std::fs::Dir;

/// File name extensions that are counted at most.
const MOST_ENDINGS: usize = 5;

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EntryKind {
    /// A directory.
    Directory,
    /// A regular file.
    File,
    /// A symbolic link. It is shown and not followed.
    Link,
    /// A pipe, a socket or a device.
    Special,
}

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Entry {
    /// Its path relative to the listed directory, with `/` between names. Bytes that are no text are escaped.
    pub path: String,
    /// Its kind.
    pub kind: EntryKind,
    /// The size of a regular file in bytes, if it is known.
    pub bytes: Option<u64>,
    /// The target of a link, if it is inside the workspace.
    pub target: Option<String>,
}

/// The entries of a directory.
///
/// ```
/// use toolgate_sandbox::{EntryKind, Grants, Root, ambient_authority};
/// let dir = tempfile::tempdir()?;
/// let root = Root::open(dir.path(), ambient_authority())?;
/// for path in ["a.txt", "notes/b.txt"] {
///     root.write_file(&Grants::read_write(), path, "four")?;
/// }
/// let listing = root.list_directory(&Grants::read_only(), ".", None)?;
/// let found: Vec<_> = listing.entries.iter().map(|entry| (entry.path.as_str(), entry.kind, entry.bytes)).collect();
/// assert_eq!(found, [("a.txt", EntryKind::File, Some(4)), ("notes", EntryKind::Directory, None)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Listing {
    /// The entries by name. The entries of a directory come right after it.
    pub entries: Vec<Entry>,
    /// Whether entries were cut off.
    pub truncated: bool,
}

impl Listing {
    /// The text for a model, a line for each entry. A directory ends in `/`, and a link shows its target.
    /// Names are escaped. A last line counts several entries, since small models cannot count them.
    pub fn content(&self) -> String {
        let mut text = String::new();
        for entry in &self.entries {
            text.push_str(&output::name(&entry.path));
            match (entry.kind, &entry.target) {
                (EntryKind::Directory, _) => text.push('/'),
                (EntryKind::Link, Some(target)) => {
                    text.push_str(" -> ");
                    text.push_str(&output::name(target));
                }
                (EntryKind::Link, None) => text.push_str(" -> (outside the workspace)"),
                (EntryKind::Special, _) => text.push_str(" (not a regular file)"),
                (EntryKind::File, _) => {}
            }
            text.push('\n');
        }
        if self.entries.is_empty() {
            text.push_str("(the directory is empty)");
        } else if self.truncated {
            text.push_str(&format!(
                "[{} entries shown, there are more; list a subdirectory]",
                self.entries.len()
            ));
        } else if self.entries.len() > 1 {
            text.push_str(&format!("[{}]", self.counts()));
        }
        text
    }

    /// The number of entries of each kind: `2 .md + 1 .txt = 3 files, 1 directory`.
    fn counts(&self) -> String {
        let kinds = [
            (EntryKind::File, "file", "files"),
            (EntryKind::Directory, "directory", "directories"),
            (EntryKind::Link, "link", "links"),
            (EntryKind::Special, "special file", "special files"),
        ];
        let count = |kind| self.entries.iter().filter(|entry| entry.kind == kind).count();
        let counted = kinds.into_iter().filter_map(|(kind, one, many)| {
            let endings = if kind == EntryKind::File { self.endings() } else { String::new() };
            match count(kind) {
                0 => None,
                1 => Some(format!("1 {one}")),
                n => Some(format!("{endings}{n} {many}")),
            }
        });
        counted.collect::<Vec<_>>().join(", ")
    }

    /// A sum of the files of each extension, the most frequent first, if there are a few different ones. It stands in front of the number
    /// of all files: a small model that is asked for those of one kind takes the number that comes first.
    fn endings(&self) -> String {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        let mut others = 0;
        for entry in self.entries.iter().filter(|entry| entry.kind == EntryKind::File) {
            let name = entry.path.rsplit('/').next().unwrap_or(&entry.path);
            match name.rsplit_once('.') {
                Some((_, ending)) => *counts.entry(ending).or_default() += 1,
                None => others += 1,
            }
        }
        if !(2..=MOST_ENDINGS).contains(&counts.len()) {
            return String::new();
        }
        let mut counts: Vec<(&str, usize)> = counts.into_iter().collect();
        counts.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
        let told = counts.iter().map(|(ending, n)| format!("{n} .{}", output::name(ending)));
        let others = (others > 0).then(|| format!("{others} other"));
        format!("{} = ", told.chain(others).collect::<Vec<_>>().join(" + "))
    }
}

impl Root {
    /// Lists the directory at `path`, `depth` levels deep. `None` and 0 mean one level. The empty path is the
    /// workspace.
    ///
    /// # Errors
    /// [`Kind::Denied`] outside the workspace or the grants. [`Kind::NotFound`] with similar names.
    /// [`Kind::NotADirectory`] for a file.
    ///
    /// ```
    /// # use toolgate_sandbox::{Grants, Root, ambient_authority};
    /// # let dir = tempfile::tempdir()?;
    /// # let root = Root::open(dir.path(), ambient_authority())?;
    /// root.write_file(&Grants::read_write(), "src/main.rs", "fn main() {}\n")?;
    /// let grants = Grants::read_only();
    /// assert_eq!(root.list_directory(&grants, ".", None)?.content(), "src/\n");
    /// let deeper = root.list_directory(&grants, ".", Some(2))?;
    /// assert_eq!(deeper.content(), "src/\nsrc/main.rs\n[1 file, 1 directory]");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn list_directory(&self, grants: &Grants, path: &str, depth: Option<u64>) -> Result<Listing, Error> {
        let path = if path.is_empty() { "." } else { path };
        let resolved = resolve::resolve(self, path)?;
        guard::check_read(grants, &resolved)?;
        let inside = resolved.inside();
        let dir = directory(self, grants, &resolved, path)?;
        let depth = depth.map_or(1, |depth| usize::try_from(depth).unwrap_or(usize::MAX)).max(1);
        let mut list = List {
            root: self,
            grants,
            left: grants.limits.max_walk_entries,
            max_depth: depth.min(grants.limits.max_depth),
            listing: Listing { entries: Vec::new(), truncated: false },
        };
        list.directory(&dir, &inside, &Inside::default(), 1)
            .map_err(|source| Error::io(path, "list the directory", source))?;
        Ok(list.listing)
    }
}

/// The directory that `resolved` leads to, or the error.
pub(super) fn directory(root: &Root, grants: &Grants, resolved: &Resolved, path: &str) -> Result<Dir, Error> {
    match &resolved.found {
        Found::Directory => resolved.open_directory(path),
        Found::File(_) => Err(Error::new(Kind::NotADirectory, "this is a file, not a directory")
            .at(path)
            .hint(format!("use read_file on \"{}\" to see what is in it", output::name(path)))),
        Found::Special(what) => Err(open::not_a_file(path, what)),
        Found::Missing { .. } => Err(nearest::not_found(root, grants, resolved, path)),
    }
}

struct List<'a> {
    root: &'a Root,
    grants: &'a Grants,
    left: usize,
    max_depth: usize,
    listing: Listing,
}

impl List<'_> {
    fn directory(&mut self, dir: &Dir, inside: &Inside, shown: &Inside, depth: usize) -> std::io::Result<()> {
        let (entries, complete) = walk::entries(dir, self.left)?;
        self.left = self.left.saturating_sub(entries.len());
        self.listing.truncated |= !complete;
        for (name, kind) in entries {
            if self.listing.entries.len() >= self.grants.limits.max_entries {
                self.listing.truncated = true;
                return Ok(());
            }
            let below = inside.join(&name);
            let path = shown.join(&name);
            let (kind, bytes, target) = match kind {
                ItemKind::Directory => (EntryKind::Directory, None, None),
                ItemKind::File => (EntryKind::File, dir.symlink_metadata(&name).ok().map(|m| m.len()), None),
                ItemKind::Link => (EntryKind::Link, None, self.target(dir, &name, inside)),
                ItemKind::Special => (EntryKind::Special, None, None),
            };
            self.listing.entries.push(Entry { path: path.spelled().to_owned(), kind, bytes, target });
            let goes_down = kind == EntryKind::Directory
                && depth < self.max_depth
                && !walk::is_vcs(&name)
                && self.grants.check_read(&below).is_ok();
            if goes_down && let Ok(opened) = dir.open_dir_nofollow(&name) {
                // A directory that cannot be listed is shown by its name alone.
                let _ = self.directory(&opened, &below, &path, depth + 1);
            }
        }
        Ok(())
    }

    /// The target of a link. A target outside the workspace is not shown.
    fn target(&self, dir: &Dir, name: &std::ffi::OsStr, inside: &Inside) -> Option<String> {
        let target = dir.read_link_contents(name).ok()?;
        let relative = if target.has_root() { self.root.strip_own_path(&target)? } else { &target };
        let mut level = match (target.has_root(), inside.as_str()) {
            (true, _) | (false, "") => 0,
            (false, inside) => inside.split('/').count(),
        };
        for component in relative.components() {
            match component {
                std::path::Component::ParentDir => level = level.checked_sub(1)?,
                std::path::Component::Normal(_) => level += 1,
                _ => {}
            }
        }
        Some(if relative.as_os_str().is_empty() { ".".to_owned() } else { spelled(relative.as_os_str()) })
    }
}
