//! Embed toolgate: one typed tool, one question.
//! Run: `toolgate model pull qwen2.5-coder-1.5b && cargo run --release --features agent,llama --example quickstart`
#![allow(clippy::print_stdout, reason = "an example")]

use std::sync::Arc;

use toolgate::agent::{self, Agent};
use toolgate::engine::LocalEngine;
use toolgate::tools::{Registry, typed};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Stock {
    /// The article, such as A-17.
    #[schemars(regex(pattern = r"^[A-Z]-\d{1,4}$"))]
    article: String,
}

fn main() -> anyhow::Result<()> {
    let stock = typed("get_stock", "How many pieces of an article are in stock.", |stock: Stock| {
        Ok::<_, String>(format!("{}: 42 pieces", stock.article))
    })?;
    let mut tools = Registry::new();
    tools.add(stock.read_only())?;
    let engine = LocalEngine::open("qwen2.5-coder-1.5b")?;
    let agent = Agent::new(Arc::new(engine), tools, agent::Options::default());
    println!("{}", agent.ask("How many pieces of A-17 do we have in stock?")?.answer);
    Ok(())
}
