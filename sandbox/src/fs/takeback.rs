//! The second wall around protected names. The broker should have refused them. So after a command this
//! removes those that the command made.
//!
//! Invariant: the sweep looks at everything and continues after errors. It looks for each removed name again
//! before it reports the removal. It also reports the names that are still there.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::PathBuf;

use rustix::fs::{AtFlags, RenameFlags, readlinkat, renameat, renameat_with, statat, symlinkat};
use rustix::io::Errno;

use super::closing::Left;
use super::descend::{Closed, Entry, Go, Here, Identity, Unseen, Visitor, descend, identity};
use super::lent::{Lent, TO_CHANGE};
use super::marks::{Mark, Marked, Marks, marked};
use super::walk::ItemKind;
use super::{Root, drawn};
use crate::names::{Trail, fold, lossy};
use crate::protect::{Protected, is_part_of_repository};

/// The files that a command may have made.
#[derive(Clone, Debug)]
pub(crate) enum Made {
    /// Anything that was not there before: nobody has seen who made it.
    Anything,
    /// The files that the broker made for the command, and no others. Files that others made meanwhile belong
    /// to them.
    These {
        /// Files, directories and links.
        made: HashSet<Identity>,
        /// Directories that it gave another name, with all that is below them.
        moved: HashSet<Identity>,
    },
}

impl Made {
    /// Nothing at all.
    pub(crate) fn nothing() -> Self {
        Self::These { made: HashSet::new(), moved: HashSet::new() }
    }

    fn is_nothing(&self) -> bool {
        matches!(self, Self::These { made, moved } if made.is_empty() && moved.is_empty())
    }

    fn holds(&self, identity: &Identity) -> bool {
        match self {
            Self::Anything => true,
            Self::These { made, moved } => made.contains(identity) || moved.contains(identity),
        }
    }

    /// Whether a directory got its place from a command.
    fn moved(&self, identity: &Identity) -> bool {
        matches!(self, Self::These { moved, .. } if moved.contains(identity))
    }
}

/// The result of the sweep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TakenBack {
    /// Names that were protected, and are gone.
    pub(crate) gone: Vec<String>,
    /// Names that are protected, and still there; and directories of which that cannot be told. With the reason.
    pub(crate) left: Vec<Left>,
}

impl Root {
    /// Takes away every protected name that was not there `before` and may have been `made` by a command: a file gets a name
    /// that nobody obeys, a link that was there comes back.
    pub(crate) fn take_back(&self, protected: &Protected, before: &Marks, made: &Made) -> TakenBack {
        if made.is_nothing() {
            return TakenBack::default();
        }
        let look = |act| {
            let known = before.protected.iter().map(|mark| (mark.identity, &mark.what)).collect();
            let links = before.protected.iter().filter(|mark| matches!(mark.what, Marked::Link(_)));
            let mut walk = Walk {
                root: self,
                protected,
                known,
                links: links.map(|mark| (mark.path.clone(), &mark.what)).collect(),
                made,
                act,
                trail: Trail::default(),
                depths: vec![Depth::default()],
                found: BTreeMap::new(),
            };
            let _ = descend(self.dir(), Closed::Open, &mut walk);
            walk.found
        };
        let mut found = look(true);
        if matches!(made, Made::Anything) {
            found.extend(self.put_links_back(before));
        }
        if found.is_empty() {
            return TakenBack::default();
        }
        // What was done is not what counts, but what is there now.
        let mut left = look(false);
        for (path, why) in &found {
            if let Some(still) = left.get_mut(path) {
                still.clone_from(why);
            }
        }
        let is_left = |path: &PathBuf| left.contains_key(path);
        let gone = found.keys().filter(|path| !is_left(path)).map(|path| lossy(path.as_os_str())).collect();
        let left =
            left.into_iter().map(|(path, why)| Left { path, why: why.unwrap_or_else(|| STILL.to_owned()) });
        TakenBack { gone, left: left.collect() }
    }

    /// Makes protected links again that are gone. Those that could not be made are lost, which leaves nothing to obey.
    fn put_links_back(&self, before: &Marks) -> BTreeMap<PathBuf, Option<String>> {
        let mut made = BTreeMap::new();
        for mark in &before.protected {
            if let Mark { path, what: Marked::Link(target), .. } = mark
                && let (Some((dir, _lent)), Some(name)) = (self.parent(path, TO_CHANGE), path.file_name())
                && statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW).is_err()
                && symlinkat(target.as_path(), &dir, name).is_ok()
            {
                made.insert(path.clone(), None);
            }
        }
        made
    }
}

/// Said where a name is there again although it was taken away.
const STILL: &str = "it is there again";

/// The state of a directory on the way.
#[derive(Clone, Copy, Default)]
struct Depth {
    /// Something above it was given another name by the command.
    moved: bool,
    /// It is to be taken away when it is left.
    planted: bool,
}

struct Walk<'a> {
    root: &'a Root,
    protected: &'a Protected,
    /// The protected files from before. A number may belong to another file by now, so the kind of the file
    /// counts too.
    known: BTreeSet<(Identity, &'a Marked)>,
    /// The protected links among that, by their paths.
    links: BTreeSet<(PathBuf, &'a Marked)>,
    made: &'a Made,
    /// Whether to do something, or to look only.
    act: bool,
    trail: Trail,
    depths: Vec<Depth>,
    /// The new protected files, with the reason if one could not be removed.
    found: BTreeMap<PathBuf, Option<String>>,
}

impl Walk<'_> {
    fn depth(&self) -> Depth {
        self.depths.last().copied().unwrap_or_default()
    }

    /// Whether an entry, on whose name the trail stands, is one that the command has planted; nothing if it was there before.
    fn is_planted(&self, here: &Here<'_>, name: &OsStr) -> Option<bool> {
        let part = is_part_of_repository(name);
        let protected = self.protected.at(&self.trail).is_some();
        let counts = protected || part && self.has_become_repository(here);
        if !counts {
            return Some(false);
        }
        let Some(stat) = here.stat(name) else { return Some(false) };
        let identity = identity(&stat);
        let target = || readlinkat(here.dir()?, name, Vec::new()).ok();
        let what = marked(&stat, target);
        // A link that was made again has another number; it leads where it led.
        let again =
            || matches!(what, Marked::Link(_)) && self.links.contains(&(here.path().join(name), &what));
        if self.known.contains(&(identity, &what)) || again() {
            return None;
        }
        Some(match self.made {
            // Of a repository's parts one is enough: without its HEAD it is none.
            Made::Anything => protected || fold(&lossy(name)) == "head",
            Made::These { .. } => self.depth().moved || self.made.holds(&identity),
        })
    }

    /// Whether this directory is a repository and was none before.
    fn has_become_repository(&self, here: &Here<'_>) -> bool {
        let known = self.known.contains(&(here.identity(), &Marked::Directory));
        !known && here.dir().is_some() && self.protected.is_repository(None, |part| here.has(part))
    }

    /// Takes away what the trail stands on, and notes it.
    fn take(&mut self, here: &Here<'_>, name: &OsStr) {
        let why = match here.dir() {
            _ if !self.act => None,
            Some(dir) => self.set_aside(dir, name).err().map(|why| why.to_string()),
            None => Some("its directory was moved".to_owned()),
        };
        self.found.insert(here.path().join(name), why);
    }

    /// Gives the entry a name that nobody obeys, in its own directory or, where every name there is protected, in the top one.
    fn set_aside(&self, dir: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
        let top = self.root.dir().as_fd();
        let mut failed = io::Error::other("every name that it could get is protected too");
        for _ in 0..TRIES {
            let aside = random_name();
            let mut beside = self.trail.clone();
            beside.pop();
            beside.push(&aside);
            let mut above = Trail::default();
            above.push(&aside);
            for (trail, place) in [(beside, dir), (above, top)] {
                if self.protected.at(&trail).is_some() {
                    continue;
                }
                let _lent = (Lent::to(dir, TO_CHANGE), Lent::to(place, TO_CHANGE));
                match rename(dir, name, place, &aside) {
                    Ok(()) => return Ok(()),
                    Err(why) => failed = why.into(),
                }
            }
        }
        Err(failed)
    }
}

/// Attempts to find another name.
const TRIES: usize = 8;

fn rename(from: BorrowedFd<'_>, name: &OsStr, to: BorrowedFd<'_>, aside: &str) -> rustix::io::Result<()> {
    match renameat_with(from, name, to, aside, RenameFlags::NOREPLACE) {
        // Some file systems cannot promise that; the name is nobody's guess.
        Err(Errno::INVAL | Errno::NOSYS) if statat(to, aside, AtFlags::SYMLINK_NOFOLLOW).is_err() => {
            renameat(from, name, to, aside)
        }
        done => done,
    }
}

/// A short name that nobody knows beforehand.
fn random_name() -> String {
    format!("blocked-{:010x}", drawn() & 0xff_ffff_ffff)
}

impl Visitor for Walk<'_> {
    fn enter(&mut self, here: &Here<'_>) {
        if let Some(depth) = self.depths.last_mut() {
            depth.moved |= self.made.moved(&here.identity());
        }
    }

    fn entry(&mut self, here: &Here<'_>, entry: &Entry) -> Go {
        self.trail.push(&lossy(&entry.name));
        let planted = self.is_planted(here, &entry.name);
        if entry.kind == ItemKind::Directory
            && let Some(planted) = planted
        {
            // What is below a name that goes must not be obeyed there either.
            self.depths.push(Depth { planted, ..self.depth() });
            return Go::In;
        }
        if planted == Some(true) {
            self.take(here, &entry.name);
        }
        self.trail.pop();
        Go::Over
    }

    fn unseen(&mut self, here: &Here<'_>, name: &OsStr, why: Unseen) {
        match why {
            // No command could have put anything there either.
            Unseen::Foreign => {}
            Unseen::Closed | Unseen::Failed(_) => {
                let why = match why {
                    Unseen::Failed(why) => why.to_string(),
                    _ => "it is closed".to_owned(),
                };
                let path = here.path().join(if name == "." { OsStr::new("") } else { name });
                self.found.insert(path, Some(format!("it cannot be looked through: {why}")));
            }
        }
    }

    fn left(&mut self, here: &Here<'_>, name: &OsStr) {
        if self.depths.pop().is_some_and(|depth| depth.planted) {
            self.take(here, name);
        }
        self.trail.pop();
    }
}
