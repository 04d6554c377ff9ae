//! Turn grammars and their automata, made once for each set of tools and kept: an automaton learns its masks as it
//! runs, so a second turn with the same tools finds them there. The same for the schemas of answers.

use std::sync::Arc;

use serde_json::Value;
use toolgate_chat::{ToolFormat, ToolSpec, TurnRequest};
use toolgate_grammar::{Automaton, Grammar, Limits, Options, Schema, Undeclared, Vocabulary, compile};

use super::recent::Recent;
use crate::Error;

/// Turns whose automata are kept: several to a set of tools, as which of them may be called is the turn's. An automaton
/// takes a few MiB once its masks are learned.
const KEPT: usize = 64;

/// The automata of one turn: a call, an answer, or both.
#[derive(Clone)]
pub(super) struct TurnAutomata {
    /// Accepts the calls; `None` if there are none to make.
    pub(super) call: Option<Side>,
    /// Accepts the answers; `None` if a call is required.
    pub(super) answer: Option<Side>,
}

/// One side of a turn.
#[derive(Clone)]
pub(super) struct Side {
    /// The grammar, for engines that run it themselves.
    pub(super) grammar: Arc<Grammar>,
    /// The same, ready to run.
    pub(super) automaton: Arc<Automaton>,
}

/// The automata made so far.
pub(super) struct Cache {
    turns: Recent<Key, TurnAutomata>,
    answers: Recent<Value, Side>,
}

impl Default for Cache {
    fn default() -> Self {
        Self { turns: Recent::new(KEPT), answers: Recent::new(KEPT) }
    }
}

#[derive(PartialEq)]
struct Key {
    tools: Vec<ToolSpec>,
    request: TurnRequest,
}

impl Cache {
    /// The automata for these tools and this request.
    pub(super) fn get(
        &mut self,
        format: &dyn ToolFormat,
        tools: &[ToolSpec],
        request: &TurnRequest,
        vocabulary: &Arc<Vocabulary>,
    ) -> Result<TurnAutomata, Error> {
        let is_it = |key: &Key| key.request == *request && key.tools == tools;
        if let Some(automata) = self.turns.find(is_it) {
            return Ok(automata.clone());
        }
        let turn = format.turn(tools, request)?;
        let side =
            |grammar: Option<Grammar>| grammar.map(|grammar| Side::new(grammar, vocabulary)).transpose();
        let automata = TurnAutomata { call: side(turn.call)?, answer: side(turn.answer)? };
        let key = Key { tools: tools.to_vec(), request: request.clone() };
        self.turns.put(key, automata.clone());
        Ok(automata)
    }

    /// The automaton of answers that are values of `schema`.
    pub(super) fn answer(&mut self, schema: &Value, vocabulary: &Arc<Vocabulary>) -> Result<Side, Error> {
        if let Some(side) = self.answers.find(|key| key == schema) {
            return Ok(side.clone());
        }
        let options = Options { undeclared: Undeclared::Forbidden, ..Options::default() };
        let side = Side::new(compile(&Schema::parse(schema)?, &options)?.grammar, vocabulary)?;
        self.answers.put(schema.clone(), side.clone());
        Ok(side)
    }
}

impl Side {
    fn new(grammar: Grammar, vocabulary: &Arc<Vocabulary>) -> Result<Self, Error> {
        let automaton = Automaton::new(&grammar, vocabulary.clone(), &Limits::default())?;
        Ok(Self { grammar: Arc::new(grammar), automaton })
    }
}
