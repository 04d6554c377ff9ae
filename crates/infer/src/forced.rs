//! Forced text becomes tokens as the model's own tokenizer would have written them.
//!
//! Invariant: the tokens are text tokens whose bytes are a prefix of the forced text, and the tokenizer begins every
//! text that may come of it with them. What could still become something else is held back.
//!
//! Why that is so. Take a text that goes on behind what is known of it, and in its tokens the last boundary that lies
//! within the known part.
//!
//! 1. The token behind this boundary reaches beyond the known part, so the rest of the known part is the beginning of
//!    a token of the vocabulary. There are few such places, and the vocabulary knows them.
//! 2. Tokens before a boundary do not depend on what is behind it: the text cut off there has the same tokens.
//!
//! So what the texts cut at all these places have in common is certain, whatever follows; and where it is known what
//! may follow, it counts as known, which leaves fewer places.
//!
//! The second sentence holds for merges by rank (BPE, SentencePiece): a boundary that is left in the end was never
//! crossed by a merge, so those before it happen alike without what is behind. It holds for cheapest paths (Unigram)
//! and for longest matches (RWKV). The patterns that split a text into words keep it but where they look ahead, which
//! is at blanks: `\s+(?!\S)` leaves the last of several to the word behind them, and what a later pattern splits off
//! this word leaves the blank alone. Hence no text is cut behind a blank; the last boundary before it stands in.
//! `crates/llama/tests/it/canonical.rs` tests the sentence, and what follows from it, on real vocabularies.

use std::collections::BTreeSet;

use toolgate_grammar::{TokenId, TokenKind, Vocabulary};

use crate::constraint::{Follow, Forced};
use crate::{Backend, Error, Specials, common_len};

/// Tokens of context looked at: enough to hold any word the forced text may continue.
pub(crate) const CONTEXT: usize = 8;

/// The canonical tokens of `forced` after `history`, without those at the end that following text could change.
/// Empty where nothing is certain: then the next token is drawn, under the constraint.
///
/// `history` are the tokens in front, of which the last few count.
///
/// # Errors
/// [`Kind::Backend`](crate::Kind::Backend) from the tokenizer.
///
/// ```
/// use std::sync::Arc;
/// use toolgate_infer::{Follow, Forced, TokenKind, Vocabulary, canonical, scripted::Scripted};
///
/// let bytes = (0..=u8::MAX).map(|byte| (vec![byte], TokenKind::Text));
/// let vocabulary = Vocabulary::new(bytes.chain([(b"://".to_vec(), TokenKind::Text)]))?;
/// let backend = Scripted::new(Arc::new(vocabulary));
/// let tokens = |follow| canonical(&backend, &[], &Forced { bytes: b"http:".to_vec(), follow });
/// assert_eq!(tokens(Follow::Any)?, b"http".map(u32::from), "the colon may yet be a part of \"://\"");
/// assert_eq!(tokens(Follow::End)?, b"http:".map(u32::from));
/// # Ok::<(), toolgate_infer::Error>(())
/// ```
pub fn canonical<B: Backend + ?Sized>(
    backend: &B,
    history: &[TokenId],
    forced: &Forced,
) -> Result<Vec<TokenId>, Error> {
    behind(backend, history, &forced.bytes, |known| known.certain(&forced.follow))
}

/// The tokens of a text that is only guessed, after `history`: what the tokenizer writes if nothing follows. Empty where it
/// does not begin a token with it.
pub(crate) fn whole<B: Backend + ?Sized>(
    backend: &B,
    history: &[TokenId],
    guessed: &[u8],
) -> Result<Vec<TokenId>, Error> {
    // A guess may be cut off inside a code point.
    let guessed = guessed.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    behind(backend, history, guessed.as_bytes(), |known| {
        Ok(match known.inside(known.text)? {
            Inside::Tokens(tokens) => Some(tokens),
            Inside::NoBoundary | Inside::Unfaithful => None,
        })
    })
}

/// The tokens that are read from a text after `history`, or else from the text by itself: where the model's earlier draws
/// are not what the tokenizer would write in front of it.
fn behind<B: Backend + ?Sized>(
    backend: &B,
    history: &[TokenId],
    text: &[u8],
    read: impl Fn(&Known<'_, B>) -> Result<Option<Vec<TokenId>>, Error>,
) -> Result<Vec<TokenId>, Error> {
    let context = context(backend.vocabulary(), history);
    for context in [context.as_str(), ""] {
        let text = [context.as_bytes(), text].concat();
        if let Some(tokens) = read(&Known { backend, start: context.len(), text: &text })? {
            return Ok(tokens);
        }
    }
    Ok(Vec::new())
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

/// What is known of a text: some of what stands in front, and the forced text.
struct Known<'a, B: ?Sized> {
    backend: &'a B,
    text: &'a [u8],
    /// Where the forced text begins, which is a boundary of tokens.
    start: usize,
}

/// What the tokens of a text are within the forced text.
enum Inside {
    Tokens(Vec<TokenId>),
    /// A token crosses into the forced text: it is not this text that is being written.
    NoBoundary,
    /// They do not spell the text: some tokenizers replace what they do not know, or add spaces.
    Unfaithful,
}

impl<B: Backend + ?Sized> Known<'_, B> {
    /// The tokens of the forced text that are the same whatever follows; none where the tokenizer does not begin a
    /// token with it.
    fn certain(&self, follow: &Follow) -> Result<Option<Vec<TokenId>>, Error> {
        let mut certain: Option<Vec<TokenId>> = None;
        for cut in self.cuts(follow) {
            let tokens = match self.inside(&cut)? {
                Inside::Tokens(tokens) => tokens,
                Inside::NoBoundary => continue,
                Inside::Unfaithful => return Ok(None),
            };
            match &mut certain {
                None => certain = Some(tokens),
                Some(certain) => {
                    let same = common_len(certain, &tokens);
                    certain.truncate(same);
                }
            }
        }
        Ok(certain)
    }

    /// The text, cut at each place where the last boundary of its tokens may be.
    fn cuts(&self, follow: &Follow) -> BTreeSet<Vec<u8>> {
        let vocabulary = self.backend.vocabulary();
        let mut cuts = BTreeSet::new();
        match follow {
            Follow::End if std::str::from_utf8(self.text).is_ok() => {
                cuts.insert(self.text.to_vec());
            }
            // Some text of the tokens' bytes follows only if they are enough to write any.
            Follow::Tokens(followers) if vocabulary.writes_every_byte() => {
                for follower in shortest(vocabulary, followers) {
                    self.add_cuts(&[self.text, follower].concat(), &mut cuts);
                }
                // The text ends here, or a control token splits it.
                if followers.iter().any(|&token| vocabulary.kind(token) != TokenKind::Text) {
                    cuts.insert(self.text.to_vec());
                }
            }
            _ => self.add_cuts(self.text, &mut cuts),
        }
        cuts
    }

    /// Adds the cuts of `known`, behind which anything may follow.
    fn add_cuts(&self, known: &[u8], cuts: &mut BTreeSet<Vec<u8>>) {
        let vocabulary = self.backend.vocabulary();
        // Ends before which the last boundary is wanted.
        let (mut ends, mut done) = (vec![known.len()], BTreeSet::new());
        while let Some(end) = ends.pop() {
            if !done.insert(end) {
                continue;
            }
            let first = end.saturating_sub(vocabulary.longest()).max(self.start);
            for at in first..=end {
                let (Some(before), Some(behind)) = (known.get(..at), known.get(at..)) else { continue };
                if at < end && !vocabulary.reaches_beyond(behind, end - at) {
                    continue;
                }
                match unfit(before) {
                    Some(earlier) if at > self.start => ends.push(earlier.max(self.start)),
                    _ => {
                        cuts.insert(before.to_vec());
                    }
                }
            }
        }
    }

    /// The tokens of a text that begins as the known one does, as far as they lie in the forced text.
    fn inside(&self, text: &[u8]) -> Result<Inside, Error> {
        let Ok(whole) = std::str::from_utf8(text) else { return Ok(Inside::Unfaithful) };
        let vocabulary = self.backend.vocabulary();
        let (mut at, mut boundary, mut inside) = (0, self.start == 0, Vec::new());
        for token in self.backend.tokenize(whole, Specials::Plain)? {
            let bytes = vocabulary.bytes(token);
            let spelled = text.get(at..).is_some_and(|rest| rest.starts_with(bytes));
            if vocabulary.kind(token) != TokenKind::Text || !spelled {
                return Ok(Inside::Unfaithful);
            }
            let next = at + bytes.len();
            if at >= self.start && next <= self.text.len() {
                inside.push(token);
            }
            at = next;
            boundary |= at == self.start;
            if at >= self.text.len() {
                break;
            }
        }
        Ok(if boundary { Inside::Tokens(inside) } else { Inside::NoBoundary })
    }
}

/// The bytes of the text tokens among `followers`, without those that begin with others of them.
fn shortest<'a>(vocabulary: &'a Vocabulary, followers: &[TokenId]) -> Vec<&'a [u8]> {
    let texts = followers.iter().filter(|&&token| vocabulary.kind(token) == TokenKind::Text);
    let mut texts: Vec<&[u8]> = texts.map(|&token| vocabulary.bytes(token)).collect();
    // In order, a text stands directly behind its beginnings and others that begin so.
    texts.sort_unstable();
    texts.dedup_by(|text, before| text.starts_with(before));
    texts
}

/// Where a text cannot be cut at its end, an earlier place before which the last boundary has to be found: inside a
/// code point, and behind a blank.
fn unfit(text: &[u8]) -> Option<usize> {
    match std::str::from_utf8(text) {
        Err(error) => Some(error.valid_up_to()),
        Ok(text) => {
            let blank = text.trim_end().len();
            (blank < text.len()).then_some(blank)
        }
    }
}
