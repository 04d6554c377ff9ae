//! The lowest stage of the parser: characters, escapes, names, numbers and white space of a GBNF text.
//! Invariant: the cursor stands on a character boundary and only moves forward.

use super::{CharClass, TokenMatch, TokenName, source};
use crate::{Error, Kind};

/// A position in a GBNF text.
pub(crate) struct Cursor<'t> {
    pub(crate) text: &'t str,
    pub(crate) at: usize,
}

/// Where a line break counts as white space.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Breaks {
    /// After `::=` and `|` and inside parentheses.
    Skipped,
    /// Anywhere else: a line break ends the rule.
    Kept,
}

impl<'t> Cursor<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        // A byte order mark is how some editors begin a file; it is no part of the grammar.
        Self { text, at: if text.starts_with('\u{FEFF}') { '\u{FEFF}'.len_utf8() } else { 0 } }
    }

    /// The next byte, `None` at the end.
    pub(crate) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// The next character, `None` at the end.
    pub(crate) fn peek_char(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// What is still to be read.
    pub(crate) fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Moves past `expected` if it is next.
    pub(crate) fn eat(&mut self, expected: &str) -> bool {
        let found = self.rest().starts_with(expected);
        if found {
            self.at += expected.len();
        }
        found
    }

    /// An error at `offset`, with its line, column and excerpt.
    pub(crate) fn error(&self, kind: Kind, offset: usize, message: impl Into<String>) -> Error {
        Error::new(kind, message)
            .at(source::place(self.text, offset))
            .excerpt(source::excerpt(self.text, offset))
    }

    /// A syntax error at `offset`.
    pub(crate) fn syntax(&self, offset: usize, message: impl Into<String>) -> Error {
        self.error(Kind::Syntax, offset, message)
    }

    /// Moves past blanks, comments and, where they are free, line breaks.
    pub(crate) fn space(&mut self, breaks: Breaks) {
        let bytes = self.text.as_bytes();
        while let Some(byte) = bytes.get(self.at) {
            match byte {
                b' ' | b'\t' => self.at += 1,
                b'\n' | b'\r' if breaks == Breaks::Skipped => self.at += 1,
                b'#' => self.at += self.rest().find(['\n', '\r']).unwrap_or(self.rest().len()),
                _ => break,
            }
        }
    }

    /// A rule name; empty where none starts.
    pub(crate) fn name(&mut self) -> &'t str {
        let rest = self.rest();
        let length = rest.bytes().take_while(|byte| is_name_byte(*byte)).count();
        self.at += length;
        rest.get(..length).unwrap_or_default()
    }

    /// A decimal number; `None` where none starts.
    pub(crate) fn number(&mut self) -> Result<Option<u64>, Error> {
        let start = self.at;
        let digits = self.rest().bytes().take_while(u8::is_ascii_digit).count();
        let text = self.rest().get(..digits).unwrap_or_default();
        self.at += digits;
        if digits == 0 {
            return Ok(None);
        }
        let too_large = |_| {
            self.error(Kind::Limit, start, "number too large").hint(format!("the largest is {}", u64::MAX))
        };
        text.parse().map(Some).map_err(too_large)
    }

    /// The text of a literal; the cursor is on its opening quote.
    pub(crate) fn literal(&mut self) -> Result<String, Error> {
        let open = self.at;
        self.at += 1;
        let mut out = String::new();
        loop {
            // Everything up to the next quote or escape is taken over at once.
            let rest = self.rest();
            let Some(plain) = rest.find(['"', '\\']) else {
                return Err(self
                    .syntax(open, "literal is never closed")
                    .hint("it ends with a double quote; write a quote inside it as \\\""));
            };
            out.push_str(rest.get(..plain).unwrap_or_default());
            self.at += plain;
            if self.eat("\"") {
                return Ok(out);
            }
            out.push(self.escaped_char()?);
        }
    }

    /// An escape inside a literal, where surrogates cannot be meant.
    pub(crate) fn escaped_char(&mut self) -> Result<char, Error> {
        let start = self.at;
        let value = self.escape()?;
        char::from_u32(value).ok_or_else(|| {
            self.syntax(start, format!("escape is half of a surrogate pair, U+{value:04X}"))
                .hint("write the character itself, or its code point as \\UHHHHHHHH, such as \\U0001F600")
        })
    }

    /// A character class; the cursor is on its opening bracket. `None` if it is `[]` or `[^]`, which llama.cpp
    /// reads as the empty text.
    pub(crate) fn class(&mut self) -> Result<Option<CharClass>, Error> {
        let open = self.at;
        self.at += 1;
        let negated = self.eat("^");
        let mut ranges = Vec::new();
        loop {
            match self.peek() {
                None => return Err(self.unclosed_class(open)),
                Some(b']') => break,
                Some(_) => {}
            }
            let start = self.at;
            let low = self.class_char(open)?;
            let dash = self.rest().as_bytes();
            if dash.first() == Some(&b'-') && dash.get(1).is_some_and(|byte| *byte != b']') {
                self.at += 1;
                let high = self.class_char(open)?;
                if high < low {
                    return Err(self.reversed(start, low, high));
                }
                ranges.push((low, high));
            } else {
                ranges.push((low, low));
            }
        }
        self.at += 1;
        Ok((!ranges.is_empty()).then_some(CharClass { negated, ranges }))
    }

    /// A token terminal, `<[123]>`, `<text>` or `<"text">`, or `!` and one of these; the cursor is on its start.
    pub(crate) fn token(&mut self) -> Result<TokenMatch, Error> {
        let start = self.at;
        let negated = self.eat("!");
        let open = self.at;
        if !self.eat("<") {
            let error = self.syntax(start, "! negates a token only");
            return Err(error.hint("write !<text> or !<[123]>, and [^…] for characters"));
        }
        if self.eat("[") {
            let id = self.number()?.and_then(|id| u32::try_from(id).ok());
            return match id {
                Some(id) if self.eat("]>") => Ok(TokenMatch { negated, name: TokenName::Id(id) }),
                _ => {
                    let error = self.syntax(open, "expected a token number such as <[123]>");
                    Err(error.hint("a token whose text begins with a bracket is written <\"[text]\">"))
                }
            };
        }
        if self.peek() == Some(b'"') {
            // Ours alone: texts that <text> cannot write, such as [TOOL_CALLS]. llama.cpp looks for a token of
            // this very spelling, finds none and refuses the grammar, so that it is never read as something else.
            let text = self.literal()?;
            if text.is_empty() {
                let error = self.syntax(open, "a token without a text is none");
                return Err(error.hint("write the token's text between the quotes, or leave it out"));
            }
            return match self.eat(">") {
                true => Ok(TokenMatch { negated, name: TokenName::Text(text) }),
                false => Err(self.syntax(open, "token is never closed").hint("it ends with \">")),
            };
        }
        let rest = self.rest();
        match rest.find(['>', '\n', '\r']) {
            Some(end) if rest.as_bytes().get(end) == Some(&b'>') => {
                let text = format!("<{}>", rest.get(..end).unwrap_or_default());
                self.at += end + 1;
                Ok(TokenMatch { negated, name: TokenName::Text(text) })
            }
            _ => Err(self.syntax(open, "token is never closed").hint("it ends with > on the same line")),
        }
    }

    fn unclosed_class(&self, open: usize) -> Error {
        self.syntax(open, "character class is never closed")
            .hint("it ends with ]; write a bracket inside it as \\] and a backslash as \\\\")
    }

    /// llama.cpp takes such a range and matches nothing with it, which nobody can mean.
    fn reversed(&self, start: usize, low: u32, high: u32) -> Error {
        let shown = |value: u32| match char::from_u32(value) {
            Some(c) => Shown(c).to_string(),
            None => format!("U+{value:04X}"),
        };
        let (low, high) = (shown(low), shown(high));
        self.syntax(start, format!("range {low}-{high} holds no character"))
            .hint(format!("write {high}-{low}; a dash that is no range is written \\-"))
    }

    fn class_char(&mut self, open: usize) -> Result<u32, Error> {
        match self.peek_char() {
            Some('\\') => self.escape(),
            Some(c) => {
                self.at += c.len_utf8();
                Ok(u32::from(c))
            }
            None => Err(self.unclosed_class(open)),
        }
    }

    /// An escape as a code point, surrogates included; the cursor is on its backslash.
    fn escape(&mut self) -> Result<u32, Error> {
        let start = self.at;
        self.at += 1;
        let Some(c) = self.peek_char() else {
            return Err(self.syntax(start, "text ends after a backslash").hint("write a backslash as \\\\"));
        };
        self.at += c.len_utf8();
        match c {
            'x' => self.hex(start, 2),
            'u' => self.hex(start, 4),
            'U' => self.hex(start, 8),
            't' => Ok(u32::from('\t')),
            'r' => Ok(u32::from('\r')),
            'n' => Ok(u32::from('\n')),
            '\\' | '"' | '[' | ']' | '-' => Ok(u32::from(c)),
            other => {
                Err(self.syntax(start, format!("unknown escape \\{}", Shown(other))).hint(escape_hint(other)))
            }
        }
    }

    fn hex(&mut self, start: usize, digits: usize) -> Result<u32, Error> {
        let text = self.rest().get(..digits).filter(|text| text.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let Some(value) = text.and_then(|text| u32::from_str_radix(text, 16).ok()) else {
            let letter = self.text.get(start + 1..start + 2).unwrap_or_default();
            return Err(self.syntax(start, format!("\\{letter} takes exactly {digits} hexadecimal digits")));
        };
        self.at += digits;
        if value > u32::from(char::MAX) {
            return Err(self
                .syntax(start, format!("escape is beyond Unicode, U+{value:X}"))
                .hint("the last code point is U+10FFFF"));
        }
        Ok(value)
    }
}

/// Whether rule names are made of this byte.
pub(crate) fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'
}

/// A character as messages show it: itself, or its code point where that would not be visible.
pub(crate) struct Shown(pub(crate) char);

impl std::fmt::Display for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            c if c.is_control() || c.is_whitespace() && c != ' ' => write!(f, "U+{:04X}", u32::from(c)),
            c => write!(f, "{c}"),
        }
    }
}

/// What people mean by escapes that other languages have.
fn escape_hint(c: char) -> String {
    let known = "the escapes are \\xHH \\uHHHH \\UHHHHHHHH \\t \\r \\n \\\\ \\\" \\[ \\] \\-";
    match c {
        'd' => "write [0-9]".to_owned(),
        'w' => "write [A-Za-z0-9_]".to_owned(),
        's' => "write [ \\t\\r\\n]".to_owned(),
        '0' => "write \\x00".to_owned(),
        'a' => "write \\x07".to_owned(),
        'b' => "write \\x08".to_owned(),
        'v' => "write \\x0B".to_owned(),
        'f' => "write \\x0C".to_owned(),
        'e' => "write \\x1B".to_owned(),
        '^' => "write \\x5E; inside a class a ^ that is not first needs no escape".to_owned(),
        c if c.is_ascii_punctuation() => format!("write {c} without a backslash; {known}"),
        _ => known.to_owned(),
    }
}
