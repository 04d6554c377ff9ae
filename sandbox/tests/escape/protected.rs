//! Names inside the workspace that stay closed: what others run or obey later, and secrets.

use std::fs;
use std::os::unix::fs::symlink;

use toolgate_sandbox::{Kind, ReadOptions, SearchOptions};

use crate::outside::{Setup, link, nothing};
use crate::support::{CANARY, Field, Op, manifest};

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

pub(super) fn git(field: &Field) {
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

pub(super) fn check_protected() {
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
pub(super) fn check_secrets() {
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
        let options = SearchOptions::default().ignored(toolgate_sandbox::Ignored::Search);
        let found = field.root.search_codebase(&field.grants, "canary", &options).unwrap();
        assert!(found.hits.is_empty(), "{name}: {found:?}");
        fs::write(field.ws.join("environment.md"), CANARY).unwrap();
        let found = field.root.search_codebase(&field.grants, "canary", &options).unwrap();
        assert_eq!(found.hits.len(), 1, "a search sees what is open");
    }
}
