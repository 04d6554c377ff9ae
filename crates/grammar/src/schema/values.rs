//! Lists of values, as `enum` and `const` give them: looked up in by hash, however long they are.
//!
//! Invariant: what is found is what [`same`] finds, so that `1` is among `[1.0]` and the order of keys means nothing.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::ops::Deref;
use std::sync::OnceLock;

use rustc_hash::FxHashMap;
use serde_json::{Number, Value};
use smallvec::SmallVec;

use super::decimal::same;
use super::{Decimal, Types};
use crate::work::bytes;

/// Lists up to this long are gone through.
const FEW: usize = 4;
/// Whole numbers up to this are floats exactly, and the only ones that are the float.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// A list of values.
#[derive(Clone, Debug)]
pub(crate) struct Values {
    list: Vec<Value>,
    /// The types that they have.
    pub(crate) types: Types,
    /// Their size, as [`weight`] counts it.
    pub(crate) size: u64,
    places: OnceLock<Places>,
}

/// Places in the list by the hash of what stands there. The hash is keyed anew for each list: whoever writes a schema
/// cannot know which values will meet.
#[derive(Clone, Debug)]
struct Places {
    keys: RandomState,
    by_hash: FxHashMap<u64, SmallVec<[u32; 1]>>,
}

impl Values {
    pub(crate) fn new(list: Vec<Value>) -> Self {
        let types = list.iter().fold(Types::NONE, |types, value| types.or(Types::of(value)));
        let size = list.iter().map(weight).sum();
        Self { list, types, size, places: OnceLock::new() }
    }

    /// Whether a value is among them.
    pub(crate) fn has(&self, value: &Value) -> bool {
        self.find(value).is_some()
    }

    /// The listed value that is the same as this one.
    pub(crate) fn find(&self, value: &Value) -> Option<&Value> {
        if self.list.len() <= FEW {
            return self.list.iter().find(|other| same(other, value));
        }
        let places = self.places.get_or_init(|| {
            let mut places = Places { keys: RandomState::new(), by_hash: FxHashMap::default() };
            for (place, value) in (0u32..).zip(&self.list) {
                places.by_hash.entry(places.hash(value)).or_default().push(place);
            }
            places
        });
        let alike = places.by_hash.get(&places.hash(value))?;
        alike.iter().filter_map(|place| self.list.get(*place as usize)).find(|other| same(other, value))
    }
}

impl Deref for Values {
    type Target = [Value];

    fn deref(&self) -> &[Value] {
        &self.list
    }
}

impl Places {
    fn hash(&self, value: &Value) -> u64 {
        let mut hasher = self.keys.build_hasher();
        match value {
            Value::Null => 0u8.hash(&mut hasher),
            Value::Bool(value) => (1u8, value).hash(&mut hasher),
            Value::Number(number) => hash_number(number, &mut hasher),
            Value::String(text) => text.hash(&mut hasher),
            Value::Array(items) => {
                (2u8, items.len()).hash(&mut hasher);
                items.iter().for_each(|item| self.hash(item).hash(&mut hasher));
            }
            Value::Object(map) => {
                // A sum, since members have no order.
                let member = |(key, value): (&String, &Value)| self.keys.hash_one((key, self.hash(value)));
                let members = map.iter().map(member).fold(0, u64::wrapping_add);
                (3u8, map.len(), members).hash(&mut hasher);
            }
        }
        hasher.finish()
    }
}

/// Equal numbers have one hash, however they are held: as floats below where these tell all whole numbers apart, and
/// by their digits beyond.
fn hash_number(number: &Number, hasher: &mut impl Hasher) {
    match number.as_f64() {
        // Both zeros are one number.
        Some(float) if float.abs() < EXACT => (float + 0.0).to_bits().hash(hasher),
        _ => Decimal::of(number).hash(hasher),
    }
}

/// The size of a value: what there is in it, and its texts by their length.
pub(crate) fn weight(value: &Value) -> u64 {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
        Value::String(text) => bytes(text.len()),
        Value::Array(items) => 1 + items.iter().map(weight).sum::<u64>(),
        Value::Object(map) => {
            1 + map.iter().map(|(key, value)| bytes(key.len()) + weight(value)).sum::<u64>()
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_found_is_what_is_the_same() {
        let list = json!([
            null, true, "a", "", 0, -0.0, 1, 1.0, 1.5, 2.0, [], [1], [1.0, "x"], {}, {"a": 1, "b": [2]},
            9_007_199_254_740_992_u64, 9_007_199_254_740_993_u64, 1e16, 10_000_000_000_000_000_u64, u64::MAX,
            18_446_744_073_709_551_615.0, i64::MIN, -9_223_372_036_854_775_808.0, 1e300, 1e-300, 0.1
        ]);
        let list = list.as_array().unwrap().clone();
        let others =
            json!([false, "A", 2, 1.4, [1, 1], [[1]], {"b": [2.0], "a": 1.0}, {"a": 1}, 3, 1e17, {"c": 1}]);
        for kept in [list.len(), list.len() / 2, FEW] {
            let values = Values::new(list.iter().take(kept).cloned().collect());
            for value in list.iter().chain(others.as_array().unwrap()) {
                let scanned = values.iter().any(|other| same(other, value));
                assert_eq!(values.has(value), scanned, "{value} among {kept}");
            }
        }
    }
}
