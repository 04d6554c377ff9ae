//! Many clients at once, some of whom vanish or read slowly: every answer is its own client's, and none is lost.

use std::io::Read;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolgate::serve;

use super::faults::{gauge, open, wait_for};
use super::*;
use crate::models::load;

/// A request whose only right answer is a call with this value.
fn pick(value: &str, stream: bool) -> Value {
    let parameters =
        json!({"type": "object", "properties": {"value": {"const": value}}, "required": ["value"]});
    let tool = json!({"type": "function", "function": {"name": "pick", "parameters": parameters}});
    chat(&format!("Pick {value}"), json!({"tools": [tool], "tool_choice": "required", "stream": stream}))
}

/// The arguments of the call in an answer, whole or streamed.
fn picked(text: &str, stream: bool) -> String {
    let call =
        |message: &Value| message["tool_calls"][0]["function"]["arguments"].as_str().unwrap().to_owned();
    if !stream {
        return call(&serde_json::from_str::<Value>(text).unwrap()["choices"][0]["message"]);
    }
    let mut data = text.lines().rev().filter_map(|line| line.strip_prefix("data: "));
    assert_eq!(data.next(), Some("[DONE]"));
    let last: Value = serde_json::from_str(data.next().unwrap()).unwrap();
    call(&last["choices"][0]["message"])
}

#[derive(Default)]
struct Counts {
    answered: AtomicUsize,
    refused: AtomicUsize,
    left: AtomicUsize,
}

/// What a client does with its requests.
#[derive(Clone, Copy)]
enum Manners {
    Whole,
    Streamed,
    /// Reads a few bytes and leaves.
    Vanishing,
    /// Reads a few bytes at a time.
    Slow,
}

const MANNERS: [Manners; 8] = [
    Manners::Whole,
    Manners::Streamed,
    Manners::Whole,
    Manners::Streamed,
    Manners::Vanishing,
    Manners::Streamed,
    Manners::Slow,
    Manners::Whole,
];

fn client(served: &Served, number: usize, more: &(impl Fn(usize) -> bool + Sync), counts: &Counts) {
    let manners = MANNERS[number % MANNERS.len()];
    for n in (0..).take_while(|&n| more(n)) {
        let value = format!("client {number} request {n}");
        match manners {
            Manners::Whole => asks(served, &value, false, counts),
            Manners::Streamed => asks(served, &value, true, counts),
            Manners::Vanishing => {
                let mut stream = open(served, &pick(&value, n % 2 == 0));
                stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
                let _ = stream.read(&mut [0; 16]);
                counts.left.fetch_add(1, Ordering::Relaxed);
            }
            Manners::Slow => reads_slowly(served, &value, counts),
        }
    }
}

/// Asks until there is room for it.
fn asks(served: &Served, value: &str, stream: bool, counts: &Counts) {
    loop {
        let (status, retry, text) = send(served, CHAT, &pick(value, stream).to_string(), &[]);
        match status {
            200 => {
                assert_eq!(picked(&text, stream), json!({"value": value}).to_string());
                counts.answered.fetch_add(1, Ordering::Relaxed);
                return;
            }
            429 => {
                assert!(retry.is_some_and(|seconds| seconds.parse::<u64>().is_ok()));
                counts.refused.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(20));
            }
            _ => panic!("{status} {text}"),
        }
    }
}

fn reads_slowly(served: &Served, value: &str, counts: &Counts) {
    let mut stream = open(served, &pick(value, true));
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let (mut text, mut piece) = (Vec::new(), [0; 64]);
    while !text.windows(6).any(|end| end == b"[DONE]") {
        let read = stream.read(&mut piece).unwrap();
        text.extend_from_slice(&piece[..read]);
        if read == 0 || text.starts_with(b"HTTP/1.1 429") {
            counts.refused.fetch_add(1, Ordering::Relaxed);
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(text.contains(&format!("\\\"{value}\\\"")), "{value}: {text}");
    counts.answered.fetch_add(1, Ordering::Relaxed);
}

/// Lets clients ask for as long as there is more to ask.
fn hold(served: &Served, clients: usize, more: &(impl Fn(usize) -> bool + Sync)) -> Counts {
    let counts = Counts::default();
    std::thread::scope(|scope| {
        for number in 0..clients {
            let counts = &counts;
            scope.spawn(move || client(served, number, more, counts));
        }
    });
    wait_for("an idle server", || {
        gauge(served, "toolgate_turns_running") + gauge(served, "toolgate_requests_waiting") == 0
    });
    counts
}

#[test]
fn no_answer_is_lost_or_another_s_however_many_ask() {
    let conversations = (1..4).map(|_| model());
    let dialogue = Dialogue::derived(Template::new(TEMPLATE, TemplateTokens::default()).unwrap());
    let options = engine::Options::guided();
    let engine = LocalEngine::with_conversations("scripted", model(), conversations, dialogue, options);
    let served = start(engine, None, serve::Options::default().at_once(4).waiting(4));
    let counts = hold(&served, 24, &|n| n < 12);
    // Slow readers may be refused, others come again.
    assert!(counts.answered.load(Ordering::Relaxed) >= 18 * 12, "{:?}", counts.answered);
    assert_eq!(counts.left.load(Ordering::Relaxed), 3 * 12);
    assert!(counts.refused.load(Ordering::Relaxed) > 0, "control: the queue was full");
}

/// Bytes of memory that this process has in RAM.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0 kB");
    line.trim().trim_end_matches("kB").trim().parse::<usize>().unwrap() * 1024
}

/// Sixty-four clients for a minute, on a real model.
#[test]
fn a_minute_of_many_clients_leaves_memory_as_it_was() {
    if !crate::skip::slow("a minute of load") {
        return;
    }
    let four = |options: &mut engine::Options| {
        (options.at_once, options.context) = (NonZeroUsize::new(4).unwrap(), Some(2048));
    };
    let Some(engine) = load("smollm2-135m", four) else { return };
    let options = serve::Options::default().at_once(4).waiting(32).aliases(vec!["scripted".into()]);
    let served = start(engine, None, options);
    let minute = |seconds| {
        let begin = Instant::now();
        hold(&served, 64, &|_| begin.elapsed() < Duration::from_secs(seconds))
    };
    minute(20);
    let before = resident();
    let counts = minute(60);
    let (answered, refused) =
        (counts.answered.load(Ordering::Relaxed), counts.refused.load(Ordering::Relaxed));
    let grown = resident().saturating_sub(before) >> 20;
    eprintln!(
        "{answered} calls in a minute, {refused} refused, {} left; {grown} MiB more than {}",
        counts.left.load(Ordering::Relaxed),
        before >> 20
    );
    assert!(answered > 0 && grown < 64, "memory grew by {grown} MiB");
}
