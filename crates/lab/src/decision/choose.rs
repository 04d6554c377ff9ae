//! Conditional logit: weights of numbers that make the right ones of several alternatives likeliest (McFadden, 1974).

use super::fit::solve;

/// Steps of Newton's method. It ends in some ten.
const STEPS: usize = 60;
/// A step that makes nothing better is halved, so often at most.
const HALVED: i32 = 30;

/// A way to go on: its numbers, and whether it is a right one.
pub(crate) type Alternative = (Vec<f64>, bool);

/// What a fit is held to: each weight, as firmly as by so many cases in which every alternative is as likely. One that is not free stays
/// as it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held<'s> {
    pub(crate) start: &'s [f64],
    pub(crate) free: &'s [bool],
    pub(crate) firmly: f64,
}

/// Weights that make the right alternatives of these cases likeliest. None where no case tells right from wrong.
pub(crate) fn fit_choice(cases: &[Vec<Alternative>], to: Held<'_>) -> Option<Vec<f64>> {
    let tells = |case: &&Vec<Alternative>| {
        let right = case.iter().filter(|(_, right)| *right).count();
        (1..case.len()).contains(&right)
    };
    let cases: Vec<&[Alternative]> = cases.iter().filter(tells).map(Vec::as_slice).collect();
    if cases.is_empty() {
        return None;
    }
    let firmly: Vec<f64> = variances(&cases, to.start.len())
        .into_iter()
        .map(|variance| to.firmly * variance.max(1e-6))
        .collect();
    let off = |weights: &[f64]| -> Vec<f64> {
        weights.iter().zip(to.start).map(|(now, start)| now - start).collect()
    };
    let worth = |weights: &[f64]| -> f64 {
        let held: f64 = off(weights).iter().zip(&firmly).map(|(off, firmly)| firmly * off * off / 2.0).sum();
        cases.iter().map(|case| likelihood(case, weights)).sum::<f64>() - held
    };
    let mut found = to.start.to_vec();
    for _ in 0..STEPS {
        let step = step(&cases, &found, &off(&found), &firmly, to.free)?;
        if step.iter().all(|step| step.abs() < 1e-6) {
            break;
        }
        let before = worth(&found);
        let moved = |halved: i32| -> Vec<f64> {
            let share = 0.5_f64.powi(halved);
            found.iter().zip(&step).map(|(weight, step)| weight + share * step).collect()
        };
        let Some(better) = (0..HALVED).map(moved).find(|weights| worth(weights) > before) else { break };
        found = better;
    }
    Some(found)
}

/// A step of Newton's method; 0 for a weight that is not free. What right alternatives share among themselves is taken as it is, so that
/// the curvature is that of a hill.
fn step(
    cases: &[&[Alternative]],
    weights: &[f64],
    off: &[f64],
    firmly: &[f64],
    free: &[bool],
) -> Option<Vec<f64>> {
    let width = weights.len();
    let (mut slope, mut curvature) = (vec![0.0; width], vec![vec![0.0; width]; width]);
    for case in cases {
        let all = shares(case, weights);
        let right: f64 = sum_of_right(case, &all);
        let of_right: Vec<f64> = all
            .iter()
            .zip(*case)
            .map(|(p, (_, is))| if *is { p / right.max(f64::MIN_POSITIVE) } else { 0.0 })
            .collect();
        let (mean, wanted) = (mean(case, &all, width), mean(case, &of_right, width));
        slope
            .iter_mut()
            .zip(wanted.iter().zip(&mean))
            .for_each(|(sum, (wanted, mean))| *sum += wanted - mean);
        for (p, (numbers, _)) in all.iter().zip(*case) {
            let apart: Vec<f64> = numbers.iter().zip(&mean).map(|(x, mean)| x - mean).collect();
            for (line, x) in curvature.iter_mut().zip(&apart) {
                line.iter_mut().zip(&apart).for_each(|(sum, y)| *sum += p * x * y);
            }
        }
    }
    for (at, line) in curvature.iter_mut().enumerate() {
        let is_free = free.get(at) == Some(&true);
        if !is_free {
            line.iter_mut().for_each(|sum| *sum = 0.0);
        }
        if let (Some(own), Some(firmly), Some(slope), Some(off)) =
            (line.get_mut(at), firmly.get(at), slope.get_mut(at), off.get(at))
        {
            *own = if is_free { *own + firmly } else { 1.0 };
            *slope = if is_free { *slope - firmly * off } else { 0.0 };
        }
    }
    solve(curvature, slope)
}

/// How likely the right alternatives of a case are by these weights, as a logarithm.
fn likelihood(case: &[Alternative], weights: &[f64]) -> f64 {
    sum_of_right(case, &shares(case, weights)).max(f64::MIN_POSITIVE).ln()
}

fn sum_of_right(case: &[Alternative], shares: &[f64]) -> f64 {
    case.iter().zip(shares).filter(|((_, right), _)| *right).map(|(_, share)| share).sum()
}

/// The probability of each alternative by these weights.
fn shares(case: &[Alternative], weights: &[f64]) -> Vec<f64> {
    let sum = |(numbers, _): &Alternative| -> f64 {
        numbers.iter().zip(weights).map(|(x, weight)| x * weight).sum()
    };
    let sums: Vec<f64> = case.iter().map(sum).collect();
    let greatest = sums.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let odds: Vec<f64> = sums.iter().map(|sum| (sum - greatest).exp()).collect();
    let all: f64 = odds.iter().sum();
    odds.into_iter().map(|odds| odds / all).collect()
}

/// The mean of each number, of alternatives with these shares.
fn mean(case: &[Alternative], shares: &[f64], width: usize) -> Vec<f64> {
    let mut mean = vec![0.0; width];
    for ((numbers, _), share) in case.iter().zip(shares) {
        mean.iter_mut().zip(numbers).for_each(|(mean, x)| *mean += share * x);
    }
    mean
}

/// How far each number is from its mean of the case, as a mean of squares over all alternatives.
fn variances(cases: &[&[Alternative]], width: usize) -> Vec<f64> {
    let (mut sums, mut n) = (vec![0.0; width], 0.0);
    for case in cases {
        let even = vec![1.0 / case.len() as f64; case.len()];
        let mean = mean(case, &even, width);
        for (numbers, _) in *case {
            sums.iter_mut()
                .zip(numbers.iter().zip(&mean))
                .for_each(|(sum, (x, mean))| *sum += (x - mean).powi(2));
            n += 1.0;
        }
    }
    sums.into_iter().map(|sum| sum / f64::max(n, 1.0)).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use super::*;

    /// Three alternatives: the first number tells the right one in nine of ten cases, the second is the same for all, the third noise.
    fn cases() -> Vec<Vec<Alternative>> {
        let case = |i: u32| {
            let right = i % 3;
            let told = if (i / 3).is_multiple_of(10) { (right + 1) % 3 } else { right };
            let alternative = |at: u32| {
                let noise = f64::from((i * 7 + at * 5) % 11);
                (vec![if at == told { 2.0 } else { 0.0 }, f64::from(i), noise], at == right)
            };
            (0..3).map(alternative).collect()
        };
        (0..300).map(case).collect()
    }

    fn fit(cases: &[Vec<Alternative>], start: [f64; 3], free: [bool; 3], firmly: f64) -> Option<Vec<f64>> {
        fit_choice(cases, Held { start: &start, free: &free, firmly })
    }

    #[test]
    fn a_fit_finds_the_number_that_tells_the_right_alternative() {
        let found = fit(&cases(), [0.0; 3], [true; 3], 1.0).unwrap();
        // Of three, one is right with odds of 9 to a half each: a difference of 2 weighs ln 18.
        assert!((found[0] - 18.0_f64.ln() / 2.0).abs() < 0.1, "{found:?}");
        assert!(found[1].abs() < 1e-3 && found[2].abs() < 0.05, "{found:?}");
    }

    #[test]
    fn few_cases_leave_the_weights_that_a_fit_is_held_to() {
        let few = &cases()[..3];
        let start = [0.5, 0.0, 0.2];
        let held = fit(few, start, [true; 3], 1e4).unwrap();
        assert!(held.iter().zip(start).all(|(found, start)| (found - start).abs() < 0.05), "{held:?}");
        let fixed = fit(&cases(), [0.0, 0.0, 0.7], [true, true, false], 1.0).unwrap();
        assert!(fixed[2] == 0.7 && fixed[0] > 0.5, "{fixed:?}");
    }

    #[test]
    fn several_alternatives_may_be_right_and_a_case_may_tell_nothing() {
        let both = vec![(vec![1.0], true), (vec![1.0], true), (vec![0.0], false)];
        let all = vec![(vec![1.0], true), (vec![0.0], true)];
        let of = |cases: &[Vec<Alternative>]| {
            fit_choice(cases, Held { start: &[0.0], free: &[true], firmly: 1.0 })
        };
        assert!(of(&[both.clone(), both]).unwrap()[0] > 0.5);
        assert_eq!((of(&[all]), of(&[])), (None, None));
    }
}
