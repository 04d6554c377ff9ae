//! llama.cpp's own grammar sampler as a [`Constraint`]: tests compare our automaton with it.
//!
//! Invariant: the sampler gets only tokens that it has just allowed, since a token that it refuses can abort the process. It
//! walks the whole vocabulary for a mask, knows no forced text, and matches control tokens by the letters of their names.

use std::fmt;

use llama_cpp_2::sampling::LlamaSampler;
use llama_cpp_2::token::LlamaToken;
use llama_cpp_2::token::data::LlamaTokenData;
use llama_cpp_2::token::data_array::LlamaTokenDataArray;
use toolgate_grammar::{TokenId, TokenKind};
use toolgate_infer::{Constraint, Forced, Kind as InferKind, Mask};

use crate::{Error, Kind, Model};

/// A run of llama.cpp's grammar sampler. A clone goes on from the same place.
///
/// ```no_run
/// use toolgate_infer::{Constraint, Specials};
/// use toolgate_llama::{LlamaGrammar, Load, Model, ModelOptions};
///
/// let vocabulary_only = ModelOptions { load: Load::Vocabulary, ..ModelOptions::default() };
/// let model = Model::load("qwen2.5-coder-0.5b.gguf", vocabulary_only)?;
/// let mut run = LlamaGrammar::new(&model, "root ::= \"yes\" | \"no\"", "root")?;
/// for token in model.tokenize("yes", Specials::Plain)? {
///     run.accept(token)?;
/// }
/// assert!(run.is_complete() && run.is_finished()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct LlamaGrammar {
    sampler: LlamaSampler,
    model: Model,
    complete: bool,
}

impl fmt::Debug for LlamaGrammar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LlamaGrammar").field("complete", &self.complete).finish_non_exhaustive()
    }
}

impl LlamaGrammar {
    /// A run of the GBNF text from its rule `root`.
    ///
    /// # Errors
    /// [`Kind::Grammar`] where llama.cpp refuses it. The reason goes to llama.cpp's log.
    pub fn new(model: &Model, gbnf: &str, root: &str) -> Result<Self, Error> {
        let sampler = LlamaSampler::grammar(&model.inner().model, gbnf, root).map_err(|error| {
            let message = "llama.cpp refuses the grammar (its log goes to tracing, target llama-cpp-2)";
            Error::new(Kind::Grammar, message).because(error)
        })?;
        let mut grammar = Self { sampler, model: model.clone(), complete: false };
        grammar.complete = grammar.may_end();
        Ok(grammar)
    }

    fn may_end(&mut self) -> bool {
        let ends = self.model.vocabulary().end_tokens().to_vec();
        ends.first().is_some_and(|&end| self.permits(end))
    }

    /// Whether the sampler allows one token; this costs the letters of that token only.
    fn permits(&mut self, token: TokenId) -> bool {
        let mut one = LlamaTokenDataArray::new(vec![candidate(token)], false);
        one.apply_sampler(&mut self.sampler);
        one.data.first().is_some_and(|data| data.logit().is_finite())
    }

    fn allowed(&mut self) -> Vec<TokenId> {
        let vocabulary = self.model.vocabulary().clone();
        let tokens =
            (0_u32..).take(vocabulary.len()).filter(|&token| vocabulary.kind(token) != TokenKind::Unused);
        let mut all = LlamaTokenDataArray::new(tokens.map(candidate).collect(), false);
        all.apply_sampler(&mut self.sampler);
        let allowed = all.data.iter().filter(|data| data.logit().is_finite());
        allowed.filter_map(|data| TokenId::try_from(data.id().0).ok()).collect()
    }
}

fn candidate(token: TokenId) -> LlamaTokenData {
    LlamaTokenData::new(LlamaToken(token as i32), 0.0, 0.0)
}

impl Constraint for LlamaGrammar {
    fn allows(&mut self, token: TokenId) -> Result<bool, toolgate_infer::Error> {
        let vocabulary = self.model.vocabulary();
        let known = (token as usize) < vocabulary.len() && vocabulary.kind(token) != TokenKind::Unused;
        Ok(known && self.permits(token))
    }

    fn mask(&mut self) -> Result<Mask, toolgate_infer::Error> {
        let len = self.model.vocabulary().len();
        Ok(Mask::of(len, self.allowed()))
    }

    fn accept(&mut self, token: TokenId) -> Result<(), toolgate_infer::Error> {
        let refused = || {
            toolgate_infer::Error::new(
                InferKind::Constraint,
                format!("llama.cpp's grammar refused token {token}"),
            )
        };
        if !self.allows(token)? {
            return Err(refused());
        }
        if self.model.vocabulary().kind(token) != TokenKind::EndOfGeneration {
            self.sampler.try_accept(LlamaToken(token as i32)).map_err(|error| refused().because(error))?;
            self.complete = self.may_end();
        }
        Ok(())
    }

    fn forced(&mut self) -> Result<Forced, toolgate_infer::Error> {
        Ok(Forced::default())
    }

    fn is_complete(&self) -> bool {
        self.complete
    }

    fn is_finished(&mut self) -> Result<bool, toolgate_infer::Error> {
        let vocabulary = self.model.vocabulary().clone();
        let ends = |&token: &TokenId| vocabulary.kind(token) == TokenKind::EndOfGeneration;
        Ok(self.complete && self.allowed().iter().all(ends))
    }
}
