//! The format of agentic tasks: one JSON object a line.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};
use toolgate_sandbox::policy::Mode;

use super::repository::Repository;

/// A task: what lies in the workspace, what is asked, and what a passing run leaves behind.
///
/// ```
/// use toolgate_lab::Task;
///
/// let line = r#"{"id": "port", "category": "read", "mode": "intel", "files": {"app.toml": "port = 80\n"},
///     "tools": "builtin", "prompt": "Which port does app.toml set?", "max_iterations": 4,
///     "expect": {"calls_include": [{"name": "read_file", "args_subset": {"path": "app.toml"}}],
///                "final_contains_any": ["80"]}}"#;
/// let task: Task = serde_json::from_str(line)?;
/// assert_eq!(task.expect.final_contains_any, ["80"]);
/// // An expectation that nobody knows is a mistake.
/// assert!(serde_json::from_str::<Task>(&line.replace("final_contains_any", "contains")).is_err());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Deserialize)]
pub struct Task {
    /// Its name, unique in its file.
    pub id: String,
    /// The group it is counted in.
    pub category: String,
    /// Which built-in tools are offered.
    #[serde(with = "mode")]
    pub mode: Mode,
    /// The workspace before the run: path to text.
    pub files: BTreeMap<String, String>,
    /// A checkout whose copy is the workspace, beneath `files`. No line of a task file names one.
    #[serde(skip)]
    pub repository: Option<Repository>,
    /// `"builtin"`, or definitions of the only tools offered, each with its `result`.
    pub tools: Offered,
    /// The user's message.
    pub prompt: String,
    /// Turns at most.
    pub max_iterations: usize,
    /// What a passing run has.
    pub expect: Expect,
    /// Patterns that may not be found in the answer.
    #[serde(default)]
    pub forbid: Vec<String>,
    /// What is in the memory before the run.
    #[serde(default)]
    pub memory: Vec<Remembered>,
}

/// A memory a task begins with.
#[derive(Clone, Debug, Deserialize)]
pub struct Remembered {
    /// Its text.
    pub content: String,
    /// Words it is filed under.
    #[serde(default)]
    pub tags: Vec<String>,
}

/// The tools of a task.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Offered {
    /// A word: the built-in ones.
    Builtin(String),
    /// These alone.
    Custom(Vec<Value>),
}

/// What must hold; every key that is there.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Expect {
    /// Each must be matched by a call.
    pub calls_include: Vec<CallSpec>,
    /// No call at all.
    pub no_calls: bool,
    /// One of these must be in the answer.
    pub final_contains_any: Vec<String>,
    /// All of these must be in the answer.
    pub final_contains_all: Vec<String>,
    /// Files after the run.
    pub files_after: BTreeMap<String, FileAfter>,
}

/// What a call must be.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum CallSpec {
    /// One of these.
    AnyOf {
        /// The alternatives.
        any_of: Vec<CallSpec>,
    },
    /// This tool, with such arguments.
    One {
        /// The tool.
        name: String,
        /// Arguments with these values; others do no harm.
        #[serde(default)]
        args_subset: Map<String, Value>,
        /// Arguments in which these patterns are found.
        #[serde(default)]
        args_match: BTreeMap<String, String>,
    },
}

/// What a file must be after the run.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FileAfter {
    /// Texts it must contain: one, or a list.
    pub contains: Option<OneOrMany>,
    /// Its whole text, but for line ends and trailing blanks.
    pub equals: Option<String>,
    /// There must be no such file.
    pub absent: bool,
}

/// A text or a list of texts.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum OneOrMany {
    /// One.
    One(String),
    /// Several.
    Many(Vec<String>),
}

impl OneOrMany {
    /// The texts.
    ///
    /// ```
    /// use toolgate_lab::OneOrMany;
    /// let one: OneOrMany = serde_json::from_str("\"a\"")?;
    /// let many: OneOrMany = serde_json::from_str("[\"a\", \"b\"]")?;
    /// assert_eq!((one.as_slice().len(), many.as_slice().len()), (1, 2));
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn as_slice(&self) -> &[String] {
        match self {
            Self::One(text) => std::slice::from_ref(text),
            Self::Many(texts) => texts,
        }
    }
}

mod mode {
    //! The policy's mode by the word that tasks use.

    use serde::{Deserialize, Deserializer, de::Error};
    use toolgate_sandbox::policy::Mode;

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Mode, D::Error> {
        match String::deserialize(deserializer)?.as_str() {
            "intel" => Ok(Mode::Intel),
            "edit" => Ok(Mode::Edit),
            other => Err(D::Error::custom(format!("mode \"{other}\" is neither \"intel\" nor \"edit\""))),
        }
    }
}
