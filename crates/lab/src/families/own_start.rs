//! Own starts: a model that begins by itself to think, to say something or to call gets the turn that it began.
//!
//! The model is a scripted one over the pair's vocabulary and tokenizer, and the engine is the one that makes all turns.

use serde_json::json;
use toolgate_chat::{Message, ParsedTurn, ToolCall, ToolSpec, Transcript};
use toolgate_engine::{self as engine, AnswerView, Cancel, Engine, LocalEngine, Sampling, TurnRequest};
use toolgate_infer::Backend;
use toolgate_infer::scripted::Scripted;

use super::calls::tools;
use super::history::shown;
use super::pair::Pair;
use super::{Cases, Law, Outcome};

const THOUGHT: &str = "The user wants a file, I think.";
const TEXT: &str = "I am going to look.";
/// Tokens that prompts and turns have room for.
const CONTEXT: usize = 32_768;

/// What a model wants to begin with, and what it goes on with.
struct Start {
    law: Law,
    thought: bool,
    text: bool,
    call: bool,
}

const STARTS: [Start; 5] = [
    Start { law: Law::Calls, thought: false, text: false, call: true },
    Start { law: Law::Says, thought: false, text: true, call: false },
    Start { law: Law::Says, thought: false, text: true, call: true },
    Start { law: Law::Thinks, thought: true, text: true, call: false },
    Start { law: Law::Thinks, thought: true, text: false, call: true },
];

/// Each start, once.
pub(crate) fn run(pair: &Pair, cases: &mut Cases<'_>) {
    let Ok(tools) = tools() else { return };
    for start in STARTS {
        let said = start.said();
        cases.add(start.law, &shown(&said), one(pair, &start, &said, &tools));
    }
}

impl Start {
    fn said(&self) -> ParsedTurn {
        let arguments = json!({"path": "notes.txt"}).as_object().cloned().unwrap_or_default();
        let call = ToolCall::new("find_files", arguments).with_id("call00000");
        ParsedTurn {
            content: self.text.then(|| TEXT.to_owned()),
            reasoning: self.thought.then(|| THOUGHT.to_owned()),
            calls: if self.call { vec![call] } else { Vec::new() },
            ..ParsedTurn::default()
        }
    }
}

fn one(pair: &Pair, start: &Start, said: &ParsedTurn, tools: &[ToolSpec]) -> Outcome {
    let wants = match wanted(pair, start, said, tools) {
        Ok(wants) => wants,
        Err(why) => return Outcome::Untested(why.to_owned()),
    };
    let tokenizer = pair.tokenizer.clone();
    let model = Scripted::new(tokenizer.vocabulary().clone())
        .context(CONTEXT)
        .tokenized_by(move |text, specials| tokenizer.tokenize(text, specials))
        .on("", wants.as_str());
    let options = engine::Options::default().answer_view(AnswerView::Full);
    let engine = LocalEngine::new("scripted", model, pair.dialogue.clone(), options);
    let transcript = Transcript::new().with(Message::User("What is the time?".to_owned()));
    let sampling = Sampling::default();
    let request = TurnRequest::new(&transcript, tools, &sampling);
    let made = engine.turn(&request, &Cancel::default(), &mut |_| {});
    let got = match made {
        Ok(turn) => shown(&turn.parsed),
        Err(error) => error.to_string(),
    };
    match shown(said) == got {
        true => Outcome::Holds,
        false => Outcome::Fails { want: shown(said), got: format!("{got} of {wants:?}") },
    }
}

/// What the model wants to write.
fn wanted(pair: &Pair, start: &Start, said: &ParsedTurn, tools: &[ToolSpec]) -> Result<String, &'static str> {
    let format = pair.dialogue.format();
    let opens = pair.opens_thought();
    let mut wants = String::new();
    let thoughts = format.thoughts().map(|(open, close)| (open.text(), close.text()));
    let is_told = pair.dialogue.thought_opening().is_some() || opens;
    match thoughts.filter(|_| is_told) {
        Some((open, close)) if start.thought || opens => {
            if !opens {
                wants.push_str(&open);
            }
            wants.push_str(if start.thought { THOUGHT } else { "" });
            wants.push_str(&close);
            if format.text_end().is_empty() {
                wants.push_str("\n\n");
            }
        }
        None if start.thought => return Err("the template tells of no thoughts"),
        _ => {}
    }
    if start.text {
        // In front of a call stands a text of its own kind, where the family has one.
        let heads = format.text_heads();
        let head = if start.call { heads.last() } else { heads.first() };
        wants.push_str(head.copied().unwrap_or_default());
        wants.push_str(TEXT);
        if start.call {
            if format.openings_in_text().is_empty() {
                return Err("calls of this family look like text");
            }
            wants.push_str(if format.text_end().is_empty() { "\n" } else { format.text_end() });
        }
    }
    if start.call {
        wants.push_str(&format.render_calls(&said.calls, tools));
    }
    Ok(wants)
}
