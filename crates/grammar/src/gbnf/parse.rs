//! GBNF text to a [`Grammar`]: all of llama.cpp's syntax, with a line, a column and a hint in every error.
//!
//! Invariant: what comes out is in the normal form of the constructors of [`Expr`] (no sequence directly inside a
//! sequence, no choice inside a choice), nested no deeper than [`Limits::depth`], in time linear in the text.

use super::groups::{Groups, NotGrouped};
use super::lex::{Breaks, Cursor, is_name_byte};
use super::names::Names;
use super::{Expr, Grammar, Rule, RuleId, refusals};
use crate::work::bytes;
use crate::{Error, Kind, Limits};

/// How to read a GBNF text.
///
/// ```
/// use toolgate_grammar::{Grammar, gbnf::ParseOptions};
/// let text = "list ::= \"[\" item* \"]\"\nitem ::= [0-9]\n";
/// let options = ParseOptions::default().root("list".to_owned());
/// let grammar = Grammar::parse_with(text, &options)?;
/// assert_eq!(Some(grammar.root()), grammar.find("list"));
/// # Ok::<(), toolgate_grammar::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParseOptions {
    /// Name of the rule where matching starts. Default `root`.
    pub root: String,
    /// Bounds on the text: its bytes, its rules, its nesting.
    pub limits: Limits,
}

crate::setters! { ParseOptions {
    root: String,
    limits: Limits,
} }

impl Default for ParseOptions {
    fn default() -> Self {
        Self { root: "root".to_owned(), limits: Limits::default() }
    }
}

/// A grammar that remembers the text it came from, so that [`check`](Self::check) can point into it.
///
/// ```
/// use toolgate_grammar::Place;
/// use toolgate_grammar::gbnf::{ParseOptions, Parsed};
/// let parsed = Parsed::parse("root ::= \"a\"\nold ::= \"b\"\n", &ParseOptions::default())?;
/// let findings = parsed.check();
/// assert!(findings.len() == 1 && parsed.work() > 0);
/// assert_eq!(findings.first().and_then(|found| found.place.clone()), Some(Place::Line { line: 2, column: 1 }));
/// # Ok::<(), toolgate_grammar::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Parsed {
    /// The grammar.
    pub grammar: Grammar,
    pub(crate) text: String,
    pub(crate) spans: Spans,
    work: u64,
}

/// Byte offsets into the text, in a side table so that grammars compare by what they mean.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spans {
    /// Where each rule's name is defined, by rule.
    pub(crate) definitions: Vec<u32>,
    /// Where each rule's marks begin in `marks`, by rule.
    pub(crate) first_mark: Vec<u32>,
    /// Every class, reference and repetition of the bodies, in post-order: the order in which they were read.
    pub(crate) marks: Vec<u32>,
    /// Every `[]` and `[^]`: the rule and the offset. They leave no trace in the grammar.
    pub(crate) empty_classes: Vec<(RuleId, u32)>,
}

impl Grammar {
    /// Reads a grammar whose root is the rule `root`.
    ///
    /// ```
    /// use toolgate_grammar::{Grammar, Kind};
    /// let grammar = Grammar::parse("root ::= greeting \"!\"\ngreeting ::= \"hello\" | \"hi\"\n")?;
    /// assert_eq!(grammar.rules().len(), 2);
    ///
    /// let error = Grammar::parse("root ::= greting\ngreeting ::= \"hello\"\n").unwrap_err();
    /// assert_eq!(error.kind(), Kind::Undefined);
    /// assert_eq!(error.to_string(), "undefined rule \"greting\" at 1:10");
    /// # Ok::<(), toolgate_grammar::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Kind::Syntax`], [`Kind::Undefined`] (also for a rule defined twice and for a missing root) or
    /// [`Kind::Limit`], with the line and column.
    pub fn parse(text: &str) -> Result<Self, Error> {
        Self::parse_with(text, &ParseOptions::default())
    }

    /// Reads a grammar with another root or other limits.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn parse_with(text: &str, options: &ParseOptions) -> Result<Self, Error> {
        Parser::new(text, options)?.parse().map(|(grammar, ..)| grammar)
    }
}

impl Parsed {
    /// Reads a grammar and keeps its text, for [`check`](Self::check).
    ///
    /// # Errors
    /// As [`Grammar::parse`].
    pub fn parse(text: &str, options: &ParseOptions) -> Result<Self, Error> {
        let (grammar, spans, work) = Parser::new(text, options)?.parse()?;
        Ok(Self { grammar, text: text.to_owned(), spans, work })
    }

    /// The steps that reading took, the same on every machine. An automaton's are in
    /// [`Usage::work`](crate::engine::Usage::work).
    pub fn work(&self) -> u64 {
        self.work
    }
}

struct Parser<'t> {
    cursor: Cursor<'t>,
    options: &'t ParseOptions,
    names: Names<'t>,
    rules: Vec<Rule>,
    spans: Spans,
    groups: Groups,
    /// Pieces read so far.
    pieces: usize,
}

impl<'t> Parser<'t> {
    fn new(text: &'t str, options: &'t ParseOptions) -> Result<Self, Error> {
        let most = options.limits.source_bytes.min(u32::MAX as usize);
        if text.len() > most {
            return Err(Error::new(Kind::Limit, format!("grammar of {} bytes is too long", text.len()))
                .hint(format!("the limit is {most} bytes")));
        }
        Ok(Self {
            cursor: Cursor::new(text),
            options,
            names: Names::default(),
            rules: Vec::new(),
            spans: Spans::default(),
            groups: Groups::new(options.limits.depth, text.len()),
            pieces: 0,
        })
    }

    fn parse(mut self) -> Result<(Grammar, Spans, u64), Error> {
        self.cursor.space(Breaks::Skipped);
        while self.cursor.peek().is_some() {
            self.rule()?;
            self.cursor.space(Breaks::Skipped);
        }
        self.finish()
    }

    fn rule(&mut self) -> Result<(), Error> {
        let at = self.cursor.at;
        let name = self.cursor.name();
        if name.is_empty() {
            return Err(refusals::not_a_rule(&self.cursor, at));
        }
        let id = RuleId(self.rules.len() as u32);
        if self.rules.len() >= self.options.limits.rules {
            let limit = self.options.limits.rules;
            return Err(self.cursor.error(Kind::Limit, at, format!("more than {limit} rules")));
        }
        let mention = self.names.mention(name, at);
        if let Some(entry) = self.names.entries.get_mut(mention as usize)
            && let Some(first) = entry.2.replace(id)
        {
            let first = self.spans.definitions.get(first.index()).map_or(0, |at| *at as usize);
            return Err(refusals::defined_twice(&self.cursor, name, first, at));
        }
        self.cursor.space(Breaks::Kept);
        if !self.cursor.eat("::=") {
            return Err(refusals::no_definition(&self.cursor, name));
        }
        self.cursor.space(Breaks::Skipped);

        self.spans.definitions.push(at as u32);
        self.spans.first_mark.push(self.spans.marks.len() as u32);
        let body = self.body()?;
        self.rules.push(Rule { name: name.to_owned(), body });
        Ok(())
    }

    /// Everything up to the end of the rule's last line.
    fn body(&mut self) -> Result<Expr, Error> {
        self.groups.begin(self.cursor.at).map_err(|why| self.not_grouped(why))?;
        loop {
            let at = self.cursor.at;
            self.count(at)?;
            match self.cursor.peek() {
                Some(b'"') => {
                    let text = self.cursor.literal()?;
                    if text.is_empty() { self.groups.empty() } else { self.groups.item(Expr::Literal(text)) }
                }
                Some(b'[') => match self.cursor.class()? {
                    Some(class) => {
                        self.spans.marks.push(at as u32);
                        self.groups.item(Expr::Class(class));
                    }
                    None => {
                        self.spans.empty_classes.push((RuleId(self.rules.len() as u32), at as u32));
                        self.groups.empty();
                    }
                },
                Some(b'.') => {
                    self.cursor.at += 1;
                    self.groups.item(Expr::Any);
                }
                Some(b'<' | b'!') => {
                    let token = self.cursor.token()?;
                    self.groups.item(Expr::Token(token));
                }
                Some(byte) if is_name_byte(byte) => {
                    let name = self.cursor.name();
                    self.spans.marks.push(at as u32);
                    let mention = self.names.mention(name, at);
                    self.groups.item(Expr::Rule(RuleId(mention)));
                }
                Some(b'*' | b'+' | b'?' | b'{') => self.repetition()?,
                Some(b'(') => {
                    self.cursor.at += 1;
                    self.groups.open(at).map_err(|why| self.not_grouped(why))?;
                }
                Some(b')') => {
                    self.cursor.at += 1;
                    self.groups.close(at).map_err(|why| self.not_grouped(why))?;
                }
                Some(b'|') => {
                    self.cursor.at += 1;
                    self.groups.split().map_err(|why| self.not_grouped(why))?;
                    self.cursor.space(Breaks::Skipped);
                }
                None | Some(b'\n' | b'\r') => break,
                Some(_) => return Err(refusals::unexpected(&self.cursor, at)),
            }
            self.cursor.space(self.breaks());
        }
        if let Some(open) = self.groups.unclosed() {
            return Err(self.cursor.syntax(open, "parenthesis is never closed"));
        }
        self.groups.finish().map_err(|why| self.not_grouped(why))
    }

    /// Counts the piece that is about to be read.
    fn count(&mut self, at: usize) -> Result<(), Error> {
        let most = self.options.limits.pieces;
        self.pieces += 1;
        if self.pieces > most {
            let error = self.cursor.error(Kind::Limit, at, format!("more than {most} pieces"));
            return Err(error.hint("raise Limits::pieces, or split the grammar"));
        }
        Ok(())
    }

    fn breaks(&self) -> Breaks {
        if self.groups.unclosed().is_some() { Breaks::Skipped } else { Breaks::Kept }
    }

    /// `*`, `+`, `?`, `{m}`, `{m,}` or `{m,n}` behind an item.
    fn repetition(&mut self) -> Result<(), Error> {
        let at = self.cursor.at;
        let (min, max) = self.bounds()?;
        self.groups.repeat(at, min, max).map_err(|why| self.not_grouped(why))?;
        self.spans.marks.push(at as u32);
        Ok(())
    }

    fn not_grouped(&self, why: NotGrouped) -> Error {
        refusals::not_grouped(&self.cursor, why, self.options.limits.depth)
    }

    fn bounds(&mut self) -> Result<(u64, Option<u64>), Error> {
        let at = self.cursor.at;
        for (sign, bounds) in [("*", (0, None)), ("+", (1, None)), ("?", (0, Some(1)))] {
            if self.cursor.eat(sign) {
                return Ok(bounds);
            }
        }
        let breaks = self.breaks();
        self.cursor.at += 1;
        self.cursor.space(breaks);
        let Some(min) = self.cursor.number()? else {
            return Err(self
                .cursor
                .syntax(self.cursor.at, "expected the least number of repetitions")
                .hint("the forms are {m}, {m,} and {m,n}; \"up to n\" is {0,n}"));
        };
        self.cursor.space(breaks);
        let max = if self.cursor.eat(",") {
            self.cursor.space(breaks);
            let max = self.cursor.number()?;
            self.cursor.space(breaks);
            max
        } else {
            Some(min)
        };
        if !self.cursor.eat("}") {
            let error = self.cursor.syntax(self.cursor.at, "expected } to end the repetition");
            return Err(error.hint("the forms are {m}, {m,} and {m,n}"));
        }
        match max {
            Some(max) if max < min => {
                Err(self.cursor.syntax(at, format!("repetition of at least {min} and at most {max} times")))
            }
            _ => Ok((min, max)),
        }
    }

    /// Gives every reference its rule.
    fn finish(mut self) -> Result<(Grammar, Spans, u64), Error> {
        let undefined: Vec<(&str, usize)> = self
            .names
            .entries
            .iter()
            .filter(|entry| entry.2.is_none())
            .map(|entry| (entry.0, entry.1))
            .collect();
        if let Some(error) = refusals::undefined(&self.cursor, &undefined, &self.rules) {
            return Err(error);
        }
        let Some(root) = self.rules.iter().position(|rule| rule.name == self.options.root) else {
            return Err(refusals::no_root(&self.options.root, &self.rules));
        };
        let ids: Vec<RuleId> = self.names.entries.iter().filter_map(|entry| entry.2).collect();
        for rule in &mut self.rules {
            renumber(&mut rule.body, &ids);
        }
        // Beside the moves, every byte is read once, and every piece is counted, and every rule and reference
        // gets its number.
        let read = bytes(self.cursor.text.len()) + self.rules.len() as u64 + 2 * self.pieces as u64;
        Ok((Grammar { rules: self.rules, root: RuleId(root as u32) }, self.spans, self.groups.work() + read))
    }
}

fn renumber(expr: &mut Expr, ids: &[RuleId]) {
    match expr {
        Expr::Rule(id) => *id = ids.get(id.index()).copied().unwrap_or(*id),
        Expr::Sequence(items) | Expr::Choice(items) => items.iter_mut().for_each(|item| renumber(item, ids)),
        Expr::Repeat { item, .. } => renumber(item, ids),
        Expr::Literal(_) | Expr::Class(_) | Expr::Any | Expr::Token(_) => {}
    }
}
