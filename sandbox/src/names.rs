//! Folds names for the comparison with rules. Two names fold to the same text if a file system, an editor or
//! a program could take one for the other. So a rule about `.git` also covers `.GIT` and `.gi<joiner>t`.
//!
//! Invariant: folding only makes more names equal. Rules that refuse use it, and rules that allow do not.

use std::borrow::Cow;
use std::ffi::OsStr;

use unicode_normalization::UnicodeNormalization;

use crate::spelling;

/// One folded component: NFKC, without invisible characters, case folded, and without separators that folding
/// made. Trailing dots and spaces are dropped, since some file systems ignore them.
pub(crate) fn fold(name: &str) -> String {
    let mut folded = String::with_capacity(name.len());
    push_folded(&mut folded, name);
    folded
}

/// Adds one component, folded, to `text`.
pub(crate) fn push_folded(text: &mut String, name: &str) {
    let start = text.len();
    push_folded_whole(text, name);
    let added = text.get(start..).unwrap_or_default();
    match added.trim_end_matches(DROPPED_ENDS).len() {
        // A name of dots alone keeps them.
        0 => {}
        kept => text.truncate(start + kept),
    }
}

/// Adds one component to `text`, folded. Dots and spaces at its end stay.
pub(crate) fn push_folded_whole(text: &mut String, name: &str) {
    if name.is_ascii() {
        text.extend(folded_ascii(name));
    } else {
        // Compatibility forms such as `／` and `℅` hold a separator, which no name of a file does.
        text.extend(fold_text(name).chars().filter(|c| *c != '/'));
    }
}

/// Adds `name` to `text` with one byte for each character, as globs count them. A character outside of ASCII
/// becomes a control character, the same for all that fold together.
pub(crate) fn push_counted(text: &mut String, name: &str) {
    text.extend(name.chars().filter(|c| !c.is_ascii_control()).map(counted));
}

/// One character as a byte: see [`push_counted`].
pub(crate) fn counted(c: char) -> char {
    if c.is_ascii() {
        return c.to_ascii_lowercase();
    }
    let folded = fold_text(c.encode_utf8(&mut [0; 4]))
        .bytes()
        .fold(0u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)));
    char::from(1 + u8::try_from(folded % 31).unwrap_or_default())
}

/// The characters that some file systems drop at the end of a name.
pub(crate) const DROPPED_ENDS: [char; 2] = ['.', ' '];

/// The form of a text for the comparison of names.
fn fold_text(text: &str) -> String {
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

/// The edit distance of two names, by Levenshtein. Only the start of a name longer than 64 characters counts.
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

/// The name among `names` that `wanted` may have meant.
pub(crate) fn nearest<'a>(wanted: &str, names: &[&'a str]) -> Option<&'a str> {
    let near = names.iter().map(|name| (distance(wanted, name), *name)).min()?;
    (near.0 <= wanted.chars().count() / 4 + 1).then_some(near.1)
}

/// The component as text. Bytes that are not Unicode become U+FFFD, which no rule names.
pub(crate) fn lossy(name: &OsStr) -> String {
    name.to_string_lossy().into_owned()
}

/// Characters that some file systems drop or that nobody sees: the default-ignorable code points of Unicode,
/// and controls.
fn is_ignorable(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// A resolved path below the workspace. It has no `.`, no `..` and no link. The path of the workspace itself
/// is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Inside {
    /// The path for rules. Bytes that are not Unicode are U+FFFD.
    text: String,
    /// The path for people and models, where that differs.
    spelled: Option<String>,
}

impl Inside {
    /// From resolved components, outermost first.
    pub(crate) fn from_names<'a>(names: impl IntoIterator<Item = &'a OsStr>) -> Self {
        let mut path = Self::default();
        for name in names {
            path.push_name(name);
        }
        path
    }

    /// Goes one level down, or several.
    pub(crate) fn push(&mut self, name: &str) {
        self.push_name(OsStr::new(name));
    }

    /// Goes down to a name, which need not be text.
    pub(crate) fn push_name(&mut self, name: &OsStr) {
        let text = name.to_string_lossy();
        // Most names are shown as they are.
        let is_plain = self.spelled.is_none() && name.to_str().is_some_and(|name| !name.contains('\\'));
        if !is_plain {
            let above = self.spelled.get_or_insert_with(|| self.text.clone());
            push_below(above, &spelling::spelled(name));
        }
        push_below(&mut self.text, &text);
    }

    /// The path one level down.
    pub(crate) fn join(&self, name: &OsStr) -> Self {
        let mut path = self.clone();
        path.push_name(name);
        path
    }

    /// The path as text for rules, with `/` between components; empty for the root.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// The path for people and models, which leads back to the file; empty for the root.
    pub(crate) fn spelled(&self) -> &str {
        self.spelled.as_deref().unwrap_or(&self.text)
    }

    /// Its names, outermost first.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.text.split('/').filter(|name| !name.is_empty())
    }

    /// The path for people and models; `.` for the root.
    pub(crate) fn shown(&self) -> &str {
        if self.text.is_empty() { "." } else { self.spelled() }
    }

    /// Whether this is `other` or below it.
    pub(crate) fn is_under(&self, other: &Self) -> bool {
        other.text.is_empty()
            || self
                .text
                .strip_prefix(&other.text)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

fn push_below(path: &mut String, name: &str) {
    if !path.is_empty() {
        path.push('/');
    }
    path.push_str(name);
}

/// A path below the workspace for the comparison with rules, in each form that a file system or a program
/// could take it for.
///
/// Of a path with more than twice [`WINDOW`] names, only the first and the last names count. So a walk pays a
/// bounded price for each name, however deep the path is. No pattern has so many names. Only a pattern with
/// `**` in two places inside could tell the difference.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trail {
    /// The path in four forms: folded, folded with the endings that some file systems drop, as it is, and
    /// with one byte for each character.
    forms: [String; 4],
    /// The lengths of these forms before each name.
    ends: Vec<[usize; 4]>,
}

/// Names at each end of a [`Trail`] that count.
const WINDOW: usize = 64;

impl Trail {
    /// The trail of a path.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only commands on Linux ask"))]
    pub(crate) fn of(path: &Inside) -> Self {
        let mut trail = Self::default();
        path.names().for_each(|name| trail.push(name));
        trail
    }

    /// The first finding of `at` on the way down a path.
    pub(crate) fn first<T>(path: &Inside, at: impl Fn(&Self) -> Option<T>) -> Option<T> {
        let mut trail = Self::default();
        path.names().find_map(|name| {
            trail.push(name);
            at(&trail)
        })
    }

    /// Goes one level down.
    pub(crate) fn push(&mut self, name: &str) {
        self.ends.push(self.forms.each_ref().map(String::len));
        for form in self.forms.iter_mut().filter(|form| !form.is_empty()) {
            form.push('/');
        }
        let [folded, whole, as_it_is, counted] = &mut self.forms;
        push_folded(folded, name);
        push_folded_whole(whole, name);
        as_it_is.push_str(name);
        push_counted(counted, name);
    }

    /// Goes one level up.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only commands on Linux ask"))]
    pub(crate) fn pop(&mut self) {
        for (form, end) in self.forms.iter_mut().zip(self.ends.pop().unwrap_or_default()) {
            form.truncate(end);
        }
    }

    /// Its folded form.
    pub(crate) fn folded(&self) -> Cow<'_, str> {
        let [folded, ..] = &self.forms;
        self.window(folded, 0)
    }

    /// Its forms, each once.
    pub(crate) fn forms(&self) -> impl Iterator<Item = Cow<'_, str>> {
        let [folded, others @ ..] = &self.forms;
        let others = others.iter().enumerate().filter(move |(_, form)| *form != folded);
        std::iter::once((0, folded))
            .chain(others.map(|(index, form)| (index + 1, form)))
            .map(|(index, form)| self.window(form, index))
    }

    fn window<'a>(&self, form: &'a str, index: usize) -> Cow<'a, str> {
        let deep = self.ends.len().checked_sub(WINDOW).filter(|last| *last > WINDOW);
        let end = |at: usize| self.ends.get(at).and_then(|ends| ends.get(index)).copied();
        let parts = deep.and_then(|last| Some((form.get(..end(WINDOW)?)?, form.get(end(last)?..)?)));
        parts.map_or(Cow::Borrowed(form), |(first, last)| Cow::Owned(format!("{first}{last}")))
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
        assert_eq!((fold("a／b.key"), fold("c℅.key")), ("ab.key".into(), "cco.key".into()), "no separator");
    }

    #[test]
    fn a_trail_goes_down_and_up_and_stays_bounded() {
        let mut trail = Trail::default();
        for name in ["A", "b.", "ä"] {
            trail.push(name);
        }
        let forms: Vec<_> = trail.forms().collect();
        assert_eq!((trail.folded().as_ref(), forms.len()), ("a/b/ä", 4), "{forms:?}");
        trail.pop();
        assert_eq!(trail.forms().collect::<Vec<_>>(), ["a/b", "a/b.", "A/b.", "a/b."]);
        for level in 0..10_000 {
            trail.push(&format!("{level}"));
        }
        let deep = trail.folded().into_owned();
        assert!(deep.starts_with("a/b/0/1/") && deep.ends_with("/9998/9999"), "{deep}");
        assert_eq!(deep.split('/').count(), 2 * WINDOW);
        (0..10_001).for_each(|_| trail.pop());
        assert_eq!(trail.folded(), "a");
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
        let inside = |path: &str| Inside::from_names([OsStr::new(path)]);
        let dir = inside("notes");
        assert!(inside("notes/a").is_under(&dir) && dir.is_under(&dir));
        assert!(!inside("notes2/a").is_under(&dir) && !Inside::default().is_under(&dir));
    }
}
