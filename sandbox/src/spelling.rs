//! Writes any name as a text that leads back to that name. Beside [`names`](crate::names), which folds names
//! for rules.
//!
//! Invariant: two different names are shown differently, and the shown text of a name leads to it again. A
//! byte that is no text becomes `\xff`. A backslash in front of such an escape becomes `\x5c`. An invisible
//! character stays. [`output::name`] makes `\u{1b}` of it, which leads back as well.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;

use crate::output;

/// A name as text.
pub(crate) fn spelled(name: &OsStr) -> String {
    let bytes = name.as_encoded_bytes();
    let mut shown = String::with_capacity(bytes.len());
    let mut at = 0;
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            let looks_spelled = c == '\\' && bytes.get(at..).is_some_and(|rest| piece(rest).is_some());
            if looks_spelled {
                shown.push_str("\\x5c");
            } else {
                shown.push(c);
            }
            at += c.len_utf8();
        }
        for byte in chunk.invalid() {
            // Writing to a String cannot fail.
            let _ = write!(shown, "\\x{byte:02x}");
            at += 1;
        }
    }
    shown
}

/// The name behind a shown text; `None` for a text without an escape.
#[cfg(unix)]
pub(crate) fn real(shown: &OsStr) -> Option<OsString> {
    use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
    let mut rest = shown.as_bytes();
    let mut name = Vec::with_capacity(rest.len());
    let mut is_spelled = false;
    while let Some(byte) = rest.first() {
        let len = match piece(rest) {
            Some((bytes, len)) => {
                is_spelled = true;
                name.extend(bytes);
                len
            }
            None => {
                name.push(*byte);
                1
            }
        };
        rest = rest.get(len..).unwrap_or_default();
    }
    is_spelled.then(|| OsString::from_vec(name))
}

/// The name behind a shown text. On systems other than Unix a backslash separates names.
#[cfg(not(unix))]
pub(crate) fn real(_: &OsStr) -> Option<OsString> {
    None
}

/// Whether a path could hold an escape.
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only one call for a whole path asks"))]
pub(crate) fn may_be_spelled(path: &str) -> bool {
    path.contains("\\x") || path.contains("\\u{")
}

/// Whether a character of a name is written as an escape.
fn is_spelled(c: char) -> bool {
    matches!(c, '\n' | '\t') || output::must_escape(c)
}

/// The byte or character of the escape at the start of the text, and the length of that escape.
fn piece(text: &[u8]) -> Option<(Vec<u8>, usize)> {
    match text {
        [b'\\', b'x', a, b, ..] => {
            let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
            let byte = digit(a)? * 16 + digit(b)?;
            // No other byte is ever shown so: a slash or a dot cannot hide.
            (byte >= 0x80 || byte == b'\\').then(|| (vec![byte], 4))
        }
        [b'\\', b'u', b'{', rest @ ..] => {
            let len = rest.iter().take(7).position(|byte| *byte == b'}')?;
            let code = std::str::from_utf8(rest.get(..len)?).ok()?;
            let is_hex = code.bytes().all(|byte| byte.is_ascii_hexdigit());
            let c = u32::from_str_radix(code, 16).ok().filter(|_| is_hex).and_then(char::from_u32)?;
            is_spelled(c).then(|| (c.encode_utf8(&mut [0; 4]).as_bytes().to_vec(), len + 4))
        }
        _ => None,
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_what_has_to_be_is_spelled_out() {
        for (name, shown) in [
            (&b"main.rs"[..], "main.rs"),
            ("日本 ü".as_bytes(), "日本 ü"),
            (b"caf\xe9.txt", "caf\\xe9.txt"),
            (b"a\nb\x1b", "a\\u{a}b\\u{1b}"),
            (b"src\\a.rs", "src\\a.rs"),
            (b"src\\xa.rs", "src\\xa.rs"),
            (b"\\x41", "\\x41"),
            (b"\\xe9", "\\x5cxe9"),
            (b"\\u{a}", "\\x5cu{a}"),
            (b"\\\xe9", "\\\\xe9"),
        ] {
            let text = spelled(OsStr::from_bytes(name));
            assert_eq!(output::name(&text), shown);
            assert_eq!(real(OsStr::new(&text)).unwrap_or(text.into()).as_bytes(), name);
            let back = real(OsStr::new(shown));
            assert_eq!(back.as_deref().unwrap_or(OsStr::new(shown)).as_bytes(), name);
        }
    }

    #[test]
    fn no_slash_and_no_dot_hides_in_a_name() {
        for shown in
            ["\\x2f", "\\x2e\\x2e", "\\u{2f}", "\\u{2e}", "\\x00", "\\xg0", "\\u{110000}", "\\u{+a}", "\\u{}"]
        {
            assert_eq!(real(OsStr::new(shown)), None, "{shown}");
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_leads_back(
            name in prop::collection::vec(prop::sample::select(b"a\\x5cfFe9u{a}1b\n\xff\xe2\x82\xac".to_vec()), 1..12),
        ) {
            let text = spelled(OsStr::from_bytes(&name));
            let back = real(OsStr::new(&text)).unwrap_or_else(|| text.clone().into());
            prop_assert_eq!(back.as_bytes(), name.as_slice(), "{}", text);
            let shown = output::name(&text);
            let back = real(OsStr::new(&shown)).unwrap_or_else(|| shown.clone().into());
            prop_assert_eq!(back.as_bytes(), name.as_slice(), "{}", shown);
        }
    }
}
