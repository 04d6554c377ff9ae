//! Expressions as rules: what is long gets a name, and what is equal gets one rule. Beneath all that compiles.
//!
//! Invariant: what is shared, cloned or compared is counted by its weight.

use std::hash::{BuildHasher, RandomState};

use rustc_hash::FxHashMap;

use crate::schema::{Conjunct, Key};
use crate::work::{bytes, items};
use crate::{Error, Expr, Kind, Place, RuleId};

use super::Compiler;

/// Characters of a rule's name.
const NAME: usize = 80;

/// Bytes of a literal for a step: each becomes a state of the automaton.
const LITERAL: usize = 4;
/// What a rule costs, in steps: its name is made, and looked up.
const RULE: u64 = 4;

/// Rules by the hash of their body, so that equal subschemas share one. The hash is keyed anew for each schema.
#[derive(Default)]
pub(super) struct Rules {
    keys: RandomState,
    by_hash: FxHashMap<u64, Vec<RuleId>>,
    /// How many there are.
    count: usize,
}

impl Compiler<'_, '_> {
    /// The same expression, short: longer ones become a rule, shared with equal ones.
    pub(super) fn shared(&mut self, name: &str, body: Expr) -> Result<Expr, Error> {
        let size = weight(&body);
        self.spend(size)?;
        if matches!(body, Expr::Rule(_) | Expr::Literal(_)) || body == Expr::empty() {
            return Ok(body);
        }
        let hash = self.rules.keys.hash_one(&body);
        let known = self.rules.by_hash.get(&hash).into_iter().flatten();
        if let Some(id) = known.copied().find(|id| self.builder.body(*id) == Some(&body)) {
            return Ok(Expr::Rule(id));
        }
        let id = self.declare(name)?;
        self.builder.define(id, body);
        self.rules.by_hash.entry(hash).or_default().push(id);
        Ok(Expr::Rule(id))
    }

    pub(super) fn declare(&mut self, name: &str) -> Result<RuleId, Error> {
        self.spend(RULE)?;
        self.rules.count += 1;
        let limit = self.options.limits.rules;
        if self.rules.count > limit {
            let message = format!("the schema needs more than {limit} rules");
            let place = Place::Pointer(self.pointer().to_owned());
            return Err(Error::new(Kind::Limit, message)
                .at(place)
                .hint("raise Limits::rules, or split the schema"));
        }
        Ok(self.builder.declare(&legible(name)))
    }

    /// The rule name of a definition, if the key is one.
    pub(super) fn definition(&self, key: &Key) -> Option<String> {
        let [Conjunct::Whole(id)] = key.as_slice() else { return None };
        let pointer = &self.arena.part(*id)?.pointer;
        let name = pointer.strip_prefix("/$defs/").or_else(|| pointer.strip_prefix("/definitions/"))?;
        self.arena.count(bytes(name.len()));
        if name.contains('/') {
            return None;
        }
        Some(if self.prefix == "root" { short(name.chars()) } else { longer(&self.prefix, name) })
    }
}

/// `name-more`, as far as rule names go.
pub(super) fn longer(name: &str, more: &str) -> String {
    short(name.chars().chain(['-']).chain(more.chars()))
}

fn short(name: impl Iterator<Item = char>) -> String {
    name.take(NAME).collect()
}

/// A rule name of bounded length, out of reach of the names that all schemas share.
fn legible(name: &str) -> String {
    let mut out: String =
        name.chars().take(NAME).map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    if out.starts_with("json-") {
        out.insert_str(0, "x-");
    }
    out
}

/// The steps it takes to go through an expression, with what it writes down itself.
pub(super) fn weight(expr: &Expr) -> u64 {
    match expr {
        Expr::Literal(text) => (text.len() / LITERAL) as u64 + 1,
        Expr::Class(class) => items(class.ranges.len()),
        Expr::Any | Expr::Token(_) | Expr::Rule(_) => 1,
        Expr::Sequence(items) | Expr::Choice(items) => 1 + items.iter().map(weight).sum::<u64>(),
        Expr::Repeat { item, .. } => 1 + weight(item),
    }
}

/// A sequence in which neighbouring literals are one.
pub(super) fn sequence(items: impl IntoIterator<Item = Expr>) -> Expr {
    let mut out: Vec<Expr> = Vec::new();
    let mut pending: Vec<Expr> = items.into_iter().collect();
    pending.reverse();
    while let Some(item) = pending.pop() {
        match (out.last_mut(), item) {
            (_, Expr::Sequence(inner)) => pending.extend(inner.into_iter().rev()),
            (Some(Expr::Literal(text)), Expr::Literal(more)) => text.push_str(&more),
            (_, other) => out.push(other),
        }
    }
    Expr::sequence(out)
}

/// Distinct alternatives, in order; `None` if there is none.
pub(super) fn choice(branches: impl IntoIterator<Item = Expr>) -> Option<Expr> {
    let mut distinct: Vec<Expr> = Vec::new();
    let keys = RandomState::new();
    let mut places: FxHashMap<u64, Vec<usize>> = FxHashMap::default();
    for branch in branches {
        let same = places.entry(keys.hash_one(&branch)).or_default();
        if !same.iter().any(|i| distinct.get(*i) == Some(&branch)) {
            same.push(distinct.len());
            distinct.push(branch);
        }
    }
    if distinct.is_empty() { None } else { Some(Expr::choice(distinct)) }
}
