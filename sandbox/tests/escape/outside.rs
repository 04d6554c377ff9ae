//! Requests that would reach what lies outside the workspace, and their near-twins that stay inside.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use toolgate_sandbox::{Kind, ReadOptions};

use crate::support::{CANARY, Field, Op};

pub(super) type Setup = fn(&Field);

pub(super) fn nothing(_: &Field) {}

pub(super) fn link(field: &Field, target: &str, name: &str) {
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

pub(super) fn check_outside() {
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

pub(super) fn check_inside() {
    for (name, setup, op) in STAYS_INSIDE {
        let field = Field::new();
        setup(&field);
        let shown = op.run(&field).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(!shown.is_empty(), "{name}");
    }
}

/// One text for everything outside, whether it is there or not.
pub(super) fn check_nothing_is_told() {
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
pub(super) fn check_hard_links() {
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
pub(super) fn check_setuid() {
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
