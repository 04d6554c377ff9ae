//! What a command's mounts must treat apart: every file of the workspace that is kept closed or protected, by name
//! and by identity. Also how much the workspace holds, and the undoing of protected names a command has made.
//!
//! Invariant: the walk goes by handles, follows no link, and looks at everything: one that would exceed its bounds
//! is an error, never a shorter list.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use cap_fs_ext::DirExt as _;
use cap_std::fs::{Dir, Metadata, MetadataExt as _};

use super::Root;
use super::walk::{ItemKind, entries};
use crate::error::{Error, Kind};
use crate::grants::Grants;
use crate::names::{Inside, fold, lossy};

/// Entries of a workspace that commands may run in. About 2 µs each, before and after a command that may write.
const MAX_ENTRIES: usize = 200_000;
/// Levels of directories; each holds an open handle.
const MAX_DEPTH: usize = 100;
/// What a bare repository is known by, to git.
const BARE_REPOSITORY: [&str; 3] = ["head", "objects", "refs"];

/// A file's identity, whatever it is called: device and inode.
pub(crate) type Identity = (u64, u64);

/// A marked file or directory; what lies below a directory is not marked again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Below the workspace, by its real names.
    pub(crate) path: PathBuf,
    pub(crate) what: Marked,
    pub(crate) identity: Identity,
}

/// What is marked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Marked {
    Directory,
    File,
    /// A link, with where it leads.
    Link(PathBuf),
}

/// The marks of a workspace, and its size.
#[derive(Clone, Debug, Default)]
pub(crate) struct Marks {
    /// Closed to reading.
    pub(crate) secret: Vec<Mark>,
    /// Not to be changed.
    pub(crate) protected: Vec<Mark>,
    /// Directories that git takes for bare repositories.
    pub(crate) bare: BTreeSet<Identity>,
    pub(crate) usage: Usage,
}

/// How much a workspace holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) bytes: u64,
    pub(crate) files: u64,
}

impl Root {
    /// Marks what `grants` keep closed or protected.
    pub(crate) fn marks(&self, grants: &Grants) -> Result<Marks, Error> {
        let mut walk = Walk { grants, left: MAX_ENTRIES, marks: Marks::default() };
        walk.directory(self.dir(), &Place::default(), false, 0)?;
        Ok(walk.marks)
    }

    /// How much the workspace holds, or nothing if it is too much to be counted.
    pub(crate) fn usage(&self) -> Option<Usage> {
        let mut usage = Usage::default();
        let mut left = 4 * MAX_ENTRIES;
        count(self.dir(), &mut usage, &mut left, 0).then_some(usage)
    }

    /// The permission bits of the workspace's own directory.
    pub(crate) fn mode(&self) -> Option<u32> {
        self.dir().dir_metadata().ok().map(|metadata| metadata.mode() & 0o7777)
    }

    /// Gives the workspace's own directory these permission bits back, without which nobody could work in it again.
    pub(crate) fn restore_mode(&self, before: Option<u32>) {
        use std::os::fd::AsRawFd as _;
        if let Some(before) = before
            && self.mode() != Some(before)
        {
            // By way of the handle, since a directory that may not be entered has no path any more. Whoever may not do
            // it does not own the directory, so that the command could not have changed it either.
            let own = format!("/proc/self/fd/{}", self.dir().as_raw_fd());
            let _ = rustix::fs::chmod(own, rustix::fs::Mode::from_raw_mode(before));
        }
    }

    /// Renames every protected file that was not there before and puts protected links back; says what was done.
    ///
    /// A command cannot change what was protected when it started, since that is mounted read-only. It can still make
    /// a new file of such a name, which would be obeyed later by whoever works in the directory.
    pub(crate) fn undo_protected(&self, grants: &Grants, before: &Marks) -> Result<Vec<String>, Error> {
        let known: BTreeSet<Identity> = before.protected.iter().map(|mark| mark.identity).collect();
        let after = self.marks(grants)?;
        let mut done = Vec::new();
        for mark in &after.protected {
            if !known.contains(&mark.identity) {
                self.set_aside(&mark.path)?;
                done.push(lossy(mark.path.as_os_str()));
            }
        }
        if grants.protect.sources().any(|source| source == "@vcs") {
            self.set_heads_aside(self.dir(), Path::new(""), before, &mut done, 0)?;
        }
        for mark in &before.protected {
            if let Marked::Link(target) = &mark.what
                && let (Some(dir), Some(name)) = (self.parent(&mark.path), mark.path.file_name())
                && dir.symlink_metadata(name).is_err()
            {
                dir.symlink_contents(target, name)
                    .map_err(|why| Error::io(&lossy(mark.path.as_os_str()), "restore the link", why))?;
                done.push(lossy(mark.path.as_os_str()));
            }
        }
        Ok(done)
    }

    /// Renames a file to a name nobody obeys.
    fn set_aside(&self, path: &Path) -> Result<(), Error> {
        let shown = lossy(path.as_os_str());
        let (Some(dir), Some(name)) = (self.parent(path), path.file_name()) else {
            return Err(Error::new(Kind::Failed, "a protected name cannot be taken away").at(&shown));
        };
        let mut result = Ok(());
        for number in 0..1_000 {
            let mut aside = name.to_owned();
            aside.push(format!(".blocked-{number}"));
            if dir.symlink_metadata(&aside).is_ok() {
                continue;
            }
            result = dir.rename(name, &dir, &aside);
            break;
        }
        result.map_err(|why| Error::io(&shown, "take a protected name away from the file", why))
    }

    /// Keeps directories from having become bare repositories, whose configuration git would obey.
    fn set_heads_aside(
        &self,
        dir: &Dir,
        path: &Path,
        before: &Marks,
        done: &mut Vec<String>,
        depth: usize,
    ) -> Result<(), Error> {
        let Ok((found, _)) = entries(dir, MAX_ENTRIES) else { return Ok(()) };
        let old = dir.dir_metadata().is_ok_and(|metadata| before.bare.contains(&identity(&metadata)));
        if !old && is_bare(&found) {
            for (name, _) in found.iter().filter(|(name, _)| fold(&lossy(name)) == "head") {
                self.set_aside(&path.join(name))?;
                done.push(lossy(path.join(name).as_os_str()));
            }
        }
        for (name, kind) in &found {
            let below = (*kind == ItemKind::Directory && depth < MAX_DEPTH && fold(&lossy(name)) != ".git")
                .then(|| dir.open_dir_nofollow(name).ok())
                .flatten();
            if let Some(below) = below {
                self.set_heads_aside(&below, &path.join(name), before, done, depth + 1)?;
            }
        }
        Ok(())
    }

    /// The directory that holds the last name of `path`, reached without following a link.
    fn parent(&self, path: &Path) -> Option<Dir> {
        let mut dir = self.dir().try_clone().ok()?;
        for name in path.parent()? {
            dir = dir.open_dir_nofollow(name).ok()?;
        }
        Some(dir)
    }

    /// Free bytes and free files of the file system the workspace is on.
    pub(crate) fn free_space(&self) -> Option<(u64, u64)> {
        let state = rustix::fs::fstatvfs(self.dir()).ok()?;
        Some((state.f_bfree.saturating_mul(state.f_frsize), state.f_ffree))
    }

    /// Where the workspace is now.
    pub(crate) fn present_path(&self) -> Option<PathBuf> {
        use std::os::fd::AsFd as _;
        crate::command::path_of(self.dir().as_fd())
    }

    /// The workspace's own identity.
    pub(crate) fn identity(&self) -> Result<Identity, Error> {
        let metadata = self.dir().dir_metadata();
        metadata.map(|metadata| identity(&metadata)).map_err(|why| Error::io(".", "look at it", why))
    }

    /// The entries of the directory `path` that are no links, and whether each is a directory; none where there is no such
    /// directory, or a link on the way to it.
    pub(crate) fn names(&self, path: &Path) -> Vec<(OsString, bool)> {
        let dir = path.iter().try_fold(self.dir().try_clone().ok(), |dir, name| {
            dir.map(|dir| dir.open_dir_nofollow(name).ok())
        });
        let Some((found, _)) = dir.flatten().and_then(|dir| entries(&dir, MAX_ENTRIES).ok()) else {
            return Vec::new();
        };
        let real = found.into_iter().filter(|(_, kind)| *kind != ItemKind::Link);
        real.map(|(name, kind)| (name, kind == ItemKind::Directory)).collect()
    }

    /// Whether `path` is a directory or file below the workspace without a link on the way; its real form.
    pub(crate) fn real(&self, path: &str) -> Option<(PathBuf, bool)> {
        let path: PathBuf = Path::new(path).components().collect();
        let dir = self.parent(&path)?;
        let metadata = dir.symlink_metadata(path.file_name()?).ok()?;
        (!metadata.is_symlink()).then(|| (path, metadata.is_dir()))
    }
}

fn identity(metadata: &Metadata) -> Identity {
    (metadata.dev(), metadata.ino())
}

fn is_bare(entries: &[(OsString, ItemKind)]) -> bool {
    let has = |part: &str| entries.iter().any(|(name, _)| fold(&lossy(name)) == part);
    BARE_REPOSITORY.iter().all(|part| has(part))
}

/// Where a walk is: for the rules and for the mounts.
#[derive(Clone, Default)]
struct Place {
    inside: Inside,
    path: PathBuf,
}

impl Place {
    fn join(&self, name: &OsStr) -> Self {
        Self { inside: self.inside.join(&lossy(name)), path: self.path.join(name) }
    }
}

struct Walk<'a> {
    grants: &'a Grants,
    left: usize,
    marks: Marks,
}

impl Walk<'_> {
    /// Below a protected directory (`within`) only secrets are of interest.
    fn directory(&mut self, dir: &Dir, place: &Place, within: bool, depth: usize) -> Result<(), Error> {
        let unreadable = |why| Error::io(place.inside.shown(), "look through the directory", why);
        // What this user cannot list, a command of the same user cannot either.
        let Ok((found, complete)) = entries(dir, self.left) else { return Ok(()) };
        self.left = self.left.saturating_sub(found.len());
        if !complete || depth > MAX_DEPTH {
            return Err(Error::new(
                Kind::Limit,
                format!(
                    "the workspace is too large to run commands in (over {MAX_ENTRIES} files or {MAX_DEPTH} levels)"
                ),
            )
            .hint("use a smaller directory as the workspace; the file tools still work"));
        }
        if !within && is_bare(&found) {
            self.marks.bare.insert(identity(&dir.dir_metadata().map_err(unreadable)?));
        }
        for (name, kind) in &found {
            let place = place.join(name);
            // A file that vanishes meanwhile needs no mark.
            let Ok(metadata) = dir.symlink_metadata(name) else { continue };
            self.marks.usage.files += 1;
            self.marks.usage.bytes += blocks(&metadata);
            let mark = || Mark {
                path: place.path.clone(),
                what: match kind {
                    ItemKind::Directory => Marked::Directory,
                    ItemKind::Link => Marked::Link(dir.read_link_contents(name).unwrap_or_default()),
                    _ => Marked::File,
                },
                identity: identity(&metadata),
            };
            // A link tells where it leads and nothing of what is there.
            if *kind != ItemKind::Link && self.grants.deny_read.matching(&place.inside).is_some() {
                self.marks.secret.push(mark());
                continue;
            }
            let protected = !within && self.grants.protect.matching(&place.inside).is_some();
            if protected {
                self.marks.protected.push(mark());
            }
            if *kind == ItemKind::Directory
                && let Ok(below) = dir.open_dir_nofollow(name)
            {
                let within = within || protected;
                // Git names what is in there by digests: tens of thousands of them, and no secret's name.
                if within && name == "objects" {
                    continue;
                }
                self.directory(&below, &place, within, depth + 1)?;
            }
        }
        Ok(())
    }
}

fn count(dir: &Dir, usage: &mut Usage, left: &mut usize, depth: usize) -> bool {
    let Ok((found, complete)) = entries(dir, *left) else { return true };
    *left = left.saturating_sub(found.len());
    for (name, kind) in &found {
        usage.files += 1;
        usage.bytes += dir.symlink_metadata(name).map_or(0, |metadata| blocks(&metadata));
        if *kind == ItemKind::Directory
            && let Ok(below) = dir.open_dir_nofollow(name)
            && (depth >= MAX_DEPTH || !count(&below, usage, left, depth + 1))
        {
            return false;
        }
    }
    complete
}

/// What a file takes on the disk.
fn blocks(metadata: &Metadata) -> u64 {
    metadata.blocks().saturating_mul(512)
}
