//! What the parts of a leaf say as one, type by type. Beside `merge`.
//!
//! Invariant: a shape allows exactly the values that every part does, but for keywords it lists as weakened.

use std::cell::Cell;
use std::sync::Arc;

use serde_json::Value;

use super::Decimal;
use super::arena::{Arena, Conjunct, Key, Leaf};
use super::evaluate::Verdict;
use super::part::{Bound, Part, PartId, PatternUse};
use super::pattern::Pattern;
use crate::work::{ForeignMap, ForeignSet, bytes, items};

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
    pub(crate) multiple_of: Vec<(Decimal, Arc<str>)>,
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

impl Arena<'_> {
    pub(crate) fn text(&self, leaf: &Leaf) -> TextShape {
        let mut shape = TextShape::default();
        let mut seen: ForeignSet<(&str, bool, bool)> = ForeignSet::default();
        self.count(leaf.own.len() as u64);
        for part in self.parts(&leaf.own) {
            shape.min = shape.min.max(part.text.min);
            shape.max = least(shape.max, part.text.max);
            for used in &part.text.patterns {
                let source = used.pattern.source.as_str();
                self.count(bytes(source.len()));
                if seen.insert((source, used.pattern.choices.is_some(), used.negated)) {
                    shape.patterns.push(used.clone());
                }
            }
        }
        for values in &leaf.not_values {
            if !self.count(values.size) {
                break;
            }
            shape.excluded.extend(values.iter().filter_map(|value| value.as_str().map(str::to_owned)));
        }
        shape
    }

    pub(crate) fn number(&self, leaf: &Leaf) -> NumberShape {
        let mut shape = NumberShape::default();
        self.count(leaf.own.len() as u64);
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
                shape.multiple_of.push((unit.clone(), Arc::clone(&part.pointer)));
            }
        }
        shape
    }

    pub(crate) fn array(&self, own: &[PartId]) -> ArrayShape {
        let mut shape = ArrayShape::default();
        let length = self.parts(own).map(|part| part.array.prefix.len()).max().unwrap_or(0);
        self.count(own.len() as u64);
        for i in 0..length {
            if !self.count(own.len() as u64) {
                break;
            }
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
        self.count(own.len() as u64);
        let parts: Vec<&Part> = self.parts(own).filter(|part| part.constrains_objects()).collect();
        for part in &parts {
            let object = &part.object;
            shape.min = shape.min.max(object.min);
            shape.max = least(shape.max, object.max);
            shape.names.extend(object.names);
            shape.speaks_of_undeclared |=
                object.additional.is_some() || !object.patterns.is_empty() || object.unknown_patterns;
        }
        let members = Members::new(self, &parts);
        // Names that are required are written with the declared ones, after them.
        let required = parts.iter().flat_map(|part| part.object.required.iter());
        let needed: ForeignSet<&str> = required.clone().map(|name| &**name).collect();
        let declared = parts.iter().flat_map(|part| part.object.properties.iter().map(|(name, _)| name));
        let mut seen: ForeignSet<&str> = ForeignSet::default();
        for name in declared.chain(required) {
            if !self.count(bytes(name.len()) + 1) {
                break;
            }
            if seen.insert(name) {
                let value = self.property(name, &members);
                let required = needed.contains(&**name);
                shape.properties.push(Property { name: Arc::clone(name), required, value });
            }
        }
        let untold = "some names were too large to test";
        let naming =
            members.naming.iter().filter(|(_, cut)| cut.get()).map(|(part, _)| (part, "propertyNames"));
        let patterned = members
            .patterned
            .iter()
            .filter(|(.., cut)| cut.get())
            .map(|(_, part, _)| (part, "patternProperties"));
        let weakened = naming.chain(patterned);
        shape
            .weakened
            .extend(weakened.map(|(part, keyword)| (format!("{}/{keyword}", part.pointer), untold)));
        self.free(&members, &mut shape);
        shape
    }

    /// What holds of the value under a name; none if the name may not be used.
    fn property(&self, name: &str, members: &Members<'_>) -> Option<Key> {
        let text = Value::String(name.to_owned());
        for (part, untold) in &members.naming {
            let Some(id) = part.object.names else { continue };
            if !self.count(1) {
                break;
            }
            self.cut.set(false);
            match self.evaluate(id, &text) {
                Verdict::No => return None,
                Verdict::Maybe => untold.set(untold.get() || self.cut.get()),
                Verdict::Yes => {}
            }
        }
        let mut hits: Vec<Hit> = members.declared.get(name).cloned().unwrap_or_default();
        for (index, part, untold) in &members.patterned {
            for (pattern, id) in &part.object.patterns {
                match self.is_match(pattern, name) {
                    Some(true) => hits.push((*index, Some(*id))),
                    Some(false) => {}
                    None => {
                        // Whatever it is, it is not certain that nothing but `additional` speaks of it.
                        hits.push((*index, None));
                        untold.set(true);
                    }
                }
            }
        }
        hits.sort_by_key(|(index, _)| *index);
        Some(self.joined(&hits, &members.additional))
    }

    /// The parts that were hit, and those that speak of all they do not hit, in order.
    fn joined(&self, hits: &[Hit], additional: &[(usize, PartId)]) -> Key {
        let mut key: Key = Vec::new();
        if !self.count((hits.len() + additional.len()) as u64) {
            return key;
        }
        let mut hits = hits.iter().peekable();
        let mut others = additional.iter().peekable();
        loop {
            match (hits.peek(), others.peek()) {
                (Some((index, _)), Some((other, id))) if other < index => {
                    key.push(Conjunct::Whole(*id));
                    others.next();
                }
                (Some((index, id)), other) => {
                    if other.is_some_and(|(other, _)| other == index) {
                        others.next();
                    }
                    key.extend(id.map(Conjunct::Whole));
                    hits.next();
                }
                (None, Some((_, id))) => {
                    key.push(Conjunct::Whole(*id));
                    others.next();
                }
                (None, None) => return key,
            }
        }
    }

    /// Sorts undeclared keys by the patterns they match, and says what holds of their values.
    fn free(&self, members: &Members<'_>, shape: &mut ObjectShape) {
        let all = &members.patterns;
        let exact = all.len() <= PATTERNS;
        let mut kinds: Vec<Vec<usize>> = vec![Vec::new()];
        if exact {
            for pattern in 0..all.len() {
                let with: Vec<_> = kinds.iter().map(|kind| [kind.as_slice(), &[pattern]].concat()).collect();
                kinds.extend(with);
            }
        } else {
            kinds.extend((0..all.len()).map(|pattern| vec![pattern]));
            let too_many = "too many key patterns to tell their overlaps";
            shape.weakened.extend(
                members
                    .patterned
                    .iter()
                    .map(|(_, part, _)| (format!("{}/patternProperties", part.pointer), too_many)),
            );
        }
        for kind in kinds {
            let matched = kind.iter().filter_map(|pattern| all.get(*pattern));
            let mut hits: Vec<(usize, usize, PartId)> =
                matched.clone().flat_map(|known| known.uses.iter().copied()).collect();
            hits.sort_unstable_by_key(|(index, place, _)| (*index, *place));
            let hits: Vec<Hit> = hits.into_iter().map(|(index, _, id)| (index, Some(id))).collect();
            let value = self.joined(&hits, &members.additional);
            let forbidden = |conjunct: &Conjunct| match conjunct {
                Conjunct::Whole(id) => self.part(*id).is_some_and(|part| part.never),
                _ => false,
            };
            if value.iter().any(forbidden) {
                continue;
            }
            let placed = |known: &KeyPattern<'_>| (Arc::clone(known.pattern), Arc::clone(known.pointer));
            let matching: Vec<_> = matched.map(placed).collect();
            let not_matching: Vec<_> = if exact || kind.is_empty() {
                let others = all.iter().enumerate().filter(|(pattern, _)| !kind.contains(pattern));
                others.map(|(_, known)| placed(known)).collect()
            } else {
                Vec::new()
            };
            let named = matching.len() + not_matching.len();
            shape.free.push(FreeKeys { matching, not_matching, value });
            if !self.count(1 + named as u64) {
                break;
            }
        }
    }
}

/// A part, by its place among those of an object, and what it says of a key; nothing where that is not known.
type Hit = (usize, Option<PartId>);

/// What the parts of an object say of keys, found by key.
struct Members<'a> {
    declared: ForeignMap<&'a str, Vec<Hit>>,
    /// Parts with key patterns, and whether some name was too large to test.
    patterned: Vec<(usize, &'a Part, Cell<bool>)>,
    /// Parts that speak of names, likewise.
    naming: Vec<(&'a Part, Cell<bool>)>,
    /// What parts say of keys that they neither declare nor match.
    additional: Vec<(usize, PartId)>,
    /// All key patterns, each once.
    patterns: Vec<KeyPattern<'a>>,
}

struct KeyPattern<'a> {
    pattern: &'a Arc<Pattern>,
    /// Of the first subschema that names it.
    pointer: &'a Arc<str>,
    /// The parts that name it, each with the place there and what it says.
    uses: Vec<(usize, usize, PartId)>,
}

impl<'a> Members<'a> {
    fn new(arena: &Arena<'_>, parts: &[&'a Part]) -> Self {
        let mut members = Self {
            declared: ForeignMap::default(),
            patterned: Vec::new(),
            naming: Vec::new(),
            additional: Vec::new(),
            patterns: Vec::new(),
        };
        let mut known: ForeignMap<(&str, bool), usize> = ForeignMap::default();
        for (index, part) in parts.iter().enumerate() {
            let object = &part.object;
            if !arena.count(items(object.properties.len()) + items(object.required.len())) {
                break;
            }
            for (name, id) in object.properties.iter() {
                members.declared.entry(name).or_default().push((index, Some(*id)));
            }
            if object.names.is_some() {
                members.naming.push((part, Cell::new(false)));
            }
            if let (Some(id), false) = (object.additional, object.unknown_patterns) {
                members.additional.push((index, id));
            }
            if !object.patterns.is_empty() {
                members.patterned.push((index, part, Cell::new(false)));
            }
            for (place, (pattern, id)) in object.patterns.iter().enumerate() {
                arena.count(bytes(pattern.source.len()));
                let next = members.patterns.len();
                let number = *known.entry((&pattern.source, pattern.choices.is_some())).or_insert(next);
                if number == next {
                    members.patterns.push(KeyPattern { pattern, pointer: &part.pointer, uses: Vec::new() });
                }
                if let Some(known) = members.patterns.get_mut(number) {
                    known.uses.push((index, place, *id));
                }
            }
        }
        members
    }
}

fn least(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
