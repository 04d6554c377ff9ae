//! Names as the rules compare them. Two names that some file system, editor or program could take for each
//! other fold to the same text, so that a rule about `.git` also covers `.GIT` and `.gi<joiner>t`.
//!
//! Invariant: folding only ever makes more names equal; it is used to refuse, never to allow.

use std::ffi::OsStr;

use unicode_normalization::UnicodeNormalization;

/// One component, folded: NFKC, invisible characters dropped, case folded, trailing dots and spaces dropped
/// (some file systems ignore them).
pub(crate) fn fold(name: &str) -> String {
    let mut folded = String::with_capacity(name.len());
    push_folded(&mut folded, name);
    folded
}

/// Adds one component, folded, to `text`.
pub(crate) fn push_folded(text: &mut String, name: &str) {
    let start = text.len();
    if name.is_ascii() {
        text.extend(folded_ascii(name));
    } else {
        text.push_str(&fold_text(name));
    }
    let added = text.get(start..).unwrap_or_default();
    match added.trim_end_matches(['.', ' ']).len() {
        // A name of dots alone keeps them.
        0 => {}
        kept => text.truncate(start + kept),
    }
}

/// The same without looking at the ends: for patterns, and for text that holds several components.
pub(crate) fn fold_text(text: &str) -> String {
    if text.is_ascii() {
        return folded_ascii(text).collect();
    }
    // Upper then lower is full case folding but for a few letters that it merges as well (ı and i).
    let cased: String = text
        .nfkc()
        .filter(|c| !is_ignorable(*c))
        .flat_map(char::to_uppercase)
        .flat_map(char::to_lowercase)
        .collect();
    cased.nfkc().filter(|c| !is_ignorable(*c)).collect()
}

fn folded_ascii(text: &str) -> impl Iterator<Item = char> {
    text.bytes().filter(|byte| !byte.is_ascii_control()).map(|byte| char::from(byte.to_ascii_lowercase()))
}

/// Edits between two names, by Levenshtein; names longer than 64 characters are compared by their start.
pub(crate) fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().take(64).enumerate() {
        let mut left = i + 1;
        let mut next = vec![left];
        for ((y, diagonal), above) in b.iter().zip(&row).zip(row.iter().skip(1)) {
            left = (diagonal + usize::from(x != *y)).min(above + 1).min(left + 1);
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}

/// The one of `names` that `wanted` may have been meant to be.
pub(crate) fn nearest<'a>(wanted: &str, names: &[&'a str]) -> Option<&'a str> {
    let near = names.iter().map(|name| (distance(wanted, name), *name)).min()?;
    (near.0 <= wanted.chars().count() / 4 + 1).then_some(near.1)
}

/// The component as text; what is not Unicode becomes U+FFFD, which no rule is about.
pub(crate) fn lossy(name: &OsStr) -> String {
    name.to_string_lossy().into_owned()
}

/// Characters that some file systems drop or that nobody sees: Unicode's default-ignorable code points and
/// controls.
fn is_ignorable(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// A path below the workspace, resolved: no `.`, no `..`, no link in it. The root itself is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Inside(String);

impl Inside {
    /// From resolved components, outermost first.
    pub(crate) fn from_names<'a>(names: impl IntoIterator<Item = &'a OsStr>) -> Self {
        let mut path = Self::default();
        for name in names {
            path.push(&lossy(name));
        }
        path
    }

    /// Goes one level down.
    pub(crate) fn push(&mut self, name: &str) {
        if !self.0.is_empty() {
            self.0.push('/');
        }
        self.0.push_str(name);
    }

    /// The path one level down.
    pub(crate) fn join(&self, name: &str) -> Self {
        let mut path = self.clone();
        path.push(name);
        path
    }

    /// The path as text, with `/` between components; empty for the root.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The path as it is shown: `.` for the root.
    pub(crate) fn shown(&self) -> &str {
        if self.0.is_empty() { "." } else { &self.0 }
    }

    /// Whether this is `other` or below it.
    pub(crate) fn is_under(&self, other: &Self) -> bool {
        other.0.is_empty()
            || self.0.strip_prefix(&other.0).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn look_alikes_of_a_name_fold_together() {
        for name in
            [".git", ".GIT", ".Git", ".g\u{200d}it", ".ｇｉｔ", ".git.", ".git ", ".gıt", "\u{feff}.git"]
        {
            assert_eq!(fold(name), ".git", "{name:?}");
        }
        assert_eq!(fold("straße"), fold("STRASSE"));
    }

    #[test]
    fn different_names_stay_different() {
        for name in [".gitignore", "git", "..git", "..hidden..txt", "a..b"] {
            assert_ne!(fold(name), ".git", "{name:?}");
        }
        assert_eq!(fold("..."), "...", "a name of dots alone keeps them");
    }

    #[test]
    fn the_distance_counts_edits() {
        for (a, b, edits) in [("", "", 0), ("abc", "", 3), ("kitten", "sitting", 3), ("flaw", "lawn", 2)] {
            assert_eq!((distance(a, b), distance(b, a)), (edits, edits), "{a} {b}");
        }
        assert_eq!(
            (nearest("raed", &["write", "read"]), nearest("xyz", &["write", "read"])),
            (Some("read"), None)
        );
    }

    #[test]
    fn a_sibling_with_the_same_start_is_not_under_a_directory() {
        let dir = Inside("notes".into());
        assert!(Inside("notes/a".into()).is_under(&dir) && dir.is_under(&dir));
        assert!(!Inside("notes2/a".into()).is_under(&dir) && !Inside::default().is_under(&dir));
    }
}
