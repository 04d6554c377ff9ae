//! The error of this package: a kind, a message and its cause.

use std::fmt;

/// The kind of an error that the library cannot go on from. A mistake of a model or a tool is data and no error.
///
/// ```
/// use toolgate_tools::{Error, Kind};
/// use toolgate_chat::ToolName;
///
/// // Errors of the packages below become this one, with a kind of this package.
/// let error = ToolName::new("read file").map_err(Error::from);
/// assert_eq!(error.map_err(|error| error.kind()), Err(Kind::Input));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// Input that cannot be used: a tool definition, a schema, an option, a file.
    Input,
    /// A refusal of the policy or the sandbox.
    Denied,
}

/// An opaque error with a [`Kind`], a message and a cause.
///
/// ```
/// use toolgate_tools::{Error, Kind};
///
/// let error = Error::new(Kind::Denied, "the policy grants no commands").context("tool \"run_command\"");
/// assert_eq!(error.to_string(), "tool \"run_command\": the policy grants no commands");
/// assert_eq!(error.kind(), Kind::Denied);
/// ```
#[derive(Debug)]
pub struct Error {
    kind: Kind,
    message: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error of `kind`. The message is lower-case, and names the place and what to do.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), source: None }
    }

    /// Shorthand for [`Kind::Input`].
    pub fn input(message: impl Into<String>) -> Self {
        Self::new(Kind::Input, message)
    }

    /// Puts the place in front of the message.
    #[must_use]
    pub fn context(mut self, place: impl fmt::Display) -> Self {
        self.message = format!("{place}: {}", self.message);
        self
    }

    /// The kind of the error.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    fn caused(kind: Kind, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self { kind, message: source.to_string(), source: Some(Box::new(source)) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // Our message has the message of the cause already, so the source is the cause's own cause.
        self.source.as_deref().and_then(std::error::Error::source)
    }
}

impl From<toolgate_chat::Error> for Error {
    fn from(error: toolgate_chat::Error) -> Self {
        Self::caused(Kind::Input, error)
    }
}

impl From<toolgate_grammar::Error> for Error {
    fn from(error: toolgate_grammar::Error) -> Self {
        Self::caused(Kind::Input, error)
    }
}

/// An error of the database as an error of ours. Callers do not see the types of the database.
#[cfg(feature = "memory")]
pub(crate) fn sql(error: rusqlite::Error) -> Error {
    Error::caused(Kind::Input, error)
}

impl From<toolgate_sandbox::Error> for Error {
    fn from(error: toolgate_sandbox::Error) -> Self {
        let kind = match error.kind() {
            toolgate_sandbox::Kind::Denied | toolgate_sandbox::Kind::Unavailable => Kind::Denied,
            _ => Kind::Input,
        };
        Self::caused(kind, error)
    }
}
