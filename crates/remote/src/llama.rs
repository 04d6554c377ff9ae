//! llama-server: prompts are rendered here, with the chat template that it reports, and completed there under `grammar`.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use regex::Regex;
use serde_json::{Value, json};
use toolgate_chat::{Dialogue, Prompt, Template, TemplateTokens};
use toolgate_grammar::{Grammar, TokenId};
use toolgate_infer::{StopReason, Untrained};

use super::Options;
use super::choice::Tokens;
use super::constrained::{Server, Thinking, Writing};
use super::http::Client;
use super::wire::{Usage, Written, text_of};
use crate::{Error, Kind};
use toolgate_engine::{Cancel, Sampling};

/// The number of likeliest tokens that a decision between call and answer reads. Small models open calls that they should make
/// with a probability of 0.0001 and less, far below the first hundred.
const LIKELIEST: usize = 2_000;

/// llama-server and its model.
pub(super) struct Llama {
    client: Arc<Client>,
    /// The model's name, where one was given: a server of one model needs none.
    model: Option<String>,
    dialogue: Dialogue,
    /// Tokens that are a whole call opening each, and that the server does not spell out because they are control tokens.
    named: HashMap<TokenId, String>,
    /// Marks that the server spells out where it writes them, though they may be control tokens.
    shown: Vec<String>,
    /// What the model was not trained with, and the tokens of it.
    untrained: Untrained,
    never: Vec<TokenId>,
}

impl Llama {
    /// Asks for the chat template.
    pub(super) fn connect(client: Arc<Client>, options: &Options) -> Result<Self, Error> {
        let never = Cancel::default();
        let props = client.get("/props", &never)?;
        let text = |field: &str| props.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let source = text("chat_template");
        if source.is_empty() {
            let message = format!("{} tells no chat template: is it llama-server?", client.root());
            return Err(Error::new(Kind::Engine, message));
        }
        let tokens = TemplateTokens { bos: text("bos_token"), eos: text("eos_token") };
        let marks = marks(&source).chain([tokens.bos.clone(), tokens.eos.clone()]).collect::<Vec<_>>();
        let dialogue = Dialogue::derived(Template::new(source, tokens)?).guarding(marks);
        let (model, untrained) = (options.model.clone(), Untrained::default());
        let shown = shown(&dialogue);
        let (named, never_drawn) = (HashMap::new(), Vec::new());
        let mut llama = Self { client, model, dialogue, named, shown, untrained, never: never_drawn };
        for name in options.engine.untrained.names() {
            // A server's vocabulary may do without it.
            if let [token] = llama.tokenize(&[name], &never)?.as_slice() {
                llama.never.push(*token);
            }
        }
        llama.untrained.clone_from(&options.engine.untrained);
        llama.named = llama.names()?;
        Ok(llama)
    }

    /// The call openings that are one token, and the marks that one begins with.
    fn names(&self) -> Result<HashMap<TokenId, String>, Error> {
        let mut named = HashMap::new();
        for opening in self.dialogue.format().openings() {
            let mark = first_mark(opening).filter(|mark| *mark != opening);
            for text in mark.into_iter().chain([opening]) {
                if let [token] = self.tokenize(&[text], &Cancel::default())?.as_slice() {
                    named.insert(*token, text.to_owned());
                }
            }
        }
        Ok(named)
    }

    /// The tokens of some texts, each tokenized by itself.
    fn tokenize(&self, texts: &[&str], cancel: &Cancel) -> Result<Vec<TokenId>, Error> {
        let parts: Vec<&str> = texts.iter().flat_map(|text| self.untrained.parts(text)).collect();
        self.tokens_of(json!({"content": parts, "add_special": false, "parse_special": true}), cancel)
    }

    fn tokens_of(&self, body: Value, cancel: &Cancel) -> Result<Vec<TokenId>, Error> {
        let answer = self.client.post("/tokenize", &self.addressed(body), cancel)?;
        let tokens = answer.get("tokens").and_then(Value::as_array);
        let tokens: Option<Vec<TokenId>> = tokens.and_then(|tokens| tokens.iter().map(number).collect());
        tokens.ok_or_else(|| {
            Error::new(Kind::Engine, format!("{} tells no tokens of a text", self.client.root()))
        })
    }

    /// The likeliest tokens after a prompt, as the server tells them; none where the model would end its turn at once.
    fn likeliest(&self, prompt: &[TokenId], cancel: &Cancel) -> Result<(Vec<Value>, Usage), Error> {
        let body = json!({
            "prompt": prompt,
            "n_predict": 1,
            "n_probs": LIKELIEST,
            "temperature": 0.0,
            "cache_prompt": true,
        });
        let mut answer = self.client.post("/completion", &self.addressed(body), cancel)?;
        let mut usage = Usage::default();
        usage.note_timings(&answer);
        // Looking at a token is not writing it.
        usage.written_tokens = 0;
        match answer.pointer_mut("/completion_probabilities/0/top_logprobs").map(Value::take) {
            Some(Value::Array(tokens)) => Ok((tokens, usage)),
            _ if answer.get("stop").is_some() => Ok((Vec::new(), usage)),
            _ => {
                let message = format!("{} tells no probabilities of tokens", self.client.root());
                Err(Error::new(Kind::Engine, message))
            }
        }
    }

    /// The same as texts, with the logarithm of their probability.
    fn told(&self, prompt: &[TokenId], cancel: &Cancel) -> Result<(Vec<(String, f64)>, Usage), Error> {
        let (likeliest, usage) = self.likeliest(prompt, cancel)?;
        let told = |token: &Value| {
            let named = token.get("id").and_then(number).and_then(|id| self.named.get(&id));
            let text = named.map(String::as_str).or_else(|| token.get("token")?.as_str())?;
            Some((text.to_owned(), token.get("logprob")?.as_f64()?))
        };
        Ok((likeliest.iter().filter_map(told).collect(), usage))
    }

    /// The pieces of a prompt are tokenized apart, so that nothing in a message becomes a control token.
    fn prompted(&self, prompt: &Prompt, cancel: &Cancel) -> Result<Vec<TokenId>, Error> {
        let pieces: Vec<&str> = prompt.pieces.iter().map(String::as_str).collect();
        self.tokenize(&pieces, cancel)
    }

    /// A request, with the name of the model where a server of several was asked for one.
    fn addressed(&self, mut body: Value) -> Value {
        if let (Some(model), Some(body)) = (&self.model, body.as_object_mut()) {
            body.insert("model".to_owned(), model.clone().into());
        }
        body
    }
}

impl Server for Llama {
    fn kind(&self) -> &'static str {
        "llama-server"
    }

    fn dialogue(&self) -> &Dialogue {
        &self.dialogue
    }

    fn first_tokens(&self, prompt: &Prompt, cancel: &Cancel) -> Result<(Vec<(String, f64)>, Usage), Error> {
        self.told(&self.prompted(prompt, cancel)?, cancel)
    }

    fn next_tokens(&self, text: &str, cancel: &Cancel) -> Result<(Vec<(String, f64)>, Usage), Error> {
        // The server puts in front of a text what its model's texts begin with.
        let body = json!({"content": text, "add_special": true, "parse_special": false});
        self.told(&self.tokens_of(body, cancel)?, cancel)
    }

    fn behind(&self, prompt: &Prompt, written: &[String]) -> Result<Prompt, Error> {
        let mut prompt = prompt.clone();
        prompt.pieces.extend(written.iter().cloned());
        Ok(prompt)
    }

    fn tokens(&self) -> Option<&dyn Tokens> {
        Some(self)
    }

    fn think(
        &self,
        prompt: &Prompt,
        thinking: &Thinking<'_>,
        cancel: &Cancel,
        piece: &mut dyn FnMut(&str),
    ) -> Result<Written, Error> {
        let Thinking { open, stops, sampling, .. } = thinking;
        let open: Vec<String> = open.iter().map(|open| (*open).to_owned()).collect();
        let body = self.body(&self.behind(prompt, &open)?, sampling, stops, cancel)?;
        let mut written = self.written(body, cancel, piece)?;
        written.reasoning = std::mem::take(&mut written.text);
        Ok(written)
    }

    fn write(
        &self,
        prompt: &Prompt,
        writing: &Writing<'_>,
        cancel: &Cancel,
        piece: &mut dyn FnMut(&str),
    ) -> Result<Written, Error> {
        let mut body = self.body(prompt, writing.sampling, writing.stops, cancel)?;
        if let Some(body) = body.as_object_mut() {
            body.insert("grammar".to_owned(), rooted(writing.grammar).into());
        }
        self.written(body, cancel, piece)
    }
}

impl Llama {
    /// The request for a text.
    fn body(
        &self,
        prompt: &Prompt,
        sampling: &Sampling,
        stops: &[String],
        cancel: &Cancel,
    ) -> Result<Value, Error> {
        let never = self.never.iter().map(|token| json!([token, false]));
        let bias = sampling.bias.iter().map(|(token, by)| json!([token, by]));
        Ok(json!({
            "prompt": self.prompted(prompt, cancel)?,
            "stop": stops,
            "preserved_tokens": self.shown,
            "n_predict": sampling.max_tokens,
            "temperature": sampling.temperature,
            "top_k": sampling.top_k,
            "top_p": sampling.top_p,
            "min_p": sampling.min_p,
            "seed": sampling.seed % u64::from(u32::MAX),
            "logit_bias": never.chain(bias).collect::<Vec<_>>(),
            "frequency_penalty": sampling.penalties.frequency,
            "presence_penalty": sampling.penalties.presence,
            "repeat_penalty": sampling.penalties.repeat,
            "cache_prompt": true,
            "stream": true,
        }))
    }

    /// What the server writes on a request, told piece by piece.
    fn written(&self, body: Value, cancel: &Cancel, piece: &mut dyn FnMut(&str)) -> Result<Written, Error> {
        let mut written = Written::default();
        self.client.post_stream("/completion", &self.addressed(body), cancel, &mut |event| {
            if let Some(text) = text_of(event, "content") {
                written.text.push_str(text);
                piece(text);
            }
            if event.get("stop").and_then(Value::as_bool) == Some(true) {
                let limit = text_of(event, "stop_type") == Some("limit");
                written.stop = Some(if limit { StopReason::MaxTokens } else { StopReason::End });
                written.ended_by = text_of(event, "stopping_word").map(str::to_owned);
                written.usage.note_timings(event);
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(written)
    }
}

impl Tokens for Llama {
    fn of_prompt(&self, prompt: &Prompt, cancel: &Cancel) -> Result<Vec<TokenId>, Error> {
        self.prompted(prompt, cancel)
    }

    fn of_call(&self, text: &str, cancel: &Cancel) -> Result<Vec<TokenId>, Error> {
        self.tokenize(&[text], cancel)
    }

    fn is_token(&self, mark: &str) -> bool {
        self.named.values().any(|name| name == mark)
    }

    fn shares(&self, after: &[TokenId], next: &[TokenId], cancel: &Cancel) -> Result<Vec<f64>, Error> {
        let (likeliest, _) = self.likeliest(after, cancel)?;
        let told = |token: &Value| Some((number(token.get("id")?)?, token.get("logprob")?.as_f64()?));
        let told: HashMap<TokenId, f64> = likeliest.iter().filter_map(told).collect();
        // What is not told is less likely than all that is.
        let least = told.values().copied().fold(0.0, f64::min);
        Ok(next.iter().map(|token| told.get(token).copied().unwrap_or(least)).collect())
    }
}

fn number(token: &Value) -> Option<TokenId> {
    u32::try_from(token.as_u64()?).ok()
}

/// The text of a grammar whose first rule is called `root`, as the server wants it.
pub(super) fn rooted(grammar: &Grammar) -> String {
    let text = grammar.to_gbnf();
    match grammar.rule(grammar.root()) {
        Some(rule) if rule.name != "root" => format!("{text}root ::= {}\n", rule.name),
        _ => text,
    }
}

/// The mark that an opening begins with: `[TOOL_CALLS]` of `[TOOL_CALLS][`.
fn first_mark(opening: &str) -> Option<&str> {
    let bare = opening.trim_start();
    let close = match bare.chars().next()? {
        '<' => '>',
        '[' => ']',
        _ => return None,
    };
    bare.get(..=bare.find(close)?)
}

/// The marks of a family's calls, thoughts and messages.
fn shown(dialogue: &Dialogue) -> Vec<String> {
    let format = dialogue.format();
    let thoughts = format.thoughts().map(|(open, close)| [open.text(), close.text()]);
    let heads = format.text_heads().into_iter().chain([format.text_end()]).map(str::to_owned);
    let texts = format.call_texts().into_iter().chain(format.openings_in_text());
    let texts: Vec<String> = texts.chain(heads).chain(thoughts.into_iter().flatten()).collect();
    let mut found: Vec<String> = texts.iter().flat_map(|text| marks(text)).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// What in a template looks like control tokens: the server does not list them, and messages must not hold them.
fn marks(template: &str) -> impl Iterator<Item = String> + '_ {
    let pattern = Regex::new(r"<[^<>\s]{1,60}>|\[/?[A-Z][A-Z_]{1,40}\]").ok();
    let found = pattern.map(|pattern| {
        pattern.find_iter(template).map(|found| found.as_str().to_owned()).collect::<Vec<_>>()
    });
    found.into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_that_an_opening_begins_with_is_told_from_the_rest() {
        for (opening, mark) in [
            ("[TOOL_CALLS][", Some("[TOOL_CALLS]")),
            ("\n<tool_call>\n", Some("<tool_call>")),
            ("[{\"name\"", None),
            (" to=functions.", None),
            ("", None),
        ] {
            assert_eq!(first_mark(opening), mark, "{opening:?}");
        }
    }

    #[test]
    fn the_control_tokens_of_a_template_are_found_in_its_text() {
        let template =
            "{{ '<|im_start|>' + m.role }}<end_of_turn>[INST]{% if a < b %}x{% endif %}</s>{{ m[0] }}";
        let found: Vec<_> = marks(template).collect();
        assert_eq!(found, ["<|im_start|>", "<end_of_turn>", "[INST]", "</s>"]);
    }
}
