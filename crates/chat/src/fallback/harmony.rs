//! Messages with a header, as gpt-oss writes them: `<|channel|>commentary to=functions.f<|message|>{…}<|call|>`.

use super::payload::{self, Around};
use super::reasoning::Closing;
use super::scan::{Found, Item, Mode};
use super::source::Cursor;
use super::tag::Tag;
use super::{Pattern, Span};
use crate::model::ToolCall;
use crate::spec::ToolSpec;

/// What ends a message.
const END: &str = "<|end|>";
/// Bytes of the longest header that is read.
const HEADER: usize = 512;
/// Tokens within a header.
const TOKENS: usize = 4;
/// Who is written to that is no tool.
const PEOPLE: [&str; 5] = ["user", "assistant", "all", "system", "developer"];

/// Channels, as headers name them.
const CHANNELS: [&str; 3] = ["analysis", "commentary", "final"];
/// What a server that leaves the tokens out makes of the headers of later messages.
pub(crate) const STRIPPED: [&str; 3] = ["assistantfinal", "assistantcommentary", "assistantanalysis"];

/// A text that begins within a message: its first token was part of the prompt, or the server left the tokens out.
pub(crate) fn opened(cursor: Cursor<'_, '_>, tools: &[ToolSpec]) -> Found {
    let mut at = cursor;
    if let Some(channel) = at.eat_any(&STRIPPED) {
        return stripped(cursor.place(), at, channel, tools);
    }
    let Some(channel) = at.eat_any(&CHANNELS) else { return Found::Text };
    let mut whole = cursor;
    if header(&mut whole).is_some() {
        return message(cursor, tools);
    }
    // Without its tokens, the first word of the thought follows the channel's name at once.
    if channel == "analysis" && at.peek().is_some_and(|c| c.is_alphabetic() && !c.is_lowercase()) {
        return Found::Enter(Mode::Reasoning(Closing::Stripped), at.place());
    }
    Found::Text
}

/// A message behind a header whose tokens are gone: `assistantcommentary to=functions.f json{…}`.
pub(crate) fn stripped(start: usize, inside: Cursor<'_, '_>, header: &str, tools: &[ToolSpec]) -> Found {
    let mut at = inside;
    if header.ends_with("analysis") {
        return Found::Enter(Mode::Reasoning(Closing::Stripped), at.place());
    }
    if header.ends_with("commentary") && at.eat(" to=") {
        let name = at.take_while(|c| !c.is_whitespace() && c != '{');
        at.skip_blank();
        at.eat_any(&["json", "code"]);
        if let Some(name) = tool_of(name) {
            return call(start, at, name, tools);
        }
    }
    Found::Item(Item::mark(start, inside.place()))
}

/// A message from its first token on.
pub(crate) fn message(cursor: Cursor<'_, '_>, tools: &[ToolSpec]) -> Found {
    let mut at = cursor;
    let Some(header) = header(&mut at) else { return Found::Text };
    if let Some(name) = addressee(header) {
        return call(cursor.place(), at, name, tools);
    }
    if header.contains("analysis") {
        return Found::Enter(Mode::Reasoning(Closing::Mark(END.to_owned())), at.place());
    }
    Found::Item(Item::mark(cursor.place(), at.place()))
}

/// Where a message ends without its mark: another one begins here, or the turn is over.
pub(crate) fn end_of_message(cursor: Cursor<'_, '_>, closings: &[&str]) -> Option<usize> {
    let begins = ["<|start|>", "<|channel|>"].iter().any(|mark| cursor.sees(mark));
    let ends = ["<|return|>", "<|call|>"].iter().any(|mark| cursor.sees(mark));
    (closings.contains(&END) && (begins || ends)).then(|| cursor.place())
}

/// A message whose first token is part of the prompt: `to=functions.f<|channel|>…`.
pub(crate) fn recipient(cursor: Cursor<'_, '_>, tools: &[ToolSpec]) -> Found {
    let before = cursor.source().slice(0, cursor.place());
    let opens = before.is_empty() || before.ends_with([' ', '>']);
    if !opens || !cursor.sees("to=") {
        return Found::Text;
    }
    let mut at = cursor;
    let Some(header) = header(&mut at) else { return Found::Text };
    match addressee(header) {
        Some(name) => call(cursor.place(), at, name, tools),
        None => Found::Item(Item::mark(cursor.place(), at.place())),
    }
}

/// The header up to its `<|message|>`, which is stepped past.
fn header<'a>(cursor: &mut Cursor<'_, 'a>) -> Option<&'a str> {
    let mut left = HEADER;
    let mut at = *cursor;
    for _ in 0..=TOKENS {
        at.take_while(|c| {
            left = left.saturating_sub(1);
            left > 0 && c != '<' && c != '\n'
        });
        if at.sees("<|message|>") {
            let header = cursor.source().slice(cursor.place(), at.place());
            at.eat("<|message|>");
            *cursor = at;
            return Some(header);
        }
        if left == 0 || !at.eat("<") {
            return None;
        }
    }
    None
}

/// The tool a header names.
fn addressee(header: &str) -> Option<&str> {
    let (_, to) = header.rsplit_once("to=")?;
    tool_of(to.split(|c: char| c.is_whitespace() || c == '<').next()?)
}

/// The tool that is written to, unless somebody else is.
fn tool_of(to: &str) -> Option<&str> {
    let name = to.strip_prefix("functions.").unwrap_or(to);
    (!name.is_empty() && !PEOPLE.contains(&name)).then_some(name)
}

fn call(start: usize, inside: Cursor<'_, '_>, name: &str, tools: &[ToolSpec]) -> Found {
    let mut at = inside;
    let mut repairs = Vec::new();
    let end_of = |cursor: &mut Cursor<'_, '_>| {
        let mut end = *cursor;
        end.skip_blank();
        if Tag::read(&mut end).is_some_and(|tag| tag.is_special && payload::is_closing_of_calls(&tag)) {
            *cursor = end;
        }
    };
    if let Some(arguments) = payload::object(&mut at, &mut repairs) {
        end_of(&mut at);
        // The name of the channel once more, and nothing after it, is a slip that models make.
        let mut again = at;
        if again.eat("commentary") && again.is_end() {
            at = again;
        }
        let span = Span { start, end: at.place() };
        let calls = vec![ToolCall::new(name, arguments)];
        return Found::Item(Item::calls(span, calls, Some(Pattern::NamedJson), repairs));
    }
    let mut at = inside;
    if let Some(payload) = payload::sequence(&mut at, Around::fence(tools, false)) {
        let mut closing = at;
        closing.skip_blank();
        if Tag::read(&mut closing).is_some_and(|tag| payload::is_closing_of_calls(&tag)) {
            at = closing;
        }
        end_of(&mut at);
        let span = Span { start, end: at.place() };
        return Found::Item(Item::calls(span, payload.calls, payload.pattern, payload.repairs));
    }
    Found::Item(Item::mark(start, inside.place()))
}
