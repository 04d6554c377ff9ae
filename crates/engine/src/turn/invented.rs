//! Further calls of a turn: one whose argument nobody has said waits for the results of the calls in front of it, which may give it.
//!
//! Why: a model that may make several calls at once writes `find_customer("Vela")` and `list_orders(1)` in one turn, with a number that
//! it made up. The turn ends in front of such a call, and the model makes it when it knows.

use serde_json::Value;
use toolgate_chat::{Message, ToolCall, ToolSpec, Transcript};

use toolgate_chat::names::holds_word;

/// What was said so far, in small letters: what a further call can know.
pub(crate) struct Known(String);

impl Known {
    /// What stands in a conversation, and the values that the tools' own definitions list.
    pub(crate) fn of(transcript: &Transcript, tools: &[ToolSpec]) -> Self {
        let mut known = Self(String::new());
        for message in transcript.iter() {
            match message {
                Message::System(text) | Message::User(text) => known.add(text),
                Message::Assistant { content, calls, .. } => {
                    content.iter().for_each(|text| known.add(text));
                    calls
                        .iter()
                        .flat_map(|call| call.arguments.values())
                        .for_each(|value| known.add_all(value));
                }
                Message::Tool(replies) => replies.iter().for_each(|reply| known.add(&reply.content)),
            }
        }
        tools.iter().for_each(|tool| known.add_listed(&tool.parameters));
        known
    }

    fn add(&mut self, text: &str) {
        self.0.push_str(&text.to_lowercase());
        self.0.push('\n');
    }

    /// A value with all that is in it.
    fn add_all(&mut self, value: &Value) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.add_all(item)),
            Value::Object(fields) => fields.values().for_each(|field| self.add_all(field)),
            Value::String(text) => self.add(text),
            other => self.add(&other.to_string()),
        }
    }

    /// The values that a schema lists.
    fn add_listed(&mut self, schema: &Value) {
        match schema {
            Value::Array(items) => items.iter().for_each(|item| self.add_listed(item)),
            Value::Object(fields) => {
                for (key, value) in fields {
                    match key.as_str() {
                        "enum" | "const" | "default" | "examples" => self.add_all(value),
                        _ => self.add_listed(value),
                    }
                }
            }
            _ => {}
        }
    }

    /// Whether a call need not wait for those in front of it: it says what was said before, or nothing but calls of the same tool
    /// are in front of it, which seldom give what that tool takes.
    pub(crate) fn admits(&self, pending: &[ToolCall], call: &ToolCall) -> bool {
        pending.iter().all(|pending| pending.name == call.name)
            || call.arguments.values().all(|value| self.has_value(value))
    }

    /// Truth values, and what is empty, need not be said; of a text most words have to be: models write "Oslo, Norway" for "Oslo".
    fn has_value(&self, value: &Value) -> bool {
        match value {
            Value::Null | Value::Bool(_) => true,
            Value::Number(number) => holds_word(&self.0, &number.to_string()),
            Value::String(text) => {
                let text = text.to_lowercase();
                let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
                let (said, all) = words.take(MOST).fold((0, 0), |(said, all), word| {
                    (said + usize::from(holds_word(&self.0, word)), all + 1)
                });
                said * 2 >= all
            }
            Value::Array(items) => items.iter().all(|item| self.has_value(item)),
            Value::Object(fields) => fields.values().all(|field| self.has_value(field)),
        }
    }

    /// The calls of a turn up to the first further one that says what nobody has said.
    pub(crate) fn leave(&self, calls: &mut Vec<ToolCall>) {
        let admitted = |at: &usize| match calls.split_at_checked(*at) {
            Some((pending, [call, ..])) => self.admits(pending, call),
            _ => true,
        };
        let left = (0..calls.len()).take_while(admitted).count();
        calls.truncate(left);
    }
}

/// Words of a text that are looked for, the first ones.
const MOST: usize = 64;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::*;

    fn call(name: &str, arguments: Value) -> ToolCall {
        ToolCall::new(name, arguments.as_object().cloned().unwrap())
    }

    #[test]
    fn a_further_call_waits_for_what_nobody_has_said() {
        let parameters = json!({"type": "object", "properties": {
            "id": {"type": "integer", "minimum": 1}, "city": {"type": "string"}, "unit": {"enum": ["miles"]}
        }});
        let tools = [ToolSpec::new("any", "", parameters).unwrap()];
        let asked =
            Transcript::new().with(Message::User("Orders of Vela, and the way to Oslo and Rome?".into()));
        let left = |arguments: &[Value]| {
            let named = |(at, arguments): (usize, &Value)| call(&format!("tool_{at}"), arguments.clone());
            let mut calls: Vec<ToolCall> = arguments.iter().enumerate().map(named).collect();
            Known::of(&asked, &tools).leave(&mut calls);
            calls.len()
        };
        assert_eq!(left(&[json!({"city": "Oslo"}), json!({"city": "Rome"})]), 2);
        assert_eq!(
            left(&[json!({"city": "Oslo"}), json!({"city": "rome", "unit": "miles", "all": true})]),
            2
        );
        assert_eq!(
            left(&[json!({"city": "Vela"}), json!({"id": 1}), json!({"city": "Rome"})]),
            1,
            "it is made up"
        );
        assert_eq!(left(&[json!({"id": 7})]), 1, "the first call is the model's own");
        assert_eq!(left(&[json!({"city": "Vela"}), json!({"city": "Oslo, Norway"})]), 2);
        assert_eq!(left(&[json!({"city": "Vela"}), json!({"city": "C-1001"})]), 1);
        assert_eq!(left(&[]), 0);
        let mut same = vec![call("any", json!({"id": 1})), call("any", json!({"id": 2}))];
        Known::of(&asked, &tools).leave(&mut same);
        assert_eq!(same.len(), 2, "one gives nothing to the other");
    }

    #[test]
    fn what_a_result_gave_can_be_used() {
        let find = call("find", json!({"name": "Vela"}));
        let told = Transcript::new()
            .with(Message::User("Orders of Vela?".into()))
            .with(Message::calls([find.clone()]))
            .with(Message::Tool(vec![toolgate_chat::ToolReply::ok(&find, "id: 512")]));
        let known = Known::of(&told, &[]);
        let orders = |id: i32| known.admits(std::slice::from_ref(&find), &call("orders", json!({"id": id})));
        assert!(orders(512) && !orders(51));
    }
}
