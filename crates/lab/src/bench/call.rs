//! `toolgate bench call`: what a tool call costs, warm and from the start of a process, beside a server in the same run.

use std::io::Write;
use std::num::NonZeroUsize;

use anyhow::Context;
use clap::Args;
use serde_json::{Value, json};

use super::median;
use super::ours::{self, Measured};
use super::peer::{Against, Answered, Ask, Peer};
use super::requests::{self, CONTEXT, Request};
use crate::host::Host;
use toolgate_engine::models::ResolvedModel;

pub(super) const EXAMPLES: &str = "\
Examples:
  toolgate bench call
  toolgate bench call --model smollm2-135m --no-drafts --cold 0 --json
  toolgate bench call --against http://127.0.0.1:8091 \\
    --start \"llama-server --jinja -m model.gguf --port 8091\" --cold 5

Twenty requests of 4 to 100 tools, three of them after a result, each to be answered by a call.
The context holds 16384 tokens unless --context tells another number.
Warm: the model is loaded and the prompt was evaluated before. Cold: a process of its own from its
start to the call, with what earlier ones kept of the prompt, and once more without. At once: warm
calls beside each other (--at-once), and how many times as many that is in a second. The server is
asked for the same calls by its own tools (tool_choice required), and with our prompt and grammar at
its /completion, if it has that (--asked), which is how its cold calls are made. A call is valid that
is one call of a tool offered, with arguments that fit its schema. Greedy, 256 tokens at most; times
are medians, in milliseconds. The options that switch techniques off (--no-forcing, --no-drafts,
--no-cache) tell what each gains.

--json prints {model, runs, requests: [{id, tools, valid, text, tokens, sampled_tokens, forced_tokens,
drafted_tokens, accepted_tokens, decode_calls, prompt_tokens, cached_tokens,
ms: {prefill, decode, mask, total}, cold_ms, cold_no_cache_ms, peer_ms, peer_tokens, peer_valid,
peer_grammar_ms, peer_grammar_tokens, peer_grammar_valid, peer_cold_ms}], summary: {valid,
decode_calls_per_token, mask_share, median_ms, cold_median_ms, cold_no_cache_median_ms, peer_valid,
peer_median_ms, peer_grammar_valid, peer_grammar_median_ms, peer_cold_median_ms, ratio, grammar_ratio,
cold_ratio, calls_at_once_speedup, peak_memory_bytes, model_bytes}}. What was
not measured is left out; ratios are ours over the server's.";

/// Arguments of `toolgate bench call`.
#[derive(Args)]
pub(super) struct CallArgs<H: Host> {
    #[command(flatten)]
    model: H,
    #[command(flatten)]
    other: Against,
    /// Measure each warm call so often and take the median.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    runs: u16,
    /// Measure the first N requests only.
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Measure the first N requests from the start of a process, too; 0 leaves it out.
    #[arg(long, value_name = "N", default_value_t = 20)]
    cold: usize,
    /// Make so many warm calls at the same time, too, in one context; 1 leaves it out.
    #[arg(long, value_name = "N", default_value = "4")]
    at_once: NonZeroUsize,
    /// Make one request in this process and print what it cost, as one line of JSON.
    #[arg(long, value_name = "ID", hide = true)]
    once: Option<String>,
    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

/// Runs `toolgate bench call`.
pub(super) fn run<H: Host>(args: &mut CallArgs<H>, out: &mut dyn Write) -> anyhow::Result<bool> {
    args.model.hold(CONTEXT);
    let requests = requests::requests()?;
    if let Some(id) = &args.once {
        let request = requests.iter().find(|request| request.id == *id);
        let request = request.with_context(|| format!("there is no request {id:?}"))?;
        let engine = args.model.load(&local(&args.model)?, NonZeroUsize::MIN)?;
        writeln!(out, "{}", serde_json::to_string(&ours::once(engine.as_ref(), request)?)?)?;
        return Ok(true);
    }
    let file = local(&args.model)?;
    let engine = args.model.load(&file, NonZeroUsize::MIN)?;
    let peer = args.other.peer()?;
    let running = peer.as_ref().map(Peer::start).transpose()?;
    let count = requests.len().min(args.limit.unwrap_or(usize::MAX));
    let bar = H::BAR("measuring", count as u64);
    let mut rows = Vec::new();
    for request in requests.iter().take(count) {
        let ours = ours::warm(engine.as_ref(), request, args.runs)?;
        let theirs = peer.as_ref().map(|peer| PeerTimes::of(peer, request, &ours, args)).transpose()?;
        rows.push(Row {
            ours,
            theirs: theirs.unwrap_or_default(),
            cold: None,
            cold_no_cache: None,
            peer_cold: None,
        });
        bar.inc(1);
    }
    bar.finish_and_clear();
    drop(running);
    drop(engine);
    let cold = count.min(args.cold);
    let bar = H::BAR("cold starts", cold as u64);
    for (row, request) in rows.iter_mut().zip(&requests).take(cold) {
        row.cold = ours::cold(&request.id, &[])?;
        row.cold_no_cache = ours::cold(&request.id, &["--no-cache"])?;
        if let Some(peer) = peer.as_ref().filter(|_| args.other.start.is_some()) {
            let ask = with_grammar(&row.ours, args).unwrap_or_else(|| Ask::chat(request));
            row.peer_cold = peer.cold(&ask)?;
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    let peak = ours::peak_memory();
    let speedup = speedup(args, &file, requests.get(..count).unwrap_or_default(), &rows)?;
    let bytes = std::fs::metadata(&file.path)?.len();
    let report = json!({
        "model": file.path.file_stem().map(|name| name.to_string_lossy().into_owned()),
        "runs": args.runs,
        "requests": rows.iter().map(Row::report).collect::<Vec<_>>(),
        "summary": without_gaps(summary(&rows, bytes, peak, speedup)),
    });
    if args.json {
        writeln!(out, "{report}")?
    } else {
        table(&report, out)?
    }
    let valid = rows.iter().all(|row| row.ours.valid);
    Ok(valid)
}

/// The model's file, which has to be on this machine.
fn local<H: Host>(model: &H) -> anyhow::Result<ResolvedModel> {
    model
        .file()?
        .context("bench call measures a model on this machine; --against URL measures a server beside it")
}

/// How many times as many calls are made in a second when several are made at the same time; none where one is.
fn speedup<H: Host>(
    args: &CallArgs<H>,
    file: &ResolvedModel,
    requests: &[Request],
    rows: &[Row],
) -> anyhow::Result<Option<f64>> {
    let at_once = args.at_once.get();
    if at_once == 1 || requests.len() < at_once {
        return Ok(None);
    }
    let engine = args.model.load(file, args.at_once)?;
    let bar = H::BAR("calls at once", requests.len() as u64);
    let (mut alone, mut together) = (0.0, 0.0);
    // The same calls one by one, each at its median.
    for (requests, rows) in requests.chunks_exact(at_once).zip(rows.chunks_exact(at_once)) {
        let (counts, ms) = ours::together(engine.as_ref(), requests, args.runs)?;
        alone += rows.iter().zip(counts).map(|(row, count)| row.ours.ms * f64::from(count)).sum::<f64>();
        together += ms;
        bar.inc(at_once as u64);
    }
    bar.finish_and_clear();
    Ok(Some(alone / together))
}

/// A request with our prompt and grammar, where the server is asked so.
fn with_grammar<H: Host>(ours: &Measured, args: &CallArgs<H>) -> Option<Ask> {
    let grammar = ours.grammar.as_ref().filter(|_| args.other.with_grammar())?;
    Some(Ask::completion(&ours.prompt, grammar))
}

/// What a request cost the server, as far as it could be asked.
#[derive(Default)]
struct PeerTimes {
    /// By its own tools.
    own: Option<Answer>,
    /// With our prompt and grammar.
    grammar: Option<Answer>,
}

/// An answer of the server.
struct Answer {
    ms: f64,
    tokens: Option<u64>,
    /// Whether it is one call that fits.
    valid: bool,
}

impl PeerTimes {
    /// What it takes for a request whose prompt it has evaluated before.
    fn of<H: Host>(
        peer: &Peer,
        request: &Request,
        ours: &Measured,
        args: &CallArgs<H>,
    ) -> anyhow::Result<Self> {
        let time = |ask: Option<Ask>| -> anyhow::Result<Option<Answered>> {
            Ok(ask.map(|ask| peer.repeated(&ask, args.runs)).transpose()?.flatten())
        };
        let own = time(args.other.with_tools().then(|| Ask::chat(request)))?;
        let grammar = time(with_grammar(ours, args))?;
        let answer = |answered: Answered| Answer {
            ms: answered.ms,
            tokens: answered.tokens(),
            valid: answered.is_valid(request),
        };
        Ok(Self { own: own.map(answer), grammar: grammar.map(answer) })
    }
}

/// One request, as far as it was measured; times are in milliseconds.
struct Row {
    ours: Measured,
    theirs: PeerTimes,
    cold: Option<f64>,
    cold_no_cache: Option<f64>,
    peer_cold: Option<f64>,
}

impl Row {
    fn report(&self) -> Value {
        let ours = &self.ours;
        without_gaps(json!({
            "id": ours.id,
            "tools": ours.tools,
            "valid": ours.valid,
            "text": ours.text,
            "tokens": ours.tokens(),
            "sampled_tokens": ours.stats.sampled_tokens,
            "forced_tokens": ours.stats.forced_tokens,
            "drafted_tokens": ours.stats.drafted_tokens,
            "accepted_tokens": ours.stats.accepted_tokens,
            "decode_calls": ours.stats.decode_calls,
            "prompt_tokens": ours.stats.prompt_tokens,
            "cached_tokens": ours.stats.cached_tokens,
            "ms": {
                "prefill": ours.stats.ms.prefill,
                "decode": ours.stats.ms.decode,
                "mask": ours.stats.ms.mask,
                "total": ours.ms,
            },
            "cold_ms": self.cold,
            "cold_no_cache_ms": self.cold_no_cache,
            "peer_ms": self.theirs.own.as_ref().map(|answer| answer.ms),
            "peer_tokens": self.theirs.own.as_ref().and_then(|answer| answer.tokens),
            "peer_valid": self.theirs.own.as_ref().map(|answer| answer.valid),
            "peer_grammar_ms": self.theirs.grammar.as_ref().map(|answer| answer.ms),
            "peer_grammar_tokens": self.theirs.grammar.as_ref().and_then(|answer| answer.tokens),
            "peer_grammar_valid": self.theirs.grammar.as_ref().map(|answer| answer.valid),
            "peer_cold_ms": self.peer_cold,
        }))
    }
}

fn summary(rows: &[Row], model_bytes: u64, peak_memory: Option<u64>, speedup: Option<f64>) -> Value {
    let sum = |of: &dyn Fn(&Row) -> f64| rows.iter().map(of).sum::<f64>();
    let median_of = |of: &dyn Fn(&Row) -> Option<f64>| median(rows.iter().filter_map(of).collect());
    let calls = sum(&|row| row.ours.stats.decode_calls as f64);
    let tokens = sum(&|row| row.ours.tokens() as f64);
    let mask = sum(&|row| row.ours.stats.ms.mask);
    let decode = sum(&|row| row.ours.stats.ms.decode);
    let ours = median_of(&|row| Some(row.ours.ms));
    let cold = median_of(&|row| row.cold);
    // Cold calls are compared on the requests that both sides made.
    let cold_of_both = median_of(&|row| row.peer_cold.and(row.cold));
    let peer = median_of(&|row| row.theirs.own.as_ref().map(|answer| answer.ms));
    let grammar = median_of(&|row| row.theirs.grammar.as_ref().map(|answer| answer.ms));
    // None where no request was made so.
    let valid = |of: &dyn Fn(&Row) -> Option<&Answer>| {
        let made: Vec<&Answer> = rows.iter().filter_map(of).collect();
        (!made.is_empty()).then(|| made.iter().filter(|answer| answer.valid).count())
    };
    let peer_cold = median_of(&|row| row.peer_cold);
    let ratio = |ours: Option<f64>, theirs: Option<f64>| Some(ours? / theirs?);
    json!({
        "valid": rows.iter().filter(|row| row.ours.valid).count(),
        "decode_calls_per_token": calls / tokens.max(1.0),
        "mask_share": mask / (mask + decode).max(f64::MIN_POSITIVE),
        "median_ms": ours,
        "cold_median_ms": cold,
        "cold_no_cache_median_ms": median_of(&|row| row.cold_no_cache),
        "peer_valid": valid(&|row| row.theirs.own.as_ref()),
        "peer_median_ms": peer,
        "peer_grammar_valid": valid(&|row| row.theirs.grammar.as_ref()),
        "peer_grammar_median_ms": grammar,
        "peer_cold_median_ms": peer_cold,
        "ratio": ratio(ours, peer),
        "grammar_ratio": ratio(ours, grammar),
        "cold_ratio": ratio(cold_of_both, peer_cold),
        "calls_at_once_speedup": speedup,
        "peak_memory_bytes": peak_memory,
        "model_bytes": model_bytes,
    })
}

/// An object without what was not measured.
fn without_gaps(mut object: Value) -> Value {
    if let Some(object) = object.as_object_mut() {
        object.retain(|_, value| !value.is_null());
    }
    object
}

fn table(report: &Value, out: &mut dyn Write) -> anyhow::Result<()> {
    let number = |value: &Value, key: &str| match value.get(key).and_then(Value::as_f64) {
        Some(number) => format!("{number:.0}"),
        None => "-".to_owned(),
    };
    let columns = [
        ("tokens", "TOKENS"),
        ("decode_calls", "CALLS"),
        ("forced_tokens", "FORCED"),
        ("accepted_tokens", "GUESSED"),
        ("prompt_tokens", "PROMPT"),
    ];
    let times = [
        ("cold_ms", "COLD"),
        ("peer_ms", "PEER"),
        ("peer_grammar_ms", "GRAMMAR"),
        ("peer_cold_ms", "P.COLD"),
    ];
    write!(out, "{:16}", "REQUEST")?;
    columns.iter().try_for_each(|(_, name)| write!(out, "{name:>8}"))?;
    write!(out, "{:>8}", "MS")?;
    times.iter().try_for_each(|(_, name)| write!(out, "{name:>8}"))?;
    writeln!(out)?;
    for row in report.get("requests").and_then(Value::as_array).into_iter().flatten() {
        write!(out, "{:16}", row.get("id").and_then(Value::as_str).unwrap_or_default())?;
        columns.iter().try_for_each(|(key, _)| write!(out, "{:>8}", number(row, key)))?;
        write!(out, "{:>8}", row.get("ms").map_or_else(|| "-".to_owned(), |ms| number(ms, "total")))?;
        times.iter().try_for_each(|(key, _)| write!(out, "{:>8}", number(row, key)))?;
        writeln!(out)?;
    }
    writeln!(out)?;
    for (key, value) in report.get("summary").and_then(Value::as_object).into_iter().flatten() {
        writeln!(out, "{key:26} {value}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn what_was_not_measured_is_left_out() {
        assert_eq!(
            without_gaps(json!({"a": null, "b": 0, "c": {"d": null}})),
            json!({"b": 0, "c": {"d": null}})
        );
    }
}
