//! Makes the error for a path that does not exist. It names paths that the model may have meant.
//!
//! Invariant: it names nothing that the grants would not let the caller list.

use std::ffi::{OsStr, OsString};

use cap_fs_ext::DirExt as _;
use cap_std::fs::Dir;

use super::Root;
use super::resolve::Resolved;
use super::search::Ignored;
use super::walk::{self, Go};
use crate::error::{Error, Kind};
use crate::grants::Grants;
use crate::names::{Inside, distance, fold, lossy};
use crate::output;

/// Entries that are compared with the name, in the directory and then in the whole workspace.
const LOOKED_AT: usize = 2_000;
/// Names in the message.
const OFFERED: usize = 3;
/// A directory with at most this many entries is listed whole if no name is similar.
const SHOWN: usize = 12;

/// The error, with similar paths.
pub(super) fn not_found(root: &Root, grants: &Grants, resolved: &Resolved, path: &str) -> Error {
    let error = Error::new(Kind::NotFound, "no such file or directory").at(path);
    let wanted: Vec<&OsStr> =
        resolved.missing.iter().chain(&resolved.last).map(OsString::as_os_str).collect();
    let Some((first, below)) = wanted.split_first() else {
        return error;
    };
    let above: Vec<&OsStr> = resolved.levels().filter_map(|(_, name)| name).collect();
    let above = above.split_last().map(|(_, above)| above.iter().copied());
    let directory = Inside::from_names(above.into_iter().flatten());

    let names = readable_names(resolved.dir(), grants, &directory);
    let near = nearest(&lossy(first), &names);
    // Where all of the path is there in other letters, it is that.
    let whole = |name: &OsString| same_below(resolved.dir(), grants, &directory, name, below);
    let is_same = |name: &&OsString| fold(&lossy(name)) == fold(&lossy(first));
    let same: Vec<Inside> = near.iter().filter(is_same).filter_map(whole).collect();
    let all: Vec<Inside> = near.iter().filter_map(whole).collect();
    if let Some(meant) = [same, all].into_iter().find(|meant| !meant.is_empty()) {
        return error.hint(format!("did you mean {}?", quoted(meant.into_iter())));
    }
    if !near.is_empty() {
        return error.hint(format!("did you mean {}?", quoted(near.iter().map(|name| directory.join(name)))));
    }
    let elsewhere =
        resolved.last.as_ref().map(|last| same_name_elsewhere(root, grants, last)).unwrap_or_default();
    if !elsewhere.is_empty() {
        return error.hint(format!("did you mean {}?", quoted(elsewhere.into_iter())));
    }
    if names.is_empty() {
        error.hint("the directory is empty")
    } else if names.len() <= SHOWN {
        let all = quoted(names.iter().map(|name| directory.join(name)));
        error.hint(format!("there is {all}"))
    } else {
        error.hint(format!(
            "use list_directory on \"{}\" to see what is there",
            output::name(directory.shown())
        ))
    }
}

fn quoted(paths: impl Iterator<Item = Inside>) -> String {
    paths.map(|path| format!("\"{}\"", output::name(path.spelled()))).collect::<Vec<_>>().join(", ")
}

fn readable_names(dir: &Dir, grants: &Grants, directory: &Inside) -> Vec<OsString> {
    let Ok(entries) = dir.entries() else { return Vec::new() };
    let mut names: Vec<OsString> = entries
        .take(LOOKED_AT)
        .flatten()
        .map(|entry| entry.file_name())
        .filter(|name| grants.check_read(&directory.join(name)).is_ok())
        .collect();
    names.sort();
    names
}

/// The path at `name` of a directory and these names below it, in letters of any case.
fn same_below(
    dir: &Dir,
    grants: &Grants,
    directory: &Inside,
    name: &OsStr,
    below: &[&OsStr],
) -> Option<Inside> {
    let inside = directory.join(name);
    let Some((next, below)) = below.split_first() else { return Some(inside) };
    let dir = dir.open_dir_nofollow(name).ok()?;
    let wanted = fold(&lossy(next));
    let names = readable_names(&dir, grants, &inside);
    let mut names = names.iter().filter(|name| fold(&lossy(name)) == wanted);
    names.find_map(|name| same_below(&dir, grants, &inside, name, below))
}

/// The names most like `wanted`, best first; none if no name is similar.
fn nearest(wanted: &str, names: &[OsString]) -> Vec<OsString> {
    let wanted = fold(wanted);
    let mut scored: Vec<(usize, &OsString)> = names
        .iter()
        .filter_map(|name| {
            let folded = fold(&lossy(name));
            let distance = distance(&wanted, &folded);
            let contained = wanted.len() >= 3 && folded.contains(&wanted)
                || folded.len() >= 3 && wanted.contains(&folded);
            let same_stem = stem(&wanted) == stem(&folded);
            let near = distance <= wanted.chars().count() / 4 + 1;
            (near || contained || same_stem).then_some((distance, name))
        })
        .collect();
    scored.sort();
    scored.into_iter().take(OFFERED).map(|(_, name)| name.clone()).collect()
}

fn stem(name: &str) -> &str {
    match name.rsplit_once('.') {
        Some((stem, _)) if !stem.is_empty() => stem,
        _ => name,
    }
}

/// Other places of the workspace with that very name.
fn same_name_elsewhere(root: &Root, grants: &Grants, wanted: &OsStr) -> Vec<Inside> {
    let wanted = fold(&lossy(wanted));
    let mut found = Vec::new();
    let mut limits = grants.limits.clone();
    limits.max_walk_entries = limits.max_walk_entries.min(LOOKED_AT);
    let start = walk::Start { dir: root.dir(), inside: Inside::default(), above: Vec::new() };
    walk::walk(start, grants, &limits, Ignored::Skip, &mut |item| {
        if fold(&lossy(item.name)) == wanted {
            found.push(item.inside.clone());
        }
        if found.len() >= OFFERED { Go::Stop } else { Go::On }
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_offered_and_far_ones_are_not() {
        let names: Vec<OsString> =
            ["main.rs", "lib.rs", "README.md", "meeting-2026-11-03.txt"].map(Into::into).into();
        for (wanted, near) in [
            ("mian.rs", Some("main.rs")),
            ("MAIN.RS", Some("main.rs")),
            ("readme", Some("README.md")),
            ("meeting-2026-11-3.txt", Some("meeting-2026-11-03.txt")),
            ("quite-different.py", None),
        ] {
            assert_eq!(nearest(wanted, &names).first().and_then(|name| name.to_str()), near, "{wanted}");
        }
    }
}
