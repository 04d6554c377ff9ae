//! The record of a run, a JSON object a line, and its replay: without the model, to check the loop and the tools, or
//! with it, to see where it first says something else.
//!
//! Invariant: a line is in the file when its step has happened, so that the record of a run that died tells how far it
//! came; a replay stops at the first difference and names it.

mod checks;
mod record;
mod replay;
mod watch;

pub use checks::Found;
pub use record::{Recorded, Recorder};
pub use replay::{Outcome, Replay};
pub use toolgate_engine::protocol::{End, Stop};
pub use watch::Difference;

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toolgate_chat::{Message, ToolCall, ToolChoice, ToolName, ToolSpec};
use toolgate_infer::{Source, Stats, TokenId, TurnDecision};

use crate::{ContextPolicy, Error};
use toolgate_engine::{Facts, Sampling};
use toolgate_tools::{Effect, Status};

/// The version of the format that this program writes.
pub const VERSION: u32 = 1;

/// A line of a record.
///
/// ```
/// use toolgate_agent::trace::Line;
///
/// let line = r#"{"record": "tool", "id": "1", "name": "add", "arguments": {"a": 1, "b": 2},
///     "status": "ok", "content": "3", "enforced": null, "ms": 4}"#;
/// let line: Line = serde_json::from_str(line)?;
/// assert!(matches!(line, Line::Tool(tool) if tool.name == "add" && tool.content == "3"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Line {
    /// First: what the run was made with.
    Header(Box<Header>),
    /// A turn of the model.
    Turn(Box<Turn>),
    /// A call that was answered.
    Tool(Tool),
    /// Last: what came of it.
    Final(Final),
}

fn all_hints() -> String {
    "auto".to_owned()
}

/// What a run was made with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Header {
    /// The version of the format.
    pub version: u32,
    /// The program's own version.
    pub program: String,
    /// The model.
    pub model: Model,
    /// What the engine's turns depended on.
    pub engine: Facts,
    /// The options the engine was loaded with, for whoever loads it again.
    pub load: Value,
    /// How tokens were drawn.
    pub sampling: Sampling,
    /// Whether the first turn had to call: auto, none, required, or names of tools with commas between.
    pub choice: String,
    /// Calls a turn at most.
    pub parallel: Option<usize>,
    /// Turns at most.
    pub max_iterations: usize,
    /// Tokens after which the next turn had to be the answer.
    pub budget_tokens: Option<usize>,
    /// Whether calls were held to what was there, such as paths to files of the workspace.
    #[serde(alias = "narrow")]
    pub constrain_arguments: bool,
    /// Which hints were on; records of earlier versions had all of them.
    #[serde(default = "all_hints")]
    pub hints: String,
    /// Seconds after which the next turn had to be the answer. A replay has no such bound: a run that met it differs
    /// there.
    pub budget_seconds: Option<f64>,
    /// What became of a conversation that was longer than the context.
    #[serde(default)]
    pub context_policy: ContextPolicy,
    /// The tools that were offered, in order.
    pub tools: Vec<OfferedTool>,
    /// The conversation the run began with.
    pub messages: Vec<Message>,
}

/// Which model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Model {
    /// Its name.
    pub name: String,
    /// The SHA-256 of its file, in hexadecimal; none for an engine without a file.
    pub sha256: Option<String>,
}

toolgate_chat::setters! { Model {
    name: String,
    sha256: Option<String>,
} }

/// A tool of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OfferedTool {
    /// Its definition, in OpenAI form.
    pub definition: Value,
    /// Whether it may change something.
    pub writes: bool,
}

/// A turn of the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Turn {
    /// Which, counted from 1.
    pub turn: usize,
    /// A digest of each message of the conversation it went on from.
    pub messages: Vec<String>,
    /// Whether it had to call, as in [`Header::choice`].
    pub choice: String,
    /// Whether it had to be the run's last.
    pub closing: bool,
    /// Calls it could not consist of, each as name and arguments.
    #[serde(alias = "settled")]
    pub completed: Vec<(String, Map<String, Value>)>,
    /// What spoke for each tool beside the model; what records of earlier versions do not have.
    #[serde(default, alias = "fits", skip_serializing_if = "Vec::is_empty")]
    pub prior: Vec<f64>,
    /// Whether something that the request names was left to be done.
    #[serde(default)]
    pub pending: bool,
    /// The tools as they were offered in this turn, in OpenAI form, where their arguments were held to what was there.
    #[serde(default, alias = "narrowed", skip_serializing_if = "Vec::is_empty")]
    pub constrained: Vec<Value>,
    /// What was found wrong with finished calls while the turn was made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<Found>,
    /// The prompts that were evaluated, each as tokens.
    pub prompts: Vec<Vec<TokenId>>,
    /// How it was decided between call and answer, where that was open.
    pub decision: Option<TurnDecision>,
    /// The texts that were decoded, in order; each further one is a value, or a turn, written again.
    pub texts: Vec<Text>,
    /// What came of it.
    pub end: End,
}

/// Tokens that were decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Text {
    /// SHA-256 of the grammar that held them, in hexadecimal.
    pub grammar: Option<String>,
    /// The tokens.
    pub tokens: Vec<TokenId>,
    /// A letter for each: `s` sampled, `f` forced, `d` drafted.
    pub sources: String,
}

/// A call that was answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Tool {
    /// The call's id.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its arguments.
    pub arguments: Map<String, Value>,
    /// How it ended.
    pub status: Status,
    /// What the model saw.
    pub content: String,
    /// What confined it.
    pub enforced: Value,
    /// Milliseconds it took.
    pub ms: u64,
    /// What it found, as data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<Value>,
    /// Lines at the end of the content that are the tool's own remarks.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub notes: usize,
}

fn is_zero(n: &usize) -> bool {
    *n == 0
}

impl Tool {
    /// Whether the user did not allow it.
    fn is_refused(&self) -> bool {
        self.status == Status::Denied && self.content.starts_with("the user did not allow this ")
    }
}

/// What came of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Final {
    /// The answer.
    pub answer: String,
    /// Why it ended, as in `run --json`.
    pub stop_reason: String,
    /// How many turns it had.
    pub iterations: usize,
    /// What it cost.
    pub stats: Stats,
}

/// A whole record.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Record {
    /// What the run was made with.
    pub header: Header,
    /// Its turns.
    pub turns: Vec<Turn>,
    /// Its calls.
    pub tools: Vec<Tool>,
    /// What came of it; none where the record ends before.
    pub end: Option<Final>,
}

impl Record {
    /// Reads a record. A last line that was not written whole is left out: the run died there.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::Kind::Input) for a file that cannot be read or is no record, with its line.
    ///
    /// ```
    /// use toolgate_agent::trace::{Header, Line, Model, Record};
    /// # use std::sync::Arc;
    /// # use toolgate_agent::Options;
    /// # use toolgate_engine::{self as engine, LocalEngine};
    /// # use toolgate_tools::Registry;
    /// # use toolgate_chat::Transcript;
    /// # use toolgate_infer::{Vocabulary, scripted::Scripted};
    /// # let model = Scripted::new(Arc::new(Vocabulary::bytes_only()));
    /// # let engine = LocalEngine::scripted(model, engine::Options::default())?;
    /// # let (model, load) = (Model::default(), serde_json::Value::Null);
    /// # let (tools, options, transcript) = (Registry::new(), Options::default(), Transcript::new());
    /// # let directory = tempfile::tempdir()?;
    /// # let file = directory.path().join("run.jsonl");
    ///
    /// // A run that died while its second line was written.
    /// let header = Header::new(model, load, &engine, &tools, &options, &transcript);
    /// let first = serde_json::to_string(&Line::Header(Box::new(header)))?;
    /// std::fs::write(&file, format!("{first}\n{{\"record\": \"tu"))?;
    /// let record = Record::read(&file)?;
    /// assert!(record.turns.is_empty() && record.end.is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read(file: &Path) -> Result<Self, Error> {
        let place = file.display();
        let unreadable = |error: std::io::Error| Error::input(format!("cannot read {place}: {error}"));
        let lines: Vec<String> = BufReader::new(File::open(file).map_err(unreadable)?)
            .lines()
            .collect::<Result<_, _>>()
            .map_err(unreadable)?;
        let mut header = None;
        let (mut turns, mut tools, mut end) = (Vec::new(), Vec::new(), None);
        for (number, line) in (1..).zip(&lines) {
            let line = match serde_json::from_str(line) {
                Ok(line) => line,
                Err(error) if error.is_eof() && number == lines.len() && number > 1 => break,
                Err(error) => {
                    return Err(Error::input(format!("{place}, line {number}: no record of a run: {error}")));
                }
            };
            match line {
                Line::Header(first) if header.is_none() => header = Some(*first),
                Line::Header(_) => {
                    return Err(Error::input(format!("{place}, line {number}: a second header")));
                }
                Line::Turn(turn) => turns.push(*turn),
                Line::Tool(tool) => tools.push(tool),
                Line::Final(last) => end = Some(last),
            }
        }
        let header =
            header.ok_or_else(|| Error::input(format!("{place}: no header, so no record of a run")))?;
        if header.version != VERSION {
            let message =
                format!("{place}: a record of version {}, this program reads {VERSION}", header.version);
            return Err(Error::input(message));
        }
        Ok(Self { header, turns, tools, end })
    }
}

/// Takes the call of that id out of those that run.
fn take(calls: &mut Vec<ToolCall>, id: &str) -> Option<ToolCall> {
    let at = calls.iter().position(|call| call.id == id)?;
    Some(calls.remove(at))
}

/// A choice as the record writes it.
pub(crate) fn choice_text(choice: &ToolChoice) -> String {
    match choice {
        ToolChoice::Auto => "auto".to_owned(),
        ToolChoice::None => "none".to_owned(),
        ToolChoice::Required => "required".to_owned(),
        ToolChoice::Only(names) => names.iter().map(ToolName::as_str).collect::<Vec<_>>().join(","),
    }
}

/// The choice that the record wrote so.
fn choice_of(text: &str) -> Result<ToolChoice, Error> {
    Ok(match text {
        "auto" => ToolChoice::Auto,
        "none" => ToolChoice::None,
        "required" => ToolChoice::Required,
        names => ToolChoice::Only(names.split(',').map(ToolName::new).collect::<Result<_, _>>()?),
    })
}

fn letter(source: Source) -> char {
    match source {
        Source::Forced => 'f',
        Source::Drafted => 'd',
        _ => 's',
    }
}

/// What a call of a recorded tool did. Records of earlier versions tell only whether it may have changed something.
fn effect(spec: &ToolSpec, writes: bool) -> Effect {
    if writes { spec.effect } else { Effect::Reads }
}
