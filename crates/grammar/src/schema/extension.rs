//! Keywords of one's own, which say what texts a string may be. Used by `parse`; who reads schemas registers them.
//!
//! Invariant: a keyword that JSON Schema has keeps its meaning.

use serde_json::Value;

/// A keyword that is not JSON Schema's. It is enforced: where a grammar cannot hold a string to its texts, since they
/// are too many, the contract lists it as checked.
///
/// ```
/// use serde_json::{Value, json};
/// use toolgate_grammar::schema::{Extension, SchemaOptions, Texts};
/// use toolgate_grammar::{Options, Schema, compile};
/// fn read(value: &Value) -> Result<Texts<'_>, &'static str> {
///     let text = value.as_str().ok_or("x-part-of is a text")?;
///     Ok(Texts::OnceIn(text))
/// }
/// let extensions = vec![Extension { keyword: "x-part-of", read }];
/// let reading = SchemaOptions::default().extensions(extensions);
/// let schema = Schema::parse_with(&json!({"type": "string", "x-part-of": "a b a"}), &reading)?;
/// let compiled = compile(&schema, &Options::default())?;
/// assert!(compiled.accepts("\"b a\"")? && !compiled.accepts("\"a\"")?);
///
/// let error = Schema::parse_with(&json!({"x-part-of": 1}), &reading).unwrap_err();
/// assert_eq!(error.to_string(), "x-part-of is a text at /x-part-of");
/// # Ok::<(), toolgate_grammar::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Extension {
    /// Its name. By custom it begins with `x-`; a name that JSON Schema has is not looked up here.
    pub keyword: &'static str,
    /// Reads its value, or says what is wrong with it.
    pub read: for<'v> fn(&'v Value) -> Result<Texts<'v>, &'static str>,
}

/// The texts that a string may be. Each code point listed costs a state of an automaton: some 200,000 of them are held,
/// and 32,768 of a text of which the pieces are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Texts<'v> {
    /// Those listed, and all that go on from certain beginnings, by at least a character.
    Among {
        /// The texts themselves.
        texts: Vec<&'v str>,
        /// What others may begin with. They go on with anything but line ends and what JSON escapes.
        beginnings: Vec<&'v str>,
    },
    /// The pieces of a text that occur in it exactly once.
    OnceIn(&'v str),
}
