//! A matcher written for clarity alone: it keeps every stack of things still to match, and advances all of them by
//! one byte at a time. It shares no code with the engine, which is compared with it.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use toolgate_grammar::gbnf::{CharClass, TokenMatch, TokenName};
use toolgate_grammar::{Expr, Grammar, TokenId, TokenKind, Vocabulary};

/// A grammar's expressions, each with what is known about it.
#[derive(Debug)]
pub(crate) struct Language {
    nodes: Vec<Node>,
    /// The node of each rule's body.
    bodies: Vec<usize>,
    root: usize,
    /// Whether anything matches a node.
    possible: Vec<bool>,
    /// Whether the empty text does.
    nullable: Vec<bool>,
    /// Whether a reference over it has met more stacks than it follows.
    gave_up: Cell<bool>,
}

#[derive(Debug)]
enum Node {
    Text(Vec<char>),
    Chars(Vec<RangeInclusive<u32>>),
    Token(TokenMatch),
    Rule(usize),
    Sequence(Vec<usize>),
    Choice(Vec<usize>),
    Repeat { item: usize, min: u64, max: Option<u64> },
}

impl Language {
    pub(crate) fn new(grammar: &Grammar) -> Self {
        let mut nodes = Vec::new();
        let bodies: Vec<usize> = grammar.rules().iter().map(|rule| add(&mut nodes, &rule.body)).collect();
        let (possible, nullable) = (vec![false; nodes.len()], vec![false; nodes.len()]);
        let mut new = Self {
            nodes,
            bodies,
            root: grammar.root().index(),
            possible,
            nullable,
            gave_up: Cell::new(false),
        };
        // Both start from "no" and only ever turn to "yes": repeating until nothing changes finds the least answer.
        loop {
            let possible: Vec<bool> = new.nodes.iter().map(|node| new.can_match(node)).collect();
            let nullable: Vec<bool> = new.nodes.iter().map(|node| new.can_be_empty(node)).collect();
            if (&possible, &nullable) == (&new.possible, &new.nullable) {
                return new;
            }
            (new.possible, new.nullable) = (possible, nullable);
        }
    }

    fn can_match(&self, node: &Node) -> bool {
        match node {
            Node::Text(_) | Node::Token(_) => true,
            Node::Chars(ranges) => !ranges.is_empty(),
            Node::Rule(rule) => self.possible[self.bodies[*rule]],
            Node::Sequence(items) => items.iter().all(|item| self.possible[*item]),
            Node::Choice(items) => items.iter().any(|item| self.possible[*item]),
            Node::Repeat { item, min, max } => {
                max.is_none_or(|max| *min <= max) && (*min == 0 || self.possible[*item])
            }
        }
    }

    fn can_be_empty(&self, node: &Node) -> bool {
        match node {
            Node::Text(text) => text.is_empty(),
            Node::Chars(_) | Node::Token(_) => false,
            Node::Rule(rule) => self.nullable[self.bodies[*rule]],
            Node::Sequence(items) => items.iter().all(|item| self.nullable[*item]),
            Node::Choice(items) => items.iter().any(|item| self.nullable[*item]),
            Node::Repeat { item, min, max } => {
                max.is_none_or(|max| *min <= max) && (*min == 0 || self.nullable[*item])
            }
        }
    }

    /// Whether anything at all matches.
    pub(crate) fn is_possible(&self) -> bool {
        self.possible[self.bodies[self.root]]
    }

    /// Whether a rule that can come up may call itself before it has read anything.
    pub(crate) fn is_left_recursive(&self) -> bool {
        let reached = self.closure(&[self.root], |rule| self.rules_in(self.bodies[rule], false));
        reached.iter().any(|&rule| {
            let first = self.rules_in(self.bodies[rule], true);
            self.closure(&first, |rule| self.rules_in(self.bodies[rule], true)).contains(&rule)
        })
    }

    fn closure(&self, from: &[usize], next: impl Fn(usize) -> Vec<usize>) -> BTreeSet<usize> {
        let (mut work, mut found) = (from.to_vec(), BTreeSet::new());
        while let Some(rule) = work.pop() {
            if found.insert(rule) {
                work.extend(next(rule));
            }
        }
        found
    }

    /// The rules a node may call; with `first`, those it may call before it has read anything.
    fn rules_in(&self, node: usize, first: bool) -> Vec<usize> {
        if !self.possible[node] {
            return Vec::new();
        }
        let all = |items: &[usize]| items.iter().flat_map(|item| self.rules_in(*item, first)).collect();
        match &self.nodes[node] {
            Node::Text(_) | Node::Chars(_) | Node::Token(_) => Vec::new(),
            Node::Rule(rule) => vec![*rule],
            Node::Repeat { max: Some(0), .. } => Vec::new(),
            Node::Repeat { item, .. } => self.rules_in(*item, first),
            Node::Choice(items) => all(items),
            Node::Sequence(items) => {
                let read = items.iter().position(|item| !self.nullable[*item]);
                let reached = if first { read.map_or(items.len(), |at| at + 1) } else { items.len() };
                all(&items[..reached])
            }
        }
    }
}

fn add(nodes: &mut Vec<Node>, expr: &Expr) -> usize {
    let node = match expr {
        Expr::Literal(text) => Node::Text(text.chars().collect()),
        Expr::Class(class) => Node::Chars(scalars(class)),
        Expr::Any => Node::Chars(scalars(&CharClass { negated: true, ranges: Vec::new() })),
        Expr::Token(token) => Node::Token(token.clone()),
        Expr::Rule(rule) => Node::Rule(rule.index()),
        Expr::Sequence(items) => Node::Sequence(items.iter().map(|item| add(nodes, item)).collect()),
        Expr::Choice(items) => Node::Choice(items.iter().map(|item| add(nodes, item)).collect()),
        Expr::Repeat { item, min, max } => Node::Repeat { item: add(nodes, item), min: *min, max: *max },
    };
    nodes.push(node);
    nodes.len() - 1
}

/// The characters of a class, without surrogates.
fn scalars(class: &CharClass) -> Vec<RangeInclusive<u32>> {
    let written = class.ranges.iter().map(|&(low, high)| (i64::from(low), i64::from(high)));
    let without = |ranges: Vec<(i64, i64)>, (low, high): (i64, i64)| -> Vec<(i64, i64)> {
        let parts = ranges.into_iter().flat_map(|(a, b)| [(a, b.min(low - 1)), (a.max(high + 1), b)]);
        parts.filter(|(a, b)| a <= b).collect()
    };
    let chosen = match class.negated {
        false => written.collect(),
        true => written.filter(|(low, high)| low <= high).fold(vec![(0, 0x10_ffff)], without),
    };
    let scalars = without(chosen, (0xd800, 0xdfff));
    scalars.into_iter().map(|(low, high)| low as u32..=high as u32).collect()
}

/// Something still to be matched; the last of a stack comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Todo {
    Node(usize),
    /// A literal from this character on.
    Text(usize, usize),
    /// A node so many more times, at least and at most.
    Times(usize, u64, Option<u64>),
    /// The body of a repetition was entered here, and nothing has been read since. A body that ends so is no
    /// repetition worth having: leaving it out gives the same text.
    Entered,
}

/// What is still to match, and the bytes of a character that is not whole yet.
type Stack = (Vec<Todo>, Vec<u8>);

/// More stacks than this are not followed: each letter of a long token may multiply them.
const MOST_STACKS: usize = 20_000;

/// Where a text stands.
#[derive(Clone, Debug)]
pub(crate) struct Reference<'l> {
    language: &'l Language,
    stacks: BTreeSet<Stack>,
    ended: bool,
}

impl<'l> Reference<'l> {
    /// At the start. The language must not be left-recursive: the stacks of one that is never come to an end.
    pub(crate) fn new(language: &'l Language) -> Self {
        let new = Self { language, stacks: BTreeSet::new(), ended: false };
        let stacks = new.closed([(vec![Todo::Node(language.bodies[language.root])], Vec::new())]);
        Self { stacks, ..new }
    }

    /// Whether there were too many stacks at some step, so that nothing said since then counts.
    pub(crate) fn gave_up(&self) -> bool {
        self.language.gave_up.get()
    }

    /// How many stacks are alive.
    pub(crate) fn width(&self) -> usize {
        self.stacks.len()
    }

    /// Whether the text is a whole match.
    pub(crate) fn is_complete(&self) -> bool {
        self.ended || self.stacks.iter().any(|(todo, partial)| todo.is_empty() && partial.is_empty())
    }

    /// After more text; none if that cannot come next.
    pub(crate) fn after_bytes(&self, bytes: &[u8]) -> Option<Self> {
        if self.ended {
            return None;
        }
        let mut stacks = self.stacks.clone();
        for &byte in bytes {
            stacks = self.closed(stacks.iter().filter_map(|stack| self.after_byte(stack, byte)));
        }
        (!stacks.is_empty()).then(|| Self { stacks, ..self.clone() })
    }

    /// After a token; none if that cannot come next.
    pub(crate) fn after_token(&self, token: TokenId, vocabulary: &Vocabulary) -> Option<Self> {
        let (kind, bytes) = (vocabulary.kind(token), vocabulary.bytes(token));
        if kind == TokenKind::Unused || self.ended {
            return None;
        }
        let text = kind == TokenKind::Text && !bytes.is_empty();
        let by_text = text.then(|| self.after_bytes(bytes)).flatten().map(|after| after.stacks);
        let by_name = self.stacks.iter().filter_map(|(todo, partial)| {
            let (Todo::Node(node), rest) = todo.split_last()? else { return None };
            let Node::Token(TokenMatch { negated, name }) = &self.language.nodes[*node] else { return None };
            let same = match name {
                TokenName::Id(id) => *id == token,
                TokenName::Text(text) => named(text, vocabulary) == Some(token),
            };
            // A negated terminal stands for a token that can be shown or is a control token, not for the end.
            let ordinary = text || kind == TokenKind::Special;
            let fits = partial.is_empty() && if *negated { ordinary && !same } else { same };
            fits.then(|| (read(rest.to_vec()), Vec::new()))
        });
        let mut stacks = self.closed(by_name);
        stacks.extend(by_text.into_iter().flatten());
        // An end token that the grammar names is part of the text.
        let ended = stacks.is_empty() && kind == TokenKind::EndOfGeneration && self.is_complete();
        (!stacks.is_empty() || ended).then(|| Self { stacks, ended, ..self.clone() })
    }

    /// All stacks that `stacks` stand for and that can go on only by reading something, or are at their end.
    fn closed(&self, stacks: impl IntoIterator<Item = Stack>) -> BTreeSet<Stack> {
        let Language { nodes, bodies, possible, nullable, .. } = self.language;
        let mut work: Vec<Stack> = stacks.into_iter().collect();
        let (mut seen, mut closed) = (BTreeSet::new(), BTreeSet::new());
        while let Some(stack) = work.pop() {
            if seen.len() > MOST_STACKS {
                self.language.gave_up.set(true);
                return closed;
            }
            if !seen.insert(stack.clone()) {
                continue;
            }
            let (todo, partial) = &stack;
            let Some((&top, rest)) = todo.split_last() else {
                closed.insert(stack);
                continue;
            };
            let mut push = |more: &[Todo]| work.push(([rest, more].concat(), partial.clone()));
            match top {
                Todo::Entered => {}
                Todo::Text(node, at) => match &nodes[node] {
                    Node::Text(text) if at == text.len() => push(&[]),
                    _ => {
                        closed.insert(stack);
                    }
                },
                Todo::Times(item, min, max) => {
                    if min == 0 || nullable[item] {
                        push(&[]);
                    }
                    if possible[item] && max != Some(0) {
                        let again = Todo::Times(item, min.saturating_sub(1), max.map(|max| max - 1));
                        push(&[again, Todo::Entered, Todo::Node(item)]);
                    }
                }
                Todo::Node(node) if !possible[node] => {}
                Todo::Node(node) => match &nodes[node] {
                    Node::Text(_) => push(&[Todo::Text(node, 0)]),
                    Node::Rule(rule) => push(&[Todo::Node(bodies[*rule])]),
                    Node::Sequence(items) => {
                        push(&items.iter().rev().map(|item| Todo::Node(*item)).collect::<Vec<_>>());
                    }
                    Node::Choice(items) => items.iter().for_each(|item| push(&[Todo::Node(*item)])),
                    Node::Repeat { item, min, max } => push(&[Todo::Times(*item, *min, *max)]),
                    Node::Chars(_) | Node::Token(_) => {
                        closed.insert(stack);
                    }
                },
            }
        }
        closed
    }

    fn after_byte(&self, (todo, partial): &Stack, byte: u8) -> Option<Stack> {
        let (top, rest) = todo.split_last()?;
        let bytes: Vec<u8> = partial.iter().copied().chain([byte]).collect();
        let possible = characters(&bytes)?;
        let common =
            |range: &RangeInclusive<u32>| range.start() <= possible.end() && possible.start() <= range.end();
        let fits = match top {
            Todo::Text(node, at) => match &self.language.nodes[*node] {
                Node::Text(text) => possible.contains(&u32::from(text[*at])),
                _ => false,
            },
            Todo::Node(node) => match &self.language.nodes[*node] {
                Node::Chars(ranges) => ranges.iter().any(common),
                _ => false,
            },
            Todo::Times(..) | Todo::Entered => false,
        };
        if !fits {
            return None;
        }
        if std::str::from_utf8(&bytes).is_err() {
            return Some((todo.clone(), bytes));
        }
        let mut rest = rest.to_vec();
        if let Todo::Text(node, at) = top {
            rest.push(Todo::Text(*node, at + 1));
        }
        Some((read(rest), Vec::new()))
    }
}

/// A stack after something was read: every repetition entered so far has read something.
fn read(mut todo: Vec<Todo>) -> Vec<Todo> {
    todo.retain(|todo| *todo != Todo::Entered);
    todo
}

/// The token a text names: a special one if there is one, else the first.
fn named(text: &str, vocabulary: &Vocabulary) -> Option<TokenId> {
    let tokens = (0..vocabulary.len() as TokenId).filter(|&token| vocabulary.bytes(token) == text.as_bytes());
    let rank = |token: &TokenId| match vocabulary.kind(*token) {
        TokenKind::Special | TokenKind::EndOfGeneration => 0,
        TokenKind::Text => 1,
        TokenKind::Unused => 2,
    };
    tokens.min_by_key(rank)
}

/// The characters whose UTF-8 starts with `bytes`, as a range that may hold surrogates beside others.
fn characters(bytes: &[u8]) -> Option<RangeInclusive<u32>> {
    let (&lead, rest) = bytes.split_first()?;
    let (length, bits) = match lead {
        0..=0x7f => (1, u32::from(lead)),
        0xc2..=0xdf => (2, u32::from(lead & 0x1f)),
        0xe0..=0xef => (3, u32::from(lead & 0x0f)),
        0xf0..=0xf4 => (4, u32::from(lead & 0x07)),
        _ => return None,
    };
    let missing = usize::checked_sub(length, bytes.len())? as u32;
    let known = rest.iter().try_fold(bits, |value, &byte| match byte {
        0x80..=0xbf => Some(value << 6 | u32::from(byte & 0x3f)),
        _ => None,
    })?;
    let least = [0, 0, 0x80, 0x800, 0x1_0000][length];
    let (low, high) = (known << (6 * missing), ((known + 1) << (6 * missing)) - 1);
    let range = low.max(least)..=high.min(0x10_ffff);
    let only_surrogates = *range.start() >= 0xd800 && *range.end() <= 0xdfff;
    (!range.is_empty() && !only_surrogates).then_some(range)
}
