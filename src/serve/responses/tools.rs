//! The tools of a request: functions, also those in a namespace, under one name each for the model. Tools of other kinds are left out
//! and named in the warnings.

use std::collections::BTreeMap;

use serde_json::Value;
use toolgate_chat::{ToolChoice, ToolName, ToolSpec};

use crate::serve::ask::{Tools, no_tool};
use crate::serve::field::Field;
use crate::serve::refusal::Refusal;

/// The functions of a request, and how they are called.
#[derive(Debug, Default)]
pub(super) struct Offered {
    pub(super) tools: Tools,
    pub(super) names: Names,
}

/// What the model calls the functions of namespaces: it knows one name for each tool.
#[derive(Clone, Debug, Default)]
pub(super) struct Names(BTreeMap<String, Member>);

/// A function of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) namespace: String,
    pub(super) name: String,
}

impl Names {
    /// The function of a namespace that the model calls so.
    pub(super) fn member(&self, name: &str) -> Option<&Member> {
        self.0.get(name)
    }
}

/// What the model calls the function at `field`, an object with its `name` and, where it is in one, its `namespace`.
pub(super) fn name_of(field: &Field<'_>) -> Result<String, Refusal> {
    let name = field.at("name").needed_text()?;
    Ok(match field.at("namespace").text()? {
        Some(namespace) if !namespace.is_empty() => joined(namespace, name),
        _ => name.to_owned(),
    })
}

/// One name of two: as programs write the tools of MCP servers.
fn joined(namespace: &str, name: &str) -> String {
    let joined = format!("{namespace}__{name}");
    // A namespace may be as long as it likes.
    if ToolName::new(&joined).is_ok() { joined } else { name.to_owned() }
}

impl Offered {
    /// Adds the tools of a list.
    pub(super) fn add(&mut self, list: &Field<'_>) -> Result<(), Refusal> {
        for tool in list.list()? {
            match tool.kind()? {
                "function" => self.function(&tool, None)?,
                "namespace" => {
                    let namespace = tool.at("name").needed_text()?;
                    for member in tool.at("tools").list()? {
                        match member.kind()? {
                            "function" => self.function(&member, Some(namespace))?,
                            kind => left_out(&member, kind),
                        }
                    }
                }
                kind => left_out(&tool, kind),
            }
        }
        Ok(())
    }

    /// Adds a function. One that cannot be held to its schema is left out: the others may be all that is needed.
    fn function(&mut self, tool: &Field<'_>, namespace: Option<&str>) -> Result<(), Refusal> {
        let name = tool.at("name").needed_text()?;
        let Some(mut definition) = tool.value().cloned() else { return Ok(()) };
        if let (Some(namespace), Some(object)) = (namespace, definition.as_object_mut()) {
            object.insert("name".to_owned(), joined(namespace, name).into());
        }
        let read = ToolSpec::from_openai(&definition).map_err(|error| no_tool(tool, &error));
        let called = read.and_then(|spec| {
            let called = spec.name.as_str().to_owned();
            self.tools.add(spec, &definition, &tool.at("parameters")).map(|()| called)
        });
        match (called, namespace) {
            (Err(refusal), _) => tool.warn(format!("this tool is left out: {}", refusal.message)),
            (Ok(called), Some(namespace)) => {
                let member = Member { namespace: namespace.to_owned(), name: name.to_owned() };
                self.names.0.insert(called, member);
            }
            (Ok(_), None) => {}
        }
        Ok(())
    }

    /// The choice; one that leaves only some tools takes the others away.
    pub(super) fn choice(&mut self, field: &Field<'_>) -> Result<ToolChoice, Refusal> {
        match field.value() {
            None => Ok(ToolChoice::Auto),
            Some(Value::String(word)) => match word.as_str() {
                "auto" => Ok(ToolChoice::Auto),
                "none" => Ok(ToolChoice::None),
                "required" if self.tools.specs.is_empty() => {
                    Err(field.wrong("a call is required, but the request has no tools that are run here"))
                }
                "required" => Ok(ToolChoice::Required),
                _ => Err(field.wrong("expected \"auto\", \"none\", \"required\" or an object")),
            },
            Some(_) => match field.kind()? {
                "function" => Ok(ToolChoice::Only(vec![self.named(field)?])),
                "allowed_tools" => self.allowed(field),
                kind => Err(field.at("type").wrong(format!("tools of the type {kind:?} are not run here"))),
            },
        }
    }

    fn allowed(&mut self, field: &Field<'_>) -> Result<ToolChoice, Refusal> {
        let mut names = Vec::new();
        for tool in field.at("tools").needed_list()? {
            match tool.kind()? {
                "function" => names.push(self.named(&tool)?),
                kind => left_out(&tool, kind),
            }
        }
        match field.at("mode").needed_text()? {
            "auto" => {
                self.tools.specs.retain(|spec| names.contains(&spec.name));
                Ok(ToolChoice::Auto)
            }
            "required" if names.is_empty() => {
                Err(field.wrong("a call is required of one of no tools that are run here"))
            }
            "required" => Ok(ToolChoice::Only(names)),
            _ => Err(field.at("mode").wrong("expected \"auto\" or \"required\"")),
        }
    }

    /// The name of a tool that there has to be.
    fn named(&self, field: &Field<'_>) -> Result<ToolName, Refusal> {
        let name = name_of(field)?;
        let tool = self.tools.specs.iter().find(|spec| spec.name.as_str() == name);
        tool.map(|tool| tool.name.clone())
            .ok_or_else(|| field.at("name").wrong(format!("the request has no tool {name:?}")))
    }
}

fn left_out(tool: &Field<'_>, kind: &str) {
    tool.warn(format!("tools of the type {kind:?} are not run here: this one is left out"));
}
