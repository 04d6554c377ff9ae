//! Whether a value satisfies a part: used to filter enumerations and to pick the branch a value was written for.
//!
//! Invariant: `Yes` and `No` are certain; whatever cannot be decided here is `Maybe`.

use std::sync::Arc;

use serde_json::{Number, Value};

use super::Decimal;
use super::arena::Arena;
use super::part::{Part, PartId, Types};
use super::pattern::Pattern;
use super::values::weight;
use crate::work::{bytes, items};

/// A verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Yes,
    No,
    Maybe,
}

use Verdict::{Maybe, No, Yes};

/// Nesting followed before the verdict is `Maybe`.
const DEPTH: usize = 64;
/// Parts looked at before the verdict is `Maybe`: references that branch would double them at each level.
const STEPS: u64 = 100_000;
/// What comparing a number digit by digit costs, in steps.
const DIGITS: u64 = 4;

impl Verdict {
    fn when(holds: bool) -> Self {
        if holds { Yes } else { No }
    }

    fn and(self, other: Self) -> Self {
        match (self, other) {
            (No, _) | (_, No) => No,
            (Maybe, _) | (_, Maybe) => Maybe,
            _ => Yes,
        }
    }

    fn and_then(self, other: impl FnOnce() -> Self) -> Self {
        if self == No { No } else { self.and(other()) }
    }

    fn not(self) -> Self {
        match self {
            Yes => No,
            No => Yes,
            Maybe => Maybe,
        }
    }

    fn or(self, other: Self) -> Self {
        self.not().and(other.not()).not()
    }
}

impl Arena<'_> {
    /// Whether `value` satisfies the part at `id` and all it refers to.
    pub(crate) fn evaluate(&self, id: PartId, value: &Value) -> Verdict {
        self.steps.set(STEPS);
        self.evaluate_at(id, value, 0)
    }

    /// As [`evaluate`](Self::evaluate), without the part's references, unions and conditions.
    pub(crate) fn evaluate_own(&self, part: &Part, value: &Value) -> Verdict {
        self.steps.set(STEPS);
        self.admits(part, value).and_then(|| self.inner(part, value, 0))
    }

    /// As [`evaluate_own`](Self::evaluate_own), but for the values that the part lists.
    pub(crate) fn evaluate_unlisted(&self, part: &Part, value: &Value) -> Verdict {
        self.steps.set(STEPS);
        self.fits(part, value).and_then(|| self.inner(part, value, 0))
    }

    fn evaluate_at(&self, id: PartId, value: &Value, depth: usize) -> Verdict {
        let Some(part) = self.part(id) else { return Maybe };
        let left = self.steps.get();
        if depth > DEPTH || left == 0 || !self.spend(1) {
            self.cut.set(true);
            return Maybe;
        }
        self.steps.set(left - 1);
        let mut verdict = self.admits(part, value).and_then(|| self.inner(part, value, depth));
        for also in &part.also {
            verdict = verdict.and_then(|| self.evaluate_at(*also, value, depth + 1));
        }
        for choice in &part.choices {
            if verdict == No {
                return No;
            }
            let mut verdicts =
                choice.branches.iter().map(|branch| self.evaluate_at(*branch, value, depth + 1));
            let held = if choice.exclusive {
                let all: Vec<Verdict> = verdicts.collect();
                let certain = all.iter().filter(|v| **v == Yes).count();
                let possible = all.iter().filter(|v| **v == Maybe).count();
                match (certain, possible) {
                    (1, 0) => Yes,
                    (0, 0) | (2.., _) => No,
                    _ => Maybe,
                }
            } else {
                verdicts.try_fold(No, |sum, v| if v == Yes { Err(Yes) } else { Ok(sum.or(v)) }).unwrap_or(Yes)
            };
            verdict = verdict.and(held);
        }
        if part.not.is_some() || part.condition.is_some() || part.opaque {
            verdict.and(Maybe)
        } else {
            verdict
        }
    }

    /// What a part says of the inside of a value.
    fn inner(&self, part: &Part, value: &Value, depth: usize) -> Verdict {
        match value {
            Value::Null | Value::Bool(_) => Yes,
            Value::String(text) if part.constrains_text() => self.text_verdict(part, text),
            Value::String(_) => Yes,
            Value::Number(number) if part.constrains_numbers() => {
                self.spend(DIGITS);
                number_verdict(part, number)
            }
            Value::Number(_) => Yes,
            Value::Array(items) => self.array_verdict(part, items, depth),
            Value::Object(map) => self.object_verdict(part, map, depth),
        }
    }

    fn text_verdict(&self, part: &Part, text: &str) -> Verdict {
        self.spend(bytes(text.len()));
        let n = text.chars().count() as u64;
        let mut verdict = Verdict::when(n >= part.text.min && part.text.max.is_none_or(|max| n <= max));
        for used in &part.text.patterns {
            let held = self.tested(&used.pattern, text);
            verdict = verdict.and(if used.negated { held.not() } else { held });
        }
        verdict
    }

    /// Whether a pattern is found in a text, if there are steps left for it.
    fn tested(&self, pattern: &Arc<Pattern>, text: &str) -> Verdict {
        let outer = self.proving.replace(true);
        let found = self.is_match(pattern, text);
        self.proving.set(outer);
        self.cut.set(self.cut.get() || found.is_none());
        found.map_or(Maybe, Verdict::when)
    }

    fn array_verdict(&self, part: &Part, items: &[Value], depth: usize) -> Verdict {
        let array = &part.array;
        let n = items.len() as u64;
        let mut verdict = Verdict::when(n >= array.min && array.max.is_none_or(|max| n <= max));
        for (i, item) in items.iter().enumerate() {
            if verdict == No {
                return No;
            }
            if let Some(id) = array.prefix.get(i).copied().or(array.items) {
                verdict = verdict.and(self.evaluate_at(id, item, depth + 1));
            }
        }
        verdict
    }

    fn object_verdict(&self, part: &Part, map: &serde_json::Map<String, Value>, depth: usize) -> Verdict {
        let object = &part.object;
        self.spend(items(map.len() + object.required.len()));
        let n = map.len() as u64;
        let counted = n >= object.min && object.max.is_none_or(|max| n <= max);
        let mut verdict =
            Verdict::when(counted && object.required.iter().all(|name| map.contains_key(&**name)));
        for (key, value) in map {
            if verdict == No {
                return No;
            }
            let mut declared = false;
            if let Some(id) = object.properties.get(key) {
                declared = true;
                verdict = verdict.and(self.evaluate_at(id, value, depth + 1));
            }
            for (pattern, id) in &object.patterns {
                match self.tested(pattern, key) {
                    Yes => {
                        declared = true;
                        verdict = verdict.and(self.evaluate_at(*id, value, depth + 1));
                    }
                    No => {}
                    Maybe => verdict = verdict.and(Maybe),
                }
            }
            if let (false, Some(id)) = (declared, object.additional) {
                let held = self.evaluate_at(id, value, depth + 1);
                verdict = verdict.and(if object.unknown_patterns { held.or(Maybe) } else { held });
            }
            if let Some(id) = object.names {
                verdict = verdict.and(self.evaluate_at(id, &Value::String(key.clone()), depth + 1));
            }
        }
        verdict
    }

    /// Whether a part lists a value, or lists none, and does not exclude it.
    fn admits(&self, part: &Part, value: &Value) -> Verdict {
        if !part.values.is_empty() {
            self.spend(weight(value).saturating_mul(part.values.len() as u64));
        }
        self.fits(part, value).and_then(|| Verdict::when(part.values.iter().all(|values| values.has(value))))
    }

    /// Whether a value is of a part's types, and not among those it excludes.
    fn fits(&self, part: &Part, value: &Value) -> Verdict {
        if !part.not_values.is_empty() {
            self.spend(weight(value).saturating_mul(part.not_values.len() as u64));
        }
        Verdict::when(
            !part.never
                && part.types.is_none_or(|types| types.has(Types::of(value)))
                && !part.not_values.iter().any(|values| values.has(value)),
        )
    }
}

fn number_verdict(part: &Part, given: &Number) -> Verdict {
    let (number, value) = (&part.number, Decimal::of(given));
    // Beyond 64 bits a number is a float, whose shortest spelling is not all of its digits.
    let exact = match given.as_f64() {
        Some(float) if given.is_f64() && (1e16..1e38).contains(&float.abs()) => {
            Decimal::integer(float as i128)
        }
        _ => value.clone(),
    };
    let above = number.min.iter().all(|b| if b.exclusive { value > b.value } else { value >= b.value });
    let below = number.max.iter().all(|b| if b.exclusive { value < b.value } else { value <= b.value });
    let divides = match &number.multiple_of {
        None => Yes,
        Some(unit) => exact.is_multiple_of(unit).map_or(Maybe, Verdict::when),
    };
    Verdict::when(above && below).and(divides)
}
