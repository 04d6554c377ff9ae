//! Lists and objects as Python writes them, where a template prints them so: `['a', 'b']`, `{'n': 1, 'all': True}`.
//!
//! Invariant: what is written here the grammar here accepts; a value that would not read back the same is written as JSON.

use serde_json::Value;
use toolgate_grammar::{Expr, GrammarBuilder};

use super::syntax::{Elements, Lists};
use super::turn::Field;
use super::writer::{Shared, Writer, listed, separated};
use crate::fallback::typing::{Kinds, Schema, mended};

/// Lists and objects within each other that are written.
const DEPTH: usize = 8;

/// A schema that says no more than Python's way to write a value holds to.
enum Plain<'t> {
    Text,
    /// One of these texts.
    Listed(Vec<String>),
    Number,
    Truth,
    List(Schema<'t>),
    Object(Vec<(String, Schema<'t>, bool)>),
}

impl<'t> Plain<'t> {
    fn of(schema: Schema<'t>) -> Option<Self> {
        let kinds = schema.kinds();
        let none = Kinds::default();
        if kinds.is_text() {
            let own = schema.own()?.as_object()?;
            let plain = ["type", "enum", "const", "title", "description", "default", "examples"];
            if !own.keys().all(|key| plain.contains(&key.as_str())) {
                return None;
            }
            let Some(values) = listed(schema.own()?) else { return Some(Self::Text) };
            let text =
                |value: &Value| value.as_str().filter(|text| quoted(text).is_some()).map(str::to_owned);
            return values.iter().map(text).collect::<Option<_>>().map(Self::Listed);
        }
        if kinds.is_boolean() {
            return listed(schema.own()?).is_none().then_some(Self::Truth);
        }
        if kinds.is_scalar() && !kinds.boolean {
            return schema.is_known().then_some(Self::Number);
        }
        if kinds == (Kinds { array: true, ..none }) {
            return schema.items().map(Self::List);
        }
        if kinds == (Kinds { object: true, ..none }) {
            return schema.members().map(Self::Object);
        }
        None
    }

    /// Whether all that a schema lets through is plain.
    fn all(schema: Schema<'_>, depth: usize) -> bool {
        let Some(depth) = depth.checked_sub(1) else { return false };
        match Plain::of(schema) {
            None => false,
            Some(Plain::List(item)) => Self::all(item, depth),
            Some(Plain::Object(members)) => members.iter().all(|(_, member, _)| Self::all(*member, depth)),
            Some(_) => true,
        }
    }
}

impl Elements {
    /// A list or an object as Python writes it; `None` where it is written as JSON.
    pub(crate) fn python_text(&self, value: &Value, schema: Schema<'_>) -> Option<String> {
        if self.lists != Lists::Python || !Plain::all(schema, DEPTH) {
            return None;
        }
        let mut out = String::new();
        push(value, schema, &mut out)?;
        (mended(&out).as_ref() == Some(value)).then_some(out)
    }
}

fn push(value: &Value, schema: Schema<'_>, out: &mut String) -> Option<()> {
    match (Plain::of(schema)?, value) {
        (Plain::Text, Value::String(text)) => out.push_str(&quoted(text)?),
        (Plain::Listed(texts), Value::String(text)) if texts.contains(text) => out.push_str(&quoted(text)?),
        (Plain::Number, Value::Number(number)) => out.push_str(&number.to_string()),
        (Plain::Truth, Value::Bool(flag)) => out.push_str(if *flag { "True" } else { "False" }),
        (Plain::List(item), Value::Array(items)) => {
            out.push('[');
            for (i, value) in items.iter().enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                push(value, item, out)?;
            }
            out.push(']');
        }
        (Plain::Object(members), Value::Object(object)) => {
            // Members in the schema's order, as the grammar has them.
            let mut declared = members.iter();
            out.push('{');
            for (i, (key, value)) in object.iter().enumerate() {
                let (_, member, _) = declared.find(|(name, _, _)| name == key)?;
                out.push_str(if i > 0 { ", " } else { "" });
                out.push_str(&format!("{}: ", quoted(key)?));
                push(value, *member, out)?;
            }
            out.push('}');
            let is_missing =
                |(name, _, required): &(String, Schema<'_>, bool)| *required && !object.contains_key(name);
            return (!members.iter().any(is_missing)).then_some(());
        }
        _ => return None,
    }
    Some(())
}

/// A text in the quotes that Python chooses; `None` where it holds what Python would write as a number.
fn quoted(text: &str) -> Option<String> {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut out = String::from(quote);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => return None,
            c if c == quote || c == '\\' => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out.push(quote);
    Some(out)
}

impl Writer<'_> {
    /// A list or an object as Python writes it; `None` where its schema is not one that is written so.
    pub(super) fn python(&mut self, elements: &Elements, field: &Field, schema: Schema<'_>) -> Option<Expr> {
        let is_python = elements.lists == Lists::Python && Plain::all(schema, DEPTH);
        if is_python { self.python_value(field, schema) } else { None }
    }

    fn python_value(&mut self, field: &Field, schema: Schema<'_>) -> Option<Expr> {
        let list = |item: Expr| {
            let more = Expr::sequence([Expr::literal(", "), item.clone()]).repeat(0, None);
            Expr::sequence([Expr::literal("["), Expr::sequence([item, more]).optional(), Expr::literal("]")])
        };
        Some(match Plain::of(schema)? {
            Plain::Text => self.shared.python_text(self.builder),
            Plain::Listed(texts) => {
                Expr::choice(texts.iter().filter_map(|text| quoted(text)).map(Expr::literal))
            }
            Plain::Number => self.json(field, &schema.document()).ok()?,
            Plain::Truth => Expr::choice([Expr::literal("True"), Expr::literal("False")]),
            Plain::List(item) => list(self.python_value(field, item)?),
            Plain::Object(declared) => {
                let mut members = Vec::with_capacity(declared.len());
                for (key, member, is_required) in declared {
                    let key = Expr::literal(format!("{}: ", quoted(&key)?));
                    members.push((Expr::sequence([key, self.python_value(field, member)?]), is_required));
                }
                let members = separated(self.builder, field.name(), &members, &Expr::literal(", "));
                Expr::sequence([Expr::literal("{"), members, Expr::literal("}")])
            }
        })
    }
}

impl Shared {
    /// A text in either of Python's quotes.
    fn python_text(&mut self, builder: &mut GrammarBuilder) -> Expr {
        self.python.get_or_insert_with(|| Expr::Rule(builder.rule("python-text", either_quote()))).clone()
    }
}

fn either_quote() -> Expr {
    let quoted = |quote: char| {
        let plain = Expr::not_class([(quote, quote), ('\\', '\\'), ('\0', '\u{1f}'), ('\u{7f}', '\u{9f}')]);
        let escaped = ['\\', quote, 'n', 'r', 't'].map(|c| (c, c));
        let escaped = Expr::sequence([Expr::literal("\\"), Expr::class(escaped)]);
        let text = Expr::choice([plain, escaped]).repeat(0, None);
        Expr::sequence([Expr::literal(quote.to_string()), text, Expr::literal(quote.to_string())])
    };
    Expr::choice([quoted('\''), quoted('"')])
}
