//! Choices outside JSON: families of tool calls that write a text as it is, up to a mark that ends it.

use serde_json::{Value, json};

use crate::schema::nfa::Nfa;
use crate::schema::pattern::Pattern;
use crate::{Error, GrammarBuilder, RuleId, Schema};

use super::automaton::{Dfa, Room};
use super::{Compiler, Options, impossible};

/// States of the automaton of texts that do not hold a mark.
const MARK_STATES: usize = 4_096;

/// Compiles the value of `x-toolgate-choices` as bare text: each character stands for itself, and no text holds `end`.
///
/// # Errors
/// [`Kind::InvalidSchema`](crate::Kind::InvalidSchema) for a value that is none of the keyword's, and where no text
/// is left; [`Kind::Limit`](crate::Kind::Limit) where they are too many.
///
/// ```
/// # use toolgate_grammar::{Grammar, Options, compile::choices_into}; use serde_json::json;
/// let mut builder = Grammar::builder();
/// let root = choices_into(&json!({"texts": ["a\"b", "</p>"]}), "</", &Options::default(), &mut builder, "root")?;
/// assert_eq!(builder.build(root)?.to_gbnf().lines().last(), Some(r#"root ::= "a\"b""#));
/// # Ok::<(), toolgate_grammar::Error>(())
/// ```
pub fn choices_into(
    choices: &Value,
    end: &str,
    options: &Options,
    builder: &mut GrammarBuilder,
    name: &str,
) -> Result<RuleId, Error> {
    let schema = Schema::parse(&json!({"type": "string", "x-toolgate-choices": choices}))?;
    let mut parts = schema.parts.iter().flat_map(|part| &part.text.patterns);
    let choices = parts.find_map(|used| used.pattern.choices.as_ref());
    let choices = choices.ok_or_else(|| {
        Error::new(crate::Kind::Limit, "there are too many choices").hint("leave the text free")
    })?;
    let mut texts = Dfa::of(choices);
    let room = Room::new(&options.limits);
    if !end.is_empty() {
        let mark = Nfa::search(&Pattern::literal(end), MARK_STATES)
            .and_then(|nfa| Dfa::new(&nfa, MARK_STATES, &room));
        let without =
            mark.ok_or_else(|| Error::new(crate::Kind::Limit, "the mark that ends a text is too long"))?;
        let limit = texts.states.len().saturating_mul(end.len() + 1);
        texts = texts.intersection(&without.complement(), limit, &room).ok_or_else(impossible)?;
    }
    let root = builder.declare(name);
    let mut compiler = Compiler::new(&schema, options, builder, name);
    compiler.bare = true;
    let body = compiler.automaton(&texts, name)?.ok_or_else(impossible)?;
    builder.define(root, body);
    Ok(root)
}
