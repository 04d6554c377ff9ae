//! Attacks on the component tier, each with its control: the same request done with plain `std::fs` reaches what it is
//! after, or the same component under a wider grant goes through. Everything runs twice: as a preview 1 module and as a
//! component.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the controls are plain std::fs")]

mod support;

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use support::{CANARY, Field, Swapper, manifest, race};
use toolgate_sandbox::wasm::{Bound, Component, Components, Directory, End, Limits, Ran, Reach, Setup};
use toolgate_sandbox::{Error, Grants, Kind};

static COMPONENTS: LazyLock<Components> = LazyLock::new(|| Components::new(&Setup::default(), None).unwrap());

/// The guest in both forms.
static PROBES: LazyLock<[Component; 2]> = LazyLock::new(|| {
    let load = |bytes: &[u8]| COMPONENTS.load(bytes.to_vec(), None, None).unwrap();
    [load(include_bytes!("guests/probe.p1.wasm")), load(include_bytes!("guests/probe.p2.wasm"))]
});

fn directory(host: &str, write: bool) -> Directory {
    Directory { host: host.into(), guest: "/work".into(), write }
}

fn limits() -> Limits {
    Limits::default().wall_ms(10_000)
}

/// Runs a probe with `words` under these bounds, over the whole workspace.
fn run_with(
    field: &Field,
    probe: &Component,
    directory: Directory,
    limits: &Limits,
    words: &[&str],
) -> Result<Ran, Error> {
    let directories = [directory];
    let reach = Reach { root: &field.root, grants: &field.grants, directories: &directories };
    let mut args = vec!["probe".to_owned()];
    args.extend(words.iter().map(|word| field.path(word)));
    COMPONENTS.run(probe, &reach, limits, &args, Vec::new())
}

fn run(field: &Field, probe: &Component, words: &[&str]) -> Ran {
    run_with(field, probe, directory(".", true), &limits(), words).unwrap()
}

fn shown(ran: &Ran) -> String {
    String::from_utf8_lossy(&ran.content()).into_owned()
}

/// What the probe does, done with `std::fs` where `/work` is the workspace.
fn run_plainly(field: &Field, words: &[&str]) -> std::io::Result<String> {
    let at = |i: usize| field.path(words[i]).replacen("/work", field.ws.to_str().unwrap(), 1);
    match words[0] {
        "read" => fs::read_to_string(at(1)),
        "list" => Ok(fs::read_dir(at(1))?
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect::<Vec<_>>()
            .join("\n")),
        "write" | "overwrite" | "new" => fs::write(at(1), words[2]).map(|()| String::new()),
        "append" => {
            fs::write(at(1), format!("{}{}", fs::read_to_string(at(1))?, words[2])).map(|()| String::new())
        }
        "truncate" | "open-truncate" => {
            fs::OpenOptions::new().write(true).open(at(1))?.set_len(0).map(|()| String::new())
        }
        "mkdir" => fs::create_dir(at(1)).map(|()| String::new()),
        "remove" => fs::remove_file(at(1)).map(|()| String::new()),
        "rename" => fs::rename(at(1), at(2)).map(|()| String::new()),
        "link" => fs::hard_link(at(1), at(2)).map(|()| String::new()),
        other => panic!("{other}"),
    }
}

type Prepare = fn(&Field);

fn nothing(_: &Field) {}

fn link(field: &Field, target: &str, name: &str) {
    symlink(field.path(target), field.ws.join(name)).unwrap();
}

fn linked(field: &Field) {
    link(field, "../out", "d");
    link(field, "{OUT}", "a");
    link(field, "../out/secret.txt", "s");
    link(field, "../out/target.txt", "t");
    link(field, "../out/new.txt", "n");
    link(field, "/proc/self/root", "r");
    link(field, "s", "ss");
}

const OUTSIDE: &[(&str, Prepare, &[&str])] = &[
    ("dot dot", nothing, &["read", "/work/../out/secret.txt"]),
    (
        "dot dot after a directory",
        |f| fs::create_dir(f.ws.join("x")).unwrap(),
        &["read", "/work/x/../../out/secret.txt"],
    ),
    ("absolute", nothing, &["read", "{OUT}/secret.txt"]),
    ("a link to a file", linked, &["read", "/work/s"]),
    ("a link to a link", linked, &["read", "/work/ss"]),
    ("below a link", linked, &["read", "/work/d/secret.txt"]),
    ("below an absolute link", linked, &["read", "/work/a/secret.txt"]),
    ("below /proc/self/root", linked, &["read", "/work/r{OUT}/secret.txt"]),
    ("list the parent", nothing, &["list", "/work/.."]),
    ("list through a link", linked, &["list", "/work/d"]),
    ("list through a link with a slash", linked, &["list", "/work/d/"]),
    ("list through a link with a dot", linked, &["list", "/work/a/."]),
    ("write by dot dot", nothing, &["write", "/work/../out/target.txt", "x"]),
    ("write through a link", linked, &["write", "/work/t", "x"]),
    ("write below a link", linked, &["write", "/work/d/target.txt", "x"]),
    ("write through a dangling link", linked, &["write", "/work/n", "x"]),
    ("create below a link", linked, &["new", "/work/d/new.txt", "x"]),
    ("append through a link", linked, &["append", "/work/t", "x"]),
    ("overwrite below an absolute link", linked, &["overwrite", "/work/a/target.txt", "x"]),
    ("truncate through a link", linked, &["truncate", "/work/t", "0"]),
    ("open and truncate through a link", linked, &["open-truncate", "/work/t"]),
    ("a directory below a link", linked, &["mkdir", "/work/d/new"]),
    ("remove below a link", linked, &["remove", "/work/d/target.txt"]),
    ("rename out", linked, &["rename", "/work/ok.txt", "/work/d/ok.txt"]),
    ("rename out by dot dot", nothing, &["rename", "/work/ok.txt", "/work/../out/ok.txt"]),
    ("rename in", linked, &["rename", "/work/d/secret.txt", "/work/mine"]),
    ("link in", linked, &["link", "/work/d/secret.txt", "/work/mine"]),
];

#[test]
fn requests_that_lead_outside_are_refused() {
    for (name, setup, words) in OUTSIDE {
        let field = Field::new();
        setup(&field);
        let before = (field.outside(), manifest(&field.ws));
        let seen =
            run_plainly(&field, words).unwrap_or_else(|error| panic!("{name}: the control fails: {error}"));
        let listed = words[0] == "list" && !seen.is_empty();
        let reached = seen.contains(CANARY) || listed || (field.outside(), manifest(&field.ws)) != before;
        assert!(reached, "{name}: the control does not reach outside, so this is no attack");
        for probe in PROBES.iter() {
            let field = Field::new();
            setup(&field);
            let before = (field.outside(), manifest(&field.ws));
            let ran = run(&field, probe, words);
            assert_ne!(ran.end, End::Exited(0), "{name}: {}", shown(&ran));
            assert!(!shown(&ran).contains(CANARY), "{name}: {}", shown(&ran));
            assert_eq!((field.outside(), manifest(&field.ws)), before, "{name}");
        }
    }
}

#[test]
fn what_is_granted_works() {
    for probe in PROBES.iter() {
        let field = Field::new();
        fs::create_dir(field.ws.join("dir")).unwrap();
        link(&field, "ok.txt", "l");
        link(&field, "../ok.txt", "dir/up");
        let does = |words: &[&str], says: &str| {
            let ran = run(&field, probe, words);
            assert_eq!(ran.end, End::Exited(0), "{words:?}: {}", shown(&ran));
            assert!(shown(&ran).contains(says), "{words:?}: {}", shown(&ran));
        };
        does(&["say", "hello"], "hello");
        does(&["both"], "one two three");
        does(&["read", "/work/ok.txt"], "fine");
        does(&["read", "/work/dir/../ok.txt"], "fine");
        does(&["read", "/work/l"], "fine");
        does(&["read", "/work/dir/up"], "fine");
        does(&["list", "/work"], "ok.txt");
        does(&["stat", "/work/ok.txt"], "5 bytes");
        does(&["write", "/work/dir/new.txt", "one"], "done");
        does(&["append", "/work/dir/new.txt", " two"], "done");
        assert_eq!(fs::read_to_string(field.ws.join("dir/new.txt")).unwrap(), "one two");
        does(&["overwrite", "/work/dir/new.txt", "ONE"], "done");
        does(&["truncate", "/work/dir/new.txt", "5"], "done");
        assert_eq!(fs::read_to_string(field.ws.join("dir/new.txt")).unwrap(), "ONE t");
        does(&["times", "/work/dir/new.txt"], "done");
        assert_eq!(fs::metadata(field.ws.join("dir/new.txt")).unwrap().mtime(), 1000);
        does(&["rename", "/work/dir/new.txt", "/work/moved.txt"], "done");
        does(&["readlink", "/work/l"], "ok.txt");
        does(&["remove", "/work/l"], "done");
        does(&["mkdir", "/work/dir/sub"], "done");
        does(&["rmdir", "/work/dir/sub"], "done");
        assert_eq!(
            fs::read_to_string(field.ws.join("ok.txt")).unwrap(),
            "fine\n",
            "links are removed, not followed"
        );
        assert_eq!(fs::read_to_string(field.ws.join("moved.txt")).unwrap(), "ONE t");
        does(&["memory", "40"], "done");
    }
}

/// Everything that changes something, on `f` and in `d`.
const CHANGES: &[&[&str]] = &[
    &["write", "/work/f", "x"],
    &["append", "/work/f", "x"],
    &["overwrite", "/work/f", "x"],
    &["new", "/work/n", "x"],
    &["truncate", "/work/f", "0"],
    &["open-truncate", "/work/f"],
    &["remove", "/work/f"],
    &["rename", "/work/f", "/work/n"],
    &["mkdir", "/work/n"],
    &["rmdir", "/work/d"],
    &["times", "/work/f"],
    &["handle-times", "/work/f"],
];

/// Names, contents and times.
fn state(field: &Field) -> Vec<(std::path::PathBuf, String, i64)> {
    let time = |path: &std::path::Path| fs::symlink_metadata(path).unwrap().mtime();
    manifest(&field.ws).into_iter().map(|(path, what)| (path.clone(), what, time(&path))).collect()
}

fn with_file_and_directory() -> Field {
    let field = Field::new();
    fs::write(field.ws.join("f"), "as it was").unwrap();
    fs::create_dir(field.ws.join("d")).unwrap();
    field
}

#[test]
fn a_reading_grant_changes_nothing() {
    for probe in PROBES.iter() {
        for words in CHANGES {
            let read_only = with_file_and_directory();
            let mut under_read_grants = with_file_and_directory();
            under_read_grants.grants = Grants::read_only();
            for (field, write) in [(&read_only, false), (&under_read_grants, true)] {
                let before = state(field);
                let ran = run_with(field, probe, directory(".", write), &limits(), words).unwrap();
                assert_ne!(ran.end, End::Exited(0), "{words:?}: {}", shown(&ran));
                assert_eq!(state(field), before, "{words:?}");
                let reads = run_with(field, probe, directory(".", write), &limits(), &["read", "/work/f"]);
                assert!(shown(&reads.unwrap()).contains("as it was"));
            }
            // The control: the same request under a writing grant. Times need a handle that was opened for writing.
            let field = with_file_and_directory();
            let before = state(&field);
            run(&field, probe, words);
            let opened_to_read = matches!(words[0], "handle-times" | "open-truncate");
            assert!(state(&field) != before || opened_to_read, "{words:?} does nothing at all");
        }
    }
}

/// Requests for what is obeyed later or kept secret, and the same for a name like it that is neither.
const NAMES: &[(&[&str], &[&str])] = &[
    (&["write", "/work/.git/hooks/pre-commit", "x"], &["write", "/work/git/hooks/pre-commit", "x"]),
    (&["write", "/work/.GIT/hooks/pre-commit", "x"], &["write", "/work/GIT/hooks/pre-commit", "x"]),
    (&["new", "/work/.git/config", "x"], &["new", "/work/git/config", "x"]),
    (&["write", "/work/hooks/pre-commit", "x"], &["write", "/work/git/hooks/pre-commit", "x"]),
    (&["mkdir", "/work/sub/.git"], &["mkdir", "/work/sub/.got"]),
    (&["new", "/work/.bashrc", "x"], &["new", "/work/bashrc", "x"]),
    (&["rename", "/work/ok.txt", "/work/.bashrc"], &["rename", "/work/ok.txt", "/work/bashrc"]),
    (
        &["rename", "/work/ok.txt", "/work/.git/hooks/post-merge"],
        &["rename", "/work/ok.txt", "/work/git/hooks/post-merge"],
    ),
    (&["remove", "/work/.git/HEAD"], &["remove", "/work/git/HEAD"]),
    (&["rename", "/work/.git/HEAD", "/work/head"], &["rename", "/work/git/HEAD", "/work/head"]),
    (&["truncate", "/work/.git/HEAD", "0"], &["truncate", "/work/git/HEAD", "0"]),
    (&["times", "/work/.git/HEAD"], &["times", "/work/git/HEAD"]),
    (&["read", "/work/.env"], &["read", "/work/env"]),
    (&["read", "/work/.ENV"], &["read", "/work/ENV"]),
    (&["read", "/work/to-env"], &["read", "/work/env"]),
    (&["stat", "/work/.env"], &["stat", "/work/env"]),
    (&["rename", "/work/.env", "/work/mine"], &["rename", "/work/env", "/work/mine"]),
    (&["remove", "/work/.env"], &["remove", "/work/env"]),
    (&["overwrite", "/work/.env", "x"], &["overwrite", "/work/env", "x"]),
    // git takes a directory with these three for a repository.
    (&["write", "/work/bare/HEAD", "x"], &["write", "/work/bare/HEADS", "x"]),
    (&["write", "/work/whole/config", "x"], &["write", "/work/bare/config", "x"]),
];

fn with_names() -> Field {
    let field = Field::new();
    for repository in
        [".git", "git", "GIT", "sub", "bare/objects", "bare/refs", "whole/objects", "whole/refs"]
    {
        fs::create_dir_all(field.ws.join(repository).join("hooks")).unwrap();
    }
    for file in [".git/HEAD", "git/HEAD", ".env", "env", ".ENV", "ENV", "whole/HEAD"] {
        fs::write(field.ws.join(file), CANARY).unwrap();
    }
    link(&field, ".git/hooks", "hooks");
    link(&field, ".env", "to-env");
    field
}

#[test]
fn protected_and_secret_names_hold_for_components() {
    for probe in PROBES.iter() {
        for (forbidden, like_it) in NAMES {
            let field = with_names();
            let before = state(&field);
            let ran = run(&field, probe, forbidden);
            assert_ne!(ran.end, End::Exited(0), "{forbidden:?}: {}", shown(&ran));
            assert_eq!(state(&field), before, "{forbidden:?}");
            assert!(!shown(&ran).contains(CANARY), "{forbidden:?}: {}", shown(&ran));
            // Where only another spelling is there, a file system that tells them apart has nothing to refuse.
            let absent = shown(&ran).contains("No such file");
            assert!(ran.refused.is_some() || absent, "{forbidden:?} says why: {}", shown(&ran));
            let ran = run(&with_names(), probe, like_it);
            assert_eq!(ran.end, End::Exited(0), "the control {like_it:?}: {}", shown(&ran));
        }
        // Where the directories are missing too; under another name the file is just not found.
        for (path, refused) in [("/work/gone/.git/config", true), ("/work/gone/git/config", false)] {
            for words in [["new", path, "x"], ["mkdir", path, ""]] {
                let ran = run(&Field::new(), probe, &words);
                assert_eq!(ran.end, End::Exited(1), "{words:?}");
                assert_eq!(ran.refused.is_some(), refused, "{words:?}: {}", shown(&ran));
            }
        }
    }
}

#[test]
fn directories_are_opened_beneath_the_workspace_or_refused() {
    let field = Field::new();
    linked(&field);
    fs::write(field.ws.join(".env"), CANARY).unwrap();
    fs::create_dir(field.ws.join("inner")).unwrap();
    fs::write(field.ws.join("inner/in.txt"), "inside").unwrap();
    link(&field, "inner", "l");
    for (host, kind) in [
        ("..", Kind::Denied),
        ("../out", Kind::Denied),
        ("{OUT}", Kind::Denied),
        ("/", Kind::Denied),
        ("d", Kind::Denied),
        ("a", Kind::Denied),
        ("r", Kind::Denied),
        ("l/../../out", Kind::Denied),
        ("missing", Kind::NotFound),
        (".env", Kind::NotADirectory),
        ("", Kind::Invalid),
    ] {
        let error =
            run_with(&field, &PROBES[1], directory(&field.path(host), true), &limits(), &["list", "/work"]);
        assert_eq!(error.unwrap_err().kind(), kind, "{host}");
    }
    for host in ["inner", "l", "{WS}/inner", "./inner/../l"] {
        let ran = run_with(
            &field,
            &PROBES[1],
            directory(&field.path(host), false),
            &limits(),
            &["read", "/work/in.txt"],
        );
        assert!(shown(&ran.unwrap()).contains("inside"), "{host}");
    }
    // Nothing leads from a granted directory to its siblings, though they are in the workspace.
    link(&field, "../ok.txt", "inner/up");
    link(&field, "{WS}/ok.txt", "inner/whole");
    for words in [["read", "/work/../ok.txt"], ["read", "/work/up"], ["read", "/work/whole"]] {
        let ran = run_with(&field, &PROBES[1], directory("inner", true), &limits(), &words).unwrap();
        assert!(!shown(&ran).contains("fine"), "{words:?}");
    }
    // A policy that grants parts grants components no more than those.
    let parts = Grants { read: toolgate_sandbox::Scope::under(["inner"]).unwrap(), ..Grants::default() };
    let mut narrow = field;
    narrow.grants = parts;
    let whole = run_with(&narrow, &PROBES[1], directory(".", false), &limits(), &["list", "/work"]);
    assert_eq!(whole.unwrap_err().kind(), Kind::Denied);
    let part = run_with(&narrow, &PROBES[1], directory("inner", false), &limits(), &["list", "/work"]);
    assert!(shown(&part.unwrap()).contains("in.txt"));
}

#[test]
fn links_are_not_made_and_files_with_other_names_are_not_written() {
    for probe in PROBES.iter() {
        let field = Field::new();
        fs::write(field.ws.join("plain"), "as it was").unwrap();
        for words in [
            ["symlink", "../out", "/work/n"],
            ["symlink", "ok.txt", "/work/n"],
            ["link", "/work/ok.txt", "/work/n"],
        ] {
            let ran = run(&field, probe, &words);
            assert!(ran.end != End::Exited(0) && ran.refused.is_some(), "{words:?}: {}", shown(&ran));
            assert!(fs::symlink_metadata(field.ws.join("n")).is_err(), "{words:?}");
        }
        fs::hard_link(field.out.join("target.txt"), field.ws.join("h")).unwrap();
        fs::write(field.ws.join("suid"), "program").unwrap();
        fs::set_permissions(field.ws.join("suid"), fs::Permissions::from_mode(0o4755)).unwrap();
        for name in ["/work/h", "/work/suid"] {
            for words in [
                ["write", name, "x"],
                ["append", name, "x"],
                ["overwrite", name, "x"],
                ["truncate", name, "0"],
            ] {
                let before = (field.outside(), manifest(&field.ws));
                assert_ne!(run(&field, probe, &words).end, End::Exited(0), "{words:?}");
                assert_eq!((field.outside(), manifest(&field.ws)), before, "{words:?}");
                let plain = [words[0], "/work/plain", words[2]];
                assert_eq!(run(&field, probe, &plain).end, End::Exited(0), "the control {plain:?}");
            }
        }
        // Directories keep their names, so that rules about them stay true.
        fs::create_dir(field.ws.join("some")).unwrap();
        assert_ne!(run(&field, probe, &["rename", "/work/some", "/work/other"]).end, End::Exited(0));
    }
}

#[test]
fn pipes_and_devices_keep_nobody_waiting() {
    let field = Field::new();
    rustix::fs::mknodat(rustix::fs::CWD, field.ws.join("pipe"), rustix::fs::FileType::Fifo, 0o600.into(), 0)
        .unwrap();
    for probe in PROBES.iter() {
        for words in
            [&["read", "/work/pipe"][..], &["write", "/work/pipe", "x"], &["truncate", "/work/pipe", "0"]]
        {
            let ran = run(&field, probe, words);
            assert!(matches!(ran.end, End::Exited(1)), "{words:?}: {}", shown(&ran));
        }
    }
}

#[test]
fn a_racing_swapper_leads_nowhere() {
    for (probe, other) in [(&PROBES[0], "q"), (&PROBES[1], "q")] {
        let field = Field::new();
        fs::create_dir(field.ws.join("p")).unwrap();
        fs::write(field.ws.join("p/secret.txt"), "harmless").unwrap();
        link(&field, "../out", other);
        let swapper = Swapper::between(&field, other);
        let mut harmless = 0;
        let before = field.outside();
        let leaked = race(Duration::from_secs(2), || {
            let read = shown(&run(&field, probe, &["read", "/work/p/secret.txt"]));
            harmless += usize::from(read.contains("harmless"));
            run(&field, probe, &["overwrite", "/work/p/target.txt", "x"]);
            run(&field, probe, &["new", "/work/p/new.txt", "x"]);
            read.contains(CANARY) || field.outside() != before
        });
        drop(swapper);
        assert!(!leaked && harmless > 0, "{leaked} {harmless}");
    }
}

#[test]
fn there_is_no_environment() {
    for probe in PROBES.iter() {
        let ran = run(&Field::new(), probe, &["environment", "word"]);
        assert_eq!(String::from_utf8_lossy(&ran.output), "probe\nenvironment\nword\n");
        assert!(std::env::vars_os().count() > 0, "the control: this process has one");
        assert_eq!((ran.enforced.net.as_str(), ran.enforced.process.as_str()), ("none", "component"));
    }
}

#[test]
fn what_computes_or_waits_ends_in_time() {
    let field = Field::new();
    let short = limits().wall_ms(300).fuel(u64::MAX);
    for probe in PROBES.iter() {
        for words in [["spin", ""], ["sleep", "3600"]] {
            let start = Instant::now();
            let ran = run_with(&field, probe, directory(".", true), &short, &words).unwrap();
            assert_eq!(ran.end, End::Stopped(Bound::Time), "{words:?}");
            // Far more than it takes, and far less than an hour.
            assert!(start.elapsed() < Duration::from_secs(20), "{words:?}: {:?}", start.elapsed());
        }
        let poor = limits().fuel(1_000_000);
        let ran = run_with(&field, probe, directory(".", true), &poor, &["spin"]).unwrap();
        assert_eq!(ran.end, End::Stopped(Bound::Fuel));
        let nothing_given = run(&field, probe, &["stdin"]);
        assert_eq!(nothing_given.end, End::Exited(0), "standard input ends at once");
    }
}

#[test]
fn memory_stack_output_and_disk_are_bounded() {
    let small = limits().memory_mb(64).disk_mb(2).files(20).output_kb(8);
    for probe in PROBES.iter() {
        let field = Field::new();
        let tries = |words: &[&str]| run_with(&field, probe, directory(".", true), &small, words).unwrap();
        let ran = tries(&["memory", "200"]);
        assert!(ran.end == End::Exited(1) && ran.reached == [Bound::Memory], "{}", shown(&ran));
        assert_eq!(tries(&["memory", "40"]).end, End::Exited(0));

        let ran = tries(&["deeper"]);
        assert!(matches!(ran.end, End::Stopped(Bound::Stack) | End::Trapped(_)), "{:?}", ran.end);

        let ran = tries(&["flood", "50000000"]);
        assert!(ran.end == End::Exited(0) && ran.truncated && ran.output.len() == 8 * 1024, "{:?}", ran.end);
        assert_eq!(ran.output_bytes, 50_000_000_u64.div_ceil(64) * 64);

        let ran = tries(&["fill", "/work/big", "100000000"]);
        assert!(ran.end == End::Exited(1) && ran.reached == [Bound::Disk], "{}", shown(&ran));
        assert!(fs::metadata(field.ws.join("big")).unwrap().len() <= 2 << 20);
        assert_eq!(tries(&["fill", "/work/small", "1000000"]).end, End::Exited(0));
        let ran = tries(&["truncate", "/work/small", "1000000000000"]);
        assert!(ran.end == End::Exited(1) && ran.reached == [Bound::Disk], "{}", shown(&ran));

        let ran = tries(&["files", "/work", "1000"]);
        assert!(ran.end == End::Exited(1) && ran.reached == [Bound::Disk], "{}", shown(&ran));
        assert!(manifest(&field.ws).len() < 30);
        let many = Field::new();
        let ran =
            run_with(&many, probe, directory(".", true), &limits(), &["handles", "/work", "1000"]).unwrap();
        assert_eq!(ran.end, End::Exited(1), "{}", shown(&ran));
        assert!(manifest(&many.ws).len() < 300, "handles are counted");
        assert_eq!(run(&many, probe, &["files", "/work", "1000"]).end, End::Exited(0), "the control");
    }
}

#[test]
fn a_component_that_breaks_breaks_alone() {
    let field = Field::new();
    for probe in PROBES.iter() {
        assert!(matches!(run(&field, probe, &["abort"]).end, End::Trapped(_)));
        // WASI 0.2 knows success and failure, no number: `wasi:cli/exit` takes a result without values.
        assert_eq!(run(&field, probe, &["exit", "7"]).end, End::Exited(1));
        assert_eq!(run(&field, probe, &["exit", "0"]).end, End::Exited(0));
        assert_eq!(run(&field, probe, &["say", "still here"]).end, End::Exited(0));
    }
}
