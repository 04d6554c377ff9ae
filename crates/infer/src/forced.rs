//! Forced text becomes tokens as the model's own tokenizer would have written them.
//!
//! Invariant: the tokens are text tokens whose bytes are a prefix of the forced text, and no text that may follow
//! would have been tokenized otherwise (checked against the followers, or against a set of probes).

use toolgate_grammar::{TokenId, TokenKind, Vocabulary};

use crate::constraint::{Follow, Forced};
use crate::{Backend, Error, Specials};

/// Tokens of context looked at: enough to hold any word the forced text may continue.
const CONTEXT: usize = 8;

/// What may stand after forced text when anything may: a character of each class tokenizers tell apart.
const PROBES: [&str; 14] = ["a", "s", "E", "1", " ", "  a", "\n", "\"", ",", "}", "/", "_", ".", "é"];

/// The canonical tokens of `forced` after `history`, without those at the end that following text could change.
/// Empty where nothing is certain: then the next token is drawn, under the constraint.
///
/// `history` are the tokens in front, of which the last few count.
///
/// # Errors
/// [`Kind::Backend`](crate::Kind::Backend) from the tokenizer.
pub fn canonical<B: Backend>(
    backend: &B,
    history: &[TokenId],
    forced: &Forced,
) -> Result<Vec<TokenId>, Error> {
    let vocabulary = backend.vocabulary();
    // A code point cut off at the end is left for the next draw.
    let text = match std::str::from_utf8(&forced.bytes) {
        Ok(text) => text,
        Err(error) => match forced.bytes.get(..error.valid_up_to()).map(std::str::from_utf8) {
            Some(Ok(text)) => text,
            _ => return Ok(Vec::new()),
        },
    };
    let cut = text.len() < forced.bytes.len();
    let context = context(vocabulary, history);
    let run = Run { backend, context: &context, text };
    let Some(mut tokens) = run.tokens("")? else { return Ok(Vec::new()) };
    let mut stable = tokens.len();
    let mut probe = |follower: &str| -> Result<(), Error> {
        let probed = run.tokens(follower)?.unwrap_or_default();
        stable = stable.min(tokens.iter().zip(&probed).take_while(|(a, b)| a == b).count());
        Ok(())
    };
    match &forced.follow {
        Follow::End if !cut => {}
        Follow::Tokens(followers) if !cut => {
            for &follower in followers.iter().filter(|&&token| vocabulary.kind(token) == TokenKind::Text) {
                // A follower that begins inside a code point says as little as an unknown one.
                probe(std::str::from_utf8(vocabulary.bytes(follower)).unwrap_or("é"))?;
            }
        }
        _ => {
            for follower in PROBES {
                probe(follower)?;
            }
            stable = stable.min(tokens.len().saturating_sub(1));
        }
    }
    tokens.truncate(stable);
    Ok(tokens)
}

/// The text of the last few text tokens of `history`; empty after a control token, or inside a code point.
fn context(vocabulary: &Vocabulary, history: &[TokenId]) -> String {
    let start = history
        .iter()
        .enumerate()
        .rev()
        .take(CONTEXT)
        .take_while(|&(_, &token)| vocabulary.kind(token) == TokenKind::Text)
        .last()
        .map_or(history.len(), |(index, _)| index);
    let mut tokens = history.get(start..).unwrap_or_default();
    // Begin at a token that begins a code point.
    while let [_, rest @ ..] = tokens {
        let bytes: Vec<u8> = tokens.iter().flat_map(|&token| vocabulary.bytes(token)).copied().collect();
        match String::from_utf8(bytes) {
            Ok(text) => return text,
            Err(_) => tokens = rest,
        }
    }
    String::new()
}

struct Run<'a, B> {
    backend: &'a B,
    context: &'a str,
    text: &'a str,
}

impl<B: Backend> Run<'_, B> {
    /// Tokens of the text when `follower` stands after it, as far as they lie inside the text. The context in
    /// front counts where a token ends with it; where the model's earlier draws do not let that be, the text is
    /// tokenized by itself. None where the tokenizer does not give the text back.
    fn tokens(&self, follower: &str) -> Result<Option<Vec<TokenId>>, Error> {
        for context in [self.context, ""] {
            let whole = [context, self.text, follower].concat();
            let tokens = self.backend.tokenize(&whole, Specials::Plain)?;
            if let Some(inside) = self.inside(&tokens, context.len(), whole.as_bytes()) {
                return Ok(Some(inside));
            }
        }
        Ok(None)
    }

    fn inside(&self, tokens: &[TokenId], start: usize, whole: &[u8]) -> Option<Vec<TokenId>> {
        let vocabulary = self.backend.vocabulary();
        let end = start + self.text.len();
        let (mut at, mut boundary, mut out) = (0, start == 0, Vec::new());
        for &token in tokens {
            let bytes = vocabulary.bytes(token);
            // Some tokenizers add a space in front, or replace what they do not know: not this text's tokens.
            if vocabulary.kind(token) != TokenKind::Text || !whole.get(at..)?.starts_with(bytes) {
                return None;
            }
            let next = at + bytes.len();
            if at >= start && next <= end {
                boundary |= at == start;
                out.push(token);
            }
            boundary |= next == start;
            at = next;
            if at >= end {
                break;
            }
        }
        boundary.then_some(out)
    }
}
