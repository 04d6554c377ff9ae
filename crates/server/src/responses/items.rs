//! Makes turns of the items of a conversation, a flat list. Items of the model in a row are one turn, and the
//! results of its calls follow it. [`History`] goes on with items that do not pair.

use serde_json::{Map, Value};
use toolgate_chat::ToolCall;

use super::tools::name_of;
use crate::field::Field;
use crate::history::{History, arguments};
use crate::parts::{content, said};
use crate::refusal::Refusal;

/// Adds items to a history.
pub(super) fn add<'a>(items: &[Field<'a>], history: &mut History<'a>) -> Result<(), Refusal> {
    let mut turn = Turn::default();
    for item in items {
        match kind(item)? {
            "message" => message(item, history, &mut turn)?,
            "reasoning" => {
                let thought = content(&item.at("content"))?.filter(|text| !text.is_empty());
                let thought = thought.map_or_else(|| content(&item.at("summary")), |text| Ok(Some(text)))?;
                turn.thoughts.extend(thought.filter(|text| !text.is_empty()));
            }
            "function_call" => turn.call(item, arguments(&item.at("arguments")))?,
            "custom_tool_call" => {
                let input = item.at("input").text()?.unwrap_or_default();
                turn.call(item, Map::from_iter([("input".to_owned(), input.into())]))?;
            }
            "function_call_output" | "custom_tool_call_output" => {
                turn.end(history);
                history.result(item.at("call_id"), output(&item.at("output"))?, None)?;
            }
            // These are tools. They are read elsewhere.
            "additional_tools" => {}
            kind => {
                let kind: String = kind.chars().take(40).collect();
                item.warn(format!("items of the type {kind:?} are not known here: this one is left out"));
            }
        }
    }
    turn.end(history);
    Ok(())
}

/// The `type` of an item. Messages need not have it.
pub(super) fn kind<'a>(item: &Field<'a>) -> Result<&'a str, Refusal> {
    match item.at("type").text()? {
        Some(kind) => Ok(kind),
        None if item.at("role").is_there() => Ok("message"),
        None if item.at("id").is_there() => Ok("item_reference"),
        None => item.kind(),
    }
}

/// A turn of the model so far.
#[derive(Default)]
struct Turn<'a> {
    texts: Vec<String>,
    thoughts: Vec<String>,
    calls: Vec<(Field<'a>, ToolCall)>,
}

fn message<'a>(item: &Field<'a>, history: &mut History<'a>, turn: &mut Turn<'a>) -> Result<(), Refusal> {
    let text = said(&item.at("content"))?;
    match item.at("role").needed_text()? {
        "system" | "developer" => history.system(&text),
        "user" => {
            turn.end(history);
            history.user(&text);
        }
        "assistant" => turn.texts.extend((!text.is_empty()).then_some(text)),
        _ => {
            let expected = "expected \"system\", \"developer\", \"user\" or \"assistant\"";
            return Err(item.at("role").wrong(expected));
        }
    }
    Ok(())
}

impl<'a> Turn<'a> {
    fn call(&mut self, item: &Field<'a>, arguments: Map<String, Value>) -> Result<(), Refusal> {
        let call = ToolCall::new(name_of(item)?, arguments).with_id(item.at("call_id").needed_text()?);
        self.calls.push((item.clone(), call));
        Ok(())
    }

    /// Ends the turn. Thoughts alone are no turn.
    fn end(&mut self, history: &mut History<'a>) {
        let Self { texts, thoughts, calls } = std::mem::take(self);
        let joined = |texts: Vec<String>| (!texts.is_empty()).then(|| texts.join("\n"));
        if !(texts.is_empty() && calls.is_empty()) {
            history.assistant(joined(texts), joined(thoughts), calls);
        }
    }
}

/// The text of a result. It is a text, a list of parts, or any other value, as JSON.
fn output(field: &Field<'_>) -> Result<String, Refusal> {
    match field.value() {
        Some(value @ (Value::Object(_) | Value::Bool(_) | Value::Number(_))) => Ok(value.to_string()),
        _ => said(field),
    }
}
