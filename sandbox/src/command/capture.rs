//! Keeps the beginning and the end of a command's output, and counts the bytes between.

use std::collections::VecDeque;

/// Output, bounded.
#[derive(Debug)]
pub(super) struct Capture {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    head_room: usize,
    tail_room: usize,
    total: u64,
}

impl Capture {
    /// Keeps at most `most` bytes: three quarters from the beginning, one from the end.
    pub(super) fn new(most: usize) -> Self {
        let tail_room = most / 4;
        Self { head: Vec::new(), tail: VecDeque::new(), head_room: most - tail_room, tail_room, total: 0 }
    }

    /// Takes what came next.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let (first, rest) = bytes.split_at(bytes.len().min(self.head_room - self.head.len()));
        self.head.extend_from_slice(first);
        // Of a long piece only the end can still count.
        let rest = rest.get(rest.len().saturating_sub(self.tail_room)..).unwrap_or_default();
        let excess = (self.tail.len() + rest.len()).saturating_sub(self.tail_room);
        self.tail.drain(..excess.min(self.tail.len()));
        self.tail.extend(rest);
    }

    /// How many bytes came in all.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// What came first.
    #[cfg(target_os = "linux")]
    pub(super) fn beginning(&self) -> &[u8] {
        &self.head
    }

    /// Whether bytes were left out.
    pub(super) fn is_cut(&self) -> bool {
        self.left_out() > 0
    }

    fn left_out(&self) -> u64 {
        self.total - (self.head.len() + self.tail.len()) as u64
    }

    /// What was kept, with a line in place of what was not.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        let left_out = self.left_out();
        let mut out = self.head;
        if left_out > 0 {
            out.extend_from_slice(format!("\n[{left_out} bytes not shown]\n").as_bytes());
        }
        out.extend(self.tail);
        out
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing, reason = "tests")]

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn beginning_and_end_are_kept() {
        let mut capture = Capture::new(8);
        for piece in ["abc", "defgh", "ijk", "lm"] {
            capture.push(piece.as_bytes());
        }
        assert!(capture.is_cut() && capture.total() == 13);
        assert_eq!(capture.into_bytes(), b"abcdef\n[5 bytes not shown]\nlm");
    }

    proptest! {
        #[test]
        fn what_fits_is_whole_and_the_rest_is_bounded(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..12),
            most in 0usize..60,
        ) {
            let all = pieces.concat();
            let mut capture = Capture::new(most);
            pieces.iter().for_each(|piece| capture.push(piece));
            prop_assert_eq!(capture.is_cut(), all.len() > most);
            let kept = capture.into_bytes();
            if all.len() <= most {
                prop_assert_eq!(kept, all);
            } else {
                prop_assert!(kept.len() < most + 40);
                prop_assert!(kept.starts_with(&all[..most - most / 4]) && kept.ends_with(&all[all.len() - most / 4..]));
            }
        }
    }
}
