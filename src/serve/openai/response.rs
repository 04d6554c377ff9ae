//! A chat completion written whole, or chunk by chunk as the turn is made.

use serde_json::{Value, json};
use toolgate_chat::ToolCall;
use toolgate_infer::TurnDecision;

use super::request::{self, Extras};
use crate::serve::api::{Api, Frame, Reply};
use crate::serve::ask::Ask;
use crate::serve::refusal::{Refusal, Why};
use crate::serve::turn::{Outcome, Step, Usage};

/// The writer of one answer.
pub(in crate::serve) struct OpenAi {
    id: String,
    reply: Reply,
    extras: Extras,
    /// Calls begun so far.
    calls: usize,
}

impl Api for OpenAi {
    const CALL: &'static str = "call_";

    fn read(body: &Value, reply: Reply) -> Result<(Ask, Self), Refusal> {
        let (ask, extras) = request::read(body)?;
        let id = format!("chatcmpl-{}", uuid::Uuid::new_v4().simple());
        Ok((ask, Self { id, reply, extras, calls: 0 }))
    }

    fn refusal(refusal: &Refusal, _: &str) -> Value {
        json!({"error": {
            "message": refusal.message, "type": kind(refusal.why), "param": refusal.pointer, "code": code(refusal.why),
        }})
    }

    fn whole(&self, outcome: &Outcome) -> Value {
        let mut body = self.envelope("chat.completion");
        let mut choice = json!({
            "index": 0, "message": message(outcome), "logprobs": self.logprobs(outcome),
            "finish_reason": outcome.finish.openai(),
        });
        add(&mut choice, "toolgate", outcome.run.clone());
        add(&mut body, "choices", Some(json!([choice])));
        add(&mut body, "usage", Some(usage(outcome.usage)));
        body
    }

    fn ping() -> Option<Frame> {
        None
    }

    fn frames(&mut self, step: Step) -> Vec<Frame> {
        match step {
            Step::Begun(_) => vec![self.delta(json!({"role": "assistant", "content": ""}))],
            Step::Reasoning(text) => vec![self.delta(json!({"reasoning_content": text}))],
            Step::Text(text) => vec![self.delta(json!({"content": text}))],
            Step::CallStarted { id, name } => {
                self.calls += 1;
                let function = json!({"name": name, "arguments": ""});
                vec![self.call(json!({"id": id, "type": "function", "function": function}))]
            }
            Step::Arguments(text) => vec![self.call(json!({"function": {"arguments": text}}))],
            Step::CallEnded => Vec::new(),
            Step::Ran(event) => vec![self.chunk(json!({
                "index": 0, "delta": {}, "logprobs": null, "finish_reason": null, "toolgate": event,
            }))],
            Step::Done(outcome) => self.last(&outcome),
            Step::Failed(refusal) => {
                vec![frame(Self::refusal(&refusal, &self.reply.request).to_string()), done()]
            }
        }
    }
}

impl OpenAi {
    fn envelope(&self, object: &str) -> Value {
        json!({"id": self.id, "object": object, "created": self.reply.created, "model": self.reply.model})
    }

    fn chunk(&self, choice: Value) -> Frame {
        let mut chunk = self.envelope("chat.completion.chunk");
        add(&mut chunk, "choices", Some(json!([choice])));
        if self.extras.usage {
            add(&mut chunk, "usage", Some(Value::Null));
        }
        frame(chunk.to_string())
    }

    fn delta(&self, delta: Value) -> Frame {
        self.chunk(json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": null}))
    }

    /// A piece of the call that was begun last.
    fn call(&self, mut piece: Value) -> Frame {
        add(&mut piece, "index", Some(self.calls.saturating_sub(1).into()));
        self.delta(json!({"tool_calls": [piece]}))
    }

    /// The chunk that tells why it ended, with the whole message beside its empty delta: who joins no pieces finds the
    /// calls there.
    fn last(&self, outcome: &Outcome) -> Vec<Frame> {
        let mut choice = json!({
            "index": 0, "delta": {}, "message": message(outcome), "logprobs": self.logprobs(outcome),
            "finish_reason": outcome.finish.openai(),
        });
        add(&mut choice, "toolgate", outcome.run.clone());
        let mut frames = vec![self.chunk(choice)];
        if self.extras.usage {
            let mut chunk = self.envelope("chat.completion.chunk");
            add(&mut chunk, "choices", Some(json!([])));
            add(&mut chunk, "usage", Some(usage(outcome.usage)));
            frames.push(frame(chunk.to_string()));
        }
        frames.push(done());
        frames
    }

    /// What was read from the model's probabilities: whether the turn is a call. Single tokens are not reported.
    fn logprobs(&self, outcome: &Outcome) -> Value {
        match &outcome.decision {
            Some(decision) if self.extras.logprobs => {
                json!({"content": null, "refusal": null, "call_decision": call_decision(decision)})
            }
            _ => Value::Null,
        }
    }
}

fn call_decision(decision: &TurnDecision) -> Value {
    let top: Vec<Value> = decision
        .top
        .iter()
        .map(|(token, p)| json!({"token": token, "logprob": p.ln(), "bytes": token.as_bytes()}))
        .collect();
    json!({
        "call": decision.call, "p_call": decision.p_call, "logprob": decision.p_call.ln(),
        "threshold": decision.threshold, "top_logprobs": top,
    })
}

fn message(outcome: &Outcome) -> Value {
    let mut message = json!({"role": "assistant", "content": outcome.content, "refusal": null});
    add(&mut message, "reasoning_content", outcome.reasoning.clone().map(Value::String));
    let calls = (!outcome.calls.is_empty()).then(|| outcome.calls.iter().map(ToolCall::to_openai).collect());
    add(&mut message, "tool_calls", calls);
    message
}

fn usage(usage: Usage) -> Value {
    json!({
        "prompt_tokens": usage.prompt, "completion_tokens": usage.completion,
        "total_tokens": usage.prompt + usage.completion,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
    })
}

fn add(object: &mut Value, key: &str, value: Option<Value>) {
    if let (Some(object), Some(value)) = (object.as_object_mut(), value) {
        object.insert(key.to_owned(), value);
    }
}

fn frame(data: String) -> Frame {
    Frame { event: None, data }
}

fn done() -> Frame {
    frame("[DONE]".to_owned())
}

fn kind(why: Why) -> &'static str {
    match why {
        Why::Busy => "rate_limit_error",
        Why::Internal | Why::Stopping | Why::Late => "server_error",
        Why::Forbidden => "permission_error",
        _ => "invalid_request_error",
    }
}

fn code(why: Why) -> Option<&'static str> {
    match why {
        Why::TooLong => Some("context_length_exceeded"),
        Why::Key => Some("invalid_api_key"),
        Why::Model => Some("model_not_found"),
        Why::Previous => Some("previous_response_not_found"),
        Why::Busy => Some("rate_limit_exceeded"),
        Why::Late => Some("timeout"),
        Why::Stopping => Some("shutting_down"),
        Why::Large => Some("request_too_large"),
        _ => None,
    }
}
