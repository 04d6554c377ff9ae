//! What a capability costs: each file operation beside a twin that does the same work with plain `std::fs`.
//!
//! The twins do what the tool's result needs (text, lines, counts), so that the difference is the price of
//! resolving, checking and replacing, not of formatting.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "benches: the twins are plain std::fs")]
#![allow(missing_docs, reason = "criterion's macros make an undocumented function")]

use std::fs;
use std::hint::black_box;
use std::path::Path;

use criterion::{Criterion, criterion_group, criterion_main};
use toolgate_sandbox::{Grants, ReadOptions, Root, SearchOptions, ambient_authority};

const LINE: &str = "the quick brown fox jumps over the lazy dog, number 0123456789\n";

fn workspace() -> (tempfile::TempDir, Root, Grants) {
    let dir = tempfile::tempdir().unwrap();
    for (path, lines) in [("top.txt", 16), ("a/b/c/deep.txt", 16), ("large.txt", 1_500)] {
        fs::create_dir_all(dir.path().join(path).parent().unwrap()).unwrap();
        fs::write(dir.path().join(path), LINE.repeat(lines)).unwrap();
    }
    std::os::unix::fs::symlink("a/b/c/deep.txt", dir.path().join("link.txt")).unwrap();
    for i in 0..400 {
        let folder = dir.path().join(format!("tree/{}", i % 20));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(format!("{i}.txt")), LINE.repeat(40)).unwrap();
    }
    fs::write(dir.path().join("tree/7/needle.txt"), "here is a NEEDLE in the hay\n").unwrap();
    let root = Root::open(dir.path(), ambient_authority()).unwrap();
    (dir, root, Grants::read_write())
}

fn files(c: &mut Criterion) {
    let (dir, root, grants) = workspace();
    let base = dir.path();
    let mut group = c.benchmark_group("files");
    for path in ["top.txt", "a/b/c/deep.txt", "link.txt", "large.txt"] {
        group.bench_function(format!("read/{path}/std"), |b| {
            b.iter(|| {
                let text = fs::read_to_string(base.join(path)).unwrap();
                black_box((text.lines().count(), text))
            });
        });
        group.bench_function(format!("read/{path}/toolgate"), |b| {
            b.iter(|| black_box(root.read_file(&grants, path, &ReadOptions::default()).unwrap()));
        });
    }
    let content = LINE.repeat(16);
    group.bench_function("write/a/b/c/new.txt/std", |b| {
        b.iter(|| replace(&base.join("a/b/c/new.txt"), &content));
    });
    group.bench_function("write/a/b/c/new.txt/toolgate", |b| {
        b.iter(|| black_box(root.write_file(&grants, "a/b/c/new.txt", &content).unwrap()));
    });
    group.sample_size(20);
    group.bench_function("search/400 files/std", |b| {
        b.iter(|| black_box(search(&base.join("tree"), "needle")))
    });
    group.bench_function("search/400 files/toolgate", |b| {
        b.iter(|| {
            let found = root.search_codebase(&grants, "needle", &SearchOptions::default()).unwrap();
            assert_eq!(found.hits.len(), 1);
        });
    });
    group.finish();
}

/// Replaces a file as carefully as the tool does: a new file, the old permissions, a rename.
fn replace(path: &Path, content: &str) {
    let temporary = path.with_extension("tmp");
    fs::write(&temporary, content).unwrap();
    if let Ok(old) = fs::metadata(path) {
        fs::set_permissions(&temporary, old.permissions()).unwrap();
    }
    fs::rename(&temporary, path).unwrap();
}

/// The files below `dir` with a line that holds `text` in any case.
fn search(dir: &Path, text: &str) -> Vec<String> {
    let regex = regex::RegexBuilder::new(text).case_insensitive(true).build().unwrap();
    let mut found = Vec::new();
    let mut todo = vec![dir.to_owned()];
    while let Some(dir) = todo.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                todo.push(entry.path());
            } else {
                let content = fs::read_to_string(entry.path()).unwrap();
                if regex.is_match(&content) {
                    found.push(entry.path().to_string_lossy().into_owned());
                }
            }
        }
    }
    found.sort();
    found
}

criterion_group!(benches, files);
criterion_main!(benches);
