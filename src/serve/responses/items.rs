//! The items of a conversation, a flat list, become turns: what the model said in a row is one, with the results of its calls behind it,
//! wherever they stand in the list.
//!
//! Invariant: a call, a result or a part that cannot be used costs itself alone, and is told in the warnings. A program sends its
//! history again with each request, so that one that is refused for it is refused for good. What is no item at all is refused.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};

use serde_json::{Map, Value};
use toolgate_chat::ToolCall;

use super::tools::name_of;
use crate::serve::field::Field;
use crate::serve::history::{History, arguments, content};
use crate::serve::refusal::Refusal;

/// Adds items to a history.
pub(super) fn add(items: &[Field<'_>], history: &mut History) -> Result<(), Refusal> {
    let mut building = Building { history, results: Results::of(items)?, turn: Turn::default() };
    for (i, item) in items.iter().enumerate() {
        building.item(i, item)?;
    }
    building.end_turn()
}

/// What an item says it is; messages need not say it.
pub(super) fn kind<'a>(item: &Field<'a>) -> Result<&'a str, Refusal> {
    match item.at("type").text()? {
        Some(kind) => Ok(kind),
        None if item.at("role").is_there() => Ok("message"),
        None if item.at("id").is_there() => Ok("item_reference"),
        None => item.kind(),
    }
}

struct Building<'h, 'i, 'f> {
    history: &'h mut History,
    results: Results<'i, 'f>,
    turn: Turn<'i, 'f>,
}

/// A turn of the model so far.
#[derive(Default)]
struct Turn<'i, 'f> {
    /// The item that it begins with.
    at: Option<&'i Field<'f>>,
    texts: Vec<String>,
    thoughts: Vec<String>,
    calls: Vec<(ToolCall, &'i Field<'f>)>,
}

/// The results of calls, by the calls' ids, in the order in which they stand.
struct Results<'i, 'f> {
    items: &'i [Field<'f>],
    by_call: HashMap<&'f str, VecDeque<usize>>,
    is_taken: Vec<bool>,
}

impl<'i, 'f> Results<'i, 'f> {
    fn of(items: &'i [Field<'f>]) -> Result<Self, Refusal> {
        let mut by_call: HashMap<&str, VecDeque<usize>> = HashMap::new();
        for (i, item) in items.iter().enumerate() {
            if is_result(kind(item)?) {
                by_call.entry(item.at("call_id").needed_text()?).or_default().push_back(i);
            }
        }
        Ok(Self { items, by_call, is_taken: vec![false; items.len()] })
    }

    /// The first result of this call that no earlier one has.
    fn take(&mut self, call: &str) -> Option<&'i Field<'f>> {
        let i = self.by_call.get_mut(call)?.pop_front()?;
        if let Some(is_taken) = self.is_taken.get_mut(i) {
            *is_taken = true;
        }
        self.items.get(i)
    }

    fn is_taken(&self, i: usize) -> bool {
        self.is_taken.get(i).copied().unwrap_or_default()
    }
}

fn is_result(kind: &str) -> bool {
    matches!(kind, "function_call_output" | "custom_tool_call_output")
}

impl<'i, 'f> Building<'_, 'i, 'f> {
    fn item(&mut self, i: usize, item: &'i Field<'f>) -> Result<(), Refusal> {
        match kind(item)? {
            "message" => self.message(item)?,
            "reasoning" => {
                let said = content(&item.at("content"), part)?.filter(|text| !text.is_empty());
                let thought = match said {
                    None => content(&item.at("summary"), part)?,
                    said => said,
                };
                self.turn.thoughts.extend(thought.filter(|text| !text.is_empty()));
            }
            "function_call" => {
                let arguments = arguments(&item.at("arguments")).unwrap_or_else(|why| {
                    item.at("arguments").warn(format!("{}: the call is told without", why.message));
                    Map::new()
                });
                self.call(item, arguments)?;
            }
            "custom_tool_call" => {
                let input = item.at("input").text()?.unwrap_or_default();
                self.call(item, [("input".to_owned(), Value::from(input))].into_iter().collect())?;
            }
            kind if is_result(kind) => {
                self.end_turn()?;
                if !self.results.is_taken(i) {
                    item.warn("no call before has this id: the result is left out");
                    let id = item.at("call_id").needed_text()?;
                    self.results.take(id);
                }
            }
            // Tools, which were read already.
            "additional_tools" => {}
            kind => item.warn(format!("items of the type {kind:?} are not known here: this one is left out")),
        }
        Ok(())
    }

    fn message(&mut self, item: &'i Field<'f>) -> Result<(), Refusal> {
        let text = content(&item.at("content"), part)?.unwrap_or_default();
        match item.at("role").needed_text()? {
            "system" | "developer" => self.history.system(&text),
            "user" => {
                self.end_turn()?;
                self.history.user(&text)?;
            }
            "assistant" => {
                self.turn.at.get_or_insert(item);
                self.turn.texts.extend((!text.is_empty()).then_some(text));
            }
            _ => {
                let expected = "expected \"system\", \"developer\", \"user\" or \"assistant\"";
                return Err(item.at("role").wrong(expected));
            }
        }
        Ok(())
    }

    fn call(&mut self, item: &'i Field<'f>, arguments: Map<String, Value>) -> Result<(), Refusal> {
        let id = item.at("call_id").needed_text()?;
        if self.turn.calls.iter().any(|(call, _)| call.id == id) {
            item.warn("a call of the same turn has this id: this one is left out");
            return Ok(());
        }
        self.turn.at.get_or_insert(item);
        self.turn.calls.push((ToolCall::new(name_of(item)?, arguments).with_id(id), item));
        Ok(())
    }

    /// Ends the turn of the model, with the results of its calls.
    fn end_turn(&mut self) -> Result<(), Refusal> {
        let Turn { at, texts, thoughts, calls } = std::mem::take(&mut self.turn);
        // Thoughts alone are no turn.
        let Some(at) = at.filter(|_| !(texts.is_empty() && calls.is_empty())) else { return Ok(()) };
        let joined = |texts: Vec<String>| (!texts.is_empty()).then(|| texts.join("\n"));
        let made = calls.iter().map(|(call, _)| call.clone()).collect();
        self.history.assistant(at, joined(texts), joined(thoughts), made)?;
        for (call, item) in calls {
            match self.results.take(&call.id) {
                Some(result) => {
                    self.history.result(&result.at("call_id"), output(&result.at("output"))?, None)?;
                }
                None => {
                    item.warn("this call has no result: the model is told so");
                    self.history.result(&item.at("call_id"), NO_RESULT.to_owned(), Some(true))?;
                }
            }
        }
        Ok(())
    }
}

/// What stands for the result of a call that has none.
const NO_RESULT: &str = "the result of this call is not known";

/// The text of a result: one, parts, or any other value as JSON.
fn output(field: &Field<'_>) -> Result<String, Refusal> {
    match field.value() {
        Some(value @ (Value::Object(_) | Value::Bool(_) | Value::Number(_))) => Ok(value.to_string()),
        _ => Ok(content(field, part)?.unwrap_or_default()),
    }
}

/// The text of a part, or a note in its place.
fn part<'a>(part: &Field<'a>) -> Result<Cow<'a, str>, Refusal> {
    match part.kind()? {
        "input_text" | "output_text" | "text" | "summary_text" | "reasoning_text" => {
            part.at("text").needed_text().map(Cow::Borrowed)
        }
        "refusal" => part.at("refusal").needed_text().map(Cow::Borrowed),
        kind => {
            part.warn(format!("the model of this server reads text alone: this {kind:?} is left out"));
            Ok(format!("[a part of the type {kind:?} is left out: this model reads text alone]").into())
        }
    }
}
