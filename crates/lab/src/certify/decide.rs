//! Second step: whether the model's marks are known to its weights, which tool it calls, and a decision between call and answer that is
//! fitted to what it tells of requests.
//!
//! What weights are worth is measured on sets of tools that they were not fitted to, each in turn. Those of the profile are fitted to
//! all. They are held to [`START`]: where little was measured, that is what the profile has.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use toolgate_chat::{Demonstrations, ToolSpec};
use toolgate_engine::models::Profile;
use toolgate_engine::{DecisionModel, DecisionWeights, LocalEngine, Options, Signal, Signals};
use toolgate_infer::Untrained;
use toolgate_llama::LlamaBackend;

use super::{Bin, CHOOSING, Confusion, DECIDING, Decision, Feature, Measured, Report, Tools};
use crate::decision::{Data, Split, Start, State, Wanted, Weights, area, signals};
use crate::host::Host;

/// What fits start from: the means of what was fitted with models that were measured whole (docs/measurements/decision.md).
pub(super) const START: DecisionModel = DecisionModel {
    first: Some(DecisionWeights {
        bias: -0.3,
        call: 0.23,
        free: 0.0,
        live: 0.53,
        next: 0.47,
        failed: 0.0,
        changed: 0.0,
    }),
    after: None,
};

/// No call behind a result, whatever the probabilities.
const NEVER: f64 = 2.0;
/// The area of a decision that tells nothing: one behind results must surely be better.
const CHANCE: f64 = 0.5;
/// How many cases weigh as much as what other models have.
const FIRMLY: f64 = 24.0;
/// Examples must be worth so much more than none.
const BETTER: f64 = 0.02;
/// Requests of a set of tools that are asked one after the other: the prompt of its tools is read once for them.
const TOGETHER: usize = 6;
/// Requests of a set that lie so far apart follow each other: of all languages and states some come early.
const STRIDE: usize = 5;
/// Requests that tell whether a mark is known.
const MARKED: usize = 8;
/// How much likelier calls are with marks in letters, as the logarithm of the odds, where the tokens are taken to be unknown.
const UNKNOWN: f64 = 1.0;
/// How often a look that is taken for a change counts, beside a missed change.
const WORSE: f64 = 3.0;

type Known<'d> = Vec<(&'d Wanted, Signals)>;

pub(super) fn measure<H: Host>(
    measured: &Measured<'_, H>,
    calls: &[String],
    quick: bool,
    report: &mut Report,
    profile: &mut Profile,
) -> anyhow::Result<()> {
    let thresholds = &mut profile.defaults.thresholds;
    (thresholds.after_success, thresholds.after_change) = (Some(NEVER), Some(NEVER));
    (thresholds.after_failure, thresholds.while_pending) = (Some(NEVER), Some(0.0));
    profile.defaults.prior_weight = Some(2.0);
    profile.defaults.decision = Some(START);
    report.decision.weights = serde_json::to_value(START)?;
    if quick {
        report.decision.changing = 0.5;
        report.tools.demonstrations = "none".to_owned();
        return Ok(());
    }
    let (untrained, engine) = trained(measured, calls, report)?;
    profile.untrained_tokens = untrained.names().map(str::to_owned).collect();
    let engine = demonstrations(measured, engine, &untrained, report, profile)?;
    let known = ask(measured, &engine)?;
    drop(engine);
    fit(&known, report, profile)?;
    choice(measured, &known, report, profile);
    Ok(())
}

/// The options that are measured with.
pub(super) fn options(untrained: &Untrained, demonstrations: Demonstrations) -> Options {
    // Where no bias is taken off, tools are not weighed.
    Options::guided().tool_bias(f64::MIN_POSITIVE).untrained(untrained.clone()).demonstrations(demonstrations)
}

/// The marks of calls that the weights do not know: those with which calls are much likelier when they are written in letters.
fn trained<H: Host>(
    measured: &Measured<'_, H>,
    calls: &[String],
    report: &mut Report,
) -> anyhow::Result<(Untrained, LocalEngine<LlamaBackend>)> {
    let engine = measured.load(options(&Untrained::default(), Demonstrations::None))?;
    let marks = report
        .marks
        .iter()
        .filter(|mark| mark.token.is_some() && calls.iter().any(|text| text.contains(&mark.text)));
    let Ok(letters) = Untrained::new(marks.map(|mark| mark.text.clone())) else {
        return Ok((Untrained::default(), engine));
    };
    if letters.is_empty() {
        return Ok((letters, engine));
    }
    H::note("whether its weights know the marks of calls");
    let wanted = measured.data.requests.iter().filter(|wanted| wanted.call && wanted.state == State::First);
    let asked: Vec<&Wanted> = wanted.filter(|wanted| wanted.set == "local_files").take(MARKED).collect();
    let mean = |engine: &LocalEngine<LlamaBackend>| -> anyhow::Result<f64> {
        let mut sum = 0.0;
        for wanted in &asked {
            sum += signals(engine, wanted, measured.data.tools(&wanted.set), &[Signal::Call])?.call;
        }
        Ok(sum / asked.len().max(1) as f64)
    };
    let as_tokens = mean(&engine)?;
    drop(engine);
    let other = measured.load(options(&letters, Demonstrations::None))?;
    if mean(&other)? - as_tokens < UNKNOWN {
        drop(other);
        let engine = measured.load(options(&Untrained::default(), Demonstrations::None))?;
        return Ok((Untrained::default(), engine));
    }
    let unknown: Vec<String> = letters.names().map(str::to_owned).collect();
    for mark in &mut report.marks {
        mark.trained &= !unknown.contains(&mark.text);
    }
    Ok((letters, other))
}

/// Whether example calls in front of a conversation help to choose the right tool.
fn demonstrations<H: Host>(
    measured: &Measured<'_, H>,
    engine: LocalEngine<LlamaBackend>,
    untrained: &Untrained,
    report: &mut Report,
    profile: &mut Profile,
) -> anyhow::Result<LocalEngine<LlamaBackend>> {
    H::note("which tools it calls, with and without examples");
    let asked: Vec<&Wanted> =
        in_order(&measured.data).into_iter().filter(|wanted| is_choice(wanted)).collect();
    let right = |engine: &LocalEngine<LlamaBackend>, most: usize| -> anyhow::Result<(usize, usize)> {
        let (started, mut right, mut tried) = (Instant::now(), 0, 0);
        for wanted in asked.iter().take(most) {
            let tools = measured.data.tools(&wanted.set);
            let told = signals(engine, wanted, tools, &[Signal::Tools])?;
            tried += 1;
            right += usize::from(likeliest(&told.own, tools).is_some_and(|tool| wanted.is_right(tool)));
            if started.elapsed() > CHOOSING {
                break;
            }
        }
        Ok((right, tried))
    };
    let (without, tried) = right(&engine, asked.len())?;
    let shown = measured.load(options(untrained, Demonstrations::Calls))?;
    let (with, also) = right(&shown, tried)?;
    let share = |n: usize, of: usize| n as f64 / of.max(1) as f64;
    let (without, with) = (share(without, tried), share(with, also));
    report.tools = Tools { without, with, ..Tools::default() };
    let (kind, name, engine) = match with > without + BETTER {
        true => (Demonstrations::Calls, "calls", shown),
        false => (Demonstrations::None, "none", engine),
    };
    report.tools.demonstrations = name.to_owned();
    profile.defaults.demonstrations = Some(kind);
    Ok(engine)
}

/// The requests in the order in which they are asked: some of each set of tools, then more of each. Sets to fit with and to check with
/// take turns, so that there are both whenever time is out.
fn in_order(data: &Data) -> Vec<&Wanted> {
    let mut sets: BTreeMap<&str, Vec<&Wanted>> = BTreeMap::new();
    for wanted in &data.requests {
        sets.entry(&wanted.set).or_default().push(wanted);
    }
    let (fit, check): (Vec<_>, Vec<_>) = sets
        .into_values()
        .map(spread)
        .partition(|requests| requests.first().is_some_and(|wanted| wanted.split == Split::Fit));
    // There are about twice as many sets to fit with.
    let mut turns: Vec<Vec<&Wanted>> = Vec::new();
    let (mut fit, mut check) = (fit.into_iter(), check.into_iter());
    loop {
        let before = turns.len();
        turns.extend(fit.by_ref().take(2));
        turns.extend(check.next());
        if turns.len() == before {
            break;
        }
    }
    let longest = turns.iter().map(Vec::len).max().unwrap_or_default();
    let rounds = (0..longest).step_by(TOGETHER);
    rounds
        .flat_map(|from| turns.iter().flat_map(move |set| set.iter().copied().skip(from).take(TOGETHER)))
        .collect()
}

fn is_choice(wanted: &Wanted) -> bool {
    wanted.call && wanted.state == State::First
}

/// The requests of a set, with neighbours apart.
fn spread(requests: Vec<&Wanted>) -> Vec<&Wanted> {
    (0..STRIDE).flat_map(|start| requests.iter().copied().skip(start).step_by(STRIDE)).collect()
}

/// What the model tells of requests, as many as there is time for.
fn ask<'d, H: Host>(
    measured: &'d Measured<'_, H>,
    engine: &LocalEngine<LlamaBackend>,
) -> anyhow::Result<Known<'d>> {
    H::note("what it tells of requests");
    let bar = H::BAR("seconds", DECIDING.as_secs());
    let (started, mut known) = (Instant::now(), Vec::new());
    for wanted in in_order(&measured.data) {
        known.push((wanted, signals(engine, wanted, measured.data.tools(&wanted.set), &Signal::ALL)?));
        bar.set_position(started.elapsed().as_secs());
        if started.elapsed() > DECIDING {
            break;
        }
    }
    bar.finish_and_clear();
    Ok(known)
}

/// A number that a decision can weigh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    Call,
    Free,
    Live,
    Next,
    Failed,
    Changed,
}

impl Number {
    fn of(self, wanted: &Wanted, signals: &Signals) -> f64 {
        match self {
            Self::Call => signals.call,
            Self::Free => signals.free,
            Self::Live => signals.live,
            Self::Next => signals.next,
            Self::Failed => f64::from(u8::from(wanted.state == State::AfterFailure)),
            Self::Changed => f64::from(u8::from(wanted.state == State::AfterChange)),
        }
    }

    /// Its weight in a start.
    fn of_start(self, start: DecisionWeights) -> f64 {
        match self {
            Self::Call => start.call,
            Self::Free => start.free,
            Self::Live => start.live,
            Self::Next => start.next,
            Self::Failed => start.failed,
            Self::Changed => start.changed,
        }
    }

    /// Whether a weight of the wrong sign is a chance of the data, and not to be kept.
    fn is_wrong(self, weight: f64) -> bool {
        match self {
            Self::Call | Self::Live | Self::Next => weight < 0.0,
            Self::Free => weight > 0.0,
            Self::Failed | Self::Changed => false,
        }
    }

    fn put(self, weights: &mut DecisionWeights, weight: f64) {
        let place = match self {
            Self::Call => &mut weights.call,
            Self::Free => &mut weights.free,
            Self::Live => &mut weights.live,
            Self::Next => &mut weights.next,
            Self::Failed => &mut weights.failed,
            Self::Changed => &mut weights.changed,
        };
        *place = rounded(weight);
    }
}

/// Four digits are more than was measured.
fn rounded(number: f64) -> f64 {
    (number * 1e4).round() / 1e4
}

/// Weights of these numbers, fitted to what was told; numbers whose weights come out with the wrong sign are left out.
fn weights(
    cases: &[&(&Wanted, Signals)],
    numbers: &[Number],
    start: DecisionWeights,
) -> Option<DecisionWeights> {
    let (mut numbers, bias) = (numbers.to_vec(), start.bias);
    loop {
        let row = |&&(wanted, ref signals): &&(&Wanted, Signals)| {
            let row = numbers.iter().map(|number| number.of(wanted, signals)).collect();
            (row, wanted.call)
        };
        let rows: Vec<(Vec<f64>, bool)> = cases.iter().map(row).collect();
        let start: Vec<f64> = numbers.iter().map(|number| number.of_start(start)).collect();
        let start = Start { bias, weights: &start, firmly: FIRMLY };
        let (bias, found) = Weights::fit_from(&rows, start)?.plain();
        let wrong = numbers.iter().zip(&found).position(|(number, weight)| number.is_wrong(*weight));
        match wrong {
            Some(wrong) => {
                numbers.remove(wrong);
            }
            None => {
                let mut weights = DecisionWeights { bias: rounded(bias), ..DecisionWeights::default() };
                numbers.iter().zip(found).for_each(|(number, weight)| number.put(&mut weights, weight));
                return Some(weights);
            }
        }
    }
}

/// What weights tell of cases, beside what is wanted.
fn told(weights: &DecisionWeights, cases: &[&(&Wanted, Signals)]) -> Vec<(f64, bool)> {
    let p = |wanted: &Wanted, signals: &Signals| {
        let (failed, changed) = (wanted.state == State::AfterFailure, wanted.state == State::AfterChange);
        weights.probability(signals, failed, changed)
    };
    cases.iter().map(|(wanted, signals)| (p(wanted, signals), wanted.call)).collect()
}

/// What weights tell of each case that were fitted to the cases of all other sets of tools.
fn across(cases: &[&(&Wanted, Signals)], numbers: &[Number], start: DecisionWeights) -> Vec<(f64, bool)> {
    let sets: BTreeSet<&str> = cases.iter().map(|(wanted, _)| wanted.set.as_str()).collect();
    let of_set = |set: &str| {
        let (own, others): (Vec<_>, Vec<_>) = cases.iter().partition(|(wanted, _)| wanted.set == set);
        told(&weights(&others, numbers, start).unwrap_or(start), &own)
    };
    sets.into_iter().flat_map(of_set).collect()
}

fn fit(known: &Known<'_>, report: &mut Report, profile: &mut Profile) -> anyhow::Result<()> {
    let (first, after): (Vec<_>, Vec<_>) = known.iter().partition(|(wanted, _)| wanted.state == State::First);
    let mut decision = Decision { requests: known.len(), changing: changing(&first), ..Decision::default() };
    for (name, number) in
        [("call", Number::Call), ("free", Number::Free), ("live", Number::Live), ("next", Number::Next)]
    {
        let cases: Vec<(f64, bool)> =
            first.iter().map(|(wanted, signals)| (number.of(wanted, signals), wanted.call)).collect();
        decision.features.push(Feature { name: name.to_owned(), area: area(&cases) });
    }
    let start = START.first.unwrap_or_default();
    // What is told where nothing was said (`free`) has an area of a half before a first call. Two lists are one evaluation a turn, where
    // the run has a second turn.
    let numbers = [Number::Call, Number::Live, Number::Next];
    let told = across(&first, &numbers, start);
    let mut model = DecisionModel { first: weights(&first, &numbers, start).or(START.first), after: None };
    decision.right = share(told.iter().filter(|(p, call)| (*p >= 0.5) == *call).count(), told.len());
    decision.calibration = bins(&told);
    decision.auc = area(&told);
    // Which tool comes next tells less there than whether a call opens.
    let numbers = [Number::Call, Number::Free, Number::Failed, Number::Changed];
    let nothing = DecisionWeights::default();
    let is_worth =
        area(&across(&after, &numbers, nothing)).is_some_and(|found| found.area - found.within >= CHANCE);
    if let Some(weights) = weights(&after, &numbers, nothing).filter(|weights| is_worth && weights.call > 0.0)
    {
        model.after = Some(weights);
        profile.defaults.thresholds.while_pending = Some(0.01);
    }
    profile.defaults.thresholds.changing = Some(decision.changing);
    profile.defaults.decision = Some(model);
    decision.weights = serde_json::to_value(model)?;
    report.decision = decision;
    Ok(())
}

fn share(n: usize, of: usize) -> f64 {
    n as f64 / of.max(1) as f64
}

/// The probability that parts requests for a change from others best; one that is taken for a change counts three times.
fn changing(first: &[&(&Wanted, Signals)]) -> f64 {
    let told: Vec<(f64, bool)> = first
        .iter()
        .map(|(wanted, signals)| (signals.change.clamp(1e-3, 1.0 - 1e-3), wanted.is_change()))
        .collect();
    let cost = |least: f64| -> f64 {
        let wrong = told.iter().map(|(p, change)| match (*p >= least, change) {
            (true, false) => WORSE,
            (false, true) => 1.0,
            _ => 0.0,
        });
        wrong.sum()
    };
    // Even is the start: a threshold that is no better does not take its place, and none is far out on one side.
    let candidates = (20..=90).map(|percent| f64::from(percent) / 100.0);
    candidates.fold(0.5, |best, least| if cost(least) < cost(best) { least } else { best })
}

/// Ten parts of what was told, without empty ones.
fn bins(told: &[(f64, bool)]) -> Vec<Bin> {
    let parts = (0..10).map(|part| (f64::from(part) / 10.0, f64::from(part + 1) / 10.0));
    let bin = |(low, high): (f64, f64)| {
        let inside = |p: f64| p >= low && (p < high || high >= 1.0);
        let cases: Vec<_> = told.iter().filter(|(p, _)| inside(*p)).collect();
        let n = cases.len();
        let mean = cases.iter().map(|(p, _)| p).sum::<f64>() / n.max(1) as f64;
        let wanted = share(cases.iter().filter(|(_, call)| *call).count(), n);
        (n > 0).then_some(Bin { low, high, n, told: mean, wanted })
    };
    parts.filter_map(bin).collect()
}

/// The tool of most weight.
fn likeliest<'t>(weights: &[f64], tools: &'t [ToolSpec]) -> Option<&'t str> {
    let best = weights.iter().zip(tools).max_by(|(a, _), (b, _)| a.total_cmp(b));
    best.map(|(_, tool)| tool.name.as_str())
}

/// How much of the bias towards tools is taken off, and which tools are taken for others.
fn choice<H: Host>(
    measured: &Measured<'_, H>,
    known: &Known<'_>,
    report: &mut Report,
    profile: &mut Profile,
) {
    let asked: Vec<_> = known.iter().filter(|(wanted, _)| is_choice(wanted)).collect();
    let chosen = |share: f64| {
        let chosen = |(wanted, signals): &&(&Wanted, Signals)| {
            let tools = measured.data.tools(&wanted.set);
            let bias = signals.own.iter().zip(&signals.tools).map(|(own, less)| own - less);
            let weights: Vec<f64> =
                signals.own.iter().zip(bias).map(|(own, bias)| own - share * bias).collect();
            likeliest(&weights, tools).map(str::to_owned)
        };
        asked.iter().map(|case| (case.0, chosen(case))).collect::<Vec<_>>()
    };
    let right = |share: f64| {
        let is_right = |(wanted, tool): &(&Wanted, Option<String>)| {
            tool.as_ref().is_some_and(|tool| wanted.is_right(tool))
        };
        chosen(share).iter().filter(|case| is_right(case)).count()
    };
    let best = [0.0, 0.4, 0.7, 1.0]
        .into_iter()
        .fold(0.0, |best, share| if right(share) > right(best) { share } else { best });
    profile.defaults.tool_bias = Some(best);
    let mut confusions: BTreeMap<(String, String), usize> = BTreeMap::new();
    for (wanted, tool) in chosen(best) {
        if let Some(tool) = tool.filter(|tool| !wanted.is_right(tool)) {
            *confusions.entry((wanted.tool.clone().unwrap_or_default(), tool)).or_default() += 1;
        }
    }
    let tools = &mut report.tools;
    tools.asked = asked.len();
    tools.accuracy = share(right(best), asked.len());
    tools.confusions =
        confusions.into_iter().map(|((wanted, chosen), n)| Confusion { wanted, chosen, n }).collect();
    tools.confusions.sort_by_key(|confusion| std::cmp::Reverse(confusion.n));
    // Whoever mistakes tools mistakes parameters that help now and then, too.
    let is_sure = tools.accuracy >= SURE;
    profile.defaults.advanced_parameters = Some(is_sure);
    profile.defaults.memory_tools = Some(is_sure);
}

/// The share of right tools from which on a model is offered what small ones misuse.
const SURE: f64 = 0.95;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::time::Duration;

    use super::*;
    use crate::certify::ANSWERING;

    /// Signals of the data's requests: `live` tells in nine of ten cases, `call` nothing, `next` the contrary.
    fn known(data: &Data) -> Known<'_> {
        let signals = |(at, wanted): (usize, &Wanted)| {
            let tells = if at % 10 == 0 { !wanted.call } else { wanted.call };
            let mut signals = Signals::default();
            signals.live = if tells { 2.0 } else { -2.0 };
            signals.next = if wanted.call { -1.0 } else { 1.0 };
            signals.call = (at * 7 % 11) as f64;
            signals.change = if wanted.is_change() { 0.7 } else { 0.3 };
            signals
        };
        data.requests.iter().enumerate().map(|(at, wanted)| (wanted, signals((at, wanted)))).collect()
    }

    #[test]
    fn what_tells_is_weighed_and_what_tells_the_contrary_is_not() {
        let data = Data::read().unwrap();
        let (known, mut report) = (known(&data), Report::default());
        let model = tempfile::NamedTempFile::new().unwrap();
        let mut profile = Profile::of(model.path()).unwrap();
        fit(&known, &mut report, &mut profile).unwrap();
        let first = profile.defaults.decision.unwrap().first.unwrap();
        assert!(first.live > 0.3 && first.next == 0.0, "{first:?}");
        let found = report.decision.auc.unwrap();
        assert!(
            (0.8..0.97).contains(&found.area) && (0.8..1.0).contains(&report.decision.right),
            "{found:?}"
        );
        assert!(profile.defaults.decision.unwrap().after.is_none(), "behind results nothing tells");
        assert!((0.3..0.7).contains(&report.decision.changing));
        let inside: usize = report.decision.calibration.iter().map(|bin| bin.n).sum();
        assert!(
            inside > 50
                && report.decision.calibration.iter().all(|bin| bin.told >= bin.low && bin.told <= bin.high)
        );
    }

    #[test]
    fn requests_of_all_kinds_come_early_and_none_is_left_out() {
        let data = Data::read().unwrap();
        let order = in_order(&data);
        let ids: std::collections::BTreeSet<&str> = order.iter().map(|wanted| wanted.id.as_str()).collect();
        assert_eq!((order.len(), ids.len()), (data.requests.len(), data.requests.len()));
        let early = order.get(..60).unwrap();
        for split in [Split::Fit, Split::Check] {
            for call in [true, false] {
                let first = early.iter().filter(|wanted| {
                    wanted.split == split && wanted.call == call && wanted.state == State::First
                });
                assert!(first.count() >= 5, "{split:?} {call}");
            }
        }
        let languages: std::collections::BTreeSet<&str> =
            early.iter().map(|wanted| wanted.language.as_str()).collect();
        assert!(languages.len() >= 6, "{languages:?}");
    }

    #[test]
    fn a_full_run_stays_within_its_time() {
        assert!(DECIDING + 2 * CHOOSING + 4 * ANSWERING < Duration::from_secs(900));
    }
}
