//! The one table of keywords: what the compiler promises for each, and what the documentation says of it.
//!
//! Invariant: `parse` classifies by this table alone; a keyword missing here is an annotation.

/// What becomes of a keyword.
///
/// ```
/// use serde_json::json;
/// use toolgate_grammar::{Options, Schema, compile};
/// let schema = Schema::parse(&json!({"title": "Tags", "minItems": 1, "uniqueItems": true}))?;
/// let contract = compile(&schema, &Options::default())?.contract;
/// let classes: Vec<&str> = contract.entries().map(|entry| entry.class().as_str()).collect();
/// assert_eq!(classes, ["annotation", "enforced", "checked"]);
/// # Ok::<(), toolgate_grammar::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Class {
    /// The grammar admits no violation.
    Enforced,
    /// The grammar may admit a violation; the finished value has to be validated.
    Checked,
    /// Says nothing about validity.
    Annotation,
}

impl Class {
    /// `enforced`, `checked` or `annotation`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Enforced => "enforced",
            Self::Checked => "checked",
            Self::Annotation => "annotation",
        }
    }
}

/// A row of the keyword table.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct KeywordRule {
    /// The keyword, or the name of the format.
    pub keyword: &'static str,
    /// What becomes of it where nothing stands in the way.
    pub class: Class,
    /// Where it is less than that, or how it is done; may be empty.
    pub note: &'static str,
}

/// The table of all keywords that mean anything, for the documentation.
///
/// ```
/// use toolgate_grammar::schema::{Class, keyword_rules};
/// let class = |keyword| keyword_rules().iter().find(|rule| rule.keyword == keyword).map(|rule| rule.class);
/// assert_eq!(class("minLength"), Some(Class::Enforced));
/// assert_eq!(class("uniqueItems"), Some(Class::Checked));
/// assert_eq!(class("minLenght"), None);
/// ```
pub fn keyword_rules() -> &'static [KeywordRule] {
    RULES
}

/// The row of a keyword.
pub(crate) fn rule(keyword: &str) -> Option<&'static KeywordRule> {
    RULES.iter().find(|rule| rule.keyword == keyword)
}

const fn enforced(keyword: &'static str, note: &'static str) -> KeywordRule {
    KeywordRule { keyword, class: Class::Enforced, note }
}

const fn checked(keyword: &'static str, note: &'static str) -> KeywordRule {
    KeywordRule { keyword, class: Class::Checked, note }
}

const fn annotation(keyword: &'static str, note: &'static str) -> KeywordRule {
    KeywordRule { keyword, class: Class::Annotation, note }
}

const RULES: &[KeywordRule] = &[
    enforced("type", ""),
    enforced("enum", ""),
    enforced("const", ""),
    enforced("properties", "written in declared order"),
    enforced("required", ""),
    enforced("additionalProperties", ""),
    enforced("patternProperties", "checked where a pattern cannot become an automaton"),
    enforced("propertyNames", ""),
    enforced("minProperties", "checked where two undeclared keys may help to make up the number"),
    enforced("maxProperties", ""),
    enforced("dependentRequired", "checked past a number of combinations"),
    enforced("dependentSchemas", "checked past a number of combinations"),
    enforced("dependencies", "as dependentRequired and dependentSchemas"),
    enforced("items", ""),
    enforced("prefixItems", ""),
    enforced("additionalItems", ""),
    enforced("minItems", ""),
    enforced("maxItems", ""),
    checked("uniqueItems", "a grammar does not compare elements"),
    checked("contains", "any element may be the one"),
    checked("minContains", "as contains"),
    checked("maxContains", "as contains"),
    enforced("minLength", "in code points"),
    enforced("maxLength", "in code points"),
    enforced("pattern", "checked with look-around, back-references, or past the limit of states"),
    enforced("format", "the known ones; others are annotations"),
    enforced("minimum", "checked past 37 digits"),
    enforced("maximum", "checked past 37 digits"),
    enforced("exclusiveMinimum", "as minimum, as floats tell numbers apart"),
    enforced("exclusiveMaximum", "as maximum, as floats tell numbers apart"),
    enforced("multipleOf", "of integers of at most 19 digits; checked for fractions"),
    enforced("$ref", "inside the document"),
    enforced("$dynamicRef", "inside the document"),
    enforced("$recursiveRef", "inside the document"),
    enforced("allOf", "by intersection"),
    enforced("anyOf", ""),
    enforced("oneOf", "checked where branches are not provably disjoint"),
    enforced("not", "checked where the negation is not expressible"),
    enforced("if", "checked where the negation of the test is not expressible"),
    enforced("then", "as if"),
    enforced("else", "as if"),
    checked("unevaluatedProperties", "depends on what other keywords matched"),
    checked("unevaluatedItems", "depends on what other keywords matched"),
    annotation("$schema", "chooses the draft"),
    annotation("$id", "names the document"),
    annotation("id", "names the document in draft 4"),
    annotation("$anchor", "names a place"),
    annotation("$dynamicAnchor", "names a place"),
    annotation("$recursiveAnchor", "names a place"),
    annotation("$defs", "holds schemas for references"),
    annotation("definitions", "holds schemas for references"),
    annotation("$comment", ""),
    annotation("$vocabulary", ""),
    annotation("title", "kept for the prompt"),
    annotation("description", "kept for the prompt"),
    annotation("default", "kept for the prompt"),
    annotation("examples", "kept for the prompt"),
    annotation("deprecated", ""),
    annotation("readOnly", ""),
    annotation("writeOnly", ""),
    annotation("contentEncoding", ""),
    annotation("contentMediaType", ""),
    annotation("contentSchema", ""),
];
