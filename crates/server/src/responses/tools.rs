//! Reads the tools of a request: functions, with those in a namespace. The model knows one name for each.
//! Tools of other kinds are left out with a warning.

use std::collections::BTreeMap;

use serde_json::Value;
use toolgate_chat::ToolChoice;

use crate::ask::{Defined, Tools};
use crate::field::Field;
use crate::openai::{self, left_out};
use crate::refusal::Refusal;

/// The functions of namespaces, by the model's name for each. That name stands for the namespace and the
/// function.
#[derive(Clone, Debug, Default)]
pub(super) struct Members(BTreeMap<String, Member>);

/// A function of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) namespace: String,
    pub(super) name: String,
}

impl Members {
    /// The function of this name.
    pub(super) fn get(&self, name: &str) -> Option<&Member> {
        self.0.get(name)
    }
}

/// The functions of these lists of tools, and which of them are members of namespaces.
pub(super) fn read(lists: &[Field<'_>]) -> Result<(Tools, Members), Refusal> {
    let mut members = Members::default();
    let mut found = Vec::new();
    for list in lists {
        for tool in list.list()? {
            match tool.kind()? {
                "function" => found.push((tool.clone(), tool.value().cloned().unwrap_or_default())),
                "namespace" => members.add(&tool, &mut found)?,
                kind => tool.at("type").warn(left_out(kind)),
            }
        }
    }
    let defined: Vec<Defined<'_>> = found.iter().map(defined).collect();
    Ok((Tools::read(&defined), members))
}

/// A definition under the one name of its function.
fn defined<'a>((at, definition): &'a (Field<'_>, Value)) -> Defined<'a> {
    Defined { at: at.standing_for(definition), definition: at.standing_for(definition) }
}

impl Members {
    fn add<'a>(&mut self, tool: &Field<'a>, found: &mut Vec<(Field<'a>, Value)>) -> Result<(), Refusal> {
        let namespace = tool.at("name").needed_text()?;
        for member in tool.at("tools").list()? {
            let kind = member.kind()?;
            if kind != "function" {
                member.at("type").warn(left_out(kind));
                continue;
            }
            let name = member.at("name").needed_text()?;
            let both = joined(namespace, name);
            let mut definition = member.value().cloned().unwrap_or_default();
            if let Some(definition) = definition.as_object_mut() {
                definition.insert("name".to_owned(), both.as_str().into());
            }
            let of = Member { namespace: namespace.to_owned(), name: name.to_owned() };
            self.0.entry(both).or_insert(of);
            found.push((member, definition));
        }
        Ok(())
    }
}

/// The one name of the function at `field`. That is an object with a `name`, and with a `namespace` if the
/// function is in one.
pub(super) fn name_of(field: &Field<'_>) -> Result<String, Refusal> {
    let name = field.at("name").needed_text()?;
    Ok(match field.at("namespace").text()? {
        Some(namespace) if !namespace.is_empty() => joined(namespace, name),
        _ => name.to_owned(),
    })
}

/// The two as one name, as programs write the tools of MCP servers.
fn joined(namespace: &str, name: &str) -> String {
    format!("{namespace}__{name}")
}

/// The choice of tools. It may name functions of namespaces.
pub(super) fn choice(field: &Field<'_>, tools: &mut Tools) -> Result<ToolChoice, Refusal> {
    let Some(mut choice) = field.value().cloned() else { return openai::choice(field, tools) };
    if field.at("name").is_there() {
        rename(&mut choice, &name_of(field)?);
    }
    let listed = field.at("tools").list()?;
    let named = choice.get_mut("tools").and_then(Value::as_array_mut).into_iter().flatten();
    for (field, tool) in listed.iter().zip(named) {
        if field.at("name").is_there() {
            rename(tool, &name_of(field)?);
        }
    }
    openai::choice(&field.standing_for(&choice), tools)
}

fn rename(named: &mut Value, name: &str) {
    if let Some(named) = named.as_object_mut() {
        named.insert("name".to_owned(), name.into());
    }
}
