//! A response's request, read field by field. What this server cannot do is refused where it would change the answer's meaning; what only
//! takes something away is left out and named in the warnings.

use std::num::NonZeroUsize;

use serde_json::{Map, Value, json};
use toolgate_chat::Transcript;

use super::items;
use super::store::{Item, Store, WHAT_IS_KEPT};
use super::tools::{Names, Offered};
use crate::engine::Sampling;
use crate::serve::ask::{Ask, PARALLEL, answer_schema};
use crate::serve::field::Field;
use crate::serve::history::History;
use crate::serve::openai::sampling;
use crate::serve::refusal::{Refusal, Why};
use crate::serve::warning;

/// A request, and what its answer needs beside the turn.
pub(super) struct Asked {
    pub(super) ask: Ask,
    pub(super) names: Names,
    /// What a response repeats of its request.
    pub(super) echo: Map<String, Value>,
    /// The items that it answers, where it is to be kept.
    pub(super) kept: Option<Vec<Item>>,
}

/// Reads a request, to a server whose model has this name.
pub(super) fn read(body: &Value, model: &str, store: &Store) -> Result<Asked, Refusal> {
    let root = Field::root(body);
    refuse_unsupported(&root)?;
    let input = Input::of(&root, store)?;
    let items = input.fields(&root)?;

    let mut offered = Offered::default();
    offered.add(&root.at("tools"))?;
    for item in &items {
        if items::kind(item)? == "additional_tools" {
            offered.add(&item.at("tools"))?;
        }
    }
    let choice = offered.choice(&root.at("tool_choice"))?;
    let form = form(&root.at("text").at("format"))?;
    let ask = Ask {
        model: root.at("model").text()?.unwrap_or(model).to_owned(),
        transcript: transcript(&root, &items)?,
        tools: offered.tools,
        choice,
        parallel: match root.at("parallel_tool_calls").boolean()? {
            None => None,
            Some(true) => Some(PARALLEL),
            Some(false) => Some(NonZeroUsize::MIN),
        },
        form,
        // 0 is filled in by the server.
        sampling: Sampling {
            max_tokens: root.at("max_output_tokens").bound()?.unwrap_or(0),
            ..sampling(&root)?
        },
        stream: root.at("stream").boolean()?.unwrap_or(false),
    };
    let is_kept = root.at("store").boolean()?.unwrap_or(true);
    let kept =
        is_kept.then(|| items.iter().filter_map(Field::value).map(|item| item.to_string().into()).collect());
    Ok(Asked { echo: echo(&root, &ask.sampling)?, ask, names: offered.names, kept })
}

/// What would change the answer and is not done here; what only costs more or less is warned of.
fn refuse_unsupported(root: &Field<'_>) -> Result<(), Refusal> {
    root.at("background").not_supported(&[json!(false)])?;
    root.at("moderation").not_supported(&[])?;
    for constraint in [
        "grammar",
        "json_schema",
        "guided_json",
        "guided_regex",
        "guided_choice",
        "guided_grammar",
        "structured_outputs",
    ] {
        if root.at(constraint).is_there() {
            return Err(root
                .at(constraint)
                .wrong("this API holds an answer by \"text\": {\"format\": …} alone"));
        }
    }
    if root.at("response_format").is_there() {
        return Err(root.at("response_format").wrong("this API has \"text\": {\"format\": …} for it"));
    }
    if root.at("messages").is_there() {
        return Err(root.at("messages").wrong("this API has \"input\" for them"));
    }
    if root.at("prompt").is_there() {
        return Err(root
            .at("prompt")
            .wrong("prompts are not kept here: send \"instructions\" and \"input\""));
    }
    if root.at("conversation").is_there() {
        let message = "conversations are not kept here: send \"previous_response_id\", or all items";
        return Err(root.at("conversation").wrong(message));
    }
    if root.at("truncation").text()?.is_some_and(|how| how == "auto") {
        root.at("truncation")
            .warn("nothing is left out of a conversation here: one that is too long is refused");
    }
    if root.at("context_management").is_there() {
        root.at("context_management").warn("conversations are not made shorter here");
    }
    if root.at("top_logprobs").count().is_ok_and(|count| count.is_some()) {
        root.at("top_logprobs").warn("probabilities of tokens are not told by this API");
    }
    Ok(())
}

/// The items of a request: those of the response that it goes on from, then its own. Those that it only names are put in their place.
struct Input {
    previous: Vec<Value>,
    own: Vec<Own>,
}

enum Own {
    /// The item stands there.
    Here(usize),
    /// It is named there.
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
        // Short as references are, what they name is not.
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

/// Instructions come first, and are not those of the response that this one goes on from.
fn transcript(root: &Field<'_>, items: &[Field<'_>]) -> Result<Transcript, Refusal> {
    let mut history = History::default();
    if let Some(instructions) = root.at("instructions").text()? {
        history.system(instructions);
    }
    items::add(items, &mut history)?;
    history.finish(&root.at("input"))
}

/// The form of an answer.
fn form(field: &Field<'_>) -> Result<Option<Value>, Refusal> {
    if !field.is_there() {
        return Ok(None);
    }
    match field.kind()? {
        "text" => Ok(None),
        "json_object" => Ok(Some(json!({"type": "object"}))),
        "json_schema" => answer_schema(&field.at("schema")).map(Some),
        _ => Err(field.at("type").wrong("expected \"text\", \"json_object\" or \"json_schema\"")),
    }
}

/// What a response repeats of its request, with what holds where the request says nothing: types of clients need it.
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
    let mut echo = Map::from_iter([
        given("instructions", Value::Null),
        given("max_output_tokens", Value::Null),
        given("max_tool_calls", Value::Null),
        given("metadata", json!({})),
        given("parallel_tool_calls", true.into()),
        given("previous_response_id", Value::Null),
        given("prompt_cache_key", Value::Null),
        given("reasoning", json!({"effort": null, "summary": null})),
        given("safety_identifier", Value::Null),
        given("store", true.into()),
        ("background".to_owned(), false.into()),
        ("service_tier".to_owned(), "default".into()),
        given("temperature", sampling.temperature.into()),
        ("text".to_owned(), text),
        given("tool_choice", "auto".into()),
        given("tools", json!([])),
        ("top_logprobs".to_owned(), 0.into()),
        given("top_p", sampling.top_p.into()),
        ("truncation".to_owned(), "disabled".into()),
        given("user", Value::Null),
    ]);
    echo.extend(warning::body(&root.warnings()).map(|told| ("warnings".to_owned(), told)));
    Ok(echo)
}
