//! What a tool tells of itself beside its definition: what it is for, and what there is that its arguments name. Hints weigh tools
//! by it; no tool reads a request.

use std::sync::Arc;

use toolgate_sandbox::Outline;

/// What a tool is for, as far as others may need to know.
///
/// ```
/// use toolgate_tools::{Role, Tool, typed};
/// # #[derive(serde::Deserialize, schemars::JsonSchema)]
/// # struct Note { text: String }
/// let note = typed("note", "Note it down.", |note: Note| Ok::<_, String>(note.text))?.with_role(Role::Keeps);
/// assert!(matches!(note.role(), Role::Keeps));
/// # Ok::<(), toolgate_tools::Error>(())
/// ```
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum Role {
    /// Nothing of the kinds below.
    #[default]
    Other,
    /// It takes a path of something that is there, or that is to be there.
    Paths(PathArgument),
    /// It runs command lines, which it takes as the argument of this name.
    Commands(&'static str),
    /// It keeps what the user tells for later.
    Keeps,
    /// It recalls what the user told earlier.
    Recalls,
    /// It lets the model think, and does nothing else.
    Thinks,
}

/// An argument that is a path.
#[derive(Clone)]
pub struct PathArgument {
    /// Its name.
    pub parameter: &'static str,
    /// Which paths it takes.
    pub takes: PathKind,
    /// Where they are. Tools over the same workspace share it.
    pub places: Arc<dyn Places>,
}

/// Which paths an argument takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PathKind {
    /// Files that are there.
    Files,
    /// Directories that are there.
    Directories,
    /// Either.
    Entries,
    /// Files that are there and may be changed.
    Editable,
    /// Files that may be written, be they there or not.
    Writable,
}

/// The files and directories that tools work on.
pub trait Places: Send + Sync {
    /// What may be read.
    fn readable(&self) -> Outline;

    /// What may be changed.
    fn writable(&self) -> Outline;

    /// Whether anything may be changed.
    fn can_write(&self) -> bool;

    /// Whether all of the workspace may be changed.
    fn can_write_everywhere(&self) -> bool;
}

/// A tool as it is offered for a turn.
#[derive(Clone)]
pub struct Offer {
    /// Its definition.
    pub spec: toolgate_chat::ToolSpec,
    /// What the state at hand leaves of its arguments ([`Tool::choices`](crate::Tool::choices)).
    pub choices: Vec<(&'static str, crate::Choices)>,
    /// What it is for.
    pub role: Role,
}

/// Why a call whose arguments fit its schema had better not be made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Objection {
    /// A text would be lost that is not in what takes its place.
    LosesText(String),
    /// What is replaced is the name of a value, and the old value would stay.
    NamesValue(String),
}

impl Objection {
    /// What the model is told.
    pub fn why(&self) -> &str {
        match self {
            Self::LosesText(why) | Self::NamesValue(why) => why,
        }
    }
}
