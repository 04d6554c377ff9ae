//! First step of lowering: the reachable rules as one flat array of nodes, each with the cost of the shortest
//! text it matches.
//!
//! Invariant: a node costs [`INFINITE`] exactly if nothing matches it, and 0 exactly if the empty text does.
//! Nothing here recurses, so nesting is bounded by memory alone.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use smallvec::SmallVec;

use super::classes::Classes;
use crate::gbnf::{Expr, Grammar};
use crate::work::ForeignMap;

/// The cost of what cannot be matched.
pub(crate) const INFINITE: u64 = u64::MAX;

/// The cost of a token terminal: more than any text, so that completions avoid them where they can.
pub(crate) const TOKEN: u64 = 1 << 48;

/// Cost of one after the other; what can be matched stays below [`INFINITE`].
pub(crate) fn plus(a: u64, b: u64) -> u64 {
    if a == INFINITE || b == INFINITE { INFINITE } else { a.saturating_add(b).min(INFINITE - 1) }
}

/// Cost of `times` in a row.
pub(crate) fn times(cost: u64, times: u64) -> u64 {
    match (cost, times) {
        (_, 0) => 0,
        (INFINITE, _) => INFINITE,
        _ => cost.saturating_mul(times).min(INFINITE - 1),
    }
}

/// Rules of at most so many nodes and characters are lowered wherever they are named.
const SMALL: u32 = 24;

/// Repetitions of a single character, token or rule up to this often are written out; more are counted.
pub(crate) const WRITTEN_OUT: u64 = 8;

/// How often what is repeated so is written out.
pub(crate) fn copies(min: u64, max: Option<u64>) -> u64 {
    match (min, max) {
        (0 | 1, None) | (0 | 1, Some(1)) => 1,
        (min, None) if min <= WRITTEN_OUT => min + 1,
        (_, Some(max)) if max <= WRITTEN_OUT => max,
        _ => 1,
    }
}

/// Repetitions of many different characters up to this often are no runs.
const SHORT_RUN: u64 = 8;

/// One expression of a rule body.
#[derive(Debug)]
pub(crate) struct Node<'g> {
    pub(crate) expr: &'g Expr,
    /// Index of the node it is a part of; `None` for the body of a rule.
    parent: Option<u32>,
    /// Rule whose body this is part of.
    pub(crate) rule: u32,
    /// Its parts are the nodes `children.0 .. children.1`.
    pub(crate) children: (u32, u32),
    pub(crate) cost: u64,
    /// The same number for the same expression, wherever it stands.
    pub(crate) same: u32,
    /// Parts whose cost is not known yet.
    missing: u32,
    known: bool,
}

/// The reachable part of a grammar.
#[derive(Debug)]
pub(crate) struct Flat<'g> {
    pub(crate) nodes: Vec<Node<'g>>,
    /// The node of each rule's body; `None` for rules that are not reachable.
    pub(crate) bodies: Vec<Option<u32>>,
    /// For each rule the nodes that name it.
    users: Vec<Vec<u32>>,
    /// For each rule whether it is lowered where it is named, as if it had been written there.
    inlined: Vec<bool>,
}

impl<'g> Flat<'g> {
    /// Flattens what can be reached from the root, and computes all costs.
    pub(crate) fn new(grammar: &'g Grammar, classes: &mut Classes) -> Self {
        let n_rules = grammar.rules().len();
        let mut flat = Self {
            nodes: Vec::new(),
            bodies: vec![None; n_rules],
            users: vec![Vec::new(); n_rules],
            inlined: vec![false; n_rules],
        };
        flat.reach(grammar, grammar.root().0);
        let mut next = 0;
        while let Some(node) = flat.nodes.get(next) {
            let (expr, rule, first) = (node.expr, node.rule, flat.nodes.len() as u32);
            let child = |expr| Node {
                expr,
                parent: Some(next as u32),
                rule,
                children: (0, 0),
                cost: INFINITE,
                same: 0,
                missing: 0,
                known: false,
            };
            match expr {
                Expr::Sequence(items) | Expr::Choice(items) => flat.nodes.extend(items.iter().map(child)),
                Expr::Repeat { item, .. } => flat.nodes.push(child(item)),
                Expr::Rule(target) => {
                    if let Some(users) = flat.users.get_mut(target.index()) {
                        users.push(next as u32);
                    }
                    flat.reach(grammar, target.0);
                }
                Expr::Literal(_) | Expr::Class(_) | Expr::Any | Expr::Token(_) => {}
            }
            let last = if matches!(expr, Expr::Rule(_)) { first } else { flat.nodes.len() as u32 };
            if let Some(node) = flat.nodes.get_mut(next) {
                node.children = (first, last);
            }
            next += 1;
        }
        flat.choose_inlined(grammar);
        flat.compute_costs(classes);
        flat.number();
        flat
    }

    pub(crate) fn node(&self, index: u32) -> Option<&Node<'g>> {
        self.nodes.get(index as usize)
    }

    /// The cost of a node; infinite for one that does not exist.
    pub(crate) fn cost(&self, index: u32) -> u64 {
        self.node(index).map_or(INFINITE, |node| node.cost)
    }

    /// The cost of a rule.
    pub(crate) fn rule_cost(&self, rule: u32) -> u64 {
        self.bodies.get(rule as usize).copied().flatten().map_or(INFINITE, |body| self.cost(body))
    }

    /// Whether a rule is lowered where it is named.
    pub(crate) fn inlined(&self, rule: u32) -> bool {
        self.inlined.get(rule as usize).copied().unwrap_or_default()
    }

    /// Rules that are small, or named once, and do not lead back to themselves. Without the calls, more
    /// configurations are seen to be equal, and stacks are lower. Rules with runs of characters stay rules, since
    /// masks within them are shared with all other places and grammars that have the same rule.
    fn choose_inlined(&mut self, grammar: &Grammar) {
        let n = self.bodies.len();
        let mut own = vec![0u32; n];
        let mut callees: Vec<Vec<u32>> = vec![Vec::new(); n];
        for node in &self.nodes {
            let weight = match node.expr {
                Expr::Literal(text) => text.len() as u32,
                _ => 1,
            };
            if let Some(own) = own.get_mut(node.rule as usize) {
                *own = own.saturating_add(weight);
            }
            if let (Expr::Rule(target), Some(callees)) = (node.expr, callees.get_mut(node.rule as usize)) {
                callees.push(target.0);
            }
        }
        // Whether a character of a rule may be one of many, and whether a rule has a run of such.
        let (mut wide, mut runs) = (vec![false; n], vec![false; n]);
        for (index, node) in self.nodes.iter().enumerate() {
            let many = match node.expr {
                Expr::Any => true,
                Expr::Class(class) => class.negated,
                _ => false,
            };
            if many {
                self.note_run(index, &mut wide, &mut runs);
            }
        }
        // Weights with what is named in them, callees first; a rule on a cycle never gets one.
        let mut waiting: Vec<usize> = callees.iter().map(Vec::len).collect();
        let mut ready: Vec<u32> =
            (0..n as u32).filter(|&rule| waiting.get(rule as usize) == Some(&0)).collect();
        while let Some(rule) = ready.pop() {
            let weight = own.get(rule as usize).copied().unwrap_or(u32::MAX);
            let users = self.users.get(rule as usize).map_or(&[][..], Vec::as_slice);
            let has_run = runs.get(rule as usize).copied().unwrap_or_default();
            // What is written out more than once has to be small all the same.
            let once = matches!(users, [user] if self.copies(*user) == 1);
            let inlined = rule != grammar.root().0 && !has_run && (weight <= SMALL || once);
            let is_wide = inlined && wide.get(rule as usize).copied().unwrap_or_default();
            if let Some(slot) = self.inlined.get_mut(rule as usize) {
                *slot = inlined;
            }
            for user in users {
                let Some(caller) = self.nodes.get(*user as usize).map(|node| node.rule as usize) else {
                    continue;
                };
                let written = weight.saturating_mul(self.copies(*user));
                if let (Some(own), true) = (own.get_mut(caller), inlined) {
                    *own = own.saturating_add(written);
                }
                if is_wide {
                    self.note_run(*user as usize, &mut wide, &mut runs);
                }
                if let Some(waiting) = waiting.get_mut(caller) {
                    *waiting = waiting.saturating_sub(1);
                    if *waiting == 0 {
                        ready.push(caller as u32);
                    }
                }
            }
        }
    }

    /// How often what a node names is written out where it stands.
    fn copies(&self, node: u32) -> u32 {
        let parent = self.nodes.get(node as usize).and_then(|node| self.nodes.get(node.parent? as usize));
        match parent.map(|parent| parent.expr) {
            Some(Expr::Repeat { min, max, .. }) => copies(*min, *max) as u32,
            _ => 1,
        }
    }

    /// Notes of a node that stands for one of many characters whether it is repeated within its rule.
    fn note_run(&self, index: usize, wide: &mut [bool], runs: &mut [bool]) {
        let mut at = index;
        while let Some(node) = self.nodes.get(at) {
            let rule = node.rule as usize;
            if let Expr::Repeat { max, .. } = node.expr
                && max.is_none_or(|max| max > SHORT_RUN)
            {
                if let Some(runs) = runs.get_mut(rule) {
                    *runs = true;
                }
                return;
            }
            match node.parent {
                Some(parent) => at = parent as usize,
                None => {
                    if let Some(wide) = wide.get_mut(rule) {
                        *wide = true;
                    }
                    return;
                }
            }
        }
    }

    fn reach(&mut self, grammar: &'g Grammar, rule: u32) {
        let index = self.nodes.len() as u32;
        if let (Some(body @ None), Some(definition)) =
            (self.bodies.get_mut(rule as usize), grammar.rules().get(rule as usize))
        {
            *body = Some(index);
            self.nodes.push(Node {
                expr: &definition.body,
                parent: None,
                rule,
                children: (0, 0),
                cost: INFINITE,
                same: 0,
                missing: 0,
                known: false,
            });
        }
    }

    /// Gives equal expressions equal numbers. Parts stand after what they are part of.
    fn number(&mut self) {
        #[derive(PartialEq, Eq, Hash)]
        enum Content<'g> {
            Leaf(&'g Expr),
            Sequence(SmallVec<[u32; 4]>),
            Choice(SmallVec<[u32; 4]>),
            Repeat(u32, u64, Option<u64>),
        }
        let mut numbers: ForeignMap<Content<'g>, u32> = ForeignMap::default();
        for index in (0..self.nodes.len()).rev() {
            let Some(node) = self.nodes.get(index) else { continue };
            let range = node.children.0 as usize..node.children.1 as usize;
            let mut parts = self.nodes.get(range).unwrap_or_default().iter().map(|part| part.same);
            let content = match node.expr {
                Expr::Sequence(_) => Content::Sequence(parts.collect()),
                Expr::Choice(_) => Content::Choice(parts.collect()),
                Expr::Repeat { min, max, .. } => {
                    Content::Repeat(parts.next_back().unwrap_or_default(), *min, *max)
                }
                leaf => Content::Leaf(leaf),
            };
            let next = numbers.len() as u32;
            let same = *numbers.entry(content).or_insert(next);
            if let Some(node) = self.nodes.get_mut(index) {
                node.same = same;
            }
        }
    }

    /// Knuth's generalization of Dijkstra's algorithm. Nodes all of whose parts are known need no queue; only
    /// choices on a cycle of rules do.
    fn compute_costs(&mut self, classes: &mut Classes) {
        let mut known: Vec<(u32, u64)> = Vec::new();
        for index in (0..self.nodes.len() as u32).rev() {
            let Some(node) = self.nodes.get_mut(index as usize) else { continue };
            let parts = node.children.1 - node.children.0;
            match node.expr {
                Expr::Literal(text) => known.push((index, text.len() as u64)),
                Expr::Class(class) => {
                    let sequences = classes.of(class);
                    let cost = sequences.iter().map(|s| s.as_slice().len() as u64).min();
                    known.push((index, cost.unwrap_or(INFINITE)));
                }
                Expr::Any => known.push((index, 1)),
                Expr::Token(_) => known.push((index, TOKEN)),
                Expr::Sequence(_) if parts == 0 => known.push((index, 0)),
                Expr::Sequence(_) => {
                    node.missing = parts;
                    node.cost = 0;
                }
                Expr::Choice(_) if parts == 0 => known.push((index, INFINITE)),
                Expr::Choice(_) => node.missing = parts,
                Expr::Rule(target) => {
                    node.missing = 1;
                    // A rule the grammar does not have matches nothing; a built grammar has none such.
                    if target.index() >= self.bodies.len() {
                        known.push((index, INFINITE));
                    }
                }
                Expr::Repeat { min, max, .. } => {
                    if max.is_some_and(|max| max < *min) {
                        known.push((index, INFINITE));
                    } else if *min == 0 {
                        known.push((index, 0));
                    } else {
                        node.missing = 1;
                    }
                }
            }
        }
        let mut candidates: BinaryHeap<Reverse<(u64, u32)>> = BinaryHeap::new();
        loop {
            while let Some((index, cost)) = known.pop() {
                self.settle(index, cost, &mut known, &mut candidates);
            }
            match candidates.pop() {
                Some(Reverse((cost, index))) => known.push((index, cost)),
                None => break,
            }
        }
        for node in &mut self.nodes {
            if !node.known {
                node.cost = INFINITE;
            }
        }
    }

    fn settle(
        &mut self,
        index: u32,
        cost: u64,
        known: &mut Vec<(u32, u64)>,
        candidates: &mut BinaryHeap<Reverse<(u64, u32)>>,
    ) {
        let Some(node) = self.nodes.get_mut(index as usize) else { return };
        if node.known {
            return;
        }
        (node.known, node.cost) = (true, cost);
        match (node.parent, node.rule) {
            (Some(parent), _) => self.notify(parent, cost, known, candidates),
            (None, rule) => {
                for user in self.users.get_mut(rule as usize).map(std::mem::take).unwrap_or_default() {
                    self.notify(user, cost, known, candidates);
                }
            }
        }
    }

    fn notify(
        &mut self,
        index: u32,
        cost: u64,
        known: &mut Vec<(u32, u64)>,
        candidates: &mut BinaryHeap<Reverse<(u64, u32)>>,
    ) {
        let Some(node) = self.nodes.get_mut(index as usize) else { return };
        if node.known || node.missing == 0 {
            return;
        }
        node.missing -= 1;
        match node.expr {
            Expr::Choice(_) => {
                if cost < node.cost {
                    node.cost = cost;
                    if node.missing > 0 {
                        candidates.push(Reverse((cost, index)));
                    }
                }
            }
            Expr::Repeat { min, .. } => node.cost = times(cost, *min),
            Expr::Sequence(_) => node.cost = plus(node.cost, cost),
            _ => node.cost = cost,
        }
        if node.missing == 0 {
            known.push((index, node.cost));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::GrammarBuilder;

    #[test]
    fn costs_are_shortest_lengths_through_cycles() {
        let mut builder = GrammarBuilder::default();
        let [a, b, dead, loops] = ["a", "b", "dead", "loops"].map(|name| builder.declare(name));
        builder.define(
            a,
            Expr::choice([
                Expr::sequence([Expr::literal("("), Expr::Rule(a), Expr::literal(")")]),
                Expr::Rule(b),
                Expr::Rule(dead),
            ]),
        );
        builder.define(
            b,
            Expr::sequence([
                Expr::literal("xy").repeat(2, Some(9)),
                Expr::Rule(a).repeat(0, None),
                Expr::class([('é', 'ü')]),
            ]),
        );
        builder.define(dead, Expr::sequence([Expr::literal("x"), Expr::Rule(dead)]));
        builder.define(loops, Expr::Rule(loops).optional());
        let root = builder.rule(
            "root",
            Expr::choice([
                Expr::sequence([Expr::Rule(a), Expr::Rule(a)]),
                Expr::sequence([Expr::Rule(loops), Expr::Rule(b), Expr::Rule(b), Expr::Rule(b)]),
            ]),
        );
        let grammar = builder.build(root).unwrap();
        let flat = Flat::new(&grammar, &mut Classes::default());
        let cost = |rule: crate::RuleId| flat.rule_cost(rule.0);
        assert_eq!([a, b, dead, loops, root].map(cost), [6, 6, INFINITE, 0, 12]);
    }
}
