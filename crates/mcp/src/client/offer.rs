//! A server's offer as tools: the tools that the policy names, whose schemas have a grammar, under free names.

use std::sync::Arc;

use rmcp::model::{Tool as Definition, ToolAnnotations};
use serde_json::{Value, json};
use toolgate_chat::ToolSpec;
use toolgate_chat::names;
use toolgate_grammar::{self as grammar, compile};
use toolgate_sandbox::output;
use toolgate_sandbox::policy::{McpServer, Mode, Policy};

use super::connection::{Connection, MOST_TOOLS};
use super::tool::{Bounds, ServerTool};
use super::{Report, Unusable, execution, schema};
use crate::{Error, Kind};
use toolgate_tools::{Effect, Source, Told, Tool};

/// The most bytes of a schema.
const SCHEMA_BYTES: usize = 64 * 1024;

/// A server's offer.
pub(super) struct Offer {
    name: String,
    /// The tools that the policy names.
    wanted: Vec<String>,
    policy: Policy,
    /// What the server is granted beyond what commands are.
    powers: Vec<String>,
    /// Whether only tools are offered that say they change nothing: nothing else holds a server that runs elsewhere to that.
    only_reads: bool,
    connection: Arc<Connection>,
    report: Arc<Report>,
}

impl Offer {
    pub(super) fn new(
        name: &str,
        server: &McpServer,
        policy: &Policy,
        mode: Mode,
        connection: Arc<Connection>,
        report: Arc<Report>,
    ) -> Self {
        let (name, wanted) = (name.to_owned(), server.tools.clone());
        let only_reads = mode == Mode::Intel && connection.is_elsewhere();
        let powers = server.powers();
        Self { name, wanted, policy: policy.clone(), powers, only_reads, connection, report }
    }

    fn is_wanted(&self, tool: &str) -> bool {
        self.wanted.iter().any(|wanted| wanted == "*" || wanted == tool)
    }

    fn leave_out(&self, tool: &str, why: Error) {
        let name = format!("{} of the MCP server {}", output::name(tool), self.name);
        (self.report)(&Unusable { name, why });
    }

    /// A tool under a free name. If its name is taken, the server's name goes in front.
    fn tool(&self, told: &Definition, taken: &dyn Fn(&str) -> bool) -> Result<ServerTool, Error> {
        let own = told.name.as_ref();
        if execution::needs_a_task(told) {
            let why = "it can only be called as a task (taskSupport: required), and calls are not made so here; ask for \
                       another version of the server";
            return Err(Error::input(why));
        }
        let hint = |of: fn(&ToolAnnotations) -> Option<bool>| told.annotations.as_ref().and_then(of);
        let effect = match hint(|hints| hints.read_only_hint) {
            Some(true) => Effect::Reads,
            Some(false) => Effect::Changes,
            // What looks is believed of nobody who does not say it.
            None => Some(names::effect(own)).filter(|&effect| effect == Effect::Changes).unwrap_or_default(),
        };
        let reads = effect == Effect::Reads;
        if self.only_reads && !reads {
            let why = "it does not say that it only reads, and runs elsewhere, where intel mode cannot hold it to that; \
                       edit mode offers it";
            return Err(Error::new(Kind::Denied, why));
        }
        let name = match taken(own) {
            false => own.to_owned(),
            true => format!("{}__{own}", self.name),
        };
        if taken(&name) {
            return Err(Error::input(format!("two tools are called \"{}\"", output::name(&name))));
        }
        let secrets = self.connection.secrets();
        let mut schema = secrets.hide_json(Value::Object((*told.input_schema).clone()));
        if schema.to_string().len() > SCHEMA_BYTES {
            return Err(Error::input(format!("its schema has more than {SCHEMA_BYTES} bytes")));
        }
        schema::safe(&mut schema)?;
        let description = told.description.as_deref().unwrap_or_default().to_owned();
        let description = schema::text(&secrets.hide(description));
        let spec =
            ToolSpec::from_mcp(&json!({"name": name, "description": description, "inputSchema": schema}))?;
        // A schema without a grammar would end every turn. So only this tool is left out.
        compile(&toolgate_chat::read_schema(&spec.closed_parameters())?, &grammar::Options::default())?;
        // The hint can only narrow what the sandbox allows.
        let asks = self.policy.asks(&name) || self.policy.asks(own);
        let bounds = Bounds::of(&self.policy);
        Ok(ServerTool {
            spec,
            server: self.name.clone(),
            own: own.to_owned(),
            powers: self.powers.clone(),
            effect,
            asks,
            connection: self.connection.clone(),
            bounds,
        })
    }
}

impl Source for Offer {
    fn watch(&self, told: Arc<Told>) {
        self.connection.watch(told);
    }

    fn news(&self, taken: &dyn Fn(&str) -> bool) -> Option<Vec<Box<dyn Tool>>> {
        if !self.connection.take_changed() {
            return None;
        }
        let told = match self.connection.list() {
            Ok(told) => told,
            Err(why) => {
                (self.report)(&Unusable { name: format!("the MCP server {}", self.name), why });
                if self.connection.has_ended() {
                    return Some(Vec::new());
                }
                // What it offered before may still be there.
                self.connection.ask_again();
                return None;
            }
        };
        let mut tools: Vec<ServerTool> = Vec::new();
        for (count, told) in told.iter().filter(|told| self.is_wanted(&told.name)).enumerate() {
            if count >= MOST_TOOLS {
                let why =
                    format!("it is one of more than {MOST_TOOLS} tools; name those that you want in [mcp]");
                self.leave_out(&told.name, Error::input(why));
                break;
            }
            let also_own =
                |name: &str| taken(name) || tools.iter().any(|tool| tool.spec().name.as_str() == name);
            match self.tool(told, &also_own) {
                Ok(tool) => tools.push(tool),
                Err(why) => self.leave_out(&told.name, why),
            }
        }
        Some(tools.into_iter().map(|tool| Box::new(tool) as Box<dyn Tool>).collect())
    }
}
