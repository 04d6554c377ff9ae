//! The conversation as plain data: messages, tool calls, their results. Knows no template, no wire format and no model.
//!
//! All results of one turn are one message, in the order of the calls they answer.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::error::{Error, Kind};

/// One message of a conversation.
///
/// ```
/// use serde_json::json;
/// use toolgate_chat::Message;
/// let asked = Message::User("What time is it?".to_owned());
/// assert_eq!(serde_json::to_value(&asked)?, json!({"role": "user", "message": "What time is it?"}));
/// let answered = Message::answer("Noon.");
/// assert!(matches!(answered, Message::Assistant { content: Some(_), calls, .. } if calls.is_empty()));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", content = "message", rename_all = "snake_case")]
pub enum Message {
    /// What the program tells the model; trusted text.
    System(String),
    /// What the person asks.
    User(String),
    /// A turn of the model: an answer, or calls.
    Assistant {
        /// The answer, or text in front of the calls.
        content: Option<String>,
        /// What the model thought before it spoke.
        reasoning: Option<String>,
        /// The calls it made, in order.
        calls: Vec<ToolCall>,
    },
    /// The results of all calls of the turn before.
    Tool(Vec<ToolReply>),
}

impl Message {
    /// A turn that is an answer.
    pub fn answer(content: impl Into<String>) -> Self {
        Self::Assistant { content: Some(content.into()), reasoning: None, calls: Vec::new() }
    }

    /// A turn that is calls.
    pub fn calls(calls: impl IntoIterator<Item = ToolCall>) -> Self {
        Self::Assistant { content: None, reasoning: None, calls: calls.into_iter().collect() }
    }
}

/// A call of a tool, as the model made it: the name may be unknown, the arguments wrong.
///
/// ```
/// use serde_json::{Map, json};
/// use toolgate_chat::ToolCall;
/// let arguments = Map::from_iter([("city".to_owned(), json!("Oslo"))]);
/// let call = ToolCall::new("get_weather", arguments).with_id("1");
/// assert!(call.same_request(&call.clone().with_id("2")));
/// let function = json!({"name": "get_weather", "arguments": "{\"city\":\"Oslo\"}"});
/// assert_eq!(call.to_openai(), json!({"id": "1", "type": "function", "function": function}));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Ties the call to its result; unique in a conversation.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its arguments, in the order written.
    pub arguments: Map<String, Value>,
}

impl ToolCall {
    /// A call with a fresh random id.
    ///
    /// ```
    /// # use toolgate_chat::model::ToolCall;
    /// let call = ToolCall::new("add", serde_json::Map::new());
    /// assert_ne!(call.id, ToolCall::new("add", serde_json::Map::new()).id);
    /// ```
    pub fn new(name: impl Into<String>, arguments: Map<String, Value>) -> Self {
        Self { id: uuid::Uuid::new_v4().to_string(), name: name.into(), arguments }
    }

    /// The same call under a given id.
    #[must_use]
    pub fn with_id(mut self, id: impl Into<String>) -> Self {
        self.id = id.into();
        self
    }

    /// Whether both ask the same tool the same thing; ids and the order of keys do not count.
    pub fn same_request(&self, other: &Self) -> bool {
        self.name == other.name && self.arguments == other.arguments
    }

    /// `{id, "type": "function", "function": {name, arguments}}`, the arguments as JSON text.
    pub fn to_openai(&self) -> Value {
        let arguments = Value::Object(self.arguments.clone()).to_string();
        json!({"id": self.id, "type": "function", "function": {"name": self.name, "arguments": arguments}})
    }
}

/// The result of one call, as the model will see it.
///
/// ```
/// use toolgate_chat::{ToolCall, ToolReply};
/// let call = ToolCall::new("now", Default::default());
/// let reply = ToolReply::error(&call, "there is no clock");
/// assert_eq!((reply.call_id, reply.name), (call.id, call.name));
/// assert!(reply.is_error);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolReply {
    /// Id of the call it answers.
    pub call_id: String,
    /// The tool that was called.
    pub name: String,
    /// What the model sees.
    pub content: String,
    /// Whether the call failed or was denied.
    pub is_error: bool,
}

impl ToolReply {
    /// What `call` gave.
    pub fn ok(call: &ToolCall, content: impl Into<String>) -> Self {
        Self { call_id: call.id.clone(), name: call.name.clone(), content: content.into(), is_error: false }
    }

    /// The result from a text alone, which says itself that it is a failure: `error: …`, or JSON with an `error` first.
    ///
    /// ```
    /// # use toolgate_chat::{ToolCall, ToolReply};
    /// let call = ToolCall::new("now", Default::default());
    /// let reply = ToolReply::error(&call, "there is no clock");
    /// assert_eq!(reply.told(), "error: there is no clock");
    /// assert!(ToolReply::of_text(&call, reply.told()).is_error);
    /// assert!(ToolReply::of_text(&call, "{\"error\": \"no clock\"}").is_error);
    /// for fine in ["errors: 0", "ERROR: a log that was read", "{\"error\": null, \"time\": \"noon\"}"] {
    ///     assert!(!ToolReply::of_text(&call, fine).is_error, "{fine}");
    /// }
    /// ```
    pub fn of_text(call: &ToolCall, text: impl Into<String>) -> Self {
        let reply = Self::ok(call, text);
        Self { is_error: says_error(&reply.content), ..reply }
    }

    /// The result as a text that says itself whether it is a failure.
    pub fn told(&self) -> Cow<'_, str> {
        match self.is_error && !says_error(&self.content) {
            true => format!("error: {}", self.content).into(),
            false => Cow::Borrowed(&self.content),
        }
    }

    /// Why `call` gave nothing.
    pub fn error(call: &ToolCall, content: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::ok(call, content) }
    }
}

/// Whether a text says that something failed, as tools do whose protocol has no other place for it.
fn says_error(text: &str) -> bool {
    let text = text.trim_start();
    // Logs that were read begin with `ERROR:`.
    if text.starts_with("error:") || text.starts_with("Error:") {
        return true;
    }
    let is_error = |told: Value| {
        let error = told.get("error");
        error.is_some_and(|error| !matches!(error, Value::Null | Value::Bool(false)) && error != "")
    };
    let first = text.strip_prefix('{').map(str::trim_start);
    first.is_some_and(|rest| rest.starts_with("\"error\"")) && serde_json::from_str(text).is_ok_and(is_error)
}

/// A conversation: messages in order.
///
/// ```
/// use toolgate_chat::{Message, ToolCall, ToolReply, Transcript};
/// let call = ToolCall::new("now", Default::default());
/// let mut transcript = Transcript::new().with(Message::User("What time is it?".to_owned()));
/// transcript.push(Message::calls([call.clone()]));
/// assert_eq!(transcript.calls_of_run(), [(&call, None)]);
/// transcript.push(Message::Tool(vec![ToolReply::ok(&call, "noon")]));
/// assert_eq!(transcript.calls_of_run(), [(&call, Some(&ToolReply::ok(&call, "noon")))]);
/// assert_eq!(transcript.question(), Some("What time is it?"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Transcript {
    messages: Vec<Message>,
}

impl Transcript {
    /// An empty conversation.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a message at the end.
    pub fn push(&mut self, message: Message) {
        self.messages.push(message);
    }

    /// Adds a message at the end, for building in one expression.
    #[must_use]
    pub fn with(mut self, message: Message) -> Self {
        self.push(message);
        self
    }

    /// The messages, first to last.
    pub fn iter(&self) -> std::slice::Iter<'_, Message> {
        self.messages.iter()
    }

    /// The messages, first to last.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// The messages, to change: a long result may have to be cut.
    ///
    /// ```
    /// use toolgate_chat::{Message, Transcript};
    /// let mut transcript = Transcript::new().with(Message::User("long ".repeat(9)));
    /// if let [Message::User(text), ..] = transcript.messages_mut() {
    ///     text.truncate(4);
    /// }
    /// assert_eq!(transcript.question(), Some("long"));
    /// ```
    pub fn messages_mut(&mut self) -> &mut [Message] {
        &mut self.messages
    }

    /// Number of messages.
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Whether nothing was said yet.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// The newest message.
    pub fn last(&self) -> Option<&Message> {
        self.messages.last()
    }

    /// What the person asked last.
    pub fn question(&self) -> Option<&str> {
        self.messages.iter().rev().find_map(|message| match message {
            Message::User(text) => Some(text.as_str()),
            _ => None,
        })
    }

    /// The messages of a chat completion, in OpenAI form: a message for each result, arguments as JSON text. What the
    /// model thought is left out.
    ///
    /// ```
    /// # use toolgate_chat::{Message, ToolCall, ToolReply, Transcript}; use serde_json::json;
    /// let call = ToolCall::new("now", Default::default()).with_id("1");
    /// let transcript = Transcript::new()
    ///     .with(Message::User("What time is it?".into()))
    ///     .with(Message::calls([call.clone()]))
    ///     .with(Message::Tool(vec![ToolReply::ok(&call, "noon")]));
    /// let messages = transcript.to_openai();
    /// assert_eq!(messages.len(), 3);
    /// assert_eq!(messages[0], json!({"role": "user", "content": "What time is it?"}));
    /// assert_eq!(messages[1]["tool_calls"][0]["function"], json!({"name": "now", "arguments": "{}"}));
    /// assert_eq!(messages[2], json!({"role": "tool", "tool_call_id": "1", "content": "noon"}));
    /// ```
    pub fn to_openai(&self) -> Vec<Value> {
        let mut out = Vec::new();
        for message in self {
            match message {
                Message::System(text) => out.push(json!({"role": "system", "content": text})),
                Message::User(text) => out.push(json!({"role": "user", "content": text})),
                Message::Assistant { content, calls, .. } if calls.is_empty() => {
                    out.push(json!({"role": "assistant", "content": content.as_deref().unwrap_or_default()}));
                }
                Message::Assistant { content, calls, .. } => {
                    let calls: Vec<Value> = calls.iter().map(ToolCall::to_openai).collect();
                    out.push(json!({"role": "assistant", "content": content, "tool_calls": calls}));
                }
                Message::Tool(replies) => out.extend(replies.iter().map(
                    |reply| json!({"role": "tool", "tool_call_id": reply.call_id, "content": reply.told()}),
                )),
            }
        }
        out
    }

    /// All calls since the person's last message, each with its result where there is one.
    pub fn calls_of_run(&self) -> Vec<(&ToolCall, Option<&ToolReply>)> {
        let start = self.messages.iter().rposition(|m| matches!(m, Message::User(_))).unwrap_or(0);
        let run = self.messages.get(start..).unwrap_or_default();
        let mut found = Vec::new();
        for (at, message) in run.iter().enumerate() {
            let Message::Assistant { calls, .. } = message else { continue };
            // Ids are used anew by some: the results of these calls stand before the next ones.
            let after = run.get(at + 1..).unwrap_or_default();
            let next = after.iter().take_while(|message| !matches!(message, Message::Assistant { .. }));
            let replies = next.filter_map(|message| match message {
                Message::Tool(replies) => Some(replies),
                _ => None,
            });
            let mut by_id: HashMap<&str, &ToolReply> = HashMap::new();
            for reply in replies.flatten() {
                by_id.entry(&reply.call_id).or_insert(reply);
            }
            found.extend(calls.iter().map(|call| (call, by_id.get(call.id.as_str()).copied())));
        }
        found
    }
}

impl FromIterator<Message> for Transcript {
    fn from_iter<I: IntoIterator<Item = Message>>(messages: I) -> Self {
        Self { messages: messages.into_iter().collect() }
    }
}

impl<'a> IntoIterator for &'a Transcript {
    type Item = &'a Message;
    type IntoIter = std::slice::Iter<'a, Message>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// A name a tool can have: 1 to 128 of `A-Z a-z 0-9 _ . -`, so that no name can carry markup into a prompt.
///
/// ```
/// use toolgate_chat::ToolName;
/// let name: ToolName = serde_json::from_str("\"read_file\"")?;
/// assert_eq!(name.as_str(), "read_file");
/// assert!(serde_json::from_str::<ToolName>("\"<tool>\"").is_err());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ToolName(String);

/// Bytes of a name: what the Anthropic API takes; programs name the tools of plug-ins after all that they come from.
const LONGEST_NAME: usize = 128;

impl ToolName {
    /// Checks the name.
    ///
    /// # Errors
    /// [`Kind::Definition`] for any other text.
    ///
    /// ```
    /// # use toolgate_chat::model::ToolName;
    /// assert_eq!(ToolName::new("read_file")?.as_str(), "read_file");
    /// assert!(ToolName::new("read file").is_err());
    /// # Ok::<(), toolgate_chat::Error>(())
    /// ```
    pub fn new(name: &str) -> Result<Self, Error> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
        if (1..=LONGEST_NAME).contains(&name.len()) && name.chars().all(allowed) {
            return Ok(Self(name.to_owned()));
        }
        let shown: String = name.chars().take(160).collect();
        Err(Error::new(
            Kind::Definition,
            format!(
                "{shown:?} is no tool name: use 1 to {LONGEST_NAME} letters, digits, \"_\", \".\" or \"-\""
            ),
        ))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for ToolName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for ToolName {
    type Error = Error;

    fn try_from(name: String) -> Result<Self, Error> {
        Self::new(&name)
    }
}

impl From<ToolName> for String {
    fn from(name: ToolName) -> Self {
        name.0
    }
}

/// Which tools a turn may, or must, call.
///
/// ```
/// use serde_json::json;
/// use toolgate_chat::{ToolChoice, ToolFormat, ToolName, ToolSpec, TurnRequest, format::Family};
/// let tools = [ToolSpec::new("now", "", json!({}))?, ToolSpec::new("wait", "", json!({}))?];
/// let choice = ToolChoice::Only(vec![ToolName::new("wait")?]);
/// let turn = Family::hermes().turn(&tools, &TurnRequest { choice, ..TurnRequest::default() })?;
/// assert!(turn.answer.is_none());
/// assert_eq!(turn.contracts.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["wait"]);
/// # Ok::<(), toolgate_chat::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// Calls or an answer.
    #[default]
    Auto,
    /// An answer.
    None,
    /// At least one call.
    Required,
    /// At least one call, of these tools alone.
    Only(Vec<ToolName>),
}

/// A turn read back from the model's text.
///
/// ```
/// use toolgate_chat::{ToolFormat, format::Family};
/// let said = "Let me see.\n<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";
/// let turn = Family::hermes().parse(said, &[]);
/// assert_eq!(turn.content.as_deref(), Some("Let me see."));
/// assert_eq!(turn.calls.first().map(|call| call.name.as_str()), Some("now"));
/// assert!(turn.reasoning.is_none() && turn.defects.is_empty());
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ParsedTurn {
    /// The text outside calls and reasoning, trimmed; `None` if there is none.
    pub content: Option<String>,
    /// What stood between reasoning markers.
    pub reasoning: Option<String>,
    /// The calls, in order.
    pub calls: Vec<ToolCall>,
    /// What was wrong with the text.
    pub defects: Vec<Defect>,
}

/// Something wrong with a model's text: data for the next turn, not an error of ours.
///
/// ```
/// use toolgate_chat::{DefectKind, ToolFormat, format::Family};
/// let turn = Family::hermes().parse("So.\n<tool_call>\n{\"name\": \"now\", \"argum", &[]);
/// let defect = turn.defects.first().ok_or("the call breaks off")?;
/// assert_eq!((defect.kind, defect.offset), (DefectKind::Unclosed, 4));
/// assert_eq!(defect.message, "a call that never ends");
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defect {
    /// What is wrong.
    pub kind: DefectKind,
    /// Byte offset into the text where it begins.
    pub offset: usize,
    /// For the model or a person: lower-case, without a full stop.
    pub message: String,
}

/// What can be wrong with a model's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DefectKind {
    /// A call opened and never closed.
    Unclosed,
    /// A call whose content is not JSON.
    NotJson,
    /// JSON between call markers that is not a call.
    NotACall,
    /// Text where none belongs: beside calls.
    Stray,
}
