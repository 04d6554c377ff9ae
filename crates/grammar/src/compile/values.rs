//! Enumerations and constants: values written out.
//!
//! Invariant: each value is written as [`render`](super::render) writes it, up to white space.

use std::sync::Arc;

use serde_json::Value;

use crate::{Error, Expr};

use super::render::{number_text, string_text};
use super::{Compiler, choice, sequence};

/// Values up to which an enumeration is a plain list; longer ones share prefixes, so that a matcher holds few
/// alternatives at once.
const PLAIN: usize = 64;
/// Nesting of shared prefixes before a rule of its own is made.
const NESTED: usize = 12;

impl Compiler<'_, '_> {
    /// One of these values; `None` if there are none.
    pub(super) fn values(&mut self, values: &Arc<Vec<Value>>, name: &str) -> Result<Option<Expr>, Error> {
        if values.len() <= PLAIN {
            return Ok(self.listed(values));
        }
        if let Some((_, known)) = self.lists.iter().find(|(list, _)| Arc::ptr_eq(list, values)) {
            return Ok(known.clone());
        }
        let written = self.tree(values, name)?;
        // The root has its rule already, and is written once.
        if name == self.prefix {
            return Ok(written);
        }
        let written = written.map(|tree| self.shared(name, tree)).transpose()?;
        self.lists.push((Arc::clone(values), written.clone()));
        Ok(written)
    }

    fn listed(&mut self, values: &[Value]) -> Option<Expr> {
        let literals: Vec<Expr> = values.iter().map(|value| self.literal(value)).collect();
        choice(literals)
    }

    /// Many values, those that begin alike together.
    fn tree(&mut self, values: &[Value], name: &str) -> Result<Option<Expr>, Error> {
        let mut texts: Vec<String> = Vec::new();
        let mut others = Vec::new();
        for value in values {
            match self.literal(value) {
                Expr::Literal(text) => texts.push(text),
                other => others.push(other),
            }
        }
        texts.sort_unstable();
        texts.dedup();
        let list = texts.iter().map(String::as_str).collect::<Vec<_>>();
        let tree = if list.is_empty() { None } else { Some(self.prefix_tree(&list, 0, name)?) };
        Ok(choice(tree.into_iter().chain(others)))
    }

    /// A value, with white space where the options allow it.
    fn literal(&mut self, value: &Value) -> Expr {
        match value {
            Value::Null => Expr::literal("null"),
            Value::Bool(value) => Expr::literal(if *value { "true" } else { "false" }),
            Value::Number(number) => Expr::literal(number_text(number)),
            Value::String(text) => Expr::literal(string_text(text)),
            Value::Array(items) => {
                let items: Vec<Expr> = items.iter().map(|item| self.literal(item)).collect();
                self.bracketed("[", items, "]")
            }
            Value::Object(map) => {
                let mut members = Vec::new();
                for (key, value) in map {
                    let colon = self.json.colon(self.builder);
                    members.push(sequence([Expr::literal(string_text(key)), colon, self.literal(value)]));
                }
                self.bracketed("{", members, "}")
            }
        }
    }

    fn bracketed(&mut self, open: &str, items: Vec<Expr>, close: &str) -> Expr {
        if items.is_empty() {
            let gap = self.json.gap(self.builder);
            return sequence([Expr::literal(open), gap, Expr::literal(close)]);
        }
        let gap = self.json.gap(self.builder);
        let mut out = vec![Expr::literal(open), gap.clone()];
        for (i, item) in items.into_iter().enumerate() {
            if i > 0 {
                out.push(self.json.comma(self.builder));
            }
            out.push(item);
        }
        out.extend([gap, Expr::literal(close)]);
        sequence(out)
    }

    /// Sorted texts as a tree of shared prefixes.
    fn prefix_tree(&mut self, texts: &[&str], depth: usize, name: &str) -> Result<Expr, Error> {
        let mut branches: Vec<Expr> = Vec::new();
        let mut rest = texts;
        while let Some(first) = rest.first() {
            let Some(head) = first.chars().next() else {
                branches.push(Expr::empty());
                rest = rest.get(1..).unwrap_or_default();
                continue;
            };
            let alike = rest.iter().take_while(|text| text.starts_with(head)).count();
            let (group, after) = rest.split_at_checked(alike).unwrap_or((rest, &[]));
            rest = after;
            let common = group.last().map_or(0, |last| common_prefix(first, last));
            let (prefix, _) = first.split_at_checked(common).unwrap_or((first, ""));
            let tails: Vec<&str> = group.iter().filter_map(|text| text.get(common..)).collect();
            if let [tail] = tails.as_slice() {
                branches.push(Expr::literal(format!("{prefix}{tail}")));
                continue;
            }
            let (inner_depth, own_rule) = if depth >= NESTED { (0, true) } else { (depth + 1, false) };
            let mut inner = self.prefix_tree(&tails, inner_depth, name)?;
            if own_rule {
                inner = self.shared(&format!("{name}-more"), inner)?;
            }
            branches.push(sequence([Expr::literal(prefix), inner]));
        }
        Ok(Expr::choice(branches))
    }
}

/// Bytes that two texts have in common at their start, whole characters only.
fn common_prefix(a: &str, b: &str) -> usize {
    a.chars().zip(b.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum()
}
