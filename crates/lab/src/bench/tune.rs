//! `toolgate bench tune`: how many threads and how large batches evaluate a model fastest here, kept for its later use.
//!
//! Only what leaves the text as it is may be chosen. What else could be set is measured beside it, to be seen: kernels that
//! change low bits ([`Numerics::Fast`]).

use std::io::Write;
use std::time::Instant;

use anyhow::{Context, bail};
use clap::Args;
use serde::Serialize;
use serde_json::json;
use toolgate_infer::{Backend, Rows, Specials, TokenId};
use toolgate_llama::{ContextOptions, LlamaBackend, Model, ModelOptions, Numerics};

use super::median;
use crate::host::Host;
use toolgate_engine::Tuning;
use toolgate_engine::models;

pub(super) const EXAMPLES: &str = "\
Examples:
  toolgate bench tune
  toolgate bench tune --model qwen2.5-coder-1.5b --dry-run --json

Reads a prompt of 384 tokens and writes behind it, one token at a time and four at a time, with
several numbers of threads, then with several lengths of batches. What makes a call of 250 prompt
tokens and twelve evaluations fastest is kept in the cache of models, for this model and this
machine, if that is by 3 % faster than without; else the defaults are. Half a minute to two minutes;
leave the machine alone meanwhile.

--json prints {model, machine, device, rows: [{threads, batch, numerics, prompt_tokens_per_second, token_ms,
four_tokens_ms, call_ms}], chosen: {threads, batch}}; an empty choice are the defaults.";

/// Arguments of `toolgate bench tune`.
#[derive(Args)]
pub(super) struct TuneArgs<H: Host> {
    /// A model's id (see `toolgate model list`), a path to a .gguf file, or a URL of one.
    #[arg(long, env = "TOOLGATE_MODEL", default_value = models::DEFAULT_MODEL, value_name = "ID|PATH|URL")]
    model: String,
    #[command(flatten)]
    device: H::Device,
    /// Only measure: keep nothing.
    #[arg(long)]
    dry_run: bool,
    /// Forget what was kept, so that the defaults count again.
    #[arg(long, conflicts_with = "dry_run")]
    reset: bool,
    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

/// Tokens of the prompt that is read.
const PROMPT: usize = 384;
/// Times that tokens are written behind it, of which the median counts.
const WRITTEN: usize = 12;
/// The call that is to be fast: what its prompt has that was not evaluated before, and evaluations behind it, half of them of
/// one token and half of four.
const CALL_PROMPT: f64 = 250.0;
const CALL_EVALUATIONS: f64 = 12.0;
/// What a choice has to gain over the defaults: less is noise.
const WORTH: f64 = 0.97;
/// Lengths of batches to try.
const BATCHES: [u32; 4] = [64, 128, 256, 512];

/// How fast the model is with some settings.
#[derive(Clone, Serialize)]
struct Row {
    threads: u32,
    batch: u32,
    numerics: &'static str,
    prompt_tokens_per_second: f64,
    token_ms: f64,
    four_tokens_ms: f64,
    call_ms: f64,
}

/// Runs `toolgate bench tune`.
pub(super) fn run<H: Host>(args: &TuneArgs<H>, out: &mut dyn Write) -> anyhow::Result<bool> {
    let file = models::resolve(&args.model)?;
    let asked = H::hardware(&args.device)?;
    if args.reset {
        asked.tunings.put(&file.path, Tuning::default())?;
        H::note("the defaults count again");
        return Ok(true);
    }
    let loading = ModelOptions { placement: asked.placement, ..ModelOptions::default() };
    let model = Model::load(&file.path, loading)?;
    let prompt = prompt(&model)?;
    let usual = ContextOptions::default();
    let measured = |threads: u32, batch: u32, numerics: Numerics| {
        let attention = asked.attention;
        let options =
            ContextOptions { context: Some(1_024), threads: Some(threads), batch, attention, numerics };
        Row::measure(&model, &options, &prompt)
    };
    let (cores, hardware) = processors();
    let candidates = to_try(cores, hardware);
    let bar = H::BAR("measuring", (candidates.len() + BATCHES.len()) as u64);
    let mut rows = Vec::new();
    for &threads in &candidates {
        rows.push(measured(threads, usual.batch, usual.numerics)?);
        bar.inc(1);
    }
    let threads = fastest(&rows).context("nothing was measured")?.threads;
    for batch in BATCHES.into_iter().filter(|batch| *batch != usual.batch) {
        rows.push(measured(threads, batch, usual.numerics)?);
        bar.inc(1);
    }
    let chosen = choice(&rows, cores, usual.batch);
    rows.push(measured(threads, usual.batch, Numerics::Fast)?);
    bar.finish_and_clear();
    if !args.dry_run {
        asked.tunings.put(&file.path, chosen)?;
    }
    let name = file.path.file_stem().map(|name| name.to_string_lossy().into_owned());
    if args.json {
        let machine = toolgate_llama::machine();
        writeln!(
            out,
            "{}",
            json!({"model": name, "machine": machine, "device": model.device(), "rows": rows, "chosen": chosen})
        )?;
    } else {
        table(&rows, &chosen, args.dry_run, out)?;
    }
    Ok(true)
}

/// What is read: text like that of a prompt, as often as it takes.
fn prompt(model: &Model) -> anyhow::Result<Vec<TokenId>> {
    const TEXT: &str =
        "Reads a text file of the workspace and gives back its lines, from the line \"offset\" on. ";
    let tokens = model.tokenize(&TEXT.repeat(PROMPT / 8), Specials::Plain)?;
    match tokens.get(..PROMPT) {
        Some(prompt) => Ok(prompt.to_vec()),
        None => bail!("the model's vocabulary makes too few tokens of the text"),
    }
}

/// Physical cores and hardware threads.
fn processors() -> (u32, u32) {
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX).max(1);
    let hardware = std::thread::available_parallelism().map_or(1, usize::from);
    (number(toolgate_llama::physical_cores()), number(hardware))
}

/// Numbers of threads to try: all hardware threads, the physical cores, one less, and half of them.
fn to_try(cores: u32, hardware: u32) -> Vec<u32> {
    let mut threads = vec![cores, hardware, cores.saturating_sub(1).max(1), (cores / 2).max(1)];
    threads.sort_unstable();
    threads.dedup();
    threads
}

/// What to keep: the fastest row, where it is worth something beside the defaults; only what differs from these.
fn choice(rows: &[Row], cores: u32, batch: u32) -> Tuning {
    let usual = rows.iter().find(|row| row.threads == cores && row.batch == batch);
    match (fastest(rows), usual) {
        (Some(best), Some(usual)) if best.call_ms < usual.call_ms * WORTH => Tuning {
            threads: (best.threads != cores).then_some(best.threads),
            batch: (best.batch != batch).then_some(best.batch),
        },
        _ => Tuning::default(),
    }
}

fn fastest(rows: &[Row]) -> Option<&Row> {
    rows.iter().min_by(|a, b| a.call_ms.total_cmp(&b.call_ms))
}

impl Row {
    fn measure(model: &Model, options: &ContextOptions, prompt: &[TokenId]) -> anyhow::Result<Self> {
        let mut backend = model.backend(options)?;
        // Once before anything counts: weights are read from disk, threads are started.
        read(&mut backend, prompt)?;
        let reading = [read(&mut backend, prompt)?, read(&mut backend, prompt)?];
        let prompt_ms = reading.into_iter().fold(f64::INFINITY, f64::min);
        let token_ms = write(&mut backend, prompt, 1)?;
        let four_tokens_ms = write(&mut backend, prompt, 4)?;
        let per_token = prompt_ms / prompt.len() as f64;
        Ok(Self {
            threads: options.threads.unwrap_or_default(),
            batch: options.batch,
            numerics: match options.numerics {
                Numerics::Exact => "exact",
                Numerics::Fast => "fast",
            },
            prompt_tokens_per_second: 1e3 / per_token,
            token_ms,
            four_tokens_ms,
            call_ms: CALL_PROMPT * per_token + CALL_EVALUATIONS / 2.0 * (token_ms + four_tokens_ms),
        })
    }
}

/// Reads a prompt from its beginning; milliseconds.
fn read(backend: &mut LlamaBackend, prompt: &[TokenId]) -> anyhow::Result<f64> {
    backend.truncate(0)?;
    let started = Instant::now();
    for tokens in prompt.chunks(backend.batch_len().max(1)) {
        backend.eval(tokens, Rows::Last)?;
    }
    Ok(started.elapsed().as_secs_f64() * 1e3)
}

/// Writes some tokens at a time behind the prompt; milliseconds of the middle one.
fn write(backend: &mut LlamaBackend, prompt: &[TokenId], at_a_time: usize) -> anyhow::Result<f64> {
    let tokens = prompt.get(..at_a_time).context("the prompt is too short")?;
    backend.checkpoint()?;
    let mut times = Vec::with_capacity(WRITTEN);
    for _ in 0..WRITTEN {
        let started = Instant::now();
        backend.eval(tokens, Rows::All)?;
        times.push(started.elapsed().as_secs_f64() * 1e3);
        backend.truncate(prompt.len())?;
    }
    median(times).context("nothing was written")
}

fn table(rows: &[Row], chosen: &Tuning, dry_run: bool, out: &mut dyn Write) -> std::io::Result<()> {
    writeln!(
        out,
        "{:>7}{:>7}  {:8}{:>14}{:>10}{:>10}{:>10}",
        "THREADS", "BATCH", "NUMERICS", "PROMPT TOK/S", "1 TOKEN", "4 TOKENS", "CALL MS"
    )?;
    for row in rows {
        writeln!(
            out,
            "{:>7}{:>7}  {:8}{:>14.1}{:>10.1}{:>10.1}{:>10.0}",
            row.threads,
            row.batch,
            row.numerics,
            row.prompt_tokens_per_second,
            row.token_ms,
            row.four_tokens_ms,
            row.call_ms
        )?;
    }
    let kept = if dry_run { "would be kept" } else { "kept" };
    match (chosen.threads, chosen.batch) {
        (None, None) => writeln!(out, "the defaults are the fastest, or as good as it"),
        (threads, batch) => {
            let threads = threads.map(|threads| format!("{threads} threads"));
            let batch = batch.map(|batch| format!("batches of {batch}"));
            let what: Vec<String> = threads.into_iter().chain(batch).collect();
            writeln!(out, "{kept}: {}", what.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(threads: u32, batch: u32, call_ms: f64) -> Row {
        let (prompt_tokens_per_second, token_ms, four_tokens_ms) = (1.0, 1.0, 1.0);
        Row { threads, batch, numerics: "exact", prompt_tokens_per_second, token_ms, four_tokens_ms, call_ms }
    }

    #[test]
    fn what_differs_from_the_defaults_is_chosen_where_it_is_worth_it() {
        let rows = [row(2, 256, 100.0), row(4, 256, 90.0), row(4, 512, 80.0)];
        assert_eq!(choice(&rows, 2, 256), Tuning { threads: Some(4), batch: Some(512) });
        assert_eq!(choice(&rows, 4, 512), Tuning::default(), "the fastest are the defaults");
        assert_eq!(choice(&[row(2, 256, 100.0), row(4, 256, 98.0)], 2, 256), Tuning::default(), "noise");
        assert_eq!(choice(&[], 2, 256), Tuning::default());
    }

    #[test]
    fn each_number_of_threads_is_tried_once() {
        assert_eq!(to_try(1, 1), [1]);
        assert_eq!(to_try(2, 2), [1, 2]);
        assert_eq!(to_try(8, 16), [4, 7, 8, 16]);
    }
}
