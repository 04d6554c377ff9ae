//! What confinement costs: the start of a command, confined and plain.

#![allow(clippy::unwrap_used, clippy::disallowed_types, reason = "benches: the twin is a plain process")]
#![allow(missing_docs, reason = "criterion's macros make an undocumented function")]

use std::hint::black_box;
use std::process::Command;

use criterion::{Criterion, criterion_group, criterion_main};
use toolgate_sandbox::command::{Commands, Setup};
use toolgate_sandbox::policy::{Mode, Policy};
use toolgate_sandbox::{Root, ambient_authority};

fn commands(c: &mut Criterion) {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::open(dir.path(), ambient_authority()).unwrap();
    let setup = Setup { stage: Some(env!("CARGO_BIN_EXE_toolgate-stage").into()), ..Setup::default() };
    let mut group = c.benchmark_group("commands");
    group.sample_size(30);
    group.bench_function("ls/plain", |b| {
        b.iter(|| {
            let output = Command::new("/bin/sh").args(["-c", "ls"]).current_dir(dir.path()).output();
            black_box(output.unwrap())
        });
    });
    for (name, mode) in [("ls/read-only", Mode::Intel), ("ls/writable", Mode::Edit)] {
        match Commands::new(&root, &Policy::default_for(mode), mode, &setup) {
            Ok(commands) => {
                group.bench_function(name, |b| b.iter(|| black_box(commands.run("ls").unwrap())));
            }
            // A machine without a layer has nothing to measure; criterion's own output shows that the bench is missing.
            Err(_) => return,
        }
    }
    group.finish();
}

criterion_group!(benches, commands);
criterion_main!(benches);
