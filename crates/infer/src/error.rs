//! The one error of this crate: we cannot go on. What a model does wrong is data, never one of these.

use std::fmt;
use std::sync::Arc;

/// What went wrong, for code that wants to decide on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// The prompt and what must stay free after it exceed the context.
    Overflow,
    /// The backend could not evaluate, tokenize or return logits.
    Backend,
    /// The constraint failed: no token is allowed, or it refused what it had offered.
    Constraint,
    /// Options that contradict themselves or are out of range.
    Options,
    /// The caller cancelled.
    Cancelled,
}

/// The numbers of a [`Kind::Overflow`], in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overflow {
    /// Length of the prompt.
    pub prompt: usize,
    /// What must stay free for the answer.
    pub reserve: usize,
    /// Length of the context.
    pub context: usize,
}

/// Why inference cannot go on.
///
/// ```
/// use std::sync::Arc;
/// use toolgate_infer::{Kind, Session, Vocabulary, scripted::Scripted};
///
/// let mut session = Session::new(Scripted::new(Arc::new(Vocabulary::bytes_only())).context(4));
/// let error = session.set_prompt_text("too long").unwrap_err();
/// assert_eq!(error.kind(), Kind::Overflow);
/// assert_eq!(error.overflow().map(|tokens| (tokens.prompt, tokens.context)), Some((8, 4)));
/// ```
#[derive(Clone, Debug)]
pub struct Error(Box<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    kind: Kind,
    message: String,
    overflow: Option<Overflow>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error of `kind`; `message` is lower-case, says what is wrong and what to do.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner { kind, message: message.into(), overflow: None, source: None }))
    }

    /// A prompt that does not fit.
    pub(crate) fn overflow_of(overflow: Overflow) -> Self {
        let Overflow { prompt, reserve, context } = overflow;
        let most = context.saturating_sub(reserve);
        // The first words are those by which clients of servers know to shorten a conversation.
        let message = format!(
            "prompt is too long: {prompt} tokens > {most} maximum (a context of {context} tokens, {reserve} of them kept free for \
             the answer): shorten the prompt or load the model with a longer context"
        );
        let mut error = Self::new(Kind::Overflow, message);
        error.0.overflow = Some(overflow);
        error
    }

    /// Adds what caused it.
    ///
    /// ```
    /// use std::error::Error as _;
    /// use toolgate_infer::{Error, Kind};
    ///
    /// let cause = std::io::Error::other("timed out");
    /// let error = Error::new(Kind::Backend, "the model cannot be reached").because(cause);
    /// assert_eq!(error.to_string(), "the model cannot be reached");
    /// assert_eq!(error.source().map(ToString::to_string), Some("timed out".to_owned()));
    /// ```
    #[must_use]
    pub fn because(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.0.source = Some(Arc::new(source));
        self
    }

    /// What kind of error this is.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// The numbers of a [`Kind::Overflow`].
    pub fn overflow(&self) -> Option<Overflow> {
        self.0.overflow
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|source| source.as_ref() as _)
    }
}

impl From<toolgate_grammar::Error> for Error {
    fn from(error: toolgate_grammar::Error) -> Self {
        Self::new(Kind::Constraint, format!("grammar failed: {error}")).because(error)
    }
}
