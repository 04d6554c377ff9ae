//! Reads a response's request field by field. The server refuses a field that it cannot do if the field would
//! change the answer's meaning. It warns of fields that only take something away, and leaves them out.

use std::num::NonZeroUsize;

use serde_json::{Map, Value, json};

use super::items;
use super::store::{Item, Store, WHAT_IS_KEPT};
use super::tools::{self, Members};
use crate::ask::Ask;
use crate::field::Field;
use crate::form;
use crate::history::{Conversation, History};
use crate::openai;
use crate::reasoning;
use crate::refusal::{Refusal, Why};
use crate::sampling::{self, Bounds};
use toolgate_engine::Sampling;

/// A request, and the values that its answer needs beside the turn.
pub(super) struct Asked {
    pub(super) ask: Ask,
    pub(super) members: Members,
    /// The fields that a response repeats of its request.
    pub(super) echo: Map<String, Value>,
    /// The items that it answers, if the response is to be kept.
    pub(super) kept: Option<Vec<Item>>,
}

/// Reads a request. It may go on from a kept response. `usual` is the sampling of a request that says nothing
/// of it.
pub(super) fn read(body: &Value, store: &Store, usual: &Sampling) -> Result<Asked, Refusal> {
    let root = Field::root(body);
    refuse_unsupported(&root)?;
    let input = Input::of(&root, store)?;
    let items = input.fields(&root)?;

    let mut lists = vec![root.at("tools")];
    for item in &items {
        if items::kind(item)? == "additional_tools" {
            lists.push(item.at("tools"));
        }
    }
    let (mut tools, members) = tools::read(&lists)?;
    let choice = tools::choice(&root.at("tool_choice"), &mut tools)?;
    let conversation = conversation(&root, &items)?;
    let bounds = Bounds { max_tokens: &["max_output_tokens"], stop: "stop" };
    let wish = reasoning::of_openai(&root)?;
    let is_kept = root.at("store").boolean()?.unwrap_or(true);
    let ask = Ask {
        model: root.at("model").text()?.map(str::to_owned),
        conversation,
        tools,
        choice,
        parallel: openai::several(&root)?,
        form: form::read(&root, form::response_format(&root.at("text").at("format"))?)?,
        sampling: wish.put(sampling::read(&root, &bounds, usual)?),
        thinks_at: wish.at,
        choices: NonZeroUsize::MIN,
        likelihoods: likelihoods(&root)?,
        stream: root.at("stream").boolean()?.unwrap_or(false),
        warnings: root.warnings(),
    };
    let kept =
        is_kept.then(|| items.iter().filter_map(Field::value).map(|item| item.to_string().into()).collect());
    Ok(Asked { echo: echo(&root, &ask.sampling)?, ask: ask.settled(&root)?, members, kept })
}

/// Refuses fields that would change the answer and are not done here. Warns of those that only cost more or
/// less.
fn refuse_unsupported(root: &Field<'_>) -> Result<(), Refusal> {
    root.at("background").not_supported(&[json!(false)])?;
    for (name, message) in [
        ("messages", "this API has \"input\" for them"),
        ("response_format", "this API has \"text\": {\"format\": …} for it"),
        ("prompt", "prompts are not kept here: send \"instructions\" and \"input\""),
        ("conversation", "conversations are not kept here: send \"previous_response_id\", or all items"),
    ] {
        if root.at(name).is_there() {
            return Err(root.at(name).wrong(message));
        }
    }
    for (name, nothing, message) in [
        (
            "truncation",
            json!("disabled"),
            "nothing is left out of a conversation here: one that is too long is refused",
        ),
        ("context_management", json!([]), "conversations are not made shorter here"),
        ("moderation", json!({}), "nothing is moderated here"),
    ] {
        if root.at(name).value().is_some_and(|value| *value != nothing) {
            root.at(name).warn(message);
        }
    }
    Ok(())
}

/// The number of other tokens told beside each token. `None` tells no likelihoods. Either field asks for it.
fn likelihoods(root: &Field<'_>) -> Result<Option<usize>, Refusal> {
    let include = root.at("include").list()?;
    let is_asked =
        include.iter().any(|field| field.value().is_some_and(|it| it == "message.output_text.logprobs"));
    let top = openai::alternatives(&root.at("top_logprobs"), true)?;
    Ok((is_asked || top > 0).then_some(top))
}

/// The items of a request. Those of the response that it goes on from come first, then its own. An item that
/// it only names is put in its place.
struct Input {
    previous: Vec<Value>,
    own: Vec<Own>,
}

enum Own {
    /// The item stands at this place.
    Here(usize),
    /// The item is named at this place.
    Named(usize, Value),
    /// The whole input is a text.
    Text(Value),
}

impl Input {
    fn of(root: &Field<'_>, store: &Store) -> Result<Self, Refusal> {
        let previous = match root.at("previous_response_id").text()? {
            None => Vec::new(),
            Some(id) => parsed(&store.conversation(id).ok_or_else(|| {
                let message = format!("there is no response with the id {id:?} here; {WHAT_IS_KEPT}");
                Refusal { why: Why::Previous, ..root.at("previous_response_id").wrong(message) }
            })?),
        };
        let input = root.at("input");
        if let Some(Value::String(text)) = input.value() {
            return Ok(Self { previous, own: vec![Own::Text(json!({"role": "user", "content": text}))] });
        }
        let mut own = Vec::new();
        // References are short, but the items that they name are not.
        let mut left = store.bounds().each;
        for (i, item) in input.list()?.iter().enumerate() {
            own.push(match items::kind(item)? {
                "item_reference" => {
                    let id = item.at("id").needed_text()?;
                    let named = store.item(id).ok_or_else(|| {
                        let message = "there is no item with the id";
                        item.at("id")
                            .wrong(format!("{message} {id:?} here: send the item itself; {WHAT_IS_KEPT}"))
                    })?;
                    left = left.checked_sub(named.len()).ok_or_else(|| {
                        item.wrong(format!(
                            "up to this one, items of more than {} bytes are named",
                            store.bounds().each
                        ))
                    })?;
                    Own::Named(i, serde_json::from_str(&named).unwrap_or_default())
                }
                _ => Own::Here(i),
            });
        }
        Ok(Self { previous, own })
    }

    /// The items, each with its place in the body.
    fn fields<'a>(&'a self, root: &Field<'a>) -> Result<Vec<Field<'a>>, Refusal> {
        let before = root.at("previous_response_id");
        let input = root.at("input");
        let given = match input.value() {
            Some(Value::Array(_)) => input.list()?,
            _ => Vec::new(),
        };
        let mut fields: Vec<Field<'a>> = self.previous.iter().map(|item| before.standing_for(item)).collect();
        fields.extend(self.own.iter().filter_map(|own| match own {
            Own::Here(i) => given.get(*i).cloned(),
            Own::Named(i, item) => given.get(*i).map(|at| at.standing_for(item)),
            Own::Text(item) => Some(input.standing_for(item)),
        }));
        Ok(fields)
    }
}

fn parsed(items: &[Item]) -> Vec<Value> {
    items.iter().filter_map(|item| serde_json::from_str(item).ok()).collect()
}

/// The conversation of a request. Its own instructions come first. Those of the response that it goes on from
/// do not count.
fn conversation<'a>(root: &Field<'a>, items: &[Field<'a>]) -> Result<Conversation, Refusal> {
    let mut history = History::default();
    if let Some(instructions) = root.at("instructions").text()? {
        history.system(instructions);
    }
    items::add(items, &mut history)?;
    history.finish(&root.at("input"))
}

/// The fields that a response repeats of its request. Fields that the request leaves out have their defaults:
/// clients' types need them.
fn echo(root: &Field<'_>, sampling: &Sampling) -> Result<Map<String, Value>, Refusal> {
    let metadata = root.at("metadata");
    if metadata.value().is_some_and(|value| !value.is_object()) {
        return Err(metadata.wrong("expected an object"));
    }
    let given =
        |key: &str, otherwise: Value| (key.to_owned(), root.at(key).value().cloned().unwrap_or(otherwise));
    let text = root.at("text").value().cloned();
    let mut text = text.filter(Value::is_object).unwrap_or_else(|| json!({}));
    if let Some(text) = text.as_object_mut() {
        text.entry("format").or_insert_with(|| json!({"type": "text"}));
    }
    let mut reasoning = json!({"effort": null, "summary": null});
    if let (Some(said), Some(own)) = (root.at("reasoning").value(), reasoning.as_object_mut()) {
        own.extend(said.as_object().cloned().unwrap_or_default());
    }
    Ok(Map::from_iter([
        given("instructions", Value::Null),
        given("max_output_tokens", Value::Null),
        given("max_tool_calls", Value::Null),
        given("metadata", json!({})),
        given("parallel_tool_calls", true.into()),
        given("previous_response_id", Value::Null),
        given("prompt_cache_key", Value::Null),
        ("reasoning".to_owned(), reasoning),
        given("safety_identifier", Value::Null),
        given("store", true.into()),
        ("background".to_owned(), false.into()),
        ("service_tier".to_owned(), "default".into()),
        given("temperature", sampling.temperature.into()),
        ("text".to_owned(), text),
        given("tool_choice", "auto".into()),
        given("tools", json!([])),
        given("top_logprobs", 0.into()),
        given("top_p", sampling.top_p.into()),
        ("truncation".to_owned(), "disabled".into()),
        given("user", Value::Null),
    ]))
}
