//! A tool with state and a schema of its own, beside the built-in file tools, and what a run looks like from outside.
//! Run: `toolgate model pull qwen2.5-coder-1.5b && cargo run --release --features agent,llama --example custom_tool`
#![allow(clippy::print_stdout, reason = "an example")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;
use toolgate::agent::{self, Agent, Event};
use toolgate::chat::{Message, ToolSpec, Transcript};
use toolgate::engine::{Cancel, LocalEngine};
use toolgate::sandbox::policy::{Mode, Policy};
use toolgate::sandbox::{Root, ambient_authority};
use toolgate::tools::{Args, Effect, Registry, Tool, ToolResult, file_tools};

/// Hands out ticket numbers.
struct NewTicket {
    spec: ToolSpec,
    last: AtomicU64,
}

impl NewTicket {
    fn new() -> Result<Self, toolgate::chat::Error> {
        let parameters = json!({
            "type": "object",
            "properties": {
                "title": {"type": "string", "maxLength": 60},
                "priority": {"enum": ["low", "normal", "high"]}
            },
            "required": ["title", "priority"],
            "additionalProperties": false
        });
        let spec = ToolSpec::new("new_ticket", "Open a ticket and return its number.", parameters)?;
        Ok(Self { spec, last: AtomicU64::new(1041) })
    }
}

impl Tool for NewTicket {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn effect(&self) -> Effect {
        Effect::Changes
    }

    fn call(&self, args: &Args) -> ToolResult {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        ToolResult::ok(format!("opened ticket {number}: {}", args.str("title").unwrap_or_default()))
    }
}

fn main() -> anyhow::Result<()> {
    let workspace = Root::open("examples/workspace", ambient_authority())?;
    let mut tools = Registry::new();
    for tool in file_tools(&workspace, &Policy::default_for(Mode::Intel), Mode::Intel)? {
        tools.add(tool)?;
    }
    tools.add(NewTicket::new()?)?;

    let engine = LocalEngine::open("qwen2.5-coder-1.5b")?;
    let agent = Agent::new(Arc::new(engine), tools, agent::Options::default());
    let task = "Open a ticket with high priority, titled: back up the database";
    let mut transcript = Transcript::new().with(Message::User(task.into()));
    let outcome = agent.run(&mut transcript, &Cancel::default(), &mut |event| match event {
        Event::ToolCall { name, arguments, .. } => {
            println!("-> {name} {}", serde_json::Value::Object(arguments))
        }
        Event::ToolResult { status, content, .. } => println!("<- {}: {content}", status.as_str()),
        _ => {}
    })?;
    println!("{}", outcome.answer);
    Ok(())
}
