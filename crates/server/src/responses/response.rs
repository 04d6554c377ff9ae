//! Writes a response, whole or event by event as the turn is made, and keeps it if the request asks for that.

use serde_json::{Map, Value, json};

use super::output::Output;
use super::request;
use super::store::Item;
use crate::api::{Api, Frame, Reply};
use crate::ask::Ask;
use crate::openai::OpenAi;
use crate::refusal::{Refusal, Why};
use crate::server::now;
use crate::turn::{Finish, Outcome, Step, Usage};
use crate::warning::{self, Warning};

/// The writer of one response.
pub(crate) struct Responses {
    id: String,
    reply: Reply,
    /// The fields that it repeats of its request.
    echo: Map<String, Value>,
    /// The items that it answers, if it is to be kept.
    kept: Option<Vec<Item>>,
    output: Output,
    warnings: Vec<Warning>,
    is_begun: bool,
}

/// The state of a response.
enum State<'a> {
    Writing,
    Done(&'a Outcome),
    Failed(&'a Refusal),
}

impl Api for Responses {
    const CALL: &'static str = "call_";

    fn read(body: &Value, reply: Reply) -> Result<(Ask, Self), Refusal> {
        let request::Asked { ask, members, echo, kept } =
            request::read(body, &reply.responses, &reply.usual)?;
        let id = format!("resp_{}", uuid::Uuid::new_v4().simple());
        Ok((
            ask,
            Self {
                id,
                reply,
                echo,
                kept,
                output: Output::new(members),
                warnings: Vec::new(),
                is_begun: false,
            },
        ))
    }

    fn warn(&mut self, warnings: Vec<Warning>) {
        self.warnings.extend(warnings);
        self.echo.extend(warning::body(&self.warnings).map(|told| ("warnings".to_owned(), told)));
    }

    fn refusal(refusal: &Refusal, request: &str) -> Value {
        OpenAi::refusal(refusal, request)
    }

    fn whole(&self, outcome: &Outcome) -> Value {
        let mut output = self.output.clone();
        output.whole(outcome, outcome.finish == Finish::Length);
        let response = self.response(&output, &State::Done(outcome));
        self.keep(&response);
        response
    }

    /// Some clients take no event before that of the response.
    fn awaited(&mut self) -> Vec<Frame> {
        self.begin()
    }

    /// The API's reference has no such event, but OpenAI's servers send this one. Codex gives up on a stream
    /// that has no event for five minutes. A long prompt may take as long.
    fn ping() -> Option<Frame> {
        Some(Frame { event: Some("keepalive"), data: json!({"type": "keepalive"}).to_string() })
    }

    fn frames(&mut self, step: Step) -> Vec<Frame> {
        match step {
            Step::Begun(_, warnings) => {
                self.warn(warnings);
                self.begin()
            }
            Step::Reasoning(text) => self.output.reasoning(&text),
            Step::Text(text) => self.output.text(&text),
            Step::CallStarted { id, name } => self.output.start_call(id, name),
            Step::Arguments(text) => self.output.arguments(&text),
            Step::CallEnded => self.output.end(),
            // The API has one answer to a request.
            Step::Next(_) => Vec::new(),
            // Clients ignore a field that they do not know. They do not ignore an event of another name.
            Step::Ran(event) => {
                let mut response = self.response(&self.output, &State::Writing);
                add(&mut response, "toolgate", event);
                vec![self.output.event("response.in_progress", json!({"response": response}))]
            }
            Step::Done(outcome) => {
                let is_cut = outcome.finish == Finish::Length;
                let mut frames = self.output.finish(&outcome, is_cut);
                let response = self.response(&self.output, &State::Done(&outcome));
                self.keep(&response);
                let name = if is_cut { "response.incomplete" } else { "response.completed" };
                frames.push(self.output.event(name, json!({"response": response})));
                frames
            }
            Step::Failed(refusal) => {
                let mut frames = self.begin();
                let response = self.response(&self.output, &State::Failed(&refusal));
                frames.push(self.output.event("response.failed", json!({"response": response})));
                frames
            }
        }
    }
}

impl Responses {
    /// The first events. They come once.
    fn begin(&mut self) -> Vec<Frame> {
        if std::mem::replace(&mut self.is_begun, true) {
            return Vec::new();
        }
        let response = self.response(&self.output, &State::Writing);
        ["response.created", "response.in_progress"]
            .map(|name| self.output.event(name, json!({"response": response})))
            .into()
    }

    fn response(&self, output: &Output, state: &State<'_>) -> Value {
        let (status, incomplete, error, usage) = match state {
            State::Writing => ("in_progress", Value::Null, Value::Null, Value::Null),
            State::Done(outcome) if outcome.finish == Finish::Length => (
                "incomplete",
                json!({"reason": "max_output_tokens"}),
                Value::Null,
                self::usage(outcome.usage),
            ),
            State::Done(outcome) => ("completed", Value::Null, Value::Null, self::usage(outcome.usage)),
            State::Failed(refusal) => {
                let error = json!({"code": code(refusal.why), "message": refusal.message});
                ("failed", Value::Null, error, Value::Null)
            }
        };
        let completed_at = match status {
            "completed" => now().into(),
            _ => Value::Null,
        };
        let mut response = json!({
            "id": self.id, "object": "response", "created_at": self.reply.created, "completed_at": completed_at,
            "status": status, "incomplete_details": incomplete, "error": error, "model": self.reply.model,
            "output": output.items(), "usage": usage,
        });
        if let Some(response) = response.as_object_mut() {
            response.extend(self.echo.clone());
        }
        if let State::Done(Outcome { run: Some(run), .. }) = state {
            add(&mut response, "toolgate", run.clone());
        }
        response
    }

    fn keep(&self, response: &Value) {
        if let Some(conversation) = &self.kept {
            self.reply.responses.keep(&self.id, response, conversation.clone());
        }
    }
}

fn add(response: &mut Value, key: &str, value: Value) {
    if let Some(response) = response.as_object_mut() {
        response.insert(key.to_owned(), value);
    }
}

fn usage(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.prompt,
        "input_tokens_details": {"cached_tokens": usage.cached, "cache_write_tokens": 0},
        "output_tokens": usage.completion,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.prompt + usage.completion,
    })
}

/// The code of a failure of a response that has begun. By it programs ask again, or do not.
fn code(why: Why) -> &'static str {
    match why {
        Why::TooLong => "context_length_exceeded",
        Why::Busy => "rate_limit_exceeded",
        Why::Late | Why::Slow | Why::Stopping | Why::Internal => "server_error",
        _ => "invalid_prompt",
    }
}
