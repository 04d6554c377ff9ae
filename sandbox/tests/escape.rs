//! Attacks on the file tier. Each one has a control: the same request, done with plain `std::fs`, reaches
//! what it is after. The whole matrix runs again where `openat2` fails, so that the manual resolver is
//! attacked as well.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the controls are plain std::fs")]

mod support;

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use support::{CANARY, Field, Op, Swapper, manifest, race};
use toolgate_sandbox::{Grants, Kind, ReadOptions, Resolver, SearchOptions};

type Setup = fn(&Field);

fn nothing(_: &Field) {}

fn link(field: &Field, target: &str, name: &str) {
    symlink(field.path(target), field.ws.join(name)).unwrap();
}

/// Requests that would reach `out`. What a plain tool would see or change shows that the attack is one.
const REACHES_OUTSIDE: &[(&str, Setup, Op)] = &[
    ("dot dot", nothing, Op::Read("../out/secret.txt")),
    (
        "dot dot after a directory",
        |f| fs::create_dir(f.ws.join("a")).unwrap(),
        Op::Read("a/../../out/secret.txt"),
    ),
    ("dot dot, doubled slashes", nothing, Op::Read(".//..///out//secret.txt")),
    ("absolute", nothing, Op::Read("{OUT}/secret.txt")),
    ("absolute, below the workspace's path, then out", nothing, Op::Read("{WS}/../out/secret.txt")),
    ("/proc/self/root", nothing, Op::Read("/proc/self/root{OUT}/secret.txt")),
    ("link to a file", |f| link(f, "../out/secret.txt", "l"), Op::Read("l")),
    ("link to a file, absolute", |f| link(f, "{OUT}/secret.txt", "l"), Op::Read("l")),
    ("link to a directory", |f| link(f, "../out", "d"), Op::Read("d/secret.txt")),
    ("link to a directory, absolute", |f| link(f, "{OUT}", "d"), Op::Read("d/secret.txt")),
    ("link to the parent", |f| link(f, "..", "up"), Op::Read("up/out/secret.txt")),
    ("link to the workspace, then dot dot", |f| link(f, ".", "self"), Op::Read("self/../out/secret.txt")),
    ("link to a link", |f| (link(f, "b", "a"), link(f, "../out", "b")).0, Op::Read("a/secret.txt")),
    ("link to /proc/self/root", |f| link(f, "/proc/self/root", "r"), Op::Read("r{OUT}/secret.txt")),
    ("link to /proc/self/cwd", |f| link(f, "/proc/self/cwd", "c"), Op::List("c")),
    ("link below a directory", below_a_directory, Op::Read("a/b/l/secret.txt")),
    ("search through a link", |f| link(f, "../out", "d"), Op::Search("d")),
    ("search the parent", nothing, Op::Search("../out")),
    ("list the parent", nothing, Op::List("../out")),
    ("list an absolute path", nothing, Op::List("{OUT}")),
    ("list through a link", |f| link(f, "../out", "d"), Op::List("d")),
    ("list through a link with a slash", |f| link(f, "../out", "d"), Op::List("d/")),
    ("list through a link with a dot", |f| link(f, "../out", "d"), Op::List("d/.")),
    ("list through a link whose target has a slash", |f| link(f, "../out/", "d"), Op::List("d")),
    ("write by dot dot", nothing, Op::Write("../out/target.txt")),
    ("write by an absolute path", nothing, Op::Write("{OUT}/target.txt")),
    ("write through a link", |f| link(f, "../out/target.txt", "t"), Op::Write("t")),
    ("write below a link", |f| link(f, "../out", "d"), Op::Write("d/target.txt")),
    ("make directories below a link", |f| link(f, "../out", "d"), Op::Write("d/new/deep/x.txt")),
    ("write through a dangling link", |f| link(f, "../out/new.txt", "n"), Op::Write("n")),
    ("create through a dangling link", |f| link(f, "../out/new.txt", "n"), Op::Create("n")),
    ("create below a link", |f| link(f, "../out", "d"), Op::Create("d/new.txt")),
    ("create by dot dot", nothing, Op::Create("../out/new.txt")),
    ("edit through a link", |f| link(f, "../out/target.txt", "t"), Op::Edit("t")),
    ("edit below a link", |f| link(f, "../out", "d"), Op::Edit("d/target.txt")),
];

fn below_a_directory(field: &Field) {
    fs::create_dir_all(field.ws.join("a/b")).unwrap();
    symlink("../../../out", field.ws.join("a/b/l")).unwrap();
}

fn check_outside() {
    for (name, setup, op) in REACHES_OUTSIDE {
        let field = Field::new();
        setup(&field);
        let before = field.outside();
        let seen =
            op.run_plainly(&field).unwrap_or_else(|error| panic!("{name}: the control fails: {error}"));
        let listed = matches!(op, Op::List(_)) && !seen.is_empty();
        let reached = seen.contains(CANARY) || listed || field.outside() != before;
        assert!(reached, "{name}: the control does not reach outside, so this is no attack");

        let field = Field::new();
        setup(&field);
        let before = field.outside();
        let error = op.run(&field).map(|shown| panic!("{name}: it went through: {shown}")).unwrap_err();
        assert_eq!(error.kind(), Kind::Denied, "{name}: {error}");
        assert!(error.to_string().starts_with("path is outside the workspace"), "{name}: {error}");
        assert!(!error.to_string().contains(CANARY), "{name}: {error}");
        assert_eq!(field.outside(), before, "{name}");
    }
}

/// The near-twins: links and dots that stay inside, and the workspace's own absolute path.
const STAYS_INSIDE: &[(&str, Setup, Op)] = &[
    ("plain", nothing, Op::Read("ok.txt")),
    ("dots and slashes", |f| fs::create_dir(f.ws.join("a")).unwrap(), Op::Read("./a//..///./ok.txt")),
    ("the workspace's own path", nothing, Op::Read("{WS}/ok.txt")),
    ("a link to a file", |f| link(f, "ok.txt", "l"), Op::Read("l")),
    ("a link to a file by the workspace's own path", |f| link(f, "{WS}/ok.txt", "l"), Op::Read("l")),
    ("a link to the workspace", |f| link(f, ".", "self"), Op::Read("self/self/ok.txt")),
    ("a link up and down again", below_and_up, Op::Read("a/b/up/ok.txt")),
    ("a link to a directory, listed with a slash", |f| link(f, ".", "self"), Op::List("self/")),
    ("names that begin with dots", |f| fs::write(f.ws.join("..x"), "fine").unwrap(), Op::Read("..x")),
    ("write through a link", |f| link(f, "ok.txt", "l"), Op::Write("l")),
    ("write through a dangling link", |f| link(f, "new/x.txt", "l"), Op::Write("l")),
    ("write by the workspace's own path", nothing, Op::Write("{WS}/a/b/new.txt")),
    ("list the workspace by its own path", nothing, Op::List("{WS}")),
];

fn below_and_up(field: &Field) {
    fs::create_dir_all(field.ws.join("a/b")).unwrap();
    symlink("../..", field.ws.join("a/b/up")).unwrap();
}

fn check_inside() {
    for (name, setup, op) in STAYS_INSIDE {
        let field = Field::new();
        setup(&field);
        let shown = op.run(&field).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(!shown.is_empty(), "{name}");
    }
}

/// One text for everything outside, whether it is there or not.
fn check_nothing_is_told() {
    let field = Field::new();
    link(&field, "../out", "d");
    for (there, not_there) in [
        ("../out/secret.txt", "../out/absent.txt"),
        ("/etc/passwd", "/etc/absent"),
        ("d/secret.txt", "d/absent.txt"),
    ] {
        let told = |path: &str| {
            let read =
                field.root.read_file(&field.grants, path, &ReadOptions::default()).unwrap_err().to_string();
            let written = field.root.write_file(&field.grants, path, "x").unwrap_err().to_string();
            assert_eq!(read, written, "reading and writing tell the same");
            read.replace(path, "PATH")
        };
        assert_eq!(told(there), told(not_there));
    }
    assert!(Path::new("/etc/passwd").exists() && !Path::new("/etc/absent").exists(), "the control");
}

/// Writing a name that is one of two hard links leaves the other alone.
fn check_hard_links() {
    for op in [Op::Write("h"), Op::Edit("h")] {
        let set_up = || {
            let field = Field::new();
            fs::hard_link(field.out.join("target.txt"), field.ws.join("h")).unwrap();
            field
        };
        let field = set_up();
        op.run_plainly(&field).unwrap();
        assert_eq!(
            fs::read_to_string(field.out.join("target.txt")).unwrap(),
            "changed\n",
            "the control writes through"
        );
        let field = set_up();
        op.run(&field).unwrap();
        assert_eq!(fs::read_to_string(field.out.join("target.txt")).unwrap(), "intact\n");
        assert_eq!(fs::read_to_string(field.ws.join("h")).unwrap(), "changed\n");
    }
}

/// A replaced file keeps its ordinary permission bits and loses the others.
fn check_setuid() {
    for op in [Op::Write("x.sh"), Op::Edit("x.sh")] {
        let field = Field::new();
        let file = field.ws.join("x.sh");
        fs::write(&file, "intact\n").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o6755)).unwrap();
        assert_eq!(
            fs::metadata(&file).unwrap().permissions().mode() & 0o7777,
            0o6755,
            "the control has the bits"
        );
        op.run(&field).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o755, "{op:?}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "changed\n");
    }
}

/// Inside, but run or obeyed by somebody else later.
const PROTECTED: &[(&str, Setup, Op)] = &[
    ("a hook", git, Op::Create(".git/hooks/pre-commit")),
    ("the configuration", git, Op::Write(".git/config")),
    ("the configuration, edited", git, Op::Edit(".git/config")),
    ("other case", git, Op::Write(".GIT/hooks/post-checkout")),
    ("by dot dot", git, Op::Write("sub/../.git/./config")),
    ("through a link", |f| (git(f), link(f, ".git", "data")).0, Op::Write("data/config")),
    ("through a link to the file", |f| (git(f), link(f, ".git/config", "c")).0, Op::Write("c")),
    ("through a dangling link", |f| (git(f), link(f, ".git/hooks/pre-push", "c")).0, Op::Write("c")),
    ("an invisible character", nothing, Op::Write(".g\u{200c}it/config")),
    ("full-width letters", nothing, Op::Write(".ｇｉｔ/config")),
    ("a file named .git", nothing, Op::Write("sub2/.git")),
    ("a shell's start-up file", nothing, Op::Write(".bashrc")),
    ("an editor's tasks", nothing, Op::Write("a/.vscode/tasks.json")),
    ("the head of a bare repository", |f| bare(f, "HEAD"), Op::Write("HEAD")),
    ("the objects of a bare repository", |f| bare(f, "objects"), Op::Write("objects/x")),
    ("the configuration of a bare repository", |f| bare(f, ""), Op::Write("config")),
];

fn git(field: &Field) {
    fs::create_dir_all(field.ws.join(".git/hooks")).unwrap();
    fs::create_dir(field.ws.join("sub")).unwrap();
    fs::write(field.ws.join(".git/config"), "intact\n").unwrap();
}

/// A workspace that is a bare repository but for one part.
fn bare(field: &Field, but: &str) {
    for part in ["HEAD", "objects", "refs"].into_iter().filter(|part| *part != but) {
        fs::create_dir(field.ws.join(part)).unwrap();
    }
}

fn check_protected() {
    for (name, setup, op) in PROTECTED {
        let field = Field::new();
        setup(&field);
        let before = manifest(&field.ws);
        op.run_plainly(&field).unwrap();
        assert_ne!(manifest(&field.ws), before, "{name}: the control changes nothing");

        let field = Field::new();
        setup(&field);
        let before = manifest(&field.ws);
        let error = op.run(&field).map(|shown| panic!("{name}: it went through: {shown}")).unwrap_err();
        assert_eq!(error.kind(), Kind::Denied, "{name}: {error}");
        assert_eq!(manifest(&field.ws), before, "{name}");
    }
    for path in [".gitignore", ".github/workflows/ci.yml", "HEAD", "objects/x", "config", "refs/x/y", "..git"]
    {
        let field = Field::new();
        field.root.write_file(&field.grants, path, "x").unwrap_or_else(|error| panic!("{path}: {error}"));
    }
    let field = Field::new();
    git(&field);
    assert!(Op::Read(".git/config").run(&field).is_ok(), "protected files are read");
}

/// Secrets inside the workspace, under names that are the same to somebody.
fn check_secrets() {
    for name in [".env", ".ENV.local", ".env.d/x", "sub/Key.PEM", "server.pem", "k\u{200b}ey.pem", ".ｅｎｖ"]
    {
        let field = Field::new();
        let file = field.ws.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, format!("intact {CANARY}\n")).unwrap();
        symlink(&file, field.ws.join("innocent")).unwrap();
        assert!(
            fs::read_to_string(field.ws.join("innocent")).unwrap().contains(CANARY),
            "the control reads it"
        );
        for path in [name, "innocent"] {
            let read = field.root.read_file(&field.grants, path, &ReadOptions::default()).unwrap_err();
            let edit = field.root.edit_file(&field.grants, path, "intact", "x").unwrap_err();
            let write = field.root.write_file(&field.grants, path, "x").unwrap_err();
            for error in [read, edit, write] {
                assert_eq!(error.kind(), Kind::Denied, "{path}: {error}");
                assert!(!error.to_string().contains(CANARY), "{path}: {error}");
            }
        }
        let options =
            SearchOptions { ignored: toolgate_sandbox::Ignored::Search, ..SearchOptions::default() };
        let found = field.root.search_codebase(&field.grants, "canary", &options).unwrap();
        assert!(found.hits.is_empty(), "{name}: {found:?}");
        fs::write(field.ws.join("environment.md"), CANARY).unwrap();
        let found = field.root.search_codebase(&field.grants, "canary", &options).unwrap();
        assert_eq!(found.hits.len(), 1, "a search sees what is open");
    }
}

/// Things that would block for ever or never end.
fn check_special_files() {
    let field = Field::new();
    make_special(&field, "fifo", rustix::fs::FileType::Fifo, 0);
    symlink("/dev/zero", field.ws.join("zero")).unwrap();
    symlink("fifo", field.ws.join("fifo-link")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(field.ws.join("socket")).unwrap();
    let mut names = vec!["fifo", "fifo-link", "socket"];
    // Only root may make a device; the rest is attacked in any case.
    let zero = rustix::fs::makedev(1, 5);
    if make_special(&field, "device", rustix::fs::FileType::CharacterDevice, zero) {
        names.push("device");
        let mut buffer = vec![1; 1 << 20];
        let mut device = fs::File::open(field.ws.join("device")).unwrap();
        std::io::Read::read_exact(&mut device, &mut buffer).expect("the control reads as much as it likes");
    }

    let fifo = field.ws.join("fifo");
    let blocked = std::thread::spawn(move || fs::read(fifo));
    std::thread::sleep(Duration::from_millis(150));
    assert!(!blocked.is_finished(), "the control blocks on the pipe");
    // A writer that comes and goes lets the control end.
    drop(fs::OpenOptions::new().write(true).open(field.ws.join("fifo")).unwrap());
    blocked.join().unwrap().unwrap();

    let start = Instant::now();
    for name in names {
        for op in [Op::Read, Op::Write, Op::Edit, Op::Create, Op::Search] {
            // A path must live as long as the table's do; a test may leak a few bytes.
            let op = op(String::leak(name.to_owned()));
            let error = op.run(&field).map(|shown| panic!("{op:?}: {shown}")).unwrap_err();
            let right = matches!(error.kind(), Kind::Failed | Kind::Exists);
            assert!(right, "{op:?}: {error}");
        }
    }
    assert_eq!(Op::Read("zero").run(&field).unwrap_err().kind(), Kind::Denied);
    assert!(Op::Search(".").run(&field).is_ok() && Op::List(".").run(&field).is_ok());
    assert!(start.elapsed() < Duration::from_secs(5), "nothing waits");
}

fn make_special(field: &Field, name: &str, kind: rustix::fs::FileType, device: u64) -> bool {
    use rustix::fs::{CWD, Mode, mknodat};
    mknodat(CWD, field.ws.join(name), kind, Mode::from_raw_mode(0o666), device).is_ok()
}

/// A workspace that lies in `/proc`: its magic links lead anywhere, and its files claim to be empty.
#[cfg(target_os = "linux")]
fn check_proc() {
    use toolgate_sandbox::{FileLimits, Root, ambient_authority};
    let root = Root::open("/proc/self", ambient_authority()).unwrap();
    let mut grants = Grants::read_only();
    let read = |grants: &Grants, path: &str| root.read_file(grants, path, &ReadOptions::default());
    for path in ["root/etc/passwd", "cwd/Cargo.toml", "exe", "root/proc/self/status"] {
        assert!(fs::read(Path::new("/proc/self").join(path)).is_ok(), "{path}: the control reads it");
        let error = read(&grants, path).unwrap_err();
        assert!(error.to_string().starts_with("path is outside the workspace"), "{path}: {error}");
    }
    assert_eq!(fs::metadata("/proc/self/status").unwrap().len(), 0, "it claims to be empty");
    assert!(read(&grants, "status").unwrap().text.contains("Name:"));
    grants.limits = FileLimits { max_file_bytes: 100, ..FileLimits::default() };
    assert_eq!(read(&grants, "status").unwrap_err().kind(), Kind::Limit, "and is bounded all the same");
}

/// A directory or file that is a link to the outside every other moment.
fn check_races() {
    // (what `p` is, what it is exchanged for, the request, what the control shows)
    let races: [(Setup, Setup, Op); 5] = [
        (inside_directory, |f| link(f, "../out", "q"), Op::Read("p/secret.txt")),
        (inside_directory, |f| link(f, "../out", "q"), Op::Write("p/target.txt")),
        (inside_directory, |f| link(f, "../out", "q"), Op::Edit("p/target.txt")),
        (
            |f| fs::write(f.ws.join("p"), "fine\n").unwrap(),
            |f| link(f, "../out/secret.txt", "q"),
            Op::Read("p"),
        ),
        (
            |f| fs::write(f.ws.join("p"), "intact\n").unwrap(),
            |f| link(f, "../out/target.txt", "q"),
            Op::Write("p"),
        ),
    ];
    for (one, other, op) in races {
        let set_up = || {
            let field = Field::new();
            one(&field);
            other(&field);
            field
        };
        let field = set_up();
        let before = field.outside();
        let swapper = Swapper::between(&field, "q");
        let reached = race(Duration::from_secs(10), || {
            op.run_plainly(&field).is_ok_and(|seen| seen.contains(CANARY)) || field.outside() != before
        });
        drop(swapper);
        assert!(reached, "{op:?}: the control never wins the race, so this is no attack");

        let field = set_up();
        let before = field.outside();
        let swapper = Swapper::between(&field, "q");
        let mut done = 0;
        let escaped = race(Duration::from_millis(700), || {
            let answer = op.run(&field).map_err(|error| error.to_string());
            done += usize::from(answer.is_ok());
            answer.unwrap_or_else(|error| error).contains(CANARY)
        });
        drop(swapper);
        assert!(!escaped && field.outside() == before, "{op:?}: it went through");
        assert!(done > 0, "{op:?}: nothing was ever done, so nothing was tried");
    }
}

fn inside_directory(field: &Field) {
    fs::create_dir(field.ws.join("p")).unwrap();
    for name in ["secret.txt", "target.txt"] {
        fs::write(field.ws.join("p").join(name), "intact\n").unwrap();
    }
}

/// A directory that is a link to a protected one every other moment.
fn check_protected_races() {
    let set_up = || {
        let field = Field::new();
        git(&field);
        fs::create_dir(field.ws.join("p")).unwrap();
        fs::write(field.ws.join("p/config"), "mine\n").unwrap();
        link(&field, ".git", "q");
        field
    };
    let protected = |field: &Field| fs::read_to_string(field.ws.join(".git/config")).unwrap();
    let field = set_up();
    let swapper = Swapper::between(&field, "q");
    let reached = race(Duration::from_secs(10), || {
        let _ = Op::Write("p/config").run_plainly(&field);
        protected(&field) != "intact\n"
    });
    drop(swapper);
    assert!(reached, "the control never wins the race");

    let field = set_up();
    let swapper = Swapper::between(&field, "q");
    let (mut done, mut refused) = (0, 0);
    race(Duration::from_millis(700), || {
        match Op::Write("p/config").run(&field) {
            Ok(_) => done += 1,
            Err(_) => refused += 1,
        }
        false
    });
    drop(swapper);
    assert!(done > 0 && refused > 0, "both sides of the race were seen: {done} done, {refused} refused");
    assert_eq!(protected(&field), "intact\n");
}

/// A parent that is renamed away inside the workspace: the request ends with an error or in that directory.
fn check_renamed_parent() {
    let field = Field::new();
    inside_directory(&field);
    let stop = std::sync::Arc::new(AtomicBool::new(false));
    let (seen, p, away) = (stop.clone(), field.ws.join("p"), field.ws.join("away"));
    let thread = std::thread::spawn(move || {
        while !seen.load(Ordering::Relaxed) {
            fs::rename(&p, &away).unwrap();
            fs::rename(&away, &p).unwrap();
        }
    });
    let before = field.outside();
    let (mut done, mut refused) = (0, 0);
    let both = race(Duration::from_secs(10), || {
        match Op::Edit("p/target.txt").run(&field) {
            Ok(_) => done += 1,
            Err(_) => refused += 1,
        }
        for name in ["p", "away"] {
            let _ = fs::write(field.ws.join(name).join("target.txt"), "intact\n");
        }
        done >= 50 && refused >= 50
    });
    stop.store(true, Ordering::Relaxed);
    thread.join().unwrap();
    assert!(both, "both sides of the race were seen: {done} done, {refused} refused");
    assert_eq!(field.outside(), before);
    let names: Vec<_> = manifest(&field.ws).into_iter().map(|(path, _)| path).collect();
    let expected = ["ok.txt", "p", "p/secret.txt", "p/target.txt"].map(|name| field.ws.join(name));
    assert_eq!(names, expected, "nothing half-written is left");
}

/// Paths that are no paths.
fn check_odd_paths() {
    let field = Field::new();
    let deep = "a/".repeat(300) + "x";
    let long = "x".repeat(300);
    let huge = "x/".repeat(5_000);
    for (path, kind) in [
        ("", Kind::Invalid),
        ("a\0b", Kind::Invalid),
        (huge.as_str(), Kind::Invalid),
        (deep.as_str(), Kind::Invalid),
        (long.as_str(), Kind::Invalid),
        ("~/.ssh/id_rsa", Kind::NotFound),
        ("$HOME/.ssh/id_rsa", Kind::NotFound),
        ("absent/../ok.txt", Kind::NotFound),
        ("ok.txt/", Kind::NotADirectory),
        ("ok.txt/x", Kind::NotADirectory),
        (".", Kind::Failed),
        ("\u{202e}txt.ko", Kind::NotFound),
    ] {
        let error = field.root.read_file(&field.grants, path, &ReadOptions::default()).unwrap_err();
        assert_eq!(error.kind(), kind, "{path:?}: {error}");
        assert!(error.to_string().len() < 1_000 && !error.to_string().contains('\u{202e}'), "{error}");
    }
    symlink("loop", field.ws.join("loop")).unwrap();
    assert_eq!(Op::Read("loop").run(&field).unwrap_err().kind(), Kind::Failed);
    assert_eq!(Op::List("loop/x").run(&field).unwrap_err().kind(), Kind::Failed);
}

#[test]
fn requests_that_lead_outside_are_refused_and_their_twins_are_not() {
    check_outside();
    check_inside();
    check_nothing_is_told();
}

#[test]
fn a_second_link_keeps_its_content_and_set_user_id_bits_go() {
    check_hard_links();
    check_setuid();
}

#[test]
fn what_others_run_later_is_protected() {
    check_protected();
}

#[test]
fn secrets_stay_closed_under_every_name() {
    check_secrets();
}

#[test]
fn pipes_sockets_and_devices_neither_block_nor_flood() {
    check_special_files();
}

#[test]
#[cfg(target_os = "linux")]
fn magic_links_lead_nowhere_and_files_that_lie_are_bounded() {
    check_proc();
}

#[test]
fn a_racing_swapper_wins_against_plain_tools_only() {
    check_races();
    check_protected_races();
}

#[test]
fn a_parent_renamed_meanwhile_does_no_harm() {
    check_renamed_parent();
}

#[test]
fn odd_paths_are_refused_with_a_reason() {
    check_odd_paths();
}

#[test]
fn nothing_is_reachable_without_a_grant() {
    let mut field = Field::new();
    field.grants = Grants::default();
    for op in [Op::Read("ok.txt"), Op::List("."), Op::Search("."), Op::Write("ok.txt"), Op::Edit("ok.txt")] {
        assert_eq!(op.run(&field).unwrap_err().kind(), Kind::Denied, "{op:?}");
    }
    field.grants = Grants::read_only();
    assert!(Op::Read("ok.txt").run(&field).is_ok());
    assert_eq!(Op::Create("new.txt").run(&field).unwrap_err().kind(), Kind::Denied);
}

/// Where `openat2` is missing (old kernels, other systems) or filtered (containers), paths are walked by
/// hand; a green run above says nothing about that.
#[cfg(target_os = "linux")]
mod without_openat2 {
    use super::*;

    const ERRNO: &str = "TOOLGATE_TEST_OPENAT2_ERRNO";

    #[test]
    fn the_same_holds_where_openat2_fails() {
        for errno in ["38", "1"] {
            let child = std::process::Command::new(std::env::current_exe().unwrap())
                .args(["without_openat2::child", "--exact", "--ignored", "--nocapture"])
                .env(ERRNO, errno)
                .output()
                .unwrap();
            let shown = String::from_utf8_lossy(&child.stdout) + String::from_utf8_lossy(&child.stderr);
            assert!(child.status.success() && shown.contains("1 passed"), "errno {errno}: {shown}");
        }
    }

    #[test]
    #[ignore = "run by the_same_holds_where_openat2_fails, in a process of its own"]
    fn child() {
        let Ok(errno) = std::env::var(ERRNO) else { return };
        let with = Field::new();
        refuse_openat2(errno.parse().unwrap());
        let without = Field::new();
        assert_eq!((with.root.resolver(), without.root.resolver()), (Resolver::Openat2, Resolver::Manual));
        check_outside();
        check_inside();
        check_nothing_is_told();
        check_hard_links();
        check_setuid();
        check_protected();
        check_secrets();
        check_special_files();
        check_proc();
        check_races();
        check_protected_races();
        check_renamed_parent();
        check_odd_paths();
    }

    fn refuse_openat2(errno: u32) {
        use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter_all_threads};
        // The number is the same on every architecture.
        let rules = [(437, vec![])].into_iter().collect();
        let arch = std::env::consts::ARCH.try_into().unwrap();
        let filter =
            SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(errno), arch).unwrap();
        apply_filter_all_threads(&BpfProgram::try_from(filter).unwrap()).unwrap();
    }
}
