//! Reads a message's request field by field. The server holds or refuses the constraints of an answer. It
//! ignores fields that change nothing, and warns of all others that are not done here.

use std::borrow::Cow;
use std::num::NonZeroUsize;

use serde_json::{Value, json};
use toolgate_chat::{ToolCall, ToolChoice};

use super::management;
use crate::ask::{Ask, Defined, PARALLEL, Tools};
use crate::field::Field;
use crate::form::{self, Form};
use crate::history::{Conversation, History, arguments};
use crate::parts::{content, content_of, part, said};
use crate::reasoning;
use crate::refusal::Refusal;
use crate::sampling::{self, Bounds};
use toolgate_engine::Sampling;

/// Reads a request. `usual` is the sampling of a request that says nothing of it.
pub(super) fn read(body: &Value, usual: &Sampling) -> Result<Ask, Refusal> {
    let root = Field::root(body);
    refuse_unsupported(&root)?;
    let mut conversation = history(&root)?.finish(&root.at("messages"))?;
    management::apply(&root, body, &mut conversation.transcript)?;
    let bounds = Bounds { max_tokens: &["max_tokens"], stop: "stop_sequences" };
    if !root.at("max_tokens").is_there() {
        root.at("max_tokens").warn("max_tokens is missing: the server's own bound counts");
    }
    let sampling = sampling::read(&root, &bounds, usual)?;
    asked(&root, conversation, sampling)
}

/// Reads a request to count the tokens of a prompt. It says little of the turn behind it.
pub(crate) fn read_counted(body: &Value) -> Result<Ask, Refusal> {
    let root = Field::root(body);
    let mut transcript = history(&root)?.counted();
    management::apply(&root, body, &mut transcript)?;
    let sampling = Sampling::default().template_values(reasoning::template_values(&root)?);
    asked(&root, Conversation { transcript, begun: None, at: String::new() }, sampling)
}

/// Refuses fields that would change the answer and are not done here. Warns of those that are left out and do
/// not show in the answer.
fn refuse_unsupported(root: &Field<'_>) -> Result<(), Refusal> {
    let thread = root.at("thread");
    if thread.is_there() {
        // These are the API's words. Its SDK then sends the whole conversation.
        let refusal =
            thread.wrong("threads are not kept here: send the full conversation without \"thread\"");
        return Err(refusal.with_details(json!({"error_code": "thread_unsupported_request"})));
    }
    let compaction = root.at("compaction");
    if compaction.is_there() {
        return Err(compaction.wrong("conversations are not summed up here: ask for a summary in a message"));
    }
    for (name, message) in [
        ("mcp_servers", "servers of tools are not called from here: their tools are left out"),
        ("container", "nothing is run in containers here"),
    ] {
        let field = root.at(name);
        if field.value().is_some_and(|value| *value != json!([])) {
            field.warn(message);
        }
    }
    Ok(())
}

/// The request as a whole, from its conversation, its sampling and the fields read here.
fn asked(root: &Field<'_>, conversation: Conversation, sampling: Sampling) -> Result<Ask, Refusal> {
    let tools = tools(root)?;
    let choice = root.at("tool_choice");
    let wish = reasoning::of_anthropic(root)?;
    let ask = Ask {
        model: root.at("model").text()?.map(str::to_owned),
        conversation,
        choice: self::choice(&choice, &tools)?,
        tools,
        parallel: match choice.at("disable_parallel_tool_use").boolean()? {
            None => None,
            Some(true) => Some(NonZeroUsize::MIN),
            Some(false) => Some(PARALLEL),
        },
        form: form::read(root, form(root)?)?,
        sampling: wish.put(sampling),
        thinks_at: wish.at,
        choices: NonZeroUsize::MIN,
        likelihoods: None,
        stream: root.at("stream").boolean()?.unwrap_or(false),
        warnings: root.warnings(),
    };
    ask.settled(root)
}

/// Tools with schemas of their own. Clients of the other API send theirs in its envelope. Left out are tools
/// that the API's servers run, and tools whose schemas only its models know.
fn tools(root: &Field<'_>) -> Result<Tools, Refusal> {
    let mut defined = Vec::new();
    for at in root.at("tools").list()? {
        let function = at.at("function");
        match at.at("type").text()? {
            None | Some("custom") => defined.push(Defined { definition: at.clone(), at }),
            Some("function") if function.is_there() => {
                at.warn("the definition is taken for a tool's: the API has it without \"function\"");
                defined.push(Defined { definition: function, at });
            }
            Some(kind) => {
                let kind: String = kind.chars().take(40).collect();
                at.at("type")
                    .warn(format!("this tool is left out: those of the type {kind:?} are not run here"));
            }
        }
    }
    Ok(Tools::read(&defined))
}

fn choice(field: &Field<'_>, tools: &Tools) -> Result<ToolChoice, Refusal> {
    if !field.is_there() {
        return Ok(ToolChoice::Auto);
    }
    match field.kind()? {
        "auto" => Ok(ToolChoice::Auto),
        "none" => Ok(ToolChoice::None),
        "any" if tools.specs.is_empty() => {
            Err(field.wrong("a call is required, but the request has no tools that can be called here"))
        }
        "any" => Ok(ToolChoice::Required),
        "tool" => Ok(ToolChoice::Only(vec![tools.name(&field.at("name"))?])),
        _ => Err(field.at("type").wrong("expected \"auto\", \"any\", \"tool\" or \"none\"")),
    }
}

/// The answer's schema, under either of its two names.
fn form<'a>(root: &Field<'a>) -> Result<Option<(Field<'a>, Form)>, Refusal> {
    for format in [root.at("output_config").at("format"), root.at("output_format")] {
        if format.is_there() {
            return match format.kind()? {
                "json_schema" => Ok(Some((format.clone(), form::schema(&format.at("schema"))?))),
                _ => Err(format.at("type").wrong("expected \"json_schema\"")),
            };
        }
    }
    Ok(None)
}

fn history<'a>(root: &Field<'a>) -> Result<History<'a>, Refusal> {
    let mut history = History::default();
    if let Some(system) = content_of(&root.at("system"), system_part)? {
        history.system(&system);
    }
    let messages = root.at("messages");
    for message in messages.needed_list()? {
        match message.at("role").needed_text()? {
            "user" => user(&message, &mut history)?,
            "assistant" => assistant(&message, &mut history)?,
            // Some programs send the role of the other API.
            "system" => history.system(&content(&message.at("content"))?.unwrap_or_default()),
            _ => return Err(message.at("role").wrong("expected \"user\" or \"assistant\"")),
        }
    }
    Ok(history)
}

/// The text of a part of the system prompt. Claude Code puts a part for its accounts in front, which changes
/// with each request. It is left out, since nothing behind it would be known from the request before.
fn system_part<'a>(field: &Field<'a>) -> Result<Cow<'a, str>, Refusal> {
    let text = part(field)?;
    Ok(if text.starts_with(ACCOUNTS) { "".into() } else { text })
}

/// The beginning of that part.
const ACCOUNTS: &str = "x-anthropic-billing-header:";

/// Adds a user's message. The results of calls come first, then what the person says.
fn user<'a>(message: &Field<'a>, history: &mut History<'a>) -> Result<(), Refusal> {
    let body = message.at("content");
    let Some(Value::Array(_)) = body.value() else {
        history.user(&said(&body)?);
        return Ok(());
    };
    let mut texts: Vec<Cow<'a, str>> = Vec::new();
    let (mut results, mut is_behind) = (0, false);
    for block in body.list()? {
        if block.at("type").value().is_none_or(|kind| kind != "tool_result") {
            texts.push(part(&block)?);
            continue;
        }
        if !texts.is_empty() && !is_behind {
            is_behind = true;
            block.warn("the results of calls come first in a message: this one is put in front of its texts");
        }
        results += 1;
        let result = content(&block.at("content"))?.unwrap_or_default();
        let is_error = Some(block.at("is_error").boolean()?.unwrap_or(false));
        history.result(block.at("tool_use_id"), result, is_error)?;
    }
    if texts.is_empty() && results > 0 {
        return Ok(());
    }
    history.user(&texts.join("\n"));
    Ok(())
}

fn assistant<'a>(message: &Field<'a>, history: &mut History<'a>) -> Result<(), Refusal> {
    let body = message.at("content");
    let Some(Value::Array(_)) = body.value() else {
        let text = said(&body)?;
        history.assistant((!text.is_empty()).then_some(text), None, Vec::new());
        return Ok(());
    };
    let (mut texts, mut thoughts, mut calls) = (Vec::new(), Vec::new(), Vec::new());
    for block in body.list()? {
        match block.at("type").text()? {
            Some("thinking") => thoughts.push(block.at("thinking").text()?.unwrap_or_default().into()),
            Some("redacted_thinking") => {}
            Some("tool_use") => {
                let made = ToolCall::new(block.at("name").needed_text()?, arguments(&block.at("input")));
                let made = match block.at("id").text()?.filter(|id| !id.is_empty()) {
                    Some(id) => made.with_id(id),
                    None => made,
                };
                calls.push((block, made));
            }
            Some(kind) if is_of_servers(kind) => {
                block.warn("what a server of the API did is left out: its results are for its own models");
            }
            _ => texts.push(part(&block)?),
        }
    }
    let joined = |texts: Vec<Cow<'a, str>>| Some(texts.join("\n")).filter(|text| !text.is_empty());
    history.assistant(joined(texts), joined(thoughts), calls);
    Ok(())
}

/// Whether a block of a turn tells what the API's own servers did.
fn is_of_servers(kind: &str) -> bool {
    ["server_tool_use", "mcp_tool_use", "compaction", "container_upload", "fallback"].contains(&kind)
        || kind.ends_with("_tool_result")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn asked(more: Value) -> Result<Ask, Refusal> {
        let mut body = json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        read(&body, &Sampling::default())
    }

    fn warned(ask: &Ask) -> Vec<&str> {
        ask.warnings.iter().map(|warning| warning.pointer.as_str()).collect()
    }

    #[test]
    fn tools_that_servers_run_are_left_out_and_named() {
        let ask = asked(json!({"tools": [
            {"name": "a", "input_schema": {"type": "object"}},
            {"type": "custom", "name": "b", "input_schema": {"type": "object"}},
            {"type": "web_search_20250305", "name": "web_search"},
            {"type": "bash_20250124", "name": "bash"},
            {"type": "function", "function": {"name": "c", "parameters": {"type": "object"}}},
        ], "mcp_servers": [{"type": "url", "url": "https://example.org", "name": "m"}]}))
        .unwrap();
        assert_eq!(
            ask.tools.specs.iter().map(|spec| spec.name.as_str()).collect::<Vec<_>>(),
            ["a", "b", "c"]
        );
        assert_eq!(warned(&ask), ["/mcp_servers", "/tools/2/type", "/tools/3/type", "/tools/4"]);
    }

    #[test]
    fn a_conversation_in_which_servers_ran_tools_goes_on() {
        let ask = asked(json!({"messages": [
            {"role": "user", "content": [{"type": "text", "text": "Who won?"}, {"type": "image", "source": {"type": "url", "url": "u"}}]},
            {"role": "assistant", "content": [
                {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "q"}},
                {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
                {"type": "text", "text": "Norway."},
                {"type": "tool_use", "id": "t", "name": "f", "input": "{broken"},
            ]},
            {"role": "user", "content": [
                {"type": "text", "text": "Go on."},
                {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "3:1"}}]},
            ]},
        ]}))
        .unwrap();
        assert_eq!(
            warned(&ask),
            [
                "/messages/0/content/1",
                "/messages/1/content/0",
                "/messages/1/content/1",
                "/messages/1/content/3/input",
                "/messages/2/content/1"
            ]
        );
        let told = serde_json::to_string(&ask.conversation.transcript).unwrap();
        assert!(told.contains("\"3:1\"") && told.contains("Norway.") && told.contains("Go on."), "{told}");
    }

    #[test]
    fn a_thread_is_refused_in_the_words_that_its_sdk_goes_on_from() {
        let refusal = asked(json!({"thread": {"type": "create"}})).unwrap_err();
        assert_eq!(refusal.details.as_deref(), Some(&json!({"error_code": "thread_unsupported_request"})));
    }
}
