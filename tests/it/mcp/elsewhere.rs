//! Servers of a policy that run elsewhere (`url`): one that does all as it should, and what others do wrong.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Client, Field, http_server};
use crate::watched::Watched;

/// Bytes of an answer that are too many.
const TOO_MANY: usize = 4 * 1024 * 1024 + 1;

/// What a server does about a request.
enum Does {
    /// Answers with this status, these headers and this body.
    Says(&'static str, String, String),
    /// Answers with the beginning of a stream, and this again and again, until the other side has gone.
    Streams(String),
    /// Says nothing, until the other side has gone.
    Hangs,
    /// Closes the connection.
    Goes,
}

/// A request: its method, the method of the message in it if there is one, and that message.
#[derive(Clone, Debug)]
struct Asked {
    http: String,
    session: Option<String>,
    authorization: Option<String>,
    method: String,
    body: Value,
    at: Instant,
}

/// A server behind a socket; it ends with the test's process.
struct Far {
    url: String,
    seen: Arc<Watched<Vec<Asked>>>,
}

impl Far {
    fn start(does: impl Fn(&Asked) -> Does + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let seen = Arc::<Watched<Vec<Asked>>>::default();
        let (log, does) = (seen.clone(), Arc::new(does));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (log, does) = (log.clone(), does.clone());
                std::thread::spawn(move || {
                    let Some(asked) = request(&stream) else { return };
                    log.change(|log| log.push(asked.clone()));
                    act(stream, does(&asked));
                });
            }
        });
        Self { url, seen }
    }

    /// One that speaks the protocol with a session, and has these tools; `calls` says what becomes of their calls.
    fn speaking(tools: &[&str], calls: impl Fn(&Asked) -> Does + Send + Sync + 'static) -> Self {
        let tools: Vec<_> = tools.iter().map(|tool| definition(tool, true)).collect();
        Self::start(move |asked| match asked.method.as_str() {
            "initialize" => initialized(asked),
            "tools/list" => result(asked, &json!({"tools": tools})),
            "tools/call" => calls(asked),
            "GET" => Does::Says("405 No", String::new(), String::new()),
            _ => Does::Says("202 Taken", String::new(), String::new()),
        })
    }

    fn asked(&self, method: &str) -> Vec<Asked> {
        self.seen.read(|seen| seen.iter().filter(|asked| asked.method == method).cloned().collect())
    }

    /// Waits for the first request of a method.
    fn wait_for(&self, method: &str) -> Asked {
        self.wait_for_nth(method, 0)
    }

    /// Waits for one after `n` others.
    fn wait_for_nth(&self, method: &str, n: usize) -> Asked {
        let nth = |seen: &Vec<Asked>| seen.iter().filter(|asked| asked.method == method).nth(n).cloned();
        self.seen.wait(nth, |seen| format!("no {method} after {n}: {seen:?}"))
    }
}

fn request(stream: &TcpStream) -> Option<Asked> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let http = line.split(' ').next()?.to_owned();
    let (mut session, mut authorization, mut length) = (None, None, 0);
    loop {
        line.clear();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "mcp-session-id" => session = Some(value.to_owned()),
            "authorization" => authorization = Some(value.to_owned()),
            "content-length" => length = value.parse().ok()?,
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let method = body["method"].as_str().unwrap_or(&http).to_owned();
    Some(Asked { http, session, authorization, method, body, at: Instant::now() })
}

fn act(mut stream: TcpStream, does: Does) {
    // A client that hangs up is a case under test.
    match does {
        Does::Goes => {}
        Does::Hangs => drop(stream.read(&mut [0])),
        Does::Says(status, head, body) => {
            let length = body.len();
            let _ = write!(
                stream,
                "HTTP/1.1 {status}\r\n{head}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
            );
        }
        Does::Streams(again) => {
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
            let mut said = stream.write_all(head.as_bytes());
            while said.is_ok() {
                said = stream.write_all(again.as_bytes());
                // The pace of a server that beats.
                if again.len() < 100 {
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
        }
    }
}

const JSON: &str = "Content-Type: application/json\r\n";

fn result(asked: &Asked, result: &Value) -> Does {
    let message = json!({"jsonrpc": "2.0", "id": asked.body["id"], "result": result});
    Does::Says("200 OK", JSON.to_owned(), message.to_string())
}

fn text(asked: &Asked, text: &str) -> Does {
    result(asked, &json!({"content": [{"type": "text", "text": text}]}))
}

fn initialized(asked: &Asked) -> Does {
    let told = json!({"jsonrpc": "2.0", "id": asked.body["id"], "result": {"protocolVersion": "2025-06-18",
        "capabilities": {"tools": {"listChanged": true}}, "serverInfo": {"name": "far", "version": "1"}}});
    Does::Says("200 OK", format!("{JSON}Mcp-Session-Id: abc\r\n"), told.to_string())
}

/// A tool as servers tell it, which says that it only reads or says nothing about it.
fn definition(name: &str, reads: bool) -> Value {
    let annotations = if reads { json!({"readOnlyHint": true}) } else { json!({}) };
    json!({"name": name, "inputSchema": {"type": "object"}, "annotations": annotations})
}

/// A policy with these servers, by name and address.
fn policy(field: &Field, tier: &str, servers: &[(&str, &str)]) -> String {
    let servers: String = servers
        .iter()
        .map(|(name, url)| format!("[mcp.{name}]\nurl = \"{url}\"\ntools = [\"*\"]\n"))
        .collect();
    field.policy(&format!(
        "version = 1\ntier = \"{tier}\"\n[fs]\nread = [\"@workspace\"]\nwrite = [\"@workspace\"]\n\
         [limits]\nwall_ms = 1500\n{servers}"
    ))
}

#[test]
fn tools_of_a_server_elsewhere_are_called_there_and_say_so() {
    let (here, there) = (Field::new(), Field::new());
    std::fs::write(there.ws.join("b.txt"), "from afar\n").unwrap();
    let (_server, url) = http_server(&there.ws, &[]);
    let policy = policy(&here, "exec", &[("far", &url)]);
    let (code, listed, said) = here.run(&["tool", "list", "--mode", "edit", "--policy", &policy]);
    assert!(code == 0 && !said.contains("far"), "{said}");
    assert!(listed.contains("\nfar__read_file "), "{listed}");
    let call = |name: &str, arguments: &str| {
        let (code, result, said) = here.run(&["tool", "call", name, arguments, "--policy", &policy]);
        (code, serde_json::from_str::<Value>(&result).unwrap_or_else(|_| panic!("{said}")))
    };
    let (code, read) = call("far__read_file", "{\"path\": \"b.txt\"}");
    assert_eq!((code, &read["content"]), (0, &json!("from afar\n")));
    let origin = url.strip_suffix("/mcp").unwrap();
    assert_eq!(
        (&read["enforced"]["fs"], &read["enforced"]["net"], &read["enforced"]["process"]),
        (&json!("none"), &json!(origin), &json!("none: runs elsewhere")),
        "{read}"
    );
    let (code, outside) = call("far__read_file", "{\"path\": \"../secret.txt\"}");
    assert!(code == 1 && outside["content"].as_str().unwrap().contains("outside"), "{outside}");
    assert_eq!(call("far__read_file", "{}").1["status"], "failed", "arguments are checked before");
    assert_eq!(call("read_file", "{\"path\": \"a.txt\"}").1["content"], "alpha\n", "ours is as it was");
}

#[test]
fn an_address_is_a_grant_of_the_policy_and_of_no_less_a_tier_than_a_command() {
    let (field, far) = (Field::new(), Far::speaking(&["say"], |asked| text(asked, "hello")));
    let (_, listed, said) =
        field.run(&["tool", "list", "--policy", &policy(&field, "edit", &[("far", &far.url)])]);
    assert!(
        !listed.contains("\nsay ") && said.contains("far is not offered: the policy grants no"),
        "{said}"
    );
    // A workspace's own file adds none.
    let planted = std::fs::read_to_string(policy(&field, "exec", &[("far", &far.url)])).unwrap();
    std::fs::write(field.ws.join(".toolgate.toml"), planted).unwrap();
    let (_, listed, _) = field.run(&["tool", "list", "--policy", &policy(&field, "exec", &[])]);
    assert!(!listed.contains("\nsay "), "{listed}");
    assert!(far.asked("initialize").is_empty(), "nothing was sent");
    // The control.
    let (_, listed, said) =
        field.run(&["tool", "list", "--policy", &policy(&field, "exec", &[("far", &far.url)])]);
    assert!(listed.contains("\nsay "), "{said}");
    assert_eq!(far.wait_for("DELETE").session.as_deref(), Some("abc"), "its session is given back");
}

#[test]
fn a_tool_elsewhere_that_may_change_something_is_offered_in_edit_mode_alone() {
    let field = Field::new();
    let far = Far::start(|asked| match asked.method.as_str() {
        "initialize" => initialized(asked),
        "tools/list" => {
            result(asked, &json!({"tools": [definition("look", true), definition("alter", false)]}))
        }
        "GET" => Does::Says("405 No", String::new(), String::new()),
        _ => Does::Says("202 Taken", String::new(), String::new()),
    });
    let policy = policy(&field, "exec", &[("far", &far.url)]);
    let (_, listed, said) = field.run(&["tool", "list", "--policy", &policy]);
    assert!(listed.contains("\nlook ") && !listed.contains("\nalter "), "{listed}");
    assert!(said.contains("alter of the MCP server far") && said.contains("edit mode offers it"), "{said}");
    let (_, listed, said) = field.run(&["tool", "list", "--mode", "edit", "--policy", &policy]);
    assert!(listed.contains("\nlook ") && listed.contains("\nalter "), "{said}");
}

#[test]
fn a_tool_elsewhere_that_is_only_called_as_a_task_is_left_out_and_told() {
    let tools = json!([
        {"name": "render", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "required"}},
        {"name": "paint", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "optional"}},
    ]);
    for streams in [false, true] {
        let tools = tools.clone();
        let far = Far::start(move |asked| {
            let told = result(asked, &json!({"tools": tools}));
            match (asked.method.as_str(), told) {
                ("initialize", _) => initialized(asked),
                ("tools/list", Does::Says(status, _, body)) if streams => {
                    let head = "Content-Type: text/event-stream\r\n".to_owned();
                    Does::Says(status, head, format!("data: {body}\n\n"))
                }
                ("tools/list", told) => told,
                ("GET", _) => Does::Says("405 No", String::new(), String::new()),
                _ => Does::Says("202 Taken", String::new(), String::new()),
            }
        });
        let field = Field::new();
        let policy = policy(&field, "exec", &[("far", &far.url)]);
        let (code, listed, said) = field.run(&["tool", "list", "--mode", "edit", "--policy", &policy]);
        assert!(code == 0 && listed.contains("\npaint ") && !listed.contains("\nrender "), "{listed}{said}");
        assert!(
            said.contains("render of the MCP server far is not offered: it can only be called as a task")
        );
    }
}

#[test]
fn a_key_comes_from_the_environment_and_goes_only_where_nobody_can_read_it() {
    let field = Field::new();
    let locked = Far::start(|asked| match (asked.authorization.as_deref(), asked.method.as_str()) {
        (Some("Bearer sesame"), "initialize") => initialized(asked),
        (Some("Bearer sesame"), "tools/list") => result(asked, &json!({"tools": [definition("say", true)]})),
        (Some("Bearer sesame"), "GET") => Does::Says("405 No", String::new(), String::new()),
        (Some("Bearer sesame"), _) => Does::Says("202 Taken", String::new(), String::new()),
        _ => Does::Says("401 No", String::new(), String::new()),
    });
    let listed = |url: &str, key: Option<&str>| {
        let text = std::fs::read_to_string(policy(&field, "exec", &[("far", url)])).unwrap();
        let policy = field.policy(&(text + "key_env = \"FAR_KEY\"\n"));
        let mut command = super::toolgate();
        command.args(["tool", "list", "--policy", &policy]).current_dir(&field.ws).env_remove("FAR_KEY");
        let output = command.envs(key.map(|key| ("FAR_KEY", key))).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (text(output.stdout), text(output.stderr))
    };
    let (tools, said) = listed(&locked.url, Some("sesame\n"));
    assert!(tools.contains("\nsay ") && !said.contains("sesame"), "{said}");
    for (key, why) in [
        (Some("wrong-key"), "does not take the key of key_env"),
        (Some(" "), "set the variable FAR_KEY"),
        (Some("two\nlines"), "FAR_KEY holds more than printable ASCII"),
        (None, "set the variable FAR_KEY"),
    ] {
        let (tools, said) = listed(&locked.url, key);
        assert!(!tools.contains("\nsay ") && said.contains(why), "{key:?}: {said}");
        assert!(key.is_none_or(|key| key == " " || !said.contains(key)), "the key is not printed: {said}");
    }
    let (_, said) = listed("http://tools.example/mcp", Some("sesame"));
    assert!(said.contains("https://"), "{said}");
}

#[test]
fn servers_that_do_not_speak_the_protocol_cost_nothing_but_their_tools() {
    let field = Field::new();
    let first = |does: fn(&Asked) -> Does| Far::start(does).url;
    let target = Far::speaking(&["bait"], |asked| text(asked, "caught"));
    let moved = target.url.clone();
    let redirects =
        Far::start(move |_| Does::Says("307 Moved", format!("Location: {moved}\r\n"), String::new()));
    let good = Far::speaking(&["say"], |asked| text(asked, "hello"));
    let servers = [
        (
            "garbage",
            first(|_| Does::Says("200 OK", JSON.to_owned(), "{\"a\": 1}".to_owned())),
            "no message of the protocol",
        ),
        (
            "page",
            first(|_| Does::Says("200 OK", "Content-Type: text/html\r\n".to_owned(), "<html>".to_owned())),
            "neither JSON nor events",
        ),
        ("noise", first(|_| Does::Streams("data: x\n\n".to_owned())), "closed"),
        ("flood", first(|_| Does::Streams("data: ".to_owned() + &"x".repeat(100_000))), "closed"),
        (
            "huge",
            first(|_| Does::Says("200 OK", JSON.to_owned(), "1".repeat(TOO_MANY))),
            "more than 4194304 bytes",
        ),
        ("locked", first(|_| Does::Says("401 No", String::new(), String::new())), "wants a key"),
        (
            "broken",
            first(|_| Does::Says("500 No", String::new(), "no \u{1b}[31mlicence".to_owned())),
            "HTTP 500: no \\u{1b}[31mlicence",
        ),
        ("moved", redirects.url, "redirects are not followed"),
        ("gone", first(|_| Does::Goes), "does not answer"),
        ("hangs", first(|_| Does::Hangs), "does not answer within 20 seconds"),
        ("absent", "http://127.0.0.1:1/mcp".to_owned(), "cannot be reached"),
        ("plain", good.url.replace("http:", "https:"), "cannot be reached"),
        ("strange", "ftp://127.0.0.1/mcp".to_owned(), "neither http:// nor https://"),
        ("good", good.url.clone(), ""),
    ];
    let named: Vec<_> = servers.iter().map(|(name, url, _)| (*name, url.as_str())).collect();
    let start = Instant::now();
    let (code, listed, said) = field.run(&["tool", "list", "--policy", &policy(&field, "exec", &named)]);
    assert_eq!(code, 0, "{said}");
    assert!(listed.contains("\nsay ") && listed.contains("read_file "), "{listed}{said}");
    assert!(start.elapsed() < Duration::from_secs(50), "each is waited for beside the others");
    for (name, _, why) in servers.iter().filter(|(name, ..)| *name != "good") {
        let line = said.lines().find(|line| line.starts_with(&format!("{name} is not offered: ")));
        assert!(line.is_some_and(|line| line.contains(why)), "{name}: {said}");
    }
    assert!(!said.contains('\u{1b}'), "{said:?}");
    assert!(target.asked("initialize").is_empty(), "nobody went where a redirect leads");
    let both = policy(&field, "exec", &[("both", &good.url)]);
    let text = std::fs::read_to_string(&both).unwrap() + "command = [\"/bin/true\"]\n";
    let (_, _, said) = field.run(&["tool", "list", "--policy", &field.policy(&text)]);
    assert!(said.contains("both a command and a url"), "{said}");
}

#[test]
fn calls_that_go_wrong_elsewhere_are_results_and_the_next_goes_right() {
    let field = Field::new();
    let names = ["say", "hang", "trickle", "huge", "flood", "gone", "fault", "refuse", "lead", "page"];
    let far = Far::speaking(&names, |asked| match asked.body["params"]["name"].as_str().unwrap() {
        "say" => text(asked, "red \u{1b}[31m"),
        "hang" => Does::Hangs,
        "trickle" => Does::Streams(": beat\n\n".to_owned()),
        "huge" => text(asked, &"x".repeat(TOO_MANY)),
        "flood" => Does::Streams("data: ".to_owned() + &"x".repeat(100_000)),
        "gone" => Does::Goes,
        "fault" => Does::Says("500 No", String::new(), "no \u{1b}[31mlicence".repeat(1_000)),
        "refuse" => {
            let refusal = json!({"jsonrpc": "2.0", "id": asked.body["id"],
                "error": {"code": -32000, "message": "not \u{1b}today"}});
            Does::Says("400 No", JSON.to_owned(), refusal.to_string())
        }
        "lead" => Does::Says("302 Moved", "Location: http://127.0.0.1:1/\r\n".to_owned(), String::new()),
        _ => Does::Says("200 OK", "Content-Type: text/html\r\n".to_owned(), "<html>".to_owned()),
    });
    let mut client =
        Client::start(&field.ws, &["--no-ask", "--policy", &policy(&field, "exec", &[("far", &far.url)])]);
    assert_eq!(client.call("say", &json!({})), ("red \\u{1b}[31m".to_owned(), false));
    for (name, why) in [
        ("hang", "longer than 1.5 seconds"),
        ("trickle", "longer than 1.5 seconds"),
        ("huge", "more than 4194304 bytes"),
        ("flood", "broke off"),
        ("gone", "does not answer"),
        ("fault", "HTTP 500: no \\u{1b}[31mlicence"),
        ("refuse", "not \\u{1b}today"),
        ("lead", "redirects are not followed"),
        ("page", "neither JSON nor events"),
    ] {
        let (told, is_error) = client.call(name, &json!({}));
        assert!(is_error && told.contains(why) && told.len() < 2_000, "{name}: {told}");
    }
    assert_eq!(client.call("say", &json!({})).0, "red \\u{1b}[31m");
    let cancelled = far.wait_for("notifications/cancelled");
    assert_eq!((cancelled.http.as_str(), cancelled.session.as_deref()), ("POST", Some("abc")));
    assert_eq!(far.asked("tools/call").len(), names.len() + 1, "no call was made twice");
    assert_eq!(client.end(), 0);
    far.wait_for("DELETE");
}

#[test]
fn a_list_that_changes_elsewhere_is_told_to_our_clients() {
    let field = Field::new();
    // The first stream says so once and ends, as do those after it: a server that is asked again must not be asked
    // without end.
    let grown = Arc::new(Mutex::new(false));
    let grows = grown.clone();
    let far = Far::start(move |asked| match asked.method.as_str() {
        "initialize" => initialized(asked),
        "tools/list" => {
            let mut tools = vec![definition("grow", true)];
            if *grows.lock().unwrap() {
                tools.push(definition("grown", true));
            }
            result(asked, &json!({"tools": tools}))
        }
        "tools/call" => {
            *grows.lock().unwrap() = true;
            text(asked, "grew")
        }
        "GET" => {
            let word = match *grows.lock().unwrap() {
                true => "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}",
                false => "",
            };
            let events = format!("retry: 1\n: beat\n\ndata: {word}\n\n");
            Does::Says("200 OK", "Content-Type: text/event-stream\r\n".to_owned(), events)
        }
        _ => Does::Says("202 Taken", String::new(), String::new()),
    });
    let mut client =
        Client::start(&field.ws, &["--no-ask", "--policy", &policy(&field, "exec", &[("far", &far.url)])]);
    assert_eq!(client.hello["capabilities"]["tools"]["listChanged"], true, "{}", client.hello);
    assert!(!client.names().contains(&"grown".to_owned()));
    assert_eq!(client.call("grow", &json!({})).0, "grew");
    client.wait_for("notifications/tools/list_changed");
    assert!(client.names().contains(&"grown".to_owned()));
    let [first, fourth] = [0, 3].map(|n| far.wait_for_nth("GET", n).at);
    assert!(fourth.duration_since(first) > Duration::from_secs(1), "streams are asked for without a pause");
    assert_eq!(client.end(), 0);
}

#[test]
fn a_list_that_cannot_be_had_again_takes_no_tool_away() {
    let field = Field::new();
    let is_listed = Arc::new(Mutex::new(false));
    let far = Far::start(move |asked| match asked.method.as_str() {
        "initialize" => initialized(asked),
        "tools/list" if !std::mem::replace(&mut is_listed.lock().unwrap(), true) => {
            result(asked, &json!({"tools": [definition("look", true)]}))
        }
        "tools/list" => Does::Says("500 No", String::new(), String::new()),
        "tools/call" => text(asked, "seen"),
        "GET" => {
            let word = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}";
            let events = format!("retry: 1000\ndata: {word}\n\n");
            Does::Says("200 OK", "Content-Type: text/event-stream\r\n".to_owned(), events)
        }
        _ => Does::Says("202 Taken", String::new(), String::new()),
    });
    let mut client =
        Client::start(&field.ws, &["--no-ask", "--policy", &policy(&field, "exec", &[("far", &far.url)])]);
    client.wait_for("notifications/tools/list_changed");
    assert!(client.names().contains(&"look".to_owned()));
    assert!(far.asked("tools/list").len() > 1, "control: it was asked again");
    assert_eq!(client.call("look", &json!({})).0, "seen");
}

#[test]
fn a_cancelled_call_is_cancelled_elsewhere_too() {
    let field = Field::new();
    let far = Far::speaking(&["say", "hang"], |asked| match asked.body["params"]["name"].as_str().unwrap() {
        "hang" => Does::Hangs,
        _ => text(asked, "hello"),
    });
    let mut client =
        Client::start(&field.ws, &["--no-ask", "--policy", &policy(&field, "exec", &[("far", &far.url)])]);
    let id = client.send("tools/call", &json!({"name": "hang", "arguments": {}}));
    let asked = far.wait_for("tools/call");
    client.tell(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}));
    let told = far.wait_for("notifications/cancelled");
    assert_eq!(told.body["params"]["requestId"], asked.body["id"]);
    assert_eq!(client.call("say", &json!({})).0, "hello");
}
