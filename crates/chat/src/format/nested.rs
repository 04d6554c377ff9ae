//! Lists and objects as elements within elements, where a family writes them so: `<tags><item>a</item></tags>`.
//!
//! Invariant: what is written here the grammar here accepts; a value that would not read back the same is written as JSON.

use serde_json::{Value, json};
use toolgate_grammar::Expr;

use super::syntax::{Close, Elements, Lists};
use super::turn::Field;
use super::writer::{Writer, listed, separated};
use crate::fallback::source::Source;
use crate::fallback::typing::{self, Schema};
use crate::fallback::xml;

/// Elements within elements that are written.
const DEPTH: usize = 8;
/// The element of a list.
const ITEM: &str = "item";

impl Elements {
    /// A list or object as elements; `None` where it is written as JSON.
    pub(crate) fn nested_text(&self, value: &Value, schema: Schema<'_>) -> Option<String> {
        if self.lists != Lists::Elements || !(value.is_array() || value.is_object()) {
            return None;
        }
        if !can_nest(schema, DEPTH) {
            return None;
        }
        let mut out = String::new();
        self.push_nested(value, schema, DEPTH, &mut out)?;
        let key = "value";
        let whole = format!("{out}{}", self.close.of(key));
        let read = xml::nested(&mut Source::new(&whole, true).at(0), key, schema);
        let empty = out.is_empty() && (value == &json!([]) || value == &json!({}));
        (read.as_ref() == Some(value) || (empty && schema.value_of_nothing().as_ref() == Some(value)))
            .then_some(out)
    }

    fn push_nested(&self, value: &Value, schema: Schema<'_>, depth: usize, out: &mut String) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        match value {
            Value::Object(object) => {
                let members = schema.members()?;
                // Members in the schema's order, as the grammar has them.
                let mut declared = members.iter();
                for (key, value) in object {
                    let (_, schema, _) = declared.find(|(name, _, _)| name == key)?;
                    self.push_element(key, value, *schema, depth, out)?;
                }
                let is_missing = |(name, _, required): &(String, Schema<'_>, bool)| {
                    *required && !object.contains_key(name)
                };
                (!members.iter().any(is_missing)).then_some(())
            }
            Value::Array(items) => {
                let schema = schema.items()?;
                items.iter().try_for_each(|item| self.push_element(ITEM, item, schema, depth, out))
            }
            Value::Null => None,
            Value::String(text) => {
                let is_plain = schema.kinds().is_text()
                    && !text.contains(['<', '[', ']'])
                    && typing::text(text) == *text;
                is_plain.then(|| out.push_str(text))
            }
            scalar => (!schema.kinds().string).then(|| out.push_str(&scalar.to_string())),
        }
    }

    fn push_element(
        &self,
        key: &str,
        value: &Value,
        schema: Schema<'_>,
        depth: usize,
        out: &mut String,
    ) -> Option<()> {
        out.push_str(&format!("{}{key}{}", self.open, self.middle.of(value)));
        self.push_nested(value, schema, depth, out)?;
        out.push_str(&self.close.of(key));
        Some(())
    }
}

impl Writer<'_> {
    /// The elements of a list or an object; `None` where its schema is not one that can be written so.
    pub(super) fn nested(&mut self, elements: &Elements, field: &Field, schema: Schema<'_>) -> Option<Expr> {
        if elements.lists != Lists::Elements || !can_nest(schema, DEPTH) {
            return None;
        }
        let nested = self.inside(elements, field, schema, DEPTH)?;
        self.unenforced(field, &[""]);
        Some(nested)
    }

    fn inside(
        &mut self,
        elements: &Elements,
        field: &Field,
        schema: Schema<'_>,
        depth: usize,
    ) -> Option<Expr> {
        let depth = depth.checked_sub(1)?;
        let kinds = schema.kinds();
        if kinds.array && !kinds.object {
            let item = self.element_of(elements, ITEM, field, schema.items()?, depth)?;
            return Some(item.repeat(0, None));
        }
        if kinds.object && !kinds.array {
            let mut members = Vec::new();
            for (key, schema, required) in schema.members()? {
                members.push((self.element_of(elements, &key, field, schema, depth)?, required));
            }
            return Some(separated(self.builder, field.name(), &members, &Expr::empty()));
        }
        None
    }

    fn element_of(
        &mut self,
        elements: &Elements,
        key: &str,
        field: &Field,
        schema: Schema<'_>,
        depth: usize,
    ) -> Option<Expr> {
        let kinds = schema.kinds();
        let own = schema.own()?;
        let value = if kinds.is_text() {
            match listed(own) {
                Some(values) => Expr::choice(values.iter().filter_map(Value::as_str).map(Expr::literal)),
                None => {
                    let Close::Keyed(before, _) = &elements.close else { return None };
                    self.shared.text(self.builder, before.trim(), self.tokens)
                }
            }
        } else if kinds.is_scalar() {
            self.json(field, &schema.document()).ok()?
        } else {
            self.inside(elements, field, schema, depth)?
        };
        let open = self.written(&format!("{}{key}{}", elements.open, elements.middle.object));
        Some(Expr::sequence([open, value, self.written(&elements.close.of(key))]))
    }
}

/// Whether all that a schema lets through can be written as elements.
fn can_nest(schema: Schema<'_>, depth: usize) -> bool {
    let Some(depth) = depth.checked_sub(1) else { return false };
    let kinds = schema.kinds();
    if kinds.is_text() || kinds.is_scalar() {
        return schema.is_known();
    }
    match (kinds.array, kinds.object) {
        (true, false) => !kinds.string && schema.items().is_some_and(|item| can_nest(item, depth)),
        (false, true) => {
            !kinds.string
                && schema
                    .members()
                    .is_some_and(|all| all.iter().all(|(_, member, _)| can_nest(*member, depth)))
        }
        _ => false,
    }
}
