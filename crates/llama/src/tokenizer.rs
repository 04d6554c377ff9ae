//! A model's tokenizer as a [`Backend`] that cannot evaluate: for what is said of tokens alone, without weights.
//!
//! Invariant: it never holds a token.

use std::sync::Arc;

use toolgate_grammar::{TokenId, Vocabulary};
use toolgate_infer::{Backend, Error, Kind, Rows, Specials};

use crate::Model;

/// A model of which only the tokenizer is used.
///
/// ```no_run
/// use toolgate_infer::{Backend, Specials};
/// use toolgate_llama::{Load, Model, ModelOptions, Tokenizer};
///
/// let vocabulary_only = ModelOptions { load: Load::Vocabulary, ..ModelOptions::default() };
/// let tokenizer = Tokenizer(Model::load("qwen3.gguf", vocabulary_only)?);
/// assert_eq!(tokenizer.tokenize("<tool_call>", Specials::Parse)?.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Tokenizer(pub Model);

impl Backend for Tokenizer {
    fn vocabulary(&self) -> &Arc<Vocabulary> {
        self.0.vocabulary()
    }

    fn tokenize(&self, text: &str, specials: Specials) -> Result<Vec<TokenId>, Error> {
        self.0.tokenize(text, specials)
    }

    fn context_len(&self) -> usize {
        0
    }

    fn batch_len(&self) -> usize {
        1
    }

    fn evaluated(&self) -> usize {
        0
    }

    fn truncate(&mut self, _len: usize) -> Result<usize, Error> {
        Ok(0)
    }

    fn eval(&mut self, _tokens: &[TokenId], _rows: Rows) -> Result<(), Error> {
        Err(Error::new(Kind::Backend, "a tokenizer has no weights: make a backend of the whole model"))
    }

    fn logits(&self, _row: usize) -> Result<&[f32], Error> {
        Err(Error::new(Kind::Backend, "a tokenizer has no weights: make a backend of the whole model"))
    }
}
