//! Long prompts at the server: what is told while they are evaluated, what is refused before, and what is kept when a client leaves.

use std::io::{BufRead, BufReader};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use toolgate_infer::{Backend, Error, Footprint, Rows, Specials, TokenId};

use super::faults::{gauge, open_at, wait_for};
use super::*;

/// The scripted model at the pace of a slow machine, which counts the tokens that it evaluates.
struct Paced {
    model: Scripted,
    pause: Duration,
    evaluated: Arc<AtomicUsize>,
}

impl Backend for Paced {
    fn vocabulary(&self) -> &Arc<Vocabulary> {
        self.model.vocabulary()
    }
    fn tokenize(&self, text: &str, specials: Specials) -> Result<Vec<TokenId>, Error> {
        self.model.tokenize(text, specials)
    }
    fn context_len(&self) -> usize {
        self.model.context_len()
    }
    fn footprint(&self) -> Footprint {
        self.model.footprint()
    }
    fn batch_len(&self) -> usize {
        self.model.batch_len()
    }
    fn evaluated(&self) -> usize {
        self.model.evaluated()
    }
    fn truncate(&mut self, len: usize) -> Result<usize, Error> {
        self.model.truncate(len)
    }
    fn eval(&mut self, tokens: &[TokenId], rows: Rows) -> Result<(), Error> {
        if tokens.len() > 16 {
            std::thread::sleep(self.pause);
        }
        self.evaluated.fetch_add(tokens.len(), Ordering::SeqCst);
        self.model.eval(tokens, rows)
    }
    fn logits(&self, row: usize) -> Result<&[f32], Error> {
        self.model.logits(row)
    }
    fn begin_turn(&mut self, at: usize) {
        self.model.begin_turn(at);
    }
}

/// Tokens of a batch: one for each letter.
const BATCH: usize = 250;
/// Letters of a long system prompt.
const LONG: usize = 12_000;

/// A server whose model takes so long for a batch, and the tokens that it has evaluated.
fn paced(pause: u64, options: serve::Options) -> (Served, Arc<AtomicUsize>) {
    let evaluated = Arc::<AtomicUsize>::default();
    let model = model().context(32_768).batch(BATCH);
    let model = Paced { model, pause: Duration::from_millis(pause), evaluated: evaluated.clone() };
    let dialogue = Dialogue::derived(Template::new(TEMPLATE, TemplateTokens::default()).unwrap());
    let engine = LocalEngine::new("scripted", model, dialogue, engine::Options::guided());
    (start(engine, None, options), evaluated)
}

/// A request with a system prompt as long as an agent's.
fn agent(path: &str, letter: &str, more: Value) -> Value {
    let system = letter.repeat(LONG);
    let base = match path {
        RESPONSES => json!({"model": "scripted", "instructions": system, "input": "Hello"}),
        MESSAGES => message("Hello", json!({"system": system})),
        _ => {
            let messages =
                [json!({"role": "system", "content": system}), json!({"role": "user", "content": "Hello"})];
            json!({"model": "scripted", "messages": messages})
        }
    };
    merged(base, more)
}

/// How far a stream's comments say that the prompt had come.
fn told(stream: &str) -> Vec<(usize, usize)> {
    let comments = stream.lines().filter_map(|line| line.strip_prefix(": prefill "));
    let numbers = comments.map(|comment| comment.split_once('/').unwrap());
    numbers.map(|(done, total)| (done.parse().unwrap(), total.parse().unwrap())).collect()
}

#[test]
fn a_stream_tells_how_far_its_prompt_has_come_in_comments() {
    let options = serve::Options::default().progress_time(Duration::from_millis(20));
    let (served, _) = paced(10, options);
    for (path, letter, sign, text, end) in [
        (CHAT, "a", None, "\"content\":\"H", "data: [DONE]"),
        (MESSAGES, "b", Some("event: ping\n"), "text_delta", "message_stop"),
        (RESPONSES, "c", Some("event: keepalive\n"), "output_text.delta", "response.completed"),
    ] {
        let body = agent(path, letter, json!({"stream": true})).to_string();
        let (status, _, stream) = send(&served, path, &body, &[]);
        assert_eq!(status, 200, "{stream}");
        let told = told(&stream);
        assert!(told.len() >= 3, "{path}: {told:?}");
        assert!(
            told.is_sorted() && told.iter().all(|&(done, total)| done < total && total > LONG),
            "{told:?}"
        );
        let first = stream.find(": prefill").unwrap();
        assert!(stream.find(text).unwrap_or_default() > first && stream.contains(end), "{stream}");
        if let Some(sign) = sign {
            assert!(stream.matches(sign).count() >= told.len(), "{path}: clients that count events see them");
        }
        let (_, _, again) = send(&served, path, &body, &[]);
        assert!(!again.contains(": prefill"), "control: what is in the cache needs no telling");
    }
}

#[test]
fn the_metrics_tell_of_prompts_under_way_and_of_all_that_was_evaluated() {
    let (served, evaluated) = paced(20, serve::Options::default());
    let evaluating = || gauge(&served, "toolgate_prefill_tokens") as usize;
    assert_eq!(evaluating(), 0);
    let client = open_at(&served, CHAT, &agent(CHAT, "a", json!({"stream": true})));
    wait_for("the prompt", || evaluating() > LONG && gauge(&served, "toolgate_prefill_done_tokens") > 1_000);
    drop(client);
    wait_for("the end of the turn", || evaluating() == 0 && gauge(&served, "toolgate_turns_running") == 0);
    // A turn that was given up counts: the tokens that it evaluated are there.
    let counted = gauge(&served, "toolgate_prefill_evaluated_tokens_total") as usize;
    let evaluated = evaluated.load(Ordering::SeqCst);
    assert!(
        counted > 1_000 && counted <= evaluated && evaluated - counted <= BATCH,
        "{counted} of {evaluated}"
    );
    assert!(fetch(&served, "/metrics").1.contains("# TYPE toolgate_prefill_seconds_total counter\n"));
}

#[test]
fn what_a_client_that_gave_up_had_evaluated_is_not_evaluated_again() {
    for stream in [true, false] {
        let (served, evaluated) = paced(20, serve::Options::default());
        let count = || evaluated.load(Ordering::SeqCst);
        let body = agent(MESSAGES, "a", json!({"stream": stream}));
        let client = open_at(&served, MESSAGES, &body);
        wait_for("some batches", || count() >= 4_000);
        drop(client);
        wait_for("the end of the turn", || gauge(&served, "toolgate_turns_running") == 0);
        let before = count();
        assert!(before < LONG, "it was cut off: {before}");
        let (status, answer) = post(&served, MESSAGES, &agent(MESSAGES, "a", json!({})));
        assert_eq!(status, 200, "{answer}");
        let usage = |key: &str| answer["usage"][key].as_u64().unwrap() as usize;
        assert!(usage("cache_read_input_tokens") >= before - BATCH, "{answer}");
        assert!(count() < LONG + 1_000, "{} in all, {before} of them before", count());
    }
}

#[test]
fn an_answer_that_outlives_its_time_is_refused_before_its_work_and_streamed_it_comes() {
    let options = serve::Options::default().turn_time(Duration::from_secs(1));
    // Three seconds for a prompt: each refusal takes a fifth of the estimate away, and three are to come.
    let (served, evaluated) = paced(60, options);
    let count = || evaluated.load(Ordering::SeqCst);
    // Nothing is known of this machine yet: the first turn goes on until its time is over, and what it evaluated stays.
    let (status, late) = post(&served, CHAT, &agent(CHAT, "a", json!({})));
    assert_eq!((status, &late["error"]["code"]), (504, &json!("timeout")), "{late}");
    assert!(late["error"]["message"].as_str().unwrap().contains("is kept"), "{late}");
    let cut = count();
    assert!((1_000..LONG).contains(&cut), "{cut}");
    for path in [CHAT, MESSAGES, RESPONSES] {
        let before = count();
        let (status, refused) = post(&served, path, &agent(path, "b", json!({})));
        assert_eq!(status, 504, "{refused}");
        let message = refused["error"]["message"].as_str().unwrap();
        assert!(
            message.contains("evaluating them takes about") && message.contains("may take 1:"),
            "{message}"
        );
        assert!(message.contains("\"stream\": true") && message.contains("--timeout 60"), "{message}");
        assert_eq!(count(), before, "{path}: nothing was evaluated for it");
    }
    // Streamed, it goes on from where it was cut off: what was refused in between took nothing from it.
    let streamed =
        |letter| send(&served, CHAT, &agent(CHAT, letter, json!({"stream": true})).to_string(), &[]).2;
    let stream = streamed("a");
    assert!(stream.contains("Hello there") && stream.contains("[DONE]"), "{stream}");
    assert!(count() < LONG + 1_000, "{} in all, {cut} of them before", count());
    // What is in the cache is no reason to refuse.
    let (status, answer) = post(&served, CHAT, &agent(CHAT, "a", json!({})));
    assert_eq!(status, 200, "{answer}");
    // The time of a stream begins where its prompt ends.
    let began = std::time::Instant::now();
    let stream = streamed("c");
    assert!(stream.contains("Hello there") && stream.contains("[DONE]"), "{stream}");
    assert!(began.elapsed() > Duration::from_secs(1), "control: a turn may take no longer");
}

/// The stream begins before its prompt is evaluated: its status is there at once.
#[test]
fn a_long_prompt_s_stream_begins_at_once() {
    let (served, evaluated) = paced(20, serve::Options::default());
    let mut client =
        BufReader::new(open_at(&served, MESSAGES, &agent(MESSAGES, "a", json!({"stream": true}))));
    let mut line = String::new();
    client.read_line(&mut line).unwrap();
    assert!(line.starts_with("HTTP/1.1 200"), "{line}");
    assert!(evaluated.load(Ordering::SeqCst) < LONG, "control: it was not evaluated by then");
}
