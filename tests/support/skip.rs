//! Beside the tests of all packages: a test that skips something says so here, and nowhere else. Included by path.
//!
//! A skip prints one line, `skipped: TEST: HOW`. HOW names what to set or install. The line is also added to the file
//! that `TOOLGATE_SKIPPED` names, since nextest hides the output of tests that pass. `scripts/test` prints that file last.
//!
//! What `scripts/test` provides is required where `CI` is `true`: there such a skip fails the test.

#![allow(
    dead_code,
    clippy::panic,
    clippy::print_stderr,
    clippy::expect_used,
    reason = "tests; each binary uses a part"
)]

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The models that `scripts/test` fetches.
const PULLED: [&str; 3] = ["smollm2-135m", "qwen2.5-coder-0.5b", "gemma3-270m"];

/// Skips something that `scripts/test` does not provide.
pub(crate) fn optional(how: &str) {
    let line = format!("skipped: {}: {how}", test());
    eprintln!("{line}");
    if let Some(list) = std::env::var_os("TOOLGATE_SKIPPED") {
        let list = OpenOptions::new().create(true).append(true).open(list);
        // One write: tests of many processes add to it.
        let written = list.and_then(|mut list| list.write_all(format!("{line}\n").as_bytes()));
        written.expect("TOOLGATE_SKIPPED names a file that this test can append to");
    }
}

/// Skips something that `scripts/test` provides; in CI this fails the test.
pub(crate) fn required(how: &str) {
    assert!(std::env::var("CI").as_deref() != Ok("true"), "in CI {} may not be skipped: {how}", test());
    optional(how);
}

/// The running test as nextest names it. The harness gives its thread the name of the test.
fn test() -> String {
    let thread = std::thread::current();
    format!(
        "{}::{} {}",
        env!("CARGO_PKG_NAME"),
        env!("CARGO_CRATE_NAME"),
        thread.name().unwrap_or("a thread of a test")
    )
}

/// The file of a model with weights, or none after a skip.
pub(crate) fn model(id: &str) -> Option<PathBuf> {
    let models = std::env::var_os("TOOLGATE_MODELS").map(PathBuf::from);
    let found = models.map(|models| models.join(format!("{id}.gguf"))).filter(|path| path.is_file());
    if found.is_none() {
        let how = format!("set TOOLGATE_MODELS to a directory with {id}.gguf");
        if PULLED.contains(&id) { required(&how) } else { optional(&how) }
    }
    found
}

/// The value of a variable that names a corpus, or none after a skip.
pub(crate) fn corpus(variable: &str, what: &str) -> Option<String> {
    let value = std::env::var(variable).ok();
    if value.is_none() {
        optional(&format!("set {variable} to {what}"));
    }
    value
}

/// A directory of `TOOLGATE_CLIENTS`, such as a package in it, or none after a skip.
pub(crate) fn client(package: &str) -> Option<PathBuf> {
    let clients = std::env::var_os("TOOLGATE_CLIENTS").map(PathBuf::from);
    let found = clients.map(|clients| clients.join(package)).filter(|path| path.exists());
    if found.is_none() {
        required(&format!("set TOOLGATE_CLIENTS to a directory with {package}"));
    }
    found
}

/// Whether a program can be started; skips where it cannot.
pub(crate) fn program(name: &str) -> bool {
    let started = Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let there = started.is_ok_and(|status| status.success());
    if !there {
        required(&format!("install {name}"));
    }
    there
}

/// Whether slow tests run; skips where they do not.
pub(crate) fn slow(what: &str) -> bool {
    let runs = std::env::var_os("RUN_SLOW_TESTS").is_some();
    if !runs {
        optional(&format!("set RUN_SLOW_TESTS=1 for {what}"));
    }
    runs
}

/// Skips a test of confined commands, which cannot run here because of `why`.
///
/// `scripts/test` installs bubblewrap where it may, and fails in CI where that does not work. What the kernel refuses, it cannot
/// provide: `TOOLGATE_REQUIRE_SANDBOX` says that this machine's kernel does not refuse it.
pub(crate) fn sandbox(why: &str) {
    assert!(
        std::env::var_os("TOOLGATE_REQUIRE_SANDBOX").is_none(),
        "commands cannot be confined here: {why}"
    );
    let installed =
        Command::new("bwrap").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    match installed {
        Err(_) if cfg!(target_os = "linux") => optional("install bubblewrap"),
        _ => optional(&format!("set the system up for confined commands, as toolgate doctor says: {why}")),
    }
}
