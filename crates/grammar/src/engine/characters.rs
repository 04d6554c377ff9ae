//! Kinds of characters that grammars seldom tell apart, and what is known of a token by them. Above `tokens`; used by
//! `vocabulary` and `slice`.
//!
//! Invariant: every ASCII character has exactly one atom, and what is not whole characters has one of its own.

use super::tokens::TokenKind;

/// Tokens of more bytes than this are listed apart: they may reach a bound that others cannot.
pub(crate) const LONG: usize = 16;

/// Sets of characters without all lower-case or all upper-case letters are too many, and their slices too small.
const LETTERS: [u64; 2] = [0b0011, 0b1100];

/// Every character from U+0080 on.
pub(crate) const NON_ASCII: u64 = 1 << 44;

/// Not the text of any run of whole characters.
const BROKEN: u64 = 1 << 63;

/// Number of atoms of ASCII characters.
pub(crate) const ASCII_ATOMS: u8 = 44;

/// The atom of an ASCII character: characters that grammars seldom tell apart share one.
pub(crate) const fn atom(byte: u8) -> u8 {
    match byte {
        b'a'..=b'f' => 0,
        b'g'..=b'z' => 1,
        b'A'..=b'F' => 2,
        b'G'..=b'Z' => 3,
        b'0' => 4,
        b'1'..=b'9' => 5,
        b' ' => 6,
        b'\n' => 7,
        b'\t' => 8,
        b'\r' => 9,
        0x7f => 11,
        b'!'..=b'/' => 12 + (byte - b'!'),
        b':'..=b'@' => 27 + (byte - b':'),
        b'['..=b'`' => 34 + (byte - b'['),
        b'{'..=b'~' => 40 + (byte - b'{'),
        _ => 10,
    }
}

/// What a slice needs to know of a token.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Traits {
    /// The atoms of its characters, a bit each.
    pub(crate) atoms: u64,
    /// Its length in code points.
    pub(crate) points: u16,
}

impl Traits {
    pub(crate) fn of(kind: TokenKind, bytes: &[u8]) -> Self {
        let broken = Self { atoms: BROKEN, points: 0 };
        if kind != TokenKind::Text || bytes.is_empty() {
            return broken;
        }
        let Ok(text) = std::str::from_utf8(bytes) else { return broken };
        let mut traits = Self { atoms: 0, points: 0 };
        for char in text.chars() {
            traits.atoms |= u8::try_from(char).ok().filter(u8::is_ascii).map_or(NON_ASCII, |b| 1 << atom(b));
            traits.points += 1;
        }
        traits
    }

    /// Whether it consists of characters of `atoms` alone.
    pub(crate) fn within(self, atoms: u64) -> bool {
        self.atoms & !atoms == 0
    }
}

/// Whether a byte begins a character of `atoms`.
pub(crate) fn begins(atoms: u64, byte: u8) -> bool {
    if byte.is_ascii() { atoms >> atom(byte) & 1 == 1 } else { atoms & NON_ASCII != 0 }
}

/// Whether all lower-case or all upper-case letters are among `atoms`.
pub(crate) fn has_letters(atoms: u64) -> bool {
    LETTERS.iter().any(|letters| atoms & letters == *letters)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn every_ascii_character_has_an_atom_below_the_bound() {
        for byte in 0..=127u8 {
            assert!(atom(byte) < ASCII_ATOMS, "{byte}");
        }
        let punctuation: std::collections::BTreeSet<u8> =
            (0..=127u8).filter(u8::is_ascii_punctuation).map(atom).collect();
        assert_eq!(punctuation.len(), 32);
        assert!(punctuation.iter().all(|&a| a >= 12));
    }

    #[test]
    fn traits_count_code_points_and_mark_partial_characters() {
        let letters = (1 << atom(b'a')) | (1 << atom(b'z'));
        for (bytes, within, points) in [
            (&b"az"[..], true, 2),
            (b"a1", false, 2),
            ("é".as_bytes(), false, 1),
            (b"\xc3", false, 0),
            (b"", false, 0),
        ] {
            let traits = Traits::of(TokenKind::Text, bytes);
            assert_eq!((traits.within(letters), traits.points), (within, points), "{bytes:?}");
        }
        assert!(!Traits::of(TokenKind::Special, b"az").within(letters));
    }
}
