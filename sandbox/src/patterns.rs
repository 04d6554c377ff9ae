//! Sets of path patterns that refuse: what may not be read, what may not be changed.
//!
//! Invariant: a path matches if it, or any directory above it, does, under every spelling that
//! [`names`](crate::names) folds together.

use std::collections::BTreeSet;
use std::sync::Arc;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::error::{Error, Kind};
use crate::names::{self, Inside};

/// `@vcs`: what a version-control program obeys. Its hooks and configuration run commands.
const VCS: &[&str] = &[
    ".git",
    "git~1",
    ".gitmodules",
    ".gitconfig",
    ".hg",
    ".hgrc",
    ".svn",
    ".jj",
    ".bzr",
    ".husky",
    ".githooks",
];

/// `@autoexec`: what a shell, an editor, a debugger or an agent runs or obeys when it starts in the
/// directory, and this runtime's own files.
const AUTOEXEC: &[&str] = &[
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".profile",
    ".login",
    ".logout",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".kshrc",
    ".cshrc",
    ".tcshrc",
    ".inputrc",
    ".envrc",
    ".config/fish",
    ".xprofile",
    ".xinitrc",
    ".xsession",
    ".xsessionrc",
    ".pam_environment",
    ".tmux.conf",
    ".screenrc",
    ".ssh",
    ".vscode",
    ".idea",
    ".zed",
    ".fleet",
    ".devcontainer",
    ".vim",
    ".vimrc",
    ".gvimrc",
    ".exrc",
    ".nvimrc",
    ".nvim.lua",
    ".ideavimrc",
    ".emacs",
    ".emacs.d",
    ".dir-locals.el",
    ".dir-locals-2.el",
    ".gdbinit",
    ".lldbinit",
    ".ripgreprc",
    ".mcp.json",
    ".claude",
    ".cursor",
    ".codex",
    ".agents",
    ".gemini",
    ".toolgate",
    ".toolgate.toml",
    "toolgate.toml",
];

/// What `deny_read` holds by default: files that are there to keep secrets.
const SECRETS: &[&str] = &["**/.env*", "**/*.pem"];

/// A set of path patterns, cheap to clone.
///
/// A pattern is a glob relative to the workspace (`*` and `?` stay within a component, `**` crosses them);
/// one without a slash matches at any depth. `@vcs` and `@autoexec` stand for built-in lists. What matches a
/// directory covers everything below it. Case, Unicode forms and invisible characters make no difference.
///
/// ```
/// use toolgate_sandbox::Patterns;
/// let secrets = Patterns::new(["**/.env*", "keys/**"])?;
/// assert!(secrets.covers("service/.ENV.local") && secrets.covers("keys/a/b"));
/// assert!(!secrets.covers("service/environment.md"));
/// assert!(secrets.union(&Patterns::new(["*.md"])?).covers("service/environment.md"));
/// # Ok::<(), toolgate_sandbox::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Patterns(Arc<Set>);

#[derive(Debug)]
struct Set {
    sources: BTreeSet<String>,
    globs: Vec<String>,
    set: Matcher,
}

#[derive(Debug)]
enum Matcher {
    Globs(GlobSet),
    /// Fails closed: stands where a set could not be built.
    Everything,
}

impl Patterns {
    /// A set of `patterns`.
    ///
    /// # Errors
    /// [`Kind::Invalid`] for a pattern that does not parse, names an unknown list, or is absolute.
    pub fn new<S: AsRef<str>>(patterns: impl IntoIterator<Item = S>) -> Result<Self, Error> {
        let sources: BTreeSet<String> = patterns.into_iter().map(|p| p.as_ref().to_owned()).collect();
        let mut globs = Vec::new();
        for source in &sources {
            expand(source, &mut globs)?;
        }
        let mut set = GlobSetBuilder::new();
        for glob in &globs {
            let built = GlobBuilder::new(glob).literal_separator(true).build().map_err(|error| {
                Error::new(Kind::Invalid, format!("bad pattern ({})", error.kind())).at(glob)
            })?;
            set.add(built);
        }
        let set = set.build().map_err(|error| Error::new(Kind::Invalid, error.kind().to_string()))?;
        Ok(Self(Arc::new(Set { sources, globs, set: Matcher::Globs(set) })))
    }

    /// The set that matches nothing.
    pub fn none() -> Self {
        Self::or_everything(&[])
    }

    /// What may not be read by default: `**/.env*` and `**/*.pem`.
    pub fn secrets() -> Self {
        Self::or_everything(SECRETS)
    }

    /// What may not be changed by default: `@vcs` and `@autoexec`.
    pub fn protected() -> Self {
        Self::or_everything(&["@vcs", "@autoexec"])
    }

    /// The patterns of both sets.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        if other.0.sources.is_subset(&self.0.sources) && matches!(other.0.set, Matcher::Globs(_)) {
            return self.clone();
        }
        let all: Vec<&str> = self.sources().chain(other.sources()).collect();
        match (&self.0.set, &other.0.set) {
            (Matcher::Globs(_), Matcher::Globs(_)) => Self::or_everything(&all),
            _ => Self::everything(),
        }
    }

    /// The patterns as they were given, sorted.
    pub fn sources(&self) -> impl Iterator<Item = &str> {
        self.0.sources.iter().map(String::as_str)
    }

    /// The globs they stand for, with lists written out; one that covers everything if the set could not be built.
    pub(crate) fn globs(&self) -> impl Iterator<Item = &str> {
        let everything = matches!(self.0.set, Matcher::Everything).then_some("**");
        self.0.globs.iter().map(String::as_str).chain(everything)
    }

    /// Whether the path, relative to the workspace and with `/` between names, is covered.
    pub fn covers(&self, path: &str) -> bool {
        let mut inside = Inside::default();
        for name in path.split('/').filter(|name| !name.is_empty() && *name != ".") {
            inside.push(name);
        }
        self.matching(&inside).is_some()
    }

    /// The pattern that covers `path`, if one does.
    pub(crate) fn matching(&self, path: &Inside) -> Option<&str> {
        let set = match &self.0.set {
            Matcher::Everything => return Some("**"),
            Matcher::Globs(set) if set.is_empty() || path.as_str().is_empty() => return None,
            Matcher::Globs(set) => set,
        };
        let mut folded = String::with_capacity(path.as_str().len());
        for name in path.as_str().split('/') {
            if !folded.is_empty() {
                folded.push('/');
            }
            names::push_folded(&mut folded, name);
            // Which one it is costs a list; that there is one does not.
            if set.is_match(&folded) {
                let index = set.matches(&folded).first().copied();
                return Some(index.and_then(|index| self.0.globs.get(index)).map_or("**", String::as_str));
            }
        }
        None
    }

    fn everything() -> Self {
        let sources = BTreeSet::from(["**".to_owned()]);
        Self(Arc::new(Set { sources, globs: Vec::new(), set: Matcher::Everything }))
    }

    fn or_everything(patterns: &[&str]) -> Self {
        Self::new(patterns).unwrap_or_else(|_| Self::everything())
    }
}

fn expand(source: &str, globs: &mut Vec<String>) -> Result<(), Error> {
    let list = match source {
        "@vcs" => VCS,
        "@autoexec" => AUTOEXEC,
        _ if source.starts_with('@') => {
            return Err(Error::new(Kind::Invalid, "unknown list of patterns")
                .at(source)
                .hint("the lists are @vcs and @autoexec"));
        }
        _ if source.is_empty() || source.starts_with('/') || source.split('/').any(|part| part == "..") => {
            return Err(Error::new(Kind::Invalid, "a pattern is relative to the workspace, without \"..\"")
                .at(source)
                .hint("write it like \"**/*.pem\" or \"secrets/**\""));
        }
        _ => &[source],
    };
    for pattern in list {
        let pattern = names::fold_text(pattern.strip_prefix("./").unwrap_or(pattern));
        let pattern = pattern.strip_suffix('/').unwrap_or(&pattern);
        let anywhere = !pattern.contains('/') || list.len() > 1;
        globs.push(if anywhere { format!("**/{pattern}") } else { pattern.to_owned() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn check(patterns: &[&str], covered: &[&str], free: &[&str]) {
        let patterns = Patterns::new(patterns).unwrap();
        for path in covered {
            assert!(patterns.covers(path), "{path} should be covered by {:?}", patterns.0.sources);
        }
        for path in free {
            assert!(!patterns.covers(path), "{path} should be free of {:?}", patterns.0.sources);
        }
    }

    #[test]
    fn secrets_are_covered_in_every_spelling() {
        check(
            &["**/.env*", "**/*.pem"],
            &[
                ".env",
                ".ENV",
                "a/.env.local",
                "a/.env.d/x",
                "key.PEM",
                "key.pem.",
                "k\u{200b}ey.pem",
                "key.ｐｅｍ",
            ],
            &["env", "a.env.md", "key.pem.md", "pem", ""],
        );
    }

    #[test]
    fn a_pattern_without_a_slash_matches_at_any_depth() {
        check(&["secret"], &["secret", "a/secret", "a/SECRET/b"], &["secrets", "a/b"]);
        check(&["top/secret/"], &["top/secret", "top/secret/a"], &["a/top/secret", "top/secrets"]);
    }

    #[test]
    fn version_control_and_start_up_files_are_protected() {
        check(
            &["@vcs", "@autoexec"],
            &[
                ".git/hooks/pre-commit",
                "sub/.Git/config",
                ".bashrc",
                "x/.config/fish/config.fish",
                ".vscode/tasks.json",
            ],
            &[".gitignore", ".github/workflows/ci.yml", "git/hooks", "src/main.rs", ".config/other"],
        );
    }

    #[test]
    fn bad_patterns_are_refused_and_their_near_twins_accepted() {
        for (bad, good) in [("@all", "all"), ("/etc", "etc"), ("a/../b", "a/..b"), ("a[", "a[b]"), ("", "*")]
        {
            assert_eq!(Patterns::new([bad]).unwrap_err().kind(), Kind::Invalid, "{bad}");
            assert!(Patterns::new([good]).is_ok(), "{good}");
        }
    }

    #[test]
    fn a_union_covers_what_either_covers() {
        let both = Patterns::new(["a"]).unwrap().union(&Patterns::new(["b"]).unwrap());
        assert!(both.covers("a") && both.covers("x/b") && !both.covers("c"));
        assert!(both.union(&Patterns::everything()).covers("c"), "a set that could not be built covers all");
    }
}
