//! Earlier turns: what the template shows of them is read back, token by token, as what was said.

use serde_json::{Value, json};
use toolgate_chat::format::Start;
use toolgate_chat::{Message, ParsedTurn, ToolCall, ToolSpec};
use toolgate_grammar::TokenKind;

use super::calls::{Draw, tools};
use super::pair::{Pair, Turn};
use super::{Cases, Law, Outcome};

const THOUGHT: &str = "The user wants a file, I think.";
const TEXT: &str = "I am going to look.";

/// Random turns: a text, calls, both, each with a thought and without.
pub(crate) fn run(pair: &Pair, turns: usize, cases: &mut Cases<'_>) {
    let Ok(tools) = tools() else { return };
    for turn in 0..turns {
        let mut draw = Draw::new(turn as u64 + 1_000);
        let n = [0, 1, 2, 1].get(turn % 4).copied().unwrap_or(0);
        let calls = draw.calls(n);
        let content = (n == 0 || turn % 3 == 0).then(|| TEXT.to_owned());
        let reasoning = (turn % 2 == 1).then(|| THOUGHT.to_owned());
        let said = ParsedTurn { content, reasoning, calls, ..ParsedTurn::default() };
        cases.add(Law::History, &shown(&said), one(pair, &said, &tools));
    }
}

fn one(pair: &Pair, said: &ParsedTurn, tools: &[ToolSpec]) -> Outcome {
    if !said.calls.is_empty() && !pair.dialogue.knowledge().knows_results {
        return Outcome::Untested("the template writes no calls".to_owned());
    }
    let message = Message::Assistant {
        content: said.content.clone(),
        reasoning: said.reasoning.clone(),
        calls: said.calls.clone(),
    };
    let Ok(turn) = pair.turn(message, tools) else {
        return Outcome::Untested("the template refuses such a turn".to_owned());
    };
    if let Some(why) = pair.leaves_out(said, tools) {
        return Outcome::Untested(why);
    }
    let mut want = said.clone();
    if want.reasoning.is_some() && !turn.text.contains(THOUGHT) {
        want.reasoning = None;
    }
    if want.content.is_some() && !turn.text.contains(TEXT) {
        if want.calls.is_empty() {
            return Outcome::Untested("the template leaves such an answer out".to_owned());
        }
        want.content = None;
    }
    if pair.shows_as_thought(&turn, TEXT) {
        return Outcome::Untested("the template shows a text beside calls as a thought".to_owned());
    }
    let got = read(pair, &turn, tools);
    if shown(&want) == shown(&got) {
        return Outcome::Holds;
    }
    let tokens = pair.shown(turn.tokens.get(turn.start..).unwrap_or_default());
    Outcome::Fails { want: shown(&want), got: format!("{} of {tokens}", shown(&got)) }
}

/// The turn, read from its tokens up to its end.
fn read(pair: &Pair, turn: &Turn, tools: &[ToolSpec]) -> ParsedTurn {
    let format = pair.dialogue.format();
    let vocabulary = pair.tokenizer.0.vocabulary();
    let (before, own) = turn.tokens.split_at_checked(turn.start).unwrap_or((&turn.tokens, &[]));
    let opened =
        format.thoughts().is_some_and(|(open, _)| pair.text(before).trim_end().ends_with(open.text().trim()));
    let start = if opened { Start::Reasoning } else { Start::Turn };
    // What ends every turn is no part of what was said.
    let behind = pair.behind_answers();
    let is_end = |rest: &[u32]| !behind.trim().is_empty() && pair.text(rest).trim_end() == behind.trim_end();
    let mut stream = format.token_stream(tools, start);
    for (i, &token) in own.iter().enumerate() {
        let rest = own.get(i..).unwrap_or_default();
        if vocabulary.kind(token) == TokenKind::EndOfGeneration || is_end(rest) {
            break;
        }
        stream.push(token, vocabulary.bytes(token));
    }
    stream.finish().1
}

pub(super) fn shown(turn: &ParsedTurn) -> String {
    let calls: Vec<Value> = turn
        .calls
        .iter()
        .map(|call| json!([call.name, sorted(&Value::Object(call.arguments.clone()))]))
        .collect();
    json!({"reasoning": turn.reasoning, "content": turn.content, "calls": calls}).to_string()
}

pub(super) fn shown_calls(calls: &[ToolCall]) -> String {
    let calls: Vec<Value> =
        calls.iter().map(|call| json!([call.name, Value::Object(call.arguments.clone())])).collect();
    Value::from(calls).to_string()
}

/// Members in the order of their names: some templates sort them.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> =
                members.iter().map(|(key, value)| (key.clone(), sorted(value))).collect();
            members.sort_by(|(a, _), (b, _)| a.cmp(b));
            Value::Object(members.into_iter().collect())
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        other => other.clone(),
    }
}
