//! A model whose memory cannot be cut anywhere, as with recurrent layers.

use std::sync::Arc;

use toolgate_infer::scripted::Scripted;
use toolgate_infer::{Backend, Error, Kind, Rows, Specials, TokenId, Vocabulary};

/// Goes back to its checkpoints, if it keeps them, and else to nothing.
pub(crate) struct Rigid {
    inner: Scripted,
    /// Their lengths; none where it keeps none.
    checkpoints: Option<Vec<usize>>,
    /// The batch that fails, once.
    fails_at: usize,
}

impl Rigid {
    pub(crate) fn without_checkpoints(inner: Scripted) -> Self {
        Self { inner, checkpoints: None, fails_at: usize::MAX }
    }

    pub(crate) fn with_checkpoints(inner: Scripted) -> Self {
        Self { checkpoints: Some(Vec::new()), ..Self::without_checkpoints(inner) }
    }

    /// The same, which fails once, after so many batches.
    pub(crate) fn failing_at(self, batch: usize) -> Self {
        Self { fails_at: batch, ..self }
    }
}

impl Backend for Rigid {
    fn vocabulary(&self) -> &Arc<Vocabulary> {
        self.inner.vocabulary()
    }
    fn tokenize(&self, text: &str, specials: Specials) -> Result<Vec<TokenId>, Error> {
        self.inner.tokenize(text, specials)
    }
    fn context_len(&self) -> usize {
        self.inner.context_len()
    }
    fn batch_len(&self) -> usize {
        self.inner.batch_len()
    }
    fn evaluated(&self) -> usize {
        self.inner.evaluated()
    }
    fn cuts_anywhere(&self) -> bool {
        false
    }
    fn kept(&self, _: usize, len: usize) -> usize {
        if len >= self.inner.evaluated() {
            return self.inner.evaluated();
        }
        self.checkpoints.iter().flatten().filter(|at| **at <= len).max().copied().unwrap_or(0)
    }
    fn checkpoint(&mut self) -> Result<(), Error> {
        let held = self.inner.evaluated();
        if let Some(checkpoints) = &mut self.checkpoints {
            checkpoints.push(held);
        }
        Ok(())
    }
    fn truncate(&mut self, len: usize) -> Result<usize, Error> {
        let kept = self.kept(0, len);
        if kept == self.inner.evaluated() {
            return Ok(kept);
        }
        self.checkpoints.iter_mut().for_each(|checkpoints| checkpoints.retain(|&at| at <= kept));
        self.inner.truncate(kept)
    }
    fn eval(&mut self, tokens: &[TokenId], rows: Rows) -> Result<(), Error> {
        if self.inner.batches().len() == self.fails_at {
            self.fails_at = usize::MAX;
            return Err(Error::new(Kind::Backend, "out of memory"));
        }
        self.inner.eval(tokens, rows)
    }
    fn logits(&self, row: usize) -> Result<&[f32], Error> {
        self.inner.logits(row)
    }
    fn begin_turn(&mut self, at: usize) {
        self.inner.begin_turn(at);
    }
}
