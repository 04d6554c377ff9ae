//! `toolgate bench decision`: how well a model's own probability of a call, and what stands beside it, part requests that want a call
//! from those that do not.

use std::collections::BTreeMap;
use std::io::Write;
use std::num::NonZeroUsize;

use anyhow::{Context, bail};
use clap::Args;
use serde::Serialize;
use serde_json::json;
use toolgate_chat::{Message, ToolSpec, Transcript};
use toolgate_engine::{Cancel, Engine, TurnEvent, TurnRequest};

use crate::decision::{Area, Data, Features, Group, Overlap, Split, Wanted, Weights, area, log_odds};
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
const GROUPS: [(&str, &[Group]); 5] = [
    ("call", &[Group::Call]),
    ("call, free", &[Group::Call, Group::Free]),
    ("call, free, overlap", &[Group::Call, Group::Free, Group::Overlap]),
    ("call, free, overlap, state", &[Group::Call, Group::Free, Group::Overlap, Group::State]),
    ("overlap", &[Group::Overlap]),
];

/// Every so many of the requests without content are asked of each set of tools.
const EVERY: usize = 4;

/// Arguments of `toolgate bench decision`.
#[derive(Args)]
pub(super) struct DecisionArgs<H: Host> {
    #[command(flatten)]
    model: H,
    /// Ask only every Nth request.
    #[arg(long, value_name = "N", default_value = "1")]
    every: NonZeroUsize,
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
    let engine = args.model.load(&file, NonZeroUsize::MIN)?;
    let asked: Vec<&Wanted> = data.requests.iter().step_by(args.every.get()).collect();
    let free: Vec<&String> = data.free.iter().step_by(EVERY).collect();
    let bar = H::BAR("deciding", (asked.len() + data.sets().count() * free.len()) as u64);
    let overlap = Overlap::of(data.sets().map(|(_, tools)| tools));
    let mut known = Vec::with_capacity(asked.len());
    for (set, tools) in data.sets() {
        let mut sum = 0.0;
        for request in &free {
            let transcript = Transcript::new().with(Message::User((*request).clone()));
            sum += p_call(engine.as_ref(), &transcript, tools).map(log_odds)?;
            bar.inc(1);
        }
        let free = sum / free.len().max(1) as f64;
        for wanted in asked.iter().filter(|wanted| wanted.set == set) {
            let call = p_call(engine.as_ref(), &wanted.transcript(), tools)
                .with_context(|| format!("request {}", wanted.id))
                .map(log_odds)?;
            let overlap = overlap.with(&wanted.request, tools);
            known.push((*wanted, Features { call, free, overlap, state: wanted.state }));
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
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
        cases.entry(key(wanted)).or_default().push((features.call, wanted.call));
    }
    cases.into_iter().map(|(key, cases)| (key, area(&cases))).collect()
}

fn shown(found: Option<Area>) -> String {
    found.map_or("-".to_owned(), |found| format!("{:.3} ± {:.3}", found.area, found.within))
}

/// The probability of a call in front of a turn. The turn ends there.
fn p_call(engine: &dyn Engine, transcript: &Transcript, tools: &[ToolSpec]) -> anyhow::Result<f64> {
    let (cancel, sampling) = (Cancel::default(), engine.default_sampling().max_tokens(1));
    // Handed on, it is decided whatever was called before.
    let request = TurnRequest::new(transcript, tools, &sampling).handed_on(true);
    let mut found = None;
    let stop = cancel.clone();
    let turn = engine.turn(&request, &cancel, &mut |event| {
        if let TurnEvent::Decided(decided) = event {
            found.get_or_insert(decided.p_call);
            stop.cancel();
        }
    });
    match (found, turn) {
        (Some(p), _) => Ok(p),
        (None, Err(error)) => Err(error.into()),
        (None, Ok(_)) => bail!("the model came to its turn without a decision"),
    }
}
