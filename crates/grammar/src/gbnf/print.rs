//! A [`Grammar`] to GBNF text: the only place that escapes.
//!
//! Invariant: `parse(print(g)) == g` for every grammar in the normal form that the constructors of [`Expr`] make,
//! and the text is one that llama.cpp reads too, but for counts above its bounds and token texts like `<"[x]">`.

use std::fmt::{self, Write};

use super::{CharClass, Expr, Grammar, RuleId, TokenMatch, TokenName};
use crate::work::{ForeignMap, ForeignSet};

/// Columns after which the alternatives of a rule get a line each.
const WIDTH: usize = 100;

/// A class that no character is in, for expressions that match nothing at all: GBNF has no notation for them.
const NEVER: &str = "[^\\x00-\\U0010FFFF]";

impl Grammar {
    /// The grammar as GBNF text: a rule a line, in the order of their ids; long ones have a line per alternative.
    ///
    /// The root is the rule of that name ([`Grammar::root`]), wherever it stands in the text.
    ///
    /// ```
    /// use toolgate_grammar::{Expr, Grammar};
    /// let mut builder = Grammar::builder();
    /// let digit = builder.rule("digit", Expr::class([('0', '9')]));
    /// let root = builder.rule("root", Expr::sequence([Expr::literal("\"#"), Expr::Rule(digit).repeat(1, Some(3))]));
    /// let grammar = builder.build(root)?;
    /// assert_eq!(grammar.to_gbnf(), "digit ::= [0-9]\nroot ::= \"\\\"#\" digit{1,3}\n");
    /// assert_eq!(Grammar::parse(&grammar.to_gbnf())?, grammar);
    /// # Ok::<(), toolgate_grammar::Error>(())
    /// ```
    pub fn to_gbnf(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for Grammar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let printer = Printer { names: portable_names(self) };
        for (index, rule) in self.rules.iter().enumerate() {
            let name = printer.name(RuleId(index as u32));
            let mut line = format!("{name} ::= ");
            match &rule.body {
                Expr::Choice(items) if items.len() > 1 => {
                    let mut alternatives = Vec::with_capacity(items.len());
                    for item in items {
                        let mut text = String::new();
                        printer.expr(&mut text, item, Position::Alternative)?;
                        alternatives.push(text);
                    }
                    let width: usize = alternatives.iter().map(|text| text.chars().count() + 3).sum();
                    if line.len() + width > WIDTH {
                        line.truncate(line.trim_end().len());
                        write!(line, "\n    {}", alternatives.join(" |\n    "))?;
                    } else {
                        line.push_str(&alternatives.join(" | "));
                    }
                }
                body => printer.expr(&mut line, body, Position::Body)?,
            }
            writeln!(f, "{line}")?;
        }
        Ok(())
    }
}

/// Rule names as llama.cpp takes them: `_` becomes `-`, with a number where that is taken already.
pub(crate) fn portable_names(grammar: &Grammar) -> Vec<String> {
    let portable =
        |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    let mut taken: ForeignSet<String> =
        grammar.rules.iter().map(|rule| &rule.name).filter(|name| portable(name)).cloned().collect();
    // Numbers go on where they left off, so that many names with one spelling are not tried against each other.
    let mut numbers: ForeignMap<String, u32> = ForeignMap::default();
    let mut rename = |name: &str| {
        let base: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let number = numbers.entry(base.clone()).or_insert(1);
        let mut unique = base.clone();
        while !taken.insert(unique.clone()) {
            *number += 1;
            unique = format!("{base}-{number}");
        }
        unique
    };
    let names = grammar.rules.iter().map(|rule| rule.name.as_str());
    names.map(|name| if portable(name) { name.to_owned() } else { rename(name) }).collect()
}

/// Where an expression stands, which decides whether it needs parentheses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Position {
    /// The whole right-hand side of a rule.
    Body,
    /// Between `|`.
    Alternative,
    /// Beside others.
    Item,
    /// In front of a quantifier.
    Repeated,
}

struct Printer {
    names: Vec<String>,
}

impl Printer {
    /// A reference to a rule the grammar lacks is printed all the same: the parser will name it.
    fn name(&self, id: RuleId) -> std::borrow::Cow<'_, str> {
        match self.names.get(id.index()) {
            Some(name) => name.into(),
            None => format!("undefined-{}", id.index()).into(),
        }
    }

    fn expr(&self, out: &mut String, expr: &Expr, position: Position) -> fmt::Result {
        match expr {
            Expr::Literal(text) if text.is_empty() => self.empty(out, position),
            Expr::Literal(text) => literal(out, text),
            Expr::Class(class) => char_class(out, class),
            Expr::Any => out.write_char('.'),
            Expr::Token(token) => token_match(out, token),
            Expr::Rule(id) => out.write_str(&self.name(*id)),
            Expr::Sequence(items) if items.is_empty() => self.empty(out, position),
            Expr::Sequence(items) => {
                let group = position > Position::Alternative && items.len() > 1;
                let inner = if items.len() > 1 { Position::Item } else { position };
                self.list(out, items, " ", inner, group)
            }
            Expr::Choice(items) if items.is_empty() => out.write_str(NEVER),
            Expr::Choice(items) => {
                let group = position > Position::Body && items.len() > 1;
                let inner = if items.len() > 1 { Position::Alternative } else { position };
                self.list(out, items, " | ", inner, group)
            }
            Expr::Repeat { min, max: Some(max), .. } if max < min => out.write_str(NEVER),
            Expr::Repeat { item, min, max } => {
                // A repetition of a repetition is clearer in parentheses: ("a"{2})*.
                let group = position == Position::Repeated;
                if group {
                    out.write_char('(')?;
                }
                self.expr(out, item, Position::Repeated)?;
                match (min, max) {
                    (0, None) => out.write_char('*')?,
                    (1, None) => out.write_char('+')?,
                    (0, Some(1)) => out.write_char('?')?,
                    (min, None) => write!(out, "{{{min},}}")?,
                    (min, Some(max)) if min == max => write!(out, "{{{min}}}")?,
                    (min, Some(max)) => write!(out, "{{{min},{max}}}")?,
                }
                if group { out.write_char(')') } else { Ok(()) }
            }
        }
    }

    /// `""` takes no quantifier; an empty group does.
    fn empty(&self, out: &mut String, position: Position) -> fmt::Result {
        out.write_str(if position == Position::Repeated { "()" } else { "\"\"" })
    }

    fn list(
        &self,
        out: &mut String,
        items: &[Expr],
        between: &str,
        inner: Position,
        group: bool,
    ) -> fmt::Result {
        if group {
            out.write_char('(')?;
        }
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                out.write_str(between)?;
            }
            self.expr(out, item, inner)?;
        }
        if group { out.write_char(')') } else { Ok(()) }
    }
}

/// A text as it stands between the quotes of a literal.
#[cfg(feature = "gbnf")]
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    // Writing to a string does not fail.
    let _ = escape(&mut out, text);
    out
}

/// A token terminal as text.
#[cfg(feature = "gbnf")]
pub(crate) fn token_text(token: &TokenMatch) -> String {
    let mut out = String::new();
    let _ = token_match(&mut out, token);
    out
}

fn literal(out: &mut String, text: &str) -> fmt::Result {
    out.write_char('"')?;
    escape(out, text)?;
    out.write_char('"')
}

fn escape(out: &mut String, text: &str) -> fmt::Result {
    for c in text.chars() {
        match c {
            '"' | '\\' => write!(out, "\\{c}")?,
            c => code_point(out, u32::from(c))?,
        }
    }
    Ok(())
}

fn char_class(out: &mut String, class: &CharClass) -> fmt::Result {
    // A range that holds no character has no notation.
    let ranges: Vec<(u32, u32)> = class.ranges.iter().copied().filter(|(low, high)| low <= high).collect();
    if ranges.is_empty() {
        return out.write_str(if class.negated { "." } else { NEVER });
    }
    out.write_str(if class.negated { "[^" } else { "[" })?;
    for (index, &(low, high)) in ranges.iter().enumerate() {
        // A caret that comes first would negate, and has no escape of its own.
        if index == 0 && !class.negated && low == u32::from('^') {
            out.write_str("\\x5E")?;
        } else {
            class_char(out, low)?;
        }
        if high != low {
            out.write_char('-')?;
            class_char(out, high)?;
        }
    }
    out.write_char(']')
}

fn class_char(out: &mut String, value: u32) -> fmt::Result {
    match char::from_u32(value) {
        Some(c @ ('\\' | '[' | ']' | '-')) => write!(out, "\\{c}"),
        _ => code_point(out, value),
    }
}

/// A code point as itself where it can be seen and told apart, as an escape elsewhere.
fn code_point(out: &mut String, value: u32) -> fmt::Result {
    match char::from_u32(value) {
        Some('\n') => out.write_str("\\n"),
        Some('\r') => out.write_str("\\r"),
        Some('\t') => out.write_str("\\t"),
        Some(c) if (' '..='~').contains(&c) => out.write_char(c),
        // `escape_debug` leaves alone what Unicode calls printable and what does not combine with its neighbour.
        Some(c) if !c.is_ascii() && !c.is_whitespace() && c.escape_debug().len() == 1 => out.write_char(c),
        _ if value <= 0xFF => write!(out, "\\x{value:02X}"),
        _ if value <= 0xFFFF => write!(out, "\\u{value:04X}"),
        _ => write!(out, "\\U{value:08X}"),
    }
}

fn token_match(out: &mut String, token: &TokenMatch) -> fmt::Result {
    if token.negated {
        out.write_char('!')?;
    }
    match &token.name {
        TokenName::Id(id) => write!(out, "<[{id}]>"),
        TokenName::Text(text) if is_plain_token(text) => out.write_str(text),
        TokenName::Text(text) => {
            out.write_char('<')?;
            literal(out, text)?;
            out.write_char('>')
        }
    }
}

/// Whether `<text>` names the token: it ends at the first `>`, and `<[` and `<"` begin other forms.
fn is_plain_token(text: &str) -> bool {
    let inner = text.strip_prefix('<').and_then(|text| text.strip_suffix('>'));
    inner.is_some_and(|inner| {
        !inner.starts_with(['[', '"']) && !inner.contains('>') && !inner.contains(char::is_control)
    })
}
