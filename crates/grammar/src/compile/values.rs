//! Enumerations and constants: values written out.
//!
//! Invariant: each value is written as [`render`](super::render) writes it, up to white space.

use std::sync::Arc;

use serde_json::Value;

use crate::schema::Values;
use crate::{Error, Expr};

use super::render::{number_text, string_text};
use super::{Compiler, choice, longer, sequence};

/// Values up to which an enumeration is a plain list; longer ones share prefixes, so that a matcher holds few
/// alternatives at once.
const PLAIN: usize = 64;
/// What writing a value costs, in steps, for each of its size.
const VALUE: u64 = 4;
/// Nesting of shared prefixes before a rule of its own is made.
const NESTED: usize = 12;

impl Compiler<'_, '_> {
    /// One of these values; `None` if there are none.
    pub(super) fn values(&mut self, values: &Arc<Values>, name: &str) -> Result<Option<Expr>, Error> {
        if values.len() <= PLAIN {
            self.spend(VALUE * values.size)?;
            return Ok(self.listed(values));
        }
        let place = Arc::as_ptr(values).addr();
        if let Some((_, known)) = self.lists.get(&place) {
            return Ok(known.clone());
        }
        self.spend(VALUE * values.size)?;
        let written = self.tree(values, name)?;
        // The root has its rule already, and is written once.
        if self.depth == 1 {
            return Ok(written);
        }
        let written = written.map(|tree| self.shared(name, tree)).transpose()?;
        self.lists.insert(place, (Arc::clone(values), written.clone()));
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
        let tree = if list.is_empty() { None } else { Some(self.prefix_tree(&list, name)?) };
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

    /// Sorted texts as a tree of shared prefixes. Texts may be as deep in one another as they are long, so that what is
    /// open stands on a stack of its own.
    fn prefix_tree(&mut self, texts: &[&str], name: &str) -> Result<Expr, Error> {
        let mut open = vec![Open { rest: texts.to_vec(), ..Open::default() }];
        loop {
            let Some(at) = open.last_mut() else { return Ok(Expr::empty()) };
            if let Some(deeper) = at.next() {
                self.spend(1 + deeper.rest.len() as u64)?;
                open.push(deeper);
                continue;
            }
            let Some(done) = open.pop() else { return Ok(Expr::empty()) };
            let mut inner = Expr::choice(done.branches);
            if done.own_rule {
                inner = self.shared(&longer(name, "more"), inner)?;
            }
            match open.last_mut() {
                Some(above) => above.branches.push(sequence([Expr::literal(done.prefix), inner])),
                None => return Ok(inner),
            }
        }
    }
}

/// Texts that begin alike, what they begin with taken off, and what is written of them.
#[derive(Default)]
struct Open<'t> {
    prefix: &'t str,
    rest: Vec<&'t str>,
    /// How many of them are written.
    written: usize,
    depth: usize,
    own_rule: bool,
    branches: Vec<Expr>,
}

impl<'t> Open<'t> {
    /// Writes what needs no branches of its own; returns what does.
    fn next(&mut self) -> Option<Self> {
        while let Some(first) = self.rest.get(self.written).copied() {
            let Some(head) = first.chars().next() else {
                self.branches.push(Expr::empty());
                self.written += 1;
                continue;
            };
            let others = self.rest.iter().skip(self.written);
            let group: Vec<&str> = others.take_while(|text| text.starts_with(head)).copied().collect();
            self.written += group.len();
            if let [only] = group.as_slice() {
                self.branches.push(Expr::literal(*only));
                continue;
            }
            let common = group.last().map_or(0, |last| common_prefix(first, last));
            let (prefix, _) = first.split_at_checked(common).unwrap_or((first, ""));
            let rest = group.iter().filter_map(|text| text.get(common..)).collect();
            let (depth, own_rule) = if self.depth >= NESTED { (0, true) } else { (self.depth + 1, false) };
            return Some(Self { prefix, rest, depth, own_rule, ..Self::default() });
        }
        None
    }
}

/// Bytes that two texts have in common at their start, whole characters only.
fn common_prefix(a: &str, b: &str) -> usize {
    a.chars().zip(b.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum()
}
