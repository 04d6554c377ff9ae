//! The fallback parser and a family's reader over a mebibyte: prose, calls, and texts that ask much of a careless reader.
#![allow(missing_docs, reason = "a bench")]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use toolgate_chat::ToolFormat;
use toolgate_chat::fallback::{Stream, extract};
use toolgate_chat::format::{Family, Start};

const SIZE: usize = 1 << 20;

const TEXTS: &[(&str, &str)] = &[
    (
        "plain",
        "The port is 8443 now; it was 80 before, so the service has to be restarted, and its clients told.\n",
    ),
    ("prose", "The port is 8443 (see `config`); it was 80 before [1], so a <b>restart</b> is needed.\n"),
    (
        "calls",
        "<tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"notes/today.txt\", \"max_lines\": 40}}\n</tool_call>\n",
    ),
    (
        "elements",
        "<tool_call>\n<function=f>\n<parameter=a>\nsome text\n</parameter>\n</function>\n</tool_call>\n",
    ),
    ("hostile-open", "<tool_call>"),
    ("hostile-braces", "{"),
    ("hostile-nesting", "{\"a\":"),
    ("hostile-quotes", "\""),
    ("hostile-fences", "```json\n{"),
    ("hostile-cut", "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \""),
    ("hostile-elements", "<function=f><parameter=a>"),
    ("hostile-pairs", "<tool_call>f<arg_key>a</arg_key><arg_value>"),
    ("hostile-reasoning", "<think><tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>"),
];

fn fallback(c: &mut Criterion) {
    let mut group = c.benchmark_group("fallback");
    group.throughput(Throughput::Bytes(SIZE as u64)).sample_size(10);
    for (name, unit) in TEXTS {
        let text = unit.repeat(SIZE / unit.len());
        group.bench_function(format!("whole/{name}"), |b| b.iter(|| extract(black_box(&text))));
        group.bench_function(format!("stream/{name}"), |b| {
            b.iter(|| {
                let mut stream = Stream::new(&[]);
                for piece in text.as_bytes().chunks(64) {
                    black_box(stream.push(piece));
                }
                stream.finish()
            });
        });
        let hermes = Family::hermes();
        group.bench_function(format!("turn/{name}"), |b| {
            b.iter(|| {
                let mut stream = hermes.stream(&[], Start::Turn);
                for piece in text.as_bytes().chunks(64) {
                    black_box(stream.push(piece));
                }
                stream.finish()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, fallback);
criterion_main!(benches);
