//! What both APIs ask for, in the engine's words; and the tools of a request, checked before it waits for its turn.

use std::num::NonZeroUsize;

use serde_json::Value;
use toolgate_chat::{EFFECT, LOOKUP, ToolCall, ToolChoice, ToolName, ToolSpec, Transcript};
use toolgate_grammar::{Contract, Options, Place, Schema, Undeclared, compile};

use super::field::Field;
use super::refusal::Refusal;
use crate::engine::{AnswerForm, CallCheck, Fault, Sampling};
use crate::tools::Check;
use crate::words::verbs;

/// A turn that a client asks for.
#[derive(Debug)]
pub(super) struct Ask {
    /// The model's name, as the client calls it.
    pub(super) model: String,
    pub(super) transcript: Transcript,
    pub(super) tools: Tools,
    pub(super) choice: ToolChoice,
    /// The most calls of the turn; `None` leaves it to the model's options.
    pub(super) parallel: Option<NonZeroUsize>,
    /// The schema of the answer, where it is JSON.
    pub(super) form: Option<Value>,
    pub(super) sampling: Sampling,
    pub(super) stream: bool,
}

impl Ask {
    /// What its answer is, where it is one.
    pub(super) fn form(&self) -> AnswerForm<'_> {
        self.form.as_ref().map_or(AnswerForm::Text, AnswerForm::Json)
    }
}

/// The calls of a turn where a client asks for parallel ones.
pub(super) const PARALLEL: NonZeroUsize = NonZeroUsize::MIN.saturating_add(15);

/// Tools of a request at most.
const MOST_TOOLS: usize = 1_024;

/// The client's tools.
#[derive(Debug, Default)]
pub(super) struct Tools {
    pub(super) specs: Vec<ToolSpec>,
    /// Of the tools that a grammar does not hold in full, what finished calls are held to.
    checks: Vec<(ToolName, Check)>,
}

impl Tools {
    /// Adds a tool whose schema stands at `schema`. What its definition does not say of it, its name may.
    pub(super) fn add(
        &mut self,
        mut spec: ToolSpec,
        definition: &Value,
        schema: &Field<'_>,
    ) -> Result<(), Refusal> {
        if definition.get(LOOKUP).is_none() && verbs::looks_into_own(spec.name.as_str()) {
            spec.lookup = true;
        }
        if definition.get(EFFECT).is_none() {
            spec.effect = verbs::effect(spec.name.as_str());
        }
        if self.specs.iter().any(|other| other.name == spec.name) {
            return Err(schema.wrong(format!("two tools are called \"{}\"", spec.name)));
        }
        if self.specs.len() >= MOST_TOOLS {
            return Err(schema.wrong(format!("this is one of more than {MOST_TOOLS} tools")));
        }
        let contract = contract(&spec.closed_parameters(), Undeclared::Allowed, schema.pointer())?;
        if !contract.is_complete() {
            let check = Check::new(&spec.parameters).map_err(|why| schema.wrong(why))?;
            self.checks.push((spec.name.clone(), check));
        }
        self.specs.push(spec);
        Ok(())
    }

    /// A name, which has to be that of a tool.
    pub(super) fn name(&self, field: &Field<'_>) -> Result<ToolName, Refusal> {
        let name = field.needed_text()?;
        let tool = self.specs.iter().find(|spec| spec.name.as_str() == name);
        tool.map(|tool| tool.name.clone())
            .ok_or_else(|| field.wrong(format!("the request has no tool {name:?}")))
    }

    /// The check of finished calls, where grammars leave something to check, or a call could be one of these again.
    pub(super) fn check(&self, settled: &[ToolCall]) -> Option<&dyn CallCheck> {
        let is_needed = !(self.checks.is_empty() && settled.is_empty());
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
pub(super) fn no_tool(field: &Field<'_>, error: &toolgate_chat::Error) -> Refusal {
    let message = error.to_string();
    match error.place() {
        Some(toolgate_chat::Place::Pointer(inner)) => {
            let message = message.strip_suffix(&format!(" at {inner}")).unwrap_or(&message);
            Refusal::at(&format!("{field}{inner}"), message)
        }
        _ => field.wrong(message),
    }
}

/// The schema of an answer, which its grammar has to hold in full: nobody checks an answer afterwards.
pub(super) fn answer_schema(field: &Field<'_>) -> Result<Value, Refusal> {
    let Some(schema) = field.value() else { return Err(field.wrong("a schema is missing")) };
    let contract = contract(schema, Undeclared::Forbidden, field.pointer())?;
    match contract.checked().next() {
        None => Ok(schema.clone()),
        Some(entry) => Err(Refusal::at(
            &format!("{}{}", field.pointer(), entry.pointer()),
            format!(
                "a grammar cannot hold an answer to the keyword \"{}\"; leave it out and check it",
                entry.keyword()
            ),
        )),
    }
}

/// Compiles a schema that stands at `pointer`, for what becomes of its keywords.
fn contract(schema: &Value, undeclared: Undeclared, pointer: &str) -> Result<Contract, Refusal> {
    let options = Options { undeclared, ..Options::default() };
    let compiled = Schema::parse(schema).and_then(|schema| compile(&schema, &options));
    compiled.map(|compiled| compiled.contract).map_err(|error| {
        let place = match error.place() {
            Some(Place::Pointer(inner)) => format!("{pointer}{inner}"),
            _ => pointer.to_owned(),
        };
        Refusal::at(&place, format!("this schema cannot be used: {error}"))
    })
}

/// A seed for requests that bring none: they want what the temperature makes of it each time.
pub(super) fn any_seed() -> u64 {
    uuid::Uuid::new_v4().as_u64_pair().0
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use serde_json::json;

    use super::*;

    #[test]
    fn a_tool_s_name_tells_that_it_looks_things_up_unless_its_definition_does() {
        for (definition, looks_up) in [
            (json!({"name": "read_file"}), true),
            (json!({"name": "read_file", "x-lookup": false}), false),
            (json!({"name": "get_weather"}), false),
            (json!({"name": "get_weather", "x-lookup": true}), true),
        ] {
            let mut tools = Tools::default();
            let schema = Field::root(&definition).at("parameters");
            tools.add(ToolSpec::from_openai(&definition).unwrap(), &definition, &schema).unwrap();
            assert_eq!(tools.specs[0].lookup, looks_up, "{definition}");
        }
    }
}
