//! The error for a path that leads nowhere: it names what the model may have meant.
//!
//! Invariant: it names nothing that the grants would not let the caller list.

use std::ffi::OsStr;

use cap_std::fs::Dir;

use super::Root;
use super::resolve::Resolved;
use super::search::Ignored;
use super::walk::{self, Go};
use crate::error::{Error, Kind};
use crate::grants::Grants;
use crate::names::{Inside, distance, fold, lossy};
use crate::output;

/// Entries looked at for a better name, in the directory and then in the whole workspace.
const LOOKED_AT: usize = 2_000;
/// Names offered.
const OFFERED: usize = 3;
/// A directory of at most this many entries is shown whole when no name is near.
const SHOWN: usize = 12;

/// No such file or directory, and what is there instead.
pub(super) fn not_found(root: &Root, grants: &Grants, resolved: &Resolved, path: &str) -> Error {
    let error = Error::new(Kind::NotFound, "no such file or directory").at(path);
    let wanted = resolved.missing.first().or(resolved.last.as_ref());
    let Some(wanted) = wanted.map(|name| lossy(name)) else {
        return error;
    };
    let mut directory = Inside::default();
    resolved.levels().filter_map(|(_, name)| name).for_each(|name| directory.push(&lossy(name)));
    let above = directory.as_str().rsplit_once('/').map_or("", |(above, _)| above);
    let mut directory = Inside::default();
    above.split('/').filter(|name| !name.is_empty()).for_each(|name| directory.push(name));

    let names = readable_names(resolved.dir(), grants, &directory);
    let near = nearest(&wanted, &names);
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
    paths.map(|path| format!("\"{}\"", output::name(path.as_str()))).collect::<Vec<_>>().join(", ")
}

fn readable_names(dir: &Dir, grants: &Grants, directory: &Inside) -> Vec<String> {
    let Ok(entries) = dir.entries() else { return Vec::new() };
    let mut names: Vec<String> = entries
        .take(LOOKED_AT)
        .flatten()
        .map(|entry| lossy(&entry.file_name()))
        .filter(|name| grants.check_read(&directory.join(name)).is_ok())
        .collect();
    names.sort();
    names
}

/// The names most like `wanted`, best first; none if nothing is like it.
fn nearest(wanted: &str, names: &[String]) -> Vec<String> {
    let wanted = fold(wanted);
    let mut scored: Vec<(usize, &String)> = names
        .iter()
        .filter_map(|name| {
            let folded = fold(name);
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

/// Where else in the workspace something has that very name.
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
        let names: Vec<String> =
            ["main.rs", "lib.rs", "README.md", "meeting-2026-11-03.txt"].map(Into::into).into();
        for (wanted, near) in [
            ("mian.rs", Some("main.rs")),
            ("MAIN.RS", Some("main.rs")),
            ("readme", Some("README.md")),
            ("meeting-2026-11-3.txt", Some("meeting-2026-11-03.txt")),
            ("quite-different.py", None),
        ] {
            assert_eq!(nearest(wanted, &names).first().map(String::as_str), near, "{wanted}");
        }
    }
}
