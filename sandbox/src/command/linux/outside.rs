//! Opens the readable paths outside of the workspace: an interpreter, or a server with its own installation.
//!
//! Invariant: a path is looked up once, and the handle is kept. A path that would open more than it says, or
//! a private one, is refused with the reason.

#![allow(clippy::disallowed_methods, reason = "absolute paths that a person has granted by name")]

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};

use super::host;
use crate::error::{Error, Kind};
use crate::fs::Root;
use crate::fs::descend::{Identity, identity};
use crate::grants::Grants;
use crate::names::Inside;

/// Places of the machine that are not for reading, nor anything in them.
const CLOSED: &[&str] = &["/boot", "/dev", "/etc", "/proc", "/run", "/sys", "/var/run", "/var/lib"];
/// Places that hold what belongs to many.
const SHARED: &[&str] =
    &["/", "/home", "/mnt", "/media", "/opt", "/root", "/srv", "/tmp", "/var", "/var/tmp"];
/// What is private in a home directory.
const PRIVATE: &[&str] = &[
    ".aws",
    ".azure",
    ".bash_history",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".config",
    ".docker",
    ".git-credentials",
    ".gnupg",
    ".kube",
    ".local/share/keyrings",
    ".local/state",
    ".mozilla",
    ".netrc",
    ".npmrc",
    ".password-store",
    ".pypirc",
    ".ssh",
    ".thunderbird",
    "Library/Keychains",
];

/// A directory or file outside of the workspace.
#[derive(Debug)]
pub(super) struct Outside {
    /// Where it is.
    pub(super) real: PathBuf,
    /// Where the policy has it, if a link leads from there.
    pub(super) alias: Option<PathBuf>,
    pub(super) identity: Identity,
    pub(super) directory: bool,
    pub(super) handle: OwnedFd,
}

/// Opens the granted `paths`; those that every command sees need nothing.
///
/// # Errors
/// [`Kind::Denied`] with the path and the reason.
pub(super) fn open(paths: &[String], root: &Root, grants: &Grants) -> Result<Vec<Outside>, Error> {
    let homes = homes();
    let workspace = root.present_path();
    let mut opened = Vec::new();
    for path in paths {
        let refuse = |why: String| {
            Error::new(Kind::Denied, format!("this cannot be granted for reading: {why}"))
                .at(path)
                .hint("name the one directory that is needed in [mcp.NAME] read")
        };
        let given: PathBuf = Path::new(path).components().collect();
        let real = given.canonicalize().map_err(|why| refuse(format!("it cannot be looked at ({why})")))?;
        if host::own_places().any(|own| own.starts_with("/usr") && real.starts_with(own)) {
            continue;
        }
        for place in [&given, &real] {
            check(place, &homes, workspace.as_deref(), grants).map_err(refuse)?;
        }
        let failed = |why: rustix::io::Errno| refuse(format!("it cannot be opened ({why})"));
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = rustix::fs::open(&real, flags, Mode::empty()).map_err(failed)?;
        let stat = rustix::fs::fstat(&handle).map_err(failed)?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        if !matches!(kind, FileType::Directory | FileType::RegularFile) {
            return Err(refuse("it is neither a directory nor a file".to_owned()));
        }
        let alias = Some(given).filter(|given| *given != real);
        let directory = kind == FileType::Directory;
        opened.push(Outside { real, alias, identity: identity(&stat), directory, handle });
    }
    // Outer ones first, so that what lies within them is mounted on top.
    opened.sort_by(|one, other| one.real.cmp(&other.real));
    Ok(opened)
}

/// The home directories of the machine, each by all the names that it is known by here: this user's first.
fn homes() -> Vec<PathBuf> {
    let own = std::env::home_dir().filter(|home| home.is_absolute());
    let others = std::fs::read_dir("/home").into_iter().flatten().flatten().map(|entry| entry.path());
    both(own.into_iter().chain(["/root".into()]).chain(others))
}

/// Paths, and what they lead to.
fn both(paths: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    paths.flat_map(|path| [path.canonicalize().ok(), Some(path)]).flatten().collect()
}

/// Whether a path may be granted; why not.
fn check(path: &Path, homes: &[PathBuf], workspace: Option<&Path>, grants: &Grants) -> Result<(), String> {
    let holds = |inner: &Path| inner.starts_with(path);
    if path.to_str().is_none() {
        return Err("its path is not Unicode".to_owned());
    }
    if SHARED.iter().any(|place| Path::new(place) == path) || path.parent() == Some(Path::new("/home")) {
        return Err("it holds what belongs to everybody, or all that a user has".to_owned());
    }
    if let Some(place) = CLOSED.iter().find(|place| path.starts_with(place) || holds(Path::new(place))) {
        return Err(format!("{place} is the machine's own"));
    }
    if let Some(workspace) = workspace {
        if holds(workspace) {
            return Err("it holds the workspace, with what is closed there".to_owned());
        }
        if path.starts_with(workspace) {
            return Err("it lies in the workspace: [fs] read says what of that can be read".to_owned());
        }
    }
    // Also a home directory that cannot be listed.
    let below = path.strip_prefix("/home").ok().and_then(|rest| rest.iter().next());
    let listed = below.map(|name| Path::new("/home").join(name));
    for home in homes.iter().chain(&listed) {
        if holds(home) {
            return Err("it is the home directory, or holds it".to_owned());
        }
        let private = PRIVATE.iter().find(|private| {
            let private = home.join(private);
            let real = private.canonicalize().ok();
            [Some(private), real].iter().flatten().any(|place| path.starts_with(place) || holds(place))
        });
        if let Some(private) = private {
            return Err(format!("it would open ~/{private}, which is private"));
        }
    }
    let mut inside = Inside::default();
    for name in path.iter().skip(1).filter_map(|name| name.to_str()) {
        inside.push(name);
    }
    match grants.deny_read.matching(&inside) {
        Some(pattern) => Err(format!("deny_read closes it ({pattern})")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn what_would_open_more_than_an_interpreter_is_refused() {
        let (homes, workspace) =
            (["/home/ada", "/root"].map(PathBuf::from), Path::new("/home/ada/work/notes"));
        let said = |path: &str| check(Path::new(path), &homes, Some(workspace), &Grants::read_only()).err();
        for fine in [
            "/home/ada/.nvm/versions/node/v22.1.0",
            "/home/ada/.pyenv",
            "/home/ada/.local/share/uv/python/cpython-3.12",
            "/home/ada/.local/share/toolgate/mcp/everything",
            "/home/ada/work/other",
            "/opt/node",
        ] {
            assert_eq!(said(fine), None, "{fine}");
        }
        for (path, why) in [
            ("/", "everybody"),
            ("/home", "everybody"),
            ("/home/ada", "all that a user has"),
            ("/home/bob", "all that a user has"),
            ("/root", "everybody"),
            ("/tmp", "everybody"),
            ("/etc", "/etc is"),
            ("/etc/ssl/private", "/etc is"),
            ("/proc/1", "/proc is"),
            ("/var/lib/mysql", "/var/lib is"),
            ("/home/ada/work", "holds the workspace"),
            ("/home/ada/work/notes", "workspace"),
            ("/home/ada/work/notes/tools", "lies in the workspace"),
            ("/home/ada/.ssh", "~/.ssh"),
            ("/home/ada/.ssh/config", "~/.ssh"),
            ("/home/bob/.ssh", "~/.ssh"),
            ("/root/.aws/credentials", "~/.aws"),
            ("/home/ada/.config/gh", "~/.config"),
            ("/home/ada/.cargo", "~/.cargo/credentials"),
            ("/home/ada/.local", "~/.local/share/keyrings"),
            ("/home/ada/.local/share", "~/.local/share/keyrings"),
            ("/opt/app/.env", "deny_read"),
            ("/opt/app/key.pem", "deny_read"),
        ] {
            let told = said(path).unwrap_or_default();
            assert!(told.contains(why), "{path}: {told:?}");
        }
    }

    #[test]
    fn a_home_directory_is_closed_by_the_name_of_its_link_and_by_its_own() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path().canonicalize().unwrap();
        let (real, link) = (base.join("data/ada"), base.join("ada"));
        std::fs::create_dir_all(real.join("tools")).unwrap();
        std::fs::create_dir_all(base.join("keys")).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        std::os::unix::fs::symlink(base.join("keys"), real.join(".ssh")).unwrap();
        let homes = both([link.clone()].into_iter());
        let said = |path: &Path| check(path, &homes, None, &Grants::read_only()).err();
        assert_eq!(said(&real.join("tools")), None);
        for home in [&real, &link] {
            assert!(said(home).unwrap().contains("home directory"), "{}", home.display());
            assert!(said(&home.join(".aws")).unwrap().contains("~/.aws"), "{}", home.display());
        }
        assert!(said(&base.join("keys")).unwrap().contains("~/.ssh"));
    }
}
