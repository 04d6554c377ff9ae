//! What the file tools do for a request that is allowed: results, limits, and errors that say what to do.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the fixtures are made with std::fs")]

mod support;

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use support::Field;
use toolgate_sandbox::{
    CaseOf, Error, FileLimits, Grants, Ignored, Kind, OutlineLimits, Query, ReadOptions, Root, Scope,
    SearchOptions,
};

fn field(files: &[(&str, &str)]) -> Field {
    let field = Field::new();
    for (path, text) in files {
        let path = field.ws.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    field
}

fn read(field: &Field, path: &str, start_line: u64, max_lines: u64) -> Result<String, Error> {
    let options = ReadOptions::default().start_line(Some(start_line)).max_lines(Some(max_lines));
    field.root.read_file(&field.grants, path, &options).map(|read| read.content())
}

#[test]
fn lines_are_read_by_number_and_the_rest_is_announced() {
    let field = field(&[("five", "1\n2\n3\n4\n5\n"), ("open", "1\n2"), ("empty", "")]);
    for (path, start, max, shown) in [
        ("five", 0, 0, "1\n2\n3\n4\n5\n"),
        ("five", 1, 5, "1\n2\n3\n4\n5\n"),
        ("five", 0, 2, "1\n2\n[lines 1-2 of 5; to read on: start_line 3]"),
        ("five", 3, 2, "3\n4\n[lines 3-4 of 5; to read on: start_line 5]"),
        ("five", 5, 9, "5\n"),
        ("open", 0, 0, "1\n2"),
        ("open", 0, 1, "1\n[lines 1-1 of 2; to read on: start_line 2]"),
        ("empty", 0, 0, "[the file is empty]"),
    ] {
        assert_eq!(read(&field, path, start, max).unwrap(), shown, "{path} {start} {max}");
    }
    assert_eq!(read(&field, "five", 6, 1).unwrap_err().kind(), Kind::Invalid);
    let numbered = field.root.read_file(&field.grants, "open", &ReadOptions::default()).unwrap().numbered();
    assert_eq!(numbered, "     1\t1\n     2\t2");
}

#[test]
fn results_end_at_the_limits_and_say_so() {
    let mut field = field(&[("lines", &"line\n".repeat(100)), ("long", &"é".repeat(1_000))]);
    field.grants.limits = FileLimits::default().max_lines(10).max_output_bytes(33);
    let lines = read(&field, "lines", 0, 0).unwrap();
    assert!(lines.ends_with("[lines 1-6 of 100; to read on: start_line 7]"), "{lines}");
    let long = field.root.read_file(&field.grants, "long", &ReadOptions::default()).unwrap();
    assert_eq!((long.text.len(), long.truncated), (32, true), "cut between characters");
    field.grants.limits = FileLimits::default().max_lines(10);
    assert!(read(&field, "lines", 0, 0).unwrap().contains("[lines 1-10 of 100;"));
    field.grants.limits = FileLimits::default().max_file_bytes(500);
    assert!(read(&field, "lines", 0, 1).is_ok(), "exactly the limit");
    field.grants.limits.max_file_bytes = 499;
    let part = read(&field, "lines", 0, 1).unwrap();
    assert_eq!(part, "line\n[lines 1-1 of a file of 500 bytes; to read on: start_line 2]");
    let edit = field.root.edit_file(&field.grants, "lines", "line", "x").unwrap_err();
    assert_eq!(edit.kind(), Kind::Limit);
    let long = "x".repeat(500);
    assert_eq!(field.root.write_file(&field.grants, "new", &long).unwrap_err().kind(), Kind::Limit);
    assert!(field.root.write_file(&field.grants, "new", &long[1..]).is_ok());
}

#[test]
fn text_in_other_encodings_is_read_and_binary_files_are_not() {
    let field = Field::new();
    let utf16: Vec<u8> =
        [0xff, 0xfe].into_iter().chain("hé\n".encode_utf16().flat_map(u16::to_le_bytes)).collect();
    for (bytes, shown) in [
        (&b"\xef\xbb\xbfbom\n"[..], Some("bom\n")),
        (&utf16, Some("hé\n[encoding: UTF-16LE]")),
        (b"caf\xe9\n", Some("café\n[encoding: windows-1252]")),
        (b"\x7fELF\0\0\0", None),
    ] {
        fs::write(field.ws.join("x"), bytes).unwrap();
        match (read(&field, "x", 0, 0), shown) {
            (Ok(text), Some(shown)) => assert_eq!(text, shown),
            (Err(error), None) => assert!(error.to_string().starts_with("this is a binary file"), "{error}"),
            (result, _) => panic!("{bytes:?}: {result:?}"),
        }
    }
}

#[test]
fn a_wrong_name_is_answered_with_the_near_ones() {
    let field =
        field(&[("src/main.rs", ""), ("src/lib.rs", ""), ("notes/meeting-2026-11-03.txt", ""), (".env", "")]);
    for (path, hint) in [
        ("src/mian.rs", "did you mean \"src/main.rs\"?"),
        ("main.rs", "did you mean \"src/main.rs\"?"),
        ("SRC/main.rs", "did you mean \"src/main.rs\"?"),
        ("Src/Main.RS", "did you mean \"src/main.rs\"?"),
        ("source/main.rs", "did you mean \"src/main.rs\"?"),
        ("srcs/main.rs", "did you mean \"src/main.rs\"?"),
        ("srcs/other.rs", "did you mean \"src\"?"),
        ("notes/meeting-2026-11-3.txt", "did you mean \"notes/meeting-2026-11-03.txt\"?"),
        ("notes/unlike-anything.md", "there is \"notes/meeting-2026-11-03.txt\""),
    ] {
        let error = read(&field, path, 0, 0).unwrap_err();
        assert_eq!(error.kind(), Kind::NotFound);
        assert!(error.to_string().ends_with(hint), "{error}");
    }
    let error = read(&field, ".envv", 0, 0).unwrap_err();
    assert!(!error.to_string().contains("\".env\""), "a closed file is not offered: {error}");
    let edit = field.root.edit_file(&field.grants, "src/mian.rs", "a", "b").unwrap_err();
    assert!(edit.to_string().contains("src/main.rs"), "{edit}");
    let same = field.root.edit_file(&field.grants, "src/mian.rs", "a", "a").unwrap_err();
    assert_eq!(same.kind(), Kind::NotFound, "that comes before what is wrong with the texts: {same}");
}

#[test]
fn a_directory_is_listed_by_name_with_its_kinds() {
    let field = field(&[("b/deep/x.txt", "12345"), ("a.txt", "1"), (".git/config", "")]);
    symlink("b/deep", field.ws.join("inner")).unwrap();
    symlink("../out/secret.txt", field.ws.join("outer")).unwrap();
    fs::write(field.ws.join("evil\n\u{1b}[2J"), "").unwrap();
    let list = |path: &str, depth| field.root.list_directory(&field.grants, path, depth).map(|l| l.content());
    let flat = ".git/\na.txt\nb/\nevil\\u{a}\\u{1b}[2J\ninner -> b/deep\nok.txt\nouter -> (outside the workspace)\n\
         [3 files, 2 directories, 2 links]";
    assert_eq!(list(".", None).unwrap(), flat);
    assert_eq!(list("", Some(0)).unwrap(), flat);
    assert_eq!(list("b", Some(2)).unwrap(), "deep/\ndeep/x.txt\n[1 file, 1 directory]");
    assert_eq!(list("inner", None).unwrap(), "x.txt\n", "a link inside is a way in");
    assert!(!list(".", Some(9)).unwrap().contains("config"), "a repository's own data is not listed");
    assert_eq!(list("a.txt", None).unwrap_err().kind(), Kind::NotADirectory);
    assert_eq!(list("c", None).unwrap_err().kind(), Kind::NotFound);
    let entries = field.root.list_directory(&field.grants, "b/deep", None).unwrap().entries;
    assert_eq!(entries[0].bytes, Some(5));
    fs::create_dir(field.ws.join("none")).unwrap();
    assert_eq!(list("none", None).unwrap(), "(the directory is empty)");
}

#[test]
fn a_listing_counts_what_it_has() {
    let field =
        field(&[("d/a.sh", ""), ("d/b.yaml", ""), ("d/c.yaml", ""), ("d/e/Makefile", ""), ("d/e/f", "")]);
    let list = |path: &str| field.root.list_directory(&field.grants, path, None).unwrap().content();
    assert_eq!(list("d"), "a.sh\nb.yaml\nc.yaml\ne/\n[2 .yaml + 1 .sh = 3 files, 1 directory]");
    assert_eq!(list("d/e"), "Makefile\nf\n[2 files]", "without endings there is nothing more to count");
    fs::write(field.ws.join("d/README"), "").unwrap();
    assert!(list("d").ends_with("[2 .yaml + 1 .sh + 1 other = 4 files, 1 directory]"), "{}", list("d"));
}

#[test]
fn a_listing_ends_at_its_limit() {
    let mut field = Field::new();
    (0..30).for_each(|i| fs::write(field.ws.join(format!("{i:02}")), "").unwrap());
    field.grants.limits.max_entries = 20;
    let listing = field.root.list_directory(&field.grants, ".", None).unwrap();
    assert!(listing.truncated && listing.entries.len() == 20);
    assert!(listing.content().ends_with("[20 entries shown, there are more; list a subdirectory]"));
    field.grants.limits.max_entries = 31;
    assert!(!field.root.list_directory(&field.grants, ".", None).unwrap().truncated);
}

fn search(field: &Field, query: &str, options: &SearchOptions) -> String {
    field.root.search_codebase(&field.grants, query, options).unwrap().content()
}

#[test]
fn text_is_found_in_any_case_with_its_place() {
    let field = field(&[
        ("src/a.rs", "// TODO: one\r\nfn a() {}\r\n"),
        ("src/b.rs", "x\ny // todo (two)\n"),
        ("image.png", "todo\0binary"),
        (".git/x", "todo"),
    ]);
    symlink("../out", field.ws.join("d")).unwrap();
    symlink("src/a.rs", field.ws.join("again.rs")).unwrap();
    let all = SearchOptions::default();
    assert_eq!(search(&field, "todo", &all), "src/a.rs:1: // TODO: one\nsrc/b.rs:2: y // todo (two)\n");
    assert_eq!(search(&field, "(two)", &all), "src/b.rs:2: y // todo (two)\n", "a text, not an expression");
    let kept = all.clone().case(CaseOf::Kept);
    assert_eq!(search(&field, "todo", &kept), "src/b.rs:2: y // todo (two)\n");
    let one = all.clone().path(Some("src/a.rs".into()));
    assert_eq!(search(&field, "todo", &one), "src/a.rs:1: // TODO: one\n");
    let below = all.clone().path(Some("./src/../src/".into()));
    assert_eq!(search(&field, "two", &below), "src/b.rs:2: y // todo (two)\n");
    assert_eq!(search(&field, "one\r\nfn", &all), "src/a.rs:1: // TODO: one\n", "over a line end");
    assert!(search(&field, "canary", &all).starts_with("(no match in 3 files)"), "links are not followed");
    assert!(search(&field, "secret", &all.path(Some("src".into()))).starts_with("(no match in 2"));
}

#[test]
fn expressions_are_tried_when_the_text_is_not_there() {
    let field = field(&[("a.txt", "alpha\nfn beta_2()\n^literal$\n")]);
    let as_regex = SearchOptions::default().query(Query::Regex);
    let as_text = SearchOptions::default().query(Query::Literal);
    assert_eq!(
        search(&field, r"fn \w+\(", &SearchOptions::default()),
        "a.txt:2: fn beta_2()\n[read as a regular expression]"
    );
    assert!(search(&field, r"fn \w+\(", &as_text).starts_with("(no match"));
    assert_eq!(
        search(&field, "^literal$", &SearchOptions::default()),
        "a.txt:3: ^literal$\n",
        "text comes first"
    );
    assert!(search(&field, "^alpha$", &as_regex).starts_with("a.txt:1: alpha"), "line by line");
    for bad in ["(", r"(?=a)b", r"(a)\1", "(a{1000}){1000}"] {
        let error = field.root.search_codebase(&field.grants, bad, &as_regex).unwrap_err();
        assert_eq!(error.kind(), Kind::Invalid, "{bad}");
        assert!(
            field.root.search_codebase(&field.grants, bad, &SearchOptions::default()).is_ok(),
            "{bad} as text"
        );
    }
}

#[test]
fn words_are_tried_when_neither_text_nor_expression_is_there() {
    let field =
        field(&[("prices.csv", "desk, oak, 120\ndesk (pine), 214\nlamp, 30\n"), ("b.txt", "a pine\n")]);
    let all = SearchOptions::default();
    assert_eq!(
        search(&field, "pine desk", &all),
        "prices.csv:2: desk (pine), 214\n[no line holds this text; these hold all of its words]"
    );
    assert_eq!(
        search(&field, "Pine lamp?", &all),
        "b.txt:1: a pine\nprices.csv:2: desk (pine), 214\nprices.csv:3: lamp, 30\n\
         [no line holds this text; these hold some of its words]"
    );
    assert!(search(&field, "pinewood", &all).starts_with("(no match"), "one word has no parts");
    let as_text = all.query(Query::Literal);
    assert!(search(&field, "pine desk", &as_text).starts_with("(no match"));
    let many: String = (0..50).map(|n| format!("word {n}\n")).collect();
    let field = self::field(&[("many.txt", many.as_str())]);
    assert_eq!(search(&field, "some word", &SearchOptions::default()).matches("many.txt").count(), 20);
}

#[test]
fn ignored_files_come_last() {
    let files = [
        (".gitignore", "target/\n*.log\n!keep.log\n"),
        ("target/x.txt", "needle"),
        ("a.log", "needle"),
        ("sub/.gitignore", "b.txt\n"),
        ("sub/b.txt", "needle"),
    ];
    let only_ignored = field(&files);
    let skip = SearchOptions::default().ignored(Ignored::Skip);
    assert!(search(&only_ignored, "needle", &skip).contains("[left out: 3 ignored"));
    let later = search(&only_ignored, "needle", &SearchOptions::default());
    assert_eq!(later.lines().count(), 3, "nothing else was found: {later}");
    let both = field(&[&files[..], &[("keep.log", "needle")]].concat());
    assert_eq!(search(&both, "needle", &SearchOptions::default()), "keep.log:1: needle\n");
    let sub = skip.path(Some("sub".into()));
    fs::write(both.ws.join("sub/c.log"), "needle").unwrap();
    assert!(search(&both, "needle", &sub).contains("[left out: 2 ignored"), "rules from above count below");
}

#[test]
fn a_search_is_bounded_in_hits_bytes_and_depth() {
    let mut field = field(&[
        ("a/many.txt", &"needle\n".repeat(500)),
        ("a/wide.txt", &format!("{}NEEDLE{}", "x".repeat(9_000), "y".repeat(9_000))),
    ]);
    let few = SearchOptions::default().max_results(Some(3));
    let found = field.root.search_codebase(&field.grants, "needle", &few).unwrap();
    assert!(found.truncated && found.hits.len() == 3 && found.content().contains("[stopped after 3 hits"));
    let wide = SearchOptions::default().path(Some("a/wide.txt".into()));
    let found = search(&field, "needle", &wide);
    let line = found.lines().next().unwrap();
    assert!(line.len() < 500 && line.contains("NEEDLE") && line.contains('…'), "{line}");
    field.grants.limits.max_search_bytes = 4_000;
    assert!(
        field.root.search_codebase(&field.grants, "absent", &SearchOptions::default()).unwrap().truncated
    );
    field.grants.limits = FileLimits::default().max_depth(1);
    let shallow = field.root.search_codebase(&field.grants, "needle", &SearchOptions::default()).unwrap();
    assert!(shallow.hits.is_empty() && shallow.truncated);
    field.grants.limits = FileLimits::default().max_walk_entries(2);
    (0..10).for_each(|i| fs::write(field.ws.join(format!("{i}")), "needle").unwrap());
    assert!(
        field.root.search_codebase(&field.grants, "needle", &SearchOptions::default()).unwrap().truncated
    );
}

#[test]
fn files_are_written_with_their_parents_and_keep_their_mode() {
    let field = field(&[("run.sh", "old\n")]);
    let write = |path: &str, text: &str| field.root.write_file(&field.grants, path, text);
    let made = write("x/y/z.txt", "one\ntwo").unwrap();
    assert_eq!(made.content(), "created \"x/y/z.txt\" (2 lines, 7 bytes)");
    assert_eq!(
        write("./x//y/../y/z.txt", "").unwrap().content(),
        "replaced \"x/y/z.txt\" (0 lines, 0 bytes)"
    );
    fs::set_permissions(field.ws.join("run.sh"), fs::Permissions::from_mode(0o750)).unwrap();
    write("run.sh", "new\n").unwrap();
    assert_eq!(fs::metadata(field.ws.join("run.sh")).unwrap().permissions().mode() & 0o7777, 0o750);
    fs::set_permissions(field.ws.join("run.sh"), fs::Permissions::from_mode(0o444)).unwrap();
    assert_eq!(write("run.sh", "x").unwrap_err().kind(), Kind::Denied, "marked read-only");
    assert_eq!(write("x", "x").unwrap_err().kind(), Kind::Failed, "a directory");
    assert_eq!(write("new/", "x").unwrap_err().kind(), Kind::Invalid);
    assert_eq!(write("run.sh/x", "x").unwrap_err().kind(), Kind::NotADirectory);
    assert!(!field.ws.join("new").exists());
    let create = |path: &str| field.root.create_file(&field.grants, path, "x").map(|written| written.created);
    assert!(create("fresh/file.txt").unwrap());
    for taken in ["fresh/file.txt", "fresh", "run.sh"] {
        assert_eq!(create(taken).unwrap_err().kind(), Kind::Exists, "{taken}");
    }
}

#[test]
fn a_failed_write_leaves_nothing_behind() {
    let field = field(&[("a", "old")]);
    let name = format!("new/dirs/{}", "x".repeat(300));
    for path in [name.as_str(), "a/b"] {
        assert!(field.root.write_file(&field.grants, path, "x").is_err());
        assert!(field.root.create_file(&field.grants, path, "x").is_err());
    }
    assert_eq!(
        support::manifest(&field.ws).len(),
        2,
        "the two files that were there: {:?}",
        support::manifest(&field.ws)
    );
}

#[test]
fn an_edit_needs_its_text_exactly_once() {
    let field = field(&[
        ("a.py", "def f():\n    return  1\n\nx = 1\nx = 1\n"),
        ("crlf.txt", "one\r\ntwo\r\nthree\r\n"),
    ]);
    let edit = |path: &str, old: &str, new: &str| field.root.edit_file(&field.grants, path, old, new);
    let none = edit("a.py", "    return 1", "    return 2").unwrap_err();
    assert!(none.to_string().contains("nearest is line 2: \"    return  1\""), "{none}");
    let far = edit("a.py", "completely unrelated words", "").unwrap_err();
    assert!(far.to_string().ends_with("read the file and copy the text exactly"), "{far}");
    let many = edit("a.py", "x = 1", "x = 2").unwrap_err();
    assert!(
        many.to_string().contains("occurs 2 times") && many.to_string().contains("at lines 4, 5"),
        "{many}"
    );
    let done = edit("a.py", "return  1\n\nx = 1", "return 2\n\nx = 3").unwrap();
    assert_eq!(done.content(), "edited \"a.py\" at line 2: 3 lines became 3 lines");
    assert_eq!(
        fs::read_to_string(field.ws.join("a.py")).unwrap(),
        "def f():\n    return 2\n\nx = 3\nx = 1\n"
    );
    edit("crlf.txt", "one\ntwo", "1\n2\n2a").unwrap();
    assert_eq!(fs::read(field.ws.join("crlf.txt")).unwrap(), b"1\r\n2\r\n2a\r\nthree\r\n");
    fs::write(field.ws.join("latin.txt"), b"caf\xe9 one\n").unwrap();
    edit("latin.txt", "one", "two").unwrap();
    assert_eq!(
        fs::read(field.ws.join("latin.txt")).unwrap(),
        b"caf\xe9 two\n",
        "bytes outside the piece stay"
    );
    fs::write(field.ws.join("twice"), "aaa").unwrap();
    assert!(
        edit("twice", "aa", "b").unwrap_err().to_string().contains("2 times"),
        "overlapping places count"
    );
    for (old, new) in [("", "x"), ("x = 1", "x = 1")] {
        assert_eq!(edit("a.py", old, new).unwrap_err().kind(), Kind::Invalid);
    }
    fs::write(field.ws.join("bin"), b"\0one").unwrap();
    assert!(edit("bin", "one", "two").unwrap_err().to_string().contains("binary"));
}

#[test]
fn a_scope_holds_for_every_tool_and_through_links() {
    let mut field = field(&[("notes/a.md", "needle"), ("src/b.rs", "needle")]);
    symlink("../src", field.ws.join("notes/src")).unwrap();
    symlink("notes", field.ws.join("n")).unwrap();
    field.grants.read = Scope::under(["notes"]).unwrap();
    field.grants.write = Scope::under(["notes/new"]).unwrap();
    assert!(read(&field, "notes/a.md", 0, 0).is_ok() && read(&field, "n/a.md", 0, 0).is_ok());
    for path in ["src/b.rs", "notes/../src/b.rs", "notes/src/b.rs", "ok.txt"] {
        assert_eq!(read(&field, path, 0, 0).unwrap_err().kind(), Kind::Denied, "{path}");
    }
    let found = search(&field, "needle", &SearchOptions::default().path(Some("notes".into())));
    assert_eq!(found, "notes/a.md:1: needle\n");
    assert!(field.root.write_file(&field.grants, "n/new/x.md", "x").is_ok());
    assert_eq!(field.root.write_file(&field.grants, "notes/a.md", "x").unwrap_err().kind(), Kind::Denied);
}

#[test]
fn a_workspace_is_opened_once_and_never_by_name_again() {
    let field = Field::new();
    let moved = field.ws.with_file_name("moved");
    fs::rename(&field.ws, &moved).unwrap();
    symlink(&field.out, &field.ws).unwrap();
    assert_eq!(read(&field, "ok.txt", 0, 0).unwrap(), "fine\n", "the handle, not the name");
    assert_eq!(read(&field, "secret.txt", 0, 0).unwrap_err().kind(), Kind::NotFound);
    let open = |path: &std::path::Path| Root::open(path, toolgate_sandbox::ambient_authority());
    assert_eq!(open(&field.out.join("absent")).unwrap_err().kind(), Kind::NotFound);
    assert_eq!(open(&field.out.join("secret.txt")).unwrap_err().kind(), Kind::NotADirectory);
    assert!(open(&moved).unwrap().check_writable().is_ok());
    let enforced = field.root.enforced(&Grants::read_write());
    assert_eq!(serde_json::to_value(&enforced).unwrap()["fs"], "capability:read+write");
}

#[test]
fn an_outline_names_what_may_be_read_and_what_may_be_changed() {
    let mut field =
        field(&[("a.txt", ""), ("docs/b.md", ""), ("docs/in/c", ""), (".env", ""), (".git/config", "")]);
    symlink("docs", field.ws.join("link")).unwrap();
    let outline = field.root.outline(&field.grants, false, &OutlineLimits::default());
    assert_eq!(outline.files, ["a.txt", "link", "ok.txt", ".git/config", "docs/b.md", "docs/in/c"]);
    assert_eq!(outline.directories, [".", ".git", "docs", "link", "docs/in"]);
    assert_eq!(outline.open, ["link"], "where it leads is not looked at");

    let outline = field.root.outline(&field.grants, true, &OutlineLimits::default());
    assert!(!outline.files.iter().any(|path| path.starts_with(".git")), "{outline:?}");
    field.grants.write = Scope::under(["docs/in", "a.txt", "later"]).unwrap();
    let outline = field.root.outline(&field.grants, true, &OutlineLimits::default());
    assert_eq!(outline.files, ["a.txt", "later", "docs/in/c"]);
    assert_eq!((outline.directories, outline.open), (vec!["docs/in".to_owned()], vec!["later".to_owned()]));
    for path in &outline.files[..2] {
        assert!(field.root.write_file(&field.grants, path, "").is_ok(), "{path}");
    }
}

#[test]
fn an_outline_leaves_open_what_is_too_large() {
    let field = field(&[("a.txt", ""), ("small/b", ""), ("small/deep/c", "")]);
    fs::create_dir(field.ws.join("large")).unwrap();
    for i in 0..100_000 {
        fs::write(field.ws.join(format!("large/{i}")), "").unwrap();
    }
    let outline = field.root.outline(&field.grants, false, &OutlineLimits::default());
    assert_eq!(outline.files, ["a.txt", "ok.txt", "small/b", "small/deep/c"]);
    assert_eq!(outline.open, ["large"]);
    let tight = [
        (OutlineLimits::default().depth(2), vec!["large", "small/deep"]),
        (OutlineLimits::default().entries(2), vec!["."]),
        (OutlineLimits::default().bytes(25), vec!["large", "small"]),
        (OutlineLimits::default().time(std::time::Duration::ZERO), vec!["."]),
    ];
    for (limits, open) in tight {
        assert_eq!(field.root.outline(&field.grants, false, &limits).open, open, "{limits:?}");
    }
}
