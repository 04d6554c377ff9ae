//! Intersections, lazily: a key is a list of parts that hold together, and its shape is what they say as one.
//!
//! Invariant: a key allows exactly the values that every conjunct of it allows. The keys reachable from a schema
//! are finitely many, so recursion through references ends wherever it starts.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::Value;

use super::Schema;
use super::evaluate::Verdict;
use super::part::{Part, PartId, Types};
use super::pattern::{NFA_STATES, Pattern};
use super::shape::Property;
use super::values::Values;
use crate::Limits;
use crate::work::{Work, items};

/// One element of a [`Key`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Conjunct {
    /// A part and all it refers to.
    Whole(PartId),
    /// A part's own keywords alone.
    Own(PartId),
    /// One choice of a part, still open.
    Open(PartId, u32),
    /// One choice of a part, already made in this conjunction.
    Made(PartId, u32),
}

/// Parts that hold together, in the order of the document.
pub(crate) type Key = Vec<Conjunct>;

/// A key with its references followed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Normal {
    /// Parts whose own keywords say something.
    pub(crate) own: Vec<PartId>,
    pub(crate) open: Vec<(PartId, u32)>,
    pub(crate) made: Vec<(PartId, u32)>,
}

impl Normal {
    /// The key that normalizes to this.
    pub(crate) fn key(&self) -> Key {
        let own = self.own.iter().map(|id| Conjunct::Own(*id));
        let made = self.made.iter().map(|(id, choice)| Conjunct::Made(*id, *choice));
        own.chain(made).chain(self.open.iter().map(|(id, choice)| Conjunct::Open(*id, *choice))).collect()
    }
}

/// A key without open choices.
#[derive(Clone, Debug)]
pub(crate) struct Leaf {
    pub(crate) types: Types,
    /// The only values allowed, each checked against the other keywords.
    pub(crate) values: Option<Arc<Values>>,
    pub(crate) not_values: Vec<Arc<Values>>,
    pub(crate) own: Vec<PartId>,
}

impl Leaf {
    /// Whether it excludes a value by listing it.
    pub(crate) fn excludes(&self, value: &Value) -> bool {
        self.not_values.iter().any(|values| values.has(value))
    }

    /// Whether it excludes values of these types.
    pub(crate) fn excludes_any(&self, types: Types) -> bool {
        self.not_values.iter().any(|values| values.types.has(types))
    }
}

/// How often [`Limits::work`] the proofs of one schema may take; what is not proven by then counts as not provable.
const PROOFS: u64 = 2;
/// Listed values up to which what is left of a list is remembered.
const KEPT: usize = 20_000;
/// How deep an impossible value is looked for.
const NEVER_DEPTH: usize = 4;
/// What a look at one key costs, in steps.
const NEVER_STEPS: u64 = 20;

/// States that the automata of one schema's patterns may have before they are determinized, all in all.
const ROOM: u64 = 5 * NFA_STATES;

/// A schema, and parts made up during compilation.
#[derive(Debug)]
pub(crate) struct Arena<'s> {
    pub(crate) schema: &'s Schema,
    extra: Vec<Part>,
    /// What is done beside proofs. Where it is over, results are of no use, and whoever compiles ends with an error.
    pub(crate) work: Work,
    /// Steps that proofs may still take, all in all: a bound on time. Without any, nothing is proven.
    left: Cell<u64>,
    /// Steps that proofs have taken.
    proven: Cell<u64>,
    /// Whether steps are those of a proof.
    pub(super) proving: Cell<bool>,
    /// Parts that the evaluation at hand may still look at.
    pub(super) steps: Cell<u64>,
    /// Whether an evaluation was cut short.
    pub(super) cut: Cell<bool>,
    /// What is left of lists of values, by the parts that hold, and how many values that are.
    kept: RefCell<(FxHashMap<Vec<PartId>, Kept>, usize)>,
    /// Where parts that are but a reference lead in the end.
    targets: RefCell<FxHashMap<PartId, PartId>>,
    /// Patterns whose automata were asked for, by where they are in memory, and the states that others may have.
    automata: RefCell<(FxHashSet<usize>, u64)>,
}

/// What is left of a list of values, and whether some of it is not certain.
type Kept = (Arc<Values>, bool);

impl<'s> Arena<'s> {
    pub(crate) fn new(schema: &'s Schema, limits: &Limits) -> Self {
        Self::for_value(schema, limits, 0)
    }

    /// To go through a value of this size with it.
    pub(crate) fn for_value(schema: &'s Schema, limits: &Limits, size: u64) -> Self {
        Self {
            schema,
            extra: Vec::new(),
            work: Work::new(limits, schema.size.saturating_add(size)),
            left: Cell::new((limits.work as u64).saturating_mul(PROOFS)),
            proven: Cell::new(0),
            proving: Cell::new(false),
            steps: Cell::new(0),
            cut: Cell::new(false),
            kept: RefCell::default(),
            targets: RefCell::default(),
            automata: RefCell::new((FxHashSet::default(), ROOM)),
        }
    }

    /// Takes steps from what is left for proofs; false when there are none left.
    pub(super) fn spend(&self, steps: u64) -> bool {
        let left = self.left.get();
        self.left.set(left.saturating_sub(steps));
        if left > 0 {
            self.proven.set(self.proven.get().saturating_add(steps));
        }
        left > 0
    }

    /// Counts steps, as those of a proof where there is one; false where there are none left.
    pub(crate) fn count(&self, steps: u64) -> bool {
        if self.proving.get() { self.spend(steps) } else { self.work.spend(steps) }
    }

    /// All steps taken.
    pub(crate) fn taken(&self) -> u64 {
        self.work.taken().saturating_add(self.proven.get())
    }

    /// Whether something is proven. What came of it when no steps were left may rest on half of what holds.
    pub(super) fn proven(&self, proof: impl FnOnce() -> bool) -> bool {
        let outer = self.proving.replace(true);
        let holds = proof();
        self.proving.set(outer);
        holds && self.left.get() > 0
    }

    /// Whether there is room for the automaton of a pattern that is not determinized. The answer for a pattern depends
    /// on those before it, not on which of them were made already.
    pub(crate) fn has_room(&self, pattern: &Arc<Pattern>) -> bool {
        let (known, left) = &mut *self.automata.borrow_mut();
        if pattern.states > NFA_STATES {
            return false;
        }
        let place = Arc::as_ptr(pattern).addr();
        if known.contains(&place) {
            return true;
        }
        let Some(rest) = left.checked_sub(pattern.states) else { return false };
        *left = rest;
        known.insert(place);
        self.proven.set(self.proven.get().saturating_add(pattern.states));
        true
    }

    /// Whether a pattern is found in a text; none if that would take too much to tell.
    pub(crate) fn is_match(&self, pattern: &Arc<Pattern>, text: &str) -> Option<bool> {
        let left = if self.proving.get() { self.left.get() } else { self.work.left() };
        if left == 0 || pattern.choices.is_none() && !self.has_room(pattern) {
            return None;
        }
        let (found, steps) = pattern.is_match(text, left);
        self.count(steps);
        found
    }

    pub(crate) fn part(&self, id: PartId) -> Option<&Part> {
        let index = id.index();
        match index.checked_sub(self.schema.parts.len()) {
            None => self.schema.parts.get(index),
            Some(index) => self.extra.get(index),
        }
    }

    /// Adds a part; none when there are too many to number.
    pub(crate) fn add(&mut self, part: Part) -> Option<PartId> {
        let id = u32::try_from(self.schema.parts.len() + self.extra.len()).ok()?;
        self.extra.push(part);
        Some(PartId(id))
    }

    pub(super) fn parts<'a>(&'a self, own: &'a [PartId]) -> impl Iterator<Item = &'a Part> {
        own.iter().filter_map(|id| self.part(*id))
    }

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
