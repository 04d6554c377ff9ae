//! The protected paths: names that may not be created, and content that may not be changed. File tools,
//! components, the mounts of a command, the broker beside it and the sweep after it all ask here.
//!
//! Invariant: the question about a path uses its real names, or the names of a link on the way to it. A path
//! below a protected one is protected too.

use std::collections::BTreeSet;
use std::ffi::OsStr;

use crate::grants::Grants;
use crate::names::{Inside, Trail, fold, lossy};
use crate::patterns::Patterns;

/// The protected paths of a workspace.
#[derive(Clone, Debug)]
pub(crate) struct Protected {
    patterns: Patterns,
    /// Whether directories may not become repositories, and repositories may not change.
    repositories: bool,
    /// Paths that protected links lead to, folded.
    led_to: BTreeSet<String>,
}

/// The reason for a path that a protected link leads to.
const LED_TO: &str = "a protected link leads to it";

impl From<&Grants> for Protected {
    fn from(grants: &Grants) -> Self {
        Self::new(grants.protect.clone())
    }
}

impl Protected {
    /// The paths that `patterns` cover. Where the patterns name `@vcs`, also the directories that git takes
    /// for repositories.
    pub(crate) fn new(patterns: Patterns) -> Self {
        let repositories = patterns.sources().any(|source| source == "@vcs");
        Self { patterns, repositories, led_to: BTreeSet::new() }
    }

    /// The same with the targets of protected links.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only commands on Linux ask"))]
    pub(crate) fn with_led_to<'a>(mut self, paths: impl IntoIterator<Item = &'a Inside>) -> Self {
        self.led_to.extend(paths.into_iter().map(|path| Trail::of(path).folded().into_owned()));
        self
    }

    /// The reason that `path` or a directory above it is protected.
    pub(crate) fn path(&self, path: &Inside) -> Option<&str> {
        Trail::first(path, |trail| self.at(trail))
    }

    /// The reason that `path` itself is protected, whatever lies above it.
    pub(crate) fn at(&self, path: &Trail) -> Option<&str> {
        let led_to = || self.led_to.contains(path.folded().as_ref()).then_some(LED_TO);
        self.patterns.at(path).or_else(led_to)
    }

    /// Whether a path below the directory `path` could be protected. The directory itself is not.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only commands on Linux ask"))]
    pub(crate) fn may_be_below(&self, path: &Inside) -> bool {
        let below = || {
            let path = format!("{}/", Trail::of(path).folded());
            self.led_to.range(path.clone()..).next().is_some_and(|led_to| led_to.starts_with(&path))
        };
        self.patterns.may_cover_below(path) || below()
    }

    /// Whether a directory is a repository, or would be one with an entry `name`, where that counts. `has` says whether it
    /// has an entry; what it cannot tell it should say to be there.
    pub(crate) fn is_repository(&self, name: Option<&OsStr>, has: impl Fn(&str) -> bool) -> bool {
        self.repositories && is_repository(name, has)
    }
}

/// Whether a name is one by which git knows a repository.
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only commands on Linux ask"))]
pub(crate) fn is_part_of_repository(name: &OsStr) -> bool {
    let name = fold(&lossy(name));
    PARTS.iter().any(|part| name == part.to_ascii_lowercase())
}

/// The entries by which git knows a repository: `HEAD`, with `objects` and `refs` beside it, or with
/// `commondir`, which names their place. Git then obeys a `config` there or in that place, and that file may
/// name commands.
const PARTS: [&str; 4] = ["HEAD", "objects", "refs", "commondir"];

/// Whether git takes a directory for a repository, or would with an entry `name`. What it has is for the file system to say,
/// which may take names for the same that are written differently.
fn is_repository(name: Option<&OsStr>, has: impl Fn(&str) -> bool) -> bool {
    let name = name.map(|name| fold(&lossy(name)));
    let has = |part: &str| name.as_deref() == Some(part.to_ascii_lowercase().as_str()) || has(part);
    let [head, objects, refs, elsewhere] = PARTS;
    has(head) && (has(elsewhere) || has(objects) && has(refs))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn inside(path: &str) -> Inside {
        Inside::from_names(path.split('/').map(OsStr::new))
    }

    #[test]
    fn what_links_lead_to_is_protected_with_all_below_it() {
        let led_to = [inside("dot/BashRC"), inside("shared")];
        let protected = Protected::new(Patterns::none()).with_led_to(&led_to);
        for path in ["dot/bashrc", "dot/bashrc/x", "Shared", "shared/tasks.json"] {
            assert_eq!(protected.path(&inside(path)), Some(LED_TO), "{path}");
        }
        for path in ["dot", "dot/bashrc2", "shared2", "x/shared"] {
            assert_eq!(protected.path(&inside(path)), None, "{path}");
        }
        assert!(protected.may_be_below(&inside("dot")) && !protected.may_be_below(&inside("do")));
    }

    #[test]
    fn a_directory_is_a_repository_by_what_git_knows_one_by() {
        let protected = Protected::new(Patterns::protected());
        for (there, name, is) in [
            (&["HEAD", "objects", "refs"][..], None, true),
            (&["objects", "refs"], Some("head"), true),
            (&["objects", "refs"], Some("Head."), true),
            (&["objects", "refs"], Some("HEADER"), false),
            (&["HEAD"], Some("commondir"), true),
            (&["HEAD", "objects"], None, false),
            (&["commondir", "objects", "refs"], None, false),
            (&[], Some("HEAD"), false),
        ] {
            let has = |part: &str| there.contains(&part);
            assert_eq!(protected.is_repository(name.map(OsStr::new), has), is, "{there:?} {name:?}");
            assert!(!Protected::new(Patterns::none()).is_repository(name.map(OsStr::new), has));
        }
        assert!(is_part_of_repository(OsStr::new("Refs")) && !is_part_of_repository(OsStr::new("config")));
    }
}
