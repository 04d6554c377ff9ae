//! Turns `not` and `if` into parts that say the same without negation, where that is possible.
//!
//! Invariant: a negated part allows exactly the values its original refuses; what cannot be said so becomes a
//! checked keyword, and everything under it with it.

use std::sync::Arc;

use super::Schema;
use super::part::{Choice, Part, PartId, Types};
use super::refs::join_pointer;
use super::support::Class;

/// How deep references are followed below a `not`; each level may double the parts.
const DEPTH: usize = 8;
/// Parts that negation may add to a schema in all.
const PARTS: usize = 50_000;

/// Resolves every `not` and `if` of the schema.
pub(super) fn rewrite(schema: &mut Schema) {
    let count = schema.parts.len();
    let bound = count.saturating_add(PARTS);
    for index in 0..count {
        let Some(part) = schema.parts.get(index) else { continue };
        let (not, condition, pointer) = (part.not, part.condition, part.pointer.clone());
        if let Some(id) = not {
            let negated = Negation { schema, bound }.part(id, 0);
            match (negated, schema.parts.get_mut(index)) {
                (Some(negated), Some(part)) => {
                    part.also.push(negated);
                    part.not = None;
                }
                (None, Some(part)) => {
                    part.opaque = true;
                    lower(schema, &pointer, &["not"], "the negation cannot be expressed");
                }
                _ => {}
            }
        }
        if let Some(condition) = condition {
            if condition.then.is_none() && condition.otherwise.is_none() {
                continue;
            }
            let negated = Negation { schema, bound }.part(condition.test, 0);
            let Some(negated) = negated else {
                if let Some(part) = schema.parts.get_mut(index) {
                    part.opaque = true;
                }
                lower(
                    schema,
                    &pointer,
                    &["if", "then", "else"],
                    "the negation of the test cannot be expressed",
                );
                continue;
            };
            let mut holds = Part::at(&pointer);
            holds.also = [Some(condition.test), condition.then].into_iter().flatten().collect();
            let mut fails = Part::at(&pointer);
            fails.also = [Some(negated), condition.otherwise].into_iter().flatten().collect();
            let branches = vec![push(schema, holds), push(schema, fails)];
            if let Some(part) = schema.parts.get_mut(index) {
                part.choices.push(Choice { keyword: "if", exclusive: false, branches });
                part.condition = None;
            }
        }
    }
}

fn push(schema: &mut Schema, part: Part) -> PartId {
    let id = PartId(u32::try_from(schema.parts.len()).unwrap_or(u32::MAX));
    schema.parts.push(part);
    id
}

/// Marks keywords of the part at `pointer`, and all below them, as checked.
fn lower(schema: &mut Schema, pointer: &str, keywords: &[&str], reason: &'static str) {
    for keyword in keywords {
        let own = join_pointer(pointer, keyword);
        for entry in &mut schema.entries {
            let Some(rest) = entry.pointer.strip_prefix(own.as_str()) else { continue };
            if entry.class != Class::Enforced || !(rest.is_empty() || rest.starts_with('/')) {
                continue;
            }
            entry.class = Class::Checked;
            entry.reason =
                Some(if rest.is_empty() { reason } else { "stands under a checked keyword" }.into());
        }
    }
}

struct Negation<'a> {
    schema: &'a mut Schema,
    bound: usize,
}

impl Negation<'_> {
    /// The id of a part that allows what the part at `id` refuses.
    fn part(&mut self, id: PartId, depth: usize) -> Option<PartId> {
        let part = self.schema.parts.get(id.index())?.clone();
        if depth > DEPTH || part.opaque || part.condition.is_some() || self.schema.parts.len() > self.bound {
            return None;
        }
        let mut ways: Vec<Part> = Vec::new();
        if part.never {
            return Some(push(self.schema, Part::at(&part.pointer)));
        }
        self.assertions(&part, &mut ways);
        self.text(&part, &mut ways)?;
        self.numbers(&part, &mut ways)?;
        self.arrays(&part, &mut ways)?;
        self.objects(&part, &mut ways, depth)?;
        let mut branches: Vec<PartId> = ways.into_iter().map(|way| push(self.schema, way)).collect();
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
            branches.push(push(self.schema, none));
        }
        Some(match branches.as_slice() {
            [] => push(self.schema, Part { never: true, ..Part::at(&part.pointer) }),
            [only] => *only,
            _ => {
                let mut either = Part::at(&part.pointer);
                either.choices.push(Choice { keyword: "not", exclusive: false, branches });
                push(self.schema, either)
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
            let never = push(self.schema, Part { never: true, ..Part::at(&part.pointer) });
            let mut way = at();
            way.object.properties.push((Arc::clone(name), never));
            ways.push(way);
        }
        for (name, id) in &object.properties {
            let refused = self.part(*id, depth + 1)?;
            let mut way = at();
            way.object.properties.push((Arc::clone(name), refused));
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
