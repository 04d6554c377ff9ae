//! Writes a message, whole or event by event as the turn is made. Each block of content begins, grows and
//! ends.

use serde_json::{Value, json};

use super::request;
use crate::api::{Api, Frame, Reply};
use crate::ask::Ask;
use crate::refusal::{Refusal, Why};
use crate::turn::{Finish, Outcome, Step, Usage};
use crate::warning::{self, Warning};

/// The writer of one answer.
pub(crate) struct Anthropic {
    id: String,
    reply: Reply,
    warnings: Vec<Warning>,
    /// Blocks that have ended.
    blocks: usize,
    open: Option<Block>,
}

/// The signature of thoughts. Nobody checks it here. But programs send thoughts back only with one.
const SIGNATURE: &str = "toolgate";

/// The kinds of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Block {
    Thinking,
    Text,
    Call,
}

impl Api for Anthropic {
    const CALL: &'static str = "toolu_";

    fn read(body: &Value, reply: Reply) -> Result<(Ask, Self), Refusal> {
        let id = format!("msg_{}", uuid::Uuid::new_v4().simple());
        Ok((
            request::read(body, &reply.usual)?,
            Self { id, reply, warnings: Vec::new(), blocks: 0, open: None },
        ))
    }

    fn warn(&mut self, warnings: Vec<Warning>) {
        self.warnings.extend(warnings);
    }

    fn refusal(refusal: &Refusal, request: &str) -> Value {
        let mut error = json!({"type": kind(refusal.why), "message": refusal.message});
        if let (Some(error), Some(details)) = (error.as_object_mut(), &refusal.details) {
            error.insert("details".to_owned(), (**details).clone());
        }
        json!({"type": "error", "error": error, "request_id": request})
    }

    fn whole(&self, outcome: &Outcome) -> Value {
        let mut content = Vec::new();
        if let Some(thought) = &outcome.reasoning {
            content.push(json!({"type": "thinking", "thinking": thought, "signature": SIGNATURE}));
        }
        if let Some(text) = &outcome.content {
            content.push(json!({"type": "text", "text": text}));
        }
        for call in &outcome.calls {
            content
                .push(json!({"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}));
        }
        let mut message = self.message(content, outcome.usage);
        let end = ending(&outcome.finish);
        let more = [("stop_reason", end[0].clone()), ("stop_sequence", end[1].clone())];
        if let Some(message) = message.as_object_mut() {
            message.extend(more.map(|(key, value)| (key.to_owned(), value)));
            message.extend(outcome.run.clone().map(|run| ("toolgate".to_owned(), run)));
        }
        message
    }

    fn ping() -> Option<Frame> {
        Some(frame("ping", json!({})))
    }

    fn frames(&mut self, step: Step) -> Vec<Frame> {
        match step {
            Step::Begun(usage, warnings) => {
                self.warn(warnings);
                vec![
                    frame("message_start", json!({"message": self.message(Vec::new(), usage)})),
                    frame("ping", json!({})),
                ]
            }
            Step::Reasoning(text) => {
                self.grow(Block::Thinking, json!({"type": "thinking_delta", "thinking": text}))
            }
            Step::Text(text) => self.grow(Block::Text, json!({"type": "text_delta", "text": text})),
            Step::CallStarted { id, name } => {
                let block = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
                self.start(Block::Call, block)
            }
            Step::Arguments(text) => {
                self.grow(Block::Call, json!({"type": "input_json_delta", "partial_json": text}))
            }
            Step::CallEnded => self.end(),
            // The API has one answer to a request.
            Step::Next(_) => Vec::new(),
            // An event with a name that the API does not have would end the stream for some clients.
            Step::Ran(event) => vec![frame("ping", json!({"toolgate": event}))],
            Step::Done(outcome) => self.last(&outcome),
            Step::Failed(refusal) => {
                let data = Self::refusal(&refusal, &self.reply.request).to_string();
                vec![Frame { event: Some("error"), data }]
            }
        }
    }
}

impl Anthropic {
    fn message(&self, content: Vec<Value>, usage: Usage) -> Value {
        let mut message = json!({
            "id": self.id, "type": "message", "role": "assistant", "model": self.reply.model, "content": content,
            "stop_reason": null, "stop_sequence": null, "usage": self::usage(usage),
        });
        if let Some(message) = message.as_object_mut() {
            message.extend(warning::body(&self.warnings).map(|told| ("warnings".to_owned(), told)));
        }
        message
    }

    /// Begins a block, after the end of the one before.
    fn start(&mut self, kind: Block, block: Value) -> Vec<Frame> {
        let mut frames = self.end();
        self.open = Some(kind);
        frames.push(frame("content_block_start", json!({"index": self.blocks, "content_block": block})));
        frames
    }

    /// Adds to the open block, or to a new one of this kind.
    fn grow(&mut self, kind: Block, delta: Value) -> Vec<Frame> {
        let mut frames = match (self.open == Some(kind), kind) {
            (true, _) | (false, Block::Call) => Vec::new(),
            (false, Block::Text) => self.start(kind, json!({"type": "text", "text": ""})),
            (false, Block::Thinking) => {
                self.start(kind, json!({"type": "thinking", "thinking": "", "signature": ""}))
            }
        };
        frames.push(frame("content_block_delta", json!({"index": self.blocks, "delta": delta})));
        frames
    }

    fn end(&mut self) -> Vec<Frame> {
        let Some(ended) = self.open.take() else { return Vec::new() };
        let index = self.blocks;
        self.blocks += 1;
        let signature = json!({"type": "signature_delta", "signature": SIGNATURE});
        let signed = (ended == Block::Thinking)
            .then(|| frame("content_block_delta", json!({"index": index, "delta": signature})));
        signed.into_iter().chain([frame("content_block_stop", json!({ "index": index }))]).collect()
    }

    fn last(&mut self, outcome: &Outcome) -> Vec<Frame> {
        let mut frames = self.end();
        let end = ending(&outcome.finish);
        let mut delta = json!({
            "delta": {"stop_reason": end[0], "stop_sequence": end[1]}, "usage": usage(outcome.usage),
        });
        if let (Some(delta), Some(run)) = (delta.as_object_mut(), &outcome.run) {
            delta.insert("toolgate".to_owned(), run.clone());
        }
        frames.push(frame("message_delta", delta));
        frames.push(frame("message_stop", json!({})));
        frames
    }
}

/// Stop reason and stop sequence.
fn ending(finish: &Finish) -> [Value; 2] {
    match finish {
        Finish::End => ["end_turn".into(), Value::Null],
        Finish::Stop(text) => ["stop_sequence".into(), text.as_str().into()],
        Finish::Calls => ["tool_use".into(), Value::Null],
        Finish::Length => ["max_tokens".into(), Value::Null],
    }
}

/// The tokens of a turn. Input does not count what was read from the cache.
fn usage(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.prompt.saturating_sub(usage.cached), "output_tokens": usage.completion,
        "cache_read_input_tokens": usage.cached, "cache_creation_input_tokens": 0,
    })
}

/// An event. Its data repeats its name.
fn frame(event: &'static str, mut data: Value) -> Frame {
    if let Some(data) = data.as_object_mut() {
        data.shift_insert(0, "type".to_owned(), event.into());
    }
    Frame { event: Some(event), data: data.to_string() }
}

/// A time as this API writes it, from seconds since 1970.
pub(crate) fn time(seconds: u64) -> String {
    let seconds = i64::try_from(seconds).unwrap_or_default();
    jiff::Timestamp::from_second(seconds).unwrap_or_default().to_string()
}

fn kind(why: Why) -> &'static str {
    match why {
        Why::Key => "authentication_error",
        Why::Forbidden => "permission_error",
        Why::Address | Why::Model => "not_found_error",
        Why::Large => "request_too_large",
        Why::Busy => "rate_limit_error",
        Why::Stopping => "overloaded_error",
        Why::Late | Why::Slow => "timeout_error",
        Why::Internal => "api_error",
        Why::Invalid | Why::TooLong | Why::Previous | Why::Method | Why::Media => "invalid_request_error",
    }
}
