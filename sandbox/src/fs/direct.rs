//! Opens a file in one or a few system calls in the common cases, where the kernel keeps paths beneath a
//! handle. All other cases go to the walk of [`resolve`](super::resolve), whose errors are better too.
//!
//! Invariant: the request has plain names without a link on the way, which the kernel checks. So these names
//! are the resolved path, and the grants hold for them. A link is never followed. Its target only says which
//! other names to request, as if the model had written them.

use std::path::{Component, Path};

use cap_std::fs::{Dir, File};
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2, readlinkat};
use rustix::io::Errno;

use super::{Root, resolve};
use crate::grants::Grants;
use crate::names::Inside;
use crate::report::Resolver;
use crate::spelling;

/// Links that are looked up here for one path.
const MAX_LINKS: usize = 8;
/// Names of a path among which a link is searched here.
const MAX_NAMES: usize = 16;
/// The refusals of the kernel on the way.
const HELD: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

/// The file at `path`, which may be of any kind, or nothing where the walk has to find out.
pub(super) fn open(root: &Root, grants: &Grants, path: &str) -> Option<File> {
    let is_plain = !resolve::ends_in_directory(path) && !spelling::may_be_spelled(path);
    if root.resolver() != Resolver::Openat2 || !is_plain {
        return None;
    }
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let mut inside = below("", path)?;
    for _ in 0..=MAX_LINKS {
        // Every name on the way is checked, a link's too; what is refused, the walk says with its reason.
        grants.check_read(&inside).ok()?;
        match openat2(root.dir(), inside.as_str(), flags, Mode::empty(), HELD) {
            Ok(fd) => {
                #[expect(
                    clippy::disallowed_types,
                    reason = "a handle that exists already; no path is opened"
                )]
                let file = std::fs::File::from(fd);
                return Some(File::from_std(file));
            }
            Err(Errno::LOOP) => inside = replace_link(root.dir(), inside.as_str())?,
            Err(_) => return None,
        }
    }
    None
}

/// `path`, below the directory `from` which was reached without a link, in plain names. Nothing for a path that goes up
/// from anything but `from`: what is there may be a link.
fn below(from: &str, path: &str) -> Option<Inside> {
    let mut inside = Inside::default();
    let mut up = from;
    let mut down = false;
    for component in Path::new(path).components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir if !down && !up.is_empty() => {
                up = up.rsplit_once('/').map_or("", |(up, _)| up)
            }
            Component::Normal(name) => {
                if !down && !up.is_empty() {
                    inside.push(up);
                }
                down = true;
                inside.push(name.to_str()?);
            }
            _ => return None,
        }
    }
    Some(inside)
}

/// `path` with the first link on the way replaced by where it leads.
fn replace_link(root: &Dir, path: &str) -> Option<Inside> {
    let mut until = path;
    // The longest beginning without a link: the name after it is one.
    for _ in 0..MAX_NAMES {
        let (before, link) = until.rsplit_once('/').unwrap_or(("", until));
        let target = match before {
            "" => readlinkat(root, link, Vec::new()),
            _ => match openat2(root, before, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), HELD) {
                Err(Errno::LOOP) => {
                    until = before;
                    continue;
                }
                opened => opened.and_then(|dir| readlinkat(dir, link, Vec::new())),
            },
        };
        let target = target.ok()?.into_string().ok()?;
        if resolve::ends_in_directory(&target) {
            return None;
        }
        let mut inside = below(before, &target)?;
        if let Some(rest) = path.get(until.len() + 1..) {
            inside.push(rest);
        }
        return Some(inside);
    }
    None
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]

    use std::fs;
    use std::io::Read as _;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn plain_paths_and_links_to_them_are_opened_and_all_else_is_left_to_the_walk() {
        let outer = tempfile::tempdir().unwrap();
        let ws = outer.path().join("ws");
        fs::create_dir_all(ws.join("a/b/c")).unwrap();
        fs::write(outer.path().join("outside"), "outside").unwrap();
        for file in ["top", "a/b/c/deep", ".env"] {
            fs::write(ws.join(file), file).unwrap();
        }
        for (link, target) in [
            ("last", "a/b/c/deep"),
            ("a/b/up", "../../top"),
            ("middle", "./a/b"),
            ("chain", "a/b/up"),
            ("out", "../outside"),
            ("a/out", "../../outside"),
            ("absolute", "/etc/passwd"),
            ("secret", ".env"),
            ("through", "middle/../../top"),
            ("slash", "top/"),
            ("loop", "loop"),
            (".env.link", "top"),
        ] {
            symlink(target, ws.join(link)).unwrap();
        }
        let root = Root::open(&ws, cap_std::ambient_authority()).unwrap();
        if root.resolver() != Resolver::Openat2 {
            return;
        }
        let read = |path: &str| {
            let mut text = String::new();
            open(&root, &Grants::read_only(), path)?.read_to_string(&mut text).unwrap();
            Some(text)
        };
        for (path, content) in [
            ("top", "top"),
            ("./a//b/./c/deep", "a/b/c/deep"),
            ("last", "a/b/c/deep"),
            ("a/b/up", "top"),
            ("middle/c/deep", "a/b/c/deep"),
            ("middle/up", "top"),
            ("chain", "top"),
        ] {
            assert_eq!(read(path).as_deref(), Some(content), "{path}");
        }
        for path in [
            "out",
            "a/out",
            "middle/../out",
            "absolute",
            "secret",
            ".env",
            "through",
            "slash",
            "loop",
            ".env.link",
            "missing",
            "../outside",
            "top/",
            "last/",
            "a/../top",
        ] {
            assert_eq!(read(path), None, "{path}");
        }
    }
}
