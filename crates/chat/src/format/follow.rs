//! Follows the arguments of a call while they arrive, where they are JSON: what is strictly JSON so far can be told at once.
//!
//! Invariant: each character is looked at once; nothing that is no part of the object is ever told.

use crate::fallback::source::Source;

/// Follows an object of JSON as it arrives, so that it can be told before it is read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Follower {
    /// After what was told; 0 before anything was.
    at: usize,
    depth: usize,
    in_string: bool,
    is_escaped: bool,
    /// The object is over, or is none that needs no mending.
    is_over: bool,
}

impl Follower {
    /// Whether the object goes on.
    pub(crate) fn is_inside(&self) -> bool {
        self.depth > 0 && !self.is_over
    }

    /// Whether anything of it was told.
    pub(crate) fn told_any(&self) -> bool {
        self.at > 0
    }

    /// What arrived of the object that begins at `start`.
    pub(crate) fn follow<'a>(&mut self, source: &Source<'a>, start: usize) -> Option<&'a str> {
        if self.is_over {
            return None;
        }
        let from = self.at.max(start);
        let arrived = source.slice(from, source.len());
        let length = arrived.char_indices().find(|(_, c)| self.passes(*c)).map(|(i, _)| i);
        // The bracket that closes the object still belongs to it.
        let length = length.map_or(arrived.len(), |i| i + usize::from(self.depth == 0));
        self.at = from + length;
        arrived.get(..length).filter(|more| !more.is_empty())
    }

    /// Whether the object is over at this character.
    fn passes(&mut self, c: char) -> bool {
        if self.in_string {
            match c {
                _ if self.is_escaped => self.is_escaped = false,
                '\\' => self.is_escaped = true,
                '"' => self.in_string = false,
                c if c < ' ' => self.is_over = true,
                _ => {}
            }
            return self.is_over;
        }
        match c {
            '"' => self.in_string = true,
            '{' | '[' => self.depth += 1,
            '}' | ']' => self.depth = self.depth.saturating_sub(1),
            ' ' | '\t' | '\r' | '\n' | ',' | ':' | '-' | '+' | '.' | '0'..='9' | 'a'..='z' | 'E' => {}
            _ => self.is_over = true,
        }
        self.is_over |= self.depth == 0;
        self.is_over
    }
}
