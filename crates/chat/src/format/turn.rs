//! The grammars of a turn in a family: calls with typed arguments, answers without call marks, reasoning.
//!
//! Invariant: what a grammar cannot hold a bare text to is listed as checked in the tool's contract.

use std::num::NonZeroUsize;

use serde_json::{Map, Value, json};
use toolgate_grammar::schema::Texts;
use toolgate_grammar::{Contract, Expr, Grammar, GrammarBuilder, Whitespace};

use super::syntax::{Arguments, Close, Elements, Part, Spacing, Syntax};
use super::{Reasoning, TurnGrammar, TurnRequest, compile, dialects, free};
use crate::choices::{self, CHOICES};
use crate::error::Error;
use crate::fallback::typing::Schema;
use crate::model::{ToolChoice, ToolName};
use crate::spec::ToolSpec;

/// A parameter of a tool: its name, its schema as a document of its own, whether it must be there.
pub(crate) struct Field {
    name: String,
    schema: Value,
    is_required: bool,
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
            ToolChoice::Auto | ToolChoice::None => Some(self.answer()?),
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
            others => {
                Expr::sequence([Expr::literal(self.between.to_string()), Expr::Rule(call)]).repeat(0, others)
            }
        };
        let parts =
            [Expr::literal(self.begin.to_string()), first_call, more, Expr::literal(self.end.to_string())];
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
        let mut writer = Writer { tool, builder, shared, contract: &mut contract };
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
        let list = separated(builder, tool.name.as_str(), &members, &separator);
        Ok((Expr::sequence([Expr::literal(open), list, Expr::literal(close)]), contract))
    }

    /// What may follow the beginning of an answer.
    pub(crate) fn answer_rest(&self) -> Result<Grammar, Error> {
        let mark = self.mark();
        let mut builder = Grammar::builder();
        let root = builder.declare("root");
        let text = free::any_text_without(&mut builder, "answer", &forbidden(mark.as_deref()));
        builder.define(root, text);
        compile::built(builder, root)
    }

    fn answer(&self) -> Result<Grammar, Error> {
        let mark = self.mark();
        let forbidden = forbidden(mark.as_deref());
        // Calls that no mark opens are told from answers by how the text begins.
        let not_first: Vec<char> =
            if mark.is_none() { self.opening().trim_start().chars().take(1).collect() } else { Vec::new() };
        let mut builder = Grammar::builder();
        if self.answer.is_empty() {
            let root = free::text_without(&mut builder, "root", &forbidden, &not_first);
            return compile::built(builder, root);
        }
        let root = builder.declare("root");
        let text = free::text_without(&mut builder, "answer", &forbidden, &[]);
        let head = Expr::literal(self.answer.to_string());
        builder.define(root, Expr::sequence([head, Expr::Rule(text)]));
        compile::built(builder, root)
    }

    fn thoughts(&self) -> Result<Option<Reasoning>, Error> {
        let Some((open, close)) = &self.reasoning else { return Ok(None) };
        let grammar = |open: &str| {
            let mut builder = Grammar::builder();
            let root = builder.declare("root");
            let text = free::any_text_without(&mut builder, "thought", &[close]);
            builder
                .define(root, Expr::sequence([Expr::literal(open), text, Expr::literal(close.to_string())]));
            compile::built(builder, root)
        };
        Ok(Some(Reasoning {
            open: open.to_string(),
            close: close.to_string(),
            whole: grammar(open)?,
            inside: grammar("")?,
        }))
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

/// What no answer may hold.
fn forbidden(mark: Option<&str>) -> Vec<&str> {
    dialects::MARKERS.iter().copied().chain(mark).collect()
}

/// A part of a call that is the same for all tools.
fn slot(part: &Part) -> Expr {
    match part {
        Part::Text(text) => Expr::literal(text.to_string()),
        Part::Id => {
            Expr::class([('a', 'z'), ('A', 'Z'), ('0', '9'), ('_', '_'), ('-', '-')]).repeat(1, Some(64))
        }
        Part::Index(_) => Expr::class([('0', '9')]).repeat(1, Some(4)),
        Part::Name | Part::Arguments => Expr::empty(),
    }
}

/// Rules that all tools share.
#[derive(Default)]
pub(super) struct Shared {
    texts: Vec<(String, Expr)>,
    gemma: Option<Expr>,
}

impl Shared {
    /// Any text without `end`.
    pub(super) fn text(&mut self, builder: &mut GrammarBuilder, end: &str) -> Expr {
        if let Some((_, expr)) = self.texts.iter().find(|(known, _)| known == end) {
            return expr.clone();
        }
        let expr = free::any_text_without(builder, "value", &[end]);
        self.texts.push((end.to_owned(), expr.clone()));
        expr
    }
}

/// Writes the members of one tool.
pub(super) struct Writer<'w> {
    pub(super) tool: &'w ToolSpec,
    pub(super) builder: &'w mut GrammarBuilder,
    pub(super) shared: &'w mut Shared,
    contract: &'w mut Contract,
}

impl Writer<'_> {
    fn member(&mut self, arguments: &Arguments, field: &Field) -> Result<Expr, Error> {
        match arguments {
            Arguments::Elements(elements) => self.element(elements, field),
            Arguments::Gemma(quote) => {
                let value = self.gemma(field, quote)?;
                Ok(Expr::sequence([Expr::literal(format!("{}:", field.name)), value]))
            }
            Arguments::Pythonic | Arguments::Json(_) => {
                let value = self.json(field, &field.schema)?;
                Ok(Expr::sequence([Expr::literal(format!("{}=", field.name)), value]))
            }
        }
    }

    pub(super) fn json(&mut self, field: &Field, schema: &Value) -> Result<Expr, Error> {
        let name = format!("{}-{}", self.tool.name, field.name);
        let (rule, _) = compile::compile_schema(self.tool, schema, self.builder, Whitespace::Spaced, &name)?;
        Ok(Expr::Rule(rule))
    }

    fn element(&mut self, elements: &Elements, field: &Field) -> Result<Expr, Error> {
        let schema = Schema::whole(&field.schema);
        let kinds = schema.kinds();
        let middle = &elements.middle;
        let mut alternatives = Vec::new();
        if kinds.string {
            let text = self.text(elements, field, schema);
            alternatives.push(Expr::sequence([Expr::literal(middle.string.to_string()), text]));
        }
        for (kind, names, text) in [
            (kinds.integer || kinds.number, &["integer", "number"][..], &middle.number),
            (kinds.boolean, &["boolean"][..], &middle.boolean),
            (kinds.array, &["array"][..], &middle.array),
            (kinds.object || kinds.null, &["object", "null"][..], &middle.object),
        ] {
            if !kind {
                continue;
            }
            let nested = if names.contains(&"array") || names.contains(&"object") {
                self.nested(elements, field, schema)
            } else {
                None
            };
            if let Some(nested) = nested {
                alternatives.push(Expr::sequence([Expr::literal(text.to_string()), nested]));
            }
            let value = if kinds.is_boolean() && elements.python_literals {
                Expr::choice([Expr::literal("True"), Expr::literal("False")])
            } else {
                let mut narrowed = json!({"allOf": [field.schema], "type": names});
                lift_definitions(&mut narrowed);
                match self.json(field, &narrowed) {
                    Ok(value) => value,
                    // Nothing of this kind can be.
                    Err(_) => continue,
                }
            };
            alternatives.push(Expr::sequence([Expr::literal(text.to_string()), value]));
        }
        if alternatives.is_empty() {
            let value = self.json(field, &field.schema)?;
            alternatives.push(Expr::sequence([Expr::literal(middle.object.to_string()), value]));
        }
        Ok(Expr::sequence([
            Expr::literal(format!("{}{}", elements.open, field.name)),
            Expr::choice(alternatives),
            Expr::literal(elements.close.of(&field.name)),
        ]))
    }

    /// Bare text: one of the listed ones, or any that does not end the element.
    fn text(&mut self, elements: &Elements, field: &Field, schema: Schema<'_>) -> Expr {
        if let Some(values) = listed(&field.schema) {
            let texts = values.iter().filter(|value| value.is_string());
            return Expr::choice(texts.map(|value| Expr::literal(elements.value(value, schema))));
        }
        let end = match &elements.close {
            Close::Text(close) => close.trim().to_owned(),
            Close::Keyed(before, _) => before.trim().to_owned(),
        };
        let spelled = |text: &str| Some(elements.value(&Value::String(text.to_owned()), schema));
        if let Some(chosen) = self.chosen(field, &end, &spelled) {
            return chosen;
        }
        self.unenforced(field, &["pattern", "format", "minLength", "maxLength", CHOICES]);
        self.shared.text(self.builder, &end)
    }

    /// Bare text that is among the choices of a field, each listed one `spelled` as the family writes it.
    fn chosen(&mut self, field: &Field, end: &str, spelled: &dyn Fn(&str) -> Option<String>) -> Option<Expr> {
        let said = choices::read(field.schema.get(CHOICES)?).ok()?;
        let as_written: Vec<String> = match &said {
            Texts::Among { texts, .. } => texts.iter().filter_map(|text| spelled(text)).collect(),
            Texts::OnceIn(_) => Vec::new(),
        };
        let choices = match said {
            Texts::Among { beginnings, .. } => {
                Texts::Among { texts: as_written.iter().map(String::as_str).collect(), beginnings }
            }
            pieces @ Texts::OnceIn(_) => pieces,
        };
        let name = format!("{}-{}", self.tool.name, field.name);
        let options = toolgate_grammar::Options::default();
        // Where none can be written this way, any text may be, and the call is told what is wrong with it.
        let rule =
            toolgate_grammar::compile::choices_into(&choices, end, &options, self.builder, &name).ok()?;
        self.unenforced(field, &["pattern", "format", "minLength", "maxLength"]);
        Some(Expr::Rule(rule))
    }

    fn gemma(&mut self, field: &Field, quote: &str) -> Result<Expr, Error> {
        let schema = Schema::whole(&field.schema);
        let kinds = schema.kinds();
        let mut alternatives = Vec::new();
        if kinds.string {
            let text = match listed(&field.schema) {
                Some(values) => Expr::choice(values.iter().filter(|value| value.is_string()).map(|value| {
                    let mut out = String::new();
                    super::syntax::gemma(value, quote, &mut out);
                    Expr::literal(out)
                })),
                None => self.gemma_text(field, quote)?,
            };
            alternatives.push(text);
        }
        if kinds.integer || kinds.number || kinds.boolean || kinds.null {
            let mut narrowed =
                json!({"allOf": [field.schema], "type": ["number", "integer", "boolean", "null"]});
            lift_definitions(&mut narrowed);
            alternatives.extend(self.json(field, &narrowed).ok());
        }
        if kinds.array || kinds.object {
            self.unenforced(field, &[""]);
            alternatives.push(self.gemma_any(quote)?);
        }
        Ok(Expr::choice(alternatives))
    }

    fn gemma_text(&mut self, field: &Field, quote: &str) -> Result<Expr, Error> {
        let quoted = |text| Expr::sequence([Expr::literal(quote), text, Expr::literal(quote)]);
        // What holds an angle is written as JSON.
        let plain = |text: &str| (!text.contains('<')).then(|| text.to_owned());
        if let Some(chosen) = self.chosen(field, quote, &plain) {
            let texts = field.schema.get(CHOICES).and_then(|choices| choices.get("texts"));
            let texts = texts.and_then(Value::as_array).into_iter().flatten();
            let angled =
                texts.filter(|text| text.as_str().is_some_and(|text| text.contains('<'))).map(|text| {
                    let mut out = String::new();
                    super::syntax::gemma(text, quote, &mut out);
                    Expr::literal(out)
                });
            return Ok(Expr::choice(std::iter::once(quoted(chosen)).chain(angled.collect::<Vec<_>>())));
        }
        self.unenforced(field, &["pattern", "format", "minLength", "maxLength", CHOICES]);
        let text = self.shared.text(self.builder, quote);
        let json = self.json(field, &json!({"type": "string"}))?;
        Ok(Expr::choice([quoted(text), json]))
    }

    /// Any list or object.
    fn gemma_any(&mut self, quote: &str) -> Result<Expr, Error> {
        if let Some(known) = &self.shared.gemma {
            return Ok(known.clone());
        }
        let whole = self.builder.declare("nested");
        let value = self.builder.declare("nested-value");
        let name = Field { name: "any".to_owned(), schema: Value::Bool(true), is_required: true };
        let scalar = self.json(&name, &json!({"type": ["number", "boolean", "null", "string"]}))?;
        let text = self.shared.text(self.builder, quote);
        let quoted = Expr::sequence([Expr::literal(quote), text, Expr::literal(quote)]);
        let string = self.json(&name, &json!({"type": "string"}))?;
        let word =
            Expr::class([('a', 'z'), ('A', 'Z'), ('0', '9'), ('_', '_'), ('-', '-')]).repeat(1, Some(128));
        let member = Expr::sequence([Expr::choice([word, string]), Expr::literal(":"), Expr::Rule(value)]);
        let list = |item: Expr| {
            Expr::sequence([item.clone(), Expr::sequence([Expr::literal(","), item]).repeat(0, None)])
                .optional()
        };
        let object = Expr::sequence([Expr::literal("{"), list(member), Expr::literal("}")]);
        let array = Expr::sequence([Expr::literal("["), list(Expr::Rule(value)), Expr::literal("]")]);
        self.builder.define(whole, Expr::choice([object, array]));
        self.builder.define(value, Expr::choice([scalar, quoted, Expr::Rule(whole)]));
        self.shared.gemma = Some(Expr::Rule(whole));
        Ok(Expr::Rule(whole))
    }

    /// Takes back the promise of keywords of a field; `""` stands for all that lies beneath it.
    pub(super) fn unenforced(&mut self, field: &Field, keywords: &[&str]) {
        let pointer = format!("/properties/{}", field.name.replace('~', "~0").replace('/', "~1"));
        let weak: Vec<_> = self
            .contract
            .entries()
            .filter(|entry| {
                entry.pointer().strip_prefix(&pointer).is_some_and(|rest| {
                    rest.starts_with('/')
                        && entry.class() == toolgate_grammar::schema::Class::Enforced
                        && entry.keyword() != "type"
                        && keywords.iter().any(|keyword| keyword.is_empty() || entry.keyword() == *keyword)
                })
            })
            .map(|entry| (entry.pointer().to_owned(), "this family writes the value as bare text".into()))
            .collect();
        self.contract.weaken(weak);
    }
}

/// The values a schema lists.
pub(super) fn listed(schema: &Value) -> Option<Vec<Value>> {
    if let Some(constant) = schema.get("const") {
        return Some(vec![constant.clone()]);
    }
    schema.get("enum").and_then(Value::as_array).cloned()
}

/// The members in order, optional ones left out or not, with `separator` between those that are there.
pub(super) fn separated(
    builder: &mut GrammarBuilder,
    name: &str,
    members: &[(Expr, bool)],
    separator: &str,
) -> Expr {
    // From the last to the first: what may follow when nothing stands before it yet, and when something does.
    let (mut first, mut later) = (Expr::empty(), Expr::empty());
    for (member, is_required) in members.iter().rev() {
        let with =
            |before: &str, rest: &Expr| Expr::sequence([Expr::literal(before), member.clone(), rest.clone()]);
        let mut opening = vec![with("", &later)];
        let mut following = vec![with(separator, &later)];
        if !is_required {
            opening.push(first);
            following.push(later);
        }
        first = Expr::Rule(builder.rule(&format!("{name}-first"), Expr::choice(opening)));
        later = Expr::Rule(builder.rule(&format!("{name}-next"), Expr::choice(following)));
    }
    first
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

/// Moves definitions out of the schema that was wrapped, to where references look for them.
fn lift_definitions(schema: &mut Value) {
    let inner = schema.pointer_mut("/allOf/0").and_then(Value::as_object_mut);
    let lifted: Vec<(String, Value)> = inner
        .into_iter()
        .flat_map(|inner| {
            ["$schema", "$defs", "definitions"]
                .into_iter()
                .filter_map(|keyword| Some((keyword.to_owned(), inner.shift_remove(keyword)?)))
        })
        .collect();
    if let Some(object) = schema.as_object_mut() {
        object.extend(lifted);
    }
}
