//! The tree itself: a first line in every file that says where it sits and one place for skips.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

pub(crate) fn rust_files(dir: &Path, found: &mut Vec<PathBuf>) {
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

#[test]
fn a_library_without_features_stays_small() {
    let tree = |features: &str| {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let asked = [
            "tree",
            "--locked",
            "-p",
            "toolgate",
            "-e",
            "normal",
            "--prefix",
            "none",
            "--features",
            features,
        ];
        let output = std::process::Command::new(cargo).args(asked).current_dir(root()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let lines = String::from_utf8(output.stdout).unwrap();
        lines.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect::<HashSet<_>>()
    };
    let bare = tree("");
    assert!(bare.len() <= 70, "{} packages: {bare:?}", bare.len());
    let full = tree("full");
    for heavy in ["tokio", "ureq", "rusqlite", "jsonschema", "wasmtime", "toolgate-lab", "toolgate-llama"] {
        assert!(!bare.contains(heavy), "{heavy}");
        assert!(full.contains(heavy), "{heavy} has another name now");
    }
}
