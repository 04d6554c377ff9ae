//! Beside the parser: the names it has met, and which of them another was meant to be.
//! Invariant: a name has one number, whether it is defined before its first use or after.

use super::RuleId;
use crate::work::ForeignMap;

/// Rules are numbered by first mention while reading and by definition in the result.
#[derive(Default)]
pub(crate) struct Names<'t> {
    mentioned: ForeignMap<&'t str, u32>,
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
    let near = close.filter_map(|name| distance(wanted, name, limit).map(|distance| (distance, name)));
    near.min().map(|(_, name)| name)
}

/// Edits (insert, delete, replace) from one name to the other, if there are at most `limit`.
fn distance(a: &str, b: &str, limit: usize) -> Option<usize> {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        // What is further from the diagonal takes more edits than there may be.
        let (from, to) = ((i + 1).saturating_sub(limit), (i + 1 + limit).min(b.len()));
        let first = from.max(1);
        let mut diagonal = row.get(first - 1).copied().unwrap_or(usize::MAX);
        let mut left = if from == 0 { i + 1 } else { limit + 1 };
        if let Some(cell) = row.get_mut(first - 1) {
            *cell = left;
        }
        let mut least = left;
        for (y, cell) in b.bytes().zip(row.iter_mut().skip(1)).take(to).skip(first - 1) {
            let best =
                (diagonal.saturating_add(usize::from(x != y))).min(left + 1).min(cell.saturating_add(1));
            diagonal = *cell;
            *cell = best;
            left = best;
            least = least.min(best);
        }
        if least > limit {
            return None;
        }
    }
    row.last().copied().filter(|distance| *distance <= limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(a: &str, b: &str) -> usize {
        let mut row: Vec<usize> = (0..=b.len()).collect();
        for (i, x) in a.bytes().enumerate() {
            let mut next = vec![i + 1];
            for (j, y) in b.bytes().enumerate() {
                let at = |row: &[usize], j: usize| row.get(j).copied().unwrap_or(usize::MAX / 2);
                next.push((at(&row, j) + usize::from(x != y)).min(at(&next, j) + 1).min(at(&row, j + 1) + 1));
            }
            row = next;
        }
        row.last().copied().unwrap_or_default()
    }

    #[test]
    fn distances_are_exact_up_to_the_limit() {
        let names = [
            "", "a", "ab", "abc", "acb", "bca", "abcd", "xabc", "abxc", "bcd", "abcdefgh", "abdefghi",
            "hgfedcba",
        ];
        for a in names {
            for b in names {
                for limit in 0..4 {
                    let whole = Some(whole(a, b)).filter(|distance| *distance <= limit);
                    assert_eq!(distance(a, b, limit), whole, "{a} {b} {limit}");
                }
            }
        }
    }
}
