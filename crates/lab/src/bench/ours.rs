//! Our side of `toolgate bench call` and `bench serve`: a turn in this process, or in one of its own.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::Context;
use serde::Serialize;
use serde_json::Value;
use toolgate_chat::ToolChoice;
use toolgate_grammar::Grammar;
use toolgate_infer::{Stats, TokenId};

use super::median;
use super::requests::{MOST_TOKENS, Request};
use toolgate_engine::{Cancel, Engine, Sampling, TurnEvent, TurnRequest};

/// What a request cost.
#[derive(Serialize)]
pub(super) struct Measured {
    pub(super) id: String,
    /// Tools offered.
    pub(super) tools: usize,
    /// Whether it is one call of an offered tool whose arguments fit its schema.
    pub(super) valid: bool,
    pub(super) text: String,
    pub(super) stats: Stats,
    /// Milliseconds from the request to the call.
    pub(super) ms: f64,
    /// The prompt that the call was written after, and its grammar.
    #[serde(skip)]
    pub(super) prompt: Vec<TokenId>,
    #[serde(skip)]
    pub(super) grammar: Option<Arc<Grammar>>,
}

impl Measured {
    /// Tokens of the call.
    pub(super) fn tokens(&self) -> usize {
        self.stats.written()
    }
}

/// Makes a request whose prompt was evaluated before, a few times: the one in the middle.
pub(super) fn warm(engine: &dyn Engine, request: &Request, runs: u16) -> anyhow::Result<Measured> {
    once(engine, request)?;
    let mut measured: Vec<Measured> =
        (0..runs).map(|_| once(engine, request)).collect::<anyhow::Result<_>>()?;
    measured.sort_by(|a, b| a.ms.total_cmp(&b.ms));
    let middle = median(measured.iter().map(|measured| measured.ms).collect()).unwrap_or_default();
    let index = measured.len() / 2;
    let mut measured = measured.into_iter().nth(index).context("no run was made")?;
    measured.ms = middle;
    Ok(measured)
}

/// Makes a request.
pub(super) fn once(engine: &dyn Engine, request: &Request) -> anyhow::Result<Measured> {
    let sampling = Sampling::default().max_tokens(MOST_TOKENS);
    let turn = TurnRequest::new(&request.transcript, &request.tools, &sampling)
        .choice(ToolChoice::Required)
        .parallel(std::num::NonZeroUsize::new(1));
    let (mut prompt, mut grammar) = (Vec::new(), None);
    let started = Instant::now();
    let made = engine.turn(&turn, &Cancel::default(), &mut |event| match event {
        TurnEvent::Prompted(tokens) => prompt = tokens,
        TurnEvent::Decoded { grammar: held, .. } => grammar = held,
        _ => {}
    })?;
    let ms = started.elapsed().as_secs_f64() * 1e3;
    let valid = is_valid(request, &made.parsed);
    let (id, tools) = (request.id.clone(), request.tools.len());
    Ok(Measured { id, tools, valid, text: made.text, stats: made.stats, ms, prompt, grammar })
}

/// Makes each of these requests again and again, one beside the other, with prompts that were evaluated before, until each
/// was made so many times; how often each was, and the milliseconds it all took. None waits for the slowest one alone.
pub(super) fn together(
    engine: &dyn Engine,
    requests: &[Request],
    runs: u16,
) -> anyhow::Result<(Vec<u32>, f64)> {
    let all = |runs: u16| {
        let behind = AtomicUsize::new(requests.len());
        let made = |request| -> anyhow::Result<u32> {
            let mut count = 0;
            loop {
                let result = once(engine, request);
                count += 1;
                // One that fails is not waited for.
                if count == u32::from(runs) || (result.is_err() && count < u32::from(runs)) {
                    behind.fetch_sub(1, Ordering::Relaxed);
                }
                result?;
                if behind.load(Ordering::Relaxed) == 0 {
                    return Ok(count);
                }
            }
        };
        std::thread::scope(|scope| {
            // All are started before one is waited for.
            let started: Vec<_> = requests.iter().map(|request| scope.spawn(move || made(request))).collect();
            let counts = started.into_iter().map(|made| match made.join() {
                Ok(done) => done,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            counts.collect::<anyhow::Result<Vec<u32>>>()
        })
    };
    all(1)?;
    let started = Instant::now();
    let counts = all(runs)?;
    Ok((counts, started.elapsed().as_secs_f64() * 1e3))
}

fn is_valid(request: &Request, parsed: &toolgate_chat::ParsedTurn) -> bool {
    let one = matches!(parsed.calls.as_slice(), [call] if request.admits(&call.name, &call.arguments));
    one && parsed.defects.is_empty()
}

/// Makes a request in a process of its own, with the arguments of this one and the flags `more`; milliseconds from its start
/// to its end, where that is a valid call.
pub(super) fn cold(id: &str, more: &[&str]) -> anyhow::Result<Option<f64>> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let started = Instant::now();
    let output = Command::new(program)
        .args(std::env::args_os().skip(1))
        .args(["--once", id])
        // A flag given twice is an error.
        .args(more.iter().filter(|flag| !std::env::args_os().any(|given| given == **flag)))
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start this program again")?;
    let ms = started.elapsed().as_secs_f64() * 1e3;
    anyhow::ensure!(output.status.success(), "the request {id} failed in a process of its own");
    let made: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("the request {id} in a process of its own told no result"))?;
    Ok((made.get("valid") == Some(&Value::Bool(true))).then_some(ms))
}

/// The most memory that this process had at once, in bytes, where the system tells: mapped weights count as far as
/// they were read.
pub(super) fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}
