//! A typed tool for any client of the Model Context Protocol, on standard input and output. No model is needed.
//! Run: `npx @modelcontextprotocol/inspector --cli cargo run --release --features mcp --example mcp_tools --method tools/list`

use toolgate::mcp::{Server, Unasked, serve_stdio};
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
    serve_stdio(Server::new(tools, Unasked::Deny))?;
    Ok(())
}
