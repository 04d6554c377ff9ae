//! From the first decisions of many cases to the threshold that parts those that want a call from those that do not.

use serde::Serialize;
use toolgate_engine::stages::logistic;

use super::record::Record;
use super::run::Case;

/// How well a model's probability of a call tells what is wanted, and where to cut.
///
/// ```
/// use toolgate_engine::Cancel;
/// use toolgate_lab::{Calibration, Case, Options, run};
/// # use std::sync::Arc;
/// # use serde_json::json;
/// # use toolgate_engine::{self as engine, Engine, LocalEngine};
/// # use toolgate_tools::Registry;
/// # use toolgate_infer::{Vocabulary, scripted::Scripted};
/// # let call = "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>";
/// # let model = Scripted::new(Arc::new(Vocabulary::bytes_only()))
/// #     .on("Hello", "Hello.")
/// #     .on("weather", call);
/// # let engine: Arc<dyn Engine> = Arc::new(LocalEngine::scripted(model, engine::Options::default())?);
/// # let question = |id: &str, text: &str, expect: &str| {
/// #     let parameters = json!({"type": "object", "properties": {"city": {"type": "string"}}});
/// #     let function = json!({"name": "get_weather", "description": "The weather.", "parameters": parameters});
/// #     Case::from_json(json!({
/// #         "id": id, "category": "weather", "expect": expect,
/// #         "messages": [{"role": "user", "content": text}],
/// #         "tools": [{"type": "function", "function": function}],
/// #     }))
/// # };
/// # let options =
/// #     Options { system: None, max_tokens: 100, temperature: None, parallel: None, builtin: &|_, _, _| Ok(Registry::new()), hints: toolgate_agent::Hints::auto() };
///
/// let cases = [
///     question("weather", "How is the weather in Oslo?", "at_least_one_call")?,
///     question("greeting", "Hello!", "no_call")?,
/// ];
/// let mut runs = Vec::new();
/// for case in &cases {
///     runs.push((case, run(case, &engine, &options, &Cancel::default())?));
/// }
/// let calibration = Calibration::of(runs.iter().map(|(case, record)| (*case, record)));
/// // The model tells the two apart, and this threshold parts them.
/// assert_eq!(calibration.area, Some(1.0));
/// assert!(calibration.best.is_some_and(|best| best > 0.0 && best < 1.0));
/// # Ok::<(), toolgate_agent::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Calibration {
    /// Cases that want a call.
    pub calls: usize,
    /// Cases that want none.
    pub answers: usize,
    /// Probability that a case of the first kind has a higher probability of a call than one of the second (the area
    /// under the curve); 0.5 is chance. `None` where one kind is missing.
    pub area: Option<f64>,
    /// The threshold with the best balance of both shares; the middle of the range, in odds, where several are as good.
    pub best: Option<f64>,
    /// Each threshold that changes something, ascending.
    pub curve: Vec<Point>,
}

/// What a threshold comes to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Probability of a call from which on a turn is one.
    pub threshold: f64,
    /// Share of the cases that want a call that get one.
    pub called: f64,
    /// Share of the cases that want none that get none.
    pub answered: f64,
}

impl Calibration {
    /// The curve over the first decision of each case that had one.
    pub fn of<'a>(runs: impl IntoIterator<Item = (&'a Case, &'a Record)>) -> Self {
        let first = |record: &Record| {
            record.decisions.iter().find(|made| made.calls_before == 0).map(|made| made.p_call)
        };
        let (mut calls, mut answers) = (Vec::new(), Vec::new());
        for (case, record) in runs {
            if let Some(p_call) = first(record) {
                if case.wants_call() { &mut calls } else { &mut answers }.push(p_call);
            }
        }
        Self::between(&calls, &answers)
    }

    /// The curve between the probabilities of cases that want a call and of cases that want none.
    fn between(calls: &[f64], answers: &[f64]) -> Self {
        let mut thresholds: Vec<f64> = calls.iter().chain(answers).copied().collect();
        thresholds.sort_by(f64::total_cmp);
        thresholds.dedup();
        let share = |all: &[f64], counts: &dyn Fn(f64) -> bool| match all.len() {
            0 => 1.0,
            n => all.iter().filter(|&&p| counts(p)).count() as f64 / n as f64,
        };
        let curve: Vec<Point> = thresholds
            .into_iter()
            .map(|threshold| Point {
                threshold,
                called: share(calls, &|p| p >= threshold),
                answered: share(answers, &|p| p < threshold),
            })
            .collect();
        let (area, best) = match calls.is_empty() || answers.is_empty() {
            true => (None, None),
            false => (Some(area(calls, answers)), best(&curve)),
        };
        Self { calls: calls.len(), answers: answers.len(), area, best, curve }
    }
}

/// The probability that a case of the first kind has a higher number than one of the second.
pub(crate) fn area(calls: &[f64], answers: &[f64]) -> f64 {
    let above = |call: f64, answer: f64| match call.total_cmp(&answer) {
        std::cmp::Ordering::Greater => 1.0,
        std::cmp::Ordering::Equal => 0.5,
        std::cmp::Ordering::Less => 0.0,
    };
    let sum: f64 =
        calls.iter().flat_map(|&call| answers.iter().map(move |&answer| above(call, answer))).sum();
    sum / (calls.len() * answers.len()) as f64
}

/// A threshold at a probability seen decides like any above the next lower one: the middle between them is taken.
fn best(curve: &[Point]) -> Option<f64> {
    let balance = |point: &Point| point.called + point.answered;
    let at = (0..curve.len()).max_by(|&a, &b| {
        let of = |at: usize| curve.get(at).map_or(0.0, balance);
        of(a).total_cmp(&of(b))
    })?;
    let upper = curve.get(at)?.threshold;
    let lower = at.checked_sub(1).and_then(|below| curve.get(below)).map_or(0.0, |point| point.threshold);
    let odds = |p: f64| (p.clamp(1e-12, 1.0 - 1e-12) / (1.0 - p.clamp(1e-12, 1.0 - 1e-12))).ln();
    Some(if lower == 0.0 { upper } else { logistic((odds(lower) + odds(upper)) / 2.0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_that_are_apart_are_parted_between_them() {
        let parted = Calibration::between(&[0.5, 0.9], &[0.01, 0.1]);
        assert_eq!(parted.area, Some(1.0));
        let threshold = parted.best.unwrap_or_default();
        assert!(threshold > 0.1 && threshold < 0.5, "{threshold}");
        let shares: Vec<_> = parted.curve.iter().map(|point| (point.called, point.answered)).collect();
        assert_eq!(shares, [(1.0, 0.0), (1.0, 0.5), (1.0, 1.0), (0.5, 1.0)]);
    }

    #[test]
    fn the_balance_counts_both_kinds_alike_however_many_there_are() {
        let many = Calibration::between(&[0.3; 50], &[0.2, 0.4]);
        assert_eq!(many.area, Some(0.5));
        assert!(many.best.is_some_and(|best| best > 0.2 && best < 0.3), "{many:?}");
        let one_kind = Calibration::between(&[0.3], &[]);
        assert_eq!((one_kind.area, one_kind.best), (None, None));
    }
}
