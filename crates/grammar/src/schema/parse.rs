//! Reads a schema document into parts, with a worklist instead of recursion, and classifies every keyword.
//!
//! Invariant: a keyword with the wrong form is an error here; later stages see only checked values.

use std::borrow::Cow;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde_json::{Map, Value};

use super::choices::{self, Choices};
use super::draft::Draft;
use super::formats;
use super::part::{Bound, Choice, Condition, PatternUse, TextKind};
use super::pattern::{Pattern, Refusal};
use super::refs::{Index, join_pointer, walk};
use super::support::{self, Class};
use super::{Decimal, Formats, KeywordEntry, Part, PartId, Schema, SchemaOptions, Types, negate};
use crate::{Error, Kind, Limits, Place};

/// Parts a document may have before it counts as hostile.
const PARTS: usize = 500_000;

pub(super) fn parse(root: &Value, options: &SchemaOptions) -> Result<Schema, Error> {
    check_depth(root, &options.limits)?;
    let draft = Draft::of(root).unwrap_or(options.draft);
    let mut parser = Parser {
        root,
        draft,
        formats: options.formats,
        index: Index::new(root, if draft == Draft::Four { "id" } else { "$id" }),
        parts: Vec::new(),
        by_pointer: FxHashMap::default(),
        patterns: FxHashMap::default(),
        stack: Vec::new(),
        found: Vec::new(),
        entries: Vec::new(),
        references: Vec::new(),
    };
    let id = parser.part(String::new())?;
    parser.flush();
    while let Some((id, pointer, value)) = parser.stack.pop() {
        let part = parser.read(&pointer, value)?;
        if let Some(slot) = parser.parts.get_mut(id.index()) {
            *slot = part;
        }
        parser.flush();
    }
    let mut schema = Schema {
        parts: parser.parts,
        root: id,
        draft,
        entries: parser.entries,
        references: parser.references,
    };
    negate::rewrite(&mut schema);
    Ok(schema)
}

/// Deep documents are refused before anything recurses into them.
fn check_depth(root: &Value, limits: &Limits) -> Result<(), Error> {
    let mut queue = vec![(root, 0_usize)];
    while let Some((value, depth)) = queue.pop() {
        if depth > limits.depth.saturating_mul(2) {
            return Err(Error::new(
                Kind::Limit,
                format!("the schema is nested deeper than {} levels", limits.depth),
            )
            .hint("raise Limits::depth, or name inner schemas in $defs and refer to them"));
        }
        match value {
            Value::Object(map) => queue.extend(map.values().map(|value| (value, depth + 1))),
            Value::Array(items) => queue.extend(items.iter().map(|value| (value, depth + 1))),
            _ => {}
        }
    }
    Ok(())
}

struct Parser<'a> {
    root: &'a Value,
    draft: Draft,
    formats: Formats,
    index: Index,
    parts: Vec<Part>,
    by_pointer: FxHashMap<String, PartId>,
    /// Patterns by their source: many schemas repeat one all over.
    patterns: FxHashMap<&'a str, Result<Arc<Pattern>, Refusal>>,
    stack: Vec<(PartId, String, &'a Value)>,
    /// Children of the part at hand, in document order; they move to the stack reversed.
    found: Vec<(PartId, String, &'a Value)>,
    entries: Vec<KeywordEntry>,
    references: Vec<(String, String)>,
}

fn is_reference(keyword: &str) -> bool {
    matches!(keyword, "$ref" | "$dynamicRef" | "$recursiveRef")
}

fn invalid(pointer: &str, keyword: &str, message: impl Into<String>) -> Error {
    Error::new(Kind::InvalidSchema, message).at(Place::Pointer(join_pointer(pointer, keyword)))
}

impl<'a> Parser<'a> {
    /// The part at a pointer into the document, queued to be read when it is new.
    fn part(&mut self, pointer: String) -> Result<PartId, Error> {
        if let Some(id) = self.by_pointer.get(&pointer) {
            return Ok(*id);
        }
        let Some(value) = walk(self.root, &pointer) else {
            return Err(Error::new(Kind::InvalidSchema, "there is no schema").at(Place::Pointer(pointer)));
        };
        let id = match u32::try_from(self.parts.len()) {
            Ok(id) if self.parts.len() < PARTS => PartId(id),
            _ => return Err(Error::new(Kind::Limit, format!("the schema has more than {PARTS} subschemas"))),
        };
        self.parts.push(Part::at(&pointer));
        self.by_pointer.insert(pointer.clone(), id);
        self.found.push((id, pointer, value));
        Ok(id)
    }

    fn flush(&mut self) {
        while let Some(child) = self.found.pop() {
            self.stack.push(child);
        }
    }

    fn note(&mut self, pointer: &str, keyword: &str, class: Class, reason: Option<Cow<'static, str>>) {
        self.entries.push(KeywordEntry { pointer: join_pointer(pointer, keyword), class, reason });
    }

    fn checked(&mut self, part: &mut Part, keyword: &str, reason: impl Into<Cow<'static, str>>) {
        part.opaque = true;
        self.note(&part.pointer, keyword, Class::Checked, Some(reason.into()));
    }

    fn read(&mut self, pointer: &str, value: &'a Value) -> Result<Part, Error> {
        let mut part = Part::at(pointer);
        let map = match value {
            Value::Bool(true) => return Ok(part),
            Value::Bool(false) => {
                part.never = true;
                return Ok(part);
            }
            Value::Object(map) => map,
            _ => {
                let error = Error::new(Kind::InvalidSchema, "a schema is an object, true or false");
                return Err(error.at(Place::Pointer(pointer.to_owned())));
            }
        };
        let lone_reference = self.draft <= Draft::Seven && map.contains_key("$ref");
        // References come first wherever they are written: the order of keywords means nothing.
        let (references, others): (Vec<_>, Vec<_>) =
            map.iter().partition(|(keyword, _)| is_reference(keyword));
        for (keyword, value) in references.into_iter().chain(others) {
            if lone_reference && keyword != "$ref" {
                let class = Class::Annotation;
                self.note(pointer, keyword, class, Some("ignored beside $ref before draft 2019-09".into()));
            } else {
                self.keyword(&mut part, map, keyword, value)?;
            }
        }
        // So does that of keys, but for declared properties.
        part.choices.sort_by_key(|choice| choice.keyword);
        part.text.patterns.sort_by_key(|used| used.kind != TextKind::Pattern);
        part.object.patterns.sort_by(|(a, _), (b, _)| a.source.cmp(&b.source));
        Ok(part)
    }

    fn keyword(
        &mut self,
        part: &mut Part,
        map: &'a Map<String, Value>,
        keyword: &str,
        value: &'a Value,
    ) -> Result<(), Error> {
        let Some(rule) = support::rule(keyword) else {
            self.note(&part.pointer, keyword, Class::Annotation, None);
            return Ok(());
        };
        if !self.draft.knows(keyword) {
            self.note(&part.pointer, keyword, Class::Annotation, Some("not a keyword of this draft".into()));
            return Ok(());
        }
        if rule.class == Class::Enforced {
            let before = self.entries.len();
            self.assertion(part, map, keyword, value)?;
            // An assertion that has said nothing of itself is enforced.
            let own = join_pointer(&part.pointer, keyword);
            if !self.entries.get(before..).is_some_and(|new| new.iter().any(|entry| entry.pointer == own)) {
                self.entries.push(KeywordEntry { pointer: own, class: Class::Enforced, reason: None });
            }
        } else if rule.class == Class::Checked {
            let trivial = match keyword {
                "uniqueItems" => value == &Value::Bool(false),
                "minContains" | "maxContains" => !map.contains_key("contains"),
                "unevaluatedProperties" | "unevaluatedItems" => value == &Value::Bool(true),
                _ => false,
            };
            if trivial {
                self.note(&part.pointer, keyword, Class::Enforced, None);
            } else {
                self.checked(part, keyword, rule.note);
            }
        } else {
            self.note(
                &part.pointer,
                keyword,
                rule.class,
                (!rule.note.is_empty()).then_some(rule.note.into()),
            );
        }
        Ok(())
    }

    fn assertion(
        &mut self,
        part: &mut Part,
        map: &'a Map<String, Value>,
        keyword: &str,
        value: &'a Value,
    ) -> Result<(), Error> {
        let pointer = part.pointer.clone();
        let pointer = pointer.as_str();
        match keyword {
            "type" => part.types = Some(types(pointer, value)?),
            "enum" => {
                let values =
                    value.as_array().ok_or_else(|| invalid(pointer, keyword, "enum is a list of values"))?;
                part.values.push(Arc::new(values.clone()));
            }
            "const" => part.values.push(Arc::new(vec![value.clone()])),
            "$ref" | "$dynamicRef" | "$recursiveRef" => self.reference(part, keyword, value)?,
            "allOf" => {
                let branches = self.branches(pointer, keyword, value)?;
                part.also.extend(branches);
            }
            "anyOf" => {
                let branches = self.branches(pointer, keyword, value)?;
                part.choices.push(Choice { keyword: "anyOf", exclusive: false, branches });
            }
            "oneOf" => {
                let branches = self.branches(pointer, keyword, value)?;
                let exclusive = branches.len() > 1;
                part.choices.push(Choice { keyword: "oneOf", exclusive, branches });
            }
            "not" => part.not = Some(self.child(pointer, keyword)?),
            "if" => {
                let test = self.child(pointer, "if")?;
                let mut branch =
                    |name: &str| map.contains_key(name).then(|| self.child(pointer, name)).transpose();
                let (then, otherwise) = (branch("then")?, branch("else")?);
                part.condition = Some(Condition { test, then, otherwise });
            }
            "then" | "else" => {
                if !map.contains_key("if") {
                    self.note(pointer, keyword, Class::Annotation, Some("ignored without if".into()));
                }
            }
            "minLength" => part.text.min = count(pointer, keyword, value)?,
            "maxLength" => part.text.max = Some(count(pointer, keyword, value)?),
            "pattern" => self.pattern(part, value)?,
            "x-toolgate-choices" => self.choices(part, value)?,
            "format" => self.format(part, value)?,
            "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => {
                self.bound(part, map, keyword, value)?;
            }
            "multipleOf" => {
                let unit = number(pointer, keyword, value)?;
                if unit.is_zero() || unit.is_negative() {
                    return Err(invalid(pointer, keyword, "multipleOf is a number above zero"));
                }
                part.number.multiple_of = Some(unit);
            }
            "prefixItems" | "items" | "additionalItems" | "minItems" | "maxItems" => {
                self.array(part, map, keyword, value)?;
            }
            _ => self.object(part, map, keyword, value)?,
        }
        Ok(())
    }

    fn child(&mut self, pointer: &str, keyword: &str) -> Result<PartId, Error> {
        self.part(join_pointer(pointer, keyword))
    }

    fn branches(&mut self, pointer: &str, keyword: &str, value: &'a Value) -> Result<Vec<PartId>, Error> {
        let here = join_pointer(pointer, keyword);
        match value.as_array() {
            Some(branches) if !branches.is_empty() => {
                (0..branches.len()).map(|i| self.part(format!("{here}/{i}"))).collect()
            }
            _ => Err(invalid(pointer, keyword, format!("{keyword} is a list of at least one schema"))),
        }
    }

    fn reference(&mut self, part: &mut Part, keyword: &str, value: &'a Value) -> Result<(), Error> {
        let pointer = part.pointer.as_str();
        let Some(text) = value.as_str() else {
            return Err(invalid(pointer, keyword, format!("{keyword} is a string")));
        };
        if keyword != "$ref" && self.index.is_dynamic(text) {
            self.checked(part, keyword, "it leads elsewhere depending on the way by which it is reached");
            return Ok(());
        }
        let pointer = part.pointer.as_str();
        let found = |target: &String| walk(self.root, target).is_some();
        // Identifiers in the wild are often labels; a pointer that misses below one is meant from the root.
        let from_root =
            || text.starts_with("#/").then(|| self.index.resolve("", text)).flatten().filter(found);
        let target = self.index.resolve(pointer, text).filter(found).or_else(from_root);
        let Some(target) = target else {
            if META_SCHEMAS.contains(&text.trim_end_matches('#')) {
                self.checked(part, keyword, "a meta-schema is left to the validator, which has it");
                return Ok(());
            }
            return Err(invalid(
                pointer,
                keyword,
                format!("reference \"{text}\" leads nowhere in this document"),
            )
            .hint("put the schema it means into $defs"));
        };
        self.references.push((join_pointer(pointer, keyword), target.clone()));
        let id = self.part(target)?;
        part.also.push(id);
        Ok(())
    }

    fn read_pattern(&mut self, source: &'a str) -> Result<Arc<Pattern>, Refusal> {
        let parse = || Pattern::parse(source).map(Arc::new);
        self.patterns.entry(source).or_insert_with(parse).clone()
    }

    fn pattern(&mut self, part: &mut Part, value: &'a Value) -> Result<(), Error> {
        let Some(source) = value.as_str() else {
            return Err(invalid(&part.pointer, "pattern", "a pattern is a string"));
        };
        match self.read_pattern(source) {
            Ok(pattern) => part.text.patterns.push(PatternUse {
                pointer: part.pointer.as_str().into(),
                kind: TextKind::Pattern,
                pattern,
                negated: false,
            }),
            Err(Refusal::Unsupported(what)) => self.checked(part, "pattern", unsupported(what)),
            Err(Refusal::Malformed(why)) => {
                return Err(invalid(
                    &part.pointer,
                    "pattern",
                    format!("\"{source}\" is no regular expression: {why}"),
                ));
            }
        }
        Ok(())
    }

    fn choices(&mut self, part: &mut Part, value: &'a Value) -> Result<(), Error> {
        let keyword = "x-toolgate-choices";
        match Choices::read(value) {
            Ok(choices) => part.text.patterns.push(PatternUse {
                pointer: part.pointer.as_str().into(),
                kind: TextKind::Choices,
                pattern: Arc::new(Pattern::among(choices, value.to_string())),
                negated: false,
            }),
            Err(choices::Refusal::TooLarge) => self.checked(part, keyword, "there are too many of them"),
            Err(choices::Refusal::Malformed(why)) => return Err(invalid(&part.pointer, keyword, why)),
        }
        Ok(())
    }

    fn format(&mut self, part: &mut Part, value: &'a Value) -> Result<(), Error> {
        let Some(name) = value.as_str() else {
            return Err(invalid(&part.pointer, "format", "a format is a string"));
        };
        if self.formats == Formats::Annotations {
            self.note(&part.pointer, "format", Class::Annotation, Some("formats assert nothing here".into()));
            return Ok(());
        }
        if let Some(format) = formats::format(name) {
            part.text.patterns.push(PatternUse {
                pointer: part.pointer.as_str().into(),
                kind: TextKind::Format(format.name),
                pattern: Arc::clone(&format.pattern),
                negated: false,
            });
            if let Some(rest) = format.checked {
                self.note(&part.pointer, "format", Class::Checked, Some(rest.into()));
            }
        } else if let Some((min, max)) = formats::integer_range(name) {
            // Only integers are bounded: the names say nothing of fractions, and a validator ignores them.
            part.number.min.push(Bound { value: Decimal::integer(min), exclusive: false });
            part.number.max.push(Bound { value: Decimal::integer(max), exclusive: false });
        } else if name == "float" {
            part.number.single = true;
        } else if formats::CHECKED.contains(&name) {
            self.checked(part, "format", "no automaton stands for this format");
        } else {
            self.note(&part.pointer, "format", Class::Annotation, Some("an unknown format".into()));
        }
        Ok(())
    }

    fn bound(
        &mut self,
        part: &mut Part,
        map: &'a Map<String, Value>,
        keyword: &str,
        value: &'a Value,
    ) -> Result<(), Error> {
        let lower = keyword.ends_with("inimum");
        let exclusive = keyword.starts_with("exclusive");
        let bound = if let (true, Value::Bool(strict)) = (exclusive, value) {
            // Draft 4: a flag beside the bound, which is then the one that counts.
            let (name, other) = if lower { ("minimum", "minimum") } else { ("maximum", "maximum") };
            match (strict, map.get(name)) {
                (true, Some(bound)) => Bound { value: number(&part.pointer, other, bound)?, exclusive: true },
                _ => return Ok(()),
            }
        } else {
            Bound { value: number(&part.pointer, keyword, value)?, exclusive }
        };
        if lower {
            part.number.min.push(bound)
        } else {
            part.number.max.push(bound)
        }
        Ok(())
    }

    fn array(
        &mut self,
        part: &mut Part,
        map: &'a Map<String, Value>,
        keyword: &str,
        value: &'a Value,
    ) -> Result<(), Error> {
        let pointer = part.pointer.clone();
        match keyword {
            "minItems" => part.array.min = count(&pointer, keyword, value)?,
            "maxItems" => part.array.max = Some(count(&pointer, keyword, value)?),
            "prefixItems" if !value.is_array() && map.contains_key("items") => self.note(
                &pointer,
                keyword,
                Class::Annotation,
                Some("not a list, and items says what the elements are".into()),
            ),
            // Not what the draft says, but there are converters that read a lone schema as that of every element.
            "prefixItems" if !value.is_array() => part.array.items = Some(self.child(&pointer, keyword)?),
            "prefixItems" => part.array.prefix = self.list(&pointer, keyword, value)?,
            "items" if value.is_array() => part.array.prefix = self.list(&pointer, keyword, value)?,
            "additionalItems" if !map.get("items").is_some_and(Value::is_array) => {
                self.note(
                    &pointer,
                    keyword,
                    Class::Annotation,
                    Some("ignored without a list of items".into()),
                );
            }
            _ => part.array.items = Some(self.child(&pointer, keyword)?),
        }
        Ok(())
    }

    fn list(&mut self, pointer: &str, keyword: &str, value: &'a Value) -> Result<Vec<PartId>, Error> {
        let here = join_pointer(pointer, keyword);
        match value.as_array() {
            Some(items) => (0..items.len()).map(|i| self.part(format!("{here}/{i}"))).collect(),
            None => Err(invalid(pointer, keyword, format!("{keyword} is a list of schemas"))),
        }
    }

    fn object(
        &mut self,
        part: &mut Part,
        map: &'a Map<String, Value>,
        keyword: &str,
        value: &'a Value,
    ) -> Result<(), Error> {
        let pointer = part.pointer.clone();
        let pointer = pointer.as_str();
        match keyword {
            "minProperties" => part.object.min = count(pointer, keyword, value)?,
            "maxProperties" => part.object.max = Some(count(pointer, keyword, value)?),
            "required" => part.object.required = names(pointer, keyword, value)?,
            "additionalProperties" => {
                part.object.additional = Some(self.child(pointer, keyword)?);
                let patterns = map.get("patternProperties").and_then(Value::as_object);
                if patterns.is_some_and(|map| {
                    map.keys().any(|key| matches!(self.read_pattern(key), Err(Refusal::Unsupported(_))))
                }) {
                    self.checked(
                        part,
                        keyword,
                        "a key pattern has no automaton, so keys cannot be told apart",
                    );
                }
            }
            "propertyNames" => part.object.names = Some(self.child(pointer, keyword)?),
            "properties" => {
                for key in schemas(pointer, keyword, value)?.keys() {
                    let id = self.part(join_pointer(&join_pointer(pointer, keyword), key))?;
                    part.object.properties.push((key.as_str().into(), id));
                }
            }
            "patternProperties" => {
                for key in schemas(pointer, keyword, value)?.keys() {
                    let here = join_pointer(pointer, keyword);
                    match self.read_pattern(key) {
                        Ok(pattern) => {
                            let id = self.part(join_pointer(&here, key))?;
                            part.object.patterns.push((pattern, id));
                        }
                        Err(Refusal::Unsupported(what)) => {
                            part.object.unknown_patterns = true;
                            self.checked(part, keyword, unsupported(what));
                        }
                        Err(Refusal::Malformed(why)) => {
                            let message = format!("\"{key}\" is no regular expression: {why}");
                            return Err(invalid(&here, key, message));
                        }
                    }
                }
            }
            "dependentRequired" | "dependentSchemas" | "dependencies" => {
                let mut dependencies: Vec<_> = schemas(pointer, keyword, value)?.iter().collect();
                dependencies.sort_by_key(|(key, _)| key.as_str());
                for (key, value) in dependencies {
                    self.dependency(part, keyword, key, value)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Either the key is absent, or what depends on it holds: a choice of two.
    fn dependency(&mut self, part: &mut Part, keyword: &str, key: &str, value: &Value) -> Result<(), Error> {
        let here = join_pointer(&part.pointer, keyword);
        let mut absent = Part::at(&part.pointer);
        let never = self.synthetic(Part { never: true, ..Part::at(&part.pointer) })?;
        absent.object.properties.push((key.into(), never));
        let mut present = Part::at(&part.pointer);
        present.types = Some(Types::OBJECT);
        present.object.required.push(key.into());
        if value.is_array() {
            present.object.required.extend(names(&here, key, value)?);
        } else {
            present.also.push(self.part(join_pointer(&here, key))?);
        }
        let branches = vec![self.synthetic(absent)?, self.synthetic(present)?];
        let keyword = match keyword {
            "dependentRequired" => "dependentRequired",
            "dependentSchemas" => "dependentSchemas",
            _ => "dependencies",
        };
        part.choices.push(Choice { keyword, exclusive: false, branches });
        Ok(())
    }

    /// A part that stands in no document.
    fn synthetic(&mut self, part: Part) -> Result<PartId, Error> {
        match u32::try_from(self.parts.len()) {
            Ok(id) if self.parts.len() < PARTS => {
                self.parts.push(part);
                Ok(PartId(id))
            }
            _ => Err(Error::new(Kind::Limit, format!("the schema has more than {PARTS} subschemas"))),
        }
    }
}

/// Documents that validators know without being given them.
const META_SCHEMAS: [&str; 5] = [
    "http://json-schema.org/draft-04/schema",
    "http://json-schema.org/draft-06/schema",
    "http://json-schema.org/draft-07/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2020-12/schema",
];

fn unsupported(what: &str) -> String {
    format!("{what} has no automaton")
}

fn types(pointer: &str, value: &Value) -> Result<Types, Error> {
    let one = |value: &Value| match value.as_str() {
        Some("null") => Ok(Types::NULL),
        Some("boolean") => Ok(Types::BOOLEAN),
        Some("integer") => Ok(Types::INTEGER),
        Some("number") => Ok(Types::NUMBER),
        Some("string") => Ok(Types::STRING),
        Some("array") => Ok(Types::ARRAY),
        Some("object") => Ok(Types::OBJECT),
        Some(other) => Err(invalid(pointer, "type", format!("\"{other}\" is not a JSON type"))),
        None => Err(invalid(pointer, "type", "a type is a string or a list of strings")),
    };
    match value {
        Value::Array(list) => list.iter().try_fold(Types::NONE, |sum, value| Ok(sum.or(one(value)?))),
        single => one(single),
    }
}

fn count(pointer: &str, keyword: &str, value: &Value) -> Result<u64, Error> {
    let count = match value {
        Value::Number(number) => number.as_u64().or_else(|| {
            let decimal = Decimal::of(number);
            (decimal.is_integral() && !decimal.is_negative())
                .then(|| u64::try_from(decimal.floor()).unwrap_or(u64::MAX))
        }),
        _ => None,
    };
    count.ok_or_else(|| invalid(pointer, keyword, format!("{keyword} is a whole number from 0")))
}

fn number(pointer: &str, keyword: &str, value: &Value) -> Result<Decimal, Error> {
    match value {
        Value::Number(number) => Ok(Decimal::of(number)),
        _ => Err(invalid(pointer, keyword, format!("{keyword} is a number"))),
    }
}

fn names(pointer: &str, keyword: &str, value: &Value) -> Result<Vec<Arc<str>>, Error> {
    value
        .as_array()
        .and_then(|list| list.iter().map(|name| name.as_str().map(Arc::from)).collect())
        .ok_or_else(|| invalid(pointer, keyword, format!("{keyword} is a list of property names")))
}

fn schemas<'a>(pointer: &str, keyword: &str, value: &'a Value) -> Result<&'a Map<String, Value>, Error> {
    value.as_object().ok_or_else(|| invalid(pointer, keyword, format!("{keyword} is an object of schemas")))
}
