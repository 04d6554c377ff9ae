//! Reads a schema document into parts, with a worklist instead of recursion, and classifies every keyword.
//!
//! Invariant: a keyword with the wrong form is an error here; later stages see only checked values.

use std::borrow::Cow;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde_json::{Map, Value};

use super::draft::Draft;
use super::extension::Extension;
use super::node::Refusal;
use super::part::TextKind;
use super::pattern::Pattern;
use super::refs::{Index, Spot, address_of, join_pointer};
use super::regex::Reader;
use super::support::{self, Class};
use super::{Formats, KeywordEntry, Part, PartId, Schema, SchemaOptions, negate};
use crate::work::{ForeignMap, Work, bytes};
use crate::{Error, Kind, Limits, Place};

/// Parts a document may have before it counts as hostile.
const PARTS: usize = 500_000;
/// What a part costs, in steps: it is large, and read keyword by keyword.
const PART: u64 = 8;
/// What a keyword costs, in steps, beside what it says.
const KEYWORD: u64 = 4;

pub(super) fn parse(root: &Value, options: &SchemaOptions) -> Result<Schema, Error> {
    let size = measured(root, &options.limits)?;
    let work = Work::new(&options.limits, size);
    let draft = Draft::of(root).unwrap_or(options.draft);
    let index = Index::new(root, if draft == Draft::Four { "id" } else { "$id" }, &work);
    let here = index.root(root);
    let mut parser = Parser {
        work: &work,
        draft,
        formats: options.formats,
        extensions: &options.extensions,
        whole: here.clone(),
        here: here.clone(),
        index,
        parts: Vec::new(),
        by_place: FxHashMap::default(),
        reader: Reader::new(&work),
        patterns: ForeignMap::default(),
        choices: ForeignMap::default(),
        stack: Vec::new(),
        found: Vec::new(),
        entries: Vec::new(),
        references: Vec::new(),
    };
    let id = parser.part(here)?;
    parser.flush();
    while let Some((id, spot)) = parser.stack.pop() {
        let part = parser.read(spot)?;
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
        size,
        work: 0,
    };
    negate::rewrite(&mut schema, &work);
    work.check("")?;
    schema.work = work.taken();
    Ok(schema)
}

/// The size of a document, as [`weight`](super::values::weight) counts it. Deep ones are refused before anything
/// recurses into them.
fn measured(root: &Value, limits: &Limits) -> Result<u64, Error> {
    let mut queue = vec![(root, 0_usize)];
    let mut size = 0;
    while let Some((value, depth)) = queue.pop() {
        if depth > limits.depth.saturating_mul(2) {
            return Err(Error::new(
                Kind::Limit,
                format!("the schema is nested deeper than {} levels", limits.depth),
            )
            .hint("raise Limits::depth, or name inner schemas in $defs and refer to them"));
        }
        size += match value {
            Value::String(text) => bytes(text.len()),
            Value::Object(map) => {
                queue.extend(map.values().map(|value| (value, depth + 1)));
                1 + map.keys().map(|key| bytes(key.len())).sum::<u64>()
            }
            Value::Array(items) => {
                queue.extend(items.iter().map(|value| (value, depth + 1)));
                1
            }
            _ => 1,
        };
    }
    Ok(size)
}

pub(super) struct Parser<'a, 'w> {
    pub(super) work: &'w Work,
    draft: Draft,
    pub(super) formats: Formats,
    extensions: &'w [Extension],
    index: Index<'a>,
    whole: Spot<'a>,
    /// The place of the part at hand.
    pub(super) here: Spot<'a>,
    parts: Vec<Part>,
    /// Parts by where they stand in memory: whatever way leads there, a place is read once.
    by_place: FxHashMap<usize, PartId>,
    pub(super) reader: Reader<'w>,
    /// Patterns by their source: many schemas repeat one all over.
    pub(super) patterns: ForeignMap<&'a str, Result<Arc<Pattern>, Refusal>>,
    /// Choices by their source.
    pub(super) choices: ForeignMap<String, Arc<Pattern>>,
    stack: Vec<(PartId, Spot<'a>)>,
    /// Children of the part at hand, in document order; they move to the stack reversed.
    found: Vec<(PartId, Spot<'a>)>,
    entries: Vec<KeywordEntry>,
    references: Vec<(String, String)>,
}

fn is_reference(keyword: &str) -> bool {
    matches!(keyword, "$ref" | "$dynamicRef" | "$recursiveRef")
}

pub(super) fn invalid(pointer: &str, keyword: &str, message: impl Into<String>) -> Error {
    Error::new(Kind::InvalidSchema, message).at(Place::Pointer(join_pointer(pointer, keyword)))
}

impl<'a> Parser<'a, '_> {
    /// The part at a place of the document, queued to be read when it is new.
    pub(super) fn part(&mut self, spot: Spot<'a>) -> Result<PartId, Error> {
        let place = address_of(spot.value);
        if let Some(id) = self.by_place.get(&place) {
            return Ok(*id);
        }
        let id = self.synthetic(Part::at(&spot.pointer))?;
        self.by_place.insert(place, id);
        self.found.push((id, spot));
        Ok(id)
    }

    /// Adds a part; by itself it stands in no document.
    pub(super) fn synthetic(&mut self, part: Part) -> Result<PartId, Error> {
        self.work.spend(PART);
        match u32::try_from(self.parts.len()) {
            Ok(id) if self.parts.len() < PARTS => {
                self.parts.push(part);
                Ok(PartId(id))
            }
            _ => {
                let error = Error::new(Kind::Limit, format!("the schema has more than {PARTS} subschemas"));
                Err(error.at(Place::Pointer(part.pointer.as_ref().to_owned())))
            }
        }
    }

    fn flush(&mut self) {
        while let Some(child) = self.found.pop() {
            self.stack.push(child);
        }
    }

    /// The place of what stands under `key` in what stands at `spot`.
    pub(super) fn below(&self, spot: &Spot<'a>, key: &str, value: &'a Value) -> Spot<'a> {
        self.work.spend(bytes(spot.pointer.len() + key.len()));
        let pointer = join_pointer(&spot.pointer, key).into();
        Spot { value, pointer, base: self.index.base_of(value, spot.base) }
    }

    pub(super) fn note(
        &mut self,
        pointer: &str,
        keyword: &str,
        class: Class,
        reason: Option<Cow<'static, str>>,
    ) {
        self.work.spend(bytes(pointer.len() + keyword.len()));
        self.entries.push(KeywordEntry { pointer: join_pointer(pointer, keyword), class, reason });
    }

    pub(super) fn checked(&mut self, part: &mut Part, keyword: &str, reason: impl Into<Cow<'static, str>>) {
        part.opaque = true;
        self.note(&part.pointer, keyword, Class::Checked, Some(reason.into()));
    }

    fn read(&mut self, spot: Spot<'a>) -> Result<Part, Error> {
        let mut part = Part::at(&spot.pointer);
        let map = match spot.value {
            Value::Bool(true) => return Ok(part),
            Value::Bool(false) => {
                part.never = true;
                return Ok(part);
            }
            Value::Object(map) => map,
            _ => {
                let error = Error::new(Kind::InvalidSchema, "a schema is an object, true or false");
                return Err(error.at(Place::Pointer(spot.pointer.as_ref().to_owned())));
            }
        };
        self.here = spot;
        let lone_reference = self.draft <= Draft::Seven && map.contains_key("$ref");
        // References come first wherever they are written: the order of keywords means nothing.
        let (references, others): (Vec<_>, Vec<_>) =
            map.iter().partition(|(keyword, _)| is_reference(keyword));
        for (keyword, value) in references.into_iter().chain(others) {
            if lone_reference && keyword != "$ref" {
                let reason = "ignored beside $ref before draft 2019-09";
                self.note(&part.pointer, keyword, Class::Annotation, Some(reason.into()));
            } else {
                self.keyword(&mut part, map, keyword, value)?;
            }
            self.work.check(&part.pointer)?;
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
        self.work.spend(KEYWORD);
        let Some(rule) = support::rule(keyword) else {
            let Some(extension) = self.extensions.iter().find(|extension| extension.keyword == keyword)
            else {
                self.note(&part.pointer, keyword, Class::Annotation, None);
                return Ok(());
            };
            let before = self.entries.len();
            self.extension(part, extension, value)?;
            self.enforced_since(before, part, keyword);
            return Ok(());
        };
        if !self.draft.knows(keyword) {
            self.note(&part.pointer, keyword, Class::Annotation, Some("not a keyword of this draft".into()));
            return Ok(());
        }
        if rule.class == Class::Enforced {
            let before = self.entries.len();
            self.assertion(part, map, keyword, value)?;
            self.enforced_since(before, part, keyword);
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

    /// An assertion that has said nothing of itself, since there were `before` entries, is enforced.
    fn enforced_since(&mut self, before: usize, part: &Part, keyword: &str) {
        let own = join_pointer(&part.pointer, keyword);
        self.work.spend(bytes(own.len()));
        if !self.entries.get(before..).is_some_and(|new| new.iter().any(|entry| entry.pointer == own)) {
            self.entries.push(KeywordEntry { pointer: own, class: Class::Enforced, reason: None });
        }
    }

    pub(super) fn reference(
        &mut self,
        part: &mut Part,
        keyword: &str,
        value: &'a Value,
    ) -> Result<(), Error> {
        let Some(text) = value.as_str() else {
            return Err(invalid(&part.pointer, keyword, format!("{keyword} is a string")));
        };
        if keyword != "$ref" && self.index.is_dynamic(text) {
            self.checked(part, keyword, "it leads elsewhere depending on the way by which it is reached");
            return Ok(());
        }
        let pointer = part.pointer.as_ref();
        self.work.spend(bytes(text.len()));
        // Identifiers in the wild are often labels; a pointer that misses below one is meant from the root.
        let from_root =
            || text.starts_with("#/").then(|| self.index.resolve(self.whole.base, text, self.work)).flatten();
        let target = self.index.resolve(self.here.base, text, self.work).or_else(from_root);
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
        self.work.spend(bytes(pointer.len()) + bytes(target.pointer.len()));
        self.references.push((join_pointer(pointer, keyword), target.pointer.as_ref().to_owned()));
        let id = self.part(target)?;
        part.also.push(id);
        Ok(())
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
