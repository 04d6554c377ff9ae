//! Values that a format writes as bare text, made into what the tool's schema says they are.
//!
//! Invariant: without a schema a text stays a text; with one, what does not fit it stays a text.

use serde_json::{Map, Value};

use super::json::{self, Dialect, Reader};
use super::source::Source;
use crate::parameters::resolve;
use crate::spec::ToolSpec;

/// Steps along references, and into unions, that are followed.
const DEPTH: usize = 16;

/// The schema of one parameter.
pub(crate) fn property<'t>(tool: Option<&'t ToolSpec>, name: &str) -> Schema<'t> {
    parameters(tool).member(name)
}

/// The schema of all parameters.
pub(crate) fn parameters(tool: Option<&ToolSpec>) -> Schema<'_> {
    match tool {
        Some(tool) => Schema { root: &tool.parameters, own: Some(&tool.parameters) },
        None => Schema { root: &Value::Null, own: None },
    }
}

/// A schema with the document its references lead into; `own` is `None` where nothing is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schema<'t> {
    root: &'t Value,
    own: Option<&'t Value>,
}

/// The JSON types a schema lets through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kinds {
    pub(crate) string: bool,
    pub(crate) null: bool,
    pub(crate) boolean: bool,
    pub(crate) integer: bool,
    pub(crate) number: bool,
    pub(crate) array: bool,
    pub(crate) object: bool,
}

impl Kinds {
    const ALL: Self = Self {
        string: true,
        null: true,
        boolean: true,
        integer: true,
        number: true,
        array: true,
        object: true,
    };

    /// Whether only truth is let through.
    pub(crate) fn is_boolean(self) -> bool {
        self == Self { boolean: true, ..Self::default() }
    }

    /// Whether no text, list or object is let through.
    pub(crate) fn is_scalar(self) -> bool {
        !self.string && !self.array && !self.object && !self.null
    }

    /// Whether only strings are let through.
    pub(crate) fn is_text(self) -> bool {
        self == Self { string: true, ..Self::default() }
    }

    fn or(self, other: Self) -> Self {
        Self {
            string: self.string || other.string,
            null: self.null || other.null,
            boolean: self.boolean || other.boolean,
            integer: self.integer || other.integer,
            number: self.number || other.number,
            array: self.array || other.array,
            object: self.object || other.object,
        }
    }

    fn and(self, other: Self) -> Self {
        Self {
            string: self.string && other.string,
            null: self.null && other.null,
            boolean: self.boolean && other.boolean,
            integer: self.integer && other.integer,
            number: self.number && other.number,
            array: self.array && other.array,
            object: self.object && other.object,
        }
    }

    fn named(name: &str) -> Self {
        let none = Self::default();
        match name {
            "string" => Self { string: true, ..none },
            "null" => Self { null: true, ..none },
            "boolean" => Self { boolean: true, ..none },
            "integer" => Self { integer: true, ..none },
            "number" => Self { integer: true, number: true, ..none },
            "array" => Self { array: true, ..none },
            "object" => Self { object: true, ..none },
            _ => Self::ALL,
        }
    }

    fn of_value(value: &Value) -> Self {
        let none = Self::default();
        match value {
            Value::String(_) => Self { string: true, ..none },
            Value::Null => Self { null: true, ..none },
            Value::Bool(_) => Self { boolean: true, ..none },
            // A whole number may be spelled with a fraction of nothing, and is an integer all the same.
            Value::Number(number) if number.as_f64().is_some_and(|n| n.fract() == 0.0) => {
                Self { integer: true, number: true, ..none }
            }
            Value::Number(_) => Self { number: true, ..none },
            Value::Array(_) => Self { array: true, ..none },
            Value::Object(_) => Self { object: true, ..none },
        }
    }

    fn admits(self, value: &Value) -> bool {
        self.and(Self::of_value(value)) != Self::default()
    }
}

impl<'t> Schema<'t> {
    /// A schema that is its own document.
    pub(crate) fn whole(schema: &'t Value) -> Self {
        Self { root: schema, own: Some(schema) }
    }

    /// Whether anything is known.
    pub(crate) fn is_known(self) -> bool {
        self.own.is_some()
    }

    /// The schema of a member of the object.
    pub(crate) fn member(self, name: &str) -> Self {
        Self { root: self.root, own: self.own.and_then(|own| find_member(self.root, own, name, DEPTH)) }
    }

    /// The schema of an item of the array.
    pub(crate) fn item(self) -> Self {
        Self { root: self.root, own: self.own.and_then(|own| find_items(self.root, own, DEPTH)) }
    }

    /// The schema itself, if anything is known.
    pub(crate) fn own(self) -> Option<&'t Value> {
        self.own.map(|own| resolve(self.root, own, DEPTH))
    }

    /// The schema as a document of its own: with the definitions that its references lead to.
    pub(crate) fn document(self) -> Value {
        let mut document = self.own().cloned().unwrap_or(Value::Bool(true));
        if let Some(object) = document.as_object_mut() {
            for keyword in ["$schema", "$defs", "definitions"] {
                if let Some(found) = self.root.get(keyword).filter(|_| !object.contains_key(keyword)) {
                    object.insert(keyword.to_owned(), found.clone());
                }
            }
        }
        document
    }

    /// The declared members of an object whose schema says no more: name, schema, and whether it must be there.
    pub(crate) fn members(self) -> Option<Vec<(String, Self, bool)>> {
        let own = self.own()?.as_object()?;
        let plain = ["type", "properties", "required", "additionalProperties", "title", "description"];
        let is_plain = own.keys().all(|key| plain.contains(&key.as_str()));
        let properties = own.get("properties").filter(|_| is_plain)?.as_object()?;
        let required = own.get("required").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let is_word = |key: &str| {
            !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))
        };
        properties
            .iter()
            .map(|(key, schema)| {
                let member = Self { root: self.root, own: Some(schema) };
                is_word(key).then(|| (key.clone(), member, required.iter().any(|name| name == key)))
            })
            .collect()
    }

    /// The schema of the items of a list that has those alone.
    pub(crate) fn items(self) -> Option<Self> {
        let own = self.own()?.as_object()?;
        let plain = ["type", "items", "title", "description"];
        let items = own.get("items").filter(|_| own.keys().all(|key| plain.contains(&key.as_str())))?;
        Some(Self { root: self.root, own: Some(items) })
    }

    /// The value that the text between two tags stands for; `None` where an empty one can stand for nothing, and the
    /// parameter counts as left out.
    pub(crate) fn value_between(self, raw: &str) -> Option<Value> {
        let kinds = self.kinds();
        if !raw.trim().is_empty() || self.own.is_none() || kinds.string {
            return Some(self.value(raw));
        }
        kinds.null.then_some(Value::Null)
    }

    /// What an element that holds nothing stands for, where only a list or only an object can be.
    pub(crate) fn value_of_nothing(self) -> Option<Value> {
        let kinds = self.kinds();
        match (self.is_known() && !kinds.string, kinds.array, kinds.object) {
            (true, true, _) => Some(Value::Array(Vec::new())),
            (true, false, true) => Some(Value::Object(Map::new())),
            _ => None,
        }
    }

    /// The types it lets through: all of them, where it says nothing.
    pub(crate) fn kinds(self) -> Kinds {
        self.own.map_or(Kinds::ALL, |own| kinds_of(self.root, own, DEPTH))
    }

    /// The value that bare text stands for.
    ///
    /// A text that could be taken for something else, or for the end of the value, is written as a JSON string: for
    /// a parameter that is not only text whenever it would read as JSON, for one that is whenever it holds a mark.
    pub(crate) fn value(self, raw: &str) -> Value {
        let kinds = self.kinds();
        if self.own.is_none() || kinds.is_text() {
            return Value::String(text(raw));
        }
        let trimmed = raw.trim();
        if let Ok(value) = serde_json::from_str::<Value>(trimmed)
            && kinds.admits(&value)
            && json::is_exact(&value, trimmed)
        {
            return value;
        }
        if let Some(value) = mended(trimmed).filter(|value| !value.is_string() && kinds.admits(value)) {
            return value;
        }
        if kinds.string {
            return Value::String(raw.to_owned());
        }
        let lower = trimmed.to_ascii_lowercase();
        match lower.as_str() {
            "true" | "false" if kinds.boolean => Value::Bool(lower == "true"),
            "null" | "none" => Value::Null,
            _ => Value::String(raw.to_owned()),
        }
    }
}

/// The text that bare text stands for where only texts can be.
pub(crate) fn text(raw: &str) -> String {
    unmasked(raw).unwrap_or_else(|| raw.to_owned())
}

/// A JSON string in which no tag can open.
pub(crate) fn json_without_angles(text: &str) -> String {
    Value::String(text.to_owned())
        .to_string()
        .replace('<', "\\u003c")
        .replace('[', "\\u005b")
        .replace(']', "\\u005d")
}

/// The text behind a JSON string that had to be one.
fn unmasked(raw: &str) -> Option<String> {
    let trimmed = raw.trim();
    if !trimmed.starts_with('"') || !trimmed.contains("\\u00") {
        return None;
    }
    let text: String = serde_json::from_str(trimmed).ok()?;
    (needs_mask(&text) && json_without_angles(&text) == trimmed).then_some(text)
}

/// Whether bare text would be misread: it holds something like a tag, or is itself such a JSON string.
pub(crate) fn needs_mask(text: &str) -> bool {
    MARKS.iter().any(|mark| text.contains(mark)) || unmasked(text).is_some()
}

/// What ends or interrupts bare text in one format or another.
pub(crate) const MARKS: &[&str] =
    &["</", "<param", "<function", "<invoke", "<arg_", "<|", "<｜", "]<]", "<![CDATA[", "<item"];

/// The value that a text is in JSON or Python, and nothing else.
pub(crate) fn mended(text: &str) -> Option<Value> {
    let source = Source::new(text, true);
    let mut reader = Reader::new(source.at(0), Dialect::Python);
    let value = reader.value()?;
    reader.cursor.skip_blank();
    (reader.cursor.is_end() && !reader.was_cut()).then_some(value)
}

fn branches(schema: &Value) -> impl Iterator<Item = &Value> {
    ["anyOf", "oneOf", "allOf"].into_iter().filter_map(|union| schema.get(union)?.as_array()).flatten()
}

fn find_member<'t>(root: &'t Value, schema: &'t Value, name: &str, depth: usize) -> Option<&'t Value> {
    let depth = depth.checked_sub(1)?;
    let schema = resolve(root, schema, depth);
    if let Some(found) = schema.get("properties").and_then(|properties| properties.get(name)) {
        return Some(found);
    }
    if let Some(found) = branches(schema).find_map(|branch| find_member(root, branch, name, depth)) {
        return Some(found);
    }
    schema.get("additionalProperties").filter(|others| others.is_object())
}

fn find_items<'t>(root: &'t Value, schema: &'t Value, depth: usize) -> Option<&'t Value> {
    let depth = depth.checked_sub(1)?;
    let schema = resolve(root, schema, depth);
    if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
        return Some(items);
    }
    branches(schema).find_map(|branch| find_items(root, branch, depth))
}

fn kinds_of(root: &Value, schema: &Value, depth: usize) -> Kinds {
    let Some(depth) = depth.checked_sub(1) else { return Kinds::ALL };
    let schema = resolve(root, schema, depth);
    let mut kinds = match schema.get("type") {
        Some(Value::String(name)) => Kinds::named(name),
        Some(Value::Array(names)) => {
            names.iter().filter_map(Value::as_str).map(Kinds::named).fold(Kinds::default(), Kinds::or)
        }
        _ => Kinds::ALL,
    };
    if schema.get("nullable") == Some(&Value::Bool(true)) {
        kinds.null = true;
    }
    if let Some(constant) = schema.get("const") {
        kinds = kinds.and(Kinds::of_value(constant));
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        kinds = kinds.and(values.iter().map(Kinds::of_value).fold(Kinds::default(), Kinds::or));
    }
    for union in ["anyOf", "oneOf"] {
        if let Some(branches) = schema.get(union).and_then(Value::as_array) {
            let all = branches.iter().map(|branch| kinds_of(root, branch, depth));
            kinds = kinds.and(all.fold(Kinds::default(), Kinds::or));
        }
    }
    for branch in schema.get("allOf").and_then(Value::as_array).into_iter().flatten() {
        kinds = kinds.and(kinds_of(root, branch, depth));
    }
    kinds
}

/// Members that a single unknown parameter wrapped up: `properties = {…}` where the tool has no such parameter.
pub(crate) fn unwrapped(arguments: Map<String, Value>, tool: Option<&ToolSpec>) -> Map<String, Value> {
    let (Some(tool), 1) = (tool, arguments.len()) else { return arguments };
    let Some((name, value)) = arguments.iter().next() else { return arguments };
    if property(Some(tool), name).is_known() {
        return arguments;
    }
    let inner = match value {
        Value::Object(inner) => Some(inner.clone()),
        Value::String(text) => mended(text.trim()).and_then(|value| value.as_object().cloned()),
        _ => None,
    };
    match inner {
        Some(inner) if !inner.is_empty() && inner.keys().all(|key| property(Some(tool), key).is_known()) => {
            inner
        }
        _ => arguments,
    }
}
