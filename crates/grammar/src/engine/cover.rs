//! The tokens that write the way to the end. Above `completion`; used by `matcher` and `budget`.
//!
//! Invariant: no other tokens of the vocabulary that write the same way are fewer.

use super::completion::Piece;
use super::tokens::TokenId;
use super::trie::NO_TOKEN;
use super::vocabulary::Vocabulary;

/// The fewest tokens that write `way`; none if the vocabulary cannot.
pub(super) fn cover(way: &[Piece], vocabulary: &Vocabulary) -> Option<Vec<TokenId>> {
    // From each position the token to take and how many it is to the end; the end needs none.
    let mut best: Vec<Option<(usize, TokenId, usize)>> = vec![None; way.len() + 1];
    if let Some(end) = best.last_mut() {
        *end = Some((0, NO_TOKEN, way.len()));
    }
    for at in (0..way.len()).rev() {
        let mut found: Option<(usize, TokenId, usize)> = None;
        let mut consider = |token: TokenId, next: usize| {
            let rest = best.get(next).copied().flatten().map(|(count, ..)| count + 1);
            if let Some(count) = rest
                && found.is_none_or(|(fewest, ..)| count < fewest)
            {
                found = Some((count, token, next));
            }
        };
        match way.get(at) {
            Some(Piece::Token { id, negated: false }) => consider(*id, at + 1),
            Some(Piece::Token { id, negated: true }) => {
                let other = vocabulary.ordinary().iter().find(|token| token != id);
                other.into_iter().for_each(|token| consider(token, at + 1));
            }
            Some(Piece::Byte(first)) => {
                let trie = vocabulary.trie();
                let mut node = trie.root(*first);
                let mut next = at + 1;
                while let Some(index) = node {
                    let token = trie.node(index).map_or(NO_TOKEN, |node| node.token);
                    if token != NO_TOKEN {
                        consider(token, next);
                    }
                    node = match way.get(next) {
                        Some(Piece::Byte(byte)) => trie.child(index, *byte),
                        _ => None,
                    };
                    next += 1;
                }
            }
            None => {}
        }
        if let Some(slot) = best.get_mut(at) {
            *slot = found;
        }
    }
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < way.len() {
        let (_, token, next) = best.get(at).copied().flatten()?;
        tokens.push(token);
        at = next;
    }
    Some(tokens)
}
