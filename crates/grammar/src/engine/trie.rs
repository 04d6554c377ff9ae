//! Byte trie over token texts, between `vocabulary` and `mask`: one flat array in depth-first order.
//!
//! Invariant: the descendants of node `i` are exactly the nodes `i + 1 .. nodes[i].end`, so that a walk is a
//! scan from left to right and cutting a branch is a jump.

use super::vocabulary::TokenId;

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
