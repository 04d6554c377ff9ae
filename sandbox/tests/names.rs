//! Names that are no text, or that nobody can read: they are shown so that they differ, and what is shown leads to them.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the fixtures are made with std::fs")]

mod support;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;

use support::Field;
use toolgate_sandbox::{Kind, OutlineLimits, Patterns, ReadOptions, SearchOptions};

/// Names that are easily taken for each other, and how they are shown.
const NAMES: [(&[u8], &str); 7] = [
    (b"caf\xe9.txt", "caf\\xe9.txt"),
    (b"caf\xe8.txt", "caf\\xe8.txt"),
    ("caf\u{fffd}.txt".as_bytes(), "caf\u{fffd}.txt"),
    (b"caf\\xe9.txt", "caf\\x5cxe9.txt"),
    (b"a\nb.txt", "a\\u{a}b.txt"),
    (b"a\\u{a}b.txt", "a\\x5cu{a}b.txt"),
    (b"back\\slash.txt", "back\\slash.txt"),
];

/// A name as data has it, where nothing that can be written in JSON has to be spelled out.
fn data(shown: &str) -> String {
    if shown == "a\\u{a}b.txt" { "a\nb.txt".to_owned() } else { shown.to_owned() }
}

fn read(field: &Field, path: &str) -> String {
    field.root.read_file(&field.grants, path, &ReadOptions::default()).unwrap().text
}

#[test]
fn names_that_differ_are_shown_differently_and_lead_to_their_files() {
    let field = Field::new();
    let dir = field.ws.join(OsStr::from_bytes(b"d\xff"));
    fs::create_dir(&dir).unwrap();
    for (name, shown) in NAMES {
        fs::write(dir.join(OsStr::from_bytes(name)), format!("I am {shown}.\n")).unwrap();
    }
    let top = field.root.list_directory(&field.grants, ".", Some(2)).unwrap();
    assert!(top.entries.iter().any(|entry| entry.path == "d\\xff"), "{top:?}");
    let listed = field.root.list_directory(&field.grants, "d\\xff", None).unwrap();
    let mut paths: Vec<String> = listed.entries.iter().map(|entry| entry.path.clone()).collect();
    let mut names: Vec<String> = NAMES.iter().map(|(_, shown)| data(shown)).collect();
    paths.sort();
    names.sort();
    assert_eq!(paths, names);
    let found = field.root.search_codebase(&field.grants, "I am", &SearchOptions::default()).unwrap();
    let outline = field.root.outline(&field.grants, false, &OutlineLimits::default());
    assert!(outline.directories.contains(&"d\\xff".to_owned()), "{outline:?}");
    for (name, shown) in NAMES {
        let (path, data) = (format!("d\\xff/{shown}"), format!("d\\xff/{}", data(shown)));
        assert_eq!(read(&field, &path), format!("I am {shown}.\n"));
        assert!(listed.content().lines().any(|line| line == shown), "{}", listed.content());
        assert!(found.hits.iter().any(|hit| hit.path == data), "{found:?}");
        assert!(outline.files.contains(&data), "{outline:?}");
        let edited = field.root.edit_file(&field.grants, &path, "I am", "I was").unwrap();
        assert_eq!(edited.path, data);
        assert!(edited.content().contains(&path), "{}", edited.content());
        assert_eq!(read(&field, &data), format!("I was {shown}.\n"), "data leads to it, too");
        let written = field.root.write_file(&field.grants, &path, &format!("{shown}\n")).unwrap();
        assert!(!written.created && written.path == data, "{written:?}");
        assert_eq!(fs::read(dir.join(OsStr::from_bytes(name))).unwrap(), format!("{shown}\n").as_bytes());
    }
    assert_eq!(fs::read_dir(&dir).unwrap().count(), NAMES.len(), "no other file was made");
}

#[test]
fn a_name_that_only_looks_spelled_out_is_itself() {
    let field = Field::new();
    fs::write(field.ws.join("a\\xe9.txt"), "plain\n").unwrap();
    assert_eq!(read(&field, "a\\xe9.txt"), "plain\n");
    let made = field.root.write_file(&field.grants, "b\\xe9.txt", "new\n").unwrap();
    assert!(made.created && field.ws.join("b\\xe9.txt").exists(), "what is not there is taken at its word");
    // With one of each, what is shown decides.
    fs::write(field.ws.join(OsStr::from_bytes(b"a\xe9.txt")), "byte\n").unwrap();
    assert_eq!(
        (read(&field, "a\\xe9.txt"), read(&field, "a\\x5cxe9.txt")),
        ("byte\n".into(), "plain\n".into())
    );
    let near = field.root.read_file(&field.grants, "A\\x5cXE9.txt", &ReadOptions::default()).unwrap_err();
    assert!(near.to_string().contains("did you mean"), "{near}");
}

#[test]
fn a_spelling_opens_nothing_that_is_closed() {
    let mut field = Field::new();
    field.grants.deny_read = Patterns::new(["**/.env*", "**/?.key"]).unwrap();
    fs::write(field.ws.join(".env"), "SECRET\n").unwrap();
    fs::write(field.ws.join(OsStr::from_bytes(b".env\xff")), "SECRET\n").unwrap();
    fs::write(field.ws.join(OsStr::from_bytes(b"\xff.key")), "SECRET\n").unwrap();
    symlink("../out/secret.txt", field.ws.join(OsStr::from_bytes(b"out\xff"))).unwrap();
    for path in [
        ".env\\xff",
        "\\xff.key",
        "out\\xff",
        "\\x2eenv",
        "\\x2e\\x2e/out/secret.txt",
        "..\\x2fout/secret.txt",
    ] {
        let error = field.root.read_file(&field.grants, path, &ReadOptions::default()).unwrap_err();
        assert!(matches!(error.kind(), Kind::Denied | Kind::NotFound), "{path}: {error}");
        assert!(!error.to_string().contains("SECRET"), "{error}");
    }
    for name in [&b".env\xff"[..], b"\xff.key", b"out\xff"] {
        assert!(fs::read(field.ws.join(OsStr::from_bytes(name))).is_ok(), "the control: it is there");
    }
    for path in [".env\\xff", "\\xff.key", "out\\xff"] {
        let error = field.root.read_file(&field.grants, path, &ReadOptions::default()).unwrap_err();
        assert_eq!(error.kind(), Kind::Denied, "{path}: {error}");
    }
}

#[test]
fn the_wrong_tool_and_the_wrong_case_are_answered_with_what_works() {
    let field = Field::new();
    fs::create_dir_all(field.ws.join("src/Deep")).unwrap();
    fs::write(field.ws.join("src/Deep/Main.rs"), "fn main() {}\n").unwrap();
    let read = |path: &str| field.root.read_file(&field.grants, path, &ReadOptions::default());
    let list = |path: &str| field.root.list_directory(&field.grants, path, None);
    for (error, hint) in [
        (read("src").unwrap_err(), "use list_directory on \"src\" to see what is in it"),
        (read("./src/").unwrap_err(), "use list_directory on \"./src/\" to see what is in it"),
        (list("src/Deep/Main.rs").unwrap_err(), "use read_file on \"src/Deep/Main.rs\" to see what is in it"),
        (
            list("src/Deep/Main.rs/").unwrap_err(),
            "its path is \"src/Deep/Main.rs\", for read_file and edit_file",
        ),
        (
            read("./src/Deep/Main.rs/").unwrap_err(),
            "its path is \"src/Deep/Main.rs\", for read_file and edit_file",
        ),
        (read("SRC/deep/main.RS").unwrap_err(), "did you mean \"src/Deep/Main.rs\"?"),
        (list("Src/deep").unwrap_err(), "did you mean \"src/Deep\"?"),
        (read("src/deep/other.rs").unwrap_err(), "did you mean \"src/Deep\"?"),
    ] {
        assert!(error.to_string().ends_with(hint), "{error}");
    }
    let absolute = field.ws.join("src/Deep/Main.rs");
    assert_eq!(read(absolute.to_str().unwrap()).unwrap().text, "fn main() {}\n");
    let cased = field.ws.join("Src/deep/Main.rs");
    let error = read(cased.to_str().unwrap()).unwrap_err().to_string();
    assert!(error.ends_with("did you mean \"src/Deep/Main.rs\"?"), "{error}");
    assert_eq!(read("./src//Deep/./Main.rs").unwrap().text, "fn main() {}\n");
}
