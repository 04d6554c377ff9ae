//! A message's request, read field by field. What this server cannot do is refused, and fields that change nothing are
//! passed over.

use std::num::NonZeroUsize;

use serde_json::{Value, json};
use toolgate_chat::{ToolCall, ToolChoice, ToolSpec, Transcript};

use crate::engine::Sampling;
use crate::serve::ask::{Ask, PARALLEL, Tools, answer_schema, any_seed, no_tool};
use crate::serve::field::Field;
use crate::serve::history::{History, arguments, content, result_part, text_part};
use crate::serve::refusal::Refusal;

/// Reads a request.
pub(super) fn read(body: &Value) -> Result<Ask, Refusal> {
    let root = Field::root(body);
    let transcript = history(&root)?.finish(&root.at("messages"))?;
    Ok(Ask { sampling: sampling(&root)?, ..asked(&root, transcript)? })
}

/// Reads a request to count the tokens of a prompt, which says nothing of the turn behind it.
pub(in crate::serve) fn read_counted(body: &Value) -> Result<Ask, Refusal> {
    let root = Field::root(body);
    asked(&root, history(&root)?.counted())
}

/// All but how tokens are drawn.
fn asked(root: &Field<'_>, transcript: Transcript) -> Result<Ask, Refusal> {
    root.at("mcp_servers").not_supported(&[json!([])])?;
    let tools = tools(root)?;
    let choice = root.at("tool_choice");
    Ok(Ask {
        model: root.at("model").needed_text()?.to_owned(),
        transcript,
        choice: self::choice(&choice, &tools)?,
        tools,
        parallel: match choice.at("disable_parallel_tool_use").boolean()? {
            None => None,
            Some(true) => Some(NonZeroUsize::MIN),
            Some(false) => Some(PARALLEL),
        },
        form: form(root)?,
        sampling: Sampling::default(),
        stream: root.at("stream").boolean()?.unwrap_or(false),
    })
}

fn tools(root: &Field<'_>) -> Result<Tools, Refusal> {
    let mut tools = Tools::default();
    for tool in root.at("tools").list()? {
        if tool.at("type").text()?.is_some_and(|kind| kind != "custom") {
            return Err(tool.at("type").wrong("only tools with an input_schema can be called here"));
        }
        let Some(definition) = tool.value() else { continue };
        let spec = ToolSpec::from_anthropic(definition).map_err(|error| no_tool(&tool, &error))?;
        tools.add(spec, definition, &tool.at("input_schema"))?;
    }
    Ok(tools)
}

fn choice(field: &Field<'_>, tools: &Tools) -> Result<ToolChoice, Refusal> {
    if !field.is_there() {
        return Ok(ToolChoice::Auto);
    }
    match field.kind()? {
        "auto" => Ok(ToolChoice::Auto),
        "none" => Ok(ToolChoice::None),
        "any" if tools.specs.is_empty() => {
            Err(field.wrong("a call is required, but the request has no tools"))
        }
        "any" => Ok(ToolChoice::Required),
        "tool" => Ok(ToolChoice::Only(vec![tools.name(&field.at("name"))?])),
        _ => Err(field.at("type").wrong("expected \"auto\", \"any\", \"tool\" or \"none\"")),
    }
}

/// The answer's schema, under either of the names that it has had.
fn form(root: &Field<'_>) -> Result<Option<Value>, Refusal> {
    for format in [root.at("output_config").at("format"), root.at("output_format")] {
        if format.is_there() {
            return match format.kind()? {
                "json_schema" => answer_schema(&format.at("schema")).map(Some),
                _ => Err(format.at("type").wrong("expected \"json_schema\"")),
            };
        }
    }
    Ok(None)
}

fn sampling(root: &Field<'_>) -> Result<Sampling, Refusal> {
    let default = Sampling::default();
    let max_tokens = root.at("max_tokens");
    let stop = root.at("stop_sequences").list()?;
    let stop: Result<Vec<String>, Refusal> =
        stop.iter().map(|text| text.needed_text().map(str::to_owned)).collect();
    Ok(Sampling {
        temperature: root.at("temperature").number(0.0, 1.0)?.unwrap_or(default.temperature),
        top_p: root.at("top_p").number(0.0, 1.0)?.unwrap_or(default.top_p),
        top_k: root.at("top_k").count()?.unwrap_or(default.top_k),
        min_p: default.min_p,
        // Not in the API; the same seed gives the same turn here too.
        seed: root.at("seed").integer()?.map_or_else(any_seed, i64::cast_unsigned),
        max_tokens: max_tokens.count()?.ok_or_else(|| max_tokens.wrong("max_tokens is missing"))?,
        stop: stop?.into_iter().filter(|text| !text.is_empty()).collect(),
    })
}

fn history(root: &Field<'_>) -> Result<History, Refusal> {
    let mut history = History::default();
    if let Some(system) = content(&root.at("system"), system_part)? {
        history.system(&system);
    }
    let messages = root.at("messages");
    for message in messages.needed_list()? {
        match message.at("role").needed_text()? {
            "user" => user(&message, &mut history)?,
            "assistant" => assistant(&message, &mut history)?,
            // Some programs send the one of the other API.
            "system" => history.system(&content(&message.at("content"), text_part)?.unwrap_or_default()),
            _ => return Err(message.at("role").wrong("expected \"user\" or \"assistant\"")),
        }
    }
    Ok(history)
}

/// The text of a part of the system prompt. What Claude Code puts in front for its accounts is another with each request, and nothing
/// behind it would be known from the request before.
fn system_part<'a>(part: &Field<'a>) -> Result<&'a str, Refusal> {
    let text = text_part(part)?;
    Ok(if text.starts_with(ACCOUNTS) { "" } else { text })
}

/// How that begins.
const ACCOUNTS: &str = "x-anthropic-billing-header:";

/// A user's message: the results of calls first, then what the person says.
fn user(message: &Field<'_>, history: &mut History) -> Result<(), Refusal> {
    let body = message.at("content");
    if let Some(Value::String(text)) = body.value() {
        return history.user(text);
    }
    let mut texts: Vec<&str> = Vec::new();
    let mut results = 0;
    for block in body.needed_list()? {
        if block.kind()? != "tool_result" {
            texts.push(text_part(&block)?);
            continue;
        }
        if !texts.is_empty() {
            return Err(block.wrong("the results of calls come first in a message"));
        }
        results += 1;
        let result = content(&block.at("content"), result_part)?.unwrap_or_default();
        let is_error = Some(block.at("is_error").boolean()?.unwrap_or(false));
        history.result(&block.at("tool_use_id"), result, is_error)?;
    }
    if texts.is_empty() && results > 0 { Ok(()) } else { history.user(&texts.join("\n")) }
}

fn assistant(message: &Field<'_>, history: &mut History) -> Result<(), Refusal> {
    let body = message.at("content");
    if let Some(Value::String(text)) = body.value() {
        return history.assistant(message, Some(text.clone()), None, Vec::new());
    }
    let (mut texts, mut thoughts, mut calls) = (Vec::new(), Vec::new(), Vec::new());
    for block in body.needed_list()? {
        match block.kind()? {
            "thinking" => thoughts.push(block.at("thinking").needed_text()?),
            "redacted_thinking" => {}
            "tool_use" => {
                let name = block.at("name").needed_text()?;
                let arguments = arguments(&block.at("input"))?;
                calls.push(ToolCall::new(name, arguments).with_id(block.at("id").needed_text()?));
            }
            _ => texts.push(text_part(&block)?),
        }
    }
    let joined = |texts: Vec<&str>| (!texts.is_empty()).then(|| texts.join("\n"));
    history.assistant(message, joined(texts), joined(thoughts), calls)
}
