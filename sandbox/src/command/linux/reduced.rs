//! The reduced tier: Landlock and the filter, without namespaces. No mount can cover closed and protected
//! paths, so the rules go around them.
//!
//! Invariant: a rule of Landlock holds for everything below its path. So a directory with a closed or
//! protected path at any depth gets no rule, and each of its entries gets one. Nobody can then make or remove
//! entries in that directory.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::path::{Path, PathBuf};

use super::host::{self, System};
use super::landlock::{Access, Rules};
use crate::command::scratch::Scratch;
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
