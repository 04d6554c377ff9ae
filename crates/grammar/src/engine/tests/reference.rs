//! A matcher written for clarity alone: it keeps every stack of things still to match, and advances all of them
//! by one character at a time. What the engine does is compared with it.

use std::collections::BTreeSet;

use super::super::{TokenId, TokenKind, Vocabulary};
use crate::gbnf::{CharClass, Expr, Grammar, TokenMatch, TokenName};

/// Something still to be matched; the last of a stack comes first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Todo {
    /// The expression at this address of the grammar: rule, then child indices.
    Expr(Vec<usize>),
    /// So many more times of the expression, at least and at most.
    Times(Vec<usize>, u64, Option<u64>),
    /// The rest of a literal.
    Text(String),
}

/// A stack, and the bytes of a character that is not whole yet.
type Stack = (Vec<Todo>, Vec<u8>);

/// The stacks that are alive.
#[derive(Clone, Debug)]
pub(super) struct Reference<'g> {
    grammar: &'g Grammar,
    productive: Vec<bool>,
    stacks: BTreeSet<Stack>,
    ended: bool,
}

impl<'g> Reference<'g> {
    pub(super) fn new(grammar: &'g Grammar) -> Self {
        let mut productive = vec![false; grammar.rules().len()];
        for _ in 0..=grammar.rules().len() {
            productive = grammar.rules().iter().map(|rule| can_match(&rule.body, &productive)).collect();
        }
        let mut new = Self { grammar, productive, stacks: BTreeSet::new(), ended: false };
        new.stacks = new.closed([(vec![Todo::Expr(vec![grammar.root().index()])], Vec::new())].into());
        new
    }

    pub(super) fn is_complete(&self) -> bool {
        self.ended || self.stacks.iter().any(|(todo, partial)| todo.is_empty() && partial.is_empty())
    }

    pub(super) fn after_bytes(&self, bytes: &[u8]) -> Option<Self> {
        let mut stacks = self.stacks.clone();
        for &byte in bytes {
            stacks = self.closed(stacks.iter().filter_map(|stack| self.after_byte(stack, byte)).collect());
        }
        let alive = !stacks.is_empty() && !self.ended;
        alive.then(|| Self { stacks, ..self.clone() })
    }

    pub(super) fn after_token(&self, token: TokenId, vocabulary: &Vocabulary) -> Option<Self> {
        let (kind, bytes) = (vocabulary.kind(token), vocabulary.bytes(token));
        let mut stacks = BTreeSet::new();
        if kind == TokenKind::Text && !bytes.is_empty() {
            stacks.extend(self.after_bytes(bytes).into_iter().flat_map(|after| after.stacks));
        }
        for (todo, partial) in &self.stacks {
            let Some((Todo::Expr(path), rest)) = todo.split_last() else { continue };
            let Expr::Token(TokenMatch { negated, name }) = self.expr(path) else { continue };
            let same = match name {
                TokenName::Id(id) => *id == token,
                TokenName::Text(text) => token == named(text, vocabulary),
            };
            let ordinary = kind == TokenKind::Special || kind == TokenKind::Text && !bytes.is_empty();
            if partial.is_empty()
                && kind != TokenKind::Unused
                && if *negated { !same && ordinary } else { same }
            {
                stacks.insert((rest.to_vec(), Vec::new()));
            }
        }
        let stacks = self.closed(stacks);
        // An end token that the grammar names is part of the text.
        let ended =
            stacks.is_empty() && kind == TokenKind::EndOfGeneration && self.is_complete() && !self.ended;
        (!stacks.is_empty() || ended).then(|| Self { stacks, ended, ..self.clone() })
    }

    fn expr(&self, path: &[usize]) -> &'g Expr {
        let (rule, rest) = path.split_first().unwrap();
        rest.iter().fold(&self.grammar.rules()[*rule].body, |expr, &child| match expr {
            Expr::Sequence(items) | Expr::Choice(items) => &items[child],
            Expr::Repeat { item, .. } => item,
            _ => unreachable!("a path leads through groups"),
        })
    }

    /// All stacks that `stacks` stand for whose top consumes something, or which are empty.
    fn closed(&self, stacks: BTreeSet<Stack>) -> BTreeSet<Stack> {
        let mut work: Vec<Stack> = stacks.into_iter().collect();
        let (mut seen, mut closed) = (BTreeSet::new(), BTreeSet::new());
        while let Some(stack) = work.pop() {
            if !seen.insert(stack.clone()) {
                continue;
            }
            let (todo, partial) = &stack;
            let Some((top, rest)) = todo.split_last() else {
                closed.insert(stack);
                continue;
            };
            let mut push = |more: Vec<Todo>| work.push(([rest.to_vec(), more].concat(), partial.clone()));
            let child = |path: &Vec<usize>, index| Todo::Expr([path.clone(), vec![index]].concat());
            match top {
                Todo::Text(text) if text.is_empty() => push(vec![]),
                Todo::Text(_) => {
                    closed.insert(stack);
                }
                Todo::Times(path, min, max) => {
                    if *min == 0 {
                        push(vec![]);
                    }
                    let once = can_match(self.expr(path), &self.productive) && *max != Some(0);
                    if once {
                        let again = Todo::Times(
                            path.clone(),
                            min.saturating_sub(1),
                            max.map(|m| m.saturating_sub(1)),
                        );
                        push(vec![again, Todo::Expr(path.clone())]);
                    }
                }
                Todo::Expr(path) if !can_match(self.expr(path), &self.productive) => {}
                Todo::Expr(path) => match self.expr(path) {
                    Expr::Literal(text) => push(vec![Todo::Text(text.clone())]),
                    Expr::Rule(rule) => push(vec![Todo::Expr(vec![rule.index()])]),
                    Expr::Sequence(items) => push((0..items.len()).rev().map(|i| child(path, i)).collect()),
                    Expr::Choice(items) => (0..items.len()).for_each(|i| push(vec![child(path, i)])),
                    Expr::Repeat { min, max, .. } => {
                        push(vec![Todo::Times([path.clone(), vec![0]].concat(), *min, *max)]);
                    }
                    Expr::Class(_) | Expr::Any | Expr::Token(_) => {
                        closed.insert(stack);
                    }
                },
            }
        }
        closed
    }

    fn after_byte(&self, (todo, partial): &Stack, byte: u8) -> Option<Stack> {
        let (top, rest) = todo.split_last()?;
        let mut rest = rest.to_vec();
        let mut bytes = partial.clone();
        bytes.push(byte);
        let possible = characters(&bytes)?;
        let fits = |c: char| match top {
            Todo::Text(text) => text.starts_with(c),
            Todo::Expr(path) => match self.expr(path) {
                Expr::Class(class) => contains(class, c),
                Expr::Any => true,
                _ => false,
            },
            Todo::Times(..) => false,
        };
        if !possible.clone().filter_map(char::from_u32).any(fits) {
            return None;
        }
        if std::str::from_utf8(&bytes).is_err() {
            return Some((todo.clone(), bytes));
        }
        if let Todo::Text(text) = top {
            rest.push(Todo::Text(text.chars().skip(1).collect()));
        }
        Some((rest, Vec::new()))
    }
}

/// The token a text names: a special one if there is one, else the first.
fn named(text: &str, vocabulary: &Vocabulary) -> TokenId {
    let tokens = (0..vocabulary.len() as TokenId).filter(|&token| vocabulary.bytes(token) == text.as_bytes());
    let rank = |token: &TokenId| match vocabulary.kind(*token) {
        TokenKind::Special | TokenKind::EndOfGeneration => 0,
        TokenKind::Text => 1,
        TokenKind::Unused => 2,
    };
    tokens.min_by_key(rank).unwrap()
}

fn contains(class: &CharClass, c: char) -> bool {
    class.ranges.iter().any(|&(low, high)| (low..=high).contains(&(c as u32))) != class.negated
}

/// The characters whose UTF-8 starts with `bytes`, as a range that may hold surrogates.
fn characters(bytes: &[u8]) -> Option<std::ops::RangeInclusive<u32>> {
    let (&lead, rest) = bytes.split_first()?;
    let (length, bits) = match lead {
        0..=0x7f => (1, u32::from(lead)),
        0xc2..=0xdf => (2, u32::from(lead & 0x1f)),
        0xe0..=0xef => (3, u32::from(lead & 0x0f)),
        0xf0..=0xf4 => (4, u32::from(lead & 0x07)),
        _ => return None,
    };
    let missing = (length as usize).checked_sub(bytes.len())? as u32;
    let known = rest.iter().try_fold(bits, |value, &byte| match byte {
        0x80..=0xbf => Some(value << 6 | u32::from(byte & 0x3f)),
        _ => None,
    })?;
    let least = [0, 0, 0x80, 0x800, 0x1_0000][length as usize];
    let (low, high) = (known << (6 * missing), ((known + 1) << (6 * missing)) - 1);
    let range = low.max(least)..=high.min(0x10_ffff);
    let only_surrogates = *range.start() >= 0xd800 && *range.end() <= 0xdfff;
    (!range.is_empty() && !only_surrogates).then_some(range)
}

/// Whether anything matches `expr`, given the rules that something matches.
fn can_match(expr: &Expr, productive: &[bool]) -> bool {
    match expr {
        Expr::Literal(_) | Expr::Any | Expr::Token(_) => true,
        Expr::Class(class) => (0..=0x10_ffff).filter_map(char::from_u32).any(|c| contains(class, c)),
        Expr::Rule(rule) => productive[rule.index()],
        Expr::Sequence(items) => items.iter().all(|item| can_match(item, productive)),
        Expr::Choice(items) => items.iter().any(|item| can_match(item, productive)),
        Expr::Repeat { item, min, max } => {
            max.is_none_or(|max| *min <= max) && (*min == 0 || can_match(item, productive))
        }
    }
}
