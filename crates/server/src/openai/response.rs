//! Writes a chat completion, whole or chunk by chunk as the turn is made.

use serde_json::{Value, json};
use toolgate_chat::ToolCall;
use toolgate_infer::TurnDecision;

use super::request::{self, Extras};
use crate::api::{Api, Frame, Reply};
use crate::ask::Ask;
use crate::refusal::{Refusal, Why};
use crate::turn::{Finish, Outcome, Step};
use crate::warning::{self, Warning};
use toolgate_engine::TokenLikelihood;

/// The writer of one answer.
pub(crate) struct OpenAi {
    id: String,
    reply: Reply,
    extras: Extras,
    warnings: Vec<Warning>,
    /// Calls of this answer begun so far.
    calls: usize,
    /// Answers in front of this one.
    index: usize,
}

impl Api for OpenAi {
    const CALL: &'static str = "call_";

    fn read(body: &Value, reply: Reply) -> Result<(Ask, Self), Refusal> {
        let (ask, extras) = request::read(body, &reply.usual)?;
        let id = format!("chatcmpl-{}", uuid::Uuid::new_v4().simple());
        Ok((ask, Self { id, reply, extras, warnings: Vec::new(), calls: 0, index: 0 }))
    }

    fn warn(&mut self, warnings: Vec<Warning>) {
        self.warnings.extend(warnings);
    }

    fn refusal(refusal: &Refusal, _: &str) -> Value {
        let mut error = json!({
            "message": refusal.message, "type": kind(refusal.why), "param": refusal.pointer, "code": code(refusal.why),
        });
        add(&mut error, "details", refusal.details.as_deref().cloned());
        json!({ "error": error })
    }

    fn whole(&self, outcome: &Outcome) -> Value {
        let mut body = self.envelope("chat.completion");
        let choice = |(index, outcome): (usize, &Outcome)| {
            let mut choice = json!({
                "index": index, "message": self.message(outcome), "logprobs": self.logprobs(outcome),
                "finish_reason": self.finish(outcome),
            });
            add(&mut choice, "toolgate", outcome.run.clone());
            choice
        };
        add(&mut body, "choices", Some(all(outcome).enumerate().map(choice).collect()));
        add(&mut body, "usage", Some(usage(outcome)));
        add(&mut body, "warnings", warning::body(&self.warnings));
        body
    }

    fn ping() -> Option<Frame> {
        None
    }

    fn frames(&mut self, step: Step) -> Vec<Frame> {
        match step {
            Step::Begun(_, warnings) => {
                self.warn(warnings);
                vec![self.begin(warning::body(&self.warnings))]
            }
            Step::Next(outcome) => {
                let last = self.ended(&outcome);
                (self.calls, self.index) = (0, self.index + 1);
                vec![last, self.begin(None)]
            }
            Step::Reasoning(text) => vec![self.delta(json!({"reasoning_content": text}))],
            Step::Text(text) => vec![self.delta(json!({"content": text}))],
            Step::CallStarted { id, name } => {
                self.calls += 1;
                self.call(json!({"id": id, "type": "function"}), json!({"name": name, "arguments": ""}))
            }
            Step::Arguments(text) => self.call(json!({}), json!({"arguments": text})),
            Step::CallEnded => Vec::new(),
            Step::Ran(event) => vec![self.chunk(json!({
                "index": self.index, "delta": {}, "logprobs": null, "finish_reason": null, "toolgate": event,
            }), None)],
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

    fn chunk(&self, choice: Value, warnings: Option<Value>) -> Frame {
        let mut chunk = self.envelope("chat.completion.chunk");
        add(&mut chunk, "choices", Some(json!([choice])));
        if self.extras.usage {
            add(&mut chunk, "usage", Some(Value::Null));
        }
        add(&mut chunk, "warnings", warnings);
        frame(chunk.to_string())
    }

    /// The first chunk of an answer. The first answer has the warnings in it.
    fn begin(&self, warnings: Option<Value>) -> Frame {
        self.chunk(self.grown(json!({"role": "assistant", "content": ""})), warnings)
    }

    fn delta(&self, delta: Value) -> Frame {
        self.chunk(self.grown(delta), None)
    }

    fn grown(&self, delta: Value) -> Value {
        json!({"index": self.index, "delta": delta, "logprobs": null, "finish_reason": null})
    }

    /// A piece of the call that was begun last, with the call's number. The form before tools has one call.
    fn call(&self, mut piece: Value, function: Value) -> Vec<Frame> {
        let delta = match (self.extras.functions, self.calls) {
            (true, 2..) => return Vec::new(),
            (true, _) => json!({"function_call": function}),
            (false, calls) => {
                add(&mut piece, "function", Some(function));
                add(&mut piece, "index", Some(calls.saturating_sub(1).into()));
                json!({"tool_calls": [piece]})
            }
        };
        vec![self.delta(delta)]
    }

    fn message(&self, outcome: &Outcome) -> Value {
        let mut message = json!({"role": "assistant", "content": outcome.content, "refusal": null});
        add(&mut message, "reasoning_content", outcome.reasoning.clone().map(Value::String));
        let mut calls = outcome.calls.iter().map(ToolCall::to_openai);
        if self.extras.functions {
            let function = calls.next().and_then(|mut call| call.get_mut("function").map(Value::take));
            add(&mut message, "function_call", function);
        } else if !outcome.calls.is_empty() {
            add(&mut message, "tool_calls", Some(calls.collect()));
        }
        message
    }

    fn finish(&self, outcome: &Outcome) -> &'static str {
        match outcome.finish {
            Finish::Calls if self.extras.functions => "function_call",
            _ => outcome.finish.openai(),
        }
    }

    /// The chunk that tells why an answer ended. The whole message stands beside its empty delta. A client
    /// that joins no pieces finds the calls there.
    fn ended(&self, outcome: &Outcome) -> Frame {
        let mut choice = json!({
            "index": self.index, "delta": {}, "message": self.message(outcome), "logprobs": self.logprobs(outcome),
            "finish_reason": self.finish(outcome),
        });
        add(&mut choice, "toolgate", outcome.run.clone());
        self.chunk(choice, None)
    }

    fn last(&self, outcome: &Outcome) -> Vec<Frame> {
        let mut frames = vec![self.ended(outcome)];
        if self.extras.usage {
            let mut chunk = self.envelope("chat.completion.chunk");
            add(&mut chunk, "choices", Some(json!([])));
            add(&mut chunk, "usage", Some(usage(outcome)));
            frames.push(frame(chunk.to_string()));
        }
        frames.push(done());
        frames
    }

    /// The model's probabilities: how likely the tokens of an answer were, and whether the turn is a call.
    fn logprobs(&self, outcome: &Outcome) -> Value {
        if !self.extras.logprobs {
            return Value::Null;
        }
        let content = outcome.content.as_ref().map(|_| likelihoods(outcome));
        let mut told = json!({"content": content, "refusal": null});
        add(&mut told, "call_decision", outcome.decision.as_ref().map(call_decision));
        told
    }
}

/// How likely the tokens of an answer were.
pub(crate) fn likelihoods(outcome: &Outcome) -> Value {
    // The blanks in front of an answer are no part of it.
    let is_blank = |token: &&TokenLikelihood| token.bytes.iter().all(u8::is_ascii_whitespace);
    outcome.likelihoods.iter().skip_while(is_blank).map(likelihood).collect()
}

fn likelihood(token: &TokenLikelihood) -> Value {
    let told = |bytes: &[u8], likely: f64| {
        // The API has no smaller number.
        let likely = likely.max(-9999.0);
        json!({"token": String::from_utf8_lossy(bytes), "logprob": likely, "bytes": bytes})
    };
    let mut value = told(&token.bytes, token.log_probability);
    let top = token.top.iter().map(|(bytes, likely)| told(bytes, *likely)).collect();
    add(&mut value, "top_logprobs", Some(top));
    value
}

/// The answers to a request, in their order.
fn all(last: &Outcome) -> impl Iterator<Item = &Outcome> {
    last.earlier.iter().chain([last])
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

/// The tokens of a request. Its prompt counts once, whatever the number of answers.
fn usage(outcome: &Outcome) -> Value {
    let first = all(outcome).next().map_or(outcome.usage, |first| first.usage);
    let completion: usize = all(outcome).map(|outcome| outcome.usage.completion).sum();
    let reasoning: usize = all(outcome).map(|outcome| outcome.usage.reasoning).sum();
    json!({
        "prompt_tokens": first.prompt, "completion_tokens": completion,
        "total_tokens": first.prompt + completion,
        "prompt_tokens_details": {"cached_tokens": first.cached},
        "completion_tokens_details": {"reasoning_tokens": reasoning},
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
