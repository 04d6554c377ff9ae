//! Reads a turn in a family from tokens: a mark is one only where it came as its tokens. In front of `stream`.
//!
//! Invariant: text that spells a mark reaches the reader with [`BREAK`] in it, so that it reads as text; no event holds it.

use serde_json::Value;
use toolgate_grammar::TokenId;
use toolgate_grammar::marks::MarkTokens;

use super::stream::TurnStream;
use crate::event::Event;
use crate::model::{ParsedTurn, ToolCall};

/// Stands within the name of a token that was spelled. Unicode keeps this noncharacter for use inside programs; where a model
/// writes it, it becomes U+FFFD.
const BREAK: &str = "\u{fdd0}";

/// A reader of one turn, token by token.
///
/// ```
/// use toolgate_chat::format::{Family, Start, ToolFormat};
/// use toolgate_grammar::marks::MarkTokens;
/// let tokens = MarkTokens::new([("<tool_call>".to_owned(), 300), ("</tool_call>".to_owned(), 301)]);
/// let format = Family::hermes().resolved(&tokens);
/// let read = |opening: &[(u32, &str)]| {
///     let mut stream = format.token_stream(&[], Start::Turn);
///     let call = [(1, "{\"name\": \"now\", \"arguments\": {}}\n"), (301, "</tool_call>")];
///     for (token, text) in opening.iter().chain(&call) {
///         stream.push(*token, text.as_bytes());
///     }
///     stream.finish().1
/// };
/// assert_eq!(read(&[(300, "<tool_call>"), (2, "\n")]).calls.len(), 1);
/// let spelled = read(&[(3, "<tool"), (4, "_call>\n")]);
/// assert!(spelled.calls.is_empty());
/// assert!(spelled.content.is_some_and(|text| text.starts_with("<tool_call>\n{")));
/// ```
#[derive(Clone, Debug)]
pub struct TokenStream {
    stream: TurnStream,
    tokens: MarkTokens,
    /// The names that the reader acts on.
    names: Vec<String>,
    /// Bytes that may yet become the name of a token.
    held: Vec<u8>,
}

impl TokenStream {
    pub(crate) fn new(stream: TurnStream, tokens: &MarkTokens, texts: &[String]) -> Self {
        let is_used = |name: &str| texts.iter().any(|text| text.contains(name));
        let names =
            tokens.iter().map(|(name, _)| name).filter(|name| is_used(name)).map(str::to_owned).collect();
        Self { stream, tokens: tokens.clone(), names, held: Vec::new() }
    }

    /// Takes a token and its bytes, and tells what it made certain. Special tokens that are no marks of the family say
    /// nothing.
    pub fn push(&mut self, token: TokenId, bytes: &[u8]) -> Vec<Event> {
        let mut ready = Vec::new();
        if self.tokens.iter().any(|(_, mark)| mark == token) {
            ready.append(&mut self.held);
            if self.names.iter().any(|name| name.as_bytes() == bytes) {
                ready.extend_from_slice(bytes);
            }
        } else {
            self.held.extend_from_slice(bytes);
            self.broken(&mut ready);
        }
        shown(self.stream.push(&ready))
    }

    /// The turn is over: what is left, and the whole turn.
    pub fn finish(mut self) -> (Vec<Event>, ParsedTurn) {
        let mut events = self.stream.push(&self.held);
        let (last, turn) = self.stream.finish();
        events.extend(last);
        (shown(events), whole(turn))
    }

    /// Moves what was held and is certain, with each name that was spelled broken.
    fn broken(&mut self, ready: &mut Vec<u8>) {
        let names = || self.names.iter().map(String::as_str).chain([BREAK]).map(str::as_bytes);
        let (mut at, held) = (0, &self.held);
        while let Some(rest) = held.get(at..).filter(|rest| !rest.is_empty()) {
            let spelled = names().filter(|name| rest.starts_with(name)).max_by_key(|name| name.len());
            match spelled {
                Some(name) if name == BREAK.as_bytes() => ready.extend("\u{fffd}".bytes()),
                Some(name) => {
                    let first = std::str::from_utf8(name).ok().and_then(|name| name.chars().next());
                    let first = first.map_or(1, char::len_utf8);
                    ready.extend(name.iter().take(first).copied().chain(BREAK.bytes()));
                    ready.extend(name.iter().skip(first));
                }
                None if names().any(|name| name.starts_with(rest)) => break,
                None => ready.extend(rest.first()),
            }
            at += spelled.map_or(1, <[u8]>::len);
        }
        self.held.drain(..at);
    }
}

fn shown(events: Vec<Event>) -> Vec<Event> {
    let event = |event| match event {
        Event::Text(text) => Event::Text(plain(text)),
        Event::Reasoning(text) => Event::Reasoning(plain(text)),
        Event::Reasoned(text) => Event::Reasoned(plain(text)),
        Event::CallStarted(text) => Event::CallStarted(plain(text)),
        Event::Arguments(text) => Event::Arguments(plain(text)),
        Event::Call(call) => Event::Call(plain_call(call)),
        Event::CallBroken => Event::CallBroken,
    };
    events.into_iter().map(event).collect()
}

fn whole(turn: ParsedTurn) -> ParsedTurn {
    ParsedTurn {
        content: turn.content.map(plain),
        reasoning: turn.reasoning.map(plain),
        calls: turn.calls.into_iter().map(plain_call).collect(),
        ..turn
    }
}

fn plain(text: String) -> String {
    if text.contains(BREAK) { text.replace(BREAK, "") } else { text }
}

fn plain_call(mut call: ToolCall) -> ToolCall {
    call.name = plain(call.name);
    let arguments = Value::Object(call.arguments);
    call.arguments = match plain_value(arguments) {
        Value::Object(arguments) => arguments,
        _ => serde_json::Map::new(),
    };
    call
}

fn plain_value(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(plain(text)),
        Value::Array(items) => items.into_iter().map(plain_value).collect(),
        Value::Object(members) => {
            members.into_iter().map(|(key, value)| (plain(key), plain_value(value))).collect()
        }
        other => other,
    }
}
