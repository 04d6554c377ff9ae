//! A turn on a server that takes tools and no grammar. It sends the tools, joins the server's calls from their pieces, and
//! finds calls that leaked into the text with the fallback parser.
//!
//! Invariant: a call's arguments are the server's JSON object. They are whole, unless the turn is marked as cut off. Otherwise
//! there is no call.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Map, Value, json};
use toolgate_chat::fallback::{Stream, extract};
use toolgate_chat::format::Family;
use toolgate_chat::{
    Defect, DefectKind, Demonstrations, Message, ParsedTurn, ToolCall, ToolChoice, ToolSpec, Transcript,
};
use toolgate_infer::StopReason;

use super::http::Client;
use super::wire::{self, THOUGHTS, Written, text_of};
use crate::{Error, Kind};
use toolgate_engine::stages::{May, REPEATED, recover, show, without_repeats};
use toolgate_engine::{self as engine, Cancel, Turn, TurnEvent, TurnRequest};

/// A server that takes tools and no grammar.
pub(super) struct Native {
    client: Arc<Client>,
    model: String,
    /// Whether it has refused to be told that a call is required.
    is_free: AtomicBool,
    /// Whether it tells thoughts under the shorter of their two names.
    is_short: AtomicBool,
}

impl Native {
    pub(super) fn new(client: Arc<Client>, model: String) -> Self {
        Self { client, model, is_free: AtomicBool::new(false), is_short: AtomicBool::new(false) }
    }

    /// Makes a turn.
    pub(super) fn turn(
        &self,
        options: &engine::Options,
        request: &TurnRequest<'_>,
        cancel: &Cancel,
        events: &mut dyn FnMut(TurnEvent),
    ) -> Result<Turn, Error> {
        let transcript =
            options.introduced(request.transcript, request.tools, &Family::generic(), Demonstrations::None);
        let messages = self.messages(&transcript);
        let mut asking = Asking { server: self, request, cancel, messages };
        if let Some(begun) = request.goes_on_from() {
            asking.messages.push(json!({"role": "assistant", "content": begun}));
            return asking.ask(&ToolChoice::None, events);
        }
        let is_sure = options.thresholds.is_sure_of_call(request) && !self.is_free.load(Ordering::Relaxed);
        let sure = if is_sure { asking.required(events)? } else { None };
        let mut turn = match sure {
            Some(turn) => turn,
            None => {
                let turn = asking.ask(&request.choice, events)?;
                // It takes the request but for that.
                self.is_free.fetch_or(is_sure, Ordering::Relaxed);
                turn
            }
        };
        match without_repeats(std::mem::take(&mut turn.parsed.calls), request, options) {
            Some(calls) => {
                turn.parsed.calls = calls;
                Ok(turn)
            }
            None => {
                events(TurnEvent::Retry(REPEATED.to_owned()));
                let again = asking.ask(&ToolChoice::None, events)?;
                let mut again = after(again, &turn);
                // With nothing offered, what it calls even so is no call.
                again.looped = !again.parsed.calls.is_empty();
                again.parsed.calls.clear();
                Ok(again)
            }
        }
    }

    /// The conversation, with what the model thought under the name by which the server tells it.
    fn messages(&self, transcript: &Transcript) -> Vec<Value> {
        let mut messages = transcript.to_openai();
        let [long, short] = THOUGHTS;
        let name = if self.is_short.load(Ordering::Relaxed) { short } else { long };
        let thoughts = transcript.iter().filter_map(|message| match message {
            Message::Assistant { reasoning, .. } => Some(reasoning),
            _ => None,
        });
        let turns =
            messages.iter_mut().filter(|message| message.get("role").is_some_and(|it| it == "assistant"));
        for (turn, thought) in turns.zip(thoughts) {
            if let (Some(turn), Some(thought)) = (turn.as_object_mut(), thought) {
                turn.insert(name.to_owned(), thought.as_str().into());
            }
        }
        messages
    }
}

/// A turn that is asked for, perhaps more than once.
struct Asking<'a> {
    server: &'a Native,
    request: &'a TurnRequest<'a>,
    cancel: &'a Cancel,
    messages: Vec<Value>,
}

impl Asking<'_> {
    fn ask(&self, choice: &ToolChoice, events: &mut dyn FnMut(TurnEvent)) -> Result<Turn, Error> {
        let mut body = wire::chat_body(&self.server.model, self.request.sampling);
        body.extend(wire::thoughts(self.request.sampling));
        body.insert("messages".to_owned(), Value::Array(self.messages.clone()));
        offer(&mut body, self.request, choice);
        if self.request.begun.is_some() {
            body.extend(wire::going_on());
        }
        answer(self.server, &body.into(), self.request, self.cancel, events)
    }

    /// A call of a tool that only looks; none where there is no such tool, the server does not let itself be told so, or fails
    /// before it has said anything.
    fn required(&self, events: &mut dyn FnMut(TurnEvent)) -> Result<Option<Turn>, Error> {
        let Some(choice) =
            May { look: true, ..May::NOTHING }.among(&ToolChoice::Required, self.request.tools)
        else {
            return Ok(None);
        };
        let mut is_silent = true;
        let mut told = |event| {
            is_silent = false;
            events(event);
        };
        match self.ask(&choice, &mut told) {
            Ok(turn) => Ok(Some(turn)),
            Err(why) if why.kind() == Kind::Engine && is_silent => Ok(None),
            Err(why) => Err(why),
        }
    }
}

/// A turn in the place of another one, with the costs of both.
fn after(mut turn: Turn, first: &Turn) -> Turn {
    turn.stats += &first.stats;
    turn
}

/// Adds the tools and what may become of them. Where nothing may be called nothing is offered, which every server obeys.
fn offer(body: &mut Map<String, Value>, request: &TurnRequest<'_>, choice: &ToolChoice) {
    let may = |tool: &&ToolSpec| match choice {
        ToolChoice::Auto | ToolChoice::Required => true,
        ToolChoice::None => false,
        ToolChoice::Only(names) => names.contains(&tool.name),
    };
    let tools: Vec<Value> = request.tools.iter().filter(may).map(ToolSpec::shown).collect();
    if tools.is_empty() {
        return;
    }
    let word = match choice {
        ToolChoice::Required | ToolChoice::Only(_) => "required",
        _ => "auto",
    };
    body.insert("tools".to_owned(), tools.into());
    body.insert("tool_choice".to_owned(), word.into());
    if let Some(most) = request.parallel {
        body.insert("parallel_tool_calls".to_owned(), (most.get() > 1).into());
    }
}

/// One request, and the turn that its answer is.
fn answer(
    server: &Native,
    body: &Value,
    request: &TurnRequest<'_>,
    cancel: &Cancel,
    events: &mut dyn FnMut(TurnEvent),
) -> Result<Turn, Error> {
    let mut written = Written::default();
    let mut calls = Calls::default();
    // The text may hold a call in any dialect: only what is none is shown.
    let mut leaks = Stream::new(request.tools);
    let mut again = Again::of(request.goes_on_from().unwrap_or_default());
    server.client.chat_stream(body, cancel, &mut |event| {
        written.usage.note(event);
        let Some(choice) = event.pointer("/choices/0") else { return Ok(ControlFlow::Continue(())) };
        let text = |field| choice.get("delta").and_then(|delta| text_of(delta, field));
        let found = THOUGHTS
            .into_iter()
            .zip([false, true])
            .find_map(|(name, is_short)| Some((text(name)?, is_short)));
        if let Some((text, is_short)) = found {
            server.is_short.store(is_short, Ordering::Relaxed);
            written.reasoning.push_str(text);
            events(TurnEvent::Reasoning(text.to_owned()));
        }
        if let Some(text) = text("content") {
            let text = again.after(text);
            written.text.push_str(&text);
            show(leaks.push(text.as_bytes()), events);
        }
        let finish = choice.get("finish_reason").and_then(Value::as_str);
        for field in ["/delta/tool_calls", "/message/tool_calls"] {
            let pieces = choice.pointer(field).and_then(Value::as_array);
            pieces.into_iter().flatten().for_each(|piece| calls.take(piece, finish.is_some()));
        }
        written.stop = finish.map(wire::stop_of).or(written.stop.take());
        Ok(ControlFlow::Continue(()))
    })?;
    let held = again.held();
    written.text.push_str(&held);
    show(leaks.push(held.as_bytes()), events);
    show(leaks.finish().0, events);
    let Some(stop) = written.stop.take() else {
        let message = format!(
            "the server's answer broke off after {} bytes of text and {} calls; nothing of this turn was taken, ask again",
            written.text.len(),
            calls.0.len()
        );
        return Err(Error::new(Kind::Engine, message));
    };
    Ok(finished(written, calls, stop, request, events))
}

fn finished(
    written: Written,
    calls: Calls,
    stop: StopReason,
    request: &TurnRequest<'_>,
    events: &mut dyn FnMut(TurnEvent),
) -> Turn {
    let mut usage = written.usage;
    if usage.reasoning_tokens.is_none_or(|tokens| tokens == 0) {
        usage.reasoning_tokens = Some(share_of_thoughts(&written, &calls));
    }
    let (done, cached) = (usage.prompt_tokens, usage.cached_tokens);
    events(TurnEvent::Prefill { done, tokens: done, cached });
    let text = if request.trims_front() { written.text.trim() } else { written.text.trim_end() };
    let content = Some(text.to_owned()).filter(|text| !text.is_empty());
    let reasoning = Some(written.reasoning).filter(|text| !text.is_empty());
    let mut parsed = ParsedTurn { content, reasoning, ..ParsedTurn::default() };
    calls.read(&mut parsed, !stop.is_whole());
    let parsed = match parsed.calls.is_empty() {
        false => parsed,
        true => {
            let found = recover(parsed, request.tools);
            if !found.calls.is_empty() {
                events(TurnEvent::Recovered(written.text.clone()));
            }
            found
        }
    };
    let budget = request.sampling.max_tokens;
    Turn::new(parsed, written.text, stop).budget(budget).stats(usage.into())
}

/// How many of the tokens written are of thoughts, where the server counts them together: as many as is their share of the text.
fn share_of_thoughts(written: &Written, calls: &Calls) -> usize {
    let calls: usize = calls.0.iter().map(|call| call.name.len() + call.arguments.len()).sum();
    let thoughts = written.reasoning.len();
    let all = (thoughts + written.text.len() + calls).max(1);
    written.usage.written_tokens.saturating_mul(thoughts).div_ceil(all)
}

/// What was begun of an answer, as long as a server may be saying it again: some do before they go on.
struct Again<'a> {
    begun: &'a str,
    said: String,
}

impl<'a> Again<'a> {
    fn of(begun: &'a str) -> Self {
        Self { begun, said: String::new() }
    }

    /// What of the next text is new.
    fn after(&mut self, text: &str) -> String {
        self.said.push_str(text);
        if self.begun.len() > self.said.len() && self.begun.starts_with(&self.said) {
            return String::new();
        }
        let said = std::mem::take(&mut self.said);
        let begun = std::mem::take(&mut self.begun);
        said.strip_prefix(begun).map(str::to_owned).unwrap_or(said)
    }

    /// What was kept back, where the text ended in it: that is no repetition.
    fn held(self) -> String {
        self.said
    }
}

/// The calls of a stream, put together from their pieces.
#[derive(Debug, Default)]
struct Calls(Vec<Piecemeal>);

#[derive(Debug, Default, PartialEq)]
struct Piecemeal {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
}

impl Calls {
    /// Takes a piece. With the last event of a turn some servers tell its calls once more, whole.
    fn take(&mut self, piece: &Value, is_last: bool) {
        let text = |path: &str| piece.pointer(path).and_then(Value::as_str).unwrap_or_default();
        let index = piece.get("index").and_then(Value::as_u64);
        let (id, name) = (text("/id"), text("/function/name"));
        // Most give each call a number; of the others a new id or name begins a new call.
        let known = match index {
            Some(_) => self.0.iter_mut().find(|call| call.index == index),
            None if id.is_empty() && name.is_empty() => self.0.last_mut(),
            None => self.0.iter_mut().find(|call| !id.is_empty() && call.id == id),
        };
        let arguments = match piece.pointer("/function/arguments") {
            Some(Value::String(text)) => text.clone(),
            None | Some(Value::Null) => String::new(),
            Some(whole) => whole.to_string(),
        };
        match known {
            // Another call under a number that is taken: some servers number each event's calls from 0.
            Some(call) if id.is_empty() || call.id.is_empty() || call.id == id => {
                if is_last && is_whole(&call.arguments) && is_whole(&arguments) {
                    call.arguments = arguments;
                    return;
                }
                if call.id.is_empty() {
                    id.clone_into(&mut call.id);
                }
                if call.name != name {
                    call.name.push_str(name);
                }
                call.arguments.push_str(&arguments);
            }
            _ => self.0.push(Piecemeal { index, id: id.to_owned(), name: name.to_owned(), arguments }),
        }
    }

    /// Reads them into a turn, which may have been cut off.
    fn read(self, turn: &mut ParsedTurn, is_cut: bool) {
        for call in self.0 {
            match call.arguments() {
                Some(arguments) => turn.calls.push(call.with(arguments)),
                // Never run, so that its arguments do not matter; the model is told why.
                None if is_cut => turn.calls.push(call.with(Map::new())),
                None => turn.defects.push(Defect {
                    kind: DefectKind::NotJson,
                    offset: 0,
                    message: format!("the arguments of {} are no JSON object: {}", call.name, call.arguments),
                }),
            }
        }
        if let (None, [], [defect, ..]) = (&turn.content, turn.calls.as_slice(), turn.defects.as_slice()) {
            turn.content = Some(format!("(the model made a call that cannot be read: {})", defect.message));
        }
    }
}

fn is_whole(arguments: &str) -> bool {
    serde_json::from_str::<Map<String, Value>>(arguments).is_ok()
}

impl Piecemeal {
    /// The arguments, mended where they are nearly JSON.
    fn arguments(&self) -> Option<Map<String, Value>> {
        if self.arguments.trim().is_empty() {
            return Some(Map::new());
        }
        serde_json::from_str(&self.arguments).ok().or_else(|| {
            let name = Value::from(self.name.as_str());
            let written =
                format!("<tool_call>{{\"name\": {name}, \"arguments\": {}}}</tool_call>", self.arguments);
            match <[ToolCall; 1]>::try_from(extract(&written).calls) {
                Ok([call]) if call.name == self.name => Some(call.arguments),
                _ => None,
            }
        })
    }

    fn with(&self, arguments: Map<String, Value>) -> ToolCall {
        let call = ToolCall::new(self.name.as_str(), arguments);
        if self.id.is_empty() { call } else { call.with_id(self.id.as_str()) }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use super::*;

    fn read(pieces: Value, is_cut: bool) -> ParsedTurn {
        let mut calls = Calls::default();
        let pieces = pieces.as_array().unwrap();
        for (at, piece) in pieces.iter().enumerate() {
            calls.take(piece, at + 1 == pieces.len());
        }
        let mut turn = ParsedTurn::default();
        calls.read(&mut turn, is_cut);
        turn
    }

    #[test]
    fn calls_are_put_together_however_a_server_cuts_them() {
        let piece = |index: Value, id: &str, name: &str, arguments: &str| json!({"index": index, "id": id, "function": {"name": name, "arguments": arguments}});
        let none = Value::Null;
        for (how, pieces) in [
            (
                "numbered",
                json!([
                    piece(0.into(), "a", "f", ""),
                    piece(0.into(), "", "", "{\"x\""),
                    piece(0.into(), "", "", ": 1}"),
                    piece(1.into(), "b", "g", "{}"),
                ]),
            ),
            ("whole", json!([piece(0.into(), "a", "f", "{\"x\": 1}"), piece(1.into(), "b", "g", "{}")])),
            (
                "without numbers",
                json!([
                    piece(none.clone(), "a", "f", "{\"x\": "),
                    piece(none.clone(), "", "", "1}"),
                    piece(none.clone(), "b", "g", "{}"),
                ]),
            ),
            (
                "numbered anew",
                json!([piece(0.into(), "a", "f", "{\"x\": 1}"), piece(0.into(), "b", "g", "{}")]),
            ),
            (
                "names and ids repeated",
                json!([
                    piece(0.into(), "a", "f", "{\"x\""),
                    piece(0.into(), "a", "f", ": 1}"),
                    piece(1.into(), "b", "g", ""),
                ]),
            ),
            (
                "repeated whole",
                json!([
                    piece(1.into(), "b", "g", ""),
                    piece(0.into(), "a", "f", "{\"x\": 1}"),
                    piece(0.into(), "a", "f", "{\"x\": 1}"),
                ]),
            ),
        ] {
            let mut turn = read(pieces, false);
            turn.calls.sort_by(|one, other| one.name.cmp(&other.name));
            let seen: Vec<_> = turn.calls.iter().map(|call| (call.id.as_str(), call.name.as_str())).collect();
            assert_eq!(seen, [("a", "f"), ("b", "g")], "{how}");
            assert_eq!(turn.calls[0].arguments, *json!({"x": 1}).as_object().unwrap(), "{how}");
            assert!(turn.calls[1].arguments.is_empty(), "{how}");
        }
    }

    #[test]
    fn arguments_that_are_no_object_are_mended_cut_or_said_to_be_none() {
        let one = |arguments: &str| json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": arguments}}]);
        let turn = read(one("{'x': 1,}"), false);
        assert_eq!(turn.calls[0].arguments, *json!({"x": 1}).as_object().unwrap());
        assert_eq!(read(one("3 and"), true).calls.len(), 1, "the model is told of it");
        let turn = read(one("3"), false);
        assert!(turn.calls.is_empty() && turn.content.unwrap().contains("cannot be read"));
        assert_eq!(turn.defects.len(), 1);
    }
}
