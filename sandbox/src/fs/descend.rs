//! Walks over everything below a directory, for callers that must see everything: closed and protected paths
//! before a command, its disk usage, and its remains.
//!
//! Invariant: the walk goes down by single names below open handles and never through a link. Depth and
//! entries have no bound. The walk continues after errors, and reports each directory that it could not read.

use std::ffi::{OsStr, OsString};
use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, Stat, fstat, openat, statat};
use rustix::io::Errno;

use super::lent::{Lent, TO_LOOK, missing, mode};
use super::walk::ItemKind;

/// A file's identity, whatever it is called: device and inode.
pub(crate) type Identity = (u64, u64);

/// Directories on the way down that are held open. The walk opens those above them again on the way up, by
/// the link from each directory to its parent. They have to be the same then.
const HELD: usize = 64;
/// Bytes of names that the system is asked for at once.
const LISTED: usize = 32 * 1024;

/// The handling of a directory of this user whose permission bits exclude the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closed {
    /// Look through it all the same.
    Open,
    /// Leave it, and say so.
    Leave,
    /// Leave it, and say so, also where this user is root, whom no bits keep out: its owner's commands are.
    LeaveAsOwner,
}

/// The next step after an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Go {
    /// Into it, if it is a directory.
    In,
    /// Over it.
    Over,
    /// No further.
    Stop,
}

/// The reason that a directory was not read.
#[derive(Debug)]
pub(super) enum Unseen {
    /// Its bits close it to this user, whose it is.
    Closed,
    /// It belongs to somebody who keeps this user out.
    Foreign,
    /// The system could not; or it was moved while it was looked through.
    Failed(io::Error),
}

/// An entry of a directory.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) name: OsString,
    pub(super) kind: ItemKind,
}

/// The position of a walk: a directory.
pub(super) struct Here<'a> {
    levels: &'a [Level],
}

impl Here<'_> {
    /// The directory, unless it could not be opened again on the way up.
    pub(super) fn dir(&self) -> Option<BorrowedFd<'_>> {
        self.levels.last()?.dir.as_ref().map(AsFd::as_fd)
    }

    /// Its identity.
    pub(super) fn identity(&self) -> Identity {
        self.levels.last().map_or((0, 0), |level| level.identity)
    }

    /// The metadata of its entry `name`; `None` if the entry has vanished.
    pub(super) fn stat(&self, name: &OsStr) -> Option<Stat> {
        statat(self.dir()?, name, AtFlags::SYMLINK_NOFOLLOW).ok()
    }

    /// Whether it has an entry of that name. What cannot be told counts as there.
    pub(super) fn has(&self, name: &str) -> bool {
        let look = |dir| statat(dir, name, AtFlags::SYMLINK_NOFOLLOW);
        !matches!(self.dir().map(look), Some(Err(Errno::NOENT)))
    }

    /// The path of the directory, from where the walk began.
    pub(super) fn path(&self) -> PathBuf {
        self.levels.iter().skip(1).map(|level| &level.name).collect()
    }
}

/// The visitor of a walk.
pub(super) trait Visitor {
    /// A directory is about to be looked through.
    fn enter(&mut self, _: &Here<'_>) {}

    /// An entry. For each directory that is gone into, [`left`](Self::left) is called once.
    fn entry(&mut self, here: &Here<'_>, entry: &Entry) -> Go;

    /// The directory `name` was not looked through, or not to its end.
    fn unseen(&mut self, here: &Here<'_>, name: &OsStr, why: Unseen);

    /// The directory `name` has been gone into, and is left.
    fn left(&mut self, _: &Here<'_>, _name: &OsStr) {}
}

/// Shows `visitor` all that lies below `root`; whether it came to the end.
pub(super) fn descend(root: impl AsFd, closed: Closed, visitor: &mut impl Visitor) -> ControlFlow<()> {
    let mut opener = Opener { closed, buffer: Vec::with_capacity(LISTED) };
    let top = Here { levels: &[] };
    // A description of its own, since those of one directory share how far they have been read.
    match opener.open(root.as_fd(), OsStr::new(".")) {
        Ok(level) => Walk { levels: Vec::new(), held: 1, opener }.run(level, visitor),
        Err(why) => {
            visitor.unseen(&top, OsStr::new("."), why.unwrap_or(Unseen::Failed(Errno::NOENT.into())));
            ControlFlow::Continue(())
        }
    }
}

struct Level {
    name: OsString,
    identity: Identity,
    entries: std::vec::IntoIter<Entry>,
    /// The reason that the list is incomplete.
    cut: Option<io::Error>,
    /// Nothing while it lies far above where the walk is.
    dir: Option<OwnedFd>,
    lent: Option<Lent>,
}

struct Walk {
    levels: Vec<Level>,
    /// The first level below the top that is held open.
    held: usize,
    opener: Opener,
}

impl Walk {
    fn run(mut self, top: Level, visitor: &mut impl Visitor) -> ControlFlow<()> {
        self.levels.push(top);
        visitor.enter(&self.here());
        while let Some(level) = self.levels.last_mut() {
            let Some(entry) = level.entries.next() else {
                self.up(visitor);
                continue;
            };
            match visitor.entry(&self.here(), &entry) {
                Go::Stop => return ControlFlow::Break(()),
                Go::In if entry.kind == ItemKind::Directory => self.down(&entry.name, visitor),
                Go::In | Go::Over => {}
            }
        }
        ControlFlow::Continue(())
    }

    fn here(&self) -> Here<'_> {
        Here { levels: &self.levels }
    }

    fn down(&mut self, name: &OsStr, visitor: &mut impl Visitor) {
        let opened = match self.levels.last().and_then(|level| level.dir.as_ref()) {
            Some(dir) => self.opener.open(dir.as_fd(), name),
            None => Err(Some(Unseen::Failed(moved()))),
        };
        match opened {
            Ok(level) => {
                self.levels.push(level);
                self.let_go();
                visitor.enter(&self.here());
            }
            Err(why) => {
                if let Some(why) = why {
                    visitor.unseen(&self.here(), name, why);
                }
                visitor.left(&self.here(), name);
            }
        }
    }

    /// Closes the uppermost directory that is held open, where too many are.
    fn let_go(&mut self) {
        if self.levels.len() - self.held > HELD {
            if let Some(level) = self.levels.get_mut(self.held) {
                (level.dir, level.lent) = (None, None);
            }
            self.held += 1;
        }
    }

    fn up(&mut self, visitor: &mut impl Visitor) {
        let Some(done) = self.levels.pop() else { return };
        if self.levels.is_empty() {
            if let Some(why) = done.cut {
                visitor.unseen(&self.here(), OsStr::new("."), Unseen::Failed(why));
            }
            return;
        }
        if self.levels.len() <= self.held && self.held > 1 {
            self.held -= 1;
            let again = self.open_again(done.dir.as_ref());
            if let Some(level) = self.levels.last_mut() {
                match again {
                    Some((dir, lent)) => (level.dir, level.lent) = (Some(dir), Some(lent)),
                    // What else there is in it cannot be reached any more.
                    None => {
                        level.entries = Vec::new().into_iter();
                        level.cut = Some(moved());
                    }
                }
            }
        }
        if let Some(why) = done.cut {
            visitor.unseen(&self.here(), &done.name, Unseen::Failed(why));
        }
        visitor.left(&self.here(), &done.name);
    }

    /// The directory of the last level, by the link to it that the one below has, or by its names. It must be the same.
    fn open_again(&self, below: Option<&OwnedFd>) -> Option<(OwnedFd, Lent)> {
        let identity = self.levels.last()?.identity;
        let same = |dir: OwnedFd| (self::identity(&fstat(&dir).ok()?) == identity).then_some(dir);
        let place = below.and_then(|below| same(look(below.as_fd(), OsStr::new("..")).ok()?));
        let place = place.or_else(|| {
            let (top, names) = self.levels.split_first()?;
            let mut dir = top.dir.as_ref()?.try_clone().ok()?;
            let mut lent = Vec::new();
            for level in names {
                dir = look(dir.as_fd(), &level.name).ok()?;
                lent.push(Lent::to(&dir, TO_LOOK));
            }
            same(dir)
        })?;
        let lent = Lent::to(&place, TO_LOOK);
        let dir = openat(&place, c".", READ, Mode::empty()).ok()?;
        Some((dir, lent))
    }
}

/// Opens and lists directories.
struct Opener {
    closed: Closed,
    buffer: Vec<u8>,
}

impl Opener {
    /// Opens and lists the directory `name`; nothing is said where it has vanished or is none any more.
    fn open(&mut self, parent: BorrowedFd<'_>, name: &OsStr) -> Result<Level, Option<Unseen>> {
        let mut lent = None;
        let own = rustix::process::geteuid().as_raw();
        let is_open = |dir: &OwnedFd| match self.closed {
            Closed::LeaveAsOwner if fstat(dir).is_ok_and(|stat| stat.st_uid == own) => {
                mode(dir).is_some_and(|mode| mode & TO_LOOK == TO_LOOK)
            }
            _ => missing(dir, TO_LOOK).is_none(),
        };
        let dir = match openat(parent, name, READ, Mode::empty()) {
            Ok(dir) if is_open(&dir) => dir,
            Ok(_) | Err(Errno::ACCESS) => {
                let place = look(parent, name).map_err(unseen)?;
                if self.closed != Closed::Open {
                    return Err(Some(Unseen::Closed));
                }
                let bits = Lent::to(&place, TO_LOOK);
                let dir = match openat(&place, c".", READ, Mode::empty()) {
                    // Whoever owns it can open it, if not here and now.
                    Err(Errno::ACCESS) if fstat(&place).is_ok_and(|stat| stat.st_uid == own) => {
                        return Err(Some(Unseen::Failed(Errno::ACCESS.into())));
                    }
                    opened => opened.map_err(unseen)?,
                };
                lent = Some(bits);
                dir
            }
            Err(why) => return Err(unseen(why)),
        };
        let identity = identity(&fstat(&dir).map_err(unseen)?);
        let (entries, cut) = self.list(&dir);
        let name = if name == "." { OsString::new() } else { name.to_owned() };
        Ok(Level { name, identity, entries: entries.into_iter(), cut, dir: Some(dir), lent })
    }

    fn list(&mut self, dir: &OwnedFd) -> (Vec<Entry>, Option<io::Error>) {
        let mut entries = Vec::new();
        let mut listing = RawDir::new(dir, self.buffer.spare_capacity_mut());
        while let Some(entry) = listing.next() {
            let entry = match entry {
                Ok(entry) => entry,
                Err(why) => return (entries, Some(why.into())),
            };
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            let kind = match entry.file_type() {
                // Some file systems do not tell. What has vanished by now is not there.
                FileType::Unknown => match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                    Err(_) => continue,
                },
                kind => kind,
            };
            entries.push(Entry { name: name.to_owned(), kind: item_kind(kind) });
        }
        (entries, None)
    }
}

/// To list a directory.
const READ: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The directory `name` as a place, which needs no right to read it.
pub(super) fn look(parent: BorrowedFd<'_>, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(parent, name, flags, Mode::empty())
}

fn unseen(why: Errno) -> Option<Unseen> {
    match why {
        Errno::NOENT | Errno::NOTDIR | Errno::LOOP => None,
        Errno::ACCESS => Some(Unseen::Foreign),
        why => Some(Unseen::Failed(why.into())),
    }
}

fn moved() -> io::Error {
    io::Error::other("it was moved while it was looked through")
}

/// The identity of what was looked at.
pub(crate) fn identity(stat: &Stat) -> Identity {
    (stat.st_dev, stat.st_ino)
}

/// The kind of the file.
pub(super) fn item_kind(kind: FileType) -> ItemKind {
    match kind {
        FileType::Directory => ItemKind::Directory,
        FileType::RegularFile => ItemKind::File,
        FileType::Symlink => ItemKind::Link,
        _ => ItemKind::Special,
    }
}
