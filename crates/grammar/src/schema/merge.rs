//! Intersections, lazily: a key is a list of parts that hold together, and its shape is what they say as one.
//!
//! Invariant: a key allows exactly the values that every conjunct of it allows. The keys reachable from a schema
//! are finitely many, so recursion through references ends wherever it starts.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::Value;

use super::decimal::same;
use super::evaluate::Verdict;
use super::part::{Bound, Part, PartId, PatternUse, Types};
use super::pattern::Pattern;
use super::{Decimal, Schema};

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
    pub(crate) values: Option<Arc<Vec<Value>>>,
    pub(crate) not_values: Vec<Value>,
    pub(crate) own: Vec<PartId>,
}

/// What holds of a string.
#[derive(Clone, Debug, Default)]
pub(crate) struct TextShape {
    pub(crate) min: u64,
    pub(crate) max: Option<u64>,
    pub(crate) patterns: Vec<PatternUse>,
    pub(crate) excluded: Vec<String>,
}

/// What holds of a number.
#[derive(Clone, Debug, Default)]
pub(crate) struct NumberShape {
    pub(crate) min: Option<Bound>,
    pub(crate) max: Option<Bound>,
    /// Each with the pointer of its part.
    pub(crate) multiple_of: Vec<(Decimal, String)>,
    /// Whether it has to fit 32 bits of floating point.
    pub(crate) single: bool,
}

/// What holds of an array.
#[derive(Clone, Debug, Default)]
pub(crate) struct ArrayShape {
    pub(crate) prefix: Vec<Key>,
    /// Of every element after the prefix; empty for any value.
    pub(crate) rest: Key,
    pub(crate) min: u64,
    pub(crate) max: Option<u64>,
}

/// What holds of an object.
#[derive(Clone, Debug, Default)]
pub(crate) struct ObjectShape {
    /// In the order they are written.
    pub(crate) properties: Vec<Property>,
    pub(crate) free: Vec<FreeKeys>,
    /// Of every key that is not among the properties.
    pub(crate) names: Vec<PartId>,
    pub(crate) min: u64,
    pub(crate) max: Option<u64>,
    /// Keyword pointers that are let go, with the reason.
    pub(crate) weakened: Vec<(String, &'static str)>,
    /// Whether some part says what becomes of undeclared keys.
    pub(crate) speaks_of_undeclared: bool,
}

/// A declared or required property.
#[derive(Clone, Debug)]
pub(crate) struct Property {
    pub(crate) name: Arc<str>,
    pub(crate) required: bool,
    /// Of its value; `None` where the name itself is forbidden.
    pub(crate) value: Option<Key>,
}

/// Undeclared keys that are treated alike.
#[derive(Clone, Debug)]
pub(crate) struct FreeKeys {
    /// Each with the pointer of the subschema that names it.
    pub(crate) matching: Vec<(Arc<Pattern>, Arc<str>)>,
    pub(crate) not_matching: Vec<(Arc<Pattern>, Arc<str>)>,
    pub(crate) value: Key,
}

/// Key patterns of one object that are combined exactly; each doubles the kinds of keys.
const PATTERNS: usize = 5;
/// Steps that the proofs of one schema may take; what is not proven by then counts as not provable.
const WORK: u64 = 4_000_000;
/// Listed values up to which what is left of a list is remembered.
const KEPT: usize = 20_000;
/// How deep an impossible value is looked for.
const NEVER_DEPTH: usize = 4;
/// What a look at one key costs, in steps.
const NEVER_STEPS: u64 = 20;

/// A schema, and parts made up during compilation.
#[derive(Debug)]
pub(crate) struct Arena<'s> {
    pub(crate) schema: &'s Schema,
    extra: Vec<Part>,
    /// Steps that proofs may still take, all in all: a bound on time.
    work: Cell<u64>,
    /// Parts that the evaluation at hand may still look at.
    pub(super) steps: Cell<u64>,
    /// What is left of lists of values, by the parts that hold.
    kept: RefCell<FxHashMap<Vec<PartId>, Kept>>,
}

/// What is left of a list of values, and whether some of it is not certain.
type Kept = (Arc<Vec<Value>>, bool);

/// A list of values to be looked up in, however long it is.
struct Listed<'v> {
    texts: FxHashSet<&'v str>,
    others: Vec<&'v Value>,
}

impl<'v> Listed<'v> {
    fn new(values: &'v [Value]) -> Self {
        let texts = values.iter().filter_map(Value::as_str).collect();
        Self { texts, others: values.iter().filter(|value| !value.is_string()).collect() }
    }

    fn has(&self, value: &Value) -> bool {
        match value.as_str() {
            Some(text) => self.texts.contains(text),
            None => self.others.iter().any(|other| same(other, value)),
        }
    }
}

impl<'s> Arena<'s> {
    pub(crate) fn new(schema: &'s Schema) -> Self {
        Self {
            schema,
            extra: Vec::new(),
            work: Cell::new(WORK),
            steps: Cell::new(0),
            kept: RefCell::default(),
        }
    }

    /// Takes steps from what is left for proofs; false when there are none left.
    pub(super) fn spend(&self, steps: u64) -> bool {
        let left = self.work.get();
        self.work.set(left.saturating_sub(steps));
        left > 0
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

    fn parts<'a>(&'a self, own: &'a [PartId]) -> impl Iterator<Item = &'a Part> {
        own.iter().filter_map(|id| self.part(*id))
    }

    /// The same key, where it is but a reference, by what it refers to.
    pub(crate) fn resolved(&self, key: Key) -> Key {
        let mut key = key;
        for _ in 0..64 {
            let [Conjunct::Whole(id)] = key.as_slice() else { break };
            let Some(part) = self.part(*id) else { break };
            let [also] = part.also.as_slice() else { break };
            if !part.says_nothing() || !part.choices.is_empty() {
                break;
            }
            key = vec![Conjunct::Whole(*also)];
        }
        key
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
        while let Some(conjunct) = stack.pop() {
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
                    stack.extend(part.also.iter().rev().map(|also| Conjunct::Whole(*also)));
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
        let mut types = Types::ALL;
        let mut lists: Vec<&Arc<Vec<Value>>> = Vec::new();
        let mut not_values: Vec<Value> = Vec::new();
        let mut undecided = false;
        for part in self.parts(&normal.own) {
            types = if part.never { Types::NONE } else { types.and(part.types.unwrap_or(Types::ALL)) };
            lists.extend(&part.values);
            not_values.extend(part.not_values.iter().flat_map(|values| values.iter().cloned()));
        }
        let values = lists.split_first().map(|(first, others)| {
            let known = self.kept.borrow().get(&normal.own).cloned();
            let (kept, open) = known.unwrap_or_else(|| {
                let others: Vec<Listed<'_>> = others.iter().map(|list| Listed::new(list)).collect();
                let excluded = Listed::new(&not_values);
                let candidates = first.iter().filter(|value| {
                    types.has(Types::of(value))
                        && others.iter().all(|list| list.has(value))
                        && !excluded.has(value)
                });
                let (kept, open) = self.kept(candidates, &normal.own);
                // What nothing refuses is the list itself, which then is neither copied nor written twice.
                let whole = kept.len() == first.len();
                let kept =
                    if whole { Arc::clone(first) } else { Arc::new(kept.into_iter().cloned().collect()) };
                let made = (kept, open);
                let mut known = self.kept.borrow_mut();
                if known.values().map(|(kept, _)| kept.len()).sum::<usize>() > KEPT {
                    known.clear();
                }
                known.insert(normal.own.clone(), made.clone());
                made
            });
            undecided = open;
            kept
        });
        (Leaf { types, values, not_values, own: normal.own.clone() }, undecided)
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
        self.is_never_at(key, 0)
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

    pub(crate) fn text(&self, leaf: &Leaf) -> TextShape {
        let mut shape = TextShape::default();
        for part in self.parts(&leaf.own) {
            shape.min = shape.min.max(part.text.min);
            shape.max = least(shape.max, part.text.max);
            for used in &part.text.patterns {
                let twice =
                    |other: &PatternUse| other.pattern == used.pattern && other.negated == used.negated;
                if !shape.patterns.iter().any(twice) {
                    shape.patterns.push(used.clone());
                }
            }
        }
        shape.excluded =
            leaf.not_values.iter().filter_map(|value| value.as_str().map(str::to_owned)).collect();
        shape
    }

    pub(crate) fn number(&self, leaf: &Leaf) -> NumberShape {
        let mut shape = NumberShape::default();
        for part in self.parts(&leaf.own) {
            for bound in &part.number.min {
                let tighter = shape.min.as_ref().is_none_or(|old| {
                    bound.value > old.value || (bound.value == old.value && bound.exclusive)
                });
                if tighter {
                    shape.min = Some(bound.clone());
                }
            }
            for bound in &part.number.max {
                let tighter = shape.max.as_ref().is_none_or(|old| {
                    bound.value < old.value || (bound.value == old.value && bound.exclusive)
                });
                if tighter {
                    shape.max = Some(bound.clone());
                }
            }
            shape.single |= part.number.single;
            if let Some(unit) = &part.number.multiple_of {
                shape.multiple_of.push((unit.clone(), part.pointer.clone()));
            }
        }
        shape
    }

    pub(crate) fn array(&self, own: &[PartId]) -> ArrayShape {
        let mut shape = ArrayShape::default();
        let length = self.parts(own).map(|part| part.array.prefix.len()).max().unwrap_or(0);
        for i in 0..length {
            let at = |part: &Part| part.array.prefix.get(i).copied().or(part.array.items);
            shape.prefix.push(self.parts(own).filter_map(at).map(Conjunct::Whole).collect());
        }
        shape.rest = self.parts(own).filter_map(|part| part.array.items).map(Conjunct::Whole).collect();
        shape.min = self.parts(own).map(|part| part.array.min).max().unwrap_or(0);
        shape.max = self.parts(own).map(|part| part.array.max).fold(None, least);
        shape
    }

    pub(crate) fn object(&self, own: &[PartId]) -> ObjectShape {
        let mut shape = ObjectShape::default();
        let parts: Vec<&Part> = self.parts(own).filter(|part| part.constrains_objects()).collect();
        let mut patterns: Vec<&Arc<Pattern>> = Vec::new();
        for part in &parts {
            let object = &part.object;
            shape.min = shape.min.max(object.min);
            shape.max = least(shape.max, object.max);
            shape.names.extend(object.names);
            shape.speaks_of_undeclared |=
                object.additional.is_some() || !object.patterns.is_empty() || object.unknown_patterns;
            for (pattern, _) in &object.patterns {
                if !patterns.contains(&pattern) {
                    patterns.push(pattern);
                }
            }
        }
        // Names that are required are written with the declared ones, after them.
        let declared = parts.iter().flat_map(|part| part.object.properties.iter().map(|(name, _)| name));
        let required = parts.iter().flat_map(|part| part.object.required.iter());
        let mut seen: FxHashSet<&str> = FxHashSet::default();
        let needed: FxHashSet<&str> = required.clone().map(|name| &**name).collect();
        let lookup: Vec<FxHashMap<&str, PartId>> = parts
            .iter()
            .map(|part| part.object.properties.iter().map(|(name, id)| (&**name, *id)).collect())
            .collect();
        for name in declared.chain(required) {
            if seen.insert(name) {
                let value = self.property(name, &parts, &lookup, &shape.names);
                shape.properties.push(Property {
                    name: Arc::clone(name),
                    required: needed.contains(&**name),
                    value,
                });
            }
        }
        self.free(&parts, &patterns, &mut shape);
        shape
    }

    /// What holds of the value under a name; none if the name may not be used.
    fn property(
        &self,
        name: &str,
        parts: &[&Part],
        lookup: &[FxHashMap<&str, PartId>],
        names: &[PartId],
    ) -> Option<Key> {
        let text = Value::String(name.to_owned());
        if names.iter().any(|id| self.evaluate(*id, &text) == Verdict::No) {
            return None;
        }
        let mut key: Key = Vec::new();
        for (part, properties) in parts.iter().zip(lookup) {
            let object = &part.object;
            let before = key.len();
            key.extend(properties.get(name).map(|id| Conjunct::Whole(*id)));
            for (pattern, id) in &object.patterns {
                if pattern.is_match(name) == Some(true) {
                    key.push(Conjunct::Whole(*id));
                }
            }
            if key.len() == before && !object.unknown_patterns {
                key.extend(object.additional.map(Conjunct::Whole));
            }
        }
        Some(key)
    }

    /// Sorts undeclared keys by the patterns they match, and says what holds of their values.
    fn free(&self, parts: &[&Part], all: &[&Arc<Pattern>], shape: &mut ObjectShape) {
        let exact = all.len() <= PATTERNS;
        let mut kinds: Vec<Vec<&Arc<Pattern>>> = vec![Vec::new()];
        if exact {
            for pattern in all {
                let with: Vec<_> = kinds.iter().map(|kind| [kind.as_slice(), &[*pattern]].concat()).collect();
                kinds.extend(with);
            }
        } else {
            kinds.extend(all.iter().map(|pattern| vec![*pattern]));
            let too_many = "too many key patterns to tell their overlaps";
            let with_patterns = parts.iter().filter(|part| !part.object.patterns.is_empty());
            shape
                .weakened
                .extend(with_patterns.map(|part| (format!("{}/patternProperties", part.pointer), too_many)));
        }
        for kind in kinds {
            let mut value: Key = Vec::new();
            for part in parts {
                let matched = part.object.patterns.iter().filter(|(pattern, _)| kind.contains(&pattern));
                let before = value.len();
                value.extend(matched.map(|(_, id)| Conjunct::Whole(*id)));
                if value.len() == before && !part.object.unknown_patterns {
                    value.extend(part.object.additional.map(Conjunct::Whole));
                }
            }
            let forbidden = |conjunct: &Conjunct| match conjunct {
                Conjunct::Whole(id) => self.part(*id).is_some_and(|part| part.never),
                _ => false,
            };
            if value.iter().any(forbidden) {
                continue;
            }
            let placed = |pattern: &&Arc<Pattern>| {
                let owner =
                    parts.iter().find(|part| part.object.patterns.iter().any(|(other, _)| other == *pattern));
                (Arc::clone(pattern), Arc::from(owner.map_or("", |part| part.pointer.as_str())))
            };
            let others = all.iter().filter(|pattern| !kind.contains(pattern));
            let not_matching =
                if exact || kind.is_empty() { others.map(placed).collect() } else { Vec::new() };
            let matching = kind.iter().map(placed).collect();
            shape.free.push(FreeKeys { matching, not_matching, value });
        }
    }
}

fn least(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
