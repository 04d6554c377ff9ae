//! Facts about rules that the checker, the sampler and the engine share: what can be empty, what can match at all
//! and how short, what calls itself first. Invariant: no recursion, and time linear in the grammar (but for a heap).

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{CharClass, Expr, Grammar, RuleId};

/// A grammar's expressions in a row: rule by rule, each after its parts.
pub(crate) struct Flat<'g> {
    pub(crate) exprs: Vec<&'g Expr>,
    children: Vec<u32>,
    first_child: Vec<u32>,
    /// The node of each rule's body.
    pub(crate) bodies: Vec<u32>,
    /// Steps that all analyses took so far.
    work: Cell<u64>,
}

impl<'g> Flat<'g> {
    pub(crate) fn new(grammar: &'g Grammar) -> Self {
        let mut flat = Self {
            exprs: Vec::new(),
            children: Vec::new(),
            first_child: vec![0],
            bodies: Vec::new(),
            work: Cell::new(0),
        };
        enum Step<'g> {
            Enter(&'g Expr),
            Leave(&'g Expr, usize),
        }
        let mut steps = Vec::new();
        let mut done: Vec<u32> = Vec::new();
        for rule in grammar.rules() {
            steps.push(Step::Enter(&rule.body));
            while let Some(step) = steps.pop() {
                let (expr, parts) = match step {
                    Step::Enter(expr) => match parts(expr) {
                        [] => (expr, 0),
                        parts => {
                            steps.push(Step::Leave(expr, parts.len()));
                            steps.extend(parts.iter().rev().map(Step::Enter));
                            continue;
                        }
                    },
                    Step::Leave(expr, parts) => (expr, parts),
                };
                flat.children.extend(done.drain(done.len().saturating_sub(parts)..));
                flat.first_child.push(flat.children.len() as u32);
                done.push(flat.exprs.len() as u32);
                flat.exprs.push(expr);
            }
            flat.bodies.extend(done.pop());
        }
        flat.count(flat.exprs.len() as u64);
        flat
    }

    /// Counts steps of an analysis.
    pub(crate) fn count(&self, steps: u64) {
        self.work.set(self.work.get().saturating_add(steps));
    }

    /// Steps that all analyses took so far.
    pub(crate) fn work(&self) -> u64 {
        self.work.get()
    }

    /// The parts of a node, in order; none for a reference.
    pub(crate) fn children(&self, node: u32) -> &[u32] {
        let at = |index: usize| self.first_child.get(index).map_or(0, |first| *first as usize);
        self.children.get(at(node as usize)..at(node as usize + 1)).unwrap_or_default()
    }

    pub(crate) fn expr(&self, node: u32) -> Option<&'g Expr> {
        self.exprs.get(node as usize).copied()
    }

    /// The node of a rule's body.
    pub(crate) fn body(&self, rule: RuleId) -> Option<u32> {
        self.bodies.get(rule.index()).copied()
    }
}

fn parts(expr: &Expr) -> &[Expr] {
    match expr {
        Expr::Sequence(items) | Expr::Choice(items) => items,
        Expr::Repeat { item, .. } => std::slice::from_ref(item),
        Expr::Literal(_) | Expr::Class(_) | Expr::Any | Expr::Token(_) | Expr::Rule(_) => &[],
    }
}

/// How short a match can be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cost {
    /// Code points, a token counting as one.
    pub(crate) chars: u64,
    /// References followed, which makes the cheapest derivation one without a cycle.
    pub(crate) steps: u64,
}

impl Cost {
    fn plus(self, other: Self) -> Self {
        Self { chars: self.chars.saturating_add(other.chars), steps: self.steps.saturating_add(other.steps) }
    }

    fn times(self, n: u64) -> Self {
        Self { chars: self.chars.saturating_mul(n), steps: self.steps.saturating_mul(n) }
    }
}

/// Which classes count as matching something.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Classes {
    /// Those that some character is in.
    AsWritten,
    /// All, so that only endless recursion is left as a reason for matching nothing.
    Matching,
}

/// The cheapest match of every node; `None` for what matches nothing.
///
/// This is Knuth's generalization of Dijkstra's algorithm: a cost is final when it leaves the heap, since no
/// expression is cheaper than one of its parts.
pub(crate) fn costs(flat: &Flat<'_>, classes: Classes) -> Vec<Option<Cost>> {
    let count = flat.exprs.len();
    let mut parents: Vec<u32> = vec![u32::MAX; count];
    let mut references: Vec<Vec<u32>> = vec![Vec::new(); flat.bodies.len()];
    let mut rule_of_body: rustc_hash::FxHashMap<u32, usize> = rustc_hash::FxHashMap::default();
    // Per node: parts not yet final, and the sum of those that are.
    let mut missing: Vec<(u32, Cost)> = Vec::with_capacity(count);
    let mut heap: BinaryHeap<Reverse<(Cost, u32)>> = BinaryHeap::new();

    for (rule, body) in flat.bodies.iter().enumerate() {
        rule_of_body.insert(*body, rule);
    }
    for (node, expr) in flat.exprs.iter().enumerate() {
        let node = node as u32;
        flat.count(1 + flat.children(node).len() as u64);
        if let Expr::Class(class) = expr {
            flat.count(class.ranges.len() as u64);
        }
        for child in flat.children(node) {
            if let Some(parent) = parents.get_mut(*child as usize) {
                *parent = node;
            }
        }
        let ready = match expr {
            Expr::Literal(text) => Some(text.chars().count() as u64),
            Expr::Class(class) => (classes == Classes::Matching || !members(class).is_empty()).then_some(1),
            Expr::Any | Expr::Token(_) => Some(1),
            Expr::Sequence(items) if items.is_empty() => Some(0),
            Expr::Repeat { min: 0, .. } => Some(0),
            Expr::Rule(id) => {
                if let Some(list) = references.get_mut(id.index()) {
                    list.push(node);
                }
                None
            }
            Expr::Sequence(_) | Expr::Choice(_) | Expr::Repeat { .. } => None,
        };
        if let Some(chars) = ready {
            heap.push(Reverse((Cost { chars, steps: 0 }, node)));
        }
        missing.push((flat.children(node).len() as u32, Cost::default()));
    }

    let mut out: Vec<Option<Cost>> = vec![None; count];
    while let Some(Reverse((cost, node))) = heap.pop() {
        flat.count(1);
        match out.get_mut(node as usize) {
            Some(slot @ None) => *slot = Some(cost),
            _ => continue,
        }
        if let Some(rule) = rule_of_body.get(&node) {
            let followed = cost.plus(Cost { chars: 0, steps: 1 });
            for reference in references.get_mut(*rule).map(std::mem::take).unwrap_or_default() {
                heap.push(Reverse((followed, reference)));
            }
        }
        let parent = parents.get(node as usize).copied().unwrap_or(u32::MAX);
        match flat.expr(parent) {
            Some(Expr::Choice(_)) => heap.push(Reverse((cost, parent))),
            Some(Expr::Repeat { max: Some(max), min, .. }) if max < min => {}
            Some(Expr::Repeat { min, .. }) => heap.push(Reverse((cost.times(*min), parent))),
            Some(Expr::Sequence(_)) => {
                if let Some((left, sum)) = missing.get_mut(parent as usize) {
                    *left -= 1;
                    *sum = sum.plus(cost);
                    if *left == 0 {
                        heap.push(Reverse((*sum, parent)));
                    }
                }
            }
            _ => {}
        }
    }
    out
}

/// The characters of a class, as ascending ranges that neither touch nor hold surrogates.
pub(crate) fn members(class: &CharClass) -> Vec<(u32, u32)> {
    const SURROGATES: (u32, u32) = (0xD800, 0xDFFF);
    const LAST: u32 = char::MAX as u32;
    let mut ranges: Vec<(u32, u32)> =
        class.ranges.iter().copied().filter(|(low, high)| low <= high && *low <= LAST).collect();
    ranges.sort_unstable();
    let mut merged: Vec<(u32, u32)> = Vec::with_capacity(ranges.len());
    for (low, high) in ranges {
        match merged.last_mut() {
            Some((_, end)) if low <= end.saturating_add(1) => *end = high.min(LAST).max(*end),
            _ => merged.push((low, high.min(LAST))),
        }
    }
    if class.negated {
        let mut next = 0;
        let mut outside = Vec::with_capacity(merged.len() + 1);
        for (low, high) in merged {
            if next < low {
                outside.push((next, low - 1));
            }
            next = high + 1;
        }
        if next <= LAST {
            outside.push((next, LAST));
        }
        merged = outside;
    }
    let (first, last) = SURROGATES;
    let around = merged.into_iter().flat_map(|(low, high)| {
        [(low, high.min(first - 1)), (low.max(last + 1), high)].into_iter().filter(|(low, high)| low <= high)
    });
    around.collect()
}

/// A reference that stands first: the rule it calls, and its node.
#[derive(Clone, Copy)]
pub(crate) struct LeftCall {
    pub(crate) rule: RuleId,
    pub(crate) node: u32,
}

/// For each rule, the references that can stand first in it, behind nothing but what can be empty.
fn left_calls(flat: &Flat<'_>, costs: &[Option<Cost>]) -> Vec<Vec<LeftCall>> {
    let cost = |node: u32| costs.get(node as usize).copied().flatten();
    let nullable = |node: u32| cost(node).is_some_and(|cost| cost.chars == 0);
    let mut stack = Vec::new();
    let calls_of = |body: &u32| {
        let mut calls = Vec::new();
        stack.push(*body);
        while let Some(node) = stack.pop() {
            flat.count(1);
            match flat.expr(node) {
                // What matches nothing is never entered.
                _ if cost(node).is_none() => {}
                Some(Expr::Rule(rule)) => calls.push(LeftCall { rule: *rule, node }),
                Some(Expr::Sequence(_)) => {
                    let parts = flat.children(node);
                    let first = parts.iter().take_while(|part| nullable(**part)).count();
                    flat.count(first as u64);
                    stack.extend(parts.iter().take(first + 1).rev());
                }
                Some(Expr::Choice(_)) => stack.extend(flat.children(node).iter().rev()),
                Some(Expr::Repeat { max, .. }) if *max != Some(0) => stack.extend(flat.children(node)),
                _ => {}
            }
        }
        calls
    };
    flat.bodies.iter().map(calls_of).collect()
}

/// The cycles of rules that call themselves before they have read anything, one for each knot of such rules, each
/// as its calls in order: the last one calls the rule that the first one stands in, which is given too.
pub(crate) fn left_recursion(flat: &Flat<'_>, costs: &[Option<Cost>]) -> Vec<(RuleId, Vec<LeftCall>)> {
    let calls = left_calls(flat, costs);
    let of = |rule: RuleId| calls.get(rule.index()).map(Vec::as_slice).unwrap_or_default();
    flat.count(calls.iter().map(|calls| 1 + calls.len() as u64).sum());
    let component = components(&calls);
    let mut reported = vec![false; calls.len()];
    let mut cycles = Vec::new();
    for start in (0..calls.len() as u32).map(RuleId) {
        let Some(own) = component.get(start.index()).copied() else { continue };
        let inside = |call: &LeftCall| component.get(call.rule.index()) == Some(&own);
        if reported.get(own as usize) != Some(&false) || !of(start).iter().any(inside) {
            continue;
        }
        if let Some(flag) = reported.get_mut(own as usize) {
            *flag = true;
        }
        let counted = |rule: RuleId| {
            flat.count(1 + of(rule).len() as u64);
            of(rule)
        };
        cycles.extend(shortest_cycle(start, counted, inside).map(|cycle| (start, cycle)));
    }
    cycles
}

/// Breadth first from `start` back to itself.
fn shortest_cycle<'c>(
    start: RuleId,
    calls: impl Fn(RuleId) -> &'c [LeftCall],
    inside: impl Fn(&LeftCall) -> bool,
) -> Option<Vec<LeftCall>> {
    let mut came_by: rustc_hash::FxHashMap<RuleId, (RuleId, LeftCall)> = rustc_hash::FxHashMap::default();
    let mut queue = std::collections::VecDeque::from([start]);
    while let Some(rule) = queue.pop_front() {
        for call in calls(rule).iter().filter(|call| inside(call)) {
            if call.rule == start {
                let mut path = vec![*call];
                let mut at = rule;
                while at != start {
                    let (from, call) = came_by.get(&at)?;
                    path.push(*call);
                    at = *from;
                }
                path.reverse();
                return Some(path);
            }
            if let std::collections::hash_map::Entry::Vacant(slot) = came_by.entry(call.rule) {
                slot.insert((rule, *call));
                queue.push_back(call.rule);
            }
        }
    }
    None
}

/// Strongly connected components of the calls, by number (Tarjan, with its own stack).
fn components(calls: &[Vec<LeftCall>]) -> Vec<u32> {
    const UNSEEN: u32 = u32::MAX;
    #[derive(Clone, Copy)]
    struct Node {
        order: u32,
        low: u32,
        component: u32,
    }
    let mut nodes = vec![Node { order: UNSEEN, low: UNSEEN, component: UNSEEN }; calls.len()];
    let get =
        |nodes: &[Node], at: usize| nodes.get(at).copied().unwrap_or(Node { order: 0, low: 0, component: 0 });
    let mut next_order = 0;
    let mut next_component = 0;
    let mut open: Vec<usize> = Vec::new();
    let mut path: Vec<(usize, usize)> = Vec::new();
    for start in 0..calls.len() {
        if get(&nodes, start).order != UNSEEN {
            continue;
        }
        path.push((start, 0));
        while let Some((at, edge)) = path.pop() {
            if edge == 0 {
                if let Some(node) = nodes.get_mut(at) {
                    (node.order, node.low) = (next_order, next_order);
                }
                next_order += 1;
                open.push(at);
            }
            let target = calls.get(at).and_then(|calls| calls.get(edge)).map(|call| call.rule.index());
            if let Some(target) = target {
                path.push((at, edge + 1));
                let seen = get(&nodes, target);
                if seen.order == UNSEEN {
                    path.push((target, 0));
                } else if seen.component == UNSEEN
                    && let Some(node) = nodes.get_mut(at)
                {
                    node.low = node.low.min(seen.order);
                }
                continue;
            }
            let done = get(&nodes, at);
            if done.low == done.order {
                while let Some(member) = open.pop() {
                    if let Some(node) = nodes.get_mut(member) {
                        node.component = next_component;
                    }
                    if member == at {
                        break;
                    }
                }
                next_component += 1;
            }
            if let Some((parent, _)) = path.last()
                && let Some(node) = nodes.get_mut(*parent)
            {
                node.low = node.low.min(done.low);
            }
        }
    }
    nodes.into_iter().map(|node| node.component).collect()
}

/// Which rules the root leads to, through the nodes that `enter` lets it through.
pub(crate) fn reachable(flat: &Flat<'_>, root: RuleId, enter: impl Fn(u32) -> bool) -> Vec<bool> {
    let mut seen = vec![false; flat.bodies.len()];
    let mut rules = vec![root];
    let mut nodes = Vec::new();
    while let Some(rule) = rules.pop() {
        match seen.get_mut(rule.index()) {
            Some(seen) if !*seen => *seen = true,
            _ => continue,
        }
        nodes.extend(flat.body(rule));
        while let Some(node) = nodes.pop() {
            flat.count(1);
            if !enter(node) {
                continue;
            }
            nodes.extend(flat.children(node));
            if let Some(Expr::Rule(called)) = flat.expr(node) {
                rules.push(*called);
            }
        }
    }
    seen
}
