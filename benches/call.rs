//! A whole call on the scripted backend: all that a turn costs besides the model itself.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, reason = "a bench")]

use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use serde::Deserialize;
use toolgate::agent::{self, Agent};
use toolgate::engine::{self, LocalEngine};
use toolgate::tools::{Registry, typed};
use toolgate_chat::{Dialogue, Template, TemplateTokens};
use toolgate_infer::Vocabulary;
use toolgate_infer::scripted::Scripted;

const TEMPLATE: &str = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls %}<tool_call>\n\
{\"name\": \"{{ c.function.name }}\", \"arguments\": {{ c.function.arguments | tojson }}}\n</tool_call>{% endfor %}\
{% endfor %}{% if tools %}{{ tools | tojson }}{% endif %}<assistant>";

#[derive(Deserialize, schemars::JsonSchema)]
struct Read {
    path: String,
    max_lines: Option<u32>,
}

fn agent() -> Agent {
    let call = "<tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"notes/today.txt\"}}\n</tool_call>";
    let model = Scripted::new(Arc::new(Vocabulary::bytes_only()))
        .context(16_384)
        .on("milk", "There is milk and bread to buy.")
        .on("What", call);
    let mut registry = Registry::new();
    let tool = typed("read_file", "Read a file.", |read: Read| {
        Ok::<_, String>(format!("{}, {:?} lines: milk, bread", read.path, read.max_lines))
    });
    registry.add(tool.unwrap().read_only()).unwrap();
    let dialogue = Dialogue::derived(Template::new(TEMPLATE, TemplateTokens::default()).unwrap());
    let engine = LocalEngine::new("scripted", model, dialogue, engine::Options::default());
    Agent::new(Arc::new(engine), registry, agent::Options::default())
}

fn call(c: &mut Criterion) {
    let mut group = c.benchmark_group("call");
    group.sample_size(20);
    group.bench_function("cold", |b| {
        b.iter_with_setup(agent, |agent| {
            let outcome = agent.ask("What is in notes/today.txt?").unwrap();
            assert_eq!(outcome.calls.len(), 1);
            outcome
        });
    });
    let warm = agent();
    group.bench_function("warm", |b| b.iter(|| warm.ask("What is in notes/today.txt?").unwrap()));
    group.finish();
}

criterion_group!(benches, call);
criterion_main!(benches);
