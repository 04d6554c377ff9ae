//! First stage: a JSON Schema document becomes an arena of parts. Knows no grammar.
//!
//! Invariant: every keyword of every subschema reached from the root has exactly one entry, with its JSON
//! pointer, and every reference has become the id of a part of the arena.

mod arena;
pub(crate) mod choices;
mod decimal;
mod disjoint;
mod draft;
mod evaluate;
mod extension;
mod formats;
mod keywords;
mod merge;
mod negate;
pub(crate) mod nfa;
pub(crate) mod node;
mod parse;
mod part;
pub(crate) mod pattern;
mod refs;
pub(crate) mod regex;
mod shape;
mod support;
mod values;

use std::borrow::Cow;

use serde_json::Value;

use crate::{Error, Limits};

pub use draft::Draft;
pub use extension::{Extension, Texts};
pub use formats::format_rules;
pub use support::{Class, KeywordRule, keyword_rules};

pub(crate) use arena::{Arena, Conjunct, Key, Leaf, Normal};
pub(crate) use decimal::Decimal;
pub(crate) use part::{Bound, Part, PartId, PatternUse, TextKind, Types};
pub(crate) use shape::{FreeKeys, NumberShape, ObjectShape, TextShape};
pub(crate) use values::{Values, weight};

/// A schema in normal form, with the JSON pointer of every part.
///
/// ```
/// # use toolgate_grammar::Schema; use serde_json::json;
/// assert!(Schema::parse(&json!({"type": "object", "properties": {"path": {"type": "string"}}})).is_ok());
/// let error = Schema::parse(&json!({"properties": {"path": {"type": "text"}}})).unwrap_err();
/// assert_eq!(error.to_string(), "\"text\" is not a JSON type at /properties/path/type");
/// ```
#[derive(Clone, Debug)]
pub struct Schema {
    pub(crate) parts: Vec<Part>,
    pub(crate) root: PartId,
    pub(crate) draft: Draft,
    pub(crate) entries: Vec<KeywordEntry>,
    /// Pointers of references, and where each leads.
    pub(crate) references: Vec<(String, String)>,
    /// The size of the document, as `values::weight` counts it.
    pub(crate) size: u64,
    /// Steps that reading it took.
    pub(crate) work: u64,
}

/// How a document is read.
///
/// ```
/// use serde_json::json;
/// use toolgate_grammar::schema::SchemaOptions;
/// use toolgate_grammar::{Kind, Limits, Schema};
/// let limits = Limits::default().depth(1);
/// let options = SchemaOptions::default().limits(limits);
/// let deep = json!({"items": {"items": {"items": {"items": {}}}}});
/// assert!(Schema::parse(&deep).is_ok());
/// assert_eq!(Schema::parse_with(&deep, &options).unwrap_err().kind(), Kind::Limit);
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SchemaOptions {
    /// Bounds on the document.
    pub limits: Limits,
    /// The draft of a document that names none in `$schema`.
    pub draft: Draft,
    /// What `format` means.
    pub formats: Formats,
    /// Keywords of one's own. Without one of that name, such a keyword is an annotation.
    pub extensions: Vec<Extension>,
}

crate::setters! { SchemaOptions {
    limits: Limits,
    draft: Draft,
    formats: Formats,
    extensions: Vec<Extension>,
} }

/// What `format` means.
///
/// ```
/// use serde_json::json;
/// use toolgate_grammar::schema::{Formats, SchemaOptions};
/// use toolgate_grammar::{Options, Schema, compile};
/// let accepts = |formats| {
///     let options = SchemaOptions::default().formats(formats);
///     let schema = Schema::parse_with(&json!({"type": "string", "format": "date"}), &options)?;
///     compile(&schema, &Options::default())?.accepts("\"soon\"")
/// };
/// assert!(!accepts(Formats::Asserted)? && accepts(Formats::Annotations)?);
/// # Ok::<(), toolgate_grammar::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Formats {
    /// A value has to have the format it is said to have.
    #[default]
    Asserted,
    /// It is a note to the reader, as the drafts since 2019-09 hold unless told otherwise.
    Annotations,
}

/// What became of one keyword at one place, before compilation may lower it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeywordEntry {
    /// JSON pointer of the keyword itself.
    pub(crate) pointer: String,
    pub(crate) class: Class,
    pub(crate) reason: Option<Cow<'static, str>>,
}

impl Schema {
    /// Reads a schema of any draft from 4 to 2020-12, told by `$schema`; 2020-12 without it.
    ///
    /// # Errors
    /// [`Kind::InvalidSchema`](crate::Kind::InvalidSchema) for a keyword whose value has the wrong form or a
    /// reference that leads nowhere, [`Kind::Limit`](crate::Kind::Limit) for one too deep or too large, each with
    /// its JSON pointer.
    pub fn parse(schema: &Value) -> Result<Self, Error> {
        Self::parse_with(schema, &SchemaOptions::default())
    }

    /// As [`parse`](Self::parse), with other bounds, another default draft, or formats that assert nothing.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn parse_with(schema: &Value, options: &SchemaOptions) -> Result<Self, Error> {
        parse::parse(schema, options)
    }

    /// The steps that reading took, as [`Limits::work`] counts them: the same on every machine. See
    /// [`Compiled::work`](crate::Compiled::work) for those that compiling takes.
    ///
    /// ```
    /// # use toolgate_grammar::Schema; use serde_json::{Value, json};
    /// let of = |n: usize| json!({"allOf": vec![json!({"not": {"multipleOf": 2}}); n]});
    /// let (one, two) = (Schema::parse(&of(500))?.work(), Schema::parse(&of(1_000))?.work());
    /// assert!(two < 3 * one, "twice as much to read takes about twice as many steps: {one}, {two}");
    /// # Ok::<(), toolgate_grammar::Error>(())
    /// ```
    pub fn work(&self) -> u64 {
        self.work
    }
}
