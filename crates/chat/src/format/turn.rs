//! The grammars of a turn in a family: calls with typed arguments, answers without call marks, reasoning.
//!
//! Invariant: what a grammar cannot hold a bare text to is listed as checked in the tool's contract.

use std::num::NonZeroUsize;

use serde_json::{Map, Value, json};
use toolgate_grammar::marks::{MarkTokens, Piece};
use toolgate_grammar::{Contract, Expr, Grammar, GrammarBuilder, Whitespace};

use super::syntax::{Arguments, Part, Spacing, Syntax};
use super::writer::{Shared, Writer, separated};
use super::{Reasoning, TextPlace, TurnGrammar, TurnRequest, compile, dialects, free};
use crate::error::Error;
use crate::model::{ToolChoice, ToolName};
use crate::spec::ToolSpec;

/// A parameter of a tool: its name, its schema as a document of its own, whether it must be there.
pub(crate) struct Field {
    pub(super) name: String,
    pub(super) schema: Value,
    pub(super) is_required: bool,
}

impl Field {
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

impl Syntax {
    /// The grammars of a turn.
    pub(crate) fn turn(&self, tools: &[ToolSpec], request: &TurnRequest) -> Result<TurnGrammar, Error> {
        let callable = compile::callable(tools, request)?;
        let mut contracts = Vec::with_capacity(callable.len());
        let call = match callable.as_slice() {
            [] => None,
            callable => Some(self.calls(callable, request, &mut contracts)?),
        };
        let answer = match request.choice {
            ToolChoice::Auto | ToolChoice::None => Some(self.text(TextPlace::First, &[])?),
            ToolChoice::Required | ToolChoice::Only(_) => None,
        };
        Ok(TurnGrammar { call, answer, reasoning: self.thoughts()?, contracts })
    }

    /// The parameters one by one, if the tool's schema is a plain list of them.
    pub(crate) fn fields(&self, tool: &ToolSpec) -> Option<Vec<Field>> {
        let schema = tool.closed_parameters();
        let combined = [
            "$ref",
            "$dynamicRef",
            "allOf",
            "anyOf",
            "oneOf",
            "not",
            "if",
            "patternProperties",
            "propertyNames",
            "minProperties",
            "maxProperties",
            "dependentRequired",
            "dependentSchemas",
            "dependencies",
            "unevaluatedProperties",
            "enum",
            "const",
        ];
        if combined.iter().any(|keyword| schema.get(*keyword).is_some())
            || schema.get("additionalProperties") != Some(&Value::Bool(false))
        {
            return None;
        }
        let none = Map::new();
        let properties = schema.get("properties").map_or(Some(&none), Value::as_object)?;
        let required: Vec<&str> = schema
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        if required.iter().any(|name| !properties.contains_key(*name)) {
            return None;
        }
        let mut fields = Vec::with_capacity(properties.len());
        for (name, property) in properties {
            if !self.can_write(name) {
                return None;
            }
            fields.push(Field {
                name: name.clone(),
                schema: with_definitions(property, &schema),
                is_required: required.contains(&name.as_str()),
            });
        }
        if matches!(self.arguments, Arguments::Gemma(_)) {
            fields.sort_by(|a, b| a.name.cmp(&b.name));
        }
        Some(fields)
    }

    /// Whether a key can stand in a call as it is.
    fn can_write(&self, key: &str) -> bool {
        let is_word = |extra: fn(char) -> bool| {
            !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || extra(c))
        };
        match &self.arguments {
            Arguments::Json(_) => true,
            Arguments::Pythonic => is_word(|_| false) && !key.starts_with(|c: char| c.is_ascii_digit()),
            Arguments::Elements(_) | Arguments::Gemma(_) => is_word(|c| matches!(c, '-' | '.')),
        }
    }

    fn calls(
        &self,
        tools: &[&ToolSpec],
        request: &TurnRequest,
        contracts: &mut Vec<(ToolName, Contract)>,
    ) -> Result<Grammar, Error> {
        let mut builder = Grammar::builder();
        let root = builder.declare("root");
        let call = builder.declare("call");
        let mut first_call = Expr::Rule(call);
        let mut shared = Shared::default();
        // What stands before and after all that differs between tools is written once.
        let differs = |part: &Part| matches!(part, Part::Name | Part::Arguments);
        let first = self.call.iter().position(differs).unwrap_or(0);
        let last = self.call.iter().rposition(differs).map_or(first, |last| last + 1);
        let slot = |part: &Part| self.slot(part);
        let (head, rest) = self.call.split_at_checked(first).unwrap_or((&[], &self.call));
        let (own, tail) = rest.split_at_checked(last - first).unwrap_or((rest, &[]));
        let mut choices = Vec::with_capacity(tools.len());
        let whole =
            |name: Expr| Expr::sequence(head.iter().map(slot).chain([name]).chain(tail.iter().map(slot)));
        for tool in tools {
            let (arguments, contract) = self.arguments_of(tool, &mut builder, &mut shared)?;
            let own = own.iter().map(|part| match part {
                Part::Name => Expr::literal(tool.name.as_str()),
                Part::Arguments => arguments.clone(),
                other => slot(other),
            });
            let rule = builder.rule(tool.name.as_str(), Expr::sequence(own));
            if request.first.as_ref() == Some(&tool.name) {
                first_call = whole(Expr::Rule(rule));
            }
            choices.push(Expr::Rule(rule));
            contracts.push((tool.name.clone(), contract));
        }
        builder.define(call, whole(Expr::choice(choices)));
        let parallel = if self.is_single { Some(NonZeroUsize::MIN) } else { request.parallel };
        let more = match parallel.map(|most| most.get() as u64 - 1) {
            Some(0) => Expr::empty(),
            others => Expr::sequence([self.written(&self.between), Expr::Rule(call)]).repeat(0, others),
        };
        let parts = [self.written(&self.begin), first_call, more, self.written(&self.end)];
        builder.define(root, Expr::sequence(parts));
        compile::built(builder, root)
    }

    fn arguments_of(
        &self,
        tool: &ToolSpec,
        builder: &mut GrammarBuilder,
        shared: &mut Shared,
    ) -> Result<(Expr, Contract), Error> {
        let whitespace = match self.arguments {
            Arguments::Json(Spacing::Compact) => Whitespace::Compact,
            Arguments::Json(Spacing::Given) => Whitespace::Flexible { max: 1 },
            // Any layout is taken, to the depth that arguments usually have.
            Arguments::Json(Spacing::Indented { step, base }) => {
                Whitespace::Flexible { max: u32::try_from(base + 6 * step + 1).unwrap_or(64).min(64) }
            }
            _ => Whitespace::Spaced,
        };
        let fields = match self.arguments {
            Arguments::Json(_) => None,
            _ => self.fields(tool),
        };
        let Some(fields) = fields else {
            let (rule, contract) = compile::compile_arguments(tool, builder, whitespace)?;
            return Ok((Expr::Rule(rule), contract));
        };
        // The contract is that of the whole schema; what bare texts cannot be held to is taken back from it.
        let (_, mut contract) = compile::compile_arguments(tool, &mut Grammar::builder(), whitespace)?;
        let mut writer = Writer { tool, builder, shared, contract: &mut contract, tokens: &self.tokens };
        let mut members = Vec::with_capacity(fields.len());
        for field in &fields {
            members.push((writer.member(&self.arguments, field)?, field.is_required));
        }
        if let (Arguments::Elements(elements), true) = (&self.arguments, fields.is_empty())
            && elements.close.of("").ends_with('\n')
        {
            // Templates leave the line of the missing elements blank, or leave it out.
            return Ok((Expr::literal("\n").optional(), contract));
        }
        let (open, separator, close) = match &self.arguments {
            Arguments::Elements(elements) => ("", elements.between.to_string(), ""),
            Arguments::Pythonic => ("", ", ".to_owned(), ""),
            _ => ("{", ",".to_owned(), "}"),
        };
        let list = separated(builder, tool.name.as_str(), &members, &self.written(&separator));
        Ok((Expr::sequence([Expr::literal(open), list, Expr::literal(close)]), contract))
    }

    /// A text, which one of the openings may end.
    pub(crate) fn text(&self, place: TextPlace, openings: &[String]) -> Result<Grammar, Error> {
        let mark = self.mark();
        let forbidden = self.forbidden(mark.as_deref());
        let mut builder = Grammar::builder();
        let root = builder.declare("root");
        let (head, text) = match place {
            TextPlace::First => {
                // Calls that no mark opens are told from answers by how the text begins.
                let is_bare = mark.is_none() && self.answer.is_empty();
                let not_first: Vec<char> =
                    self.opening().trim_start().chars().take(usize::from(is_bare)).collect();
                let text = free::text_without(&mut builder, "answer", &forbidden, &not_first);
                (self.written(&self.answer), Expr::Rule(text))
            }
            TextPlace::Further => (Expr::empty(), free::any_text_without(&mut builder, "answer", &forbidden)),
        };
        let end = match openings {
            [] => Expr::empty(),
            openings => Expr::choice(openings.iter().map(|opening| self.written(opening))).optional(),
        };
        builder.define(root, Expr::sequence([head, text, end]));
        compile::built(builder, root)
    }

    fn thoughts(&self) -> Result<Option<Reasoning>, Error> {
        let Some((open, close)) = &self.reasoning else { return Ok(None) };
        let ends = ends(&self.tokens, close);
        let mut without = self.marks_of_messages();
        without.extend(ends.iter().map(String::as_str));
        let grammar = |open: &str| {
            let mut builder = Grammar::builder();
            let root = builder.declare("root");
            let text = free::any_text_without(&mut builder, "thought", &without);
            builder.define(root, Expr::sequence([self.written(open), text, self.written(close)]));
            compile::built(builder, root)
        };
        Ok(Some(Reasoning {
            open: self.tokens.resolve(open),
            close: self.tokens.resolve(close),
            whole: grammar(open)?,
            inside: grammar("")?,
        }))
    }

    /// What no answer may hold.
    fn forbidden<'m>(&self, mark: Option<&'m str>) -> Vec<&'m str> {
        let mut texts = self.marks_of_messages();
        texts.extend(dialects::MARKERS.iter().copied().chain(mark));
        texts
    }

    /// A part of a call that is the same for all tools.
    fn slot(&self, part: &Part) -> Expr {
        match part {
            Part::Text(text) => self.written(text),
            Part::Id => {
                Expr::class([('a', 'z'), ('A', 'Z'), ('0', '9'), ('_', '_'), ('-', '-')]).repeat(1, Some(64))
            }
            Part::Index(_) => Expr::class([('0', '9')]).repeat(1, Some(4)),
            Part::Name | Part::Arguments => Expr::empty(),
        }
    }

    /// The tag or token that opens calls, which no answer may hold; `None` for bare JSON and the like.
    pub(crate) fn mark(&self) -> Option<String> {
        let opening = self.opening();
        let opening = opening.trim();
        let end = match opening.chars().next()? {
            '<' | ']' => Some(opening.find('>').map_or(opening.len(), |end| end + 1)),
            '[' if !opening.starts_with("[{") => opening.find(']').map(|end| end + 1),
            '{' | '[' => None,
            _ => Some(opening.len()),
        }?;
        // MiniMax-M3 writes a mark before each tag.
        let end = if opening.starts_with("]<]") { "]<]minimax[>[".len() } else { end };
        opening.get(..end).filter(|mark| mark.len() >= 3).map(str::to_owned)
    }
}

/// What ends a text: the mark, and the token in it that comes first. Neither is spelled in the text.
pub(super) fn ends(tokens: &MarkTokens, end: &str) -> Vec<String> {
    let mark = tokens.resolve(end);
    let first = mark.pieces().iter().find(|piece| matches!(piece, Piece::Token { .. }));
    std::iter::once(end).chain(first.map(Piece::text)).map(str::to_owned).collect()
}

/// A property's schema with the definitions that its references lead to.
fn with_definitions(property: &Value, whole: &Value) -> Value {
    let mut schema = match property {
        Value::Object(_) => property.clone(),
        other => json!({"allOf": [other]}),
    };
    if let Some(object) = schema.as_object_mut() {
        for keyword in ["$schema", "$defs", "definitions"] {
            if let Some(found) = whole.get(keyword).filter(|_| !object.contains_key(keyword)) {
                object.insert(keyword.to_owned(), found.clone());
            }
        }
    }
    schema
}
