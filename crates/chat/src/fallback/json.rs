//! Reads JSON as models write it: Python's literals, single quotes, comments, missing brackets and so on, each noted.
//!
//! Invariant: one pass. Nothing is made up: a text that is cut off inside a value is not read at all.

use serde_json::{Map, Number, Value};

use super::repair::{Repair, RepairKind};
use super::source::Cursor;

/// Nesting that is read; the bound serde_json puts on parsed text.
const DEPTH: usize = 128;
/// What is a number in Python and in JavaScript, and none in JSON.
const NO_NUMBERS: [&str; 4] = ["NaN", "nan", "Infinity", "inf"];

/// Whose way of writing values is no mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// JSON; everything else is a repair.
    Json,
    /// Python: single quotes, `True`, tuples and sets as well.
    Python,
}

/// A value reader at a place in a text.
#[derive(Debug)]
pub(crate) struct Reader<'s, 'a> {
    pub(crate) cursor: Cursor<'s, 'a>,
    dialect: Dialect,
    pub(crate) repairs: Vec<Repair>,
    /// Closing brackets that were missing where the text ended; set once, then every open value ends.
    ended: bool,
    /// Whether nesting was too deep to read on.
    too_deep: bool,
}

impl<'s, 'a> Reader<'s, 'a> {
    pub(crate) fn new(cursor: Cursor<'s, 'a>, dialect: Dialect) -> Self {
        Self { cursor, dialect, repairs: Vec::new(), ended: false, too_deep: false }
    }

    /// Whether brackets were missing at the end of what was read.
    pub(crate) fn was_cut(&self) -> bool {
        self.ended
    }

    /// The value here, white space before it skipped; `None` if there is none that can be read.
    pub(crate) fn value(&mut self) -> Option<Value> {
        self.value_at(DEPTH)
    }

    fn value_at(&mut self, depth: usize) -> Option<Value> {
        let Some(depth) = depth.checked_sub(1) else {
            self.too_deep = true;
            return None;
        };
        self.skip_blank();
        match self.cursor.peek()? {
            '{' | '[' if self.dialect == Dialect::Json => self.bracketed(depth),
            '{' => self.braces(depth),
            '[' => self.list('[', ']', depth).map(Value::Array),
            '(' if self.dialect == Dialect::Python => self.list('(', ')', depth).map(Value::Array),
            '"' | '\'' => self.string().map(Value::String),
            '-' | '+' | '.' | '0'..='9' => self.number(depth),
            c if c.is_ascii_alphabetic() => self.word(),
            _ => None,
        }
    }

    /// An object or a list of JSON. One that cannot be read is remembered: every bracket before it that is still open would
    /// have it read again.
    fn bracketed(&mut self, depth: usize) -> Option<Value> {
        let start = self.cursor;
        if start.source().is_hopeless(start.place()) {
            return None;
        }
        let value = match start.sees("{") {
            true => self.object(depth).map(Value::Object),
            false => self.list('[', ']', depth).map(Value::Array),
        };
        if value.is_none() && (!self.too_deep || depth >= DEPTH / 8) {
            start.source().note_hopeless(start.place());
        }
        value
    }

    fn note(&mut self, kind: RepairKind) {
        self.repairs.push(Repair { kind, offset: self.cursor.place() });
    }

    fn note_in_json(&mut self, kind: RepairKind) {
        if self.dialect == Dialect::Json {
            self.note(kind);
        }
    }

    fn skip_blank(&mut self) {
        loop {
            self.cursor.skip_blank();
            let mut comment = self.cursor;
            if comment.eat("//") || (self.dialect == Dialect::Json && comment.eat("#")) {
                comment.take_while(|c| c != '\n');
            } else if comment.eat("/*") {
                if comment.take_until("*/").is_none() {
                    return;
                }
            } else {
                return;
            }
            self.note(RepairKind::Comment);
            self.cursor = comment;
        }
    }

    /// An object of Python, or a set.
    fn braces(&mut self, depth: usize) -> Option<Value> {
        let start = self.cursor;
        let noted = self.repairs.len();
        if let Some(object) = self.object(depth) {
            return Some(Value::Object(object));
        }
        self.cursor = start;
        self.repairs.truncate(noted);
        self.ended = false;
        self.list('{', '}', depth).map(Value::Array)
    }

    fn object(&mut self, depth: usize) -> Option<Map<String, Value>> {
        self.cursor.next()?;
        let is_doubled = self.dialect == Dialect::Json && self.cursor.sees("{") && !self.cursor.sees("{{");
        self.skip_blank();
        if is_doubled {
            return self.doubled(depth);
        }
        let mut object = Map::new();
        let mut after_comma = false;
        loop {
            self.skip_blank();
            if self.cursor.eat("}") {
                if after_comma {
                    self.note(RepairKind::TrailingComma);
                }
                return Some(object);
            }
            if !object.is_empty() && !after_comma {
                if !self.cursor.sees("\"") || self.dialect == Dialect::Python {
                    return None;
                }
                self.note(RepairKind::MissingComma);
            }
            if object.is_empty() && self.at_end() {
                return None;
            }
            let key = self.key()?;
            self.skip_blank();
            if !self.cursor.eat(":") {
                return None;
            }
            let value = self.value_at(depth)?;
            object.insert(key, value);
            if self.ended || self.ends_here('}') {
                return Some(object);
            }
            after_comma = self.cursor.eat(",");
        }
    }

    /// `{{"a": 1}}`: a template's doubled braces, taken at their word.
    fn doubled(&mut self, depth: usize) -> Option<Map<String, Value>> {
        let Some(Value::Object(object)) = self.bracketed(depth.checked_sub(1)?) else { return None };
        self.note(RepairKind::ExtraBracket);
        self.skip_blank();
        self.cursor.eat("}");
        Some(object)
    }

    fn list(&mut self, open: char, close: char, depth: usize) -> Option<Vec<Value>> {
        self.cursor.next().filter(|c| *c == open)?;
        let mut items = Vec::new();
        let mut after_comma = false;
        loop {
            self.skip_blank();
            if self.cursor.peek()? == close {
                self.cursor.next();
                if after_comma {
                    self.note_in_json(RepairKind::TrailingComma);
                }
                return Some(items);
            }
            if !items.is_empty() && !after_comma {
                return None;
            }
            items.push(self.value_at(depth)?);
            if self.ended || self.ends_here(close) {
                return Some(items);
            }
            after_comma = self.cursor.eat(",");
        }
    }

    /// After a member: whether the text is over though a bracket is open, or another bracket closes in its place.
    fn ends_here(&mut self, close: char) -> bool {
        self.skip_blank();
        let next = self.cursor.peek();
        if next == Some(close) || next == Some(',') || next == Some('"') {
            return false;
        }
        if self.at_end() {
            self.note(RepairKind::UnclosedBracket);
            self.ended = true;
            return true;
        }
        // `{"a": [1, 2}`: the outer bracket closes the inner as well.
        if next.is_some_and(|c| matches!(c, '}' | ']') && c != close) {
            self.note(RepairKind::UnclosedBracket);
            return true;
        }
        false
    }

    /// Whether what follows cannot be JSON but can follow it: the end, a tag, a fence.
    fn at_end(&self) -> bool {
        self.cursor.is_end() || self.cursor.sees("<") || self.cursor.sees("```") || self.cursor.sees("[/")
    }

    fn key(&mut self) -> Option<String> {
        match self.cursor.peek()? {
            quote @ ('"' | '\'') => {
                // No key holds its own quote: what does is no object.
                let mut end = self.cursor;
                end.next();
                end.take_while(|c| c != quote && c != '\\');
                if end.next() == Some(quote) {
                    end.skip_blank();
                    if !end.sees(":") {
                        return None;
                    }
                }
                self.string()
            }
            c if c.is_alphabetic() || c == '_' || c == '$' => {
                self.note(RepairKind::UnquotedKey);
                let key =
                    self.cursor.take_while(|c| c.is_alphanumeric() || matches!(c, '_' | '$' | '-' | '.'));
                Some(key.to_owned())
            }
            _ => None,
        }
    }

    /// A number. At the very end of a text, inside brackets, more of its digits may be missing: it is none then.
    fn number(&mut self, depth: usize) -> Option<Value> {
        let text =
            self.cursor.take_while(|c| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E' | '_'));
        if let "-" | "+" = text
            && let Some(word) = self.cursor.eat_any(&NO_NUMBERS)
        {
            return Some(self.as_text(&format!("{}{word}", text.trim_start_matches('+'))));
        }
        let is_inside = depth + 1 < DEPTH;
        if is_inside && self.cursor.is_end() {
            return None;
        }
        if let Some(value) = number(text) {
            return Some(self.exact(value, text));
        }
        let python = text.replace('_', "");
        let python = python.strip_prefix('+').unwrap_or(&python);
        let (sign, digits) = python.strip_prefix('-').map_or(("", python), |digits| ("-", digits));
        let plain = digits.trim_start_matches('0');
        let zero = if plain.starts_with(|c: char| c.is_ascii_digit()) { "" } else { "0" };
        let python = &format!("{sign}{zero}{plain}");
        let python = if python.ends_with('.') { format!("{python}0") } else { python.to_owned() };
        if let Some(value) = number(&python) {
            self.note_in_json(RepairKind::PythonLiteral);
            return Some(self.exact(value, &python));
        }
        is_number(&python).then(|| self.as_text(text))
    }

    /// The number, or its digits as a text where no number of JSON's readers holds all of them.
    fn exact(&mut self, value: Value, text: &str) -> Value {
        if is_exact(&value, text) { value } else { self.as_text(text) }
    }

    fn as_text(&mut self, number: &str) -> Value {
        self.note(RepairKind::NumberOutOfRange);
        Value::from(number)
    }

    fn word(&mut self) -> Option<Value> {
        let word = self.cursor.take_while(|c| c.is_ascii_alphanumeric() || c == '_');
        match word {
            "true" => return Some(Value::Bool(true)),
            "false" => return Some(Value::Bool(false)),
            "null" => return Some(Value::Null),
            _ => {}
        }
        // JSON has no number for them.
        if NO_NUMBERS.contains(&word) {
            return Some(self.as_text(word));
        }
        self.note_in_json(RepairKind::PythonLiteral);
        match word {
            "True" => Some(Value::Bool(true)),
            "False" => Some(Value::Bool(false)),
            "None" | "undefined" => Some(Value::Null),
            _ => None,
        }
    }

    /// A string in either quote. A quote that nothing can follow belongs to the text.
    fn string(&mut self) -> Option<String> {
        let start = self.cursor;
        let quote = self.cursor.next()?;
        if quote == '\'' {
            self.note_in_json(RepairKind::SingleQuotes);
        }
        let triple = if quote == '"' { "\"\"\"" } else { "'''" };
        let mut cursor = start;
        if cursor.eat(triple) {
            self.note_in_json(RepairKind::UnescapedQuote);
            self.cursor = cursor;
            return self.triple_quoted(triple);
        }
        if start.source().never_closes(quote, start.place()) {
            return None;
        }
        let mut out = String::new();
        loop {
            let run = self.cursor.take_while(|c| c != quote && c != '\\' && c >= ' ');
            out.push_str(run);
            let Some(next) = self.cursor.next() else {
                start.source().note_unclosed(quote, start.place());
                return None;
            };
            match next {
                '\\' => self.escape(&mut out)?,
                c if c == quote => {
                    if self.may_close() {
                        return Some(out);
                    }
                    self.note(RepairKind::UnescapedQuote);
                    out.push(c);
                }
                c => {
                    self.note_in_json(RepairKind::ControlCharacter);
                    out.push(c);
                }
            }
        }
    }

    fn triple_quoted(&mut self, quotes: &str) -> Option<String> {
        let mut out = String::new();
        loop {
            if self.cursor.eat(quotes) {
                return Some(out);
            }
            match self.cursor.next()? {
                '\\' => self.escape(&mut out)?,
                c => out.push(c),
            }
        }
    }

    /// Whether a string can end here: a separator, a bracket or the end follows.
    fn may_close(&self) -> bool {
        let mut after = self.cursor;
        after.skip_blank();
        match after.peek() {
            None | Some(',' | ':' | '}' | ']' | '<') => true,
            // Other strings that it is put together with are none of ours, and the whole is no value.
            Some(')' | '+' | '%' | '"' | '\'') if self.dialect == Dialect::Python => true,
            Some(')') => false,
            Some('#') => self.dialect == Dialect::Json,
            Some('"') => self.dialect == Dialect::Json && opens_member(after),
            Some(_) => ["//", "/*", "```", "[/"].iter().any(|literal| after.sees(literal)),
        }
    }

    fn escape(&mut self, out: &mut String) -> Option<()> {
        let c = self.cursor.next()?;
        match c {
            '"' | '\\' | '/' => out.push(c),
            'n' => out.push('\n'),
            't' => out.push('\t'),
            'r' => out.push('\r'),
            'b' => out.push('\u{8}'),
            'f' => out.push('\u{c}'),
            'u' => {
                let first = self.hex(4)?;
                out.push(self.surrogate(first)?);
            }
            '\'' => {
                self.note_in_json(RepairKind::InvalidEscape);
                out.push('\'');
            }
            'x' if self.dialect == Dialect::Python => out.push(char::from_u32(self.hex(2)?)?),
            'U' if self.dialect == Dialect::Python => out.push(char::from_u32(self.hex(8)?)?),
            '0' if self.dialect == Dialect::Python => out.push('\0'),
            '\n' => self.note_in_json(RepairKind::InvalidEscape),
            other => {
                // As in Python, a backslash before any other character is a backslash.
                self.note(RepairKind::InvalidEscape);
                out.extend(['\\', other]);
            }
        }
        Some(())
    }

    fn surrogate(&mut self, first: u32) -> Option<char> {
        if !(0xd800..0xdc00).contains(&first) {
            return char::from_u32(first).or_else(|| {
                self.note(RepairKind::InvalidEscape);
                Some(char::REPLACEMENT_CHARACTER)
            });
        }
        let mut pair = self.cursor;
        if pair.eat("\\u") {
            let after = std::mem::replace(&mut self.cursor, pair);
            match self.hex(4) {
                Some(second @ 0xdc00..0xe000) => {
                    return char::from_u32(0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00));
                }
                _ => self.cursor = after,
            }
        }
        self.note(RepairKind::InvalidEscape);
        Some(char::REPLACEMENT_CHARACTER)
    }

    fn hex(&mut self, digits: usize) -> Option<u32> {
        (0..digits).try_fold(0_u32, |number, _| Some(number * 16 + self.cursor.next()?.to_digit(16)?))
    }
}

/// Whether a key and its colon stand here: the comma before them is missing.
fn opens_member(mut cursor: Cursor<'_, '_>) -> bool {
    cursor.eat("\"");
    let mut left = 64;
    let key = cursor.take_while(|c| {
        left -= 1;
        left > 0 && (c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '$'))
    });
    let is_key = !key.is_empty() && cursor.eat("\"");
    cursor.skip_blank();
    is_key && cursor.sees(":")
}

/// Whether a value holds all digits of the whole number that a text is.
pub(crate) fn is_exact(value: &Value, text: &str) -> bool {
    let is_whole = text.trim_start_matches('-').chars().all(|c| c.is_ascii_digit());
    !is_whole || !value.is_f64() || value.as_f64().is_some_and(|float| format!("{float}") == text)
}

/// Whether a text is spelled as a number of JSON, however large.
fn is_number(text: &str) -> bool {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    let mantissa = mantissa.strip_prefix('-').unwrap_or(mantissa);
    let is_mantissa = match mantissa.split_once('.') {
        Some((whole, fraction)) => digits(whole) && digits(fraction),
        None => digits(mantissa),
    };
    is_mantissa && digits(exponent.strip_prefix(['-', '+']).unwrap_or(exponent))
}

/// The number a text is in JSON, whole numbers beyond 64 bits as the nearest float.
fn number(text: &str) -> Option<Value> {
    serde_json::from_str::<Number>(text).ok().map(Value::Number)
}
