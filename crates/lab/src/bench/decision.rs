//! `toolgate bench decision`: how well a model's own probability of a call, and what stands beside it, part requests that want a call
//! from those that do not.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args;
use serde::Serialize;
use serde_json::json;
use toolgate_engine::{Engine, Signal};

use crate::decision::{Area, Case, Data, Number, Split, Wanted, Weights, area, ask_all, right, row};
use crate::host::Host;

pub(super) const EXAMPLES: &str = "\
Examples:
  toolgate bench decision --model smollm2-135m
  toolgate bench decision --model qwen2.5-coder-0.5b --profile none --json

Asks the model 890 requests of its own data in ten languages, with 46 sets of tools, what it
tells of each, and measures how well that parts requests that want a call from others:

  call, free         the log-odds of a call, and the same where nothing was said
  live, next         its answers to lists of other requests
  asked              what next says of the request before its calls
  invented           how many values of its call it would make up
  overlap            the letters that request and tools share
  failed, changed    what the last calls came to

Weights are fitted on 29 sets of tools and checked on 17 others.
Nothing is written but --out.

--json prints {model, requests, features: [{features, fit, check, right, weights}], languages,
states}: areas under the curve as {area, within}, half of the 95 % interval, and the share of
the checked requests that is decided right.";

/// What is weighed, by itself and together.
const WAYS: [(&str, &[Number]); 11] = [
    ("call", &[Number::Call]),
    ("live", &[Number::Live]),
    ("next", &[Number::Next]),
    ("next, asked", &[Number::Next, Number::Asked]),
    ("invented", &[Number::Invented]),
    ("overlap", &[Number::Overlap]),
    ("call, free", &[Number::Call, Number::Free]),
    ("call, free, live", &[Number::Call, Number::Free, Number::Live]),
    ("call, live, next", &[Number::Call, Number::Live, Number::Next]),
    ("call, live, next, invented", &[Number::Call, Number::Live, Number::Next, Number::Invented]),
    ("all", &ALL),
];
const ALL: [Number; 9] = [
    Number::Call,
    Number::Free,
    Number::Live,
    Number::Next,
    Number::Asked,
    Number::Invented,
    Number::Overlap,
    Number::Failed,
    Number::Changed,
];

/// Arguments of `toolgate bench decision`.
#[derive(Args)]
pub(super) struct DecisionArgs<H: Host> {
    #[command(flatten)]
    model: H,
    /// Ask only every Nth request.
    #[arg(long, value_name = "N", default_value = "1")]
    every: NonZeroUsize,
    /// Write what is known of each request to this file, a line of JSON each.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

/// What a set of features is worth.
#[derive(Serialize)]
struct Row {
    features: &'static str,
    fit: Option<Area>,
    check: Option<Area>,
    /// The share of the checked requests that is decided right at even odds.
    right: f64,
    weights: Option<Weights>,
}

/// Runs `toolgate bench decision`.
pub(super) fn run<H: Host>(args: &DecisionArgs<H>, out: &mut dyn Write) -> anyhow::Result<bool> {
    let Some(file) = args.model.file()? else {
        bail!("bench decision loads its model itself: name one of this machine, without --engine");
    };
    let data = Data::read()?;
    let options = args.model.options(&file)?;
    // Where no bias is taken off, tools are not weighed.
    let bias = options.tool_bias.max(f64::MIN_POSITIVE);
    let engine = args.model.load_led(&file, options.tool_bias(bias))?;
    let mut asked: Vec<&Wanted> = data.requests.iter().step_by(args.every.get()).collect();
    // The prompt of a set's tools is read once for its requests.
    asked.sort_by(|a, b| a.set.cmp(&b.set));
    let bar = H::BAR("deciding", asked.len() as u64);
    let known = ask_all(&engine, &data, &asked, &|_| &Signal::ALL, &mut || {
        bar.inc(1);
        ControlFlow::Continue(())
    })?;
    bar.finish_and_clear();
    if let Some(path) = &args.out {
        let mut file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        for case in &known {
            writeln!(file, "{}", line(case))?;
        }
    }
    let rows: Vec<Row> = WAYS.iter().map(|(name, numbers)| way(name, numbers, &known)).collect();
    let languages = groups(&known, |wanted| wanted.language.clone());
    let states = groups(&known, |wanted| wanted.state);
    if args.json {
        let report = json!({"model": engine.name(), "requests": known.len(), "features": rows,
            "languages": languages, "states": states});
        writeln!(out, "{report}")?;
        return Ok(true);
    }
    writeln!(out, "{}, {} requests\n", engine.name(), known.len())?;
    writeln!(out, "{:28} {:>14} {:>14} {:>6}", "features", "fit", "check", "right")?;
    for row in &rows {
        let right = row.right * 100.0;
        writeln!(out, "{:28} {:>14} {:>14} {right:>5.0}%", row.features, shown(row.fit), shown(row.check))?;
    }
    writeln!(out, "\nby the log-odds of a call alone, all requests")?;
    for (name, found) in &languages {
        writeln!(out, "{name:28} {:>14}", shown(*found))?;
    }
    for (state, found) in &states {
        writeln!(out, "{:28} {:>14}", format!("{state:?}"), shown(*found))?;
    }
    Ok(true)
}

fn way(name: &'static str, numbers: &[Number], known: &[Case<'_>]) -> Row {
    let of = |split: Split| -> Vec<(Vec<f64>, bool)> {
        known.iter().filter(|case| case.wanted.split == split).map(|case| row(case, numbers)).collect()
    };
    let (fit, check) = (of(Split::Fit), of(Split::Check));
    let weights = Weights::fit(&fit);
    let told = |cases: &[(Vec<f64>, bool)]| -> Vec<(f64, bool)> {
        let p = |numbers: &[f64]| weights.as_ref().map_or(0.5, |weights| weights.probability(numbers));
        cases.iter().map(|(numbers, call)| (p(numbers), *call)).collect()
    };
    let (fit, check) = (told(&fit), told(&check));
    Row { features: name, fit: area(&fit), check: area(&check), right: right(&check), weights }
}

/// The area by the log-odds of a call alone, for each group of requests.
fn groups<K: Ord>(known: &[Case<'_>], key: impl Fn(&Wanted) -> K) -> BTreeMap<K, Option<Area>> {
    let mut cases: BTreeMap<K, Vec<(f64, bool)>> = BTreeMap::new();
    for Case { wanted, signals, .. } in known {
        cases.entry(key(wanted)).or_default().push((signals.call, wanted.call));
    }
    cases.into_iter().map(|(key, cases)| (key, area(&cases))).collect()
}

fn shown(found: Option<Area>) -> String {
    found.map_or("-".to_owned(), |found| format!("{:.3} ± {:.3}", found.area, found.within))
}

/// What is known of a request, as a line of JSON.
fn line(Case { wanted, signals, overlap }: &Case<'_>) -> serde_json::Value {
    json!({"id": wanted.id, "call": signals.call, "free": signals.free, "live": signals.live, "next": signals.next,
        "asked": signals.asked, "invented": signals.invented, "change": signals.change, "overlap": overlap,
        "tools": signals.tools, "bias": signals.bias, "named": signals.named})
}
