//! Turn grammars and their automata, made once for each set of tools and kept: an automaton learns its masks as it
//! runs, so a second turn with the same tools finds them there. The same for the schemas of answers.

use std::sync::{Arc, Mutex};

use serde_json::Value;
use toolgate_chat::{TextPlace, ToolFormat, ToolSpec, TurnRequest};
use toolgate_grammar::{self as grammar, Automaton, Expr, Grammar, Limits, Undeclared, Vocabulary, compile};

use crate::AnswerForm;
use crate::Error;
use crate::model::pool::lock;
use crate::model::recent::Recent;

/// Turns whose automata are kept: several to a set of tools, as which of them may be called is the turn's. An automaton
/// takes a few MiB once its masks are learned.
const KEPT: usize = 64;

/// What a turn is held to: calls, an answer, or both.
#[derive(Clone)]
pub struct Sides<S> {
    /// Accepts the calls; `None` if there are none to make.
    pub call: Option<S>,
    /// Accepts the answers; `None` if a call is required.
    pub answer: Option<S>,
}

/// One side of a turn.
#[derive(Clone)]
pub(crate) struct Side {
    /// The grammar, for engines that run it themselves.
    pub(crate) grammar: Arc<Grammar>,
    /// The same, ready to run.
    pub(crate) automaton: Arc<Automaton>,
}

/// The automata made so far.
pub(crate) struct Cache {
    turns: Made<Key, Sides<Side>>,
    answers: Made<FormKey, Side>,
    /// Of text behind other text, and of what stands in front of a text.
    rest: Made<(), Side>,
    heads: Made<(), Side>,
}

/// The form of an answer that is no plain text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FormKey {
    Json(Value),
    Grammar(String),
}

impl FormKey {
    pub(crate) fn of(form: AnswerForm<'_>) -> Option<Self> {
        match form {
            AnswerForm::Text => None,
            AnswerForm::Json(schema) => Some(Self::Json(schema.clone())),
            AnswerForm::Grammar(text) => Some(Self::Grammar(text.to_owned())),
        }
    }
}

impl Default for Cache {
    fn default() -> Self {
        Self { turns: Made::new(), answers: Made::new(), rest: Made::new(), heads: Made::new() }
    }
}

#[derive(PartialEq)]
struct Key {
    tools: Vec<ToolSpec>,
    request: TurnRequest,
}

impl Cache {
    /// The automata for these tools and this request.
    pub(crate) fn get(
        &self,
        format: &dyn ToolFormat,
        tools: &[ToolSpec],
        request: &TurnRequest,
        vocabulary: &Arc<Vocabulary>,
    ) -> Result<Sides<Side>, Error> {
        let is_it = |key: &Key| key.request == *request && key.tools == tools;
        let key = || Key { tools: tools.to_vec(), request: request.clone() };
        self.turns.get(is_it, key, || {
            let turn = format.turn(tools, request)?;
            let side =
                |grammar: Option<Grammar>| grammar.map(|grammar| Side::new(grammar, vocabulary)).transpose();
            Ok(Sides { call: side(turn.call)?, answer: side(turn.answer)? })
        })
    }

    /// The automaton of text that goes on behind other text of a turn.
    pub(crate) fn rest(&self, format: &dyn ToolFormat, vocabulary: &Arc<Vocabulary>) -> Result<Side, Error> {
        self.rest.get(|()| true, || (), || Side::new(format.text(TextPlace::Further, &[])?, vocabulary))
    }

    /// The automaton of what may stand in front of a text that is shown.
    pub(crate) fn heads(&self, format: &dyn ToolFormat, vocabulary: &Arc<Vocabulary>) -> Result<Side, Error> {
        let make = || {
            let mut builder = Grammar::builder();
            let heads = format.text_heads().into_iter().map(|head| format.mark(head).expr());
            let root = builder.rule("root", Expr::choice(heads.collect::<Vec<_>>()));
            Side::new(builder.build(root)?, vocabulary)
        };
        self.heads.get(|()| true, || (), make)
    }

    /// The automaton of answers of a form.
    pub(crate) fn answer(&self, form: &FormKey, vocabulary: &Arc<Vocabulary>) -> Result<Side, Error> {
        let make = || match form {
            FormKey::Json(schema) => {
                let options = grammar::Options::default().undeclared(Undeclared::Forbidden);
                Side::new(compile(&toolgate_chat::read_schema(schema)?, &options)?.grammar, vocabulary)
            }
            FormKey::Grammar(text) => Side::new(Grammar::parse(text)?, vocabulary),
        };
        self.answers.get(|key| key == form, || form.clone(), make)
    }
}

/// Values that are made once for each key. Whoever wants one waits while it is made, and for no other: the tools of one client
/// can take a second.
struct Made<K, V>(Mutex<Recent<K, Arc<Mutex<Option<V>>>>>);

impl<K, V: Clone> Made<K, V> {
    fn new() -> Self {
        Self(Mutex::new(Recent::new(KEPT)))
    }

    /// The value under the key that is it, or else made for `key`; what cannot be made is tried anew each time.
    fn get(
        &self,
        is_it: impl FnMut(&K) -> bool,
        key: impl FnOnce() -> K,
        make: impl FnOnce() -> Result<V, Error>,
    ) -> Result<V, Error> {
        let place = {
            let mut known = lock(&self.0);
            match known.find(is_it) {
                Some(place) => place.clone(),
                None => {
                    let place = Arc::default();
                    known.put(key(), Arc::clone(&place));
                    place
                }
            }
        };
        let mut value = lock(&place);
        match &*value {
            Some(made) => Ok(made.clone()),
            None => {
                let made = make()?;
                *value = Some(made.clone());
                Ok(made)
            }
        }
    }
}

impl Side {
    fn new(grammar: Grammar, vocabulary: &Arc<Vocabulary>) -> Result<Self, Error> {
        let automaton = Automaton::new(&grammar, vocabulary.clone(), &Limits::default())?;
        Ok(Self { grammar: Arc::new(grammar), automaton })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn making_one_holds_up_who_wants_it_and_nobody_else() {
        let made: Made<u8, u8> = Made::new();
        let get = |wanted: u8, make: &dyn Fn() -> Result<u8, Error>| {
            made.get(|&key| key == wanted, || wanted, make)
        };
        let (begun, has_begun) = channel();
        let (other, other_is_made) = channel();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let waits = || {
                    begun.send(()).unwrap();
                    // Fails where the other one waits for this one.
                    other_is_made.recv_timeout(std::time::Duration::from_secs(20)).unwrap();
                    Ok(1)
                };
                assert_eq!(get(1, &waits).unwrap(), 1);
            });
            has_begun.recv().unwrap();
            assert_eq!(get(2, &|| Ok(2)).unwrap(), 2);
            other.send(()).unwrap();
            assert_eq!(get(1, &|| panic!("it is made once")).unwrap(), 1);
        });
    }

    #[test]
    fn what_could_not_be_made_is_tried_again() {
        let made: Made<u8, u8> = Made::new();
        assert!(made.get(|&key| key == 1, || 1, || Err(Error::input("too large"))).is_err());
        assert_eq!(made.get(|&key| key == 1, || 1, || Ok(1)).unwrap(), 1);
    }
}
