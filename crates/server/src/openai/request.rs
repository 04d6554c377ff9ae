//! Reads a chat completion's request field by field. The server holds or refuses the constraints of an
//! answer. It ignores fields that change nothing, and warns of all others that are not done here.

use std::num::NonZeroUsize;

use serde_json::{Value, json};
use toolgate_chat::{ToolCall, ToolChoice};

use crate::ask::{Ask, Defined, PARALLEL, Tools};
use crate::field::Field;
use crate::form;
use crate::history::{Conversation, History, arguments};
use crate::parts::{content, said};
use crate::reasoning;
use crate::refusal::Refusal;
use crate::sampling::{self, Bounds, MOST_ALTERNATIVES};
use toolgate_engine::Sampling;

/// The request's fields about the answer's form, beside the turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Extras {
    /// Whether a last chunk tells the tokens used.
    pub(super) usage: bool,
    /// Whether the answer tells how likely tokens were, and how the turn was decided between call and answer.
    pub(super) logprobs: bool,
    /// Whether calls have the form that the API had before tools.
    pub(super) functions: bool,
}

/// The most answers to one request, as the API has it.
const MOST_CHOICES: usize = 128;

/// Reads a request. Where it does not say how tokens are drawn, it is as `usual`.
pub(super) fn read(body: &Value, usual: &Sampling) -> Result<(Ask, Extras), Refusal> {
    let root = Field::root(body);
    refuse_unsupported(&root)?;
    let (mut tools, functions) = offered(&root)?;
    let choice = chosen(&root, &mut tools)?;
    let conversation = conversation(&root.at("messages"))?;
    let logprobs = root.at("logprobs").boolean()?.unwrap_or(false);
    let alternatives = alternatives(&root.at("top_logprobs"), logprobs)?;
    let bounds = Bounds { max_tokens: &["max_completion_tokens", "max_tokens"], stop: "stop" };
    let wish = reasoning::of_openai(&root)?;
    let ask = Ask {
        model: root.at("model").text()?.map(str::to_owned),
        conversation,
        tools,
        choice,
        parallel: parallel(&root, functions)?,
        form: form::read(&root, form::response_format(&root.at("response_format"))?)?,
        sampling: wish.put(sampling::read(&root, &bounds, usual)?),
        thinks_at: wish.at,
        choices: choices(&root.at("n"))?,
        likelihoods: logprobs.then_some(alternatives),
        stream: root.at("stream").boolean()?.unwrap_or(false),
        warnings: root.warnings(),
    };
    let usage = root.at("stream_options").at("include_usage").boolean()?.unwrap_or(false);
    let extras = Extras { usage, logprobs, functions };
    Ok((ask.settled(&root)?, extras))
}

/// What would change the answer and is not done here; and what is left out without a word of it in the answer.
fn refuse_unsupported(root: &Field<'_>) -> Result<(), Refusal> {
    root.at("audio").not_supported(&[])?;
    root.at("modalities").not_supported(&[json!([]), json!(["text"])])?;
    for (name, message) in [
        ("web_search_options", "nothing searches the web here: the model answers from what it knows"),
        ("moderation", "nothing is moderated here"),
    ] {
        if root.at(name).is_there() {
            root.at(name).warn(message);
        }
    }
    if root.at("store").boolean()?.unwrap_or(false) {
        root.at("store").warn("nothing is stored here: the answer cannot be fetched again");
    }
    Ok(())
}

fn choices(field: &Field<'_>) -> Result<NonZeroUsize, Refusal> {
    let wanted = field.count()?.filter(|n| *n <= MOST_CHOICES);
    match (field.is_there(), wanted.and_then(NonZeroUsize::new)) {
        (_, Some(wanted)) => Ok(wanted),
        (false, None) => Ok(NonZeroUsize::MIN),
        (true, None) => Err(field.wrong(format!("expected a whole number from 1 to {MOST_CHOICES}"))),
    }
}

/// The number of other tokens told beside each token, if likelihoods are told.
pub(crate) fn alternatives(field: &Field<'_>, logprobs: bool) -> Result<usize, Refusal> {
    let Some(wanted) = field.integer()? else { return Ok(0) };
    let wanted = usize::try_from(wanted).ok().filter(|wanted| *wanted <= MOST_ALTERNATIVES);
    match wanted {
        Some(wanted) if wanted > 0 && !logprobs => {
            field.warn("\"logprobs\" is not true: none are told");
            Ok(0)
        }
        Some(wanted) => Ok(wanted),
        None => Err(field.wrong(format!("expected a whole number from 0 to {MOST_ALTERNATIVES}"))),
    }
}

/// The tools, and whether they came as `functions`, the form before tools. The answer has its call in the
/// same form.
fn offered(root: &Field<'_>) -> Result<(Tools, bool), Refusal> {
    let functions = root.at("functions").list()?;
    if functions.is_empty() {
        return Ok((tools(root)?, false));
    }
    if !root.at("tools").list()?.is_empty() {
        let message = "calls are answered as they were asked for: send \"functions\" or \"tools\"";
        return Err(root.at("functions").wrong(message));
    }
    let defined: Vec<_> = functions.into_iter().map(|at| Defined { definition: at.clone(), at }).collect();
    Ok((Tools::read(&defined), true))
}

/// The choice of tools, under its present or its former name.
fn chosen(root: &Field<'_>, tools: &mut Tools) -> Result<ToolChoice, Refusal> {
    let (field, old) = (root.at("tool_choice"), root.at("function_call"));
    match old.value() {
        None => choice(&field, tools),
        Some(_) if field.is_there() => Err(old.wrong("\"tool_choice\" says the same: send one of both")),
        Some(Value::String(_)) => choice(&old, tools),
        Some(_) => Ok(ToolChoice::Only(vec![tools.name(&old.at("name"))?])),
    }
}

/// The most calls of a turn. The form before tools has room for one.
fn parallel(root: &Field<'_>, functions: bool) -> Result<Option<NonZeroUsize>, Refusal> {
    let wanted = several(root)?;
    match wanted {
        Some(PARALLEL) if functions => {
            root.at("parallel_tool_calls").warn("an answer to \"functions\" has room for one call");
            Ok(Some(NonZeroUsize::MIN))
        }
        wanted => Ok(wanted),
    }
}

/// Function tools. Clients of other APIs send them without the envelope. Tools of other kinds are left out.
fn tools(root: &Field<'_>) -> Result<Tools, Refusal> {
    let mut defined = Vec::new();
    for at in root.at("tools").list()? {
        let function = at.at("function");
        match at.at("type").text()? {
            None | Some("function") if function.is_there() => {
                defined.push(Defined { definition: function, at })
            }
            None | Some("function") => {
                at.warn("the definition is taken for a function's: the API has it under \"function\"");
                defined.push(Defined { definition: at.clone(), at });
            }
            Some(kind) => at.at("type").warn(left_out(kind)),
        }
    }
    Ok(Tools::read(&defined))
}

/// The most calls of a turn. `None` if the request does not say whether there may be several.
pub(crate) fn several(root: &Field<'_>) -> Result<Option<NonZeroUsize>, Refusal> {
    let several = root.at("parallel_tool_calls").boolean()?;
    Ok(several.map(|several| if several { PARALLEL } else { NonZeroUsize::MIN }))
}

/// The warning for a tool of another kind.
pub(crate) fn left_out(kind: &str) -> String {
    let kind: String = kind.chars().take(40).collect();
    format!("this tool is left out: those of the type {kind:?} are not run here")
}

/// The choice of tools. A choice that leaves only some tools takes the others away.
pub(crate) fn choice(field: &Field<'_>, tools: &mut Tools) -> Result<ToolChoice, Refusal> {
    let required = |tools: &Tools, choice| match tools.specs.is_empty() {
        true => Err(field.wrong("a call is required, but the request has no tools that can be called here")),
        false => Ok(choice),
    };
    match field.value() {
        None => Ok(ToolChoice::Auto),
        Some(Value::String(word)) => match word.as_str() {
            "auto" => Ok(ToolChoice::Auto),
            "none" => Ok(ToolChoice::None),
            // The second is the word of Mistral and of Anthropic.
            "required" | "any" => required(tools, ToolChoice::Required),
            _ => Err(field.wrong("expected \"auto\", \"none\", \"required\" or an object")),
        },
        Some(_) => match field.kind()? {
            "function" | "tool" => Ok(ToolChoice::Only(vec![tools.name(&named(field))?])),
            // This is the form of the other API.
            "auto" => Ok(ToolChoice::Auto),
            "none" => Ok(ToolChoice::None),
            "any" | "required" => required(tools, ToolChoice::Required),
            "allowed_tools" => {
                let allowed = field.at("allowed_tools");
                let allowed = if allowed.is_there() { &allowed } else { field };
                let list = allowed.at("tools").needed_list()?;
                let mode = allowed.at("mode").needed_text()?;
                // Tools that were left out have a warning already.
                let is_function =
                    |tool: &&Field<'_>| tool.at("type").value().is_none_or(|kind| kind == "function");
                let names: Result<Vec<_>, Refusal> =
                    list.iter().filter(is_function).map(|tool| tools.name(&named(tool))).collect();
                let names = names?;
                match mode {
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

/// The place where an object names its function. Clients of the Responses API send it without the envelope.
fn named<'a>(field: &Field<'a>) -> Field<'a> {
    let function = field.at("function");
    if function.is_there() || !field.at("name").is_there() { function.at("name") } else { field.at("name") }
}

fn conversation(messages: &Field<'_>) -> Result<Conversation, Refusal> {
    let mut history = History::default();
    for message in messages.needed_list()? {
        let body = message.at("content");
        match message.at("role").needed_text()? {
            "system" | "developer" => history.system(&said(&body)?),
            "user" => history.user(&said(&body)?),
            "tool" => history.result(message.at("tool_call_id"), said(&body)?, None)?,
            // This is the form before tools. A result has the function's name.
            "function" => history.result(message.at("name"), said(&body)?, None)?,
            "assistant" => assistant(&message, &mut history)?,
            _ => {
                return Err(message
                    .at("role")
                    .wrong("expected \"system\", \"developer\", \"user\", \"assistant\" or \"tool\""));
            }
        }
    }
    history.finish(messages)
}

fn assistant<'a>(message: &Field<'a>, history: &mut History<'a>) -> Result<(), Refusal> {
    let body = message.at("content");
    let text = content(&body)?;
    let refusal = message.at("refusal").text()?.map(str::to_owned);
    let calls = calls(message)?;
    // The first is the name at most servers.
    let reasoning = ["reasoning_content", "reasoning"].map(|name| message.at(name));
    let reasoning =
        reasoning.iter().find_map(|field| field.value()?.as_str()).filter(|text| !text.is_empty());
    if text.is_none() && refusal.is_none() && calls.is_empty() && reasoning.is_none() {
        body.warn("there is neither a content nor a call here: the message is left out");
    }
    let text = text.filter(|text| !text.is_empty()).or(refusal);
    let reasoning = reasoning.map(str::to_owned);
    history.assistant(text, reasoning, calls);
    Ok(())
}

fn calls<'a>(message: &Field<'a>) -> Result<Vec<(Field<'a>, ToolCall)>, Refusal> {
    let call = |call: Field<'a>| {
        let function = call.at("function");
        let function = if function.is_there() { function } else { call.at("custom") };
        let name = function.at("name").needed_text()?;
        let mut given = function.at("arguments");
        if !given.is_there() && function.at("input").is_there() {
            given = function.at("input");
        }
        let made = ToolCall::new(name, arguments(&given));
        let made = match call.at("id").text()?.filter(|id| !id.is_empty()) {
            Some(id) => made.with_id(id),
            None => made,
        };
        Ok((call, made))
    };
    let mut calls: Vec<(Field<'a>, ToolCall)> =
        message.at("tool_calls").list()?.into_iter().map(call).collect::<Result<_, Refusal>>()?;
    let old = message.at("function_call");
    if old.is_there() {
        let name = old.at("name").needed_text()?;
        calls.push((old.clone(), ToolCall::new(name, arguments(&old.at("arguments"))).with_id(name)));
    }
    Ok(calls)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::form::Form;

    fn asked(more: Value) -> Ask {
        let mut body = json!({"model": "m", "messages": [{"role": "user", "content": "x"}]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        read(&body, &Sampling::default()).unwrap().0
    }

    fn warned(ask: &Ask) -> Vec<&str> {
        ask.warnings.iter().map(|warning| warning.pointer.as_str()).collect()
    }

    #[test]
    fn tools_are_read_in_every_form_and_those_of_other_kinds_left_out() {
        let ask = asked(json!({"tools": [
            {"type": "function", "function": {"name": "a", "parameters": {"type": "object"}}},
            {"type": "function", "name": "b", "parameters": {"type": "object"}},
            {"name": "c", "input_schema": {"type": "object"}},
            {"type": "custom", "custom": {"name": "d"}},
            {"type": "web_search"},
            {"type": "namespace", "name": "n", "tools": []},
        ]}));
        assert_eq!(
            ask.tools.specs.iter().map(|spec| spec.name.as_str()).collect::<Vec<_>>(),
            ["a", "b", "c"]
        );
        assert_eq!(warned(&ask), ["/tools/1", "/tools/2", "/tools/3/type", "/tools/4/type", "/tools/5/type"]);
    }

    #[test]
    fn a_choice_names_a_tool_by_the_client_s_name_in_either_form() {
        let tools = json!([{"type": "function", "function": {"name": "fs/read"}}]);
        for choice in [
            json!({"type": "function", "function": {"name": "fs/read"}}),
            json!({"type": "function", "name": "fs/read"}),
            json!({"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [
                {"type": "function", "function": {"name": "fs/read"}}, {"type": "web_search"}]}}),
        ] {
            let ask = asked(json!({"tools": tools, "tool_choice": choice}));
            assert_eq!(ask.choice, ToolChoice::Only(vec![toolgate_chat::ToolName::new("fs_read").unwrap()]));
        }
        for choice in [json!("any"), json!("required"), json!({"type": "any"})] {
            assert_eq!(asked(json!({"tools": tools, "tool_choice": choice})).choice, ToolChoice::Required);
        }
        assert_eq!(asked(json!({"tools": tools, "tool_choice": {"type": "auto"}})).choice, ToolChoice::Auto);
    }

    #[test]
    fn calls_and_results_of_the_old_form_pair() {
        let ask = asked(json!({"messages": [
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": null, "function_call": {"name": "f", "arguments": "{}"}},
            {"role": "function", "name": "f", "content": "done"},
        ]}));
        let told = serde_json::to_string(&ask.conversation.transcript).unwrap();
        assert!(
            told.contains("\"content\":\"done\"") && ask.warnings.is_empty(),
            "{told} {:?}",
            ask.warnings
        );
    }

    #[test]
    fn what_is_null_is_read_as_nothing_and_told() {
        let call = json!({"id": "a", "type": "function", "function": {"name": "f", "arguments": ""}});
        let ask = asked(json!({"messages": [
            {"role": "user", "content": null},
            {"role": "assistant", "content": null, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "a", "content": null},
            {"role": "assistant", "content": null},
        ]}));
        assert_eq!(warned(&ask), ["/messages/0/content", "/messages/2/content", "/messages/3/content"]);
        assert!(ask.conversation.begun.is_none());
    }

    #[test]
    fn an_answer_s_form_is_found_under_the_api_s_own_name_and_others() {
        let ask = asked(json!({"response_format": {"type": "json_object"}}));
        assert_eq!(ask.form(), toolgate_engine::AnswerForm::Json(&json!({"type": "object"})));
        assert!(matches!(asked(json!({"guided_choice": ["a"]})).form, Some(Form::Grammar(_))));
    }
}
