//! The Model Context Protocol, both ways, as other programs meet it: lines of JSON over pipes, and HTTP.

mod added;
mod asking;
mod conformance;
mod elsewhere;
mod everything;
mod granted;
mod typed;

pub(crate) use asking::editor;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

use crate::model_server::{Asked, ModelServer, Reply, calls, models, results, says};
use crate::skip;

/// Longest wait for an answer: nothing here takes that long unless it hangs.
const PATIENCE: Duration = Duration::from_secs(60);

fn toolgate() -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("toolgate"));
    command.env("TOOLGATE_STATE", std::env::temp_dir().join("toolgate-tests-state"));
    command.env_remove("TOOLGATE_MODEL").env_remove("TOOLGATE_API_KEY").env("NO_COLOR", "1");
    command
}

/// A directory with a workspace `ws`, and beside it what is not the workspace's.
struct Field {
    base: tempfile::TempDir,
    ws: PathBuf,
}

impl Field {
    fn new() -> Self {
        let base = tempfile::tempdir().unwrap();
        let ws = base.path().join("ws");
        std::fs::create_dir(&ws).unwrap();
        std::fs::write(ws.join("a.txt"), "alpha\n").unwrap();
        std::fs::write(base.path().join("secret.txt"), "CANARY").unwrap();
        Self { base, ws }
    }

    fn policy(&self, text: &str) -> String {
        let file = self.base.path().join("policy.toml");
        std::fs::write(&file, text).unwrap();
        file.to_string_lossy().into_owned()
    }

    /// Runs the program here to its end: exit code, what it printed, what it said.
    fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        let output = toolgate().args(arguments).current_dir(&self.ws).stdin(Stdio::null()).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }
}

/// A client of `toolgate mcp` over pipes.
struct Client {
    child: Child,
    input: ChildStdin,
    lines: Receiver<Value>,
    id: u64,
    /// What the server says of itself.
    hello: Value,
    /// Notifications that came with the last answer.
    told: Vec<Value>,
}

impl Client {
    fn start(ws: &Path, arguments: &[&str]) -> Self {
        let mut child = toolgate()
            .arg("mcp")
            .args(arguments)
            .current_dir(ws)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (send, lines) = channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                // Nothing but messages is on standard output.
                let _ = send.send(serde_json::from_str(&line).unwrap());
            }
        });
        let input = child.stdin.take().unwrap();
        let mut client = Self { child, input, lines, id: 0, hello: Value::Null, told: Vec::new() };
        let hello = client.ask("initialize", &hello());
        assert_eq!(hello["result"]["serverInfo"]["name"], "toolgate", "{hello}");
        client.hello = hello["result"].clone();
        client.tell(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    fn tell(&mut self, message: &Value) {
        writeln!(self.input, "{message}").unwrap();
    }

    fn send(&mut self, method: &str, params: &Value) -> u64 {
        self.id += 1;
        let id = self.id;
        self.tell(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        let id = self.send(method, params);
        self.told.clear();
        loop {
            let message = self.lines.recv_timeout(PATIENCE).expect("no answer");
            if message["id"] == id {
                return message;
            }
            self.told.push(message);
        }
    }

    /// Waits for a notification, unless it came with the last answer.
    fn wait_for(&mut self, method: &str) {
        while !self.told.iter().any(|told| told["method"] == method) {
            self.told.push(self.lines.recv_timeout(PATIENCE).expect("no word"));
        }
    }

    fn tools(&mut self) -> Vec<Value> {
        let listed = self.ask("tools/list", &json!({}));
        listed["result"]["tools"].as_array().unwrap_or_else(|| panic!("{listed}")).clone()
    }

    fn names(&mut self) -> Vec<String> {
        self.tools().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    /// A call's text, and whether it is an error.
    fn call(&mut self, name: &str, arguments: &Value) -> (String, bool) {
        let answer = self.ask("tools/call", &json!({"name": name, "arguments": arguments}));
        let result = &answer["result"];
        let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
        // Claude Code shows its model nothing else where there is some.
        assert!(name == "ask" || result.get("structuredContent").is_none(), "{answer}");
        (text.to_owned(), result["isError"] == true)
    }

    /// Closes the input; the exit code.
    fn end(self) -> i32 {
        let Self { mut child, input, .. } = self;
        drop(input);
        child.wait().unwrap().code().unwrap()
    }
}

fn hello() -> Value {
    json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}})
}

fn by_name<'a>(tools: &'a [Value], name: &str) -> &'a Value {
    tools.iter().find(|tool| tool["name"] == name).unwrap_or_else(|| panic!("no {name} in {tools:?}"))
}

#[test]
fn tools_are_served_with_their_schemas_annotations_and_results() {
    let field = Field::new();
    let mut client = Client::start(&field.ws, &["--no-ask"]);
    let tools = client.tools();
    let read = by_name(&tools, "read_file");
    assert_eq!(read["annotations"]["readOnlyHint"], true);
    assert_eq!(read["inputSchema"]["required"], json!(["path"]));
    assert!(!tools.iter().any(|tool| tool["name"] == "ask" || tool["name"] == "write_file"), "{tools:?}");
    assert_eq!(client.call("read_file", &json!({"path": "a.txt"})), ("alpha\n".to_owned(), false));
    let (denied, is_error) = client.call("read_file", &json!({"path": "../secret.txt"}));
    assert!(is_error && denied.contains("outside") && !denied.contains("CANARY"), "{denied}");
    let (misfit, is_error) = client.call("read_file", &json!({"path": 3}));
    assert!(is_error && misfit.contains("/path"), "{misfit}");
    let unknown = client.ask("tools/call", &json!({"name": "nothing", "arguments": {}}));
    assert!(unknown["error"]["message"].as_str().unwrap().contains("read_file"), "{unknown}");
    assert_eq!(client.end(), 0);
}

#[test]
fn calls_that_a_person_would_be_asked_about_are_denied_unless_told_otherwise() {
    let field = Field::new();
    let write = json!({"path": "b.txt", "content": "beta"});
    let mut client = Client::start(&field.ws, &["--no-ask", "--mode", "edit"]);
    let tools = client.tools();
    assert_eq!(by_name(&tools, "write_file")["annotations"]["destructiveHint"], true);
    let (denied, is_error) = client.call("write_file", &write);
    assert!(is_error && denied.contains("--approve auto"), "{denied}");
    assert!(!field.ws.join("b.txt").exists());
    let mut client = Client::start(&field.ws, &["--no-ask", "--mode", "edit", "--approve", "auto"]);
    let (written, is_error) = client.call("write_file", &write);
    assert!(!is_error, "{written}");
    assert_eq!(std::fs::read_to_string(field.ws.join("b.txt")).unwrap(), "beta");
}

#[test]
fn what_is_no_message_is_passed_over() {
    let field = Field::new();
    let mut client = Client::start(&field.ws, &["--no-ask"]);
    for line in [
        "{\"jsonrpc\": \"2.0\", \"id\"",
        "[]",
        "{\"jsonrpc\": \"2.0\", \"id\": {}, \"method\": 1}",
        "\u{0}",
        "",
    ] {
        writeln!(client.input, "{line}").unwrap();
        assert_eq!(client.call("read_file", &json!({"path": "a.txt"})).0, "alpha\n", "after {line:?}");
    }
    // Longer than any line may be, and never held in memory whole.
    let piece = [b' '; 64 * 1024];
    (0..300).for_each(|_| client.input.write_all(&piece).unwrap());
    writeln!(client.input).unwrap();
    assert_eq!(client.call("read_file", &json!({"path": "a.txt"})).0, "alpha\n");
    let nameless = client.ask("tools/call", &json!({"arguments": {}}));
    assert!(nameless["error"]["code"].is_i64(), "{nameless}");
    let other = client.ask("no/such/method", &json!({}));
    assert_eq!(other["error"]["code"], -32601, "{other}");
    assert_eq!(client.end(), 0);
}

/// A client over streamable HTTP: the events of each answer.
struct Http {
    url: String,
    key: &'static str,
    session: Option<String>,
}

impl Http {
    fn post(&mut self, body: &Value, origin: Option<&str>) -> (u16, Vec<Value>) {
        let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
        let mut request = agent
            .post(&self.url)
            .header("Content-Type", "application/json")
            .header("Accept", "application/json, text/event-stream")
            .header("Authorization", format!("Bearer {}", self.key));
        if let Some(session) = &self.session {
            request = request.header("Mcp-Session-Id", session).header("MCP-Protocol-Version", "2025-06-18");
        }
        if let Some(origin) = origin {
            request = request.header("Origin", origin);
        }
        let mut response = request.send(body.to_string()).unwrap();
        if let Some(session) = response.headers().get("mcp-session-id") {
            self.session = Some(session.to_str().unwrap().to_owned());
        }
        let status = response.status().as_u16();
        let text = response.body_mut().read_to_string().unwrap();
        let events = text.lines().filter_map(|line| line.strip_prefix("data:"));
        (status, events.filter_map(|data| serde_json::from_str(data.trim()).ok()).collect())
    }

    /// What the server says unasked.
    fn words(&self) -> Receiver<Value> {
        let response = ureq::get(&self.url)
            .header("Accept", "text/event-stream")
            .header("Mcp-Session-Id", self.session.as_ref().unwrap())
            .header("MCP-Protocol-Version", "2025-06-18")
            .call()
            .unwrap();
        words_of(response.into_body())
    }
}

/// The events of a stream, as they come.
fn words_of(body: ureq::Body) -> Receiver<Value> {
    let (send, words) = channel();
    std::thread::spawn(move || {
        let lines = BufReader::new(body.into_reader()).lines().map_while(Result::ok);
        let data = lines.filter_map(|line| serde_json::from_str(line.strip_prefix("data:")?.trim()).ok());
        data.for_each(|word| drop(send.send(word)));
    });
    words
}

/// A program that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `toolgate mcp` over HTTP, and its address.
fn http_server(ws: &Path, arguments: &[&str]) -> (Running, String) {
    let mut child = toolgate()
        .args(["mcp", "--no-ask", "--http", "127.0.0.1:0"])
        .args(arguments)
        .current_dir(ws)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let url = lines.find_map(|line| Some(line.split_once("listening at ")?.1.trim().to_owned())).unwrap();
    std::thread::spawn(move || lines.for_each(drop));
    (Running(child), url)
}

#[test]
fn streamable_http_serves_those_who_have_the_key() {
    let field = Field::new();
    let (mut server, url) = http_server(&field.ws, &["--api-key", "secret"]);
    let child = &mut server.0;
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello()});
    let client = |key| Http { url: url.clone(), key, session: None };
    assert_eq!(client("wrong").post(&initialize, None).0, 401);
    for (origin, status) in [
        ("https://evil.example", 403),
        ("http://localhost.evil.example:80", 403),
        ("http://evil.example:8080", 403),
        ("null", 403),
        ("http://localhost:6274", 200),
        ("http://127.0.0.1:3000", 200),
        ("http://[::1]:5173", 200),
    ] {
        assert_eq!(client("secret").post(&initialize, Some(origin)).0, status, "{origin}");
    }
    let mut client = client("secret");
    let (status, events) = client.post(&initialize, None);
    assert_eq!((status, &events.last().unwrap()["result"]["serverInfo"]["name"]), (200, &json!("toolgate")));
    client.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}), None);
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call",
        "params": {"name": "read_file", "arguments": {"path": "a.txt"}}});
    let (_, events) = client.post(&call, None);
    assert_eq!(events.last().unwrap()["result"]["content"][0]["text"], "alpha\n");
    #[cfg(unix)]
    {
        let pid = child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        assert_eq!(child.wait().unwrap().code(), Some(0), "it ends in order");
    }
    #[cfg(not(unix))]
    child.kill().unwrap();
    let (code, _, why) = field.run(&["mcp", "--no-ask", "--http", "127.0.0.1:0", "--api-key", ""]);
    assert!(code == 2 && why.contains("empty"), "{code} {why}");
    let (code, _, why) = field.run(&["mcp", "--no-ask", "--http", "0.0.0.0:0"]);
    assert!(code == 3 && why.contains("--api-key"), "{why}");
}

#[test]
fn the_servers_in_the_guide_are_those_of_a_whole_policy() {
    let guide = include_str!("../../docs/guide/src/mcp.md");
    let blocks = guide.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let text = blocks.into_iter().find(|block| block.contains("[mcp.")).unwrap();
    let policy = toolgate_sandbox::policy::Policy::parse(text).unwrap();
    assert_eq!(policy.mcp.keys().collect::<Vec<_>>(), ["notes", "tickets", "weather"]);
    assert_eq!(policy.tier, toolgate_sandbox::policy::Tier::Exec, "else no server would start");
}

/// A policy with the scripted server, or none after a skip where commands cannot be confined.
fn with_server(field: &Field, more: &str) -> Option<String> {
    if !crate::cli::commands_work() {
        return None;
    }
    std::fs::write(field.ws.join("server.sh"), include_str!("fixtures/server.sh")).unwrap();
    Some(field.policy(&format!(
        "version = 1\ntier = \"exec\"\n[fs]\nread = [\"@workspace\", \"@system\"]\nwrite = [\"@workspace\"]\n\
         [limits]\nwall_ms = 3000\n[mcp.notes]\ncommand = [\"/bin/sh\", \"server.sh\"]\ntools = [\"*\"]\n{more}"
    )))
}

#[test]
fn tools_of_a_server_are_listed_and_one_that_cannot_be_used_costs_nothing_else() {
    let field = Field::new();
    let broken = "[mcp.broken]\ncommand = [\"/bin/sh\", \"-c\", \"echo no licence >&2; exit 1\"]\ntools = [\"*\"]\n\
                  [mcp.far]\nurl = \"http://127.0.0.1:1/mcp\"\ntools = [\"*\"]\n";
    let Some(policy) = with_server(&field, broken) else { return };
    let (code, listed, said) = field.run(&["tool", "list", "--policy", &policy]);
    assert_eq!(code, 0, "{said}");
    for name in ["note ", "notes__read_file ", "steal ", "grow ", "paint ", "read_file "] {
        assert!(listed.lines().any(|line| line.starts_with(name)), "{name}: {listed}");
    }
    assert!(
        !listed.contains('\u{1b}')
            && listed.contains("What\\u{1b}[2J to say.")
            && listed.contains("Says\\u{1b}[31m a note."),
        "{listed:?}"
    );
    assert!(!listed.lines().any(|line| line.starts_with("lost") || line.starts_with("render")), "{listed}");
    for why in [
        "lost of the MCP server notes is not offered",
        "render of the MCP server notes is not offered: it can only be called as a task",
        "broken is not offered",
        "no licence",
        "far is not offered",
    ] {
        assert!(said.contains(why), "{why}: {said}");
    }
    let only = with_server(&field, "").unwrap();
    let text = std::fs::read_to_string(&only).unwrap().replace("[\"*\"]", "[\"note\"]");
    let (_, listed, _) = field.run(&["tool", "list", "--policy", &field.policy(&text)]);
    assert!(listed.contains("\nnote ") && !listed.contains("steal"), "{listed}");
}

#[test]
fn a_workspace_cannot_have_servers_started() {
    let field = Field::new();
    let Some(policy) = with_server(&field, "") else { return };
    let own = std::fs::read_to_string(&policy).unwrap();
    std::fs::write(field.ws.join(".toolgate.toml"), own.replace("[mcp.notes]", "[mcp.planted]")).unwrap();
    let bare = field.policy(own.split("[mcp.notes]").next().unwrap());
    let (code, listed, said) = field.run(&["tool", "list", "--policy", &bare]);
    assert!(code == 0 && !listed.contains("\nnote ") && !said.contains("planted"), "{listed}{said}");
    // The control: from the policy itself it is started.
    let given = field.policy(&own);
    let (_, listed, _) = field.run(&["tool", "list", "--policy", &given]);
    assert!(listed.contains("\nnote "), "{listed}");
}

#[test]
fn a_server_runs_in_the_sandbox_and_its_results_are_made_safe() {
    let field = Field::new();
    let Some(policy) = with_server(&field, "") else { return };
    let call = |name: &str, arguments: &str, mode: &str| {
        let (code, result, said) =
            field.run(&["tool", "call", name, arguments, "--policy", &policy, "--mode", mode]);
        let result: Value = serde_json::from_str(&result).unwrap_or_else(|_| panic!("{said}"));
        (code, result)
    };
    let (code, noted) = call("note", "{\"text\": \"x\"}", "intel");
    assert_eq!((code, &noted["content"]), (0, &json!("noted \\u{1b}[31mred")));
    assert_eq!(noted["enforced"]["net"], "none", "{noted}");
    // The control: without the sandbox the server reaches both.
    let plain =
        Command::new("/bin/sh").args(["-c", "cat ../secret.txt"]).current_dir(&field.ws).output().unwrap();
    assert_eq!(plain.stdout, b"CANARY");
    let (_, found) = call("steal", "{}", "intel");
    assert_eq!(found["content"], "found: ", "nothing is read outside, nothing is written in intel mode");
    assert!(!field.ws.join("planted").exists());
    let (_, found) = call("steal", "{}", "edit");
    assert_eq!(found["content"], "found:  planted", "what the policy grants it can do");
    let (code, late) = call("sleep", "{}", "intel");
    assert_eq!((code, &late["status"]), (1, &json!("limit")));
    let (_, died) = call("die", "{}", "intel");
    assert!(died["content"].as_str().unwrap().contains("the disk is full"), "{died}");
    assert_eq!(call("note", "{}", "intel").1["status"], "failed", "arguments are checked before");
}

#[test]
fn a_list_that_changes_is_followed() {
    let field = Field::new();
    let Some(policy) = with_server(&field, "[approve]\nask = [\"steal\"]\n") else { return };
    let mut client = Client::start(&field.ws, &["--no-ask", "--policy", &policy]);
    assert_eq!(client.hello["capabilities"]["tools"]["listChanged"], true, "{}", client.hello);
    assert!(!client.names().contains(&"grown".to_owned()));
    assert_eq!(client.call("grow", &json!({})).0, "grew");
    client.wait_for("notifications/tools/list_changed");
    assert!(client.names().contains(&"grown".to_owned()));
    assert_eq!(client.call("grown", &json!({})).0, "I am new");
    let (denied, is_error) = client.call("steal", &json!({}));
    assert!(is_error && denied.contains("--approve auto"), "{denied}");
    assert_eq!(client.end(), 0);
    // Where nothing can change, nothing else is said.
    let client = Client::start(&field.ws, &["--no-ask"]);
    assert!(client.hello["capabilities"]["tools"]["listChanged"] != true, "{}", client.hello);
}

#[test]
fn each_session_of_streamable_http_is_told_that_the_list_has_changed() {
    let field = Field::new();
    let Some(policy) = with_server(&field, "") else { return };
    let (_server, url) = http_server(&field.ws, &["--policy", &policy]);
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello()});
    let mut clients: Vec<_> = (0..2)
        .map(|_| {
            let mut client = Http { url: url.clone(), key: "", session: None };
            let (_, events) = client.post(&initialize, None);
            assert_eq!(events.last().unwrap()["result"]["capabilities"]["tools"]["listChanged"], true);
            client.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}), None);
            client
        })
        .collect();
    let words: Vec<_> = clients.iter().map(Http::words).collect();
    let grow = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call",
        "params": {"name": "grow", "arguments": {}}});
    let (_, events) = clients[0].post(&grow, None);
    assert_eq!(events.last().unwrap()["result"]["content"][0]["text"], "grew");
    for (client, words) in clients.iter_mut().zip(words) {
        let word = words.recv_timeout(PATIENCE).expect("no word");
        assert_eq!(word["method"], "notifications/tools/list_changed", "{word}");
        let list = json!({"jsonrpc": "2.0", "id": 3, "method": "tools/list"});
        let (_, events) = client.post(&list, None);
        let tools = events.last().unwrap()["result"]["tools"].as_array().unwrap().clone();
        assert!(tools.iter().any(|tool| tool["name"] == "grown"), "{tools:?}");
    }
}

#[cfg(unix)]
#[test]
fn the_typescript_client_finds_what_it_expects() {
    let Some(client) = skip::client("node_modules/@modelcontextprotocol/client") else { return };
    if !skip::program("node") {
        return;
    }
    let modules = client.ancestors().nth(2).unwrap();
    let field = Field::new();
    let more = "[approve]\nask = [\"write_file\"]\n";
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/mcp_client.cjs");
    let output = Command::new("node")
        .arg(script)
        .arg(assert_cmd::cargo::cargo_bin("toolgate"))
        .arg(&field.ws)
        .args(with_server(&field, more))
        .env("NODE_PATH", modules)
        .env("NO_COLOR", "1")
        .env_remove("TOOLGATE_API_KEY")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
