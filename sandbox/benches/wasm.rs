//! What a component call costs: compiled before and now, a file read, and the same work in this process.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "benches: the twin is plain std::fs")]
#![allow(missing_docs, reason = "criterion's macros make an undocumented function")]

use std::hint::black_box;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use toolgate_sandbox::wasm::{Components, Directory, Limits, Reach, Setup};
use toolgate_sandbox::{Grants, Root, ambient_authority};

const CALCULATOR: &[u8] = include_bytes!("../components/calculator.wasm");
const STATISTICS: &[u8] = include_bytes!("../components/text_statistics.wasm");

fn components(c: &mut Criterion) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.txt");
    std::fs::write(&file, "some words on a line\n".repeat(5_000)).unwrap();
    let root = Root::open(dir.path(), ambient_authority()).unwrap();
    let (grants, limits) = (Grants::read_only(), Limits::default());
    let nothing = Reach { root: &root, grants: &grants, directories: &[] };
    let directories = [Directory { host: ".".into(), guest: "/".into(), write: false }];
    let files = Reach { directories: &directories, ..nothing };

    let mut group = c.benchmark_group("components");
    let engine = || Components::new(&Setup::default(), None).unwrap();
    group.sample_size(10);
    group.bench_function("cold/engine", |b| b.iter(|| black_box(engine())));
    group.bench_function("cold/compile", |b| {
        b.iter_batched(
            engine,
            |engine| engine.load(CALCULATOR.to_vec(), None, None).unwrap(),
            BatchSize::PerIteration,
        );
    });
    let cache = tempfile::tempdir().unwrap();
    let kept = Setup::default().cache(Some(cache.path().to_owned()));
    let kept = || Components::new(&kept, None).unwrap();
    kept().load(CALCULATOR.to_vec(), None, None).unwrap();
    group.bench_function("cold/from-cache", |b| {
        b.iter_batched(
            kept,
            |engine| engine.load(CALCULATOR.to_vec(), None, None).unwrap(),
            BatchSize::PerIteration,
        );
    });
    let engine = engine();
    let calculator = engine.load(CALCULATOR.to_vec(), None, None).unwrap();
    let statistics = engine.load(STATISTICS.to_vec(), None, None).unwrap();
    group.sample_size(100);
    group.bench_function("warm/calculate", |b| {
        b.iter(|| {
            engine.call(&calculator, &nothing, &limits, r#"{"expression": "1/3 + 2"}"#.to_owned()).unwrap()
        });
    });
    group.bench_function("warm/read-100-kB", |b| {
        b.iter(|| engine.call(&statistics, &files, &limits, r#"{"path": "a.txt"}"#.to_owned()).unwrap());
    });
    group.bench_function("plain/read-100-kB", |b| {
        b.iter(|| {
            let text = std::fs::read_to_string(&file).unwrap();
            black_box((text.lines().count(), text.split_whitespace().count(), text.chars().count()))
        });
    });
    group.finish();
}

criterion_group!(benches, components);
criterion_main!(benches);
