//! What confinement costs: the start of a command, what git asks of a large workspace, and a build; confined and plain.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "benches: the twins are plain"
)]
#![allow(missing_docs, reason = "criterion's macros make an undocumented function")]

use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use toolgate_sandbox::command::{Commands, End, Setup};
use toolgate_sandbox::policy::{Mode, Policy, ProcessLimits};
use toolgate_sandbox::{Root, ambient_authority};

/// Runs a line in a plain shell.
fn plainly(dir: &Path, line: &str) {
    let output = Command::new("/bin/sh").args(["-c", line]).current_dir(dir).output().unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    black_box(output);
}

/// Measures a line in a plain shell, where nothing can be written, and where the workspace can.
fn compare(c: &mut Criterion, name: &str, dir: &Path, line: &str, modes: &[(&str, Mode)]) {
    let mut group = c.benchmark_group(format!("commands/{name}"));
    group.sample_size(20).measurement_time(Duration::from_secs(5));
    group.bench_function("plain", |b| b.iter(|| plainly(dir, line)));
    let root = Root::open(dir, ambient_authority()).unwrap();
    let setup = Setup::default().stage(Some(env!("CARGO_BIN_EXE_toolgate-stage").into()));
    for (mode_name, mode) in modes {
        let roomy = ProcessLimits::default().wall_ms(Some(300_000)).disk_mb(Some(1_024));
        let policy = Policy::default_for(*mode).limited(&roomy);
        // A machine without a layer has nothing to measure; criterion's own output shows that the bench is missing.
        let Ok(commands) = Commands::new(&root, &policy, *mode, &setup) else { continue };
        group.bench_function(*mode_name, |b| {
            b.iter(|| {
                let ran = commands.run(line).unwrap();
                assert_eq!(ran.end, End::Exited(0), "{}", String::from_utf8_lossy(&ran.output));
            });
        });
    }
    group.finish();
}

fn commands(c: &mut Criterion) {
    let both = [("read-only", Mode::Intel), ("writable", Mode::Edit)];
    let place = tempfile::tempdir_in("/var/tmp").unwrap();
    let empty = place.path().join("empty");
    fs::create_dir(&empty).unwrap();
    compare(c, "ls", &empty, "ls", &both);

    let large = place.path().join("large");
    for directory in 0..100 {
        let directory = large.join(format!("d{directory}"));
        fs::create_dir_all(&directory).unwrap();
        (0..100).for_each(|file| fs::write(directory.join(format!("f{file}")), "text\n").unwrap());
    }
    let identity = "-c user.name=n -c user.email=n@localhost";
    plainly(&large, &format!("git init -q && git add . && git {identity} commit -qm x"));
    compare(c, "git status, 10,000 files", &large, "git status --short", &both);
    // Each file is a name that the broker makes.
    let line = "rm -rf new && mkdir new && cd new && seq 1000 | while read -r n; do : > f$n; done";
    compare(c, "1,000 new files", &empty, line, &[("writable", Mode::Edit)]);

    let krate = place.path().join("crate");
    fs::create_dir_all(krate.join("src")).unwrap();
    fs::write(krate.join("Cargo.toml"), "[package]\nname = \"small\"\nedition = \"2021\"\n").unwrap();
    let functions = (0..200)
        .map(|n| format!("pub fn f{n}(x: u64) -> Vec<u64> {{ (0..x).map(|y| y * {n}).collect() }}\n"));
    fs::write(krate.join("src/lib.rs"), functions.collect::<String>()).unwrap();
    // The toolchain itself, since rustup's shims look for it in a home directory.
    let rustc = Command::new("rustc").args(["--print", "sysroot"]).output().unwrap();
    let toolchain = String::from_utf8(rustc.stdout).unwrap();
    let copied = place.path().join("crate/toolchain");
    // Other names for the same files, where that can be had: there is a gigabyte of them.
    let (from, to) = (toolchain.trim(), copied.display());
    plainly(&krate, &format!("cp -al {from} {to} 2>/dev/null || {{ rm -rf {to}; cp -r {from} {to}; }}"));
    let line = "rm -rf target && PATH=$PWD/toolchain/bin:$PATH CARGO_HOME=$PWD/target/home CARGO_TARGET_DIR=target cargo check -q --offline";
    compare(c, "cargo check", &krate, line, &[("writable", Mode::Edit)]);
}

criterion_group!(benches, commands);
criterion_main!(benches);
