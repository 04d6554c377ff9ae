//! Reads the pieces of a call in a family: what stands before its arguments, the arguments, what stands after them.
//!
//! Invariant: what [`Syntax::render`] writes reads back as the same calls; a call ends where its arguments do, so no
//! argument can end it early.

use serde_json::{Map, Value};

use super::syntax::{Arguments, Close, Elements, Part, Syntax};
use crate::fallback::json::{Dialect, Reader};
use crate::fallback::source::Cursor;
use crate::fallback::typing::{self, Schema};
use crate::fallback::{gemma, pythonic, xml};
use crate::spec::ToolSpec;

/// What is known of a call so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slots {
    pub(crate) name: Option<String>,
    pub(crate) id: Option<String>,
}

/// Bytes of the longest name, and of the text in which its end is looked for.
const NAME: usize = 256;
const WINDOW: usize = 1024;

impl Syntax {
    /// Reads what stands before the arguments.
    pub(crate) fn head(&self, cursor: &mut Cursor<'_, '_>) -> Option<Slots> {
        let end = self.call.iter().position(|part| *part == Part::Arguments)?;
        let mut slots = Slots::default();
        self.slots(0..end, cursor, &mut slots)?;
        Some(slots)
    }

    /// Reads what stands after the arguments.
    pub(crate) fn tail(&self, cursor: &mut Cursor<'_, '_>, slots: &mut Slots) -> Option<()> {
        let start = self.call.iter().position(|part| *part == Part::Arguments)? + 1;
        self.slots(start..self.call.len(), cursor, slots)
    }

    fn slots(
        &self,
        range: std::ops::Range<usize>,
        cursor: &mut Cursor<'_, '_>,
        slots: &mut Slots,
    ) -> Option<()> {
        for i in range {
            match self.call.get(i)? {
                Part::Text(text) => eat(cursor, text).then_some(())?,
                Part::Name => {
                    let end = self.end_of_slot(i, cursor)?;
                    let text = cursor.source().slice(cursor.place(), end).trim();
                    if text.is_empty() || text.len() > NAME || text.contains('\n') {
                        return None;
                    }
                    slots.name = Some(text.to_owned());
                    *cursor = cursor.moved_to(end);
                }
                Part::Id => {
                    let id = cursor.take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
                    slots.id = Some(id.to_owned()).filter(|id| !id.is_empty());
                }
                Part::Index(_) => {
                    cursor.take_while(|c| c.is_ascii_digit());
                }
                Part::Arguments => return None,
            }
        }
        Some(())
    }

    /// Where the name ends: at the text after it, at the arguments, or where a name cannot go on.
    fn end_of_slot(&self, part: usize, cursor: &Cursor<'_, '_>) -> Option<usize> {
        let window = cursor.window(WINDOW);
        let mut longest = 1;
        let mut find = |needle: &str| {
            longest = longest.max(needle.len());
            window.find(needle)
        };
        let length = match self.call.get(part + 1) {
            Some(Part::Text(text)) if !text.trim().is_empty() => find(text.trim_end()),
            _ => match &self.arguments {
                Arguments::Elements(elements) => {
                    // Without arguments the end of the call follows the name.
                    let closing = self.call.iter().skip(part + 1).find_map(|part| match part {
                        Part::Text(text) if !text.trim().is_empty() => find(text.trim()),
                        _ => None,
                    });
                    let ends = [find(elements.open.trim()), closing, find("{"), find("\n")];
                    ends.into_iter().flatten().min()
                }
                _ => window.find(['{', '(']),
            },
        };
        // Another needle may have begun before this one and not be all there yet.
        cursor.needs(length.map_or(WINDOW, |length| (length + longest).min(WINDOW)));
        Some(cursor.place() + length?)
    }

    /// Reads arguments that are not elements; JSON stands in for every form.
    pub(crate) fn arguments(&self, cursor: &mut Cursor<'_, '_>) -> Option<Map<String, Value>> {
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
            Arguments::Json(_) | Arguments::Elements(_) => None,
            Arguments::Gemma(_) => gemma::arguments(cursor),
            Arguments::Pythonic => pythonic::arguments(cursor),
        }
    }
}

impl Elements {
    /// Reads one element; `Some(None)` where something else stands.
    pub(crate) fn read(
        &self,
        cursor: &mut Cursor<'_, '_>,
        tool: Option<&ToolSpec>,
    ) -> Option<Option<(String, Value)>> {
        let mut at = *cursor;
        at.skip_blank();
        if !at.eat(self.open.trim_start()) {
            return Some(None);
        }
        // The tag that closes the call opens like an element where the key is the whole tag.
        if self.open.ends_with('<') && at.sees("/") {
            return Some(None);
        }
        let key =
            at.take_while(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ' ' | '$')).to_owned();
        let middle = self.middle.all().into_iter().find(|middle| at.eat(middle) || at.eat(middle.trim()))?;
        let is_text = self.middle.tells_strings().then(|| middle == self.middle.string);
        let value = self.value_at(&mut at, &key, typing::property(tool, &key), is_text)?;
        *cursor = at;
        if !self.between.is_empty() && eat(&mut at, &self.between) {
            *cursor = at;
        }
        Some(Some((key, value)))
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
        // Some templates put character data around what could be markup.
        let data = raw.trim().strip_prefix("<![CDATA[").and_then(|rest| rest.strip_suffix("]]>"));
        if let Some(data) = data.filter(|data| is_text != Some(false) && !data.contains("]]>")) {
            return Some(Value::String(data.to_owned()));
        }
        Some(match is_text {
            Some(true) => Value::String(typing::text(raw)),
            Some(false) => serde_json::from_str(raw.trim()).unwrap_or_else(|_| schema.value(raw)),
            None => schema.value(raw),
        })
    }
}

/// Steps over `text`, blanks at its edges and before it as they come.
pub(crate) fn eat(cursor: &mut Cursor<'_, '_>, text: &str) -> bool {
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
