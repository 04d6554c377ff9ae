//! Types of the protocol made of ours: definitions of tools, results, and the events of a run as lines of text.

use std::sync::Arc;

use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Tool, ToolAnnotations};
use serde_json::Value;
use toolgate_chat::ToolSpec;
use toolgate_sandbox::output;

use super::content;
use toolgate_agent::{Event, Final};
use toolgate_tools::{Effect, Status, ToolResult};

/// Longest line about an event, in characters.
const SHOWN: usize = 120;

/// A tool's definition.
pub(super) fn tool(spec: &ToolSpec, effect: Effect) -> Tool {
    let reads = effect == Effect::Reads;
    let annotations = ToolAnnotations::new().read_only(reads).destructive(!reads).open_world(false);
    let schema = match spec.told_parameters() {
        Value::Object(schema) => schema,
        _ => JsonObject::new(),
    };
    Tool::new(spec.name.to_string(), spec.description.clone(), Arc::new(schema)).with_annotations(annotations)
}

/// A call's result: the text that the model would see, or the result's parts where it has some. The data is left out. Clients
/// that find structured content show their model nothing else, and the data is neither bounded nor made safe as the text is.
pub(super) fn result(result: ToolResult) -> CallToolResult {
    let content = match result.parts.is_empty() {
        true => vec![ContentBlock::text(result.content)],
        false => result.parts.into_iter().map(content::block).collect(),
    };
    match result.status {
        Status::Ok => CallToolResult::success(content),
        _ => CallToolResult::error(content),
    }
}

/// The outcome of a whole run.
pub(super) fn outcome(outcome: &Final) -> CallToolResult {
    let answered = !outcome.answer.is_empty();
    let text = match answered {
        true => outcome.answer.clone(),
        false => format!("there is no answer: the run ended because of {}", outcome.stop_reason.as_str()),
    };
    let content = vec![ContentBlock::text(text)];
    let mut result = if answered { CallToolResult::success(content) } else { CallToolResult::error(content) };
    result.structured_content = serde_json::to_value(outcome).ok();
    result
}

/// An event in one line, for a person who waits; none for an event that has nothing to show.
pub(super) fn event(event: &Event) -> Option<String> {
    let line = match event {
        Event::Started { model, tools } => format!("{model} with {} tools", tools.len()),
        Event::ModelLoaded { ms } => format!("model loaded in {ms} ms"),
        Event::Prefill { tokens, cached } => format!("read {tokens} tokens, {cached} of them before"),
        Event::ToolCall { name, arguments, .. } => {
            format!("calls {name} {}", Value::Object(arguments.clone()))
        }
        Event::ToolResult { status, content, .. } => format!("{}: {content}", status.as_str()),
        Event::Text { delta } => delta.clone(),
        Event::Reasoning { delta } => format!("thinks: {delta}"),
        Event::Retry { why } => format!("again: {why}"),
        Event::Summarized { messages, .. } => format!("{messages} earlier messages became a summary"),
        Event::Recovered { .. } => "a call was found in the text".to_owned(),
        Event::Final(outcome) => format!("done: {}", outcome.stop_reason.as_str()),
        _ => return None,
    };
    let line = output::for_terminal(&line).split_whitespace().collect::<Vec<_>>().join(" ");
    let short: String = line.chars().take(SHOWN).collect();
    (!short.is_empty()).then_some(short)
}
