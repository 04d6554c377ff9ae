//! The tree itself: a first line in every file that says where it sits, one place for skips, examples of all that is public.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn rust_files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "target") {
                rust_files(&path, found);
            }
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn every_file_says_where_it_sits() {
    let mut files = Vec::new();
    for dir in ["src", "crates", "sandbox", "tests", "examples"] {
        rust_files(&root().join(dir), &mut files);
    }
    assert!(files.len() > 50, "only {} files found", files.len());
    let silent: Vec<_> =
        files.iter().filter(|file| !fs::read_to_string(file).unwrap().starts_with("//!")).collect();
    assert!(silent.is_empty(), "files without a //! line: {silent:?}");
}

/// A test that prints such a line itself would be left out of the list of what was skipped.
#[test]
fn tests_skip_in_one_place() {
    let mut files = Vec::new();
    for dir in ["crates", "sandbox", "tests"] {
        rust_files(&root().join(dir), &mut files);
    }
    let begins = format!("\"{}: ", "skipped");
    let found: Vec<_> =
        files.iter().filter(|file| fs::read_to_string(file).unwrap().contains(&begins)).collect();
    let helper = root().join("tests/support/skip.rs");
    let its_test = root().join("tests/it/skipping.rs");
    assert!(found.contains(&&helper), "control: {found:?}");
    let others: Vec<_> = found.into_iter().filter(|file| ![&helper, &its_test].contains(file)).collect();
    assert!(others.is_empty(), "use tests/support/skip.rs: {others:?}");
}

/// The lines of the examples in a text's doc comments.
fn example_lines(text: &str) -> Vec<&str> {
    let mut within = false;
    let mut lines = Vec::new();
    for line in text.lines().map(str::trim_start) {
        let Some(doc) = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")) else {
            within = false;
            continue;
        };
        match doc.trim_start().starts_with("```") {
            true => within = !within,
            false if within => lines.push(doc),
            false => {}
        }
    }
    lines
}

/// What a file's head says, or that of its package, whose functions are public for other packages of ours alone.
const INTERNAL: &str = "//! For the packages of this workspace alone";

/// The names of a file's public functions, tests and hidden ones left out.
fn public_functions(text: &str) -> impl Iterator<Item = &str> {
    let code = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default();
    let before = std::iter::once("").chain(code.lines());
    before.zip(code.lines()).filter_map(|(before, line)| {
        let declared = line.trim_start().strip_prefix("pub ")?;
        if before.trim_start() == "#[doc(hidden)]" {
            return None;
        }
        let declared = declared.strip_prefix("const ").unwrap_or(declared);
        let name = declared.strip_prefix("async ").unwrap_or(declared).strip_prefix("fn ")?;
        name.split(|c: char| !(c.is_alphanumeric() || c == '_')).next()
    })
}

#[test]
fn every_public_function_stands_in_an_example_that_runs() {
    let mut files = Vec::new();
    for dir in ["src", "crates", "sandbox"] {
        rust_files(&root().join(dir), &mut files);
    }
    let is_library = |path: &PathBuf| {
        let path = path.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
        let is_source = path.starts_with("src/") || path.split('/').any(|part| part == "src");
        is_source && !path.starts_with("src/cli/") && !path.contains("tests")
    };
    let is_internal = |path: &PathBuf, text: &str| {
        let root = path.ancestors().find(|dir| dir.ends_with("src")).map(|src| src.join("lib.rs"));
        let root = root.and_then(|root| fs::read_to_string(root).ok()).unwrap_or_default();
        text.contains(INTERNAL) || root.contains(INTERNAL)
    };
    let texts: Vec<String> = files
        .iter()
        .filter(|path| is_library(path))
        .map(|path| (path, fs::read_to_string(path).unwrap()))
        .filter(|(path, text)| !is_internal(path, text))
        .map(|(_, text)| text)
        .collect();
    let shown: HashSet<&str> = texts
        .iter()
        .flat_map(|text| example_lines(text))
        .flat_map(|line| line.split(|c: char| !(c.is_alphanumeric() || c == '_')))
        .collect();
    let silent: Vec<&str> =
        texts.iter().flat_map(|text| public_functions(text)).filter(|name| !shown.contains(name)).collect();
    assert!(shown.len() > 1_000, "only {} words in examples", shown.len());
    assert!(silent.is_empty(), "in no example: {}", silent.join(", "));
}
