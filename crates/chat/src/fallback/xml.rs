//! Calls whose arguments are elements: `<function=f><parameter=k>v</parameter></function>`, `<invoke name="f">…`,
//! `<arg_key>k</arg_key><arg_value>v</arg_value>`, and what models make of them.
//!
//! Invariant: a value is the text between its tags; its type comes from the tool's schema alone.

use serde_json::{Map, Value};

use super::delimited::{self, End, Tags};
use super::json::{Dialect, Reader};
use super::payload;
use super::repair::{Repair, RepairKind};
use super::source::Cursor;
use super::tag::Tag;
use super::typing::{self, Schema};
use crate::spec::ToolSpec;

/// What MiniMax-M3 writes before each of its tags.
pub(crate) const NOISE: &str = "]<]minimax[>[";
/// What is around text that is no markup.
const SECTION: [&str; 2] = ["<![CDATA[", "]]>"];
/// Elements within elements that are followed.
const DEPTH: usize = 32;

/// How the values of one wrapper are written.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Values {
    /// Line breaks next to the tags belong to the value.
    pub(crate) keeps_breaks: bool,
}

/// Reads what stands between an opened `<function=f>` and its closing: elements, or the arguments as JSON.
pub(crate) fn arguments(
    cursor: &mut Cursor<'_, '_>,
    tool: Option<&ToolSpec>,
    values: Values,
    repairs: &mut Vec<Repair>,
) -> Option<Map<String, Value>> {
    skip(cursor);
    if cursor.sees("{") || cursor.sees("\"") {
        let object = payload::object(cursor, repairs)?;
        skip(cursor);
        return Some(object);
    }
    let noted = repairs.len();
    let mut arguments = Map::new();
    loop {
        skip(cursor);
        let mut at = *cursor;
        let Some(tag) = Tag::read(&mut at).filter(|tag| !tag.is_closing) else { break };
        let Some(parameter) = Parameter::of(&tag) else {
            // The tag may be named after the parameter.
            let schema = typing::property(tool, tag.name);
            if !schema.is_known() || !tag.attributes.is_empty() {
                break;
            }
            *cursor = at;
            arguments.insert(tag.name.to_owned(), element(cursor, tag.name, schema, DEPTH)?);
            continue;
        };
        *cursor = at;
        let schema = typing::property(tool, &parameter.name);
        if parameter.is_text != Some(true)
            && schema.is_known()
            && let Some(value) = structured(cursor, schema, &format!("</{}>", tag.full_name()))
        {
            arguments.insert(parameter.name, value);
            continue;
        }
        let raw = raw_value(cursor, &tag, (tool, schema), values, repairs)?;
        let value = match parameter.is_text {
            Some(true) => Some(Value::String(typing::text(raw))),
            Some(false) if !schema.is_known() => {
                Some(serde_json::from_str(raw.trim()).unwrap_or_else(|_| Value::String(raw.to_owned())))
            }
            _ => schema.value_between(raw),
        };
        let Some(value) = value else { continue };
        let is_second = arguments.insert(parameter.name, value).is_some();
        let is_mended = repairs.get(noted..).is_some_and(|repairs| !repairs.is_empty());
        if is_second && is_mended {
            // Closed here, a value gives a parameter twice; closed later, it holds what looks like one. Nobody knows.
            return None;
        }
    }
    Some(typing::unwrapped(arguments, tool))
}

/// Reads `<name>value</name>` elements, nested ones as objects, `<item>`s as lists.
pub(crate) fn elements(cursor: &mut Cursor<'_, '_>, schema: Schema<'_>) -> Option<Map<String, Value>> {
    members(cursor, schema, DEPTH)
}

fn members(cursor: &mut Cursor<'_, '_>, schema: Schema<'_>, depth: usize) -> Option<Map<String, Value>> {
    let mut object = Map::new();
    loop {
        skip(cursor);
        let mut at = *cursor;
        let Some(tag) = Tag::read(&mut at).filter(|tag| !tag.is_closing && tag.attributes.is_empty()) else {
            return Some(object);
        };
        *cursor = at;
        let name = tag.name.to_owned();
        let value = element(cursor, &name, schema.member(&name), depth)?;
        object.insert(name, value);
    }
}

fn element(cursor: &mut Cursor<'_, '_>, name: &str, schema: Schema<'_>, depth: usize) -> Option<Value> {
    let depth = depth.checked_sub(1)?;
    let closing = format!("</{name}>");
    let mut inside = *cursor;
    skip(&mut inside);
    let mut probe = inside;
    let nested =
        Tag::read(&mut probe).filter(|tag| !tag.is_closing && tag.attributes.is_empty() && !tag.is_special);
    let holds_values = {
        let kinds = schema.kinds();
        !schema.is_known() || kinds.array || kinds.object
    };
    if let Some(first) = nested.filter(|_| holds_values && inside.place() > cursor.place()) {
        let value = if first.name == "item" {
            Value::Array(items(&mut inside, schema.item(), depth)?)
        } else {
            Value::Object(members(&mut inside, schema, depth)?)
        };
        skip(&mut inside);
        if inside.eat(&closing) {
            *cursor = inside;
            return Some(value);
        }
    }
    let raw = text_of_element(cursor, &closing)?;
    if raw.is_empty()
        && let Some(nothing) = schema.value_of_nothing()
    {
        return Some(nothing);
    }
    Some(schema.value(raw))
}

/// The text of an element, its closing included: one that text follows belongs to the value. Where each tag has a mark before
/// it, a closing may be missing.
fn text_of_element<'a>(cursor: &mut Cursor<'_, 'a>, closing: &str) -> Option<&'a str> {
    let marked = format!("{NOISE}{closing}");
    let start = cursor.place();
    if let Some(end) = cursor.find(&marked) {
        *cursor = cursor.moved_to(end + marked.len());
        return Some(cursor.source().slice(start, end));
    }
    if let Some(end) = cursor.find(NOISE) {
        let mut after = cursor.moved_to(end + NOISE.len());
        Tag::read(&mut after).filter(|tag| tag.is_closing)?;
        *cursor = cursor.moved_to(end);
        return Some(cursor.source().slice(start, end)).filter(|raw| !raw.is_empty());
    }
    let mut at = *cursor;
    loop {
        at.take_until(closing)?;
        let mut after = at;
        after.skip_blank();
        if after.is_end() || after.sees("<") {
            let raw = cursor.source().slice(start, at.place() - closing.len());
            *cursor = at;
            return Some(raw);
        }
    }
}

fn items(cursor: &mut Cursor<'_, '_>, schema: Schema<'_>, depth: usize) -> Option<Vec<Value>> {
    let mut items = Vec::new();
    loop {
        skip(cursor);
        if !cursor.eat("<item>") {
            return Some(items);
        }
        items.push(element(cursor, "item", schema, depth)?);
    }
}

/// Reads `<arg_key>k</arg_key><arg_value>v</arg_value>` pairs; `prefix` stands before the names of the tags. One opening or
/// closing may be missing, and a closing too many is passed over.
pub(crate) fn pairs(
    cursor: &mut Cursor<'_, '_>,
    tool: Option<&ToolSpec>,
    prefix: &str,
    repairs: &mut Vec<Repair>,
) -> Option<Map<String, Value>> {
    let [key_name, value_name] = [format!("{prefix}arg_key"), format!("{prefix}arg_value")];
    let [key_open, key_close] = [format!("<{key_name}>"), format!("</{key_name}>")];
    let [open, close] = [format!("<{value_name}>"), format!("</{value_name}>")];
    let is_parameter = |_: &Tag<'_>| true;
    let tags = Tags { value: &value_name, next: &key_name, is_parameter: &is_parameter };
    let mut arguments = Map::new();
    loop {
        skip(cursor);
        while cursor.eat(&close) || cursor.eat(&key_close) {
            repairs.push(Repair { kind: RepairKind::WrongClosingTag, offset: cursor.place() });
            skip(cursor);
        }
        if !cursor.eat(&key_open) {
            return Some(arguments);
        }
        let key = cursor.take_while(|c| c != '<' && c != '\n').trim();
        if key.is_empty() {
            return None;
        }
        let (closes_key, place) = (cursor.eat(&key_close), cursor.place());
        skip(cursor);
        let opens_value = cursor.eat(&open);
        if !opens_value && (!closes_key || cursor.sees("<")) {
            return None;
        }
        if !closes_key || !opens_value {
            repairs.push(Repair { kind: RepairKind::MissingClosingTag, offset: place });
        }
        let schema = typing::property(tool, key);
        let value = match structured(cursor, schema, &close) {
            Some(value) => Some(value),
            None => {
                let end = delimited::end(*cursor, &tags)?;
                schema.value_between(taken(cursor, end, &close, (tool, schema), repairs)?)
            }
        };
        arguments.extend(value.map(|value| (key.to_owned(), value)));
    }
}

/// An object or a list of JSON where the schema has one, its closing tag included: the tag may stand in a string of it.
pub(crate) fn structured(cursor: &mut Cursor<'_, '_>, schema: Schema<'_>, closing: &str) -> Option<Value> {
    let mut at = *cursor;
    at.skip_blank();
    let kinds = schema.kinds();
    let fits = (at.sees("{") && kinds.object) || (at.sees("[") && kinds.array);
    if !schema.is_known() || !fits {
        return None;
    }
    let is_object = at.sees("{");
    [Dialect::Json, Dialect::Python].into_iter().find_map(|dialect| {
        let mut reader = Reader::new(at, dialect);
        let value =
            reader.value().filter(|value| reader.repairs.is_empty() && value.is_object() == is_object)?;
        let mut end = reader.cursor;
        end.skip_blank();
        if !end.eat(closing) {
            return None;
        }
        *cursor = end;
        Some(value)
    })
}

/// A value of nested elements, after the tag `<name>` that opened it; its closing tag included.
pub(crate) fn nested(cursor: &mut Cursor<'_, '_>, name: &str, schema: Schema<'_>) -> Option<Value> {
    let mut at = *cursor;
    let value = element(&mut at, name, schema, DEPTH)?;
    if !value.is_object() && !value.is_array() {
        return None;
    }
    *cursor = at;
    Some(value)
}

/// A tag that opens a parameter.
struct Parameter {
    name: String,
    /// What the tag itself says: a text, or JSON.
    is_text: Option<bool>,
}

impl Parameter {
    fn of(tag: &Tag<'_>) -> Option<Self> {
        let base = tag.base();
        let known = matches!(base, "parameter" | "param" | "arg" | "argument");
        let name = if known {
            tag.value()?
        } else if base.starts_with("param") && base.ends_with("name") {
            // `<paramname="k">`: the blank was lost.
            tag.value()?
        } else {
            return None;
        };
        let is_text = tag
            .attribute("string")
            .map(|value| value == "true")
            .or_else(|| tag.attribute("type").map(|kind| kind == "string"));
        Some(Self { name, is_text })
    }
}

/// The text up to an end, where reading goes on. None where it holds a closing tag of values, and the parameter takes no text
/// or is none of the tool's: the tag is rather that of another value.
fn taken<'a>(
    cursor: &mut Cursor<'_, 'a>,
    end: End,
    closing: &str,
    (tool, schema): (Option<&ToolSpec>, Schema<'_>),
    repairs: &mut Vec<Repair>,
) -> Option<&'a str> {
    let raw = cursor.source().slice(cursor.place(), end.value);
    let is_text = tool.is_none() || (schema.is_known() && schema.kinds().string);
    if !is_text && raw.contains(closing) {
        return None;
    }
    let start = cursor.place();
    *cursor = cursor.moved_to(end.next);
    let raw = if end.is_closed {
        raw
    } else {
        repairs.push(Repair { kind: RepairKind::MissingClosingTag, offset: end.value });
        raw.trim_end()
    };
    let inner = delimited::without_stray(raw, closing);
    if inner.len() < raw.len() {
        repairs.push(Repair { kind: RepairKind::WrongClosingTag, offset: start + inner.len() });
    }
    Some(inner)
}

/// The text up to the closing of a parameter's tag; without one, up to the next parameter or the end of the call.
fn raw_value<'a>(
    cursor: &mut Cursor<'_, 'a>,
    tag: &Tag<'_>,
    (tool, schema): (Option<&ToolSpec>, Schema<'_>),
    values: Values,
    repairs: &mut Vec<Repair>,
) -> Option<&'a str> {
    let name = match tag.base() {
        base if base.starts_with("param") && base.ends_with("name") => {
            base.strip_suffix("name").unwrap_or(base)
        }
        _ => tag.full_name(),
    };
    if let Some(data) = character_data(cursor, name, repairs) {
        return Some(data);
    }
    let is_parameter = |tag: &Tag<'_>| {
        tool.is_none() || tag.value().is_some_and(|name| typing::property(tool, &name).is_known())
    };
    let end =
        delimited::end(*cursor, &Tags { value: name, next: tag.full_name(), is_parameter: &is_parameter })?;
    let raw = taken(cursor, end, &format!("</{name}>"), (tool, schema), repairs)?;
    if values.keeps_breaks {
        return Some(raw);
    }
    // One line break on either side sets the value off from its tags.
    let breaks = ["\r\n", "\n"];
    let Some(inner) = breaks.iter().find_map(|line| raw.strip_prefix(line)) else { return Some(raw) };
    Some(breaks.iter().find_map(|line| inner.strip_suffix(line)).unwrap_or(inner))
}

/// A value that is one section of character data and nothing else, its closing tag included.
fn character_data<'a>(cursor: &mut Cursor<'_, 'a>, name: &str, repairs: &mut Vec<Repair>) -> Option<&'a str> {
    let mut at = *cursor;
    at.skip_blank();
    if !at.eat(SECTION[0]) {
        return None;
    }
    let start = at.place();
    loop {
        at.take_until(SECTION[1])?;
        let text = at.source().slice(start, at.place() - SECTION[1].len());
        let mut after = at;
        after.skip_blank();
        let Some(tag) = Tag::read(&mut after).filter(|tag| tag.is_closing) else { continue };
        let is_own = tag.full_name() == name;
        if !is_own && !payload::is_closing_of_calls(&tag) {
            continue;
        }
        // Where it closes and opens again, the sections are a part of the value.
        if text.split_once(SECTION[1]).is_some_and(|(_, rest)| rest.contains(SECTION[0])) {
            return None;
        }
        if !is_own {
            repairs.push(Repair { kind: RepairKind::MissingClosingTag, offset: at.place() });
        }
        *cursor = if is_own { after } else { at };
        return Some(text);
    }
}

/// Past blanks, and past what one family writes before each of its tags.
pub(crate) fn skip(cursor: &mut Cursor<'_, '_>) {
    loop {
        cursor.skip_blank();
        if !cursor.eat(NOISE) {
            return;
        }
    }
}
