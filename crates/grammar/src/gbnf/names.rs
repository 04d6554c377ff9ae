//! Beside the parser: the names it has met, and which of them another was meant to be.
//! Invariant: a name has one number, whether it is defined before its first use or after.

use rustc_hash::FxHashMap;

use super::RuleId;

/// Rules are numbered by first mention while reading and by definition in the result.
#[derive(Default)]
pub(crate) struct Names<'t> {
    mentioned: FxHashMap<&'t str, u32>,
    /// By first mention: the name, the place of that mention, and the rule it turned out to be.
    pub(crate) entries: Vec<(&'t str, usize, Option<RuleId>)>,
}

impl<'t> Names<'t> {
    /// The number of a name, which is new or known.
    pub(crate) fn mention(&mut self, name: &'t str, at: usize) -> u32 {
        let next = self.entries.len() as u32;
        let id = *self.mentioned.entry(name).or_insert(next);
        if id == next {
            self.entries.push((name, at, None));
        }
        id
    }
}

/// The name most like `wanted`, if no more than a third of it differs.
pub(crate) fn nearest<'n>(wanted: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let limit = (wanted.len() / 3).min(3);
    let close = names.filter(|name| name.len().abs_diff(wanted.len()) <= limit && name.len() < 64);
    close.map(|name| (distance(wanted, name), name)).filter(|(d, _)| *d <= limit).min().map(|(_, name)| name)
}

/// Edits (insert, delete, replace) from one name to the other.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        if let Some(first) = row.first_mut() {
            *first = left;
        }
        for (y, cell) in b.bytes().zip(row.iter_mut().skip(1)) {
            let best = (diagonal + usize::from(x != y)).min(left + 1).min(*cell + 1);
            diagonal = *cell;
            *cell = best;
            left = best;
        }
    }
    row.last().copied().unwrap_or_default()
}
