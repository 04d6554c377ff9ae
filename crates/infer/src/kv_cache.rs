//! Evaluated tokens that gave way to others, kept in memory as the states of their sequences until they come again.
//! Knows token numbers and bytes, and nothing of models.
//!
//! Invariant: the bytes of all states are at most what was asked for; the one used longest ago gives way.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use toolgate_grammar::TokenId;

use crate::shelf::common_len;

/// States in memory. Clones share them, so that each of an engine's conversations finds what another one had to give up:
/// all of them have to be of one model, in contexts made alike.
///
/// ```
/// use std::sync::Arc;
/// use toolgate_infer::scripted::Scripted;
/// use toolgate_infer::{Session, States, Vocabulary};
///
/// let scripted = || Scripted::new(Arc::new(Vocabulary::bytes_only()));
/// let states = States::new(1 << 20);
/// let mut session = Session::new(scripted()).keeping(states.clone());
/// let (first, second) = ("a first conversation, which is a long one", "another");
/// session.set_prompt_text(first)?;
/// session.set_prompt_text(second)?;
/// assert_eq!(states.bytes(), first.len() * 4, "four bytes a token, with this backend");
/// assert_eq!(session.set_prompt_text(first)?.evaluated_tokens, 1, "the last one, for its logits");
/// # Ok::<(), toolgate_infer::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct States(Arc<Mutex<Kept>>);

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
}

impl States {
    /// None yet, and at most so many bytes of them; 0 keeps none.
    pub fn new(most: usize) -> Self {
        Self(Arc::new(Mutex::new(Kept { most, states: Vec::new() })))
    }

    /// Bytes of all states.
    pub fn bytes(&self) -> usize {
        self.lock().bytes()
    }

    /// Whether there may be any.
    pub(crate) fn keeps(&self) -> bool {
        self.lock().most > 0
    }

    /// Most tokens that a state has of what `prompt` begins with.
    pub(crate) fn held(&self, prompt: &[TokenId]) -> usize {
        let kept = self.lock();
        kept.states.iter().map(|state| common_len(&state.tokens, prompt)).max().unwrap_or(0)
    }

    /// The state that has most of what `prompt` begins with, and all of its own tokens.
    pub(crate) fn find(&self, prompt: &[TokenId]) -> Option<(Vec<TokenId>, Arc<Vec<u8>>)> {
        let mut kept = self.lock();
        let lengths = kept.states.iter().map(|state| common_len(&state.tokens, prompt)).enumerate();
        let (at, _) = lengths.max_by_key(|&(_, common)| common)?;
        let state = kept.states.remove(at);
        let found = (state.tokens.clone(), state.bytes.clone());
        kept.states.push(state);
        Some(found)
    }

    /// Keeps a state, in place of those of what its tokens begin with. One that is larger than all may be is not kept.
    pub(crate) fn put(&self, tokens: Vec<TokenId>, bytes: Vec<u8>) {
        let mut kept = self.lock();
        if bytes.len() > kept.most {
            return;
        }
        kept.states.retain(|state| !tokens.starts_with(&state.tokens));
        kept.states.push(State { tokens, bytes: Arc::new(bytes) });
        while kept.bytes() > kept.most {
            kept.states.remove(0);
        }
    }

    /// Forgets the state of these tokens.
    pub(crate) fn forget(&self, tokens: &[TokenId]) {
        self.lock().states.retain(|state| state.tokens != tokens);
    }

    /// What a panic left behind is still true: a state is there or it is not.
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

    fn lengths(states: &States) -> Vec<usize> {
        states.lock().states.iter().map(|state| state.tokens.len()).collect()
    }

    #[test]
    fn the_state_used_longest_ago_gives_way_to_the_bound() {
        let states = States::new(10);
        states.put(vec![1, 1], vec![0; 4]);
        states.put(vec![2, 2, 2], vec![0; 4]);
        assert_eq!(states.find(&[1, 1, 5]).unwrap().0, [1, 1]);
        states.put(vec![3; 4], vec![0; 6]);
        assert_eq!((lengths(&states), states.bytes()), (vec![2, 4], 10), "2 2 2 was used longest ago");
        states.put(vec![4; 5], vec![0; 11]);
        assert_eq!(lengths(&states), [2, 4], "one that is larger than the bound costs no other its place");
    }

    #[test]
    fn a_state_stands_for_what_its_tokens_begin_with() {
        let states = States::new(100);
        states.put(vec![1, 2], vec![0; 2]);
        states.put(vec![1, 2, 3], vec![0; 3]);
        states.put(vec![1, 2, 4], vec![0; 3]);
        assert_eq!((lengths(&states), states.bytes()), (vec![3, 3], 6));
        assert_eq!((states.held(&[1, 2]), states.held(&[1, 2, 4, 5]), states.held(&[2])), (2, 3, 0));
        states.forget(&[1, 2, 4]);
        assert_eq!(states.held(&[1, 2, 4, 5]), 2);
    }
}
