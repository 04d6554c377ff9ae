//! Turn grammars and their automata, made once for each set of tools and kept: an automaton learns its masks as it
//! runs, so a second turn with the same tools finds them there.

use std::sync::Arc;

use toolgate_chat::{ToolFormat, ToolSpec, TurnRequest};
use toolgate_grammar::{Automaton, Grammar, Limits, Vocabulary};

use crate::Error;

/// Sets of tools whose automata are kept; the one used longest ago goes first. An automaton takes a few MiB once
/// its masks are learned.
const KEPT: usize = 8;

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

/// The automata made so far, most recently used last.
#[derive(Default)]
pub(super) struct Cache(Vec<(Key, TurnAutomata)>);

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
        if let Some(i) = self.0.iter().position(|(key, _)| key.request == *request && key.tools == tools) {
            let entry = self.0.remove(i);
            let automata = entry.1.clone();
            self.0.push(entry);
            return Ok(automata);
        }
        let turn = format.turn(tools, request)?;
        let side = |grammar: Option<Grammar>| -> Result<Option<Side>, Error> {
            let Some(grammar) = grammar else { return Ok(None) };
            let automaton = Automaton::new(&grammar, vocabulary.clone(), &Limits::default())?;
            Ok(Some(Side { grammar: Arc::new(grammar), automaton }))
        };
        let automata = TurnAutomata { call: side(turn.call)?, answer: side(turn.answer)? };
        if self.0.len() >= KEPT {
            self.0.remove(0);
        }
        let key = Key { tools: tools.to_vec(), request: request.clone() };
        self.0.push((key, automata.clone()));
        Ok(automata)
    }
}
