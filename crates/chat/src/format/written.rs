//! Calls being written, with the marks of a syntax told from what stands between them.
//!
//! Invariant: a mark becomes the tokens that the syntax was resolved to; a name, a key or a value never does.

use toolgate_grammar::marks::{Mark, MarkTokens, Piece};

/// What is written so far.
pub(crate) struct Written<'t> {
    tokens: &'t MarkTokens,
    mark: Mark,
    /// Marks that stand side by side, which are looked at together.
    pending: String,
}

impl<'t> Written<'t> {
    pub(crate) fn new(tokens: &'t MarkTokens) -> Self {
        Self { tokens, mark: Mark::default(), pending: String::new() }
    }

    /// Adds a text of the syntax.
    pub(crate) fn mark(&mut self, text: &str) {
        self.pending.push_str(text);
    }

    /// Adds a text that is none of the syntax.
    pub(crate) fn text(&mut self, text: &str) {
        self.flush();
        self.mark.push(Piece::Text(text.to_owned()));
    }

    /// All of it.
    pub(crate) fn finish(mut self) -> Mark {
        self.flush();
        self.mark
    }

    fn flush(&mut self) {
        for piece in self.tokens.resolve(&std::mem::take(&mut self.pending)).pieces() {
            self.mark.push(piece.clone());
        }
    }
}
