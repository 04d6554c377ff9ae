//! Schema to grammar: what a tool set costs before its first token.
#![allow(clippy::unwrap_used, missing_docs, reason = "a benchmark")]

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use serde_json::{Map, Value, json};
use toolgate_grammar::{GrammarBuilder, Options, Schema, compile, compile_into};

#[path = "../tests/hostile/cases.rs"]
mod hostile;

/// `read_file`, as the built-in tool declares it.
fn small_tool() -> Value {
    json!({
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "Path inside the workspace."},
            "max_lines": {"type": ["integer", "null"], "format": "uint32", "minimum": 0},
            "start_line": {"type": ["integer", "null"], "format": "uint32", "minimum": 1}
        },
        "required": ["path"],
        "additionalProperties": false
    })
}

/// Twenty properties of every kind, half of them optional, the object open.
fn large_tool(seed: usize) -> Value {
    let mut properties = Map::new();
    for i in 0..20 {
        let schema = match (i + seed) % 7 {
            0 => json!({"type": "string", "minLength": 1, "maxLength": 200}),
            1 => json!({"type": "integer", "minimum": i, "maximum": 1_000 * i + 7}),
            2 => json!({"enum": ["low", "medium", "high", format!("level-{i}")]}),
            3 => {
                json!({"type": "array", "items": {"type": "object", "properties": {"x": {"type": "number"}, "y": {"type": "number", "minimum": 0}}, "required": ["x", "y"]}, "maxItems": 10})
            }
            4 => json!({"type": "string", "format": "date-time"}),
            5 => {
                json!({"anyOf": [{"type": "null"}, {"type": "string", "pattern": "^[a-z][a-z0-9_]*$", "maxLength": 40}]})
            }
            _ => json!({"type": "object", "additionalProperties": {"type": "string"}}),
        };
        properties.insert(format!("property_{i}"), schema);
    }
    let required: Vec<String> = (0..20).step_by(2).map(|i| format!("property_{i}")).collect();
    json!({"type": "object", "properties": properties, "required": required})
}

fn benches(c: &mut Criterion) {
    let options = Options::default();
    for (name, document) in [("small tool", small_tool()), ("20 properties", large_tool(0))] {
        c.bench_function(&format!("compile/{name}"), |b| {
            b.iter(|| compile(&Schema::parse(black_box(&document)).unwrap(), &options).unwrap());
        });
    }
    // Schemas made to exhaust the compiler: each is to take less than a second.
    let mut group = c.benchmark_group("hostile");
    group.sample_size(10).warm_up_time(Duration::from_millis(100)).measurement_time(Duration::from_secs(1));
    for (name, document, _) in hostile::cases() {
        group.bench_function(name, |b| {
            b.iter(|| {
                Schema::parse(black_box(&document)).and_then(|schema| compile(&schema, &options)).is_ok()
            });
        });
    }
    group.finish();
    let tools: Vec<Value> = (0..100).map(|i| if i % 2 == 0 { small_tool() } else { large_tool(i) }).collect();
    c.bench_function("compile/100 tools into one grammar", |b| {
        b.iter(|| {
            let mut builder = GrammarBuilder::default();
            for (i, document) in tools.iter().enumerate() {
                let schema = Schema::parse(black_box(document)).unwrap();
                compile_into(&schema, &options, &mut builder, &format!("tool-{i}")).unwrap();
            }
            builder
        });
    });
}

criterion_group!(group, benches);
criterion_main!(group);
