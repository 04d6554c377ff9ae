//! Strings that are none of certain names: the keys that an object may have besides the declared ones. Used by `string`.
//!
//! Invariant: for names of printable ASCII characters it says what the complement of their automaton would, in size
//! proportional to the beginnings of names.

use std::collections::BTreeMap;

use crate::gbnf::CharClass;
use crate::{Error, Expr};

use super::{Compiler, sequence};

/// Characters written for all beginnings of all names; more names than this are left to automata.
const BEGINNINGS: usize = 1 << 16;
/// What one beginning costs, in steps.
const BEGINNING: u64 = 4;

impl Compiler<'_, '_> {
    /// The content of any string but these; `None` if they are not of the kind that can be written directly.
    pub(super) fn other_than(&mut self, names: &[String]) -> Result<Option<Expr>, Error> {
        let direct = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\';
        if !names.iter().all(|name| name.bytes().all(direct)) {
            return Ok(None);
        }
        let beginnings = names.iter().map(|name| name.len().saturating_mul(name.len() + 1) / 2);
        if beginnings.fold(0, usize::saturating_add) > BEGINNINGS {
            return Ok(None);
        }
        self.spend(BEGINNING * names.iter().map(|name| name.len() as u64).sum::<u64>())?;
        // For each beginning of a name the characters that go on with one, and whether it is one itself.
        let mut beginnings: BTreeMap<&str, (Vec<u8>, bool)> = BTreeMap::new();
        for name in names {
            for (at, byte) in name.bytes().enumerate() {
                let beginning = name.get(..at).unwrap_or_default();
                beginnings.entry(beginning).or_default().0.push(byte);
            }
            beginnings.entry(name).or_default().1 = true;
        }
        let plain = self.json.plain(self.builder);
        let beyond = self.json.beyond_ascii(self.builder);
        let alternatives = beginnings.into_iter().map(|(beginning, (further, is_name))| {
            let other = if further.is_empty() {
                plain.clone()
            } else {
                Expr::choice([Expr::Class(ascii_but(further)), beyond.clone()])
            };
            let rest = sequence([other, plain.clone().repeat(0, None)]);
            sequence([Expr::literal(beginning), if is_name { rest } else { rest.optional() }])
        });
        Ok(Some(Expr::choice(alternatives)))
    }
}

/// The ASCII characters that a string writes as themselves, without these.
fn ascii_but(mut bytes: Vec<u8>) -> CharClass {
    bytes.extend(*b"\"\\");
    bytes.sort_unstable();
    let mut ranges = Vec::new();
    let mut next = u32::from(b' ');
    for byte in bytes.into_iter().map(u32::from) {
        if byte > next {
            ranges.push((next, byte - 1));
        }
        next = byte + 1;
    }
    ranges.push((next, 0x7f));
    CharClass { negated: false, ranges }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use crate::{Options, Schema, compile};

    #[test]
    fn undeclared_keys_are_all_but_the_declared_ones() {
        let properties =
            json!({"": {"const": 0}, "ab": {"const": 0}, "abc": {"const": 0}, "~": {"const": 0}});
        let schema = Schema::parse(&json!({"properties": properties, "additionalProperties": {"const": 1}}));
        let compiled = compile(&schema.unwrap(), &Options::default()).unwrap();
        for name in ["", "ab", "abc", "~"] {
            assert!(compiled.accepts(&format!(r#"{{"{name}": 0}}"#)).unwrap(), "{name}");
            assert!(!compiled.accepts(&format!(r#"{{"{name}": 1}}"#)).unwrap(), "{name}");
        }
        for name in ["a", "b", "abd", "abcd", "abé", "é", "ab\\n", "\\u0001", "\u{7f}", "ab ", "~~", "\\\\"]
        {
            assert!(compiled.accepts(&format!(r#"{{"{name}": 1}}"#)).unwrap(), "{name}");
            assert!(!compiled.accepts(&format!(r#"{{"{name}": 0}}"#)).unwrap(), "{name}");
        }
    }
}
