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

/// How a call is to be written again: as it is it would fail, or do something else than it seems to.
///
/// ```
/// use serde_json::json;
/// use toolgate_chat::{ToolCall, ToolSpec};
/// use toolgate_tools::{Args, Choices, Effect, Rewrite, Tool, ToolResult};
///
/// /// Books rooms. Another tool lists those that are free.
/// struct Book(ToolSpec, Vec<String>);
///
/// impl Tool for Book {
///     fn spec(&self) -> &ToolSpec {
///         &self.0
///     }
///
///     fn effect(&self) -> Effect {
///         Effect::Changes
///     }
///
///     fn rewrite(&self, args: &Args) -> Option<Rewrite> {
///         let room = args.str("room")?;
///         let free = Choices::Among { texts: self.1.clone(), beginnings: Vec::new() };
///         let list = ToolCall::new("free_rooms", Default::default());
///         let why = format!("no room \"{room}\" is free");
///         (!self.1.iter().any(|free| free == room)).then(|| Rewrite::new(Some(list), vec![("room", free)], why))
///     }
///
///     fn call(&self, _: &Args) -> ToolResult {
///         ToolResult::ok("booked")
///     }
/// }
/// # let schema = json!({"type": "object", "properties": {"room": {"type": "string"}}, "required": ["room"]});
/// # let free = |_: serde_json::Map<String, serde_json::Value>| Ok::<_, String>("blue");
/// # let mut tools = toolgate_tools::Registry::new();
/// # tools.add(Book(ToolSpec::new("book", "Book a room.", schema)?, vec!["blue".to_owned()]))?;
/// # tools.add(toolgate_tools::typed("free_rooms", "List the free rooms.", free)?.read_only())?;
/// # let call = |room: &str| ToolCall::new("book", serde_json::Map::from_iter([("room".to_owned(), json!(room))]));
///
/// let rewrite = tools.rewrite(&call("red")).ok_or("nothing is wrong with it")?;
/// assert_eq!(rewrite.look.map(|look| look.name).as_deref(), Some("free_rooms"));
/// assert!(tools.rewrite(&call("blue")).is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Rewrite {
    /// The call that shows what this one is about. It changes nothing.
    pub look: Option<toolgate_chat::ToolCall>,
    /// The values that are left to its text arguments.
    pub choices: Vec<(&'static str, crate::Choices)>,
    /// What is wrong with it.
    pub why: String,
}

impl Rewrite {
    /// A rewrite behind this look, with these values left, for this reason.
    pub fn new(
        look: Option<toolgate_chat::ToolCall>,
        choices: Vec<(&'static str, crate::Choices)>,
        why: impl Into<String>,
    ) -> Self {
        Self { look, choices, why: why.into() }
    }
}
