//! First part of learning about thinking: a template and the short conversations it is tried with.
//!
//! Invariant: a template is rendered no more than [`RENDERS`] times, in [`FUEL`] steps each.

use std::cell::Cell;

use serde_json::{Map, Value, json};

use super::{Field, Spot};
use crate::format::{definition, probes};
use crate::template::{DateTime, Ending, Render, Template};

/// Renderings of a template. Most take some dozens, the one with most switches under 200.
const RENDERS: usize = 400;
/// Steps of a rendering; a short conversation takes some thousand.
const FUEL: u64 = 200_000;
/// Bytes of a rendering that is looked at.
const LONGEST: usize = 1 << 20;

pub(super) const QUESTION: &str = "Zprobe of a question";
pub(super) const ANSWER: &str = "Zprobe of an answer";
const SYSTEM: &str = "Zprobe of a system message";
const RESULT: &str = "Zprobe of a result";

/// A template, how it is given calls, and the renderings that are left.
pub(super) struct Probe {
    pub(super) template: Template,
    calls: Option<Calls>,
    left: Cell<usize>,
}

/// The prompts for a first turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Prompts {
    /// After a question alone.
    pub(super) alone: Option<String>,
    /// After a system message and a question.
    pub(super) with_system: Option<String>,
}

/// How a message holds calls.
#[derive(Clone, Copy)]
struct Calls {
    as_text: bool,
    content: Option<&'static str>,
}

impl Prompts {
    /// The one that stands for both: some templates have no place for a system message, some want one.
    pub(super) fn shown(&self) -> Option<&str> {
        self.alone.as_deref().or(self.with_system.as_deref())
    }

    /// What stands in front of the model's turn.
    pub(super) fn told(&self) -> [Option<&str>; 2] {
        [&self.alone, &self.with_system].map(|text| {
            let text = text.as_deref()?;
            text.rfind(QUESTION).and_then(|at| text.get(..at)).or(Some(text))
        })
    }
}

impl Probe {
    pub(super) fn new(template: &Template) -> Self {
        let mut probe = Self { template: template.with_fuel(FUEL), calls: None, left: Cell::new(RENDERS) };
        let forms = [(false, Some("")), (true, Some("")), (false, None), (true, None)];
        probe.calls = forms.into_iter().map(|(as_text, content)| Calls { as_text, content }).find(|calls| {
            let messages = probe.run(None, Some(*calls));
            let text = probe.render(&messages, &Value::Null, Ending::Generation);
            text.is_some_and(|text| text.contains(RESULT) && text.contains("probe_tool"))
        });
        probe
    }

    /// The prompts for a first turn with these variables.
    pub(super) fn prompts(&self, extra: &Value) -> Prompts {
        let user = json!({"role": "user", "content": QUESTION});
        let system = json!({"role": "system", "content": SYSTEM});
        Prompts {
            alone: self.render(std::slice::from_ref(&user), extra, Ending::Generation),
            with_system: self.render(&[system, user], extra, Ending::Generation),
        }
    }

    /// A question and its answer, with a thought in the field or without.
    pub(super) fn answered(&self, field: Option<Field>, extra: &Value) -> Option<String> {
        let messages = [json!({"role": "user", "content": QUESTION}), answer(field, Spot::Answer)];
        self.render(&messages, extra, Ending::Closed)
    }

    /// A conversation with a thought in each place, once up to results and once up to the last answer.
    pub(super) fn conversations(&self, field: Field, extra: &Value) -> [Option<String>; 2] {
        let mut messages = self.run(Some(field), self.calls);
        let open = self.render(&messages, extra, Ending::Generation);
        messages.push(answer(Some(field), Spot::Answer));
        [open, self.render(&messages, extra, Ending::Closed)]
    }

    fn run(&self, field: Option<Field>, calls: Option<Calls>) -> Vec<Value> {
        let user = || json!({"role": "user", "content": QUESTION});
        let call = |spot| calls.into_iter().flat_map(move |calls| called(field, calls, spot));
        let mut messages = vec![user()];
        messages.extend(call(Spot::EarlierCall));
        messages.push(answer(field, Spot::EarlierAnswer));
        messages.push(user());
        messages.extend(call(Spot::RunCall));
        messages.extend(call(Spot::LastCall));
        messages
    }

    fn render(&self, messages: &[Value], extra: &Value, ending: Ending) -> Option<String> {
        self.left.set(self.left.get().checked_sub(1)?);
        let calls = messages.iter().any(|message| message.get("tool_calls").is_some());
        let [called, _] = probes();
        let tools = if calls { vec![definition(&called)] } else { Vec::new() };
        let now = Some(DateTime::constant(2026, 1, 1, 12, 0, 0, 0));
        let extra = extra.clone();
        let rendered = self.template.render(&Render { messages, tools: &tools, ending, now, extra }).ok();
        rendered.filter(|text| text.len() <= LONGEST)
    }
}

/// The thought of a place, which occurs nowhere else.
pub(super) fn thought(spot: Spot) -> String {
    format!("Zthought{spot:?}Z")
}

fn answer(field: Option<Field>, spot: Spot) -> Value {
    let mut message = Map::new();
    message.insert("role".to_owned(), "assistant".into());
    message.insert("content".to_owned(), ANSWER.into());
    thinking(&mut message, field, spot);
    Value::Object(message)
}

/// A message with a call, and its result.
fn called(field: Option<Field>, calls: Calls, spot: Spot) -> [Value; 2] {
    let [call, _] = probes();
    let arguments = Value::Object(call.arguments.clone());
    let arguments = if calls.as_text { crate::json::spaced(&arguments).into() } else { arguments };
    let mut message = Map::new();
    message.insert("role".to_owned(), "assistant".into());
    message.insert("content".to_owned(), calls.content.into());
    thinking(&mut message, field, spot);
    let made =
        json!([{"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}]);
    message.insert("tool_calls".to_owned(), made);
    let result = json!({"role": "tool", "name": call.name, "tool_call_id": call.id, "content": RESULT});
    [Value::Object(message), result]
}

fn thinking(message: &mut Map<String, Value>, field: Option<Field>, spot: Spot) {
    let thought = thought(spot);
    match field {
        None => {}
        Some(Field::Chunk) => {
            let text = message.get("content").and_then(Value::as_str).unwrap_or_default().to_owned();
            let mut chunks = vec![json!({"type": "thinking", "thinking": thought})];
            if !text.is_empty() {
                chunks.push(json!({"type": "text", "text": text}));
            }
            message.insert("content".to_owned(), chunks.into());
        }
        Some(field) => {
            message.insert(field.name().to_owned(), thought.into());
        }
    }
}
