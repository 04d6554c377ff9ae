//! ECMA 262 regular expressions as JSON Schema means them: Unicode, unanchored unless anchored. Knows no automaton.
//!
//! Invariant: what parses means exactly what ECMA 262 says with the `u` flag (Annex B leniency where patterns in
//! the wild rely on it); what cannot be meant exactly is [`Refusal::Unsupported`], never approximated.

use std::hash::{Hash, Hasher};
use std::sync::OnceLock;

use regex_syntax::hir::{Class, HirKind};

use super::choices::Choices;
use super::nfa::Nfa;

/// A parsed pattern, or a list of choices; equal ones have the same source.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    pub(crate) source: String,
    /// Matches nothing where there are choices.
    pub(crate) node: Node,
    /// The texts themselves, as an automaton that needs no making.
    pub(crate) choices: Option<Choices>,
    /// Made when first asked for: some patterns are only written out.
    nfa: OnceLock<Option<Nfa>>,
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source && self.choices.is_some() == other.choices.is_some()
    }
}

impl Eq for Pattern {}

impl Hash for Pattern {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.source.hash(state);
    }
}

/// An element of a pattern.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Node {
    /// One code point of these inclusive ranges, sorted and apart.
    Class(Vec<(u32, u32)>),
    Sequence(Vec<Node>),
    Choice(Vec<Node>),
    Repeat {
        item: Box<Node>,
        min: u32,
        max: Option<u32>,
    },
    Look(Look),
}

/// A condition on a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Look {
    Start,
    End,
    WordEdge,
    NotWordEdge,
}

/// Why a pattern is not one of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Not a regular expression.
    Malformed(String),
    /// A regular expression that no finite automaton of ours stands for.
    Unsupported(&'static str),
}

/// All of Unicode but the surrogates.
pub(crate) const ANY: [(u32, u32); 2] = [(0, 0xD7FF), (0xE000, 0x10FFFF)];
const DIGIT: [(u32, u32); 1] = [(0x30, 0x39)];
pub(crate) const WORD: [(u32, u32); 4] = [(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)];
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
/// States of a pattern before it is determinized.
const NFA_STATES: usize = 80_000;
/// States of a pattern that texts are matched with as they are.
const MATCH_STATES: usize = 20_000;
/// Nesting of groups a pattern may have.
const DEPTH: usize = 100;
/// The greatest repetition count; beyond it a pattern cannot become an automaton anyway.
const COUNT: u32 = 1_000_000;

impl Pattern {
    /// Reads a pattern.
    pub(crate) fn parse(source: &str) -> Result<Self, Refusal> {
        let mut parser = Parser { chars: source.chars().collect(), at: 0, ignore_case: false };
        if source.starts_with("(?i)") {
            // Not ECMA, but common in the wild, and it has one meaning everywhere it is understood.
            parser.at = 4;
            parser.ignore_case = true;
        }
        let node = parser.choice(0)?;
        match parser.peek() {
            None => Ok(Self { source: source.to_owned(), node, choices: None, nfa: OnceLock::new() }),
            Some(_) => Err(Refusal::Malformed("a closing parenthesis without an opening one".to_owned())),
        }
    }

    /// The texts that are among `choices`, written as `source`.
    pub(crate) fn among(choices: Choices, source: String) -> Self {
        Self { source, node: Node::Class(Vec::new()), choices: Some(choices), nfa: OnceLock::new() }
    }

    /// The texts in which `text` is found anywhere.
    pub(crate) fn literal(text: &str) -> Self {
        let node = Node::Sequence(text.chars().map(|c| Node::Class(vec![(c as u32, c as u32)])).collect());
        Self { source: text.to_owned(), node, choices: None, nfa: OnceLock::new() }
    }

    /// The texts in which it is found anywhere; none if that takes too many states.
    pub(crate) fn nfa(&self) -> Option<&Nfa> {
        self.nfa.get_or_init(|| Nfa::search(self, NFA_STATES)).as_ref()
    }

    /// What finding it in a text takes, in steps of about a part looked at.
    pub(crate) fn match_steps(&self, text: &str) -> u64 {
        if self.choices.is_some() {
            return text.len() as u64;
        }
        let states = self.nfa().map_or(0, |nfa| nfa.states.len() as u64);
        (text.len() as u64).saturating_mul(states / 8 + 4)
    }

    /// Whether it is found in a text; none if the text would be run through too many states to tell.
    pub(crate) fn is_match(&self, text: &str) -> Option<bool> {
        if let Some(choices) = &self.choices {
            return Some(choices.holds(text));
        }
        let nfa = self.nfa().filter(|nfa| nfa.states.len() <= MATCH_STATES)?;
        Some(nfa.is_match(text))
    }
}

struct Parser {
    chars: Vec<char>,
    at: usize,
    ignore_case: bool,
}

impl Parser {
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
            items.push(self.quantified(atom)?);
        }
        Ok(if items.len() == 1 { items.swap_remove(0) } else { Node::Sequence(items) })
    }

    fn atom(&mut self, depth: usize) -> Result<Node, Refusal> {
        let Some(c) = self.next() else { return Ok(Node::Sequence(Vec::new())) };
        match c {
            '^' => Ok(Node::Look(Look::Start)),
            '$' => Ok(Node::Look(Look::End)),
            '.' => Ok(Node::Class(complement(&LINE_END))),
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
        Node::Class(self.folded(vec![(c as u32, c as u32)]))
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
            _ => {
                let item = self.class_escape()?;
                Ok(Node::Class(self.folded(self_class(item))))
            }
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
            'd' => Ok(ClassItem::Set(DIGIT.to_vec())),
            'D' => Ok(ClassItem::Set(complement(&DIGIT))),
            'w' => Ok(ClassItem::Set(WORD.to_vec())),
            'W' => Ok(ClassItem::Set(complement(&WORD))),
            's' => Ok(ClassItem::Set(SPACE.to_vec())),
            'S' => Ok(ClassItem::Set(complement(&SPACE))),
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
        // Only a plain name may reach the other parser, whose syntax is richer than ours.
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '=') {
            return Err(malformed());
        }
        let hir = regex_syntax::Parser::new().parse(&format!("\\p{{{name}}}")).map_err(|_| malformed())?;
        let ranges = match hir.kind() {
            HirKind::Class(Class::Unicode(class)) => {
                class.ranges().iter().map(|range| (range.start() as u32, range.end() as u32)).collect()
            }
            _ => return Err(malformed()),
        };
        Ok(ClassItem::Set(if negated { complement(&union(ranges)) } else { ranges }))
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
                            ranges.extend(set);
                        }
                        None => return Err(Refusal::Malformed("a class is not closed".to_owned())),
                    }
                }
                other => ranges.extend(self_class(other)),
            }
        }
        let ranges = self.folded(ranges);
        Ok(Node::Class(if negated { complement(&ranges) } else { ranges }))
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
    Set(Vec<(u32, u32)>),
}

fn self_class(item: ClassItem) -> Vec<(u32, u32)> {
    match item {
        ClassItem::One(code) => vec![(code, code)],
        ClassItem::Set(ranges) => ranges,
    }
}

/// The same set as sorted ranges that neither touch nor hold surrogates.
pub(crate) fn union(mut ranges: Vec<(u32, u32)>) -> Vec<(u32, u32)> {
    ranges.sort_unstable();
    let mut out: Vec<(u32, u32)> = Vec::with_capacity(ranges.len());
    for (low, high) in ranges {
        match out.last_mut() {
            Some(last) if low <= last.1.saturating_add(1) => last.1 = last.1.max(high),
            _ => out.push((low, high)),
        }
    }
    let mut whole = Vec::with_capacity(out.len() + 1);
    for (low, high) in out {
        for (from, to) in ANY {
            if low.max(from) <= high.min(to) {
                whole.push((low.max(from), high.min(to)));
            }
        }
    }
    whole
}

/// Every code point but those of sorted ranges.
pub(crate) fn complement(ranges: &[(u32, u32)]) -> Vec<(u32, u32)> {
    let mut out = Vec::with_capacity(ranges.len() + 1);
    let mut next = 0;
    for (low, high) in ranges {
        if *low > next {
            out.push((next, low - 1));
        }
        next = high + 1;
    }
    if next <= 0x10_FFFF {
        out.push((next, 0x10_FFFF));
    }
    union(out)
}

impl Node {
    /// The least and greatest number of code points of a text it matches by itself.
    pub(crate) fn lengths(&self) -> (u64, Option<u64>) {
        match self {
            Self::Class(_) => (1, Some(1)),
            Self::Look(_) => (0, Some(0)),
            Self::Sequence(items) => items.iter().map(Self::lengths).fold((0, Some(0)), |sum, item| {
                (sum.0.saturating_add(item.0), sum.1.zip(item.1).map(|(a, b)| a.saturating_add(b)))
            }),
            Self::Choice(branches) => {
                branches.iter().map(Self::lengths).fold((u64::MAX, Some(0)), |best, branch| {
                    (best.0.min(branch.0), best.1.zip(branch.1).map(|(a, b)| a.max(b)))
                })
            }
            Self::Repeat { item, min, max } => {
                let (least, most) = item.lengths();
                let most = match (most, max) {
                    (Some(0), _) | (_, Some(0)) => Some(0),
                    (Some(most), Some(max)) => Some(most.saturating_mul(u64::from(*max))),
                    _ => None,
                };
                (least.saturating_mul(u64::from(*min)), most)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
    use super::*;

    fn check(pattern: &str, matches: &[&str], refuses: &[&str]) {
        let nfa = Nfa::search(&Pattern::parse(pattern).unwrap(), 100_000).unwrap();
        for text in matches {
            assert!(nfa.is_match(text), "{pattern} should match {text:?}");
        }
        for text in refuses {
            assert!(!nfa.is_match(text), "{pattern} should not match {text:?}");
        }
    }

    #[test]
    fn patterns_mean_what_ecma_says() {
        check("b", &["abc", "b"], &["", "ac"]);
        check("^a|b$", &["ax", "xb", "a"], &["xa", "bx", ""]);
        check("^(a|bc)+?$", &["a", "bca"], &["", "b"]);
        check("^\\d{2,3}$", &["12", "123"], &["1", "1234", "१२"]);
        check("^\\w+$", &["a_9"], &["é", "a b"]);
        check("^\\s$", &[" ", "\u{feff}", "\u{2028}"], &["\u{85}", "a"]);
        check("^.$", &["a", "😀", "\u{85}"], &["\n", "\u{2028}", "ab"]);
        check("^[^]$", &["\n", "x"], &[""]);
        check("^[a\\-z]$", &["a", "-", "z"], &["b"]);
        check("^[\\w-.]+$", &["a-.b"], &["/"]);
        check("^[a-]$", &["a", "-"], &["b"]);
        check("^[[]&&]$", &["[&&]"], &["[", "&"]);
        check("^\\/\\u0041\\x42\\cJ\\u{1F600}\\uD83D\\uDE00$", &["/AB\n😀😀"], &["/AB\n😀"]);
        check("^x{,2}{$", &["x{,2}{"], &["xx"]);
        check("^\\p{Lu}\\P{Lu}$", &["Éa"], &["éa", "ÉA"]);
        check("\\bfoo\\b", &["a foo.", "foo"], &["foobar", "xfoo"]);
        check("^\\Boo", &[], &["oo"]);
        check("(?i)^yes$", &["YeS"], &["no"]);
        check("(?<year>^\\d+)", &["1a"], &["a"]);
        check("^(a*)*$", &["", "aaa"], &["b"]);
        check("", &["", "x"], &[]);
        check("^$", &[""], &["x", "\n"]);
        check("a$", &["ba"], &["a\n"]);
    }

    #[test]
    fn what_is_no_pattern_is_told_from_what_is_no_automaton() {
        for (pattern, supported) in [
            ("(", Some(false)),
            (")", Some(false)),
            ("[a", Some(false)),
            ("[z-a]", Some(false)),
            ("a**", Some(false)),
            ("*", Some(false)),
            ("a{3,2}", Some(false)),
            ("\\", Some(false)),
            ("\\p{Nothing}", Some(false)),
            ("(?=a)", None),
            ("(?<!a)", None),
            ("(a)\\1", None),
            ("a{9999999}", None),
        ] {
            match (Pattern::parse(pattern), supported) {
                (Err(Refusal::Malformed(_)), Some(false)) | (Err(Refusal::Unsupported(_)), None) => {}
                (other, _) => panic!("{pattern}: {other:?}"),
            }
        }
    }

    #[test]
    fn deep_groups_are_refused_and_not_followed_to_the_end_of_the_stack() {
        let nested = format!("{}{}", "(".repeat(100_000), ")".repeat(100_000));
        assert!(matches!(Pattern::parse(&nested), Err(Refusal::Unsupported(_))));
    }
}
