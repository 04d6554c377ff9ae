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
use super::lent::{Lent, TO_CHANGE, TO_LOOK, missing, mode, set_mode};
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

/// What counting a workspace came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    All(Usage),
    /// There is a directory that could only be counted while nobody works in it.
    Closed,
    /// More than can be counted.
    TooMuch,
}

/// How much a workspace holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) bytes: u64,
    pub(crate) files: u64,
}

/// What to do with a directory of this user's that its bits close to him.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Closed {
    /// It is to be kept closed to commands as a whole, since one could open it.
    Mark,
    /// Look through it all the same.
    Open,
    /// Leave it, and say so.
    Leave,
}

impl Root {
    /// Marks what `grants` keep closed or protected.
    pub(crate) fn marks(&self, grants: &Grants) -> Result<Marks, Error> {
        self.look_through(grants, Closed::Mark)
    }

    fn look_through(&self, grants: &Grants, closed: Closed) -> Result<Marks, Error> {
        let mut walk = Walk { grants, closed, left: MAX_ENTRIES, marks: Marks::default() };
        let _lent = (closed == Closed::Open).then(|| Lent::to(self.dir(), TO_LOOK));
        walk.directory(self.dir(), &Place::default(), false, 0)?;
        Ok(walk.marks)
    }

    /// How much the workspace holds; nothing if it is too much to be counted, or if `still` does not say that nobody works
    /// in it and a directory is closed: nobody shall see it open for a moment.
    pub(crate) fn usage(&self, still: bool) -> Counted {
        let closed = if still { Closed::Open } else { Closed::Leave };
        let mut count = Count::new(closed);
        match count.directory(self.dir(), 0) {
            false => Counted::TooMuch,
            true if count.skipped => Counted::Closed,
            true => Counted::All(count.usage),
        }
    }

    /// The permission bits of the workspace's own directory.
    pub(crate) fn mode(&self) -> Option<u32> {
        mode(self.dir())
    }

    /// Gives the workspace's own directory these permission bits back, without which nobody could work in it again.
    pub(crate) fn restore_mode(&self, before: Option<u32>) {
        if let Some(before) = before
            && self.mode() != Some(before)
        {
            // Whoever may not do it does not own the directory, so that the command could not have changed it either.
            let _ = set_mode(self.dir(), before);
        }
    }

    /// Renames every protected file that was not there before and puts protected links back; says what was done.
    ///
    /// A command cannot change what was protected when it started, since that is mounted read-only. It can still make
    /// a new file of such a name, which would be obeyed later by whoever works in the directory.
    pub(crate) fn undo_protected(&self, grants: &Grants, before: &Marks) -> Result<Vec<String>, Error> {
        let known: BTreeSet<Identity> = before.protected.iter().map(|mark| mark.identity).collect();
        let after = self.look_through(grants, Closed::Open)?;
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
                && let (Some((dir, _lent)), Some(name)) =
                    (self.parent(&mark.path, TO_CHANGE), mark.path.file_name())
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
        let (Some((dir, _lent)), Some(name)) = (self.parent(path, TO_CHANGE), path.file_name()) else {
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
        let _lent = Lent::to(dir, TO_LOOK);
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

    /// The directory that holds the last name of `path`, reached without following a link, with the permission
    /// bits it takes to get there.
    fn parent(&self, path: &Path, bits: u32) -> Option<(Dir, Vec<Lent>)> {
        let mut dir = self.dir().try_clone().ok()?;
        let mut lent = vec![Lent::to(&dir, bits)];
        for name in path.parent()? {
            dir = dir.open_dir_nofollow(name).ok()?;
            lent.push(Lent::to(&dir, bits));
        }
        Some((dir, lent))
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
        let (dir, _lent) = self.parent(&path, TO_LOOK)?;
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
    closed: Closed,
    left: usize,
    marks: Marks,
}

impl Walk<'_> {
    /// Below a protected directory (`within`) only secrets are of interest.
    fn directory(&mut self, dir: &Dir, place: &Place, within: bool, depth: usize) -> Result<(), Error> {
        let unreadable = |why| Error::io(place.inside.shown(), "look through the directory", why);
        // What others own and this user cannot list, a command of the same user cannot either.
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
                self.only_count(dir, name, *kind);
                continue;
            }
            let protected = !within && self.grants.protect.matching(&place.inside).is_some();
            if protected {
                self.marks.protected.push(mark());
            }
            if *kind == ItemKind::Directory
                && let Ok(below) = dir.open_dir_nofollow(name)
            {
                if self.closed == Closed::Mark && missing(&below, TO_LOOK).is_some() {
                    self.marks.secret.push(mark());
                    self.only_count(dir, name, *kind);
                    continue;
                }
                let _lent = Lent::to(&below, TO_LOOK);
                let within = within || protected;
                // Git names what is in there by digests: tens of thousands of them, and no secret's name.
                if within && name == "objects" {
                    self.only_count(dir, name, *kind);
                    continue;
                }
                self.directory(&below, &place, within, depth + 1)?;
            }
        }
        Ok(())
    }

    /// Adds what is below a directory in which nothing is marked, so that it does not seem to have grown later.
    fn only_count(&mut self, dir: &Dir, name: &OsStr, kind: ItemKind) {
        if kind == ItemKind::Directory
            && let Ok(below) = dir.open_dir_nofollow(name)
        {
            let mut count = Count::new(Closed::Open);
            // What is too much to be counted is found to be so while the command runs.
            count.directory(&below, 0);
            self.marks.usage.bytes += count.usage.bytes;
            self.marks.usage.files += count.usage.files;
        }
    }
}

struct Count {
    usage: Usage,
    left: usize,
    closed: Closed,
    skipped: bool,
}

impl Count {
    fn new(closed: Closed) -> Self {
        Self { usage: Usage::default(), left: 4 * MAX_ENTRIES, closed, skipped: false }
    }

    /// Whether all of `dir` could be counted, but for what was skipped.
    fn directory(&mut self, dir: &Dir, depth: usize) -> bool {
        if self.closed == Closed::Leave && missing(dir, TO_LOOK).is_some() {
            self.skipped = true;
            return true;
        }
        let _lent = Lent::to(dir, TO_LOOK);
        let Ok((found, complete)) = entries(dir, self.left) else { return true };
        self.left = self.left.saturating_sub(found.len());
        for (name, kind) in &found {
            self.usage.files += 1;
            self.usage.bytes += dir.symlink_metadata(name).map_or(0, |metadata| blocks(&metadata));
            if *kind == ItemKind::Directory
                && let Ok(below) = dir.open_dir_nofollow(name)
                && (depth >= MAX_DEPTH || !self.directory(&below, depth + 1))
            {
                return false;
            }
        }
        complete
    }
}

/// What a file takes on the disk.
fn blocks(metadata: &Metadata) -> u64 {
    metadata.blocks().saturating_mul(512)
}
