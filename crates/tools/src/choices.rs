//! Limits the parameters of a tool to the values that the present state leaves. So a model cannot write a
//! value that the tool would refuse.

use serde_json::{Value, json};
use toolgate_chat::ToolSpec;

/// The schema keyword for the texts that a string may be.
pub const CHOICES: &str = "x-toolgate-choices";

/// Characters of a text at most whose pieces are told: a grammar has a state for each, or two.
const MOST_PIECED: usize = 16_384;

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
/// let piece = Choices::OnceIn("port = 80\n".into());
/// assert_eq!(piece.keywords().unwrap_or_default()[CHOICES], json!({"once_in": "port = 80\n"}));
/// assert_eq!(Choices::OnceIn("x".repeat(20_000)).keywords(), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Choices {
    /// These texts, and every text that continues one of these beginnings.
    Among {
        /// Whole texts.
        texts: Vec<String>,
        /// The beginnings of other texts. An empty one admits every text.
        beginnings: Vec<String>,
    },
    /// The pieces that occur exactly once in this text. One of more than 16,384 characters leaves every text.
    OnceIn(String),
}

impl Choices {
    /// The keywords that hold a grammar to the choices ([`ToolSpec::with_grammar`]). `None` if they leave no
    /// text or every text.
    pub fn keywords(&self) -> Option<Value> {
        let choices = match self {
            Self::Among { texts, beginnings } if texts.is_empty() && beginnings.is_empty() => return None,
            Self::Among { beginnings, .. } if beginnings.iter().any(String::is_empty) => return None,
            Self::Among { texts, beginnings } => json!({"texts": texts, "beginnings": beginnings}),
            Self::OnceIn(text) if text.is_empty() || text.chars().nth(MOST_PIECED).is_some() => return None,
            Self::OnceIn(text) => json!({"once_in": text}),
        };
        Some(json!({CHOICES: choices}))
    }
}

/// The definition, with these parameters held to these choices.
///
/// ```
/// use serde_json::json;
/// use toolgate_chat::ToolSpec;
/// use toolgate_tools::{CHOICES, Choices, held_to};
///
/// let schema = json!({"type": "object", "properties": {"room": {"type": "string"}}, "required": ["room"]});
/// let book = ToolSpec::new("book", "Book a room.", schema)?;
/// let free = Choices::Among { texts: vec!["blue".to_owned()], beginnings: Vec::new() };
/// let book = held_to(book, &[("room", free)]);
/// assert_eq!(book.closed_parameters()["properties"]["room"][CHOICES]["texts"], json!(["blue"]));
/// # Ok::<(), toolgate_chat::Error>(())
/// ```
pub fn held_to(mut spec: ToolSpec, parameters: &[(&'static str, Choices)]) -> ToolSpec {
    for (parameter, choices) in parameters {
        if let Some(keywords) = choices.keywords() {
            spec = spec.with_grammar(parameter, keywords);
        }
    }
    spec
}
