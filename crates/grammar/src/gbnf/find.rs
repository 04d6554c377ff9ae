//! Which of several names a text has at a place. Used by `matching` and `sample`.
//!
//! Invariant: one pass over the text, and time linear in it and in all names together (Aho and Corasick 1975), however
//! many they are and however much they have in common.

use std::collections::BTreeMap;
use std::ops::Range;

/// Names to find in texts.
pub(crate) struct Names<'n> {
    names: Vec<&'n str>,
    states: States,
}

impl<'n> Names<'n> {
    pub(crate) fn new(names: Vec<&'n str>) -> Self {
        Self { states: States::new(&names), names }
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Where names stand in a text that is read from its beginning, each with its number: the longest at each place, as a
    /// tokenizer does it.
    pub(crate) fn read(&self, text: &str) -> Vec<(Range<usize>, u32)> {
        let at_each = self.longest_at(text);
        let mut found = Vec::new();
        let mut at = 0;
        while let Some(here) = at_each.get(at) {
            let number = here.unwrap_or_default();
            let len = here.and_then(|number| self.names.get(number as usize)).map_or(0, |name| name.len());
            if len > 0 {
                found.push((at..at + len, number));
            }
            at += len.max(1);
        }
        found
    }

    /// For each place of the text the longest name that stands there, by its number.
    fn longest_at(&self, text: &str) -> Vec<Option<u32>> {
        let mut found = vec![None; text.len()];
        if self.is_empty() {
            return found;
        }
        // Backwards, so that where a name is recognized is where it begins.
        let mut at = 0;
        for (byte, slot) in text.bytes().zip(&mut found).rev() {
            at = self.states.step(at, byte);
            *slot = self.states.longest.get(at as usize).copied().flatten();
        }
        found
    }
}

/// The ends of names, read backwards: what has been read is the beginning of some, and of which more can be made.
struct States {
    next: BTreeMap<(u32, u8), u32>,
    /// The longest shorter text that is a state as well.
    shorter: Vec<u32>,
    /// The longest name that ends in a state, its own or that of a shorter one.
    longest: Vec<Option<u32>>,
}

impl States {
    fn new(names: &[&str]) -> Self {
        let mut states = Self { next: BTreeMap::new(), shorter: vec![0], longest: vec![None] };
        let mut depths: Vec<Vec<(u32, u8, u32)>> = Vec::new();
        for (number, name) in (0u32..).zip(names).filter(|(_, name)| !name.is_empty()) {
            let mut at = 0;
            for (depth, byte) in name.bytes().rev().enumerate() {
                let fresh = states.longest.len() as u32;
                let to = *states.next.entry((at, byte)).or_insert(fresh);
                if to == fresh {
                    states.longest.push(None);
                    states.shorter.push(0);
                    if depths.len() <= depth {
                        depths.push(Vec::new());
                    }
                    if let Some(level) = depths.get_mut(depth) {
                        level.push((at, byte, to));
                    }
                }
                at = to;
            }
            if let Some(slot) = states.longest.get_mut(at as usize) {
                *slot = Some(number);
            }
        }
        // Shorter ones come first, and what is known of them is used.
        for (from, byte, to) in depths.into_iter().skip(1).flatten() {
            let shorter = states.step(states.shorter.get(from as usize).copied().unwrap_or(0), byte);
            let inherited = states.longest.get(shorter as usize).copied().flatten();
            if let Some(slot) = states.shorter.get_mut(to as usize) {
                *slot = shorter;
            }
            if let Some(slot @ None) = states.longest.get_mut(to as usize) {
                *slot = inherited;
            }
        }
        states
    }

    fn step(&self, mut at: u32, byte: u8) -> u32 {
        loop {
            if let Some(to) = self.next.get(&(at, byte)) {
                return *to;
            }
            if at == 0 {
                return 0;
            }
            at = self.shorter.get(at as usize).copied().unwrap_or(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_name_at_each_place_is_found() {
        let names = ["<a>", "<a", "a>", "", "<", "ab", "<ab>", "abab", "bab", "é"];
        for text in ["", "<a>", "x<a<a>b", "<ab>ab<a", "ababab<<<ab>", "éé<é", "abababababx"] {
            let found = Names::new(names.to_vec()).longest_at(text);
            for (at, found) in found.iter().enumerate() {
                let rest = text.as_bytes().get(at..).unwrap_or_default();
                let here = |name: &&str| !name.is_empty() && rest.starts_with(name.as_bytes());
                let longest = names.iter().filter(|name| here(name)).max_by_key(|name| name.len());
                let named = found.and_then(|number| names.get(number as usize));
                assert_eq!(named, longest, "{text} at {at}");
            }
        }
    }

    #[test]
    fn names_are_read_from_the_beginning() {
        let read = |names: &[&'static str], text: &str| Names::new(names.to_vec()).read(text);
        assert_eq!(read(&["<a>", "a>b", "<a>b<"], "é<a>b<a>b"), [(2..7, 2), (7..10, 1)]);
        assert_eq!(read(&["", "<a>"], "b<a<a><a>"), [(3..6, 1), (6..9, 1)]);
        assert!(read(&[], "<a>").is_empty());
    }
}
