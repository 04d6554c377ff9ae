//! What each hint brings: the same cases with all hints and with one of them left out.
//!
//! For the packages of this workspace alone: no part of the API.

use std::collections::BTreeMap;

use serde::Serialize;

use super::record::Record;

/// What hints bring, by sets of cases.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Ablation {
    /// How each set goes with all hints.
    pub sets: BTreeMap<String, Base>,
    /// By hint and set, what is lost without it.
    pub hints: BTreeMap<String, BTreeMap<String, Delta>>,
}

/// How a set of cases goes with all hints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Base {
    /// Cases.
    pub n: usize,
    /// Those that passed.
    pub passed: usize,
}

impl Base {
    /// How many of these records passed.
    pub fn of(records: &[Record]) -> Self {
        Self { n: records.len(), passed: records.iter().filter(|record| record.pass).count() }
    }
}

/// What a hint brings for a set of cases, in points of a hundred: the share that passes with it less the share that passes without,
/// with a 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Delta {
    /// Cases that were run both ways.
    pub n: usize,
    /// Points that it brings; below 0 it does harm.
    pub delta: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
}

impl Delta {
    /// The difference between two runs of the same cases. The interval is that of Agresti and Min for paired shares ("Simple improved
    /// confidence intervals for comparing matched proportions", 2005): half a case is added to each kind of outcome, so that a hint
    /// that changes no case has an interval that is wider than nothing.
    ///
    /// ```
    /// use toolgate_lab::Delta;
    ///
    /// // Three cases pass with the hint alone, one without it alone.
    /// let pairs = [(true, false), (true, false), (true, false), (false, true), (true, true), (false, false)];
    /// let delta = Delta::of_pairs(pairs);
    /// assert_eq!((delta.n, delta.delta.round()), (6, 33.0));
    /// assert!(delta.low < 0.0 && delta.high > 60.0, "six cases prove little");
    /// let same = Delta::of_pairs([(true, true); 40]);
    /// assert!(same.delta == 0.0 && same.low < 0.0 && same.high > 0.0);
    /// ```
    pub fn of_pairs(pairs: impl IntoIterator<Item = (bool, bool)>) -> Self {
        let (mut n, mut gained, mut lost) = (0_usize, 0_usize, 0_usize);
        for (with, without) in pairs {
            n += 1;
            gained += usize::from(with && !without);
            lost += usize::from(!with && without);
        }
        let (all, up, down) = (n as f64 + 2.0, gained as f64 + 0.5, lost as f64 + 0.5);
        let middle = (up - down) / all;
        let half = 1.96 * ((up + down) - (up - down).powi(2) / all).sqrt() / all;
        let delta = (gained as f64 - lost as f64) / (n as f64).max(1.0);
        Self { n, delta: delta * 100.0, low: (middle - half) * 100.0, high: (middle + half) * 100.0 }
    }

    /// The difference between the records of two runs, by the cases that both have.
    pub fn of(with: &[Record], without: &[Record]) -> Self {
        let without: BTreeMap<&str, bool> =
            without.iter().map(|record| (record.id.as_str(), record.pass)).collect();
        Self::of_pairs(
            with.iter().filter_map(|record| Some((record.pass, *without.get(record.id.as_str())?))),
        )
    }
}
