//! The one error of this crate: what kind of thing went wrong, where, and what to do about it.
//!
//! A model's mistake is never one of these: it is a [`Defect`](crate::model::Defect) of a parsed turn.

use std::error::Error as StdError;
use std::fmt;

/// What went wrong, for code that wants to decide on it.
///
/// ```
/// use toolgate_chat::{Kind, ToolChoice, ToolFormat, TurnRequest, format::Family};
/// let request = TurnRequest { choice: ToolChoice::Required, ..TurnRequest::default() };
/// let error = Family::hermes().turn(&[], &request).unwrap_err();
/// assert_eq!(error.kind(), Kind::Request);
/// assert_eq!(error.to_string(), "a call is required, but there are no tools");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// A chat template that does not parse, or does not render a transcript.
    Template,
    /// A tool definition that is not one, or a name no tool can have.
    Definition,
    /// A tool whose parameters cannot be made into a grammar.
    Schema,
    /// A turn that cannot be: a choice of tools that are not there, or of none where a call is required.
    Request,
}

/// Where it went wrong.
///
/// ```
/// use toolgate_chat::{Place, Template, TemplateTokens};
/// let error = Template::new("Hello\n{% if %}", TemplateTokens::default()).unwrap_err();
/// assert_eq!(error.place(), Some(&Place::Line(2)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place {
    /// One-based line of a chat template.
    Line(usize),
    /// JSON pointer into a tool definition; empty for its root.
    Pointer(String),
    /// A tool, and a JSON pointer into its parameters.
    Tool {
        /// The tool's name.
        name: String,
        /// JSON pointer into its parameters; empty for their root.
        pointer: String,
    },
}

/// Why a template, a tool or a turn could not be used.
///
/// Its message is lower-case, without a full stop, and names the place:
/// `a tool definition needs a name at /function`.
///
/// ```
/// use serde_json::json;
/// use toolgate_chat::{Kind, Place, ToolSpec};
/// let error = ToolSpec::from_openai(&json!({"function": {"name": "read file"}})).unwrap_err();
/// assert_eq!(error.kind(), Kind::Definition);
/// assert_eq!(error.place(), Some(&Place::Pointer("/function/name".to_owned())));
/// ```
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: Kind,
    message: String,
    place: Option<Place>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error of `kind`; `message` says what is wrong, without the place.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner { kind, message: message.into(), place: None, source: None }))
    }

    /// Adds where it went wrong.
    #[must_use]
    pub fn at(mut self, place: Place) -> Self {
        self.0.place = Some(place);
        self
    }

    /// Adds the error underneath.
    #[must_use]
    pub fn because(mut self, source: impl StdError + Send + Sync + 'static) -> Self {
        self.0.source = Some(Box::new(source));
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
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        match &self.0.place {
            None => Ok(()),
            Some(Place::Line(line)) => write!(f, " at line {line} of the chat template"),
            Some(Place::Pointer(pointer)) => write!(f, " at {}", or_root(pointer)),
            Some(Place::Tool { name, .. }) => {
                write!(f, " in the parameters of tool \"{name}\"")
            }
        }
    }
}

fn or_root(pointer: &str) -> &str {
    if pointer.is_empty() { "the root" } else { pointer }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}
