//! Constraint engines side by side in one run: schemas compiled, their instances replayed as tokens of a real
//! vocabulary, a full mask before every token and at the end.
//!
//! ```text
//! TOOLGATE_SCHEMA_CORPUS=schemas.jsonl TOOLGATE_VOCABULARY=model.gguf cargo bench -p toolgate-grammar --bench peers
//! ```
//!
//! The corpus is a file of JSON lines, each `{id, schema, valid_instances}`; the vocabulary is read from a GGUF
//! file's metadata. After `--`: `--limit N` schemas (300), `--rounds N` of which each step's least time counts (3),
//! `--verify N` to compare every Nth mask with the check of each token, `--only NAME` of an engine, `--json FILE` for the results, `--slow N` for the N slowest schemas. Times are
//! microseconds of one thread, unless said otherwise.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs,
    reason = "a benchmark"
)]

mod engines;
mod report;
#[path = "../../../../tests/support/skip.rs"]
mod skip;
mod vocabulary;

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use toolgate_grammar::compile::render;
use toolgate_grammar::{Schema, Whitespace};

use crate::engines::{Engine, Llguidance, Ours, Run};
use crate::report::Times;
use crate::vocabulary::Tokenizer;

/// A schema and the token sequences of its instances.
struct Case {
    id: String,
    schema: Value,
    traces: Vec<Vec<u32>>,
}

/// What one engine took for a list of cases.
#[derive(Default)]
struct Outcome {
    compile: Times,
    /// Masks and steps of the first replay of each trace, and of the second.
    first: Times,
    first_accept: Times,
    steady: Times,
    check: Times,
    /// Compilation and masks of each case, for finding the slow ones.
    by_case: Vec<(Duration, Duration, usize, String)>,
    refused: usize,
    rejected: usize,
    bytes: Vec<usize>,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let option = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1).cloned()
    };
    // `cargo test --benches` runs this as a test, with nothing to measure.
    let corpus = skip::corpus("TOOLGATE_SCHEMA_CORPUS", "a corpus of schemas as JSON lines");
    let model = skip::corpus("TOOLGATE_VOCABULARY", "a GGUF file with a byte-level BPE vocabulary");
    let (Some(corpus), Some(model)) = (corpus, model) else { return };
    let tokenizer = Tokenizer::read(&model).expect("a GGUF file with a byte-level BPE vocabulary");
    let limit = option("--limit").map_or(300, |n| n.parse().expect("a number"));
    let mut workloads = vec![("corpus".to_owned(), corpus_cases(&corpus, limit, &tokenizer))];
    for n in [1, 10, 100, 500] {
        workloads.push((format!("{n} tools"), vec![tools_case(n, &tokenizer)]));
    }
    workloads.push(("generic JSON".to_owned(), vec![generic_case(&tokenizer)]));

    let start = Instant::now();
    let ours = Arc::new(Ours::new(&tokenizer));
    let our_start = start.elapsed();
    let start = Instant::now();
    let theirs = Llguidance::new(&tokenizer);
    eprintln!(
        "vocabulary: {} tokens, toolgate {our_start:?}, llguidance {:?}",
        tokenizer.tokens.len(),
        start.elapsed()
    );
    let engines: [&dyn Engine; 2] = [&*ours, &theirs];
    let only = option("--only");
    let rounds = option("--rounds").map_or(3, |n| n.parse().expect("a number"));
    let slow = option("--slow").map_or(0, |n| n.parse().expect("a number"));
    let mut results = Map::new();
    for (name, cases) in &workloads {
        let mut of_workload = Map::new();
        for engine in engines.iter().filter(|engine| only.as_ref().is_none_or(|only| *only == engine.name()))
        {
            let mut outcome = measure(*engine, cases, rounds);
            let result = outcome.summary();
            println!("{name}, {}: {}", engine.name(), serde_json::to_string_pretty(&result).unwrap());
            outcome.by_case.sort_by_key(|(compile, masks, ..)| std::cmp::Reverse(*compile + *masks));
            for (compile, masks, tokens, id) in outcome.by_case.iter().take(slow) {
                println!("  {id}: compile {compile:?}, masks {masks:?} for {tokens} tokens");
            }
            if !engine.stages().is_null() {
                println!("stages so far, seconds: {}", engine.stages());
            }
            of_workload.insert(engine.name(), result);
        }
        results.insert(name.clone(), Value::Object(of_workload));
    }
    if let Some(every) = option("--verify") {
        let (masks, wrong) = verify(&*ours, &workloads[0].1, every.parse().expect("a number"));
        println!("masks compared with the check of each token: {masks}, tokens that differ: {wrong}");
        results.insert("verified".to_owned(), json!({"masks": masks, "tokens_that_differ": wrong}));
    }
    results.insert("threads".to_owned(), threads(&ours, &workloads[0].1));
    println!("threads: {}", results["threads"]);
    if let Some(path) = option("--json") {
        std::fs::write(path, serde_json::to_string_pretty(&Value::Object(results)).unwrap()).unwrap();
    }
}

fn corpus_cases(path: &str, limit: usize, tokenizer: &Tokenizer) -> Vec<Case> {
    let text = std::fs::read_to_string(path).expect("a corpus");
    text.lines()
        .take(limit)
        .map(|line| {
            let row: Value = serde_json::from_str(line).expect("a JSON line");
            let schema = Schema::parse(&row["schema"]).ok();
            let instances = row["valid_instances"].as_array().cloned().unwrap_or_default();
            let trace = |instance: &Value| {
                tokenizer.tokenize(&render(instance, schema.as_ref(), Whitespace::Compact))
            };
            Case {
                id: row["id"].as_str().unwrap_or_default().to_owned(),
                schema: row["schema"].clone(),
                traces: instances.iter().map(trace).collect(),
            }
        })
        .collect()
}

/// A call of one out of `n` tools.
fn tools_case(n: usize, tokenizer: &Tokenizer) -> Case {
    let kinds = [
        json!({"type": "string"}),
        json!({"type": "string", "minLength": 1, "maxLength": 60}),
        json!({"type": "integer", "minimum": 0, "maximum": 1000}),
        json!({"type": "boolean"}),
        json!({"type": "array", "items": {"type": "string"}, "maxItems": 10}),
    ];
    let calls: Vec<Value> = (0..n)
        .map(|tool| {
            let mut properties = Map::from_iter([("path".to_owned(), kinds[0].clone())]);
            for parameter in 0..2 + tool % 3 {
                properties.insert(format!("parameter_{parameter}"), kinds[(tool + parameter) % 5].clone());
            }
            json!({
                "type": "object",
                "properties": {
                    "name": {"const": format!("tool_{tool}")},
                    "arguments": {
                        "type": "object", "properties": properties, "required": ["path"],
                        "additionalProperties": false
                    },
                },
                "required": ["name", "arguments"],
                "additionalProperties": false
            })
        })
        .collect();
    let traces = (0..n.min(20))
        .map(|tool| {
            let path = "src/engine/data list.rs";
            let text = format!(r#"{{"name":"tool_{tool}","arguments":{{"path":"{path}"}}}}"#);
            tokenizer.tokenize(&text)
        })
        .collect();
    Case { id: format!("{n} tools"), schema: json!({"anyOf": calls}), traces }
}

fn generic_case(tokenizer: &Tokenizer) -> Case {
    let text = r#"{"id":17,"name":"a \"quoted\" name","tags":["x","été","日本"],"nested":{"deep":[[1.5e-3,null],{"k":true}]},"text":"The quick brown fox jumps over the lazy dog.\n"}"#;
    Case { id: "generic".to_owned(), schema: json!(true), traces: vec![tokenizer.tokenize(text)] }
}

/// Measures all cases several times and keeps the least time of each step, which is what is left when other
/// programs' share of the machine is taken away.
fn measure(engine: &dyn Engine, cases: &[Case], rounds: usize) -> Outcome {
    let mut outcome = measure_once(engine, cases);
    for _ in 1..rounds {
        let again = measure_once(engine, cases);
        outcome.compile.keep_least(&again.compile);
        outcome.first.keep_least(&again.first);
        outcome.first_accept.keep_least(&again.first_accept);
        outcome.steady.keep_least(&again.steady);
        outcome.check.keep_least(&again.check);
        for (one, other) in outcome.by_case.iter_mut().zip(&again.by_case) {
            (one.0, one.1) = (one.0.min(other.0), one.1.min(other.1));
        }
    }
    outcome
}

fn measure_once(engine: &dyn Engine, cases: &[Case]) -> Outcome {
    let mut outcome = Outcome::default();
    for case in cases {
        let start = Instant::now();
        let run = engine.compile(&case.schema);
        let compile = start.elapsed();
        let Ok(run) = run else {
            outcome.refused += 1;
            continue;
        };
        outcome.compile.push(compile);
        let (mut masks, mut tokens) = (Duration::ZERO, 0);
        for trace in &case.traces {
            match replay(run.again(), trace, &mut outcome.first, &mut outcome.first_accept) {
                Some(took) => {
                    masks += took;
                    tokens += trace.len() + 1;
                }
                None => outcome.rejected += 1,
            }
        }
        outcome.by_case.push((compile, masks, tokens, case.id.clone()));
        for trace in &case.traces {
            replay(run.again(), trace, &mut outcome.steady, &mut Times::default());
            check(run.again(), trace, &mut outcome.check);
        }
        outcome.bytes.extend(run.bytes());
    }
    outcome
}

/// Replays a trace with a mask before every token and at the end; how long the masks took in all, or `None` if
/// a token was refused. Times count up to there.
fn replay(mut run: Box<dyn Run>, trace: &[u32], masks: &mut Times, accepts: &mut Times) -> Option<Duration> {
    let mut total = Duration::ZERO;
    let mut mask = |run: &mut Box<dyn Run>| {
        let start = Instant::now();
        let result = run.mask();
        let took = start.elapsed();
        result.ok()?;
        masks.push(took);
        total += took;
        Some(())
    };
    for &token in trace {
        mask(&mut run)?;
        if !run.masked(token) {
            return None;
        }
        let start = Instant::now();
        run.accept(token).ok()?;
        accepts.push(start.elapsed());
    }
    mask(&mut run)?;
    Some(total)
}

/// Checks the next token and one that is another's, before each step.
fn check(mut run: Box<dyn Run>, trace: &[u32], times: &mut Times) {
    for (index, &token) in trace.iter().enumerate() {
        for candidate in [token, trace[(index + 7) % trace.len()]] {
            let start = Instant::now();
            black_box(run.check(candidate));
            times.push(start.elapsed());
        }
        if run.accept(token).is_err() {
            return;
        }
    }
}

impl Outcome {
    fn summary(&mut self) -> Value {
        let tokens = self.first.len().max(1) as f64;
        let with_compile = (self.compile.total() + self.first.total()) / tokens;
        let with_steps = with_compile + self.first_accept.total() / tokens;
        let mut compile = self.compile.summary();
        compile["total"] = json!(self.compile.total().round());
        let mut summary = json!({
            "us_per_token_with_compile": (with_compile * 1e3).round() / 1e3,
            "us_per_token_with_compile_and_accept": (with_steps * 1e3).round() / 1e3,
            "mask_first_visit": self.first.summary(),
            "mask_steady": self.steady.summary(),
            "accept_first_visit": self.first_accept.summary(),
            "check": self.check.summary(),
            "compile": compile,
            "refused": self.refused,
            "traces_rejected": self.rejected,
        });
        if let (Some(max), false) = (self.bytes.iter().max(), self.bytes.is_empty()) {
            let mean = self.bytes.iter().sum::<usize>() / self.bytes.len();
            summary["bytes"] = json!({"mean": mean, "max": max});
        }
        summary
    }
}

/// Compares every so many masks with the checks of all tokens; the number of masks, and of tokens that differ.
fn verify(engine: &dyn Engine, cases: &[Case], every: usize) -> (usize, usize) {
    let (mut position, mut masks, mut wrong) = (0, 0, 0);
    for case in cases {
        let Ok(run) = engine.compile(&case.schema) else { continue };
        for trace in &case.traces {
            let mut run = run.again();
            for &token in trace {
                position += 1;
                run.mask().unwrap();
                if position % every == 0 {
                    masks += 1;
                    wrong +=
                        (0..engine.tokens()).filter(|&token| run.masked(token) != run.check(token)).count();
                }
                if run.accept(token).is_err() {
                    break;
                }
            }
        }
    }
    (masks, wrong)
}

/// How often each thread goes through all traces.
const PASSES: usize = 200;

/// Tokens a second over shared automata, on one thread and on two.
fn threads(ours: &Ours, cases: &[Case]) -> Value {
    let automata: Vec<_> = cases
        .iter()
        .filter_map(|case| Some((ours.automaton(&case.schema).ok()?, &case.traces)))
        .take(100)
        .collect();
    let run = || {
        let mut tokens = 0usize;
        // Long enough for the threads to have found a core each.
        for _ in 0..PASSES {
            for (automaton, traces) in &automata {
                for trace in *traces {
                    let mut matcher = automaton.matcher();
                    for &token in trace {
                        black_box(matcher.mask().unwrap());
                        if matcher.accept(token).is_err() {
                            break;
                        }
                        tokens += 1;
                    }
                }
            }
        }
        tokens
    };
    run();
    let rate = |tokens: usize, start: Instant| (tokens as f64 / start.elapsed().as_secs_f64()).round();
    let start = Instant::now();
    let one = rate(run(), start);
    let start = Instant::now();
    let both = std::thread::scope(|scope| {
        let (a, b) = (scope.spawn(run), scope.spawn(run));
        a.join().unwrap() + b.join().unwrap()
    });
    json!({"tokens_per_second": {"1": one, "2": rate(both, start)}})
}
