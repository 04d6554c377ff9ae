//! Reads a turn in a family: reasoning, text, calls, and what is wrong with them.
//!
//! Invariant: what [`Syntax::render`] writes reads back as the same calls; a call ends where its arguments do, so no
//! argument can end it early.

use serde_json::{Map, Value};

use super::syntax::{Arguments, Close, Elements, Part, Syntax};
use crate::fallback::json::{Dialect, Reader};
use crate::fallback::source::{Cursor, Source};
use crate::fallback::typing::{self, Schema};
use crate::fallback::{gemma, pythonic, xml};
use crate::model::{Defect, DefectKind, ParsedTurn, ToolCall};
use crate::spec::ToolSpec;

impl Syntax {
    /// Reads a turn; `tools` tell the types of bare texts.
    pub(crate) fn read(&self, text: &str, tools: &[ToolSpec]) -> ParsedTurn {
        let mut turn = ParsedTurn::default();
        let source = Source::new(text, true);
        let mut at = self.reasoning_at(source.at(0), &mut turn);
        let opening = self.opening();
        let opening = opening.trim();
        let mark = self.mark();
        let mut content = String::new();
        let mut stray = None;
        loop {
            let next = match &mark {
                Some(mark) => at.find(mark),
                // Without a mark only a turn that begins with a call is one.
                None => {
                    let mut start = at;
                    start.skip_blank();
                    (turn.calls.is_empty() && content.is_empty() && start.sees(opening))
                        .then(|| start.place())
                }
            };
            let end = next.unwrap_or(source.len());
            self.text(source.slice(at.place(), end), at.place(), &mut turn, &mut content, &mut stray);
            at = at.moved_to(end);
            if next.is_none() {
                break;
            }
            let before = turn.calls.len();
            let mut cursor = at;
            self.calls_at(&mut cursor, tools, &mut turn.calls);
            if turn.calls.len() > before {
                at = cursor;
                continue;
            }
            turn.defects.push(Defect {
                kind: DefectKind::NotACall,
                offset: at.place(),
                message: format!("a call opened with {opening} cannot be read"),
            });
            at = at.moved_to(end + mark.as_deref().unwrap_or(opening).len());
            if mark.is_none() {
                self.text(source.slice(end, source.len()), end, &mut turn, &mut content, &mut stray);
                break;
            }
        }
        if let Some(offset) = stray {
            let message = "text after a call: a turn is calls or an answer".to_owned();
            turn.defects.push(Defect { kind: DefectKind::Stray, offset, message });
        }
        let content = content.trim();
        turn.content = (!content.is_empty()).then(|| content.to_owned());
        turn
    }

    fn text(
        &self,
        text: &str,
        at: usize,
        turn: &mut ParsedTurn,
        content: &mut String,
        stray: &mut Option<usize>,
    ) {
        if text.trim().is_empty() {
            if turn.calls.is_empty() {
                content.push_str(text);
            }
            return;
        }
        if !turn.calls.is_empty() {
            stray.get_or_insert(at + text.len() - text.trim_start().len());
            content.push('\n');
        }
        content.push_str(text);
    }

    /// Reasoning stands first, or began in the prompt; returns where it ends.
    fn reasoning_at<'s, 'a>(&self, cursor: Cursor<'s, 'a>, turn: &mut ParsedTurn) -> Cursor<'s, 'a> {
        let Some((open, close)) = &self.reasoning else { return cursor };
        let mut at = cursor;
        at.skip_blank();
        let opened = at.eat(open.trim());
        let Some(end) = at.find(close.trim()) else {
            if !opened {
                return cursor;
            }
            let offset = at.place();
            turn.defects.push(Defect {
                kind: DefectKind::Unclosed,
                offset,
                message: "reasoning that never ends".to_owned(),
            });
            let thought = at.source().slice(at.place(), at.source().len()).trim();
            turn.reasoning = (!thought.is_empty()).then(|| thought.to_owned());
            return at.moved_to(at.source().len());
        };
        if !opened {
            // A closing mark inside a call closes nothing.
            let called = match self.mark() {
                Some(mark) => cursor.find(&mark).is_some_and(|call| call < end),
                None => at.sees(self.opening().trim()),
            };
            if called {
                return cursor;
            }
        }
        let thought = at.source().slice(at.place(), end).trim();
        turn.reasoning = (!thought.is_empty()).then(|| thought.to_owned());
        at.moved_to(end + close.trim().len())
    }

    /// Reads one section of calls.
    fn calls_at(&self, cursor: &mut Cursor<'_, '_>, tools: &[ToolSpec], calls: &mut Vec<ToolCall>) {
        let mut at = *cursor;
        if !eat(&mut at, &self.begin) {
            return;
        }
        while let Some(call) = self.call_at(&mut at, tools) {
            calls.push(call);
            *cursor = at;
            if !eat(&mut at, &self.between) {
                break;
            }
        }
        eat(cursor, &self.end);
    }

    fn call_at(&self, cursor: &mut Cursor<'_, '_>, tools: &[ToolSpec]) -> Option<ToolCall> {
        let (mut name, mut id, mut arguments) = (None, None, None);
        for (i, part) in self.call.iter().enumerate() {
            match part {
                Part::Text(text) => {
                    if !eat(cursor, text) {
                        return None;
                    }
                }
                Part::Name => {
                    let end = self.end_of_slot(i, cursor)?;
                    let text = cursor.source().slice(cursor.place(), end).trim();
                    if text.is_empty() || text.len() > 256 || text.contains('\n') {
                        return None;
                    }
                    name = Some(text.to_owned());
                    *cursor = cursor.moved_to(end);
                }
                Part::Id => {
                    id = Some(cursor.take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-')))
                }
                Part::Index(_) => {
                    cursor.take_while(|c| c.is_ascii_digit());
                }
                Part::Arguments => {
                    let tool = name.as_deref().and_then(|name| typing::tool(tools, name));
                    arguments = Some(self.arguments_at(cursor, tool)?);
                }
            }
        }
        let call = ToolCall::new(name?, arguments?);
        Some(match id.filter(|id| !id.is_empty()) {
            Some(id) => call.with_id(id),
            None => call,
        })
    }

    /// Where the name ends: at the text after it, at the arguments, or where a name cannot go on.
    fn end_of_slot(&self, part: usize, cursor: &Cursor<'_, '_>) -> Option<usize> {
        let rest = cursor.source().slice(cursor.place(), (cursor.place() + 1024).min(cursor.source().len()));
        let window =
            if rest.is_empty() { cursor.source().slice(cursor.place(), cursor.source().len()) } else { rest };
        let length = match self.call.get(part + 1) {
            Some(Part::Text(text)) if !text.trim().is_empty() => window.find(text.trim_end())?,
            _ => match &self.arguments {
                Arguments::Elements(elements) => {
                    // Without arguments the end of the call follows the name.
                    let closing = self.call.iter().skip(part + 1).find_map(|part| match part {
                        Part::Text(text) if !text.trim().is_empty() => window.find(text.trim()),
                        _ => None,
                    });
                    let ends =
                        [window.find(elements.open.trim()), closing, window.find('{'), window.find('\n')];
                    ends.into_iter().flatten().min()?
                }
                _ => window.find(['{', '('])?,
            },
        };
        Some(cursor.place() + length)
    }

    fn arguments_at(
        &self,
        cursor: &mut Cursor<'_, '_>,
        tool: Option<&ToolSpec>,
    ) -> Option<Map<String, Value>> {
        let mut json = *cursor;
        json.skip_blank();
        if json.sees("{") && !matches!(self.arguments, Arguments::Gemma(_)) {
            let mut reader = Reader::new(json, Dialect::Json);
            let Some(Value::Object(object)) = reader.value().filter(|_| !reader.was_cut()) else {
                return None;
            };
            *cursor = reader.cursor;
            return Some(object);
        }
        match &self.arguments {
            Arguments::Json(_) => None,
            Arguments::Gemma(_) => gemma::arguments(cursor),
            Arguments::Pythonic => pythonic::arguments(cursor),
            Arguments::Elements(elements) => elements.read(cursor, tool),
        }
    }
}

impl Elements {
    fn read(&self, cursor: &mut Cursor<'_, '_>, tool: Option<&ToolSpec>) -> Option<Map<String, Value>> {
        let mut arguments = Map::new();
        loop {
            let mut at = *cursor;
            at.skip_blank();
            if !at.eat(self.open.trim_start()) {
                return Some(arguments);
            }
            // The tag that closes the call opens like an element where the key is the whole tag.
            if self.open.ends_with('<') && at.sees("/") {
                return Some(arguments);
            }
            let key =
                at.take_while(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ' ' | '$')).to_owned();
            let middle =
                self.middle.all().into_iter().find(|middle| at.eat(middle) || at.eat(middle.trim()))?;
            let is_text = self.middle.tells_strings().then(|| middle == self.middle.string);
            let value = self.value_at(&mut at, &key, typing::property(tool, &key), is_text)?;
            arguments.insert(key, value);
            *cursor = at;
            let mut next = at;
            if !self.between.is_empty() && eat(&mut next, &self.between) {
                *cursor = next;
            }
        }
    }

    fn value_at(
        &self,
        cursor: &mut Cursor<'_, '_>,
        key: &str,
        schema: Schema<'_>,
        is_text: Option<bool>,
    ) -> Option<Value> {
        let close = self.close.of(key);
        if is_text != Some(true)
            && let Some(value) = xml::structured(cursor, schema, close.trim())
        {
            return Some(value);
        }
        if let Close::Keyed(..) = self.close
            && let Some(value) = xml::nested(cursor, key, schema)
        {
            return Some(value);
        }
        // The line break before a closing tag belongs to the tag, the one after it may be missing.
        let exact = close.trim_end();
        let raw = if cursor.find(exact).is_some() && cursor.find(exact) <= cursor.find(close.trim()) {
            cursor.take_until(exact)?
        } else {
            cursor.take_until(close.trim())?
        };
        Some(match is_text {
            Some(true) => Value::String(typing::text(raw)),
            Some(false) => serde_json::from_str(raw.trim()).unwrap_or_else(|_| schema.value(raw)),
            None => schema.value(raw),
        })
    }
}

/// Steps over `text`, blanks at its edges and before it as they come.
fn eat(cursor: &mut Cursor<'_, '_>, text: &str) -> bool {
    if cursor.eat(text) {
        return true;
    }
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return true;
    }
    let mut at = *cursor;
    at.skip_blank();
    if !at.eat(trimmed) {
        return false;
    }
    *cursor = at;
    true
}
