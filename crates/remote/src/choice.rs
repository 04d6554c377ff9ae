//! Which tool a call is of, at a server that tells tokens and their probabilities: chosen as a local engine chooses.

use toolgate_chat::Prompt;
use toolgate_grammar::TokenId;

use crate::Error;
use toolgate_engine::Cancel;
use toolgate_engine::stages::Look;

/// A server whose model can be looked at token by token.
pub(super) trait Tokens {
    /// A prompt's tokens.
    fn of_prompt(&self, prompt: &Prompt, cancel: &Cancel) -> Result<Vec<TokenId>, Error>;

    /// The tokens of the beginning of a call.
    fn of_call(&self, text: &str, cancel: &Cancel) -> Result<Vec<TokenId>, Error>;

    /// The logarithm of the probability of each of the `next` tokens behind others.
    fn shares(&self, after: &[TokenId], next: &[TokenId], cancel: &Cancel) -> Result<Vec<f64>, Error>;
}

/// What may come next behind tokens that the server is shown.
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

    fn here(&self) -> usize {
        self.shown.len()
    }

    fn back(&mut self, here: usize) -> Result<(), Error> {
        self.shown.truncate(here);
        Ok(())
    }
}
