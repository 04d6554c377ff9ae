//! Recall from a memory of many rows: the time must not grow with their number.

#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing, reason = "a bench")]

use criterion::{Criterion, criterion_group, criterion_main};
use toolgate::memory::Memory;

const WORDS: [&str; 16] = [
    "harbour", "lamp", "ticket", "window", "river", "engine", "letter", "garden", "market", "signal",
    "bridge", "copper", "paper", "winter", "station", "record",
];

/// A memory of `rows` notes of eight words each, and one about a flowerpot in the middle.
fn filled(rows: usize) -> Memory {
    let memory = Memory::in_process().unwrap();
    memory
        .store_all((0..rows).map(|i| {
            if i == rows / 2 {
                return "the spare key is under the flowerpot".to_owned();
            }
            let words: Vec<_> =
                (0..7).map(|k| WORDS[(i / 16_usize.pow(k % 5) + i * k as usize) % WORDS.len()]).collect();
            format!("note {i} the {}", words.join(" "))
        }))
        .unwrap();
    memory
}

fn recall(c: &mut Criterion) {
    let mut group = c.benchmark_group("recall");
    // Under `cargo test` one pass over a small memory is enough to show that it runs.
    let sizes: &[usize] =
        if std::env::args().any(|a| a == "--bench") { &[1_000, 1_000_000] } else { &[1_000] };
    for &rows in sizes {
        let memory = filled(rows);
        for (name, query) in
            [("rare", "where is the flowerpot"), ("common", "the river and the bridge"), ("none", "bicycle")]
        {
            group.bench_function(format!("{rows}/{name}"), |b| b.iter(|| memory.recall(query, 10).unwrap()));
        }
    }
    group.finish();
}

criterion_group!(benches, recall);
criterion_main!(benches);
