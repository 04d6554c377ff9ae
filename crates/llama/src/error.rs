//! The one error of this crate: a model file that cannot be used, or a context that cannot be made.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What went wrong, for code that wants to decide on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// There is no such file, or it cannot be read.
    NotFound,
    /// The file is no GGUF file.
    NotGguf,
    /// The file ends before its last tensor does.
    Truncated,
    /// A GGUF file llama.cpp cannot use.
    Invalid,
    /// The build is for a processor with more instructions than this one has.
    Processor,
    /// No context of that size could be made.
    Context,
    /// The memory of this machine does not suffice. Nothing was loaded.
    Memory,
    /// No such device, or not in this build.
    Device,
    /// A grammar llama.cpp refuses.
    Grammar,
    /// The caller cancelled.
    Cancelled,
}

/// Why a model cannot be used. Its message names the file and says what to do.
///
/// ```
/// use std::path::Path;
/// use toolgate_llama::{Kind, Model, ModelOptions};
///
/// let error = Model::load("no-such-model.gguf", ModelOptions::default()).unwrap_err();
/// assert_eq!(error.kind(), Kind::NotFound);
/// assert_eq!(error.path(), Some(Path::new("no-such-model.gguf")));
/// assert_eq!(error.to_string(), "no-such-model.gguf: no such model file");
/// ```
#[derive(Clone, Debug)]
pub struct Error(Box<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    kind: Kind,
    message: String,
    path: Option<PathBuf>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner { kind, message: message.into(), path: None, source: None }))
    }

    pub(crate) fn at(mut self, path: &Path) -> Self {
        self.0.path = Some(path.to_owned());
        self
    }

    pub(crate) fn because(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.0.source = Some(Arc::new(source));
        self
    }

    /// What kind of error this is.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// The model file, where there is one.
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.path {
            Some(path) => write!(f, "{}: {}", path.display(), self.0.message),
            None => f.write_str(&self.0.message),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|source| source.as_ref() as _)
    }
}
