//! Character classes as UTF-8 byte ranges, and bytes as equivalence classes; serves `flat` and `lower`.
//!
//! Invariant: surrogates match nothing, so every sequence is well-formed UTF-8.

use std::sync::Arc;

use regex_syntax::utf8::{Utf8Sequence, Utf8Sequences};

use crate::gbnf::CharClass;
use crate::work::ForeignMap;

/// The byte sequences of the classes seen so far; grammars use a few classes over and over.
#[derive(Debug, Default)]
pub(crate) struct Classes(ForeignMap<CharClass, Arc<[Utf8Sequence]>>);

impl Classes {
    /// The byte ranges that spell the characters of `class`, one sequence after the other.
    pub(crate) fn of(&mut self, class: &CharClass) -> Arc<[Utf8Sequence]> {
        if let Some(known) = self.0.get(class) {
            return Arc::clone(known);
        }
        let sequences: Arc<[Utf8Sequence]> = scalar_ranges(class)
            .into_iter()
            .filter_map(|(low, high)| Some((char::from_u32(low)?, char::from_u32(high)?)))
            .flat_map(|(low, high)| Utf8Sequences::new(low, high))
            .collect();
        self.0.insert(class.clone(), Arc::clone(&sequences));
        sequences
    }
}

/// The scalar values of a class as ascending, disjoint inclusive ranges without surrogates.
fn scalar_ranges(class: &CharClass) -> Vec<(u32, u32)> {
    let mut ranges: Vec<(u32, u32)> =
        class.ranges.iter().filter(|(low, high)| low <= high && *low <= 0x10_ffff).copied().collect();
    ranges.sort_unstable();
    let mut merged: Vec<(u32, u32)> = Vec::new();
    for (low, high) in ranges {
        let high = high.min(0x10_ffff);
        match merged.last_mut() {
            Some(last) if low <= last.1.saturating_add(1) => last.1 = last.1.max(high),
            _ => merged.push((low, high)),
        }
    }
    if class.negated {
        let mut rest = Vec::new();
        let mut next = 0;
        for (low, high) in merged {
            if next < low {
                rest.push((next, low - 1));
            }
            next = high + 1;
        }
        if next <= 0x10_ffff {
            rest.push((next, 0x10_ffff));
        }
        merged = rest;
    }
    merged
        .into_iter()
        .flat_map(|(low, high)| [(low, high.min(0xd7ff)), (low.max(0xe000), high)])
        .filter(|(low, high)| low <= high)
        .collect()
}

/// Bytes that no edge of a grammar tells apart, as consecutive numbers in the order of the bytes.
#[derive(Clone, Debug)]
pub(crate) struct ByteClasses {
    of: [u8; 256],
    /// The lowest byte of each class.
    first: Vec<u8>,
}

impl ByteClasses {
    /// The number of a byte's class.
    pub(crate) fn of(&self, byte: u8) -> u8 {
        self.of.get(usize::from(byte)).copied().unwrap_or_default()
    }

    /// Number of classes, 1 to 256.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.first.len()
    }

    /// The bytes of a class, lowest and highest.
    pub(crate) fn bytes(&self, class: u8) -> (u8, u8) {
        let low = self.first.get(usize::from(class)).copied().unwrap_or_default();
        let high = self.first.get(usize::from(class) + 1).map_or(u8::MAX, |next| next - 1);
        (low, high)
    }
}

/// Collects where edges begin and end.
#[derive(Debug)]
pub(crate) struct Boundaries([bool; 256]);

impl Default for Boundaries {
    fn default() -> Self {
        Self([false; 256])
    }
}

impl Boundaries {
    /// Notes an edge over the bytes `low..=high`.
    pub(crate) fn add(&mut self, low: u8, high: u8) {
        if let Some(starts) = self.0.get_mut(usize::from(low)) {
            *starts = true;
        }
        if let Some(starts) = self.0.get_mut(usize::from(high) + 1) {
            *starts = true;
        }
    }

    /// The classes between them.
    pub(crate) fn classes(&self) -> ByteClasses {
        let mut classes = ByteClasses { of: [0; 256], first: Vec::new() };
        for (byte, (starts, of)) in self.0.iter().zip(&mut classes.of).enumerate() {
            if *starts || byte == 0 {
                classes.first.push(byte as u8);
            }
            *of = (classes.first.len() - 1) as u8;
        }
        classes
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn classes_become_scalar_ranges_without_surrogates() {
        let check = |negated, ranges: &[(u32, u32)], expected: &[(u32, u32)]| {
            assert_eq!(scalar_ranges(&CharClass { negated, ranges: ranges.to_vec() }), expected);
        };
        check(false, &[(98, 99), (97, 97)], &[(97, 99)]);
        check(false, &[(99, 97)], &[]);
        check(false, &[(0xd800, 0xdfff)], &[]);
        check(false, &[(0xd7ff, 0xe000)], &[(0xd7ff, 0xd7ff), (0xe000, 0xe000)]);
        check(true, &[(0, 96), (98, 0x10_ffff)], &[(97, 97)]);
        check(true, &[(0, 0x10_ffff)], &[]);
        check(true, &[], &[(0, 0xd7ff), (0xe000, 0x10_ffff)]);
        check(false, &[(0x10_fffe, u32::MAX)], &[(0x10_fffe, 0x10_ffff)]);
    }

    #[test]
    fn bytes_fall_into_the_classes_that_edges_tell_apart() {
        let mut boundaries = Boundaries::default();
        boundaries.add(b'a', b'f');
        boundaries.add(b'c', 255);
        let classes = boundaries.classes();
        assert_eq!(classes.len(), 4);
        assert_eq!([b'`', b'a', b'b', b'c', b'f', b'g', 255].map(|b| classes.of(b)), [0, 1, 1, 2, 2, 3, 3]);
        assert_eq!((classes.bytes(1), classes.bytes(3)), ((b'a', b'b'), (b'g', 255)));
    }
}
