//! `toolgate bench device`: what a device takes for a model, and what its batches change. Kernels are trusted only as far as
//! this was measured.

use std::io::Write;
use std::time::Instant;

use anyhow::{Context, bail};
use clap::Args;
use serde::Serialize;
use serde_json::json;
use toolgate_infer::{Backend, Rows, TokenId};
use toolgate_llama::{ContextOptions, LlamaBackend, Model, ModelOptions};

use super::median;
use super::prefill::{evaluate, text_of};
use crate::host::{Hardware, Host};
use toolgate_engine::models::{self, ResolvedModel};

pub(super) const EXAMPLES: &str = "\
Examples:
  toolgate bench device --model smollm2-135m --device cpu
  toolgate bench device --device vulkan0 --json

Loads a model, reads prompts (--prompts), writes 64 tokens one by one, and evaluates
batches of several widths (--widths) behind 256 others. The logits of each batch are held against those of single
tokens: whether all bits are the same, how far the furthest logit is off, and how much the distance
of the two likeliest tokens changes (GAP), in the median and at most.

--json prints {model, device, load_ms, batch, prefill: [{tokens, tokens_per_second}],
decode: {tokens, tokens_per_second}, repeatable, widths: [{width, ms, same_bits, furthest, gap_median,
gap_most}]}. repeatable is whether single tokens have the same bits when they are evaluated again.";

/// Tokens in front of the batches.
const BEFORE: usize = 256;
/// Tokens that are written, and the widest batch.
const WIDEST: usize = 64;
/// Times that something is measured, of which the median counts.
const RUNS: usize = 7;

/// Arguments of `toolgate bench device`.
#[derive(Args)]
pub(super) struct BenchDeviceArgs<H: Host> {
    /// A model's id (see `toolgate model list`), a path to a .gguf file, or a URL of one.
    #[arg(long, env = "TOOLGATE_MODEL", default_value = models::DEFAULT_MODEL, value_name = "ID|PATH|URL")]
    model: String,
    #[command(flatten)]
    device: H::Device,
    /// Lengths of the prompts that are read.
    #[arg(long, value_delimiter = ',', default_value = "512,2048", value_name = "N,…")]
    prompts: Vec<usize>,
    /// Batches of these widths, up to 64, are held against single tokens.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,7,8,16,32,64", value_name = "N,…")]
    widths: Vec<usize>,
    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

/// How fast tokens are evaluated.
#[derive(Serialize)]
pub(crate) struct Rate {
    pub(crate) tokens: usize,
    pub(crate) tokens_per_second: f64,
}

/// What batches of a width take and change.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(crate) struct Width {
    pub(crate) width: usize,
    pub(crate) ms: f64,
    pub(crate) same_bits: bool,
    pub(crate) furthest: f32,
    pub(crate) gap_median: f64,
    pub(crate) gap_most: f64,
}

/// What is measured.
pub(crate) struct Plan<'p> {
    /// Lengths of prompts.
    pub(crate) prompts: &'p [usize],
    /// Widths of batches.
    pub(crate) widths: &'p [usize],
    /// Tokens that are written one by one.
    pub(crate) written: usize,
}

/// What was measured.
#[derive(Serialize)]
pub(crate) struct Found {
    pub(crate) device: String,
    pub(crate) load_ms: f64,
    pub(crate) batch: usize,
    pub(crate) prefill: Vec<Rate>,
    pub(crate) decode: Rate,
    pub(crate) repeatable: bool,
    pub(crate) widths: Vec<Width>,
}

/// Runs `toolgate bench device`; whether single tokens are repeatable.
pub(super) fn run<H: Host>(args: &BenchDeviceArgs<H>, out: &mut dyn Write) -> anyhow::Result<bool> {
    let file = models::resolve(&args.model)?;
    let plan = Plan { prompts: &args.prompts, widths: &args.widths, written: WIDEST };
    let bar = H::BAR("measuring", (args.prompts.len() + 2 + args.widths.len()) as u64);
    let found = measure(&file, H::hardware(&args.device)?, &plan, &mut || bar.inc(1))?;
    bar.finish_and_clear();
    if args.json {
        let mut report = serde_json::to_value(&found)?;
        let name = file.path.file_stem().map(|name| name.to_string_lossy().into_owned());
        if let Some(report) = report.as_object_mut() {
            report.insert("model".to_owned(), json!(name));
        }
        writeln!(out, "{report}")?;
    } else {
        writeln!(out, "{}: loaded in {:.0} ms", found.device, found.load_ms)?;
        for Rate { tokens, tokens_per_second } in &found.prefill {
            writeln!(out, "prompt of {tokens}: {tokens_per_second:.1} tokens a second")?;
        }
        let again = if found.repeatable { "the same bits again" } else { "other bits again" };
        writeln!(out, "one by one: {:.1} tokens a second, {again}", found.decode.tokens_per_second)?;
        table(&found.widths, out)?;
    }
    Ok(found.repeatable)
}

/// Loads a file on a device, and measures. `step` is called after each of the prompts and widths, and twice for single tokens.
pub(crate) fn measure(
    file: &ResolvedModel,
    hardware: Hardware,
    plan: &Plan<'_>,
    step: &mut dyn FnMut(),
) -> anyhow::Result<Found> {
    let tuning = hardware.tunings.get(&file.path)?.unwrap_or_default();
    let started = Instant::now();
    let loading = ModelOptions { placement: hardware.placement, ..ModelOptions::default() };
    let model = Model::load(&file.path, loading)?;
    let usual = ContextOptions::default();
    let longest = plan.prompts.iter().copied().max().unwrap_or_default().max(BEFORE + WIDEST);
    if plan.widths.iter().any(|width| !(1..=WIDEST).contains(width)) {
        bail!("a batch has 1 to {WIDEST} tokens here");
    }
    let options = ContextOptions {
        context: Some(u32::try_from(longest + WIDEST)?),
        batch: tuning.batch.unwrap_or(usual.batch),
        threads: hardware.threads.or(tuning.threads),
        attention: hardware.attention,
        numerics: usual.numerics,
    };
    let mut backend = model.backend(&options)?;
    let load_ms = millis(started);
    let text = text_of(&model, longest)?;
    // Once before anything counts: a device compiles its kernels, threads are started.
    prompt(&mut backend, &text, BEFORE)?;
    let mut prefill = Vec::new();
    for &tokens in plan.prompts {
        prefill.push(prompt(&mut backend, &text, tokens)?);
        step();
    }
    let written = text.get(BEFORE..BEFORE + plan.written.min(WIDEST)).context("the text is too short")?;
    evaluate(&mut backend, &text, BEFORE)?;
    backend.checkpoint()?;
    let (single, first_ms) = one_by_one(&mut backend, written)?;
    step();
    let (again, ms) = one_by_one(&mut backend, written)?;
    step();
    let repeatable = single.iter().zip(&again).all(|(one, other)| same_bits(one, other));
    let mut widths = Vec::new();
    for &width in plan.widths {
        widths.push(batches(&mut backend, written, width, &single)?);
        step();
    }
    let tokens = written.len();
    let decode = Rate { tokens, tokens_per_second: tokens as f64 * 1e3 / ms.min(first_ms) };
    let (device, batch) = (model.device(), backend.batch_len());
    Ok(Found { device, load_ms, batch, prefill, decode, repeatable, widths })
}

fn table(widths: &[Width], out: &mut dyn Write) -> std::io::Result<()> {
    let names = ["WIDTH", "MS", "BITS", "FURTHEST", "GAP", "GAP MOST"];
    let [width, ms, bits, furthest, gap, most] = names;
    writeln!(out, "{width:>6}{ms:>10}{bits:>8}{furthest:>12}{gap:>12}{most:>12}")?;
    for row in widths {
        let Width { width, ms, furthest, gap_median, gap_most, .. } = row;
        let bits = if row.same_bits { "same" } else { "other" };
        writeln!(out, "{width:>6}{ms:>10.2}{bits:>8}{furthest:>12.5}{gap_median:>12.5}{gap_most:>12.5}")?;
    }
    Ok(())
}

fn millis(started: Instant) -> f64 {
    started.elapsed().as_secs_f64() * 1e3
}

/// Reads a prompt from its beginning, as often as it takes. Its last logits are asked for, since a device may still be at work
/// before.
fn prompt(backend: &mut LlamaBackend, text: &[TokenId], tokens: usize) -> anyhow::Result<Rate> {
    let mut times = Vec::new();
    for _ in 0..3 {
        backend.truncate(0)?;
        let started = Instant::now();
        let last = tokens.saturating_sub(1);
        evaluate(backend, text, last)?;
        backend.eval(text.get(last..tokens).unwrap_or_default(), Rows::Last)?;
        backend.logits(0)?;
        times.push(millis(started));
    }
    let ms = median(times).context("no prompt was read")?;
    Ok(Rate { tokens, tokens_per_second: tokens as f64 * 1e3 / ms })
}

/// The logits of tokens that are evaluated one by one, and the milliseconds of all.
fn one_by_one(backend: &mut LlamaBackend, tokens: &[TokenId]) -> anyhow::Result<(Vec<Vec<f32>>, f64)> {
    backend.truncate(BEFORE)?;
    let (mut rows, mut ms) = (Vec::new(), 0.0);
    for token in tokens {
        let started = Instant::now();
        backend.eval(std::slice::from_ref(token), Rows::Last)?;
        let row = backend.logits(0)?;
        ms += millis(started);
        rows.push(row.to_vec());
    }
    Ok((rows, ms))
}

/// Evaluates all tokens in batches of a width, and holds their logits against those of single ones.
fn batches(
    backend: &mut LlamaBackend,
    tokens: &[TokenId],
    width: usize,
    single: &[Vec<f32>],
) -> anyhow::Result<Width> {
    let mut times = Vec::new();
    for _ in 0..RUNS {
        backend.truncate(BEFORE)?;
        let started = Instant::now();
        backend.eval(tokens.get(..width).unwrap_or_default(), Rows::All)?;
        backend.logits(0)?;
        times.push(millis(started));
    }
    backend.truncate(BEFORE)?;
    let mut rows = Vec::new();
    for batch in tokens.chunks(width.max(1)) {
        backend.eval(batch, Rows::All)?;
        for row in 0..batch.len() {
            rows.push(backend.logits(row)?.to_vec());
        }
    }
    let ms = median(times).context("no batch was evaluated")?;
    Ok(compared(width, ms, single, &rows))
}

fn compared(width: usize, ms: f64, single: &[Vec<f32>], rows: &[Vec<f32>]) -> Width {
    let pairs = || single.iter().zip(rows);
    let gaps: Vec<f64> = pairs().filter_map(|(one, other)| gap_change(one, other)).collect();
    Width {
        width,
        ms,
        same_bits: single.len() == rows.len() && pairs().all(|(one, other)| same_bits(one, other)),
        furthest: pairs()
            .flat_map(|(one, other)| one.iter().zip(other))
            .map(|(one, other)| (one - other).abs())
            .fold(0.0, f32::max),
        gap_most: gaps.iter().copied().fold(0.0, f64::max),
        gap_median: median(gaps).unwrap_or_default(),
    }
}

fn same_bits(one: &[f32], other: &[f32]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one.to_bits() == other.to_bits())
}

/// How much the distance between the two likeliest tokens of `one` changes.
fn gap_change(one: &[f32], other: &[f32]) -> Option<f64> {
    let (mut best, mut next) = (None::<(usize, f32)>, None::<(usize, f32)>);
    for (token, &logit) in one.iter().enumerate() {
        if best.is_none_or(|(_, most)| logit > most) {
            next = best;
            best = Some((token, logit));
        } else if next.is_none_or(|(_, most)| logit > most) {
            next = Some((token, logit));
        }
    }
    let ((first, most), (second, less)) = (best?, next?);
    let there = other.get(first)? - other.get(second)?;
    Some(f64::from((most - less - there).abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_batches_change_is_seen() {
        let single = vec![vec![1.0, 3.0, 2.0], vec![4.0, 0.0, -1.0]];
        let same = compared(2, 5.0, &single, &single);
        assert!(same.same_bits && same.furthest == 0.0 && same.gap_most == 0.0);
        let rows = vec![vec![1.0, 3.0, 2.5], vec![4.0, 0.0, -3.0]];
        let other = compared(2, 5.0, &single, &rows);
        assert_eq!((other.same_bits, other.furthest, other.gap_most), (false, 2.0, 0.5));
        assert_eq!(other.gap_median, 0.25, "of 0.5 and none");
        assert!(
            !compared(2, 5.0, &single, single.get(..1).unwrap_or_default()).same_bits,
            "a row is missing"
        );
        assert!(!same_bits(&[0.0], &[-0.0]), "bits, not numbers");
    }
}
