//! The one error of the model store: what kind of thing went wrong, what was tried, and what to do about it.

use std::fmt;
use std::io;
use std::path::Path;

/// What went wrong, for code that wants to decide on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// A catalogue that cannot be read.
    Catalogue,
    /// A name that is no catalogue entry, no path and no address.
    Unknown,
    /// A path at which there is no file.
    NotFound,
    /// A known model that is not on this machine.
    NotPulled,
    /// A file that is no GGUF, or not the whole of it.
    Damaged,
    /// No source could be reached, or each one refused.
    Network,
    /// A fetched file that is not the file of record.
    Digest,
    /// The cache cannot be written: no space, no permission, a broken disk.
    Disk,
    /// The caller asked to stop.
    Cancelled,
}

/// Why a model could not be found or fetched.
///
/// The message is one line, lower-case and without a full stop; it ends with what to do:
/// `model "smollm2-135m" is not on this machine; run: toolgate model pull smollm2-135m`.
///
/// ```
/// use toolgate_engine::models::{Kind, Pull};
/// # use toolgate_engine::models::{Catalogue, Store};
/// # let directory = tempfile::tempdir()?;
/// # let catalogue = "[[model]]\nid = \"tiny\"\ndescription = \"a model\"\nfile = \"tiny.gguf\"\nbytes = 4\n\
/// #     hub = { repo = \"owner/name\", file = \"tiny.gguf\" }\n";
/// # let store = Store::new(directory.path(), Catalogue::parse(catalogue)?);
///
/// // Nobody listens there.
/// let mut options = Pull::default();
/// options.endpoint = Some("http://127.0.0.1:9");
/// let error = store.pull("tiny", &options).err().ok_or("it was fetched")?;
/// assert_eq!(error.kind(), Kind::Network);
/// assert!(error.tried()[0].starts_with("the hub (owner/name): "));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: Kind,
    message: String,
    attempts: Vec<String>,
    hint: Option<String>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            attempts: Vec::new(),
            hint: None,
            source: None,
        }))
    }

    /// An I/O failure at `path` while doing `what`; a full disk says so in its own words.
    pub(crate) fn disk(what: &str, path: &Path, error: io::Error) -> Self {
        let path = path.display();
        let result = if is_full(&error) {
            Self::new(
                Kind::Disk,
                format!("no space left on the disk of the model cache: cannot {what} {path}"),
            )
            .hint("free some space, or set TOOLGATE_CACHE to a directory on another disk")
        } else {
            Self::new(Kind::Disk, format!("cannot {what} {path}: {error}"))
                .hint("make it writable, or set TOOLGATE_CACHE to another directory")
        };
        result.caused_by(error)
    }

    #[cfg(feature = "pull")]
    pub(crate) fn cancelled(message: impl Into<String>) -> Self {
        Self::new(Kind::Cancelled, message)
    }

    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    #[cfg(feature = "pull")]
    #[must_use]
    pub(crate) fn attempts(mut self, attempts: Vec<String>) -> Self {
        self.0.attempts = attempts;
        self
    }

    #[must_use]
    pub(crate) fn caused_by(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.0.source = Some(Box::new(source));
        self
    }

    /// What kind of error this is.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// What was tried, one line for each source, in order.
    pub fn tried(&self) -> &[String] {
        &self.0.attempts
    }

    /// The message without what was tried and what to do.
    #[cfg(feature = "pull")]
    pub(crate) fn message(&self) -> &str {
        &self.0.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        for attempt in &self.0.attempts {
            write!(f, "; tried {attempt}")?;
        }
        match &self.0.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // The cause's own words are part of the message: only what lies behind it is news.
        self.0.source.as_deref().and_then(std::error::Error::source)
    }
}

/// Whether an I/O error means that the disk, or the user's share of it, is full.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
