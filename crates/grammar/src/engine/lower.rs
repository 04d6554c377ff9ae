//! Second step of lowering: rules become fragments of a recursive transition network over byte classes.
//!
//! Above `flat` and `program`. Invariant: each state is the target the construction gave it, and none recurses over the
//! nesting of groups.

use std::ops::Range;

use rustc_hash::FxHashMap;

use super::classes::{Boundaries, Classes};
use super::flat::{Flat, INFINITE, Node, WRITTEN_OUT};
use super::program::{Edge, Fragment, Program, Repetition, State, StateId};
use super::tokens::{TokenId, TokenKind};
use super::vocabulary::Vocabulary;
use crate::gbnf::{CharClass, Expr, Grammar, TokenMatch, TokenName};
use crate::{Error, Kind, Limits};

/// States of a lowered grammar; 16 bytes each.
const STATES: usize = 1 << 26;

/// Ranges of a class that has many of them.
const MANY: usize = 64;

/// How often a class of many ranges is written out before it becomes a fragment of its own.
const WRITTEN: u32 = 4;

impl Program {
    /// Lowers what can be reached from the root.
    pub(crate) fn new(grammar: &Grammar, vocabulary: &Vocabulary, limits: &Limits) -> Result<Self, Error> {
        if grammar.rules().len() > limits.rules {
            let message =
                format!("the grammar has {} rules, more than {}", grammar.rules().len(), limits.rules);
            return Err(Error::new(Kind::Limit, message).hint("raise Limits::rules"));
        }
        let mut classes = Classes::default();
        let flat = Flat::new(grammar, &mut classes);
        if flat.rule_cost(grammar.root().0) == INFINITE {
            let name = grammar.rule(grammar.root()).map_or("root", |rule| rule.name.as_str());
            return Err(Error::new(Kind::Undefined, format!("rule \"{name}\" matches no text at all"))
                .hint("every alternative of it needs itself, or an empty set of characters"));
        }
        let lowering = Lowering {
            grammar,
            flat: &flat,
            vocabulary,
            classes,
            boundaries: Boundaries::default(),
            fragment_of: vec![None; grammar.rules().len()],
            tasks: Vec::new(),
            starts: FxHashMap::default(),
            written: FxHashMap::default(),
            endings: Vec::new(),
            program: Program {
                states: Vec::new(),
                targets: Vec::new(),
                edges: Vec::new(),
                fragments: Vec::new(),
                repetitions: Vec::new(),
                classes: Boundaries::default().classes(),
                root: 0,
                work: flat.nodes.len() as u64,
            },
        };
        let (mut program, endings) = lowering.run()?;
        program.order(grammar)?;
        program.shorten(&endings);
        Ok(program)
    }
}

/// A node still to be lowered, between two states.
type Task = (u32, StateId, StateId);

struct Lowering<'g> {
    grammar: &'g Grammar,
    flat: &'g Flat<'g>,
    vocabulary: &'g Vocabulary,
    classes: Classes,
    boundaries: Boundaries,
    fragment_of: Vec<Option<u32>>,
    tasks: Vec<Task>,
    /// Where an expression starts that is followed by a state: equal expressions before the same state are one.
    starts: FxHashMap<(u32, StateId), StateId>,
    /// Classes of many ranges: how often each was written out, and its fragment.
    written: FxHashMap<u32, (u32, Option<u32>)>,
    /// The states within characters, those nearer to the end of theirs first.
    endings: Vec<StateId>,
    program: Program,
}

impl<'g> Lowering<'g> {
    fn run(mut self) -> Result<(Program, Vec<StateId>), Error> {
        self.program.root = self.rule(self.grammar.root().0);
        while let Some((node, from, to)) = self.tasks.pop() {
            let flat = self.flat;
            if let Some(node) = flat.node(node) {
                self.lower(node, from, to)?;
            }
            self.program.work += 1;
            if self.program.states.len() > STATES {
                return Err(Error::new(Kind::Limit, format!("the grammar has more than {STATES} states")));
            }
        }
        let made = self.program.states.len() + self.program.edges.len() + self.program.targets.len();
        self.program.work += made as u64;
        self.program.classes = self.boundaries.classes();
        // Edges were noted in bytes, since the classes are known only now.
        let classes = self.program.classes.clone();
        for state in &mut self.program.states {
            if let State::Byte { low, high, .. } = state {
                (*low, *high) = (classes.of(*low), classes.of(*high));
            }
        }
        for edge in &mut self.program.edges {
            (edge.low, edge.high) = (classes.of(edge.low), classes.of(edge.high));
        }
        Ok((self.program, self.endings))
    }

    fn lower(&mut self, node: &Node<'_>, from: StateId, to: StateId) -> Result<(), Error> {
        let children = node.children.0..node.children.1;
        match node.expr {
            Expr::Literal(text) => self.literal(text.as_bytes(), from, to),
            Expr::Class(class) => match self.class_fragment(node, class) {
                Some(fragment) => self.set(from, State::Call { fragment, next: to }),
                None => {
                    let sequences = self.classes.of(class);
                    self.sequences(&sequences, from, to);
                }
            },
            Expr::Any => {
                let any = self.classes.of(&CharClass { negated: true, ranges: Vec::new() });
                self.sequences(&any, from, to);
            }
            Expr::Token(token) => {
                let id = resolve(token, self.vocabulary)?;
                self.set(from, State::Token { id, negated: token.negated, target: to });
            }
            Expr::Rule(rule) if self.flat.inlined(rule.0) => {
                let body = self.flat.bodies.get(rule.index()).copied().flatten();
                self.tasks.extend(body.map(|body| (body, from, to)));
            }
            Expr::Rule(rule) => {
                let fragment = self.rule(rule.0);
                self.set(from, State::Call { fragment, next: to });
            }
            Expr::Sequence(_) => {
                let next = self.sequence(children.start.saturating_add(1)..children.end, to);
                match children.clone().next() {
                    Some(first) => self.tasks.push((first, from, next)),
                    None => self.jump(from, &[to]),
                }
            }
            Expr::Choice(_) => {
                let live: Vec<u32> = children.filter(|&child| self.flat.cost(child) != INFINITE).collect();
                if let &[only] = live.as_slice() {
                    self.tasks.push((only, from, to));
                } else {
                    self.choice(&live, from, to);
                }
            }
            Expr::Repeat { item, min, max } => self.repeat(node, item, (*min, *max), from, to),
        }
        Ok(())
    }

    /// The fragment of a class that has many ranges, once it has been written out often enough.
    fn class_fragment(&mut self, node: &Node<'_>, class: &CharClass) -> Option<u32> {
        if class.ranges.len() <= MANY {
            return None;
        }
        let (times, fragment) = self.written.entry(node.same).or_insert((0, None));
        *times += 1;
        if *times <= WRITTEN || fragment.is_some() {
            return *fragment;
        }
        let (start, accept) = (self.fresh(), self.fresh());
        let id = self.program.fragments.len() as u32;
        self.program.fragments.push(Fragment { start, accept, cost: node.cost, rank: 0, rule: node.rule });
        let sequences = self.classes.of(class);
        self.sequences(&sequences, start, accept);
        self.written.insert(node.same, (WRITTEN, Some(id)));
        Some(id)
    }

    /// The start of these nodes, one after the other, before `to`.
    fn sequence(&mut self, nodes: Range<u32>, to: StateId) -> StateId {
        nodes.rev().fold(to, |to, node| self.start(node, to))
    }

    /// The start of a node before `to`, lowered only if it is not yet.
    fn start(&mut self, node: u32, to: StateId) -> StateId {
        let Some(same) = self.flat.node(node).map(|node| node.same) else { return to };
        if let Some(&known) = self.starts.get(&(same, to)) {
            return known;
        }
        let start = self.fresh();
        self.starts.insert((same, to), start);
        self.tasks.push((node, start, to));
        start
    }

    /// Alternatives; those that begin with a literal share the beginnings they have in common, so that of a
    /// thousand names only those are followed that the text so far could be.
    fn choice(&mut self, nodes: &[u32], from: StateId, to: StateId) {
        let mut starts: Vec<StateId> = Vec::new();
        let mut texts: Vec<(&'g [u8], StateId)> = Vec::new();
        let flat = self.flat;
        for &node in nodes {
            let Some(alternative) = flat.node(node) else { continue };
            let (first, rest) = match alternative.expr {
                Expr::Sequence(_) => {
                    let (first, end) = alternative.children;
                    (flat.node(first).filter(|_| first < end).map(|first| first.expr), first + 1..end)
                }
                expr => (Some(expr), 0..0),
            };
            match first {
                Some(Expr::Literal(text)) if !text.is_empty() => {
                    let next = self.sequence(rest, to);
                    texts.push((text.as_bytes(), next));
                }
                _ => starts.push(self.start(node, to)),
            }
        }
        texts.sort_unstable();
        texts.dedup();
        if !texts.is_empty() {
            let start = self.fresh();
            self.texts(&texts, start);
            starts.push(start);
        }
        starts.sort_unstable();
        starts.dedup();
        self.jump(from, &starts);
    }

    /// Texts in ascending order, each with where it leads, as a tree.
    fn texts(&mut self, texts: &[(&[u8], StateId)], from: StateId) {
        // Texts that agree up to a depth, and the state there.
        let mut groups: Vec<(Range<usize>, usize, StateId)> = vec![(0..texts.len(), 0, from)];
        while let Some((range, depth, at)) = groups.pop() {
            let mut ends: Vec<StateId> = Vec::new();
            let mut edges: Vec<Edge> = Vec::new();
            let mut next = range.start;
            while let Some(&(text, to)) = texts.get(next).filter(|_| next < range.end) {
                let Some((&byte, rest)) = text.get(depth..).and_then(<[u8]>::split_first) else {
                    ends.push(to);
                    next += 1;
                    continue;
                };
                let others = texts.get(next..range.end).unwrap_or_default();
                let n = others.iter().take_while(|(other, _)| other.get(depth) == Some(&byte)).count().max(1);
                self.boundaries.add(byte, byte);
                let target = if n == 1 && rest.is_empty() { to } else { self.fresh() };
                edges.push(Edge { low: byte, high: byte, target });
                if n > 1 {
                    groups.push((next..next + n, depth + 1, target));
                } else if !rest.is_empty() {
                    self.literal(rest, target, to);
                }
                next += n;
            }
            if ends.is_empty() {
                self.edges(&edges, at);
            } else {
                if !edges.is_empty() {
                    let more = self.fresh();
                    self.edges(&edges, more);
                    ends.push(more);
                }
                self.jump(at, &ends);
            }
        }
    }

    fn edges(&mut self, edges: &[Edge], from: StateId) {
        if let &[Edge { low, high, target }] = edges {
            self.set(from, State::Byte { low, high, target });
        } else {
            let start = self.program.edges.len() as u32;
            self.program.edges.extend_from_slice(edges);
            self.set(from, State::Bytes(start, self.program.edges.len() as u32));
        }
    }

    fn literal(&mut self, text: &[u8], from: StateId, to: StateId) {
        let mut at = from;
        let mut bytes = text.iter().copied().peekable();
        if bytes.peek().is_none() {
            self.jump(from, &[to]);
        }
        while let Some(byte) = bytes.next() {
            let target = if bytes.peek().is_some() { self.fresh() } else { to };
            self.boundaries.add(byte, byte);
            self.set(at, State::Byte { low: byte, high: byte, target });
            at = target;
        }
    }

    fn sequences(&mut self, sequences: &[regex_syntax::utf8::Utf8Sequence], from: StateId, to: StateId) {
        // Sequences that end alike share the states of their endings.
        let mut endings: FxHashMap<(u8, u8, StateId), StateId> = FxHashMap::default();
        let mut first: Vec<Edge> = Vec::with_capacity(sequences.len());
        for sequence in sequences {
            let mut target = to;
            for (position, range) in sequence.as_slice().iter().enumerate().rev() {
                self.boundaries.add(range.start, range.end);
                let edge = Edge { low: range.start, high: range.end, target };
                if position == 0 {
                    first.push(edge);
                } else if let Some(&known) = endings.get(&(edge.low, edge.high, target)) {
                    target = known;
                } else {
                    let state = self.fresh();
                    self.set(state, State::Byte { low: edge.low, high: edge.high, target });
                    endings.insert((edge.low, edge.high, target), state);
                    self.endings.push(state);
                    target = state;
                }
            }
        }
        self.edges(&first, from);
    }

    fn repeat(
        &mut self,
        node: &Node<'_>,
        item: &Expr,
        bounds: (u64, Option<u64>),
        from: StateId,
        to: StateId,
    ) {
        let child = node.children.0;
        let cost = self.flat.cost(child);
        let (min, max) = bounds;
        if max == Some(0) || cost == INFINITE {
            return self.jump(from, &[to]);
        }
        // Each time the body consumes something; matching nothing is leaving early.
        let min = if cost == 0 { 0 } else { min };
        let simple = matches!(item, Expr::Class(_) | Expr::Any | Expr::Token(_) | Expr::Rule(_))
            || matches!(item, Expr::Literal(text) if text.len() <= 4);
        match (min, max) {
            (0, None) => {
                let body = self.start(child, from);
                self.jump(from, &[body, to]);
            }
            (1, None) => {
                let end = self.fresh();
                self.jump(end, &[from, to]);
                self.tasks.push((child, from, end));
            }
            (0, Some(1)) => {
                let body = self.start(child, to);
                self.jump(from, &[body, to]);
            }
            (1, Some(1)) => self.tasks.push((child, from, to)),
            (min, max) if simple && max.unwrap_or(min) <= WRITTEN_OUT => {
                let mut at = to;
                for _ in min..max.unwrap_or(min) {
                    let (body, next) = (self.start(child, at), self.fresh());
                    self.jump(next, &[body, to]);
                    at = next;
                }
                if max.is_none() {
                    at = self.fresh();
                    let body = self.start(child, at);
                    self.jump(at, &[body, to]);
                }
                at = (0..min).fold(at, |at, _| self.start(child, at));
                self.jump(from, &[at]);
            }
            (min, max) => {
                let body = self.fragment(child, cost, node.rule);
                let id = self.program.repetitions.len() as u32;
                self.program.repetitions.push(Repetition { body, min, max, after: to });
                self.set(from, State::Loop(id));
            }
        }
    }

    /// The fragment of a rule, made when first asked for.
    fn rule(&mut self, rule: u32) -> u32 {
        if let Some(Some(known)) = self.fragment_of.get(rule as usize) {
            return *known;
        }
        let body = self.flat.bodies.get(rule as usize).copied().flatten().unwrap_or(u32::MAX);
        let fragment = self.fragment(body, self.flat.cost(body), rule);
        if let Some(slot) = self.fragment_of.get_mut(rule as usize) {
            *slot = Some(fragment);
        }
        fragment
    }

    fn fragment(&mut self, node: u32, cost: u64, rule: u32) -> u32 {
        let (start, accept) = (self.fresh(), self.fresh());
        let id = self.program.fragments.len() as u32;
        self.program.fragments.push(Fragment { start, accept, cost, rank: 0, rule });
        self.tasks.push((node, start, accept));
        id
    }

    fn fresh(&mut self) -> StateId {
        self.program.states.push(State::Accept);
        (self.program.states.len() - 1) as StateId
    }

    fn set(&mut self, id: StateId, state: State) {
        if let Some(slot) = self.program.states.get_mut(id as usize) {
            *slot = state;
        }
    }

    fn jump(&mut self, from: StateId, to: &[StateId]) {
        let start = self.program.targets.len() as u32;
        self.program.targets.extend_from_slice(to);
        self.set(from, State::Split(start, self.program.targets.len() as u32));
    }
}

/// The token a terminal names.
fn resolve(token: &TokenMatch, vocabulary: &Vocabulary) -> Result<TokenId, Error> {
    let missing = |name: String| {
        Error::new(Kind::Undefined, format!("the vocabulary has no token {name}"))
            .hint("token terminals name a token by its number, <[123]>, or by the whole of its text, <think>")
    };
    match &token.name {
        TokenName::Id(id) if vocabulary.kind(*id) == TokenKind::Unused => Err(missing(format!("<[{id}]>"))),
        TokenName::Id(id) => Ok(*id),
        TokenName::Text(text) => vocabulary
            .special(text)
            .or_else(|| {
                let same = |&token: &TokenId| vocabulary.bytes(token) == text.as_bytes();
                vocabulary.beginning(text.as_bytes()).into_iter().find(same)
            })
            .ok_or_else(|| missing(text.clone())),
    }
}
