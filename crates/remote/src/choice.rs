//! The choice of a call's tool at a server that reports tokens and their probabilities. It is the choice of a local engine.

use toolgate_chat::Prompt;
use toolgate_grammar::TokenId;

use crate::Error;
use toolgate_engine::Cancel;
use toolgate_engine::stages::Look;

/// A server that reports its model's probabilities token by token.
pub(super) trait Tokens {
    /// The tokens of a prompt.
    fn of_prompt(&self, prompt: &Prompt, cancel: &Cancel) -> Result<Vec<TokenId>, Error>;

    /// The tokens of a call's beginning.
    fn of_call(&self, text: &str, cancel: &Cancel) -> Result<Vec<TokenId>, Error>;

    /// Whether a mark of calls is one token.
    fn is_token(&self, mark: &str) -> bool;

    /// The log-probability of each of the `next` tokens behind others.
    fn shares(&self, after: &[TokenId], next: &[TokenId], cancel: &Cancel) -> Result<Vec<f64>, Error>;
}

/// The tokens that may come next behind the tokens of a request.
pub(super) struct Ahead<'a> {
    pub(super) server: &'a dyn Tokens,
    pub(super) cancel: &'a Cancel,
    pub(super) shown: Vec<TokenId>,
}

impl Look for Ahead<'_> {
    fn go(&mut self, tokens: &[TokenId]) -> Result<usize, Error> {
        self.shown.extend_from_slice(tokens);
        // They are evaluated when they are asked about.
        Ok(0)
    }

    fn shares(&mut self, next: &[TokenId]) -> Result<Vec<f64>, Error> {
        self.server.shares(&self.shown, next, self.cancel)
    }

    fn here(&mut self) -> Result<Vec<TokenId>, Error> {
        Ok(self.shown.clone())
    }

    fn back(&mut self, here: &[TokenId]) -> Result<usize, Error> {
        self.shown = here.to_vec();
        Ok(0)
    }
}
