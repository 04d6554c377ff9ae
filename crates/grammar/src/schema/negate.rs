//! Turns `not` and `if` into parts that say the same without negation, where that is possible.
//!
//! Invariant: a negated part allows exactly the values its original refuses; what cannot be said so becomes a
//! checked keyword, and everything under it with it.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::Schema;
use super::part::{Choice, Part, PartId, Types};
use super::refs::join_pointer;
use super::support::Class;
use crate::work::{ForeignMap, Work, bytes};

/// How deep references are followed below a `not`; each level may double the parts.
const DEPTH: usize = 8;
/// Parts that negation may add to a schema in all.
const PARTS: usize = 50_000;
/// What a part costs that is made, in steps.
const MADE: u64 = 8;

/// Resolves every `not` and `if` of the schema.
pub(super) fn rewrite(schema: &mut Schema, work: &Work) {
    let count = schema.parts.len();
    let bound = count.saturating_add(PARTS);
    let mut lowered = Lowered::default();
    let mut negation = Negation { schema, work, bound, known: FxHashMap::default() };
    for index in 0..count {
        if !work.spend(1) {
            return;
        }
        let Some(part) = negation.schema.parts.get(index) else { continue };
        let (not, condition, pointer) = (part.not, part.condition, Arc::clone(&part.pointer));
        if let Some(id) = not {
            let negated = negation.part(id, 0);
            match (negated, negation.schema.parts.get_mut(index)) {
                (Some(negated), Some(part)) => {
                    part.also.push(negated);
                    part.not = None;
                }
                (None, Some(part)) => {
                    part.opaque = true;
                    lowered.add(&pointer, &["not"], "the negation cannot be expressed", work);
                }
                _ => {}
            }
        }
        if let Some(condition) = condition {
            if condition.then.is_none() && condition.otherwise.is_none() {
                continue;
            }
            let negated = negation.part(condition.test, 0);
            let Some(negated) = negated else {
                if let Some(part) = negation.schema.parts.get_mut(index) {
                    part.opaque = true;
                }
                let reason = "the negation of the test cannot be expressed";
                lowered.add(&pointer, &["if", "then", "else"], reason, work);
                continue;
            };
            let mut holds = Part::at(&pointer);
            holds.also = [Some(condition.test), condition.then].into_iter().flatten().collect();
            let mut fails = Part::at(&pointer);
            fails.also = [Some(negated), condition.otherwise].into_iter().flatten().collect();
            let branches = vec![negation.push(holds), negation.push(fails)];
            if let Some(part) = negation.schema.parts.get_mut(index) {
                part.choices.push(Choice { keyword: "if", exclusive: false, branches });
                part.condition = None;
            }
        }
    }
    lowered.apply(schema, work);
}

/// Keywords that turn out to be checked, with all that stands below them.
#[derive(Default)]
struct Lowered {
    /// By pointer: in which order they did, and why.
    keywords: ForeignMap<String, (usize, &'static str)>,
}

impl Lowered {
    fn add(&mut self, pointer: &str, keywords: &[&str], reason: &'static str, work: &Work) {
        for keyword in keywords {
            work.spend(bytes(pointer.len()));
            let next = (self.keywords.len(), reason);
            self.keywords.entry(join_pointer(pointer, keyword)).or_insert(next);
        }
    }

    /// Marks the entries: in one go, since every entry and every place above it is looked up once.
    fn apply(&self, schema: &mut Schema, work: &Work) {
        if self.keywords.is_empty() {
            return;
        }
        // For each place the first of what was lowered at it or above it.
        let mut known: ForeignMap<String, Option<usize>> = ForeignMap::default();
        for entry in &mut schema.entries {
            if entry.class != Class::Enforced {
                continue;
            }
            let own = self.keywords.get(&entry.pointer);
            let first = self.first(&entry.pointer, &mut known, work);
            let Some(first) = first else { continue };
            let (order, reason) = own.copied().unwrap_or((usize::MAX, ""));
            entry.class = Class::Checked;
            entry.reason =
                Some(if order == first { reason } else { "stands under a checked keyword" }.into());
        }
    }

    fn first(
        &self,
        pointer: &str,
        known: &mut ForeignMap<String, Option<usize>>,
        work: &Work,
    ) -> Option<usize> {
        let mut above: Vec<&str> = Vec::new();
        let mut at = Some(pointer);
        let mut first = None;
        while let Some(place) = at
            && work.spend(2 * bytes(place.len()))
        {
            if let Some(found) = known.get(place) {
                first = *found;
                break;
            }
            above.push(place);
            at = place.rsplit_once('/').map(|(outer, _)| outer);
        }
        for place in above.into_iter().rev() {
            let own = self.keywords.get(place).map(|(order, _)| *order);
            first = first.into_iter().chain(own).min();
            known.insert(place.to_owned(), first);
        }
        first
    }
}

struct Negation<'a> {
    schema: &'a mut Schema,
    work: &'a Work,
    bound: usize,
    /// What came of parts at a depth: many a `not` is of the same one.
    known: FxHashMap<(PartId, usize), Option<PartId>>,
}

impl Negation<'_> {
    fn push(&mut self, part: Part) -> PartId {
        self.work.spend(MADE);
        let id = PartId(u32::try_from(self.schema.parts.len()).unwrap_or(u32::MAX));
        self.schema.parts.push(part);
        id
    }

    /// The id of a part that allows what the part at `id` refuses.
    fn part(&mut self, id: PartId, depth: usize) -> Option<PartId> {
        if let Some(known) = self.known.get(&(id, depth)) {
            return *known;
        }
        let negated = self.negated(id, depth);
        self.known.insert((id, depth), negated);
        negated
    }

    fn negated(&mut self, id: PartId, depth: usize) -> Option<PartId> {
        let part = self.schema.parts.get(id.index())?;
        if depth > DEPTH || part.opaque || part.condition.is_some() || self.schema.parts.len() > self.bound {
            return None;
        }
        if !self.work.spend(part.size()) {
            return None;
        }
        let part = part.clone();
        let mut ways: Vec<Part> = Vec::new();
        if part.never {
            return Some(self.push(Part::at(&part.pointer)));
        }
        self.assertions(&part, &mut ways);
        self.text(&part, &mut ways)?;
        self.numbers(&part, &mut ways)?;
        self.arrays(&part, &mut ways)?;
        self.objects(&part, &mut ways, depth)?;
        let mut branches: Vec<PartId> = ways.into_iter().map(|way| self.push(way)).collect();
        if let Some(not) = part.not {
            branches.push(not);
        }
        for also in &part.also {
            branches.push(self.part(*also, depth + 1)?);
        }
        for choice in &part.choices {
            // The negation of "exactly one" is not a union of a few parts; of "if" it is, but it is rare.
            if choice.exclusive || choice.keyword == "if" {
                return None;
            }
            let mut none = Part::at(&part.pointer);
            for branch in &choice.branches {
                none.also.push(self.part(*branch, depth + 1)?);
            }
            branches.push(self.push(none));
        }
        Some(match branches.as_slice() {
            [] => self.push(Part { never: true, ..Part::at(&part.pointer) }),
            [only] => *only,
            _ => {
                let mut either = Part::at(&part.pointer);
                either.choices.push(Choice { keyword: "not", exclusive: false, branches });
                self.push(either)
            }
        })
    }

    fn assertions(&self, part: &Part, ways: &mut Vec<Part>) {
        let at = || Part::at(&part.pointer);
        if let Some(types) = part.types {
            ways.push(Part { types: Some(types.complement()), ..at() });
        }
        for values in &part.values {
            ways.push(Part { not_values: vec![Arc::clone(values)], ..at() });
        }
        for values in &part.not_values {
            ways.push(Part { values: vec![Arc::clone(values)], ..at() });
        }
    }

    fn text(&self, part: &Part, ways: &mut Vec<Part>) -> Option<()> {
        let at = || Part { types: Some(Types::STRING), ..Part::at(&part.pointer) };
        if let Some(below) = part.text.min.checked_sub(1) {
            let mut way = at();
            way.text.max = Some(below);
            ways.push(way);
        }
        if let Some(max) = part.text.max {
            let mut way = at();
            way.text.min = max.saturating_add(1);
            ways.push(way);
        }
        for used in &part.text.patterns {
            // A format may be matched in part only, and whether it is asserted depends on the validator.
            if matches!(used.kind, super::TextKind::Format(_)) {
                return None;
            }
            let mut way = at();
            way.text.patterns.push(super::PatternUse { negated: !used.negated, ..used.clone() });
            ways.push(way);
        }
        Some(())
    }

    fn numbers(&self, part: &Part, ways: &mut Vec<Part>) -> Option<()> {
        let at = || Part { types: Some(Types::NUMBER), ..Part::at(&part.pointer) };
        let flipped =
            |bound: &super::Bound| super::Bound { value: bound.value.clone(), exclusive: !bound.exclusive };
        for bound in &part.number.min {
            let mut way = at();
            way.number.max.push(flipped(bound));
            ways.push(way);
        }
        for bound in &part.number.max {
            let mut way = at();
            way.number.min.push(flipped(bound));
            ways.push(way);
        }
        part.number.multiple_of.is_none().then_some(())
    }

    fn arrays(&self, part: &Part, ways: &mut Vec<Part>) -> Option<()> {
        let at = || Part { types: Some(Types::ARRAY), ..Part::at(&part.pointer) };
        if let Some(below) = part.array.min.checked_sub(1) {
            let mut way = at();
            way.array.max = Some(below);
            ways.push(way);
        }
        if let Some(max) = part.array.max {
            let mut way = at();
            way.array.min = max.saturating_add(1);
            ways.push(way);
        }
        // "Some element fails" is `contains`, which no grammar here says.
        (part.array.prefix.is_empty() && part.array.items.is_none()).then_some(())
    }

    fn objects(&mut self, part: &Part, ways: &mut Vec<Part>, depth: usize) -> Option<()> {
        let object = &part.object;
        let at = || Part { types: Some(Types::OBJECT), ..Part::at(&part.pointer) };
        let open = object.patterns.is_empty() && !object.unknown_patterns && object.names.is_none();
        if !open || object.additional.is_some() {
            return None;
        }
        for name in &object.required {
            let never = self.push(Part { never: true, ..Part::at(&part.pointer) });
            let mut way = at();
            way.object.properties = vec![(Arc::clone(name), never)].into();
            ways.push(way);
        }
        for (name, id) in object.properties.iter() {
            let refused = self.part(*id, depth + 1)?;
            let mut way = at();
            way.object.properties = vec![(Arc::clone(name), refused)].into();
            way.object.required.push(Arc::clone(name));
            ways.push(way);
        }
        if let Some(below) = object.min.checked_sub(1) {
            let mut way = at();
            way.object.max = Some(below);
            ways.push(way);
        }
        if let Some(max) = object.max {
            let mut way = at();
            way.object.min = max.saturating_add(1);
            ways.push(way);
        }
        Some(())
    }
}
