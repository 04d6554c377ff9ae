//! Writes the items of a response, with the events that tell of them. Each item begins, grows and ends.
//!
//! Invariant: the events of an item add up to the item at its end. A call that was cut off has no end and
//! stands in no response: programs run every call that has an end.

use serde_json::{Value, json};

use super::tools::Members;
use crate::api::Frame;
use crate::openai::likelihoods;
use crate::turn::Outcome;

/// The items so far.
#[derive(Clone, Debug)]
pub(super) struct Output {
    members: Members,
    /// Events told so far.
    events: u64,
    done: Vec<Value>,
    open: Option<Open>,
    /// How likely the tokens of the answer were. It is known at the end.
    likelihoods: Value,
}

/// An item being written.
#[derive(Clone, Debug)]
struct Open {
    kind: Kind,
    id: String,
    /// Its text so far.
    text: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Reasoning,
    Message,
    Call { id: String, name: String },
}

impl Output {
    pub(super) fn new(members: Members) -> Self {
        Self { members, events: 0, done: Vec::new(), open: None, likelihoods: json!([]) }
    }

    /// The items that have ended.
    pub(super) fn items(&self) -> Value {
        self.done.clone().into()
    }

    /// An event, with its name and number.
    pub(super) fn event(&mut self, name: &'static str, mut data: Value) -> Frame {
        if let Some(data) = data.as_object_mut() {
            data.shift_insert(0, "type".to_owned(), name.into());
            data.shift_insert(1, "sequence_number".to_owned(), self.events.into());
        }
        self.events += 1;
        Frame { event: Some(name), data: data.to_string() }
    }

    /// More of what the model thinks.
    pub(super) fn reasoning(&mut self, text: &str) -> Vec<Frame> {
        self.grow(Kind::Reasoning, text)
    }

    /// More of the answer.
    pub(super) fn text(&mut self, text: &str) -> Vec<Frame> {
        self.grow(Kind::Message, text)
    }

    pub(super) fn start_call(&mut self, id: String, name: String) -> Vec<Frame> {
        self.start(Kind::Call { id, name })
    }

    /// More of the arguments of the call that was begun last.
    pub(super) fn arguments(&mut self, text: &str) -> Vec<Frame> {
        self.add(text).into_iter().collect()
    }

    /// Ends the open item.
    pub(super) fn end(&mut self) -> Vec<Frame> {
        self.close("completed")
    }

    /// Ends the last item of a turn. `is_cut` says whether the turn was cut off in it.
    pub(super) fn finish(&mut self, outcome: &Outcome, is_cut: bool) -> Vec<Frame> {
        self.likelihoods = likelihoods(outcome);
        if self.open.as_ref().is_some_and(|open| matches!(open.kind, Kind::Call { .. })) {
            self.open = None;
        }
        self.close(if is_cut { "incomplete" } else { "completed" })
    }

    /// Writes a whole turn.
    pub(super) fn whole(&mut self, outcome: &Outcome, is_cut: bool) {
        self.likelihoods = likelihoods(outcome);
        if let Some(thought) = &outcome.reasoning {
            self.reasoning(thought);
        }
        if let Some(text) = &outcome.content {
            self.text(text);
        }
        for call in &outcome.calls {
            self.start_call(call.id.clone(), call.name.clone());
            self.arguments(&Value::Object(call.arguments.clone()).to_string());
            self.end();
        }
        self.finish(outcome, is_cut);
    }

    /// Adds to the open item, or to a new one of this kind.
    fn grow(&mut self, kind: Kind, text: &str) -> Vec<Frame> {
        let is_open = self.open.as_ref().is_some_and(|open| open.kind == kind);
        let mut frames = if is_open { Vec::new() } else { self.start(kind) };
        frames.extend(self.add(text));
        frames
    }

    /// Begins an item, after the end of the one before.
    fn start(&mut self, kind: Kind) -> Vec<Frame> {
        let mut frames = self.end();
        let id = format!("{}_{}", kind.prefix(), uuid::Uuid::new_v4().simple());
        let open = Open { kind, id, text: String::new() };
        let item = self.item(&open, "in_progress", Vec::new());
        frames.push(self.of_output("response.output_item.added", json!({"item": item})));
        if let Some(part) = open.part(&json!([])) {
            frames.push(self.of_part("response.content_part.added", &open, json!({"part": part})));
        }
        self.open = Some(open);
        frames
    }

    fn add(&mut self, text: &str) -> Option<Frame> {
        let mut open = self.open.take()?;
        open.text.push_str(text);
        let frame = match open.kind {
            Kind::Reasoning => self.of_part("response.reasoning_text.delta", &open, json!({"delta": text})),
            Kind::Message => {
                self.of_part("response.output_text.delta", &open, json!({"delta": text, "logprobs": []}))
            }
            Kind::Call { .. } => {
                let data = json!({"item_id": open.id, "delta": text});
                self.of_output("response.function_call_arguments.delta", data)
            }
        };
        self.open = Some(open);
        Some(frame)
    }

    fn close(&mut self, status: &str) -> Vec<Frame> {
        let Some(open) = self.open.take() else { return Vec::new() };
        let (text, likelihoods) = (&open.text, self.likelihoods.clone());
        let mut frames = Vec::with_capacity(3);
        frames.push(match &open.kind {
            Kind::Reasoning => self.of_part("response.reasoning_text.done", &open, json!({"text": text})),
            Kind::Message => self.of_part(
                "response.output_text.done",
                &open,
                json!({"text": text, "logprobs": likelihoods}),
            ),
            Kind::Call { name, .. } => {
                let name = self.members.get(name).map_or(name.as_str(), |member| &member.name);
                let data = json!({"item_id": open.id, "name": name, "arguments": text});
                self.of_output("response.function_call_arguments.done", data)
            }
        });
        let part = open.part(&likelihoods);
        if let Some(part) = &part {
            frames.push(self.of_part("response.content_part.done", &open, json!({"part": part})));
        }
        let item = self.item(&open, status, part.into_iter().collect());
        frames.push(self.of_output("response.output_item.done", json!({"item": item})));
        self.done.push(item);
        frames
    }

    fn item(&self, open: &Open, status: &str, content: Vec<Value>) -> Value {
        match &open.kind {
            Kind::Reasoning => json!({
                "id": open.id, "type": "reasoning", "status": status, "summary": [], "content": content,
            }),
            Kind::Message => json!({
                "id": open.id, "type": "message", "status": status, "role": "assistant", "content": content,
            }),
            Kind::Call { id, name } => {
                let member = self.members.get(name);
                let mut item = json!({
                    "id": open.id, "type": "function_call", "status": status, "call_id": id,
                    "name": member.map_or(name.as_str(), |member| &member.name), "arguments": open.text,
                });
                if let (Some(item), Some(member)) = (item.as_object_mut(), member) {
                    item.insert("namespace".to_owned(), member.namespace.as_str().into());
                }
                item
            }
        }
    }

    /// An event of the open item.
    fn of_output(&mut self, name: &'static str, mut data: Value) -> Frame {
        if let Some(data) = data.as_object_mut() {
            data.insert("output_index".to_owned(), self.done.len().into());
        }
        self.event(name, data)
    }

    /// An event of its only part.
    fn of_part(&mut self, name: &'static str, open: &Open, mut data: Value) -> Frame {
        if let Some(data) = data.as_object_mut() {
            data.insert("item_id".to_owned(), open.id.as_str().into());
            data.insert("content_index".to_owned(), 0.into());
        }
        self.of_output(name, data)
    }
}

impl Kind {
    fn prefix(&self) -> &'static str {
        match self {
            Self::Reasoning => "rs",
            Self::Message => "msg",
            Self::Call { .. } => "fc",
        }
    }
}

impl Open {
    /// The part that holds its text.
    fn part(&self, likelihoods: &Value) -> Option<Value> {
        match self.kind {
            Kind::Reasoning => Some(json!({"type": "reasoning_text", "text": self.text})),
            Kind::Message => Some(json!({
                "type": "output_text", "text": self.text, "annotations": [], "logprobs": likelihoods,
            })),
            Kind::Call { .. } => None,
        }
    }
}
