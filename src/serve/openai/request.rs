//! A chat completion's request, read field by field. What this server cannot do is refused, and fields that change nothing
//! are passed over.

use std::num::NonZeroUsize;

use serde_json::{Value, json};
use toolgate_chat::{ToolCall, ToolChoice, ToolSpec, Transcript};

use crate::engine::Sampling;
use crate::serve::ask::{Ask, PARALLEL, Tools, answer_schema, any_seed, no_tool};
use crate::serve::field::Field;
use crate::serve::history::{History, arguments, content, result_part, text_part};
use crate::serve::refusal::Refusal;

/// What the request asks of the answer's form beside the turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Extras {
    /// A last chunk with the tokens used.
    pub(super) usage: bool,
    /// How the turn was decided between call and answer.
    pub(super) logprobs: bool,
}

/// Reads a request.
pub(super) fn read(body: &Value) -> Result<(Ask, Extras), Refusal> {
    let root = Field::root(body);
    refuse_unsupported(&root)?;
    let mut tools = tools(&root)?;
    let choice = choice(&root.at("tool_choice"), &mut tools)?;
    let ask = Ask {
        model: root.at("model").needed_text()?.to_owned(),
        transcript: transcript(&root.at("messages"))?,
        tools,
        choice,
        parallel: match root.at("parallel_tool_calls").boolean()? {
            None => None,
            Some(true) => Some(PARALLEL),
            Some(false) => Some(NonZeroUsize::MIN),
        },
        form: form(&root.at("response_format"))?,
        sampling: sampling(&root)?,
        stream: root.at("stream").boolean()?.unwrap_or(false),
    };
    let extras = Extras {
        usage: root.at("stream_options").at("include_usage").boolean()?.unwrap_or(false),
        logprobs: root.at("logprobs").boolean()?.unwrap_or(false),
    };
    Ok((ask, extras))
}

/// What would change the answer and is not done here.
fn refuse_unsupported(root: &Field<'_>) -> Result<(), Refusal> {
    let zero = [json!(0), json!(0.0)];
    root.at("n").not_supported(&[json!(1)])?;
    root.at("frequency_penalty").not_supported(&zero)?;
    root.at("presence_penalty").not_supported(&zero)?;
    root.at("logit_bias").not_supported(&[json!({})])?;
    root.at("top_logprobs").not_supported(&[json!(0)])?;
    root.at("audio").not_supported(&[])?;
    root.at("modalities").not_supported(&[json!(["text"])])?;
    root.at("web_search_options").not_supported(&[])?;
    for (old, new) in [("functions", "tools"), ("function_call", "tool_choice")] {
        if root.at(old).is_there() {
            return Err(root.at(old).wrong(format!("this form is long deprecated: send \"{new}\"")));
        }
    }
    Ok(())
}

fn tools(root: &Field<'_>) -> Result<Tools, Refusal> {
    let mut tools = Tools::default();
    for tool in root.at("tools").list()? {
        if tool.kind()? != "function" {
            return Err(tool.at("type").wrong("only tools of the type \"function\" can be called here"));
        }
        let Some(definition) = tool.at("function").value() else {
            return Err(tool.at("function").wrong("the function is missing"));
        };
        let spec =
            ToolSpec::from_openai(definition).map_err(|error| no_tool(&tool.at("function"), &error))?;
        tools.add(spec, definition, &tool.at("function").at("parameters"))?;
    }
    Ok(tools)
}

/// The choice; one that leaves only some tools takes the others away.
fn choice(field: &Field<'_>, tools: &mut Tools) -> Result<ToolChoice, Refusal> {
    let required = |tools: &Tools, choice| match tools.specs.is_empty() {
        true => Err(field.wrong("a call is required, but the request has no tools")),
        false => Ok(choice),
    };
    match field.value() {
        None => Ok(ToolChoice::Auto),
        Some(Value::String(word)) => match word.as_str() {
            "auto" => Ok(ToolChoice::Auto),
            "none" => Ok(ToolChoice::None),
            "required" => required(tools, ToolChoice::Required),
            _ => Err(field.wrong("expected \"auto\", \"none\", \"required\" or an object")),
        },
        Some(_) => match field.kind()? {
            "function" => Ok(ToolChoice::Only(vec![tools.name(&field.at("function").at("name"))?])),
            "allowed_tools" => {
                let allowed = field.at("allowed_tools");
                let list = allowed.at("tools").needed_list()?;
                let names: Result<Vec<_>, Refusal> =
                    list.iter().map(|tool| tools.name(&tool.at("function").at("name"))).collect();
                let names = names?;
                match allowed.at("mode").needed_text()? {
                    "auto" => {
                        tools.specs.retain(|spec| names.contains(&spec.name));
                        Ok(ToolChoice::Auto)
                    }
                    "required" if names.is_empty() => {
                        Err(allowed.wrong("a call is required of one of no tools"))
                    }
                    "required" => Ok(ToolChoice::Only(names)),
                    _ => Err(allowed.at("mode").wrong("expected \"auto\" or \"required\"")),
                }
            }
            _ => Err(field.at("type").wrong("expected \"function\" or \"allowed_tools\"")),
        },
    }
}

fn form(field: &Field<'_>) -> Result<Option<Value>, Refusal> {
    if !field.is_there() {
        return Ok(None);
    }
    match field.kind()? {
        "text" => Ok(None),
        "json_object" => Ok(Some(json!({"type": "object"}))),
        "json_schema" => answer_schema(&field.at("json_schema").at("schema")).map(Some),
        _ => Err(field.at("type").wrong("expected \"text\", \"json_object\" or \"json_schema\"")),
    }
}

pub(in crate::serve) fn sampling(root: &Field<'_>) -> Result<Sampling, Refusal> {
    let default = Sampling::default();
    let temperature = root.at("temperature").number(0.0, 2.0)?.unwrap_or(default.temperature);
    let seed = root.at("seed").integer()?.map(|seed| seed.cast_unsigned());
    let stop = root.at("stop");
    let stop: Vec<String> = match stop.value() {
        Some(Value::String(text)) => vec![text.clone()],
        _ => {
            stop.list()?.iter().map(|text| text.needed_text().map(str::to_owned)).collect::<Result<_, _>>()?
        }
    };
    let (new, old) = (root.at("max_completion_tokens").count()?, root.at("max_tokens").count()?);
    Ok(Sampling {
        temperature,
        top_p: root.at("top_p").number(0.0, 1.0)?.unwrap_or(default.top_p),
        top_k: root.at("top_k").count()?.unwrap_or(default.top_k),
        min_p: root.at("min_p").number(0.0, 1.0)?.unwrap_or(default.min_p),
        seed: seed.unwrap_or_else(any_seed),
        // 0 is filled in by the server.
        max_tokens: new.or(old).unwrap_or(0),
        stop: stop.into_iter().filter(|text| !text.is_empty()).collect(),
    })
}

fn transcript(messages: &Field<'_>) -> Result<Transcript, Refusal> {
    let mut history = History::default();
    for message in messages.needed_list()? {
        let body = message.at("content");
        let needed = |text: Option<String>| text.ok_or_else(|| body.wrong("the content is missing"));
        match message.at("role").needed_text()? {
            "system" | "developer" => history.system(&needed(content(&body, text_part)?)?),
            "user" => history.user(&needed(content(&body, text_part)?)?)?,
            "tool" => {
                let text = needed(content(&body, result_part)?)?;
                history.result(&message.at("tool_call_id"), text, None)?;
            }
            "assistant" => {
                let text = content(&body, assistant_part)?.filter(|text| !text.is_empty());
                let text = text.or(message.at("refusal").text()?.map(str::to_owned));
                let reasoning = message.at("reasoning_content").text()?.map(str::to_owned);
                history.assistant(&message, text, reasoning, calls(&message.at("tool_calls"))?)?;
            }
            _ => {
                return Err(message
                    .at("role")
                    .wrong("expected \"system\", \"developer\", \"user\", \"assistant\" or \"tool\""));
            }
        }
    }
    history.finish(messages)
}

fn assistant_part<'a>(part: &Field<'a>) -> Result<&'a str, Refusal> {
    match part.kind()? {
        "refusal" => part.at("refusal").needed_text(),
        _ => text_part(part),
    }
}

fn calls(field: &Field<'_>) -> Result<Vec<ToolCall>, Refusal> {
    let call = |call: &Field<'_>| {
        let function = call.at("function");
        let name = function.at("name").needed_text()?;
        let arguments = arguments(&function.at("arguments"))?;
        Ok(ToolCall::new(name, arguments).with_id(call.at("id").needed_text()?))
    };
    field.list()?.iter().map(call).collect()
}
