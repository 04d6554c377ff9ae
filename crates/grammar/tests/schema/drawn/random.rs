//! The generator, and the few keys, texts and numbers that everything drawn is made of, so that they meet.

use serde_json::{Value, json};

/// A small generator, the same everywhere.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// One that has nothing to do with those of neighbouring seeds.
    pub(crate) fn seeded(seed: u64) -> Self {
        let mut random = Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5851_F42D_4C95_7F2D);
        random.below(2);
        random
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % bound.max(1)
    }

    pub(super) fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    pub(super) fn of<T: Clone>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())].clone()
    }
}

pub(super) const KEYS: [&str; 6] = ["a", "b", "c", "ab", "x-1", "é"];
pub(super) const TEXTS: [&str; 14] =
    ["", "a", "b", "ab", "abc", "c", "x", "x-1", "é", "12", "2024-02-29", "10.0.0.1", "😀", "a\nb"];
pub(super) const PATTERNS: [&str; 12] = [
    "^[a-c]+$",
    "b",
    "^a|c$",
    "^x-",
    "\\d",
    "^(ab?)*$",
    "[^a-z]",
    "^$",
    "^\\S{2,}$",
    "^(?!a)",
    "^\\p{L}+$",
    "(a)\\1",
];
pub(super) const FORMATS: [&str; 6] =
    ["ipv4", "unheard-of", "date", "uri-reference", "json-pointer", "regex"];
pub(super) const NUMBERS: [&str; 16] = [
    "0",
    "1",
    "-1",
    "2",
    "3",
    "5",
    "7",
    "0.5",
    "-2.25",
    "1.0",
    "10",
    "100",
    "1e2",
    "9007199254740993",
    "18446744073709551615",
    "1e30",
];

/// Any value, made of few texts, keys and numbers.
pub(crate) fn any_value(random: &mut Random, depth: usize) -> Value {
    match random.below(if depth == 0 { 6 } else { 9 }) {
        0 => Value::Null,
        1 => json!(random.percent(50)),
        2 | 3 => serde_json::from_str(random.of(&NUMBERS)).unwrap(),
        4 | 5 => json!(random.of(&TEXTS)),
        6 => (0..random.below(4)).map(|_| any_value(random, depth - 1)).collect(),
        _ => {
            let members =
                (0..random.below(4)).map(|_| (random.of(&KEYS).to_owned(), any_value(random, depth - 1)));
            Value::Object(members.collect())
        }
    }
}
