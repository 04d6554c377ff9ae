//! Lists the closed and protected files of a workspace, by name and by identity, for the mounts of a command.
//!
//! Invariant: the walk looks at everything. A walk beyond its bounds, or past a directory that it cannot
//! read, is an error and never a shorter list.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use cap_fs_ext::DirExt as _;
use rustix::fs::{AtFlags, FileType, Stat, readlinkat, statat};

use super::Root;
use super::descend::{Closed, Entry, Go, Here, Identity, Unseen, Visitor, descend, identity, look};
use super::lent::{Lent, TO_LOOK, mode, set_mode};
use super::resolve::{self, Found};
use super::usage::{Sum, Usage};
use super::walk::{ItemKind, entries};
use crate::error::{Error, Kind};
use crate::grants::Grants;
use crate::names::{Inside, Trail, lossy};
use crate::protect::Protected;

/// Entries of a workspace that commands may run in. About 2 µs each, before a command.
const MAX_ENTRIES: usize = 200_000;
/// Longest path that can be mounted, in bytes: what the kernel takes, less the place of the workspace.
const MAX_PATH_BYTES: usize = 3_800;

/// A marked file or directory; what lies below a directory is not marked again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Below the workspace, by its real names; empty for the workspace itself.
    pub(crate) path: PathBuf,
    pub(crate) what: Marked,
    pub(crate) identity: Identity,
}

/// The kind of a marked file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
    /// Paths that protected links lead to, be there something or not.
    pub(crate) led_to: BTreeSet<Inside>,
    pub(crate) usage: Usage,
}

impl Root {
    /// Marks what `grants` keep closed or protected.
    pub(crate) fn marks(&self, grants: &Grants) -> Result<Marks, Error> {
        let mut walk = Walk {
            grants,
            protected: grants.protected(),
            left: MAX_ENTRIES,
            trail: Trail::default(),
            depths: vec![Depth::default()],
            sum: Sum::default(),
            links: Vec::new(),
            marks: Marks::default(),
            failed: None,
        };
        let whole = descend(self.dir(), Closed::LeaveAsOwner, &mut walk);
        if let Some(failed) = walk.failed {
            return Err(failed);
        }
        if whole.is_break() {
            return Err(Error::new(
                Kind::Limit,
                format!("the workspace is too large to run commands in (over {MAX_ENTRIES} files)"),
            )
            .hint("use a smaller directory as the workspace; the file tools still work"));
        }
        let Walk { links, sum, mut marks, .. } = walk;
        marks.usage = sum.usage;
        for (path, closed) in &links {
            self.follow(path, *closed, &mut marks);
        }
        let all = |mark: &&Mark| mark.path.as_os_str().is_empty();
        let whole = marks.secret.iter().chain(marks.protected.iter().filter(|_| grants.can_write()));
        if whole.into_iter().any(|mark| all(&mark)) {
            return Err(Error::new(
                Kind::Denied,
                "the workspace as a whole is closed or protected: it is a repository's own data, or a link of such a name \
                 leads to it",
            )
            .hint("use another directory as the workspace"));
        }
        let long = |mark: &&Mark| mark.path.as_os_str().len() > MAX_PATH_BYTES;
        match marks.secret.iter().chain(&marks.protected).find(long) {
            Some(mark) => {
                Err(Error::new(Kind::Limit, "this lies too deep to be guarded while a command runs")
                    .at(&lossy(mark.path.as_os_str()))
                    .hint("a person has to move it up or away; the file tools still work"))
            }
            None => Ok(marks),
        }
    }

    /// Marks what a link leads to that is `closed` itself, or protected: it is what is read or written by the link's name.
    /// The links on the way are protected with it.
    fn follow(&self, path: &Path, closed: bool, marks: &mut Marks) {
        let Ok(resolved) = resolve::lead(self, path) else { return };
        for link in resolved.links() {
            let path = PathBuf::from(link.as_str());
            if let Some(mark) = self.mark_at(path).filter(|_| !closed) {
                marks.led_to.insert(link.clone());
                push_new(&mut marks.protected, mark);
            }
        }
        if !closed {
            marks.led_to.insert(resolved.inside());
        }
        if !matches!(resolved.found, Found::Missing { .. })
            && let Some(mark) = self.mark_at(resolved.path())
        {
            push_new(if closed { &mut marks.secret } else { &mut marks.protected }, mark);
        }
    }

    fn mark_at(&self, path: PathBuf) -> Option<Mark> {
        let Some(name) = path.file_name().map(OsStr::to_owned) else {
            let identity = self.identity().ok()?;
            return Some(Mark { path, what: Marked::Directory, identity });
        };
        let (dir, _lent) = self.parent(&path, TO_LOOK)?;
        let stat = statat(&dir, &name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let what = marked(&stat, || readlinkat(&dir, &name, Vec::new()).ok());
        Some(Mark { path, what, identity: identity(&stat) })
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

    /// The directory that holds the last name of `path`, reached without following a link, with the permission
    /// bits it takes to get there.
    pub(super) fn parent(&self, path: &Path, bits: u32) -> Option<(cap_std::fs::Dir, Vec<Lent>)> {
        let mut dir = self.dir().try_clone().ok()?;
        let mut lent = vec![Lent::to(&dir, bits)];
        for name in path.parent()? {
            dir = dir.open_dir_nofollow(name).ok()?;
            lent.push(Lent::to(&dir, bits));
        }
        Some((dir, lent))
    }

    /// The present path of the workspace.
    pub(crate) fn present_path(&self) -> Option<PathBuf> {
        crate::command::path_of(self.dir().as_fd())
    }

    /// Its handle once more.
    pub(crate) fn handle(&self) -> std::io::Result<std::os::fd::OwnedFd> {
        self.dir().as_fd().try_clone_to_owned()
    }

    /// The workspace's own identity.
    pub(crate) fn identity(&self) -> Result<Identity, Error> {
        let stat = rustix::fs::fstat(self.dir());
        stat.map(|stat| identity(&stat)).map_err(|why| Error::io(".", "look at it", why.into()))
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

    /// The directory or file `path` below the workspace, if there is no link on the way, in its real form.
    pub(crate) fn real(&self, path: &str) -> Option<Mark> {
        let mark = self.mark_at(Path::new(path).components().collect())?;
        (!matches!(mark.what, Marked::Link(_))).then_some(mark)
    }
}

/// A mark, unless the same place is marked already.
fn push_new(marks: &mut Vec<Mark>, mark: Mark) {
    if !marks.iter().any(|known| known.path == mark.path) {
        marks.push(mark);
    }
}

/// The kind of a file; `target` returns the target of a link.
pub(super) fn marked(stat: &Stat, target: impl FnOnce() -> Option<std::ffi::CString>) -> Marked {
    use std::os::unix::ffi::OsStringExt as _;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => Marked::Directory,
        FileType::Symlink => {
            let target = target().map(std::ffi::CString::into_bytes).unwrap_or_default();
            Marked::Link(OsString::from_vec(target).into())
        }
        _ => Marked::File,
    }
}

/// The rules in a directory.
#[derive(Clone, Copy, Default)]
struct Depth {
    /// It is protected, or below what is: only secrets are of interest.
    within: bool,
    /// Nothing in it is of interest but its size.
    counted: bool,
}

struct Walk<'a> {
    grants: &'a Grants,
    protected: Protected,
    left: usize,
    trail: Trail,
    /// The rules in the directories on the way, the top one first.
    depths: Vec<Depth>,
    sum: Sum,
    /// Links that are closed, or protected, and which of both.
    links: Vec<(PathBuf, bool)>,
    marks: Marks,
    failed: Option<Error>,
}

impl Walk<'_> {
    fn depth(&self) -> Depth {
        self.depths.last().copied().unwrap_or_default()
    }

    /// Adds what is below a directory in which nothing is marked, so that it does not seem to have grown later.
    fn count_below(&mut self, here: &Here<'_>, name: &OsStr) {
        struct Below<'s>(&'s mut Sum);
        impl Visitor for Below<'_> {
            fn entry(&mut self, here: &Here<'_>, entry: &Entry) -> Go {
                here.stat(&entry.name).iter().for_each(|stat| self.0.add(stat));
                Go::In
            }

            // What cannot be counted before cannot be counted later either.
            fn unseen(&mut self, _: &Here<'_>, _: &OsStr, _: Unseen) {}
        }
        let place = here.dir().and_then(|dir| look(dir, name).ok());
        if let Some(place) = place {
            let _ = descend(place, Closed::Open, &mut Below(&mut self.sum));
        }
    }
}

impl Visitor for Walk<'_> {
    fn enter(&mut self, here: &Here<'_>) {
        let Some(depth) = self.depths.last_mut() else { return };
        let looked_at = !depth.within && !depth.counted;
        if looked_at && self.protected.is_repository(None, |part| here.has(part)) {
            let (path, what, identity) = (here.path(), Marked::Directory, here.identity());
            self.marks.protected.push(Mark { path, what, identity });
            depth.within = true;
        }
    }

    fn entry(&mut self, here: &Here<'_>, entry: &Entry) -> Go {
        let depth = self.depth();
        let Some(left) = self.left.checked_sub(usize::from(!depth.counted)) else { return Go::Stop };
        self.left = left;
        // A file that vanishes meanwhile needs no mark.
        let Some(stat) = here.stat(&entry.name) else { return Go::Over };
        self.sum.add(&stat);
        let is_directory = entry.kind == ItemKind::Directory;
        if depth.counted {
            if is_directory {
                self.depths.push(depth);
            }
            return Go::In;
        }
        self.trail.push(&lossy(&entry.name));
        let is_link = entry.kind == ItemKind::Link;
        let closed = self.grants.deny_read.at(&self.trail).is_some();
        let protected = !depth.within && self.protected.at(&self.trail).is_some();
        let path = || here.path().join(&entry.name);
        let mark = || {
            let target = || readlinkat(here.dir()?, &entry.name, Vec::new()).ok();
            Mark { path: path(), what: marked(&stat, target), identity: identity(&stat) }
        };
        // Also of a link in what is protected: `.git/hooks` may lead to a directory of another name.
        if is_link && (closed || protected || depth.within) {
            self.links.push((path(), closed));
        }
        if protected {
            self.marks.protected.push(mark());
        }
        // A link itself tells where it leads and nothing of what is there.
        if closed && !is_link {
            self.marks.secret.push(mark());
        }
        if !is_directory {
            self.trail.pop();
            return Go::Over;
        }
        let within = depth.within || protected;
        // Git names what is in there by digests: tens of thousands of them, and no secret's name.
        let counted = closed || within && entry.name == "objects";
        self.depths.push(Depth { within, counted });
        Go::In
    }

    fn unseen(&mut self, here: &Here<'_>, name: &OsStr, why: Unseen) {
        match why {
            // What others own and this user cannot list, a command of the same user cannot either.
            Unseen::Foreign => {}
            Unseen::Closed => {
                self.count_below(here, name);
                // A command could open it: it is kept closed as a whole.
                if let Some(stat) = here.stat(name).filter(|_| !self.depth().counted) {
                    let (path, what) = (here.path().join(name), Marked::Directory);
                    self.marks.secret.push(Mark { path, what, identity: identity(&stat) });
                }
            }
            Unseen::Failed(why) => {
                let path = lossy(here.path().join(name).as_os_str());
                self.failed.get_or_insert_with(|| Error::io(&path, "look through the directory", why));
            }
        }
    }

    fn left(&mut self, _: &Here<'_>, _: &OsStr) {
        self.depths.pop();
        if !self.depth().counted {
            self.trail.pop();
        }
    }
}
