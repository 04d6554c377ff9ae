//! The arena's element: one subschema, keyword by keyword, with its values checked and its children as ids.
//!
//! Invariant: a part says only what its own keywords say; what `$ref`, `allOf` and the unions add is named by id
//! and joined by `merge`.

use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::values::Values;
use super::{Decimal, pattern::Pattern};
use crate::work::{self, ForeignMap};

/// Index of a part in its schema's arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PartId(pub(crate) u32);

impl PartId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A set of JSON types; numbers are split in integral and fractional ones, so that every set has a complement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Types(u8);

impl Types {
    pub(crate) const NONE: Self = Self(0);
    pub(crate) const NULL: Self = Self(1);
    pub(crate) const BOOLEAN: Self = Self(2);
    pub(crate) const INTEGER: Self = Self(4);
    pub(crate) const FRACTION: Self = Self(8);
    pub(crate) const NUMBER: Self = Self(12);
    pub(crate) const STRING: Self = Self(16);
    pub(crate) const ARRAY: Self = Self(32);
    pub(crate) const OBJECT: Self = Self(64);
    pub(crate) const ALL: Self = Self(127);

    pub(crate) fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub(crate) fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) fn complement(self) -> Self {
        Self(!self.0 & Self::ALL.0)
    }

    /// The type of a value.
    pub(crate) fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::NULL,
            Value::Bool(_) => Self::BOOLEAN,
            Value::Number(number) if number.is_f64() => {
                // The digits of a float have a fraction exactly if it has one.
                let whole = number.as_f64().is_some_and(|float| float.fract() == 0.0);
                if whole { Self::INTEGER } else { Self::FRACTION }
            }
            Value::Number(_) => Self::INTEGER,
            Value::String(_) => Self::STRING,
            Value::Array(_) => Self::ARRAY,
            Value::Object(_) => Self::OBJECT,
        }
    }
}

/// One subschema.
#[derive(Clone, Debug, Default)]
pub(crate) struct Part {
    /// JSON pointer of the subschema; empty for the root.
    pub(crate) pointer: Arc<str>,
    /// The schema `false`.
    pub(crate) never: bool,
    /// Carries a keyword that no other field holds (a checked one), so it cannot be negated.
    pub(crate) opaque: bool,
    pub(crate) types: Option<Types>,
    /// `enum` and `const`, each a list of what is allowed.
    pub(crate) values: Vec<Arc<Values>>,
    pub(crate) not_values: Vec<Arc<Values>>,
    /// Parts that hold as well: `$ref` and `allOf`.
    pub(crate) also: Vec<PartId>,
    pub(crate) choices: Vec<Choice>,
    /// `not`, until `negate` has turned it into a part of `also`.
    pub(crate) not: Option<PartId>,
    /// `if`, `then` and `else`, until `negate` has turned them into a choice.
    pub(crate) condition: Option<Condition>,
    pub(crate) text: TextPart,
    pub(crate) number: NumberPart,
    pub(crate) array: ArrayPart,
    pub(crate) object: ObjectPart,
}

/// Alternatives of which one must hold.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    /// The keyword, for the contract.
    pub(crate) keyword: &'static str,
    /// Whether exactly one must hold.
    pub(crate) exclusive: bool,
    pub(crate) branches: Vec<PartId>,
}

/// `if`, `then`, `else`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Condition {
    pub(crate) test: PartId,
    pub(crate) then: Option<PartId>,
    pub(crate) otherwise: Option<PartId>,
}

/// What a part says of strings.
#[derive(Clone, Debug, Default)]
pub(crate) struct TextPart {
    pub(crate) min: u64,
    pub(crate) max: Option<u64>,
    pub(crate) patterns: Vec<PatternUse>,
}

/// A pattern or format, and where it was written.
#[derive(Clone, Debug)]
pub(crate) struct PatternUse {
    /// Pointer of the subschema it stands in.
    pub(crate) pointer: Arc<str>,
    pub(crate) kind: TextKind,
    pub(crate) pattern: Arc<Pattern>,
    /// Whether it must not match.
    pub(crate) negated: bool,
}

/// Which keyword a pattern came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum TextKind {
    /// `pattern`.
    Pattern,
    /// A keyword of one's own, by its name.
    Extension(&'static str),
    /// A key of `patternProperties`.
    Key,
    /// `format`, by its name.
    Format(&'static str),
}

/// A bound and whether it is excluded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bound {
    pub(crate) value: Decimal,
    pub(crate) exclusive: bool,
}

/// What a part says of numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct NumberPart {
    pub(crate) min: Vec<Bound>,
    pub(crate) max: Vec<Bound>,
    pub(crate) multiple_of: Option<Decimal>,
    /// Whether the number has to fit 32 bits of floating point, as schemars says of `f32`.
    pub(crate) single: bool,
}

/// What a part says of arrays.
#[derive(Clone, Debug, Default)]
pub(crate) struct ArrayPart {
    pub(crate) prefix: Vec<PartId>,
    /// Of every element after the prefix.
    pub(crate) items: Option<PartId>,
    pub(crate) min: u64,
    pub(crate) max: Option<u64>,
}

/// What a part says of objects.
#[derive(Clone, Debug, Default)]
pub(crate) struct ObjectPart {
    pub(crate) properties: Properties,
    pub(crate) required: Vec<Arc<str>>,
    pub(crate) patterns: Vec<(Arc<Pattern>, PartId)>,
    /// There are key patterns without an automaton, so `additional` cannot be applied.
    pub(crate) unknown_patterns: bool,
    /// Of keys that are neither declared nor match a pattern.
    pub(crate) additional: Option<PartId>,
    pub(crate) names: Option<PartId>,
    pub(crate) min: u64,
    pub(crate) max: Option<u64>,
}

/// Declared properties in their order. All of them are known when it is made.
#[derive(Clone, Debug, Default)]
pub(crate) struct Properties {
    list: Vec<(Arc<str>, PartId)>,
    /// The parts by name, where they are many; made by the first look.
    places: OnceLock<ForeignMap<Arc<str>, PartId>>,
}

impl Properties {
    /// So few are gone through.
    const FEW: usize = 8;

    pub(crate) fn get(&self, name: &str) -> Option<PartId> {
        if self.list.len() <= Self::FEW {
            return self.list.iter().find(|(other, _)| **other == *name).map(|(_, id)| *id);
        }
        self.places.get_or_init(|| self.list.iter().cloned().collect()).get(name).copied()
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, (Arc<str>, PartId)> {
        self.list.iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

impl From<Vec<(Arc<str>, PartId)>> for Properties {
    fn from(list: Vec<(Arc<str>, PartId)>) -> Self {
        Self { list, places: OnceLock::new() }
    }
}

impl Part {
    /// A part that allows everything, standing for something at `pointer`.
    pub(crate) fn at(pointer: &Arc<str>) -> Self {
        Self { pointer: Arc::clone(pointer), ..Self::default() }
    }

    /// The steps it takes to go through all that it says by itself.
    pub(crate) fn size(&self) -> u64 {
        let branches: usize = self.choices.iter().map(|choice| choice.branches.len() + 1).sum();
        let object = &self.object;
        let members = object.properties.len() + object.required.len() + object.patterns.len();
        let bounds = self.number.min.len() + self.number.max.len() + self.text.patterns.len();
        let lists = self.values.len() + self.not_values.len();
        work::items(branches + members + bounds + lists + self.also.len() + self.array.prefix.len()) + 2
    }

    /// Whether the part's own keywords, without what it refers to, allow everything.
    pub(crate) fn says_nothing(&self) -> bool {
        !self.never
            && self.types.is_none()
            && self.values.is_empty()
            && self.not_values.is_empty()
            && !self.constrains_text()
            && !self.constrains_numbers()
            && !self.constrains_arrays()
            && !self.constrains_objects()
    }

    pub(crate) fn constrains_text(&self) -> bool {
        self.text.min > 0 || self.text.max.is_some() || !self.text.patterns.is_empty()
    }

    pub(crate) fn constrains_numbers(&self) -> bool {
        let number = &self.number;
        !number.min.is_empty() || !number.max.is_empty() || number.multiple_of.is_some() || number.single
    }

    pub(crate) fn constrains_arrays(&self) -> bool {
        let array = &self.array;
        !array.prefix.is_empty() || array.items.is_some() || array.min > 0 || array.max.is_some()
    }

    pub(crate) fn constrains_objects(&self) -> bool {
        let object = &self.object;
        !object.properties.is_empty()
            || !object.required.is_empty()
            || !object.patterns.is_empty()
            || object.additional.is_some()
            || object.names.is_some()
            || object.min > 0
            || object.max.is_some()
    }
}
