//! `toolgate bench decision`: how well a model's own probability of a call, and what stands beside it, part requests that want a call
//! from those that do not.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args;
use serde::Serialize;
use serde_json::json;
use toolgate_engine::Engine;

use crate::decision::{Area, Data, Features, Group, Split, Wanted, Weights, area, measure};
use crate::host::Host;

pub(super) const EXAMPLES: &str = "\
Examples:
  toolgate bench decision --model smollm2-135m
  toolgate bench decision --model qwen2.5-coder-0.5b --profile none --json

Asks the model 690 requests of its own data in ten languages, with 22 sets of tools, for the probability of a call, and
writes nothing. Features are added one after the other: the log-odds of a call, those for requests without content, the
overlap of the request with the tools, the state of the run. Weights are fitted on 14 sets of tools and checked on 8 others.

--json prints {model, requests, features: [{features, fit, check, right, weights}], languages, states}: areas under the
curve as {area, within}, half of the 95 % interval, and the share of the checked requests that is decided right.";

/// The groups of features, as they are added.
const GROUPS: [(&str, &[Group]); 8] = [
    ("call", &[Group::Call]),
    ("live", &[Group::Live]),
    ("next", &[Group::Next]),
    ("overlap", &[Group::Overlap]),
    ("call, free", &[Group::Call, Group::Free]),
    ("call, free, live", &[Group::Call, Group::Free, Group::Live]),
    ("call, free, live, next", &[Group::Call, Group::Free, Group::Live, Group::Next]),
    ("all", &[Group::Call, Group::Free, Group::Live, Group::Next, Group::Overlap, Group::State]),
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
    let asked: Vec<&Wanted> = data.requests.iter().step_by(args.every.get()).collect();
    let bar = H::BAR("deciding", asked.len() as u64);
    let known = measure(&engine, &data, &asked, &mut || bar.inc(1))?;
    bar.finish_and_clear();
    if let Some(path) = &args.out {
        let mut file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        for (wanted, features) in &known {
            writeln!(file, "{}", line(wanted, features))?;
        }
    }
    let rows: Vec<Row> = GROUPS.iter().map(|(name, groups)| row(name, groups, &known)).collect();
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

fn row(name: &'static str, groups: &[Group], known: &[(&Wanted, Features)]) -> Row {
    let of = |split: Split| -> Vec<(Vec<f64>, bool)> {
        let cases = known.iter().filter(|(wanted, _)| wanted.split == split);
        cases.map(|(wanted, features)| (features.of(groups), wanted.call)).collect()
    };
    let (fit, check) = (of(Split::Fit), of(Split::Check));
    let weights = Weights::fit(&fit);
    let told = |cases: &[(Vec<f64>, bool)]| -> Vec<(f64, bool)> {
        let p = |numbers: &[f64]| weights.as_ref().map_or(0.5, |weights| weights.probability(numbers));
        cases.iter().map(|(numbers, call)| (p(numbers), *call)).collect()
    };
    let (fit, check) = (told(&fit), told(&check));
    let right = check.iter().filter(|(p, call)| (*p >= 0.5) == *call).count();
    let right = right as f64 / check.len().max(1) as f64;
    Row { features: name, fit: area(&fit), check: area(&check), right, weights }
}

/// The area by the log-odds of a call alone, for each group of requests.
fn groups<K: Ord>(known: &[(&Wanted, Features)], key: impl Fn(&Wanted) -> K) -> BTreeMap<K, Option<Area>> {
    let mut cases: BTreeMap<K, Vec<(f64, bool)>> = BTreeMap::new();
    for (wanted, features) in known {
        cases.entry(key(wanted)).or_default().push((features.signals.call, wanted.call));
    }
    cases.into_iter().map(|(key, cases)| (key, area(&cases))).collect()
}

fn shown(found: Option<Area>) -> String {
    found.map_or("-".to_owned(), |found| format!("{:.3} ± {:.3}", found.area, found.within))
}

/// What is known of a request, as a line of JSON.
fn line(wanted: &Wanted, features: &Features) -> serde_json::Value {
    let signals = &features.signals;
    let tools: Vec<f64> = signals.tools.clone();
    json!({"id": wanted.id, "call": signals.call, "free": signals.free, "live": signals.live, "next": signals.next,
        "change": signals.change, "overlap": features.overlap, "tools": tools, "own": signals.own})
}
