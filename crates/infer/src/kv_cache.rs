//! The KV cache in memory: it keeps evaluated tokens that have no sequence any more, as the states of those sequences.
//! Knows token numbers and bytes, and nothing of models.
//!
//! Invariant: the states have at most as many bytes as the limit; the one used longest ago gives way.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use toolgate_grammar::TokenId;

use crate::sequences::common_len;

/// States in memory. Clones share them, so each slot of an engine finds what another slot gave up. All slots have to be of
/// one model, in contexts made alike.
///
/// ```
/// use std::sync::Arc;
/// use toolgate_infer::scripted::Scripted;
/// use toolgate_infer::{Session, KvCache, Vocabulary};
///
/// let scripted = || Scripted::new(Arc::new(Vocabulary::bytes_only()));
/// let cache = KvCache::new(1 << 20);
/// let mut session = Session::new(scripted()).keeping(cache.clone());
/// let (first, second) = ("a first conversation, which is a long one", "another");
/// session.set_prompt_text(first)?;
/// session.set_prompt_text(second)?;
/// assert_eq!(cache.bytes(), first.len() * 4, "four bytes a token, with this backend");
/// assert_eq!(session.set_prompt_text(first)?.evaluated_tokens, 1, "the last one, for its logits");
/// # Ok::<(), toolgate_infer::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct KvCache(Arc<Mutex<Kept>>);

#[derive(Debug)]
struct Kept {
    most: usize,
    /// The one used last at the end.
    states: Vec<State>,
}

#[derive(Debug)]
struct State {
    tokens: Vec<TokenId>,
    bytes: Arc<Vec<u8>>,
    /// The lengths that it can be cut to; none where that is any.
    cuts: Option<Vec<usize>>,
}

impl State {
    /// The tokens of `prompt` that it can stand for.
    fn held(&self, prompt: &[TokenId]) -> usize {
        let common = common_len(&self.tokens, prompt);
        match &self.cuts {
            Some(lengths) if common < self.tokens.len() => {
                lengths.iter().copied().filter(|&length| length <= common).max().unwrap_or(0)
            }
            _ => common,
        }
    }
}

impl KvCache {
    /// An empty cache for at most so many bytes; with 0 it keeps nothing.
    pub fn new(most: usize) -> Self {
        Self(Arc::new(Mutex::new(Kept { most, states: Vec::new() })))
    }

    /// Bytes of all states.
    pub fn bytes(&self) -> usize {
        self.lock().bytes()
    }

    /// Whether it may keep anything.
    pub(crate) fn keeps(&self) -> bool {
        self.lock().most > 0
    }

    /// Tokens of the longest beginning that a state shares with `prompt`.
    pub(crate) fn held(&self, prompt: &[TokenId]) -> usize {
        let kept = self.lock();
        kept.states.iter().map(|state| state.held(prompt)).max().unwrap_or(0)
    }

    /// The state that shares the longest beginning with `prompt`, with all of its own tokens.
    pub(crate) fn find(&self, prompt: &[TokenId]) -> Option<(Vec<TokenId>, Arc<Vec<u8>>)> {
        let mut kept = self.lock();
        let lengths = kept.states.iter().map(|state| state.held(prompt)).enumerate();
        let (at, _) = lengths.max_by_key(|&(_, held)| held)?;
        let state = kept.states.remove(at);
        let found = (state.tokens.clone(), state.bytes.clone());
        kept.states.push(state);
        Some(found)
    }

    /// Keeps a state, which can be cut to these lengths; none is any. Then it stands for each beginning of its tokens, and takes the
    /// place of their states. A state larger than the limit is not kept.
    pub(crate) fn put(&self, tokens: Vec<TokenId>, bytes: Vec<u8>, cuts: Option<Vec<usize>>) {
        let mut kept = self.lock();
        if bytes.len() > kept.most {
            return;
        }
        kept.states.retain(|state| match cuts {
            None => !tokens.starts_with(&state.tokens),
            Some(_) => state.tokens != tokens,
        });
        kept.states.push(State { tokens, bytes: Arc::new(bytes), cuts });
        while kept.bytes() > kept.most {
            kept.states.remove(0);
        }
    }

    /// Forgets the state of these tokens.
    pub(crate) fn forget(&self, tokens: &[TokenId]) {
        self.lock().states.retain(|state| state.tokens != tokens);
    }

    /// Locks the list. A panic leaves it whole: a state is there or it is not.
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn bytes(&self) -> usize {
        self.states.iter().map(|state| state.bytes.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn lengths(cache: &KvCache) -> Vec<usize> {
        cache.lock().states.iter().map(|state| state.tokens.len()).collect()
    }

    #[test]
    fn the_state_used_longest_ago_gives_way_to_the_bound() {
        let cache = KvCache::new(10);
        cache.put(vec![1, 1], vec![0; 4], None);
        cache.put(vec![2, 2, 2], vec![0; 4], None);
        assert_eq!(cache.find(&[1, 1, 5]).unwrap().0, [1, 1]);
        cache.put(vec![3; 4], vec![0; 6], None);
        assert_eq!((lengths(&cache), cache.bytes()), (vec![2, 4], 10), "2 2 2 was used longest ago");
        cache.put(vec![4; 5], vec![0; 11], None);
        assert_eq!(lengths(&cache), [2, 4], "one that is larger than the bound costs no other its place");
    }

    #[test]
    fn a_state_stands_for_what_its_tokens_begin_with() {
        let cache = KvCache::new(100);
        cache.put(vec![1, 2], vec![0; 2], None);
        cache.put(vec![1, 2, 3], vec![0; 3], None);
        cache.put(vec![1, 2, 4], vec![0; 3], None);
        assert_eq!((lengths(&cache), cache.bytes()), (vec![3, 3], 6));
        assert_eq!((cache.held(&[1, 2]), cache.held(&[1, 2, 4, 5]), cache.held(&[2])), (2, 3, 0));
        cache.forget(&[1, 2, 4]);
        assert_eq!(cache.held(&[1, 2, 4, 5]), 2);
    }

    #[test]
    fn a_state_stands_for_the_lengths_that_it_can_be_cut_to() {
        let cache = KvCache::new(100);
        cache.put(vec![1, 2], vec![0; 2], Some(vec![1]));
        cache.put(vec![1, 2, 3, 4], vec![0; 4], Some(vec![3]));
        assert_eq!((lengths(&cache), cache.bytes()), (vec![2, 4], 6), "each stands for itself");
        let held =
            [&[1, 2, 3, 4, 5][..], &[1, 2, 3, 5], &[1, 2, 5], &[1, 5], &[5]].map(|prompt| cache.held(prompt));
        assert_eq!(held, [4, 3, 2, 1, 0]);
        assert_eq!(cache.find(&[1, 2, 5]).unwrap().0, [1, 2]);
        cache.put(vec![1, 2], vec![0; 3], Some(vec![1]));
        assert_eq!(cache.bytes(), 7, "it takes the place of the same");
        cache.put(vec![7, 8, 9, 9], vec![0; 4], Some(vec![1]));
        assert_eq!([&[7, 8, 9, 9][..], &[7, 8, 9], &[7, 5]].map(|prompt| cache.held(prompt)), [4, 1, 1]);
    }
}
