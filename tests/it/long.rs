//! Long prompts, as agents send them, with the program and a small model.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::models::weights;

fn toolgate(home: &Path) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("toolgate"));
    command.env("TOOLGATE_CACHE", home.join("cache")).env("TOOLGATE_STATE", home.join("state"));
    command.env_remove("TOOLGATE_MODEL").env_remove("TOOLGATE_API_KEY").env("NO_COLOR", "1");
    command.env("OMP_WAIT_POLICY", "PASSIVE");
    command
}

/// A server that runs as a process of its own; killed at the end, as by a power cut.
struct Serving {
    child: Child,
    base: String,
    /// What it said of its contexts.
    said: String,
    /// Held open: it may say more.
    _stderr: BufReader<ChildStderr>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Serving {
    /// Starts it and reads what it says, up to the line on its contexts.
    fn start(home: &Path, model: &Path, context: &str) -> Self {
        let mut child = toolgate(home)
            .args(["serve", "--port", "0", "--context", context, "--model"])
            .arg(model)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let (mut base, mut said) = (String::new(), String::new());
        while !said.contains("context: ") {
            said.clear();
            assert!(stderr.read_line(&mut said).unwrap() > 0, "it ended");
            if let Some((_, address)) = said.split_once(" at http://") {
                base = format!("http://{}", address.split('/').next().unwrap());
            }
        }
        Self { child, base, said, _stderr: stderr }
    }
}

#[test]
fn a_run_names_the_context_that_takes_its_prompt() {
    let Some(model) = weights("smollm2-135m") else { return };
    let home = tempfile::tempdir().unwrap();
    let prompt = "lantern ".repeat(2_000);
    let arguments = ["run", "--no-cache", "--context", "512", "--model", model.to_str().unwrap(), &prompt];
    let output = toolgate(home.path()).args(arguments).current_dir(home.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains(" tokens > 256 maximum (a context of 512 tokens"), "{said}");
    // 30 layers, 3 heads of 64 keys and 64 values, two bytes each, for each of two sequences.
    let (_, option) = said.split_once("--context ").unwrap();
    let tokens: usize = option.split_once(' ').unwrap().0.parse().unwrap();
    let mib = (tokens * 2 * 30 * 3 * 128 * 2).div_ceil(1 << 20);
    assert!(option.contains(&format!("(keys and values then take {mib} MiB)")), "{said}");
}

#[test]
fn a_server_says_at_its_start_what_its_conversations_hold() {
    let Some(model) = weights("smollm2-135m") else { return };
    let home = tempfile::tempdir().unwrap();
    let said = |context| Serving::start(home.path(), &model, context).said.clone();
    let line = said("2048");
    assert!(line.contains("context: 2048 tokens a slot, 1 slot, 90 MiB of keys and values"), "{line}");
    assert!(line.contains("do not fit: the model was trained for 8192"), "{line}");
    let line = said("0");
    assert!(line.contains("context: 8192 tokens a slot"), "as many as it was trained for: {line}");
}

/// A request with a system prompt that takes a small model some seconds.
fn agent() -> Value {
    let rules: String =
        (0..60).map(|n| format!("Rule {n}: the answer to question {n} is {}. ", n * 7)).collect();
    let messages = json!([{"role": "system", "content": rules}, {"role": "user", "content": "What is the answer to question 3?"}]);
    json!({"model": "smollm2-135m", "messages": messages, "max_tokens": 4})
}

fn metric(served: &Serving, name: &str) -> usize {
    let text =
        ureq::get(format!("{}/metrics", served.base)).call().unwrap().body_mut().read_to_string().unwrap();
    text.lines().find_map(|line| line.strip_prefix(&format!("{name} "))?.parse::<f64>().ok()).unwrap()
        as usize
}

/// Of the tokens of the prompt, those that were in the cache.
fn answered(served: &Serving) -> (usize, usize) {
    let answer = ureq::post(format!("{}/v1/chat/completions", served.base))
        .header("content-type", "application/json")
        .send(agent().to_string());
    let answer: Value = serde_json::from_str(&answer.unwrap().body_mut().read_to_string().unwrap()).unwrap();
    let usage = &answer["usage"];
    let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{answer}")) as usize;
    (number(&usage["prompt_tokens"]), number(&usage["prompt_tokens_details"]["cached_tokens"]))
}

/// A client gives up, and then the power does: the next start goes on from where that client left.
#[test]
fn a_server_that_was_killed_goes_on_from_what_a_client_that_gave_up_had_evaluated() {
    let Some(model) = weights("smollm2-135m") else { return };
    let home = tempfile::tempdir().unwrap();
    let served = Serving::start(home.path(), &model, "8192");
    let body = agent().to_string();
    let mut client = TcpStream::connect(served.base.strip_prefix("http://").unwrap()).unwrap();
    write!(
        client,
        "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let wait = |what: &str, is_so: &dyn Fn() -> bool| {
        let began = Instant::now();
        // Asked again and again: a server tells nobody of its metrics.
        while !is_so() {
            assert!(began.elapsed() < Duration::from_secs(120), "{what} did not happen");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    wait("the prompt", &|| metric(&served, "toolgate_prefill_done_tokens") >= 256);
    drop(client);
    wait("the end of the turn", &|| metric(&served, "toolgate_turns_running") == 0);
    let evaluated = metric(&served, "toolgate_prefill_evaluated_tokens_total");
    drop(served);
    let second = Serving::start(home.path(), &model, "8192");
    let (prompt, cached) = answered(&second);
    assert!(cached >= evaluated && evaluated >= 256, "{cached} of {prompt}, {evaluated} before");
    assert!(cached < prompt - 256, "control: it was not all there: {cached} of {prompt}");
    drop(second);
    // By now the whole beginning is there: what is left is what the user says.
    let (prompt, cached) = answered(&Serving::start(home.path(), &model, "8192"));
    assert!(cached + 64 > prompt, "{cached} of {prompt}");
}

#[test]
fn the_speed_of_prompts_is_measured_by_their_depth() {
    let Some(model) = weights("smollm2-135m") else { return };
    let home = tempfile::tempdir().unwrap();
    let arguments = ["bench", "prefill", "--depths", "300,0", "--tokens", "64", "--json", "--model"];
    let output = toolgate(home.path()).args(arguments).arg(model).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let measured: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&measured["numerics"], &measured["batch"]), (&json!("exact"), &json!(256)), "{measured}");
    let rows = measured["rows"].as_array().unwrap();
    let depths: Vec<_> = rows.iter().map(|row| row["depth"].as_u64().unwrap()).collect();
    assert_eq!(depths, [0, 300], "{measured}");
    assert!(rows.iter().all(|row| row["tokens"] == 64 && row["tokens_per_second"].as_f64().unwrap() > 1.0));
}
