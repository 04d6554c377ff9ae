//! Finds the place of a call's path: the directory with its last name, and the file there.
//!
//! Invariant: the search works as the kernel's for the caller, by single names below open handles. The names
//! of the links on the way are kept for the rules.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, fstatfs, openat, openat2, readlinkat, statat,
};
use rustix::io::Errno;

use super::caller::Caller;

/// As in Linux; a chain of links longer than that is a loop.
const MAX_LINKS: usize = 40;
/// What `/proc` is known by, and its top directory.
const PROC: u64 = 0x9fa0;
const PROC_TOP: u64 = 1;

/// The last name of a path, in the directory that holds it.
pub(super) struct Place {
    pub(super) dir: OwnedFd,
    pub(super) last: Last,
    /// Whether the path ends in a slash: only a directory will do.
    pub(super) slash: bool,
    /// The links on the way: their directories, and their names.
    pub(super) links: Vec<(OwnedFd, OsString)>,
}

/// How a path ends.
pub(super) enum Last {
    Name(OsString),
    /// In the directory itself: `/`, `.` or `..`.
    Itself,
}

/// What is at a place.
pub(super) enum Found {
    /// This, held open without any right to it.
    Thing(OwnedFd, Stat),
    Nothing,
}

/// Whether a link at the end of a path is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Follow {
    Yes,
    No,
}

/// To hold something without any right to it.
pub(super) const PLACE: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Finds places for callers.
pub(super) struct Finder {
    root: OwnedFd,
    /// This process's own descriptors.
    own: OwnedFd,
}

impl Finder {
    pub(super) fn new() -> Result<Self, Errno> {
        let open =
            |path| rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        Ok(Self { root: open("/")?, own: open("/proc/self/fd")? })
    }

    /// The place of `path`, the links on the way followed, one at its end not.
    pub(super) fn place(&self, caller: &Caller, from: i32, path: &OsStr) -> Result<Place, Errno> {
        if path.is_empty() {
            return Err(Errno::NOENT);
        }
        let dir = match path.as_bytes().first() {
            Some(b'/') => self.root.try_clone().map_err(|_| Errno::MFILE)?,
            _ => caller.directory(from)?,
        };
        Walk { finder: self, caller, dir, todo: VecDeque::new(), slash: false, links: Vec::new() }.run(path)
    }

    /// What `path` leads to, and its place; with `follow` a link at its end is followed.
    pub(super) fn find(
        &self,
        caller: &Caller,
        from: i32,
        path: &OsStr,
        follow: Follow,
    ) -> Result<(Place, Found), Errno> {
        let mut place = self.place(caller, from, path)?;
        loop {
            let found = place.look()?;
            let Found::Thing(thing, stat) = &found else { return Ok((place, found)) };
            let is_link = FileType::from_raw_mode(stat.st_mode) == FileType::Symlink;
            if !is_link || follow == Follow::No && !place.slash {
                return Ok((place, found));
            }
            let Last::Name(name) = &place.last else { return Ok((place, found)) };
            let target = match is_of_proc(&place.dir)? {
                // The kernel leads from it to what it stands for, which has no path of its own.
                true if fstat(&place.dir)?.st_ino != PROC_TOP => {
                    let thing = openat(&place.dir, name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
                    let stat = fstat(&thing)?;
                    return Ok((place, Found::Thing(thing, stat)));
                }
                in_proc => read_link(thing.as_fd(), name, in_proc, caller)?,
            };
            if place.links.len() >= MAX_LINKS {
                return Err(Errno::LOOP);
            }
            let (slash, mut links) = (place.slash, place.links);
            links.push((place.dir.try_clone().map_err(|_| Errno::MFILE)?, name.clone()));
            let dir = match target.as_bytes().first() {
                Some(b'/') => self.root.try_clone().map_err(|_| Errno::MFILE)?,
                _ => place.dir,
            };
            let walk = Walk { finder: self, caller, dir, todo: VecDeque::new(), slash, links };
            place = walk.run(&target)?;
        }
    }

    /// Where a directory is now; nothing for one that is gone.
    pub(super) fn path(&self, dir: impl AsFd) -> Result<Option<PathBuf>, Errno> {
        let link = readlinkat(&self.own, number(&dir), Vec::new())?;
        let path = PathBuf::from(OsString::from_vec(link.into_bytes()));
        if !path.is_absolute() {
            return Err(Errno::ACCESS);
        }
        Ok((fstat(&dir)?.st_nlink > 0).then_some(path))
    }

    /// Opens what is held as a place, with `flags`.
    pub(super) fn open(&self, thing: impl AsFd, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        let never = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        openat(&self.own, number(&thing), flags.difference(never) | OFlags::CLOEXEC | OFlags::NOCTTY, mode)
    }

    /// The path by which this process reaches what it holds.
    pub(super) fn own(&self, thing: impl AsFd) -> (&OwnedFd, String) {
        (&self.own, number(&thing))
    }
}

fn number(thing: &impl AsFd) -> String {
    thing.as_fd().as_raw_fd().to_string()
}

impl Place {
    /// What is there; a link is what is found.
    pub(super) fn look(&self) -> Result<Found, Errno> {
        let opened = match &self.last {
            Last::Name(name) => openat(&self.dir, name, PLACE, Mode::empty()),
            Last::Itself => openat(&self.dir, c".", PLACE, Mode::empty()),
        };
        match opened {
            Ok(thing) => {
                let stat = fstat(&thing)?;
                Ok(Found::Thing(thing, stat))
            }
            Err(Errno::NOENT) => Ok(Found::Nothing),
            Err(why) => Err(why),
        }
    }

    /// Whether the directory has an entry of that name. What cannot be told counts as there.
    pub(super) fn has(&self, name: &str) -> bool {
        !matches!(statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW), Err(Errno::NOENT))
    }
}

struct Walk<'f> {
    finder: &'f Finder,
    caller: &'f Caller,
    dir: OwnedFd,
    todo: VecDeque<OsString>,
    slash: bool,
    links: Vec<(OwnedFd, OsString)>,
}

impl Walk<'_> {
    fn run(mut self, path: &OsStr) -> Result<Place, Errno> {
        self.slash |= path.as_bytes().ends_with(b"/");
        self.put_in_front(path);
        if !self.skip_to_last()? {
            while self.todo.len() > 1 {
                self.step()?;
            }
        }
        let last = match self.todo.pop_front() {
            Some(name) if name == ".." => {
                self.dir = openat(&self.dir, c"..", PLACE | OFlags::DIRECTORY, Mode::empty())?;
                Last::Itself
            }
            Some(name) if name != "." => Last::Name(name),
            _ => Last::Itself,
        };
        Ok(Place { dir: self.dir, last, slash: self.slash, links: self.links })
    }

    /// Goes to the last name in one call, if no link is on the way.
    fn skip_to_last(&mut self) -> Result<bool, Errno> {
        if self.todo.len() < 2 {
            return Ok(true);
        }
        let above: PathBuf = self.todo.iter().take(self.todo.len() - 1).collect();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match openat2(&self.dir, &above, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
            Ok(dir) => {
                self.dir = dir;
                self.todo.drain(..self.todo.len() - 1);
                Ok(true)
            }
            // A link; or the kernel has no such call, or is told not to have it.
            Err(Errno::LOOP | Errno::NOSYS | Errno::PERM | Errno::AGAIN) => Ok(false),
            Err(why) => Err(why),
        }
    }

    fn step(&mut self) -> Result<(), Errno> {
        let Some(name) = self.todo.pop_front() else { return Ok(()) };
        if name == "." {
            return Ok(());
        }
        let next = openat(&self.dir, &name, PLACE, Mode::empty())?;
        match FileType::from_raw_mode(fstat(&next)?.st_mode) {
            FileType::Directory => self.dir = next,
            FileType::Symlink => self.follow(next, name)?,
            _ => return Err(Errno::NOTDIR),
        }
        Ok(())
    }

    fn follow(&mut self, link: OwnedFd, name: OsString) -> Result<(), Errno> {
        if self.links.len() >= MAX_LINKS {
            return Err(Errno::LOOP);
        }
        let in_proc = is_of_proc(&self.dir)?;
        if in_proc && fstat(&self.dir)?.st_ino != PROC_TOP {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            self.dir = openat(&self.dir, &name, flags, Mode::empty())?;
            return Ok(());
        }
        let target = read_link(link, &name, in_proc, self.caller)?;
        self.links.push((self.dir.try_clone().map_err(|_| Errno::MFILE)?, name));
        if target.as_bytes().first() == Some(&b'/') {
            self.dir = self.finder.root.try_clone().map_err(|_| Errno::MFILE)?;
        }
        self.put_in_front(&target);
        Ok(())
    }

    fn put_in_front(&mut self, path: &OsStr) {
        let names = Path::new(path).as_os_str().as_bytes().split(|byte| *byte == b'/');
        for name in names.rev().filter(|name| !name.is_empty()) {
            self.todo.push_front(OsStr::from_bytes(name).to_owned());
        }
    }
}

/// What a link holds. In the top directory of `/proc` two of them are something else for each caller.
fn read_link(link: impl AsFd, name: &OsStr, in_proc: bool, caller: &Caller) -> Result<OsString, Errno> {
    if in_proc && let Some(itself) = caller.itself(name)? {
        return Ok(itself);
    }
    Ok(OsString::from_vec(readlinkat(link, c"", Vec::new())?.into_bytes()))
}

fn is_of_proc(dir: impl AsFd) -> Result<bool, Errno> {
    Ok(u64::try_from(fstatfs(dir)?.f_type).is_ok_and(|kind| kind == PROC))
}
