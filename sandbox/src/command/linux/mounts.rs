//! The first step of a command: makes a list of mounts from the policy and the marks of the workspace. Pure;
//! starts nothing.
//!
//! Invariant: later mounts lie on top of earlier ones. So a closed path comes after the directory that holds
//! it.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::expected::{Expected, What};
use super::host::{self, System};
use super::landlock;
use super::outside::Outside;
use crate::command::limits::Limits;
use crate::error::{Error, Kind};
use crate::fs::Root;
use crate::fs::descend::Identity;
use crate::fs::marks::{Mark, Marked, Marks};
use crate::grants::{Grants, Scope};

/// A directory that can be written by its mount and not by Landlock's rules: the self-check tries.
pub(super) const PROBE: &str = "/run/probe";
/// The home directory inside.
pub(super) const HOME: &str = "/tmp/home";

/// One thing to be mounted or made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mount {
    /// A tree or file of the machine, read-only.
    ReadOnly { source: PathBuf, target: PathBuf },
    /// A tree of the machine that can be written.
    Writable { source: PathBuf, target: PathBuf },
    /// A link.
    Link { to: PathBuf, at: PathBuf },
    /// A file system in memory.
    Memory { target: PathBuf, bytes: u64, mode: &'static str },
    /// A directory, made empty.
    Directory(PathBuf),
    /// A file that cannot be opened, over one that is there.
    ClosedFile(PathBuf),
    /// An empty directory that cannot be entered, over one that is there.
    ClosedDirectory(PathBuf),
    /// The processes of the sandbox.
    Processes,
    /// A few harmless devices.
    Devices,
}

/// What a command sees, and what it may do with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) mounts: Vec<Mount>,
    pub(super) rules: landlock::Rules,
    /// What the stage has to find of the workspace.
    pub(super) expected: Vec<Expected>,
}

/// Lays out the sandbox of a workspace at `workspace` whose files are found under `source`. Without `around`, which only a
/// test asks for, the whole machine is shown and nothing is covered.
pub(super) fn plan(
    workspace: &Path,
    source: &Path,
    root: &Root,
    grants: &Grants,
    marks: &Marks,
    limits: &Limits,
    around: bool,
) -> Result<Plan, Error> {
    let Some(shown) = workspace.to_str() else {
        return Err(unfit("its path is not Unicode"));
    };
    if let Some(place) = host::own_places().find(|place| Path::new(place).starts_with(workspace)) {
        return Err(unfit(&format!("it holds {place}, which commands need for themselves")));
    }
    let mut plan = Plan::default();
    if !around {
        plan.mounts.push(Mount::Writable { source: "/".into(), target: "/".into() });
    }
    plan.system(limits, around);
    plan.workspace(workspace, shown, source, root, grants)?;
    if around {
        plan.marks(workspace, source, grants, marks);
    }
    Ok(plan)
}

fn unfit(why: &str) -> Error {
    Error::new(Kind::Denied, format!("commands cannot run in this workspace: {why}"))
        .hint("use another directory as the workspace; the file tools still work")
}

impl Plan {
    fn system(&mut self, limits: &Limits, around: bool) {
        for part in host::system() {
            if let System::Tree(path) = part {
                self.rules.read.push(path.to_owned());
            }
            if around {
                self.mounts.push(match part {
                    System::Tree(path) => Mount::ReadOnly { source: path.into(), target: path.into() },
                    System::Link(path, to) => Mount::Link { to, at: path.into() },
                });
            }
        }
        let bytes = limits.disk_mb.saturating_mul(1024 * 1024);
        let memory = |target: &str, bytes, mode| Mount::Memory { target: target.into(), bytes, mode };
        self.mounts.extend([
            Mount::Processes,
            Mount::ReadOnly { source: "/proc/sys".into(), target: "/proc/sys".into() },
            Mount::Devices,
            memory("/dev/shm", bytes.min(64 * 1024 * 1024), "1777"),
            memory("/tmp", bytes, "1777"),
            Mount::Directory(HOME.into()),
            memory("/run", 64 * 1024, "0755"),
            Mount::Directory(PROBE.into()),
        ]);
        self.rules.list.push("/".into());
        self.rules.read.extend(["/proc", "/etc/passwd", "/etc/group"].map(str::to_owned));
        self.rules.write.extend(["/tmp", "/dev/shm"].map(str::to_owned));
        self.rules.devices.extend(host::DEVICES.iter().map(|path| (*path).to_owned()));
    }

    /// What lies outside of the workspace and can be read, from `source`. It neither holds the workspace nor lies in it.
    pub(super) fn outside(&mut self, outside: &Outside, source: &Path, around: bool) {
        self.rules.read.extend(outside.real.to_str().map(str::to_owned));
        if !around {
            return;
        }
        self.tree(source.to_owned(), outside.real.clone(), false, outside.identity);
        // Where a link led to it; one that lies in what is mounted already leads there by itself.
        let mounted = |path: &Path| self.expected.iter().any(|other| path.starts_with(Path::new(&other.at)));
        if let Some(alias) = outside.alias.clone().filter(|alias| !mounted(alias)) {
            self.tree(source.to_owned(), alias, false, outside.identity);
        }
    }

    fn workspace(
        &mut self,
        at: &Path,
        shown: &str,
        source: &Path,
        root: &Root,
        grants: &Grants,
    ) -> Result<(), Error> {
        match &grants.read {
            Scope::Everything => {
                let writable = grants.write == Scope::Everything;
                self.tree(source.to_owned(), at.to_owned(), writable, root.identity()?);
                let rules = if writable { &mut self.rules.write } else { &mut self.rules.read };
                rules.push(shown.to_owned());
            }
            Scope::Under(directories) => {
                self.mounts.push(Mount::Directory(at.to_owned()));
                for path in directories.paths() {
                    self.part(at, source, root, path, grants.write == Scope::Everything);
                }
            }
            Scope::Nothing => self.mounts.push(Mount::Directory(at.to_owned())),
        }
        if let Scope::Under(directories) = &grants.write {
            for path in directories.paths() {
                // What may be written may be read as well: a mount cannot tell the two apart.
                if grants.read.holds_text(path) {
                    self.part(at, source, root, path, true);
                }
            }
        }
        Ok(())
    }

    /// A granted directory or file of the workspace; one that is not there, or is reached by a link, grants nothing.
    fn part(&mut self, at: &Path, source: &Path, root: &Root, path: &str, writable: bool) {
        if let Some(Mark { path, identity, .. }) = root.real(path) {
            let target = at.join(&path);
            let rules = if writable { &mut self.rules.write } else { &mut self.rules.read };
            rules.extend(target.to_str().map(str::to_owned));
            self.tree(source.join(&path), target, writable, identity);
        }
    }

    fn tree(&mut self, source: PathBuf, target: PathBuf, writable: bool, identity: Identity) {
        self.expect(&target, if writable { What::Writable(identity) } else { What::ReadOnly(identity) });
        self.mounts.push(match writable {
            true => Mount::Writable { source, target },
            false => Mount::ReadOnly { source, target },
        });
    }

    /// What the stage has to find at a place; what was mounted there before is below it.
    fn expect(&mut self, at: &Path, what: What) {
        self.expected.retain(|expected| expected.at != at.as_os_str());
        self.expected.push(Expected { at: at.into(), what });
    }

    fn marks(&mut self, at: &Path, source: &Path, grants: &Grants, marks: &Marks) {
        let visible = |path: &Path| grants.read.holds_text(&path.to_string_lossy());
        if grants.can_write() {
            for mark in marks.protected.iter().filter(|mark| visible(&mark.path)) {
                if !matches!(mark.what, Marked::Link(_)) {
                    self.tree(source.join(&mark.path), at.join(&mark.path), false, mark.identity);
                }
            }
        }
        let covers: Vec<&Mark> = marks.secret.iter().filter(|mark| visible(&mark.path)).collect();
        // What lies below a cover cannot be seen, be it covered itself or not.
        let covered: BTreeSet<&Path> = covers.iter().map(|mark| mark.path.as_path()).collect();
        let hidden = |path: &Path| path.ancestors().skip(1).any(|above| covered.contains(above));
        self.expected.retain(|expected| {
            // What lies outside of the workspace has no cover.
            let path = Path::new(&expected.at).strip_prefix(at);
            path.map_or(true, |path| !hidden(path))
        });
        for mark in covers.iter().filter(|mark| !hidden(&mark.path)) {
            let target = at.join(&mark.path);
            let (mount, what) = match mark.what {
                Marked::Directory => (Mount::ClosedDirectory(target.clone()), What::ClosedDirectory),
                _ => (Mount::ClosedFile(target.clone()), What::ClosedFile),
            };
            self.expect(&target, what);
            self.mounts.push(mount);
        }
    }

    /// The mounts as bubblewrap's arguments.
    pub(super) fn arguments(&self) -> Vec<OsString> {
        let mut out: Vec<OsString> = Vec::new();
        let mut push = |flags: &[&str], paths: &[&Path]| {
            out.extend(flags.iter().map(OsString::from));
            out.extend(paths.iter().map(OsString::from));
        };
        for mount in &self.mounts {
            match mount {
                Mount::ReadOnly { source, target } => push(&["--ro-bind"], &[source, target]),
                Mount::Writable { source, target } => push(&["--bind"], &[source, target]),
                Mount::Link { to, at } => push(&["--symlink"], &[to, at]),
                Mount::Memory { target, bytes, mode } => {
                    push(&["--size", &bytes.to_string(), "--perms", mode, "--tmpfs"], &[target]);
                }
                Mount::Directory(path) => push(&["--dir"], &[path]),
                // A device cannot be opened below a bind mount: it is there, and stays closed.
                Mount::ClosedFile(path) => push(&["--ro-bind", "/dev/null"], &[path]),
                Mount::ClosedDirectory(path) => {
                    push(&["--size", "4096", "--perms", "0000", "--tmpfs"], &[path]);
                    push(&["--remount-ro"], &[path]);
                }
                Mount::Processes => push(&["--proc", "/proc"], &[]),
                Mount::Devices => push(&["--dev", "/dev"], &[]),
            }
        }
        out
    }
}
