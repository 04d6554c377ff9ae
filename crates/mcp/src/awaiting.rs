//! Tests of the server with a tool that awaits: it finds the server's runtime, and what stands beside it goes on.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::time::Duration;

use rmcp::ServiceExt as _;
use rmcp::model::CallToolRequestParams;
use serde_json::json;
use toolgate_chat::ToolSpec;
use toolgate_engine::Cancel;
use toolgate_tools::{Args, Calling, Effect, Registry, Tool, ToolResult, Unasked};

use super::Server;

/// Waits for a clock of the runtime; what it is called as says how.
struct Clock(ToolSpec);

impl Tool for Clock {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn effect(&self) -> Effect {
        Effect::Reads
    }

    fn call(&self, _: &Args) -> ToolResult {
        ToolResult::failed("the plain call was made")
    }

    fn call_async<'a>(&'a self, _: &'a Args, _: &'a Cancel) -> Calling<'a> {
        Box::pin(async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            ToolResult::ok("the clock has struck")
        })
    }
}

#[test]
fn a_tool_that_awaits_finds_the_runtime_of_the_server() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut tools = Registry::new();
    let parameters = json!({"type": "object", "properties": {}});
    tools.add(Clock(ToolSpec::new("wait", "Wait.", parameters).unwrap())).unwrap();
    let answer = runtime.block_on(async {
        let (here, there) = tokio::io::duplex(64 * 1024);
        let server = tokio::spawn(Server::new(tools, Unasked::Deny).serve(there));
        let client = ().serve(here).await.unwrap();
        let _server = server.await.unwrap().unwrap();
        client.call_tool(CallToolRequestParams::new("wait")).await.unwrap()
    });
    let answer = serde_json::to_value(answer).unwrap();
    assert_eq!(answer["content"][0]["text"], "the clock has struck");
}
