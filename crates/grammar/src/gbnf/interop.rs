//! To and from the types of the `gbnf` crate, for programs that hold grammars in them: the only file that names it.
//!
//! That crate is a tree and a printer that escapes nothing, so its terminals hold GBNF source text: `\"` for a quote.
//! Its `OneOf` is no group either: its alternatives stand beside what comes before and behind, and its own grammars
//! rely on that. Invariant: a tree means what its printed text means, whichever way it goes.

use ::gbnf as foreign;
use foreign::{
    CharacterSet, CharacterSetItem, GrammarItem, NonTerminalSymbol, Production, ProductionItem,
    RepetitionType, TerminalSymbol,
};

use super::lex::{Cursor, is_name_byte};
use super::{CharClass, Expr, Grammar, Rule, RuleId, TokenMatch, print};
use crate::work::ForeignMap;
use crate::{Error, Kind, Limits};

/// Reads the tree as a grammar whose root is the rule `root`.
///
/// # Errors
/// As [`Grammar::from_gbnf_crate`].
impl TryFrom<&foreign::Grammar> for Grammar {
    type Error = Error;

    fn try_from(grammar: &foreign::Grammar) -> Result<Self, Error> {
        Self::from_gbnf_crate(grammar, "root", &Limits::default())
    }
}

impl From<&Grammar> for foreign::Grammar {
    fn from(grammar: &Grammar) -> Self {
        grammar.to_gbnf_crate()
    }
}

impl Grammar {
    /// Reads the tree of the `gbnf` crate as a grammar whose root is the rule `root`; comments are dropped.
    ///
    /// # Errors
    /// [`Kind::Syntax`] for a name, escape, hexadecimal number or repetition that is not GBNF, [`Kind::Undefined`] as
    /// in [`Grammar::parse`], [`Kind::Limit`] for too many rules or too deep a nesting.
    ///
    /// ```
    /// use toolgate_grammar::{Grammar, Limits};
    /// let text = "root ::= [0-9]+ \"%\"\n";
    /// let tree: gbnf::Grammar = Grammar::parse(text)?.to_gbnf_crate();
    /// assert_eq!(Grammar::from_gbnf_crate(&tree, "root", &Limits::default())?.to_gbnf(), text);
    /// # Ok::<(), toolgate_grammar::Error>(())
    /// ```
    pub fn from_gbnf_crate(grammar: &foreign::Grammar, root: &str, limits: &Limits) -> Result<Self, Error> {
        let own = grammar.items.iter().filter_map(|item| match item {
            GrammarItem::Rule(rule) => Some((rule.lhs.name.as_str(), &rule.rhs)),
            GrammarItem::LineBreak | GrammarItem::Comment(_) => None,
        });
        let shared =
            grammar.recurring_items.iter().map(|(name, production)| (name.name.as_str(), production));
        let rules: Vec<(&str, &Production)> = own.chain(shared).collect();
        if rules.len() > limits.rules {
            return Err(Error::new(Kind::Limit, format!("more than {} rules", limits.rules)));
        }
        let mut names = ForeignMap::default();
        for (index, (name, _)) in rules.iter().enumerate() {
            if name.is_empty() || !name.bytes().all(is_name_byte) {
                return Err(Error::new(Kind::Syntax, format!("\"{name}\" is not a rule name"))
                    .hint("names are made of letters, digits and -"));
            }
            if names.insert(*name, RuleId(index as u32)).is_some() {
                return Err(Error::new(Kind::Undefined, format!("rule \"{name}\" is defined twice")));
            }
        }
        let undefined_root = || Error::new(Kind::Undefined, format!("undefined root rule \"{root}\""));
        let root = names.get(root).copied().ok_or_else(undefined_root)?;
        let mut out = Vec::with_capacity(rules.len());
        for (name, production) in rules {
            let reader = Reader { rule: name, names: &names, limits };
            out.push(Rule { name: name.to_owned(), body: reader.production(production, 0)? });
        }
        Ok(Self { rules: out, root })
    }

    /// The grammar as a tree of the `gbnf` crate. Token terminals, which it does not know, become names that print as
    /// the terminal.
    pub fn to_gbnf_crate(&self) -> foreign::Grammar {
        let names = print::portable_names(self);
        let rule = |(rule, name): (&Rule, &String)| {
            let rhs = production(&rule.body, &names);
            GrammarItem::Rule(foreign::Rule { lhs: NonTerminalSymbol { name: name.clone() }, rhs })
        };
        foreign::Grammar {
            items: self.rules.iter().zip(&names).map(rule).collect(),
            recurring_items: std::collections::BTreeMap::new(),
        }
    }
}

struct Reader<'a> {
    rule: &'a str,
    names: &'a ForeignMap<&'a str, RuleId>,
    limits: &'a Limits,
}

impl Reader<'_> {
    fn error(&self, kind: Kind, message: impl std::fmt::Display) -> Error {
        Error::new(kind, format!("{message} in rule \"{}\"", self.rule))
    }

    fn production(&self, production: &Production, depth: usize) -> Result<Expr, Error> {
        self.within(depth)?;
        let alternatives = self.alternatives(production, depth)?;
        Ok(Expr::choice(alternatives.into_iter().map(Expr::sequence)))
    }

    fn alternatives(&self, production: &Production, depth: usize) -> Result<Vec<Vec<Expr>>, Error> {
        let mut last: Vec<Expr> = Vec::new();
        let mut alternatives = Vec::new();
        for item in &production.items {
            let (expr, repetition) = match item {
                ProductionItem::LineBreak | ProductionItem::Comment(_) => continue,
                ProductionItem::Terminal(terminal, repetition) => {
                    (self.terminal(&terminal.value)?, repetition)
                }
                ProductionItem::NonTerminal(symbol, repetition) => (self.symbol(&symbol.name)?, repetition),
                ProductionItem::Group(group, repetition) => (self.production(group, depth + 1)?, repetition),
                ProductionItem::CharacterSet(set, repetition) => (self.set(set)?, repetition),
                ProductionItem::OneOf(productions) => {
                    for (index, production) in productions.iter().enumerate() {
                        if index > 0 {
                            alternatives.push(std::mem::take(&mut last));
                        }
                        self.within(depth + 1)?;
                        let mut inner = self.alternatives(production, depth + 1)?;
                        let end = inner.pop().unwrap_or_default();
                        for first in inner {
                            last.extend(first);
                            alternatives.push(std::mem::take(&mut last));
                        }
                        last.extend(end);
                    }
                    continue;
                }
            };
            last.push(self.repeated(expr, repetition)?);
        }
        alternatives.push(last);
        Ok(alternatives)
    }

    fn within(&self, depth: usize) -> Result<(), Error> {
        if depth > self.limits.depth {
            return Err(self.error(Kind::Limit, format!("nesting deeper than {}", self.limits.depth)));
        }
        Ok(())
    }

    /// A terminal's source text; a bare quote, which that crate would print as the end of the literal, is a quote.
    fn terminal(&self, source: &str) -> Result<Expr, Error> {
        let mut cursor = Cursor { text: source, at: 0 };
        let mut text = String::with_capacity(source.len());
        while let Some(c) = cursor.peek_char() {
            if c == '\\' {
                let wrong = |error| self.error(Kind::Syntax, format!("terminal {source:?}: {error}"));
                text.push(cursor.escaped_char().map_err(wrong)?);
            } else {
                cursor.at += c.len_utf8();
                text.push(c);
            }
        }
        Ok(Expr::literal(text))
    }

    fn symbol(&self, name: &str) -> Result<Expr, Error> {
        if name.starts_with(['<', '!']) {
            let mut cursor = Cursor { text: name, at: 0 };
            let token: Result<TokenMatch, Error> = cursor.token();
            return match token {
                Ok(token) if cursor.peek().is_none() => Ok(Expr::Token(token)),
                _ => Err(self.error(Kind::Syntax, format!("{name:?} is neither a rule nor a token"))),
            };
        }
        let rule = self.names.get(name).copied();
        rule.map(Expr::Rule).ok_or_else(|| self.error(Kind::Undefined, format!("undefined rule \"{name}\"")))
    }

    fn set(&self, set: &CharacterSet) -> Result<Expr, Error> {
        let one = |c: char| (u32::from(c), u32::from(c));
        let mut ranges = Vec::with_capacity(set.items.len());
        for item in &set.items {
            ranges.push(match item {
                CharacterSetItem::Character(c) => one(*c),
                CharacterSetItem::Tab => one('\t'),
                CharacterSetItem::NewLine => one('\n'),
                CharacterSetItem::Return => one('\r'),
                CharacterSetItem::Backslash => one('\\'),
                CharacterSetItem::CharacterRange(low, high) => (u32::from(*low), u32::from(*high)),
                CharacterSetItem::CharacterHexRange(low, high) => (self.hex(low)?, self.hex(high)?),
                CharacterSetItem::Hex(digits) | CharacterSetItem::Unicode(digits) => {
                    (self.hex(digits)?, self.hex(digits)?)
                }
            });
        }
        if ranges.is_empty() {
            let error = self.error(Kind::Syntax, "empty character set");
            return Err(error.hint("engines read it as different things"));
        }
        Ok(Expr::Class(CharClass { negated: set.is_complement, ranges }))
    }

    fn hex(&self, digits: &str) -> Result<u32, Error> {
        let value = u32::from_str_radix(digits, 16).ok().filter(|value| *value <= u32::from(char::MAX));
        value.ok_or_else(|| self.error(Kind::Syntax, format!("{digits:?} is not a hexadecimal code point")))
    }

    fn repeated(&self, expr: Expr, repetition: &RepetitionType) -> Result<Expr, Error> {
        let (min, max) = match repetition {
            RepetitionType::One => return Ok(expr),
            RepetitionType::ZeroOrMore => (0, None),
            RepetitionType::OneOrMore => (1, None),
            RepetitionType::ZeroOrOne => (0, Some(1)),
            RepetitionType::Exact(n) => (*n, Some(*n)),
            RepetitionType::AtLeast(n) => (*n, None),
            RepetitionType::Between((min, max)) => (*min, Some(*max)),
            RepetitionType::AtMost(n) => (0, Some(*n)),
        };
        if max.is_some_and(|max| max < min) {
            return Err(
                self.error(Kind::Syntax, format!("repetition of at least {min} and at most {max:?} times"))
            );
        }
        Ok(expr.repeat(min as u64, max.map(|max| max as u64)))
    }
}

/// An expression as what stands between `::=` or `|` and the next `|` or the end.
fn production(expr: &Expr, names: &[String]) -> Production {
    let items = match expr {
        Expr::Sequence(items) if !items.is_empty() => {
            items.iter().map(|expr| item(expr, RepetitionType::One, names)).collect()
        }
        Expr::Choice(items) if !items.is_empty() => {
            vec![ProductionItem::OneOf(items.iter().map(|expr| production(expr, names)).collect())]
        }
        other => vec![item(other, RepetitionType::One, names)],
    };
    Production { items }
}

fn item(expr: &Expr, repetition: RepetitionType, names: &[String]) -> ProductionItem {
    let repeated = !matches!(repetition, RepetitionType::One);
    match expr {
        Expr::Literal(text) if !(text.is_empty() && repeated) => {
            let value = print::escaped(text);
            ProductionItem::Terminal(TerminalSymbol { value }, repetition)
        }
        Expr::Class(class) => ProductionItem::CharacterSet(set(class), repetition),
        // `[^]` would be the empty text to llama.cpp: exclude a code point that no text can hold.
        Expr::Any => {
            let items = vec![CharacterSetItem::Unicode("D800".to_owned())];
            ProductionItem::CharacterSet(CharacterSet { is_complement: true, items }, repetition)
        }
        Expr::Token(token) => {
            ProductionItem::NonTerminal(NonTerminalSymbol { name: print::token_text(token) }, repetition)
        }
        Expr::Rule(id) => {
            let name = names.get(id.index()).cloned();
            let name = name.unwrap_or_else(|| format!("undefined-{}", id.index()));
            ProductionItem::NonTerminal(NonTerminalSymbol { name }, repetition)
        }
        Expr::Repeat { max: Some(max), min, .. } if max < min => never(repetition),
        Expr::Repeat { item: inner, min, max } if !repeated => {
            item(inner, repetition_type(*min, *max), names)
        }
        Expr::Choice(items) if items.is_empty() => never(repetition),
        Expr::Literal(_) | Expr::Sequence(_) if is_empty(expr) && !repeated => {
            ProductionItem::Terminal(TerminalSymbol { value: String::new() }, repetition)
        }
        Expr::Literal(_) | Expr::Sequence(_) if is_empty(expr) => {
            ProductionItem::Group(Box::new(Production { items: Vec::new() }), repetition)
        }
        Expr::Literal(_) | Expr::Sequence(_) | Expr::Choice(_) | Expr::Repeat { .. } => {
            ProductionItem::Group(Box::new(production(expr, names)), repetition)
        }
    }
}

fn is_empty(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(text) => text.is_empty(),
        Expr::Sequence(items) => items.is_empty(),
        _ => false,
    }
}

/// A set that no character is in.
fn never(repetition: RepetitionType) -> ProductionItem {
    let all = CharClass { negated: true, ranges: vec![(0, u32::from(char::MAX))] };
    ProductionItem::CharacterSet(set(&all), repetition)
}

fn repetition_type(min: u64, max: Option<u64>) -> RepetitionType {
    // Counts beyond the machine's word cannot be held by that crate; nothing is that long.
    let size = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    match (min, max) {
        (0, None) => RepetitionType::ZeroOrMore,
        (1, None) => RepetitionType::OneOrMore,
        (0, Some(1)) => RepetitionType::ZeroOrOne,
        (min, None) => RepetitionType::AtLeast(size(min)),
        (min, Some(max)) if min == max => RepetitionType::Exact(size(min)),
        (0, Some(max)) => RepetitionType::AtMost(size(max)),
        (min, Some(max)) => RepetitionType::Between((size(min), size(max))),
    }
}

/// Ranges as items that print as the same set, whatever the characters.
fn set(class: &CharClass) -> CharacterSet {
    if class.ranges.is_empty() {
        // The opposite of "nothing" or "all", written with the only code points that are always there.
        let all = CharClass { negated: !class.negated, ranges: vec![(0, u32::from(char::MAX))] };
        return set(&all);
    }
    let items = class.ranges.iter().flat_map(|(low, high)| range(*low, *high)).collect();
    CharacterSet { is_complement: class.negated, items }
}

fn range(low: u32, high: u32) -> Vec<CharacterSetItem> {
    const BYTE: u32 = 0xFF;
    if low == high {
        return vec![single(low)];
    }
    if low > high {
        // A reversed range holds nothing, whichever it is.
        return vec![CharacterSetItem::CharacterRange('z', 'a')];
    }
    if high <= BYTE {
        return vec![match (char::from_u32(low), char::from_u32(high)) {
            (Some(low), Some(high)) if low.is_ascii_alphanumeric() && high.is_ascii_alphanumeric() => {
                CharacterSetItem::CharacterRange(low, high)
            }
            _ => CharacterSetItem::CharacterHexRange(format!("{low:02X}"), format!("{high:02X}")),
        }];
    }
    let mut items = Vec::new();
    if low <= BYTE {
        items.extend(range(low, BYTE));
    }
    // No text holds a surrogate: a range that ends in one may as well end at its neighbour.
    let from = char::from_u32(low.max(BYTE + 1)).unwrap_or('\u{E000}');
    let to = char::from_u32(high).unwrap_or('\u{D7FF}');
    match from.cmp(&to) {
        std::cmp::Ordering::Less => items.push(CharacterSetItem::CharacterRange(from, to)),
        std::cmp::Ordering::Equal => items.push(single(u32::from(from))),
        std::cmp::Ordering::Greater => items.push(CharacterSetItem::Unicode("D800".to_owned())),
    }
    items
}

fn single(value: u32) -> CharacterSetItem {
    match char::from_u32(value) {
        Some('\t') => CharacterSetItem::Tab,
        Some('\n') => CharacterSetItem::NewLine,
        Some('\r') => CharacterSetItem::Return,
        Some('\\') => CharacterSetItem::Backslash,
        Some(c) if c.is_ascii_alphanumeric() || c == ' ' || c == '_' => CharacterSetItem::Character(c),
        _ if value <= 0xFF => CharacterSetItem::Hex(format!("{value:02X}")),
        _ if value <= 0xFFFF => CharacterSetItem::Unicode(format!("{value:04X}")),
        Some(c) => CharacterSetItem::Character(c),
        None => CharacterSetItem::Unicode("D800".to_owned()),
    }
}
