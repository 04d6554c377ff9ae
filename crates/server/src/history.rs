//! Makes a transcript of a client's messages. It pairs calls and results, and joins texts of one side in a row to one message.
//!
//! Invariants: every call of the transcript has its result, in the order of the calls. The last message is the user's or holds
//! results. The server continues with messages that do not pair, and warns of them: otherwise their conversation would be
//! refused for good, and its sender has seldom broken it.

use std::collections::{BTreeSet, HashMap, VecDeque};

use serde_json::{Map, Value};
use toolgate_chat::{Message, ToolCall, ToolReply, Transcript};

use super::field::Field;
use super::refusal::Refusal;
use toolgate_chat::notes::without_notes;

/// The text in place of a result that nobody sent.
const NO_RESULT: &str = "there is no result: the call was cancelled or did not run";
/// The text in front of a result whose call is not there.
const STRAY: &str = "[The result of a call that is not in this conversation]";

/// A transcript being built.
#[derive(Default)]
pub(super) struct History<'a> {
    system: Vec<String>,
    messages: Vec<Message>,
    open: Option<Open<'a>>,
    /// Results that nobody sent, by the ids of their calls. They may come late. The value is the number of
    /// the message and the place in it.
    missing: HashMap<String, (usize, usize)>,
    /// Results whose call was not found so far.
    stray: Vec<Stray<'a>>,
    /// The thoughts of messages that say nothing. They belong to the turn behind them.
    thought: Option<String>,
}

/// Calls whose results are still coming.
struct Open<'a> {
    /// The calls. A call whose id the client gave twice has an id of its own.
    calls: Vec<ToolCall>,
    asked: Vec<Asked<'a>>,
    /// The calls without a result, by the client's ids.
    free: HashMap<String, VecDeque<usize>>,
    /// All calls before this number have a result.
    first: usize,
}

/// A call as the client's message has it.
struct Asked<'a> {
    id: String,
    at: Field<'a>,
    reply: Option<ToolReply>,
}

/// A result without a call.
struct Stray<'a> {
    id: Field<'a>,
    content: String,
    is_error: Option<bool>,
}

/// A conversation as a turn takes it.
#[derive(Debug)]
pub(super) struct Conversation {
    pub(super) transcript: Transcript,
    /// The beginning of the answer, if the model's own message is the last one.
    pub(super) begun: Option<String>,
    /// The JSON pointer of the messages.
    pub(super) at: String,
}

impl<'a> History<'a> {
    /// Adds what the program tells the model. Templates have one place for it, the front.
    pub(super) fn system(&mut self, text: &str) {
        if !text.is_empty() {
            self.system.push(text.to_owned());
        }
    }

    /// Adds what the person says. A note of the client behind results is not that: their run goes on.
    pub(super) fn user(&mut self, text: &str) {
        self.close();
        self.thought = None;
        if let Some(Message::Tool(replies)) = self.messages.last_mut()
            && without_notes(text).trim().is_empty()
        {
            if let Some(reply) = replies.last_mut().filter(|_| !text.trim().is_empty()) {
                reply.content.push_str("\n\n");
                reply.content.push_str(text.trim());
            }
            return;
        }
        self.say(text);
    }

    fn say(&mut self, text: &str) {
        match self.messages.last_mut() {
            Some(Message::User(before)) => {
                before.push_str("\n\n");
                before.push_str(text);
            }
            _ => self.messages.push(Message::User(text.to_owned())),
        }
    }

    /// Adds a turn of the model, with its calls and their places.
    pub(super) fn assistant(
        &mut self,
        content: Option<String>,
        reasoning: Option<String>,
        calls: Vec<(Field<'a>, ToolCall)>,
    ) {
        self.close();
        let thoughts = self.thought.take().into_iter().chain(reasoning);
        let reasoning = thoughts.reduce(|before, next| format!("{before}\n{next}"));
        if calls.is_empty() && content.is_none() {
            self.thought = reasoning;
            return;
        }
        let mut ids = BTreeSet::new();
        let (mut own, mut asked) = (Vec::with_capacity(calls.len()), Vec::with_capacity(calls.len()));
        for (at, mut call) in calls {
            asked.push(Asked { id: call.id.clone(), at, reply: None });
            // A call of an earlier turn may have the same id. Results follow their own turn.
            if !ids.insert(call.id.clone()) {
                call.id = format!("{}#{}", call.id, own.len());
                ids.insert(call.id.clone());
            }
            own.push(call);
        }
        if !own.is_empty() {
            let mut free: HashMap<String, VecDeque<usize>> = HashMap::new();
            for (place, asked) in asked.iter().enumerate() {
                free.entry(asked.id.clone()).or_default().push_back(place);
            }
            self.open = Some(Open { calls: own.clone(), asked, free, first: 0 });
        }
        self.messages.push(Message::Assistant { content, reasoning, calls: own });
    }

    /// Adds the result of a call of the turn before, whose id stands at `id`. If no field says whether it is
    /// an error, its text may.
    pub(super) fn result(
        &mut self,
        id: Field<'a>,
        content: String,
        is_error: Option<bool>,
    ) -> Result<(), Refusal> {
        let wanted = id.text()?.filter(|wanted| !wanted.is_empty());
        let Some(open) = &mut self.open else {
            self.late(Stray { id, content, is_error });
            return Ok(());
        };
        let wanted = match wanted {
            Some(wanted) => Some(wanted.to_owned()),
            None => {
                id.warn("the id of the call is missing: the result is taken for that of the first call without one");
                while open.asked.get(open.first).is_some_and(|asked| asked.reply.is_some()) {
                    open.first += 1;
                }
                open.asked.get(open.first).map(|asked| asked.id.clone())
            }
        };
        let places = wanted.as_ref().and_then(|wanted| open.free.get_mut(wanted));
        let Some(places) = places else {
            self.late(Stray { id, content, is_error });
            return Ok(());
        };
        let last = places.front().copied();
        // The last call of an id stays in the list. So a second result finds it.
        if places.len() > 1 {
            places.pop_front();
        }
        let found = last.and_then(|place| Some((open.asked.get_mut(place)?, open.calls.get(place)?)));
        match found {
            Some((Asked { reply: Some(reply), .. }, _)) => {
                id.warn("the call has a result already: this one is added to it");
                reply.content.push('\n');
                reply.content.push_str(&content);
            }
            Some((asked, call)) => asked.reply = Some(reply(call, content, is_error)),
            None => {}
        }
        Ok(())
    }

    /// Adds a result whose call is not of the turn before. The call is of an earlier turn, or there is none.
    fn late(&mut self, stray: Stray<'a>) {
        let Self { messages, missing, .. } = self;
        let wanted = stray.id.value().and_then(Value::as_str).unwrap_or_default();
        let Some((message, place)) = missing.remove(wanted) else {
            self.stray.push(stray);
            return;
        };
        if let Some(Message::Tool(replies)) = messages.get_mut(message)
            && let Some(of) = replies.get_mut(place)
        {
            stray.id.warn("the result came behind other messages: it is put to its call");
            let call = ToolCall::new(of.name.clone(), Map::new()).with_id(of.call_id.clone());
            *of = reply(&call, stray.content, stray.is_error);
        }
    }

    /// Ends the results of the turn before. Each call has one then.
    fn close(&mut self) {
        let mut stray = std::mem::take(&mut self.stray);
        if let Some(open) = self.open.take() {
            let without = open.asked.iter().filter(|asked| asked.reply.is_none()).count();
            // Programs in between write ids anew. If there are as many stray results as calls without one,
            // they belong together.
            let mut theirs =
                if without == stray.len() { std::mem::take(&mut stray) } else { Vec::new() }.into_iter();
            let mut replies = Vec::with_capacity(open.calls.len());
            for (asked, call) in open.asked.into_iter().zip(&open.calls) {
                let Asked { id: asked_id, at, reply: given } = asked;
                let taken = given.or_else(|| {
                    let Stray { id, content, is_error } = theirs.next()?;
                    id.warn(format!("no call has this id: the result is taken for that of {asked_id:?}"));
                    Some(reply(call, content, is_error))
                });
                replies.push(taken.unwrap_or_else(|| {
                    at.warn("the call has no result: the model is told that it was cancelled or did not run");
                    self.missing.insert(asked_id, (self.messages.len(), replies.len()));
                    ToolReply::error(call, NO_RESULT)
                }));
            }
            self.messages.push(Message::Tool(replies));
        }
        for Stray { id, content, .. } in stray {
            id.warn("no call has this id: the result is shown as a text of the user's");
            self.say(&format!("{STRAY}\n{content}"));
        }
    }

    /// The transcript for a count of tokens, whoever spoke last. Calls whose results are still to come count
    /// as they are.
    pub(super) fn counted(mut self) -> Transcript {
        if let Some(open) = self.open.take() {
            let replies: Vec<ToolReply> = open.asked.into_iter().filter_map(|asked| asked.reply).collect();
            self.messages.extend((!replies.is_empty()).then_some(Message::Tool(replies)));
        }
        self.close();
        self.together()
    }

    fn together(self) -> Transcript {
        let system = (!self.system.is_empty()).then(|| Message::System(self.system.join("\n\n")));
        system.into_iter().chain(self.messages).collect()
    }

    /// The conversation. Last words of the model become the beginning of its answer. If there is nothing but
    /// a system prompt, it stands for what the person says.
    pub(super) fn finish(mut self, at: &Field<'_>) -> Result<Conversation, Refusal> {
        self.close();
        let mut begun = Vec::new();
        while let Some(Message::Assistant { content, .. }) = self.messages.pop_if(|last| is_answer(last)) {
            begun.extend(content);
        }
        begun.reverse();
        if self.messages.is_empty() && !self.system.is_empty() {
            // The program says everything itself.
            self.messages.push(Message::User(std::mem::take(&mut self.system).join("\n\n")));
        }
        if self.messages.is_empty() {
            return Err(at.wrong("there is no message of the user's to answer"));
        }
        let begun = (!begun.is_empty()).then(|| begun.join("\n\n"));
        Ok(Conversation { transcript: self.together(), begun, at: at.pointer().to_owned() })
    }
}

fn is_answer(message: &Message) -> bool {
    matches!(message, Message::Assistant { calls, .. } if calls.is_empty())
}

fn reply(call: &ToolCall, content: String, is_error: Option<bool>) -> ToolReply {
    let told = ToolReply::of_text(call, content);
    ToolReply { is_error: is_error.unwrap_or(told.is_error), ..told }
}

/// The key for arguments that are no JSON object. The model sees them under it.
const UNREADABLE: &str = "unreadable";

/// The arguments of a call: a JSON object, or a text that holds one. The model sees any others as they were
/// written.
pub(super) fn arguments(field: &Field<'_>) -> Map<String, Value> {
    let parsed = |text: &str| serde_json::from_str::<Value>(text).ok();
    let read = match field.value() {
        None => Some(Value::Object(Map::new())),
        Some(Value::String(text)) if text.trim().is_empty() => Some(Value::Object(Map::new())),
        Some(Value::String(text)) => match parsed(text) {
            // They were written as JSON twice.
            Some(Value::String(inner)) => parsed(&inner),
            other => other,
        },
        other => other.cloned(),
    };
    match (read, field.value()) {
        (Some(Value::Object(arguments)), _) => arguments,
        (_, given) => {
            field.warn("the arguments are no JSON object: the model is shown them as they were written");
            Map::from_iter([(UNREADABLE.to_owned(), given.cloned().unwrap_or_default())])
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
    use serde_json::json;

    use super::*;

    /// Calls with these ids. Each stands at `/calls/N`.
    fn calls<'a>(root: &Field<'a>, ids: &[&str]) -> Vec<(Field<'a>, ToolCall)> {
        let at = |n: usize| root.at("calls").at(&n.to_string());
        ids.iter().enumerate().map(|(n, id)| (at(n), ToolCall::new("f", Map::new()).with_id(*id))).collect()
    }

    /// The transcript's results, its other messages and the pointers of the warnings, for calls and results
    /// with these ids.
    fn paired(called: &[&str], told: &[&str]) -> (Vec<String>, Vec<Message>, Vec<String>) {
        let body = json!({ "ids": told });
        let root = Field::root(&body);
        let mut history = History::default();
        history.user("one");
        history.assistant(None, None, calls(&root, called));
        for (n, id) in root.at("ids").list().unwrap().into_iter().enumerate() {
            history.result(id, format!("result {n}"), None).unwrap();
        }
        let messages = history.finish(&root).unwrap().transcript.messages().to_vec();
        let Some(Message::Tool(replies)) = messages.get(2) else { panic!("{messages:?}") };
        let replies = replies.iter().map(|reply| reply.content.clone()).collect();
        let rest = messages.get(3..).unwrap_or_default().to_vec();
        (replies, rest, root.warnings().into_iter().map(|warning| warning.pointer).collect())
    }

    #[test]
    fn results_are_one_message_in_the_order_of_their_calls() {
        let body = json!({"ids": ["b", "a"]});
        let root = Field::root(&body);
        let mut history = History::default();
        history.user("one");
        history.system("late");
        history.user("two");
        history.assistant(None, None, calls(&root, &["a", "b"]));
        for id in root.at("ids").list().unwrap() {
            let content = format!("of {}", id.text().unwrap().unwrap());
            history.result(id, content, None).unwrap();
        }
        let transcript = history.finish(&root).unwrap().transcript;
        let [Message::System(system), Message::User(user), Message::Assistant { .. }, Message::Tool(replies)] =
            transcript.messages()
        else {
            panic!("{transcript:?}");
        };
        assert_eq!((system.as_str(), user.as_str()), ("late", "one\n\ntwo"));
        assert_eq!(replies.iter().map(|reply| reply.content.as_str()).collect::<Vec<_>>(), ["of a", "of b"]);
        assert!(root.warnings().is_empty());
    }

    #[test]
    fn what_does_not_pair_is_carried_on_with_and_warned_of() {
        let none = Vec::new;
        assert_eq!(paired(&["a"], &[]), (vec![NO_RESULT.to_owned()], none(), vec!["/calls/0".to_owned()]));
        let (replies, rest, warned) = paired(&["a", "b"], &["b"]);
        assert_eq!((replies, rest), (vec![NO_RESULT.to_owned(), "result 0".to_owned()], none()));
        assert_eq!(warned, ["/calls/0"]);
        // Ids that were written anew on the way.
        let (replies, rest, warned) = paired(&["a", "b"], &["x", "y"]);
        assert_eq!((replies, rest), (vec!["result 0".to_owned(), "result 1".to_owned()], none()));
        assert_eq!(warned, ["/ids/0", "/ids/1"]);
        let (replies, rest, warned) = paired(&["a"], &["a", "x"]);
        assert_eq!(replies, ["result 0"]);
        assert_eq!(rest, [Message::User(format!("{STRAY}\nresult 1"))]);
        assert_eq!(warned, ["/ids/1"]);
        let (replies, _, warned) = paired(&["a"], &["a", "a"]);
        assert_eq!((replies, warned), (vec!["result 0\nresult 1".to_owned()], vec!["/ids/1".to_owned()]));
        let (replies, _, warned) = paired(&["a", "b"], &["b", ""]);
        assert_eq!(replies, ["result 1", "result 0"]);
        assert_eq!(warned, ["/ids/1"]);
        // Two calls of one id: their results come in their order.
        let (replies, _, warned) = paired(&["a", "a"], &["a", "a"]);
        assert_eq!((replies, warned.len()), (vec!["result 0".to_owned(), "result 1".to_owned()], 0));
    }

    #[test]
    fn a_result_that_comes_late_is_put_to_its_call() {
        let body = json!({"a": "a"});
        let root = Field::root(&body);
        let mut history = History::default();
        history.assistant(None, None, calls(&root, &["a"]));
        history.user("Go on");
        history.result(root.at("a"), "rain".to_owned(), None).unwrap();
        // The same id again, of a later call.
        history.assistant(None, None, calls(&root, &["a"]));
        history.result(root.at("a"), "sun".to_owned(), None).unwrap();
        let transcript = history.finish(&root).unwrap().transcript;
        let replies: Vec<&ToolReply> = transcript
            .iter()
            .filter_map(|message| if let Message::Tool(replies) = message { replies.first() } else { None })
            .collect();
        assert_eq!(replies.iter().map(|reply| reply.content.as_str()).collect::<Vec<_>>(), ["rain", "sun"]);
        assert!(replies.iter().all(|reply| !reply.is_error));
    }

    #[test]
    fn the_model_s_own_last_words_are_what_its_answer_begins_with() {
        let body = json!({});
        let root = Field::root(&body);
        let mut history = History::default();
        history.user("Name a city");
        history.assistant(Some("It is called".to_owned()), None, Vec::new());
        let conversation = history.finish(&root).unwrap();
        assert_eq!(conversation.begun.as_deref(), Some("It is called"));
        assert_eq!(conversation.transcript.len(), 1);
        let mut silent = History::default();
        silent.user("Name a city");
        silent.assistant(None, None, Vec::new());
        assert_eq!(silent.finish(&root).unwrap().begun, None, "it said nothing");
        assert!(History::default().finish(&root).is_err(), "nothing");
        let mut alone = History::default();
        alone.system("Say hello.");
        let transcript = alone.finish(&root).unwrap().transcript;
        assert!(matches!(transcript.messages(), [Message::User(said)] if said == "Say hello."));
    }

    #[test]
    fn arguments_are_an_object_or_shown_as_they_were_written() {
        for (given, wanted, warns) in [
            (json!("{\"a\": 1}"), json!({"a": 1}), false),
            (json!("\"{\\\"a\\\": 1}\""), json!({"a": 1}), false),
            (json!({"a": 1}), json!({"a": 1}), false),
            (json!(""), json!({}), false),
            (json!(null), json!({}), false),
            (json!("{\"a\": "), json!({"unreadable": "{\"a\": "}), true),
            (json!("[1]"), json!({"unreadable": "[1]"}), true),
            (json!([1]), json!({"unreadable": [1]}), true),
        ] {
            let body = json!({ "arguments": given });
            let field = Field::root(&body).at("arguments");
            assert_eq!(Value::Object(arguments(&field)), wanted);
            assert_eq!(!field.warnings().is_empty(), warns, "{given}");
        }
    }
}
