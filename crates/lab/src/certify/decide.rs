//! Second step: a decision between call and answer that is fitted to what the model tells of requests, with the marks (`marks`) and behind
//! the examples (`demonstrations`) that suit it.
//!
//! What weights are worth is measured on sets of tools that they were not fitted to, each in turn. Those of the profile are fitted to
//! all. They are held to [`START`]: where little was measured, that is what the profile has.

use std::collections::{BTreeMap, BTreeSet};

use toolgate_engine::models::Profile;
use toolgate_engine::stages::{log_odds, logistic};
use toolgate_engine::{DecisionModel, DecisionWeights, LocalEngine, Signal};
use toolgate_llama::LlamaBackend;

use super::choice::{choice, is_choice};
use super::demonstrations::demonstrations;
use super::marks::trained;
use super::{Bin, DECIDING, Decision, Feature, Measured, Report, share};
use crate::decision::{Case, Data, Number, Split, Start, State, Wanted, Weights, area, ask_all, right, row};
use crate::host::Host;

/// What fits start from: the means of what was fitted with models that were measured whole (docs/measurements/decision.md).
pub(super) const START: DecisionModel = DecisionModel {
    first: Some(DecisionWeights {
        bias: -0.3,
        call: 0.23,
        free: 0.0,
        live: 0.53,
        next: 0.47,
        asked: 0.0,
        invented: 0.0,
        changed: 0.0,
    }),
    after: None,
};
/// The same behind results, for a model whose list of next calls is worth something there: the 1.5 B one's.
const AFTER: DecisionWeights = DecisionWeights {
    bias: -0.25,
    call: 0.0,
    free: 0.0,
    live: 0.0,
    next: 0.5,
    asked: -0.15,
    invented: 0.0,
    changed: 0.0,
};

/// The weight of made-up values from which a fit before a first call starts, by what the 1.5 B model told (docs/measurements/decision.md).
/// [`START`] has none: its bias was fitted without.
const INVENTED: f64 = -0.7;
/// No call behind a result, whatever the probabilities.
const NEVER: f64 = 2.0;
/// The area that a decision behind results surely has to have. There most runs are done, and a call that nobody asked for is worse than
/// an answer that comes too early: a decision that is somewhat better than chance would keep runs going.
const SURE: f64 = 0.8;
/// As likely as not.
const EVEN: f64 = 0.5;
/// No threshold for changes lies beyond these.
const LEAST_CHANGING: f64 = 0.2;
const MOST_CHANGING: f64 = 0.9;
/// How many cases weigh as much as the weights that other models have.
const FIRMLY: f64 = 24.0;
/// The same of the bias. How readily models call is their own: held as firmly as the weights, the bias made fewer of other requests right
/// (docs/measurements/decision.md).
const BIAS_FIRMLY: f64 = 2.0;
/// Requests of a set of tools that are asked one after the other: the prompt of its tools is read once for them.
const TOGETHER: usize = 8;
/// Requests of a set that lie so far apart follow each other.
const STRIDE: usize = 5;
/// How often a look that is taken for a change counts, beside a missed change. It does harm only where the model calls such a tool, too.
const WORSE: f64 = 2.0;

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
        report.decision.changing = EVEN;
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

/// The requests in the order in which they are asked: some of each set of tools, then more of each. Sets to fit with and to check with
/// take turns, so that there are both whenever time is out. So do sets without runs, of one or two tools, with sets that have some.
pub(super) fn in_order(data: &Data) -> Vec<&Wanted> {
    let mut sets: BTreeMap<&str, Vec<&Wanted>> = BTreeMap::new();
    for wanted in &data.requests {
        sets.entry(&wanted.set).or_default().push(wanted);
    }
    let has_runs = |set: &Vec<&Wanted>| set.iter().any(|wanted| wanted.state != State::First);
    let (with_runs, without): (Vec<_>, Vec<_>) = sets.into_values().map(spread).partition(has_runs);
    let is_fit = |set: &Vec<&Wanted>| set.first().is_some_and(|wanted| wanted.split == Split::Fit);
    let (fit, check): (Vec<_>, Vec<_>) = with_runs.into_iter().partition(is_fit);
    // There are about twice as many sets to fit with.
    let mut turns: Vec<Vec<&Wanted>> = Vec::new();
    let (mut fit, mut check, mut without) = (fit.into_iter(), check.into_iter(), without.into_iter());
    loop {
        let before = turns.len();
        turns.extend(fit.by_ref().take(2));
        turns.extend(check.next());
        turns.extend(without.next());
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

/// The requests of a set, kinds taking turns: before any call and behind a result, since a decision is fitted for each; with a call
/// wanted and without. What failed comes last.
fn spread(requests: Vec<&Wanted>) -> Vec<&Wanted> {
    let of = |states: &[State], call: bool| {
        let alike = |wanted: &&Wanted| wanted.call == call && states.contains(&wanted.state);
        apart(requests.iter().copied().filter(alike).collect()).into_iter()
    };
    let (first, later) = ([State::First], [State::AfterSuccess, State::AfterChange]);
    let mut kinds = [of(&first, true), of(&later, false), of(&first, false), of(&later, true)];
    let mut all = Vec::with_capacity(requests.len());
    loop {
        let before = all.len();
        all.extend(kinds.iter_mut().filter_map(Iterator::next));
        if all.len() == before {
            break;
        }
    }
    all.extend([true, false].into_iter().flat_map(|call| of(&[State::AfterFailure], call)));
    all
}

/// Requests with neighbours apart: of all languages some come early.
fn apart(requests: Vec<&Wanted>) -> Vec<&Wanted> {
    (0..STRIDE).flat_map(|start| requests.iter().copied().skip(start).step_by(STRIDE)).collect()
}

/// What the model tells of requests, as many as there is time for.
fn ask<'d, H: Host>(
    measured: &'d Measured<'_, H>,
    engine: &LocalEngine<LlamaBackend>,
) -> anyhow::Result<Vec<Case<'d>>> {
    H::note("what it tells of requests");
    let clock = measured.clock(DECIDING);
    let bar = H::BAR("seconds", clock.all());
    let known = ask_all(engine, &measured.data, &in_order(&measured.data), &asked_of, &mut || {
        bar.set_position(clock.seconds());
        clock.tick()
    });
    bar.finish_and_clear();
    known
}

/// What is asked of a request: behind a result no more than what a decision there and a choice of tools can weigh.
fn asked_of(wanted: &Wanted) -> &'static [Signal] {
    match wanted.state {
        State::First => &Signal::ALL,
        _ if is_choice(wanted) => &[Signal::Next, Signal::Asked, Signal::Change, Signal::Tools],
        _ => &[Signal::Next, Signal::Asked, Signal::Change],
    }
}

/// The weight of a number; none for one that no decision weighs.
fn weight_of(number: Number, weights: &mut DecisionWeights) -> Option<&mut f64> {
    Some(match number {
        Number::Call => &mut weights.call,
        Number::Free => &mut weights.free,
        Number::Live => &mut weights.live,
        Number::Next => &mut weights.next,
        Number::Asked => &mut weights.asked,
        Number::Invented => &mut weights.invented,
        Number::Changed => &mut weights.changed,
        Number::Failed | Number::Overlap => return None,
    })
}

/// Whether a weight of the wrong sign is a chance of the data, and not to be kept.
fn is_wrong(number: Number, weight: f64) -> bool {
    match number {
        Number::Call | Number::Live | Number::Next | Number::Overlap => weight < 0.0,
        Number::Free | Number::Asked | Number::Invented => weight > 0.0,
        Number::Failed | Number::Changed => false,
    }
}

/// Four digits are more than was measured. Of zeros there is one.
pub(super) fn rounded(number: f64) -> f64 {
    (number * 1e4).round() / 1e4 + 0.0
}

/// Weights of these numbers, fitted to what was told; numbers whose weights come out with the wrong sign are left out.
fn weights(cases: &[&Case<'_>], numbers: &[Number], start: DecisionWeights) -> Option<DecisionWeights> {
    let (mut numbers, mut from) = (numbers.to_vec(), start);
    loop {
        let rows: Vec<(Vec<f64>, bool)> = cases.iter().map(|case| row(case, &numbers)).collect();
        let held: Vec<f64> =
            numbers.iter().filter_map(|number| weight_of(*number, &mut from).copied()).collect();
        let held =
            Start { bias: start.bias, weights: &held, bias_firmly: BIAS_FIRMLY, weights_firmly: FIRMLY };
        let (bias, found) = Weights::fit_from(&rows, held)?.plain();
        let wrong = numbers.iter().zip(&found).position(|(number, weight)| is_wrong(*number, *weight));
        if let Some(wrong) = wrong {
            numbers.remove(wrong);
            continue;
        }
        let mut weights = DecisionWeights { bias: rounded(bias), ..DecisionWeights::default() };
        for (number, found) in numbers.iter().zip(found) {
            if let Some(weight) = weight_of(*number, &mut weights) {
                *weight = rounded(found);
            }
        }
        return Some(weights);
    }
}

/// What weights tell of cases, beside what is wanted.
fn told(weights: &DecisionWeights, cases: &[&Case<'_>]) -> Vec<(f64, bool)> {
    let p = |Case { wanted, signals, .. }: &Case<'_>| {
        weights.probability(signals, wanted.state == State::AfterChange)
    };
    cases.iter().map(|case| (p(case), case.wanted.call)).collect()
}

/// What weights tell of each case that were fitted to the cases of all other sets of tools.
fn across(cases: &[&Case<'_>], numbers: &[Number], start: DecisionWeights) -> Vec<(f64, bool)> {
    let sets: BTreeSet<&str> = cases.iter().map(|case| case.wanted.set.as_str()).collect();
    let of_set = |set: &str| {
        let (own, others): (Vec<_>, Vec<_>) = cases.iter().partition(|case| case.wanted.set == set);
        told(&weights(&others, numbers, start).unwrap_or(start), &own)
    };
    sets.into_iter().flat_map(of_set).collect()
}

/// How likely a first call is by the probability of one alone, fitted to other sets of tools, beside what is wanted.
pub(super) fn told_by_calls(first: &[&Case<'_>]) -> Vec<(f64, bool)> {
    across(first, &[Number::Call], START.first.unwrap_or_default())
}

fn fit(known: &[Case<'_>], report: &mut Report, profile: &mut Profile) -> anyhow::Result<()> {
    let (first, later): (Vec<_>, Vec<_>) = known.iter().partition(|case| case.wanted.state == State::First);
    let mut decision =
        Decision { requests: known.len(), changing: rounded(changing(known)), ..Decision::default() };
    for (name, number) in [
        ("call", Number::Call),
        ("free", Number::Free),
        ("live", Number::Live),
        ("next", Number::Next),
        ("invented", Number::Invented),
    ] {
        let cases: Vec<(f64, bool)> = first.iter().map(|case| (number.of(case), case.wanted.call)).collect();
        decision.features.push(Feature { name: name.to_owned(), area: area(&cases) });
    }
    let start = DecisionWeights { invented: INVENTED, ..START.first.unwrap_or_default() };
    // What is told where nothing was said (`free`) has an area of a half before a first call. Two lists are one evaluation a turn, where
    // the run has a second turn.
    let numbers = [Number::Call, Number::Live, Number::Next, Number::Invented];
    let told = across(&first, &numbers, start);
    let mut model = DecisionModel { first: weights(&first, &numbers, start).or(START.first), after: None };
    decision.right = right(&told);
    decision.calibration = bins(&told);
    decision.auc = area(&told);
    // Behind a failure nothing tells: the list says "none", whether another call would mend it or not.
    let after: Vec<&Case<'_>> =
        later.into_iter().filter(|case| case.wanted.state != State::AfterFailure).collect();
    let numbers = [Number::Next, Number::Asked, Number::Changed];
    decision.after = area(&across(&after, &numbers, AFTER));
    if decision.after.is_some_and(|found| found.area - found.within >= SURE) {
        model.after = weights(&after, &numbers, AFTER).filter(|weights| weights.next > 0.0);
    }
    if model.after.is_some() {
        // The model itself tells then what is left to be done. A name that no call took up may be one that is to be left alone.
        profile.defaults.thresholds.while_pending = Some(NEVER);
    }
    profile.defaults.thresholds.changing = Some(decision.changing);
    profile.defaults.decision = Some(model);
    decision.weights = serde_json::to_value(model)?;
    report.decision = decision;
    Ok(())
}

/// The probability from which on a request counts as one for a change, by the model's own: one that is taken for a change counts
/// [`WORSE`] times. A curve is fitted, as the best point of so few requests would be a chance one. What no tool can do is left out:
/// it may well ask for a change.
fn changing(known: &[Case<'_>]) -> f64 {
    let told = |case: &Case<'_>| {
        (vec![log_odds(case.signals.change.clamp(1e-3, 1.0 - 1e-3))], case.wanted.is_change())
    };
    let cases: Vec<_> = known.iter().filter(|case| !case.wanted.is_impossible()).map(told).collect();
    // A model that tells it well is the start.
    let start = Start { bias: 0.0, weights: &[1.0], bias_firmly: FIRMLY, weights_firmly: FIRMLY };
    let Some((bias, weight)) = Weights::fit_from(&cases, start).map(|fitted| fitted.plain()) else {
        return EVEN;
    };
    match weight.first() {
        Some(weight) if *weight > 0.0 => {
            let least = (WORSE.ln() - bias) / weight;
            logistic(least).clamp(LEAST_CHANGING, MOST_CHANGING)
        }
        _ => MOST_CHANGING,
    }
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// Signals of the data's requests: `live` tells in nine of ten cases, `call` nothing, `next` the contrary.
    fn known(data: &Data) -> Vec<Case<'_>> {
        fn case<'d>((at, wanted): (usize, &'d Wanted)) -> Case<'d> {
            let tells = if at % 10 == 0 { !wanted.call } else { wanted.call };
            let mut signals = toolgate_engine::Signals::default();
            signals.live = if tells { 2.0 } else { -2.0 };
            signals.next = if wanted.call { -1.0 } else { 1.0 };
            signals.call = (at * 7 % 11) as f64;
            signals.invented = f64::from(u8::from(!wanted.call && at % 3 == 0));
            signals.change = if wanted.is_change() { 0.7 } else { 0.3 };
            Case { wanted, signals, overlap: 0.0 }
        }
        data.requests.iter().enumerate().map(case).collect()
    }

    #[test]
    fn a_number_is_rounded_to_four_digits_and_no_zero_has_a_sign() {
        assert_eq!((rounded(0.123_45), rounded(-1.999_96)), (0.1235, -2.0));
        assert!(rounded(-1e-9).is_sign_positive());
    }

    #[test]
    fn what_tells_is_weighed_and_what_tells_the_contrary_is_not() {
        let data = Data::read().unwrap();
        let (known, mut report) = (known(&data), Report::default());
        let model = tempfile::NamedTempFile::new().unwrap();
        let mut profile = Profile::of(model.path()).unwrap();
        fit(&known, &mut report, &mut profile).unwrap();
        let first = profile.defaults.decision.unwrap().first.unwrap();
        assert!(first.live > 0.3 && first.next == 0.0 && first.invented < -0.3, "{first:?}");
        let found = report.decision.auc.unwrap();
        assert!(
            (0.8..0.97).contains(&found.area) && (0.8..1.0).contains(&report.decision.right),
            "{found:?}"
        );
        assert!(profile.defaults.decision.unwrap().after.is_none(), "behind results nothing tells");
        assert!((0.5..0.7).contains(&report.decision.changing), "{}", report.decision.changing);
        let inside: usize = report.decision.calibration.iter().map(|bin| bin.n).sum();
        assert!(
            inside > 50
                && report.decision.calibration.iter().all(|bin| bin.told >= bin.low && bin.told <= bin.high)
        );
    }

    #[test]
    fn a_threshold_for_changes_is_surer_than_even_and_not_moved_by_a_few_requests() {
        let data = Data::read().unwrap();
        let mut known = known(&data);
        let all = changing(&known);
        // What no tool can do may ask for a change as well as not.
        for case in known.iter_mut().filter(|case| case.wanted.is_impossible()) {
            case.signals.change = 0.9;
        }
        assert!((changing(&known) - all).abs() < 1e-9, "{all}");
        known.truncate(60);
        let few = changing(&known);
        assert!((few - all).abs() < 0.15, "{all} {few}");
        for case in &mut known {
            case.signals.change = if case.wanted.is_change() { 0.2 } else { 0.8 };
        }
        assert!(changing(&known) > 0.8, "who tells the contrary changes hardly anything");
        assert_eq!(changing(&[]), EVEN);
    }

    #[test]
    fn requests_of_all_kinds_come_early_and_none_is_left_out() {
        let data = Data::read().unwrap();
        let order = in_order(&data);
        let ids: std::collections::BTreeSet<&str> = order.iter().map(|wanted| wanted.id.as_str()).collect();
        assert_eq!((order.len(), ids.len()), (data.requests.len(), data.requests.len()));
        let early = order.get(..80).unwrap();
        for split in [Split::Fit, Split::Check] {
            for call in [true, false] {
                for is_first in [true, false] {
                    let alike = early.iter().filter(|wanted| {
                        (wanted.split, wanted.call, wanted.state == State::First) == (split, call, is_first)
                    });
                    assert!(alike.count() >= 4, "{split:?} {call} {is_first}");
                }
            }
        }
        let languages: std::collections::BTreeSet<&str> =
            early.iter().map(|wanted| wanted.language.as_str()).collect();
        assert!(languages.len() >= 6, "{languages:?}");
    }
}
