//! What was wrong with a text and read all the same.

use serde::Serialize;

/// One thing that was mended.
///
/// ```
/// use toolgate_chat::fallback::{RepairKind, extract};
/// let text = "<tool_call>{\"name\": \"wait\", \"arguments\": {seconds: 3}}</tool_call>";
/// let repairs = extract(text).repairs;
/// let first = repairs.first().map(|repair| (repair.kind, &text[repair.offset..]));
/// assert_eq!(first, Some((RepairKind::UnquotedKey, "seconds: 3}}</tool_call>")));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Repair {
    /// What was wrong.
    pub kind: RepairKind,
    /// Byte offset into the text: where it begins, or just behind what showed it (a quote, a word).
    pub offset: usize,
}

/// What can be mended.
///
/// ```
/// use toolgate_chat::fallback::extract;
/// let found = extract("<tool_call>{'name': 'wait', \"arguments\": {\"seconds\": 3,}}</tool_call>");
/// let mut names: Vec<&str> = found.repairs.iter().map(|repair| repair.kind.as_str()).collect();
/// names.dedup();
/// assert_eq!(names, ["single_quotes", "trailing_comma"]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RepairKind {
    /// A string or key in single quotes.
    SingleQuotes,
    /// `True`, `False`, `None`, or a number as only Python writes it.
    PythonLiteral,
    /// A number that is too large to be kept as one, or none in JSON (`NaN`, `Infinity`): it is a text as written.
    NumberOutOfRange,
    /// A comma before a closing bracket.
    TrailingComma,
    /// No comma between two members.
    MissingComma,
    /// A comment.
    Comment,
    /// `=` between a key and its value, where the format has `:`.
    WrongSeparator,
    /// A key without quotes.
    UnquotedKey,
    /// A string without quotes.
    UnquotedString,
    /// A line break or another control character inside a string, not escaped.
    ControlCharacter,
    /// A backslash before a character that needs none.
    InvalidEscape,
    /// A quote inside a string, not escaped.
    UnescapedQuote,
    /// Brackets left open where the text ends.
    UnclosedBracket,
    /// More brackets closed than were open.
    ExtraBracket,
    /// A tag closed by another tag's closing.
    WrongClosingTag,
    /// A tag that is never closed.
    MissingClosingTag,
}

impl RepairKind {
    /// Its name as printed: `single_quotes`, ….
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SingleQuotes => "single_quotes",
            Self::PythonLiteral => "python_literal",
            Self::NumberOutOfRange => "number_out_of_range",
            Self::TrailingComma => "trailing_comma",
            Self::MissingComma => "missing_comma",
            Self::Comment => "comment",
            Self::WrongSeparator => "wrong_separator",
            Self::UnquotedKey => "unquoted_key",
            Self::UnquotedString => "unquoted_string",
            Self::ControlCharacter => "control_character",
            Self::InvalidEscape => "invalid_escape",
            Self::UnescapedQuote => "unescaped_quote",
            Self::UnclosedBracket => "unclosed_bracket",
            Self::ExtraBracket => "extra_bracket",
            Self::WrongClosingTag => "wrong_closing_tag",
            Self::MissingClosingTag => "missing_closing_tag",
        }
    }
}
