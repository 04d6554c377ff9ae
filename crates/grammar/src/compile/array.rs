//! Lists: a prefix of positions, then as many further elements as the bounds allow.
//!
//! Invariant: counts are counters of the grammar, never copies, so size does not depend on the bounds.

use crate::schema::PartId;
use crate::{Error, Expr};

use super::{Compiler, longer, sequence};

/// Nesting of optional positions before a rule of its own is made.
const NESTED: usize = 12;

impl Compiler<'_, '_> {
    /// A list; `None` if none satisfies.
    pub(super) fn array(&mut self, own: &[PartId], name: &str) -> Result<Option<Expr>, Error> {
        let shape = self.arena.array(own);
        self.spend(1)?;
        let mut max = shape.max;
        let wanted = max.map_or(shape.prefix.len(), |max| {
            shape.prefix.len().min(usize::try_from(max).unwrap_or(usize::MAX))
        });
        let mut prefix = Vec::new();
        for (i, key) in shape.prefix.into_iter().take(wanted).enumerate() {
            match self.node(key, &longer(name, &i.to_string()))? {
                Some(expr) => prefix.push(expr),
                None => {
                    // Nothing may stand at this position, so the list ends before it.
                    max = Some(i as u64);
                    break;
                }
            }
        }
        let length = prefix.len() as u64;
        let rest = if max.is_some_and(|max| max <= length) {
            None
        } else {
            self.node(shape.rest, &longer(name, "item"))?
        };
        let max = if rest.is_some() { max } else { Some(max.map_or(length, |max| max.min(length))) };
        if max.is_some_and(|max| max < shape.min) {
            return Ok(None);
        }
        let comma = self.json.comma(self.builder);
        let gap = self.json.gap(self.builder);
        // Built from the end: what may follow the first `i` elements.
        let mut tail = match &rest {
            None => Expr::empty(),
            Some(item) => {
                let min = shape.min.saturating_sub(length);
                let max = max.map(|max| max.saturating_sub(length));
                if prefix.is_empty() {
                    return Ok(Some(self.plain(item.clone(), min, max)));
                }
                repeat(sequence([comma.clone(), item.clone()]), min, max)
            }
        };
        let mut nested = 0;
        // Elements that must be there stand side by side, and are put together once; last first.
        let mut required: Vec<Expr> = Vec::new();
        for (i, item) in prefix.into_iter().enumerate().rev() {
            self.spend(2)?;
            let lead = if i == 0 { Expr::empty() } else { comma.clone() };
            if (i as u64) < shape.min {
                required.extend([item, lead]);
                continue;
            }
            let body = sequence([lead, item, tail]);
            nested += 1;
            tail = if nested % NESTED == 0 {
                self.shared(&longer(name, &format!("from-{i}")), body)?.optional()
            } else {
                body.optional()
            };
        }
        if !required.is_empty() {
            tail = sequence(required.into_iter().rev().chain([tail]));
        }
        let items = match tail {
            Expr::Repeat { item, min: 0, max: Some(1) } => sequence([*item, gap.clone()]).optional(),
            other => sequence([other, gap.clone()]),
        };
        Ok(Some(sequence([Expr::literal("["), gap, items, Expr::literal("]")])))
    }

    /// Elements that are all alike.
    fn plain(&mut self, item: Expr, min: u64, max: Option<u64>) -> Expr {
        let comma = self.json.comma(self.builder);
        let gap = self.json.gap(self.builder);
        let more = repeat(
            sequence([comma, item.clone()]),
            min.saturating_sub(1),
            max.map(|max| max.saturating_sub(1)),
        );
        let items = sequence([item, more, gap.clone()]);
        let items = if min == 0 { items.optional() } else { items };
        sequence([Expr::literal("["), gap, items, Expr::literal("]")])
    }
}

/// A repetition, simpler where the bounds allow.
pub(super) fn repeat(item: Expr, min: u64, max: Option<u64>) -> Expr {
    match (min, max) {
        (_, Some(0)) => Expr::empty(),
        (1, Some(1)) => item,
        _ => item.repeat(min, max),
    }
}
