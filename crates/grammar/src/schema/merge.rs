//! Intersections, lazily: a key is a list of parts that hold together, and its shape is what they say as one.
//!
//! Invariant: a key allows exactly the values that every conjunct of it allows. The keys reachable from a schema
//! are finitely many, so recursion through references ends wherever it starts.

use std::sync::Arc;

use rustc_hash::FxHashSet;
use serde_json::Value;

use super::arena::{Arena, Conjunct, Kept, Key, Leaf, Normal};
use super::evaluate::Verdict;
use super::part::{PartId, Types};
use super::shape::Property;
use super::values::Values;
use crate::work::items;

/// Listed values up to which what is left of a list is remembered.
const KEPT: usize = 20_000;
/// How deep an impossible value is looked for.
const NEVER_DEPTH: usize = 4;
/// What a look at one key costs, in steps.
const NEVER_STEPS: u64 = 20;

impl Arena<'_> {
    /// The same key, where it is but a reference, by what it refers to.
    pub(crate) fn resolved(&self, key: Key) -> Key {
        match key.as_slice() {
            [Conjunct::Whole(id)] => vec![Conjunct::Whole(self.target(*id))],
            _ => key,
        }
    }

    /// Where a part that is but a reference leads; itself where that is in a circle.
    fn target(&self, id: PartId) -> PartId {
        let mut known = self.targets.borrow_mut();
        let mut way = Vec::new();
        let mut at = id;
        while self.count(1) {
            if let Some(found) = known.get(&at) {
                at = *found;
                break;
            }
            let Some(part) = self.part(at) else { break };
            let [also] = part.also.as_slice() else { break };
            if !part.says_nothing() || !part.choices.is_empty() {
                break;
            }
            // Whoever comes by here again has gone in a circle.
            known.insert(at, at);
            way.push(at);
            at = *also;
        }
        known.extend(way.into_iter().map(|passed| (passed, at)));
        at
    }

    /// Follows the references of a key.
    pub(crate) fn normal(&self, key: &[Conjunct]) -> Normal {
        let mut normal = Normal::default();
        let mut seen: FxHashSet<Conjunct> = FxHashSet::default();
        let mut stack: Vec<Conjunct> = key.iter().rev().copied().collect();
        for conjunct in key {
            if let Conjunct::Made(id, choice) = conjunct {
                normal.made.push((*id, *choice));
                // A choice that is made is not open again, wherever it is met.
                seen.insert(Conjunct::Open(*id, *choice));
            }
        }
        while let Some(conjunct) = stack.pop()
            && self.count(1)
        {
            if !seen.insert(conjunct) {
                continue;
            }
            match conjunct {
                Conjunct::Own(id) => {
                    if self.part(id).is_some_and(|part| !part.says_nothing()) {
                        normal.own.push(id);
                    }
                }
                Conjunct::Open(id, choice) => normal.open.push((id, choice)),
                Conjunct::Made(..) => {}
                Conjunct::Whole(id) => {
                    let Some(part) = self.part(id) else { continue };
                    let choices = u32::try_from(part.choices.len()).unwrap_or(u32::MAX);
                    stack.extend((0..choices).rev().map(|choice| Conjunct::Open(id, choice)));
                    stack.extend(part.also.iter().rev().map(|also| Conjunct::Whole(self.target(*also))));
                    stack.push(Conjunct::Own(id));
                }
            }
        }
        normal
    }

    /// The keys that the first open choice of `normal` leaves, one a branch.
    pub(crate) fn branches(&self, normal: &Normal) -> Vec<Key> {
        let Some((id, choice)) = normal.open.first().copied() else { return Vec::new() };
        let Some(choices) = self.part(id).and_then(|part| part.choices.get(choice as usize)) else {
            return Vec::new();
        };
        let length = normal.own.len() + normal.made.len() + normal.open.len();
        if !self.count(items(2 * length).saturating_mul(choices.branches.len() as u64)) {
            return Vec::new();
        }
        choices
            .branches
            .iter()
            .map(|branch| {
                if normal.own.is_empty() && normal.open.len() == 1 && normal.made.is_empty() {
                    return vec![Conjunct::Whole(*branch)];
                }
                let mut key: Key = normal.own.iter().map(|id| Conjunct::Own(*id)).collect();
                key.extend(normal.made.iter().map(|(id, choice)| Conjunct::Made(*id, *choice)));
                key.push(Conjunct::Made(id, choice));
                key.push(Conjunct::Whole(*branch));
                key.extend(normal.open.iter().skip(1).map(|(id, choice)| Conjunct::Open(*id, *choice)));
                key
            })
            .collect()
    }

    /// What a key without open choices says, and whether some of the values it lists could not be decided.
    pub(crate) fn leaf(&self, normal: &Normal) -> (Leaf, bool) {
        self.count(normal.own.len() as u64);
        let mut types = Types::ALL;
        let mut lists: Vec<&Arc<Values>> = Vec::new();
        let mut not_values: Vec<Arc<Values>> = Vec::new();
        for part in self.parts(&normal.own) {
            types = if part.never { Types::NONE } else { types.and(part.types.unwrap_or(Types::ALL)) };
            lists.extend(&part.values);
            not_values.extend(part.not_values.iter().cloned());
        }
        let mut leaf = Leaf { types, values: None, not_values, own: normal.own.clone() };
        let mut undecided = false;
        if let Some((first, others)) = lists.split_first() {
            let known = self.kept.borrow().0.get(&normal.own).cloned();
            let (kept, open) = known.unwrap_or_else(|| self.listed(&leaf, first, others));
            undecided = open;
            leaf.values = Some(kept);
        }
        (leaf, undecided)
    }

    /// What is left of a list where other lists and keywords hold as well, and whether some of it is not certain.
    fn listed(&self, leaf: &Leaf, first: &Arc<Values>, others: &[&Arc<Values>]) -> Kept {
        let lists = 1 + others.len() as u64 + leaf.not_values.len() as u64;
        if !self.count(first.size.saturating_mul(lists)) {
            return (Arc::clone(first), true);
        }
        let candidates = first.iter().filter(|value| {
            leaf.types.has(Types::of(value))
                && others.iter().all(|list| list.has(value))
                && !leaf.excludes(value)
        });
        let (kept, open) = self.kept(candidates, &leaf.own);
        // What nothing refuses is the list itself, which then is neither copied nor written twice.
        let whole = kept.len() == first.len();
        let kept = if whole {
            Arc::clone(first)
        } else {
            Arc::new(Values::new(kept.into_iter().cloned().collect()))
        };
        let made = (kept, open);
        let (known, size) = &mut *self.kept.borrow_mut();
        if *size > KEPT {
            known.clear();
            *size = 0;
        }
        *size += made.0.len() + 1;
        known.insert(leaf.own.clone(), made.clone());
        made
    }

    /// The values that the own keywords of parts do not refuse, and whether some of them are not certain.
    fn kept<'v>(&self, values: impl Iterator<Item = &'v Value>, own: &[PartId]) -> (Vec<&'v Value>, bool) {
        let mut open = false;
        let mut kept = Vec::new();
        for value in values {
            let verdict = self.verdict(own, value);
            open |= verdict == Verdict::Maybe;
            if verdict != Verdict::No {
                kept.push(value);
            }
        }
        (kept, open)
    }

    /// Whether a value satisfies the own keywords of parts, their lists of values aside.
    fn verdict(&self, own: &[PartId], value: &Value) -> Verdict {
        let mut verdict = Verdict::Yes;
        for part in self.parts(own) {
            if part.constrains_text()
                || part.constrains_numbers()
                || part.constrains_arrays()
                || part.constrains_objects()
            {
                if !self.spend(1) {
                    return Verdict::Maybe;
                }
                verdict = match (verdict, self.evaluate_unlisted(part, value)) {
                    (_, Verdict::No) => return Verdict::No,
                    (Verdict::Maybe, _) | (_, Verdict::Maybe) => Verdict::Maybe,
                    _ => Verdict::Yes,
                };
            }
        }
        verdict
    }

    /// How far a value is from satisfying a key: 0 if it does, 1 if it may, 2 if it does not.
    pub(crate) fn distance(&self, key: &[Conjunct], value: &Value) -> u8 {
        let verdict = |conjunct: &Conjunct| match conjunct {
            Conjunct::Whole(id) => self.evaluate(*id, value),
            Conjunct::Own(id) => self.part(*id).map_or(Verdict::Maybe, |part| self.evaluate_own(part, value)),
            Conjunct::Open(id, choice) => {
                let choice = self.part(*id).and_then(|part| part.choices.get(*choice as usize));
                let branches = choice.map(|choice| choice.branches.as_slice()).unwrap_or_default();
                let refused = |branch: &PartId| self.evaluate(*branch, value) == Verdict::No;
                if branches.iter().all(refused) { Verdict::No } else { Verdict::Yes }
            }
            Conjunct::Made(..) => Verdict::Yes,
        };
        key.iter()
            .map(|conjunct| match verdict(conjunct) {
                Verdict::Yes => 0,
                Verdict::Maybe => 1,
                Verdict::No => 2,
            })
            .max()
            .unwrap_or(0)
    }

    /// Whether it is certain, without looking deep, that nothing satisfies a key.
    pub(crate) fn is_never(&self, key: &[Conjunct]) -> bool {
        self.proven(|| self.is_never_at(key, 0))
    }

    fn is_never_at(&self, key: &[Conjunct], depth: usize) -> bool {
        if depth > NEVER_DEPTH || !self.spend(NEVER_STEPS) {
            return false;
        }
        let normal = self.normal(key);
        if self.parts(&normal.own).any(|part| part.never) {
            return true;
        }
        let (leaf, _) = self.leaf(&normal);
        if leaf.types.is_empty() || leaf.values.as_ref().is_some_and(|values| values.is_empty()) {
            return true;
        }
        if leaf.types == Types::OBJECT && leaf.values.is_none() {
            let required = self.parts(&normal.own).any(|part| !part.object.required.is_empty());
            if required {
                let object = self.object(&normal.own);
                let impossible = |property: &Property| {
                    property.required
                        && property.value.as_ref().is_none_or(|value| self.is_never_at(value, depth + 1))
                };
                if object.properties.iter().any(impossible) {
                    return true;
                }
            }
        }
        if normal.open.is_empty() || depth + 2 > NEVER_DEPTH {
            return false;
        }
        self.branches(&normal).iter().all(|branch| self.is_never_at(branch, depth + 1))
    }
}
