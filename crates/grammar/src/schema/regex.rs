//! The reader of regular expressions: text to [`Node`]. Beneath `pattern`.
//!
//! Invariant: the time it takes is linear in the source, but for the sets of Unicode, whose sizes are counted.

use std::cell::RefCell;

use regex_syntax::hir::{Class, HirKind};
use rustc_hash::FxHashMap;

use super::node::{Look, Node, Ranges, Refusal, WORD, complement, union};
use crate::work::{Work, items};

const DIGIT: [(u32, u32); 1] = [(0x30, 0x39)];
/// WhiteSpace and LineTerminator of ECMA 262, 12.2 and 12.3.
const SPACE: [(u32, u32); 10] = [
    (0x09, 0x0D),
    (0x20, 0x20),
    (0xA0, 0xA0),
    (0x1680, 0x1680),
    (0x2000, 0x200A),
    (0x2028, 0x2029),
    (0x202F, 0x202F),
    (0x205F, 0x205F),
    (0x3000, 0x3000),
    (0xFEFF, 0xFEFF),
];
const LINE_END: [(u32, u32); 3] = [(0x0A, 0x0A), (0x0D, 0x0D), (0x2028, 0x2029)];
/// Nesting of groups a pattern may have.
const DEPTH: usize = 100;
/// The greatest repetition count; beyond it a pattern cannot become an automaton anyway.
const COUNT: u32 = 1_000_000;
/// What finding out the code points of a property takes, in steps.
const PROPERTY: u64 = 400;

/// Reads patterns, which share the properties of Unicode that they name.
pub(crate) struct Reader<'w> {
    work: &'w Work,
    /// By name and whether they are negated.
    properties: RefCell<FxHashMap<(String, bool), Option<Ranges>>>,
}

impl<'w> Reader<'w> {
    pub(crate) fn new(work: &'w Work) -> Self {
        Self { work, properties: RefCell::default() }
    }

    /// One whose steps nobody counts.
    #[cfg(test)]
    pub(crate) fn unbounded() -> Reader<'static> {
        Reader::new(Box::leak(Box::new(Work::unbounded())))
    }

    pub(super) fn read(&self, source: &str) -> Result<Node, Refusal> {
        // Every character is an element of its own.
        self.work.spend(source.len() as u64);
        let mut parser = Parser { reader: self, chars: source.chars().collect(), at: 0, ignore_case: false };
        if source.starts_with("(?i)") {
            // Not ECMA, but common in the wild, and it has one meaning everywhere it is understood.
            parser.at = 4;
            parser.ignore_case = true;
        }
        let node = parser.choice(0)?;
        match parser.peek() {
            None => Ok(node),
            Some(_) => Err(Refusal::Malformed("a closing parenthesis without an opening one".to_owned())),
        }
    }

    /// The code points of a property; the tables are those of the regex crates.
    fn property(&self, name: String, negated: bool) -> Option<Ranges> {
        // Only a plain name may reach the other parser, whose syntax is richer than ours.
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '=') {
            return None;
        }
        let mut properties = self.properties.borrow_mut();
        let key = (name, negated);
        if let Some(known) = properties.get(&key) {
            return known.clone();
        }
        self.work.spend(PROPERTY);
        let hir = regex_syntax::Parser::new().parse(&format!("\\p{{{}}}", key.0)).ok();
        let ranges = hir.as_ref().and_then(|hir| match hir.kind() {
            HirKind::Class(Class::Unicode(class)) => {
                let ranges = class.ranges().iter();
                Some(union(ranges.map(|range| (range.start() as u32, range.end() as u32)).collect()))
            }
            _ => None,
        });
        let ranges: Option<Ranges> =
            ranges.map(|ranges| if negated { complement(&ranges) } else { ranges }.into());
        properties.insert(key, ranges.clone());
        ranges
    }
}

struct Parser<'r> {
    reader: &'r Reader<'r>,
    chars: Vec<char>,
    at: usize,
    ignore_case: bool,
}

impl Parser<'_> {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += 1;
        Some(c)
    }

    fn eat(&mut self, text: &str) -> bool {
        let matches = text.chars().enumerate().all(|(i, c)| self.chars.get(self.at + i) == Some(&c));
        if matches {
            self.at += text.chars().count();
        }
        matches
    }

    fn choice(&mut self, depth: usize) -> Result<Node, Refusal> {
        if depth > DEPTH {
            return Err(Refusal::Unsupported("groups are nested too deeply"));
        }
        let mut branches = vec![self.sequence(depth)?];
        while self.eat("|") {
            branches.push(self.sequence(depth)?);
        }
        Ok(if branches.len() == 1 { branches.swap_remove(0) } else { Node::Choice(branches) })
    }

    fn sequence(&mut self, depth: usize) -> Result<Node, Refusal> {
        let mut items = Vec::new();
        while let Some(c) = self.peek() {
            if c == '|' || c == ')' {
                break;
            }
            let atom = self.atom(depth)?;
            let item = self.quantified(atom)?;
            if !item.is_empty() {
                items.push(item);
            }
        }
        Ok(if items.len() == 1 { items.swap_remove(0) } else { Node::Sequence(items) })
    }

    fn atom(&mut self, depth: usize) -> Result<Node, Refusal> {
        let Some(c) = self.next() else { return Ok(Node::Sequence(Vec::new())) };
        match c {
            '^' => Ok(Node::Look(Look::Start)),
            '$' => Ok(Node::Look(Look::End)),
            '.' => Ok(Node::Class(complement(&LINE_END).into())),
            '(' => self.group(depth),
            '[' => self.class(),
            '\\' => self.escape(),
            '*' | '+' | '?' => Err(Refusal::Malformed(format!("nothing to repeat before \"{c}\""))),
            other => Ok(self.literal(other)),
        }
    }

    fn group(&mut self, depth: usize) -> Result<Node, Refusal> {
        if self.eat("?") {
            if self.eat("=") || self.eat("!") {
                return Err(Refusal::Unsupported("look-ahead"));
            }
            if self.eat("<=") || self.eat("<!") {
                return Err(Refusal::Unsupported("look-behind"));
            }
            if self.eat("<") || self.eat("P<") {
                let mut length = 0;
                while let Some(c) = self.next() {
                    if c == '>' {
                        break;
                    }
                    length += 1;
                }
                if length == 0 {
                    return Err(Refusal::Malformed("a group without a name".to_owned()));
                }
            } else if !self.eat(":") {
                return Err(Refusal::Malformed("an unknown kind of group".to_owned()));
            }
        }
        let inner = self.choice(depth + 1)?;
        if self.eat(")") { Ok(inner) } else { Err(Refusal::Malformed("a group is not closed".to_owned())) }
    }

    fn quantified(&mut self, atom: Node) -> Result<Node, Refusal> {
        let (min, max) = match self.peek() {
            Some('{') => match self.counts() {
                Some(counts) => counts,
                // Annex B: a brace that starts no quantifier is a brace.
                None => return Ok(atom),
            },
            Some(c @ ('*' | '+' | '?')) => {
                self.at += 1;
                (u32::from(c == '+'), (c == '?').then_some(1))
            }
            _ => return Ok(atom),
        };
        // A lazy quantifier matches the same texts.
        self.eat("?");
        if matches!(self.peek(), Some('*' | '+')) {
            return Err(Refusal::Malformed("a quantifier follows a quantifier".to_owned()));
        }
        if max.is_some_and(|max| max < min) {
            return Err(Refusal::Malformed("a quantifier's bounds are out of order".to_owned()));
        }
        if min.max(max.unwrap_or(0)) > COUNT {
            return Err(Refusal::Unsupported("a repetition count beyond 1,000,000"));
        }
        if atom.is_empty() || max == Some(0) {
            return Ok(Node::Sequence(Vec::new()));
        }
        Ok(Node::Repeat { item: Box::new(atom), min, max })
    }

    /// `{m}`, `{m,}` or `{m,n}`; nothing is consumed otherwise.
    fn counts(&mut self) -> Option<(u32, Option<u32>)> {
        let start = self.at;
        let counts = self.counts_or_nothing();
        if counts.is_none() {
            self.at = start;
        }
        counts
    }

    fn counts_or_nothing(&mut self) -> Option<(u32, Option<u32>)> {
        self.eat("{");
        let min = self.number()?;
        if self.eat("}") {
            return Some((min, Some(min)));
        }
        if !self.eat(",") {
            return None;
        }
        if self.eat("}") {
            return Some((min, None));
        }
        let max = self.number()?;
        self.eat("}").then_some((min, Some(max)))
    }

    fn number(&mut self) -> Option<u32> {
        let mut value: Option<u32> = None;
        while let Some(digit) = self.peek().and_then(|c| c.to_digit(10)) {
            value = Some(value.unwrap_or(0).saturating_mul(10).saturating_add(digit));
            self.at += 1;
        }
        value
    }

    fn literal(&self, c: char) -> Node {
        Node::Class(self.folded(vec![(c as u32, c as u32)]).into())
    }

    /// Adds a set to a class. Sets are large for what it takes to write them.
    fn extend(&self, ranges: &mut Vec<(u32, u32)>, set: &[(u32, u32)]) -> Result<(), Refusal> {
        if !self.reader.work.spend(items(set.len())) {
            return Err(Refusal::Unsupported("more classes than may be read"));
        }
        ranges.extend(set);
        Ok(())
    }

    fn folded(&self, mut ranges: Vec<(u32, u32)>) -> Vec<(u32, u32)> {
        if self.ignore_case {
            for (low, high) in ranges.clone() {
                for c in (low.max(0x41)..=high.min(0x5A)).chain(low.max(0x61)..=high.min(0x7A)) {
                    ranges.push((c ^ 0x20, c ^ 0x20));
                }
            }
        }
        union(ranges)
    }

    fn escape(&mut self) -> Result<Node, Refusal> {
        match self.peek() {
            Some('b') => self.look(Look::WordEdge),
            Some('B') => self.look(Look::NotWordEdge),
            // Not ECMA; other dialects anchor with them, and they have no other meaning here.
            Some('A') => self.look(Look::Start),
            Some('Z' | 'z') => self.look(Look::End),
            Some('1'..='9' | 'k') => Err(Refusal::Unsupported("a back-reference")),
            _ => Ok(Node::Class(match self.class_escape()? {
                ClassItem::Set(set) if !self.ignore_case => set,
                ClassItem::Set(set) => {
                    let mut ranges = Vec::new();
                    self.extend(&mut ranges, &set)?;
                    self.folded(ranges).into()
                }
                ClassItem::One(code) => self.folded(vec![(code, code)]).into(),
            })),
        }
    }

    fn look(&mut self, look: Look) -> Result<Node, Refusal> {
        self.at += 1;
        Ok(Node::Look(look))
    }

    /// After a backslash, in a class or outside.
    fn class_escape(&mut self) -> Result<ClassItem, Refusal> {
        let Some(c) = self.next() else {
            return Err(Refusal::Malformed("a backslash at the end".to_owned()));
        };
        let one = |code: u32| Ok(ClassItem::One(code));
        match c {
            'd' => Ok(ClassItem::Set(DIGIT.into())),
            'D' => Ok(ClassItem::Set(complement(&DIGIT).into())),
            'w' => Ok(ClassItem::Set(WORD.into())),
            'W' => Ok(ClassItem::Set(complement(&WORD).into())),
            's' => Ok(ClassItem::Set(SPACE.into())),
            'S' => Ok(ClassItem::Set(complement(&SPACE).into())),
            't' => one(9),
            'n' => one(10),
            'v' => one(11),
            'f' => one(12),
            'r' => one(13),
            'a' => one(7),
            'e' => one(27),
            '0' if !self.peek().is_some_and(|c| c.is_ascii_digit()) => one(0),
            'c' => match self.next() {
                Some(letter) if letter.is_ascii_alphabetic() => one(letter as u32 % 32),
                _ => Err(Refusal::Malformed("\\c without a letter".to_owned())),
            },
            'x' => self.hex(2).map_or_else(|| one('x' as u32), one),
            'u' => self.unicode(),
            'p' | 'P' => self.property(c == 'P'),
            '0'..='9' => Err(Refusal::Unsupported("an octal escape")),
            other => one(other as u32),
        }
    }

    fn unicode(&mut self) -> Result<ClassItem, Refusal> {
        if self.eat("{") {
            let mut code: u32 = 0;
            while let Some(digit) = self.peek().and_then(|c| c.to_digit(16)) {
                code = code.saturating_mul(16).saturating_add(digit);
                self.at += 1;
            }
            return if self.eat("}") && code <= 0x10_FFFF {
                Ok(ClassItem::One(code))
            } else {
                Err(Refusal::Malformed("a malformed \\u{…} escape".to_owned()))
            };
        }
        let Some(unit) = self.hex(4) else { return Ok(ClassItem::One('u' as u32)) };
        let start = self.at;
        if (0xD800..0xDC00).contains(&unit) && self.eat("\\u") {
            match self.hex(4) {
                Some(low @ 0xDC00..=0xDFFF) => {
                    return Ok(ClassItem::One(0x1_0000 + ((unit - 0xD800) << 10) + (low - 0xDC00)));
                }
                _ => self.at = start,
            }
        }
        Ok(ClassItem::One(unit))
    }

    fn hex(&mut self, n: usize) -> Option<u32> {
        let mut code = 0;
        for i in 0..n {
            code = code * 16 + self.chars.get(self.at + i).and_then(|c| c.to_digit(16))?;
        }
        self.at += n;
        Some(code)
    }

    /// `\p{…}`; the tables are those of the regex crates.
    fn property(&mut self, negated: bool) -> Result<ClassItem, Refusal> {
        let malformed = || Refusal::Malformed("an unknown Unicode property".to_owned());
        let mut name = String::new();
        if self.eat("{") {
            loop {
                match self.next() {
                    Some('}') => break,
                    Some(c) if name.len() < 64 => name.push(c),
                    _ => return Err(malformed()),
                }
            }
        } else {
            name.push(self.next().ok_or_else(malformed)?);
        }
        self.reader.property(name, negated).map(ClassItem::Set).ok_or_else(malformed)
    }

    fn class(&mut self) -> Result<Node, Refusal> {
        let negated = self.eat("^");
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        loop {
            let low = match self.class_item()? {
                None => break,
                Some(item) => item,
            };
            let dash = self.peek() == Some('-') && !matches!(self.chars.get(self.at + 1), None | Some(']'));
            match low {
                ClassItem::One(low) if dash => {
                    self.at += 1;
                    match self.class_item()? {
                        Some(ClassItem::One(high)) if low <= high => ranges.push((low, high)),
                        Some(ClassItem::One(_)) => {
                            return Err(Refusal::Malformed("a range in a class is out of order".to_owned()));
                        }
                        // Annex B: a dash beside a set is a dash.
                        Some(ClassItem::Set(set)) => {
                            ranges.extend([(low, low), ('-' as u32, '-' as u32)]);
                            self.extend(&mut ranges, &set)?;
                        }
                        None => return Err(Refusal::Malformed("a class is not closed".to_owned())),
                    }
                }
                ClassItem::One(code) => ranges.push((code, code)),
                ClassItem::Set(set) => self.extend(&mut ranges, &set)?,
            }
        }
        let ranges = self.folded(ranges);
        Ok(Node::Class(if negated { complement(&ranges) } else { ranges }.into()))
    }

    /// The next member of a class; none at its end.
    fn class_item(&mut self) -> Result<Option<ClassItem>, Refusal> {
        match self.next() {
            None => Err(Refusal::Malformed("a class is not closed".to_owned())),
            Some(']') => Ok(None),
            Some('\\') => match self.peek() {
                Some('b') => {
                    self.at += 1;
                    Ok(Some(ClassItem::One(8)))
                }
                Some('B') => Err(Refusal::Malformed("\\B in a class".to_owned())),
                _ => self.class_escape().map(Some),
            },
            Some(c) => Ok(Some(ClassItem::One(c as u32))),
        }
    }
}

enum ClassItem {
    One(u32),
    Set(Ranges),
}
