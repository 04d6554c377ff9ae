//! GBNF text to a [`Grammar`]: all of llama.cpp's syntax, with a line, a column and a hint in every error.
//!
//! Invariant: what comes out is in the normal form of the constructors of [`Expr`] (no sequence directly inside a
//! sequence, no choice inside a choice), nested no deeper than [`Limits::depth`], in time linear in the text.

use super::lex::{Breaks, Cursor, Shown, is_name_byte};
use super::names::{Names, nearest};
use super::{Expr, Grammar, Rule, RuleId};
use crate::work::bytes;
use crate::{Error, Kind, Limits};

/// How to read a GBNF text.
///
/// ```
/// use toolgate_grammar::{Grammar, gbnf::ParseOptions};
/// let text = "list ::= \"[\" item* \"]\"\nitem ::= [0-9]\n";
/// let options = ParseOptions { root: "list".to_owned(), ..ParseOptions::default() };
/// let grammar = Grammar::parse_with(text, &options)?;
/// assert_eq!(Some(grammar.root()), grammar.find("list"));
/// # Ok::<(), toolgate_grammar::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseOptions {
    /// Name of the rule where matching starts. Default `root`.
    pub root: String,
    /// Bounds on the text: its bytes, its rules, its nesting.
    pub limits: Limits,
}

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
/// assert_eq!(findings.len(), 1);
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

const WHOLE_LINE: &str = "a rule ends with its line: put a longer one in parentheses, or break it after |";

/// What a quantifier would apply to, and what the next element makes of it.
#[derive(Clone, Copy)]
enum Last {
    /// The alternative has just begun.
    Nothing,
    /// The topmost item, of this height.
    Item(u32),
    /// A closed group, still loose on the stacks: its items from `items` on or its alternatives from `choices` on.
    /// Left loose, a group that is not repeated becomes part of its parent without being moved.
    Group { items: usize, choices: usize, height: u32 },
}

/// An open parenthesis, or the rule itself.
struct Frame {
    /// Offset of the parenthesis.
    open: usize,
    /// Where its current alternative begins in `Parser::items`.
    items: usize,
    /// Where its finished alternatives begin in `Parser::choices`.
    choices: usize,
    /// Whether it has a `|`.
    split: bool,
    /// Height of the tallest expression in it.
    height: u32,
    last: Last,
    /// Whether the last element was `""`, which takes no quantifier.
    after_empty: bool,
}

struct Parser<'t> {
    cursor: Cursor<'t>,
    options: &'t ParseOptions,
    names: Names<'t>,
    rules: Vec<Rule>,
    spans: Spans,
    frames: Vec<Frame>,
    /// The items of all open alternatives, innermost last.
    items: Vec<Expr>,
    /// The finished alternatives of all open groups, innermost last.
    choices: Vec<Expr>,
    /// Pieces read so far.
    pieces: usize,
    /// Steps taken so far.
    work: u64,
    /// Alternatives that had to be moved to flatten them all the same.
    moved: usize,
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
            frames: Vec::new(),
            items: Vec::new(),
            choices: Vec::new(),
            pieces: 0,
            work: 0,
            moved: 0,
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
            return Err(self.not_a_rule(at));
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
            return Err(self.defined_twice(name, first, at));
        }
        self.cursor.space(Breaks::Kept);
        if !self.cursor.eat("::=") {
            return Err(self.no_definition(name));
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
        self.frames.clear();
        self.open(self.cursor.at)?;
        loop {
            let at = self.cursor.at;
            self.count(at)?;
            match self.cursor.peek() {
                Some(b'"') => {
                    let text = self.cursor.literal()?;
                    if text.is_empty() { self.empty() } else { self.item(Expr::Literal(text)) }
                }
                Some(b'[') => match self.cursor.class()? {
                    Some(class) => {
                        self.spans.marks.push(at as u32);
                        self.item(Expr::Class(class));
                    }
                    None => {
                        self.spans.empty_classes.push((RuleId(self.rules.len() as u32), at as u32));
                        self.empty();
                    }
                },
                Some(b'.') => {
                    self.cursor.at += 1;
                    self.item(Expr::Any);
                }
                Some(b'<' | b'!') => {
                    let token = self.cursor.token()?;
                    self.item(Expr::Token(token));
                }
                Some(byte) if is_name_byte(byte) => {
                    let name = self.cursor.name();
                    self.spans.marks.push(at as u32);
                    let mention = self.names.mention(name, at);
                    self.item(Expr::Rule(RuleId(mention)));
                }
                Some(b'*' | b'+' | b'?' | b'{') => self.repetition()?,
                Some(b'(') => {
                    self.cursor.at += 1;
                    self.open(at)?;
                }
                Some(b')') => {
                    self.cursor.at += 1;
                    self.close(at)?;
                }
                Some(b'|') => {
                    self.cursor.at += 1;
                    self.split()?;
                    self.cursor.space(Breaks::Skipped);
                }
                None | Some(b'\n' | b'\r') => break,
                Some(_) => return Err(self.unexpected(at)),
            }
            self.cursor.space(self.breaks());
        }
        if self.frames.len() > 1 {
            let open = self.frames.last().map_or(0, |frame| frame.open);
            return Err(self.cursor.syntax(open, "parenthesis is never closed"));
        }
        self.finish_body()
    }

    /// Counts the piece that is about to be read.
    fn count(&mut self, at: usize) -> Result<(), Error> {
        let most = self.options.limits.pieces;
        self.pieces += 1;
        self.work += 1;
        if self.pieces > most {
            let error = self.cursor.error(Kind::Limit, at, format!("more than {most} pieces"));
            return Err(error.hint("raise Limits::pieces, or split the grammar"));
        }
        Ok(())
    }

    fn breaks(&self) -> Breaks {
        if self.frames.len() > 1 { Breaks::Skipped } else { Breaks::Kept }
    }

    // The stacks. Groups are flattened by leaving their contents where they are, so that no expression is moved
    // more than twice however deep it is nested.

    fn open(&mut self, open: usize) -> Result<(), Error> {
        if self.frames.len() > self.options.limits.depth {
            return Err(self.too_deep(open));
        }
        self.settle();
        self.frames.push(Frame {
            open,
            items: self.items.len(),
            choices: self.choices.len(),
            split: false,
            height: 0,
            last: Last::Nothing,
            after_empty: false,
        });
        Ok(())
    }

    fn item(&mut self, item: Expr) {
        self.settle();
        self.items.push(item);
        self.set_last(Last::Item(1), 1);
    }

    /// An empty text adds nothing to its sequence, and what stands before it cannot be repeated any more.
    fn empty(&mut self) {
        if let Some(frame) = self.frames.last_mut() {
            frame.after_empty = true;
        }
    }

    fn set_last(&mut self, last: Last, height: u32) {
        if let Some(frame) = self.frames.last_mut() {
            frame.last = last;
            frame.height = frame.height.max(height);
            frame.after_empty = false;
        }
    }

    /// Makes one item of a loose group with alternatives, because something follows it.
    fn settle(&mut self) {
        if let Some(&Frame { last: Last::Group { choices, .. }, .. }) = self.frames.last()
            && choices < self.choices.len()
        {
            let alternatives: Vec<Expr> = self.choices.drain(choices..).collect();
            self.work += alternatives.len() as u64;
            self.items.push(Expr::Choice(alternatives));
        }
        if let Some(frame) = self.frames.last_mut() {
            frame.last = Last::Nothing;
        }
    }

    /// Ends the alternative at a `|`.
    fn split(&mut self) -> Result<(), Error> {
        self.end_alternative()?;
        if let Some(frame) = self.frames.last_mut() {
            (frame.split, frame.last, frame.after_empty) = (true, Last::Nothing, false);
        }
        Ok(())
    }

    fn end_alternative(&mut self) -> Result<(), Error> {
        let Some(&Frame { items, last, open, .. }) = self.frames.last() else { return Ok(()) };
        let loose = matches!(last, Last::Group { choices, .. } if choices < self.choices.len());
        if loose && items == self.items.len() {
            // The alternative is nothing but a group with alternatives: they become the parent's own.
            return Ok(());
        }
        self.settle();
        match self.sequence(items) {
            // As in `("a" | "b") () | "c"`: odd enough to be given a budget, which keeps the whole linear.
            Expr::Choice(inner) => {
                self.moved += inner.len();
                self.work += inner.len() as u64;
                if self.moved > self.cursor.text.len() {
                    return Err(self.too_deep(open));
                }
                self.choices.extend(inner);
            }
            alternative => self.choices.push(alternative),
        }
        Ok(())
    }

    /// The items from `from` on as one expression.
    fn sequence(&mut self, from: usize) -> Expr {
        self.work += self.items.len().saturating_sub(from) as u64;
        if self.items.len() == from + 1 {
            self.items.pop().unwrap_or_else(Expr::empty)
        } else {
            Expr::Sequence(self.items.drain(from..).collect())
        }
    }

    fn close(&mut self, at: usize) -> Result<(), Error> {
        if self.frames.len() < 2 {
            return Err(self.cursor.syntax(at, "parenthesis was never opened"));
        }
        self.loosen()?;
        if let Some(frame) = self.frames.pop() {
            let height = frame.height + 1;
            if height as usize > self.options.limits.depth {
                return Err(self.too_deep(frame.open));
            }
            self.set_last(Last::Group { items: frame.items, choices: frame.choices, height }, height);
        }
        Ok(())
    }

    /// Ends the innermost frame, so that either its items or its alternatives are loose, not both.
    fn loosen(&mut self) -> Result<(), Error> {
        let Some(&Frame { items, split, .. }) = self.frames.last() else { return Ok(()) };
        if split {
            self.end_alternative()?;
        } else if items < self.items.len() {
            self.settle();
        }
        Ok(())
    }

    fn finish_body(&mut self) -> Result<Expr, Error> {
        self.loosen()?;
        self.frames.clear();
        if self.choices.is_empty() {
            Ok(self.sequence(0))
        } else {
            Ok(Expr::Choice(std::mem::take(&mut self.choices)))
        }
    }

    /// `*`, `+`, `?`, `{m}`, `{m,}` or `{m,n}` behind an item.
    fn repetition(&mut self) -> Result<(), Error> {
        let at = self.cursor.at;
        let (min, max) = self.bounds()?;
        let Some(&Frame { last, after_empty, .. }) = self.frames.last() else { return Ok(()) };
        if after_empty {
            return Err(self
                .cursor
                .syntax(at, "the empty text cannot be repeated")
                .hint("leave out the quantifier, or the empty text"));
        }
        let (item, height) = match last {
            Last::Nothing => {
                let error = self.cursor.syntax(at, "nothing to repeat");
                return Err(
                    error.hint("a quantifier follows what it repeats: \"a\"*, [0-9]+, (\"a\" \"b\"){2,3}")
                );
            }
            Last::Item(height) => (self.items.pop().unwrap_or_else(Expr::empty), height),
            Last::Group { choices, height, .. } if choices < self.choices.len() => {
                self.work += (self.choices.len() - choices) as u64;
                (Expr::Choice(self.choices.drain(choices..).collect()), height)
            }
            Last::Group { items, height, .. } => (self.sequence(items), height),
        };
        if height as usize >= self.options.limits.depth {
            return Err(self.too_deep(at));
        }
        self.spans.marks.push(at as u32);
        self.items.push(item.repeat(min, max));
        self.set_last(Last::Item(height + 1), height + 1);
        Ok(())
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
        let undefined: Vec<_> = self.names.entries.iter().filter(|entry| entry.2.is_none()).collect();
        if let Some((name, at, _)) = undefined.first() {
            let error = self.cursor.error(Kind::Undefined, *at, format!("undefined rule \"{name}\""));
            return Err(match nearest(name, self.rules.iter().map(|rule| rule.name.as_str())) {
                Some(other) => error.hint(format!("did you mean \"{other}\"?")),
                None if undefined.len() > 1 => {
                    let others: Vec<&str> = undefined.iter().skip(1).take(8).map(|entry| entry.0).collect();
                    error.hint(format!("undefined too: {}", others.join(", ")))
                }
                None => error,
            });
        }
        let Some(root) = self.rules.iter().position(|rule| rule.name == self.options.root) else {
            return Err(self.no_root());
        };
        let ids: Vec<RuleId> = self.names.entries.iter().filter_map(|entry| entry.2).collect();
        for rule in &mut self.rules {
            renumber(&mut rule.body, &ids);
        }
        // Beside the moves, every byte is read once, and every rule and reference gets its number.
        let read = bytes(self.cursor.text.len()) + self.rules.len() as u64 + self.pieces as u64;
        Ok((Grammar { rules: self.rules, root: RuleId(root as u32) }, self.spans, self.work + read))
    }

    // Errors.

    fn too_deep(&self, at: usize) -> Error {
        let depth = self.options.limits.depth;
        self.cursor
            .error(Kind::Limit, at, format!("nesting deeper than {depth}"))
            .hint("give the inner part a rule of its own")
    }

    fn defined_twice(&self, name: &str, first: RuleId, at: usize) -> Error {
        let first = self.spans.definitions.get(first.index()).map_or(0, |at| *at as usize);
        let (line, column) = super::source::position(self.cursor.text, first);
        self.cursor
            .error(Kind::Undefined, at, format!("rule \"{name}\" is defined at {line}:{column} and again"))
            .hint("rename one, or join them with |")
    }

    fn not_a_rule(&self, at: usize) -> Error {
        let c = self.cursor.peek_char().map_or('\0', |c| c);
        let error = self.cursor.syntax(at, format!("expected a rule name, found {}", Shown(c)));
        match c {
            '|' => error.hint(
                "a line cannot begin with |: end the line before it with |, or put the alternatives in parentheses",
            ),
            '/' => error.hint("a comment begins with #"),
            '"' | '[' | '(' | ')' | '.' | '*' | '+' | '?' => error.hint(WHOLE_LINE),
            '<' => error.hint("write name ::= without angle brackets; <text> is a token"),
            _ => error.hint("a rule is written name ::= …, its name made of letters, digits and -"),
        }
    }

    fn no_definition(&self, name: &str) -> Error {
        let error =
            self.cursor.syntax(self.cursor.at, format!("expected ::= after the rule name \"{name}\""));
        match self.cursor.peek() {
            Some(b'=' | b':' | b'-') => error.hint("rules are defined with ::="),
            Some(byte) if !byte.is_ascii() => error.hint("names are made of ASCII letters, digits and -"),
            _ => error.hint(WHOLE_LINE),
        }
    }

    fn unexpected(&self, at: usize) -> Error {
        let c = self.cursor.peek_char().map_or('\0', |c| c);
        let error = self.cursor.syntax(at, format!("unexpected {}", Shown(c)));
        match c {
            ':' if self.cursor.rest().starts_with("::=") => error
                .hint("the name before it was read as part of the rule above, whose body is missing here: write \"\" for none"),
            '\'' => error.hint("literals take double quotes"),
            ',' => error.hint("what follows one another is written side by side, without commas"),
            ';' => error.hint("a rule ends with its line, without a semicolon"),
            '/' => error.hint("a comment begins with #, and there are no regular expressions"),
            ']' | '}' => error.hint("it closes nothing"),
            '\\' => error.hint("escapes stand inside \"…\" and […]"),
            _ => error,
        }
    }

    fn no_root(&self) -> Error {
        let root = &self.options.root;
        if self.rules.is_empty() {
            return Error::new(Kind::Undefined, "grammar has no rules");
        }
        let mut names: Vec<&str> = self.rules.iter().map(|rule| rule.name.as_str()).take(8).collect();
        if names.len() < self.rules.len() {
            names.push("…");
        }
        Error::new(Kind::Undefined, format!("undefined root rule \"{root}\""))
            .hint(format!("add it, or choose another as the root: {}", names.join(", ")))
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
