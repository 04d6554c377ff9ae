//! Turns put in front of a conversation: a model that has seen talk answered as talk, and requests with calls, tells
//! them apart.
//!
//! Small models open a call to a greeting or a sum as readily as to a question about a file; a system prompt that
//! says when to call changes little, an answered greeting much. Which tool a request wants they see from requests, too,
//! better than from descriptions.

use serde::{Deserialize, Serialize};

use crate::model::{Message, ToolCall};
use crate::spec::{Example, ToolSpec};

/// What a conversation begins with; in a configuration `"none"`, `"talk"` or `"calls"`.
///
/// ```
/// use toolgate_chat::Demonstrations;
/// assert_eq!(serde_json::from_str::<Demonstrations>("\"talk\"")?, Demonstrations::Talk);
/// assert_eq!(Demonstrations::Talk.messages(&[]).len(), 4);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Demonstrations {
    /// The user's own first message.
    #[default]
    None,
    /// A greeting and a sum, answered without any tool.
    Talk,
    /// The examples that tools bring along ([`ToolSpec::with_example`]), then [`Talk`](Self::Talk): in this order, of three, a
    /// 0.5 B model told requests from talk best. Where no tool has one, it is as [`None`](Self::None).
    Calls,
}

/// Examples shown at most: each is some forty tokens.
const MOST: usize = 12;

impl Demonstrations {
    /// The messages, to stand between the system prompt and the conversation.
    ///
    /// ```
    /// use toolgate_chat::{Message, Demonstrations};
    /// assert!(matches!(Demonstrations::Talk.messages(&[]).first(), Some(Message::User(_))));
    /// assert!(Demonstrations::None.messages(&[]).is_empty());
    /// ```
    pub fn messages(self, tools: &[ToolSpec]) -> Vec<Message> {
        let talk = [("Hello", "Hello! How can I help you?"), ("What is 2 + 3?", "2 + 3 is 5.")];
        let talk = talk
            .into_iter()
            .flat_map(|(said, answered)| [Message::User(said.to_owned()), Message::answer(answered)]);
        match self {
            Self::None => Vec::new(),
            Self::Talk => talk.collect(),
            Self::Calls if tools.iter().all(|tool| tool.example.is_none()) => Vec::new(),
            Self::Calls => tools.iter().filter_map(called).take(MOST).flatten().chain(talk).collect(),
        }
    }
}

/// The example of a tool as two turns.
fn called(tool: &ToolSpec) -> Option<[Message; 2]> {
    let Example { request, arguments } = tool.example.as_ref()?;
    let call = ToolCall::new(tool.name.as_str(), arguments.clone()).with_id("example");
    let turn = Message::Assistant { content: None, reasoning: None, calls: vec![call] };
    Some([Message::User(request.clone()), turn])
}
