//! The last step of every tool: makes bytes of a file, a command or a guest into text that is safe to show to
//! a model or on a terminal.
//!
//! Invariant: the text is valid UTF-8. It has no control, bidirectional-override or tag character but `\n`
//! and `\t`. It is never longer than its cap, and cleaning it again changes nothing.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Longest name that a message shows whole, in bytes after escaping.
const NAME_BYTES: usize = 300;

/// Room for the marker of a cut: its words and the digits of any `usize`.
const MARKER_BYTES: usize = 64;

/// A text that is safe to show, and whether its end was cut off.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cleaned {
    /// The text, at most as long as the cap it was made with.
    pub text: String,
    /// Whether the end was cut off. The text then says so, if the cap has room for the words.
    pub truncated: bool,
}

/// Adds `text` to `out`, on a line of its own.
pub(crate) fn push_line(out: &mut Vec<u8>, text: &str) {
    if out.last().is_some_and(|last| *last != b'\n') {
        out.push(b'\n');
    }
    out.extend_from_slice(text.as_bytes());
}

/// Makes `bytes` safe for the context of a model: at most `max_bytes` of valid UTF-8. Characters that could
/// hide or reorder text become `\u{..}`.
///
/// The cut comes after the escaping, since escaped text is up to eight times longer.
///
/// ```
/// use toolgate_sandbox::output::for_model;
/// let shown = for_model(b"red \x1b[31mtext\r\nnext", 1000);
/// assert_eq!(shown.text, "red \\u{1b}[31mtext\nnext");
/// let cut = for_model(&[b'x'; 5000], 200);
/// assert!(cut.truncated && cut.text.len() <= 200);
/// assert!(cut.text.ends_with("more bytes not shown]"));
/// ```
pub fn for_model(bytes: &[u8], max_bytes: usize) -> Cleaned {
    let room = if max_bytes >= 2 * MARKER_BYTES { max_bytes - MARKER_BYTES } else { max_bytes };
    let mut text = String::with_capacity(bytes.len().min(max_bytes.saturating_add(16)));
    // The longest prefix that still leaves room for the marker, and how many input bytes it stands for.
    let mut fits = (0, 0);
    let mut read = 0;
    for chunk in bytes.utf8_chunks() {
        let mut chars = chunk.valid().chars().peekable();
        while let Some(c) = chars.next() {
            read += c.len_utf8();
            // A line end is `\n` however it is spelled; a lone carriage return would overwrite a line.
            let line_end = c == '\r' && chars.peek() == Some(&'\n');
            if !line_end {
                push_escaped(&mut text, c);
            }
            if text.len() <= room {
                fits = (text.len(), read);
            } else if text.len() > max_bytes {
                return cut(text, fits, bytes.len(), max_bytes);
            }
        }
        if !chunk.invalid().is_empty() {
            read += chunk.invalid().len();
            text.push(char::REPLACEMENT_CHARACTER);
            if text.len() <= room {
                fits = (text.len(), read);
            }
        }
        if text.len() > max_bytes {
            return cut(text, fits, bytes.len(), max_bytes);
        }
    }
    Cleaned { text, truncated: false }
}

/// Makes text of a model or a tool safe for a terminal, with the same escaping. Nothing is cut.
///
/// A stream can be cleaned piece by piece. The result for a character never depends on its neighbours, with
/// one exception: `\r\n` inside a piece is a line end.
///
/// ```
/// use toolgate_sandbox::output::for_terminal;
/// assert_eq!(for_terminal("plain"), "plain");
/// assert_eq!(for_terminal("\u{202e}evil"), "\\u{202e}evil");
/// ```
pub fn for_terminal(text: &str) -> Cow<'_, str> {
    if !text.chars().any(must_escape) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if !(c == '\r' && chars.peek() == Some(&'\n')) {
            push_escaped(&mut out, c);
        }
    }
    Cow::Owned(out)
}

/// Makes a file name or another short text safe inside a line. Line ends and tabs are escaped too, and text
/// beyond 300 bytes is cut.
///
/// ```
/// assert_eq!(toolgate_sandbox::output::name("a\nb"), "a\\u{a}b");
/// ```
pub fn name(text: &str) -> String {
    let mut out = String::with_capacity(text.len().min(NAME_BYTES));
    for c in text.chars() {
        if out.len() + c.len_utf8() > NAME_BYTES {
            out.push('…');
            break;
        }
        if matches!(c, '\n' | '\t') {
            push_code(&mut out, c);
        } else {
            push_escaped(&mut out, c);
        }
    }
    out
}

fn cut(mut text: String, fits: (usize, usize), total: usize, max_bytes: usize) -> Cleaned {
    let (kept, read) = fits;
    text.truncate(kept);
    let marker = format!("\n[{} more bytes not shown]", total.saturating_sub(read));
    if text.len() + marker.len() <= max_bytes {
        text.push_str(&marker);
    }
    Cleaned { text, truncated: true }
}

pub(crate) fn push_escaped(out: &mut String, c: char) {
    if must_escape(c) {
        push_code(out, c);
    } else {
        out.push(c);
    }
}

fn push_code(out: &mut String, c: char) {
    // Writing to a String cannot fail.
    let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
}

/// Characters that a terminal obeys, that reorder the text, or that a reader cannot see. Joiners (U+200C,
/// U+200D) and variation selectors 1-16 stay, since scripts and emoji need them.
pub(crate) fn must_escape(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}' => true,
        // Zero-width space, direction marks, line and paragraph separators, embeddings and overrides.
        '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' => true,
        // Word joiner, invisible operators, isolates, deprecated format characters.
        '\u{2060}'..='\u{206f}' | '\u{61c}' | '\u{180e}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' => true,
        // Tags, and the variation selectors that can spell bytes nobody sees.
        '\u{e0000}'..='\u{e0fff}' => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use proptest::prelude::*;

    use super::*;

    fn check(input: &[u8], shown: &str) {
        let cleaned = for_model(input, 10_000);
        assert_eq!(cleaned.text, shown);
        assert!(!cleaned.truncated);
        if let Ok(text) = std::str::from_utf8(input) {
            assert_eq!(for_terminal(text), shown, "the terminal sees the same");
        }
    }

    #[test]
    fn plain_text_is_untouched() {
        check("naïve 日本 👩‍👩‍👧 ❤️\n\ttab".as_bytes(), "naïve 日本 👩‍👩‍👧 ❤️\n\ttab");
    }

    #[test]
    fn terminal_sequences_are_spelled_out() {
        check(b"\x1b]0;title\x07\x1b[2J", "\\u{1b}]0;title\\u{7}\\u{1b}[2J");
        check("\u{9b}31m".as_bytes(), "\\u{9b}31m");
    }

    #[test]
    fn line_ends_are_one_kind_and_a_lone_return_is_seen() {
        check(b"a\r\nb\rc", "a\nb\\u{d}c");
    }

    #[test]
    fn hidden_text_is_seen() {
        check("a\u{e0041}\u{202e}b\u{feff}".as_bytes(), "a\\u{e0041}\\u{202e}b\\u{feff}");
    }

    #[test]
    fn broken_utf8_becomes_replacement_characters() {
        check(b"a\xffb\xe2\x82", "a\u{fffd}b\u{fffd}");
    }

    #[test]
    fn the_cut_counts_after_escaping() {
        let cleaned = for_model(&[0; 100_000], 1_000);
        assert!(cleaned.text.len() <= 1_000 && cleaned.truncated);
        assert!(cleaned.text.ends_with("more bytes not shown]"), "{}", cleaned.text);
        let whole = for_model(&[b'a'; 1_000], 1_000);
        assert!(!whole.truncated, "exactly the cap is not too long");
    }

    #[test]
    fn a_long_name_is_one_short_line() {
        let shown = name(&"x\n".repeat(1_000));
        assert!(shown.len() <= NAME_BYTES + 10 && !shown.contains('\n'));
    }

    proptest! {
        #[test]
        fn cleaning_is_idempotent_bounded_and_free_of_control(
            pieces in prop::collection::vec(
                prop_oneof![
                    any::<String>().prop_map(String::into_bytes),
                    prop::collection::vec(any::<u8>(), 0..40),
                    prop::sample::select(vec![b"\x1b[31m".to_vec(), b"\r\n".to_vec(), b"\r".to_vec(), vec![0xe2, 0x80, 0xae]]),
                ],
                0..40,
            ),
            cap in 0usize..600,
        ) {
            let input = pieces.concat();
            let once = for_model(&input, cap);
            prop_assert!(once.text.len() <= cap);
            prop_assert!(!once.text.chars().any(must_escape));
            prop_assert!(!once.text.contains(char::from(27)));
            let twice = for_model(once.text.as_bytes(), cap);
            prop_assert_eq!(&twice.text, &once.text);
            prop_assert!(!twice.truncated);
            prop_assert_eq!(for_terminal(&once.text).into_owned(), once.text);
        }
    }
}
