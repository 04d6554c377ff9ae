//! Clients that go away, read slowly or send nonsense, a full queue, turns that take too long, and a server that ends.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolgate::engine::{self, Cancel, Engine, Turn, TurnEvent, TurnRequest};
use toolgate::serve;
use toolgate_chat::ParsedTurn;
use toolgate_infer::{Stats, StopReason};

use super::*;

/// An engine whose turns write until they are cancelled, or until so many pieces are there.
struct Endless {
    pieces: usize,
    began: Arc<AtomicUsize>,
    cancelled: Arc<AtomicUsize>,
}

impl Engine for Endless {
    fn name(&self) -> &str {
        "scripted"
    }

    fn turn(
        &self,
        _: &TurnRequest<'_>,
        cancel: &Cancel,
        events: &mut dyn FnMut(TurnEvent),
    ) -> Result<Turn, toolgate::engine::Error> {
        self.began.fetch_add(1, Ordering::SeqCst);
        let mut stop = StopReason::End;
        for _ in 0..self.pieces {
            events(TurnEvent::Text("word ".to_owned()));
            std::thread::sleep(Duration::from_millis(5));
            if cancel.is_cancelled() {
                self.cancelled.fetch_add(1, Ordering::SeqCst);
                stop = StopReason::Cancelled;
                break;
            }
        }
        let parsed = ParsedTurn { content: Some("word".to_owned()), ..ParsedTurn::default() };
        let (text, stats) = (String::new(), Stats::default());
        Ok(Turn::new(parsed, text, stop).stats(stats))
    }
}

pub(super) struct Counts {
    pub(super) began: Arc<AtomicUsize>,
    pub(super) cancelled: Arc<AtomicUsize>,
}

pub(super) fn endless(pieces: usize, options: serve::Options) -> (Served, Counts) {
    let counts = Counts { began: Arc::default(), cancelled: Arc::default() };
    let engine = Endless { pieces, began: counts.began.clone(), cancelled: counts.cancelled.clone() };
    (start(engine, None, options), counts)
}

/// Waits until a condition holds; a test that waits for ever has failed. It is looked at again and again, since it is about
/// counts, such as the server's metrics, that nobody is told of.
pub(super) fn wait_for(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(30), "{what} did not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Sends a request and leaves the answer unread.
pub(super) fn open(served: &Served, body: &Value) -> TcpStream {
    open_at(served, CHAT, body)
}

pub(super) fn open_at(served: &Served, path: &str, body: &Value) -> TcpStream {
    let body = body.to_string();
    let mut stream = TcpStream::connect(&served.address).unwrap();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    stream
}

pub(super) fn gauge(served: &Served, name: &str) -> u64 {
    let text = fetch(served, "/metrics").1;
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} "))).unwrap().to_owned();
    line.parse().unwrap()
}

#[test]
fn a_client_that_goes_away_cancels_its_turn() {
    for stream in [true, false] {
        let (served, counts) = endless(usize::MAX, serve::Options::default());
        let mut client = open(&served, &chat("x", json!({"stream": stream})));
        wait_for("the turn", || counts.began.load(Ordering::SeqCst) == 1);
        if stream {
            let mut line = String::new();
            BufReader::new(client.try_clone().unwrap()).read_line(&mut line).unwrap();
            assert!(line.contains("200"), "{line}");
        } else {
            client.flush().unwrap();
        }
        assert_eq!(counts.cancelled.load(Ordering::SeqCst), 0);
        drop(client);
        wait_for("the end of the turn", || counts.cancelled.load(Ordering::SeqCst) == 1);
        wait_for("an idle server", || gauge(&served, "toolgate_turns_running") == 0);
    }
}

#[test]
fn a_full_queue_refuses_and_says_when_to_come_again() {
    let (served, counts) = endless(usize::MAX, serve::Options::default().waiting(1));
    let ask = chat("x", json!({"stream": true}));
    let first = open(&served, &ask);
    wait_for("the turn", || counts.began.load(Ordering::SeqCst) == 1);
    let second = open(&served, &ask);
    wait_for("the wait", || gauge(&served, "toolgate_requests_waiting") == 1);
    let (status, retry, body) = send(&served, CHAT, &ask.to_string(), &[]);
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &body["error"]["code"]), (429, &json!("rate_limit_exceeded")));
    assert!(retry.unwrap().parse::<u64>().unwrap() >= 1);
    // Whoever gives up its place in the queue leaves it to the next; the turn that runs makes room for it.
    drop(second);
    wait_for("the free place", || gauge(&served, "toolgate_requests_waiting") == 0);
    let third = open(&served, &ask);
    drop(first);
    wait_for("the next turn", || counts.began.load(Ordering::SeqCst) == 2);
    drop(third);
}

#[test]
fn a_stream_that_waits_for_long_begins_without_its_turn() {
    let options = serve::Options::default().quiet_time(Duration::from_millis(50)).waiting(2);
    let (served, counts) = endless(usize::MAX, options);
    let ask = chat("x", json!({"stream": true}));
    let first = open(&served, &ask);
    wait_for("the first turn", || counts.began.load(Ordering::SeqCst) == 1);
    // Its response is there while the first turn is being made, and its turn comes all the same.
    let mut second = BufReader::new(open(&served, &ask));
    let mut line = String::new();
    second.read_line(&mut line).unwrap();
    assert!(line.starts_with("HTTP/1.1 200"), "{line}");
    assert_eq!(counts.began.load(Ordering::SeqCst), 1);
    // One that goes while it waits leaves its place.
    let third = open(&served, &ask);
    wait_for("the third in the queue", || gauge(&served, "toolgate_requests_waiting") == 2);
    drop(third);
    wait_for("the free place", || gauge(&served, "toolgate_requests_waiting") == 1);
    drop(first);
    wait_for("the second turn", || counts.began.load(Ordering::SeqCst) == 2);
    while !line.contains("chat.completion.chunk") {
        line.clear();
        assert!(second.read_line(&mut line).unwrap() > 0, "it ended");
    }
}

#[test]
fn a_turn_that_takes_too_long_is_ended() {
    let options = serve::Options::default().turn_time(Duration::from_millis(100));
    let (served, counts) = endless(usize::MAX, options);
    // Its first piece is there before its time is over, so the status is too.
    let (status, _, text) = send(&served, CHAT, &chat("x", json!({"stream": true})).to_string(), &[]);
    assert_eq!(status, 200);
    assert!(text.contains("\"code\":\"timeout\"") && text.trim_end().ends_with("data: [DONE]"), "{text}");
    let request = agent_for(Duration::from_secs(60)).post(format!("{}{CHAT}", served.base));
    let body = chat("x", json!({})).to_string();
    let mut late = request.header("content-type", "application/json").send(body).unwrap();
    assert_eq!(late.status(), 504);
    assert_eq!(late.headers()["x-should-retry"], "false", "or clients would ask for the same twice more");
    let body: Value = serde_json::from_str(&late.body_mut().read_to_string().unwrap()).unwrap();
    assert_eq!(body["error"]["code"], "timeout");
    let (_, _, text) = send(&served, MESSAGES, &message("x", json!({"stream": true})).to_string(), &[]);
    assert!(text.contains("event: error\n") && text.contains("timeout_error"), "{text}");
    assert_eq!(counts.cancelled.load(Ordering::SeqCst), 3);
}

#[test]
fn a_server_that_is_stopped_finishes_its_turn_and_refuses_who_waits() {
    let (served, counts) = endless(60, serve::Options::default());
    let running = open(&served, &chat("x", json!({"stream": true})));
    wait_for("the turn", || counts.began.load(Ordering::SeqCst) == 1);
    let waiting = open(&served, &chat("x", json!({})));
    wait_for("the wait", || gauge(&served, "toolgate_requests_waiting") == 1);
    served.stopper.stop();
    let read = |mut stream: TcpStream| {
        let mut text = String::new();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    let refused = read(waiting);
    assert!(refused.starts_with("HTTP/1.1 503") && refused.contains("shutting_down"), "{refused}");
    let finished = read(running);
    assert!(
        finished.contains("\"finish_reason\":\"stop\"") && finished.contains("data: [DONE]"),
        "{finished}"
    );
    assert_eq!((counts.began.load(Ordering::SeqCst), counts.cancelled.load(Ordering::SeqCst)), (1, 0));
    assert!(TcpStream::connect(&served.address).is_err(), "nobody listens any more");
}

#[test]
fn bytes_that_are_no_request_do_no_harm() {
    let options = serve::Options::default().read_time(Duration::from_secs(1));
    let served = start(scripted(model(), engine::Options::guided()), None, options);
    let answer = |bytes: &[u8]| {
        let mut stream = TcpStream::connect(&served.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.write_all(bytes).unwrap();
        let mut text = Vec::new();
        let _ = stream.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    };
    assert!(answer(b"\x16\x03\x01\x02\x00garbage\r\n\r\n").starts_with("HTTP/1.1 400"));
    assert!(!answer(b"POST /v1/messages HTTP/1.1\r\nHost: loc").contains(" 200 "), "a head without an end");
    let head = format!(
        "POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{{"
    );
    assert!(answer(head.as_bytes()).starts_with("HTTP/1.1 408"), "a body that does not come");
    let deep = "[".repeat(100_000);
    assert_eq!(send(&served, CHAT, &deep, &[]).0, 400);
    assert_eq!(post(&served, CHAT, &chat("Hello", json!({}))).0, 200, "it still answers");
}

#[test]
fn a_model_file_that_another_takes_the_place_of_stays_the_running_server_s() {
    let Some(weights) = crate::models::weights("smollm2-135m") else { return };
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("model.gguf");
    std::fs::copy(weights, &file).unwrap();
    let load = || {
        let model = toolgate::models::ResolvedModel::new(file.clone(), None);
        let options = engine::Options::guided().context(Some(2048));
        LocalEngine::load(&model, &options, |_| {})
    };
    let options = serve::Options::default().aliases(vec!["scripted".into()]);
    let served = start(load().unwrap(), None, options);
    let ask = || {
        let request = json!({"tools": openai_tools(), "tool_choice": "required", "max_tokens": 64});
        let (status, answer) = post(&served, CHAT, &chat("How is the weather in Oslo?", request));
        assert_eq!(status, 200, "{answer}");
        answer["choices"][0]["message"]["tool_calls"][0]["function"].clone()
    };
    let before = ask();
    // As `model pull` does it, and whoever writes files so that none is ever half there.
    let other = directory.path().join("other");
    std::fs::write(&other, "no model").unwrap();
    std::fs::rename(&other, &file).unwrap();
    assert_eq!(ask(), before);
    assert!(load().is_err(), "control: what is there now is no model");
}
