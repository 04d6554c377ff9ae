//! The error of this crate: its kind, the path, and the way out.
//!
//! A model reads the messages. So names in them are escaped, and no message tells whether something outside
//! the workspace exists.

use std::{fmt, io};

use crate::command::Layer;
use crate::output;

/// The kind of an error, for code that decides by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// The path does not exist.
    NotFound,
    /// The path is not a directory, and the operation needs one.
    NotADirectory,
    /// The path exists already, and the operation does not replace it.
    Exists,
    /// The grants do not allow the operation, or the path is outside the workspace.
    Denied,
    /// A bound of [`FileLimits`](crate::FileLimits) was reached.
    Limit,
    /// The request is malformed: an empty path, a pattern that does not parse.
    Invalid,
    /// The request is well-formed, and the operation failed.
    Failed,
    /// The policy file cannot be used.
    Policy,
    /// A layer of the sandbox is missing or does not hold. So nothing was started.
    Unavailable,
}

/// The reason that a request was not performed.
///
/// The message is lower-case and has no full stop. It names the path and the way out:
/// `no such file: "src/mian.rs"; did you mean "src/main.rs"?`
///
/// ```
/// use toolgate_sandbox::{Error, Grants, Kind, ReadOptions, Root, ambient_authority};
/// let root = Root::open(".", ambient_authority())?;
/// let error = root.read_file(&Grants::read_only(), "../x", &ReadOptions::default()).unwrap_err();
/// assert_eq!(error.kind(), Kind::Denied);
/// assert!(error.to_string().starts_with("path is outside the workspace"));
/// // An error of a door of one's own.
/// let error = Error::new(Kind::Denied, "the file is locked").at("a.txt").hint("ask the user");
/// assert_eq!(error.to_string(), "the file is locked: \"a.txt\"; ask the user");
/// # Ok::<(), toolgate_sandbox::Error>(())
/// ```
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: Kind,
    message: String,
    place: Option<String>,
    line: Option<usize>,
    hint: Option<String>,
    source: Option<io::Error>,
    layer: Option<Layer>,
}

impl Error {
    /// An error of `kind`. The `message` names the fault and not the path.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            place: None,
            line: None,
            hint: None,
            source: None,
            layer: None,
        }))
    }

    /// Adds the path of the error. Control characters are escaped, and a long path is cut.
    #[must_use]
    pub fn at(mut self, path: &str) -> Self {
        self.0.place = Some(output::name(path));
        self
    }

    /// Adds the line of the policy file, counted from 1.
    ///
    /// ```
    /// use toolgate_sandbox::{Error, Kind};
    /// assert_eq!(Error::new(Kind::Policy, "unknown key").at_line(3).line(), Some(3));
    /// ```
    #[must_use]
    pub fn at_line(mut self, line: usize) -> Self {
        self.0.line = Some(line);
        self
    }

    /// Adds the way out, for the message.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Adds the operating system's error.
    #[must_use]
    pub fn because(mut self, source: io::Error) -> Self {
        self.0.source = Some(source);
        self
    }

    /// Adds the layer of the command sandbox that is missing.
    #[cfg(target_os = "linux")]
    pub(crate) fn of_layer(mut self, layer: Layer) -> Self {
        self.0.layer = Some(layer);
        self
    }

    /// The layer of the command sandbox that is missing, with [`Kind::Unavailable`].
    pub fn layer(&self) -> Option<Layer> {
        self.0.layer
    }

    /// The same error with another kind.
    pub(crate) fn into_kind(mut self, kind: Kind) -> Self {
        self.0.kind = kind;
        self
    }

    /// The error for every path outside the workspace. It is the same whether or not the path exists.
    pub(crate) fn outside(path: &str) -> Self {
        Self::new(Kind::Denied, "path is outside the workspace")
            .at(path)
            .hint("use a path inside it, such as \"src/main.rs\" or \".\"")
    }

    /// An error of the operating system about `path`, in words that a model can act on.
    pub(crate) fn io(path: &str, doing: &str, source: io::Error) -> Self {
        let (kind, why) = match source.kind() {
            io::ErrorKind::NotFound => (Kind::NotFound, "it is not there any more".to_owned()),
            io::ErrorKind::PermissionDenied => (Kind::Denied, "permission denied".to_owned()),
            io::ErrorKind::StorageFull => (Kind::Failed, "no space left on the device".to_owned()),
            io::ErrorKind::ReadOnlyFilesystem => (Kind::Denied, "the file system is read-only".to_owned()),
            io::ErrorKind::InvalidFilename => (Kind::Invalid, "the name is too long".to_owned()),
            io::ErrorKind::AlreadyExists => (Kind::Exists, "something is already there".to_owned()),
            io::ErrorKind::WouldBlock => (Kind::Failed, "it is not a regular file".to_owned()),
            _ => (Kind::Failed, output::name(&source.to_string())),
        };
        Self::new(kind, format!("cannot {doing}: {why}")).at(path).because(source)
    }

    /// The kind of the error.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// The fault, without the path and the way out.
    pub(crate) fn message(&self) -> &str {
        &self.0.message
    }

    /// The path of the error, escaped; `None` where the error has no path.
    pub fn place(&self) -> Option<&str> {
        self.0.place.as_deref()
    }

    /// The line of the policy file, counted from 1; `None` where the error has no line.
    pub fn line(&self) -> Option<usize> {
        self.0.line
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        if let Some(place) = &self.0.place {
            write!(f, ": \"{place}\"")?;
        }
        if let Some(line) = self.0.line {
            write!(f, " at line {line}")?;
        }
        if let Some(hint) = &self.0.hint {
            write!(f, "; {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|source| source as _)
    }
}
