//! A client's messages become a transcript: calls and results are paired, and texts of one side in a row are one message.
//!
//! Invariant: every call of the transcript has its result, in the order of the calls, and the last message is the user's or
//! holds results.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::{Map, Value};
use toolgate_chat::{Message, ToolCall, ToolReply, Transcript};

use super::field::Field;
use super::refusal::Refusal;

/// A transcript being built.
#[derive(Default)]
pub(super) struct History {
    system: Vec<String>,
    messages: Vec<Message>,
    open: Option<Open>,
}

/// Calls whose results are still coming.
struct Open {
    calls: Vec<ToolCall>,
    replies: Vec<Option<ToolReply>>,
    /// JSON pointer of the message that holds the calls.
    pointer: String,
}

impl History {
    /// What the program tells the model. Templates know one place for it, the front.
    pub(super) fn system(&mut self, text: &str) {
        if !text.is_empty() {
            self.system.push(text.to_owned());
        }
    }

    /// What the person says.
    pub(super) fn user(&mut self, text: &str) -> Result<(), Refusal> {
        self.close()?;
        match self.messages.last_mut() {
            Some(Message::User(before)) => {
                before.push_str("\n\n");
                before.push_str(text);
            }
            _ => self.messages.push(Message::User(text.to_owned())),
        }
        Ok(())
    }

    /// A turn of the model.
    pub(super) fn assistant(
        &mut self,
        at: &Field<'_>,
        content: Option<String>,
        reasoning: Option<String>,
        calls: Vec<ToolCall>,
    ) -> Result<(), Refusal> {
        self.close()?;
        // Of an earlier turn a call may have the same: results follow their own.
        let mut ids = BTreeSet::new();
        if let Some(call) = calls.iter().find(|call| !ids.insert(call.id.as_str())) {
            return Err(at.wrong(format!("two calls have the id {:?}", call.id)));
        }
        if !calls.is_empty() {
            let replies = calls.iter().map(|_| None).collect();
            self.open = Some(Open { calls: calls.clone(), replies, pointer: at.pointer().to_owned() });
        }
        self.messages.push(Message::Assistant { content, reasoning, calls });
        Ok(())
    }

    /// The result of a call of the turn before; where nothing says whether it is an error, its text may.
    pub(super) fn result(
        &mut self,
        id: &Field<'_>,
        content: String,
        is_error: Option<bool>,
    ) -> Result<(), Refusal> {
        let wanted = id.needed_text()?;
        let Some(open) = &mut self.open else {
            return Err(id.wrong("a result follows the assistant's message with its call, and here is none"));
        };
        let mut calls = open.calls.iter().zip(&mut open.replies);
        let Some((call, reply)) = calls.find(|(call, _)| call.id == wanted) else {
            return Err(
                id.wrong(format!("the assistant's message before has no call with the id {wanted:?}"))
            );
        };
        if reply.is_some() {
            return Err(id.wrong(format!("the call {wanted:?} has a result already")));
        }
        let told = ToolReply::of_text(call, content);
        *reply = Some(ToolReply { is_error: is_error.unwrap_or(told.is_error), ..told });
        Ok(())
    }

    /// Ends the results of the turn before: each call has to have one.
    fn close(&mut self) -> Result<(), Refusal> {
        let Some(open) = self.open.take() else { return Ok(()) };
        let missing = open.calls.iter().zip(&open.replies).find(|(_, reply)| reply.is_none());
        if let Some((call, _)) = missing {
            return Err(Refusal::at(&open.pointer, format!("the call {:?} has no result", call.id)));
        }
        self.messages.push(Message::Tool(open.replies.into_iter().flatten().collect()));
        Ok(())
    }

    /// What there is, whoever spoke last: to be counted. Calls whose results are still to come count as they are.
    pub(super) fn counted(mut self) -> Transcript {
        if let Some(open) = self.open.take() {
            let replies: Vec<ToolReply> = open.replies.into_iter().flatten().collect();
            self.messages.extend((!replies.is_empty()).then_some(Message::Tool(replies)));
        }
        self.together()
    }

    fn together(self) -> Transcript {
        let system = (!self.system.is_empty()).then(|| Message::System(self.system.join("\n\n")));
        system.into_iter().chain(self.messages).collect()
    }

    /// The transcript, whose last words are not the model's. Where there is nothing but a system prompt, it stands for what
    /// the person says.
    pub(super) fn finish(mut self, at: &Field<'_>) -> Result<Transcript, Refusal> {
        self.close()?;
        if self.messages.is_empty() && !self.system.is_empty() {
            // A program that says everything itself.
            self.messages.push(Message::User(std::mem::take(&mut self.system).join("\n\n")));
        }
        if !matches!(self.messages.last(), Some(Message::User(_) | Message::Tool(_))) {
            return Err(at.wrong(
                "the last message has to be the user's or a tool's result: an answer is not continued here",
            ));
        }
        Ok(self.together())
    }
}

/// Arguments that are a JSON object, or a text that holds one.
pub(super) fn arguments(field: &Field<'_>) -> Result<Map<String, Value>, Refusal> {
    let parsed: Option<Value> = match field.value() {
        None => Some(Value::Object(Map::new())),
        Some(Value::String(text)) if text.trim().is_empty() => Some(Value::Object(Map::new())),
        Some(Value::String(text)) => serde_json::from_str(text).ok(),
        Some(value) => Some(value.clone()),
    };
    match parsed {
        Some(Value::Object(arguments)) => Ok(arguments),
        _ => Err(field.wrong("the arguments of a call are a JSON object")),
    }
}

/// A content: a text, or a list of parts of which `text_of` knows the text.
pub(super) fn content<'a, T: AsRef<str>>(
    field: &Field<'a>,
    text_of: impl Fn(&Field<'a>) -> Result<T, Refusal>,
) -> Result<Option<String>, Refusal> {
    match field.value() {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => {
            let parts: Result<Vec<T>, Refusal> = field.list()?.iter().map(text_of).collect();
            let parts = parts?;
            let texts: Vec<&str> = parts.iter().map(AsRef::as_ref).filter(|text| !text.is_empty()).collect();
            Ok(Some(texts.join("\n")))
        }
    }
}

/// The text of a part of a result; a note for one that is no text. Nobody chose to send it, and a conversation that holds it would
/// be refused for good.
pub(super) fn result_part<'a>(part: &Field<'a>) -> Result<Cow<'a, str>, Refusal> {
    match part.kind()? {
        "text" => text_part(part).map(Cow::Borrowed),
        kind => Ok(format!("[a part of the type {kind:?} is left out: this model reads text alone]").into()),
    }
}

/// The text of a part that is text.
pub(super) fn text_part<'a>(part: &Field<'a>) -> Result<&'a str, Refusal> {
    match part.kind()? {
        "text" => part.at("text").needed_text(),
        "image_url" | "image" => {
            Err(part.wrong("the model of this server reads text alone: images are refused"))
        }
        kind => Err(part.wrong(format!("content of the type {kind:?} is not supported: send text"))),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
    use serde_json::json;

    use super::*;

    fn call(id: &str) -> ToolCall {
        ToolCall::new("f", Map::new()).with_id(id)
    }

    #[test]
    fn results_are_one_message_in_the_order_of_their_calls() {
        let body = json!({"ids": ["b", "a"]});
        let root = Field::root(&body);
        let mut history = History::default();
        history.user("one").unwrap();
        history.system("late");
        history.user("two").unwrap();
        history.assistant(&root, None, None, vec![call("a"), call("b")]).unwrap();
        for id in root.at("ids").list().unwrap() {
            history.result(&id, format!("of {}", id.text().unwrap().unwrap()), None).unwrap();
        }
        let transcript = history.finish(&root).unwrap();
        let [Message::System(system), Message::User(user), Message::Assistant { .. }, Message::Tool(replies)] =
            transcript.messages()
        else {
            panic!("{transcript:?}");
        };
        assert_eq!((system.as_str(), user.as_str()), ("late", "one\n\ntwo"));
        assert_eq!(replies.iter().map(|reply| reply.content.as_str()).collect::<Vec<_>>(), ["of a", "of b"]);
    }

    #[test]
    fn what_does_not_pair_is_refused() {
        let body = json!({"a": "a", "x": "x"});
        let root = Field::root(&body);
        let called = || {
            let mut history = History::default();
            history.assistant(&root, None, None, vec![call("a")]).unwrap();
            history
        };
        assert!(called().result(&root.at("x"), String::new(), None).is_err(), "an id that no call has");
        assert!(called().user("next").is_err() && called().finish(&root).is_err(), "no result");
        assert!(History::default().result(&root.at("a"), String::new(), None).is_err(), "no calls");
        let mut twice = called();
        twice.result(&root.at("a"), String::new(), None).unwrap();
        assert!(twice.result(&root.at("a"), String::new(), None).is_err(), "a second result");
        twice.user("next").unwrap();
        let two = vec![call("b"), call("b")];
        assert!(twice.assistant(&root, None, None, two).is_err(), "an id of two calls");
        twice.assistant(&root, None, None, vec![call("a")]).unwrap();
        twice.result(&root.at("a"), "of the second".to_owned(), None).unwrap();
        let transcript = twice.finish(&root).unwrap();
        let Some(Message::Tool(replies)) = transcript.messages().last() else { panic!("{transcript:?}") };
        assert_eq!(replies[0].content, "of the second", "an id that an earlier turn has, too");
        assert!(History::default().finish(&root).is_err(), "nothing");
        let mut alone = History::default();
        alone.system("Say hello.");
        let transcript = alone.finish(&root).unwrap();
        assert!(matches!(transcript.messages(), [Message::User(said)] if said == "Say hello."));
    }
}
