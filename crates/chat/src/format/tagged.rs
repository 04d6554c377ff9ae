//! Calls as JSON between `<tool_call>` tags: rendering, grammar and reading, shared by the families that write so.
//!
//! Invariant: what [`render`] writes, the grammar of [`turn`] accepts and [`parse`] reads back.

use std::collections::HashSet;
use std::num::NonZeroUsize;

use serde_json::{Map, Value};
use toolgate_grammar as grammar;
use toolgate_grammar::{Contract, Expr, Grammar, GrammarBuilder, RuleId, Schema};

use super::{TurnGrammar, TurnRequest, free};
use crate::error::{Error, Kind, Place};
use crate::json;
use crate::model::{Defect, DefectKind, ParsedTurn, ToolCall, ToolChoice, ToolName};
use crate::spec::ToolSpec;

const OPEN: &str = "<tool_call>";
const CLOSE: &str = "</tool_call>";
const THINK: (&str, &str) = ("<think>", "</think>");

/// The calls, one under the other.
pub(crate) fn render(calls: &[ToolCall]) -> String {
    let call = |call: &ToolCall| {
        let name = json::spaced(&Value::String(call.name.clone()));
        let arguments = json::spaced(&Value::Object(call.arguments.clone()));
        format!("{OPEN}\n{{\"name\": {name}, \"arguments\": {arguments}}}\n{CLOSE}")
    };
    calls.iter().map(call).collect::<Vec<_>>().join("\n")
}

/// The grammars of a turn; an answer can hold none of `forbidden`.
pub(crate) fn turn(
    tools: &[ToolSpec],
    request: &TurnRequest,
    forbidden: &[&str],
) -> Result<TurnGrammar, Error> {
    let callable = callable(tools, &request.choice)?;
    let mut contracts = Vec::with_capacity(callable.len());
    let call = if callable.is_empty() {
        None
    } else {
        Some(calls_grammar(&callable, request.parallel, &mut contracts)?)
    };
    let answer = match request.choice {
        ToolChoice::Auto | ToolChoice::None => {
            let mut builder = Grammar::builder();
            let root = free::text_without(&mut builder, "root", forbidden);
            Some(built(builder, root)?)
        }
        ToolChoice::Required | ToolChoice::Only(_) => None,
    };
    Ok(TurnGrammar { call, answer, reasoning: None, contracts })
}

/// Reads a turn: calls between tags, everything else as content.
pub(crate) fn parse(text: &str) -> ParsedTurn {
    let mut turn = ParsedTurn::default();
    let mut content = String::new();
    let rest = take_reasoning(text, &mut turn);
    let mut at = text.len() - rest.len();
    let mut stray = None;
    while let Some(found) = text.get(at..).and_then(|rest| rest.find(OPEN)) {
        let start = at + found;
        push_text(&text[at..start], at, &turn, &mut content, &mut stray);
        at = read_call(text, start, &mut turn);
    }
    push_text(text.get(at..).unwrap_or_default(), at, &turn, &mut content, &mut stray);
    if let Some(offset) = stray {
        turn.defects.push(Defect {
            kind: DefectKind::Stray,
            offset,
            message: "text after a call: a turn is calls or an answer".to_owned(),
        });
    }
    let content = content.trim();
    turn.content = (!content.is_empty()).then(|| content.to_owned());
    turn
}

fn push_text(text: &str, at: usize, turn: &ParsedTurn, content: &mut String, stray: &mut Option<usize>) {
    if text.trim().is_empty() {
        // What separates two calls is not text.
        return if turn.calls.is_empty() {
            content.push_str(text)
        };
    }
    if !turn.calls.is_empty() {
        stray.get_or_insert(at + text.len() - text.trim_start().len());
        content.push('\n');
    }
    content.push_str(text);
}

/// Reasoning stands first or not at all; returns what follows it.
fn take_reasoning<'a>(text: &'a str, turn: &mut ParsedTurn) -> &'a str {
    let Some(thought) = text.trim_start().strip_prefix(THINK.0) else { return text };
    let (thought, rest) = thought.split_once(THINK.1).unwrap_or_else(|| {
        turn.defects.push(Defect {
            kind: DefectKind::Unclosed,
            offset: text.len() - text.trim_start().len(),
            message: "reasoning that never ends".to_owned(),
        });
        (thought, "")
    });
    let thought = thought.trim();
    turn.reasoning = (!thought.is_empty()).then(|| thought.to_owned());
    rest
}

/// Reads the call whose tag is at `start`; returns where the text goes on.
///
/// The end is where the JSON ends, not the first closing tag: an argument may hold one.
fn read_call(text: &str, start: usize, turn: &mut ParsedTurn) -> usize {
    let inside = start + OPEN.len();
    let body = text.get(inside..).unwrap_or_default();
    let mut values = serde_json::Deserializer::from_str(body).into_iter::<Value>();
    let mut defect = |kind, message: &str| {
        turn.defects.push(Defect { kind, offset: start, message: message.to_owned() });
    };
    let end = match values.next() {
        Some(Ok(value)) => {
            let end = inside + values.byte_offset();
            match call_of(value) {
                Some(call) => turn.calls.push(call),
                None => defect(
                    DefectKind::NotACall,
                    "a call is {\"name\": …, \"arguments\": {…}}, with the arguments as an object",
                ),
            }
            end
        }
        Some(Err(error)) if !error.is_eof() => {
            defect(DefectKind::NotJson, &format!("the call is not JSON: {error}"));
            let closed = body.find(CLOSE).map(|at| inside + at);
            closed.unwrap_or(text.len())
        }
        _ => {
            // The JSON is cut off, or a tag closes before there is any.
            match body.find(CLOSE) {
                Some(at) => {
                    defect(DefectKind::NotJson, "the call is not JSON: it is incomplete");
                    inside + at
                }
                None => {
                    defect(DefectKind::Unclosed, "a call that never ends");
                    return text.len();
                }
            }
        }
    };
    let after = text.get(end..).unwrap_or_default();
    let closing = after.trim_start();
    match closing.strip_prefix(CLOSE) {
        Some(rest) => text.len() - rest.len(),
        None => {
            turn.defects.push(Defect {
                kind: DefectKind::Unclosed,
                offset: start,
                message: format!("a call without {CLOSE}"),
            });
            end
        }
    }
}

fn call_of(value: Value) -> Option<ToolCall> {
    let Value::Object(mut fields) = value else { return None };
    let Some(Value::String(name)) = fields.remove("name") else { return None };
    let arguments: Map<String, Value> = match fields.remove("arguments")? {
        Value::Object(arguments) => arguments,
        // Some models write the arguments as their own JSON text.
        Value::String(text) => serde_json::from_str(&text).ok()?,
        _ => return None,
    };
    let call = ToolCall::new(name, arguments);
    Some(match fields.remove("id") {
        Some(Value::String(id)) if !id.is_empty() => call.with_id(id),
        _ => call,
    })
}

/// The tools a choice lets a turn call.
pub(super) fn callable<'a>(tools: &'a [ToolSpec], choice: &ToolChoice) -> Result<Vec<&'a ToolSpec>, Error> {
    let mut names = HashSet::new();
    if let Some(twice) = tools.iter().find(|tool| !names.insert(&tool.name)) {
        return Err(Error::new(Kind::Request, format!("two tools are called \"{}\"", twice.name)));
    }
    match choice {
        ToolChoice::None => Ok(Vec::new()),
        ToolChoice::Auto => Ok(tools.iter().collect()),
        ToolChoice::Required if tools.is_empty() => {
            Err(Error::new(Kind::Request, "a call is required, but there are no tools"))
        }
        ToolChoice::Required => Ok(tools.iter().collect()),
        ToolChoice::Only(chosen) if chosen.is_empty() => {
            Err(Error::new(Kind::Request, "a call is required of one of no tools"))
        }
        ToolChoice::Only(chosen) => {
            if let Some(unknown) = chosen.iter().find(|name| !names.contains(name)) {
                return Err(Error::new(Kind::Request, format!("there is no tool \"{unknown}\" to choose")));
            }
            Ok(tools.iter().filter(|tool| chosen.contains(&tool.name)).collect())
        }
    }
}

fn calls_grammar(
    tools: &[&ToolSpec],
    parallel: Option<NonZeroUsize>,
    contracts: &mut Vec<(ToolName, Contract)>,
) -> Result<Grammar, Error> {
    let mut builder = Grammar::builder();
    let root = builder.declare("root");
    let call = builder.declare("call");
    let mut requests = Vec::with_capacity(tools.len());
    for tool in tools {
        let request = builder.declare(tool.name.as_str());
        let (arguments, contract) = compile_arguments(tool, &mut builder, grammar::Whitespace::Spaced)?;
        let head = Expr::literal(format!("{}\", \"arguments\": ", tool.name));
        builder.define(request, Expr::sequence([head, Expr::Rule(arguments)]));
        requests.push(Expr::Rule(request));
        contracts.push((tool.name.clone(), contract));
    }
    let head = Expr::literal(format!("{OPEN}\n{{\"name\": \""));
    let tail = Expr::literal(format!("}}\n{CLOSE}"));
    builder.define(call, Expr::sequence([head, Expr::choice(requests), tail]));
    let others = parallel.map(|most| most.get() as u64 - 1);
    let more = match others {
        Some(0) => Expr::empty(),
        others => Expr::sequence([Expr::literal("\n"), Expr::Rule(call)]).repeat(0, others),
    };
    builder.define(root, Expr::sequence([Expr::Rule(call), more]));
    built(builder, root)
}

pub(super) fn compile_arguments(
    tool: &ToolSpec,
    builder: &mut GrammarBuilder,
    whitespace: grammar::Whitespace,
) -> Result<(RuleId, Contract), Error> {
    let name = format!("{}-arguments", tool.name);
    compile_schema(tool, &tool.closed_parameters(), builder, whitespace, &name)
}

/// Compiles a schema that belongs to a tool.
pub(super) fn compile_schema(
    tool: &ToolSpec,
    schema: &Value,
    builder: &mut GrammarBuilder,
    whitespace: grammar::Whitespace,
    name: &str,
) -> Result<(RuleId, Contract), Error> {
    let schema_error = |error: grammar::Error| {
        let pointer = match error.place() {
            Some(grammar::Place::Pointer(pointer)) => pointer.clone(),
            _ => String::new(),
        };
        Error::new(Kind::Schema, error.to_string())
            .at(Place::Tool { name: tool.name.to_string(), pointer })
            .because(error)
    };
    let schema = Schema::parse(schema).map_err(schema_error)?;
    let options = grammar::Options { whitespace, ..grammar::Options::default() };
    grammar::compile_into(&schema, &options, builder, name).map_err(schema_error)
}

pub(super) fn built(builder: GrammarBuilder, root: RuleId) -> Result<Grammar, Error> {
    builder.build(root).map_err(|error| Error::new(Kind::Schema, error.to_string()).because(error))
}
