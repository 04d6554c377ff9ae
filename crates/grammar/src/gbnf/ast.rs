//! The grammar as a value: rules over code points and tokens. Printed by `print`, read by `parse`.

use super::analysis;
use crate::work::ForeignMap;
use crate::{Error, Kind};

/// Index of a rule in its [`Grammar`] or [`GrammarBuilder`].
///
/// ```
/// use toolgate_grammar::Grammar;
/// let grammar = Grammar::parse("root ::= digit+\ndigit ::= [0-9]\n")?;
/// let digit = grammar.find("digit");
/// assert_eq!(digit.map(|id| id.index()), Some(1));
/// # Ok::<(), toolgate_grammar::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuleId(pub(crate) u32);

impl RuleId {
    /// Position of the rule in [`Grammar::rules`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a rule matches.
///
/// ```
/// use toolgate_grammar::{Expr, Grammar};
/// let mut builder = Grammar::builder();
/// let word = Expr::class([('a', 'z')]).repeat(1, None);
/// let sign = Expr::choice([Expr::literal("!"), Expr::literal("?")]).optional();
/// let root = builder.rule("root", Expr::sequence([word, sign]));
/// assert_eq!(builder.build(root)?.to_gbnf(), "root ::= [a-z]+ (\"!\" | \"?\")?\n");
/// assert_eq!(Expr::sequence([]), Expr::empty());
/// # Ok::<(), toolgate_grammar::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Expr {
    /// A text, code point by code point. Empty text is written [`Expr::empty`].
    Literal(String),
    /// One code point of a set.
    Class(CharClass),
    /// Any one code point, line breaks included: `.`.
    Any,
    /// Exactly one token of the vocabulary, or exactly one other than it.
    Token(TokenMatch),
    /// What another rule matches.
    Rule(RuleId),
    /// One after the other; none is the empty text.
    Sequence(Vec<Expr>),
    /// One of these; none matches nothing at all.
    Choice(Vec<Expr>),
    /// At least `min` and at most `max` times in a row; `None` is without end.
    Repeat {
        /// What is repeated.
        item: Box<Expr>,
        /// The least number of times.
        min: u64,
        /// The greatest number of times.
        max: Option<u64>,
    },
}

/// A set of code points as inclusive ranges, possibly negated.
///
/// ```
/// use toolgate_grammar::{Expr, gbnf::CharClass};
/// let not_a_digit = CharClass { negated: true, ranges: vec![('0'.into(), '9'.into())] };
/// assert_eq!(Expr::not_class([('0', '9')]), Expr::Class(not_a_digit));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct CharClass {
    /// Whether the class matches every code point but these.
    pub negated: bool,
    /// Inclusive ranges, in the order written; surrogates in them match nothing.
    pub ranges: Vec<(u32, u32)>,
}

/// A token terminal: `<[123]>`, `<text>`, and `!` in front of either.
///
/// ```
/// use toolgate_grammar::{Expr, Grammar, gbnf::{TokenMatch, TokenName}};
/// let mut builder = Grammar::builder();
/// let end = TokenMatch { negated: false, name: TokenName::Text("<|end|>".to_owned()) };
/// let root = builder.rule("root", Expr::sequence([Expr::literal("ok"), Expr::Token(end)]));
/// assert_eq!(builder.build(root)?.to_gbnf(), "root ::= \"ok\" <|end|>\n");
/// # Ok::<(), toolgate_grammar::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TokenMatch {
    /// Whether it matches every token but this one.
    pub negated: bool,
    /// Which token.
    pub name: TokenName,
}

/// How a grammar names a token.
///
/// ```
/// use toolgate_grammar::{Expr, Grammar, gbnf::{TokenMatch, TokenName}};
/// let grammar = Grammar::parse("root ::= !<[7]>")?;
/// let body = grammar.rule(grammar.root()).map(|rule| &rule.body);
/// assert_eq!(body, Some(&Expr::Token(TokenMatch { negated: true, name: TokenName::Id(7) })));
/// # Ok::<(), toolgate_grammar::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TokenName {
    /// By its number.
    Id(u32),
    /// By its text, brackets included, such as `<think>`.
    Text(String),
}

/// A named rule.
///
/// ```
/// use toolgate_grammar::{Expr, Grammar};
/// let grammar = Grammar::parse("root ::= greeting\ngreeting ::= \"hello\"\n")?;
/// let names: Vec<&str> = grammar.rules().iter().map(|rule| rule.name.as_str()).collect();
/// assert_eq!(names, ["root", "greeting"]);
/// assert_eq!(grammar.rules().last().map(|rule| &rule.body), Some(&Expr::literal("hello")));
/// # Ok::<(), toolgate_grammar::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Rule {
    /// Letters, digits, `-` (and `_`, accepted on input).
    pub name: String,
    /// What it matches.
    pub body: Expr,
}

/// A checked grammar: every name is defined once, and there is a root.
///
/// ```
/// use toolgate_grammar::{Expr, Grammar};
/// let read = Grammar::parse("root ::= \"yes\" | \"no\"\n")?;
/// let mut builder = Grammar::builder();
/// let root = builder.rule("root", Expr::choice([Expr::literal("yes"), Expr::literal("no")]));
/// assert_eq!(builder.build(root)?, read);
/// # Ok::<(), toolgate_grammar::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Grammar {
    pub(crate) rules: Vec<Rule>,
    pub(crate) root: RuleId,
}

impl Grammar {
    /// Starts a grammar rule by rule.
    pub fn builder() -> GrammarBuilder {
        GrammarBuilder::default()
    }

    /// All rules; a [`RuleId`] is an index into them.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Where matching starts.
    pub fn root(&self) -> RuleId {
        self.root
    }

    /// The rule called `name`, if there is one.
    pub fn find(&self, name: &str) -> Option<RuleId> {
        let index = self.rules.iter().position(|rule| rule.name == name)?;
        u32::try_from(index).ok().map(RuleId)
    }

    /// One rule.
    pub fn rule(&self, id: RuleId) -> Option<&Rule> {
        self.rules.get(id.index())
    }
}

impl Expr {
    /// The empty text.
    pub fn empty() -> Self {
        Self::Sequence(Vec::new())
    }

    /// A literal text.
    pub fn literal(text: impl Into<String>) -> Self {
        let text = text.into();
        if text.is_empty() { Self::empty() } else { Self::Literal(text) }
    }

    /// One code point out of `ranges` (inclusive).
    pub fn class(ranges: impl Into<Vec<(char, char)>>) -> Self {
        Self::Class(CharClass {
            negated: false,
            ranges: ranges.into().into_iter().map(|(a, b)| (a as u32, b as u32)).collect(),
        })
    }

    /// One code point outside `ranges` (inclusive).
    pub fn not_class(ranges: impl Into<Vec<(char, char)>>) -> Self {
        Self::Class(CharClass {
            negated: true,
            ranges: ranges.into().into_iter().map(|(a, b)| (a as u32, b as u32)).collect(),
        })
    }

    /// One after the other, flattened; a single item is itself.
    pub fn sequence(items: impl IntoIterator<Item = Self>) -> Self {
        let mut out: Vec<Self> = Vec::new();
        for item in items {
            match item {
                Self::Sequence(inner) => out.extend(inner),
                other => out.push(other),
            }
        }
        if out.len() == 1 { out.swap_remove(0) } else { Self::Sequence(out) }
    }

    /// One of these, flattened; a single item is itself.
    pub fn choice(items: impl IntoIterator<Item = Self>) -> Self {
        let mut out: Vec<Self> = Vec::new();
        for item in items {
            match item {
                Self::Choice(inner) => out.extend(inner),
                other => out.push(other),
            }
        }
        if out.len() == 1 { out.swap_remove(0) } else { Self::Choice(out) }
    }

    /// `min` to `max` times in a row.
    #[must_use]
    pub fn repeat(self, min: u64, max: Option<u64>) -> Self {
        Self::Repeat { item: Box::new(self), min, max }
    }

    /// Once or not at all.
    #[must_use]
    pub fn optional(self) -> Self {
        self.repeat(0, Some(1))
    }
}

/// A grammar under construction; rules may be named before they are defined.
///
/// ```
/// use toolgate_grammar::{Expr, Grammar};
/// let mut builder = Grammar::builder();
/// let list = builder.declare("list");
/// let items = Expr::Rule(list).repeat(0, None);
/// builder.define(list, Expr::sequence([Expr::literal("["), items, Expr::literal("]")]));
/// let other = builder.rule("list", Expr::literal("another"));
/// assert_eq!((builder.find("list"), builder.find("list-2")), (Some(list), Some(other)));
/// assert_eq!(builder.body(other), Some(&Expr::literal("another")));
/// assert_eq!(builder.build(list)?.to_gbnf(), "list ::= \"[\" list* \"]\"\nlist-2 ::= \"another\"\n");
/// # Ok::<(), toolgate_grammar::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct GrammarBuilder {
    rules: Vec<(String, Option<Expr>)>,
    names: ForeignMap<String, RuleId>,
    /// The last number given to each base name, so that a thousand rules of one name are not tried in turn.
    numbers: ForeignMap<String, u32>,
    work: u64,
}

impl GrammarBuilder {
    /// A new rule, not yet defined, called `name` or, if that is taken, `name-2`, `name-3`, ….
    /// Characters a rule name cannot have become `-`.
    pub fn declare(&mut self, name: &str) -> RuleId {
        let base: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let base = if base.is_empty() { "rule".to_owned() } else { base };
        let mut unique = base.clone();
        if self.names.contains_key(&unique) {
            let number = self.numbers.entry(base.clone()).or_insert(1);
            while self.names.contains_key(&unique) {
                *number += 1;
                unique = format!("{base}-{number}");
            }
        }
        let id = RuleId(self.rules.len() as u32);
        self.names.insert(unique.clone(), id);
        self.rules.push((unique, None));
        id
    }

    /// Gives a declared rule its body; a second definition replaces the first.
    pub fn define(&mut self, id: RuleId, body: Expr) {
        if let Some(slot) = self.rules.get_mut(id.index()) {
            slot.1 = Some(body);
        }
    }

    /// Declares and defines at once.
    pub fn rule(&mut self, name: &str, body: Expr) -> RuleId {
        let id = self.declare(name);
        self.define(id, body);
        id
    }

    /// The rule called `name`, if there is one.
    pub fn find(&self, name: &str) -> Option<RuleId> {
        self.names.get(name).copied()
    }

    /// The body of a rule, if it is defined.
    pub fn body(&self, id: RuleId) -> Option<&Expr> {
        self.rules.get(id.index())?.1.as_ref()
    }

    /// The steps taken by all schemas that were compiled into it, as [`Limits::work`](crate::Limits::work) counts them;
    /// each is bounded by itself.
    ///
    /// ```
    /// use serde_json::json;
    /// use toolgate_grammar::{Grammar, Options, Schema, compile_into};
    /// let schema = Schema::parse(&json!({"type": "boolean"}))?;
    /// let mut builder = Grammar::builder();
    /// compile_into(&schema, &Options::default(), &mut builder, "first")?;
    /// let first = builder.work();
    /// compile_into(&schema, &Options::default(), &mut builder, "second")?;
    /// assert_eq!(builder.work(), 2 * first);
    /// # Ok::<(), toolgate_grammar::Error>(())
    /// ```
    pub fn work(&self) -> u64 {
        self.work
    }

    pub(crate) fn add_work(&mut self, steps: u64) {
        self.work = self.work.saturating_add(steps);
    }

    /// The finished grammar.
    ///
    /// # Errors
    /// [`Kind::Undefined`] if a declared rule has no body, [`Kind::Syntax`] for a token whose name is empty.
    pub fn build(self, root: RuleId) -> Result<Grammar, Error> {
        let mut rules = Vec::with_capacity(self.rules.len());
        for (name, body) in self.rules {
            match body {
                Some(body) => rules.push(Rule { name, body }),
                None => return Err(Error::new(Kind::Undefined, format!("rule \"{name}\" is never defined"))),
            }
        }
        let grammar = Grammar { rules, root };
        let nameless = |expr: &&Expr| matches!(expr, Expr::Token(TokenMatch { name: TokenName::Text(text), .. }) if text.is_empty());
        if analysis::Flat::new(&grammar).exprs.iter().any(nameless) {
            return Err(
                Error::new(Kind::Syntax, "a token's name is empty").hint("name the token by its text")
            );
        }
        Ok(grammar)
    }
}
