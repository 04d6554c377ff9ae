//! The one error of this crate: what kind of thing went wrong, where, and what to do about it.

use std::fmt;

/// What went wrong, for code that wants to decide on it.
///
/// ```
/// use toolgate_grammar::{Grammar, Kind};
/// let hint = match Grammar::parse("root ::= 'a'").map_err(|error| error.kind()) {
///     Err(Kind::Syntax) => "no GBNF",
///     Err(Kind::Undefined) => "a rule is missing",
///     Err(other) => other.as_str(),
///     Ok(_) => "fine",
/// };
/// assert_eq!(hint, "no GBNF");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// Text that is not GBNF.
    Syntax,
    /// A grammar that names a rule nobody defines, or defines one twice.
    Undefined,
    /// A schema keyword that can be neither enforced nor checked.
    Unsupported,
    /// A schema that is malformed, or that nothing can match.
    InvalidSchema,
    /// A token or text the grammar does not allow at this point.
    Rejected,
    /// A bound of [`Limits`](crate::Limits) was reached.
    Limit,
    /// A vocabulary that cannot be used.
    Vocabulary,
}

impl Kind {
    /// A word for it, as programs write it: `invalid_schema`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Syntax => "syntax",
            Self::Undefined => "undefined",
            Self::Unsupported => "unsupported",
            Self::InvalidSchema => "invalid_schema",
            Self::Rejected => "rejected",
            Self::Limit => "limit",
            Self::Vocabulary => "vocabulary",
        }
    }
}

/// Where it went wrong.
///
/// ```
/// use toolgate_grammar::{Grammar, Place};
/// let error = Grammar::parse("root ::= \"a\"\nother ::= (\"b\"").unwrap_err();
/// assert_eq!(error.place(), Some(&Place::Line { line: 2, column: 11 }));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place {
    /// One-based line and column (in code points) of a GBNF text.
    Line {
        /// One-based line.
        line: usize,
        /// One-based column, in code points.
        column: usize,
    },
    /// JSON pointer into a schema; empty for its root.
    Pointer(String),
    /// Byte offset into a matched text.
    Offset(usize),
}

/// Why a grammar or schema could not be used.
///
/// Its message is lower-case, without a full stop, and names the place:
/// `unsupported keyword "not" at /properties/when`.
///
/// ```
/// use serde_json::json;
/// use toolgate_grammar::{Kind, Place, Schema};
/// let error = Schema::parse(&json!({"properties": {"path": {"type": "text"}}})).unwrap_err();
/// assert_eq!(error.kind(), Kind::InvalidSchema);
/// assert_eq!(error.place(), Some(&Place::Pointer("/properties/path/type".to_owned())));
/// assert_eq!(error.to_string(), "\"text\" is not a JSON type at /properties/path/type");
/// ```
#[derive(Clone, Debug)]
pub struct Error(Box<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    kind: Kind,
    message: String,
    place: Option<Place>,
    hint: Option<String>,
    excerpt: Option<String>,
}

impl Error {
    /// An error of `kind`; `message` says what is wrong, without the place.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner { kind, message: message.into(), place: None, hint: None, excerpt: None }))
    }

    /// Adds where it went wrong.
    #[must_use]
    pub fn at(mut self, place: Place) -> Self {
        self.0.place = Some(place);
        self
    }

    /// Adds what the user may do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Adds the source line and a caret, shown by [`report`](Self::report).
    ///
    /// ```
    /// use toolgate_grammar::{Error, Kind};
    /// let error = Error::new(Kind::Limit, "too long").excerpt("root ::= …\n^").hint("split the rule");
    /// assert_eq!(error.report(), "too long\nroot ::= …\n^\nhint: split the rule");
    /// ```
    #[must_use]
    pub fn excerpt(mut self, excerpt: impl Into<String>) -> Self {
        self.0.excerpt = Some(excerpt.into());
        self
    }

    /// What kind of error this is.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// Where it happened, if there is a place.
    pub fn place(&self) -> Option<&Place> {
        self.0.place.as_ref()
    }

    /// The whole report: message, excerpt with a caret, hint; several lines, no final newline.
    ///
    /// ```
    /// use toolgate_grammar::Grammar;
    /// let error = Grammar::parse("root ::= identifer\nidentifier ::= [a-z]+\n").unwrap_err();
    /// let expected = r#"undefined rule "identifer" at 1:10
    ///   |
    /// 1 | root ::= identifer
    ///   |          ^
    /// hint: did you mean "identifier"?"#;
    /// assert_eq!(error.report(), expected);
    /// ```
    pub fn report(&self) -> String {
        let mut out = self.to_string();
        for part in
            [&self.0.excerpt, &self.0.hint.as_ref().map(|h| format!("hint: {h}"))].into_iter().flatten()
        {
            out.push('\n');
            out.push_str(part);
        }
        out
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        match &self.0.place {
            None => Ok(()),
            Some(Place::Line { line, column }) => write!(f, " at {line}:{column}"),
            Some(Place::Pointer(pointer)) if pointer.is_empty() => f.write_str(" at the root"),
            Some(Place::Pointer(pointer)) => write!(f, " at {pointer}"),
            Some(Place::Offset(offset)) => write!(f, " at byte {offset}"),
        }
    }
}

impl std::error::Error for Error {}
