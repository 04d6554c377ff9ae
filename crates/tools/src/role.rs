//! The role of a tool, and the files and directories that its arguments name. Hints weigh tools by it. No
//! tool reads a request.

use std::sync::Arc;

use toolgate_sandbox::Outline;

/// The role of a tool, for hints.
///
/// ```
/// use toolgate_tools::{Role, Tool, typed};
/// # #[derive(serde::Deserialize, schemars::JsonSchema)]
/// # struct Thought { text: String }
/// let think = typed("ponder", "Think it over.", |_: Thought| Ok::<_, String>("".to_owned()))?.with_role(Role::Thinks);
/// assert!(matches!(think.role(), Role::Thinks));
/// # Ok::<(), toolgate_tools::Error>(())
/// ```
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum Role {
    /// No role of this list.
    #[default]
    Other,
    /// It takes a path of an existing file or directory, or of a new one.
    Paths(PathArgument),
    /// It runs command lines. The argument of this name holds the line.
    Commands(&'static str),
    /// It lets the model think, and has no other effect.
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
    /// The kind of its paths.
    pub takes: PathKind,
    /// The files and directories. Tools over the same workspace share them.
    pub places: Arc<dyn Places>,
}

impl PathArgument {
    /// The argument `parameter`, which takes such paths of these places.
    pub fn new(parameter: &'static str, takes: PathKind, places: Arc<dyn Places>) -> Self {
        Self { parameter, takes, places }
    }
}

/// The kind of paths that an argument takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PathKind {
    /// Existing files.
    Files,
    /// Existing directories.
    Directories,
    /// Existing files and directories.
    Entries,
    /// Existing files that may be changed.
    Editable,
    /// Files that may be written, existing or new.
    Writable,
}

/// The files and directories that tools work on.
pub trait Places: Send + Sync {
    /// The readable files and directories.
    fn readable(&self) -> Outline;

    /// The writable files and directories.
    fn writable(&self) -> Outline;

    /// Whether every file of the workspace may be changed.
    fn can_write_everywhere(&self) -> bool;
}

/// A tool in the offer of a turn.
#[derive(Clone)]
#[non_exhaustive]
pub struct Offer {
    /// Its definition.
    pub spec: toolgate_chat::ToolSpec,
    /// The values that the present state leaves to its arguments ([`Tool::choices`](crate::Tool::choices)).
    pub choices: Vec<(&'static str, crate::Choices)>,
    /// Its role.
    pub role: Role,
}

impl Offer {
    /// An offer of a tool whose arguments are all left open, for the tests of the packages above.
    #[doc(hidden)]
    pub fn of(spec: toolgate_chat::ToolSpec, role: Role) -> Self {
        Self { spec, choices: Vec::new(), role }
    }
}

/// The reason against a call whose arguments fit the schema.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Objection {
    /// The call would lose a text: the new content does not have it.
    LosesText(String),
    /// The call would replace the name of a value, and the old value would stay.
    NamesValue(String),
}

impl Objection {
    /// The text for the model.
    pub fn why(&self) -> &str {
        match self {
            Self::LosesText(why) | Self::NamesValue(why) => why,
        }
    }
}
