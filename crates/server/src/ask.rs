//! A request of any API, in the engine's words, and its tools. The server checks the tools before the request
//! waits.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::num::NonZeroUsize;

use serde_json::Value;
use toolgate_agent::client::with_refusals;
use toolgate_chat::{EFFECT, ToolCall, ToolChoice, ToolName, ToolSpec, names};
use toolgate_grammar::{self as grammar, Contract, Place, Undeclared, compile};

use super::field::Field;
use super::form::Form;
use super::history::Conversation;
use super::names::Names;
use super::refusal::Refusal;
use super::warning::Warning;
use toolgate_engine::{AnswerForm, CallCheck, Fault, ReasoningMode, Sampling};
use toolgate_tools::Check;

/// A turn that a client asks for.
#[derive(Debug)]
pub(super) struct Ask {
    /// The model's name, as the client calls it.
    pub(super) model: Option<String>,
    pub(super) conversation: Conversation,
    pub(super) tools: Tools,
    pub(super) choice: ToolChoice,
    /// The most calls of the turn. `None` leaves it to the model's options.
    pub(super) parallel: Option<NonZeroUsize>,
    /// The form of an answer that is no plain text.
    pub(super) form: Option<Form>,
    pub(super) sampling: Sampling,
    /// The JSON pointer of the field that asks for thoughts.
    pub(super) thinks_at: Option<String>,
    /// The number of answers to the request.
    pub(super) choices: NonZeroUsize,
    /// The number of other tokens told beside each token of the answer. `None` tells no likelihoods.
    pub(super) likelihoods: Option<usize>,
    pub(super) stream: bool,
    /// The parts of the request that are not done as they were sent.
    pub(super) warnings: Vec<Warning>,
}

impl Ask {
    /// The form of its answer.
    pub(super) fn form(&self) -> AnswerForm<'_> {
        Form::of(self.form.as_ref())
    }

    /// Takes back a request for thoughts: the model decides. Gives the warning of it, if the request asked
    /// for thoughts. Programs ask models for thoughts that have none. Such a model answers all the same.
    pub(super) fn leave_thoughts(&mut self, why: &dyn Display) -> Option<Warning> {
        let pointer = self.thinks_at.take()?;
        self.sampling.reasoning.mode = ReasoningMode::Auto;
        Some(Warning { pointer, message: format!("the answer is made without: {why}") })
    }

    /// The request as the turn is made from it. The tools have the names that the model knows.
    ///
    /// # Errors
    /// A refusal of a request that contradicts itself.
    pub(super) fn settled(mut self, root: &Field<'_>) -> Result<Self, Refusal> {
        let told = self.tools.names.told(self.conversation.transcript);
        self.conversation.transcript = with_refusals(told, &self.tools.specs);
        if self.conversation.begun.is_some()
            && matches!(self.choice, ToolChoice::Required | ToolChoice::Only(_))
        {
            let message = "the last message begins an answer, and a call is required: one of both";
            let field = ["function_call", "tool_choice"].map(|name| root.at(name));
            let [old, field] = &field;
            return Err(if old.is_there() { old } else { field }.wrong(message));
        }
        if self.choice == ToolChoice::None {
            // A model that is told of tools tends to call them.
            self.tools.specs.clear();
        }
        Ok(self)
    }
}

/// The most calls of a turn where a client asks for parallel ones.
pub(super) const PARALLEL: NonZeroUsize = NonZeroUsize::MIN.saturating_add(15);

/// The most tools of a request.
const MOST_TOOLS: usize = 1_024;

/// A tool as an API has it.
pub(super) struct Defined<'a> {
    /// Where it stands.
    pub(super) at: Field<'a>,
    /// Its definition: name, description and schema.
    pub(super) definition: Field<'a>,
}

/// The keys under which definitions have their schemas. Clients send one API's definitions to another.
const SCHEMAS: [&str; 3] = ["parameters", "input_schema", "inputSchema"];

/// The client's tools.
#[derive(Debug, Default)]
pub(super) struct Tools {
    pub(super) specs: Vec<ToolSpec>,
    pub(super) names: Names,
    /// The checks of finished calls, for tools that a grammar does not hold in full.
    checks: Vec<(ToolName, Check)>,
}

impl Tools {
    /// The tools of these definitions. A tool that cannot be called is left out with a warning. The others
    /// stay.
    pub(super) fn read(defined: &[Defined<'_>]) -> Self {
        let names = defined.iter().filter_map(|tool| tool.definition.at("name").value()?.as_str());
        let mut tools = Self { names: Names::of(names), ..Self::default() };
        let mut seen = BTreeSet::new();
        for tool in defined {
            if let Err(why) = tools.add(tool, &mut seen) {
                let message = format!("this tool is left out: {}", why.message);
                tool.at.warn_at(why.pointer.as_deref().unwrap_or_default(), message);
            }
        }
        tools
    }

    /// Adds a tool. Its name may tell what its definition does not.
    fn add(&mut self, tool: &Defined<'_>, seen: &mut BTreeSet<String>) -> Result<(), Refusal> {
        let Defined { at, definition: field } = tool;
        let Some(Value::Object(definition)) = field.value() else {
            return Err(field.wrong("the definition is missing"));
        };
        let mut definition = definition.clone();
        if let Some(name) = field.at("name").text()? {
            if !seen.insert(name.to_owned()) {
                return Err(field.at("name").wrong(format!("another tool is called {name:?}")));
            }
            if let Some(plain) = self.names.for_model(name) {
                definition.insert("name".to_owned(), plain.as_str().into());
            }
        }
        if self.specs.len() >= MOST_TOOLS {
            return Err(at.wrong(format!("this is one of more than {MOST_TOOLS} tools")));
        }
        let definition = Value::Object(definition);
        let mut spec = ToolSpec::from_any(&definition).map_err(|error| no_tool(field, &error))?;
        if definition.get(EFFECT).is_none() {
            spec.effect = names::effect(spec.name.as_str());
        }
        let schema = SCHEMAS.map(|key| field.at(key)).into_iter().find(Field::is_there);
        let schema = schema.unwrap_or_else(|| field.at(SCHEMAS[0]));
        let contract = contract(&spec.closed_parameters(), Undeclared::Allowed, schema.pointer())?;
        if !contract.is_complete() {
            let check = Check::new(&spec.parameters).map_err(|why| schema.wrong(why))?;
            self.checks.push((spec.name.clone(), check));
        }
        self.specs.push(spec);
        Ok(())
    }

    /// A name. It has to be that of a tool.
    pub(super) fn name(&self, field: &Field<'_>) -> Result<ToolName, Refusal> {
        let name = field.needed_text()?;
        let plain = self.names.for_model(name).map_or(name, ToolName::as_str);
        let tool = self.specs.iter().find(|spec| spec.name.as_str() == plain);
        tool.map(|tool| tool.name.clone())
            .ok_or_else(|| field.wrong(format!("the request has no tool {name:?} that can be called here")))
    }

    /// The check of finished calls. There is one if a grammar leaves something to check, or if the model
    /// could make one of `completed` again.
    pub(super) fn check(&self, completed: &[ToolCall]) -> Option<&dyn CallCheck> {
        let is_needed = !(self.checks.is_empty() && completed.is_empty());
        is_needed.then_some(self as &dyn CallCheck)
    }
}

impl CallCheck for Tools {
    fn fault(&self, call: &ToolCall) -> Option<Fault> {
        let (_, check) = self.checks.iter().find(|(name, _)| name.as_str() == call.name)?;
        let violation = check.violations(&Value::Object(call.arguments.clone())).into_iter().next()?;
        Some(Fault { pointer: violation.place(), why: violation.to_string() })
    }
}

/// The refusal of what stands at `field` and is no tool's definition.
fn no_tool(field: &Field<'_>, error: &toolgate_chat::Error) -> Refusal {
    let message = error.to_string();
    match error.place() {
        Some(toolgate_chat::Place::Pointer(inner)) => {
            let message = message.strip_suffix(&format!(" at {inner}")).unwrap_or(&message);
            Refusal::at(&format!("{field}{inner}"), message)
        }
        _ => field.wrong(message),
    }
}

/// Compiles the schema at `pointer` and gives what became of its keywords.
pub(super) fn contract(schema: &Value, undeclared: Undeclared, pointer: &str) -> Result<Contract, Refusal> {
    let options = grammar::Options::default().undeclared(undeclared);
    let compiled = toolgate_chat::read_schema(schema).and_then(|schema| compile(&schema, &options));
    compiled.map(|compiled| compiled.contract).map_err(|error| {
        let place = match error.place() {
            Some(Place::Pointer(inner)) => format!("{pointer}{inner}"),
            _ => pointer.to_owned(),
        };
        Refusal::at(&place, format!("this schema cannot be used: {error}"))
    })
}

/// A seed for requests that bring none. They want a new text each time.
pub(super) fn any_seed() -> u64 {
    uuid::Uuid::new_v4().as_u64_pair().0
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use serde_json::json;

    use super::*;

    /// The tools of a list, and the pointers of the warnings.
    fn read(list: &Value) -> (Tools, Vec<String>) {
        let body = json!({ "tools": list });
        let at = Field::root(&body).at("tools");
        let defined: Vec<Defined<'_>> =
            at.list().unwrap().into_iter().map(|at| Defined { definition: at.clone(), at }).collect();
        let tools = Tools::read(&defined);
        (tools, at.warnings().into_iter().map(|warning| warning.pointer).collect())
    }

    #[test]
    fn a_tool_that_cannot_be_called_is_left_out_and_the_others_stay() {
        let (tools, warned) = read(&json!([
            {"name": "good", "parameters": {"type": "object"}},
            {"name": "wrong", "parameters": {"properties": {"q": {"type": "string", "required": false}}, "required": null}},
            {"name": "good", "parameters": {}},
            {"description": "no name"},
            {"name": "", "parameters": {}},
            {"name": "open", "input_schema": {"properties": {"a": {"$ref": "#/nowhere"}}}},
            "text",
            {"name": "odd name", "inputSchema": {"type": "object"}},
        ]));
        let names: Vec<&str> = tools.specs.iter().map(|spec| spec.name.as_str()).collect();
        assert_eq!(names, ["good", "odd_name"]);
        assert_eq!(warned.len(), 6, "{warned:?}");
        for (warned, place) in warned.iter().zip([
            "/tools/1/parameters",
            "/tools/2/name",
            "/tools/3/name",
            "/tools/4/name",
            "/tools/5/input_schema/properties/a",
            "/tools/6",
        ]) {
            assert!(warned.starts_with(place), "{warned} {place}");
        }
        let wanted = json!({"name": "odd name", "left": "open"});
        let wanted = Field::root(&wanted);
        assert_eq!(tools.name(&wanted.at("name")).unwrap().as_str(), "odd_name");
        assert!(tools.name(&wanted.at("left")).is_err());
    }
}
