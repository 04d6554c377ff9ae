//! Writes an instance the way its grammar expects it: declared key order, white space, and one spelling a value.
//!
//! Invariant: the result is JSON equal to the value. Where finding out what its schema says takes too much, keys come
//! in the value's own order.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde_json::{Map, Number, Value};

use crate::schema::pattern::Pattern;
use crate::schema::{Arena, Conjunct, Decimal, Draft, Key, Normal, ObjectShape, PartId, Types, weight};
use crate::{Limits, Schema};

use super::Whitespace;
use super::decimals::PLACES;
use super::integers::DIGITS;

/// Branches of a union looked at to find the one a value was written for.
const BRANCHES: usize = 4_096;

/// Writes `value` as JSON. With a schema, keys come in its order, undeclared ones after them in the value's own.
///
/// ```
/// # use toolgate_grammar::{Schema, Whitespace, compile::render}; use serde_json::json;
/// let schema = Schema::parse(&json!({"properties": {"path": true, "depth": true}}))?;
/// let call = json!({"depth": 2.0, "x": [], "path": "a/b"});
/// assert_eq!(render(&call, Some(&schema), Whitespace::Spaced), r#"{"path": "a/b", "depth": 2, "x": []}"#);
/// assert_eq!(render(&call, None, Whitespace::Compact), r#"{"depth":2,"x":[],"path":"a/b"}"#);
/// # Ok::<(), toolgate_grammar::Error>(())
/// ```
pub fn render(value: &Value, schema: Option<&Schema>, whitespace: Whitespace) -> String {
    let mut out = String::new();
    let (comma, colon) = match whitespace {
        Whitespace::Spaced => (", ", ": "),
        Whitespace::Compact | Whitespace::Flexible { .. } => (",", ":"),
    };
    let arena = schema.map(|schema| Arena::for_value(schema, &Limits::default(), weight(value)));
    let writer = Writer { arena, objects: RefCell::default(), comma, colon };
    let key = schema.map(|schema| vec![Conjunct::Whole(schema.root)]);
    writer.write(value, key, &mut out);
    out
}

struct Writer<'s> {
    arena: Option<Arena<'s>>,
    /// What is said of objects, by the parts that say it: the elements of a list are often alike.
    objects: RefCell<FxHashMap<Vec<PartId>, Rc<ObjectShape>>>,
    comma: &'static str,
    colon: &'static str,
}

impl Writer<'_> {
    fn write(&self, value: &Value, key: Option<Key>, out: &mut String) {
        // A value that the schema lists is written as it is listed, keys in that order.
        if let Some(listed) = self.listed(value, key.clone()) {
            return self.write(&listed, None, out);
        }
        match value {
            Value::Null => out.push_str("null"),
            Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Value::Number(number) => match self.in_digits(value, number, key) {
                Some(text) => out.push_str(&text),
                None => out.push_str(&number_text(number)),
            },
            Value::String(text) => out.push_str(&string_text(text)),
            Value::Array(items) => {
                let shape = self.leaf(value, key).map(|(arena, normal)| arena.array(&normal.own));
                out.push('[');
                for (i, item) in items.iter().enumerate() {
                    if i > 0 {
                        out.push_str(self.comma);
                    }
                    let key = shape.as_ref().map(|shape| shape.prefix.get(i).unwrap_or(&shape.rest).clone());
                    self.write(item, key, out);
                }
                out.push(']');
            }
            Value::Object(map) => self.object(value, map, key, out),
        }
    }

    fn object(&self, value: &Value, map: &Map<String, Value>, key: Option<Key>, out: &mut String) {
        let shape = self.leaf(value, key).map(|(arena, normal)| {
            let mut objects = self.objects.borrow_mut();
            Rc::clone(objects.entry(normal.own).or_insert_with_key(|own| Rc::new(arena.object(own))))
        });
        let mut members: Vec<(&str, &Value, Option<Key>)> = Vec::with_capacity(map.len());
        let mut seen = rustc_hash::FxHashSet::default();
        for property in shape.iter().flat_map(|shape| &shape.properties) {
            if let Some((name, value)) = map.get_key_value(&*property.name) {
                seen.insert(name.as_str());
                members.push((name, value, property.value.clone()));
            }
        }
        for (name, value) in map {
            if !seen.contains(name.as_str()) {
                let kinds = shape.as_ref().map(|shape| shape.free.as_slice()).unwrap_or_default();
                let kind = kinds.iter().find(|kind| {
                    let matches = |pattern: &Arc<Pattern>| self.matches(pattern, name);
                    kind.matching.iter().all(|(p, _)| matches(p))
                        && !kind.not_matching.iter().any(|(p, _)| matches(p))
                });
                members.push((name, value, kind.map(|kind| kind.value.clone())));
            }
        }
        out.push('{');
        for (i, (name, value, key)) in members.into_iter().enumerate() {
            if i > 0 {
                out.push_str(self.comma);
            }
            out.push_str(&string_text(name));
            out.push_str(self.colon);
            self.write(value, key, out);
        }
        out.push('}');
    }

    /// A float that is whole, where it matters how that is written: its digits where the grammar counts them, and
    /// with a fraction where the draft holds that such a number is no integer.
    fn in_digits(&self, value: &Value, number: &Number, key: Option<Key>) -> Option<String> {
        if !number.is_f64() || !Decimal::of(number).is_integral() {
            return None;
        }
        let (arena, normal) = self.leaf(value, key)?;
        let leaf = arena.leaf(&normal).0;
        // One that the schema lists is written like any other.
        if leaf.values.is_some() {
            return None;
        }
        let shape = arena.number(&leaf);
        let integer = !leaf.types.has(Types::FRACTION);
        let digits = || plain_digits(&Decimal::of(number));
        // Past what integers hold, all are floats.
        let fits = number.as_f64().is_some_and(|float| float.abs() < u64::MAX as f64);
        if integer && leaf.types.has(Types::INTEGER) && arena.schema.draft == Draft::Four && fits {
            return Some(format!("{}.0", digits()));
        }
        // Exponents are written where nothing but the sign is bounded, and where digits would be too many.
        let from_zero = shape.min.is_none_or(|min| min.value.is_zero() && !min.exclusive);
        let free = from_zero && shape.max.is_none() && shape.multiple_of.is_empty();
        let few = Decimal::of(number).whole().len() <= DIGITS;
        (integer || (few && !free)).then(digits)
    }

    fn listed(&self, value: &Value, key: Option<Key>) -> Option<Value> {
        if !value.is_array() && !value.is_object() {
            return None;
        }
        let (arena, normal) = self.leaf(value, key)?;
        arena.count(weight(value));
        arena.leaf(&normal).0.values?.find(value).cloned()
    }

    fn matches(&self, pattern: &Arc<Pattern>, name: &str) -> bool {
        self.arena.as_ref().is_some_and(|arena| arena.is_match(pattern, name) == Some(true))
    }

    /// The parts that hold for this value: of the branches, those it satisfies, or does least to refute.
    fn leaf(&self, value: &Value, key: Option<Key>) -> Option<(&Arena<'_>, Normal)> {
        let arena = self.arena.as_ref()?;
        let mut normal = arena.normal(&key?);
        for _ in 0..BRANCHES {
            if normal.open.is_empty() {
                break;
            }
            let branches = arena.branches(&normal);
            arena.count(branches.len() as u64);
            let best = branches.into_iter().min_by_key(|branch| arena.distance(branch, value))?;
            normal = arena.normal(&best);
        }
        // What was left undone is no guide: the value is written as it stands.
        if arena.work.is_over() { None } else { Some((arena, normal)) }
    }
}

/// A number as the grammars write it: whole ones without a fraction, and no exponent where the digits are few.
pub(super) fn number_text(number: &Number) -> String {
    let decimal = Decimal::of(number);
    let (whole, fraction) = (decimal.whole(), decimal.fraction());
    if whole.len() > 18 && !number.is_i64() && !number.is_u64() || fraction.len() > PLACES {
        return number.to_string();
    }
    plain_digits(&decimal)
}

/// A number without an exponent.
fn plain_digits(decimal: &Decimal) -> String {
    let digits = |digits: &[u8]| digits.iter().map(|digit| char::from(b'0' + digit)).collect::<String>();
    let sign = if decimal.is_negative() { "-" } else { "" };
    let whole = if decimal.whole().is_empty() { "0".to_owned() } else { digits(decimal.whole()) };
    if decimal.is_integral() {
        format!("{sign}{whole}")
    } else {
        format!("{sign}{whole}.{}", digits(decimal.fraction()))
    }
}

/// A string with the short escapes, other control characters as `\u00XX`, and all else as it is.
pub(super) fn string_text(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_follow_the_branch_a_value_was_written_for() {
        let schema = Schema::parse(&json!({
            "anyOf": [
                {"properties": {"kind": {"const": "a"}, "x": {"type": "integer"}}, "required": ["kind"]},
                {"properties": {"x": {"items": {"const": {"p": 1, "q": 2}}}, "kind": {"const": "b"}}, "required": ["kind"]}
            ]
        }))
        .unwrap();
        for (value, text) in [
            (json!({"x": 1, "kind": "a"}), r#"{"kind":"a","x":1}"#),
            (json!({"kind": "b", "x": [{"q": 2.0, "p": 1}]}), r#"{"x":[{"p":1,"q":2}],"kind":"b"}"#),
        ] {
            assert_eq!(render(&value, Some(&schema), Whitespace::Compact), text);
        }
    }

    #[test]
    fn whole_floats_are_spelled_as_their_schema_counts_them() {
        let draft_4 = json!({"$schema": "http://json-schema.org/draft-04/schema#", "type": "integer"});
        for (schema, value, text) in [
            (json!({"type": "integer"}), json!(2e19), "20000000000000000000"),
            (json!({"minimum": 1}), json!(2e19), "20000000000000000000"),
            (json!({"minimum": 0}), json!(2e19), "2e+19"),
            (json!(true), json!(2e19), "2e+19"),
            (json!({"type": "integer"}), json!(2.0), "2"),
            (draft_4, json!(2.0), "2.0"),
        ] {
            let schema = Schema::parse(&schema).unwrap();
            assert_eq!(render(&value, Some(&schema), Whitespace::Compact), text, "{value}");
        }
    }

    #[test]
    fn numbers_are_spelled_as_grammars_spell_them() {
        for (value, text) in [
            (json!(1.0), "1"),
            (json!(-0.0), "0"),
            (json!(1e-7), "0.0000001"),
            (json!(1e16), "10000000000000000"),
            (json!(1e300), "1e+300"),
            (json!(u64::MAX), "18446744073709551615"),
            (json!(-2.50), "-2.5"),
        ] {
            assert_eq!(render(&value, None, Whitespace::Compact), text);
        }
    }
}
