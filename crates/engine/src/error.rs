//! Why an engine cannot go on: a kind, a message and its cause.

use std::fmt;

/// Why the library cannot go on. What a model or a tool does wrong is data, not this.
///
/// ```
/// use toolgate_engine::{Error, Kind};
/// use toolgate_chat::ToolName;
///
/// // Errors of the packages below become this one, each with the kind it is here.
/// let error = ToolName::new("read file").map_err(Error::from);
/// assert_eq!(error.map_err(|error| error.kind()), Err(Kind::Input));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// Input that cannot be used: a schema, an option, a file.
    Input,
    /// No such model, or one that cannot be loaded or run.
    Engine,
    /// The prompt does not fit the model's context.
    Overflow,
    /// The caller cancelled.
    Cancelled,
}

/// An opaque error with a [`Kind`], a message and a cause.
///
/// ```
/// use toolgate_engine::{Error, Kind};
///
/// let error = Error::new(Kind::Engine, "the file is cut short").context("model \"tiny\"");
/// assert_eq!(error.to_string(), "model \"tiny\": the file is cut short");
/// assert_eq!(error.kind(), Kind::Engine);
/// ```
#[derive(Debug)]
pub struct Error {
    kind: Kind,
    message: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error of `kind`; the message is lower-case and says where and what to do.
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

    /// What kind of error this is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The numbers of a prompt that does not fit, where inference said so.
    pub fn overflow(&self) -> Option<toolgate_infer::Overflow> {
        self.source.as_ref()?.downcast_ref::<toolgate_infer::Error>()?.overflow()
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
        // The message of the cause is already in ours: show what caused the cause.
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

impl From<toolgate_infer::Error> for Error {
    fn from(error: toolgate_infer::Error) -> Self {
        let kind = match error.kind() {
            toolgate_infer::Kind::Overflow => Kind::Overflow,
            toolgate_infer::Kind::Cancelled => Kind::Cancelled,
            _ => Kind::Engine,
        };
        Self::caused(kind, error)
    }
}

#[cfg(feature = "llama")]
impl From<toolgate_llama::Error> for Error {
    fn from(error: toolgate_llama::Error) -> Self {
        Self::caused(Kind::Engine, error)
    }
}

impl From<crate::models::Kind> for Kind {
    fn from(kind: crate::models::Kind) -> Self {
        match kind {
            crate::models::Kind::Unknown => Self::Input,
            crate::models::Kind::Cancelled => Self::Cancelled,
            _ => Self::Engine,
        }
    }
}

impl From<crate::models::Error> for Error {
    fn from(error: crate::models::Error) -> Self {
        Self::caused(error.kind().into(), error)
    }
}
