//! The tokens and merges of a GGUF file, and a byte-level BPE tokenizer over them, for the traces of `peers`.
//!
//! The split into words follows Qwen2's pattern, so its traces are the token sequences its own tokenizer writes;
//! those of other families may differ from theirs at word edges, which no engine here depends on.

use std::collections::HashMap;
use std::io::{Error, ErrorKind, Read, Result};

use toolgate_grammar::TokenKind;

/// What a GGUF file says of its tokenizer.
pub(crate) struct Tokenizer {
    /// Bytes and kind of each token, in the order of ids.
    pub(crate) tokens: Vec<(Vec<u8>, TokenKind)>,
    /// The end token.
    pub(crate) end: u32,
    ids: HashMap<Vec<u8>, u32>,
    /// The rank of each pair that merges.
    ranks: HashMap<(Vec<u8>, Vec<u8>), usize>,
}

enum Value {
    Number(u64),
    Strings(Vec<Vec<u8>>),
    Numbers(Vec<u64>),
    Other,
}

impl Tokenizer {
    /// Reads the metadata of a GGUF file; the weights are not touched.
    pub(crate) fn read(path: &str) -> Result<Self> {
        let mut reader = Reader(std::io::BufReader::new(std::fs::File::open(path)?));
        if reader.bytes(4)? != b"GGUF" {
            return Err(Error::new(ErrorKind::InvalidData, "not a GGUF file"));
        }
        let (_version, _tensors, entries) = (reader.number(4)?, reader.number(8)?, reader.number(8)?);
        let mut metadata = HashMap::new();
        for _ in 0..entries {
            let key = String::from_utf8_lossy(&reader.string()?).into_owned();
            let kind = reader.number(4)?;
            metadata.insert(key, reader.value(kind)?);
        }
        let missing = |what: &str| Error::new(ErrorKind::InvalidData, format!("no {what} in the file"));
        let Some(Value::Strings(texts)) = metadata.remove("tokenizer.ggml.tokens") else {
            return Err(missing("tokens"));
        };
        let Some(Value::Numbers(kinds)) = metadata.remove("tokenizer.ggml.token_type") else {
            return Err(missing("token types"));
        };
        let Some(Value::Strings(merges)) = metadata.remove("tokenizer.ggml.merges") else {
            return Err(missing("merges"));
        };
        let Some(Value::Number(end)) = metadata.remove("tokenizer.ggml.eos_token_id") else {
            return Err(missing("end token"));
        };
        Ok(Self::new(&texts, &kinds, &merges, end as u32))
    }

    fn new(texts: &[Vec<u8>], kinds: &[u64], merges: &[Vec<u8>], end: u32) -> Self {
        let bytes_of = bytes_of_chars();
        let decode = |text: &[u8]| -> Vec<u8> {
            String::from_utf8_lossy(text).chars().filter_map(|char| bytes_of.get(&char)).copied().collect()
        };
        let mut tokens = Vec::with_capacity(texts.len());
        let mut ids = HashMap::new();
        for (id, (text, kind)) in (0u32..).zip(texts.iter().zip(kinds)) {
            let token = match kind {
                _ if id == end => (text.clone(), TokenKind::EndOfGeneration),
                2 | 3 => (text.clone(), TokenKind::Special),
                4 => (text.clone(), TokenKind::Text),
                5 => (text.clone(), TokenKind::Unused),
                _ => {
                    let bytes = decode(text);
                    ids.entry(bytes.clone()).or_insert(id);
                    (bytes, TokenKind::Text)
                }
            };
            tokens.push(token);
        }
        let ranks = merges
            .iter()
            .enumerate()
            .filter_map(|(rank, merge)| {
                let at = merge.iter().position(|&byte| byte == b' ')?;
                Some(((decode(merge.get(..at)?), decode(merge.get(at + 1..)?)), rank))
            })
            .collect();
        Self { tokens, end, ids, ranks }
    }

    /// The tokens of a text.
    pub(crate) fn tokenize(&self, text: &str) -> Vec<u32> {
        let mut tokens = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let (word, after) = rest.split_at(word_length(rest));
            self.merge(word.as_bytes(), &mut tokens);
            rest = after;
        }
        tokens
    }

    fn merge(&self, word: &[u8], tokens: &mut Vec<u32>) {
        let mut parts: Vec<Vec<u8>> = word.iter().map(|&byte| vec![byte]).collect();
        loop {
            let pairs = parts.windows(2).enumerate().filter_map(|(at, pair)| match pair {
                [a, b] => Some((*self.ranks.get(&(a.clone(), b.clone()))?, at)),
                _ => None,
            });
            let Some((_, at)) = pairs.min() else { break };
            let right = parts.remove(at + 1);
            if let Some(left) = parts.get_mut(at) {
                left.extend(right);
            }
        }
        tokens.extend(parts.iter().filter_map(|part| self.ids.get(part)));
    }
}

/// Bytes of the first word of a text that is not empty, after
/// `'s|'t|'re|'ve|'m|'ll|'d|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`.
fn word_length(text: &str) -> usize {
    let run = |from: &str, fits: &dyn Fn(char) -> bool| -> usize {
        from.chars().take_while(|&char| fits(char)).map(char::len_utf8).sum()
    };
    let lower = text.get(..text.len().min(3)).unwrap_or(text).to_lowercase();
    if let Some(suffix) =
        ["'re", "'ve", "'ll", "'s", "'t", "'m", "'d"].iter().find(|s| lower.starts_with(**s))
    {
        return suffix.len();
    }
    let Some(first) = text.chars().next() else { return 0 };
    let after = &text[first.len_utf8()..];
    if first.is_alphabetic() {
        return run(text, &char::is_alphabetic);
    }
    if first != '\r' && first != '\n' && !first.is_numeric() && after.starts_with(char::is_alphabetic) {
        return first.len_utf8() + run(after, &char::is_alphabetic);
    }
    if first.is_numeric() {
        return first.len_utf8();
    }
    let is_mark = |char: char| !char.is_whitespace() && !char.is_alphabetic() && !char.is_numeric();
    let space = usize::from(first == ' ');
    let marks = run(&text[space..], &is_mark);
    if marks > 0 {
        return space + marks + run(&text[space + marks..], &|char| char == '\r' || char == '\n');
    }
    let blank = run(text, &char::is_whitespace);
    if let Some(line_end) = text[..blank].rfind(['\r', '\n']) {
        return line_end + 1;
    }
    // The last blank goes with the word that follows it, unless it is the only one.
    let last = text[..blank].chars().next_back().map_or(0, char::len_utf8);
    if blank < text.len() && blank > last { blank - last } else { blank }
}

/// GPT-2's spelling of bytes as printable characters.
fn bytes_of_chars() -> HashMap<char, u8> {
    let printable = |byte: &u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let (shown, others): (Vec<u8>, Vec<u8>) = (0..=u8::MAX).partition(printable);
    let shown = shown.into_iter().map(|byte| (char::from(byte), byte));
    shown.chain(('\u{100}'..).zip(others)).collect()
}

struct Reader<R>(R);

impl<R: Read> Reader<R> {
    fn bytes(&mut self, n: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; n];
        self.0.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// A little-endian number of `n` bytes.
    fn number(&mut self, n: usize) -> Result<u64> {
        Ok(self.bytes(n)?.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    fn string(&mut self) -> Result<Vec<u8>> {
        let length = self.number(8)?;
        self.bytes(length as usize)
    }

    fn value(&mut self, kind: u64) -> Result<Value> {
        const STRING: u64 = 8;
        const ARRAY: u64 = 9;
        let size = |kind: u64| match kind {
            0 | 1 | 7 => 1,
            2 | 3 => 2,
            4..=6 => 4,
            _ => 8,
        };
        Ok(match kind {
            STRING => {
                self.string()?;
                Value::Other
            }
            ARRAY => {
                let (kind, n) = (self.number(4)?, self.number(8)?);
                if kind == STRING {
                    Value::Strings((0..n).map(|_| self.string()).collect::<Result<_>>()?)
                } else {
                    Value::Numbers((0..n).map(|_| self.number(size(kind))).collect::<Result<_>>()?)
                }
            }
            kind => Value::Number(self.number(size(kind))?),
        })
    }
}
