//! The first step of every file operation: resolves the path of a model to a chain of open directories and
//! one last name. The chain lies below the workspace and has no links.
//!
//! Invariant: each directory of the chain was opened by a single name below the one before it, and never
//! through a link. `..` goes back along the chain, and the kernel never sees it. So the chain stays inside,
//! whatever other processes rename or replace. The rules are checked against its names.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Component, Path};
use std::sync::Arc;

use cap_fs_ext::DirExt as _;
use cap_std::fs::{Dir, Metadata};

use super::Root;
#[cfg(feature = "wasm")]
use super::guard;
use crate::error::{Error, Kind};
#[cfg(feature = "wasm")]
use crate::grants::Grants;
use crate::names::{Inside, lossy};
use crate::output;
use crate::report::Resolver;
use crate::spelling;

/// Links in one path at most, as in Linux. A longer chain is a loop.
const MAX_LINKS: usize = 40;
/// Levels at most. Each holds an open handle.
const MAX_LEVELS: usize = 128;
/// The bound of Linux, terminator included.
const MAX_PATH_BYTES: usize = 4095;
/// Names that are looked up for one path, those of links included.
const MAX_STEPS: usize = 4096;

/// Whether the kernel can keep a path beneath a handle.
pub(super) fn available(dir: &Dir) -> Resolver {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        if openat2(dir, ".", flags, Mode::empty(), ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS)
            .is_ok()
        {
            return Resolver::Openat2;
        }
    }
    let _ = dir;
    Resolver::Manual
}

/// The place that a path leads to.
#[derive(Debug)]
pub(crate) struct Resolved {
    root: Root,
    /// The directories on the way, outermost first, without the root.
    above: Vec<(OsString, Arc<Dir>)>,
    /// Directories on the way that do not exist yet, below the last one of `above`.
    pub(crate) missing: Vec<OsString>,
    /// The last name; nothing if the path leads to the last directory of `above` itself.
    pub(crate) last: Option<OsString>,
    /// The kind of file there.
    pub(crate) found: Found,
    /// The links that were followed, by the names that lead to each without another link.
    links: Vec<Inside>,
}

/// A directory of the workspace that is held open, with those on the way to it: where a component's paths start.
#[cfg(feature = "wasm")]
#[derive(Clone, Debug)]
pub(crate) struct Place {
    root: Root,
    above: Vec<(OsString, Arc<Dir>)>,
    links: Vec<Inside>,
}

#[cfg(feature = "wasm")]
impl Place {
    /// The directory at `path` of the workspace, which `grants` let be read.
    pub(crate) fn open(root: &Root, grants: &Grants, path: &str) -> Result<Self, Error> {
        let resolved = resolve(root, path)?;
        let allowed = guard::check_read(grants, &resolved);
        // That there is no such directory says more.
        let place = resolved.into_place(path)?;
        allowed.map(|()| place)
    }

    /// Its handle.
    pub(crate) fn dir(&self) -> &Dir {
        self.above.last().map_or(self.root.dir(), |(_, dir)| dir)
    }

    /// The number of directories that are held for it.
    pub(crate) fn depth(&self) -> usize {
        self.above.len()
    }

    /// Resolves a relative `path` below it. Nothing leads above it again: neither `..` nor a link, and an absolute
    /// path is outside whatever it names. With `follow` a link at the end is followed, else it is what is found.
    pub(crate) fn resolve(&self, path: &str, follow: bool) -> Result<Resolved, Error> {
        self.root.check_open()?;
        check_text(path)?;
        if Path::new(path).has_root() {
            return Err(Error::outside(path));
        }
        let mut walk = Walk {
            root: &self.root,
            path,
            above: self.above.clone(),
            todo: VecDeque::new(),
            wants_directory: ends_in_directory(path),
            links: self.links.clone(),
            floor: Some(self.above.len()),
            follow_last: follow,
        };
        // A guest names things by their own names.
        walk.push_front(Path::new(path))?;
        walk.run()
    }
}

/// The kind of file at the end of a path.
#[derive(Debug)]
pub(crate) enum Found {
    /// A directory.
    Directory,
    /// A regular file.
    File(Metadata),
    /// Anything else, with its name: reading it could wait for ever. A link, where it was not to be followed.
    Special(&'static str),
    /// Nothing; with a trailing slash, where only a directory would do.
    Missing { wants_directory: bool },
}

impl Resolved {
    /// The workspace it lies in.
    pub(super) fn root(&self) -> &Root {
        &self.root
    }

    /// The directory that holds the last name, or the one the path leads to if it has none.
    pub(crate) fn dir(&self) -> &Dir {
        self.above.last().map_or(self.root.dir(), |(_, dir)| dir)
    }

    /// The directories from the workspace down, each with the name that is looked up in it next.
    pub(crate) fn levels(&self) -> impl Iterator<Item = (&Dir, Option<&OsStr>)> {
        let above = self.above.iter().map(|(_, dir)| &**dir);
        let dirs = std::iter::once(self.root.dir()).chain(above);
        let next = self.missing.first().or(self.last.as_ref());
        let names = self.above.iter().map(|(name, _)| name).map(Some).chain([next]);
        dirs.zip(names.map(|name| name.map(OsString::as_os_str)))
    }

    /// The path without links or `..`, as the rules see it.
    pub(crate) fn inside(&self) -> Inside {
        let above = self.above.iter().map(|(name, _)| name);
        Inside::from_names(above.chain(&self.missing).chain(&self.last).map(OsString::as_os_str))
    }

    /// The path without links or `..`, by its real names.
    pub(super) fn path(&self) -> std::path::PathBuf {
        self.above.iter().map(|(name, _)| name).chain(&self.missing).chain(&self.last).collect()
    }

    /// The links that were followed on the way.
    pub(crate) fn links(&self) -> &[Inside] {
        &self.links
    }

    /// The handle of the directory the path leads to.
    pub(super) fn open_directory(&self, path: &str) -> Result<Dir, Error> {
        match &self.last {
            None => self.dir().try_clone(),
            Some(name) => self.dir().open_dir_nofollow(name),
        }
        .map_err(|source| Error::io(path, "open the directory", source))
    }

    /// The directory the path leads to, held with those on the way.
    #[cfg(feature = "wasm")]
    pub(crate) fn into_place(mut self, path: &str) -> Result<Place, Error> {
        match self.found {
            Found::Directory => {}
            Found::Missing { .. } => return Err(Error::new(Kind::NotFound, "no such directory").at(path)),
            _ => return Err(Error::new(Kind::NotADirectory, "this is not a directory").at(path)),
        }
        if let Some(name) = self.last.take() {
            let opened = self.dir().open_dir_nofollow(&name);
            let opened = opened.map_err(|source| Error::io(path, "open the directory", source))?;
            self.above.push((name, Arc::new(opened)));
        }
        Ok(Place { root: self.root.clone(), above: self.above, links: self.links })
    }

    /// Makes the missing directories; the ones made are removed again if one cannot be.
    pub(super) fn make_missing(&mut self, path: &str) -> Result<usize, Error> {
        let names = std::mem::take(&mut self.missing);
        let start = self.above.len();
        for name in names {
            let dir = self.dir();
            let made = match dir.create_dir(&name) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                made => made,
            };
            match made.and_then(|()| dir.open_dir_nofollow(&name)) {
                Ok(opened) => self.above.push((name, Arc::new(opened))),
                Err(source) => {
                    self.remove_made(self.above.len() - start);
                    return Err(Error::io(path, "create the directory", source));
                }
            }
        }
        Ok(self.above.len() - start)
    }

    /// Removes the last `made` directories where they are still empty, after a write that failed.
    pub(super) fn remove_made(&mut self, made: usize) {
        for _ in 0..made {
            if let Some((name, _)) = self.above.pop() {
                // A directory that somebody has filled meanwhile stays, which is right.
                let _ = self.dir().remove_dir(name);
            }
        }
    }
}

/// Resolves `path`, following links as far as they stay inside.
pub(super) fn resolve(root: &Root, path: &str) -> Result<Resolved, Error> {
    root.check_open()?;
    check_text(path)?;
    let walk = Walk {
        root,
        path,
        above: Vec::new(),
        todo: VecDeque::new(),
        wants_directory: ends_in_directory(path),
        links: Vec::new(),
        floor: None,
        follow_last: true,
    };
    walk.start()
}

/// [`resolve`] for a path of real names, which need be no text and may be longer than a model's.
pub(super) fn lead(root: &Root, path: &Path) -> Result<Resolved, Error> {
    let shown = lossy(path.as_os_str());
    let mut walk = Walk {
        root,
        path: &shown,
        above: Vec::new(),
        todo: VecDeque::new(),
        wants_directory: false,
        links: Vec::new(),
        floor: None,
        follow_last: true,
    };
    walk.push_front(path)?;
    walk.run()
}

/// Checks a path without a look at the disk.
pub(super) fn check_text(path: &str) -> Result<(), Error> {
    if path.is_empty() {
        return Err(Error::new(Kind::Invalid, "the path is empty").hint("\".\" is the workspace itself"));
    }
    if path.contains('\0') {
        return Err(Error::new(Kind::Invalid, "a path cannot hold a NUL character").at(path));
    }
    if path.len() > MAX_PATH_BYTES {
        return Err(Error::new(Kind::Invalid, "the path is too long").at(path));
    }
    Ok(())
}

/// Whether only a directory will do for `path`.
pub(super) fn ends_in_directory(path: &str) -> bool {
    path.ends_with('/') || path.ends_with("/.") || path.ends_with("/..") || path == "." || path == ".."
}

struct Walk<'r, 'p> {
    root: &'r Root,
    path: &'p str,
    above: Vec<(OsString, Arc<Dir>)>,
    todo: VecDeque<Step>,
    wants_directory: bool,
    links: Vec<Inside>,
    /// The directories that are not left again; with them, absolute paths lead outside.
    floor: Option<usize>,
    follow_last: bool,
}

enum Step {
    Up,
    Down(OsString),
    /// As somebody wrote it, who may have been shown it.
    Said(OsString),
}

impl Walk<'_, '_> {
    fn start(mut self) -> Result<Resolved, Error> {
        self.push_front(Path::new(self.path))?;
        for step in &mut self.todo {
            if let Step::Down(name) = step {
                *step = Step::Said(std::mem::take(name));
            }
        }
        self.run()
    }

    fn run(mut self) -> Result<Resolved, Error> {
        for _ in 0..MAX_STEPS {
            let Some(step) = self.todo.pop_front() else {
                return Ok(self.finish(Vec::new(), None, Found::Directory));
            };
            let name = match step {
                Step::Up if self.above.len() > self.floor.unwrap_or(0) => {
                    self.above.pop();
                    continue;
                }
                Step::Up => return Err(Error::outside(self.path)),
                Step::Down(name) => name,
                Step::Said(name) => self.real(name),
            };
            let dir = self.above.last().map_or(self.root.dir(), |(_, dir)| dir);
            if self.todo.is_empty() {
                match dir.symlink_metadata(&name) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => return self.nothing_at(name),
                    Err(source) => return Err(Error::io(self.path, "look it up", source)),
                    Ok(metadata) if metadata.is_symlink() && (self.follow_last || self.wants_directory) => {
                        self.follow(&name)?;
                    }
                    Ok(metadata) => return self.something_at(name, metadata),
                }
                continue;
            }
            match dir.open_dir_nofollow(&name) {
                Ok(opened) if self.above.len() < MAX_LEVELS => self.above.push((name, Arc::new(opened))),
                Ok(_) => return Err(Error::new(Kind::Invalid, "the path goes too deep").at(self.path)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return self.nothing_at(name),
                Err(source) => match dir.symlink_metadata(&name) {
                    Ok(metadata) if metadata.is_symlink() => self.follow(&name)?,
                    Ok(metadata) if !metadata.is_dir() => {
                        let file = Inside::from_names(self.above.iter().map(|(name, _)| name.as_os_str()))
                            .join(&name);
                        return Err(Error::new(Kind::NotADirectory, "this is a file, not a directory")
                            .at(file.shown())
                            .hint("nothing is below it; use read_file on it"));
                    }
                    _ => return Err(Error::io(self.path, "open the directory", source)),
                },
            }
        }
        Err(Error::new(Kind::Invalid, "the path has too many parts").at(self.path))
    }

    /// The name that is there and shown so, or else this very one.
    fn real(&self, name: OsString) -> OsString {
        let dir = self.above.last().map_or(self.root.dir(), |(_, dir)| dir);
        let shown = spelling::real(&name);
        shown.filter(|real| dir.symlink_metadata(real).is_ok()).unwrap_or(name)
    }

    /// Puts the target of the link `name` in front of what is still to do.
    fn follow(&mut self, name: &OsStr) -> Result<(), Error> {
        // Those that led to where a component's paths start are bounded when it gets there.
        if self.links.len() >= MAX_LINKS {
            return Err(Error::new(Kind::Failed, "the path goes through too many links").at(self.path));
        }
        let above = Inside::from_names(self.above.iter().map(|(name, _)| name.as_os_str()));
        self.links.push(above.join(name));
        let dir = self.above.last().map_or(self.root.dir(), |(_, dir)| dir);
        let target =
            dir.read_link_contents(name).map_err(|source| Error::io(self.path, "follow the link", source))?;
        if self.todo.is_empty() {
            self.wants_directory |= ends_in_directory(&target.to_string_lossy());
        }
        self.push_front(&target)
    }

    /// Puts `path` in front of what is to do; an absolute one is rewritten if it names the workspace.
    fn push_front(&mut self, path: &Path) -> Result<(), Error> {
        let relative = if path.has_root() || path.is_absolute() {
            if self.floor.is_some() {
                return Err(Error::outside(self.path));
            }
            self.above.clear();
            self.root.strip_own_path(path).ok_or_else(|| Error::outside(self.path))?
        } else {
            path
        };
        for component in relative.components().rev() {
            match component {
                Component::CurDir => {}
                Component::ParentDir => self.todo.push_front(Step::Up),
                Component::Normal(name) => self.todo.push_front(Step::Down(name.to_owned())),
                Component::Prefix(_) | Component::RootDir => return Err(Error::outside(self.path)),
            }
        }
        Ok(())
    }

    fn something_at(self, name: OsString, metadata: Metadata) -> Result<Resolved, Error> {
        let found = if metadata.is_dir() {
            Found::Directory
        } else if self.wants_directory {
            let above = Inside::from_names(self.above.iter().map(|(name, _)| name.as_os_str()));
            let file = output::name(above.join(&name).spelled());
            return Err(Error::new(Kind::NotADirectory, "this is a file, not a directory")
                .at(self.path)
                .hint(format!("its path is \"{file}\", for read_file and edit_file")));
        } else if metadata.is_file() {
            Found::File(metadata)
        } else {
            Found::Special(special(&metadata))
        };
        Ok(self.finish(Vec::new(), Some(name), found))
    }

    /// `name` is not there: what is left to do are names to be made, or it is an error.
    fn nothing_at(mut self, name: OsString) -> Result<Resolved, Error> {
        let mut missing = vec![name];
        for step in std::mem::take(&mut self.todo) {
            match step {
                Step::Down(name) | Step::Said(name) => missing.push(name),
                Step::Up => {
                    return Err(Error::new(Kind::NotFound, "no such directory on the way")
                        .at(self.path)
                        .hint("a path with \"..\" needs every directory before it to exist"));
                }
            }
        }
        if self.above.len() + missing.len() > MAX_LEVELS {
            return Err(Error::new(Kind::Invalid, "the path goes too deep").at(self.path));
        }
        let last = missing.pop();
        let wants_directory = self.wants_directory;
        Ok(self.finish(missing, last, Found::Missing { wants_directory }))
    }

    fn finish(self, missing: Vec<OsString>, last: Option<OsString>, found: Found) -> Resolved {
        Resolved { root: self.root.clone(), above: self.above, missing, last, found, links: self.links }
    }
}

/// The name of a file that is no regular file, directory or link.
pub(super) fn special(metadata: &Metadata) -> &'static str {
    #[cfg(unix)]
    {
        use cap_std::fs::FileTypeExt as _;
        let kind = metadata.file_type();
        if kind.is_fifo() {
            return "a named pipe";
        } else if kind.is_socket() {
            return "a socket";
        } else if kind.is_char_device() || kind.is_block_device() {
            return "a device";
        }
    }
    if metadata.is_symlink() { "a symbolic link" } else { "not a regular file" }
}
