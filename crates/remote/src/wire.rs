//! The common parts of the ways to ask a server: its text, its costs, and chat completions as they arrive.

use serde_json::{Map, Value, json};
use toolgate_infer::{Opening, Stats, StopReason};

use toolgate_engine::{Effort, Penalties, Reasoning, ReasoningMode, Sampling};

/// A text that a server wrote.
#[derive(Debug, Default)]
pub(super) struct Written {
    pub(super) text: String,
    pub(super) reasoning: String,
    /// The reason of its end; `None` before it.
    pub(super) stop: Option<StopReason>,
    /// The text that ended it, which is no part of it.
    pub(super) ended_by: Option<String>,
    /// What it was left for.
    pub(super) left: Option<Opening>,
    pub(super) usage: Usage,
}

/// A server's counts of tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Usage {
    pub(super) prompt_tokens: usize,
    pub(super) cached_tokens: usize,
    pub(super) written_tokens: usize,
    /// Of these, tokens of reasoning; `None` if the server does not count them.
    pub(super) reasoning_tokens: Option<usize>,
    pub(super) prefill_ms: f64,
    pub(super) decode_ms: f64,
}

impl From<Usage> for Stats {
    fn from(usage: Usage) -> Self {
        let mut stats = Self {
            prompt_tokens: usage.prompt_tokens,
            cached_tokens: usage.cached_tokens,
            sampled_tokens: usage.written_tokens,
            decode_calls: usage.written_tokens,
            reasoning_tokens: usage.reasoning_tokens.unwrap_or_default(),
            ..Self::default()
        };
        (stats.ms.prefill, stats.ms.decode) = (usage.prefill_ms, usage.decode_ms);
        stats
    }
}

impl Usage {
    /// Takes the counts of an event of a chat completion, those of llama-server included.
    pub(super) fn note(&mut self, event: &Value) {
        let count = |path: &str| event.pointer(path).and_then(Value::as_u64).map(|n| n as usize);
        let take = |own: &mut usize, path: &str| *own = count(path).unwrap_or(*own);
        take(&mut self.prompt_tokens, "/usage/prompt_tokens");
        take(&mut self.cached_tokens, "/usage/prompt_tokens_details/cached_tokens");
        take(&mut self.written_tokens, "/usage/completion_tokens");
        self.reasoning_tokens =
            count("/usage/completion_tokens_details/reasoning_tokens").or(self.reasoning_tokens);
        self.note_timings(event);
    }

    /// Takes llama-server's `timings`.
    pub(super) fn note_timings(&mut self, event: &Value) {
        let Some(timings) = event.get("timings") else { return };
        let count = |field: &str| timings.get(field).and_then(Value::as_u64).unwrap_or(0) as usize;
        let ms = |field: &str| timings.get(field).and_then(Value::as_f64).unwrap_or(0.0);
        self.cached_tokens = count("cache_n");
        self.prompt_tokens = count("prompt_n") + count("cache_n");
        self.written_tokens = count("predicted_n");
        (self.prefill_ms, self.decode_ms) = (ms("prompt_ms"), ms("predicted_ms"));
    }
}

/// The names that servers have for thoughts: the first is that of most.
pub(super) const THOUGHTS: [&str; 2] = ["reasoning_content", "reasoning"];

/// The field of an event, where it is a text that says something.
pub(super) fn text_of<'v>(event: &'v Value, field: &str) -> Option<&'v str> {
    event.get(field).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// The highest seed.
const SEEDS: u64 = i64::MAX as u64;

/// The sampling fields of a chat completion.
pub(super) fn chat_body(model: &str, sampling: &Sampling) -> Map<String, Value> {
    let body = json!({
        "model": model,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        // Other servers take what fits into 64 bits with a sign.
        "seed": sampling.seed & SEEDS,
        "max_tokens": sampling.max_tokens,
        "stream": true,
        "stream_options": {"include_usage": true},
    });
    let Value::Object(mut body) = body else { return Map::new() };
    // OpenAI's own servers refuse fields that they do not know.
    if sampling.top_k > 0 {
        body.insert("top_k".to_owned(), sampling.top_k.into());
    }
    if sampling.min_p > 0.0 {
        body.insert("min_p".to_owned(), sampling.min_p.into());
    }
    let off = Penalties::default();
    for (name, value, off) in [
        ("frequency_penalty", sampling.penalties.frequency, off.frequency),
        ("presence_penalty", sampling.penalties.presence, off.presence),
        ("repeat_penalty", sampling.penalties.repeat, off.repeat),
    ] {
        if value != off {
            body.insert(name.to_owned(), value.into());
        }
    }
    if !sampling.bias.is_empty() {
        let bias = sampling.bias.iter().map(|(token, by)| (token.to_string(), Value::from(*by)));
        body.insert("logit_bias".to_owned(), bias.collect::<Map<_, _>>().into());
    }
    body
}

/// The fields that say how much the model of a chat completion thinks: the effort by OpenAI's word, whether it thinks at all by the
/// variable of most templates, as vLLM, SGLang and llama-server take it, and the most tokens by llama.cpp's name.
pub(super) fn thoughts(sampling: &Sampling) -> Map<String, Value> {
    let Reasoning { mode, budget, effort, .. } = sampling.reasoning;
    let mut body = Map::new();
    let word = match mode {
        ReasoningMode::Off => Some("none"),
        _ => effort.map(Effort::as_str),
    };
    body.extend(word.map(|word| ("reasoning_effort".to_owned(), word.into())));
    let mut values = sampling.template_values.clone();
    if mode != ReasoningMode::Auto {
        values.entry("enable_thinking").or_insert((mode == ReasoningMode::On).into());
    }
    if !values.is_empty() {
        body.insert("chat_template_kwargs".to_owned(), values.into());
    }
    body.extend(budget.map(|tokens| ("thinking_budget_tokens".to_owned(), tokens.into())));
    body
}

/// The fields that say of a chat completion whose last message is the model's own that it goes on from there: as vLLM, SGLang and others
/// have them.
pub(super) fn going_on() -> impl Iterator<Item = (String, Value)> {
    [("continue_final_message", true), ("add_generation_prompt", false)]
        .into_iter()
        .map(|(field, value)| (field.to_owned(), value.into()))
}

/// The meaning of a chat completion's `finish_reason`.
pub(super) fn stop_of(finish: &str) -> StopReason {
    match finish {
        "length" => StopReason::MaxTokens,
        _ => StopReason::End,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_told_of_thoughts_in_the_words_that_they_have() {
        let variables = |values: Value| {
            Sampling::default().template_values(values.as_object().cloned().unwrap_or_default())
        };
        let thinking = |reasoning| Sampling::default().reasoning(reasoning);
        for (sampling, told) in [
            (Sampling::default(), json!({})),
            (
                thinking(Reasoning::OFF),
                json!({"reasoning_effort": "none", "chat_template_kwargs": {"enable_thinking": false}}),
            ),
            (thinking(Reasoning::ON), json!({"chat_template_kwargs": {"enable_thinking": true}})),
            (
                thinking(Reasoning::ON.effort(Some(Effort::Low))),
                json!({"reasoning_effort": "low", "chat_template_kwargs": {"enable_thinking": true}}),
            ),
            (
                thinking(Reasoning::within(9)),
                json!({"chat_template_kwargs": {"enable_thinking": true}, "thinking_budget_tokens": 9}),
            ),
            (
                variables(json!({"enable_thinking": true, "a": 1})).reasoning(Reasoning::OFF),
                json!({"reasoning_effort": "none", "chat_template_kwargs": {"enable_thinking": true, "a": 1}}),
            ),
            (thinking(Reasoning::default().effort(Some(Effort::High))), json!({"reasoning_effort": "high"})),
        ] {
            assert_eq!(Value::Object(thoughts(&sampling)), told);
        }
    }
}
