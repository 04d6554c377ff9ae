//! A vocabulary from the `tokenizer.json` of a model's files. Above `vocabulary`. Knows no tokenizing: of that file, only
//! which bytes a token writes.
//!
//! Invariant: a token has the bytes that the file's own decoder writes for it inside a text, or the file is refused.

use rustc_hash::FxHashMap;
use serde_json::{Map, Value};

use super::tokens::TokenKind;
use super::vocabulary::Vocabulary;
use crate::{Error, Kind};

/// Ids without a token that a file may have, beside as many as it has tokens.
const HOLES: usize = 4_096;

impl Vocabulary {
    /// Reads a `tokenizer.json` of Hugging Face's `tokenizers`: byte-level BPE, and the pieces of SentencePiece (BPE or
    /// Unigram) with or without byte fallback. Added tokens that are special become [`TokenKind::Special`]; those named
    /// in `end` become [`TokenKind::EndOfGeneration`]. Which they are, that file does not say: look into
    /// `generation_config.json` or `tokenizer_config.json` for `eos_token`.
    ///
    /// A model may have more logits than there are tokens. No mask allows what is beyond the last of them.
    ///
    /// ```
    /// use serde_json::json;
    /// use toolgate_grammar::{TokenKind, Vocabulary};
    /// let vocabulary = Vocabulary::from_tokenizer_json(
    ///     &json!({
    ///         "model": {"type": "BPE", "vocab": {"a": 0, "Ġa": 1, "Ã©": 2}},
    ///         "decoder": {"type": "ByteLevel"},
    ///         "added_tokens": [{"id": 3, "content": "<|end|>", "special": true}]
    ///     }),
    ///     &["<|end|>"],
    /// )?;
    /// assert_eq!((vocabulary.bytes(1), vocabulary.bytes(2)), (&b" a"[..], "é".as_bytes()));
    /// assert_eq!(vocabulary.end_tokens(), [3]);
    /// # Ok::<(), toolgate_grammar::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Kind::Vocabulary`] for another document, for a tokenizer whose tokens have no bytes of their own (WordPiece), and
    /// for an end token that is not there.
    pub fn from_tokenizer_json(document: &Value, end: &[&str]) -> Result<Self, Error> {
        let mut tokens: FxHashMap<usize, (Vec<u8>, TokenKind)> = FxHashMap::default();
        let spelling = Spelling::of(document)?;
        for (piece, id) in pieces(document)? {
            if tokens.insert(id, (spelling.bytes(piece), TokenKind::Text)).is_some() {
                return Err(wrong(format!("two tokens have the id {id}")));
            }
        }
        // Most of them stand among the pieces, too; what is said here counts.
        for (text, id, special) in added(document)? {
            tokens.insert(
                id,
                match special {
                    true => (text.as_bytes().to_vec(), TokenKind::Special),
                    false => (spelling.added(text), TokenKind::Text),
                },
            );
        }
        for text in end {
            let named = tokens.iter_mut().filter(|(_, (bytes, _))| bytes == text.as_bytes());
            // The first special token, rather than a text that is spelled alike.
            let token = named.min_by_key(|(id, (_, kind))| (*kind != TokenKind::Special, **id));
            let (_, token) = token.ok_or_else(|| wrong(format!("there is no token {text:?} to end with")))?;
            token.1 = TokenKind::EndOfGeneration;
        }
        let length = tokens.keys().max().map_or(0, |last| last.saturating_add(1));
        if length > tokens.len().saturating_mul(2).saturating_add(HOLES) {
            return Err(wrong(format!(
                "the last token has the id {}, and there are {}",
                length - 1,
                tokens.len()
            )));
        }
        Self::new((0..length).map(|id| tokens.remove(&id).unwrap_or((Vec::new(), TokenKind::Unused))))
    }
}

/// How pieces are spelled.
#[derive(Debug, Default)]
struct Spelling {
    /// Each character stands for a byte.
    byte_level: bool,
    /// `<0x0A>` stands for a byte.
    byte_fallback: bool,
    /// Texts that stand for others, in the order in which they are replaced.
    replaced: Vec<(String, String)>,
}

impl Spelling {
    fn of(document: &Value) -> Result<Self, Error> {
        let mut spelling = Self::default();
        // Some files say it in the decoder, some before it, some in the model.
        spelling.decoder(document.get("decoder").unwrap_or(&Value::Null))?;
        spelling.byte_level |= has_byte_level(document.get("pre_tokenizer").unwrap_or(&Value::Null));
        let model = document.get("model");
        spelling.byte_fallback |=
            model.and_then(|model| model.get("byte_fallback")) == Some(&Value::Bool(true));
        Ok(spelling)
    }

    fn decoder(&mut self, decoder: &Value) -> Result<(), Error> {
        if decoder.is_null() {
            return Ok(());
        }
        let text = |name: &str| decoder.get(name).and_then(Value::as_str);
        match text("type").unwrap_or_default() {
            "Sequence" => {
                for part in decoder.get("decoders").and_then(Value::as_array).into_iter().flatten() {
                    self.decoder(part)?;
                }
            }
            "ByteLevel" => self.byte_level = true,
            "ByteFallback" => self.byte_fallback = true,
            "Metaspace" => {
                self.replaced.push((text("replacement").unwrap_or("\u{2581}").to_owned(), " ".to_owned()))
            }
            "Replace" => {
                let from = decoder.pointer("/pattern/String").and_then(Value::as_str);
                let (Some(from), Some(to)) = (from, text("content")) else {
                    return Err(wrong("its decoder replaces what an expression matches"));
                };
                self.replaced.push((from.to_owned(), to.to_owned()));
            }
            // What these do at the ends of a whole text says nothing of a token inside one.
            "Fuse" | "Strip" => {}
            other => {
                let error = wrong(format!("its decoder is of the type {other:?}"));
                return Err(error.hint("the tokens of WordPiece and the like have no bytes of their own"));
            }
        }
        Ok(())
    }

    /// The bytes of an added token. It is found in texts as it stands, so that its characters stand for no bytes; other
    /// decoders write it as they write a piece.
    fn added(&self, text: &str) -> Vec<u8> {
        if self.byte_level { text.as_bytes().to_vec() } else { self.bytes(text) }
    }

    fn bytes(&self, piece: &str) -> Vec<u8> {
        if self.byte_level {
            // A piece with a character that stands for no byte is written as it is.
            let bytes: Option<Vec<u8>> = piece.chars().map(byte_of).collect();
            return bytes.unwrap_or_else(|| piece.as_bytes().to_vec());
        }
        if self.byte_fallback
            && let Some(byte) = fallback(piece)
        {
            return vec![byte];
        }
        self.replaced.iter().fold(piece.to_owned(), |text, (from, to)| text.replace(from, to)).into_bytes()
    }
}

/// Whether a pre-tokenizer, or a part of it, writes bytes as characters.
fn has_byte_level(step: &Value) -> bool {
    let parts = step.get("pretokenizers").and_then(Value::as_array);
    step.get("type").and_then(Value::as_str) == Some("ByteLevel")
        || parts.into_iter().flatten().any(has_byte_level)
}

/// The byte that a character of byte-level BPE stands for: printable ones for themselves, the others, in their order, for
/// those from U+0100 on.
fn byte_of(c: char) -> Option<u8> {
    let printable = |byte: u8| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    match u8::try_from(c) {
        Ok(byte) => printable(byte).then_some(byte),
        Err(_) => {
            let place = (c as usize).checked_sub(0x100)?;
            (0..=u8::MAX).filter(|byte| !printable(*byte)).nth(place)
        }
    }
}

/// The byte of `<0x0A>`.
fn fallback(piece: &str) -> Option<u8> {
    let digits = piece.strip_prefix("<0x")?.strip_suffix('>')?;
    let two = digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    two.then(|| u8::from_str_radix(digits, 16).ok()).flatten()
}

/// The pieces of the model with their ids: a map of them (BPE, WordLevel), or a list of pairs with scores (Unigram).
fn pieces(document: &Value) -> Result<Vec<(&str, usize)>, Error> {
    let none = || wrong("there is no \"model\" with a \"vocab\"");
    match document.pointer("/model/vocab").ok_or_else(none)? {
        Value::Object(map) => map.iter().map(|(piece, id)| Ok((piece.as_str(), number(id)?))).collect(),
        Value::Array(list) => {
            let piece = |pair: &'_ Value| pair.get(0).and_then(Value::as_str).is_some();
            if !list.iter().all(piece) {
                return Err(wrong("a piece of the vocabulary is no text with a score"));
            }
            Ok(list.iter().filter_map(|pair| pair.get(0)?.as_str()).zip(0..).collect())
        }
        _ => Err(none()),
    }
}

/// The added tokens: text, id, whether it is special.
fn added(document: &Value) -> Result<Vec<(&str, usize, bool)>, Error> {
    let list = document.get("added_tokens").and_then(Value::as_array);
    let read = |token: &'_ Map<String, Value>| {
        let special = token.get("special").and_then(Value::as_bool).unwrap_or_default();
        Ok::<_, Error>((number(token.get("id").unwrap_or(&Value::Null))?, special))
    };
    let mut tokens = Vec::new();
    for token in list.into_iter().flatten() {
        let map = token.as_object().ok_or_else(|| wrong("an added token is no object"))?;
        let text = map.get("content").and_then(Value::as_str);
        let (id, special) = read(map)?;
        tokens.push((text.ok_or_else(|| wrong(format!("added token {id} has no content")))?, id, special));
    }
    Ok(tokens)
}

fn number(id: &Value) -> Result<usize, Error> {
    id.as_u64()
        .and_then(|id| usize::try_from(id).ok())
        .ok_or_else(|| wrong(format!("{id} is no id of a token")))
}

fn wrong(why: impl Into<String>) -> Error {
    Error::new(Kind::Vocabulary, format!("no tokenizer.json that can be used: {}", why.into()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::*;

    fn all(vocabulary: &Vocabulary) -> Vec<(Vec<u8>, TokenKind)> {
        let tokens = 0..vocabulary.len() as u32;
        tokens.map(|token| (vocabulary.bytes(token).to_vec(), vocabulary.kind(token))).collect()
    }

    #[test]
    fn each_byte_has_a_character_of_its_own() {
        // The whole table, as the model files of GPT-2 have it: the first 256 pieces in the order of their ids.
        let printable = ('!'..='~').chain('¡'..='¬').chain('®'..='ÿ');
        let bytes: Vec<u8> = printable.chain('\u{100}'..='\u{143}').map(|c| byte_of(c).unwrap()).collect();
        let mut sorted = bytes.clone();
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..=u8::MAX));
        assert_eq!(['Ġ', 'Ċ', 'ĉ', 'č'].map(|c| byte_of(c).unwrap()), *b" \n\t\r");
        assert_eq!([' ', '\u{ad}', '\u{144}', '日'].map(byte_of), [None; 4]);
    }

    #[test]
    fn byte_level_pieces_are_bytes_and_added_tokens_are_text() {
        let vocabulary = Vocabulary::from_tokenizer_json(
            &json!({
                "added_tokens": [
                    {"id": 5, "content": "<|im_end|>", "special": true},
                    {"id": 6, "content": "<é>", "special": false},
                    {"id": 8, "content": "<|pad|>", "special": true},
                ],
                "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Split"}, {"type": "ByteLevel"}]},
                "decoder": null,
                "model": {"type": "BPE", "vocab": {"!": 0, "Ġthe": 1, "æĹ": 2, "Ċĉ": 3, "日": 4}, "merges": []}
            }),
            &["<|im_end|>"],
        );
        let expected = [
            (&b"!"[..], TokenKind::Text),
            (b" the", TokenKind::Text),
            (b"\xe6\x97", TokenKind::Text),
            (b"\n\t", TokenKind::Text),
            ("日".as_bytes(), TokenKind::Text),
            (b"<|im_end|>", TokenKind::EndOfGeneration),
            ("<é>".as_bytes(), TokenKind::Text),
            (b"", TokenKind::Unused),
            (b"<|pad|>", TokenKind::Special),
        ];
        assert_eq!(all(&vocabulary.unwrap()), expected.map(|(bytes, kind)| (bytes.to_vec(), kind)));
    }

    #[test]
    fn sentence_pieces_have_blanks_and_fall_back_to_bytes() {
        let replace = json!({"type": "Replace", "pattern": {"String": "▁"}, "content": " "});
        let decoders = [
            json!({"type": "Sequence", "decoders": [replace, {"type": "ByteFallback"}, {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}),
            json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"}),
        ];
        let vocabularies = [
            json!({"type": "BPE", "byte_fallback": true,
                "vocab": {"<unk>": 0, "</s>": 1, "<0x0A>": 2, "<0xfF>": 3, "▁▁a": 4, "<0x0>": 5, "<0x+1>": 6}}),
            json!({"type": "Unigram", "byte_fallback": true, "unk_id": 0, "vocab": [["<unk>", 0.0], ["</s>", 0.0],
                ["<0x0A>", 0.0], ["<0xfF>", -1.0], ["▁▁a", -2.5], ["<0x0>", -3], ["<0x+1>", -4]]}),
        ];
        let added = json!([{"id": 0, "content": "<unk>", "special": true}, {"id": 1, "content": "</s>", "special": true},
            {"id": 7, "content": "▁\n▁", "special": false}]);
        for decoder in &decoders {
            for model in &vocabularies {
                let document = json!({"added_tokens": added, "decoder": decoder, "model": model});
                let vocabulary = Vocabulary::from_tokenizer_json(&document, &["</s>"]).unwrap();
                let bytes: Vec<Vec<u8>> =
                    all(&vocabulary).into_iter().map(|(bytes, _)| bytes).skip(2).collect();
                assert_eq!(bytes, [&b"\n"[..], b"\xff", b"  a", b"<0x0>", b"<0x+1>", b" \n "], "{document}");
                assert_eq!((vocabulary.special("<unk>"), vocabulary.end_tokens()), (Some(0), &[1][..]));
            }
        }
        let plain = json!({"decoder": null, "model": {"type": "BPE", "vocab": {"<0x0A>": 0}}});
        assert_eq!(
            Vocabulary::from_tokenizer_json(&plain, &[]).unwrap().bytes(0),
            b"<0x0A>",
            "without byte fallback"
        );
    }

    #[test]
    fn what_cannot_be_used_is_refused_with_the_reason() {
        let check = |place: &str, value: Value| {
            let mut document = json!({
                "added_tokens": [{"id": 1, "content": "<end>", "special": true}],
                "decoder": {"type": "ByteLevel"}, "model": {"type": "BPE", "vocab": {"a": 0}}
            });
            *document.pointer_mut(place).unwrap() = value;
            Vocabulary::from_tokenizer_json(&document, &["<end>"])
        };
        assert!(check("/model/type", json!("WordLevel")).is_ok());
        for (place, value, reason) in [
            ("/model", json!({}), "vocab"),
            ("/decoder", json!({"type": "WordPiece", "prefix": "##"}), "type \"WordPiece\""),
            ("/decoder", json!({"type": "Replace", "pattern": {"Regex": "x"}, "content": ""}), "expression"),
            ("/model/vocab", json!({"a": 0, "b": 0}), "two tokens have the id 0"),
            ("/model/vocab/a", json!(-1), "-1 is no id"),
            ("/model/vocab/a", json!(99_999_999), "the last token has the id 99999999"),
            ("/model/vocab/a", json!(u64::MAX), "the last token has the id"),
            ("/model/vocab", json!([["a", 0.0], 1]), "no text with a score"),
            ("/added_tokens", json!([]), "no token \"<end>\""),
            ("/added_tokens", json!([{"id": 1}]), "no content"),
            ("/added_tokens", json!([1]), "no object"),
        ] {
            let error = check(place, value).unwrap_err();
            assert_eq!(error.kind(), Kind::Vocabulary);
            assert!(error.to_string().contains(reason), "{error}");
        }
    }
}
