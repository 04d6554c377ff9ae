//! Walks over token tries, each a scan from left to right. Used by `mask`.
//!
//! Invariant: a walk visits a node only if a configuration allows its byte there, so its cost is that of what is
//! allowed, or of what differs.

use std::ops::Range;

use smallvec::SmallVec;

use super::characters;
use super::expansion::Expansion;
use super::frames::ConfigId;
use super::machine::Machine;
use super::stop::Stop;
use super::tokens::TokenSet;
use super::trie::{NO_TOKEN, Node, Trie};

/// Nodes at which two configurations may differ before a walk of one of them is the cheaper way.
const DIFFERENCES: usize = 20_000;

impl Machine {
    /// Walks the trie below each first byte that can come next and does not begin a character of `but`.
    pub(crate) fn walk_roots(
        &self,
        trie: &Trie,
        id: ConfigId,
        expansion: &Expansion,
        but: u64,
        mask: &mut TokenSet,
        exits: &mut Vec<u32>,
    ) -> Result<(), Stop> {
        for class in expansion.live_classes() {
            let (low, high) = self.program.classes.bytes(class);
            for byte in low..=high {
                if characters::begins(but, byte) {
                    continue;
                }
                if let Some(root) = trie.root(byte)
                    && let Some(node) = trie.node(root)
                {
                    self.walk(trie, root..node.end as usize, 0, id, mask, exits)?;
                }
            }
        }
        Ok(())
    }

    /// Adds the tokens of `nodes`, which are whole subtrees side by side at depth `depth + 1`, that can follow
    /// `start`; notes the nodes after which the unknown frame is left.
    #[allow(
        clippy::indexing_slicing,
        reason = "nodes lie within the trie, and depths within the stack grown for them"
    )]
    pub(crate) fn walk(
        &self,
        trie: &Trie,
        nodes: Range<usize>,
        depth: u16,
        start: ConfigId,
        mask: &mut TokenSet,
        exits: &mut Vec<u32>,
    ) -> Result<(), Stop> {
        let all: &[Node] = &trie.nodes[..nodes.end];
        let words = mask.words_mut();
        let classes = &self.program.classes;
        // The configurations on the way to the current node, by depth below `depth`.
        let mut path: SmallVec<[&Expansion; 48]> = SmallVec::from_iter([self.expand(start)?]);
        let mut at = nodes.start;
        while at < all.len() {
            let node = &all[at];
            let level = usize::from(node.depth - depth);
            let class = classes.of(node.byte);
            let expansion = path[level - 1];
            let end = node.end as usize;
            if !expansion.live(class) {
                at = end;
                continue;
            }
            if node.token != NO_TOKEN {
                words[node.token as usize / 64] |= 1 << (node.token % 64);
            }
            at += 1;
            if at == end {
                continue;
            }
            let Some(next) = self.step(expansion, class)? else {
                at = end;
                continue;
            };
            let next = self.expand(next)?;
            if next.exit {
                exits.push(at as u32 - 1);
            }
            path.truncate(level);
            path.push(next);
        }
        Ok(())
    }

    /// Changes the tokens and exits of `near` into those of `id`, by a walk over the bytes at which the two
    /// configurations part, for as long as they are apart. `known` are the exits of `near`, and those of `id` are
    /// returned, both ascending; `None`, with a mask of no use, if the two stay apart for too long.
    #[allow(
        clippy::indexing_slicing,
        reason = "nodes lie within the trie, and depths within the stack grown for them"
    )]
    pub(crate) fn walk_difference(
        &self,
        id: ConfigId,
        near: ConfigId,
        mask: &mut TokenSet,
        known: &[u32],
    ) -> Result<Option<Vec<u32>>, Stop> {
        let trie = self.vocabulary.trie();
        let all: &[Node] = &trie.nodes;
        let words = mask.words_mut();
        let classes = &self.program.classes;
        let mut exits = Vec::new();
        // Ranges come in ascending order, so that what lies before one is not asked for again.
        let mut rest = known;
        let mut keep = |exits: &mut Vec<u32>, nodes: Range<usize>| {
            let before = |end: usize, rest: &[u32]| {
                rest.iter().position(|&exit| exit as usize >= end).unwrap_or(rest.len())
            };
            rest = &rest[before(nodes.start, rest)..];
            let (within, after) = rest.split_at(before(nodes.end, rest));
            exits.extend_from_slice(within);
            rest = after;
        };
        let follow = |expansion: Option<&Expansion>, class: u8| match expansion {
            Some(expansion) => self.step(expansion, class),
            None => Ok(None),
        };
        /// What both are at a node, and the classes on which they may part.
        type Pair<'m> = (Option<&'m Expansion>, Option<&'m Expansion>, [u64; 4]);
        let pair = |ours: Option<&'_ Expansion>, theirs: Option<&'_ Expansion>| match (ours, theirs) {
            (Some(ours), Some(theirs)) => ours.differs(theirs),
            _ => [u64::MAX; 4],
        };
        let (ours, theirs) = (self.expand(id)?, self.expand(near)?);
        let mut path: SmallVec<[Pair<'_>; 32]> =
            SmallVec::from_iter([(Some(ours), Some(theirs), ours.differs(theirs))]);
        let (mut at, mut visited) = (0, 0);
        while at < all.len() {
            let node = &all[at];
            let level = usize::from(node.depth);
            let class = classes.of(node.byte);
            let (ours, theirs, parts) = path[level - 1];
            let end = node.end as usize;
            if parts[usize::from(class >> 6)] >> (class & 63) & 1 == 0 {
                keep(&mut exits, at..end);
                at = end;
                continue;
            }
            let allowed = ours.is_some_and(|expansion| expansion.live(class));
            let was_allowed = theirs.is_some_and(|expansion| expansion.live(class));
            if !allowed && !was_allowed {
                at = end;
                continue;
            }
            if node.token != NO_TOKEN && allowed != was_allowed {
                words[node.token as usize / 64] ^= 1 << (node.token % 64);
            }
            if at + 1 == end {
                at = end;
                continue;
            }
            visited += 1;
            if visited > DIFFERENCES {
                return Ok(None);
            }
            let (next, their_next) = (follow(ours, class)?, follow(theirs, class)?);
            if next == their_next {
                keep(&mut exits, at..end);
                at = end;
                continue;
            }
            let next = next.map(|next| self.expand(next)).transpose()?;
            let their_next = their_next.map(|next| self.expand(next)).transpose()?;
            if next.is_some_and(|next| next.exit) {
                exits.push(at as u32);
            }
            path.truncate(level);
            path.push((next, their_next, pair(next, their_next)));
            at += 1;
        }
        Ok(Some(exits))
    }
}
