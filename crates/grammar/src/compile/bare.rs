//! Texts outside JSON: choices of families of tool calls that write a text as it is, up to a mark that ends it, and answers that are to
//! match an expression.

use serde_json::json;

use crate::schema::Texts;
use crate::schema::choices::Choices;
use crate::schema::nfa::Nfa;
use crate::schema::pattern::Pattern;
use crate::{Error, Grammar, GrammarBuilder, Kind, RuleId, Schema};

use super::automaton::{Dfa, Room};
use super::{Compiler, Options, impossible};

/// States of the automaton of texts that do not hold a mark.
const MARK_STATES: usize = 4_096;
/// States of the automaton of an expression.
const PATTERN_STATES: usize = 16_384;

impl Grammar {
    /// The grammar of a regular expression (ECMA 262, as JSON Schema has it): the texts that it matches whole.
    ///
    /// ```
    /// use toolgate_grammar::{Grammar, Limits, Options};
    /// let version = Grammar::from_regex(r"v?\d+(\.\d+){0,2}", &Options::default())?;
    /// assert!(version.match_text("v1.20.3", &Limits::default())?.matched);
    /// assert!(!version.match_text("v1.20.3-beta", &Limits::default())?.matched);
    /// # Ok::<(), toolgate_grammar::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`pattern_grammar`].
    pub fn from_regex(pattern: &str, options: &Options) -> Result<Self, Error> {
        pattern_grammar(pattern, options)
    }
}

/// The texts that a regular expression (ECMA 262) matches whole, as they are, and nothing around them. The same as
/// [`Grammar::from_regex`].
///
/// # Errors
/// [`Kind::InvalidSchema`] for a text that is no expression, one that nothing matches, and one that no grammar can hold, such as those
/// that look ahead; [`Kind::Limit`] for one that is too large.
///
/// ```
/// # use toolgate_grammar::{Limits, Options, compile::pattern_grammar};
/// let date = pattern_grammar(r"\d{4}-\d{2}|never", &Options::default())?;
/// let matches = |text| date.match_text(text, &Limits::default()).map(|found| found.matched);
/// assert!(matches("2024-05")? && matches("never")? && !matches("on 2024-05")? && !matches("\"never\"")?);
/// assert!(pattern_grammar("a(?=b)", &Options::default()).is_err());
/// # Ok::<(), toolgate_grammar::Error>(())
/// ```
pub fn pattern_grammar(pattern: &str, options: &Options) -> Result<Grammar, Error> {
    // Alone first: brackets that close nothing would close those around it.
    Schema::parse(&json!({"pattern": pattern}))?;
    let schema = Schema::parse(&json!({"type": "string", "pattern": format!("^(?:{pattern})$")}))?;
    let mut patterns = schema.parts.iter().flat_map(|part| &part.text.patterns);
    let used = patterns.next().ok_or_else(|| {
        Error::new(Kind::InvalidSchema, "a grammar cannot hold a text to this expression")
            .hint("it may have no look-around and no references back")
    })?;
    let too_large = || Error::new(Kind::Limit, "the expression is too large").hint("match less of the text");
    let room = Room::new(&options.limits);
    let texts =
        used.pattern.nfa().and_then(|nfa| Dfa::new(nfa, PATTERN_STATES, &room)).ok_or_else(too_large)?;
    let mut builder = Grammar::builder();
    let root = builder.declare("root");
    let mut compiler = Compiler::new(&schema, options, &mut builder, "root");
    compiler.bare = true;
    let body = compiler.automaton(&texts, "root")?.ok_or_else(impossible)?;
    builder.define(root, body);
    builder.build(root)
}

/// Compiles the texts that a keyword of one's own stands for as bare text: each character stands for itself, and no text
/// holds `end`.
///
/// # Errors
/// [`Kind::InvalidSchema`] where no text is left; [`Kind::Limit`] where they are too many.
///
/// ```
/// # use toolgate_grammar::{Grammar, Options, compile::choices_into, schema::Texts};
/// let mut builder = Grammar::builder();
/// let texts = Texts::Among { texts: vec!["a\"b", "</p>"], beginnings: Vec::new() };
/// let root = choices_into(&texts, "</", &Options::default(), &mut builder, "root")?;
/// assert_eq!(builder.build(root)?.to_gbnf().lines().last(), Some(r#"root ::= "a\"b""#));
/// # Ok::<(), toolgate_grammar::Error>(())
/// ```
pub fn choices_into(
    texts: &Texts<'_>,
    end: &str,
    options: &Options,
    builder: &mut GrammarBuilder,
    name: &str,
) -> Result<RuleId, Error> {
    let choices = Choices::of(texts)
        .map_err(|_| Error::new(Kind::Limit, "there are too many choices").hint("leave the text free"))?;
    let mut texts = Dfa::of(&choices);
    let room = Room::new(&options.limits);
    if !end.is_empty() {
        let mark = Nfa::search(&Pattern::literal(end).node, MARK_STATES)
            .and_then(|nfa| Dfa::new(&nfa, MARK_STATES, &room));
        let without = mark.ok_or_else(|| Error::new(Kind::Limit, "the mark that ends a text is too long"))?;
        let limit = texts.states.len().saturating_mul(end.len() + 1);
        texts = texts.intersection(&without.complement(), limit, &room).ok_or_else(impossible)?;
    }
    let root = builder.declare(name);
    let schema = Schema::parse(&json!({"type": "string"}))?;
    let mut compiler = Compiler::new(&schema, options, builder, name);
    compiler.bare = true;
    let body = compiler.automaton(&texts, name)?.ok_or_else(impossible)?;
    builder.define(root, body);
    Ok(root)
}
