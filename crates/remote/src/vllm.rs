//! vLLM: chat completions under `structured_outputs`. It does not report its template. So the system prompt describes the tools,
//! and calls and results are texts in the generic form, which any template can show.

use std::ops::ControlFlow;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use toolgate_chat::format::Family;
use toolgate_chat::{Dialogue, Prompt, PromptOptions, Template, TemplateTokens, ToolSpec, Transcript};
use toolgate_engine::stages::ReasoningPlan;
use toolgate_engine::{self as engine, Cancel, Sampling, TurnRequest};
use toolgate_infer::StopReason;

use super::constrained::{Server, Thinking, Writing};
use super::http::Client;
use super::llama::rooted;
use super::wire::{self, THOUGHTS, Usage, Written, text_of};
use crate::{Error, Kind};

/// Messages as the JSON of a chat completion: what a template can show of them, and no more.
const MESSAGES: &str = "[{% for m in messages %}{{ {'role': m.role, 'content': m.content} | tojson }}\
    {% if not loop.last %},{% endif %}{% endfor %}]";

/// As many as vLLM tells unless it was started otherwise.
const LIKELIEST: usize = 20;

/// The field that says that the last message is gone on with.
const GOES_ON: &str = "continue_final_message";

/// vLLM and its model.
pub(super) struct Vllm {
    client: Arc<Client>,
    model: String,
    dialogue: Dialogue,
}

impl Vllm {
    pub(super) fn new(client: Arc<Client>, model: String) -> Result<Self, Error> {
        let template = Template::new(MESSAGES, TemplateTokens::default())?;
        Ok(Self { client, model, dialogue: Dialogue::new(template, Arc::new(Family::generic())) })
    }

    /// The tokens that an answer tells probabilities of, and what that cost: looking at a token is not writing it.
    fn looked_at(
        &self,
        answer: &Value,
        tokens: Option<Vec<(String, f64)>>,
    ) -> Result<(Vec<(String, f64)>, Usage), Error> {
        let mut usage = Usage::default();
        usage.note(answer);
        usage.written_tokens = 0;
        let untold =
            || Error::new(Kind::Engine, format!("{} tells no probabilities of tokens", self.client.root()));
        Ok((tokens.ok_or_else(untold)?, usage))
    }

    /// The fields of a request that make its prompt, with those that tell how much the model thinks.
    fn prompted(prompt: &Prompt) -> Result<Map<String, Value>, Error> {
        serde_json::from_str(&prompt.text())
            .map_err(|why| Error::new(Kind::Engine, format!("the messages are no JSON: {why}")))
    }

    /// The same as a prompt.
    fn prompt_of(fields: Map<String, Value>) -> Prompt {
        Prompt { pieces: vec![Value::Object(fields).to_string()], ..Prompt::default() }
    }

    /// What the server writes on a request. `each` is told its thoughts and its text as they come, and may break it off.
    fn written(
        &self,
        body: Map<String, Value>,
        cancel: &Cancel,
        each: &mut dyn FnMut(&mut Written, &str, &str) -> ControlFlow<()>,
    ) -> Result<Written, Error> {
        let mut written = Written::default();
        self.client.chat_stream(&body.into(), cancel, &mut |event| {
            written.usage.note(event);
            let Some(choice) = event.pointer("/choices/0") else { return Ok(ControlFlow::Continue(())) };
            let delta = |field| choice.get("delta").and_then(|delta| text_of(delta, field));
            let thought = THOUGHTS.into_iter().find_map(delta).unwrap_or_default();
            let text = delta("content").unwrap_or_default();
            if each(&mut written, thought, text).is_break() {
                written.stop = Some(StopReason::End);
                return Ok(ControlFlow::Break(()));
            }
            if let Some(finish) = text_of(choice, "finish_reason") {
                written.stop = Some(wire::stop_of(finish));
                written.ended_by = text_of(choice, "stop_reason").map(str::to_owned);
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(written)
    }
}

impl Server for Vllm {
    fn kind(&self) -> &'static str {
        "vllm"
    }

    fn dialogue(&self) -> &Dialogue {
        &self.dialogue
    }

    fn plan(&self, options: &engine::Options, request: &TurnRequest<'_>) -> Result<ReasoningPlan, Error> {
        Ok(ReasoningPlan::untold(options, request))
    }

    fn prompt(
        &self,
        transcript: &Transcript,
        tools: &[ToolSpec],
        options: &PromptOptions,
        sampling: &Sampling,
    ) -> Result<Prompt, Error> {
        let rendered = self.dialogue.prompt(transcript, tools, &PromptOptions::default())?;
        let messages: Value = serde_json::from_str(&rendered.text())
            .map_err(|why| Error::new(Kind::Engine, format!("the messages are no JSON: {why}")))?;
        let mut fields = wire::thoughts(sampling);
        fields.insert("messages".to_owned(), messages);
        let prompt = Self::prompt_of(fields);
        match &options.begun {
            Some(begun) => self.behind(&prompt, std::slice::from_ref(begun)),
            None => Ok(prompt),
        }
    }

    /// What the model has written is the last message, which it goes on with.
    fn behind(&self, prompt: &Prompt, written: &[String]) -> Result<Prompt, Error> {
        let mut fields = Self::prompted(prompt)?;
        let is_begun = fields.contains_key(GOES_ON);
        if let Some(messages) = fields.get_mut("messages").and_then(Value::as_array_mut) {
            let begun = messages.pop_if(|_| is_begun);
            let begun = begun.as_ref().and_then(|message| text_of(message, "content")).unwrap_or_default();
            messages.push(json!({"role": "assistant", "content": format!("{begun}{}", written.concat())}));
        }
        fields.extend(wire::going_on());
        Ok(Self::prompt_of(fields))
    }

    /// The server is left to open the thought as its template has it. Where it has a parser of thoughts, it tells them apart itself.
    fn think(
        &self,
        prompt: &Prompt,
        thinking: &Thinking<'_>,
        cancel: &Cancel,
        piece: &mut dyn FnMut(&str),
    ) -> Result<Written, Error> {
        let Thinking { open, close, stops, sampling } = thinking;
        let mut body = wire::chat_body(&self.model, sampling);
        body.extend(Self::prompted(prompt)?);
        body.insert("stop".to_owned(), json!(stops));
        let open = open.unwrap_or_default();
        let mut written = self.written(body, cancel, &mut |written, thought, text| {
            if !thought.is_empty() {
                written.reasoning.push_str(thought);
                piece(thought);
            }
            written.text.push_str(text);
            // Behind a thought that the server tells apart comes what is written under a grammar.
            let is_over = !written.reasoning.is_empty() && !written.text.trim().is_empty();
            if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        let text = std::mem::take(&mut written.text);
        if written.reasoning.is_empty() {
            let opened = text.trim_start().strip_prefix(open.trim());
            let is_closed = written.ended_by.as_deref() == Some(*close);
            // Text that no mark opened or closed is an answer: it is asked for once more, under its grammar.
            written.reasoning = match opened {
                Some(thought) if !open.is_empty() => thought.to_owned(),
                _ if is_closed => text,
                _ => String::new(),
            };
            if !written.reasoning.is_empty() {
                piece(&written.reasoning);
            }
        }
        Ok(written)
    }

    fn first_tokens(&self, prompt: &Prompt, cancel: &Cancel) -> Result<(Vec<(String, f64)>, Usage), Error> {
        let body = json!({
            "model": self.model,
            "max_tokens": 1,
            "temperature": 0.0,
            "logprobs": true,
            "top_logprobs": LIKELIEST,
        });
        let fields = Self::prompted(prompt)?;
        let body: Map<String, Value> = fields.into_iter().chain(object(body)).collect();
        let answer = self.client.chat(&body.into(), cancel)?;
        let told =
            |token: &Value| Some((token.get("token")?.as_str()?.to_owned(), token.get("logprob")?.as_f64()?));
        let first = answer.pointer("/choices/0/logprobs/content/0/top_logprobs").and_then(Value::as_array);
        self.looked_at(&answer, first.map(|first| first.iter().filter_map(told).collect()))
    }

    fn next_tokens(&self, text: &str, cancel: &Cancel) -> Result<(Vec<(String, f64)>, Usage), Error> {
        let body = json!({
            "model": self.model,
            "prompt": text,
            "max_tokens": 1,
            "temperature": 0.0,
            "logprobs": LIKELIEST,
        });
        let answer = self.client.completion(&body, cancel)?;
        let told = |(token, p): (&String, &Value)| Some((token.clone(), p.as_f64()?));
        let first = answer.pointer("/choices/0/logprobs/top_logprobs/0").and_then(Value::as_object);
        self.looked_at(&answer, first.map(|first| first.iter().filter_map(told).collect()))
    }

    fn write(
        &self,
        prompt: &Prompt,
        writing: &Writing<'_>,
        cancel: &Cancel,
        piece: &mut dyn FnMut(&str),
    ) -> Result<Written, Error> {
        let mut body = wire::chat_body(&self.model, writing.sampling);
        body.extend(Self::prompted(prompt)?);
        body.insert("structured_outputs".to_owned(), json!({"grammar": rooted(writing.grammar)}));
        if !writing.stops.is_empty() {
            body.insert("stop".to_owned(), json!(writing.stops));
        }
        self.written(body, cancel, &mut |written, thought, text| {
            written.reasoning.push_str(thought);
            if !text.is_empty() {
                written.text.push_str(text);
                piece(text);
            }
            ControlFlow::Continue(())
        })
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}
