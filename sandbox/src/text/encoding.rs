//! Below [`Text`](super::Text): the encodings of files. Knows bytes and characters, no lines and no files.
//!
//! Invariant: each byte belongs to one piece of text. A byte without a character becomes `\xff`, so the shown
//! text loses nothing.

use std::borrow::Cow;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};

/// Bytes from which an encoding is guessed, from the first on that is no ASCII.
const GUESSED_FROM: usize = 256 * 1024;
/// The longest character of any encoding, in bytes.
const LONGEST: usize = 4;

/// The encoding of the characters of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Utf8,
    Utf16Le,
    Utf16Be,
    /// One without a mark of its own, as it was guessed.
    Guessed(&'static encoding_rs::Encoding),
}

impl Encoding {
    /// The encoding of a file and the length of its byte order mark; nothing for one that is no text.
    pub(crate) fn of(bytes: &[u8]) -> Option<(Self, usize)> {
        match bytes {
            // The mark of UTF-32 begins as that of UTF-16 does.
            [0xff, 0xfe, 0, 0, ..] => None,
            [0xff, 0xfe, ..] => Some((Self::Utf16Le, 2)),
            [0xfe, 0xff, ..] => Some((Self::Utf16Be, 2)),
            _ if is_binary(bytes) => None,
            [0xef, 0xbb, 0xbf, ..] => Some((Self::Utf8, 3)),
            _ => Some((Self::without_mark(bytes), 0)),
        }
    }

    fn without_mark(bytes: &[u8]) -> Self {
        let Err(error) = std::str::from_utf8(bytes) else { return Self::Utf8 };
        let (mut broken, mut characters) = (0, 0);
        for chunk in bytes.utf8_chunks() {
            broken += chunk.invalid().len();
            characters += chunk.valid().chars().filter(|c| !c.is_ascii()).count();
        }
        // In other encodings bytes rarely fall into place as those of a character of UTF-8 have to.
        if characters > broken {
            return Self::Utf8;
        }
        let from = bytes.iter().position(|byte| !byte.is_ascii()).unwrap_or(error.valid_up_to());
        // Two bytes before show what the first character stands next to.
        let rest = bytes.get(from.saturating_sub(2)..).unwrap_or_default();
        let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
        detector.feed(rest.get(..GUESSED_FROM).unwrap_or(rest), true);
        Self::Guessed(detector.guess(None, Utf8Detection::Deny))
    }

    /// Its name, as the web's standard has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Utf8 => "UTF-8",
            Self::Utf16Le => "UTF-16LE",
            Self::Utf16Be => "UTF-16BE",
            Self::Guessed(encoding) => encoding.name(),
        }
    }

    /// Adds the text of `bytes` to `text`; how many bytes are spelled out.
    pub(crate) fn decode(self, bytes: &[u8], text: &mut String) -> usize {
        if let Some(whole) = self.whole(bytes) {
            text.push_str(&whole);
            return 0;
        }
        let mut spelled = 0;
        self.pieces(bytes, &mut |piece, decoded, is_text| {
            spelled += if is_text { 0 } else { piece.len() };
            text.push_str(decoded);
        });
        spelled
    }

    /// The text of bytes that are text throughout.
    pub(crate) fn whole(self, bytes: &[u8]) -> Option<Cow<'_, str>> {
        match self {
            Self::Utf8 => std::str::from_utf8(bytes).ok().map(Cow::Borrowed),
            Self::Utf16Le | Self::Utf16Be if bytes.len() % 2 == 1 => None,
            Self::Utf16Le | Self::Utf16Be => {
                char::decode_utf16(self.units(bytes)).collect::<Result<String, _>>().ok().map(Cow::Owned)
            }
            Self::Guessed(encoding) => encoding.decode_without_bom_handling_and_without_replacement(bytes),
        }
    }

    /// Shows each piece of `bytes` with its text: a character, or a byte spelled out, which is no text.
    pub(crate) fn pieces<'b>(self, bytes: &'b [u8], each: &mut dyn FnMut(&'b [u8], &str, bool)) {
        let mut rest = bytes;
        let mut buffer = String::with_capacity(16);
        while !rest.is_empty() {
            buffer.clear();
            let (len, is_text) = match self.first(rest, &mut buffer) {
                Some(len) => (len, true),
                None => {
                    let len =
                        if matches!(self, Self::Utf8 | Self::Guessed(_)) { 1 } else { rest.len().min(2) };
                    let spelled = rest.iter().take(len).map(|byte| format!("\\x{byte:02x}"));
                    buffer.extend(spelled);
                    (len, false)
                }
            };
            let Some((piece, after)) = rest.split_at_checked(len) else { return };
            each(piece, &buffer, is_text);
            rest = after;
        }
    }

    /// Adds the first character of `bytes` to `text`, and gives its length; nothing where they begin with none.
    fn first(self, bytes: &[u8], text: &mut String) -> Option<usize> {
        match self {
            Self::Utf8 => {
                let c = (1..=bytes.len().min(LONGEST))
                    .find_map(|len| std::str::from_utf8(bytes.get(..len)?).ok()?.chars().next())?;
                text.push(c);
                Some(c.len_utf8())
            }
            Self::Utf16Le | Self::Utf16Be => {
                let start = bytes.get(..bytes.len().min(LONGEST))?;
                let c = char::decode_utf16(self.units(start)).next()?.ok()?;
                text.push(c);
                Some(c.len_utf16() * 2)
            }
            Self::Guessed(encoding) => {
                let mut decoder = encoding.new_decoder_without_bom_handling();
                let mut buffer = [0; 16];
                for (at, byte) in bytes.iter().take(LONGEST).enumerate() {
                    let (result, _, written) =
                        decoder.decode_to_utf8_without_replacement(&[*byte], &mut buffer, false);
                    if !matches!(result, encoding_rs::DecoderResult::InputEmpty) {
                        return None;
                    }
                    if written > 0 {
                        text.push_str(std::str::from_utf8(buffer.get(..written)?).ok()?);
                        return Some(at + 1);
                    }
                }
                None
            }
        }
    }

    fn units(self, bytes: &[u8]) -> impl Iterator<Item = u16> + '_ {
        bytes.chunks_exact(2).map(move |pair| match (self, pair) {
            (Self::Utf16Be, [a, b]) => u16::from_be_bytes([*a, *b]),
            (_, [a, b]) => u16::from_le_bytes([*a, *b]),
            _ => 0,
        })
    }

    /// The bytes of `text`, which decode to it again.
    ///
    /// # Errors
    /// The first character that the encoding does not have.
    pub(crate) fn encode(self, text: &str) -> Result<Vec<u8>, char> {
        let bytes: Vec<u8> = match self {
            Self::Utf8 => return Ok(text.as_bytes().to_vec()),
            Self::Utf16Le => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
            Self::Utf16Be => text.encode_utf16().flat_map(u16::to_be_bytes).collect(),
            Self::Guessed(encoding) => {
                let has = |text: &str| {
                    let (bytes, _, is_lossy) = encoding.encode(text);
                    // Some encoders write a character as one that is only like it.
                    (!is_lossy && self.whole(&bytes).as_deref() == Some(text)).then(|| bytes.into_owned())
                };
                let lacking = |text: &str| text.chars().find(|c| has(c.encode_utf8(&mut [0; 4])).is_none());
                match has(text) {
                    Some(bytes) => bytes,
                    None => return Err(lacking(text).unwrap_or(char::REPLACEMENT_CHARACTER)),
                }
            }
        };
        Ok(bytes)
    }
}

/// Whether the bytes look like something other than text: a NUL among the first 8 KiB, as in git and grep.
fn is_binary(bytes: &[u8]) -> bool {
    memchr::memchr(0, bytes.get(..8192).unwrap_or(bytes)).is_some()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use proptest::prelude::*;

    use super::*;

    fn named(bytes: &[u8]) -> Option<&'static str> {
        Encoding::of(bytes).map(|(encoding, _)| encoding.name())
    }

    #[test]
    fn encodings_are_told_apart() {
        let in_one =
            |encoding: &'static encoding_rs::Encoding, text: &str| encoding.encode(text).0.into_owned();
        let utf16 = |text: &str| [vec![0xff, 0xfe], Encoding::Utf16Le.encode(text).unwrap()].concat();
        for (bytes, name) in [
            (b"plain\n".to_vec(), Some("UTF-8")),
            ("héllo".into(), Some("UTF-8")),
            (b"\xef\xbb\xbfmark".to_vec(), Some("UTF-8")),
            (utf16("h\u{e9}"), Some("UTF-16LE")),
            (b"\xfe\xff\0h".to_vec(), Some("UTF-16BE")),
            (b"\xff\xfe\0\0h\0\0\0".to_vec(), None),
            (b"\x7fELF\0\0".to_vec(), None),
            (b"na\xefve caf\xe9\n".to_vec(), Some("windows-1252")),
            (in_one(encoding_rs::WINDOWS_1251, "Порт по умолчанию"), Some("windows-1251")),
            (in_one(encoding_rs::SHIFT_JIS, "既定のポートは八千八十番です"), Some("Shift_JIS")),
            (in_one(encoding_rs::GBK, "默认端口是八千零八十"), Some("GBK")),
            (in_one(encoding_rs::EUC_KR, "기본 포트는 팔천팔십입니다"), Some("EUC-KR")),
            // Text of UTF-8 with a broken byte stays such.
            (b"\xc3\xa9t\xc3\xa9 \xe9".to_vec(), Some("UTF-8")),
        ] {
            assert_eq!(named(&bytes), name, "{bytes:?}");
        }
    }

    #[test]
    fn bytes_without_a_character_are_spelled_out() {
        let shown = |encoding: Encoding, bytes: &[u8]| {
            let mut text = String::new();
            (encoding.decode(bytes, &mut text), text)
        };
        assert_eq!(shown(Encoding::Utf8, b"a\xe2\x82b"), (2, "a\\xe2\\x82b".to_owned()));
        assert_eq!(shown(Encoding::Utf16Le, b"a\0\x00\xd8b\0c"), (3, "a\\x00\\xd8b\\x63".to_owned()));
        assert_eq!(
            shown(Encoding::Guessed(encoding_rs::SHIFT_JIS), b"\x82\xa0\x82"),
            (1, "あ\\x82".to_owned())
        );
    }

    #[test]
    fn a_character_that_would_come_back_as_another_is_not_written() {
        let japanese = Encoding::Guessed(encoding_rs::SHIFT_JIS);
        assert_eq!(japanese.encode("a¥"), Err('¥'), "it would be a backslash");
        assert_eq!(japanese.encode("あ€").unwrap_err(), '€');
        assert_eq!(Encoding::Guessed(encoding_rs::WINDOWS_1252).encode("é€").unwrap(), b"\xe9\x80");
    }

    fn any_encoding() -> impl Strategy<Value = Encoding> {
        let guessed = [
            encoding_rs::WINDOWS_1252,
            encoding_rs::WINDOWS_1251,
            encoding_rs::SHIFT_JIS,
            encoding_rs::EUC_JP,
            encoding_rs::GBK,
            encoding_rs::BIG5,
            encoding_rs::EUC_KR,
        ];
        let guessed = prop::sample::select(guessed.map(Encoding::Guessed).to_vec());
        prop_oneof![Just(Encoding::Utf8), Just(Encoding::Utf16Le), Just(Encoding::Utf16Be), guessed]
    }

    proptest! {
        #[test]
        fn each_byte_belongs_to_one_piece(
            encoding in any_encoding(),
            bytes in prop::collection::vec(any::<u8>(), 0..60),
        ) {
            let (mut all, mut text, mut decoded) = (Vec::new(), String::new(), String::new());
            encoding.pieces(&bytes, &mut |piece, shown, _| {
                all.extend_from_slice(piece);
                text.push_str(shown);
            });
            encoding.decode(&bytes, &mut decoded);
            prop_assert_eq!(all, bytes);
            prop_assert_eq!(text, decoded);
        }

        #[test]
        fn what_is_written_reads_the_same(encoding in any_encoding(), text in any::<String>()) {
            if let Ok(bytes) = encoding.encode(&text) {
                let decoded = encoding.whole(&bytes);
                prop_assert_eq!(decoded.as_deref(), Some(text.as_str()));
            }
        }
    }
}
