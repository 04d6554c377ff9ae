//! `toolgate bench prefill`: how fast a prompt is evaluated, by how much of it is there already. Long prompts are what agents
//! send.

use std::io::Write;
use std::time::Instant;

use anyhow::bail;
use clap::{Args, ValueEnum};
use serde::Serialize;
use serde_json::json;
use toolgate_infer::{Backend, Rows, Specials, TokenId};
use toolgate_llama::{ContextOptions, LlamaBackend, Model, ModelOptions, Numerics};

use crate::host::Host;
use toolgate_engine::models;

pub(super) const EXAMPLES: &str = "\
Examples:
  toolgate bench prefill
  toolgate bench prefill --depths 0,2000,5000 --numerics exact --json

Evaluates a text up to each depth, and measures the batches that end there and behind it. The deeper a
token stands, the more keys it is held against, and the longer it takes.

--json prints {model, device, numerics, batch, rows: [{depth, tokens, tokens_per_second}]}.";

/// Arguments of `toolgate bench prefill`.
#[derive(Args)]
pub(super) struct PrefillArgs<H: Host> {
    /// A model's id (see `toolgate model list`), a path to a .gguf file, or a URL of one.
    #[arg(long, env = "TOOLGATE_MODEL", default_value = models::DEFAULT_MODEL, value_name = "ID|PATH|URL")]
    model: String,
    #[command(flatten)]
    device: H::Device,
    /// Tokens in front of what is measured.
    #[arg(long, value_delimiter = ',', default_value = "0,2048,5120,10240", value_name = "N,…")]
    depths: Vec<usize>,
    /// Tokens measured at each depth.
    #[arg(long, default_value_t = 768, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    tokens: u32,
    /// Tokens of a batch [default: what `bench tune` found, or 256].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=8192))]
    batch: Option<u32>,
    /// With which kernels; auto is what a context of that length gets.
    #[arg(long, value_enum, default_value_t = NumericsArg::Auto)]
    numerics: NumericsArg,
    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

/// Which kernels evaluate.
#[derive(Clone, Copy, ValueEnum)]
enum NumericsArg {
    Auto,
    Exact,
    Fast,
}

/// How fast tokens behind so many others are.
#[derive(Serialize)]
struct Row {
    depth: usize,
    tokens: usize,
    tokens_per_second: f64,
}

/// Runs `toolgate bench prefill`.
pub(super) fn run<H: Host>(args: &PrefillArgs<H>, out: &mut dyn Write) -> anyhow::Result<bool> {
    let file = models::resolve(&args.model)?;
    let hardware = H::hardware(&args.device)?;
    let tuning = hardware.tunings.get(&file.path)?.unwrap_or_default();
    let loading = ModelOptions { placement: hardware.placement, ..ModelOptions::default() };
    let model = Model::load(&file.path, loading)?;
    let mut depths = args.depths.clone();
    depths.sort_unstable();
    depths.dedup();
    let (deepest, tokens) = (depths.last().copied().unwrap_or_default(), args.tokens as usize);
    let prompt = text_of(&model, deepest.saturating_add(tokens))?;
    let usual = ContextOptions::default();
    let context = u32::try_from(prompt.len())?.max(1);
    let numerics = match args.numerics {
        NumericsArg::Auto => H::numerics(context),
        NumericsArg::Exact => Numerics::Exact,
        NumericsArg::Fast => Numerics::Fast,
    };
    let options = ContextOptions {
        context: Some(context),
        batch: args.batch.or(tuning.batch).unwrap_or(usual.batch),
        threads: hardware.threads.or(tuning.threads),
        attention: hardware.attention,
        numerics,
    };
    let mut backend = model.backend(&options)?;
    let bar = H::BAR("measuring", depths.len() as u64);
    // Once before anything counts: weights are read from disk, threads are started.
    evaluate(&mut backend, &prompt, tokens.min(64))?;
    backend.truncate(0)?;
    let mut rows = Vec::new();
    for depth in depths {
        evaluate(&mut backend, &prompt, depth)?;
        let started = Instant::now();
        evaluate(&mut backend, &prompt, depth + tokens)?;
        let tokens_per_second = tokens as f64 / started.elapsed().as_secs_f64();
        rows.push(Row { depth, tokens, tokens_per_second });
        bar.inc(1);
    }
    bar.finish_and_clear();
    let name = file.path.file_stem().map(|name| name.to_string_lossy().into_owned());
    if args.json {
        let numerics = if numerics == Numerics::Fast { "fast" } else { "exact" };
        writeln!(
            out,
            "{}",
            json!({"model": name, "device": model.device(), "numerics": numerics, "batch": backend.batch_len(), "rows": rows})
        )?;
    } else {
        writeln!(out, "{:>8}{:>16}", "DEPTH", "TOKENS A SECOND")?;
        for row in rows {
            writeln!(out, "{:>8}{:>16.1}", row.depth, row.tokens_per_second)?;
        }
    }
    Ok(true)
}

/// Text like that of a prompt, of so many tokens.
pub(super) fn text_of(model: &Model, len: usize) -> anyhow::Result<Vec<TokenId>> {
    let line = |n: usize| {
        format!("{n}. Reads a text file of the workspace and gives back its lines from line {n} on.\n")
    };
    let text: String = (0..len.div_ceil(8)).map(line).collect();
    let tokens = model.tokenize(&text, Specials::Plain)?;
    match tokens.get(..len) {
        Some(tokens) => Ok(tokens.to_vec()),
        None => bail!("the model's vocabulary makes too few tokens of the text"),
    }
}

/// Evaluates on to the first `len` tokens of a prompt, or cuts back to them.
pub(super) fn evaluate(backend: &mut LlamaBackend, prompt: &[TokenId], len: usize) -> anyhow::Result<()> {
    backend.truncate(len)?;
    let rest = prompt.get(backend.evaluated()..len).unwrap_or_default();
    for tokens in rest.chunks(backend.batch_len().max(1)) {
        backend.eval(tokens, Rows::None)?;
    }
    Ok(())
}
