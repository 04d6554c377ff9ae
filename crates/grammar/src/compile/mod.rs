//! Second stage: a schema to a grammar and its contract. (Interface stub.)
use crate::{Error, Grammar, GrammarBuilder, RuleId, Schema};

/// Where a generated text may have white space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Whitespace {
    /// None: `{"a":1,"b":[1,2]}`.
    Compact,
    /// Python's `json.dumps`: `{"a": 1, "b": [1, 2]}`.
    #[default]
    Spaced,
    /// Up to `max` blanks or line breaks wherever JSON allows them.
    Flexible {
        /// The longest run.
        max: u32,
    },
}

/// How to compile.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// White space between tokens of JSON.
    pub whitespace: Whitespace,
    /// Bounds on the result.
    pub limits: crate::Limits,
}

/// What became of every keyword of a schema.
#[derive(Clone, Debug, Default)]
pub struct Contract {}
impl Contract {
    /// The contract as JSON: a list of `{pointer, keyword, class, reason?}`.
    pub fn to_json(&self) -> serde_json::Value { unimplemented!() }
}

/// A grammar and what it promises.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// Accepts the serialized instances.
    pub grammar: Grammar,
    /// What became of every keyword.
    pub contract: Contract,
}

/// Compiles `schema`; the result's root rule is `root`.
pub fn compile(_schema: &Schema, _options: &Options) -> Result<Compiled, Error> { unimplemented!() }

/// Compiles `schema` into a grammar under construction, for envelopes around several schemas; rule names start with `name`.
pub fn compile_into(_schema: &Schema, _options: &Options, _builder: &mut GrammarBuilder, _name: &str) -> Result<(RuleId, Contract), Error> { unimplemented!() }
