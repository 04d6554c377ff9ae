//! The reduced tier: Landlock and the filter, without namespaces. No mount can cover closed and protected
//! paths, so the rules go around them.
//!
//! Invariant: a rule of Landlock holds for everything below its path. So a directory with a closed or
//! protected path at any depth gets no rule, and each of its entries gets one. Nobody can then make or remove
//! entries in that directory.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the private directory of one command"
)]

use std::collections::BTreeSet;
use std::ops::Bound;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use cap_std::ambient_authority;

use super::could_not_start;
use super::host::{self, System};
use super::landlock::{Access, Rules};
use crate::error::{Error, Kind};
use crate::fs::Root;
use crate::fs::marks::{Marked, Marks};
use crate::grants::{Grants, Scope};

/// What the reduced tier does not hold, for reports.
pub(super) const HOLES: [&str; 6] = [
    "names, sizes, times and links of files outside can be seen; their contents cannot be read or written",
    "permission bits, owners, times and extended attributes of this user's files can be changed anywhere",
    "names in closed directories can be listed",
    "the network is closed by the filter alone",
    "processes in total are counted with this user's others, and are ended by a process of ours instead of the kernel",
    "the host name, and which processes there are, can be seen",
];

/// The kernel's rules are not made for more.
const MAX_RULES: usize = 20_000;

/// Of `/proc`, what programs ask of the machine, and the stage of itself: not its network, which is the machine's.
const PROC: &[&str] = &[
    "/proc/self/status",
    "/proc/self/fd",
    "/proc/cpuinfo",
    "/proc/filesystems",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/uptime",
    "/proc/version",
    "/proc/sys/kernel/ostype",
    "/proc/sys/kernel/osrelease",
    "/proc/sys/vm/overcommit_memory",
];

/// A private directory for the temporary files of one command, removed with it.
#[derive(Debug)]
pub(super) struct Scratch {
    base: PathBuf,
    shown: [String; 3],
    /// It as a workspace, for its size to be watched.
    pub(super) root: Root,
}

impl Scratch {
    /// Makes one.
    pub(super) fn new() -> Result<Self, Error> {
        let base = private_directory().map_err(could_not_start)?;
        let below = ["tmp", "probe", "tmp/home"].map(|name| base.join(name));
        for directory in &below {
            std::fs::create_dir(directory).map_err(could_not_start)?;
        }
        let shown = below.map(|path| path.to_str().map(str::to_owned));
        let [Some(temporary), Some(probe), Some(home)] = shown else {
            return Err(Error::new(Kind::Failed, "the path of temporary files is not Unicode"));
        };
        let root = Root::open(&base, ambient_authority())?;
        Ok(Self { base, shown: [temporary, probe, home], root })
    }

    pub(super) fn temporary(&self) -> &str {
        &self.shown[0]
    }

    /// Where nothing can be made by Landlock's rules, though this user might: the self-check tries.
    pub(super) fn probe(&self) -> &str {
        &self.shown[1]
    }

    pub(super) fn home(&self) -> &str {
        &self.shown[2]
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if std::fs::remove_dir_all(&self.base).is_err() {
            // Directories that the command has closed to its own user.
            open_up(&self.base);
            let _ = std::fs::remove_dir_all(&self.base);
        }
    }
}

fn private_directory() -> std::io::Result<PathBuf> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let mut tries = 0;
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("toolgate-{}-{number}", std::process::id()));
        match std::fs::DirBuilder::new().mode(0o700).create(&path) {
            // Left by a process of the same number that was killed, or somebody's guess.
            Err(why) if why.kind() == std::io::ErrorKind::AlreadyExists && tries < 1_000 => tries += 1,
            made => return made.map(|()| path),
        }
    }
}

fn open_up(directory: &Path) {
    let _ = std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o700));
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}

/// Landlock's rules for a command in the workspace `root`.
pub(super) fn rules(root: &Root, grants: &Grants, marks: &Marks, scratch: &Scratch) -> Result<Rules, Error> {
    let mut rules = Rules::default();
    for part in host::system() {
        let (System::Tree(path) | System::Link(path, _)) = part;
        rules.read.push(path.to_owned());
    }
    rules.read.extend(PROC.iter().map(|path| (*path).to_owned()));
    rules.write.push(scratch.temporary().to_owned());
    rules.devices.extend(host::DEVICES.iter().map(|path| (*path).to_owned()));
    let paths = |marks: &[crate::fs::marks::Mark]| marks.iter().map(|mark| mark.path.clone()).collect();
    let (secret, protected) = (paths(&marks.secret), paths(&marks.protected));
    let mut around = Around { root, secret, protected, rules };
    let everything = grants.write == Scope::Everything;
    match &grants.read {
        Scope::Everything => around.grant(Path::new(""), true, everything)?,
        Scope::Under(directories) => {
            for path in directories.paths() {
                around.part(path, everything)?;
            }
        }
        Scope::Nothing => {}
    }
    if let Scope::Under(directories) = &grants.write {
        for path in directories.paths().filter(|path| grants.read.holds_text(path)) {
            around.part(path, true)?;
        }
    }
    Ok(around.rules)
}

struct Around<'a> {
    root: &'a Root,
    secret: BTreeSet<PathBuf>,
    protected: BTreeSet<PathBuf>,
    rules: Rules,
}

impl Around<'_> {
    /// A granted directory or file; one that is not there, or is reached by a link, grants nothing.
    fn part(&mut self, path: &str, writable: bool) -> Result<(), Error> {
        match self.root.real(path) {
            Some(real) => self.grant(&real.path, real.what == Marked::Directory, writable),
            None => Ok(()),
        }
    }

    /// Grants `path`, or what of it is neither closed nor protected.
    fn grant(&mut self, path: &Path, directory: bool, writable: bool) -> Result<(), Error> {
        if self.secret.contains(path) {
            return Ok(());
        }
        let Some(shown) = path.to_str() else { return Ok(()) };
        let writable = writable && !self.protected.contains(path);
        let secrets = holds(&self.secret, path);
        let below = &mut self.rules.workspace;
        if below.len() > MAX_RULES {
            return Err(Error::new(Kind::Limit, "too many files lie beside closed or protected ones")
                .hint("use a smaller directory as the workspace; the file tools still work"));
        }
        if !directory || !(secrets || writable && holds(&self.protected, path)) {
            let access = if writable { Access::Write } else { Access::Read };
            below.push((shown.to_owned(), access));
            return Ok(());
        }
        let access = if secrets { Access::List } else { Access::Read };
        below.push((shown.to_owned(), access));
        for (name, directory) in self.root.names(path) {
            self.grant(&path.join(name), directory, writable)?;
        }
        Ok(())
    }
}

/// Whether one of `paths` is `path` or lies below it.
fn holds(paths: &BTreeSet<PathBuf>, path: &Path) -> bool {
    let from = (Bound::Included(path), Bound::Unbounded);
    paths.range::<Path, _>(from).next().is_some_and(|next| next.starts_with(path))
}
