//! Whoever exchanges things while a command starts, or replaces the programs that confine it, gains nothing.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the controls are plain processes")]

mod support;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use support::CANARY;
use support::shell::{Field, POLICY, available, if_started, setup, start_as_ordinary_user, text};
use toolgate_sandbox::command::{Commands, Layer, Setup};
use toolgate_sandbox::policy::{Mode, Policy, ProcessLimits};
use toolgate_sandbox::{Kind, Root, ambient_authority};

/// Exchanges two names of the workspace for as long as it lives.
struct Swapper(Arc<AtomicBool>, Option<std::thread::JoinHandle<()>>);

impl Swapper {
    fn between(ws: &Path, one: &str, other: &str) -> Self {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        let stop = Arc::new(AtomicBool::new(false));
        let (seen, one, other) = (stop.clone(), ws.join(one), ws.join(other));
        let thread = std::thread::spawn(move || {
            while !seen.load(Ordering::Relaxed) {
                let _ = renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE);
                std::thread::sleep(std::time::Duration::from_micros(300));
            }
        });
        Self(stop, Some(thread))
    }
}

impl Drop for Swapper {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        let _ = self.1.take().map(std::thread::JoinHandle::join);
    }
}

#[test]
fn a_racing_exchange_has_nothing_of_outside_mounted() {
    if available() {
        exchanged();
        start_as_ordinary_user("started_a_racing_exchange");
    }
}

#[test]
fn started_a_racing_exchange() {
    if_started(exchanged);
}

fn exchanged() {
    let parts = "version = 1\ntier = \"exec\"\n[fs]\nread = [\"@workspace/docs\", \"@system\"]\nwrite = [\"@workspace/docs\"]\n";
    for (policy, swapped) in [(POLICY, "sub/.git"), (parts, "docs")] {
        let field = Field::new();
        fs::create_dir_all(field.ws.join(swapped)).unwrap();
        fs::write(field.ws.join(swapped).join("secret.txt"), "inside\n").unwrap();
        symlink(&field.out, field.ws.join("link")).unwrap();
        let line = format!("cat {swapped}/secret.txt; echo evil >> {swapped}/target.txt");
        let commands = field.commands(policy, Mode::Edit, &ProcessLimits::default(), &[]).unwrap();
        let swapper = Swapper::between(&field.ws, swapped, "link");
        let mut ran = 0;
        for _ in 0..25 {
            match commands.run(&line) {
                Ok(said) => {
                    ran += 1;
                    assert!(!text(&said).contains(CANARY), "{swapped}: {}", text(&said));
                }
                Err(refused) => assert!(
                    matches!(refused.kind(), Kind::Unavailable | Kind::Failed | Kind::Denied),
                    "{refused}"
                ),
            }
        }
        assert_eq!(fs::read_to_string(field.out.join("target.txt")).unwrap(), "intact\n", "{swapped}");
        assert!(ran > 0 || swapped != "docs", "some of them ran");
        // The control: bubblewrap alone, told the same paths, mounts what the link leads to.
        let source = field.ws.join(swapped);
        let mut last = String::new();
        let mut alone = || {
            let output = Command::new("bwrap")
                .args([
                    "--ro-bind",
                    "/usr",
                    "/usr",
                    "--symlink",
                    "usr/bin",
                    "/bin",
                    "--symlink",
                    "usr/lib",
                    "/lib",
                ])
                .args(["--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--ro-bind"])
                .args([&source, Path::new("/mounted")])
                .args(["cat", "/mounted/secret.txt"])
                .output()
                .unwrap();
            last = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
            last.contains(CANARY)
        };
        let reached = (0..400).any(|_| alone());
        assert!(reached, "{swapped}: the control never reads what lies outside: {last}");
        drop(swapper);
    }
}

#[test]
fn a_program_that_commands_could_replace_is_refused() {
    if available() {
        replaceable();
        start_as_ordinary_user("started_replaceable_programs");
    }
}

#[test]
fn started_replaceable_programs() {
    if_started(replaceable);
}

fn replaceable() {
    let field = Field::new();
    let root = Root::open(&field.ws, ambient_authority()).unwrap();
    let with = |setup: &Setup| Commands::new(&root, &Policy::parse(POLICY).unwrap(), Mode::Edit, setup);
    let copy = |from: &Path, name: &str, dir: &Path| {
        let to = dir.join(name);
        fs::copy(from, &to).unwrap();
        to
    };
    let stage = setup().stage.unwrap();
    let bubblewrap = ["/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap"].map(Path::new);
    let bubblewrap = bubblewrap.into_iter().find(|path| path.exists()).unwrap();
    for (what, setup) in [
        ("stage", setup().stage(Some(copy(&stage, "stage", &field.ws)))),
        ("bwrap", setup().bubblewrap(Some(copy(bubblewrap, "bwrap", &field.ws)))),
    ] {
        let refused = with(&setup).unwrap_err();
        assert_eq!((refused.kind(), refused.layer()), (Kind::Unavailable, Some(Layer::Bubblewrap)), "{what}");
    }
    assert!(with(&setup()).is_ok(), "the system's own is fine");

    // What was opened is what runs, also when something else lies there by the second command.
    let place = copy(&stage, "stage", &field.out);
    let commands = with(&setup().stage(Some(place.clone()))).unwrap();
    assert_eq!(commands.run("echo one").unwrap().output, b"one\n");
    fs::remove_file(&place).unwrap();
    fs::write(&place, "#!/bin/sh\necho replaced\n").unwrap();
    assert_eq!(commands.run("echo two").unwrap().output, b"two\n");
}
