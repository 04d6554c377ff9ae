//! A schema's parts with those made up for it, what is known of them, and how they are named together. Below `evaluate`,
//! `shape` and `merge`.
//!
//! Invariant: a part, once it has an id, does not change.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::Value;

use super::Schema;
use super::part::{Part, PartId, Types};
use super::pattern::{NFA_STATES, Pattern};
use super::values::Values;
use crate::Limits;
use crate::work::Work;

/// One element of a [`Key`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Conjunct {
    /// A part and all it refers to.
    Whole(PartId),
    /// A part's own keywords alone.
    Own(PartId),
    /// One choice of a part, still open.
    Open(PartId, u32),
    /// One choice of a part, already made in this conjunction.
    Made(PartId, u32),
}

/// Parts that hold together, in the order of the document.
pub(crate) type Key = Vec<Conjunct>;

/// A key with its references followed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Normal {
    /// Parts whose own keywords say something.
    pub(crate) own: Vec<PartId>,
    pub(crate) open: Vec<(PartId, u32)>,
    pub(crate) made: Vec<(PartId, u32)>,
}

impl Normal {
    /// The key that normalizes to this.
    pub(crate) fn key(&self) -> Key {
        let own = self.own.iter().map(|id| Conjunct::Own(*id));
        let made = self.made.iter().map(|(id, choice)| Conjunct::Made(*id, *choice));
        own.chain(made).chain(self.open.iter().map(|(id, choice)| Conjunct::Open(*id, *choice))).collect()
    }
}

/// A key without open choices.
#[derive(Clone, Debug)]
pub(crate) struct Leaf {
    pub(crate) types: Types,
    /// The only values allowed, each checked against the other keywords.
    pub(crate) values: Option<Arc<Values>>,
    pub(crate) not_values: Vec<Arc<Values>>,
    pub(crate) own: Vec<PartId>,
}

impl Leaf {
    /// Whether it excludes a value by listing it.
    pub(crate) fn excludes(&self, value: &Value) -> bool {
        self.not_values.iter().any(|values| values.has(value))
    }

    /// Whether it excludes values of these types.
    pub(crate) fn excludes_any(&self, types: Types) -> bool {
        self.not_values.iter().any(|values| values.types.has(types))
    }
}

/// How often [`Limits::work`] the proofs of one schema may take; what is not proven by then counts as not provable.
const PROOFS: u64 = 2;
/// States that the automata of one schema's patterns may have before they are determinized, all in all.
const ROOM: u64 = 5 * NFA_STATES;

/// A schema, and parts made up during compilation.
#[derive(Debug)]
pub(crate) struct Arena<'s> {
    pub(crate) schema: &'s Schema,
    extra: Vec<Part>,
    /// What is done beside proofs. Where it is over, results are of no use, and whoever compiles ends with an error.
    pub(crate) work: Work,
    /// Steps that proofs may still take, all in all: a bound on time. Without any, nothing is proven.
    left: Cell<u64>,
    /// Steps that proofs have taken.
    proven: Cell<u64>,
    /// Whether steps are those of a proof.
    pub(super) proving: Cell<bool>,
    /// Parts that the evaluation at hand may still look at.
    pub(super) steps: Cell<u64>,
    /// Whether an evaluation was cut short.
    pub(super) cut: Cell<bool>,
    /// What is left of lists of values, by the parts that hold, and how many values that are.
    pub(super) kept: RefCell<(FxHashMap<Vec<PartId>, Kept>, usize)>,
    /// Where parts that are but a reference lead in the end.
    pub(super) targets: RefCell<FxHashMap<PartId, PartId>>,
    /// Patterns whose automata were asked for, by where they are in memory, and the states that others may have.
    automata: RefCell<(FxHashSet<usize>, u64)>,
}

/// What is left of a list of values, and whether some of it is not certain.
pub(super) type Kept = (Arc<Values>, bool);

impl<'s> Arena<'s> {
    pub(crate) fn new(schema: &'s Schema, limits: &Limits) -> Self {
        Self::for_value(schema, limits, 0)
    }

    /// To go through a value of this size with it.
    pub(crate) fn for_value(schema: &'s Schema, limits: &Limits, size: u64) -> Self {
        Self {
            schema,
            extra: Vec::new(),
            work: Work::new(limits, schema.size.saturating_add(size)),
            left: Cell::new((limits.work as u64).saturating_mul(PROOFS)),
            proven: Cell::new(0),
            proving: Cell::new(false),
            steps: Cell::new(0),
            cut: Cell::new(false),
            kept: RefCell::default(),
            targets: RefCell::default(),
            automata: RefCell::new((FxHashSet::default(), ROOM)),
        }
    }

    /// Takes steps from what is left for proofs; false when there are none left.
    pub(super) fn spend(&self, steps: u64) -> bool {
        let left = self.left.get();
        self.left.set(left.saturating_sub(steps));
        if left > 0 {
            self.proven.set(self.proven.get().saturating_add(steps));
        }
        left > 0
    }

    /// Counts steps, as those of a proof where there is one; false where there are none left.
    pub(crate) fn count(&self, steps: u64) -> bool {
        if self.proving.get() { self.spend(steps) } else { self.work.spend(steps) }
    }

    /// All steps taken.
    pub(crate) fn taken(&self) -> u64 {
        self.work.taken().saturating_add(self.proven.get())
    }

    /// Whether something is proven. What came of it when no steps were left may rest on half of what holds.
    pub(super) fn proven(&self, proof: impl FnOnce() -> bool) -> bool {
        let outer = self.proving.replace(true);
        let holds = proof();
        self.proving.set(outer);
        holds && self.left.get() > 0
    }

    /// Whether there is room for the automaton of a pattern that is not determinized. The answer for a pattern depends
    /// on those before it, not on which of them were made already.
    pub(crate) fn has_room(&self, pattern: &Arc<Pattern>) -> bool {
        let (known, left) = &mut *self.automata.borrow_mut();
        if pattern.states > NFA_STATES {
            return false;
        }
        let place = Arc::as_ptr(pattern).addr();
        if known.contains(&place) {
            return true;
        }
        let Some(rest) = left.checked_sub(pattern.states) else { return false };
        *left = rest;
        known.insert(place);
        self.proven.set(self.proven.get().saturating_add(pattern.states));
        true
    }

    /// Whether a pattern is found in a text; none if that would take too much to tell.
    pub(crate) fn is_match(&self, pattern: &Arc<Pattern>, text: &str) -> Option<bool> {
        let left = if self.proving.get() { self.left.get() } else { self.work.left() };
        if left == 0 || pattern.choices.is_none() && !self.has_room(pattern) {
            return None;
        }
        let (found, steps) = pattern.is_match(text, left);
        self.count(steps);
        found
    }

    pub(crate) fn part(&self, id: PartId) -> Option<&Part> {
        let index = id.index();
        match index.checked_sub(self.schema.parts.len()) {
            None => self.schema.parts.get(index),
            Some(index) => self.extra.get(index),
        }
    }

    /// Adds a part; none when there are too many to number.
    pub(crate) fn add(&mut self, part: Part) -> Option<PartId> {
        let id = u32::try_from(self.schema.parts.len() + self.extra.len()).ok()?;
        self.extra.push(part);
        Some(PartId(id))
    }

    pub(super) fn parts<'a>(&'a self, own: &'a [PartId]) -> impl Iterator<Item = &'a Part> {
        own.iter().filter_map(|id| self.part(*id))
    }
}
