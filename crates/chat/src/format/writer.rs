//! The members of a call as grammar rules: one argument after the other, as a family writes them.

use serde_json::{Value, json};
use toolgate_grammar::marks::MarkTokens;
use toolgate_grammar::schema::Texts;
use toolgate_grammar::{Contract, Expr, GrammarBuilder, Whitespace};

use super::compile;
use super::free;
use super::syntax::{Arguments, Close, Elements};
use super::turn::{Field, ends};
use super::written::Written;
use crate::choices::{self, CHOICES};
use crate::error::Error;
use crate::fallback::typing::Schema;
use crate::spec::ToolSpec;

/// Rules that all tools share.
#[derive(Default)]
pub(super) struct Shared {
    texts: Vec<(String, Expr)>,
    gemma: Option<Expr>,
    pub(super) python: Option<Expr>,
}

impl Shared {
    /// Any text without `end`.
    pub(super) fn text(&mut self, builder: &mut GrammarBuilder, end: &str, tokens: &MarkTokens) -> Expr {
        if let Some((_, expr)) = self.texts.iter().find(|(known, _)| known == end) {
            return expr.clone();
        }
        let ends = ends(tokens, end);
        let without: Vec<&str> = ends.iter().map(String::as_str).collect();
        let expr = free::any_text_without(builder, "value", &without);
        self.texts.push((end.to_owned(), expr.clone()));
        expr
    }
}

/// Writes the members of one tool.
pub(super) struct Writer<'w> {
    pub(super) tool: &'w ToolSpec,
    pub(super) builder: &'w mut GrammarBuilder,
    pub(super) shared: &'w mut Shared,
    pub(super) contract: &'w mut Contract,
    pub(super) tokens: &'w MarkTokens,
}

impl Writer<'_> {
    pub(super) fn member(&mut self, arguments: &Arguments, field: &Field) -> Result<Expr, Error> {
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
            alternatives.push(Expr::sequence([self.written(&middle.string), text]));
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
                let nested = self.nested(elements, field, schema);
                nested.or_else(|| self.python(elements, field, schema))
            } else {
                None
            };
            if let Some(nested) = nested {
                alternatives.push(Expr::sequence([self.written(text), nested]));
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
            alternatives.push(Expr::sequence([self.written(text), value]));
        }
        if alternatives.is_empty() {
            let value = self.json(field, &field.schema)?;
            alternatives.push(Expr::sequence([self.written(&middle.object), value]));
        }
        Ok(Expr::sequence([
            self.written(&format!("{}{}", elements.open, field.name)),
            Expr::choice(alternatives),
            self.written(&elements.close.of(&field.name)),
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
        self.shared.text(self.builder, &end, self.tokens)
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
                Some(values) => {
                    Expr::choice(values.iter().filter_map(Value::as_str).map(|text| self.quoted(text, quote)))
                }
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
        let mark = self.written(quote);
        let quoted = |text| Expr::sequence([mark.clone(), text, mark.clone()]);
        // What holds the quote is written as JSON.
        let plain = |text: &str| (!text.contains(quote)).then(|| text.to_owned());
        if let Some(chosen) = self.chosen(field, quote, &plain) {
            let texts = field.schema.get(CHOICES).and_then(|choices| choices.get("texts"));
            let texts = texts.and_then(Value::as_array).into_iter().flatten();
            let angled = texts
                .filter_map(Value::as_str)
                .filter(|text| text.contains(quote))
                .map(|text| self.quoted(text, quote));
            return Ok(Expr::choice(std::iter::once(quoted(chosen)).chain(angled.collect::<Vec<_>>())));
        }
        self.unenforced(field, &["pattern", "format", "minLength", "maxLength", CHOICES]);
        let text = self.shared.text(self.builder, quote, self.tokens);
        let json = self.json(field, &json!({"type": "string"}))?;
        Ok(Expr::choice([quoted(text), json]))
    }

    /// A text as Gemma writes it: in its quote, or as JSON where the quote could be in it.
    fn quoted(&self, text: &str, quote: &str) -> Expr {
        let mut out = Written::new(self.tokens);
        super::syntax::gemma(&Value::String(text.to_owned()), quote, &mut out);
        out.finish().expr()
    }

    /// A text of the syntax: its marks as tokens, where they are.
    pub(super) fn written(&self, text: &str) -> Expr {
        self.tokens.resolve(text).expr()
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
        let text = self.shared.text(self.builder, quote, self.tokens);
        let quoted = Expr::sequence([self.written(quote), text, self.written(quote)]);
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
    separator: &Expr,
) -> Expr {
    // From the last to the first: what may follow when nothing stands before it yet, and when something does.
    let (mut first, mut later) = (Expr::empty(), Expr::empty());
    for (member, is_required) in members.iter().rev() {
        let with =
            |before: &Expr, rest: &Expr| Expr::sequence([before.clone(), member.clone(), rest.clone()]);
        let mut opening = vec![with(&Expr::empty(), &later)];
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
