//! The paths that a call may use. The grants are a value that is passed down with the call, and whoever holds
//! that value can only narrow it.
//!
//! Invariant: a path that was not granted is denied, and `a.narrow(b)` allows a path exactly if both allow
//! it.

use crate::error::{Error, Kind};
use crate::limits::FileLimits;
use crate::names::Inside;
use crate::patterns::Patterns;
use crate::protect::Protected;

/// The paths that file operations may read and write, the exceptions among them, and the bounds.
///
/// The default grants nothing.
///
/// ```
/// use toolgate_sandbox::{Grants, Scope};
/// let notes = Grants { write: Scope::under(["notes"])?, ..Grants::read_write() };
/// assert!(notes.can_write());
/// let narrowed = notes.narrow(&Grants::read_only());
/// assert!(narrowed.can_read() && !narrowed.can_write());
/// # Ok::<(), toolgate_sandbox::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Grants {
    /// The paths that may be read, listed and searched.
    pub read: Scope,
    /// The paths that may be created and changed.
    pub write: Scope,
    /// Paths in scope that may be neither read nor changed. Default `**/.env*`, `**/*.pem`.
    pub deny_read: Patterns,
    /// Paths in scope that may be read and not changed. Default `@vcs`, `@autoexec`.
    pub protect: Patterns,
    /// The bounds of every operation.
    pub limits: FileLimits,
}

impl Default for Grants {
    fn default() -> Self {
        Self {
            read: Scope::Nothing,
            write: Scope::Nothing,
            deny_read: Patterns::secrets(),
            protect: Patterns::protected(),
            limits: FileLimits::default(),
        }
    }
}

impl Grants {
    /// Grants that allow to read the whole workspace, secrets excepted.
    pub fn read_only() -> Self {
        Self { read: Scope::Everything, ..Self::default() }
    }

    /// Grants that allow to read and write the whole workspace. Secrets are excepted, and protected files
    /// cannot be written.
    pub fn read_write() -> Self {
        Self { write: Scope::Everything, ..Self::read_only() }
    }

    /// The paths that both grants allow, under the tighter bounds.
    #[must_use]
    pub fn narrow(&self, other: &Self) -> Self {
        Self {
            read: self.read.intersect(&other.read),
            write: self.write.intersect(&other.write),
            deny_read: self.deny_read.union(&other.deny_read),
            protect: self.protect.union(&other.protect),
            limits: self.limits.min(&other.limits),
        }
    }

    /// Whether any path may be read.
    pub fn can_read(&self) -> bool {
        self.read != Scope::Nothing
    }

    /// Whether any path may be written.
    pub fn can_write(&self) -> bool {
        self.write != Scope::Nothing
    }

    /// Whether the resolved `path` may be read.
    pub(crate) fn check_read(&self, path: &Inside) -> Result<(), Error> {
        self.read.check(path, "reading")?;
        self.check_secret(path)
    }

    /// Whether the resolved `path` may be created or changed.
    pub(crate) fn check_write(&self, path: &Inside) -> Result<(), Error> {
        self.write.check(path, "writing")?;
        self.check_secret(path)?;
        self.check_protected(path)
    }

    /// The protected paths.
    pub(crate) fn protected(&self) -> Protected {
        Protected::from(self)
    }

    /// Whether `path` is protected: other programs obey such files later.
    pub(crate) fn check_protected(&self, path: &Inside) -> Result<(), Error> {
        match self.protected().path(path) {
            None => Ok(()),
            Some(why) => Err(Error::new(Kind::Denied, format!("this path is protected ({why})"))
                .at(path.shown())
                .hint("it can be read but not changed; leave it as it is")),
        }
    }

    /// Whether `path` holds a secret. A model cannot see such a file, so it may not replace that file blindly
    /// either.
    pub(crate) fn check_secret(&self, path: &Inside) -> Result<(), Error> {
        match self.deny_read.matching(path) {
            None => Ok(()),
            Some(pattern) => {
                Err(Error::new(Kind::Denied, format!("the policy keeps this file closed ({pattern})"))
                    .at(path.shown())
                    .hint("do without it"))
            }
        }
    }
}

/// A part of the workspace.
///
/// ```
/// use toolgate_sandbox::Scope;
/// let (parts, deeper) = (Scope::under(["docs", "src"])?, Scope::under(["docs/api"])?);
/// assert_eq!(parts.intersect(&deeper), deeper);
/// assert_eq!(parts.intersect(&Scope::under(["tests"])?), Scope::Nothing);
/// assert!(Scope::under(["../other"]).is_err());
/// # Ok::<(), toolgate_sandbox::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scope {
    /// No path.
    Nothing,
    /// Some directories and all paths below them. [`Scope::under`] makes this.
    #[non_exhaustive]
    Under(Directories),
    /// The whole workspace.
    Everything,
}

/// The directories of a [`Scope::Under`], relative to the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directories(Vec<Inside>);

impl Directories {
    /// Their paths, relative to the workspace.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(Inside::as_str)
    }
}

impl Scope {
    /// The named directories or files, relative to the workspace. The names are the real ones: a link leads
    /// nowhere else. `.` is the whole workspace.
    ///
    /// # Errors
    /// [`Kind::Invalid`] for an absolute path and for a path with `..`.
    pub fn under<S: AsRef<str>>(directories: impl IntoIterator<Item = S>) -> Result<Self, Error> {
        let mut scope = Vec::new();
        for directory in directories {
            let text = directory.as_ref();
            if text.is_empty()
                || text.starts_with('/')
                || text.contains('\0')
                || text.split('/').any(|p| p == "..")
            {
                return Err(Error::new(Kind::Invalid, "a granted directory is relative to the workspace")
                    .at(text)
                    .hint("write it like \"notes\" or \"src/docs\""));
            }
            let mut inside = Inside::default();
            text.split('/')
                .filter(|name| !name.is_empty() && *name != ".")
                .for_each(|name| inside.push(name));
            if inside.as_str().is_empty() {
                return Ok(Self::Everything);
            }
            scope.push(inside);
        }
        Ok(Self::of(scope))
    }

    /// The paths in both scopes.
    #[must_use]
    pub fn intersect(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::Nothing, _) | (_, Self::Nothing) => Self::Nothing,
            (Self::Everything, scope) | (scope, Self::Everything) => scope.clone(),
            (Self::Under(a), Self::Under(b)) => {
                let in_b = a.0.iter().filter(|x| b.0.iter().any(|y| x.is_under(y)));
                let in_a = b.0.iter().filter(|y| a.0.iter().any(|x| y.is_under(x)));
                Self::of(in_b.chain(in_a).cloned().collect())
            }
        }
    }

    /// Whether the resolved path, relative to the workspace, is in scope.
    pub(crate) fn holds(&self, path: &Inside) -> bool {
        match self {
            Self::Nothing => false,
            Self::Everything => true,
            Self::Under(directories) => directories.0.iter().any(|directory| path.is_under(directory)),
        }
    }

    /// Whether the path, relative to the workspace and without links, is in scope.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only commands on Linux ask"))]
    pub(crate) fn holds_text(&self, path: &str) -> bool {
        let mut inside = Inside::default();
        path.split('/').filter(|name| !name.is_empty()).for_each(|name| inside.push(name));
        self.holds(&inside)
    }

    fn of(mut directories: Vec<Inside>) -> Self {
        directories.sort_by(|a, b| a.as_str().cmp(b.as_str()));
        directories.dedup();
        if directories.is_empty() { Self::Nothing } else { Self::Under(Directories(directories)) }
    }

    fn check(&self, path: &Inside, doing: &str) -> Result<(), Error> {
        if self.holds(path) {
            return Ok(());
        }
        let denied = Error::new(Kind::Denied, format!("{doing} is not granted here")).at(path.shown());
        Err(match self {
            Self::Under(directories) => {
                let names: Vec<String> =
                    directories.0.iter().map(|d| format!("\"{}/\"", d.as_str())).collect();
                denied.hint(format!("it is granted under {}", names.join(", ")))
            }
            _ => denied.hint(format!("{doing} is not granted anywhere in this run")),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use proptest::prelude::*;

    use super::*;

    fn inside(path: &str) -> Inside {
        let mut inside = Inside::default();
        path.split('/').filter(|name| !name.is_empty()).for_each(|name| inside.push(name));
        inside
    }

    #[test]
    fn nothing_is_granted_by_default() {
        let none = Grants::default();
        assert!(none.check_read(&inside("a")).is_err() && none.check_write(&inside("a")).is_err());
        assert!(Grants::read_only().check_read(&inside("a")).is_ok());
        assert!(Grants::read_only().check_write(&inside("a")).is_err());
        assert!(Grants::read_write().check_write(&inside("a")).is_ok());
    }

    #[test]
    fn protected_files_are_read_and_not_written() {
        let grants = Grants::read_write();
        assert!(grants.check_read(&inside(".git/config")).is_ok());
        assert_eq!(grants.check_write(&inside(".git/config")).unwrap_err().kind(), Kind::Denied);
        assert!(grants.check_write(&inside(".gitignore")).is_ok());
    }

    #[test]
    fn secrets_are_neither_read_nor_replaced() {
        let grants = Grants::read_write();
        for path in [".env", "a/server.pem"] {
            assert!(grants.check_read(&inside(path)).is_err() && grants.check_write(&inside(path)).is_err());
        }
    }

    #[test]
    fn a_scope_names_where_it_is_granted() {
        let grants = Grants { read: Scope::under(["notes", "docs/api/"]).unwrap(), ..Grants::default() };
        assert!(grants.check_read(&inside("docs/api/x.md")).is_ok());
        let error = grants.check_read(&inside("docs/x.md")).unwrap_err();
        assert!(error.to_string().contains("\"docs/api/\", \"notes/\""), "{error}");
        assert!(Scope::under(["../x"]).is_err() && Scope::under(["/etc"]).is_err());
        assert_eq!(Scope::under(["./"]).unwrap(), Scope::Everything);
    }

    fn scope() -> impl Strategy<Value = Scope> {
        let name = prop::sample::select(vec!["a", "b", "a/b", "a/b/c", "b/a", "ab"]);
        prop_oneof![
            Just(Scope::Nothing),
            Just(Scope::Everything),
            prop::collection::vec(name, 1..4).prop_map(|names| Scope::under(names).unwrap()),
        ]
    }

    fn grants() -> impl Strategy<Value = Grants> {
        let patterns = prop::collection::vec(prop::sample::select(vec!["a", "b/**", "**/c", "ab"]), 0..3);
        (scope(), scope(), patterns.clone(), patterns).prop_map(|(read, write, deny, protect)| Grants {
            read,
            write,
            deny_read: Patterns::new(deny).unwrap(),
            protect: Patterns::new(protect).unwrap(),
            limits: FileLimits::default(),
        })
    }

    proptest! {
        #[test]
        fn a_child_allows_exactly_what_both_allow(
            a in grants(),
            b in grants(),
            path in prop::sample::select(vec!["", "a", "b", "a/b", "a/b/c", "a/b/c/d", "b/a", "ab", "ab/c", "x"]),
        ) {
            let path = inside(path);
            let child = a.narrow(&b);
            prop_assert_eq!(child.check_read(&path).is_ok(), a.check_read(&path).is_ok() && b.check_read(&path).is_ok());
            prop_assert_eq!(child.check_write(&path).is_ok(), a.check_write(&path).is_ok() && b.check_write(&path).is_ok());
        }
    }
}
