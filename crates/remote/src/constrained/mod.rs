//! A turn under our grammar on a server that enforces it. It is made like a local one: the prompt has the model's own form, the
//! probabilities of the next token decide between call, thought and answer, and the model writes one of them.
//!
//! `making` has the steps of a turn, `thoughts` what the model thinks, `decision` the decision on the tokens that a server tells.
//!
//! Invariant: calls and answers are always under a grammar. If the server refuses it, the turn ends with its error.

mod decision;
mod making;
mod thoughts;

use std::sync::Mutex;

use toolgate_chat::{Dialogue, Prompt, PromptOptions, ToolSpec, Transcript};
use toolgate_engine::stages::{Biases, FreeCalls, ReasoningPlan, ToldLists, WrittenText, drive};
use toolgate_engine::{self as engine, Cancel, Sampling, Turn, TurnEvent, TurnRequest};
use toolgate_grammar::{Grammar, TokenId};
use toolgate_infer::Opening;

use self::making::Making;
use super::choice::Tokens;
use super::wire::{Usage, Written};
use crate::Error;

/// A server that enforces a grammar.
pub(super) trait Server: Send + Sync {
    /// Its kind, for people.
    fn kind(&self) -> &'static str;

    /// How its model is talked to.
    fn dialogue(&self) -> &Dialogue;

    /// How much a turn thinks.
    fn plan(&self, options: &engine::Options, request: &TurnRequest<'_>) -> Result<ReasoningPlan, Error> {
        ReasoningPlan::of(self.dialogue(), options, request)
    }

    /// The likeliest tokens after a prompt, as texts with the logarithm of their probability.
    fn first_tokens(&self, prompt: &Prompt, cancel: &Cancel) -> Result<(Vec<(String, f64)>, Usage), Error>;

    /// The likeliest tokens behind a text that is no conversation, in the same form.
    fn next_tokens(&self, text: &str, cancel: &Cancel) -> Result<(Vec<(String, f64)>, Usage), Error>;

    /// The prompt for the next turn; that of an answer which was begun ends with what there is of it.
    fn prompt(
        &self,
        transcript: &Transcript,
        tools: &[ToolSpec],
        options: &PromptOptions,
        _sampling: &Sampling,
    ) -> Result<Prompt, Error> {
        Ok(self.dialogue().prompt(transcript, tools, options)?)
    }

    /// A prompt with what the model has written behind it, mark by mark and text by text.
    fn behind(&self, prompt: &Prompt, written: &[String]) -> Result<Prompt, Error>;

    /// What the model thinks behind a prompt that opened a thought, or behind the mark of one that it opens itself.
    fn think(
        &self,
        prompt: &Prompt,
        thinking: &Thinking<'_>,
        cancel: &Cancel,
        piece: &mut dyn FnMut(&str),
    ) -> Result<Written, Error>;

    /// How it is looked at token by token, where it can be.
    fn tokens(&self) -> Option<&dyn Tokens> {
        None
    }

    /// What the model writes after a prompt under a grammar; `piece` is told the text as it comes.
    fn write(
        &self,
        prompt: &Prompt,
        writing: &Writing<'_>,
        cancel: &Cancel,
        piece: &mut dyn FnMut(&str),
    ) -> Result<Written, Error>;
}

/// A text to be written.
pub(super) struct Writing<'a> {
    /// What it is held to.
    pub(super) grammar: &'a Grammar,
    /// What ends it, beside its grammar.
    pub(super) stops: &'a [String],
    pub(super) sampling: &'a Sampling,
}

/// A thought to be written.
pub(super) struct Thinking<'a> {
    /// The mark in front of it, where the model opens it.
    pub(super) open: Option<&'a str>,
    /// Its closing mark.
    pub(super) close: &'a str,
    /// What ends it: its closing mark, and calls that the model may begin without that.
    pub(super) stops: &'a [String],
    pub(super) sampling: &'a Sampling,
}

/// The model of such a server.
pub(super) struct Constrained {
    server: Box<dyn Server>,
    learned: Learned,
}

/// What turns learn and later ones need not ask for again.
#[derive(Default)]
struct Learned {
    /// What the model prefers among tools whatever it is asked.
    biases: Mutex<Biases>,
    /// How calls of the tools offered last begin.
    beginnings: Mutex<Beginnings>,
    /// What was told of lists of requests.
    lists: Mutex<ToldLists>,
    /// How likely tools are called where nothing was said.
    free_calls: Mutex<FreeCalls>,
}

#[derive(Default)]
struct Beginnings {
    texts: Vec<String>,
    tokens: Vec<Vec<TokenId>>,
}

impl Constrained {
    pub(super) fn new(server: Box<dyn Server>) -> Self {
        Self { server, learned: Learned::default() }
    }

    pub(super) fn server(&self) -> &'static str {
        self.server.kind()
    }

    pub(super) fn template(&self) -> &str {
        self.server.dialogue().template().source()
    }

    pub(super) fn turn(
        &self,
        options: &engine::Options,
        request: &TurnRequest<'_>,
        cancel: &Cancel,
        events: &mut dyn FnMut(TurnEvent),
    ) -> Result<Turn, Error> {
        let mut making = Making::new((&*self.server, &self.learned), options, request, cancel, events)?;
        drive(&mut making, request)
    }
}

impl WrittenText for Written {
    fn given(text: &str) -> Self {
        Self { text: text.to_owned(), ..Self::default() }
    }

    fn text(&self) -> &str {
        &self.text
    }

    fn left_for(&self) -> Option<Opening> {
        self.left
    }
}
