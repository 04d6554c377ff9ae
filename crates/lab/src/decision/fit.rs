//! Logistic regression over a few numbers, and the area under the curve with its interval.

use serde::Serialize;
use toolgate_engine::stages::logistic;

use crate::calibrate;

/// How much weights are held to zero, in cases: with few cases large weights say little.
const HELD: f64 = 16.0;
/// Steps of Newton's method. It ends in some six.
const STEPS: usize = 40;

/// Weights of numbers, for which zero is their mean and one their spread.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Weights {
    pub(crate) bias: f64,
    pub(crate) weights: Vec<f64>,
    means: Vec<f64>,
    spreads: Vec<f64>,
}

/// What a fit is held to: a bias and weights of the numbers as they are, each as firmly as by so many cases.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start<'s> {
    pub(crate) bias: f64,
    pub(crate) weights: &'s [f64],
    pub(crate) bias_firmly: f64,
    pub(crate) weights_firmly: f64,
}

impl Weights {
    /// Those that make what is wanted likeliest, held to zero; none without cases of both kinds.
    pub(crate) fn fit(cases: &[(Vec<f64>, bool)]) -> Option<Self> {
        Self::fitted(cases, None)
    }

    /// The same, held to a start.
    pub(crate) fn fit_from(cases: &[(Vec<f64>, bool)], start: Start<'_>) -> Option<Self> {
        Self::fitted(cases, Some(start))
    }

    fn fitted(cases: &[(Vec<f64>, bool)], start: Option<Start<'_>>) -> Option<Self> {
        let width = cases.first()?.0.len();
        if cases.iter().all(|(_, call)| *call) || cases.iter().all(|(_, call)| !*call) {
            return None;
        }
        let n = cases.len() as f64;
        let column = |at: usize| cases.iter().filter_map(move |(numbers, _)| numbers.get(at).copied());
        let middle: Vec<f64> = (0..width).map(|at| column(at).sum::<f64>() / n).collect();
        let spread = |(at, mean): (usize, &f64)| {
            let variance = column(at).map(|x| (x - mean).powi(2)).sum::<f64>() / n;
            if variance > 0.0 { variance.sqrt() } else { 1.0 }
        };
        let spreads: Vec<f64> = middle.iter().enumerate().map(spread).collect();
        // A start tells a bias for numbers as they are: they are not moved then.
        let means = if start.is_some() { vec![0.0; width] } else { middle };
        let to: Vec<f64> = spreads
            .iter()
            .enumerate()
            .map(|(at, spread)| start.and_then(|start| start.weights.get(at)).unwrap_or(&0.0) * spread)
            .collect();
        let (first, firmly) = start.map_or((0.0, HELD), |start| (start.bias, start.weights_firmly));
        let firmly_bias = start.map_or(0.0, |start| start.bias_firmly);
        let mut found = Self { bias: first, weights: to.clone(), means, spreads };
        for _ in 0..STEPS {
            let (mut gradient, mut curvature) = (vec![0.0; width + 1], vec![vec![0.0; width + 1]; width + 1]);
            for (numbers, call) in cases {
                let row: Vec<f64> = std::iter::once(1.0).chain(found.scaled(numbers)).collect();
                let p = found.probability(numbers);
                let miss = f64::from(u8::from(*call)) - p;
                for (i, x) in row.iter().enumerate() {
                    if let Some(sum) = gradient.get_mut(i) {
                        *sum += miss * x;
                    }
                    for (j, y) in row.iter().enumerate() {
                        if let Some(sum) = curvature.get_mut(i).and_then(|line| line.get_mut(j)) {
                            *sum += p * (1.0 - p) * x * y;
                        }
                    }
                }
            }
            let held = std::iter::once((found.bias - first, firmly_bias))
                .chain(found.weights.iter().zip(&to).map(|(weight, to)| (weight - to, firmly)));
            for (i, (off, firmly)) in held.enumerate() {
                // A weight's worth of one spread counts as much as a quarter of a case, the curvature of even odds.
                let firmly = firmly / 4.0;
                if let Some(sum) = gradient.get_mut(i) {
                    *sum -= firmly * off;
                }
                if let Some(sum) = curvature.get_mut(i).and_then(|line| line.get_mut(i)) {
                    *sum += firmly;
                }
            }
            let step = solve(curvature, gradient)?;
            let (bias, weights) = step.split_first()?;
            found.bias += bias;
            found.weights.iter_mut().zip(weights).for_each(|(weight, step)| *weight += step);
            if step.iter().all(|step| step.abs() < 1e-9) {
                break;
            }
        }
        Some(found)
    }

    /// The probability that a call is wanted.
    pub(crate) fn probability(&self, numbers: &[f64]) -> f64 {
        let sum: f64 = self.scaled(numbers).zip(&self.weights).map(|(x, weight)| x * weight).sum();
        logistic(self.bias + sum)
    }

    /// The bias and the weights of the numbers as they are.
    pub(crate) fn plain(&self) -> (f64, Vec<f64>) {
        let weights: Vec<f64> =
            self.weights.iter().zip(&self.spreads).map(|(weight, spread)| weight / spread).collect();
        let shift: f64 = weights.iter().zip(&self.means).map(|(weight, mean)| weight * mean).sum();
        (self.bias - shift, weights)
    }

    fn scaled<'n>(&'n self, numbers: &'n [f64]) -> impl Iterator<Item = f64> + 'n {
        numbers.iter().zip(&self.means).zip(&self.spreads).map(|((x, mean), spread)| (x - mean) / spread)
    }
}

/// Solves a system of linear equations; none where it has no one solution.
pub(super) fn solve(mut lines: Vec<Vec<f64>>, mut right: Vec<f64>) -> Option<Vec<f64>> {
    let n = right.len();
    for at in 0..n {
        let greatest = (at..n).max_by(|&a, &b| {
            let of = |line: usize| lines.get(line).and_then(|line| line.get(at)).map_or(0.0, |x| x.abs());
            of(a).total_cmp(&of(b))
        })?;
        lines.swap(at, greatest);
        right.swap(at, greatest);
        let (pivot, value) = (lines.get(at)?.clone(), *right.get(at)?);
        let head = *pivot.get(at)?;
        if head.abs() < 1e-12 {
            return None;
        }
        for (line, sum) in lines.iter_mut().zip(right.iter_mut()).skip(at + 1) {
            let share = line.get(at)? / head;
            line.iter_mut().zip(&pivot).for_each(|(x, own)| *x -= share * own);
            *sum -= share * value;
        }
    }
    let mut solution = vec![0.0; n];
    for at in (0..n).rev() {
        let line = lines.get(at)?;
        let known: f64 = line.iter().zip(&solution).skip(at + 1).map(|(x, known)| x * known).sum();
        *solution.get_mut(at)? = (right.get(at)? - known) / line.get(at)?;
    }
    Some(solution)
}

/// An area under the curve: the probability that a case of one kind has a higher number than one of the other.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Area {
    pub(crate) area: f64,
    /// Half of its 95 % interval (Hanley and McNeil, 1982).
    pub(crate) within: f64,
}

/// The area between cases that want a call and those that want none; none where one kind is missing.
pub(crate) fn area(cases: &[(f64, bool)]) -> Option<Area> {
    let of = |wanted: bool| -> Vec<f64> {
        cases.iter().filter(|(_, call)| *call == wanted).map(|(x, _)| *x).collect()
    };
    let (calls, answers) = (of(true), of(false));
    if calls.is_empty() || answers.is_empty() {
        return None;
    }
    let (m, n) = (calls.len() as f64, answers.len() as f64);
    let area = calibrate::area(&calls, &answers);
    let (q1, q2) = (area / (2.0 - area), 2.0 * area * area / (1.0 + area));
    let square = area * area;
    let variance = (area * (1.0 - area) + (m - 1.0) * (q1 - square) + (n - 1.0) * (q2 - square)) / (m * n);
    Some(Area { area, within: 1.96 * variance.max(0.0).sqrt() })
}

/// The share of cases that their probability of a wanted call decides right.
pub(crate) fn right(told: &[(f64, bool)]) -> f64 {
    let right = told.iter().filter(|(p, call)| (*p >= 0.5) == *call).count();
    right as f64 / told.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use super::*;

    #[test]
    fn a_fit_finds_the_number_that_tells_and_leaves_the_other() {
        // The first number tells in nine of ten cases; the second is noise.
        let case = |i: u32| {
            let call = i.is_multiple_of(2);
            let tells = if (i / 2).is_multiple_of(10) { !call } else { call };
            (vec![if tells { 3.0 } else { -3.0 }, f64::from(i * 7 % 11)], call)
        };
        let cases: Vec<_> = (0..200).map(case).collect();
        let weights = Weights::fit(&cases).unwrap();
        assert!(weights.weights[0] > 0.8 && weights.weights[1].abs() < 0.1, "{weights:?}");
        assert!(weights.probability(&[3.0, 5.0]) > 0.8 && weights.probability(&[-3.0, 5.0]) < 0.2);
        let (bias, plain) = weights.plain();
        let numbers = [3.0, 5.0];
        let sum = bias + plain.iter().zip(numbers).map(|(weight, x)| weight * x).sum::<f64>();
        assert!((weights.probability(&numbers) - 1.0 / (1.0 + (-sum).exp())).abs() < 1e-9);
        let told: Vec<_> = cases.iter().map(|(x, call)| (weights.probability(x), *call)).collect();
        let found = area(&told).unwrap();
        assert!((0.85..0.96).contains(&found.area) && found.within < 0.06, "{found:?}");
    }

    #[test]
    fn a_fit_takes_cases_of_both_kinds_and_numbers_that_say_nothing() {
        assert_eq!(Weights::fit(&[(vec![1.0], true), (vec![2.0], true)]), None);
        assert_eq!(Weights::fit(&[]), None);
        let flat = Weights::fit(&[(vec![4.0], true), (vec![4.0], false), (vec![4.0], false)]).unwrap();
        assert!((flat.probability(&[4.0]) - 1.0 / 3.0).abs() < 1e-6, "{flat:?}");
        let few = [(vec![1.0], true), (vec![3.0], false), (vec![-1.0], false)];
        let start = Start { bias: -1.0, weights: &[2.0], bias_firmly: 400.0, weights_firmly: 400.0 };
        let (bias, plain) = Weights::fit_from(&few, start).unwrap().plain();
        assert!(
            (plain[0] - 2.0).abs() < 0.5 && (bias + 1.0).abs() < 0.5,
            "three cases say little: {bias} {plain:?}"
        );
        let loose = Start { bias_firmly: 0.1, ..start };
        let (bias, plain) = Weights::fit_from(&few, loose).unwrap().plain();
        assert!((plain[0] - 2.0).abs() < 0.5 && bias < -1.5, "but of the bias alone: {bias} {plain:?}");
        assert_eq!(right(&[(0.5, true), (0.4, true), (0.1, false), (0.9, true)]), 0.75);
        assert_eq!(area(&[(0.5, true)]), None);
        assert_eq!(area(&[(0.5, true), (0.5, false)]).unwrap().area, 0.5);
    }
}
