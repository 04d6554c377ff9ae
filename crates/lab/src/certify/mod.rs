//! `toolgate certify`: measures a model's file and writes the profile that later runs are led by.
//!
//! - `format` proves its format and marks on its own vocabulary.
//! - `marks`, `demonstrations`, `decide` and `choice` ask it requests of this project's own: with which marks and behind which examples it
//!   calls best, when a call is wanted, and of which tool.
//! - `answers` looks at its answers, and `speed` times it. `html` shows all of it to people.
//!
//! Invariant: nothing in a profile is a guess about the model's name. What could not be measured keeps what all profiles start from.
//!
//! For the packages of this workspace alone: the program mounts it.

mod answers;
mod choice;
mod decide;
mod demonstrations;
mod format;
mod html;
mod marks;
mod plots;
mod speed;

use std::collections::BTreeMap;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use serde::Serialize;
use toolgate_engine::models::{Defaults, Profile, Profiles, ResolvedModel, Store};
use toolgate_engine::{Attention, DEFAULT_LIMIT, LocalEngine, Options, Placement, PromptCache};
use toolgate_llama::LlamaBackend;

use crate::decision::{Area, Data};
use crate::host::{Hardware, Host};

const EXAMPLES: &str = "\
Examples:
  toolgate certify models/some-model.gguf
  toolgate certify models/some-model.gguf --quick
  toolgate certify models/some-model.gguf --minutes 40
  toolgate certify models/some-model.gguf --report report.html --json > report.json

Derives the format of calls, marks and reasoning from the file. Proves them on its own
vocabulary. Fits the decision between call and answer, and measures the choice of tools, the
answers and the speed. The profile goes to TOOLGATE_PROFILES, or to toolgate/profiles in the
user's configuration folder, under the digest of the file: every later run finds it there,
wherever the file lies. It takes some 15 minutes, or --minutes: in more time it asks more
requests, so the figures are surer, and a slow machine comes as far as a fast one. --quick takes
less than one: it fits nothing and starts from weights that were fitted with other models.

--json prints {model, digest, format, marks, round_trips, reasoning, decision, tools, views,
refusals, echoes, parallel, speed, kernels}.";

/// Arguments of `toolgate certify`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct CertifyArgs<H: Host> {
    /// An id, a path to a .gguf file, or a URL that was pulled.
    #[arg(value_name = "ID|PATH|URL")]
    model: String,
    /// Less than a minute: no decision is fitted and no answer is looked at.
    #[arg(long)]
    quick: bool,
    /// How long its requests and answers may take.
    #[arg(long, value_name = "N", default_value_t = USUAL, conflicts_with = "quick",
        value_parser = clap::value_parser!(u32).range(1..=600))]
    minutes: u32,
    /// Write the profile to this file, and nowhere else.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write a page for people to this file.
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Print a JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    device: H::Device,
}

/// How a file is run, which no measurement says: as its profile had it, or as it is measured now where that makes another model of it.
/// A damaged profile gives way to the new one.
fn held(file: &ResolvedModel, other: Option<(Placement, Attention)>) -> Defaults {
    let before = Profiles::open().and_then(|kept| kept.find(&file.path).ok().flatten());
    let before = before.map(|before| before.defaults).unwrap_or_default();
    let mut defaults = Defaults::default();
    defaults.context = before.context;
    (defaults.placement, defaults.attention) = match other {
        Some((placement, attention)) => (Some(placement), Some(attention)),
        None => {
            // What was measured is the model by itself.
            let alone = |placement: Placement| Placement { adapter: None, ..placement };
            let unscaled = |attention: Attention| Attention { rope: None, ..attention };
            (before.placement.map(alone), before.attention.map(unscaled))
        }
    };
    defaults
}

/// All that was measured.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Report {
    pub(crate) model: String,
    pub(crate) digest: String,
    pub(crate) toolgate: String,
    pub(crate) device: String,
    pub(crate) quick: bool,
    pub(crate) minutes: f64,
    pub(crate) format: Format,
    pub(crate) marks: Vec<Mark>,
    pub(crate) round_trips: RoundTrips,
    pub(crate) reasoning: Reasoning,
    pub(crate) decision: Decision,
    pub(crate) tools: Tools,
    pub(crate) views: Views,
    /// The share of requests which want a call that it would begin to refuse.
    pub(crate) refusals: f64,
    /// The share of answers that repeat the request.
    pub(crate) echoes: f64,
    /// Calls a turn at most; none where it writes one where one is asked for.
    pub(crate) parallel: Option<u32>,
    pub(crate) speed: Speed,
    pub(crate) kernels: Kernels,
}

/// The form of its calls.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Format {
    pub(crate) family: String,
    /// `known`, `learned` or `generic`.
    pub(crate) source: String,
    pub(crate) why: String,
}

/// A mark of its turns.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(crate) struct Mark {
    pub(crate) text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<u32>,
    /// Whether its weights know it, as far as was seen.
    pub(crate) trained: bool,
}

/// The laws of families on its vocabulary.
#[derive(Debug, Default, Serialize)]
pub(crate) struct RoundTrips {
    pub(crate) cases: usize,
    pub(crate) failed: Vec<String>,
    /// Cases that could not be tried, by the reason.
    pub(crate) untried: BTreeMap<String, usize>,
}

/// How it thinks.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Reasoning {
    pub(crate) switches: Vec<String>,
    pub(crate) opens: String,
    pub(crate) keeps: String,
}

/// Call or answer.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Decision {
    /// Requests that it was asked.
    pub(crate) requests: usize,
    /// How well the fitted weights part requests that they were not fitted with.
    pub(crate) auc: Option<Area>,
    /// The share of those that is decided right.
    pub(crate) right: f64,
    /// The same area behind results, where a call may have to follow.
    pub(crate) after: Option<Area>,
    pub(crate) weights: serde_json::Value,
    /// What each number alone is worth before a first call.
    pub(crate) features: Vec<Feature>,
    pub(crate) calibration: Vec<Bin>,
    /// The probability from which on a request counts as one for a change.
    pub(crate) changing: f64,
}

/// What a number is worth.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Feature {
    pub(crate) name: String,
    pub(crate) area: Option<Area>,
}

/// Requests whose told probability of a wanted call lies between two numbers.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(crate) struct Bin {
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) n: usize,
    /// The mean that was told.
    pub(crate) told: f64,
    /// The share that wanted a call.
    pub(crate) wanted: f64,
}

/// Which tool it calls.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Tools {
    /// The share of right ones, by weights that were fitted to other sets of tools.
    pub(crate) accuracy: f64,
    pub(crate) asked: usize,
    /// What the profile begins conversations with.
    pub(crate) demonstrations: String,
    pub(crate) tried: Vec<DemonstrationsTried>,
    pub(crate) confusions: Vec<Confusion>,
}

/// The same requests behind a kind of demonstrations.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(crate) struct DemonstrationsTried {
    pub(crate) name: String,
    pub(crate) requests: usize,
    /// The share of right tools.
    pub(crate) right: f64,
    /// How likely the right turns are: the mean logarithm.
    pub(crate) likelihood: f64,
}

/// A tool that was chosen in place of another.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(crate) struct Confusion {
    pub(crate) wanted: String,
    pub(crate) chosen: String,
    pub(crate) n: usize,
}

/// What it answers from.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Views {
    /// What the profile has it answer from.
    pub(crate) answer: String,
    pub(crate) tried: Vec<ViewTried>,
}

/// Answers from a view.
#[derive(Debug, Default, Serialize)]
pub(crate) struct ViewTried {
    pub(crate) name: String,
    pub(crate) answers: usize,
    /// The share that tells something of the result.
    pub(crate) told: f64,
    /// The share that repeats the request.
    pub(crate) echoes: f64,
}

/// Tokens a second.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Speed {
    pub(crate) prefill: f64,
    pub(crate) decode: f64,
    pub(crate) widths: Vec<Width>,
}

/// A batch of so many tokens.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(crate) struct Width {
    pub(crate) width: usize,
    pub(crate) ms: f64,
    pub(crate) same_bits: bool,
}

/// What batches change.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(crate) struct Kernels {
    /// The most tokens of a batch whose logits have the bits of single ones, of the widths that were tried.
    pub(crate) exact_len: usize,
    /// The most that a gap between two logits changed in wider ones. None: nothing changed.
    pub(crate) noise: Option<f64>,
}

/// Minutes of a run, unless others are asked for.
const USUAL: u32 = 14;
/// The share of them for the requests of the decision.
const DECIDING: f64 = 0.5;
/// The share for requests behind each of two kinds of demonstrations.
const CHOOSING: f64 = 0.09;
/// The share for answers of each of four kinds.
const ANSWERING: f64 = 0.07;
const _: () = assert!(DECIDING + 2.0 * CHOOSING + 4.0 * ANSWERING <= 1.0, "a run stays within its time");

/// A model being measured: its file, and how it is loaded.
pub(crate) struct Measured<'a, H: Host> {
    pub(crate) file: ResolvedModel,
    store: Store,
    device: &'a H::Device,
    pub(crate) data: Data,
    /// Time for all parts.
    time: Duration,
}

/// The time of a part of a run.
pub(crate) struct Clock {
    began: Instant,
    time: Duration,
}

impl Clock {
    /// Seconds of it that are gone.
    pub(crate) fn seconds(&self) -> u64 {
        self.began.elapsed().as_secs()
    }

    /// Seconds of all of it.
    pub(crate) fn all(&self) -> u64 {
        self.time.as_secs()
    }

    /// A break where it is over.
    pub(crate) fn tick(&self) -> ControlFlow<()> {
        if self.began.elapsed() > self.time { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

impl<H: Host> Measured<'_, H> {
    /// Begins a part that has this share of the time.
    pub(crate) fn clock(&self, share: f64) -> Clock {
        Clock { began: Instant::now(), time: self.time.mul_f64(share) }
    }

    /// Loads the model, led by these options.
    pub(crate) fn load(&self, options: Options) -> anyhow::Result<LocalEngine<LlamaBackend>> {
        let hardware = H::hardware(self.device)?;
        let mut tuning = hardware.tunings.get(&self.file.path)?.unwrap_or_default();
        tuning.threads = hardware.threads.or(tuning.threads);
        let options = options.placement(hardware.placement).attention(hardware.attention).tuning(tuning);
        let packs = PromptCache::of(&self.file.path, self.store.packs(), DEFAULT_LIMIT)?;
        Ok(LocalEngine::load(&self.file, &options, |_| {})?.with_prompt_cache(packs))
    }
}

/// Runs `toolgate certify`; whether the laws hold on its vocabulary.
///
/// # Errors
/// A model that is not there or cannot be loaded, and files that cannot be written.
pub fn run<H: Host>(args: &CertifyArgs<H>, out: &mut dyn Write) -> anyhow::Result<bool> {
    let started = Instant::now();
    let store = Store::open()?;
    // What was measured before leads nobody now.
    let known = Store::new(store.directory(), store.catalogue().clone());
    let file = known.resolve(&args.model)?;
    let mut profile = Profile::of(&file.path)?;
    let Hardware { placement, attention, .. } = H::hardware(&args.device)?;
    let is_other = placement.adapter.is_some() || attention.rope.is_some();
    anyhow::ensure!(
        args.out.is_some() || !is_other,
        "a profile is found by the model's file alone: with --lora or --rope-scaling give --out FILE, and later --profile FILE"
    );
    profile.defaults = held(&file, is_other.then_some((placement, attention)));
    let mut report = Report {
        model: profile.model.clone(),
        digest: profile.sha256.to_string(),
        toolgate: profile.toolgate.clone(),
        quick: args.quick,
        ..Report::default()
    };
    H::note("its format, on its own vocabulary");
    let calls = format::measure(&file, args.quick, &mut report)?;
    let time = Duration::from_secs(60 * u64::from(args.minutes));
    let measured = Measured::<H> { file, store: known, device: &args.device, data: Data::read()?, time };
    H::note("its speed");
    speed::measure(&measured, args.quick, &mut report)?;
    decide::measure(&measured, &calls, args.quick, &mut report, &mut profile)?;
    if args.quick {
        answers::start(&mut report, &mut profile);
    } else {
        answers::measure(&measured, &mut report, &mut profile)?;
    }
    report.minutes = (started.elapsed().as_secs_f64() / 6.0).round() / 10.0;
    let place = match &args.out {
        Some(path) => {
            std::fs::write(path, profile.to_toml()?)
                .with_context(|| format!("cannot write {}", path.display()))?;
            path.clone()
        }
        None => {
            let profiles =
                Profiles::open().context("there is no folder for profiles: set TOOLGATE_PROFILES")?;
            profiles.keep(&profile)?
        }
    };
    if let Some(path) = &args.report {
        std::fs::write(path, html::page(&report))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&report)?)?;
    } else {
        tell(&report, out)?;
    }
    H::note(&format!("the profile is {}", place.display()));
    Ok(report.round_trips.failed.is_empty())
}

fn share(n: usize, of: usize) -> f64 {
    n as f64 / of.max(1) as f64
}

/// The report in a few lines.
fn tell(report: &Report, out: &mut dyn Write) -> std::io::Result<()> {
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    writeln!(out, "{} {}", report.model, report.digest)?;
    writeln!(out, "format       {} ({}): {}", report.format.family, report.format.source, report.format.why)?;
    let marks: Vec<String> = report
        .marks
        .iter()
        .map(|mark| match (mark.token, mark.trained) {
            (Some(token), true) => format!("{:?} = {token}", mark.text),
            (Some(token), false) => format!("{:?} (token {token} is not used)", mark.text),
            (None, _) => format!("{:?}", mark.text),
        })
        .collect();
    writeln!(out, "marks        {}", marks.join(", "))?;
    let failed = report.round_trips.failed.len();
    writeln!(out, "round trips  {} cases, {failed} failed", report.round_trips.cases)?;
    for case in &report.round_trips.failed {
        writeln!(out, "  {case}")?;
    }
    writeln!(out, "reasoning    {}, keeps {}", report.reasoning.opens, report.reasoning.keeps)?;
    let decision = &report.decision;
    match decision.auc {
        None => writeln!(out, "decision     not fitted: the weights that fits start from")?,
        Some(Area { area, within }) => writeln!(
            out,
            "decision     {area:.3} ± {within:.3} of pairs in order, {} decided right, {} requests",
            percent(decision.right),
            decision.requests
        )?,
    }
    if let Some(Area { area, within }) = decision.after {
        writeln!(out, "             {area:.3} ± {within:.3} behind results")?;
    }
    let tools = &report.tools;
    if tools.asked > 0 {
        let right = percent(tools.accuracy);
        writeln!(
            out,
            "tools        {right} of {} right, demonstrations: {}",
            tools.asked, tools.demonstrations
        )?;
    }
    writeln!(out, "answers      from the view {:?}", report.views.answer)?;
    for tried in &report.views.tried {
        let (told, echoes) = (percent(tried.told), percent(tried.echoes));
        writeln!(out, "  {:10} {told} tell of the result, {echoes} repeat the request", tried.name)?;
    }
    if !report.quick {
        let (refusals, echoes) = (percent(report.refusals), percent(report.echoes));
        writeln!(out, "refusals     {refusals}\nechoes       {echoes}")?;
    }
    let Speed { prefill, decode, .. } = report.speed;
    writeln!(
        out,
        "speed        prompts {prefill:.0}, writing {decode:.1} tokens a second on {}",
        report.device
    )?;
    let noise = report.kernels.noise.map_or("nothing".to_owned(), |noise| format!("logits by {noise:.3}"));
    writeln!(out, "kernels      exact up to {} tokens, wider ones change {noise}", report.kernels.exact_len)?;
    writeln!(out, "             {} minutes", report.minutes)
}
