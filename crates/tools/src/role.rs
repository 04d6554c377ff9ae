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
///
/// ```
/// use std::sync::Arc;
/// use toolgate_sandbox::Outline;
/// use toolgate_tools::{PathArgument, PathKind, Places, Role};
///
/// /// The pages of a wiki, which nobody changes.
/// struct Pages(Vec<String>);
///
/// impl Places for Pages {
///     fn readable(&self) -> Outline {
///         let mut outline = Outline::default();
///         outline.files = self.0.clone();
///         outline
///     }
///
///     fn writable(&self) -> Outline {
///         Outline::default()
///     }
///
///     fn can_write(&self) -> bool {
///         false
///     }
///
///     fn can_write_everywhere(&self) -> bool {
///         false
///     }
/// }
///
/// // The role of a tool that shows a page.
/// let pages = Arc::new(Pages(vec!["home".to_owned()]));
/// let role = Role::Paths(PathArgument::new("page", PathKind::Files, pages));
/// assert!(matches!(role, Role::Paths(path) if path.places.readable().files == ["home"]));
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct PathArgument {
    /// Its name.
    pub parameter: &'static str,
    /// Which paths it takes.
    pub takes: PathKind,
    /// Where they are. Tools over the same workspace share it.
    pub places: Arc<dyn Places>,
}

impl PathArgument {
    /// The argument `parameter`, which takes such paths of these places.
    pub fn new(parameter: &'static str, takes: PathKind, places: Arc<dyn Places>) -> Self {
        Self { parameter, takes, places }
    }
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
#[non_exhaustive]
pub struct Offer {
    /// Its definition.
    pub spec: toolgate_chat::ToolSpec,
    /// What the state at hand leaves of its arguments ([`Tool::choices`](crate::Tool::choices)).
    pub choices: Vec<(&'static str, crate::Choices)>,
    /// What it is for.
    pub role: Role,
}

impl Offer {
    /// An offer of a tool whose arguments are all left open, for the tests of the packages above.
    #[doc(hidden)]
    pub fn of(spec: toolgate_chat::ToolSpec, role: Role) -> Self {
        Self { spec, choices: Vec::new(), role }
    }
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
