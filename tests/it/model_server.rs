//! A server of models that says what its script says, over plain sockets: what real ones do, and what they do wrong.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::watched::Watched;

/// A request as the server saw it.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) path: String,
    pub(crate) key: Option<String>,
    pub(crate) body: Value,
}

/// What it answers.
pub(crate) enum Reply {
    Json(Value),
    Refusal(u16, Value),
    /// Events, and the mark that they are all.
    Events(Vec<Value>),
    /// Events, and the connection breaks off.
    Cut(Vec<Value>),
    /// Leads elsewhere.
    Moved(String),
    /// The beginning of an answer, and nothing but that it goes on, until the other side has gone.
    Waiting,
    /// Nothing at all, until the other side has gone.
    Silent,
}

/// A running server; it ends with the test's process.
pub(crate) struct ModelServer {
    pub(crate) url: String,
    seen: Arc<Watched<Vec<Asked>>>,
    /// How many callers went while they waited.
    left: Arc<Watched<usize>>,
}

impl ModelServer {
    pub(crate) fn start(script: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Self {
        Self::at(TcpListener::bind("127.0.0.1:0").unwrap(), script)
    }

    pub(crate) fn at(
        listener: TcpListener,
        script: impl Fn(&Asked) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (seen, left) = (Arc::<Watched<Vec<Asked>>>::default(), Arc::<Watched<usize>>::default());
        let (log, gone, script) = (seen.clone(), left.clone(), Arc::new(script));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (log, gone, script) = (log.clone(), gone.clone(), script.clone());
                std::thread::spawn(move || {
                    let Some(asked) = request(&stream) else { return };
                    log.change(|log| log.push(asked.clone()));
                    answer(stream, script(&asked), &gone);
                });
            }
        });
        Self { url, seen, left }
    }

    /// The requests to a path, in order.
    pub(crate) fn asked(&self, path: &str) -> Vec<Asked> {
        self.seen.read(|seen| seen.iter().filter(|asked| asked.path == path).cloned().collect())
    }

    /// Waits for the first request to a path.
    pub(crate) fn wait_for_request(&self, path: &str) {
        let first = |seen: &Vec<Asked>| seen.iter().any(|asked| asked.path == path).then_some(());
        self.seen.wait(first, |seen| format!("no request to {path}: {seen:?}"));
    }

    /// Waits until a caller that got [`Reply::Waiting`] or [`Reply::Silent`] has gone.
    pub(crate) fn wait_for_leaver(&self) {
        self.left.wait(|left| (*left > 0).then_some(()), |_| "the caller is still there".to_owned());
    }
}

fn request(stream: &TcpStream) -> Option<Asked> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let (mut key, mut length) = (None, 0);
    loop {
        line.clear();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "authorization" => key = Some(value.to_owned()),
            "content-length" => length = value.parse().ok()?,
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Asked { path, key, body: serde_json::from_slice(&body).unwrap_or_default() })
}

fn answer(mut stream: TcpStream, reply: Reply, left: &Watched<usize>) {
    let whole = |status: &str, body: String| {
        format!(
            "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )
    };
    let events = |events: &[Value], end: &str| {
        let lines: String = events.iter().map(|event| format!(": beat\n\ndata: {event}\n\n")).collect();
        format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n{lines}{end}")
    };
    let text = match reply {
        Reply::Json(body) => whole("200 OK", body.to_string()),
        Reply::Refusal(status, body) => whole(&format!("{status} No"), body.to_string()),
        Reply::Events(list) => events(&list, "data: [DONE]\n\n"),
        Reply::Cut(list) => events(&list, "data: {\"choices\": [{\"del"),
        Reply::Moved(to) => format!("HTTP/1.1 307 Moved\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n"),
        Reply::Silent => {
            if matches!(stream.read(&mut [0]), Ok(0)) {
                left.change(|left| *left += 1);
            }
            return;
        }
        Reply::Waiting => {
            let mut beat = events(&[], "");
            while stream.write_all(beat.as_bytes()).is_ok() {
                ": beat\n\n".clone_into(&mut beat);
                // The pace of the server: a beat shows it whether the caller is there.
                std::thread::sleep(Duration::from_millis(20));
            }
            left.change(|left| *left += 1);
            return;
        }
    };
    // A caller that hangs up is a case under test.
    let _ = stream.write_all(text.as_bytes());
}

/// The list of models of a server that says nothing of itself.
pub(crate) fn models() -> Reply {
    Reply::Json(json!({"object": "list", "data": [{"id": "scripted", "object": "model"}]}))
}

/// An event of a chat completion.
pub(crate) fn delta(delta: Value) -> Value {
    json!({"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

/// The last two: the reason of the end, and what it cost.
pub(crate) fn end(finish: &str) -> [Value; 2] {
    [
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}),
        json!({"choices": [], "usage": {"prompt_tokens": 20, "completion_tokens": 5,
            "prompt_tokens_details": {"cached_tokens": 8}}}),
    ]
}

/// A turn that is an answer, in pieces.
pub(crate) fn says(text: &str) -> Reply {
    let (one, two) = text.split_at(text.len() / 2);
    let pieces = [delta(json!({"role": "assistant", "content": one})), delta(json!({"content": two}))];
    Reply::Events(pieces.into_iter().chain(end("stop")).collect())
}

/// A turn that is a call, its arguments in pieces.
pub(crate) fn calls(name: &str, arguments: &Value) -> Reply {
    let arguments = arguments.to_string();
    let (one, two) = arguments.split_at(arguments.len() / 2);
    let pieces = [
        delta(json!({"role": "assistant", "tool_calls": [
            {"index": 0, "id": "call_1", "type": "function", "function": {"name": name, "arguments": ""}}]})),
        delta(json!({"tool_calls": [{"index": 0, "function": {"arguments": one}}]})),
        delta(json!({"tool_calls": [{"index": 0, "function": {"arguments": two}}]})),
    ];
    Reply::Events(pieces.into_iter().chain(end("tool_calls")).collect())
}

/// How many results of tools a request tells.
pub(crate) fn results(asked: &Asked) -> usize {
    let messages = asked.body["messages"].as_array().cloned().unwrap_or_default();
    messages.iter().filter(|message| message["role"] == "tool").count()
}
