//! `toolgate bench mask`: what the grammar costs per token, by grammar and by place in the text, beside llama.cpp's own
//! grammar sampler in the same run.

use std::collections::HashMap;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use serde_json::{Map, Value, json};
use toolgate_chat::format::{Family, derive};
use toolgate_chat::{Template, TemplateTokens, ToolFormat};
use toolgate_grammar::conformance::shares;
use toolgate_grammar::{Grammar, TokenId, Vocabulary};
use toolgate_infer::Specials;
use toolgate_llama::{LlamaGrammar, Load, Model, ModelOptions};

use super::measure::{self, Outcome, Peer, Sample, Start};
use super::workload::{Place, Tokenizer, Workload};
use crate::host::Host;
use crate::jsonl::Jsonl;
use toolgate_engine::models::{self, ResolvedModel};

pub(super) const EXAMPLES: &str = "\
Examples:
  toolgate bench mask
  toolgate bench mask --model smollm2-135m --tools 1,50 --peer-masks 0
  toolgate bench mask --schemas schemas.jsonl --limit 100 --json > mask.json

Only the vocabulary of the model is read, and its chat template, whose form the calls have. Texts that match each
grammar are replayed as tokens, a full mask computed before every token and at the end: once on a new automaton (first
visit), and once more (steady). ready is compilation and the first mask. check asks about single tokens. For llama.cpp
a mask is its grammar sampler applied to the whole vocabulary; ratio is its mean over ours at the same tokens.
What is computed once for a vocabulary shows in the first round only, of which nothing is left with --rounds 2 or more.
One thread; run it on an idle machine. A row of --schemas is {\"schema\", \"valid_instances\"}.

--json prints {model, tokens, format, rounds, workloads: [{name, grammars, texts, tokens, refused, rejected,
toolgate: {compile_ms, ready_ms, first_visit_us, steady_us, check_us, us_per_token_with_compile,
memory_bytes: {mean, max}, places: {PLACE: {first_visit_us, steady_us}}},
llama_cpp: {compile_ms, mask_us, check_us, refused, rejected, places: {PLACE: {mask_us}}} or null,
ratio: {first_visit, steady, check} or null}]}. Times are {mean, p50, p90, p99, max, n}; a PLACE is start, in_string,
elsewhere or end; refused counts grammars, rejected texts; memory is an estimate.";

/// Arguments of `toolgate bench mask`.
#[derive(Args)]
pub(super) struct MaskArgs {
    /// The model whose vocabulary is used: an id (see `toolgate model list`), a path to a .gguf file, or a URL of one.
    #[arg(long, env = "TOOLGATE_MODEL", default_value = models::DEFAULT_MODEL, value_name = "ID|PATH|URL")]
    model: String,
    /// Sizes of the generated tool sets.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = [1, 10, 100, 500], value_parser = positive)]
    tools: Vec<usize>,
    /// Measure the schemas of this corpus, too: a JSON object a line; - reads it from standard input.
    #[arg(long, value_name = "FILE")]
    schemas: Option<PathBuf>,
    /// The first N schemas of the corpus that have valid instances.
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = positive, requires = "schemas")]
    limit: usize,
    /// Measure everything so often and keep the least time of each step.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = positive)]
    rounds: usize,
    /// Masks of each workload that llama.cpp computes as well, some 20 ms each; 0 leaves it out.
    #[arg(long, value_name = "N", default_value_t = 60)]
    peer_masks: usize,
    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("a number that is at least 1".to_owned()),
        Ok(number) => Ok(number),
    }
}

/// Runs `toolgate bench mask`.
pub(super) fn run<H: Host>(args: &MaskArgs, out: &mut dyn Write) -> anyhow::Result<bool> {
    // A mistake in the corpus shows before anything is measured.
    let corpus = args.schemas.as_deref().map(Jsonl::read).transpose()?;
    let resolved = models::resolve(&args.model)?;
    let options = ModelOptions { load: Load::Vocabulary, ..ModelOptions::default() };
    let model = Model::load(&resolved.path, options)
        .map_err(toolgate_engine::Error::from)
        .with_context(|| format!("cannot load the vocabulary of {}", args.model))?;
    let format = format_of(&model, &resolved)?;
    let vocabulary = Arc::clone(model.vocabulary());
    let tokenizer = Tokenizer {
        tokenize: &|text| Ok(model.tokenize(text, Specials::Plain)?),
        length: &|token: TokenId| vocabulary.bytes(token).len(),
    };
    let mut workloads: Vec<Workload> =
        args.tools.iter().map(|&n| Workload::tools(n, &format, &tokenizer)).collect::<anyhow::Result<_>>()?;
    workloads.push(Workload::json(&tokenizer)?);
    if let Some(corpus) = &corpus {
        workloads.push(Workload::schemas(corpus, args.limit, &tokenizer)?);
    }
    let llama = |grammar: &Grammar| -> anyhow::Result<Start> {
        let root = grammar.rule(grammar.root()).map_or("root", |rule| rule.name.as_str());
        let fresh = LlamaGrammar::new(&model, &grammar.to_gbnf(), root)?;
        Ok(Box::new(move || Box::new(fresh.clone())))
    };
    let bench =
        Bench { vocabulary: &vocabulary, peer: &llama, peer_masks: args.peer_masks, rounds: args.rounds };
    let bar = H::BAR("measuring", (workloads.len() * args.rounds) as u64);
    let measured: Vec<Value> =
        workloads.iter().map(|workload| bench.measure(workload, &|| bar.inc(1))).collect();
    bar.finish_and_clear();
    let report = json!({
        "model": args.model,
        "tokens": vocabulary.len(),
        "format": format.name(),
        "rounds": args.rounds,
        "workloads": measured,
    });
    if args.json {
        writeln!(out, "{report}")?
    } else {
        table(&report, out)?
    }
    Ok(true)
}

/// The form of the model's calls; our own where it has no chat template.
fn format_of(model: &Model, resolved: &ResolvedModel) -> anyhow::Result<Arc<dyn ToolFormat>> {
    let entry = resolved.entry.as_deref();
    let source = match (entry.and_then(|entry| entry.template.clone()), model.chat_template(None)) {
        (Some(template), _) => template,
        (None, Some(own)) => entry.map_or(own.clone(), |entry| entry.mended_template(&own).into_owned()),
        (None, None) => return Ok(Arc::new(Family::generic())),
    };
    let tokens = TemplateTokens { bos: model.bos().to_owned(), eos: model.eos().to_owned() };
    let template = Template::new(source, tokens).context("the model's chat template cannot be read")?;
    Ok(derive(&template).format)
}

/// What workloads are measured with.
struct Bench<'a> {
    vocabulary: &'a Arc<Vocabulary>,
    peer: Peer<'a>,
    peer_masks: usize,
    rounds: usize,
}

impl Bench<'_> {
    /// Measures a workload; `done` is told of each round.
    fn measure(&self, workload: &Workload, done: &dyn Fn()) -> Value {
        let (mut ours, mut theirs) = (Outcome::default(), None::<Outcome>);
        for round in 0..self.rounds {
            let again = measure::ours(&workload.cases, self.vocabulary);
            if round == 0 {
                ours = again
            } else {
                ours.keep_least(&again)
            }
            if self.peer_masks > 0 {
                let again = measure::theirs(&workload.cases, self.peer, self.peer_masks);
                match &mut theirs {
                    None => theirs = Some(again),
                    Some(theirs) => theirs.keep_least(&again),
                }
            }
            done();
        }
        let texts = workload.cases.iter().map(|case| case.traces.len()).sum::<usize>();
        let tokens = workload.cases.iter().flat_map(|case| &case.traces).map(|trace| trace.tokens.len());
        json!({
            "name": workload.name,
            "grammars": workload.cases.len(),
            "texts": texts,
            "tokens": tokens.sum::<usize>(),
            "refused": ours.refused,
            "rejected": ours.rejected,
            "toolgate": our_figures(&ours),
            "llama_cpp": theirs.as_ref().map(their_figures),
            "ratio": theirs.as_ref().map(|theirs| ratios(&ours, theirs)),
        })
    }
}

fn our_figures(ours: &Outcome) -> Value {
    let total = ours.compile.iter().chain(ours.first.iter().map(|sample| &sample.time)).sum::<Duration>();
    let bytes = ours.bytes.iter().sum::<usize>() / ours.bytes.len().max(1);
    json!({
        "compile_ms": times(&ours.compile, MILLI),
        "ready_ms": times(&ours.ready, MILLI),
        "first_visit_us": samples(&ours.first),
        "steady_us": samples(&ours.steady),
        "check_us": samples(&ours.checks),
        "us_per_token_with_compile": rounded(total.as_secs_f64() * MICRO / ours.first.len().max(1) as f64),
        "memory_bytes": {"mean": bytes, "max": ours.bytes.iter().max()},
        "places": places(&[("first_visit_us", &ours.first), ("steady_us", &ours.steady)]),
    })
}

fn their_figures(theirs: &Outcome) -> Value {
    json!({
        "compile_ms": times(&theirs.compile, MILLI),
        "mask_us": samples(&theirs.first),
        "check_us": samples(&theirs.checks),
        "refused": theirs.refused,
        "rejected": theirs.rejected,
        "places": places(&[("mask_us", &theirs.first)]),
    })
}

/// Their mean over ours, at the steps that both took.
fn ratios(ours: &Outcome, theirs: &Outcome) -> Value {
    let ratio = |ours: &[Sample], theirs: &[Sample]| {
        let ours: HashMap<_, _> = ours.iter().map(|sample| (sample.step, sample.time)).collect();
        let both = theirs.iter().filter_map(|sample| Some((ours.get(&sample.step)?, sample.time)));
        let (mine, other) = both
            .fold((Duration::ZERO, Duration::ZERO), |(mine, other), (one, two)| (mine + *one, other + two));
        (mine > Duration::ZERO).then(|| rounded(other.as_secs_f64() / mine.as_secs_f64()))
    };
    json!({
        "first_visit": ratio(&ours.first, &theirs.first),
        "steady": ratio(&ours.steady, &theirs.first),
        "check": ratio(&ours.checks, &theirs.checks),
    })
}

fn places(measured: &[(&str, &[Sample])]) -> Value {
    let of_place = |place: Place| {
        let figures = measured.iter().map(|&(name, all)| {
            let here: Vec<Sample> = all.iter().filter(|sample| sample.place == place).copied().collect();
            (name.to_owned(), samples(&here))
        });
        (place.name().to_owned(), Value::Object(figures.collect::<Map<_, _>>()))
    };
    Value::Object(Place::ALL.map(of_place).into_iter().collect())
}

fn samples(samples: &[Sample]) -> Value {
    times(&samples.iter().map(|sample| sample.time).collect::<Vec<_>>(), MICRO)
}

const MILLI: f64 = 1e3;
const MICRO: f64 = 1e6;

/// The distribution of times, in `unit`s of a second.
fn times(times: &[Duration], unit: f64) -> Value {
    let n = times.len();
    let [mean, p50, p90, p99, max] =
        shares(&mut times.to_vec()).map(|time| rounded(time.as_secs_f64() * unit));
    json!({"mean": mean, "p50": p50, "p90": p90, "p99": p99, "max": max, "n": n})
}

/// Three places are more than a clock can mean.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

/// The report for a person: a line for each workload, then one for each place in its texts.
fn table(report: &Value, out: &mut dyn Write) -> anyhow::Result<()> {
    let text = |pointer: &str| report.pointer(pointer).map(ToString::to_string).unwrap_or_default();
    let model = report.get("model").and_then(Value::as_str).unwrap_or_default();
    let format = report.get("format").and_then(Value::as_str).unwrap_or_default();
    writeln!(
        out,
        "{model}: {} tokens, calls in the form of {format}; rounds: {}",
        text("/tokens"),
        text("/rounds")
    )?;
    writeln!(
        out,
        "\nmilliseconds to compile and to the first mask, KiB; microseconds a mask and a check of one token\n"
    )?;
    let names = [
        "compile",
        "ready",
        "KiB",
        "first",
        "p50",
        "p99",
        "max",
        "steady",
        "p50",
        "p99",
        "check",
        "llama.cpp",
        "× first",
        "× steady",
    ];
    let columns = [
        "/toolgate/compile_ms/mean",
        "/toolgate/ready_ms/mean",
        "/toolgate/memory_bytes/mean",
        "/toolgate/first_visit_us/mean",
        "/toolgate/first_visit_us/p50",
        "/toolgate/first_visit_us/p99",
        "/toolgate/first_visit_us/max",
        "/toolgate/steady_us/mean",
        "/toolgate/steady_us/p50",
        "/toolgate/steady_us/p99",
        "/toolgate/check_us/p50",
        "/llama_cpp/mask_us/mean",
        "/ratio/first_visit",
        "/ratio/steady",
    ];
    row(out, "", &names.map(str::to_owned))?;
    let workloads = report.get("workloads").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for workload in workloads {
        let cells = columns.map(|pointer| {
            let kibi = if pointer.ends_with("memory_bytes/mean") { 1024.0 } else { 1.0 };
            cell(workload.pointer(pointer), kibi)
        });
        row(out, name_of(workload), &cells)?;
        for (what, key) in [("grammars refused", "refused"), ("texts rejected", "rejected")] {
            if let Some(n) = workload.get(key).and_then(Value::as_u64).filter(|&n| n > 0) {
                writeln!(out, "{:18}{n} {what}", "")?;
            }
        }
    }
    writeln!(out, "\nmicroseconds a mask, by the place of the token in its text\n")?;
    row(out, "", &["masks", "first", "max", "steady", "llama.cpp"].map(str::to_owned))?;
    for workload in workloads {
        for place in Place::ALL.map(Place::name) {
            let at = |engine: &str, figure: &str, share: &str| {
                let times = workload.pointer(&format!("/{engine}/places/{place}/{figure}"));
                // Where nothing was measured the figures are no times.
                let measured = times.filter(|times| times.get("n").is_some_and(|n| *n != 0));
                cell(measured.and_then(|times| times.get(share)), 1.0)
            };
            let cells = [
                at("toolgate", "first_visit_us", "n"),
                at("toolgate", "first_visit_us", "mean"),
                at("toolgate", "first_visit_us", "max"),
                at("toolgate", "steady_us", "mean"),
                at("llama_cpp", "mask_us", "mean"),
            ];
            row(out, &format!("{} {place}", name_of(workload)), &cells)?;
        }
    }
    Ok(())
}

fn name_of(workload: &Value) -> &str {
    workload.get("name").and_then(Value::as_str).unwrap_or_default()
}

fn row(out: &mut dyn Write, name: &str, cells: &[String]) -> std::io::Result<()> {
    let cells: String = cells.iter().map(|cell| format!(" {cell:>9}")).collect();
    writeln!(out, "{name:<24}{cells}")
}

fn cell(value: Option<&Value>, unit: f64) -> String {
    match value.and_then(Value::as_f64).map(|value| value / unit) {
        None => "-".to_owned(),
        Some(value) if value >= 100.0 || value.fract() == 0.0 => format!("{value:.0}"),
        Some(value) => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
    use super::*;
    use toolgate_grammar::{Automaton, Limits};

    /// Measures workloads over bytes as tokens, beside a peer that is our own engine.
    fn measured(workload: &dyn Fn(&Tokenizer<'_>) -> Workload, peer_masks: usize) -> Value {
        let vocabulary = Arc::new(Vocabulary::bytes_only());
        let tokenize = |text: &str| Ok(text.bytes().map(u32::from).collect());
        let workload = workload(&Tokenizer { tokenize: &tokenize, length: &|_| 1 });
        let peer = |grammar: &Grammar| -> anyhow::Result<Start> {
            let vocabulary = Arc::new(Vocabulary::bytes_only());
            let automaton = Automaton::new(grammar, vocabulary, &Limits::default())?;
            Ok(Box::new(move || Box::new(automaton.matcher())))
        };
        Bench { vocabulary: &vocabulary, peer: &peer, peer_masks, rounds: 2 }.measure(&workload, &|| {})
    }

    fn number(value: &Value, pointer: &str) -> f64 {
        value.pointer(pointer).and_then(Value::as_f64).unwrap_or_else(|| panic!("{pointer} of {value}"))
    }

    fn check_times(value: &Value, pointer: &str, n: f64) {
        let at = |figure: &str| number(value, &format!("{pointer}/{figure}"));
        assert_eq!(at("n"), n, "{pointer} of {value}");
        assert!(
            at("p50") <= at("p90") && at("p90") <= at("p99") && at("p99") <= at("max"),
            "{pointer} of {value}"
        );
        assert!(at("max") > 0.0 && at("mean") <= at("max"), "{pointer} of {value}");
    }

    #[test]
    fn every_token_of_every_text_is_measured_once_a_visit() {
        let format: Arc<dyn ToolFormat> = Arc::new(Family::generic());
        let result = measured(&|tokenizer| Workload::tools(25, &format, tokenizer).unwrap(), 50);
        assert_eq!((number(&result, "/grammars"), number(&result, "/texts")), (1.0, 20.0));
        assert_eq!((number(&result, "/refused"), number(&result, "/rejected")), (0.0, 0.0), "{result}");
        let (texts, tokens) = (20.0, number(&result, "/tokens"));
        assert!(tokens > 20.0 * 50.0, "{tokens}");
        for figure in ["first_visit_us", "steady_us"] {
            check_times(&result, &format!("/toolgate/{figure}"), tokens + texts);
            let places = ["start", "in_string", "elsewhere", "end"];
            let n = |place: &str| number(&result, &format!("/toolgate/places/{place}/{figure}/n"));
            assert_eq!(places.map(n).iter().sum::<f64>(), tokens + texts);
            assert_eq!((n("start"), n("end")), (texts, texts));
            assert!(n("in_string") > n("elsewhere"));
        }
        check_times(&result, "/toolgate/check_us", 2.0 * tokens);
        check_times(&result, "/toolgate/compile_ms", 1.0);
        check_times(&result, "/llama_cpp/mask_us", 50.0);
        assert!(number(&result, "/toolgate/ready_ms/mean") >= number(&result, "/toolgate/compile_ms/mean"));
        assert!(number(&result, "/toolgate/memory_bytes/max") > 0.0);
        for ratio in ["first_visit", "steady", "check"] {
            assert!(number(&result, &format!("/ratio/{ratio}")) > 0.0);
        }
    }

    #[test]
    fn a_corpus_counts_what_is_refused_and_what_is_rejected() {
        let rows = [
            json!({"schema": {"type": "integer"}, "valid_instances": [1, 22]}),
            json!({"schema": {"type": "integer"}, "valid_instances": []}),
            json!({"schema": {"type": "text"}, "valid_instances": ["x"]}),
            json!({"schema": {"type": "integer"}, "valid_instances": ["x"]}),
            json!({"schema": {"type": "null"}, "valid_instances": [null]}),
        ];
        let corpus = Jsonl::of(&rows);
        let result = measured(&|tokenizer| Workload::schemas(&corpus, 3, tokenizer).unwrap(), 0);
        assert_eq!(result["name"], "3 schemas");
        assert_eq!((number(&result, "/refused"), number(&result, "/rejected")), (1.0, 1.0), "{result}");
        assert_eq!((&result["llama_cpp"], &result["ratio"]), (&Value::Null, &Value::Null));
        // 1 and its end, 22 and its end, and the first mask of what is rejected.
        check_times(&result, "/toolgate/first_visit_us", 2.0 + 3.0 + 1.0);
    }

    #[test]
    fn the_table_has_a_line_for_each_workload_and_place() {
        let result = measured(&|tokenizer| Workload::json(tokenizer).unwrap(), 0);
        let report =
            json!({"model": "m", "tokens": 257, "format": "generic", "rounds": 2, "workloads": [result]});
        let mut out = Vec::new();
        table(&report, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines = text.lines().filter(|line| line.starts_with("generic JSON")).count();
        assert_eq!(lines, 1 + Place::ALL.len(), "{text}");
    }
}
