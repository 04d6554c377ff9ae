//! The server over the scripted model, in this process: what the tests of its shapes, of faults and of load share.

mod begun;
mod faults;
mod fields;
mod forms;
mod lenient;
mod load;
mod long;
mod own_tools;
mod programs;
mod responses;
mod runs;
mod shapes;
mod thoughts;
mod whole;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use toolgate::engine::{self, Engine, LocalEngine};
use toolgate::serve::{self, Execute, Server, Stopper, Workbench};
use toolgate_chat::{Dialogue, Template, TemplateTokens};
use toolgate_infer::Vocabulary;
use toolgate_infer::scripted::Scripted;

use crate::agent::TEMPLATE;

/// A server, stopped when the test ends.
struct Served {
    base: String,
    address: String,
    stopper: Stopper,
    server: Option<Server>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stopper.stop();
        let ended = self.server.take().map(Server::wait);
        if !std::thread::panicking() {
            ended.unwrap().unwrap();
        }
    }
}

fn start(engine: impl Engine + 'static, execute: Option<Execute>, options: serve::Options) -> Served {
    let options = options.address("127.0.0.1:0".parse().unwrap());
    let server = Server::start(Arc::new(engine), execute, options).unwrap();
    let address = server.address().to_string();
    Served { base: format!("http://{address}"), address, stopper: server.stopper(), server: Some(server) }
}

fn scripted(model: Scripted, options: engine::Options) -> LocalEngine<Scripted> {
    let dialogue = Dialogue::derived(Template::new(TEMPLATE, TemplateTokens::default()).unwrap());
    LocalEngine::new("scripted", model, dialogue, options)
}

/// A model that says what its name in the question asks for, whatever else the prompt holds.
fn model() -> Scripted {
    let weather = |city: &str| call("get_weather", &format!("{{\"city\": \"{city}\"}}"));
    Scripted::new(Arc::new(Vocabulary::bytes_only()))
        .context(16_384)
        .on("rain in Oslo</tool_response>", "It rains in Oslo.")
        .on("no such city</tool_response>", "There is no such city.")
        .on("Both cities", [weather("Oslo"), weather("Oslo"), weather("Rome")].concat())
        .on("As JSON", "{\"city\": \"Oslo\", \"rain\": true}")
        .on("Weather", weather("Oslo"))
        .on("Ids", call("pick", "{\"ids\": [3, 3]}"))
        .on("Long", "word ".repeat(60))
        .on("Hello", "Hello there. How are you?")
}

fn call(name: &str, arguments: &str) -> String {
    format!("<tool_call>\n{{\"name\": \"{name}\", \"arguments\": {arguments}}}\n</tool_call>")
}

fn served() -> Served {
    start(scripted(model(), engine::Options::guided()), None, serve::Options::default())
}

fn agent_for(timeout: Duration) -> ureq::Agent {
    let config = ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(timeout));
    config.build().into()
}

/// Status, headers' `retry-after`, and the body.
fn send(served: &Served, path: &str, body: &str, headers: &[(&str, &str)]) -> (u16, Option<String>, String) {
    let mut request = agent_for(Duration::from_secs(60)).post(format!("{}{path}", served.base));
    if !headers.iter().any(|(name, _)| *name == "content-type") {
        request = request.header("content-type", "application/json");
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let mut response = request.send(body).unwrap();
    let retry = response.headers().get("retry-after").map(|value| value.to_str().unwrap().to_owned());
    (response.status().as_u16(), retry, response.body_mut().read_to_string().unwrap())
}

fn post(served: &Served, path: &str, body: &Value) -> (u16, Value) {
    let (status, _, text) = send(served, path, &body.to_string(), &[]);
    (status, serde_json::from_str(&text).unwrap_or_else(|_| panic!("{status} {text}")))
}

fn fetch(served: &Served, path: &str) -> (u16, String) {
    let mut response =
        agent_for(Duration::from_secs(60)).get(format!("{}{path}", served.base)).call().unwrap();
    (response.status().as_u16(), response.body_mut().read_to_string().unwrap())
}

const CHAT: &str = "/v1/chat/completions";
const MESSAGES: &str = "/v1/messages";
const RESPONSES: &str = "/v1/responses";
const COUNT: &str = "/v1/messages/count_tokens";

fn parameters() -> Value {
    json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]})
}

fn openai_tools() -> Value {
    json!([
        {"type": "function", "function": {"name": "get_weather", "description": "d", "parameters": parameters()}},
        {"type": "function", "function": {"name": "book", "description": "d", "parameters": parameters()}},
    ])
}

fn merged(mut base: Value, more: Value) -> Value {
    base.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    base
}

fn chat(question: &str, more: Value) -> Value {
    merged(json!({"model": "scripted", "messages": [{"role": "user", "content": question}]}), more)
}

fn message(question: &str, more: Value) -> Value {
    merged(json!({"max_tokens": 400}), chat(question, more))
}

fn anthropic_tools() -> Value {
    json!([
        {"name": "get_weather", "description": "d", "input_schema": parameters()},
        {"name": "book", "description": "d", "input_schema": parameters()},
    ])
}

/// The events of a stream: name and data.
fn events(text: &str) -> Vec<(String, String)> {
    let blocks = text.split("\n\n").filter(|block| !block.trim().is_empty());
    let field = |block: &str, name: &str| {
        block.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim().to_owned()
    };
    blocks.map(|block| (field(block, "event:"), field(block, "data:"))).collect()
}

fn chunks(served: &Served, body: Value) -> Vec<Value> {
    let (status, _, text) = send(served, CHAT, &merged(body, json!({"stream": true})).to_string(), &[]);
    assert_eq!(status, 200, "{text}");
    let mut events = events(&text);
    assert_eq!(events.pop().unwrap().1, "[DONE]");
    events.iter().map(|(_, data)| serde_json::from_str(data).unwrap()).collect()
}
