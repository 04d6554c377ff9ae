//! What the state at hand leaves of a tool's parameters, so that a model cannot write what the tool would refuse.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use toolgate_chat::ToolSpec;

/// The keyword of a grammar's schema that says which texts a string may be.
pub const CHOICES: &str = "x-toolgate-choices";

/// What the state at hand leaves of a tool before a call of it is written.
///
/// ```
/// use toolgate_tools::{CHOICES, Choices, Narrowed, Registry, Said};
/// # use serde_json::json;
/// # use toolgate_tools::{Args, Effect, Tool, ToolResult};
/// # use toolgate_chat::ToolSpec;
/// # struct Book(ToolSpec, Vec<String>);
/// # impl Book { fn free(&self) -> Vec<String> { self.1.clone() } }
/// # impl Tool for Book {
/// #     fn spec(&self) -> &ToolSpec { &self.0 }
/// #     fn effect(&self) -> Effect { Effect::Changes }
/// #     fn call(&self, _: &Args) -> ToolResult { ToolResult::ok("booked") }
///
/// // Of a tool that books rooms: only one that is free can be written.
/// fn narrow(&self, _: &Said) -> Narrowed {
///     let rooms = Choices::Among { texts: self.free(), beginnings: Vec::new() };
///     Narrowed { parameters: vec![("room", rooms)], ..Narrowed::default() }
/// }
/// # }
/// # let schema = json!({"type": "object", "properties": {"room": {"type": "string"}}, "required": ["room"]});
/// # let mut tools = Registry::new();
/// # tools.add(Book(ToolSpec::new("book", "Book a room.", schema)?, vec!["blue".to_owned()]))?;
///
/// let spec = tools.narrowed(&Said::default()).specs.remove(0);
/// assert_eq!(spec.closed_parameters()["properties"]["room"][CHOICES]["texts"], json!(["blue"]));
/// # Ok::<(), toolgate_tools::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Narrowed {
    /// What its text parameters may be, by name; those not named may be anything.
    pub parameters: Vec<(&'static str, Choices)>,
    /// How the tool goes with what the user named.
    pub fit: Fit,
    /// The directories that the user named, as they were written.
    pub directories: BTreeSet<String>,
    /// The one file, of those that are there, to which what was found leads.
    pub lead: Option<String>,
}

/// What the state at hand leaves of all tools before a turn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Offered {
    /// The definitions, with the parameters held to what is left of them.
    pub specs: Vec<ToolSpec>,
    /// How each of them goes with what the user named.
    pub fits: Vec<Fit>,
    /// The directories that the user named, as they were written.
    pub directories: BTreeSet<String>,
    /// The one file, of those that are there, to which what was found leads.
    pub lead: Option<String>,
}

/// How a tool goes with the things a user named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Fit {
    /// The tool does not know things by name.
    #[default]
    Unknown,
    /// Nothing was named that is its kind.
    Unnamed,
    /// Something was named that it takes.
    Suits,
    /// What was named is another kind.
    Clashes,
}

impl Fit {
    /// 1 for a tool that takes what was named, -1 for one that does not, 0 where nothing is told.
    pub fn sign(self) -> f64 {
        match self {
            Self::Suits => 1.0,
            Self::Unknown | Self::Unnamed => 0.0,
            Self::Clashes => -1.0,
        }
    }
}

/// The texts that a parameter may be.
///
/// ```
/// use serde_json::json;
/// use toolgate_tools::{CHOICES, Choices};
///
/// let paths = Choices::Among { texts: vec!["a.txt".into()], beginnings: vec!["docs/".into()] };
/// let keywords = paths.keywords().unwrap_or_default();
/// assert_eq!(keywords[CHOICES], json!({"texts": ["a.txt"], "beginnings": ["docs/"]}));
/// // Where everything is left there is nothing to hold.
/// assert_eq!(Choices::Among { texts: Vec::new(), beginnings: vec![String::new()] }.keywords(), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choices {
    /// These, and whatever goes on from one of these beginnings.
    Among {
        /// Whole texts.
        texts: Vec<String>,
        /// What others begin with; an empty one admits everything.
        beginnings: Vec<String>,
    },
    /// The pieces that occur exactly once in this text.
    OnceIn(String),
}

impl Choices {
    /// The keywords that hold a grammar to them ([`ToolSpec::with_grammar`]); none where nothing or everything is left.
    pub fn keywords(&self) -> Option<Value> {
        let choices = match self {
            Self::Among { texts, beginnings } if texts.is_empty() && beginnings.is_empty() => return None,
            Self::Among { beginnings, .. } if beginnings.iter().any(String::is_empty) => return None,
            Self::Among { texts, beginnings } => json!({"texts": texts, "beginnings": beginnings}),
            Self::OnceIn(text) if text.is_empty() => return None,
            Self::OnceIn(text) => json!({"once_in": text}),
        };
        Some(json!({CHOICES: choices}))
    }
}

/// The definition with these parameters held to these choices.
pub(super) fn narrowed(spec: &ToolSpec, parameters: &[(&'static str, Choices)]) -> ToolSpec {
    let mut spec = spec.clone();
    for (parameter, choices) in parameters {
        if let Some(keywords) = choices.keywords() {
            spec = spec.with_grammar(parameter, keywords);
        }
    }
    spec
}

/// A text argument.
pub(super) fn text<'a>(arguments: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    arguments.get(name).and_then(Value::as_str)
}
