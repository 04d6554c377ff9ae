//! Sets of path patterns for refusals: paths that may not be read, paths that may not be changed.
//!
//! Invariant: a path matches if it or a directory above it matches. This holds for every spelling that
//! [`names`](crate::names) folds together.

use std::collections::BTreeSet;
use std::sync::Arc;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::error::{Error, Kind};
use crate::lists::{AUTOEXEC, SECRETS, VCS};
use crate::names::{self, Inside, Trail};

/// A set of path patterns, cheap to clone.
///
/// A pattern is a glob relative to the workspace. `*` and `?` stay within a component, and `**` crosses
/// components. A pattern without a slash matches at any depth. `@vcs` and `@autoexec` stand for built-in
/// lists.
///
/// A match of a directory covers everything below that directory. Case, Unicode forms and invisible
/// characters make no difference.
///
/// ```
/// use toolgate_sandbox::Patterns;
/// let secrets = Patterns::new(["**/.env*", "keys/**"])?;
/// assert!(secrets.covers("service/.ENV.local") && secrets.covers("keys/a/b"));
/// assert!(!secrets.covers("service/environment.md"));
/// assert!(secrets.union(&Patterns::new(["*.md"])?).covers("service/environment.md"));
/// assert_eq!(secrets.sources().collect::<Vec<_>>(), ["**/.env*", "keys/**"]);
/// // The sets of a policy that names none, and the one for a workspace without secrets.
/// assert!(Patterns::secrets().covers("server.pem") && Patterns::protected().covers(".git/hooks/pre-commit"));
/// assert!(!Patterns::none().covers("server.pem"));
/// # Ok::<(), toolgate_sandbox::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Patterns(Arc<Set>);

#[derive(Debug)]
struct Set {
    sources: BTreeSet<String>,
    /// The globs of the sources: folded, and also as written where that differs.
    globs: Vec<String>,
    set: Matcher,
    /// The beginnings of the globs, by whole components. A match is a directory below which a path may be
    /// covered.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only commands on Linux ask"))]
    beginnings: GlobSet,
}

#[derive(Debug)]
enum Matcher {
    Globs(GlobSet),
    /// Fails closed: the set could not be built.
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
        let beginnings: BTreeSet<&str> = globs.iter().flat_map(|glob| beginnings(glob)).collect();
        // A cut through brackets or braces is no glob: then anything may go on below any directory.
        let beginnings = build(beginnings).or_else(|_| build(["**"]))?;
        let set = Matcher::Globs(build(globs.iter().map(String::as_str))?);
        Ok(Self(Arc::new(Set { sources, globs, set, beginnings })))
    }

    /// The set that matches nothing.
    pub fn none() -> Self {
        Self::or_everything(&[])
    }

    /// The default of `deny_read`: `**/.env*` and `**/*.pem`.
    pub fn secrets() -> Self {
        Self::or_everything(SECRETS)
    }

    /// The default of `protect`: `@vcs` and `@autoexec`.
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

    /// The globs of the patterns, with the lists written out. If the set could not be built, a glob covers
    /// everything.
    pub(crate) fn globs(&self) -> impl Iterator<Item = &str> {
        let everything = matches!(self.0.set, Matcher::Everything).then_some("**");
        self.0.globs.iter().map(String::as_str).chain(everything)
    }

    /// Whether the set covers a path. The path is relative to the workspace and has `/` between names.
    pub fn covers(&self, path: &str) -> bool {
        let mut inside = Inside::default();
        for name in path.split('/').filter(|name| !name.is_empty() && *name != ".") {
            inside.push(name);
        }
        self.matching(&inside).is_some()
    }

    /// The pattern that covers `path` or a directory above it.
    pub(crate) fn matching(&self, path: &Inside) -> Option<&str> {
        Trail::first(path, |trail| self.at(trail))
    }

    /// The pattern that `path` itself matches, whatever the directories above it match.
    pub(crate) fn at(&self, path: &Trail) -> Option<&str> {
        let set = match &self.0.set {
            Matcher::Everything => return Some("**"),
            Matcher::Globs(set) if set.is_empty() => return None,
            Matcher::Globs(set) => set,
        };
        // Which one it is costs a list; that there is one does not.
        let form = path.forms().find(|form| set.is_match(form.as_ref()))?;
        let index = set.matches(form.as_ref()).first().copied();
        Some(index.and_then(|index| self.0.globs.get(index)).map_or("**", String::as_str))
    }

    /// Whether the set could cover a path below the directory `path`, which it does not cover itself.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only commands on Linux ask"))]
    pub(crate) fn may_cover_below(&self, path: &Inside) -> bool {
        Trail::of(path).forms().any(|form| self.0.beginnings.is_match(form.as_ref()))
    }

    /// The set that covers everything.
    pub(crate) fn everything() -> Self {
        let sources = BTreeSet::from(["**".to_owned()]);
        let (set, beginnings) = (Matcher::Everything, GlobSet::empty());
        Self(Arc::new(Set { sources, globs: Vec::new(), set, beginnings }))
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
        let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
        let pattern = pattern.strip_suffix('/').unwrap_or(pattern);
        let components: Result<Vec<String>, Error> = pattern.split('/').map(fold_pattern).collect();
        let folded = components?.join("/");
        let anywhere = !pattern.contains('/') || list.len() > 1;
        let forms = [Some(folded.clone()), (folded != pattern).then(|| pattern.to_owned()), counted(&folded)];
        for form in forms.into_iter().flatten() {
            globs.push(if anywhere { format!("**/{form}") } else { form });
        }
    }
    Ok(())
}

/// One component of a pattern, folded as the names are that it is compared with.
fn fold_pattern(pattern: &str) -> Result<String, Error> {
    let mut text = String::with_capacity(pattern.len());
    let mut within = false;
    for c in pattern.chars() {
        within = match c {
            '[' | '{' => true,
            ']' | '}' => false,
            _ => within,
        };
        let folded = names::fold(c.encode_utf8(&mut [0; 4]));
        // A letter's own form must not become syntax: `［` is a name's character.
        match c.is_ascii() || !folded.contains(SYNTAX) {
            true => text.push(c),
            false if within => {
                return Err(Error::new(Kind::Invalid, format!("\"{c}\" is compared as \"{folded}\""))
                    .at(pattern)
                    .hint("write it outside of brackets and braces"));
            }
            false => text.extend(
                folded.chars().map(|c| if SYNTAX.contains(&c) { format!("[{c}]") } else { c.into() }),
            ),
        }
    }
    let mut folded = String::with_capacity(text.len());
    names::push_folded_whole(&mut folded, &text);
    let mut kept = folded.as_str();
    while let Some(rest) = ENDS.iter().find_map(|end| kept.strip_suffix(end)) {
        kept = rest;
    }
    Ok(if kept.is_empty() { folded } else { kept.to_owned() })
}

/// A folded pattern in which each character is one byte, as globs count them; nothing where none is counted.
fn counted(folded: &str) -> Option<String> {
    if folded.is_ascii() || !folded.contains(['?', '[']) {
        return None;
    }
    let mut text = String::with_capacity(folded.len());
    let mut rest = folded;
    while let Some(c) = rest.chars().next() {
        // Of a class with letters that are counted otherwise, what is left is that it stands for one of them.
        let class = rest.strip_prefix('[').and_then(|class| Some(class.find(']')? + 2)).unwrap_or(0);
        match rest.get(..class) {
            Some(class) if !class.is_ascii() => text.push('?'),
            Some(class) if !class.is_empty() => text.push_str(class),
            _ => text.push(names::counted(c)),
        }
        rest = rest.get(class.max(c.len_utf8())..).unwrap_or_default();
    }
    Some(text)
}

/// Characters that are more than themselves in a glob.
const SYNTAX: [char; 9] = ['*', '?', '[', ']', '{', '}', ',', '!', '\\'];
/// The ends that names lose, as a pattern may write them.
const ENDS: [&str; 6] = ["\\.", "[.]", ".", "\\ ", "[ ]", " "];

/// The beginnings of a glob, without the glob itself: `**/a/b/**` has `**/a` and `**/a/b`.
fn beginnings(glob: &str) -> impl Iterator<Item = &str> {
    let cuts = glob.match_indices('/').map(|(at, _)| at);
    cuts.filter_map(|at| glob.get(..at)).filter(|beginning| *beginning != "**")
}

fn build<'a>(globs: impl IntoIterator<Item = &'a str>) -> Result<GlobSet, Error> {
    let mut set = GlobSetBuilder::new();
    for glob in globs {
        let built = GlobBuilder::new(glob)
            .literal_separator(true)
            .build()
            .map_err(|error| Error::new(Kind::Invalid, format!("bad pattern ({})", error.kind())).at(glob))?;
        set.add(built);
    }
    set.build().map_err(|error| Error::new(Kind::Invalid, error.kind().to_string()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use proptest::prelude::*;

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
    fn what_folding_makes_of_a_name_does_not_take_it_out_of_a_pattern() {
        check(
            &["secrets/*.key", "notes.", "log.*", "?.pin", "［a］", "x/*/y", "ключ[0-9а]"],
            &[
                "secrets/a／b.key",
                "secrets/c℅.key",
                "notes.",
                "NOTES",
                "log.",
                "log.1",
                "℅.pin",
                "ä.pin",
                "a\u{200b}.pin",
                "ключ1",
                "КЛЮЧа",
                "［a］",
                "[A]",
                "x/b／c/y",
                "x/b./y",
            ],
            &["secrets/a/b.key", "note", "logs", "ab.pin", "a", "x/y", "x/b/c/y", "ключ", "клич1"],
        );
        assert_eq!(Patterns::new(["[／a］b]"]).unwrap_err().kind(), Kind::Invalid, "syntax within a class");
    }

    #[test]
    fn a_directory_is_told_below_which_a_pattern_goes_on() {
        let patterns = Patterns::new(["@autoexec", "docs/**", "a/*/c", "{x/y,z}"]).unwrap();
        let plain = Patterns::new(["@vcs", "*.pem", "a/*/c"]).unwrap();
        let inside = |path: &str| Inside::from_names(path.split('/').map(std::ffi::OsStr::new));
        assert!(patterns.may_cover_below(&inside("anything")), "what cannot be told counts");
        for (path, goes_on) in
            [("a", true), ("A.", true), ("a/x", true), ("a/x/d", false), ("b", false), ("b/a", false)]
        {
            assert_eq!(plain.may_cover_below(&inside(path)), goes_on, "{path}");
        }
        let fish = Patterns::new(["@autoexec"]).unwrap();
        assert!(fish.may_cover_below(&inside("x/.Config")) && !fish.may_cover_below(&inside("config")));
    }

    proptest! {
        #[test]
        fn a_name_as_a_pattern_covers_itself(name in "[-a-zA-Z.*?!,\\[\\]{}\\\\ ß／℅［＊İıﬁ\u{200b}\u{1}]{1,12}", below in "[a.／]{1,3}") {
            prop_assume!(![".", ".."].contains(&name.as_str()) && !name.starts_with('@'));
            // Within brackets and braces a form that becomes syntax is refused; as text it is not.
            let literal = globset::escape(&name.replace('\\', "\u{2}")).replace('\u{2}', "[\\]");
            let patterns = Patterns::new([literal.as_str()]).unwrap();
            prop_assert!(patterns.covers(&name), "{:?}", patterns.0.globs);
            let path = format!("{name}/{below}");
            prop_assert!(patterns.covers(&path), "and what is below it");
            let anchored = Patterns::new([format!("top/{literal}")]).unwrap();
            let path = format!("top/{name}");
            prop_assert!(anchored.covers(&path));
        }
    }

    #[test]
    fn a_union_covers_what_either_covers() {
        let both = Patterns::new(["a"]).unwrap().union(&Patterns::new(["b"]).unwrap());
        assert!(both.covers("a") && both.covers("x/b") && !both.covers("c"));
        assert!(both.union(&Patterns::everything()).covers("c"), "a set that could not be built covers all");
    }
}
