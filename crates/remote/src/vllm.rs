//! vLLM: chat completions under `structured_outputs`. It does not report its template. So the system prompt describes the tools,
//! and calls and results are texts in the generic form, which any template can show.

use std::sync::Arc;

use serde_json::{Value, json};
use toolgate_chat::format::Family;
use toolgate_chat::{
    Dialogue, Message, Prompt, PromptOptions, Template, TemplateTokens, ToolSpec, Transcript,
};
use toolgate_grammar::Grammar;

use super::constrained::Server;
use super::http::Client;
use super::llama::rooted;
use super::wire::{self, Usage, Written};
use crate::{Error, Kind};
use toolgate_engine::{Cancel, Sampling};

/// Messages as the JSON of a chat completion: what a template can show of them, and no more.
const MESSAGES: &str = "[{% for m in messages %}{{ {'role': m.role, 'content': m.content} | tojson }}\
    {% if not loop.last %},{% endif %}{% endfor %}]";

/// As many as vLLM tells unless it was started otherwise.
const LIKELIEST: usize = 20;

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

    fn messages(prompt: &Prompt) -> Result<Value, Error> {
        serde_json::from_str(&prompt.text())
            .map_err(|why| Error::new(Kind::Engine, format!("the messages are no JSON: {why}")))
    }
}

impl Server for Vllm {
    fn kind(&self) -> &'static str {
        "vllm"
    }

    fn dialogue(&self) -> &Dialogue {
        &self.dialogue
    }

    /// An answer that was begun is the last message.
    fn prompt(
        &self,
        transcript: &Transcript,
        tools: &[ToolSpec],
        begun: Option<&str>,
    ) -> Result<Prompt, Error> {
        let begun = begun.map(|begun| Message::answer(begun.to_owned()));
        let shown: Transcript = transcript.iter().cloned().chain(begun).collect();
        Ok(self.dialogue.prompt(&shown, tools, &PromptOptions::default())?)
    }

    fn first_tokens(&self, prompt: &Prompt, cancel: &Cancel) -> Result<(Vec<(String, f64)>, Usage), Error> {
        let body = json!({
            "model": self.model,
            "messages": Self::messages(prompt)?,
            "max_tokens": 1,
            "temperature": 0.0,
            "logprobs": true,
            "top_logprobs": LIKELIEST,
        });
        let answer = self.client.chat(&body, cancel)?;
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
        grammar: &Grammar,
        sampling: &Sampling,
        cancel: &Cancel,
        piece: &mut dyn FnMut(&str),
    ) -> Result<Written, Error> {
        let mut body = wire::chat_body(&self.model, sampling);
        let messages = Self::messages(prompt)?;
        if ends_with_answer(&messages) {
            body.extend(wire::going_on());
        }
        body.insert("messages".to_owned(), messages);
        body.insert("structured_outputs".to_owned(), json!({"grammar": rooted(grammar)}));
        let mut written = Written::default();
        self.client.chat_stream(&body.into(), cancel, &mut |event| {
            written.usage.note(event);
            let Some(choice) = event.pointer("/choices/0") else { return Ok(()) };
            if let Some(text) =
                choice.pointer("/delta/content").and_then(Value::as_str).filter(|t| !t.is_empty())
            {
                written.text.push_str(text);
                piece(text);
            }
            if let Some(finish) = choice.get("finish_reason").and_then(Value::as_str) {
                written.stop = Some(wire::stop_of(finish));
            }
            Ok(())
        })?;
        Ok(written)
    }
}

/// Whether the last message is the model's own: one that is to be gone on from.
fn ends_with_answer(messages: &Value) -> bool {
    let last = messages.as_array().and_then(|messages| messages.last());
    last.is_some_and(|last| last.get("role").is_some_and(|role| role == "assistant"))
}
