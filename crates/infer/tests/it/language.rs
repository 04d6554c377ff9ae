//! A finite set of texts as a constraint, by brute force: what grammars are compared with, and nothing shared with
//! them.

use std::sync::Arc;

use toolgate_infer::{Constraint, Error, Follow, Forced, Kind, Mask, TokenId, TokenKind, Vocabulary};

/// Allows exactly these texts.
#[derive(Clone, Debug)]
pub(crate) struct Language {
    vocabulary: Arc<Vocabulary>,
    texts: Vec<Vec<u8>>,
    written: Vec<u8>,
}

impl Language {
    pub(crate) fn new(vocabulary: &Arc<Vocabulary>, texts: &[impl AsRef<str>]) -> Self {
        let texts = texts.iter().map(|text| text.as_ref().as_bytes().to_vec()).collect();
        Self { vocabulary: vocabulary.clone(), texts, written: Vec::new() }
    }

    /// What may still be written, for each text that begins with what was.
    fn rests(&self) -> impl Iterator<Item = &[u8]> {
        self.texts.iter().filter_map(|text| text.strip_prefix(self.written.as_slice()))
    }
}

impl Constraint for Language {
    fn allows(&mut self, token: TokenId) -> Result<bool, Error> {
        let bytes = self.vocabulary.bytes(token);
        Ok(match self.vocabulary.kind(token) {
            TokenKind::Text => !bytes.is_empty() && self.rests().any(|rest| rest.starts_with(bytes)),
            TokenKind::EndOfGeneration => self.is_complete(),
            _ => false,
        })
    }

    fn mask(&mut self) -> Result<Mask, Error> {
        let len = self.vocabulary.len();
        let allowed: Vec<TokenId> =
            (0..len as u32).filter(|&token| self.allows(token).is_ok_and(|allowed| allowed)).collect();
        Ok(Mask::of(len, allowed))
    }

    fn accept(&mut self, token: TokenId) -> Result<(), Error> {
        if !self.allows(token)? {
            return Err(Error::new(Kind::Constraint, "not a beginning of any text"));
        }
        self.written.extend_from_slice(self.vocabulary.bytes(token));
        Ok(())
    }

    fn forced(&mut self) -> Result<Forced, Error> {
        let rests: Vec<&[u8]> = self.rests().collect();
        let Some((first, others)) = rests.split_first() else { return Ok(Forced::default()) };
        let common = others.iter().fold(first.len(), |common, rest| {
            common.min(rest.iter().zip(*first).take_while(|(a, b)| a == b).count())
        });
        let bytes = first[..common].to_vec();
        let mut after = self.clone();
        after.written.extend_from_slice(&bytes);
        let follow =
            if after.is_finished()? { Follow::End } else { Follow::Tokens(after.mask()?.iter().collect()) };
        Ok(Forced { bytes, follow })
    }

    fn is_complete(&self) -> bool {
        self.rests().any(<[u8]>::is_empty)
    }

    fn is_finished(&mut self) -> Result<bool, Error> {
        Ok(self.is_complete() && self.rests().all(<[u8]>::is_empty))
    }
}

/// 256 byte tokens, longer ones that cross the places where calls have choices, a control token and two end tokens.
pub(crate) fn vocabulary() -> Arc<Vocabulary> {
    let longer = [
        "{\"",
        "\":",
        " \"",
        "\",",
        "\"}",
        "}}",
        "name",
        "arguments",
        " {\"",
        " \"a",
        "read",
        "read_file",
        "_file",
        "fi",
        "file",
        "le",
        "<tool",
        "<tool_call>",
        ">\n",
        "\n\n",
        "ab",
        "abc",
        "bc",
        "ca",
        "cab",
        "é",
        "日本",
    ];
    let bytes = (0..=255_u8).map(|byte| (vec![byte], TokenKind::Text));
    let longer = longer.into_iter().map(|text| (text.as_bytes().to_vec(), TokenKind::Text));
    let control = [
        (b"<|start|>".to_vec(), TokenKind::Special),
        (b"<|end|>".to_vec(), TokenKind::EndOfGeneration),
        (b"<|eos|>".to_vec(), TokenKind::EndOfGeneration),
    ];
    Arc::new(Vocabulary::new(bytes.chain(longer).chain(control)).unwrap())
}
