//! The tools of a run by name, with the check that stands before every call.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use serde_json::{Map, Value, json};
use toolgate_chat::{ToolCall, ToolSpec};

use super::{Check, Effect, Fit, Misplaced, Said, Tool, ToolResult, Violation, narrow};
use crate::Error;

/// Tools in the order they are offered, each with its compiled schema.
#[derive(Default)]
pub struct Registry {
    entries: Vec<Entry>,
    by_name: BTreeMap<String, usize>,
    /// What the tools are allowed, as a text that differs where policies differ.
    policy: String,
    /// Who is told of calls whose effects cannot be taken back.
    witness: Option<Arc<Witness>>,
}

/// Whoever is told of a call before it is made; an error keeps it from being made.
pub type Witness = dyn Fn(&ToolCall) -> Result<(), Error> + Send + Sync;

struct Entry {
    tool: Box<dyn Tool>,
    check: Check,
}

impl Registry {
    /// No tools.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same registry, marked with the policy its tools were made under, so that approvals are bound to it.
    #[must_use]
    pub fn under(mut self, policy: String) -> Self {
        self.policy = policy;
        self
    }

    /// What [`under`](Self::under) was given.
    pub fn policy(&self) -> &str {
        &self.policy
    }

    /// The same registry, which tells `witness` of each call whose effects cannot be taken back, before it is made.
    #[must_use]
    pub fn telling(mut self, witness: Arc<Witness>) -> Self {
        self.witness = Some(witness);
        self
    }

    /// No tools, marked as this registry is.
    fn emptied(&self) -> Self {
        Self { policy: self.policy.clone(), witness: self.witness.clone(), ..Self::default() }
    }

    /// Adds a tool after the others.
    ///
    /// # Errors
    /// A name that is taken, or a schema that cannot be checked against.
    pub fn add(&mut self, tool: impl Tool + 'static) -> Result<(), Error> {
        self.add_boxed(Box::new(tool))
    }

    /// [`add`](Self::add) for a tool that is already boxed.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub fn add_boxed(&mut self, tool: Box<dyn Tool>) -> Result<(), Error> {
        let name = tool.spec().name.to_string();
        if self.by_name.contains_key(&name) {
            return Err(Error::input(format!("two tools are called \"{name}\"")));
        }
        let check = Check::new(&tool.spec().parameters)
            .map_err(|why| Error::input(format!("the schema of tool \"{name}\" is not valid: {why}")))?;
        self.by_name.insert(name, self.entries.len());
        self.entries.push(Entry { tool, check });
        Ok(())
    }

    /// Keeps only the named tools, in this order.
    ///
    /// # Errors
    /// A name that no tool has; the message lists those there are.
    pub fn select(self, names: &[String]) -> Result<Self, Error> {
        let known = self.names().collect::<Vec<_>>().join(", ");
        let mut selected = self.emptied();
        let mut by_name: BTreeMap<String, Entry> =
            self.entries.into_iter().map(|entry| (entry.tool.spec().name.to_string(), entry)).collect();
        for name in names {
            let entry = by_name
                .remove(name)
                .ok_or_else(|| Error::input(format!("no tool \"{name}\" to select; there are: {known}")))?;
            selected.by_name.insert(name.clone(), selected.entries.len());
            selected.entries.push(entry);
        }
        Ok(selected)
    }

    /// Leaves out the named tools, where they are there.
    #[must_use]
    pub fn without(self, names: &[&str]) -> Self {
        let mut rest = self.emptied();
        for entry in self.entries {
            let name = entry.tool.spec().name.to_string();
            if !names.contains(&name.as_str()) {
                rest.by_name.insert(name, rest.entries.len());
                rest.entries.push(entry);
            }
        }
        rest
    }

    /// The definitions, in the order offered.
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.entries.iter().map(|entry| entry.tool.spec().clone()).collect()
    }

    /// The definitions with the parameters held to what the state at hand leaves of them, and how each tool goes with
    /// what the user named ([`Tool::narrow`]).
    pub fn narrowed(&self, said: &Said) -> (Vec<ToolSpec>, Vec<Fit>) {
        let tools = self.entries.iter().map(|entry| &entry.tool);
        let narrowed = tools.map(|tool| {
            let left = tool.narrow(said);
            (narrow::narrowed(tool.spec(), &left.parameters), left.fit)
        });
        narrowed.unzip()
    }

    /// The first argument of a call that the state at hand does not admit ([`Tool::misplaced`]).
    pub fn misplaced(&self, call: &ToolCall, said: &Said) -> Option<Misplaced> {
        self.entry(&call.name)?.tool.misplaced(&call.arguments, said)
    }

    /// The names, in the order offered.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.tool.spec().name.as_str())
    }

    /// Whether no tool is offered.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What calling the tool of that name may do; `None` if there is none.
    pub fn effect(&self, name: &str) -> Option<Effect> {
        self.entry(name).map(|entry| entry.tool.effect())
    }

    /// What that call would change, where its tool can tell and its arguments fit.
    pub fn preview(&self, call: &ToolCall) -> Option<String> {
        let entry = self.entry(&call.name)?;
        entry.tool.preview(&entry.check.check(&call.arguments).ok()?)
    }

    /// Whether somebody is to be asked before that call.
    pub fn needs_approval(&self, call: &ToolCall) -> bool {
        self.entry(&call.name).is_some_and(|entry| entry.tool.needs_approval_of(call))
    }

    /// What is wrong with a call's arguments; nothing for a tool that is not there.
    pub fn violations(&self, call: &ToolCall) -> Vec<Violation> {
        let checked = self.entry(&call.name).map(|entry| entry.check.check(&call.arguments));
        checked.and_then(Result::err).unwrap_or_default()
    }

    /// Runs a call: finds the tool, checks the arguments, calls it, times it.
    /// Whatever is wrong becomes a result the model can act on.
    pub fn call(&self, call: &ToolCall) -> ToolResult {
        let start = Instant::now();
        let mut result = match self.entry(&call.name) {
            None => ToolResult::failed(format!(
                "there is no tool \"{}\"; the tools are: {}",
                call.name,
                self.names().collect::<Vec<_>>().join(", ")
            )),
            Some(entry) => match entry.check.check(&call.arguments) {
                Ok(args) => {
                    match self.witness.as_deref().filter(|_| entry.tool.defies_undo()).map(|tell| tell(call))
                    {
                        Some(Err(why)) => ToolResult::failed(format!("not run: {why}")),
                        _ => entry.tool.call(&args),
                    }
                }
                Err(violations) => misfit(&call.name, &violations),
            },
        };
        result.ms = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
        result
    }

    /// [`call`](Self::call) with the arguments as JSON text, for programs and tests.
    pub fn call_json(&self, name: &str, arguments: &str) -> ToolResult {
        match serde_json::from_str::<Map<String, Value>>(arguments) {
            Ok(arguments) => self.call(&ToolCall::new(name, arguments)),
            Err(why) => ToolResult::failed(format!("the arguments are not a JSON object: {why}")),
        }
    }

    fn entry(&self, name: &str) -> Option<&Entry> {
        self.by_name.get(name).and_then(|&i| self.entries.get(i))
    }
}

/// The result of a call whose arguments are wrong: a sentence for each thing, and the same as data.
fn misfit(name: &str, violations: &[Violation]) -> ToolResult {
    let sentences: Vec<String> = violations.iter().map(Violation::to_string).collect();
    let content = format!("the arguments of {name} do not fit its schema: {}", sentences.join("; "));
    ToolResult { data: Some(json!({"violations": violations})), ..ToolResult::failed(content) }
}
