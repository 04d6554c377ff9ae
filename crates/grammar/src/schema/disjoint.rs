//! Whether two keys can have a value in common: what makes `oneOf` a plain union.
//!
//! Invariant: `true` is proven; `false` only means that no proof was found.

use super::arena::{Arena, Key, Leaf};
use super::evaluate::Verdict;
use super::part::{PartId, Types};
use super::shape::{ObjectShape, Property};
use super::values::Values;
use crate::work::{ForeignMap, bytes};

/// How deep a common property is compared.
const DEPTH: usize = 3;
/// What comparing two keys costs, in steps.
const STEPS: u64 = 20;
/// Leaves looked at on each side.
const LEAVES: usize = 32;

impl Arena<'_> {
    /// Whether no value satisfies both keys, for certain.
    pub(crate) fn disjoint(&self, a: &Key, b: &Key) -> bool {
        self.proven(|| self.disjoint_at(a, b, 0))
    }

    fn disjoint_at(&self, a: &Key, b: &Key, depth: usize) -> bool {
        if depth > DEPTH || !self.spend(STEPS) {
            return false;
        }
        // A value of both satisfies the intersection, which may be impossible for reasons the pairs do not show.
        let both: Key = a.iter().chain(b).copied().collect();
        if self.is_never(&both) {
            return true;
        }
        let (Some(left), Some(right)) = (self.leaves(a), self.leaves(b)) else { return false };
        left.iter().all(|left| right.iter().all(|right| self.leaves_disjoint(left, right, depth)))
    }

    /// The leaves of a key; none if they are too many.
    fn leaves(&self, key: &Key) -> Option<Vec<Leaf>> {
        let mut pending = vec![key.clone()];
        let mut leaves = Vec::new();
        let mut steps = 0;
        while let Some(key) = pending.pop() {
            steps += 1;
            if steps > LEAVES {
                return None;
            }
            let normal = self.normal(&key);
            if normal.open.is_empty() {
                leaves.push(self.leaf(&normal).0);
            } else {
                pending.extend(self.branches(&normal));
            }
        }
        Some(leaves)
    }

    fn leaves_disjoint(&self, a: &Leaf, b: &Leaf, depth: usize) -> bool {
        let common = a.types.and(b.types);
        if common.is_empty() {
            return true;
        }
        match (&a.values, &b.values) {
            (Some(a), Some(b)) => {
                let (few, many) = if a.len() <= b.len() { (a, b) } else { (b, a) };
                return self.spend(few.size) && !few.iter().any(|value| many.has(value));
            }
            (Some(values), None) => return self.all_refused(values, b),
            (None, Some(values)) => return self.all_refused(values, a),
            (None, None) => {}
        }
        let both = [a.own.as_slice(), b.own.as_slice()].concat();
        let kinds = [Types::NULL, Types::BOOLEAN, Types::NUMBER, Types::STRING, Types::ARRAY, Types::OBJECT];
        kinds.into_iter().filter(|kind| common.has(*kind)).all(|kind| match kind {
            Types::NUMBER => {
                let shape = self.number(&Leaf { own: both.clone(), ..a.clone() });
                match (shape.min, shape.max) {
                    (Some(min), Some(max)) => {
                        min.value > max.value || (min.value == max.value && (min.exclusive || max.exclusive))
                    }
                    _ => false,
                }
            }
            Types::STRING => {
                let shape = self.text(&Leaf { own: both.clone(), ..a.clone() });
                shape.max.is_some_and(|max| max < shape.min)
            }
            Types::ARRAY => self.array(&both).max.is_some_and(|max| max < self.array(&both).min),
            Types::OBJECT => self.objects_disjoint(&a.own, &b.own, &both, depth),
            _ => false,
        })
    }

    fn all_refused(&self, values: &Values, leaf: &Leaf) -> bool {
        if !self.spend(values.size.saturating_mul(1 + leaf.not_values.len() as u64)) {
            return false;
        }
        values.iter().all(|value| {
            let refuses = |part| self.spend(1) && self.evaluate_own(part, value) == Verdict::No;
            !leaf.types.has(Types::of(value)) || leaf.excludes(value) || self.parts(&leaf.own).any(refuses)
        })
    }

    /// Objects differ for certain where a property that one side requires has no value that suits both.
    fn objects_disjoint(&self, a: &[PartId], b: &[PartId], both: &[PartId], depth: usize) -> bool {
        let shape = self.object(both);
        if shape.max.is_some_and(|max| max < shape.min) {
            return true;
        }
        let (left, right) = (self.object(a), self.object(b));
        let (left, right) = (self.by_name(&left), self.by_name(&right));
        shape.properties.iter().filter(|property| property.required).any(|property| {
            let Some(value) = &property.value else { return true };
            if self.is_never(value) {
                return true;
            }
            match (left.get(&*property.name), right.get(&*property.name)) {
                (Some(left), Some(right)) => match (&left.value, &right.value) {
                    (Some(left), Some(right)) => {
                        !left.is_empty() && !right.is_empty() && self.disjoint_at(left, right, depth + 1)
                    }
                    _ => true,
                },
                _ => false,
            }
        })
    }

    fn by_name<'p>(&self, shape: &'p ObjectShape) -> ForeignMap<&'p str, &'p Property> {
        let named = |property: &'p Property| {
            self.spend(bytes(property.name.len()));
            (&*property.name, property)
        };
        shape.properties.iter().map(named).collect()
    }
}
