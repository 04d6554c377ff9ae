//! What every family's grammar is compiled from: the tools a choice leaves, and the grammars of their parameters.

use std::collections::HashSet;

use serde_json::Value;
use toolgate_grammar as grammar;
use toolgate_grammar::{Contract, Grammar, GrammarBuilder, RuleId};

use super::TurnRequest;
use crate::error::{Error, Kind, Place};
use crate::model::ToolChoice;
use crate::spec::ToolSpec;

/// The tools a request lets a turn call.
pub(super) fn callable<'a>(tools: &'a [ToolSpec], request: &TurnRequest) -> Result<Vec<&'a ToolSpec>, Error> {
    let callable = chosen(tools, &request.choice)?;
    match &request.first {
        Some(first) if callable.iter().all(|tool| tool.name != *first) => {
            Err(Error::new(Kind::Request, format!("there is no tool \"{first}\" to call first")))
        }
        _ => Ok(callable),
    }
}

fn chosen<'a>(tools: &'a [ToolSpec], choice: &ToolChoice) -> Result<Vec<&'a ToolSpec>, Error> {
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

/// Compiles the parameters of a tool.
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
    let schema = crate::read_schema(schema).map_err(schema_error)?;
    let options = grammar::Options::default().whitespace(whitespace);
    grammar::compile_into(&schema, &options, builder, name).map_err(schema_error)
}

/// The grammar that was built.
pub(super) fn built(builder: GrammarBuilder, root: RuleId) -> Result<Grammar, Error> {
    builder.build(root).map_err(|error| Error::new(Kind::Schema, error.to_string()).because(error))
}
