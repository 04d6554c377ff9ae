//! Messages with a header, as gpt-oss writes them: `<|channel|>commentary to=functions.f<|message|>{…}<|call|>`.

use super::payload::{self, Around};
use super::reasoning::Closing;
use super::scan::{Found, Item, Mode};
use super::source::Cursor;
use super::tag::Tag;
use super::{Pattern, Span};
use crate::model::ToolCall;
use crate::spec::ToolSpec;

/// What ends a message: another one follows, the turn is over, a call is made.
pub(crate) const ENDS: [&str; 3] = ["<|end|>", "<|return|>", "<|call|>"];
const END: &str = ENDS[0];
/// What begins a message, and what stands in front of its channel.
pub(crate) const START: &str = "<|start|>";
pub(crate) const CHANNEL: &str = "<|channel|>";
/// What stands in front of its content, and of the word that says what the content is.
pub(crate) const CONTENT: &str = "<|message|>";
pub(crate) const CONSTRAIN: &str = "<|constrain|>";
/// Bytes of the longest header that is read.
const HEADER: usize = 512;
/// Tokens within a header.
const TOKENS: usize = 4;
/// Who is written to that is no tool.
const PEOPLE: [&str; 5] = ["user", "assistant", "all", "system", "developer"];

/// Channels, as headers name them.
pub(crate) const CHANNELS: [&str; 3] = ["analysis", "commentary", "final"];
/// What a server that leaves the tokens out makes of the headers of later messages.
pub(crate) const STRIPPED: [&str; 4] =
    ["assistantfinal", "assistantcommentary", "assistantanalysis", "assistant to=functions."];
/// What the content of a call is, as headers name it.
const CONTENTS: [&str; 2] = ["json", "code"];

/// What a message is, by its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Header<'a> {
    /// A call of this tool.
    Call(&'a str),
    Thought,
    /// Text for the user: an answer, or what is said in front of calls.
    Text,
}

impl<'a> Header<'a> {
    /// Reads a header and steps past its `<|message|>`. The recipient may stand behind the role or behind the channel.
    pub(crate) fn read(cursor: &mut Cursor<'_, 'a>) -> Option<Self> {
        let header = header(cursor)?;
        Some(match addressee(header) {
            Some(name) => Self::Call(name),
            None if header.contains("analysis") => Self::Thought,
            None => Self::Text,
        })
    }
}

/// Whether a recipient may stand here: nothing but a blank or a mark stands in front of it.
pub(crate) fn may_name_recipient(cursor: Cursor<'_, '_>) -> bool {
    let before = cursor.source().slice(0, cursor.place());
    before.is_empty() || before.ends_with(|c: char| c.is_whitespace() || c == '>')
}

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
    // Without its tokens, the first word of the content follows the channel's name at once.
    let is_glued = at.peek().is_some_and(|c| c.is_alphabetic() && !c.is_lowercase());
    if is_glued || at.sees(" to=") { stripped(cursor.place(), at, channel, tools) } else { Found::Text }
}

/// A later message of a text whose tokens were left out.
pub(crate) fn next_stripped(cursor: Cursor<'_, '_>, tools: &[ToolSpec]) -> Found {
    let mut at = cursor;
    match at.eat_any(&STRIPPED).filter(|_| cursor.source().is_stripped()) {
        Some(header) => stripped(cursor.place(), at, header, tools),
        None => Found::Text,
    }
}

/// A message behind a header whose tokens are gone: `assistantcommentary to=functions.f json{…}`.
pub(crate) fn stripped(start: usize, inside: Cursor<'_, '_>, header: &str, tools: &[ToolSpec]) -> Found {
    let mut at = inside;
    if at.eat(" to=") || header.ends_with("to=functions.") {
        let called = stripped_call(start, at, tools);
        if called.is_some() || !header.starts_with("assistant") {
            return called.unwrap_or(Found::Text);
        }
    }
    inside.source().note_stripped();
    if header.ends_with("analysis") {
        return Found::Enter(Mode::Reasoning(Closing::Stripped), inside.place());
    }
    Found::Item(Item::mark(start, inside.place()))
}

/// A call from its recipient on, where the tokens of its header are gone.
fn stripped_call(start: usize, recipient: Cursor<'_, '_>, tools: &[ToolSpec]) -> Option<Found> {
    let mut at = recipient;
    let name = tool_of(at.take_while(|c| !c.is_whitespace() && c != '{'))?;
    at.skip_blank();
    at.eat_any(&CONTENTS);
    at.skip_blank();
    if !at.sees("{") {
        return None;
    }
    // What stood behind the name, a token in between, is a part of it now.
    let is_tool = |name: &str| tools.iter().any(|tool| tool.name.as_str() == name);
    let without = |words: &[&str]| words.iter().find_map(|word| name.strip_suffix(word));
    let name = match (without(&CHANNELS), without(&CONTENTS)) {
        _ if is_tool(name) => name,
        (Some(name), _) => name,
        (None, Some(shorter)) if is_tool(shorter) => shorter,
        _ => name,
    };
    recipient.source().note_stripped();
    Some(call(start, at, name, tools))
}

/// A message from its first token on.
pub(crate) fn message(cursor: Cursor<'_, '_>, tools: &[ToolSpec]) -> Found {
    let mut at = cursor;
    match Header::read(&mut at) {
        Some(Header::Call(name)) => call(cursor.place(), at, name, tools),
        Some(Header::Thought) => Found::Enter(Mode::Reasoning(Closing::Mark(END.to_owned())), at.place()),
        Some(Header::Text) => Found::Item(Item::mark(cursor.place(), at.place())),
        None => Found::Text,
    }
}

/// Where a message ends without its mark: another one begins here, or the turn is over.
pub(crate) fn end_of_message(cursor: Cursor<'_, '_>, closings: &[&str]) -> Option<usize> {
    let begins = [START, CHANNEL].iter().any(|mark| cursor.sees(mark));
    let ends = ENDS.iter().any(|mark| *mark != END && cursor.sees(mark));
    (closings.contains(&END) && (begins || ends)).then(|| cursor.place())
}

/// A message whose first token is part of the prompt: `to=functions.f<|channel|>…`.
pub(crate) fn recipient(cursor: Cursor<'_, '_>, tools: &[ToolSpec]) -> Found {
    if !may_name_recipient(cursor) || !cursor.sees("to=") {
        return Found::Text;
    }
    match message(cursor, tools) {
        Found::Text => {}
        found => return found,
    }
    let mut at = cursor;
    let opens = cursor.source().slice(0, cursor.place()).trim_start().is_empty();
    let called =
        if opens && at.eat("to=functions.") { stripped_call(cursor.place(), at, tools) } else { None };
    called.unwrap_or(Found::Text)
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
        if at.sees(CONTENT) {
            let header = cursor.source().slice(cursor.place(), at.place());
            at.eat(CONTENT);
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
