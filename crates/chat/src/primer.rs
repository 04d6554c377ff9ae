//! Turns put in front of a conversation: a model that has seen talk answered as talk tells it from requests.
//!
//! Small models open a call to a greeting or a sum as readily as to a question about a file; a system prompt that
//! says when to call changes little, an answered greeting much.

use crate::model::Message;

/// What a conversation begins with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Primer {
    /// The user's own first message.
    #[default]
    None,
    /// A greeting and a sum, answered without any tool.
    Talk,
}

impl Primer {
    /// The messages, to stand between the system prompt and the conversation.
    ///
    /// ```
    /// use toolgate_chat::{Message, Primer};
    /// assert!(matches!(Primer::Talk.messages().first(), Some(Message::User(_))));
    /// assert!(Primer::None.messages().is_empty());
    /// ```
    pub fn messages(self) -> Vec<Message> {
        let turns: &[(&str, &str)] = match self {
            Self::None => &[],
            Self::Talk => &[("Hello", "Hello! How can I help you?"), ("What is 2 + 3?", "2 + 3 is 5.")],
        };
        turns
            .iter()
            .flat_map(|(said, answered)| [Message::User((*said).to_owned()), Message::answer(*answered)])
            .collect()
    }
}
