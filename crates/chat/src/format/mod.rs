//! The forms tool calls take, each family as data: how calls are written, which grammar a turn has, how a turn is read.
//!
//! Two laws tie the directions together and are property-tested for every family: the turn grammar accepts
//! `render_calls(calls)`, and `parse(render_calls(calls))` gives the calls back.

mod compile;
mod derive;
mod dialects;
mod families;
mod family;
mod follow;
mod free;
mod instructions;
mod learn;
mod messages;
mod nested;
mod parts;
mod python;
mod reader;
mod stream;
mod syntax;
mod tokens;
mod turn;
mod writer;
mod written;

use std::num::NonZeroUsize;
use std::sync::Arc;

use toolgate_grammar::marks::{Mark, MarkTokens};
use toolgate_grammar::{Contract, Grammar};

use crate::error::Error;
use crate::model::{ParsedTurn, ToolCall, ToolChoice, ToolName};
use crate::spec::ToolSpec;

pub use derive::{Derived, derive};
pub(crate) use derive::{REASONING, tags_around};
pub use family::Family;
pub(crate) use learn::{definition, probes};
pub use stream::{Start, TurnStream};
pub use tokens::TokenStream;

/// One family's way to write, constrain and read tool calls.
///
/// ```
/// use serde_json::json;
/// use toolgate_chat::{ToolCall, ToolFormat, ToolSpec, TurnRequest, format::Family};
/// use toolgate_grammar::Limits;
/// let tools = [ToolSpec::new("now", "What time it is", json!({}))?];
/// let format: &dyn ToolFormat = &Family::hermes();
/// let text = format.render_calls(&[ToolCall::new("now", Default::default())], &tools);
/// let grammar = format.turn(&tools, &TurnRequest::default())?.call.ok_or("there are tools")?;
/// assert!(grammar.match_text(&text, &Limits::default())?.matched);
/// assert_eq!(format.parse(&text, &tools).calls.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait ToolFormat: Send + Sync + std::fmt::Debug {
    /// The family's name: `hermes`, `generic`, ….
    fn name(&self) -> &str;

    /// Tells a model which tools there are and how to call them, for a template that does not do it itself.
    fn instructions(&self, tools: &[ToolSpec]) -> String;

    /// The calls as the model would write them, in the canonical form the call grammar accepts.
    /// Arguments are written in the order given; [`ToolSpec::arrange`] puts them in the grammar's. `tools` tell which
    /// values are bare text, in families that write some so.
    fn render_calls(&self, calls: &[ToolCall], tools: &[ToolSpec]) -> String {
        self.write_calls(calls, tools).text()
    }

    /// The same with its marks as tokens, where the format was [resolved](Self::resolved). What a value holds is text,
    /// whatever it looks like.
    fn write_calls(&self, calls: &[ToolCall], tools: &[ToolSpec]) -> Mark;

    /// The same format with its marks as tokens of a vocabulary: for grammars, openings and readers of tokens. A format that
    /// is not resolved has its marks as text.
    fn resolved(&self, tokens: &MarkTokens) -> Arc<dyn ToolFormat>;

    /// A text of this format, such as an opening or a head, as tokens and text.
    fn mark(&self, text: &str) -> Mark;

    /// What stands around reasoning, where the format has it.
    fn thoughts(&self) -> Option<(Mark, Mark)>;

    /// What may stand behind a value that is written as bare text: all that ends one.
    fn value_ends(&self) -> Vec<Mark>;

    /// Every text that the format itself writes and that may be a token, or hold some.
    fn texts(&self) -> Vec<String>;

    /// Those of them that it writes for calls.
    fn call_texts(&self) -> Vec<String>;

    /// The grammars of a turn.
    ///
    /// # Errors
    /// [`Kind::Schema`](crate::Kind::Schema) naming the tool and the place in its parameters;
    /// [`Kind::Request`](crate::Kind::Request) for a choice that leaves nothing to say.
    fn turn(&self, tools: &[ToolSpec], request: &TurnRequest) -> Result<TurnGrammar, Error>;

    /// What an answer begins with in front of its text, where the prompt for a turn does not write it: the header of a channel, ….
    fn answer_head(&self) -> &str;

    /// The grammar of a text without the marks of calls. One of `openings` may end it: what a model begins ends its text, where it
    /// cannot be looked at while it writes.
    ///
    /// # Errors
    /// None that a family known here has: the grammar is built of texts alone.
    fn text(&self, place: TextPlace, openings: &[String]) -> Result<Grammar, Error>;

    /// Reads a turn that arrives in pieces; `start` says whether the prompt opened the reasoning.
    fn stream(&self, tools: &[ToolSpec], start: Start) -> TurnStream;

    /// Reads a turn that arrives in tokens, for a format that was [resolved](Self::resolved): a mark that is a token there is
    /// none where it is spelled.
    fn token_stream(&self, tools: &[ToolSpec], start: Start) -> TokenStream;

    /// Reads a turn; `tools` tell the types of values that the family writes as bare text. Never fails: what is wrong
    /// with the text is listed in the turn's defects.
    fn parse(&self, text: &str, tools: &[ToolSpec]) -> ParsedTurn;

    /// Texts with which a call may open, in this family and in every other dialect models are known to fall into.
    /// Used to decide between call and answer from the model's own probabilities.
    fn openings(&self) -> Vec<&str>;

    /// Texts with which a call opens behind text of the same turn: the family's own mark. None where its calls open as text may.
    fn openings_in_text(&self) -> Vec<String>;

    /// What may stand in front of text that is shown, where the prompt for a turn does not write it: headers of channels, ….
    fn text_heads(&self) -> Vec<&str>;

    /// What ends a text behind which the turn goes on: the end of a message and the beginning of the next one, …. Mostly nothing.
    fn text_end(&self) -> &str;

    /// Texts that are markup in this family and so must not be taken as such in a message's content.
    fn markers(&self) -> Vec<&str>;
}

/// What a turn may be.
///
/// ```
/// use std::num::NonZeroUsize;
/// use serde_json::json;
/// use toolgate_chat::{ToolChoice, ToolFormat, ToolSpec, TurnRequest, format::Family};
/// let tools = [ToolSpec::new("now", "What time it is", json!({}))?];
/// let request = TurnRequest { choice: ToolChoice::Required, parallel: NonZeroUsize::new(1), first: None };
/// let turn = Family::hermes().turn(&tools, &request)?;
/// assert!(turn.call.is_some() && turn.answer.is_none());
/// # Ok::<(), toolgate_chat::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TurnRequest {
    /// Which tools may or must be called.
    pub choice: ToolChoice,
    /// The most calls of one turn; `None` is without bound.
    pub parallel: Option<NonZeroUsize>,
    /// The tool that the first call is of, among those that may be called; `None` leaves it open.
    pub first: Option<ToolName>,
}

/// Where in its turn a text is written.
///
/// ```
/// use toolgate_chat::{TextPlace, ToolFormat, format::Family};
/// use toolgate_grammar::Limits;
/// let family = Family::hermes();
/// let takes = |place, text| -> Result<bool, Box<dyn std::error::Error>> {
///     Ok(family.text(place, &family.openings_in_text())?.match_text(text, &Limits::default())?.matched)
/// };
/// assert!(takes(TextPlace::First, "I look.<tool_call>")?, "one opening may end it");
/// assert!(!takes(TextPlace::First, "")? && takes(TextPlace::Further, "")?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TextPlace {
    /// At its beginning: the text has the family's head of answers in front, and is not empty.
    #[default]
    First,
    /// Behind a head or another text: it goes on, or ends at once.
    Further,
}

/// The grammars of a turn: its two halves apart, so that call or answer can be decided before either constrains.
///
/// ```
/// use serde_json::json;
/// use toolgate_chat::{ToolFormat, ToolSpec, TurnRequest, format::Family};
/// use toolgate_grammar::Limits;
/// let tools = [ToolSpec::new("now", "What time it is", json!({}))?];
/// let turn = Family::hermes().turn(&tools, &TurnRequest::default())?;
/// let answer = turn.answer.ok_or("an answer is allowed")?;
/// assert!(answer.match_text("It is noon.", &Limits::default())?.matched);
/// assert!(!answer.match_text("<tool_call>", &Limits::default())?.matched);
/// assert_eq!(turn.contracts.first().map(|(name, _)| name.as_str()), Some("now"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TurnGrammar {
    /// One or more calls in canonical form; `None` if the request excludes calls, or there are no tools.
    pub call: Option<Grammar>,
    /// Text that holds no call marker and is not blank; `None` if the request demands a call.
    pub answer: Option<Grammar>,
    /// Reasoning, for families that have it; it comes before either half, or is left out.
    pub reasoning: Option<Reasoning>,
    /// What became of every keyword of the tools that may be called.
    pub contracts: Vec<(ToolName, Contract)>,
}

/// Reasoning before a turn's calls or answer: its marks and its grammars. Call or answer is decided where it ends.
///
/// Where the prompt opened it, the model's text begins inside, and [`Start::Reasoning`] tells the reader so. A model that
/// thinks for too long is stopped by writing `close` for it.
///
/// ```
/// use toolgate_chat::{ToolFormat, TurnRequest, format::Family};
/// use toolgate_grammar::Limits;
/// let turn = Family::hermes().turn(&[], &TurnRequest::default())?;
/// let reasoning = turn.reasoning.ok_or("the family has reasoning")?;
/// assert_eq!(reasoning.close.text(), "</think>");
/// let text = format!("{}Hm.{}", reasoning.open.text(), reasoning.close.text());
/// assert!(reasoning.whole.match_text(&text, &Limits::default())?.matched);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Reasoning {
    /// What opens it: the third thing a turn can begin with.
    pub open: Mark,
    /// What ends it.
    pub close: Mark,
    /// From its opening mark to its closing one.
    pub whole: Grammar,
    /// From inside it to its closing mark.
    pub inside: Grammar,
}
