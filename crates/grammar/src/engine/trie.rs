//! Byte trie over token texts, below `vocabulary`: one flat array in depth-first order.
//!
//! Invariant: the descendants of node `i` are exactly the nodes `i + 1 .. nodes[i].end`, so that a walk is a
//! scan from left to right and cutting a branch is a jump.

use super::tokens::TokenId;

/// No token ends at this node.
pub(crate) const NO_TOKEN: u32 = u32::MAX;

/// One node: the byte on the edge into it, and where its subtree ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    pub(crate) token: TokenId,
    pub(crate) end: u32,
    /// Bytes from the root to this node, itself included; never 0.
    pub(crate) depth: u16,
    pub(crate) byte: u8,
}

/// The flat trie.
#[derive(Debug, Default)]
pub(crate) struct Trie {
    pub(crate) nodes: Box<[Node]>,
    /// For each first byte the index of its node.
    roots: Vec<Option<u32>>,
}

impl Trie {
    /// From distinct, non-empty texts in ascending order, each at most `u16::MAX` bytes long.
    pub(crate) fn from_sorted<'a>(texts: impl IntoIterator<Item = (&'a [u8], TokenId)>) -> Self {
        let mut nodes: Vec<Node> = Vec::new();
        let mut roots = vec![None; 256];
        // The nodes on the way to the text added last.
        let mut path: Vec<u32> = Vec::new();
        let mut previous: &[u8] = &[];
        for (text, token) in texts {
            let shared = previous.iter().zip(text).take_while(|(a, b)| a == b).count();
            close(&mut nodes, &mut path, shared);
            for (depth, &byte) in text.iter().enumerate().skip(shared) {
                let index = nodes.len() as u32;
                if depth == 0
                    && let Some(root) = roots.get_mut(usize::from(byte))
                {
                    *root = Some(index);
                }
                nodes.push(Node { token: NO_TOKEN, end: 0, depth: depth as u16 + 1, byte });
                path.push(index);
            }
            if let Some(last) = nodes.last_mut() {
                last.token = token;
            }
            previous = text;
        }
        close(&mut nodes, &mut path, 0);
        Self { nodes: nodes.into_boxed_slice(), roots }
    }

    /// The part of the trie that leads to the tokens of `keep` below the first bytes of `below`, and for each of its
    /// nodes the index of the node it was.
    pub(crate) fn part(
        &self,
        below: impl Fn(u8) -> bool,
        keep: impl Fn(TokenId) -> bool,
    ) -> (Self, Vec<u32>) {
        let mut part = Self { nodes: Box::default(), roots: vec![None; 256] };
        let (mut nodes, mut origins): (Vec<Node>, Vec<u32>) = (Vec::new(), Vec::new());
        // Nodes on the way here, and how many of them are part of the part already.
        let (mut path, mut taken): (Vec<u32>, Vec<u32>) = (Vec::new(), Vec::new());
        for root in self.roots.iter().flatten().map(|&root| root as usize) {
            let Some(&Node { byte, end, .. }) = self.nodes.get(root) else { continue };
            if !below(byte) {
                continue;
            }
            close(&mut nodes, &mut taken, 0);
            path.clear();
            for (index, node) in self.nodes.iter().enumerate().take(end as usize).skip(root) {
                let depth = usize::from(node.depth) - 1;
                path.truncate(depth);
                path.push(index as u32);
                if taken.len() > depth {
                    close(&mut nodes, &mut taken, depth);
                }
                if node.token == NO_TOKEN || !keep(node.token) {
                    continue;
                }
                for &origin in path.get(taken.len()..).unwrap_or_default() {
                    let Some(&node) = self.nodes.get(origin as usize) else { continue };
                    let index = nodes.len() as u32;
                    if taken.is_empty()
                        && let Some(root) = part.roots.get_mut(usize::from(byte))
                    {
                        *root = Some(index);
                    }
                    let token = if origin as usize == path_end(&path) { node.token } else { NO_TOKEN };
                    nodes.push(Node { token, ..node });
                    origins.push(origin);
                    taken.push(index);
                }
            }
        }
        close(&mut nodes, &mut taken, 0);
        part.nodes = nodes.into_boxed_slice();
        (part, origins)
    }

    /// The node of a first byte.
    pub(crate) fn root(&self, byte: u8) -> Option<usize> {
        self.roots.get(usize::from(byte)).copied().flatten().map(|index| index as usize)
    }

    /// The node, by index.
    pub(crate) fn node(&self, index: usize) -> Option<&Node> {
        self.nodes.get(index)
    }

    /// The child of `index` on `byte`.
    pub(crate) fn child(&self, index: usize, byte: u8) -> Option<usize> {
        let end = self.node(index)?.end as usize;
        let mut at = index + 1;
        while at < end {
            let node = self.node(at)?;
            if node.byte == byte {
                return Some(at);
            }
            at = node.end as usize;
        }
        None
    }
}

fn path_end(path: &[u32]) -> usize {
    path.last().map_or(usize::MAX, |&index| index as usize)
}

/// Leaves all but the first `keep` nodes of the path, and notes where their subtrees end.
fn close(nodes: &mut [Node], path: &mut Vec<u32>, keep: usize) {
    let end = nodes.len() as u32;
    for index in path.drain(keep.min(path.len())..) {
        if let Some(node) = nodes.get_mut(index as usize) {
            node.end = end;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
    use super::*;

    #[test]
    fn a_part_leads_to_the_tokens_kept_and_knows_where_it_came_from() {
        let texts: [(&[u8], u32); 6] =
            [(b"a", 3), (b"ab", 1), (b"abc", 0), (b"ax", 5), (b"b", 4), (b"bxy", 2)];
        let trie = Trie::from_sorted(texts);
        let shape = |below: &[u8], keep: &[u32]| {
            let (part, origins) = trie.part(|byte| below.contains(&byte), |token| keep.contains(&token));
            let nodes = part.nodes.iter().map(|n| (n.byte, n.end, n.token));
            (nodes.zip(origins).collect::<Vec<_>>(), part.root(b'a'), part.root(b'b'))
        };
        let expected = vec![
            ((b'a', 4, NO_TOKEN), 0),
            ((b'b', 3, NO_TOKEN), 1),
            ((b'c', 3, 0), 2),
            ((b'x', 4, 5), 3),
            ((b'b', 7, NO_TOKEN), 4),
            ((b'x', 7, NO_TOKEN), 5),
            ((b'y', 7, 2), 6),
        ];
        assert_eq!(shape(b"ab", &[0, 5, 2]), (expected, Some(0), Some(4)));
        assert_eq!(shape(b"b", &[0, 5, 4]), (vec![((b'b', 1, 4), 4)], None, Some(0)));
        assert_eq!(shape(b"a", &[2]), (vec![], None, None));
    }

    #[test]
    fn subtrees_are_contiguous_and_tokens_sit_at_their_last_byte() {
        let texts: [(&[u8], u32); 5] = [(b"a", 3), (b"ab", 1), (b"abc", 0), (b"b", 4), (b"bxy", 2)];
        let trie = Trie::from_sorted(texts);
        let shape: Vec<_> = trie.nodes.iter().map(|n| (n.byte, n.depth, n.end, n.token)).collect();
        assert_eq!(
            shape,
            [
                (b'a', 1, 3, 3),
                (b'b', 2, 3, 1),
                (b'c', 3, 3, 0),
                (b'b', 1, 6, 4),
                (b'x', 2, 6, NO_TOKEN),
                (b'y', 3, 6, 2)
            ]
        );
        assert_eq!(trie.root(b'b'), Some(3));
        assert_eq!(trie.root(b'c'), None);
        assert_eq!(trie.child(3, b'x'), Some(4));
        assert_eq!(trie.child(3, b'y'), None);
    }
}
