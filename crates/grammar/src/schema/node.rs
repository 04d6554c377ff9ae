//! A regular expression as a tree, and sets of code points. The lowest file of what patterns are made of.
//!
//! Invariant: ranges are sorted, apart, and hold no surrogates.

use std::sync::Arc;

use crate::work::items;

/// Inclusive ranges of code points, sorted and apart. Patterns repeat a few of them, which they share.
pub(crate) type Ranges = Arc<[(u32, u32)]>;

/// An element of a pattern.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Node {
    /// One code point of these inclusive ranges, sorted and apart.
    Class(Ranges),
    /// One after the other. What is empty is no item, and is not repeated, so that each of them takes a state.
    Sequence(Vec<Node>),
    Choice(Vec<Node>),
    Repeat {
        item: Box<Node>,
        min: u32,
        max: Option<u32>,
    },
    Look(Look),
}

/// A condition on a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Look {
    Start,
    End,
    WordEdge,
    NotWordEdge,
}

/// Why a pattern is not one of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Not a regular expression.
    Malformed(String),
    /// A regular expression that no finite automaton of ours stands for.
    Unsupported(&'static str),
}

/// All of Unicode but the surrogates.
pub(crate) const ANY: [(u32, u32); 2] = [(0, 0xD7FF), (0xE000, 0x10FFFF)];
pub(crate) const WORD: [(u32, u32); 4] = [(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)];
/// The same set as sorted ranges that neither touch nor hold surrogates.
pub(crate) fn union(mut ranges: Vec<(u32, u32)>) -> Vec<(u32, u32)> {
    ranges.sort_unstable();
    let mut out: Vec<(u32, u32)> = Vec::with_capacity(ranges.len());
    for (low, high) in ranges {
        match out.last_mut() {
            Some(last) if low <= last.1.saturating_add(1) => last.1 = last.1.max(high),
            _ => out.push((low, high)),
        }
    }
    let mut whole = Vec::with_capacity(out.len() + 1);
    for (low, high) in out {
        for (from, to) in ANY {
            if low.max(from) <= high.min(to) {
                whole.push((low.max(from), high.min(to)));
            }
        }
    }
    whole
}

/// Every code point but those of sorted ranges.
pub(crate) fn complement(ranges: &[(u32, u32)]) -> Vec<(u32, u32)> {
    let mut out = Vec::with_capacity(ranges.len() + 1);
    let mut next = 0;
    for (low, high) in ranges {
        if *low > next {
            out.push((next, low - 1));
        }
        next = high + 1;
    }
    if next <= 0x10_FFFF {
        out.push((next, 0x10_FFFF));
    }
    union(out)
}

impl Node {
    /// States that it takes in an automaton that is not determinized.
    pub(super) fn states(&self) -> u64 {
        let sum = |items: &[Self]| items.iter().map(Self::states).fold(0, u64::saturating_add);
        match self {
            Self::Class(_) | Self::Look(_) => 1,
            Self::Sequence(items) => sum(items),
            Self::Choice(branches) => sum(branches).saturating_add(1),
            Self::Repeat { item, min, max } => {
                let (item, min) = (item.states(), u64::from(*min));
                let optional = match max {
                    None => item.saturating_add(1),
                    Some(max) => item.saturating_add(1).saturating_mul(u64::from(*max) - min),
                };
                item.saturating_mul(min).saturating_add(optional)
            }
        }
    }

    /// Its elements, with the ranges of classes.
    pub(super) fn size(&self) -> u64 {
        match self {
            Self::Class(ranges) => items(ranges.len()),
            Self::Look(_) => 1,
            Self::Sequence(items) | Self::Choice(items) => 1 + items.iter().map(Self::size).sum::<u64>(),
            Self::Repeat { item, .. } => 1 + item.size(),
        }
    }

    /// Whether it is the empty text, as it stands.
    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self::Sequence(items) if items.is_empty())
    }

    /// The least and greatest number of code points of a text it matches by itself.
    pub(crate) fn lengths(&self) -> (u64, Option<u64>) {
        match self {
            Self::Class(_) => (1, Some(1)),
            Self::Look(_) => (0, Some(0)),
            Self::Sequence(items) => items.iter().map(Self::lengths).fold((0, Some(0)), |sum, item| {
                (sum.0.saturating_add(item.0), sum.1.zip(item.1).map(|(a, b)| a.saturating_add(b)))
            }),
            Self::Choice(branches) => {
                branches.iter().map(Self::lengths).fold((u64::MAX, Some(0)), |best, branch| {
                    (best.0.min(branch.0), best.1.zip(branch.1).map(|(a, b)| a.max(b)))
                })
            }
            Self::Repeat { item, min, max } => {
                let (least, most) = item.lengths();
                let most = match (most, max) {
                    (Some(0), _) | (_, Some(0)) => Some(0),
                    (Some(most), Some(max)) => Some(most.saturating_mul(u64::from(*max))),
                    _ => None,
                };
                (least.saturating_mul(u64::from(*min)), most)
            }
        }
    }
}
