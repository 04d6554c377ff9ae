//! What is said of a text that is no grammar: the place, the reason, and what to write instead. Above `lex`; used by
//! `parse`.
//!
//! Invariant: every error has a line and a column, but for those about a whole text.

use super::Rule;
use super::groups::NotGrouped;
use super::lex::{Cursor, Shown};
use super::names::nearest;
use crate::{Error, Kind};

const WHOLE_LINE: &str = "a rule ends with its line: put a longer one in parentheses, or break it after |";

pub(super) fn not_grouped(cursor: &Cursor<'_>, why: NotGrouped, depth: usize) -> Error {
    match why {
        NotGrouped::TooDeep(at) => too_deep(cursor, at, depth),
        NotGrouped::NeverOpened(at) => cursor.syntax(at, "parenthesis was never opened"),
        NotGrouped::EmptyRepeated(at) => cursor
            .syntax(at, "the empty text cannot be repeated")
            .hint("leave out the quantifier, or the empty text"),
        NotGrouped::NothingToRepeat(at) => cursor
            .syntax(at, "nothing to repeat")
            .hint("a quantifier follows what it repeats: \"a\"*, [0-9]+, (\"a\" \"b\"){2,3}"),
    }
}

/// The error for names that no rule has, each with where it stands; none if there is none.
pub(super) fn undefined(cursor: &Cursor<'_>, names: &[(&str, usize)], rules: &[Rule]) -> Option<Error> {
    let ((name, at), others) = names.split_first()?;
    let error = cursor.error(Kind::Undefined, *at, format!("undefined rule \"{name}\""));
    Some(match nearest(name, rules.iter().map(|rule| rule.name.as_str())) {
        Some(other) => error.hint(format!("did you mean \"{other}\"?")),
        None if !others.is_empty() => {
            let others: Vec<&str> = others.iter().take(8).map(|other| other.0).collect();
            error.hint(format!("undefined too: {}", others.join(", ")))
        }
        None => error,
    })
}

fn too_deep(cursor: &Cursor<'_>, at: usize, depth: usize) -> Error {
    cursor
        .error(Kind::Limit, at, format!("nesting deeper than {depth}"))
        .hint("give the inner part a rule of its own")
}

pub(super) fn defined_twice(cursor: &Cursor<'_>, name: &str, first: usize, at: usize) -> Error {
    let (line, column) = super::source::position(cursor.text, first);
    cursor
        .error(Kind::Undefined, at, format!("rule \"{name}\" is defined at {line}:{column} and again"))
        .hint("rename one, or join them with |")
}

pub(super) fn not_a_rule(cursor: &Cursor<'_>, at: usize) -> Error {
    let c = cursor.peek_char().map_or('\0', |c| c);
    let error = cursor.syntax(at, format!("expected a rule name, found {}", Shown(c)));
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

pub(super) fn no_definition(cursor: &Cursor<'_>, name: &str) -> Error {
    let error = cursor.syntax(cursor.at, format!("expected ::= after the rule name \"{name}\""));
    match cursor.peek() {
        Some(b'=' | b':' | b'-') => error.hint("rules are defined with ::="),
        Some(byte) if !byte.is_ascii() => error.hint("names are made of ASCII letters, digits and -"),
        _ => error.hint(WHOLE_LINE),
    }
}

pub(super) fn unexpected(cursor: &Cursor<'_>, at: usize) -> Error {
    let c = cursor.peek_char().map_or('\0', |c| c);
    let error = cursor.syntax(at, format!("unexpected {}", Shown(c)));
    match c {
        ':' if cursor.rest().starts_with("::=") => error
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

pub(super) fn no_root(root: &str, rules: &[Rule]) -> Error {
    if rules.is_empty() {
        return Error::new(Kind::Undefined, "grammar has no rules");
    }
    let mut names: Vec<&str> = rules.iter().map(|rule| rule.name.as_str()).take(8).collect();
    if names.len() < rules.len() {
        names.push("…");
    }
    Error::new(Kind::Undefined, format!("undefined root rule \"{root}\""))
        .hint(format!("add it, or choose another as the root: {}", names.join(", ")))
}
